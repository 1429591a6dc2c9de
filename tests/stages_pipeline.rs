//! The pipeline of one file: what runs, in which order, how often, and what is read of it.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, Refused, driven, threads};
use shardrun::{FailureCause, Moved, Request, Stage, StageError, Stages};

#[test]
fn a_source_request_stops_after_source() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    let source = stages.submit_request(Request::source("a".into())).wait().unwrap();
    assert_eq!(*source, "one");
    assert_eq!(host.stages_run("a"), [Stage::Source]);
    assert_eq!(stages.try_get_source(&"a".into()).as_deref().map(String::as_str), Some("one"));
    assert!(stages.try_get_analysis(&"a".into()).is_none());
}

#[test]
fn a_later_analysis_request_does_not_run_source_again() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    stages.submit_request(Request::source("a".into())).wait().unwrap();
    let analysis = stages.submit_request(Request::analysis("a".into())).wait().unwrap();
    assert_eq!(*analysis, "analysis(one)");
    assert_eq!(host.stages_run("a"), [Stage::Source, Stage::Analysis]);
}

#[test]
fn a_fresh_artifact_request_runs_each_stage_once_in_order() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    let artifact = stages.submit_request(Request::artifact("a".into(), 7)).wait().unwrap();
    assert_eq!(*artifact, "7:analysis(one)");
    assert_eq!(host.stages_run("a"), [Stage::Source, Stage::Analysis, Stage::Artifact]);
}

#[test]
fn the_text_of_a_request_goes_before_the_stored_one() {
    let host = Files::with([("a", "stored")]);
    let (_runtime, stages) = driven(&host);
    let source = stages.submit_request(Request::source("a".into()).text("carried".into())).wait().unwrap();
    assert_eq!(*source, "carried");
    assert_eq!(stages.overlay(&"a".into()).as_deref().map(String::as_str), Some("carried"));
    assert_eq!(stages.counters().overlaid, 1);
}

#[test]
fn what_is_there_already_is_answered_at_once() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    stages.submit_request(Request::artifact("a".into(), 1)).wait().unwrap();
    let before = host.log().len();
    assert!(stages.submit_request(Request::source("a".into())).is_resolved());
    assert!(stages.submit_request(Request::analysis("a".into())).is_resolved());
    assert!(stages.submit_request(Request::artifact("a".into(), 1)).is_resolved());
    assert_eq!(host.log().len(), before);
}

#[test]
fn two_profiles_share_source_and_analysis() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    let first = stages.submit_request(Request::artifact("a".into(), 1));
    let second = stages.submit_request(Request::artifact("a".into(), 2));
    assert_eq!(*first.wait().unwrap(), "1:analysis(one)");
    assert_eq!(*second.wait().unwrap(), "2:analysis(one)");
    assert_eq!(host.stages_run("a"), [Stage::Source, Stage::Analysis, Stage::Artifact, Stage::Artifact]);
}

#[test]
fn the_failure_of_one_file_leaves_another_alone() {
    let host = Files::with([("a", "one"), ("b", "two")]);
    host.hook(|_, at| if at.file == "a" { Act::Fail("no") } else { Act::Go });
    let (_runtime, stages) = driven(&host);
    let bad = stages.submit_request(Request::analysis("a".into()));
    let good = stages.submit_request(Request::analysis("b".into()));
    assert!(bad.wait().is_err());
    assert_eq!(*good.wait().unwrap(), "analysis(two)");
}

#[test]
fn a_missing_file_fails_typed_and_is_looked_for_again() {
    let host = Files::default();
    let (_runtime, stages) = driven(&host);
    for _ in 0..2 {
        let error = stages.submit_request(Request::artifact("a".into(), 1)).wait().unwrap_err();
        assert!(error.is_not_found());
        assert_eq!(error.to_string(), "source of \"a\": no such file");
    }
    host.store("a", "now");
    assert_eq!(*stages.submit_request(Request::source("a".into())).wait().unwrap(), "now");
    assert_eq!(stages.generation(&"a".into()), Some(1), "a retry stays at the same generation");
}

#[test]
fn the_failure_of_a_stage_is_typed_names_it_and_may_be_tried_again() {
    for failing in [Stage::Source, Stage::Analysis, Stage::Artifact] {
        let host = Files::with([("a", "one")]);
        host.hook(move |_, at| if at.stage == failing { Act::Fail("refused") } else { Act::Go });
        let (_runtime, stages) = driven(&host);
        let error = stages.submit_request(Request::artifact("a".into(), 3)).wait().unwrap_err();
        let failure = error.failure().expect("a failure of the host's");
        assert_eq!((failure.file().as_str(), failure.stage(), failure.generation()), ("a", failing, 1));
        assert!(matches!(failure.cause(), FailureCause::Host(Refused("refused"))));
        assert!(error.to_string().ends_with("refused") && std::error::Error::source(&error).is_none(), "shown once");
        host.unhook();
        assert_eq!(*stages.submit_request(Request::artifact("a".into(), 3)).wait().unwrap(), "3:analysis(one)");
        let again = if failing == Stage::Source { 2 } else { 1 };
        assert_eq!(host.ran(Stage::Source, "a"), again, "Source is carried over when {failing} failed");
    }
}

#[test]
fn a_panic_of_a_stage_is_typed_and_harms_nobody() {
    for failing in [Stage::Source, Stage::Analysis, Stage::Artifact] {
        let host = Files::with([("a", "one"), ("b", "two")]);
        host.hook(move |_, at| if at.stage == failing && at.file == "a" { panic!("asked for") } else { Act::Go });
        let runtime = threads(1);
        let stages = Stages::new(&runtime, host.clone());
        let error = stages.submit_request(Request::artifact("a".into(), 1)).wait().unwrap_err();
        assert!(
            matches!(error.failure().unwrap().cause(), FailureCause::Panicked(report) if report.message() == "asked for")
        );
        assert_eq!(*stages.submit_request(Request::artifact("b".into(), 1)).wait().unwrap(), "1:analysis(two)");
        host.unhook();
        assert_eq!(*stages.submit_request(Request::artifact("a".into(), 1)).wait().unwrap(), "1:analysis(one)");
    }
}

