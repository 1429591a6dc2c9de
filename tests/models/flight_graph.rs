//! Models of the wait graph: of the threads that close a cycle exactly one gives up.

#![cfg(any(shardrun_loom, shardrun_shuttle))]

use super::check;
use crate::flight::{FlightRef, Running, WaitGraph};
use crate::sync::Arc;
use crate::sync::thread::spawn;
use std::task::Waker;

/// Each of `count` flights waits for the next, each on its own thread, and stays until all have looked; how many give up?
fn ring(count: usize) {
    let graph = Arc::new(WaitGraph::default());
    let flights: Vec<Arc<dyn FlightRef>> =
        (0..count).map(|number| Arc::new(Running::new(number as u64)) as Arc<dyn FlightRef>).collect();
    let wait = |at: usize| {
        let graph = graph.clone();
        let (me, next) = (flights[at].clone(), flights[(at + 1) % count].clone());
        move || {
            let path = vec![me.id()];
            let entry = graph.enter(path.clone(), next.clone(), Waker::noop().clone());
            let members = entry.cycle(&path, next.clone()).map_or(0, |members| members.len());
            // It waits on: its entry stands.
            std::mem::forget(entry);
            members
        }
    };
    let threads: Vec<_> = (1..count).map(|at| spawn(wait(at))).collect();
    let mut found = vec![wait(0)()];
    found.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
    let gave_up: Vec<_> = found.into_iter().filter(|members| *members > 0).collect();
    assert_eq!(gave_up, [count], "one gives up, and names all");
}

/// Two threads that wait for each other: exactly one gives up.
#[test]
fn of_two_that_wait_for_each_other_one_gives_up() {
    check(|| ring(2));
}

/// Three in a ring: exactly one gives up.
#[test]
fn of_three_in_a_ring_one_gives_up() {
    check(|| ring(3));
}
