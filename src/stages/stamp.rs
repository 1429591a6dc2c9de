//! Stamps of versioned publication: a transition is invisible, then committing, then bears a clock value, the same for all its
//! members. It does not know what is published, nor how many members a transition has.
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::mutant;

/// The transition's members are linked but not visible.
const INSTALLING: u64 = 0;
/// The transition is visible; whoever meets it helps it to its clock value.
const COMMITTING: u64 = 1;
/// The first clock value.
const FIRST: u64 = 2;

/// The clock that transitions read and captures of a source root move.
#[derive(Debug)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(FIRST))
    }

    /// Seals a view: what commits later bears a greater stamp.
    #[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
    pub(crate) fn capture(&self) -> u64 {
        let seen = self.0.load(Ordering::Acquire);
        let _ = self.0.compare_exchange(seen, seen + 1, Ordering::AcqRel, Ordering::Acquire);
        if !mutant("stamp.capture_no_fence") {
            capture_before_look();
        }
        seen
    }
}

/// The capture's half of the hand-shake with `helper_before_clock`.
#[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
fn capture_before_look() {
    // ordering: pairs with `helper_before_clock`. If the helper's fence came first, the capture's later look sees COMMITTING;
    // else the helper sees the moved clock and stamps the transition later than the capture.
    fence(Ordering::SeqCst);
}

/// The helper's half of the hand-shake with `Clock::capture`.
fn helper_before_clock() {
    // ordering: pairs with `capture_before_look`, both cases there.
    fence(Ordering::SeqCst);
}

/// The word of one transition.
#[derive(Debug)]
pub(crate) struct Stamp(AtomicU64);

impl Stamp {
    /// A transition that is not yet visible.
    pub(crate) fn installing() -> Self {
        Self(AtomicU64::new(INSTALLING))
    }

    /// A transition that becomes visible by being linked: a creation, a retry.
    pub(crate) fn committing() -> Self {
        Self(AtomicU64::new(COMMITTING))
    }

    /// Makes every member visible by one write. Called once, by the one who holds the section.
    pub(crate) fn commit(&self) {
        // ordering: pairs with `resolve`. If this came first, the reader sees every member and what was linked before; else it
        // goes through to the predecessor of each. A swap, not a store: helpers write the same word.
        let before = self.0.swap(COMMITTING, Ordering::AcqRel);
        debug_assert!(before == INSTALLING, "a transition commits once");
    }

    /// The stamp, 0 while it is not visible. Helps a committing transition to its clock value.
    pub(crate) fn resolve(&self, clock: &Clock) -> u64 {
        // ordering: pairs with `commit`, both cases there.
        let word = self.0.load(Ordering::Acquire);
        if word != COMMITTING {
            return word;
        }
        if !mutant("stamp.help_no_fence") {
            helper_before_clock();
        }
        // ordering: pairs with `Clock::capture`; the fence orders this look after the one at the stamp.
        let value = clock.0.load(Ordering::Relaxed);
        match self.0.compare_exchange(COMMITTING, value, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => value,
            Err(now) => now,
        }
    }

    /// Takes over the final value of a shared transition, so that the next look is one load.
    pub(crate) fn settle(&self, value: u64) {
        debug_assert!(value >= FIRST, "only a final stamp is copied");
        // ordering: pairs with `resolve`; everybody copies the same value. A swap, not a store: see `commit`.
        self.0.swap(value, Ordering::AcqRel);
    }
}
