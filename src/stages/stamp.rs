//! Stamps of versioned publication: a transition is invisible, then committing, then bears a clock value, the same for all its
//! members. It does not know what is published, nor how many members a transition has.
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU64, Ordering, fence, fence_behind_exchange};
use crate::sync::mutant;

/// The transition's members are linked but not visible.
const INSTALLING: u64 = 0;
/// The transition is visible; whoever meets it helps it to its clock value.
const COMMITTING: u64 = 1;
/// The first clock value.
const FIRST: u64 = 2;
/// Where the clock is taken to be at its end.
const LAST: u64 = u64::MAX - (1 << 32);

/// The clock that transitions read and captures of a source root move.
#[derive(Debug)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn new(first: u64) -> Self {
        Self(AtomicU64::new(first.max(FIRST)))
    }

    /// Seals a view: what commits later bears a greater stamp. Each call returns another value. `None` if the clock has come to
    /// its end; it never wraps.
    pub(crate) fn capture(&self) -> Option<u64> {
        // So far from the end that no number of threads that have looked together can wrap it.
        if self.now() >= LAST {
            return None;
        }
        // ordering: Release passes on to every later stamp that whoever captures has said so before; see `Leases`. One operation,
        // so that each capture stands in the order of the clock itself.
        let seen = self.0.fetch_add(1, Ordering::AcqRel);
        if !mutant("stamp.capture_no_fence") {
            capture_before_look();
        }
        Some(seen)
    }

    /// Where it stands.
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The capture's half of the hand-shake with `helper_before_clock`.
fn capture_before_look() {
    // ordering: pairs with `helper_before_clock`. If the helper's fence came first, the capture's later look sees COMMITTING;
    // else the helper sees the moved clock and stamps the transition later than the capture.
    fence_behind_exchange();
}

/// The helper's half of the hand-shake with `Clock::capture`.
fn helper_before_clock() {
    // ordering: pairs with `capture_before_look`, both cases there.
    fence(Ordering::SeqCst);
}

/// The same for who has made the transition visible by an exchange of its own, behind which it comes here.
fn helper_behind_exchange() {
    // ordering: as `helper_before_clock`: the exchange stands before the look at the clock.
    fence_behind_exchange();
}

/// The word of one transition.
#[derive(Debug)]
pub(crate) struct Stamp(AtomicU64);

impl Stamp {
    /// A transition that is not yet visible.
    #[inline]
    pub(crate) fn installing() -> Self {
        Self(AtomicU64::new(INSTALLING))
    }

    /// The stamp of what changes nothing in any view when it is linked: a file's first revision, in which nothing is published.
    #[inline]
    pub(crate) fn first() -> Self {
        Self(AtomicU64::new(FIRST))
    }

    /// A transition that becomes visible by being linked.
    #[inline]
    pub(crate) fn committing() -> Self {
        Self(AtomicU64::new(COMMITTING))
    }

    /// A stamp that is taken over from another.
    pub(crate) fn settled(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// Makes every member visible by one write. Called once, by the one who holds the section.
    #[inline]
    pub(crate) fn commit(&self) {
        // ordering: pairs with `resolve`. If this came first, the reader sees every member and what was linked before; else it
        // goes through to the predecessor of each. A swap, not a store: helpers write the same word.
        let before = self.0.swap(COMMITTING, Ordering::AcqRel);
        debug_assert!(before == INSTALLING, "a transition commits once");
    }

    /// The stamp, 0 while it is not visible. Helps a committing transition to its clock value.
    #[inline]
    pub(crate) fn resolve(&self, clock: &Clock) -> u64 {
        // ordering: pairs with `commit`, both cases there.
        let word = self.0.load(Ordering::Acquire);
        if word == COMMITTING { self.help_other(COMMITTING, clock) } else { word }
    }

    /// As [`resolve`](Self::resolve), for who has committed it.
    #[inline]
    pub(crate) fn resolve_own(&self, clock: &Clock) -> u64 {
        let word = self.0.load(Ordering::Acquire);
        if word == COMMITTING { self.help(COMMITTING, clock, helper_behind_exchange) } else { word }
    }

    /// Whether it bears its final value. What the one who gave it had seen is seen by who is told so.
    #[inline]
    fn is_settled(&self) -> bool {
        // ordering: pairs with `help`. If that came first, its release shows what came before; else the caller looks another way.
        self.0.load(Ordering::Acquire) >= FIRST
    }

    /// What was published under it, if it bears its final value.
    #[inline]
    pub(crate) fn once_settled<T>(&self, published: impl FnOnce() -> Option<T>) -> Option<T> {
        if self.is_settled() || mutant("look.unsettled") { published() } else { None }
    }

    /// The stamp of what the caller has seen done elsewhere, for which the word alone says nothing: helps it to its clock value.
    #[inline]
    pub(crate) fn resolve_done(&self, clock: &Clock) -> u64 {
        let word = self.0.load(Ordering::Acquire);
        if word == INSTALLING { self.help_other(INSTALLING, clock) } else { word }
    }

    /// As [`resolve_done`](Self::resolve_done), for who has made it done, by an exchange.
    #[inline]
    pub(crate) fn resolve_own_done(&self, clock: &Clock) -> u64 {
        let word = self.0.load(Ordering::Acquire);
        if word == INSTALLING { self.help(INSTALLING, clock, helper_behind_exchange) } else { word }
    }

    #[cold]
    fn help_other(&self, from: u64, clock: &Clock) -> u64 {
        self.help(from, clock, helper_before_clock)
    }

    #[inline]
    fn help(&self, from: u64, clock: &Clock, before_clock: impl FnOnce()) -> u64 {
        if !mutant("stamp.help_no_fence") {
            before_clock();
        }
        // ordering: pairs with `Clock::capture`; the fence orders this look after the one at the stamp. Acquire, and the release
        // below: whoever reads the stamp sees of every capture before it that it was announced.
        let value = clock.0.load(Ordering::Acquire);
        match self.0.compare_exchange(from, value, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => value,
            Err(now) => now,
        }
    }

    /// Takes over the final value of a shared transition, so that the next look is one load.
    #[inline]
    pub(crate) fn settle(&self, value: u64) {
        debug_assert!(value >= FIRST, "only a final stamp is copied");
        // ordering: Release; pairs with `resolve`. A store, unlike in `commit`: the word of one that takes a stamp over is exchanged by
        // nobody, since it goes from installing to its value at once.
        self.0.store(value, Ordering::Release);
    }
}
