//! Requests that end before their time, by a token, a deadline or their batch; batches as futures; and what waits beside them.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, Gate, driven, threads};
use shardrun::{Budget, CancellationToken, Driver, Request, RequestContext, Runtime, Stage, StageError, Stages};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

fn files(count: usize) -> Files {
    let host = Files::default();
    (0..count).for_each(|n| host.store(&n.to_string(), "text"));
    host
}

#[test]
fn a_token_withdraws_its_request_and_leaves_the_others_alone() {
    let host = files(2);
    let (runtime, stages) = driven(&host);
    let token = CancellationToken::new();
    let alone = stages.submit_request(Request::analysis("0".into()).cancelled_by(&token));
    let shared = stages.submit_request(Request::artifact("1".into(), 1).cancelled_by(&token));
    let other = stages.submit_request(Request::artifact("1".into(), 1));
    token.cancel();
    assert!(matches!(alone.wait(), Err(StageError::Cancelled)));
    assert!(matches!(shared.wait(), Err(StageError::Cancelled)));
    assert!(other.wait().is_ok());
    runtime.drive_all();
    assert_eq!(host.ran(Stage::Source, "0"), 0, "what nobody wants does not run");
    // Cancelled before the submission, it changes nothing.
    let late = stages.submit_request(Request::source("9".into()).text("edit".into()).cancelled_by(&token));
    assert!(late.is_resolved() && matches!(late.wait(), Err(StageError::Cancelled)));
    assert!(!stages.has_file(&"9".into()));
    let mut batch = stages.submit_batch_atomic([
        Request::source("0".into()).text("edit".into()).cancelled_by(&token),
        Request::source("1".into()).text("edit".into()),
    ]);
    let answers = batch.wait();
    assert!(matches!(answers[0], Err(StageError::Cancelled)) && answers[1].is_ok());
    assert_eq!((stages.overlay(&"0".into()), stages.generation(&"1".into())), (None, Some(2)));
}

#[test]
fn a_deadline_is_counted_by_the_runtimes_clock_and_answered_typed() {
    let host = files(3);
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let stages = Stages::new(&runtime, host.clone());
    let soon = runtime.now() + Duration::from_secs(5);
    let in_time = stages.submit_request(Request::analysis("1".into()).deadline(soon));
    assert!(in_time.wait().is_ok());
    let late = stages.submit_request(Request::analysis("0".into()).deadline(soon));
    let joined = stages.submit_request(Request::analysis("0".into()));
    let mut batch = stages.submit_batch_atomic([
        Request::analysis("2".into()).deadline(soon),
        Request::analysis("0".into()).deadline(soon + Duration::from_secs(60)),
    ]);
    runtime.advance(Duration::from_secs(6));
    assert!(matches!(late.wait(), Err(StageError::DeadlinePassed)));
    assert!(joined.wait().is_ok(), "what others want goes on");
    let answers = batch.wait();
    assert!(matches!(answers[0], Err(StageError::DeadlinePassed)) && answers[1].is_ok());
    assert_eq!(host.ran(Stage::Source, "2"), 0, "what nobody wants does not run");
    let after = stages.submit_request(Request::source("2".into()).text("edit".into()).deadline(soon));
    assert!(after.is_resolved() && matches!(after.wait(), Err(StageError::DeadlinePassed)));
    assert_eq!(stages.overlay(&"2".into()), None, "it changed nothing");
}

#[test]
fn a_deadline_passes_while_the_work_runs_and_the_work_goes_on_for_others() {
    let (host, gate) = (files(1), Gate::default());
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host.clone());
    let at = gate.clone();
    host.hook(move |_, _| {
        at.pass();
        Act::Go
    });
    let others = stages.submit_request(Request::source("0".into()));
    gate.arrived(1);
    let soon = runtime.now() + Duration::from_millis(5);
    let impatient = stages.submit_request(Request::source("0".into()).deadline(soon));
    assert!(matches!(impatient.wait(), Err(StageError::DeadlinePassed)));
    assert!(!others.is_resolved());
    gate.open();
    assert!(others.wait().is_ok());
}

