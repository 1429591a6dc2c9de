//! The word of a revision that weighs who wants an Analysis against whether Source is done, in one compare-and-swap each.
//! It does not know who the wishers are, nor how an Analysis is run: it answers who has to see to its start.
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU64, Ordering, load_for_cas};
use crate::sync::mutant;

/// The revision admits nothing any more: superseded, failed on the way, or shut down.
const RETIRED: u64 = 1;
/// Source is done.
const SOURCE: u64 = 1 << 1;
/// One wish for Analysis, direct or through an Artifact.
const WISH: u64 = 1 << 8;

/// What became of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// It is counted: whoever completes Source sees to the rest.
    Counted,
    /// It is counted, and Source is done: the caller sees to the start of Analysis.
    Due,
    /// It is not counted: the revision has retired; look at the file again.
    Retired,
}

/// Where a revision was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touched {
    /// Source is done.
    SourceDone,
    /// It has retired without that.
    Retired,
    /// Source is to come.
    Waiting,
}

/// The demand word.
///
/// | transition | who | excludes |
/// |---|---|---|
/// | `wish` | a request | a wish that sees Source not done and is not seen by who completes it; a wish on a retired revision |
/// | `withdraw` | the handle that wished | an Analysis admitted for nobody |
/// | `source_done` | the one that sealed Source | Source done and Analysis wanted, but nobody to see to it |
/// | `retire` | commit, failure, shutdown | any later wish |
/// | `touch` | who left something for whoever completes Source | something left that neither of the two sees to |
///
/// To see to the start is to admit the flight of Analysis, which is done once, and to post a ticket. Who claims it then looks
/// in the same step whether it is wanted still.
#[derive(Debug)]
pub(crate) struct Demand(AtomicU64);

impl Demand {
    /// No wish yet.
    #[inline]
    pub(crate) fn new(source_done: bool) -> Self {
        Self(AtomicU64::new(if source_done { SOURCE } else { 0 }))
    }

    /// One wish, of who makes the revision.
    #[inline]
    pub(crate) fn wished() -> Self {
        Self(AtomicU64::new(WISH))
    }

    /// Counts a wish, and tells in the same step whether Source is done.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    #[inline]
    pub(crate) fn wish(&self) -> Wish {
        if mutant("demand.stale_look") {
            let seen = load_for_cas(&self.0, Ordering::Acquire);
            let before = self.0.fetch_add(WISH, Ordering::AcqRel);
            return match (before & RETIRED != 0, seen & SOURCE != 0) {
                (true, _) => Wish::Retired,
                (false, true) => Wish::Due,
                (false, false) => Wish::Counted,
            };
        }
        // ordering: pairs with `source_done`. If that came first, this sees Source done; else that sees the wish.
        // Pairs with `retire` also: if the wish came first, what the wisher hung up before is seen by who retires; else the
        // wisher is told.
        let mut word = load_for_cas(&self.0, Ordering::Acquire);
        loop {
            if word & RETIRED != 0 {
                return Wish::Retired;
            }
            match self.0.compare_exchange_weak(word, word + WISH, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if word & SOURCE != 0 => return Wish::Due,
                Ok(_) => return Wish::Counted,
                Err(now) => word = now,
            }
        }
    }

    /// Takes a counted wish back.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn withdraw(&self) {
        // ordering: pairs with `source_done`. If the last wish went first, that admits nothing; else the claim sees that nobody
        // is left. A retired word counts no more: it may have refused this wish.
        let mut word = load_for_cas(&self.0, Ordering::Acquire);
        while word & RETIRED == 0 {
            debug_assert!(word >= WISH, "a wish is withdrawn once");
            match self.0.compare_exchange_weak(word, word - WISH, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Says that Source is done. True if Analysis is wanted: the caller sees to its start.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    #[inline]
    pub(crate) fn source_done(&self) -> bool {
        // ordering: pairs with `wish`, both cases there.
        let before = self.0.fetch_or(SOURCE, Ordering::AcqRel);
        before >= WISH && before & RETIRED == 0
    }

    /// Changes nothing, and tells how far it is: what was left before this call is seen by who completes Source or retires later.
    pub(crate) fn touch(&self) -> Touched {
        // ordering: pairs with `source_done` and `retire`. If this came first they see what was left; else this sees their step.
        let word = if mutant("demand.touch_only_looks") {
            self.0.load(Ordering::Acquire)
        } else {
            self.0.fetch_or(0, Ordering::AcqRel)
        };
        match word {
            word if word & SOURCE != 0 => Touched::SourceDone,
            word if word & RETIRED != 0 => Touched::Retired,
            _ => Touched::Waiting,
        }
    }

    /// Ends all demand. True if there was any: then the caller ends what it was for.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    #[inline]
    pub(crate) fn retire(&self) -> bool {
        // ordering: pairs with `wish`, both cases there.
        self.0.fetch_or(RETIRED, Ordering::AcqRel) >= WISH
    }
}
