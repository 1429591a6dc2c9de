//! Whom an edge will tell: taken once, by whoever answers or withdraws it; moved over to a successor meanwhile.
//! It does not know what is told, nor what the edge hangs in.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::mutant;
use std::ptr;

/// The lowest bit: demand is held for the edge, and who takes the target without an answer withdraws it.
const HELD: usize = 1;

/// One count of who is told, until it is taken.
///
/// | transition | who | excludes |
/// |---|---|---|
/// | `take` | who answers the edge, or withdraws it | a second answer; an answer to who has withdrawn |
/// | `move_over` | who ends the old target, alone: he has taken the edge out of the place where it stood | an answer that goes to nobody |
/// | `hold` | who registers the edge, once it counts as demand | demand that nobody withdraws, or that two do |
/// | `refuse` | who could not register the edge | a target that goes on as if it had been answered |
#[derive(Debug)]
pub(crate) struct Target<S>(AtomicPtr<S>);

// SAFETY: it holds one count of a shared value, so that must be Send and Sync.
unsafe impl<S: Send + Sync> Send for Target<S> {}
// SAFETY: as above.
unsafe impl<S: Send + Sync> Sync for Target<S> {}

/// A target that was taken.
pub(crate) struct Taken<S> {
    /// Who was to be told.
    pub(crate) target: Arc<S>,
    /// Whether demand was held for the edge.
    pub(crate) held: bool,
}

fn plain<S>(word: *mut S) -> *mut S {
    word.map_addr(|address| address & !HELD)
}

impl<S> Target<S> {
    pub(crate) fn new(target: Arc<S>) -> Self {
        debug_assert!(align_of::<S>() > 1, "the mark stands in the lowest bit");
        Self(AtomicPtr::new(Arc::into_raw(target).cast_mut()))
    }

    /// Whether it has been taken.
    pub(crate) fn is_taken(&self) -> bool {
        plain(self.0.load(Ordering::Acquire)).is_null()
    }

    /// Takes it: for one caller.
    pub(crate) fn take(&self) -> Option<Taken<S>> {
        // ordering: AcqRel; pairs with `hold` and `move_over`. If those came first, this sees the mark and the successor; else they
        // are told that it is gone. What the registration has done before `hold` is then visible to who withdraws it.
        let word = self.0.swap(ptr::null_mut(), Ordering::AcqRel);
        let target = plain(word);
        // SAFETY: the count that `new` or `move_over` left here, taken out of the one place where it stood.
        (!target.is_null()).then(|| Taken { target: unsafe { Arc::from_raw(target) }, held: word.addr() & HELD != 0 })
    }

    /// As `take`, for an edge that the producer had no room for: it is remembered.
    pub(crate) fn refuse(&self) -> Option<Taken<S>> {
        let refused = ptr::null_mut::<S>().map_addr(|address| address | HELD);
        // ordering: as in `take`.
        let word = self.0.swap(refused, Ordering::AcqRel);
        let target = plain(word);
        debug_assert!(target.is_null() || word.addr() & HELD == 0, "what was refused was never registered");
        // SAFETY: as in `take`.
        let taken = (!target.is_null()).then(|| Taken { target: unsafe { Arc::from_raw(target) }, held: false });
        taken.filter(|_| !mutant("edge.refuse_forgets"))
    }

    /// Whether the producer had no room for the edge.
    pub(crate) fn is_refused(&self) -> bool {
        let word = self.0.load(Ordering::Acquire);
        plain(word).is_null() && word.addr() & HELD != 0
    }

    /// Says that demand is held for the edge. False if it has been taken: then the caller withdraws the demand itself.
    #[must_use]
    pub(crate) fn hold(&self) -> bool {
        let mut word = self.load_for_cas();
        while !plain(word).is_null() {
            let held = word.map_addr(|address| address | HELD);
            // ordering: as in `take`.
            match self.0.compare_exchange_weak(word, held, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        mutant("edge.held_for_nobody")
    }

    /// Has `successor` told in place of the present one. False if it has been taken. For the one who ends the present one.
    #[must_use]
    pub(crate) fn move_over(&self, successor: Arc<S>) -> bool {
        let fresh = Arc::into_raw(successor).cast_mut();
        let mut word = self.load_for_cas();
        while !plain(word).is_null() {
            let moved = fresh.map_addr(|address| address | (word.addr() & HELD));
            // ordering: as in `take`.
            match self.0.compare_exchange_weak(word, moved, Ordering::AcqRel, Ordering::Acquire) {
                Ok(old) => {
                    // SAFETY: the count of the one before, taken by the one exchange that succeeded.
                    drop(unsafe { Arc::from_raw(plain(old)) });
                    return true;
                }
                Err(now) => word = now,
            }
        }
        // SAFETY: the count that `into_raw` gave up was not taken over.
        drop(unsafe { Arc::from_raw(fresh) });
        false
    }

    /// The load that begins an exchange; under loom an exchange too, see [`load_for_cas`](crate::sync::atomic::load_for_cas).
    fn load_for_cas(&self) -> *mut S {
        if cfg!(shardrun_loom) {
            let null = ptr::null_mut();
            return self.0.compare_exchange(null, null, Ordering::AcqRel, Ordering::Acquire).unwrap_or_else(|now| now);
        }
        self.0.load(Ordering::Acquire)
    }
}

impl<S> Drop for Target<S> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
