//! The word that counts for what a set of blockers still waits, and remembers whether one of them failed.
//! It does not know who the blockers are, nor what opens behind it.
#![forbid(unsafe_code)]

use crate::runtime::Priority;
use crate::sync::atomic::{AtomicU64, Ordering, load_for_cas};
use crate::sync::mutant;

/// Somebody has seen to it that the blockers are asked for.
const STARTED: u64 = 1;
/// Some blocker failed: whoever passes looks at all of them.
const FAILED: u64 = 1 << 1;
/// The most urgent wish.
const URGENCY_SHIFT: u32 = 2;
const URGENCY: u64 = 0b11 << URGENCY_SHIFT;
/// One blocker that has not been answered, or the guard before the start.
const ONE: u64 = 1 << 8;

/// The gate before the Artifacts of one generation.
///
/// | transition | who | excludes |
/// |---|---|---|
/// | `start` | whoever wants an Artifact, or registers late | blockers that nobody asks for |
/// | `add` | who asks for a blocker, before it does | an open gate while one is asked for |
/// | `release` | who answers; who started, at the end | two who open |
/// | `release_failed` | who answers with a failure | passing without having seen it |
#[derive(Debug)]
pub(crate) struct Gate(AtomicU64);

impl Gate {
    /// Closed, until it is started and everything is answered.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(ONE | (Priority::Maintenance as u64) << URGENCY_SHIFT))
    }

    /// True for the first caller: it asks for every blocker, and then releases the guard.
    #[must_use]
    pub(crate) fn start(&self) -> bool {
        self.0.fetch_or(STARTED, Ordering::AcqRel) & STARTED == 0
    }

    /// One more blocker is to be answered.
    pub(crate) fn add(&self) {
        // ordering: AcqRel, as all of them: the word's order is the order of what they say.
        self.0.fetch_add(ONE, Ordering::AcqRel);
    }

    /// One has been answered. True if it was the last: the caller opens.
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        // ordering: AcqRel. Pairs with `is_open`: who finds the gate open sees what every answer said before its release.
        let before = self.0.fetch_sub(ONE, Ordering::AcqRel);
        debug_assert!(before >= ONE, "an answer is given once");
        before / ONE == 1
    }

    /// As `release`, for an answer that is a failure: that is noted first.
    #[must_use]
    pub(crate) fn release_failed(&self) -> bool {
        if mutant("gate.failure_after_drop") {
            let last = self.release();
            self.0.fetch_or(FAILED, Ordering::AcqRel);
            return last;
        }
        self.0.fetch_or(FAILED, Ordering::AcqRel);
        self.release()
    }

    /// Whether nothing is waited for.
    pub(crate) fn is_open(&self) -> bool {
        // ordering: pairs with `release`, see there.
        self.0.load(Ordering::Acquire) < ONE
    }

    /// Whether some blocker has ever failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.load(Ordering::Acquire) & FAILED != 0
    }

    /// How urgent what stands behind it is.
    pub(crate) fn priority(&self) -> Priority {
        urgency(self.0.load(Ordering::Acquire))
    }

    /// Makes it as urgent as `priority`. True if that is more urgent than it was.
    pub(crate) fn raise(&self, priority: Priority) -> bool {
        let mut word = load_for_cas(&self.0, Ordering::Acquire);
        while urgency(word) > priority {
            let raised = (word & !URGENCY) | (priority as u64) << URGENCY_SHIFT;
            match self.0.compare_exchange_weak(word, raised, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }
}

fn urgency(word: u64) -> Priority {
    Priority::ALL[((word & URGENCY) >> URGENCY_SHIFT) as usize]
}