#[test]
fn b101_a_token_that_lives_long_keeps_nothing_of_requests_that_are_over() {
    let host = files(1);
    let (runtime, stages) = driven(&host);
    let token = CancellationToken::new();
    let far = runtime.now() + Duration::from_secs(1_000_000);
    let context = RequestContext::new(Arc::new(7_u32));
    for n in 0..20_000 {
        let request = Request::source("0".into()).cancelled_by(&token).deadline(far).context(context.clone());
        let handle = stages.submit_request(request.text(n.to_string()));
        if n % 2 == 0 {
            assert!(handle.wait().is_ok());
        }
    }
    runtime.drive_all();
    stages.remove(&"0".into());
    token.cancel();
    assert_eq!(runtime.counters().panics(), 0);
}

#[test]
fn cancelling_a_batch_withdraws_all_that_is_not_over() {
    let host = files(10);
    let (runtime, stages) = driven(&host);
    let batch = stages.submit_batch_atomic((0..10).map(|n: usize| Request::analysis(n.to_string())));
    runtime.drive_one();
    batch.cancel();
    runtime.drive_all();
    let ended = batch.into_handles().into_iter().map(|handle| handle.wait());
    let (done, cancelled): (Vec<_>, Vec<_>) = ended.partition(|answer| answer.is_ok());
    assert!(cancelled.iter().all(|answer| matches!(answer, Err(StageError::Cancelled))));
    assert_eq!(done.len() + cancelled.len(), 10);
    assert!(cancelled.len() >= 6 && host.log().len() <= 8, "what was withdrawn has not run: {:?}", host.log());
}

#[test]
fn one_token_withdraws_all_members_of_a_batch_in_both_forms_and_before_they_run() {
    for together in [false, true] {
        let host = files(10);
        let (runtime, stages) = driven(&host);
        let token = CancellationToken::new();
        let requests = (0..10).map(|n: usize| Request::analysis(n.to_string()).cancelled_by(&token));
        let mut batch = if together { stages.submit_batch_atomic(requests) } else { stages.submit_batch(requests) };
        let other = stages.submit_request(Request::source("3".into()));
        token.cancel();
        assert!(batch.is_resolved(), "at once");
        assert!(batch.wait().iter().all(|answer| matches!(answer, Err(StageError::Cancelled))));
        runtime.drive_all();
        assert!(other.wait().is_ok(), "who has another token, or none, is left alone");
        assert_eq!(host.log().len(), 1, "what was withdrawn has not run: {:?}", host.log());
    }
}

struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_batch_is_a_future_that_is_woken_once_for_each_member_at_most() {
    const MEMBERS: usize = 1_000;
    let host = files(MEMBERS);
    let (runtime, stages) = driven(&host);
    let mut batch = stages.submit_batch_atomic((0..MEMBERS).map(|n| Request::source(n.to_string())));
    let woken = Arc::new(Woken(AtomicUsize::new(0)));
    let waker = Waker::from(woken.clone());
    let mut polls = 0;
    let results = loop {
        polls += 1;
        match Pin::new(&mut batch).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(results) => break results,
            Poll::Pending => runtime.drive_one(),
        };
    };
    assert!(results.len() == MEMBERS && results.iter().all(Result::is_ok));
    assert!(woken.0.load(Ordering::SeqCst) <= MEMBERS && polls <= MEMBERS + 1);
    let nothing =
        Pin::new(&mut stages.submit_batch_atomic(Vec::<Request<Files>>::new())).poll(&mut Context::from_waker(&waker));
    assert!(matches!(nothing, Poll::Ready(results) if results.is_empty()));
}

#[test]
fn a_batch_of_ten_thousand_does_not_hold_up_one_later_request_of_the_same_priority() {
    const MEMBERS: usize = 10_000;
    let host = files(MEMBERS + 1);
    let (runtime, stages) = driven(&host);
    let mut batch = stages.submit_batch_atomic((0..MEMBERS).map(|n| Request::source(n.to_string())));
    for later in 0..3 {
        let before = host.log().len();
        let mut handle = stages.submit_request(Request::source(MEMBERS.to_string()).text(format!("later {later}")));
        while handle.try_get().is_none() {
            assert!(runtime.drive_one());
        }
        let passed = host.log().len() - before;
        assert!(passed <= 16, "{passed} members of the batch went before it");
    }
    assert!(batch.wait().iter().all(Result::is_ok));
}

