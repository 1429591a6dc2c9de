//! A small number for the calling thread, by which threads share out words that would else be written by all of them.
//! It does not know what is shared out.
#![forbid(unsafe_code)]

/// Words that are worth having: one a thread that can run, within reason.
pub(crate) fn stripes() -> usize {
    super::affinity::machine().parallel.clamp(1, 64)
}

/// The calling thread's place among `count` (not zero).
#[inline]
pub(crate) fn stripe(count: usize) -> usize {
    // Under the checkers every thread has the first place: a number that goes on from one execution to the next would make
    // their replays differ.
    #[cfg(any(shardrun_loom, shardrun_shuttle))]
    {
        let _ = count;
        0
    }
    #[cfg(not(any(shardrun_loom, shardrun_shuttle)))]
    {
        use crate::sync::stat::{AtomicUsize, Ordering};
        use std::cell::Cell;
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        crate::sync::local! {
            static MINE: Cell<usize> = Cell::new(usize::MAX);
        }
        let mine = MINE.try_with(|mine| {
            if mine.get() == usize::MAX {
                mine.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            mine.get()
        });
        let mine = mine.unwrap_or(0);
        // A division takes longer than all the rest.
        if mine < count { mine } else { mine % count }
    }
}

/// How many places there are that a thread can have for itself.
pub(crate) fn own_stripes() -> usize {
    2 * stripes()
}

/// A place below [`own_stripes`] that no other living thread has: what lies there is written by this thread alone, without a
/// read-modify-write. `None` while other threads have them all.
#[inline]
pub(crate) fn own_stripe() -> Option<usize> {
    // Under the checkers nobody has one, as in `stripe`.
    #[cfg(any(shardrun_loom, shardrun_shuttle))]
    return None;
    #[cfg(not(any(shardrun_loom, shardrun_shuttle)))]
    own::mine()
}

#[cfg(not(any(shardrun_loom, shardrun_shuttle)))]
mod own {
    use super::super::bits::BitSet;
    use crate::sync::OnceLock;
    use std::cell::Cell;

    /// The thread has not asked yet.
    const UNASKED: usize = usize::MAX;
    /// It has none.
    const NONE: usize = usize::MAX - 1;

    /// The places that nobody has. Who gives one back has written there last, and who takes it sees that.
    fn free() -> &'static BitSet {
        static FREE: OnceLock<BitSet> = OnceLock::new();
        FREE.get_or_init(|| {
            let free = BitSet::new(super::own_stripes());
            (0..super::own_stripes()).for_each(|place| free.insert(place));
            free
        })
    }

    /// Gives the thread's place back when the thread ends.
    struct Lease;

    impl Drop for Lease {
        fn drop(&mut self) {
            let place = MINE.try_with(|mine| mine.replace(NONE)).unwrap_or(NONE);
            if place < NONE {
                free().insert(place);
            }
        }
    }

    crate::sync::local! {
        /// It has no destructor, so it is there as long as its thread.
        static MINE: Cell<usize> = Cell::new(UNASKED);
        static LEASE: Lease = Lease;
    }

    #[inline]
    pub(super) fn mine() -> Option<usize> {
        let mine = MINE.try_with(Cell::get).unwrap_or(NONE);
        if mine < NONE { Some(mine) } else { ask(mine) }
    }

    #[cold]
    fn ask(mine: usize) -> Option<usize> {
        // A thread that is being torn down cannot give a place back any more, so it gets none.
        if mine == NONE || LEASE.try_with(|_| ()).is_err() {
            return None;
        }
        let place = free().claim_any();
        let _ = MINE.try_with(|mine| mine.set(place.unwrap_or(NONE)));
        place
    }

    #[cfg(test)]
    mod tests {
        use super::super::{own_stripe, own_stripes};

        #[test]
        fn no_two_living_threads_have_one_place() {
            for _ in 0..3 * own_stripes() {
                let mine = own_stripe();
                let other = crate::sync::thread::scope(|scope| scope.spawn(own_stripe).join().unwrap());
                assert!(mine.is_none() || other != mine, "two have the place {mine:?}");
            }
        }
    }
}
