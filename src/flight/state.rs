//! The one word that holds all the state of a flight, with every transition that it knows.
//! It does not know what is executed, who waits for it, nor where its result stands.
//!
//! # The word
//!
//! | bits | field | set by | meaning |
//! |---|---|---|---|
//! | 0..4 | phase | the transitions below | see [`Phase`] |
//! | 4..6 | priority | `admit`, `raise` | the most urgent wish so far |
//! | 6 | WATCHED | `watch` | a waiting worker wants to be nudged when the flight becomes claimable |
//! | 7 | NOTIFIED | `wake` while claimed | a future was woken while it was being polled; `suspend` sees it |
//! | 8 | LISTED | who joins with a waiter | the list of waiters has had an entry, or is about to |
//! | 12..36 | gates | `add_gate`, `release_gate` | what must still happen before it may be claimed |
//! | 36..64 | owners | `join_anew`, `leave` | who wants it; the last one out cancels |
//!
//! "Ready" is derived: waiting, and no gates left.
//!
//! # The transitions
//!
//! | call | edge | who may | what it excludes |
//! |---|---|---|---|
//! | `admit` | Idle → Waiting | anyone who wants it | a second admission |
//! | `add_gate`, `release_gate` | gates ± 1 | who registers on a producer; the producer | a gate on what is already claimed |
//! | `claim` | ready or Woken → Claimed | whoever pops a ticket | two executions at once |
//! | `claim_wanted` | ready → Claimed, or → Idle if nobody wants it | whoever pops a ticket | executing for nobody |
//! | `unclaim` | Claimed → Idle | the claimer, before it starts | – |
//! | `suspend`, `put_back` | Claimed → Suspended, or Woken if NOTIFIED | the claimer of a future | a wake lost while it was polled |
//! | `inspect` | Suspended → Claimed | a helper, for a look | polling or dropping it meanwhile |
//! | `wake` | Suspended → Woken; Claimed: NOTIFIED | any waker | two tickets for one wake |
//! | `seal` | not over → Sealed | claimer or external publisher | a second writer of the result; a cancel |
//! | `finish` | Sealed → Done or Failed | who sealed | – |
//! | `complete` | Claimed → Done or Failed | a claimer who alone may write the result | a cancel |
//! | `kill` | not over, not Sealed → Cancelled, Superseded or Shutdown | whoever ends it | a result |
//! | `join_anew`, `leave` | owners ± 1 (the last: → Cancelled) | who wants it | joining what is over; cancelling what is wanted |
//! | `withdraw` | owners - 1 (the last: Idle or Waiting → Idle, else → Cancelled) | who wants what can be admitted again | running what nobody wants |
//! | `raise` | a more urgent priority | who wants it sooner | – |
//!
//! Who wins the edge into Done, Failed, Cancelled, Superseded or Shutdown, and nobody else, seals the list of waiters. Who
//! kills a flight that nobody has claimed owns what was to be executed; if it was claimed the claimer owns it still.
//! Counts never wrap: a gate or an owner too many is refused, typed.

#![forbid(unsafe_code)]

use super::phase::{Admitted, Killed, Left, Outcome, PHASE, Phase, Refused, Suspended};
use crate::runtime::Priority;
use crate::sync::atomic::{AtomicU64, Ordering, load_for_cas};
use crate::sync::mutant;

const PRIORITY_SHIFT: u32 = 4;
const PRIORITY: u64 = 0b11 << PRIORITY_SHIFT;
const WATCHED: u64 = 1 << 6;
const NOTIFIED: u64 = 1 << 7;
const LISTED: u64 = 1 << 8;
const GATE_SHIFT: u32 = 12;
#[cfg(test)]
const GATE: u64 = 1 << GATE_SHIFT;
const GATES_MAX: u64 = (1 << 24) - 1;
const OWNER_SHIFT: u32 = 36;
const OWNER: u64 = 1 << OWNER_SHIFT;
const OWNERS_MAX: u64 = (1 << 28) - 1;

/// The state of one flight, in one atomic word.
#[derive(Debug)]
pub(crate) struct StateWord(AtomicU64);

/// What a transition does with the word that it saw: the next word, or why not.
type Step<E> = Result<u64, E>;

