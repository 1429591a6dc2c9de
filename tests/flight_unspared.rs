//! Waiting inside jobs where no spare takes a waiting thread's place. One test alone in its process: whatever moves in a process may
//! have those who wait in it look again.

use shardrun::{Place, Priority, Runtime};
use std::sync::mpsc::channel;
use std::thread::yield_now;

#[test]
fn b60_who_waits_without_a_spare_sleeps_and_does_not_keep_others_awake() {
    for waiting in [1, 2, 3] {
        let runtime = Runtime::builder().workers(waiting).io_threads(waiting).max_spares(0).build().unwrap();
        let (begin, begun) = channel();
        let mut waits = Vec::new();
        let mut gates = Vec::new();
        for _ in 0..waiting {
            let ((open, gate), begin) = (channel::<()>(), begin.clone());
            let reads = runtime.spawn_on(Place::io(Priority::Interactive), move || {
                begin.send(()).unwrap();
                let _ = gate.recv();
            });
            begun.recv().unwrap();
            gates.push(open);
            waits.push(runtime.spawn(move || reads.wait()));
        }
        // Each time a thread is about to sleep without a spare it says so here.
        let slept = || runtime.counters().spares_missing;
        while slept() < waiting as u64 {
            yield_now();
        }
        for _ in 0..500 {
            yield_now();
        }
        // Each has the others look once.
        let most = (waiting * waiting) as u64;
        assert!(slept() <= most, "{waiting} have slept {} times", slept());
        drop(gates);
        for wait in waits {
            assert_eq!(wait.wait(), Ok(Ok(())));
        }
    }
}
