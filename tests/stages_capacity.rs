//! Limits of how many stages run at once in a pool: exact on every path, handed on by urgency, lent to who waits.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, Gate};
use shardrun::{Pool, Priority, Request, Runtime, Stage, StageError, Stages, ZeroLimit};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn limited(host: &Files, runtime: &Runtime, workers: u32) -> Stages<Files> {
    Stages::builder(runtime, host.clone()).limit(Pool::Workers, workers).unwrap().build()
}

fn threads(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

fn files(count: usize) -> Files {
    let host = Files::default();
    (0..count).for_each(|n| host.store(&n.to_string(), "text"));
    host
}

/// Waits until nothing is in flight: who is told may be told a moment before the permit is back.
fn at_rest(stages: &Stages<Files>) {
    let begun = std::time::Instant::now();
    while stages.pool_use(Pool::Workers).is_some_and(|used| used.in_flight + used.on_loan + used.waiting > 0) {
        assert!(begun.elapsed() < Duration::from_secs(300), "a permit was lost: {:?}", stages.pool_use(Pool::Workers));
        std::thread::yield_now();
    }
}

#[test]
fn a_limit_of_nothing_is_refused_and_one_that_is_no_limit_costs_nothing() {
    let (host, runtime) = (files(0), threads(2));
    let refused = Stages::builder(&runtime, host.clone()).limit(Pool::Io, 0);
    assert_eq!(refused.err(), Some(ZeroLimit));
    let stages = limited(&host, &runtime, 1_000);
    assert_eq!(stages.pool_use(Pool::Workers), None, "every thread of the pool may run a stage");
    assert_eq!(stages.pool_use(Pool::Io), None);
}

#[test]
fn never_more_than_the_limit_run_at_once_and_none_is_left_at_rest() {
    const LIMIT: u32 = 2;
    let (host, runtime) = (files(200), threads(4));
    let stages = limited(&host, &runtime, LIMIT);
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    host.hook({
        let (now, most) = (now.clone(), most.clone());
        move |_, at| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            now.fetch_sub(1, Ordering::SeqCst);
            match at.file.parse::<usize>().unwrap() % 7 {
                0 => Act::Fail("no"),
                1 if at.stage == Stage::Analysis => panic!("on purpose"),
                _ => Act::Go,
            }
        }
    });
    let mut batch = stages.submit_batch_atomic((0..100).map(|n: usize| Request::analysis(n.to_string())));
    let mut handles: Vec<_> = (100..200).map(|n| stages.submit_request(Request::artifact(n.to_string(), 1))).collect();
    // Some are cancelled, superseded or removed while they wait, run or are over.
    handles.drain(..10).for_each(|handle| handle.cancel());
    (120..130).for_each(|n: usize| _ = stages.invalidate(&n.to_string()));
    (130..140).for_each(|n: usize| _ = stages.remove(&n.to_string()));
    batch.wait();
    handles.into_iter().for_each(|handle| _ = handle.wait());
    at_rest(&stages);
    assert!(most.load(Ordering::SeqCst) <= LIMIT as usize);
    // The whole limit is there again.
    let gate = Gate::default();
    let at = gate.clone();
    host.hook(move |_, _| {
        at.pass();
        Act::Go
    });
    let handles: Vec<_> =
        (0..3).map(|n| stages.submit_request(Request::source(format!("{n}")).text("new".into()))).collect();
    gate.arrived(LIMIT as usize);
    assert_eq!(stages.pool_use(Pool::Workers).unwrap().in_flight, LIMIT);
    gate.open();
    handles.into_iter().for_each(|handle| _ = handle.wait().unwrap());
    at_rest(&stages);
}

#[test]
fn a_permit_that_comes_back_goes_to_the_more_urgent() {
    let (host, runtime) = (files(5), threads(2));
    let stages = limited(&host, &runtime, 1);
    let (gate, order) = (Gate::default(), Arc::new(Mutex::new(Vec::new())));
    host.hook({
        let (gate, order) = (gate.clone(), order.clone());
        move |_, at| {
            order.lock().unwrap().push(at.file.clone());
            gate.pass();
            Act::Go
        }
    });
    let first = stages.submit_request(Request::source("0".into()));
    gate.arrived(1);
    let background: Vec<_> = ["1", "2"]
        .map(|file| stages.submit_request(Request::source(file.into()).priority(Priority::Background)))
        .into_iter()
        .collect();
    let waiting = |count| {
        while stages.pool_use(Pool::Workers).unwrap().waiting < count {
            std::thread::yield_now();
        }
    };
    waiting(2);
    let critical = stages.submit_request(Request::source("3".into()).priority(Priority::Critical));
    waiting(3);
    gate.open();
    critical.wait().unwrap();
    first.wait().unwrap();
    background.into_iter().for_each(|handle| _ = handle.wait().unwrap());
    assert_eq!(order.lock().unwrap()[..2], ["0", "3"]);
    at_rest(&stages);
}

