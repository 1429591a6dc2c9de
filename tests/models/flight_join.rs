//! Models of a flight with many waiters: whoever joins is told exactly one outcome, however joiners, a publisher, one that ends
//! it and one that leaves meet.

#![cfg(any(shardrun_loom, shardrun_shuttle))]

use super::check;
use crate::flight::{Completion, First, Flight, Interrupt, JoinRefused, Killed, Told};
use crate::runtime::Priority;
use crate::sync::Arc;
use crate::sync::thread::spawn;

type Probe = Flight<u64, Interrupt>;
type Waiter = Completion<u64, Interrupt>;

/// Who had the flight made withdraws or looks while a result is published: he is told once, and told that it is over he finds the
/// outcome.
#[test]
fn the_first_waiter_withdraws_or_finds_the_outcome() {
    check(|| {
        let flight =
            Arc::new(Flight::<u64, Interrupt, First>::admitted(Priority::Interactive, None).with_first(First::waits()));
        let publisher = {
            let flight = flight.clone();
            spawn(move || flight.seal_and_publish(Ok(7)))
        };
        let early = flight.first().told();
        if early.is_some() {
            assert!(flight.outcome().is_some(), "told, so the outcome is there");
        }
        let withdrew = flight.first().withdraw().is_ok();
        if withdrew {
            flight.leave();
        }
        let published = publisher.join().unwrap();
        match early.or_else(|| flight.first().told()) {
            Some(Told::Over) => assert!(published && !withdrew && flight.outcome() == Some(Ok(7))),
            Some(Told::Withdrawn) => assert!(withdrew),
            None => panic!("nobody has told the first waiter"),
        }
    });
}

/// Joins; what is told later is looked at once everybody is done.
fn join(flight: &Probe) -> Option<Arc<Waiter>> {
    let waiter = Waiter::new();
    match flight.join(waiter.clone()) {
        Ok(()) => Some(waiter),
        Err(JoinRefused::Terminal(_)) => {
            assert!(flight.outcome().is_some(), "refused, so the outcome is there");
            None
        }
        Err(JoinRefused::Full) => panic!("two owners are not too many"),
    }
}

/// A publisher, one that supersedes, and two joiners: one outcome stands, and everybody is told that one.
#[test]
fn two_joiners_a_publisher_and_a_supersession() {
    check(|| {
        let flight = Arc::new(Probe::new());
        let joiner = || {
            let flight = flight.clone();
            spawn(move || join(&flight))
        };
        let joiners = [joiner(), joiner()];
        let publisher = {
            let flight = flight.clone();
            spawn(move || flight.seal_and_publish(Ok(7)))
        };
        let superseded = flight.kill(Killed::Superseded).is_ok();
        let published = publisher.join().unwrap();
        assert!(published != superseded, "exactly one ends it");
        let outcome = flight.outcome().expect("it is over");
        assert_eq!(outcome.is_ok(), published);
        for joiner in joiners {
            if let Some(waiter) = joiner.join().unwrap() {
                assert_eq!(waiter.told(), Some(outcome.clone()), "told what stands, once");
            }
        }
    });
}

/// A claimer who alone may publish does so in one step, beside one that supersedes and one that joins: one outcome stands, and who has
/// joined is told that one.
#[test]
fn a_claimer_alone_beside_a_supersession_and_a_joiner() {
    check(|| {
        let flight = Arc::new(Probe::admitted(Priority::Interactive, None));
        flight.word().claim().unwrap();
        let joiner = {
            let flight = flight.clone();
            spawn(move || join(&flight))
        };
        let claimer = {
            let flight = flight.clone();
            spawn(move || {
                // SAFETY: it was claimed above, and nobody else publishes.
                let published = unsafe { flight.complete(Ok(7)) };
                if published.is_ok() {
                    flight.deliver();
                }
                published
            })
        };
        let superseded = flight.kill(Killed::Superseded).is_ok();
        let published = claimer.join().unwrap();
        assert_eq!(published, if superseded { Err(Ok(7)) } else { Ok(()) }, "exactly one ends it");
        let outcome = flight.outcome().expect("it is over");
        assert_eq!(outcome, if superseded { Err(Interrupt::Superseded) } else { Ok(7) });
        if let Some(waiter) = joiner.join().unwrap() {
            assert_eq!(waiter.told(), Some(outcome), "told what stands, once");
        }
    });
}

/// Two owners leave while a third joins and a result is published: nobody who stayed is told that it was cancelled.
#[test]
fn two_leave_while_another_joins_and_a_result_comes() {
    check(|| {
        let flight = Arc::new(Probe::new());
        let (one, two) = (join(&flight).unwrap(), join(&flight).unwrap());
        let leaver = |waiter: Arc<Waiter>| {
            let flight = flight.clone();
            spawn(move || {
                // As a handle cancels: its own answer first, then it leaves.
                if waiter.resolve(Err(Interrupt::Cancelled)) {
                    flight.abandoned();
                    flight.leave();
                }
            })
        };
        let leavers = [leaver(one), leaver(two)];
        let publisher = {
            let flight = flight.clone();
            spawn(move || flight.seal_and_publish(Ok(7)))
        };
        let stays = join(&flight);
        let published = publisher.join().unwrap();
        for leaver in leavers {
            leaver.join().unwrap();
        }
        if let Some(waiter) = stays {
            assert!(published, "it had an owner who stayed, so nobody but the publisher could end it");
            assert_eq!(waiter.told(), Some(Ok(7)));
        }
    });
}
