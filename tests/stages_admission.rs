//! Requests under a budget, in three forms, and the context that travels with a request to its jobs.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, Gate, threads};
use shardrun::{
    Admission, Budget, CancellationToken, Driver, Interrupt, Request, RequestContext, Runtime, Stage, StageError,
    Stages,
};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

fn with_budget(host: &Files, runtime: &Runtime, units: u32) -> (Stages<Files>, Budget) {
    let budget = Budget::for_runtime(units, runtime);
    (Stages::builder(runtime, host.clone()).budget(budget.clone()).build(), budget)
}

fn files<const N: usize>() -> Files {
    let host = Files::default();
    (0..N).for_each(|n| host.store(&n.to_string(), "text"));
    host
}

#[test]
fn a_full_budget_declines_without_a_trace_and_lets_joiners_in() {
    let (host, runtime) = (files::<3>(), host::inline());
    let (stages, budget) = with_budget(&host, &runtime, 2);
    let ask = |file: &str| stages.try_submit_request(Request::analysis(file.into()));
    let Admission::Admitted(first) = ask("0") else { panic!("there are two units") };
    let Admission::Admitted(second) = ask("1") else { panic!("there is one more unit") };
    let before = stages.counters();
    let Admission::Backpressured(refused) = ask("2") else { panic!("the budget is spent") };
    assert_eq!((refused.asked, refused.free, refused.capacity), (1, 0, 2));
    assert!(!stages.has_file(&"2".into()), "nothing was made");
    let edit = stages.try_submit_request(Request::source("0".into()).text("edit".into()));
    assert!(matches!(edit, Admission::Backpressured(_)));
    assert_eq!(stages.generation(&"0".into()), Some(1), "nothing was moved");
    assert_eq!(stages.counters().submits, before.submits + 1);
    let Admission::DedupeJoined(joined) = ask("1") else { panic!("a joiner costs nothing") };
    assert_eq!(budget.in_use(), 2);
    assert!(first.wait().is_ok() && second.wait().is_ok() && joined.wait().is_ok());
    assert_eq!(budget.in_use(), 0);
    assert!(
        matches!(ask("0"), Admission::Admitted(handle) if handle.is_resolved()),
        "an answer that is there costs nothing"
    );
    let Admission::Admitted(third) = ask("2") else { panic!("units are free again") };
    assert!(third.wait().is_ok());
    assert_eq!(budget.in_use(), 0);
}

#[test]
fn a_submission_waits_for_the_budget_until_work_is_over() {
    let (host, runtime) = (files::<8>(), threads(1));
    let gate = Gate::default();
    host.hook({
        let gate = gate.clone();
        move |_, _| {
            gate.pass();
            Act::Go
        }
    });
    let (stages, budget) = with_budget(&host, &runtime, 2);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let handles: Vec<_> = (0..8).map(|n| stages.submit_request(Request::source(n.to_string()))).collect();
            handles.into_iter().all(|handle| handle.wait().is_ok())
        });
        gate.arrived(1);
        while budget.waiting() == 0 {
            std::thread::yield_now();
        }
        assert!(budget.in_use() <= 2);
        gate.open();
        assert!(waiter.join().unwrap());
    });
    assert_eq!(budget.in_use(), 0);
}

#[test]
fn a_submission_on_a_driven_runtime_drives_it_and_a_budget_of_nothing_is_told() {
    let (host, runtime) = (files::<4>(), host::inline());
    let (stages, budget) = with_budget(&host, &runtime, 1);
    let handles: Vec<_> = (0..4).map(|n| stages.submit_request(Request::source(n.to_string()))).collect();
    assert!(handles[..3].iter().all(|handle| handle.is_resolved()), "each made room for the next");
    assert!(handles.into_iter().all(|handle| handle.wait().is_ok()));
    assert_eq!(budget.in_use(), 0);
    let (stages, _) = with_budget(&host, &runtime, 0);
    let answer = stages.submit_request(Request::source("0".into())).wait();
    assert!(matches!(answer, Err(StageError::Interrupted(why)) if *why == Interrupt::Stalled));
}

