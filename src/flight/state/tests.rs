//! Tests of the word's transitions, one by one.
//! They know nothing of threads: the models try those.
#![forbid(unsafe_code)]

use super::super::graph;
use super::super::parker::Parker;
use super::super::target::Running;
use super::*;
use crate::sync::Arc;
use std::time::Instant;

impl StateWord {
    /// A word in any state.
    fn with_counts(phase: Phase, gates: u64, owners: u64) -> Self {
        assert!(gates <= GATES_MAX && owners <= OWNERS_MAX);
        Self(AtomicU64::new(phase as u64 | gates << GATE_SHIFT | owners << OWNER_SHIFT))
    }

    /// Adds owners until no more can be counted. How many.
    pub(crate) fn crowd(&self) -> u64 {
        let before = self.update(|word| Ok::<_, ()>(word | OWNERS_MAX << OWNER_SHIFT));
        OWNERS_MAX - before.map_or(0, owners)
    }

    /// Takes added owners away.
    pub(crate) fn thin(&self, by: u64) {
        let _ = self.update(|word| Ok::<_, ()>(word - by * OWNER));
    }
}

#[test]
fn b107_a_gate_or_an_owner_too_many_is_refused_and_changes_nothing() {
    let word = StateWord::with_counts(Phase::Waiting, GATES_MAX, OWNERS_MAX);
    assert_eq!(word.add_gate(), Err(Refused::Full));
    assert_eq!(word.join(), Err(Refused::Full));
    assert_eq!((word.gates(), word.owners(), word.phase()), (GATES_MAX as u32, OWNERS_MAX as u32, Phase::Waiting));
    assert!(!word.release_gate());
    assert_eq!(word.leave(), Left::StillWanted);
    assert_eq!(word.add_gate(), Ok(()));
    assert_eq!(word.join(), Ok(()));
    assert_eq!((word.gates(), word.owners()), (GATES_MAX as u32, OWNERS_MAX as u32));
}

#[test]
fn the_last_gate_makes_it_ready_and_a_stale_ticket_is_refused() {
    let word = StateWord::new();
    word.add_gate().unwrap();
    assert_eq!(word.admit(Priority::Background), Ok(Admitted::Gated));
    word.add_gate().unwrap();
    assert_eq!(word.claim(), Err(Phase::Waiting));
    assert!(!word.release_gate());
    assert!(word.release_gate());
    assert_eq!(word.claim(), Ok(()));
    assert_eq!(word.claim(), Err(Phase::Claimed));
    assert_eq!(word.add_gate(), Err(Refused::Phase(Phase::Claimed)));
    assert_eq!(word.unclaim(), Ok(()));
    assert_eq!(word.admit(Priority::Background), Ok(Admitted::Ready));
    assert_eq!(word.claim(), Ok(()));
    assert_eq!(word.complete(Outcome::Done), Ok(()));
    assert_eq!(word.kill(Killed::Superseded), Err(Phase::Done));
    assert_eq!(word.join(), Err(Refused::Phase(Phase::Done)));
}

#[test]
fn the_most_urgent_wish_holds() {
    let word = StateWord::new();
    assert_eq!(word.raise(Priority::Background), Some(Priority::Maintenance));
    word.admit(Priority::Maintenance).unwrap();
    assert_eq!(word.priority(), Priority::Background);
    assert_eq!(word.raise(Priority::Background), None);
    assert_eq!(word.raise(Priority::Critical), Some(Priority::Background));
    word.kill(Killed::Cancelled).unwrap();
    assert_eq!(word.raise(Priority::Critical), None);
}

#[test]
fn a_wake_while_it_is_polled_is_kept() {
    let word = StateWord::admitted(Priority::Interactive);
    assert!(!word.wake(), "what was never polled needs no wake");
    word.claim().unwrap();
    assert!(!word.wake());
    assert_eq!(word.suspend(), Suspended::Again);
    word.claim().unwrap();
    assert_eq!(word.suspend(), Suspended::Asleep);
    assert!(word.wake());
    assert!(!word.wake());
    assert_eq!(word.kill(Killed::Cancelled), Ok(Phase::Woken));
    assert!(!word.wake());
}

#[test]
fn who_watches_what_is_claimed_looks_again_when_the_claim_goes_back() {
    let (word, parker) = (StateWord::admitted(Priority::Interactive), Parker::mine());
    let graph = graph::global().expect("outside the models");
    let _entry = graph.enter(Vec::new(), Arc::new(Running::new(0)), parker.waker());
    word.claim().unwrap();
    assert!(!word.watch(), "somebody else has it");
    // A nudge from a test beside this one would do as well, so what is sure is that there is one.
    word.unclaim().unwrap();
    assert!(parker.park_until(Some(Instant::now())), "it would sleep although its blockers may be free");
}
