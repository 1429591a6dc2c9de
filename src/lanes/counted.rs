//! A job's reference to its actor, which is counted only where the job may outlive what keeps the actor.
//! It does not know when that is: who makes it and who calls `count` do.

use crate::sync::Arc;
use crate::sync::stat::{AtomicBool, Ordering};
use std::mem::{self, ManuallyDrop};

/// A reference that may be borrowed from one that somebody else keeps.
pub(super) struct MaybeCounted<T> {
    to: ManuallyDrop<Arc<T>>,
    counted: AtomicBool,
}

impl<T> MaybeCounted<T> {
    /// A reference without a count of its own.
    ///
    /// # Safety
    /// Whoever looks through it knows that `to` is alive: somebody keeps a count of it, or this one has been counted.
    pub(super) unsafe fn borrowed(to: &Arc<T>) -> Self {
        // SAFETY: the copy is never dropped unless `count` has made a count for it, and not looked through once `to` is gone, says
        // the caller.
        let to = ManuallyDrop::new(unsafe { std::ptr::read(to) });
        Self { to, counted: AtomicBool::new(false) }
    }

    /// Counts it, if it is not counted: it is alive from now on as long as this is here.
    pub(super) fn count(&self) {
        // ordering: Relaxed; who drops this comes after all others by the count of what holds it.
        if !self.is_counted() && !self.counted.swap(true, Ordering::Relaxed) {
            mem::forget(self.get().clone());
        }
    }

    /// Whether it has a count of its own.
    #[inline]
    pub(super) fn is_counted(&self) -> bool {
        self.counted.load(Ordering::Relaxed)
    }

    /// What it leads to.
    #[inline]
    pub(super) fn get(&self) -> &Arc<T> {
        &self.to
    }
}

impl<T> Drop for MaybeCounted<T> {
    #[inline]
    fn drop(&mut self) {
        if self.is_counted() {
            // SAFETY: `count` has made the count that goes here, and nobody looks through this any more.
            unsafe { ManuallyDrop::drop(&mut self.to) };
        }
    }
}
