//! The hot paths under the real-time sanitizer: functions marked non-blocking that allocate, lock or make a system call end the
//! process with status 43. Compiled into the library's test target, with `--cfg shardrun_rtsan` alone.

use crate::admission::Budget;
use crate::flight::{Killed, Left, Outcome, Phase, StateWord, Suspended};
use crate::runtime::Priority;
use crate::stages::{Demand, Tickets, Wish};
use std::process::Command;

/// What the sanitizer exits with when it has found something.
const FOUND: i32 = 43;

#[test]
fn claim_seal_gates_owners_and_wakes_neither_lock_nor_allocate() {
    let word = StateWord::new();
    word.join().unwrap();
    word.join().unwrap();
    word.add_gate().unwrap();
    word.admit(Priority::Background).unwrap();
    assert!(word.raise(Priority::Critical).is_some());
    assert!(word.release_gate());
    word.claim().unwrap();
    assert!(!word.wake());
    assert_eq!(word.suspend(), Suspended::Again);
    word.claim().unwrap();
    assert_eq!(word.suspend(), Suspended::Asleep);
    assert!(word.wake());
    word.claim().unwrap();
    assert_eq!(word.leave(), Left::StillWanted);
    word.seal().unwrap();
    word.finish(Outcome::Done);
    assert_eq!(word.kill(Killed::Superseded), Err(Phase::Done));
}

#[test]
fn demand_tickets_and_budget_neither_lock_nor_allocate() {
    let demand = Demand::new(false);
    assert_eq!(demand.wish(), Wish::Counted);
    assert!(demand.source_done());
    assert_eq!(demand.wish(), Wish::Due);
    demand.withdraw();
    assert!(demand.retire());
    let tickets = Tickets::new(0);
    assert!(tickets.post(3));
    assert!(!tickets.post(3));
    let budget = Budget::new(100);
    // The first taking on a thread finds its stripe, which a thread does once.
    budget.take(1);
    budget.release(1);
    for _ in 0..200 {
        assert!(budget.take(1));
        budget.release(1);
    }
}

/// Allocates although it promises not to.
#[sanitize(realtime = "nonblocking")]
fn promises_too_much() -> Box<u64> {
    std::hint::black_box(Box::new(7))
}

#[test]
#[ignore = "ends the process: the next test runs it as a child"]
fn allocates_where_it_may_not() {
    promises_too_much();
}

#[test]
fn the_sanitizer_notices_an_allocation() {
    let exe = std::env::current_exe().expect("the test binary has a path");
    let child = Command::new(exe)
        .args(["--exact", "rtsan::allocates_where_it_may_not", "--ignored"])
        .output()
        .expect("the test binary starts");
    assert_eq!(child.status.code(), Some(FOUND), "{}", String::from_utf8_lossy(&child.stderr));
}
