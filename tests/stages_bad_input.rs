//! What nobody should ask for, and how it is answered: typed, and the scheduler goes on.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, Gate, driven, inline, threads};
use shardrun::{
    Dependencies, FailureCause, ForeignWitness, Host, Moved, Pool, RefusedCommit, Registered, Removed, Request,
    Runtime, SourceLookup, Stage, StageCx, StageError, Stages,
};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn a() -> String {
    "a".into()
}

#[test]
fn an_unknown_file_is_not_found_by_whatever_is_asked_of_it() {
    let (_runtime, stages) = driven(&Files::default());
    assert!(stages.try_get_source(&a()).is_none() && stages.try_get_analysis(&a()).is_none());
    assert!(stages.try_get_artifact(&a(), &1).is_none() && stages.try_get_last_good_artifact(&a(), &1).is_none());
    assert!(stages.try_get_witnessed_source(&a()).is_none() && stages.overlay(&a()).is_none());
    assert!(matches!(stages.capture_source_root().lookup(&a()), SourceLookup::Unknown));
    assert_eq!((stages.invalidate(&a()), stages.close_file(&a())), (Moved::Unknown, Moved::Unknown));
    assert_eq!((stages.rehome(&a()), stages.remove(&a())), (Moved::Unknown, Removed::Unknown));
    assert!(stages.dependents(&a()).is_empty() && stages.generation(&a()).is_none() && stages.is_empty());
    for answer in [
        stages.submit_request(Request::source(a())).wait().err(),
        stages.submit_request(Request::analysis(a())).wait().err(),
        stages.submit_request(Request::artifact(a(), 1)).wait().err(),
    ] {
        let error = answer.expect("there is no such file");
        assert!(error.is_not_found(), "{error}");
        assert_eq!(
            error.failure().map(|failure| (failure.stage(), failure.file().clone())),
            Some((Stage::Source, a()))
        );
    }
}

/// A host whose names are not text, whose files cannot all be read, and whose errors panic when they are printed.
struct Bytes {
    prints: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Unreadable {
    Denied(std::io::Error),
    Unprintable(Arc<AtomicBool>),
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Denied(error) => error.fmt(f),
            Self::Unprintable(prints) => {
                prints.store(true, Ordering::Relaxed);
                panic!("an error that cannot be printed");
            }
        }
    }
}

impl std::error::Error for Unreadable {}

impl Host for Bytes {
    type File = OsString;
    type Text = OsString;
    type Source = OsString;
    type Analysis = usize;
    type Artifact = usize;
    type Profile = u8;
    type Error = Unreadable;

    fn load(&self, file: &OsString) -> Result<Option<OsString>, Unreadable> {
        match file.as_encoded_bytes() {
            b"denied" => Err(Unreadable::Denied(std::io::ErrorKind::PermissionDenied.into())),
            b"unprintable" => Err(Unreadable::Unprintable(self.prints.clone())),
            b"panics" => panic!("a store that panics"),
            _ => Ok(Some(file.clone())),
        }
    }

    fn source(&self, _: &StageCx<'_, Self>, text: OsString) -> Result<OsString, Unreadable> {
        Ok(text)
    }

    fn analysis(&self, _: &StageCx<'_, Self>, source: &OsString) -> Result<usize, Unreadable> {
        Ok(source.len())
    }

