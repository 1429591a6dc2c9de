//! One client: a thread that reads its requests and one that writes its answers, so that nobody waits for it but itself.
//! It does not know what is asked, nor what of.
#![forbid(unsafe_code)]

use super::call::{Asked, Call, Plain};
use super::daemon::{Daemon, Key};
use super::frame::{Frame, Frames, framed};
use super::line::Open;
use super::methods;
use super::outbox::Outbox;
use super::rpc::{self, Failure, Id, Message, Outcome, Params};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde_json::Value;
use shardrun::{LaneHandle, LaneTicket};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Enough for JSON as deep as is taken.
const STACK_BYTES: usize = 512 << 10;
/// A stream that has no hang-up to be waited for is looked at this often after its end.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Whether it was cancelled, and not by who has this ticket: the one that it had joined was.
fn is_of_another(outcome: &Outcome, ticket: Option<&LaneTicket>) -> bool {
    let cancelled = outcome.as_ref().is_err_and(|failure| failure.code == rpc::CANCELLED);
    cancelled && ticket.is_some_and(|ticket| !ticket.is_cancelled())
}

/// A client that is connected.
pub(super) struct Client {
    pub(super) number: u64,
    daemon: Arc<Daemon>,
    outbox: Outbox,
    open: Mutex<Open>,
    settled: Condvar,
    /// Nothing for a client on standard input and output.
    socket: Option<UnixStream>,
}

impl Client {
    fn new(daemon: &Arc<Daemon>, socket: Option<UnixStream>) -> Arc<Self> {
        Arc::new(Client {
            number: daemon.number(),
            daemon: daemon.clone(),
            outbox: Outbox::new((daemon.args.max_unread << 10) as usize),
            open: Mutex::default(),
            settled: Condvar::new(),
            socket,
        })
    }

    /// Serves whoever is at the other end of a socket. One too many is told so.
    ///
    /// # Errors
    /// The system gives no thread; the connection ends.
    pub(super) fn connect(daemon: &Arc<Daemon>, socket: UnixStream) -> io::Result<()> {
        socket.set_nonblocking(false)?;
        let (reads, mut writes) = (socket.try_clone()?, socket.try_clone()?);
        let client = Self::new(daemon, Some(socket));
        if !daemon.enter(&client) {
            writes.set_nonblocking(true)?;
            let cap = u64::from(daemon.args.max_clients);
            let failure = Failure::busy("too_many_clients", "daemon", cap, cap);
            return writes.write_all(&framed(&rpc::refusal(None, failure)));
        }
        client.clone().start(reads, writes).inspect_err(|_| daemon.leave(&client))
    }

