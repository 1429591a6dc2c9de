//! What a job waits for before it is looked at: another job, kept for those who look until this one is answered.
//! It does not know what stands behind it, nor who looks.
//!
//! Of jobs each of which waits for the one before the last would keep all others, for ever. So who answers a job takes out what it
//! has waited for. Others may look at that at the moment: they are counted, and if there are any, the last of them has it.
//!
//! | call | edge | if another comes first |
//! |---|---|---|
//! | `look` | one more looks, then one less | it was taken: there is nothing to see |
//! | `take` | taken, for good | somebody looks: the last who looks away has it; it was taken: it is another's |

use crate::sync::atomic::{AtomicU64, Ordering, load_for_cas};
use crate::sync::cell::UnsafeCell;
use crate::sync::mutant;

/// It was taken. Below it, how many look.
const TAKEN: u64 = 1 << 31;

/// A value that many may look at, until one takes it.
pub(crate) struct Fence<T> {
    word: AtomicU64,
    what: UnsafeCell<Option<T>>,
}

// SAFETY: what lies inside is only read, by many at once, until it was taken and nobody looks; then one thread alone moves it out.
unsafe impl<T: Send + Sync> Sync for Fence<T> {}

impl<T: Clone> Fence<T> {
    pub(crate) fn new(what: Option<T>) -> Self {
        let word = if what.is_some() { 0 } else { TAKEN };
        Self { word: AtomicU64::new(word), what: UnsafeCell::new(what) }
    }

    /// What it is, unless it was taken: a copy, or the thing itself if it is being taken, for the caller to drop where that may be.
    pub(crate) fn look(&self) -> Option<T> {
        let mut seen = load_for_cas(&self.word, Ordering::Acquire);
        loop {
            if seen & TAKEN != 0 {
                return None;
            }
            // ordering: pairs with `take`. If this comes first, the taker finds us counted, and leaves it; else we find it taken.
            match self.word.compare_exchange_weak(seen, seen + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        // SAFETY: we are counted, so nobody moves it out.
        let copy = self.what.with(|what| unsafe { (*what).clone() });
        // ordering: Release, so that who moves it out does so after our look; Acquire, so that we do after all others' if it is us.
        if self.word.fetch_sub(1, Ordering::AcqRel) == TAKEN | 1 {
            return self.moved_out();
        }
        copy
    }

    /// Takes it out. `None` if it was taken, or if the last of those who look at the moment has it.
    pub(crate) fn take(&self) -> Option<T> {
        // ordering: as in `look`.
        let before = self.word.fetch_or(TAKEN, Ordering::AcqRel);
        let free = before == 0 || (before & TAKEN == 0 && mutant("lanes.fence_taken_under_looks"));
        if free { self.moved_out() } else { None }
    }

    /// For the one who has taken it with nobody looking, or was the last to look.
    fn moved_out(&self) -> Option<T> {
        // SAFETY: one thread comes here, once: it was taken, so nobody begins to look any more, and nobody looks.
        self.what.with_mut(|what| unsafe { (*what).take() })
    }
}
