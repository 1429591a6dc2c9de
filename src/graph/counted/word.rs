//! A task's word: how many of those that it depends on are not over, and whether one of them did not end well.
//! It does not know the task, nor who runs it.
//!
//! Whoever takes the count to zero owns the task. Who finds it at one *is* the last: all others have subtracted, and nobody
//! else will; so the last writes nothing, and a task with one dependency costs no read-modify-write at all.
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::mutant;

/// In a word and in a queued entry: something that the task depends on did not end well.
pub(crate) const DOOMED: u32 = 1 << 31;

#[derive(Debug)]
pub(crate) struct Word(AtomicU32);

impl Word {
    /// Of a task with so many dependencies.
    pub(crate) fn new(dependencies: u32) -> Self {
        Self(AtomicU32::new(dependencies))
    }

    /// One of the dependencies, which is not released yet, did not end well.
    pub(crate) fn doom(&self) {
        // ordering: read by who is last, in this word, after our release.
        self.0.fetch_or(DOOMED, Ordering::Relaxed);
    }

    /// One of the dependencies is over. To the last: whether the task is doomed, as the bit that says so.
    ///
    /// `ALONE` if nobody else releases anything of this run, ever, but in turn with the caller. To `look` first saves the last
    /// one a write, and costs all others a move of the line if somebody else has just written it.
    #[inline(always)]
    pub(crate) fn release<const ALONE: bool>(&self, look: bool) -> Option<u32> {
        let of_last = |was: u32| (was & !DOOMED == 1).then_some(was & DOOMED);
        if ALONE {
            // ordering: who releases next is the same helper, or takes over from it through a queue.
            let was = self.0.load(Ordering::Relaxed);
            self.0.store(was.wrapping_sub(1), Ordering::Relaxed);
            return of_last(was);
        }
        if look {
            let order = if mutant("graph.word.look_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
            // ordering: Acquire pairs with the Release below. If all others came first, we see one, and what they did; else we
            // see more, and whoever subtracts or looks after us is the last, or we are, below.
            let last = of_last(self.0.load(order));
            if last.is_some() {
                return last;
            }
        }
        let order = if mutant("graph.word.release_relaxed") { Ordering::Acquire } else { Ordering::AcqRel };
        // ordering: Release hands on what the task did; Acquire, for who is the last, what all the others did.
        of_last(self.0.fetch_sub(1, order))
    }
}
