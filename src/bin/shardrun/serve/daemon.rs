//! What all clients of a daemon share: the runtime, the lanes with their roots, the limits, and the end.
//! It does not know how a client is heard, nor what is asked.
#![forbid(unsafe_code)]

use super::args::ServeArgs;
use super::client::Client;
use super::root::Root;
use super::rpc::{Failure, NO_ROOT};
use shardrun::{CoalesceKey, LaneHandle, LaneKind, Lanes, LanesConfig, Runtime, WorkerKind};
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Reads go before an edit for so long at most: whoever types waits for it.
const EDIT_WAITS: Duration = Duration::from_millis(50);

/// A root by its path.
pub(super) type Key = Arc<Path>;

/// How the daemon's clients fare.
pub(super) struct Figures {
    pub(super) clients: usize,
    /// Turned away because there were too many.
    pub(super) refused: u64,
    /// Dropped because they did not read.
    pub(super) dropped: u64,
}

/// A daemon.
pub(super) struct Daemon {
    pub(super) runtime: Runtime,
    pub(super) lanes: Lanes<Key, Root>,
    pub(super) args: ServeArgs,
    pub(super) began: Instant,
    pub(super) this: Weak<Daemon>,
    clients: Mutex<HashMap<u64, Arc<Client>>>,
    /// Roots are registered one by one, so that there are never too many.
    opening: Mutex<()>,
    ending: AtomicBool,
    /// A byte for whoever waits for the end.
    wake: UnixStream,
    numbers: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Daemon {
    /// A daemon without clients, and where it can be heard that it is to end.
    ///
    /// # Errors
    /// In words, if the system does not give what it needs.
    pub(super) fn new(args: ServeArgs) -> Result<(Arc<Self>, UnixStream), String> {
        let mut builder = Runtime::builder().io_threads(0).on_start(|worker| {
            let io = usize::from(worker.kind == WorkerKind::Io) << 16;
            crate::index::host::name_thread((worker.index | io) as u32);
        });
        if let Some(threads) = args.threads {
            builder = builder.workers(threads.get());
        }
        let runtime = builder.build().map_err(|error| error.to_string())?;
        // As many jobs as workers run at once; a root with a writer and a build leaves room for others.
        let mut config = LanesConfig::wide((2 * runtime.workers()).clamp(4, 1_000));
        config.promote_after = EDIT_WAITS;
        let lanes = Lanes::new(&runtime, config).map_err(|error| error.to_string())?;
        let (wake, woken) = UnixStream::pair().map_err(|error| error.to_string())?;
        wake.set_nonblocking(true).map_err(|error| error.to_string())?;
        let daemon = Arc::new_cyclic(|this| Daemon {
            runtime,
            lanes,
            args,
            began: Instant::now(),
            this: this.clone(),
            clients: Mutex::default(),
            opening: Mutex::default(),
            ending: AtomicBool::new(false),
            wake,
            numbers: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        Ok((daemon, woken))
    }

    /// A number that was not given before.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    pub(super) fn figures(&self) -> Figures {
        Figures {
            clients: lock(&self.clients).len(),
            refused: self.refused.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }

    /// Lets a client in, unless there are too many.
    pub(super) fn enter(&self, client: &Arc<Client>) -> bool {
        let mut clients = lock(&self.clients);
        let room = clients.len() < self.args.max_clients as usize;
        if room {
            clients.insert(client.number, client.clone());
        } else {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        room
    }

    pub(super) fn leave(&self, client: &Client) {
        lock(&self.clients).remove(&client.number);
    }

    pub(super) fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// The key of a root by any of its paths: itself if a root is open by it, else as the system spells it.
    pub(super) fn key(&self, root: &Path) -> Key {
        let given = Key::from(root);
        if self.lanes.is_registered(&given) {
            return given;
        }
        root.canonicalize().map_or(given, Key::from)
    }

    /// Makes sure that a root can be built: registers it, or puts a fresh one in the place of a broken one.
    ///
    /// # Errors
    /// There is no such directory, or there are too many roots.
    pub(super) fn register(&self, root: &Path) -> Result<Key, Failure> {
        let key = root.canonicalize().and_then(|root| {
            let directory = root.metadata()?.is_dir();
            if directory { Ok(Key::from(root)) } else { Err(std::io::ErrorKind::NotADirectory.into()) }
        });
        let key = key.map_err(|error| {
            let message = format!("{}: {error}", root.display());
            Failure::new(super::rpc::UNREADABLE, "root_unreadable", message)
        })?;
        let _one = lock(&self.opening);
        if self.lanes.is_fatal(&key) {
            self.lanes.reset(key.clone(), self.root(&key));
        } else if !self.lanes.is_registered(&key) {
            let (roots, cap) = (self.lanes.actor_count() as u64, u64::from(self.args.max_roots));
            if roots >= cap {
                return Err(Failure::busy("too_many_roots", "daemon", roots, cap));
            }
            self.lanes.register(key.clone(), self.root(&key));
        }
        if self.lanes.is_registered(&key) {
            Ok(key)
        } else if self.is_ending() {
            Err(Failure::ending())
        } else {
            Err(Failure::new(NO_ROOT, "actor_not_registered", "the root was closed"))
        }
    }

    fn root(&self, key: &Key) -> Root {
        let (daemon, path) = (self.this.clone(), key.clone());
        let tell = move || {
            if let Some(daemon) = daemon.upgrade() {
                daemon.drain_soon(&path);
            }
        };
        Root::new(&self.runtime, self.args.index(key), tell)
    }

    /// Something has changed on disk. A pass of the daemon's own takes it in, which no client can cancel: one that is queued, or a
    /// new one, if need be once there is room for it.
    pub(super) fn drain_soon(&self, key: &Key) {
        let Some(actor) = self.lanes.actor(key) else { return };
        let drain = self.lanes.job(LaneKind::MaintenanceCommit, |cx| {
            // Before the first build there is nothing to bring up to date; after it all is looked at once more.
            drop(cx.context().drain(false, || cx.seal()));
        });
        let drain = drain.coalesced(CoalesceKey::WATCHER_DRAIN).named(self.number(), "drain");
        match actor.try_submit(drain) {
            Ok(handle) => handle.detach(),
            Err(refused) if refused.error.is_retryable() => {
                let later = actor.submit_async(refused.job);
                let queued = async move { later.await.map(LaneHandle::detach).unwrap_or_default() };
                self.runtime.spawn_future(queued).detach();
            }
            // An equal one is queued, or the root is closed.
            Err(_) => {}
        }
    }

    /// Asks the daemon to end.
    pub(super) fn ask_to_end(&self) {
        // It can fail only if bytes enough are there already.
        let _ = (&self.wake).write(&[0]);
    }

    /// Refuses all that is asked from now on, answers or refuses all that was, and gives the clients the time to read it.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
        let clients: Vec<Arc<Client>> = lock(&self.clients).values().cloned().collect();
        for client in &clients {
            client.refuse_waiting();
        }
        let until = Instant::now() + Duration::from_secs(self.args.grace);
        // What the system does not let go of, a walk of a file system that does not answer, must not keep the daemon.
        let lanes = self.lanes.clone();
        if std::thread::Builder::new().spawn(move || lanes.shutdown()).is_err() {
            self.lanes.shutdown();
        }
        for client in &clients {
            client.finish(until);
        }
        for client in &clients {
            client.wait_written(until);
        }
    }
}
