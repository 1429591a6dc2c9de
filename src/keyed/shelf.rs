//! Which kept values stay: a queue with second chances, bounded by their number and by their weight.
//! It does not know what a value is, nor where else it stands.
//!
//! The algorithm is the clock (Corbató, *A paging experiment with the Multics system*, 1968) in the form of a queue: who comes in
//! over the bound takes entries from the front until it is kept; an entry that was used since it was last looked at goes to the
//! back, unless as many have been spared already as one newcomer may spare, any other leaves. So a newcomer pays for itself and
//! [`CHANCES`] more at most, nothing is searched, and a use costs one flag, which most find set.
//!
//! The queue does not keep its entries alive. One that left otherwise stays in it as an empty place until it comes to the front;
//! whoever takes something out moves a few places on, once more than half of them are empty.
//!
//! # An entry's mark
//!
//! USED is set by who uses it, and cleared by who spares it. COUNTED is set once, by who has put it in; GONE once, by who leads it
//! away. Whoever sets the second of these two takes the entry off the count; so each is taken off once, in whatever order.
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::queue::{Injector, take};
use crate::sync::{Arc, CachePadded, Weak, mutant};
use smallvec::SmallVec;

const USED: u64 = 1;
const COUNTED: u64 = 1 << 1;
const GONE: u64 = 1 << 2;
const WEIGHT_SHIFT: u32 = 3;
/// The heaviest that an entry can be.
pub(crate) const WEIGHT_MAX: u64 = u64::MAX >> WEIGHT_SHIFT;

/// Entries that one newcomer spares at most.
const CHANCES: usize = 8;
/// Empty places that are left in peace, whatever the length of the queue.
const EMPTY_MIN: u64 = 64;
/// Places that are moved on when one becomes empty.
const STEPS: usize = 4;
/// Entries for which a part of its own is worth having.
const PART: usize = 1024;
const PARTS_MAX: usize = 16;

/// How an entry stands, and what it weighs.
#[derive(Debug)]
pub(crate) struct Mark(AtomicU64);

impl Mark {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Notes that it was used.
    #[inline]
    pub(crate) fn used(&self) {
        // ordering: Relaxed: a hint. The look first keeps the line shared among those who use it.
        if self.0.load(Ordering::Relaxed) & USED == 0 {
            self.0.fetch_or(USED, Ordering::Relaxed);
        }
    }

    /// Sets its weight, before anybody else knows it.
    fn weigh(&self, weight: u64) {
        // ordering: Relaxed: the push into the queue publishes it.
        self.0.fetch_or(weight << WEIGHT_SHIFT, Ordering::Relaxed);
    }

    fn weight(&self) -> u64 {
        self.0.load(Ordering::Relaxed) >> WEIGHT_SHIFT
    }

    fn spared(&self) -> bool {
        self.0.fetch_and(!USED, Ordering::Relaxed) & USED != 0
    }

    /// ordering: AcqRel for both: the second of the two sees the first, so one of them takes the entry off.
    fn set(&self, flag: u64) -> u64 {
        self.0.fetch_or(flag, Ordering::AcqRel)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.0.load(Ordering::Acquire) & GONE != 0
    }
}

/// What can stand on a shelf.
pub(crate) trait Shelved: Send + Sync {
    fn mark(&self) -> &Mark;
}

/// How much may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) count: usize,
    pub(crate) weight: u64,
}

impl Bounds {
    /// No bound at all.
    pub(crate) const NONE: Self = Self { count: usize::MAX, weight: u64::MAX };

    /// Whether something is bounded.
    fn bound(self) -> bool {
        self != Self::NONE
    }
}

struct Part<N> {
    bounds: Bounds,
    queue: Injector<Weak<N>>,
    /// How many are kept and what they weigh; for a moment below zero while one leaves before it is counted.
    count: AtomicU64,
    weight: AtomicU64,
    /// Empty places in the queue.
    empty: AtomicU64,
}

/// The kept entries of a cache.
pub(crate) struct Shelf<N>(Box<[CachePadded<Part<N>>]>);

/// Entries that had to make room.
pub(crate) type Evicted<N> = SmallVec<[Arc<N>; 1]>;