#[test]
fn closing_drops_the_text_and_the_stored_one_counts_again() {
    let host = Files::with([("a", "stored")]);
    let (_runtime, stages) = driven(&host);
    stages.submit_request(Request::source("a".into()).text("edited".into())).wait().unwrap();
    assert_eq!(stages.invalidate(&"a".into()), Moved::On);
    assert_eq!(*stages.submit_request(Request::source("a".into())).wait().unwrap(), "edited");
    assert_eq!(stages.close_file(&"a".into()), Moved::On);
    assert!(stages.overlay(&"a".into()).is_none());
    assert!(stages.try_get_source(&"a".into()).is_none());
    assert_eq!(stages.counters().overlaid, 0);
    assert_eq!(*stages.submit_request(Request::source("a".into())).wait().unwrap(), "stored");
}

#[test]
fn the_last_good_artifact_outlives_an_invalidation() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    let file = "a".to_string();
    stages.submit_request(Request::artifact(file.clone(), 1)).wait().unwrap();
    assert_eq!(stages.invalidate(&file), Moved::On);
    assert!(stages.try_get_artifact(&file, &1).is_none());
    assert_eq!(stages.try_get_last_good_artifact(&file, &1).as_deref().map(String::as_str), Some("1:analysis(one)"));
    host.store("a", "two");
    stages.submit_request(Request::artifact(file.clone(), 1)).wait().unwrap();
    assert_eq!(stages.try_get_artifact(&file, &1), stages.try_get_last_good_artifact(&file, &1));
    assert_eq!(stages.try_get_artifact(&file, &1).as_deref().map(String::as_str), Some("1:analysis(two)"));
}

#[test]
fn an_edit_supersedes_what_was_asked_before() {
    let host = Files::with([("a", "stored")]);
    let (_runtime, stages) = driven(&host);
    let first = stages.submit_request(Request::analysis("a".into()).text("v1".into()));
    let second = stages.submit_request(Request::analysis("a".into()).text("v2".into()));
    assert!(matches!(first.wait(), Err(StageError::Superseded)));
    assert_eq!(*second.wait().unwrap(), "analysis(v2)");
    assert_eq!(host.stages_run("a"), [Stage::Source, Stage::Analysis], "v1 never ran");
}

#[test]
fn the_maximum_generation_refuses_edits_and_nothing_wraps() {
    let host = Files::with([("a", "stored")]);
    let runtime = host::inline();
    let stages = Stages::builder(&runtime, host.clone()).first_generation(u64::MAX - 1).build();
    let file = "a".to_string();
    stages.submit_request(Request::source(file.clone())).wait().unwrap();
    assert_eq!(stages.invalidate(&file), Moved::On);
    assert_eq!(stages.generation(&file), Some(u64::MAX));
    stages.submit_request(Request::source(file.clone())).wait().unwrap();
    assert_eq!(stages.invalidate(&file), Moved::Exhausted);
    assert_eq!(stages.close_file(&file), Moved::Exhausted);
    let refused = stages.submit_request(Request::source(file.clone()).text("late".into())).wait();
    assert!(matches!(refused, Err(StageError::GenerationExhausted)));
    assert_eq!(stages.generation(&file), Some(u64::MAX));
    assert_eq!(stages.try_get_source(&file).as_deref().map(String::as_str), Some("stored"));
}

#[test]
fn unknown_files_are_left_unknown() {
    let (_runtime, stages) = driven(&Files::default());
    for n in 0..256 {
        let file = format!("unknown {n}");
        assert_eq!(stages.invalidate(&file), Moved::Unknown);
        assert_eq!(stages.close_file(&file), Moved::Unknown);
        assert!(!stages.has_file(&file));
    }
    assert_eq!(stages.len(), 0);
}

#[test]
fn dropping_the_scheduler_ends_what_is_pending() {
    let host = Files::with([("a", "one"), ("b", "two")]);
    let (runtime, stages) = driven(&host);
    let source = stages.submit_request(Request::source("a".into()));
    let analysis = stages.submit_request(Request::analysis("b".into()));
    let artifact = stages.submit_request(Request::artifact("b".into(), 1));
    drop(stages);
    assert!(matches!(source.wait(), Err(StageError::Shutdown)));
    assert!(matches!(analysis.wait(), Err(StageError::Shutdown)));
    assert!(matches!(artifact.wait(), Err(StageError::Shutdown)));
    runtime.drive_all();
    assert_eq!(host.log(), []);
}

#[test]
fn shutting_the_runtime_down_ends_what_is_pending_and_what_comes_after() {
    let host = Files::with([("a", "one"), ("b", "two")]);
    let (runtime, stages) = driven(&host);
    let pending = stages.submit_request(Request::analysis("a".into()));
    runtime.shutdown();
    assert!(matches!(pending.wait(), Err(StageError::Shutdown)));
    assert!(matches!(stages.submit_request(Request::source("a".into())).wait(), Err(StageError::Shutdown)));
    assert!(matches!(stages.submit_request(Request::artifact("b".into(), 1)).wait(), Err(StageError::Shutdown)));
    let edited = stages.submit_request(Request::source("b".into()).text("late".into()));
    assert!(matches!(edited.wait(), Err(StageError::Shutdown)));
}
