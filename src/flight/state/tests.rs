//! Tests of the word's transitions, one by one.
//! They know nothing of threads: the models try those.
#![forbid(unsafe_code)]

use super::*;

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
    assert_eq!(word.unclaim(true), Ok(()));
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
