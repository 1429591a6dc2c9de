//! The plain scenarios of the staged scheduler, one by one: a pipeline, its errors, joiners, batches and priorities.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, driven, inline, threads};
use shardrun::{
    Budget, FailureCause, Moved, Pool, Priority, Request, RequestContext, Runtime, Stage, StageError, StageHandle,
    StageValue, Stages,
};
use std::sync::{Arc, Mutex};

const ALL: [Stage; 3] = [Stage::Source, Stage::Analysis, Stage::Artifact];

fn a() -> String {
    "a".to_owned()
}

/// A request for a stage of a file, whatever stage that is.
fn request(stage: Stage, file: &str) -> Request<Files> {
    match stage {
        Stage::Source => Request::source(file.into()).any(),
        Stage::Analysis => Request::analysis(file.into()).any(),
        Stage::Artifact => Request::artifact(file.into(), 1).any(),
    }
}

/// Asks for a stage of a file, whatever stage that is.
fn ask(stages: &Stages<Files>, stage: Stage, file: &str) -> StageHandle<Files> {
    stages.submit_batch([request(stage, file)]).into_handles().remove(0)
}

/// One stage at a time, and one unit of budget for each request that is not answered.
fn narrow(host: &Files, runtime: &Runtime) -> (Stages<Files>, Budget) {
    let budget = Budget::for_runtime(1, runtime);
    let stages = Stages::builder(runtime, host.clone()).budget(budget.clone()).limit(Pool::Workers, 1).unwrap().build();
    (stages, budget)
}

fn nothing_is_held(stages: &Stages<Files>, budget: &Budget) {
    assert_eq!(budget.in_use(), 0);
    assert!(stages.pool_use(Pool::Workers).is_none_or(|used| (used.in_flight, used.waiting) == (0, 0)));
}

/// The stage that failed, and what the host said.
fn refusal(error: &StageError<Files>) -> (Stage, &str) {
    let failure = error.failure().unwrap_or_else(|| panic!("no failure: {error}"));
    let why = match failure.cause() {
        FailureCause::NotFound => "not found",
        FailureCause::Host(refused) => refused.0,
        FailureCause::Panicked(_) => "panicked",
        other => panic!("another cause: {other:?}"),
    };
    (failure.stage(), why)
}

#[test]
fn s1_s2_s3_s6_a_file_runs_as_far_as_it_is_asked_for_and_each_stage_once() {
    let host = Files::with([("a", "one"), ("b", "two")]);
    let runtime = inline();
    let (stages, budget) = narrow(&host, &runtime);
    assert_eq!(*stages.submit_request(Request::source(a())).wait().unwrap(), "one");
    assert_eq!(host.stages_run("a"), [Stage::Source]);
    nothing_is_held(&stages, &budget);
    assert_eq!(*stages.submit_request(Request::analysis(a())).wait().unwrap(), "analysis(one)");
    assert_eq!(host.stages_run("a"), [Stage::Source, Stage::Analysis]);
    assert_eq!(*stages.submit_request(Request::artifact("b".into(), 1)).wait().unwrap(), "1:analysis(two)");
    assert_eq!(host.stages_run("b"), ALL);
    for stage in ALL {
        assert!(ask(&stages, stage, "b").is_resolved(), "answered at once");
    }
    assert_eq!(host.stages_run("b"), ALL, "nothing runs again");
    nothing_is_held(&stages, &budget);
}

#[test]
fn s4_s5_a_text_that_comes_with_a_request_wins_and_supersedes_the_one_before() {
    let host = Files::with([("a", "stored")]);
    let (_runtime, stages) = driven(&host);
    let first = stages.submit_request(Request::source(a()).text("v1".into()));
    let second = stages.submit_request(Request::source(a()).text("v2".into()));
    assert!(matches!(first.wait(), Err(StageError::Superseded)));
    assert_eq!(*second.wait().unwrap(), "v2");
    assert_eq!(host.log().iter().map(|at| at.generation).collect::<Vec<_>>(), [2], "the first text was never seen");
}