#[test]
fn a_deadline_bounds_the_wait_for_the_budget_too() {
    let host = files(2);
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let budget = Budget::for_runtime(1, &runtime);
    let stages = Stages::builder(&runtime, host).budget(budget).build();
    let first = stages.submit_request(Request::source("0".into()));
    let later = runtime.now() + Duration::from_secs(1);
    // To wait for the budget is to drive: the first request frees it.
    let second = stages.submit_request(Request::source("1".into()).deadline(later));
    assert!(first.wait().is_ok() && second.wait().is_ok());
}

#[test]
fn helped_work_runs_in_its_own_context_and_the_outer_one_is_put_back() {
    let host = files(3);
    let (_runtime, stages) = driven(&host);
    let name = || RequestContext::current().and_then(|context| context.get::<&'static str>().copied());
    let seen = Arc::new(Mutex::new(Vec::new()));
    host.hook({
        let seen = seen.clone();
        move |cx, at| {
            seen.lock().unwrap().push((at.file.clone(), name()));
            if at.file == "0" && at.stage == Stage::Source {
                let stages = cx.scheduler().unwrap();
                let plain = stages.submit_request(Request::source("1".into()));
                let named = Request::source("2".into()).context(RequestContext::new("inner"));
                let named = stages.submit_request(named);
                assert!(plain.wait().is_ok() && named.wait().is_ok());
                seen.lock().unwrap().push((at.file.clone(), name()));
                panic!("on purpose");
            }
            Act::Go
        }
    });
    let outer = Request::source("0".into()).context(RequestContext::new("outer"));
    assert!(stages.submit_request(outer).wait().is_err());
    assert_eq!(name(), None, "cleared after a panic too");
    let seen = seen.lock().unwrap();
    let of = |file: &str| seen.iter().filter(|(at, _)| at == file).map(|(_, name)| *name).collect::<Vec<_>>();
    assert_eq!((of("0"), of("2")), (vec![Some("outer"), Some("outer")], vec![Some("inner")]));
    assert!(of("1") == [None] || of("1") == [Some("outer")], "no foreign context: {:?}", of("1"));
}

#[test]
fn s93_a_handle_that_resolves_while_it_is_asked_gives_the_real_result() {
    let host = files(1);
    let (_runtime, stages) = driven(&host);
    host.hook(|cx, at| {
        if at.stage == Stage::Analysis {
            // It is on this thread's path, and is over: the answer is the real one.
            let source = cx.scheduler().unwrap().submit_request(Request::source("0".into()));
            assert!(source.wait().is_ok());
        }
        Act::Go
    });
    assert!(stages.submit_request(Request::analysis("0".into())).wait().is_ok());
}

#[test]
fn a_borrowed_read_counts_no_reference_and_may_use_the_scheduler_or_panic() {
    let host = files(2);
    let (_runtime, stages) = driven(&host);
    let file = "0".to_owned();
    assert_eq!(stages.with_source(&file, String::len), None, "it is not there");
    stages.submit_request(Request::source(file.clone())).wait().unwrap();
    let source = stages.try_get_source(&file).unwrap();
    let count = Arc::strong_count(&source);
    let read = stages.with_source(&file, |read| {
        assert!(std::ptr::eq(read, &*source) && Arc::strong_count(&source) == count);
        stages.set_text(file.clone(), "edit".into());
        assert!(stages.try_get_source(&file).is_none(), "the file has moved on");
        // What is read outlives the read.
        read.clone()
    });
    assert_eq!(read.as_deref(), Some("text"));
    stages.submit_request(Request::source("1".into())).wait().unwrap();
    let panics = std::panic::AssertUnwindSafe(|| stages.with_source(&"1".into(), |_| panic!("on purpose")));
    assert!(std::panic::catch_unwind(panics).is_err());
    assert!(stages.with_source(&"1".into(), |_| ()).is_some());
}
