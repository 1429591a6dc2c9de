//! The coalesce bits of an actor: which keys are queued.
//! It does not know what is done with a job whose key is.
//!
//! Asked after the event that calls for the job, cleared before the job reads its input: if the bit is found set, the queued
//! job has not read its input yet, and will see the event.

#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::mutant;

#[derive(Debug)]
pub(crate) struct Keys(AtomicU64);

impl Keys {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Sets a bit. True if it was set: an equal job is queued.
    pub(crate) fn ask(&self, bit: u64) -> bool {
        let order = if mutant("lanes.key_relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };
        // ordering: pairs with `clear`. If that comes first the bit is ours to set; else it acquires what came before this.
        self.0.fetch_or(bit, order) & bit != 0
    }

    /// Whether a bit is set: an equal job is queued. Sets nothing.
    pub(crate) fn is_asked(&self, bit: u64) -> bool {
        let order = if mutant("lanes.key_relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };
        // ordering: as in `ask`. A load would not do: the caller's event must come before it.
        self.0.fetch_or(0, order) & bit != 0
    }

    /// The job is queued no more; it has read nothing yet.
    pub(crate) fn clear(&self, bit: u64) {
        // ordering: as in `ask`.
        self.0.fetch_and(!bit, Ordering::AcqRel);
    }
}
