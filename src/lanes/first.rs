//! A place for one counted reference, in one word: the head of a run queue, whose block is not touched for who stands alone in
//! line, and what keeps a registered actor. It does not know what stands behind it, nor why one is kept.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::mutant;
use std::ptr;

/// A place for one, and for one of its counted references.
pub(crate) struct First<T>(AtomicPtr<T>);

impl<T> First<T> {
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    fn look(&self) -> *mut T {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether nobody stands here; a hint unless a barrier stands between the caller's store and this look.
    pub(crate) fn is_empty(&self) -> bool {
        self.look().is_null()
    }

    /// Whether nobody stands here but `one`.
    pub(crate) fn is_empty_but(&self, one: &T) -> bool {
        let there = self.look();
        there.is_null() || ptr::eq(there, one)
    }

    /// Puts `one` here, or gives it back if somebody stands here.
    pub(crate) fn put(&self, one: Arc<T>) -> Result<(), Arc<T>> {
        // Under loom a look before the exchange would hide races (trap T1).
        if !cfg!(shardrun_loom) && !self.is_empty() {
            return Err(one);
        }
        let raw = Arc::into_raw(one).cast_mut();
        if mutant("lanes.first_without_look") {
            self.0.swap(raw, Ordering::AcqRel);
            return Ok(());
        }
        // ordering: pairs with `take`: who takes it sees what was done before it was put.
        match self.0.compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            // SAFETY: the reference was given up just above, and nobody has got it.
            Err(_) => Err(unsafe { Arc::from_raw(raw) }),
        }
    }

    /// Takes who stands here.
    pub(crate) fn take(&self) -> Option<Arc<T>> {
        if !cfg!(shardrun_loom) && self.is_empty() {
            return None;
        }
        // ordering: pairs with `put`.
        let raw = self.0.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: what is not null was put here with its reference, and the exchange lets one alone take it.
        (!raw.is_null()).then(|| unsafe { Arc::from_raw(raw) })
    }
}

impl<T> Drop for First<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
