//! One ticket for many pieces of work of one kind: a popper takes a few of them, one by one, and queues the ticket again before it
//! runs the first, so that idle workers find the others. It does not know what a piece is, nor where the ticket is queued.
#![forbid(unsafe_code)]

use super::run::After;
use crate::runtime::Job;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, mutant};

/// Pieces that one popping runs: what is not begun yet is free for others.
const CHUNK: usize = if cfg!(any(shardrun_loom, shardrun_shuttle)) { 2 } else { 4 };

/// Work of one kind, numbered from zero.
pub(crate) trait Pieces: Send + Sync + 'static {
    /// Queues their ticket. A queue that refuses it drops it.
    fn queue(&self, ticket: Job);

    fn len(&self) -> usize;

    /// Runs one.
    fn run(&self, at: usize, after: After);

    /// Nobody will run those from `first` on, of which there is one at least: the runtime has thrown their ticket away.
    fn end(&self, first: usize);
}

/// Pieces, and how far they have been taken.
pub(crate) struct Many<P> {
    pieces: P,
    /// The first that nobody has taken.
    next: AtomicUsize,
}

/// The ticket. At most one is out.
struct Ticket<P: Pieces>(Option<Arc<Many<P>>>);

/// Queues one ticket for all of `pieces`.
pub(crate) fn push<P: Pieces>(pieces: P) {
    Many::of(pieces).queue();
}

impl<P: Pieces> Many<P> {
    pub(crate) fn of(pieces: P) -> Arc<Self> {
        Arc::new(Self { pieces, next: AtomicUsize::new(0) })
    }

    /// Queues the ticket, of which none is out.
    pub(crate) fn queue(self: &Arc<Self>) {
        let ticket = Ticket(Some(self.clone()));
        self.pieces.queue(Job::new(move || ticket.run()));
    }

    pub(crate) fn pieces(&self) -> &P {
        &self.pieces
    }

    /// Takes `count` off what nobody has taken: the number of the first.
    pub(crate) fn take(&self, count: usize) -> Option<usize> {
        let at = if mutant("many.take_by_look") {
            let at = self.next.load(Ordering::Relaxed);
            self.next.store(at + count, Ordering::Relaxed);
            at
        } else {
            // ordering: each is taken by one; what it does is in its own word, and was published with the ticket.
            self.next.fetch_add(count, Ordering::Relaxed)
        };
        (at < self.pieces.len()).then_some(at)
    }
}

impl<P: Pieces> Ticket<P> {
    fn run(mut self) {
        let Some(many) = self.0.take() else { return };
        for taken in 0..CHUNK {
            let Some(at) = many.take(1) else { return };
            let more = at + 1 < many.pieces.len();
            if taken == 0 && more && !mutant("many.queues_once") {
                many.queue();
            }
            let after = if taken + 1 == CHUNK || !more { After::Return } else { After::Stay };
            many.pieces.run(at, after);
        }
    }
}

impl<P: Pieces> Drop for Ticket<P> {
    fn drop(&mut self) {
        if let Some(many) = self.0.take()
            && let Some(first) = many.take(many.pieces.len())
        {
            many.pieces.end(first);
        }
    }
}
