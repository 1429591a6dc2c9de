//! Heap per idle file with Source only, the host's data apart, whatever the number of workers.
//! It does not count what the allocator keeps beside its blocks. One test alone stands here, since it counts all threads.

use shardrun::{Host, Pool, Request, Runtime, StageCx, Stages};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[path = "support/live_bytes.rs"]
mod live_bytes;
#[path = "support/plain_host.rs"]
mod plain_host;

use live_bytes::LIVE;
use plain_host::Plain;

/// Bytes of a file.
const MOST: f64 = 400.0;

fn ask(scheduler: &Stages<Plain<u64>>, files: std::ops::Range<u64>) {
    for file in files {
        scheduler.submit_request(Request::source(file)).wait().expect("the stage does not fail");
    }
}

fn bytes_per_file(workers: usize) -> f64 {
    // Many, beside what each worker keeps for its queues, which is no file's.
    const FILES: u64 = 100_000;
    let runtime = Runtime::builder().workers(workers).build().expect("the runtime starts");
    let scheduler = Stages::new(&runtime, Plain::new());
    ask(&scheduler, 0..1);
    let before = LIVE.load(Ordering::SeqCst);
    ask(&scheduler, 1..FILES + 1);
    // What waits for an epoch is not what a file costs: a little more work moves the epoch on.
    (0..200).for_each(|_| ask(&scheduler, 0..1));
    let each = || (LIVE.load(Ordering::SeqCst) - before) as f64 / FILES as f64;
    // A worker that the machine holds up in the middle of something keeps it meanwhile.
    let begun = Instant::now();
    while each() >= MOST && begun.elapsed() < Duration::from_secs(120) {
        ask(&scheduler, 0..1);
        std::thread::yield_now();
    }
    each()
}

#[test]
fn an_idle_file_with_source_takes_at_most_400_bytes_whatever_the_number_of_workers() {
    let per_file = [1, 2, 16].map(bytes_per_file);
    println!("bytes per file with 1, 2 and 16 workers: {per_file:.1?}");
    assert!(per_file.iter().all(|bytes| (100.0..MOST).contains(bytes)), "{per_file:?}");
}