    fn artifact(&self, _: &StageCx<'_, Self>, _: &u8, _: &OsString, it: &usize) -> Result<usize, Unreadable> {
        Ok(*it)
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

fn bytes() -> (Runtime, Stages<Bytes>, Arc<AtomicBool>) {
    let prints = Arc::new(AtomicBool::new(false));
    let runtime = inline();
    let stages = Stages::new(&runtime, Bytes { prints: prints.clone() });
    (runtime, stages, prints)
}

#[test]
fn a_store_that_cannot_be_read_fails_source_with_its_own_error_whatever_that_does() {
    let (_runtime, stages, prints) = bytes();
    let failed = |name: &str| match stages.submit_request(Request::artifact(name.into(), 1)).wait() {
        Err(StageError::Failed(failure)) => failure,
        other => panic!("{name}: {other:?}"),
    };
    let denied = failed("denied");
    let FailureCause::Host(Unreadable::Denied(error)) = denied.cause() else { panic!("{denied}") };
    assert_eq!((error.kind(), denied.stage()), (std::io::ErrorKind::PermissionDenied, Stage::Source));
    assert!(matches!(failed("panics").cause(), FailureCause::Panicked(_)));
    let unprintable = failed("unprintable");
    assert!(!prints.load(Ordering::Relaxed), "nobody but who asks for it prints an error");
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| unprintable.to_string())).is_err());
    // As a blocker too.
    stages.submit_request(Request::source("owner".into())).wait().unwrap();
    let named = Dependencies::none().with_blockers(["unprintable".into()]);
    assert_eq!(stages.register_resolved_deps(&"owner".into(), named), Registered::Now);
    let owner = stages.submit_request(Request::artifact("owner".into(), 1)).wait();
    assert!(matches!(owner, Err(StageError::DependencyFailed(_))));
}

#[cfg(unix)]
#[test]
fn names_need_not_be_text() {
    use std::os::unix::ffi::OsStringExt;
    let (_runtime, stages, _) = bytes();
    let name = OsString::from_vec(vec![b'x', 0xff, 0xfe, 0, b'/']);
    assert_eq!(*stages.submit_request(Request::artifact(name.clone(), 1)).wait().unwrap(), 5);
    assert!(stages.has_file(&name) && !stages.has_file(&"x".into()));
    stages.submit_request(Request::source(name.clone()).text("text".into())).wait().unwrap();
    let (_, witness) = stages.try_get_witnessed_source(&name).unwrap();
    assert!(format!("{witness:?}").contains("FF"), "{witness:?}");
    assert_eq!(stages.remove(&name), Removed::Gone);
}

