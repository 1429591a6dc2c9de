//! A worker's own queue of one level, first in, first out: its owner pushes and pops, and thieves take up to half at once.
//! It does not know what is queued, nor when thieves come.
//!
//! # Protocol
//!
//! A ring of cells and two words. `tail`, written by the owner alone, counts what was pushed. `head` holds two counts: `next`, the
//! first item that nobody has claimed, and `read`, up to which every claimed cell has been read, so that it may be written again.
//! Owner and thieves claim by a compare-and-swap of `head` that moves `next` on. A thief leaves `read` behind and brings it up
//! when it has read what it claimed; until then no other thief claims here, while the owner goes on. So a cell is read by the one
//! who claimed it and by nobody else, and written only when it has been read.
//!
//! A ring never grows. When it is full the owner goes on in a larger one, empties the rings in that order, and begins with the
//! first again once all are empty: nothing is ever copied, and a queue that stays short stays in the cache. Each ring is kept to
//! the end of its worker.

use super::contain;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, load_for_cas};
use crate::sync::cell::UnsafeCell;
use crate::sync::{Arc, CachePadded, OnceLock, mutant};
use std::cell::Cell;
use std::mem::MaybeUninit;

/// Places of the rings, each a power of two. The model checkers try small ones.
const PLACES: [usize; 3] = if cfg!(any(shardrun_loom, shardrun_shuttle)) { [2, 4, 8] } else { [256, 2_048, 8_192] };
/// What a thief takes at most.
const TAKEN_MAX: u32 = 32;

/// One ring.
struct Ring<T> {
    /// `next` in the upper half, `read` in the lower.
    head: CachePadded<AtomicU64>,
    tail: CachePadded<AtomicU32>,
    cells: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: items are moved from the owner to whoever claims them, one thread each, for which they are `Send`; the words say whose
// turn at a cell it is.
unsafe impl<T: Send> Sync for Ring<T> {}

/// `read` and `next`.
#[inline(always)]
fn halves(head: u64) -> (u32, u32) {
    (head as u32, (head >> 32) as u32)
}

#[inline(always)]
fn joined(read: u32, next: u32) -> u64 {
    u64::from(next) << 32 | u64::from(read)
}

impl<T> Ring<T> {
    fn new(places: usize) -> Self {
        Self::beginning_at(places, 0)
    }

    fn beginning_at(places: usize, count: u32) -> Self {
        assert!(places.is_power_of_two(), "places are found by the lowest bits of a count");
        Self {
            head: CachePadded::new(AtomicU64::new(joined(count, count))),
            tail: CachePadded::new(AtomicU32::new(count)),
            cells: (0..places).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
        }
    }

    #[inline(always)]
    fn cell(&self, count: u32) -> &UnsafeCell<MaybeUninit<T>> {
        &self.cells[count as usize & (self.cells.len() - 1)]
    }

    /// Whether the owner may push.
    #[inline(always)]
    fn has_room(&self) -> bool {
        // ordering: pairs with `give_back`. If that came first, the thief has read its cells; else they do not count as room.
        let (read, next) = halves(self.head.load(Ordering::Acquire));
        let from = if mutant("fifo.room_up_to_next") { next } else { read };
        (self.tail.load(Ordering::Relaxed).wrapping_sub(from) as usize) < self.cells.len()
    }