fn with_phase(word: u64, phase: Phase) -> u64 {
    (word & !PHASE) | phase as u64
}

fn gates(word: u64) -> u64 {
    (word >> GATE_SHIFT) & GATES_MAX
}

fn owners(word: u64) -> u64 {
    word >> OWNER_SHIFT
}

impl StateWord {
    /// Idle, without owners, gates or urgency.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Phase::Idle as u64 | (Priority::Maintenance as u64) << PRIORITY_SHIFT))
    }

    /// Waiting from the start, with one owner: a flight that is admitted in the same breath in which it is made.
    #[inline]
    pub(crate) fn admitted(priority: Priority) -> Self {
        Self(AtomicU64::new(OWNER | Phase::Waiting as u64 | (priority as u64) << PRIORITY_SHIFT))
    }

    /// The same, with an entry in the list of waiters if `listed`.
    #[inline]
    pub(crate) fn with_list(self, listed: bool) -> Self {
        Self(AtomicU64::new(self.0.into_inner() | if listed { LISTED } else { 0 }))
    }

    /// Idle, with one owner who wants it at `priority`: to be admitted once something else is over.
    #[inline]
    pub(crate) fn wanted(priority: Priority) -> Self {
        Self(AtomicU64::new(OWNER | Phase::Idle as u64 | (priority as u64) << PRIORITY_SHIFT))
    }

    /// The one compare-and-swap loop: applies `step` to the current word until it holds, and returns the word it replaced.
    #[inline]
    fn update<E>(&self, mut step: impl FnMut(u64) -> Step<E>) -> Result<u64, E> {
        // ordering: Acquire, also on failure: who learns here that the flight is over, or wins it from another, sees what
        // the last transition published. AcqRel: our edge publishes what we wrote before it, to the next who wins one.
        let mut seen = load_for_cas(&self.0, Ordering::Acquire);
        loop {
            let next = step(seen)?;
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(seen),
                Err(now) => seen = now,
            }
        }
    }

    #[inline]
    fn load(&self) -> u64 {
        // ordering: pairs with `finish`, `complete` and `kill` in AcqRel. If the edge came first, its result is visible; else
        // the flight is not over, and whoever waits has registered or will ask again.
        self.0.load(Ordering::Acquire)
    }

    /// Where the flight stands.
    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        Phase::of(self.load())
    }

    /// The most urgent wish so far.
    #[inline]
    pub(crate) fn priority(&self) -> Priority {
        urgency(self.load())
    }

    /// Gates that are left.
    #[cfg(test)]
    pub(crate) fn gates(&self) -> u32 {
        gates(self.load()) as u32
    }

    /// How many want it.
    #[cfg(test)]
    pub(crate) fn owners(&self) -> u32 {
        owners(self.load()) as u32
    }

    /// Idle → Waiting at `priority`, or at a more urgent one that it was raised to. `Err` if it was admitted already.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    #[inline]
    pub(crate) fn admit(&self, priority: Priority) -> Result<Admitted, Phase> {
        let before = self.update(|word| match Phase::of(word) {
            Phase::Idle => Ok(with_urgency(with_phase(word, Phase::Waiting), priority)),
            other => Err(other),
        })?;
        self.nudge_if_watched(before);
        Ok(if gates(before) == 0 { Admitted::Ready } else { Admitted::Gated })
    }

    /// One more thing must happen before it may be claimed. To be called *before* the registration that will release it.
    #[cfg(test)] // No part gates its flights yet: the protocol is here and tried, so that the word need not change when one does.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn add_gate(&self) -> Result<(), Refused> {
        let before = self.update(|word| match Phase::of(word) {
            Phase::Idle | Phase::Waiting if gates(word) == GATES_MAX => Err(Refused::Full),
            Phase::Idle | Phase::Waiting => Ok(word + GATE),
            other => Err(Refused::Phase(other)),
        })?;
        self.nudge_if_watched(before);
        Ok(())
    }

    /// One of those things has happened. True if that made the flight ready: the caller must push a ticket for it.
    #[cfg(test)] // No part gates its flights yet: the protocol is here and tried, so that the word need not change when one does.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn release_gate(&self) -> bool {
        // ordering: AcqRel. Pairs with the claim: what a gate recorded before it was released (a failure, say) is visible to
        // the claimer, since the chain of read-modify-writes ends in its compare-and-swap.
        let before = self.0.fetch_sub(GATE, Ordering::AcqRel);
        debug_assert!(gates(before) > 0, "a gate is released once");
        self.nudge_if_watched(before);
        gates(before) == 1 && Phase::of(before) == Phase::Waiting
    }

    /// As [`release_gate`](Self::release_gate), but says whether that would nudge a waiting worker.
    #[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
    pub(crate) fn release_gate_watched(&self) -> bool {
        let before = self.0.fetch_sub(GATE, Ordering::AcqRel);
        before & WATCHED != 0
    }

    /// Records a failure and then releases the gate, in this order: the claimer sees it.
    #[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
    pub(crate) fn release_failed_gate(&self, record: impl FnOnce()) -> bool {
        if mutant("flight.failure_after_drop") {
            let ready = self.release_gate();
            record();
            return ready;
        }
        record();
        self.release_gate()
    }

    /// Ready or Woken → Claimed: exactly one caller executes it. `Err` says where it stands instead (Waiting: gates are left).
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn claim(&self) -> Result<(), Phase> {
        self.update(|word| {
            if is_claimable(word) { Ok(with_phase(word & !NOTIFIED, Phase::Claimed)) } else { Err(Phase::of(word)) }
        })
        .map(drop)
    }

    /// As [`claim`](Self::claim), for work that can be admitted again: what is ready and wanted by nobody goes back to idle in
    /// the same step, and is not claimed.
    #[inline]
    pub(crate) fn claim_wanted(&self) -> Result<(), Phase> {
        let before = self.update(|word| match Phase::of(word) {
            _ if !is_claimable(word) => Err(Phase::of(word)),
            _ if owners(word) > 0 || mutant("flight.claims_unwanted") => {
                Ok(with_phase(word & !NOTIFIED, Phase::Claimed))
            }
            _ => Ok(with_phase(word, Phase::Idle) | PRIORITY),
        })?;
        if owners(before) > 0 || mutant("flight.claims_unwanted") { Ok(()) } else { Err(Phase::Idle) }
    }

    /// Claimed → Idle, for a claimer that has not started, since its gate has closed again. Who waits for it looks again: what it
    /// is held up by now may be free.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn unclaim(&self) -> Result<(), Phase> {
        let before = self.update(|word| match Phase::of(word) {
            Phase::Claimed => Ok(with_phase(word, Phase::Idle)),
            other => Err(other),
        })?;
        self.nudge_if_watched(before);
        Ok(())
    }

    /// Claimed → Suspended, or → Woken if a wake came while it was polled. Who waits for it looks again: what it awaits now may be
    /// free.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn suspend(&self) -> Suspended {
        let suspended = self.put_back();
        if let Suspended::Asleep = suspended {
            self.nudge_if_watched(self.load());
        }
        suspended
    }

    /// The same after a mere look ([`inspect`](Self::inspect)): nothing is new.
    pub(crate) fn put_back(&self) -> Suspended {
        let before = self.update(|word| match Phase::of(word) {
            Phase::Claimed if word & NOTIFIED != 0 => Ok(with_phase(word & !NOTIFIED, Phase::Woken)),
            Phase::Claimed => Ok(with_phase(word, Phase::Suspended)),
            other => Err(other),
        });
        match before {
            Ok(word) if word & NOTIFIED != 0 => {
                self.nudge_if_watched(word);
                Suspended::Again
            }
            Ok(_) => Suspended::Asleep,
            Err(phase) => Suspended::Over(phase),
        }
    }

    /// Suspended → Claimed, to look at what a sleeping future awaits without polling it; `put_back` ends the look. False if it does
    /// not sleep.
    pub(crate) fn inspect(&self) -> bool {
        self.update(|word| match Phase::of(word) {
            Phase::Suspended => Ok(with_phase(word & !NOTIFIED, Phase::Claimed)),
            _ => Err(()),
        })
        .is_ok()
    }

    /// Wakes a future. True if it slept: the caller must push a ticket for it.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn wake(&self) -> bool {
        let before = self.update(|word| match Phase::of(word) {
            Phase::Suspended => Ok(with_phase(word, Phase::Woken)),
            Phase::Claimed if word & NOTIFIED == 0 && !mutant("flight.wake_lost_while_running") => Ok(word | NOTIFIED),
            _ => Err(()),
        });
        match before {
            Ok(word) if Phase::of(word) == Phase::Suspended => {
                self.nudge_if_watched(word);
                true
            }
            _ => false,
        }
    }

    /// Anything that is not over → Sealed: the right to write the result, which one caller gets. `Ok` holds the phase it
    /// stood in.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    #[inline]
    pub(crate) fn seal(&self) -> Result<Phase, Phase> {
        if mutant("flight.seal_by_store") {
            let word = self.load();
            if over_or_sealed(word) {
                return Err(Phase::of(word));
            }
            self.0.swap(with_phase(word, Phase::Sealed), Ordering::AcqRel);
            return Ok(Phase::of(word));
        }
        self.end(Phase::Sealed).map(Phase::of)
    }

    /// Sealed → Done or Failed, for the one that sealed, once the result is written.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    #[inline]
    pub(crate) fn finish(&self, outcome: Outcome) {
        let step = outcome.phase() as u64 - Phase::Sealed as u64;
        // ordering: AcqRel publishes the result to whoever reads the phase with Acquire.
        let before = self.0.fetch_add(step, Ordering::AcqRel);
        debug_assert_eq!(Phase::of(before), Phase::Sealed, "only who sealed finishes");
    }

    /// Claimed → Done or Failed in one step, for a claimer who alone may write the result and has written it. `Err` says how
    /// the flight was ended meanwhile: the result is the claimer's to take back.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn complete(&self, outcome: Outcome) -> Result<(), Phase> {
        self.update(|word| match Phase::of(word) {
            Phase::Claimed => Ok(with_phase(word, outcome.phase())),
            other => Err(other),
        })
        .map(drop)
    }

    /// Anything that is not over or sealed → over without a result. `Ok` holds the phase it stood in: if that
    /// [is unclaimed](Phase::is_unclaimed) the caller owns what was to be executed.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn kill(&self, how: Killed) -> Result<Phase, Phase> {
        self.end(how.phase()).map(Phase::of)
    }

    /// As [`kill`](Self::kill), and tells in the same step whether anybody owned it.
    #[inline]
    pub(crate) fn kill_wanted(&self, how: Killed) -> Result<(Phase, bool), Phase> {
        self.end(how.phase()).map(|before| (Phase::of(before), owners(before) > 0))
    }

    /// Whether nobody owns it.
    #[inline]
    pub(crate) fn is_unwanted(&self) -> bool {
        owners(self.load()) == 0
    }

    /// Whether somebody wants it and it is not over.
    pub(crate) fn is_awaited(&self) -> bool {
        let word = self.load();
        owners(word) > 0 && !Phase::of(word).is_terminal()
    }

    #[inline]
    fn end(&self, to: Phase) -> Result<u64, Phase> {
        self.update(|word| if over_or_sealed(word) { Err(Phase::of(word)) } else { Ok(with_phase(word, to)) })
    }

    /// One more wants it, unless it is over, and is about to hang a waiter in its list if `listed`. Whether nobody wanted it before.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    #[inline]
    pub(crate) fn join_anew(&self, listed: bool) -> Result<bool, Refused> {
        let mark = if listed { LISTED } else { 0 };
        self.update(|word| match Phase::of(word) {
            phase if phase.is_terminal() => Err(Refused::Phase(phase)),
            _ if owners(word) == OWNERS_MAX => Err(Refused::Full),
            _ => Ok((word + OWNER) | mark),
        })
        .map(|before| owners(before) == 0)
    }

    /// Whether anybody ever hung a waiter in its list, or is about to. Of what is over: nobody will from then on.
    #[inline]
    pub(crate) fn is_listed(&self) -> bool {
        self.load() & LISTED != 0
    }

    /// As [`join_anew`](Self::join_anew), for who does not ask.
    #[cfg(test)]
    pub(crate) fn join(&self) -> Result<(), Refused> {
        self.join_anew(false).map(drop)
    }

    /// One wants it no more. The last one out cancels in the same step; but what was never admitted has nothing to cancel, and
    /// stays idle for the next who wants it.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn leave(&self) -> Left {
        if mutant("flight.leave_then_kill") {
            let before = self.0.fetch_sub(OWNER, Ordering::AcqRel);
            return match owners(before) {
                1 => self.kill(Killed::Cancelled).map_or_else(Left::TooLate, Left::Last),
                _ => Left::StillWanted,
            };
        }
        let before = self.update(|word| {
            if over_or_sealed(word) {
                return Err(Phase::of(word));
            }
            debug_assert!(owners(word) > 0, "an owner leaves once");
            let last = owners(word) == 1 && Phase::of(word) != Phase::Idle;
            Ok(if last { with_phase(word - OWNER, Phase::Cancelled) } else { word - OWNER })
        });
        match before {
            Ok(word) if owners(word) == 1 && Phase::of(word) == Phase::Idle => Left::Unstarted,
            Ok(word) if owners(word) == 1 => Left::Last(Phase::of(word)),
            Ok(_) => Left::StillWanted,
            Err(phase) => Left::TooLate(phase),
        }
    }

    /// As [`leave`](Self::leave), for work that can be admitted again: if nobody has claimed it, the last one out puts it back
    /// to idle, as urgent as if it had never been asked for.
    pub(crate) fn withdraw(&self) -> Left {
        if mutant("flight.withdraw_without_look") {
            let before = self.0.fetch_sub(OWNER, Ordering::AcqRel);
            if owners(before) == 1 {
                let _ = self.update(|word| Ok::<_, ()>(with_phase(word, Phase::Idle)));
            }
            return Left::Unstarted;
        }
        let before = self.update(|word| {
            if over_or_sealed(word) {
                return Err(Phase::of(word));
            }
            debug_assert!(owners(word) > 0, "an owner leaves once");
            Ok(match Phase::of(word) {
                _ if owners(word) > 1 => word - OWNER,
                Phase::Idle | Phase::Waiting => with_phase(word - OWNER, Phase::Idle) | PRIORITY,
                _ => with_phase(word - OWNER, Phase::Cancelled),
            })
        });
        match before {
            Ok(word) if owners(word) > 1 => Left::StillWanted,
            Ok(word) if matches!(Phase::of(word), Phase::Idle | Phase::Waiting) => Left::Unstarted,
            Ok(word) => Left::Last(Phase::of(word)),
            Err(phase) => Left::TooLate(phase),
        }
    }

    /// Makes it as urgent as `priority`. `Some(old)` if that is more urgent than it was: the caller must push a ticket at the
    /// new priority if the flight is ready.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    #[inline]
    pub(crate) fn raise(&self, priority: Priority) -> Option<Priority> {
        let before = self.update(|word| {
            let next = with_urgency(word, priority);
            if Phase::of(word).is_terminal() || next == word { Err(()) } else { Ok(next) }
        });
        before.ok().map(urgency)
    }

    /// Asks to be nudged when something moves. True if it can be claimed now, so that there is no need to wait for a nudge.
    ///
    /// The nudge cannot be missed: this flag and what it watches stand in one word.
    pub(crate) fn watch(&self) -> bool {
        is_claimable(self.0.fetch_or(WATCHED, Ordering::AcqRel))
    }

    #[inline]
    fn nudge_if_watched(&self, before: u64) {
        if before & WATCHED != 0 {
            super::waits::nudge();
        }
    }
}

#[inline]
fn is_claimable(word: u64) -> bool {
    match Phase::of(word) {
        Phase::Waiting => gates(word) == 0 || mutant("flight.claim_ignores_gates"),
        Phase::Woken => true,
        _ => false,
    }
}

#[inline]
fn over_or_sealed(word: u64) -> bool {
    word & PHASE >= Phase::Sealed as u64
}

#[inline]
fn urgency(word: u64) -> Priority {
    Priority::ALL[((word & PRIORITY) >> PRIORITY_SHIFT) as usize]
}

#[inline]
fn with_urgency(word: u64, priority: Priority) -> u64 {
    let urgency = ((word & PRIORITY) >> PRIORITY_SHIFT).min(priority as u64);
    (word & !PRIORITY) | urgency << PRIORITY_SHIFT
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests;