#[test]
fn empty_batches_and_files_named_many_times_are_answered_member_by_member() {
    let host = Files::with([("a", "stored")]);
    let (_runtime, stages) = driven(&host);
    for mut batch in
        [stages.submit_batch_atomic(Vec::<Request<Files>>::new()), stages.submit_batch(Vec::<Request<Files>>::new())]
    {
        assert!(batch.is_empty() && batch.is_resolved() && batch.wait().is_empty());
    }
    assert_eq!((stages.counters().submits, stages.len()), (0, 0));
    // Four texts, two re-homes and three requests for one file.
    let mut requests: Vec<Request<Files>> = (0..4).map(|n| Request::source(a()).text(n.to_string()).into()).collect();
    requests.push(Request::analysis(a()).rehome().into());
    requests.push(Request::source(a()).rehome().into());
    requests.extend((0..3).map(|n| Request::artifact(a(), n % 2).into()));
    let answers = stages.submit_batch_atomic(requests).wait();
    assert_eq!(answers.len(), 9);
    for answer in &answers {
        assert!(matches!(answer, Ok(_) | Err(StageError::Superseded)), "{answer:?}");
    }
    assert!(answers[6..].iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(stages.overlay(&a()).as_deref().map(String::as_str), Some("3"), "the newest text stands");
    assert_eq!(host.ran(Stage::Source, "a"), 1, "it runs once");
}

#[test]
fn at_its_greatest_generation_a_file_refuses_to_move_in_a_batch_too_and_others_go_on() {
    let host = Files::with([("a", "stored"), ("b", "stored")]);
    let runtime = inline();
    let stages = Stages::builder(&runtime, host.clone()).first_generation(u64::MAX - 1).build();
    stages.submit_request(Request::artifact(a(), 1)).wait().unwrap();
    assert_eq!((stages.invalidate(&a()), stages.invalidate(&a())), (Moved::On, Moved::Exhausted));
    let edits = ["a", "b"].map(|file| Request::source(file.into()).text("edit".into()));
    let answers = stages.submit_batch_atomic(edits).wait();
    assert!(matches!(answers[0], Err(StageError::GenerationExhausted)), "{answers:?}");
    assert!(answers[1].is_ok(), "{answers:?}");
    assert_eq!((stages.generation(&a()), stages.overlay(&a())), (Some(u64::MAX), None));
    assert!(stages.submit_request(Request::artifact(a(), 1)).wait().is_ok(), "it can still be asked for");
}

#[test]
fn a_witness_of_another_scheduler_and_a_profile_that_nobody_asked_for_are_refused_or_empty() {
    let host = Files::with([("a", "stored")]);
    let (_runtime, stages) = driven(&host);
    let (_other_runtime, other) = driven(&host);
    for scheduler in [&stages, &other] {
        scheduler.submit_request(Request::analysis(a())).wait().unwrap();
    }
    let (_, foreign) = other.try_get_witnessed_source(&a()).unwrap();
    let refused = stages.commit_artifact(&foreign, &1, Arc::new("x".into())).unwrap_err();
    assert_eq!(refused.because, RefusedCommit::Foreign);
    assert_eq!(stages.try_get_source_for_witness(&foreign).unwrap_err(), ForeignWitness);
    assert_eq!(stages.remove_artifact_not_newer_than(&foreign, &1), Err(ForeignWitness));
    let (_, ours) = stages.try_get_witnessed_source(&a()).unwrap();
    assert!(stages.try_get_artifact(&a(), &77).is_none());
    assert_eq!(stages.remove_artifact_not_newer_than(&ours, &77), Ok(false), "there is none to evict");
    assert_eq!(host.ran(Stage::Artifact, "a"), 0);
}

#[test]
fn what_is_asked_while_the_runtime_shuts_down_is_answered_shut_down() {
    let (host, gate) = (Files::with([("a", "stored"), ("b", "stored")]), Gate::default());
    let runtime = threads(1);
    let stages = Stages::new(&runtime, host.clone());
    let at = gate.clone();
    host.hook(move |cx, it| {
        if it.file == "a" && it.stage == Stage::Source {
            at.pass();
            // The runtime shuts down meanwhile.
            let stages = cx.scheduler().expect("it is still there");
            assert!(matches!(stages.submit_request(Request::source("b".into())).wait(), Err(StageError::Shutdown)));
        }
        Act::Go
    });
    let running = stages.submit_request(Request::artifact(a(), 1));
    gate.arrived(1);
    assert!(runtime.shutdown_within(Duration::ZERO).running > 0, "a stage runs still");
    let single = stages.submit_request(Request::source("b".into()).text("edit".into()));
    let batch = stages.submit_batch_atomic(["b", "c"].map(|file| Request::analysis(file.into()))).wait();
    assert!(matches!(single.wait(), Err(StageError::Shutdown)));
    assert!(batch.iter().all(|answer| matches!(answer, Err(StageError::Shutdown))), "{batch:?}");
    gate.open();
    assert!(matches!(running.wait(), Err(StageError::Shutdown)));
    assert_eq!(runtime.shutdown().running, 0);
    assert_eq!(runtime.counters().panics(), 0, "also inside a stage");
    assert!(stages.try_get_artifact(&a(), &1).is_none());
}

#[test]
fn extreme_numbers_are_taken_as_they_are() {
    let host = Files::with([("a", "stored")]);
    let runtime = inline();
    let stages = Stages::builder(&runtime, host.clone()).first_epoch(u64::MAX).expect_files(usize::MAX).build();
    assert!(stages.submit_request(Request::source(a()).deadline(Duration::MAX).name(u64::MAX)).wait().is_ok());
    let zero = stages.submit_request(Request::source(a()).deadline(Duration::ZERO));
    assert!(matches!(zero.wait(), Ok(_) | Err(StageError::DeadlinePassed)));
    assert!(stages.capture_source_root().is_exhausted());
    runtime.advance(Duration::from_secs(1 << 40));
    assert!(matches!(
        stages.submit_request(Request::analysis(a()).deadline(Duration::from_secs(1))).wait(),
        Err(StageError::DeadlinePassed)
    ));
    assert!(stages.submit_request(Request::analysis(a()).deadline(Duration::MAX)).wait().is_ok());
}
