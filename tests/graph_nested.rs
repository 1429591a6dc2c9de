//! Runs inside the tasks of runs: who waits for one inside a task comes to an end with it, or is told that it cannot.
//! It does not know what the tasks do.

use shardrun::{
    Budget, Caches, CountedReport, CountedRun, Driver, Handle, Interrupt, Plan, Retain, Run, RunError, RunHandle,
    Runtime, RuntimeBuilder, TaskCx, TaskFailure, TaskStatus,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What has not come after this long never will.
const SOON: Duration = Duration::from_secs(300);

/// Three tasks, of which the second comes after the others.
fn three() -> Plan {
    let mut plan = Plan::builder();
    let first = plan.task("first").id();
    let second = plan.task("second").after(first).id();
    plan.task("beside").id();
    plan.task("last").after(second);
    plan.build().unwrap()
}

type Depth = Result<usize, RunError>;

/// A run whose last task runs such a run in turn and waits for it, so many deep; every other one is counted. How deep it came, or
/// why no further.
fn nest(runtime: &Runtime, left: usize) -> Depth {
    if left == 0 {
        return Ok(0);
    }
    let (inner, (send, said)) = (runtime.clone(), channel());
    let send = Mutex::new(send);
    let last = move |plan_len: usize, at: usize| {
        if at + 1 == plan_len {
            let send: Sender<Depth> = send.lock().unwrap().clone();
            send.send(nest(&inner, left - 1)).unwrap();
        }
    };
    let plan = three();
    let (count, tasks) = (plan.len(), plan.tasks().collect::<Vec<_>>());
    let at = move |task| tasks.iter().position(|other| *other == task).unwrap();
    if left.is_multiple_of(2) {
        let run = CountedRun::new(plan).unwrap().start(runtime, move |task| last(count, at(task)));
        assert!(run.wait()?.is_success());
    } else {
        let run = Run::<()>::new(plan).start(runtime, move |cx| last(count, at(cx.task())));
        assert!(run.wait()?.is_success());
    }
    said.recv().unwrap().map(|depth| depth + 1)
}

/// Runs it on a thread of its own, and gives up if it never ends.
fn nested(runtime: RuntimeBuilder, depth: usize) -> Depth {
    let (send, said) = channel();
    let run = move || {
        let runtime = runtime.build().unwrap();
        send.send(nest(&runtime, depth)).unwrap();
    };
    let runs = std::thread::spawn(run);
    let said = said.recv_timeout(SOON).expect("it ends");
    runs.join().unwrap();
    said
}

#[test]
fn runs_in_runs_end_on_one_thread_with_and_without_spares_and_on_none() {
    for spares in [0, 1, 16] {
        for workers in [1, 2] {
            let runtime = || Runtime::builder().workers(workers).max_spares(spares);
            assert_eq!(nested(runtime().io_threads(0), 20), Ok(20), "{workers} workers, {spares} spares");
        }
    }
    assert_eq!(nested(Runtime::builder().driver(Driver::Inline), 20), Ok(20));
    for seed in 0..20 {
        assert_eq!(nested(Runtime::builder().driver(Driver::Seeded { seed }), 20), Ok(20), "seed {seed}");
    }
}

#[test]
fn runs_that_are_nested_deeper_than_a_stack_are_told_so() {
    let runtime = Runtime::builder().workers(1).io_threads(0).max_spares(0);
    assert_eq!(nested(runtime, 10_000), Err(RunError::Interrupted(Interrupt::TooDeep)));
}

#[test]
fn who_waits_for_a_run_inside_a_job_runs_its_tasks_and_nothing_else() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let (ran, strangers) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (runs, here, seen) = (ran.clone(), runtime.clone(), strangers.clone());
    let waits = runtime.spawn(move || {
        let run = Run::<()>::new(three()).start(&here, move |_| _ = runs.fetch_add(1, Ordering::SeqCst));
        run.wait().map(|report| report.is_success())
    });
    let stranger = runtime.spawn(move || seen.fetch_add(1, Ordering::SeqCst));
    assert!(runtime.drive_one());
    assert_eq!((ran.load(Ordering::SeqCst), strangers.load(Ordering::SeqCst)), (4, 0));
    assert_eq!(waits.wait(), Ok(Ok(true)));
    assert_eq!(stranger.wait(), Ok(0));
    runtime.drive_all();
}

#[test]
fn a_failure_in_a_run_inside_a_task_stays_in_it() {
    let runtime = Runtime::builder().workers(1).io_threads(0).max_spares(0).build().unwrap();
    let inner = runtime.clone();
    let mut outer = Plan::builder();
    let only = outer.task("only").id();
    let run = Run::<()>::new(outer.build().unwrap()).start(&runtime, move |_| {
        let plan = three();
        let first = plan.tasks().next().unwrap();
        let run = Run::<()>::new(plan)
            .start(&inner, move |cx| if cx.task() == first { Err(TaskFailure::user("no")) } else { Ok(()) });
        let report = run.wait().map_err(|error| TaskFailure::user(error.to_string()))?;
        assert_eq!(report.outcome(first).status(), TaskStatus::Failed);
        Ok::<(), TaskFailure>(())
    });
    let report = run.wait().unwrap();
    assert_eq!(report.outcome(only).status(), TaskStatus::Success);
}

