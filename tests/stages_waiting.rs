//! Waiting for stages inside stages: one worker is enough, a wait for oneself is told, and nobody else is held up.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, Gate, driven, threads};
use shardrun::{Driver, Interrupt, Pool, Request, Runtime, Stage, StageError, Stages};
use std::future::Future;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

#[test]
fn one_worker_is_enough_for_a_stage_that_waits_for_another_files_stage() {
    let host = Files::with([("a", "one"), ("b", "two")]);
    host.hook(|cx, at| {
        if at.file == "a" && at.stage == Stage::Analysis {
            let other = cx.scheduler().unwrap().submit_request(Request::artifact("b".into(), 1));
            assert_eq!(*other.wait().unwrap(), "1:analysis(two)");
        }
        Act::Go
    });
    for runtime in [threads(1), host::inline()] {
        let stages = Stages::new(&runtime, host.clone());
        assert_eq!(*stages.submit_request(Request::analysis("a".into())).wait().unwrap(), "analysis(one)");
    }
}

#[test]
fn one_io_thread_is_enough_for_a_source_that_waits_for_another_source() {
    let host = Files::with([("a", "one"), ("b", "two")]);
    host.hook(|cx, at| {
        if at.file == "a" {
            assert!(cx.scheduler().unwrap().submit_request(Request::source("b".into())).wait().is_ok());
        }
        Act::Go
    });
    let runtime = Runtime::builder().workers(1).io_threads(1).build().unwrap();
    let stages = Stages::builder(&runtime, host).source_pool(Pool::Io).build();
    assert!(stages.submit_request(Request::source("a".into())).wait().is_ok());
}

#[test]
fn a_stage_that_waits_for_itself_or_for_what_needs_it_is_told() {
    for (waits_in, for_stage) in [
        (Stage::Source, Stage::Source),
        (Stage::Source, Stage::Analysis),
        (Stage::Analysis, Stage::Analysis),
        (Stage::Analysis, Stage::Artifact),
        (Stage::Artifact, Stage::Artifact),
    ] {
        let host = Files::with([("a", "one")]);
        host.hook(move |cx, at| {
            if at.stage == waits_in {
                let stages = cx.scheduler().unwrap();
                let file = cx.file().clone();
                let error = match for_stage {
                    Stage::Source => stages.submit_request(Request::source(file)).wait().map(drop),
                    Stage::Analysis => stages.submit_request(Request::analysis(file)).wait().map(drop),
                    Stage::Artifact => stages.submit_request(Request::artifact(file, 1)).wait().map(drop),
                };
                let Err(StageError::Interrupted(why)) = error else { panic!("it was not told: {error:?}") };
                let Interrupt::WouldDeadlock(cycle) = &*why else { panic!("it was told {why}") };
                assert!(cycle.members().iter().any(|member| member.contains("of \"a\"")), "{cycle}");
            }
            Act::Go
        });
        for runtime in [threads(1), host::inline()] {
            let stages = Stages::new(&runtime, host.clone());
            let artifact = stages.submit_request(Request::artifact("a".into(), 1)).wait();
            assert!(artifact.is_ok(), "{waits_in} waits for {for_stage}: {artifact:?}");
        }
    }
}

#[test]
fn an_artifact_may_wait_for_another_profile_of_its_file() {
    let host = Files::with([("a", "one")]);
    let waited = Mutex::new(false);
    host.hook(move |cx, at| {
        if at.stage == Stage::Artifact && !std::mem::replace(&mut *waited.lock().unwrap(), true) {
            assert!(cx.scheduler().unwrap().submit_request(Request::artifact(cx.file().clone(), 2)).wait().is_ok());
        }
        Act::Go
    });
    let (_runtime, stages) = driven(&host);
    assert!(stages.submit_request(Request::artifact("a".into(), 1)).wait().is_ok());
    assert_eq!(host.ran(Stage::Artifact, "a"), 2);
}

#[test]
fn two_stages_that_wait_for_each_other_are_both_told_or_one_of_them() {
    let host = Files::with([("a", "one"), ("b", "two")]);
    let both = Gate::default();
    host.hook({
        let both = both.clone();
        move |cx, at| {
            let other = if at.file == "a" { "b" } else { "a" };
            both.pass();
            match cx.scheduler().unwrap().submit_request(Request::source(other.into())).wait() {
                Ok(_) => Act::Go,
                Err(error) => {
                    assert!(matches!(error, StageError::Interrupted(_) | StageError::Failed(_)), "{error}");
                    Act::Fail("a cycle")
                }
            }
        }
    });
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host);
    let handles = ["a", "b"].map(|file| stages.submit_request(Request::source(file.into())));
    both.arrived(2);
    both.open();
    let answers = handles.map(|handle| handle.wait());
    assert!(answers.iter().any(Result::is_err), "a cycle was not noticed");
}

#[test]
fn a_stage_that_waits_does_not_hold_up_strangers() {
    let host = Files::with([("slow", "s"), ("waits", "w"), ("1", "x"), ("2", "x"), ("3", "x")]);
    let gate = Gate::default();
    host.hook({
        let gate = gate.clone();
        move |cx, at| {
            match at.file.as_str() {
                "slow" => gate.pass(),
                "waits" => {
                    assert!(cx.scheduler().unwrap().submit_request(Request::source("slow".into())).wait().is_ok());
                }
                _ => {}
            }
            Act::Go
        }
    });
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host);
    let slow = stages.submit_request(Request::source("slow".into()));
    gate.arrived(1);
    let waits = stages.submit_request(Request::source("waits".into()));
    for file in ["1", "2", "3"] {
        assert!(stages.submit_request(Request::source(file.into())).wait().is_ok());
    }
    assert!(!slow.is_resolved() && !waits.is_resolved());
    gate.open();
    assert!(slow.wait().is_ok() && waits.wait().is_ok());
}

#[test]
fn handles_are_futures_and_a_superseded_one_is_ended_by_who_polls_it() {
    let host = Files::with([("a", "one")]);
    let (runtime, stages) = driven(&host);
    let mut context = Context::from_waker(Waker::noop());
    let mut handle = pin!(stages.submit_request(Request::analysis("a".into())));
    assert!(handle.as_mut().poll(&mut context).is_pending());
    runtime.drive_all();
    let Poll::Ready(Ok(analysis)) = handle.as_mut().poll(&mut context) else { panic!("it is there") };
    assert_eq!(*analysis, "analysis(one)");
    let mut old = pin!(stages.submit_request(Request::analysis("b".into()).text("v1".into())));
    stages.invalidate(&"b".into());
    assert!(matches!(old.as_mut().poll(&mut context), Poll::Ready(Err(StageError::Superseded))));
}

#[test]
fn an_outside_waiter_may_run_the_stages_itself() {
    let host = Files::with([("a", "one")]);
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let stages = Stages::new(&runtime, host.clone());
    let artifact = stages.submit_request(Request::artifact("a".into(), 1)).wait_helping().unwrap();
    assert_eq!(*artifact, "1:analysis(one)");
}