#[test]
fn s29_an_admission_takes_no_permit_until_the_stage_begins() {
    let host = files(3);
    let runtime = host::inline();
    let stages = Stages::builder(&runtime, host.clone()).limit(Pool::Workers, 1).unwrap();
    let stages = stages.limit(Pool::Io, 1).unwrap().build();
    let used = |pool| stages.pool_use(pool).map_or(0, |used| used.in_flight + used.on_loan + used.waiting);
    let mut batch = stages.submit_batch_atomic((0..3).map(|n: u32| Request::artifact(n.to_string(), 1)));
    assert_eq!((used(Pool::Workers), used(Pool::Io)), (0, 0));
    assert!(batch.wait().iter().all(Result::is_ok));
    assert_eq!((used(Pool::Workers), used(Pool::Io)), (0, 0));
}

#[test]
fn s84_a_full_pool_does_not_hold_up_the_other() {
    let host = files(2);
    let runtime = Runtime::builder().workers(2).io_threads(2).build().unwrap();
    let builder = Stages::builder(&runtime, host.clone()).source_pool(Pool::Io);
    let stages = builder.limit(Pool::Workers, 1).unwrap().limit(Pool::Io, 1).unwrap().build();
    for full in [Stage::Analysis, Stage::Source] {
        let gate = Gate::default();
        let at_gate = gate.clone();
        host.hook(move |_, at| {
            if at.stage == full && at.file == "0" {
                at_gate.pass();
            }
            Act::Go
        });
        stages.invalidate(&"1".into());
        if full == Stage::Source {
            stages.submit_request(Request::source("1".into())).wait().unwrap();
        }
        let blocked = stages.submit_request(Request::analysis("0".into()).text(format!("{full}")));
        gate.arrived(1);
        // One pool is full: a stage of the other runs.
        if full == Stage::Analysis {
            stages.submit_request(Request::source("1".into())).wait().unwrap();
        } else {
            stages.submit_request(Request::analysis("1".into())).wait().unwrap();
        }
        gate.open();
        blocked.wait().unwrap();
    }
}

#[test]
fn s87_a_worker_that_waits_runs_what_it_needs_over_the_limit() {
    let (host, runtime) = (files(3), threads(2));
    let stages = limited(&host, &runtime, 1);
    let lent = Arc::new(AtomicUsize::new(0));
    host.hook({
        let lent = lent.clone();
        move |cx, at| {
            let stages = cx.scheduler().unwrap();
            lent.fetch_max(stages.pool_use(Pool::Workers).unwrap().on_loan as usize, Ordering::SeqCst);
            if at.file == "0" && at.stage == Stage::Analysis {
                let needed = stages.submit_request(Request::analysis("1".into()));
                assert!(needed.wait().is_ok(), "a limit of one locks nothing up");
            }
            Act::Go
        }
    });
    assert!(stages.submit_request(Request::analysis("0".into())).wait().is_ok());
    assert_eq!(lent.load(Ordering::SeqCst), 1, "what it ran itself was on loan");
    at_rest(&stages);
}

#[test]
fn a_runtime_that_shuts_down_answers_who_waits_for_a_permit() {
    const WAITING: usize = 20_000;
    let (host, runtime) = (files(0), threads(2));
    let stages = limited(&host, &runtime, 1);
    let gate = Gate::default();
    let at = gate.clone();
    host.hook(move |_, _| {
        at.pass();
        Act::Go
    });
    let ask = |n: usize| stages.submit_request(Request::source(n.to_string()).text("text".into()));
    let handles: Vec<_> = (0..WAITING).map(ask).collect();
    gate.arrived(1);
    let closing = runtime.clone();
    let closer = std::thread::spawn(move || closing.shutdown());
    gate.open();
    closer.join().unwrap();
    for handle in handles {
        assert!(matches!(handle.wait(), Ok(_) | Err(StageError::Shutdown)));
    }
    drop(stages);
}

#[test]
fn a_driven_runtime_keeps_to_a_limit_too() {
    let (host, runtime) = (files(20), host::inline());
    let stages = limited(&host, &runtime, 1);
    let mut batch = stages.submit_batch_atomic((0..20).map(|n: usize| Request::artifact(n.to_string(), 1)));
    assert!(batch.wait().into_iter().all(|answer| answer.is_ok()));
    runtime.drive_all();
    let used = stages.pool_use(Pool::Workers).unwrap();
    assert_eq!((used.limit, used.in_flight, used.on_loan, used.waiting), (1, 0, 0, 0));
}