#[test]
fn a_run_inside_a_task_that_nobody_waits_for_ends_by_itself_and_a_shutdown_drops_what_is_left() {
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).io_threads(0).max_spares(0).build().unwrap();
        let (inner, (send, said)) = (runtime.clone(), channel());
        let waits = runtime.spawn(move || {
            let send = Mutex::new(send);
            let run = Run::<()>::new(three()).start(&inner, move |_| send.lock().unwrap().send(()).unwrap());
            run.detach();
        });
        waits.wait().unwrap();
        for _ in 0..4 {
            said.recv_timeout(SOON).expect("each task runs");
        }
        // A run whose first task keeps the only worker until the end has been asked for.
        let (inner, (send, begun), (go, gate)) = (runtime.clone(), channel(), channel::<()>());
        let run = runtime.spawn(move || {
            let (send, gate) = (Mutex::new(send), Mutex::new(gate));
            Run::<()>::new(three()).start(&inner, move |_| {
                send.lock().unwrap().send(()).unwrap();
                _ = gate.lock().unwrap().recv();
            })
        });
        let run = run.wait().unwrap();
        begun.recv_timeout(SOON).expect("one task begins");
        let ends = std::thread::spawn(move || runtime.shutdown());
        drop(go);
        _ = ends.join().unwrap();
        let report = run.wait().unwrap();
        assert!(report.outcomes().all(|outcome| outcome.status() != TaskStatus::Failed));
    }
}

/// A plan of one task.
fn one() -> Plan {
    let mut plan = Plan::builder();
    plan.task("waits");
    plan.build().unwrap()
}

fn is_told(told: Result<Result<(), RunError>, std::sync::mpsc::RecvTimeoutError>) {
    let told = told.expect("it is told");
    assert!(matches!(told, Err(RunError::Interrupted(Interrupt::WouldDeadlock(_)))), "{told:?}");
}

#[test]
fn a_task_that_waits_for_its_own_run_is_told() {
    let runtime = Runtime::builder().workers(2).io_threads(0).build().unwrap();
    for asynchronous in [false, true] {
        let ((hand, handle), (send, told)) = (channel::<RunHandle>(), channel());
        let (handle, send) = (Mutex::new(handle), Mutex::new(send));
        let waits = move || {
            let run = handle.lock().unwrap().recv_timeout(SOON).unwrap();
            send.lock().unwrap().send(run.wait().map(drop)).unwrap();
        };
        let run = Run::<()>::new(one());
        let run = if asynchronous {
            let waits = Arc::new(waits);
            run.start_async(&runtime, move |_: TaskCx| {
                let waits = waits.clone();
                async move { waits() }
            })
        } else {
            run.start(&runtime, move |_| waits())
        };
        hand.send(run).unwrap();
        is_told(told.recv_timeout(SOON));
    }
    let ((hand, handle), (send, told)) = (channel::<Handle<CountedReport, RunError>>(), channel());
    let (handle, send) = (Mutex::new(handle), Mutex::new(send));
    let run = CountedRun::new(one()).unwrap().start(&runtime, move |_| {
        let run = handle.lock().unwrap().recv_timeout(SOON).unwrap();
        send.lock().unwrap().send(run.wait().map(drop)).unwrap();
    });
    hand.send(run).unwrap();
    is_told(told.recv_timeout(SOON));
}

/// Each has a task that waits for the other run: one of the two is told, and so both end.
#[test]
fn of_two_runs_whose_tasks_wait_for_the_other_run_one_is_told() {
    let runtime = Runtime::builder().workers(2).io_threads(0).build().unwrap();
    let (send, told) = channel();
    let begin = |send: Sender<Result<(), RunError>>| {
        let (hand, handle) = channel::<RunHandle>();
        let (handle, send) = (Mutex::new(handle), Mutex::new(send));
        let run = Run::<()>::new(one()).start(&runtime, move |_| {
            let other = handle.lock().unwrap().recv_timeout(SOON).unwrap();
            send.lock().unwrap().send(other.wait().map(drop)).unwrap();
        });
        (hand, run)
    };
    let (one, other) = (begin(send.clone()), begin(send));
    one.0.send(other.1).unwrap();
    other.0.send(one.1).unwrap();
    let both: Vec<_> = (0..2).map(|_| told.recv_timeout(SOON).expect("both end")).collect();
    let deadlocks = both.iter().filter(|told| told.is_err()).count();
    assert_eq!(deadlocks, 1, "{both:?}");
}

#[test]
fn a_task_is_inside_a_job_and_goes_beyond_a_budget_that_only_it_could_free() {
    let runtime = Runtime::builder().workers(1).io_threads(0).max_spares(0).build().unwrap();
    let caches = Caches::builder(&runtime).budget(Budget::new(1)).build();
    let cache = caches.cache::<u64, u64>(1, Retain::all()).unwrap();
    for asynchronous in [false, true] {
        let ((send, told), cache) = (channel(), cache.clone());
        let send = Mutex::new(send);
        let asks = move || {
            let base = u64::from(asynchronous) * 10;
            let first = cache.get_or_build(base + 1, |_| Ok(1));
            let second = cache.get_or_build(base + 2, |_| Ok(1));
            let sum = *first.wait().unwrap() + *second.wait().unwrap();
            send.lock().unwrap().send(sum).unwrap();
        };
        let run = Run::<()>::new(one());
        let run = if asynchronous {
            let asks = Arc::new(asks);
            run.start_async(&runtime, move |_: TaskCx| {
                let asks = asks.clone();
                async move { asks() }
            })
        } else {
            run.start(&runtime, move |_| asks())
        };
        told.recv_timeout(SOON).expect("it does not wait for itself");
        assert!(run.wait().unwrap().is_success());
    }
}