#[test]
fn s7_s8_s9_an_error_is_typed_touches_nobody_else_and_gives_everything_back() {
    let runtime = inline();
    for stage in ALL {
        let host = Files::with([("a", "one"), ("b", "two")]);
        host.hook(move |_, at| if at.stage == stage && at.file == "a" { Act::Fail("no") } else { Act::Go });
        let (stages, budget) = narrow(&host, &runtime);
        let error = ask(&stages, Stage::Artifact, "a").wait().map(drop).unwrap_err();
        assert_eq!(refusal(&error), (stage, "no"));
        assert_eq!(error.failure().map(|failure| failure.file().as_str()), Some("a"));
        nothing_is_held(&stages, &budget);
        // The unit and the permit are there for one more, and whoever asks again tries again.
        assert!(ask(&stages, Stage::Artifact, "b").wait().is_ok());
        host.unhook();
        assert!(ask(&stages, Stage::Artifact, "a").wait().is_ok());
        let missing = ask(&stages, Stage::Analysis, "nowhere").wait().map(drop).unwrap_err();
        assert_eq!(refusal(&missing), (Stage::Source, "not found"));
        assert!(missing.is_not_found());
        nothing_is_held(&stages, &budget);
    }
}

#[test]
fn s10_a_panic_is_told_costs_no_thread_and_leaves_no_context() {
    let host = Files::with([("a", "one"), ("b", "two")]);
    let contexts = Arc::new(Mutex::new(Vec::new()));
    let seen = contexts.clone();
    host.hook(move |_, at| {
        seen.lock().unwrap().push(RequestContext::current().is_some());
        assert!(at.file != "a", "asked for");
        Act::Go
    });
    let runtime = threads(1);
    let (stages, _) = narrow(&host, &runtime);
    for _ in 0..3 {
        let asked = Request::source(a()).context(RequestContext::new("mine"));
        let error = stages.submit_request(asked).wait().map(drop).unwrap_err();
        assert_eq!(refusal(&error), (Stage::Source, "panicked"));
        assert!(stages.submit_request(Request::source("b".into())).wait().is_ok(), "on the only worker");
        stages.remove(&"b".into());
    }
    assert_eq!(*contexts.lock().unwrap(), [true, false].repeat(3));
}

#[test]
fn s12_who_closes_a_file_gets_what_is_stored_again() {
    let host = Files::with([("a", "stored")]);
    let (_runtime, stages) = driven(&host);
    assert_eq!(*stages.submit_request(Request::source(a()).text("typed".into())).wait().unwrap(), "typed");
    assert_eq!(stages.overlay(&a()).as_deref().map(String::as_str), Some("typed"));
    assert_eq!(stages.close_file(&a()), Moved::On);
    assert!(stages.overlay(&a()).is_none() && stages.try_get_source(&a()).is_none());
    assert_eq!(*stages.submit_request(Request::source(a())).wait().unwrap(), "stored");
}

#[test]
fn s13_what_is_pending_when_the_scheduler_goes_is_shut_down() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    let pending: Vec<_> = ALL.into_iter().map(|stage| ask(&stages, stage, "a")).collect();
    drop(stages);
    for handle in pending {
        assert!(matches!(handle.wait(), Err(StageError::Shutdown)));
    }
    assert!(host.log().is_empty());
}

#[test]
fn s14_s19_the_more_urgent_goes_first_also_if_it_becomes_so_later() {
    let host = Files::with([("a", "1"), ("b", "2"), ("c", "3")]);
    let (runtime, stages) = driven(&host);
    let ask = |file: &str, priority| stages.submit_request(Request::source(file.into()).priority(priority));
    let waiting = [ask("a", Priority::Background), ask("b", Priority::Background), ask("c", Priority::Critical)];
    let urged = ask("b", Priority::Critical);
    runtime.drive_all();
    let order: Vec<_> = host.log().into_iter().map(|at| at.file).collect();
    assert_eq!(order, ["c", "b", "a"]);
    assert!(waiting.iter().chain([&urged]).all(|handle| handle.is_resolved()));
}

