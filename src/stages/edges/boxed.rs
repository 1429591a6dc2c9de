//! A value that is made when it is first needed, behind one pointer, and stays as long as its owner.
//! It does not know what the value is.

use crate::sync::atomic::{AtomicPtr, Ordering};
use std::ptr;

/// Nothing, or a box that is made once.
#[derive(Debug)]
pub(crate) struct Boxed<T>(AtomicPtr<T>);

// SAFETY: the value is shared by reference and dropped with its owner, so it must be Send and Sync.
unsafe impl<T: Send + Sync> Send for Boxed<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Boxed<T> {}

impl<T> Boxed<T> {
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The value, if it has been made.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // ordering: pairs with `get_or_make`. If that came first the value is seen whole; else there is none.
        // SAFETY: a box that was put here stays until `self` is dropped.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// The value, made by `make` if there is none; of two makers one is too late, and its value is dropped.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(there) = self.get() {
            return there;
        }
        let fresh = Box::into_raw(Box::new(make()));
        // ordering: pairs with `get`, both cases there.
        match self.0.compare_exchange(ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: as in `get`.
            Ok(_) => unsafe { &*fresh },
            Err(there) => {
                // SAFETY: it was made above and shown to nobody.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: as in `get`.
                unsafe { &*there }
            }
        }
    }
}

impl<T> Drop for Boxed<T> {
    fn drop(&mut self) {
        let there = self.0.load(Ordering::Acquire);
        if !there.is_null() {
            // SAFETY: nobody shares the owner any more.
            drop(unsafe { Box::from_raw(there) });
        }
    }
}
