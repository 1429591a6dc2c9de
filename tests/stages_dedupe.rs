//! Equal requests share one execution: who joins, who is told, and what a cancel, a failure or a retry does to the rest.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, Gate, driven, threads};
use shardrun::{Driver, Priority, Request, Runtime, Stage, StageError, Stages};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What joiners were told: the winner's name, in the order of the calls.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Option<u64>>>>);

impl Told {
    fn by<T>(&self, request: Request<Files, T>) -> Request<Files, T> {
        let told = self.0.clone();
        request.on_join(move |joined| told.lock().unwrap().push(joined.winner))
    }

    fn so_far(&self) -> Vec<Option<u64>> {
        self.0.lock().unwrap().clone()
    }
}

fn source() -> Request<Files, shardrun::ToSource> {
    Request::source("a".into())
}

#[test]
fn equal_requests_share_one_execution_and_the_joiner_is_told_the_winner() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    let told = Told::default();
    let first = stages.submit_request(told.by(source().name(11)));
    let second = stages.submit_request(told.by(source().name(12)));
    assert_eq!(told.so_far(), [Some(11)], "told before the submission returns, and only the joiner");
    assert!(Arc::ptr_eq(&first.wait().unwrap(), &second.wait().unwrap()));
    assert_eq!(host.ran(Stage::Source, "a"), 1);
    assert_eq!(told.so_far(), [Some(11)], "told exactly once");
    assert_eq!(stages.counters().joins, 1);
}

#[test]
fn a_nameless_winner_is_told_as_nobody_and_a_joiner_without_a_callback_hears_nothing() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    let told = Told::default();
    let first = stages.submit_request(source());
    let second = stages.submit_request(told.by(source().name(2)));
    let third = stages.submit_request(source().name(3));
    assert_eq!(told.so_far(), [None]);
    for handle in [first, second, third] {
        assert!(handle.wait().is_ok());
    }
    assert!(stages.submit_request(told.by(source())).is_resolved(), "what is done already is not joined");
    assert_eq!(told.so_far(), [None]);
}

#[test]
fn a_request_during_the_execution_joins_it() {
    let host = Files::with([("a", "one")]);
    let gate = Gate::default();
    host.hook({
        let gate = gate.clone();
        move |_, _| {
            gate.pass();
            Act::Go
        }
    });
    let runtime = threads(1);
    let stages = Stages::new(&runtime, host.clone());
    let first = stages.submit_request(source());
    gate.arrived(1);
    let second = stages.submit_request(source());
    assert!(!second.is_resolved(), "no early result");
    gate.open();
    assert!(Arc::ptr_eq(&first.wait().unwrap(), &second.wait().unwrap()));
    assert_eq!(host.stages_run("a"), [Stage::Source], "and Analysis is not run");
}

#[test]
fn b40_every_joiner_is_answered_whatever_ends_the_execution_and_the_next_request_runs_afresh() {
    enum Ending {
        Panic,
        Fail,
        Cancel,
        Drop,
    }
    for ending in [Ending::Panic, Ending::Fail, Ending::Cancel, Ending::Drop] {
        let host = Files::with([("a", "one")]);
        let gate = Gate::default();
        let (panics, fails) = (matches!(ending, Ending::Panic), matches!(ending, Ending::Fail));
        host.hook({
            let gate = gate.clone();
            move |_, _| {
                gate.pass();
                assert!(!panics, "asked for");
                if fails { Act::Fail("asked for") } else { Act::Go }
            }
        });
        let runtime = threads(1);
        let stages = Stages::new(&runtime, host.clone());
        let mut handles: Vec<_> = (0..8).map(|_| stages.submit_request(source())).collect();
        gate.arrived(1);
        match ending {
            Ending::Cancel => handles.iter().for_each(|handle| handle.cancel()),
            Ending::Drop => drop(handles.pop()),
            _ => {}
        }
        gate.open();
        for handle in handles {
            match (&ending, handle.wait()) {
                (Ending::Panic | Ending::Fail, Err(StageError::Failed(_))) => {}
                (Ending::Cancel, Err(StageError::Cancelled)) => {}
                (Ending::Drop, Ok(source)) => assert_eq!(*source, "one"),
                (_, other) => panic!("an unexpected answer: {other:?}"),
            }
        }
        host.unhook();
        assert_eq!(*stages.submit_request(source()).wait().unwrap(), "one");
        let runs = if matches!(ending, Ending::Drop) { 1 } else { 2 };
        assert_eq!(host.ran(Stage::Source, "a"), runs, "what was cancelled publishes nothing");
    }
}

