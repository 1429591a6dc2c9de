//! Counters that every worker keeps for itself, and the snapshot that adds them up.
//! It does not know what the counted things are, nor when they happen.
//!
//! A worker's counters have one writer, so they are written by a load and a store, never by a read-modify-write. Readers see
//! each number rise and no two numbers at the same moment.
#![forbid(unsafe_code)]

use super::event::WorkerId;
use crate::sync::CachePadded;
use crate::sync::stat::{AtomicU64, Ordering};
use std::time::Duration;

/// One number with one writer.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    /// Adds `by`. Only the owner of the number may call this.
    #[inline(always)]
    pub(crate) fn add(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    /// Adds `by` where several threads may write: a rare path.
    #[inline]
    pub(crate) fn add_shared(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// The number now.
    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the number, for tests of wrap-around.
    #[cfg(test)]
    pub(crate) fn set(&self, to: u64) {
        self.0.store(to, Ordering::Relaxed);
    }
}

/// What one worker counts.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    /// Jobs that it ran, also those that panicked.
    pub(crate) executed: Tally,
    /// Panics that it caught.
    pub(crate) panics: Tally,
    /// Times that it took jobs from another worker.
    pub(crate) steals: Tally,
    /// Times that it went to sleep.
    pub(crate) parks: Tally,
    /// Sleepers that it woke.
    pub(crate) wakes: Tally,
    /// Times that it spun before it slept.
    pub(crate) spins: Tally,
    /// Nanoseconds between the end of a search and the beginning of the next one.
    pub(crate) busy_nanos: Tally,
    /// Jobs that it dropped unrun, at shutdown.
    pub(crate) dropped: Tally,
    /// Jobs that it took from shared queues, by priority.
    pub(crate) fetched: [Tally; 4],
    /// Jobs that it has brought along from shared queues and other workers, by priority.
    pub(crate) brought: [Tally; 4],
}

/// The counters of one worker, alone on their cache lines.
pub(crate) type WorkerCounters = CachePadded<Tallies>;

/// What one worker has done, as part of [`Counters`].
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct WorkerReport {
    /// Which thread it is.
    pub worker: WorkerId,
    /// Whether it is a spare, which runs only while another worker blocks.
    pub spare: bool,
    /// The CPU that it is pinned to, if it is.
    pub pinned: Option<usize>,
    /// Jobs that it ran, also those that panicked.
    pub executed: u64,
    /// Panics of the host that it caught.
    pub panics: u64,
    /// Times that it took jobs from another worker.
    pub steals: u64,
    /// Times that it went to sleep.
    pub parks: u64,
    /// Sleepers that it woke.
    pub wakes: u64,
    /// Times that it spun before it slept.
    pub spins: u64,
    /// Time between finding a first job and running out of jobs, summed up; a period that lasts is added when it ends.
    pub busy: Duration,
    /// Jobs that it dropped unrun, at shutdown.
    pub dropped: u64,
    /// How long the oldest job that waits in its own queues has waited, by priority: see [`Counters::oldest_waiting`].
    pub oldest_waiting: [Option<Duration>; 4],
}

impl WorkerReport {
    pub(crate) fn new(worker: WorkerId, spare: bool, pinned: Option<usize>, from: &Tallies) -> Self {
        Self {
            worker,
            spare,
            pinned,
            executed: from.executed.get(),
            panics: from.panics.get(),
            steals: from.steals.get(),
            parks: from.parks.get(),
            wakes: from.wakes.get(),
            spins: from.spins.get(),
            busy: Duration::from_nanos(from.busy_nanos.get()),
            dropped: from.dropped.get(),
            oldest_waiting: [None; 4],
        }
    }
}

/// A snapshot of what a runtime has counted.
///
/// Each number is exact for the past; together they are no single moment, since nobody is stopped for the snapshot.
#[non_exhaustive]
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// One entry per thread that was started.
    pub workers: Vec<WorkerReport>,
    /// Jobs that wait, by priority from most to least urgent; a hint while others push and pop.
    pub queued: [usize; 4],
    /// How long the oldest job that waits has waited, by priority from most to least urgent; `None` where none waits.
    ///
    /// An age counts from the first snapshot that found the job waiting, on the runtime's clock: no job's time is taken when it is
    /// pushed. So the first snapshot tells zero, and who takes one every second is told no age too old, and none too young by
    /// more than a second or an eighth, whichever is more. The continuation that a worker runs next counts as waiting in `queued`, and has
    /// no age. In a forked child there are no ages.
    pub oldest_waiting: [Option<Duration>; 4],
    /// Sleepers woken by threads that are no workers.
    pub outside_wakes: u64,
    /// Jobs run by threads that drive a runtime without workers.
    pub driven: u64,
    /// Panics of the host caught outside the workers: hooks, clocks, observers, destructors at shutdown.
    pub outside_panics: u64,
    /// Jobs dropped unrun by a shutdown, the workers' share included.
    pub dropped: u64,
    /// Times that a blocking worker got no spare.
    pub spares_missing: u64,
}

impl Counters {
    /// Jobs that were run, by whomever.
    #[must_use]
    pub fn executed(&self) -> u64 {
        self.driven + self.workers.iter().map(|w| w.executed).sum::<u64>()
    }

    /// Panics of the host that were caught, wherever.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.outside_panics + self.workers.iter().map(|w| w.panics).sum::<u64>()
    }

    /// Sleepers that were woken, by whomever.
    #[must_use]
    pub fn wakes(&self) -> u64 {
        self.outside_wakes + self.workers.iter().map(|w| w.wakes).sum::<u64>()
    }
}
