//! A value of the host's whose destructor may panic without harm, wherever it is dropped.
//! It does not know what the value is.
#![forbid(unsafe_code)]

use crate::flight::contained;
use std::mem::needs_drop;
use std::ops::{Deref, DerefMut};

/// A value of the host's that lives inside the engine.
pub(crate) struct Contained<T>(Option<T>);

impl<T> Contained<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T> Deref for Contained<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<T> DerefMut for Contained<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is there until it is dropped")
    }
}

impl<T> Drop for Contained<T> {
    fn drop(&mut self) {
        if needs_drop::<T>() {
            // Where it lies: to move it out first would copy it.
            contained(|| self.0 = None);
        }
    }
}