#[test]
fn s16_s17_s28_each_joiner_is_told_once_of_the_winner_in_a_batch_too() {
    let host = Files::with([("a", "one"), ("b", "two")]);
    let (_runtime, stages) = driven(&host);
    let told = Arc::new(Mutex::new(Vec::new()));
    let by = |file: &str, name: u64| {
        let told = told.clone();
        let noted = move |joined: shardrun::Joined<Files>| told.lock().unwrap().push((name, joined.winner));
        Request::source(file.into()).name(name).on_join(noted).any()
    };
    let nameless = stages.submit_request(Request::source("b".into()));
    let batch = stages.submit_batch([by("a", 1), by("a", 2), by("b", 3), Request::source(a()).any()]);
    assert!(stages.wait_batch(batch).into_iter().all(|result| result.is_ok()) && nameless.wait().is_ok());
    assert_eq!(*told.lock().unwrap(), [(2, Some(1)), (3, None)]);
    assert_eq!((host.ran(Stage::Source, "a"), host.ran(Stage::Source, "b")), (1, 1));
}

#[test]
fn s21_who_joins_what_was_cancelled_gets_a_run_of_its_own() {
    let host = Files::with([("a", "one")]);
    let (runtime, stages) = driven(&host);
    let first = stages.submit_request(Request::source(a()));
    first.cancel();
    let second = stages.submit_request(Request::source(a()));
    runtime.drive_all();
    assert!(matches!(first.wait(), Err(StageError::Cancelled)) && second.wait().is_ok());
    assert_eq!(host.ran(Stage::Source, "a"), 1);
}

#[test]
fn s22_two_profiles_of_one_file_share_what_stands_before_them() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    let batch = stages.submit_batch([1, 2].map(|profile| Request::artifact(a(), profile)));
    let made: Vec<_> = stages.wait_batch(batch).into_iter().map(|result| result.unwrap()).collect();
    let texts = made.iter().map(|value| match value {
        StageValue::Artifact(text) => text.as_str(),
        other => panic!("no artifact: {other:?}"),
    });
    assert!(texts.eq(["1:analysis(one)", "2:analysis(one)"]));
    assert_eq!(host.stages_run("a"), [Stage::Source, Stage::Analysis, Stage::Artifact, Stage::Artifact]);
}

#[test]
fn s24_s26_a_batch_counts_once_and_is_answered_in_the_order_of_its_requests() {
    let host = Files::with([("a", "1"), ("b", "2"), ("c", "3")]);
    let (runtime, stages) = driven(&host);
    let urgency = [("a", Priority::Background), ("b", Priority::Interactive), ("c", Priority::Critical)];
    let requests = || urgency.map(|(file, priority)| Request::source(file.into()).priority(priority));
    let before = stages.counters().submits;
    let batch = stages.submit_batch_atomic(requests());
    assert_eq!(stages.counters().submits, before + 1);
    let texts = |results: Vec<Result<StageValue<Files>, StageError<Files>>>| -> Vec<String> {
        let text = |result: Result<_, _>| match result {
            Ok(StageValue::Source(text)) => String::clone(&text),
            other => panic!("no source: {other:?}"),
        };
        results.into_iter().map(text).collect()
    };
    assert_eq!(texts(stages.wait_batch(batch)), ["1", "2", "3"]);
    assert_eq!(host.log().into_iter().map(|at| at.file).collect::<Vec<_>>(), ["c", "b", "a"], "the other way round");
    let mut again = stages.submit_batch_atomic(requests());
    assert_eq!(texts(stages.wait_batch(&mut again)), ["1", "2", "3"], "and by reference");
    let counted = stages.counters().submits;
    let nothing: [Request<Files>; 0] = [];
    assert!(stages.submit_batch_atomic(nothing).is_empty());
    assert_eq!((stages.counters().submits, runtime.counters().queued), (counted, [0; 4]));
}
