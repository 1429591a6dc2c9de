//! Times without end and threads of the runtime that end it: no sum of times overflows, and nobody joins itself.

use shardrun::{Driver, JobError, Runtime};
use std::cell::RefCell;
use std::sync::mpsc::channel;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(300);

#[test]
fn b107_limits_without_end_are_no_limits() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    assert_eq!(runtime.spawn(|| 1).wait_timeout(Duration::MAX), Some(Ok(1)));
    let never = runtime.after(Duration::MAX, || unreachable!("it is never reached"));
    drop(never.unwrap());
    assert_eq!(runtime.shutdown_within(Duration::MAX).running, 0);
}

#[test]
fn b107_limits_without_end_on_a_virtual_clock() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    runtime.advance(Duration::from_secs(1));
    assert_eq!(runtime.spawn(|| 1).wait_timeout(Duration::MAX), Some(Ok(1)));
    let mut stalled = runtime.spawn_future(std::future::pending::<()>());
    assert_eq!(stalled.wait_timeout(Duration::MAX), None);
    let (sender, receiver) = channel();
    drop(runtime.after(Duration::MAX, move || sender.send(()).unwrap()).unwrap());
    runtime.advance(Duration::MAX);
    runtime.advance(Duration::MAX);
    runtime.drive_all();
    assert!(receiver.try_recv().is_err(), "what lies beyond the clock's end is never reached");
}

thread_local! {
    static KEPT: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

#[test]
fn b34_the_last_handle_in_a_workers_thread_local_ends_the_runtime() {
    for _ in 0..200 {
        let runtime = Runtime::builder().workers(2).io_threads(0).build().unwrap();
        let (kept, keeps) = channel();
        let (go, wait) = channel::<()>();
        let inner = runtime.clone();
        runtime
            .execute(move || {
                KEPT.with(|cell| *cell.borrow_mut() = Some(inner));
                kept.send(()).unwrap();
                let _ = wait.recv_timeout(SOON);
            })
            .unwrap();
        keeps.recv_timeout(SOON).unwrap();
        runtime.shutdown_within(Duration::ZERO);
        let late = runtime.spawn(|| ());
        drop(runtime);
        drop(go);
        assert_eq!(late.wait(), Err(JobError::Shutdown));
    }
}
