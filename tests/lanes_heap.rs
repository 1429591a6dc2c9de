//! Heap per idle actor, the key and the context apart. One test alone stands here, since it counts all threads.

use shardrun::{LaneKind, Lanes, LanesConfig, Runtime};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[path = "support/live_bytes.rs"]
mod live_bytes;

use live_bytes::LIVE;

#[test]
fn an_idle_actor_costs_at_most_256_bytes_also_after_it_was_busy() {
    const ACTORS: u64 = 50_000;
    let runtime = Runtime::builder().workers(1).io_threads(1).build().unwrap();
    let lanes: Lanes<u64, ()> = Lanes::new(&runtime, LanesConfig::preset(2, 1, 1, 1)).unwrap();
    let context = Arc::new(());
    let before = LIVE.load(Ordering::SeqCst);
    for key in 0..ACTORS {
        assert!(lanes.register(key, context.clone()));
    }
    let ask = |key| assert_eq!(lanes.submit(&key, lanes.job(LaneKind::Mutating, |_| ())).wait(), Ok(()));
    (0..ACTORS).step_by(100).for_each(ask);
    let each = || (LIVE.load(Ordering::SeqCst) - before) / ACTORS as i64 - size_of::<u64>() as i64;
    // A thread that the machine holds up in the middle of something keeps meanwhile what others have let go of.
    let begun = Instant::now();
    while each() > 256 && begun.elapsed() < Duration::from_secs(120) {
        ask(0);
    }
    assert!(each() <= 256, "{} bytes", each());
    eprintln!("{} bytes an idle actor", each());
}
