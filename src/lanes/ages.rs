//! How long the oldest queued job of each class has waited: counts by time of arrival, a quarter of a second a bucket.
//! It does not know the jobs.
//!
//! Each thread counts in cells of its own, as far as there are enough; the others share some. When the oldest has waited for more than half a minute, what comes meanwhile may be
//! told older than it is, by at most that; nothing is ever told younger.

#![forbid(unsafe_code)]

use super::kind::LaneClass;
use crate::runtime::{own_stripe, own_stripes};
use crate::sync::CachePadded;
use crate::sync::stat::{AtomicU64, Ordering};

/// A bucket is 2^28 ns.
const SHIFT: u32 = 28;
const BUCKETS: u64 = 128;

/// In and out of each bucket, on one thread.
type Cells = [AtomicU64; BUCKETS as usize];

#[derive(Debug)]
pub(super) struct Ages {
    /// One a thread that has its own, and the last for all others.
    stripes: Box<[CachePadded<[Cells; 2]>]>,
    /// No bucket before it holds anything.
    tail: [AtomicU64; 2],
    /// The present bucket when who came found the tail too far back, and looked.
    looked: [AtomicU64; 2],
}

impl Ages {
    pub(super) fn new() -> Self {
        let cells = || std::array::from_fn(|_| AtomicU64::new(0));
        Self {
            stripes: (0..=own_stripes()).map(|_| CachePadded::new([cells(), cells()])).collect(),
            tail: [AtomicU64::new(0), AtomicU64::new(0)],
            looked: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// Counts; the counts wrap, since a job may leave on another thread than it came on.
    #[inline]
    fn count(&self, class: LaneClass, bucket: u16, by: u64) {
        let own = own_stripe();
        let shared = self.stripes.len() - 1;
        let cell =
            &self.stripes[own.unwrap_or(shared).min(shared)][class as usize][usize::from(bucket) % BUCKETS as usize];
        if own.is_some() {
            cell.store(cell.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        } else {
            cell.fetch_add(by, Ordering::Relaxed);
        }
    }

    /// A job is queued. Returns the bucket that it is to leave.
    #[inline]
    pub(super) fn enter(&self, class: LaneClass, now: u64) -> u16 {
        let present = now >> SHIFT;
        let mut tail = self.tail[class as usize].load(Ordering::Relaxed);
        if present >= tail + BUCKETS {
            tail = self.catch_up(class, now);
        }
        let bucket = (present.clamp(tail, tail + BUCKETS - 1) % BUCKETS) as u16;
        self.count(class, bucket, 1);
        bucket
    }

    /// Nobody has looked for long, or the clock has jumped: the tail is where it was. Once a bucket, so that a job that is stuck
    /// does not have all that come after it look for others.
    #[cold]
    fn catch_up(&self, class: LaneClass, now: u64) -> u64 {
        if self.looked[class as usize].swap(now >> SHIFT, Ordering::Relaxed) != now >> SHIFT {
            self.oldest(class, now);
        }
        self.tail[class as usize].load(Ordering::Relaxed)
    }

    /// A job is queued no more.
    #[inline]
    pub(super) fn leave(&self, class: LaneClass, bucket: u16) {
        self.count(class, bucket, u64::MAX);
    }

    /// How many nanoseconds the oldest has waited, if any is queued: rounded up by a bucket at most.
    pub(super) fn oldest(&self, class: LaneClass, now: u64) -> Option<u64> {
        let tail = self.tail[class as usize].load(Ordering::Relaxed);
        let end = (now >> SHIFT).max(tail).min(tail + BUCKETS - 1);
        let holds = |bucket: &u64| {
            let at = (*bucket % BUCKETS) as usize;
            let counts = self.stripes.iter().map(|cells| cells[class as usize][at].load(Ordering::Relaxed));
            counts.fold(0, u64::wrapping_add) != 0
        };
        let found = (tail..=end).find(holds);
        // What comes now may have read the clock a moment ago: the bucket before the present one stays within sight.
        let seen = found.unwrap_or((now >> SHIFT).saturating_sub(1));
        self.tail[class as usize].fetch_max(seen, Ordering::Relaxed);
        found.map(|bucket| now.saturating_sub(bucket << SHIFT))
    }
}