#[test]
fn an_async_submission_waits_as_a_future_and_may_be_dropped() {
    let (host, runtime) = (files::<3>(), host::inline());
    let (stages, budget) = with_budget(&host, &runtime, 1);
    let first = stages.submit_request(Request::source("0".into()));
    let mut context = Context::from_waker(Waker::noop());
    let mut second = pin!(stages.submit_request_async(Request::source("1".into())));
    assert!(second.as_mut().poll(&mut context).is_pending());
    {
        let mut dropped = pin!(stages.submit_request_async(Request::source("2".into())));
        assert!(dropped.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(budget.waiting(), 1);
    assert!(first.wait().is_ok());
    let Poll::Ready(second) = second.as_mut().poll(&mut context) else { panic!("a unit is free") };
    assert_eq!(budget.in_use(), 1);
    assert!(second.wait().is_ok());
    assert_eq!((budget.in_use(), budget.waiting()), (0, 0));
    assert!(!stages.has_file(&"2".into()));
}

#[test]
fn an_async_request_that_ends_in_line_is_answered_there_and_takes_no_unit_with_it() {
    for by_token in [true, false] {
        let (host, runtime) = (files::<3>(), host::inline());
        let (stages, budget) = with_budget(&host, &runtime, 1);
        let (token, soon) = (CancellationToken::new(), Duration::from_secs(5));
        let ends = |request: Request<Files, shardrun::ToSource>| match by_token {
            true => request.cancelled_by(&token),
            false => request.deadline(soon),
        };
        let first = stages.submit_request(Request::source("0".into()));
        let mut context = Context::from_waker(Waker::noop());
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut second = pin!(stages.submit_request_async(ends(Request::source("1".into()).text("edit".into()))));
        assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let mut third = pin!(stages.submit_request_async(ends(Request::source("2".into()))));
        assert!(third.as_mut().poll(&mut context).is_pending());
        assert_eq!((budget.waiting(), woken.count()), (2, 0));
        if by_token {
            token.cancel();
        } else {
            runtime.advance(soon);
            runtime.drive_one();
        }
        assert_eq!(woken.count(), 1, "by token: {by_token}");
        let over = |answer: Poll<shardrun::StageHandleOf<Files, shardrun::ToSource>>| {
            let Poll::Ready(handle) = answer else { panic!("it is over, and waits on; by token: {by_token}") };
            let Err(error) = handle.wait() else { panic!("it was over before it was submitted") };
            assert!(matches!(error, StageError::Cancelled) == by_token, "{error:?}");
        };
        over(second.as_mut().poll(&mut context));
        assert!(first.wait().is_ok());
        // This one has been granted the unit meanwhile.
        over(third.as_mut().poll(&mut context));
        assert_eq!((budget.in_use(), budget.waiting()), (0, 0), "by token: {by_token}");
        assert!(!stages.has_file(&"1".into()) && !stages.has_file(&"2".into()), "nothing was made");
        // With units free, and over before the first poll.
        over(pin!(stages.submit_request_async(ends(Request::source("1".into())))).poll(&mut context));
        assert_eq!(budget.in_use(), 0, "by token: {by_token}");
        assert!(stages.submit_request(Request::source("2".into())).wait().is_ok());
    }
}

#[test]
fn an_async_request_that_joins_or_has_its_answer_waits_for_no_unit() {
    let (host, runtime) = (files::<3>(), host::inline());
    let (stages, budget) = with_budget(&host, &runtime, 1);
    assert!(stages.submit_request(Request::analysis("0".into())).wait().is_ok());
    let first = stages.submit_request(Request::artifact("1".into(), 1));
    let mut context = Context::from_waker(Waker::noop());
    let before = stages.counters();
    let Poll::Ready(there) = pin!(stages.submit_request_async(Request::analysis("0".into()))).poll(&mut context) else {
        panic!("its answer is there")
    };
    assert!(there.is_resolved());
    let (joined, token) = (Arc::new(Mutex::new(Vec::new())), CancellationToken::new());
    let request = Request::artifact("1".into(), 1).cancelled_by(&token).on_join({
        let joined = joined.clone();
        move |at| joined.lock().unwrap().push(at.file)
    });
    let Poll::Ready(joins) = pin!(stages.submit_request_async(request)).poll(&mut context) else {
        panic!("another has asked for it")
    };
    assert_eq!((&joined.lock().unwrap()[..], stages.counters().submits), (&["1".to_owned()][..], before.submits + 2));
    let mut edit = pin!(stages.submit_request_async(Request::analysis("0".into()).text("edit".into())));
    assert!(edit.as_mut().poll(&mut context).is_pending(), "an edit needs a unit");
    let mut new = pin!(stages.submit_request_async(Request::analysis("2".into())));
    assert!(new.as_mut().poll(&mut context).is_pending(), "who is the first needs a unit");
    assert_eq!((budget.in_use(), budget.waiting()), (1, 2));
    token.cancel();
    assert!(matches!(joins.wait(), Err(StageError::Cancelled)));
    assert!(first.wait().is_ok());
    let Poll::Ready(edit) = edit.as_mut().poll(&mut context) else { panic!("a unit is free") };
    assert!(edit.wait().is_ok());
    let Poll::Ready(new) = new.as_mut().poll(&mut context) else { panic!("a unit is free") };
    assert!(new.wait().is_ok());
    assert_eq!((budget.in_use(), budget.waiting()), (0, 0));
}

#[test]
fn a_request_that_ends_while_its_caller_waits_for_the_budget_is_answered_at_once() {
    let (host, runtime) = (files::<2>(), threads(1));
    let gate = Gate::default();
    host.hook({
        let gate = gate.clone();
        move |_, _| {
            gate.pass();
            Act::Go
        }
    });
    let (stages, budget) = with_budget(&host, &runtime, 1);
    let first = stages.submit_request(Request::source("0".into()));
    gate.arrived(1);
    let token = CancellationToken::new();
    std::thread::scope(|scope| {
        let waits =
            || stages.submit_request(Request::source("1".into()).text("edit".into()).cancelled_by(&token)).wait();
        let waiter = scope.spawn(waits);
        while budget.waiting() == 0 {
            std::thread::yield_now();
        }
        token.cancel();
        // The unit is in use all the while.
        assert!(matches!(waiter.join().unwrap(), Err(StageError::Cancelled)));
    });
    assert_eq!((budget.in_use(), budget.waiting()), (1, 0));
    gate.open();
    assert!(first.wait().is_ok());
    assert_eq!(budget.in_use(), 0);
    assert!(!stages.has_file(&"1".into()), "nothing was made");
}

#[test]
fn an_edit_whose_token_is_cancelled_while_its_caller_drives_for_the_budget_is_not_made() {
    let (host, runtime) = (files::<2>(), host::inline());
    let (stages, budget) = with_budget(&host, &runtime, 1);
    assert!(stages.submit_request(Request::source("1".into())).wait().is_ok());
    let token = CancellationToken::new();
    host.hook({
        let token = token.clone();
        move |_, _| {
            token.cancel();
            Act::Go
        }
    });
    let first = stages.submit_request(Request::source("0".into()));
    let edit = stages.submit_request(Request::source("1".into()).text("edit".into()).cancelled_by(&token));
    assert!(matches!(edit.wait(), Err(StageError::Cancelled)));
    assert_eq!(stages.generation(&"1".into()), Some(1), "nothing was moved");
    assert!(first.wait().is_ok());
    assert_eq!(budget.in_use(), 0);
}

#[test]
fn b88_a_batch_that_no_unit_is_ever_free_for_is_told_and_changes_nothing() {
    for units in [0, 1] {
        let (host, runtime) = (files::<4>(), host::inline());
        let (stages, budget) = with_budget(&host, &runtime, units);
        // Of a budget of nothing nobody is ever the first; what is there has come from elsewhere.
        let held = (units > 0).then(|| {
            assert!(stages.submit_request(Request::analysis("0".into())).wait().is_ok());
            budget.acquire(1).unwrap()
        });
        let before = stages.generation(&"0".into());
        let mut batch = stages.submit_batch_atomic([
            Request::analysis("0".into()).any(),
            Request::source("1".into()).any(),
            Request::source("0".into()).text("edit".into()).any(),
            Request::artifact("2".into(), 1).rehome().any(),
        ]);
        let answers = batch.wait();
        assert_eq!(answers[0].is_ok(), units > 0, "an answer that is there costs nothing");
        for answer in &answers[1..] {
            let Err(StageError::Interrupted(why)) = answer else { panic!("{units}: it ran without a unit") };
            assert_eq!(**why, Interrupt::Stalled);
        }
        runtime.drive_all();
        assert!(!stages.has_file(&"1".into()) && !stages.has_file(&"2".into()), "nothing was made");
        assert_eq!(stages.generation(&"0".into()), before, "nothing was moved");
        assert_eq!(host.log().len(), if units > 0 { 2 } else { 0 });
        assert_eq!(budget.in_use(), u64::from(units));
        drop(held);
        assert_eq!(budget.in_use(), 0);
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Woken {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn units_come_back_from_every_ending() {
    let (host, runtime) = (files::<6>(), host::inline());
    let (stages, budget) = with_budget(&host, &runtime, 100);
    host.hook(|_, at| match at.file.as_str() {
        "0" => Act::Fail("asked for"),
        "1" => panic!("asked for"),
        _ => Act::Go,
    });
    for stage in [Stage::Source, Stage::Analysis, Stage::Artifact] {
        let ask = |n: usize| match stage {
            Stage::Source => stages.submit_batch([Request::source(n.to_string())]),
            Stage::Analysis => stages.submit_batch([Request::analysis(n.to_string())]),
            Stage::Artifact => stages.submit_batch([Request::artifact(n.to_string(), 1)]),
        };
        let batches: Vec<_> = (0..6).map(ask).collect();
        batches[2].cancel();
        stages.invalidate(&"3".into());
        for mut batch in batches {
            batch.wait();
        }
        runtime.drive_all();
        assert_eq!(budget.in_use(), 0, "{stage}");
        (0..6).for_each(|n| _ = stages.invalidate(&n.to_string()));
    }
    let pending = stages.submit_request(Request::artifact("5".into(), 2));
    assert_eq!(budget.in_use(), 1);
    drop(stages);
    assert!(matches!(pending.wait(), Err(StageError::Shutdown)));
    assert_eq!(budget.in_use(), 0);
}

#[test]
fn a_batch_that_is_larger_than_the_budget_holds_all_of_it() {
    let (host, runtime) = (files::<9>(), host::inline());
    let (stages, budget) = with_budget(&host, &runtime, 4);
    let mut batch = stages.submit_batch_atomic((0..9).map(|n| Request::source(n.to_string())));
    assert_eq!(budget.in_use(), 4);
    assert!(batch.wait().iter().all(Result::is_ok));
    assert_eq!(budget.in_use(), 0);
}

#[test]
fn a_job_runs_in_the_context_of_who_asked_first_and_leaves_none_behind() {
    let host = files::<3>();
    let seen = Arc::new(Mutex::new(Vec::new()));
    host.hook({
        let seen = seen.clone();
        move |_, at| {
            let name = RequestContext::current().and_then(|context| context.get::<&str>().copied());
            seen.lock().unwrap().push((at.file.clone(), at.stage, name));
            assert!(at.file != "2", "asked for");
            Act::Go
        }
    });
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let stages = Stages::new(&runtime, host.clone());
    let named = |name: &'static str| RequestContext::new(name);
    let first = stages.submit_request(Request::analysis("0".into()).context(named("first")));
    let second = stages.submit_request(Request::artifact("0".into(), 1).context(named("second")));
    let nobody = stages.submit_request(Request::source("1".into()));
    let lent = stages.submit_request(Request::source("1".into()).context(named("lent")));
    let panics = stages.submit_request(Request::source("2".into()).context(named("panics")));
    RequestContext::new("outer").scope(|| {
        assert!(first.wait().is_ok() && second.wait().is_ok() && nobody.wait().is_ok() && lent.wait().is_ok());
        assert!(panics.wait().is_err());
        let outer = RequestContext::current().unwrap();
        assert_eq!(outer.get::<&str>(), Some(&"outer"), "what drives a job keeps its own");
    });
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    assert_eq!(
        seen,
        [
            ("0".to_owned(), Stage::Source, Some("first")),
            ("0".to_owned(), Stage::Analysis, Some("first")),
            ("0".to_owned(), Stage::Artifact, Some("second")),
            ("1".to_owned(), Stage::Source, Some("lent")),
            ("2".to_owned(), Stage::Source, Some("panics")),
        ]
    );
}
