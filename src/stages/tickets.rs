//! The word of a slot that remembers which tickets are out, one bit for each stage and priority, so that a million edits leave
//! one ticket; above those bits it has room for a number that never changes. It does not know what a popped ticket finds to do.
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::mutant;

/// Bits for tickets: more than there are kinds.
const KINDS: u32 = 16;

/// Tickets that are out, and a number.
#[derive(Debug)]
pub(crate) struct Tickets(AtomicU64);

impl Tickets {
    /// None is out.
    pub(crate) fn new(number: u64) -> Self {
        Self(AtomicU64::new(number << KINDS))
    }

    /// Some ticket is out from the start: for a slot that its maker has not shown to anybody yet.
    pub(crate) fn with(kind: u32, number: u64) -> Self {
        Self(AtomicU64::new(number << KINDS | 1 << kind))
    }

    /// The number.
    pub(crate) fn number(&self) -> u64 {
        // ordering: it was written before the word was shown to anybody.
        self.0.load(Ordering::Relaxed) >> KINDS
    }

    /// Says that there is work of this kind, after it has been made visible. True if no ticket was out: the caller pushes one.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    #[must_use]
    #[inline]
    pub(crate) fn post(&self, kind: u32) -> bool {
        // ordering: pairs with `take`. If the popper's take came first, this finds the bit clear and pushes; else the take
        // acquires what stood here before, and the popper's look, which comes after its take, finds the work.
        self.0.fetch_or(1 << kind, Ordering::AcqRel) & (1 << kind) == 0
    }

    /// Clears the bit of a popped ticket, then looks: what is posted from now on has a ticket of its own.
    #[inline]
    pub(crate) fn take<R>(&self, kind: u32, look: impl FnOnce() -> R) -> R {
        if mutant("tickets.look_first") {
            let found = look();
            self.0.fetch_and(!(1 << kind), Ordering::AcqRel);
            return found;
        }
        // ordering: pairs with `post`, both cases there.
        self.0.fetch_and(!(1 << kind), Ordering::AcqRel);
        look()
    }
}
