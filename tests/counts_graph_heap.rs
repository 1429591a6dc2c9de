//! Heap per task of a graph at its highest: from the first word of the plan to the end of its run.
//! It does not count what the allocator keeps beside its blocks. One test alone stands here, since it counts all threads.

use shardrun::{CountedRun, Driver, Plan, Run, Runtime};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

struct Counting;

static LIVE: AtomicI64 = AtomicI64::new(0);
static MOST: AtomicI64 = AtomicI64::new(0);

// SAFETY: every call is handed to the system's allocator unchanged; counting touches only statics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed) + layout.size() as i64;
        MOST.fetch_max(live, Ordering::Relaxed);
        // SAFETY: as above.
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

const TASKS: usize = 100_000;

/// Each task after three others.
fn plan() -> Plan {
    let mut plan = Plan::builder();
    let mut first = [plan.task("").id(), plan.task("").id(), plan.task("").id()];
    for task in 3..TASKS {
        first[task % 3] = plan.task("").after_all(first).id();
    }
    plan.build().unwrap()
}

/// The most live bytes per task while `work` goes on.
fn most(work: impl FnOnce()) -> f64 {
    let before = LIVE.load(Ordering::SeqCst);
    MOST.store(before, Ordering::SeqCst);
    work();
    (MOST.load(Ordering::SeqCst) - before) as f64 / TASKS as f64
}

#[test]
fn a_task_with_three_dependencies_takes_at_most_200_bytes_plan_and_run() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let counted = most(|| {
        let mut run = CountedRun::new(plan()).unwrap().start(&runtime, |_| ());
        runtime.drive_all();
        assert!(run.try_get().unwrap().unwrap().is_success());
    });
    let decided = most(|| {
        let mut run = Run::<()>::new(plan()).timed(true).start(&runtime, |_| ());
        runtime.drive_all();
        assert!(run.try_get().unwrap().unwrap().is_success());
    });
    println!("{counted:.1} and {decided:.1} bytes a task");
    assert!(counted <= 100.0, "counted: {counted} bytes a task");
    assert!(decided <= 200.0, "decided: {decided} bytes a task");
}
