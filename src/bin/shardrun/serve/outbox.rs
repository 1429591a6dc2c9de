//! What waits to be written to one client, within a bound, and the thread that writes it.
//! It does not know what is written.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The messages for one client.
pub(super) struct Outbox {
    inside: Mutex<Inside>,
    changed: Condvar,
    limit: usize,
}

#[derive(Default)]
struct Inside {
    queue: VecDeque<Vec<u8>>,
    /// Of what is queued or being written.
    bytes: usize,
    /// Nothing more is taken; what is queued is still written.
    finishing: bool,
    /// Nothing is written any more.
    closed: bool,
}

impl Outbox {
    /// It takes messages as long as fewer than `limit` bytes wait.
    pub(super) fn new(limit: usize) -> Self {
        Outbox { inside: Mutex::default(), changed: Condvar::new(), limit }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message. False if too much waits; then nothing is written any more.
    pub(super) fn push(&self, message: Vec<u8>) -> bool {
        let mut inside = self.lock();
        if inside.finishing || inside.closed {
            return true;
        }
        if inside.bytes >= self.limit {
            inside.close();
            self.changed.notify_all();
            return false;
        }
        inside.bytes += message.len();
        inside.queue.push_back(message);
        self.changed.notify_all();
        true
    }

    /// Takes nothing more, and writes what it has.
    pub(super) fn finish(&self) {
        self.lock().finishing = true;
        self.changed.notify_all();
    }

    /// Drops all that is not written.
    pub(super) fn close(&self) {
        self.lock().close();
        self.changed.notify_all();
    }

    /// Whether all was written, or nothing will be any more, before `until`.
    pub(super) fn wait_closed(&self, until: Instant) -> bool {
        let mut inside = self.lock();
        while !inside.closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            inside = self.changed.wait_timeout(inside, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Writes until it is finished or closed, or nobody reads any more.
    pub(super) fn write_to(&self, mut stream: impl Write) {
        while let Some(messages) = self.take() {
            let written = stream.write_all(&messages).and_then(|()| stream.flush());
            let mut inside = self.lock();
            inside.bytes -= messages.len();
            if written.is_err() {
                break;
            }
        }
        self.close();
    }

    /// Waits for messages and takes all that are there; nothing once it has ended.
    fn take(&self) -> Option<Vec<u8>> {
        let mut inside = self.lock();
        loop {
            if inside.closed {
                return None;
            }
            if !inside.queue.is_empty() {
                return Some(inside.queue.drain(..).collect::<Vec<_>>().concat());
            }
            if inside.finishing {
                return None;
            }
            inside = self.changed.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Inside {
    fn close(&mut self) {
        self.closed = true;
        let dropped: usize = self.queue.drain(..).map(|message| message.len()).sum();
        self.bytes -= dropped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_and_what_is_finished_is_written() {
        let outbox = Outbox::new(4);
        assert!(outbox.push(b"abc".to_vec()) && outbox.push(b"de".to_vec()));
        outbox.finish();
        assert!(outbox.push(b"late".to_vec()));
        let mut written = Vec::new();
        outbox.write_to(&mut written);
        assert_eq!(written, b"abcde");
        let outbox = Outbox::new(4);
        assert!(outbox.push(b"abcde".to_vec()) && !outbox.push(b"f".to_vec()));
        let mut written = Vec::new();
        outbox.write_to(&mut written);
        assert!(written.is_empty() && outbox.wait_closed(Instant::now()));
    }
}
