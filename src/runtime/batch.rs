//! Many closures behind one job: whoever pops its ticket queues it again, then takes closure after closure for a while, as others
//! do who pop it meanwhile. It does not know what the closures do, nor in which queue the ticket lies.
//!
//! So a batch costs its queue one place, any number of workers share it, one closure at a time, and what arrives later is not
//! held up behind all of it.

use super::contain;
use super::current;
use super::engine::Engine;
use super::job::Job;
use super::place::Place;
use super::spawner::yields;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::cell::UnsafeCell;
use crate::sync::mutant;
use std::mem::MaybeUninit;

/// Closures that one popping of the ticket runs at most, and fewer if jobs of another priority wait.
const TURN: usize = 16;

/// Closures, each of which is taken once.
pub(crate) struct Shares<F> {
    /// The first that nobody has taken.
    next: AtomicUsize,
    closures: Box<[UnsafeCell<MaybeUninit<F>>]>,
}

// SAFETY: a closure is moved out by the one that took its number; closures are `Send`, and nobody shares one.
unsafe impl<F: Send> Send for Shares<F> {}
// SAFETY: as above.
unsafe impl<F: Send> Sync for Shares<F> {}

impl<F> Shares<F> {
    pub(crate) fn new(closures: impl IntoIterator<Item = F>) -> Self {
        let closures = closures.into_iter().map(|one| UnsafeCell::new(MaybeUninit::new(one))).collect();
        Self { next: AtomicUsize::new(0), closures }
    }

    /// How many nobody has taken; fewer by the time that the caller looks.
    pub(crate) fn left(&self) -> usize {
        self.closures.len().saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// The next that nobody has taken.
    pub(crate) fn take(&self) -> Option<F> {
        if self.left() == 0 {
            return None;
        }
        let at = if mutant("batch.take_by_store") {
            let at = self.next.load(Ordering::Relaxed);
            self.next.swap(at + 1, Ordering::Relaxed);
            at
        } else {
            // ordering: Relaxed; the number alone is agreed on. What lies behind it was published with the ticket.
            self.next.fetch_add(1, Ordering::Relaxed)
        };
        let cell = self.closures.get(at)?;
        // SAFETY: the closure was written before anybody shared it, and `at` is given out once.
        Some(cell.with(|closure| unsafe { (*closure).assume_init_read() }))
    }
}

impl<F> Drop for Shares<F> {
    fn drop(&mut self) {
        while let Some(closure) = self.take() {
            contain::dropping(closure);
        }
    }
}

/// A batch in a runtime.
struct Batch<F> {
    shares: Shares<F>,
    engine: Arc<Engine>,
    place: Place,
    /// Tickets that were thrown away, each counted as a dropped job by who did so.
    lost: AtomicU64,
}

/// What lies in the queue. At most one is out, beside those whose holders are about to run it.
struct Ticket<F: FnOnce() + Send + 'static>(Option<Arc<Batch<F>>>);

/// Queues `closures` at a place as one job.
pub(crate) fn submit<F: FnOnce() + Send + 'static>(engine: &Arc<Engine>, place: Place, closures: Vec<F>) {
    let (engine, lost) = (engine.clone(), AtomicU64::new(0));
    queue(Arc::new(Batch { shares: Shares::new(closures), engine, place, lost }));
}

fn queue<F: FnOnce() + Send + 'static>(batch: Arc<Batch<F>>) {
    let (engine, place) = (batch.engine.clone(), batch.place);
    let ticket = Ticket(Some(batch));
    engine.submit(place, Job::new(move || ticket.run()));
}

impl<F: FnOnce() + Send + 'static> Ticket<F> {
    fn run(mut self) {
        let Some(batch) = self.0.take() else { return };
        if batch.shares.left() > 1 {
            queue(batch.clone());
        }
        let (mut ran, mut panics) = (0, 0);
        while ran < TURN {
            let Some(closure) = batch.shares.take() else { break };
            ran += 1;
            if let Err(payload) = contain::call(closure) {
                panics += 1;
                batch.engine.report_panic(None, payload);
            }
            if yields(batch.place) {
                break;
            }
        }
        // The job that this is counts as one that ran.
        current::worker(|worker| worker.inspect(|worker| worker.count((ran as u64).wrapping_sub(1), panics)).is_some());
    }
}

impl<F: FnOnce() + Send + 'static> Drop for Ticket<F> {
    fn drop(&mut self) {
        if let Some(batch) = self.0.take() {
            batch.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<F> Drop for Batch<F> {
    /// Closures that nobody took are dropped with it; the tickets among the dropped jobs were no closures.
    fn drop(&mut self) {
        let unrun = self.shares.left() as u64;
        self.engine.count_dropped(unrun.wrapping_sub(self.lost.load(Ordering::Relaxed)));
    }
}
