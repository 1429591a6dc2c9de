//! What a snapshot of a runtime's counters tells of the work that waits.

#[path = "support/gate.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod gate;

use gate::{SOON, gate};
use shardrun::{Driver, Place, Priority, Runtime, VirtualClock};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

const INTERACTIVE: usize = 1;
const BACKGROUND: usize = 2;
const MAINTENANCE: usize = 3;

fn waiting(runtime: &Runtime) -> [Option<u64>; 4] {
    runtime.counters().oldest_waiting.map(|age| age.map(|age| age.as_secs()))
}

fn push(runtime: &Runtime, priority: Priority, count: usize) {
    (0..count).for_each(|_| runtime.execute_on(priority, || {}).unwrap());
}

#[test]
fn the_oldest_job_of_each_priority_ages_on_the_virtual_clock_from_the_first_look_on() {
    for driver in [Driver::Inline, Driver::Seeded { seed: 7 }] {
        let runtime = Runtime::builder().driver(driver).build().unwrap();
        assert_eq!(waiting(&runtime), [None; 4]);
        push(&runtime, Priority::Background, 2);
        push(&runtime, Priority::Maintenance, 1);
        assert_eq!(waiting(&runtime), [None, None, Some(0), Some(0)]);
        assert!(runtime.advance(Duration::from_secs(5)));
        push(&runtime, Priority::Background, 2);
        assert_eq!(waiting(&runtime), [None, None, Some(5), Some(5)]);
        assert!(runtime.advance(Duration::from_secs(2)));
        // All but two of the Background jobs run, and perhaps the Maintenance job.
        while runtime.counters().queued[BACKGROUND] > 2 {
            assert!(runtime.drive_one());
        }
        assert_eq!(waiting(&runtime)[BACKGROUND], Some(2), "those seen first have gone");
        runtime.drive_all();
        assert_eq!(waiting(&runtime), [None; 4]);
    }
}

#[test]
fn each_worker_tells_the_age_of_what_waits_in_its_own_queues_and_the_runtime_of_all() {
    let clock = Arc::new(VirtualClock::new());
    let runtime = Runtime::builder().workers(1).io_threads(0).clock(clock).build().unwrap();
    let of_worker = |runtime: &Runtime| runtime.counters().workers[0].oldest_waiting;
    let ((entered, inside), (open, closed)) = (channel(), channel::<()>());
    let own = runtime.clone();
    runtime
        .execute(move || {
            push(&own, Priority::Background, 3);
            entered.send(()).unwrap();
            let _ = closed.recv();
        })
        .unwrap();
    inside.recv_timeout(SOON).unwrap();
    assert_eq!(waiting(&runtime), [None, None, Some(0), None]);
    assert!(runtime.advance(Duration::from_secs(3)));
    push(&runtime, Priority::Maintenance, 1);
    assert_eq!(waiting(&runtime), [None, None, Some(3), Some(0)]);
    assert!(runtime.advance(Duration::from_secs(4)));
    assert_eq!(of_worker(&runtime), [None, None, Some(Duration::from_secs(7)), None], "the other one is nobody's yet");
    assert_eq!(waiting(&runtime)[MAINTENANCE], Some(4));
    drop(open);
    let (done, finished) = channel();
    runtime.execute_on(Priority::Maintenance, move || done.send(()).unwrap()).unwrap();
    finished.recv_timeout(SOON).unwrap();
    assert_eq!(waiting(&runtime), [None; 4]);
}

#[test]
fn what_a_worker_has_brought_along_ages_with_it() {
    let runtime = Runtime::builder().workers(1).io_threads(0).clock(Arc::new(VirtualClock::new())).build().unwrap();
    let first = gate(&runtime);
    let ((entered, inside), (open, closed)) = (channel(), channel::<()>());
    runtime
        .execute(move || {
            entered.send(()).unwrap();
            let _ = closed.recv();
        })
        .unwrap();
    push(&runtime, Priority::Interactive, 20);
    assert_eq!(waiting(&runtime)[INTERACTIVE], Some(0));
    drop(first);
    inside.recv_timeout(SOON).unwrap();
    let brought = |runtime: &Runtime| runtime.counters().workers[0].oldest_waiting[INTERACTIVE];
    assert_eq!(brought(&runtime), Some(Duration::ZERO), "some came along with the one that runs");
    assert!(runtime.advance(Duration::from_secs(6)));
    assert_eq!(brought(&runtime), Some(Duration::from_secs(6)));
    drop(open);
    let (done, finished) = channel();
    runtime.execute_batch(Place::default(), [move || done.send(()).unwrap()]).unwrap();
    finished.recv_timeout(SOON).unwrap();
    assert_eq!((brought(&runtime), waiting(&runtime)), (None, [None; 4]));
}
