//! Models of the budget: units that go back into reserves against those who begin to wait, and two who ask at once.

#![cfg(any(shardrun_loom, shardrun_shuttle))]

use super::check;
use crate::admission::Budget;
use crate::sync::thread::spawn;

/// Whoever waits in line gets the units that are given back, however two that give and two that begin to wait meet.
#[test]
fn two_give_back_while_two_begin_to_wait() {
    check(|| {
        let budget = Budget::with(4, None, 1);
        assert!(budget.take(4));
        let giver = || {
            let budget = budget.clone();
            spawn(move || budget.release(1))
        };
        let waiter = |budget: Budget| move || budget.stand_in_line(1);
        let givers = [giver(), giver()];
        let there = spawn(waiter(budget.clone()));
        let here = waiter(budget.clone())();
        for giver in givers {
            giver.join().unwrap();
        }
        let there = there.join().unwrap();
        for line in [&here, &there] {
            assert!(line.as_ref().is_none_or(|(grant, _)| grant.is_resolved()), "waits beside free units");
        }
        assert_eq!((budget.in_use(), budget.waiting()), (4, 0));
    });
}

/// Of two who ask for more than half one gets it, and nothing is lost, also while a third gives back.
#[test]
fn two_ask_for_more_than_half() {
    check(|| {
        let budget = Budget::with(4, None, 1);
        assert!(budget.take(1));
        let asker = |budget: Budget| {
            move || {
                let got = budget.take(3);
                assert!(budget.in_use() <= 4 || !got, "more than there is");
                got
            }
        };
        let there = spawn(asker(budget.clone()));
        let giver = spawn({
            let budget = budget.clone();
            move || budget.release(1)
        });
        let here = asker(budget.clone())();
        giver.join().unwrap();
        let there = there.join().unwrap();
        assert!(here != there, "exactly one: 3 are free all the time, and never 6");
        assert_eq!(budget.in_use(), 3);
    });
}

/// A waiter that leaves while it is granted neither keeps nor loses the units.
#[test]
fn leave_the_line_while_units_come_back() {
    check(|| {
        let budget = Budget::with(4, None, 1);
        assert!(budget.take(4));
        let giver = || {
            let budget = budget.clone();
            spawn(move || budget.release(1))
        };
        let givers = [giver(), giver()];
        let line = budget.stand_in_line(1);
        let second = budget.stand_in_line(1);
        let mine = match &line {
            None => true,
            Some((grant, place)) => !budget.leave_line(grant, place),
        };
        if mine {
            budget.release(1);
        }
        for giver in givers {
            giver.join().unwrap();
        }
        assert!(second.as_ref().is_none_or(|(grant, _)| grant.is_resolved()), "the next one moves up");
        assert_eq!((budget.in_use(), budget.waiting()), (3, 0));
    });
}