#[test]
fn a_cancelled_request_leaves_the_others_alone() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    let first = stages.submit_request(Request::analysis("a".into()));
    let second = stages.submit_request(Request::analysis("a".into()));
    first.cancel();
    assert!(matches!(first.wait(), Err(StageError::Cancelled)));
    assert_eq!(*second.wait().unwrap(), "analysis(one)");
}

#[test]
fn what_everybody_has_withdrawn_from_does_not_run() {
    let host = Files::with([("a", "one")]);
    let (runtime, stages) = driven(&host);
    let analysis = stages.submit_request(Request::analysis("a".into()));
    let artifact = stages.submit_request(Request::artifact("a".into(), 1));
    analysis.cancel();
    artifact.cancel();
    runtime.drive_all();
    assert_eq!(host.log(), []);
    assert_eq!(*stages.submit_request(Request::artifact("a".into(), 1)).wait().unwrap(), "1:analysis(one)");
}

#[test]
fn an_analysis_that_nobody_wants_any_more_does_not_run_but_source_does() {
    let host = Files::with([("a", "one")]);
    let (runtime, stages) = driven(&host);
    let source = stages.submit_request(source());
    let analysis = stages.submit_request(Request::analysis("a".into()));
    analysis.cancel();
    runtime.drive_all();
    assert!(source.is_resolved());
    assert_eq!(host.stages_run("a"), [Stage::Source]);
    assert_eq!(*stages.submit_request(Request::analysis("a".into())).wait().unwrap(), "analysis(one)");
    assert_eq!(host.stages_run("a"), [Stage::Source, Stage::Analysis], "Source is carried over to the second attempt");
}

#[test]
fn a_dropped_handle_detaches() {
    let host = Files::with([("a", "one")]);
    let (runtime, stages) = driven(&host);
    stages.submit_request(Request::analysis("a".into())).detach();
    runtime.drive_all();
    assert_eq!(host.stages_run("a"), [Stage::Source, Stage::Analysis]);
    drop(stages.submit_request(Request::artifact("a".into(), 1)).cancel_on_drop());
    runtime.drive_all();
    assert_eq!(host.ran(Stage::Artifact, "a"), 0);
}

#[test]
fn b22_a_more_urgent_joiner_raises_what_is_queued_and_the_stale_ticket_is_harmless() {
    let host = Files::with([("low", "l"), ("mid", "m"), ("other", "o")]);
    let (runtime, stages) = driven(&host);
    let low = stages.submit_request(Request::source("low".into()).priority(Priority::Maintenance));
    let others: Vec<_> = ["mid", "other"]
        .map(|file| stages.submit_request(Request::source(file.into()).priority(Priority::Background)))
        .into();
    let urgent = stages.submit_request(Request::source("low".into()).priority(Priority::Critical));
    assert!(runtime.drive_one());
    assert_eq!(host.log()[0].file, "low", "the raised run is the next");
    assert!(low.is_resolved() && urgent.is_resolved());
    runtime.drive_all();
    assert!(others.iter().all(|handle| handle.is_resolved()));
    assert_eq!(host.ran(Stage::Source, "low"), 1, "the stale ticket found nothing to do");
    // The raised priority is gone with the run: the next generation starts from its own.
    stages.invalidate(&"low".into());
    let again = stages.submit_request(Request::source("low".into()).priority(Priority::Maintenance));
    let before = stages.submit_request(Request::source("new".into()).priority(Priority::Background));
    assert!(runtime.drive_one());
    assert!(before.is_resolved() && !again.is_resolved());
}