impl<N: Shelved> Shelf<N> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        // A weight is not shared out: one entry may weigh as much as all are allowed.
        let parts = if bounds.weight == u64::MAX { (bounds.count / PART).clamp(1, PARTS_MAX) } else { 1 };
        Self::in_parts(bounds, parts)
    }

    fn in_parts(bounds: Bounds, parts: usize) -> Self {
        let share = |at: usize| match bounds.count {
            usize::MAX => usize::MAX,
            count => count / parts + usize::from(at < count % parts),
        };
        let part = |at| {
            CachePadded::new(Part {
                bounds: Bounds { count: share(at), weight: bounds.weight },
                queue: Injector::new(),
                count: AtomicU64::new(0),
                weight: AtomicU64::new(0),
                empty: AtomicU64::new(0),
            })
        };
        Self((0..parts).map(part).collect())
    }

    fn part(&self, hash: u64) -> &Part<N> {
        &self.0[(hash >> 40) as usize % self.0.len()]
    }

    /// Whether something of this weight could be kept at all.
    pub(crate) fn takes(&self, weight: u64) -> bool {
        let bounds = self.0[0].bounds;
        bounds.count > 0 && weight <= bounds.weight.min(WEIGHT_MAX)
    }

    /// Keeps an entry, and says which had to make room: this one too, perhaps.
    pub(crate) fn put(&self, entry: &Arc<N>, hash: u64, weight: u64) -> Evicted<N> {
        let part = self.part(hash);
        entry.mark().weigh(weight);
        part.count.fetch_add(1, Ordering::AcqRel);
        part.weight.fetch_add(weight, Ordering::AcqRel);
        if part.bounds.bound() {
            part.queue.push(Arc::downgrade(entry));
        }
        if entry.mark().set(COUNTED) & GONE != 0 && !mutant("shelf.counted_without_look") {
            // It was taken out before it was in.
            part.left(weight);
            part.emptied();
        }
        part.make_room()
    }

    /// Leads an entry away; false if somebody has done so before.
    pub(crate) fn take_out(&self, entry: &N, hash: u64) -> bool {
        let part = self.part(hash);
        let before = entry.mark().set(GONE);
        if before & GONE != 0 {
            return false;
        }
        if before & COUNTED != 0 {
            part.left(entry.mark().weight());
            part.emptied();
        }
        true
    }

    /// How many entries are kept, and what they weigh together.
    pub(crate) fn holds(&self) -> (u64, u64) {
        let sum = |of: fn(&Part<N>) -> &AtomicU64| {
            self.0.iter().map(|part| of(part).load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
        };
        let (count, weight) = (sum(|part| &part.count), sum(|part| &part.weight));
        (count.cast_signed().max(0) as u64, weight.cast_signed().max(0) as u64)
    }

    /// How many places the queues have, the empty ones with them.
    #[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
    pub(crate) fn places(&self) -> usize {
        self.0.iter().map(|part| part.queue.len()).sum()
    }
}

impl<N: Shelved> Part<N> {
    fn left(&self, weight: u64) {
        self.weight.fetch_sub(weight, Ordering::AcqRel);
        self.count.fetch_sub(1, Ordering::AcqRel);
    }

    fn is_over(&self) -> bool {
        let over = |now: &AtomicU64, most: u64| {
            // ordering: Acquire; who raises a count after this look has put its entry into the queue before, and looks itself.
            let now = now.load(Ordering::Acquire).cast_signed();
            now > 0 && now as u64 > most
        };
        over(&self.count, self.bounds.count as u64) || over(&self.weight, self.bounds.weight)
    }

    fn take(&self) -> Option<Weak<N>> {
        take(&self.queue)
    }

    /// Takes entries from the front until the bounds are kept. Who finds the queue empty while they are not leaves it to those who
    /// have entries in hand: each looks again once it has let go of its own.
    fn make_room(&self) -> Evicted<N> {
        let mut evicted = Evicted::new();
        let mut chances = CHANCES;
        while self.is_over() {
            let Some(place) = self.take() else { break };
            let Some(entry) = place.upgrade().filter(|entry| !entry.mark().is_gone()) else {
                self.empty.fetch_sub(1, Ordering::Relaxed);
                continue;
            };
            if chances > 0 && entry.mark().spared() {
                chances -= 1;
                self.queue.push(place);
                continue;
            }
            let before = entry.mark().set(GONE);
            if before & GONE != 0 && !mutant("shelf.evict_without_claim") {
                self.empty.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            if before & COUNTED != 0 {
                self.left(entry.mark().weight());
            } else {
                // Who puts it in counts an empty place, and it has none any more.
                self.empty.fetch_sub(1, Ordering::Relaxed);
            }
            evicted.push(entry);
        }
        evicted
    }

    /// One more place is empty: moves on a little where too many are.
    fn emptied(&self) {
        if !self.bounds.bound() {
            return;
        }
        let empty = self.empty.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if empty.cast_signed() <= EMPTY_MIN.cast_signed() || empty as usize * 2 <= self.queue.len() {
            return;
        }
        for _ in 0..STEPS {
            let Some(place) = self.take() else { return };
            match place.upgrade() {
                Some(entry) if !entry.mark().is_gone() => self.queue.push(place),
                _ => drop(self.empty.fetch_sub(1, Ordering::Relaxed)),
            }
        }
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::*;

    struct Entry(Mark);

    impl Shelved for Entry {
        fn mark(&self) -> &Mark {
            &self.0
        }
    }

    #[test]
    fn b43_entries_that_are_taken_out_leave_no_pile_of_empty_places() {
        let shelf = Shelf::new(Bounds { count: 1_000, ..Bounds::NONE });
        let entry = || Arc::new(Entry(Mark::new()));
        let stay: Vec<_> = (0..100).map(|_| entry()).collect();
        for kept in &stay {
            assert!(shelf.put(kept, 0, 1).is_empty());
        }
        for _ in 0..10_000 {
            let goes = entry();
            assert!(shelf.put(&goes, 0, 1).is_empty());
            assert!(shelf.take_out(&goes, 0) && !shelf.take_out(&goes, 0));
            assert!(shelf.places() < 600, "{}", shelf.places());
        }
        assert_eq!(shelf.holds(), (100, 100));
    }
}
