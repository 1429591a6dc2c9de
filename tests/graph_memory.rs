//! What a run keeps in memory per task: bytes alive while it runs, with three dependencies a task.

use shardrun::{CountedRun, Driver, Plan, Run, Runtime, TaskId};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

struct Counting;

static ALIVE: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

fn count(bytes: isize) {
    let alive = ALIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(alive, Ordering::Relaxed);
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is the system's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that were alive during `f` beyond those before it.
fn most<R>(f: impl FnOnce() -> R) -> (R, isize) {
    let before = ALIVE.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let result = f();
    (result, MOST.load(Ordering::Relaxed) - before)
}

const TASKS: usize = 100_000;

fn plan() -> Arc<Plan> {
    let mut plan = Plan::builder();
    let mut ids: Vec<TaskId> = Vec::with_capacity(TASKS);
    for at in 0..TASKS {
        let deps = (1..=3).filter_map(|step| at.checked_sub(step * 37)).map(|dep| ids[dep]);
        ids.push(plan.task("").after_all(deps).id());
    }
    Arc::new(plan.build().unwrap())
}

#[test]
fn a_task_costs_at_most_200_bytes_ranked_and_decided() {
    let before = ALIVE.load(Ordering::Relaxed);
    let plan = plan();
    let kept = ALIVE.load(Ordering::Relaxed) - before;
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let (report, decided) = most(|| {
        let mut run = Run::<()>::new(plan.clone()).timed(true).start(&runtime, |_| ());
        runtime.drive_all();
        run.try_get().unwrap().unwrap()
    });
    assert!(report.is_success());
    drop(report);
    let (report, counted) = most(|| {
        let mut run = CountedRun::new(plan.clone()).unwrap().start(&runtime, |_| ());
        runtime.drive_all();
        run.try_get().unwrap().unwrap()
    });
    assert!(report.is_success());
    let each = |bytes: isize| bytes / TASKS as isize;
    println!("bytes a task: plan {}, decided run {}, counted run {}", each(kept), each(decided), each(counted));
    assert!(each(kept + decided) <= 200, "{} bytes a task", each(kept + decided));
    assert!(each(counted) <= 8, "{} bytes a task", each(counted));
}
