//! A small number for the calling thread, by which threads share out words that would else be written by all of them.
//! It does not know what is shared out.
#![forbid(unsafe_code)]

/// Words that are worth having: one a thread that can run, within reason.
pub(crate) fn stripes() -> usize {
    super::affinity::machine().parallel.clamp(1, 64)
}

/// The calling thread's place among `count` (not zero).
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
        mine.unwrap_or(0) % count
    }
}
