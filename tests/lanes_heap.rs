//! Heap per idle actor, the key and the context apart. One test alone stands here, since it counts all threads.

use shardrun::{LaneKind, Lanes, LanesConfig, Runtime};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

struct Counting;

static LIVE: AtomicI64 = AtomicI64::new(0);

// SAFETY: every call is handed to the system's allocator unchanged; counting touches only a static.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller keeps GlobalAlloc's contract, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
    for key in (0..ACTORS).step_by(100) {
        assert_eq!(lanes.submit(&key, lanes.job(LaneKind::Mutating, |_| ())).wait(), Ok(()));
    }
    let each = (LIVE.load(Ordering::SeqCst) - before) / ACTORS as i64 - size_of::<u64>() as i64;
    assert!(each <= 256, "{each} bytes");
    eprintln!("{each} bytes an idle actor");
}
