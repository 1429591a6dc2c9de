//! Who asked first for an execution, by what name, and in which context it runs.
//! It does not know what is executed, nor what a context carries.

use crate::sync::atomic::{AtomicPtr, Ordering};
use std::ptr;

/// Who asks: the name that joiners are told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asker {
    /// The request's name, if it has one.
    pub(crate) name: Option<u64>,
}

impl Asker {
    fn is_anonymous(&self) -> bool {
        self.name.is_none()
    }
}

/// What became of an asker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The first: the winner, whom later ones join.
    First,
    /// One that came after the winner, who may have had no name.
    After(Option<u64>),
}

/// The first asker of one execution. Empty, anonymous, or a box that is never replaced.
#[derive(Debug)]
pub(crate) struct Origin(AtomicPtr<Asker>);

/// The first askers of a revision's two stages of which there is one.
#[derive(Debug)]
pub(crate) struct Origins {
    pub(crate) source: Origin,
    pub(crate) analysis: Origin,
}

impl Origins {
    pub(crate) fn new() -> Self {
        Self { source: Origin::new(), analysis: Origin::new() }
    }
}

fn anonymous() -> *mut Asker {
    ptr::without_provenance_mut(align_of::<Asker>())
}

impl Origin {
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Makes `asker` the first, if there is none. To be called before it has the execution admitted.
    pub(crate) fn ask(&self, asker: &Asker) -> Asked {
        // ordering: pairs with itself. If another asker's exchange came first, this sees its name; else it sees ours.
        let seen = self.0.load(Ordering::Acquire);
        if !seen.is_null() {
            return self.after(seen);
        }
        let raw = if asker.is_anonymous() { anonymous() } else { Box::into_raw(Box::new(asker.clone())) };
        match self.0.compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Asked::First,
            Err(now) => {
                if raw != anonymous() {
                    // SAFETY: it was made above and shown to nobody.
                    drop(unsafe { Box::from_raw(raw) });
                }
                self.after(now)
            }
        }
    }

    fn after(&self, seen: *mut Asker) -> Asked {
        if seen == anonymous() {
            return Asked::After(None);
        }
        // SAFETY: neither null nor the mark, so a box, which lives as long as this origin.
        Asked::After(unsafe { &*seen }.name)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let raw = self.0.load(Ordering::Acquire);
        if !raw.is_null() && raw != anonymous() {
            // SAFETY: made by `Box::into_raw`, and nobody shares the origin any more.
            drop(unsafe { Box::from_raw(raw) });
        }
    }
}
