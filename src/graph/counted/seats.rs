//! The deques of a counted run: one per helper at most, each owned by the one that sits there, open to thieves.
//! It does not know what the numbers in them mean.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::cell::UnsafeCell;
use crate::sync::queue::{Steal, Stealer, Worker};
use crate::sync::{CachePadded, mutant};

struct Seat {
    taken: AtomicBool,
    deque: UnsafeCell<Worker<u32>>,
    stealer: Stealer<u32>,
}

pub(crate) struct Seats(Box<[CachePadded<Seat>]>);

// SAFETY: a deque is touched only by who has taken its seat, one at a time; everybody else uses the stealer, which is Sync.
unsafe impl Sync for Seats {}

impl Seats {
    pub(crate) fn new(count: usize) -> Self {
        let seat = || {
            let deque = Worker::new_lifo();
            let stealer = deque.stealer();
            CachePadded::new(Seat { taken: AtomicBool::new(false), deque: UnsafeCell::new(deque), stealer })
        };
        Self((0..count).map(|_| seat()).collect())
    }

    /// Takes a free seat. Whoever calls was counted, and no more are counted than there are seats, so one is or becomes free.
    pub(crate) fn take(&self) -> usize {
        loop {
            for (at, seat) in self.0.iter().enumerate() {
                // ordering: Acquire pairs with `give_up`: the deque is as its last owner left it. If that comes later, the seat
                // looks taken, and the next one is tried.
                if !seat.taken.swap(true, Ordering::Acquire) {
                    return at;
                }
            }
            crate::sync::hint::spin_loop();
        }
    }

    /// Leaves a seat. Its deque must be empty.
    pub(crate) fn give_up(&self, at: usize) {
        debug_assert!(self.0[at].stealer.is_empty());
        let order = if mutant("graph.seats.give_up_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        // ordering: Release pairs with `take`.
        self.0[at].taken.swap(false, order);
    }

    /// The deque of a seat.
    ///
    /// # Safety
    /// The caller has taken the seat and has not given it up, and uses the deque on one thread at a time.
    #[inline(always)]
    pub(crate) unsafe fn deque(&self, at: usize) -> &Worker<u32> {
        // SAFETY: promised by the caller.
        self.0[at].deque.with(|deque| unsafe { &*deque })
    }

    /// Takes some of what another seat has: the first of it, the rest into the caller's deque.
    pub(crate) fn steal(&self, thief: usize, into: &Worker<u32>) -> Option<u32> {
        let seats = self.0.len();
        loop {
            let mut again = false;
            for step in 1..seats {
                match self.0[(thief + step) % seats].stealer.steal_batch_and_pop(into) {
                    Steal::Success(entry) => return Some(entry),
                    Steal::Retry => again = true,
                    Steal::Empty => {}
                }
            }
            if !again {
                return None;
            }
        }
    }

    /// Whether anything is to be stolen.
    pub(crate) fn has_work(&self) -> bool {
        self.0.iter().any(|seat| !seat.stealer.is_empty())
    }
}
