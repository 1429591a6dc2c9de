//! The word of a revision that weighs who wants an Analysis against whether Source is done, in one compare-and-swap each.
//! It does not know who the wishers are, nor how an Analysis is run: it answers who has to start it, and whether still.
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU64, Ordering, load_for_cas};
use crate::sync::mutant;

/// The revision admits nothing any more: superseded, failed on the way, or shut down.
const RETIRED: u64 = 1;
/// Source is done.
const SOURCE: u64 = 1 << 1;
/// Analysis has been admitted: whoever set this bit sees to its start.
const ADMITTED: u64 = 1 << 2;
/// Analysis has been started by somebody who found it still wanted.
const STARTED: u64 = 1 << 3;
/// One wish for Analysis, direct or through an Artifact.
const WISH: u64 = 1 << 8;

/// What became of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// It is counted: Source's completion, or who admitted Analysis before, sees to the rest.
    Counted,
    /// It is counted, and this very call admitted Analysis: the caller sees to its start.
    Admitted,
    /// It is not counted: the revision has retired; look at the file again.
    Retired,
}

/// The demand word.
///
/// | transition | who | excludes |
/// |---|---|---|
/// | `wish` | a request | a wish that sees Source done and admits nothing; a wish on a retired revision |
/// | `withdraw` | the handle that wished | an Analysis that nobody wants |
/// | `source_done` | the one that sealed Source | Source done and Analysis wanted, but nobody to start it |
/// | `start` | who popped the ticket | a start that nobody wants: Analysis goes back to idle |
/// | `retire` | commit, failure, shutdown | any later wish |
#[derive(Debug)]
pub(crate) struct Demand(AtomicU64);

impl Demand {
    /// No wish, or one wish, that the maker of the revision brings along before anybody else sees it.
    pub(crate) fn new(wishes: u64, source_done: bool) -> Self {
        Self(AtomicU64::new(wishes * WISH + if source_done { SOURCE } else { 0 }))
    }

    /// Counts a wish, and admits an idle Analysis if Source is done, in one step.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn wish(&self) -> Wish {
        if mutant("demand.stale_look") {
            let seen = load_for_cas(&self.0, Ordering::Acquire);
            let before = self.0.fetch_add(WISH, Ordering::AcqRel);
            if before & RETIRED != 0 {
                return Wish::Retired;
            }
            let admit = seen & SOURCE != 0 && self.0.fetch_or(ADMITTED, Ordering::AcqRel) & ADMITTED == 0;
            return if admit { Wish::Admitted } else { Wish::Counted };
        }
        // ordering: pairs with `source_done`. If that came first, this sees Source done and admits; else that sees the wish.
        // Pairs with `retire` also: if the wish came first, what the wisher hung up before is seen by who retires; else the
        // wisher is told.
        let mut word = load_for_cas(&self.0, Ordering::Acquire);
        loop {
            if word & RETIRED != 0 {
                return Wish::Retired;
            }
            let admit = word & SOURCE != 0 && word & ADMITTED == 0;
            let next = (word + WISH) | if admit { ADMITTED } else { 0 };
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if admit => return Wish::Admitted,
                Ok(_) => return Wish::Counted,
                Err(now) => word = now,
            }
        }
    }

    /// Takes a counted wish back.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn withdraw(&self) {
        if mutant("demand.sticky") {
            return;
        }
        // ordering: pairs with `start`. If the last wish went first, the start finds none; else Analysis runs unwanted at most
        // as long as its own flight lets it. A retired word counts no more: it may have refused this wish.
        let mut word = load_for_cas(&self.0, Ordering::Acquire);
        while word & RETIRED == 0 {
            debug_assert!(word >= WISH, "a wish is withdrawn once");
            match self.0.compare_exchange_weak(word, word - WISH, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Says that Source is done. True if this admitted an Analysis that was wanted: the caller sees to its start.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn source_done(&self) -> bool {
        if mutant("demand.two_steps") {
            let before = self.0.fetch_or(SOURCE, Ordering::AcqRel);
            return before >= WISH && self.0.fetch_or(ADMITTED, Ordering::AcqRel) & ADMITTED == 0;
        }
        // ordering: pairs with `wish`, both cases there. Release also hands Source's value to who reads SOURCE.
        let mut word = load_for_cas(&self.0, Ordering::Acquire);
        loop {
            let admit = word >= WISH && word & (RETIRED | ADMITTED) == 0;
            let next = word | SOURCE | if admit { ADMITTED } else { 0 };
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return admit,
                Err(now) => word = now,
            }
        }
    }

    /// Asks for leave to start the admitted Analysis. False if it is not admitted, was started before, or nobody wants it any
    /// more; in the last case it is idle again, and the next wish admits it anew.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn start(&self) -> bool {
        // ordering: pairs with `withdraw` and `wish`. If the last wish went first, this puts Analysis back to idle, and a later
        // wish sees it idle; else it starts.
        let mut word = load_for_cas(&self.0, Ordering::Acquire);
        loop {
            if word & ADMITTED == 0 || word & (STARTED | RETIRED) != 0 {
                return false;
            }
            let wanted = word >= WISH;
            let next = if wanted { word | STARTED } else { word & !ADMITTED };
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return wanted,
                Err(now) => word = now,
            }
        }
    }

    /// Ends all demand. False if it had ended before.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn retire(&self) -> bool {
        // ordering: pairs with `wish`, both cases there.
        self.0.fetch_or(RETIRED, Ordering::AcqRel) & RETIRED == 0
    }

    /// Whether demand has ended.
    pub(crate) fn is_retired(&self) -> bool {
        self.0.load(Ordering::Acquire) & RETIRED != 0
    }

    /// Whether Source is done, Analysis is wanted and nobody has been made to start it: what no observer may ever see.
    #[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
    pub(crate) fn is_stranded(&self) -> bool {
        let word = self.0.load(Ordering::Acquire);
        word & SOURCE != 0 && word >= WISH && word & (ADMITTED | RETIRED) == 0
    }
}
