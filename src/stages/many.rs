//! One ticket for many pieces of work of one kind: a popper takes a few of them, one by one, and queues the ticket again before it
//! runs the first, so that idle workers find the others. It does not know what a piece is.
#![forbid(unsafe_code)]

use super::host::Host;
use super::run::After;
use super::shared::Shared;
use super::slot::Kind;
use crate::runtime::Job;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Pieces that one popping runs: what is not begun yet is free for others.
const CHUNK: usize = 4;

/// Work of one kind and one scheduler, numbered from zero.
pub(crate) trait Pieces: Send + Sync + 'static {
    type Host: Host;

    fn shared(&self) -> &Shared<Self::Host>;

    fn kind(&self) -> Kind;

    fn len(&self) -> usize;

    /// Runs one.
    fn run(&self, at: usize, after: After);

    /// Nobody will run those from `first` on, of which there is one at least: the runtime has thrown their ticket away.
    fn end(&self, first: usize);
}

struct Line<P> {
    pieces: P,
    /// The first that nobody has taken.
    next: AtomicUsize,
}

/// The ticket. At most one is out.
struct Ticket<P: Pieces>(Option<Arc<Line<P>>>);

/// Queues one ticket for all of `pieces`, which are of `shared`.
pub(crate) fn push<P: Pieces>(shared: &Shared<P::Host>, pieces: P) {
    queue(shared, Arc::new(Line { pieces, next: AtomicUsize::new(0) }));
}

fn queue<P: Pieces>(shared: &Shared<P::Host>, line: Arc<Line<P>>) {
    let place = shared.place(line.pieces.kind());
    let ticket = Ticket(Some(line));
    drop(shared.spawner.push(place, Job::new(move || ticket.run())));
}

impl<P: Pieces> Line<P> {
    /// Takes `count` off what nobody has taken: the number of the first.
    fn take(&self, count: usize) -> Option<usize> {
        // ordering: each is taken by one; what it does is in its own word, and was published with the ticket.
        let at = self.next.fetch_add(count, Ordering::Relaxed);
        (at < self.pieces.len()).then_some(at)
    }
}

impl<P: Pieces> Ticket<P> {
    fn run(mut self) {
        let Some(line) = self.0.take() else { return };
        for taken in 0..CHUNK {
            let Some(at) = line.take(1) else { return };
            let more = at + 1 < line.pieces.len();
            if taken == 0 && more {
                queue(line.pieces.shared(), line.clone());
            }
            let after = if taken + 1 == CHUNK || !more { After::Return } else { After::Stay };
            line.pieces.run(at, after);
        }
    }
}

impl<P: Pieces> Drop for Ticket<P> {
    fn drop(&mut self) {
        if let Some(line) = self.0.take()
            && let Some(first) = line.take(line.pieces.len())
        {
            line.pieces.end(first);
        }
    }
}
