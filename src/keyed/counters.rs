//! What a cache counts: hits, misses, joins, evictions, and how computations ended.
//! It does not know what the counts are used for.
//!
//! A hit costs next to nothing, and so must its count: each of the first threads has a line of its own, which nobody else writes; those
//! that come later, where threads come and go, share as many lines by their numbers.
#![forbid(unsafe_code)]

use crate::runtime::{stripe, stripes};
use crate::sync::CachePadded;
use crate::sync::stat::{AtomicU64, Ordering};

/// Lines that there are at least.
const LINES_MIN: usize = 16;

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tally {
    Hit,
    Miss,
    Join,
    Evicted,
    Completed,
    Cancelled,
}

/// As many kinds of counts as there are.
const KINDS: usize = Tally::Cancelled as usize + 1;

/// The counts of a cache: lines with an owner each, and behind them as many that are shared.
pub(crate) struct Tallies(Box<[CachePadded<[AtomicU64; KINDS]>]>);

impl Tallies {
    pub(crate) fn new() -> Self {
        let lines = 2 * stripes().max(LINES_MIN);
        Self((0..lines).map(|_| CachePadded::new(Default::default())).collect())
    }

    /// Counts one.
    #[inline]
    pub(crate) fn one(&self, tally: Tally) {
        let (mine, owned) = (stripe(usize::MAX), self.0.len() / 2);
        if mine < owned && cfg!(not(any(shardrun_loom, shardrun_shuttle))) {
            let word = &self.0[mine][tally as usize];
            // ordering: a number that this thread alone writes: threads have numbers of their own.
            word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        } else {
            self.0[owned + mine % owned][tally as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn sum(&self, tally: Tally) -> u64 {
        self.0.iter().map(|line| line[tally as usize].load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }

    /// A snapshot, for a cache that keeps `kept` values which weigh `weight`.
    pub(crate) fn counters(&self, (kept, weight): (u64, u64)) -> CacheCounters {
        CacheCounters {
            hits: self.sum(Tally::Hit),
            misses: self.sum(Tally::Miss),
            joins: self.sum(Tally::Join),
            evictions: self.sum(Tally::Evicted),
            completed: self.sum(Tally::Completed),
            cancelled: self.sum(Tally::Cancelled),
            kept,
            weight,
        }
    }
}

/// A snapshot of what a cache has counted.
///
/// Each number is exact for the past; together they are no single moment, since nobody is stopped for the snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheCounters {
    /// Requests and reads that found a kept value.
    pub hits: u64,
    /// Requests that began a computation.
    pub misses: u64,
    /// Requests that joined a computation which was under way.
    pub joins: u64,
    /// Kept values that had to make room, or were evicted by a call.
    pub evictions: u64,
    /// Computations that ended with a value.
    pub completed: u64,
    /// Computations that ended without one: failed, panicked, cancelled or shut down.
    pub cancelled: u64,
    /// Values that are kept.
    pub kept: u64,
    /// What the kept values weigh together, where they are weighed.
    pub weight: u64,
}
