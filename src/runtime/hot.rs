//! A slot for one job that its owner is to run soon and that a thief may take.
//! It does not know when it is used, nor for how many jobs in a row.

use super::job::Job;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::cell::UnsafeCell;
use crate::sync::mutant;
use std::mem::MaybeUninit;

/// Nothing inside; the owner may put.
const EMPTY: u32 = 0;
/// Somebody is taking what was inside; set by `take`, from `FULL`, and cleared by it.
const TAKING: u32 = 1;
/// A job is inside; its level is added.
const FULL: u32 = 2;

/// The slot: one owner who puts, anybody takes.
pub(crate) struct HotSlot {
    state: AtomicU32,
    job: UnsafeCell<MaybeUninit<Job>>,
}

// SAFETY: jobs are `Send`, and the state gives the cell to one thread at a time.
unsafe impl Sync for HotSlot {}

impl HotSlot {
    pub(crate) fn new() -> Self {
        Self { state: AtomicU32::new(EMPTY), job: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Puts a job in. Only the owner of the slot may call this.
    ///
    /// # Errors
    /// Gives the job back if the slot is full, or a thief is just emptying it.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn put(&self, level: usize, job: Job) -> Result<(), Job> {
        // ordering: pairs with the release in `take`. If the taker was first, it has read the cell; else the slot is not
        // empty and stays untouched.
        if self.state.load(Ordering::Acquire) != EMPTY {
            return Err(job);
        }
        // SAFETY: only the owner leads away from EMPTY, and the caller is the owner: nobody else touches the cell.
        self.job.with_mut(|cell| unsafe { (*cell).write(job) });
        // ordering: pairs with `take`'s compare-and-swap, which reads the cell after it.
        self.state.store(FULL + level as u32, Ordering::Release);
        Ok(())
    }

    /// The level of the job inside, if there is one: a hint.
    #[inline(always)]
    pub(crate) fn level(&self) -> Option<usize> {
        let state = self.state.load(Ordering::Relaxed);
        if state >= FULL { Some((state - FULL) as usize) } else { None }
    }

    /// Takes the job out, whoever calls.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn take(&self) -> Option<(usize, Job)> {
        let full = self.state.load(Ordering::Relaxed);
        // ordering: pairs with `put`: the winner sees the job that was put before this state.
        if full < FULL {
            return None;
        }
        let claimed = self.state.compare_exchange(full, TAKING, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !claimed && !mutant("hot.take_without_claim") {
            return None;
        }
        // SAFETY: the compare-and-swap has one winner, nobody else touches the cell until it stores EMPTY, and FULL means
        // that a job was written.
        let job = self.job.with(|cell| unsafe { (*cell).assume_init_read() });
        // ordering: pairs with the load in `put`: the owner writes the cell only after this read of it.
        self.state.store(EMPTY, if mutant("hot.empty_relaxed") { Ordering::Relaxed } else { Ordering::Release });
        Some(((full - FULL) as usize, job))
    }
}

impl Drop for HotSlot {
    fn drop(&mut self) {
        drop(self.take());
    }
}
