//! A small runtime, and a gate that holds one of its workers for as long as a test wants.

use shardrun::Runtime;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// What has not come after this long never will.
pub(crate) const SOON: Duration = Duration::from_secs(300);

/// A runtime of `workers` and one I/O thread.
pub(crate) fn small(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).io_threads(1).build().expect("a small runtime starts")
}

/// Occupies a worker until the sender is dropped.
pub(crate) fn gate(runtime: &Runtime) -> Sender<()> {
    let (open, closed) = channel::<()>();
    let (entered, inside) = channel();
    runtime
        .execute(move || {
            entered.send(()).unwrap();
            let _ = closed.recv();
        })
        .unwrap();
    inside.recv_timeout(SOON).expect("the gate is entered");
    open
}