#[test]
fn an_urgent_request_for_a_late_stage_raises_the_stages_before_it() {
    let host = Files::with([("a", "one"), ("b", "two")]);
    let (runtime, stages) = driven(&host);
    let slow = stages.submit_request(Request::source("a".into()).priority(Priority::Maintenance));
    let other = stages.submit_request(Request::source("b".into()).priority(Priority::Background));
    let urgent = stages.submit_request(Request::artifact("a".into(), 1).priority(Priority::Critical));
    while !urgent.is_resolved() {
        assert!(runtime.drive_one());
    }
    assert!(slow.is_resolved() && !other.is_resolved());
    assert_eq!(host.stages_run("a"), [Stage::Source, Stage::Analysis, Stage::Artifact]);
}

#[test]
fn critical_work_starts_before_background_work() {
    let host = Files::with([("bg", "1"), ("fg", "2")]);
    let (runtime, stages) = driven(&host);
    let background = stages.submit_request(Request::source("bg".into()).priority(Priority::Background));
    let critical = stages.submit_request(Request::source("fg".into()).priority(Priority::Critical));
    assert!(runtime.drive_one());
    assert!(critical.is_resolved() && !background.is_resolved());
}

#[test]
fn b66_b68_a_file_runs_once_however_often_and_by_however_many_it_is_asked_for() {
    let host = Files::with([("a", "one")]);
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host.clone());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for profile in 0..3 {
                    let requests = (0..5).map(|_| Request::artifact("a".into(), profile));
                    let results = stages.wait_batch(stages.submit_batch_atomic(requests));
                    assert!(results.iter().all(Result::is_ok));
                }
            });
        }
    });
    assert_eq!(host.ran(Stage::Source, "a"), 1);
    assert_eq!(host.ran(Stage::Analysis, "a"), 1);
    assert_eq!(host.ran(Stage::Artifact, "a"), 3);
}

#[test]
fn b101_withdrawing_from_what_is_over_leaves_nothing_behind() {
    let host = Files::with([("a", "one")]);
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let stages = Stages::new(&runtime, host.clone());
    for round in 0..1_000 {
        let handle = stages.submit_request(Request::artifact("a".into(), 1));
        if round % 2 == 0 {
            handle.cancel();
        } else {
            runtime.drive_all();
        }
        handle.cancel();
        drop(handle);
    }
    runtime.drive_all();
    assert_eq!(stages.len(), 1);
    assert_eq!(runtime.counters().queued, [0; 4], "no ticket is left");
    assert_eq!(*stages.submit_request(Request::artifact("a".into(), 1)).wait().unwrap(), "1:analysis(one)");
}

#[test]
fn a_million_withdrawn_requests_leave_one_ticket() {
    let host = Files::with([("a", "one")]);
    let (runtime, stages) = driven(&host);
    for _ in 0..2_000 {
        stages.submit_request(Request::artifact("a".into(), 1)).cancel();
    }
    let queued: usize = runtime.counters().queued.iter().sum();
    assert!(queued <= 1, "{queued} tickets are out");
}

#[test]
fn b31_a_joiners_callback_may_do_anything_and_its_panic_stays_there() {
    let host = Files::with([("a", "one"), ("b", "two")]);
    let (_runtime, stages) = driven(&host);
    let calls = Arc::new(AtomicUsize::new(0));
    let first = stages.submit_request(source());
    let second = {
        let (stages_again, calls) = (stages.clone(), calls.clone());
        stages.submit_request(source().on_join(move |joined| {
            calls.fetch_add(1, Ordering::Relaxed);
            stages_again.invalidate(&joined.file);
            let inner = stages_again.submit_request(Request::analysis("b".into()));
            assert_eq!(*inner.wait().unwrap(), "analysis(two)");
            panic!("a callback of the host's");
        }))
    };
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert!(matches!(first.wait(), Err(StageError::Superseded)));
    assert!(matches!(second.wait(), Err(StageError::Superseded)));
    assert_eq!(*stages.submit_request(source()).wait().unwrap(), "one");
}