    /// Serves standard input and output.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn on_stdio(daemon: &Arc<Daemon>) -> io::Result<()> {
        let client = Self::new(daemon, None);
        daemon.enter(&client);
        client.start(io::stdin(), io::stdout())
    }

    fn start(
        self: Arc<Self>,
        reads: impl Read + Send + 'static,
        writes: impl Write + Send + 'static,
    ) -> io::Result<()> {
        let builder = |name: &str| thread::Builder::new().name(name.into()).stack_size(STACK_BYTES);
        let writer = self.clone();
        builder("answers").spawn(move || {
            writer.outbox.write_to(writes);
            writer.hang_up();
        })?;
        let reader = self.clone();
        let begun = builder("requests").spawn(move || {
            reader.read(reads);
            reader.daemon.leave(&reader);
            if reader.socket.is_none() {
                reader.daemon.ask_to_end();
            }
        });
        if begun.is_err() {
            self.outbox.close();
        }
        begun.map(drop)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the threads of a client that is not to be heard any more.
    fn hang_up(&self) {
        match &self.socket {
            Some(socket) => drop(socket.shutdown(Shutdown::Both)),
            None => self.daemon.ask_to_end(),
        }
    }

    /// Hears requests until the stream ends; then what is open is still answered, as long as somebody may read it.
    fn read(self: &Arc<Self>, reads: impl Read) {
        let limit = self.daemon.args.max_request << 10;
        let mut frames = Frames::new(reads, limit);
        loop {
            match frames.next() {
                Ok(Some(Frame::Message(bytes))) => {
                    if !self.hear(&bytes) {
                        break;
                    }
                }
                Ok(Some(Frame::TooLarge(size))) => self.refuse(None, Failure::too_large(size, limit)),
                Ok(Some(Frame::Malformed(why))) => self.refuse(None, Failure::framing(why)),
                Ok(None) | Err(_) => break,
            }
        }
        let mut open = self.lock();
        open.ended = true;
        self.finish_if_settled(&open);
        drop(open);
        self.wait_hang_up();
        self.gone();
    }

    fn wait_hang_up(&self) {
        let Some(socket) = &self.socket else {
            self.outbox.wait_closed(Instant::now() + FOREVER);
            return;
        };
        // No event is asked for: that the other side has gone, or this one has hung up, is told always.
        while poll(&mut [PollFd::new(socket, PollFlags::empty())], None) == Err(Errno::INTR) {}
    }

    /// Nobody reads the answers any more: what is not begun never is.
    fn gone(&self) {
        let mut open = self.lock();
        open.gone = true;
        open.withdraw_all();
        let tickets = open.tickets(false);
        self.settled.notify_all();
        drop(open);
        self.outbox.close();
        for ticket in tickets {
            ticket.cancel();
        }
    }

    /// Hears one message. False if it is the last.
    fn hear(self: &Arc<Self>, bytes: &[u8]) -> bool {
        match Message::read(bytes) {
            Ok(Message::Request(id, method, params)) => self.request(id, &method, params),
            Ok(Message::Notification(method, params)) => match method.as_str() {
                "$/cancelRequest" => self.cancel(&params),
                "exit" => return false,
                // The protocol has no answer to a notification, known or not.
                _ => {}
            },
            Ok(Message::Answer) => {}
            Err((id, failure)) => self.refuse(id.as_ref(), failure),
        }
        true
    }

    fn request(self: &Arc<Self>, id: Id, method: &str, params: Params) {
        // Only this thread adds requests. The refusal must not look like the answer of the one that is open.
        if self.lock().pending.contains_key(&id) {
            self.refuse(None, Failure::in_use(&id));
            return;
        }
        match Asked::read(method, params) {
            Err(failure) => self.refuse(Some(&id), failure),
            Ok(_) if self.daemon.is_ending() => self.refuse(Some(&id), Failure::ending()),
            Ok(Asked::Plain(plain)) => {
                self.send(rpc::answer(&id, methods::plain(&self.daemon, &plain)));
                if plain == Plain::Shutdown {
                    self.daemon.ask_to_end();
                }
            }
            Ok(Asked::Root(root, call)) => {
                if let Err(failure) = self.enqueue(&id, &root, call) {
                    self.refuse(Some(&id), failure);
                }
            }
        }
    }

    /// A request joins the line of its root.
    fn enqueue(self: &Arc<Self>, id: &Id, root: &Path, call: Call) -> Result<(), Failure> {
        // Only this thread adds requests, so that there still is room once the root is registered.
        let (depth, cap) = (self.lock().pending.len() as u64, u64::from(self.daemon.args.max_pending));
        if depth >= cap {
            return Err(Failure::busy("client_busy", "client", depth, cap));
        }
        let key = if call == Call::Open { self.daemon.register(root)? } else { self.daemon.key(root) };
        let mut open = self.lock();
        // The daemon's end looks at each client under this lock, after it is said.
        if self.daemon.is_ending() {
            return Err(Failure::ending());
        }
        open.push(id.clone(), &key, call);
        self.pump(&mut open, &key);
        Ok(())
    }

    /// Submits what has its turn.
    fn pump(self: &Arc<Self>, open: &mut Open, key: &Key) {
        while let Some((id, call, after)) = open.next(key, self.daemon.args.window) {
            let (writes, joins) = (call.writes(), call.joins().then(|| call.clone()));
            let (mut handle, opens) = methods::submit(&self.daemon, key, call, after);
            open.submitted(&id, key, handle.ticket(), writes);
            let opens = opens.zip(handle.ticket().cloned());
            let (client, key) = (self.clone(), key.clone());
            let answering = async move {
                let outcome = loop {
                    let ticket = handle.ticket().cloned();
                    let outcome = handle.await.unwrap_or_else(|error| Err(Failure::of(&error)));
                    let of_another = joins.as_ref().filter(|_| is_of_another(&outcome, ticket.as_ref()));
                    match of_another.and_then(|call| client.submit_again(&id, &key, call.clone())) {
                        Some(again) => handle = again,
                        None => break outcome,
                    }
                };
                if let Some((root, ticket)) = opens {
                    root.opened(&ticket);
                }
                client.answered(&id, &key, outcome);
            };
            self.daemon.runtime.spawn_future(answering).detach();
        }
    }

    /// Submits once more what is open and was cancelled by another client, whose it had joined.
    fn submit_again(&self, id: &Id, key: &Key, call: Call) -> Option<LaneHandle<Outcome>> {
        let mut open = self.lock();
        if open.gone || self.daemon.is_ending() {
            return None;
        }
        let (handle, _) = methods::submit(&self.daemon, key, call, None);
        open.submitted(id, key, handle.ticket(), true);
        Some(handle)
    }

    fn answered(self: &Arc<Self>, id: &Id, key: &Key, outcome: Outcome) {
        let answer = framed(&rpc::answer(id, outcome));
        let mut open = self.lock();
        self.push(answer);
        open.answered(id, key);
        self.pump(&mut open, key);
        self.finish_if_settled(&open);
    }

    fn finish_if_settled(&self, open: &Open) {
        if open.pending.is_empty() {
            self.settled.notify_all();
            if open.ended {
                self.outbox.finish();
            }
        }
    }

    fn cancel(&self, params: &Params) {
        let id = match params.get("id") {
            Some(Value::String(text)) => Id::Text(text.clone()),
            Some(Value::Number(number)) if number.is_i64() => Id::Number(number.as_i64().unwrap_or_default()),
            _ => return,
        };
        let mut open = self.lock();
        match open.withdraw(&id) {
            // Whether it came in time is for its answer to say.
            Some(Some(ticket)) => {
                drop(open);
                ticket.cancel();
            }
            Some(None) => {
                self.send(rpc::answer(&id, Err(Failure::cancelled())));
                self.finish_if_settled(&open);
            }
            None => {}
        }
    }

    fn refuse(&self, id: Option<&Id>, failure: Failure) {
        self.send(rpc::refusal(id, failure));
    }

    fn send(&self, message: String) {
        self.push(framed(&message));
    }

    /// Queues a message. Who lets too many wait is dropped.
    fn push(&self, message: Vec<u8>) {
        if !self.outbox.push(message) {
            self.daemon.count_dropped();
            self.hang_up();
        }
    }

    /// The daemon ends: what waits in lines is refused, and what may run long is cancelled.
    pub(super) fn refuse_waiting(&self) {
        let mut open = self.lock();
        for id in open.withdraw_all() {
            self.send(rpc::answer(&id, Err(Failure::ending())));
        }
        let long = open.tickets(true);
        drop(open);
        for ticket in long {
            ticket.cancel();
        }
    }

    /// Waits until all is answered, and lets nothing follow.
    pub(super) fn finish(&self, until: Instant) {
        let mut open = self.lock();
        while !open.pending.is_empty() && !open.gone {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            open = self.settled.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        // What could not be ended in time is refused. Should its answer still come, nothing takes it any more.
        for id in open.pending.keys() {
            self.refuse(Some(id), Failure::ending());
        }
        self.outbox.finish();
    }

    /// Waits until the answers are written.
    pub(super) fn wait_written(&self, until: Instant) {
        self.outbox.wait_closed(until);
    }
}