    /// Pushes where the owner has seen room, and nobody but the owner may.
    #[inline(always)]
    fn put(&self, item: T) {
        let tail = self.tail.load(Ordering::Relaxed);
        // SAFETY: there is room, so the cell has been read by the one who claimed it, or never held anything; who might claim it
        // next does not before `tail` says so.
        self.cell(tail).with_mut(|cell| unsafe { (*cell).write(item) });
        // ordering: pairs with the load in `claim_some`. If that comes first the item is not seen; else it is there.
        let order = if mutant("fifo.tail_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        self.tail.store(tail.wrapping_add(1), order);
    }

    /// Takes the oldest item. For the owner.
    #[inline(always)]
    fn pop(&self) -> Option<T> {
        let tail = self.tail.load(Ordering::Relaxed);
        let mut head = load_for_cas(&self.head, Ordering::Acquire);
        loop {
            let (read, next) = halves(head);
            if next == tail {
                return None;
            }
            // While a thief reads, what the owner has read is given back together with the thief's.
            let after = next.wrapping_add(1);
            let now = joined(if read == next { after } else { read }, after);
            // ordering: AcqRel among those who claim.
            match self.head.compare_exchange_weak(head, now, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: the exchange has claimed the cell, which was written before `tail` counted it.
                Ok(_) => return Some(self.cell(next).with(|cell| unsafe { (*cell).assume_init_read() })),
                Err(seen) => head = seen,
            }
        }
    }

    /// Claims up to half of the items for a thief, unless another one is at work: the first, and how many.
    fn claim_some(&self) -> Option<(u32, u32)> {
        let mut head = load_for_cas(&self.head, Ordering::Acquire);
        loop {
            let (read, next) = halves(head);
            if read != next && !mutant("fifo.two_thieves") {
                return None;
            }
            // ordering: see `put`.
            let count = self.tail.load(Ordering::Acquire).wrapping_sub(next);
            if count == 0 {
                return None;
            }
            if count as usize > self.cells.len() {
                // The head is older than the tail.
                head = load_for_cas(&self.head, Ordering::Acquire);
                continue;
            }
            let some = count.div_ceil(2).min(TAKEN_MAX);
            // ordering: AcqRel among those who claim.
            let now = joined(read, next.wrapping_add(some));
            match self.head.compare_exchange_weak(head, now, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some((next, some)),
                Err(seen) => head = seen,
            }
        }
    }

    /// The thief has read what it claimed.
    fn give_back(&self) {
        let mut head = load_for_cas(&self.head, Ordering::Acquire);
        loop {
            let (_, next) = halves(head);
            // ordering: Release pairs with `has_room`: the owner writes the cells after our reads of them.
            match self.head.compare_exchange_weak(head, joined(next, next), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    /// Takes up to half of the items: returns the oldest, and hands the others to `put`, which must not panic.
    fn steal(&self, mut put: impl FnMut(T)) -> Option<T> {
        let (first, count) = self.claim_some()?;
        // SAFETY: the cells were claimed and written, and nobody writes them again before they are given back.
        let take = |at: u32| self.cell(first.wrapping_add(at)).with(|cell| unsafe { (*cell).assume_init_read() });
        let taken = take(0);
        (1..count).for_each(|at| put(take(at)));
        self.give_back();
        Some(taken)
    }

    fn len(&self) -> usize {
        self.line().1
    }

    /// How many items were claimed, which goes round, and how many are left.
    fn line(&self) -> (u32, usize) {
        // ordering: a hint, or behind a barrier of the caller's.
        let (_, next) = halves(self.head.load(Ordering::Acquire));
        let count = self.tail.load(Ordering::Acquire).wrapping_sub(next) as usize;
        // With a head that is older than the tail it may seem to hold more than it can.
        (next, count.min(self.cells.len()))
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while let Some(item) = self.pop() {
            contain::dropping(item);
        }
    }
}

struct Rings<T> {
    first: Ring<T>,
    further: [OnceLock<Ring<T>>; PLACES.len() - 1],
}

impl<T> Rings<T> {
    /// All there are.
    fn all(&self) -> impl Iterator<Item = &Ring<T>> {
        std::iter::once(&self.first).chain(self.further.iter().map_while(OnceLock::get))
    }

    /// Ring number `at`, made if there is none.
    fn at(&self, at: usize) -> &Ring<T> {
        match at.checked_sub(1) {
            None => &self.first,
            Some(further) => self.further[further].get_or_init(|| Ring::new(PLACES[at])),
        }
    }
}

/// The owner's end.
pub(crate) struct Fifo<T> {
    rings: Arc<Rings<T>>,
    /// The ring that is pushed to; those beyond it are empty.
    pushes: Cell<usize>,
    /// The ring that is popped from; those before it are empty. Not beyond `pushes`.
    pops: Cell<usize>,
}

impl<T> Fifo<T> {
    pub(crate) fn new() -> Self {
        Self::of(Ring::new(PLACES[0]))
    }

    /// One whose counts begin near their end.
    #[cfg(test)]
    pub(crate) fn near_the_end() -> Self {
        Self::of(Ring::beginning_at(PLACES[0], u32::MAX - 1))
    }

    fn of(first: Ring<T>) -> Self {
        let rings = Arc::new(Rings { first, further: Default::default() });
        if cfg!(shardrun_loom) {
            // It does not see that who gets a ring comes after who made it.
            let _ = rings.at(1);
        }
        Self { rings, pushes: Cell::new(0), pops: Cell::new(0) }
    }

    /// A thief's end.
    pub(crate) fn tap(&self) -> Tap<T> {
        Tap(self.rings.clone())
    }

    /// Pushes behind all others.
    ///
    /// # Errors
    /// Gives the item back if the queue is as long as it can be.
    #[inline(always)]
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        if self.pushes.get() == 0 && self.rings.first.has_room() {
            self.rings.first.put(item);
            return Ok(());
        }
        self.push_further(item)
    }

    #[inline(never)]
    fn push_further(&self, item: T) -> Result<(), T> {
        for at in self.pushes.get()..PLACES.len() {
            let ring = self.rings.at(at);
            if ring.has_room() {
                self.pushes.set(at);
                ring.put(item);
                return Ok(());
            }
        }
        Err(item)
    }

    /// Takes the oldest.
    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<T> {
        if self.pops.get() == 0
            && let Some(item) = self.rings.first.pop()
        {
            return Some(item);
        }
        if self.pushes.get() == 0 { None } else { self.pop_further() }
    }

    #[inline(never)]
    fn pop_further(&self) -> Option<T> {
        for at in self.pops.get()..=self.pushes.get() {
            let ring = self.rings.at(at);
            if let Some(item) = ring.pop() {
                // A queue that has run empty is pushed to from the first ring on.
                let anew = at == self.pushes.get() && ring.len() == 0;
                self.pops.set(if anew { 0 } else { at });
                self.pushes.set(if anew { 0 } else { self.pushes.get() });
                return Some(item);
            }
        }
        self.pops.set(0);
        self.pushes.set(0);
        None
    }
}

/// A thief's end of a queue.
pub(crate) struct Tap<T>(Arc<Rings<T>>);

impl<T> Tap<T> {
    /// Takes up to half of one ring, unless other thieves are at work there: returns one item, and hands the others to `put`, oldest
    /// first. `put` must not panic.
    pub(crate) fn steal(&self, mut put: impl FnMut(T)) -> Option<T> {
        self.0.all().find_map(|ring| ring.steal(&mut put))
    }

    /// Whether nothing is queued that somebody could take.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.all().all(|ring| ring.len() == 0)
    }

    /// How many are queued; a hint while others push and pop.
    pub(crate) fn len(&self) -> usize {
        self.0.all().map(Ring::len).sum()
    }

    /// How many were taken, by whomever, which goes round; and how many are queued.
    pub(crate) fn line(&self) -> (u32, usize) {
        let add = |(taken, left): (u32, usize), ring: (u32, usize)| (taken.wrapping_add(ring.0), left + ring.1);
        self.0.all().map(Ring::line).fold((0, 0), add)
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::{Fifo, PLACES};
    use crate::sync::stat::{AtomicU64, Ordering};
    use crate::sync::{Arc, thread};

    #[test]
    fn order_is_kept_over_all_rings_and_a_queue_that_has_run_empty_begins_anew() {
        let most: u64 = PLACES.iter().sum::<usize>() as u64;
        for fifo in [Fifo::new(), Fifo::near_the_end()] {
            for _ in 0..2 {
                (0..most).for_each(|n| assert_eq!(fifo.push(n), Ok(())));
                assert_eq!((fifo.push(most), fifo.tap().len()), (Err(most), most as usize));
                assert!((0..most).all(|n| fifo.pop() == Some(n)));
                assert_eq!((fifo.pop(), fifo.tap().is_empty()), (None, true));
            }
        }
    }

    #[test]
    fn what_is_left_is_dropped_with_the_last_end() {
        let (held, fifo) = (Arc::new(()), Fifo::new());
        (0..PLACES[0] * 2).for_each(|_| assert!(fifo.push(held.clone()).is_ok()));
        let tap = fifo.tap();
        drop(fifo);
        assert_eq!(Arc::strong_count(&held), PLACES[0] * 2 + 1);
        drop(tap);
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn each_item_is_taken_once_by_its_owner_or_one_of_three_thieves() {
        const ITEMS: u64 = 50_000;
        let sum = AtomicU64::new(0);
        let taken = AtomicU64::new(0);
        let note = |n: Box<u64>| {
            sum.fetch_add(*n, Ordering::Relaxed);
            taken.fetch_add(1, Ordering::Relaxed);
        };
        let fifo = Fifo::near_the_end();
        let taps = [(); 3].map(|()| fifo.tap());
        thread::scope(|scope| {
            for tap in taps {
                scope.spawn(|| {
                    let tap = tap;
                    while taken.load(Ordering::Relaxed) < ITEMS {
                        match tap.steal(note) {
                            Some(one) => note(one),
                            None => thread::yield_now(),
                        }
                    }
                });
            }
            for n in 0..ITEMS {
                let mut item = Box::new(n);
                while let Err(back) = fifo.push(item) {
                    item = back;
                    fifo.pop().into_iter().for_each(note);
                }
                if n.is_multiple_of(3) {
                    fifo.pop().into_iter().for_each(note);
                }
            }
            while let Some(item) = fifo.pop() {
                note(item);
            }
        });
        assert_eq!((taken.into_inner(), sum.into_inner()), (ITEMS, ITEMS * (ITEMS - 1) / 2));
    }
}
