//! Artifacts that wait for the Analysis of other files: found by the host or registered late, through edits, failures and rings.

#[path = "support/stages_host.rs"]
mod support;

use shardrun::{Dependencies, FailureCause, Priority, Registered, Request, Stage, StageError, Stages, StagesCounters};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};
use support::{Act, Files, Gate, driven, threads};

fn artifact(stages: &Stages<Files>, file: &str) -> shardrun::StageHandleOf<Files, shardrun::ToArtifact<u32>> {
    stages.submit_request(Request::artifact(file.into(), 1))
}

fn analysis(stages: &Stages<Files>, file: &str) -> shardrun::StageHandleOf<Files, shardrun::ToAnalysis> {
    stages.submit_request(Request::analysis(file.into()))
}

fn source(stages: &Stages<Files>, file: &str) -> shardrun::StageHandleOf<Files, shardrun::ToSource> {
    stages.submit_request(Request::source(file.into()))
}

fn blockers<const N: usize>(files: [&str; N]) -> Dependencies<String> {
    Dependencies::none().with_blockers(files.map(String::from))
}

fn register<const N: usize>(stages: &Stages<Files>, owner: &str, files: [&str; N]) -> Registered {
    stages.register_resolved_deps(&owner.into(), blockers(files))
}

/// The place of an execution in the log.
fn at(host: &Files, stage: Stage, file: &str) -> usize {
    host.log().iter().position(|at| at.stage == stage && at.file == file).expect("it ran")
}

fn nothing_left(stages: &Stages<Files>) {
    assert_eq!(stages.dependency_occupancy(), Default::default());
    // Of the whole process: what a job of another test waits for, it does not wait for for ever.
    let begun = Instant::now();
    while stages.wait_graph_occupancy() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(300), "somebody is left waiting");
        std::thread::yield_now();
    }
}

/// The failure that an Artifact ended with: of which file, at which stage, why.
fn failed(error: &StageError<Files>) -> (String, Stage, &'static str) {
    let dependency = error.dependency().unwrap_or_else(|| panic!("not a dependency's failure: {error}"));
    let failure = dependency.cause().failure().expect("the cause is a failure");
    assert_eq!(failure.file(), dependency.file());
    let why = match failure.cause() {
        FailureCause::NotFound => "not found",
        FailureCause::Host(refused) => refused.0,
        FailureCause::Panicked(_) => "panicked",
        other => panic!("an unexpected cause: {other:?}"),
    };
    (dependency.file().clone(), failure.stage(), why)
}

/// Fails the stage of the file as long as it is in the list.
fn failing(host: &Files) -> Arc<Mutex<Vec<(Stage, &'static str)>>> {
    let list = Arc::new(Mutex::new(Vec::<(Stage, &'static str)>::new()));
    let shared = list.clone();
    host.hook(move |_, at| {
        let fails = shared.lock().unwrap().iter().any(|(stage, file)| *stage == at.stage && *file == at.file);
        if fails { Act::Fail("on purpose") } else { Act::Go }
    });
    list
}

#[test]
fn s56_an_unknown_blocker_is_loaded_and_analysed_before_the_artifact() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    host.blocks("a", ["d"]);
    let (_runtime, stages) = driven(&host);
    assert_eq!(*artifact(&stages, "a").wait().unwrap(), "1:analysis(1)");
    assert!(at(&host, Stage::Analysis, "d") < at(&host, Stage::Artifact, "a"));
    assert_eq!(host.stages_run("d"), [Stage::Source, Stage::Analysis]);
    assert_eq!(stages.generation(&"d".into()), Some(1));
    nothing_left(&stages);
}

#[test]
fn s57_without_blockers_the_artifact_follows_its_analysis() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    host.needs("a", Dependencies::none().with(["d".to_owned()]));
    let (_runtime, stages) = driven(&host);
    artifact(&stages, "a").wait().unwrap();
    assert_eq!(host.log().len(), 3);
    assert_eq!(stages.dependents(&"d".into()), ["a"]);
    nothing_left(&stages);
}

#[test]
fn s47_a_request_for_source_or_analysis_asks_for_no_blocker() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    host.blocks("a", ["d"]);
    let (runtime, stages) = driven(&host);
    source(&stages, "a").wait().unwrap();
    analysis(&stages, "a").wait().unwrap();
    runtime.drive_all();
    assert_eq!(host.log().len(), 2);
    assert!(!stages.has_file(&"d".into()));
    artifact(&stages, "a").wait().unwrap();
    assert_eq!(host.stages_run("d"), [Stage::Source, Stage::Analysis]);
}

#[test]
fn s51_s61_a_blocker_whose_source_is_done_is_analysed() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    let (runtime, stages) = driven(&host);
    source(&stages, "d").wait().unwrap();
    source(&stages, "a").wait().unwrap();
    assert_eq!(register(&stages, "a", ["d"]), Registered::Now);
    assert_eq!(stages.dependency_occupancy().demanded, 1);
    runtime.drive_all();
    assert_eq!(host.stages_run("d"), [Stage::Source, Stage::Analysis], "the registration alone is demand");
    artifact(&stages, "a").wait().unwrap();
    assert_eq!(host.ran(Stage::Analysis, "d"), 1);
    nothing_left(&stages);
}

#[test]
fn s52_s67_a_blocker_that_nobody_else_wants_runs() {
    let host = Files::with([("a", "1"), ("d", "2"), ("e", "3")]);
    let (runtime, stages) = driven(&host);
    // Nothing of the owner is admitted, and nobody ever asks for it.
    assert_eq!(register(&stages, "a", ["d"]), Registered::Deferred);
    runtime.drive_all();
    assert_eq!(host.stages_run("d"), [Stage::Source, Stage::Analysis]);
    assert_eq!(host.stages_run("a"), []);
    // Queued and not drained is not done.
    host.blocks("e", ["d"]);
    stages.invalidate(&"d".into());
    source(&stages, "d").detach();
    let owner = artifact(&stages, "e");
    owner.wait().unwrap();
    assert!(
        host.log().iter().rposition(|at| at.stage == Stage::Analysis && at.file == "d").unwrap()
            < at(&host, Stage::Artifact, "e")
    );
}

#[test]
fn s59_a_registration_after_the_owners_analysis_gates_the_next_artifact() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    let (_runtime, stages) = driven(&host);
    analysis(&stages, "a").wait().unwrap();
    assert_eq!(register(&stages, "a", ["d"]), Registered::Now);
    artifact(&stages, "a").wait().unwrap();
    assert_eq!(host.ran(Stage::Analysis, "a"), 1);
    assert!(at(&host, Stage::Analysis, "d") < at(&host, Stage::Artifact, "a"));
}

#[test]
fn s60_a_registration_during_the_blockers_analysis_waits_for_that_execution() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    let gate = Gate::default();
    let inside = gate.clone();
    host.hook(move |_, at| {
        if at.stage == Stage::Analysis && at.file == "d" {
            inside.pass();
        }
        Act::Go
    });
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host.clone());
    analysis(&stages, "a").wait().unwrap();
    let blocker = analysis(&stages, "d");
    gate.arrived(1);
    assert_eq!(register(&stages, "a", ["d"]), Registered::Now);
    let owner = artifact(&stages, "a");
    assert_eq!(stages.dependency_occupancy().edges, 1);
    assert_eq!(host.ran(Stage::Artifact, "a"), 0);
    gate.open();
    blocker.wait().unwrap();
    owner.wait().unwrap();
    assert_eq!(host.ran(Stage::Analysis, "d"), 1);
    assert!(at(&host, Stage::Analysis, "d") < at(&host, Stage::Artifact, "a"));
}

#[test]
fn s62_s63_what_is_registered_before_source_outlives_edits_and_gates_the_next_generation() {
    let host = Files::with([("a", "1"), ("d", "2"), ("e", "3")]);
    let (_runtime, stages) = driven(&host);
    assert_eq!(register(&stages, "a", ["e"]), Registered::Deferred);
    assert_eq!(register(&stages, "a", ["d"]), Registered::Deferred);
    assert_eq!(stages.generation(&"d".into()), Some(1));
    stages.set_text("a".into(), "4".into());
    stages.set_text("a".into(), "5".into());
    let owner = artifact(&stages, "a");
    assert_eq!(*owner.wait().unwrap(), "1:analysis(5)");
    assert!(at(&host, Stage::Analysis, "d") < at(&host, Stage::Artifact, "a"));
    assert_eq!(stages.dependents(&"d".into()), ["a"]);
    assert_eq!(stages.dependents(&"e".into()), [""; 0], "the later registration replaced it");
    // It was for one generation.
    stages.invalidate(&"a".into());
    stages.invalidate(&"d".into());
    artifact(&stages, "a").wait().unwrap();
    assert_eq!(host.ran(Stage::Analysis, "d"), 1);
}

#[test]
fn s32_a_stale_completion_leaves_a_later_registration_alone() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    let (gate, first) = (Gate::default(), Mutex::new(true));
    let inside = gate.clone();
    host.hook(move |_, at| {
        if at.stage == Stage::Source && at.file == "a" && std::mem::take(&mut *first.lock().unwrap()) {
            inside.pass();
        }
        Act::Go
    });
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host.clone());
    let stale = source(&stages, "a");
    gate.arrived(1);
    stages.set_text("a".into(), "2".into());
    assert_eq!(register(&stages, "a", ["d"]), Registered::Deferred);
    let owner = artifact(&stages, "a");
    gate.open();
    assert!(matches!(stale.wait(), Err(StageError::Superseded)));
    owner.wait().unwrap();
    assert!(at(&host, Stage::Analysis, "d") < at(&host, Stage::Artifact, "a"));
    assert_eq!(stages.dependents(&"d".into()), ["a"]);
}

#[test]
fn f22_registering_nothing_clears_what_stood_there() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    host.blocks("a", ["d"]);
    let gate = Gate::default();
    let inside = gate.clone();
    host.hook(move |_, at| {
        if at.file == "d" {
            inside.pass();
        }
        Act::Go
    });
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host.clone());
    let owner = artifact(&stages, "a");
    gate.arrived(1);
    assert_eq!(stages.dependency_occupancy().edges, 1);
    assert_eq!(stages.register_resolved_deps(&"a".into(), Dependencies::none()), Registered::Now);
    owner.wait().unwrap();
    assert_eq!(stages.dependency_occupancy().edges, 0);
    gate.open();
    // What was found stays a dependency of this generation.
    assert_eq!(stages.dependents(&"d".into()), ["a"]);
}

#[test]
fn s69_a_blockers_failure_fails_the_artifact_alone_and_names_the_cause() {
    let host = Files::with([("a", "1"), ("b", "2"), ("d", "3"), ("e", "4")]);
    host.blocks("a", ["gone", "e"]);
    host.blocks("b", ["d"]);
    failing(&host).lock().unwrap().push((Stage::Source, "d"));
    let (runtime, stages) = driven(&host);
    let missing = artifact(&stages, "a").wait().unwrap_err();
    assert_eq!(failed(&missing), ("gone".into(), Stage::Source, "not found"));
    let refused = artifact(&stages, "b").wait().unwrap_err();
    assert_eq!(failed(&refused), ("d".into(), Stage::Source, "on purpose"));
    assert!(refused.to_string().contains("on purpose"), "{refused}");
    assert!(analysis(&stages, "a").wait().is_ok() && analysis(&stages, "b").wait().is_ok());
    runtime.drive_all();
    assert_eq!(host.ran(Stage::Artifact, "a") + host.ran(Stage::Artifact, "b"), 0, "the host was not called");
    nothing_left(&stages);
}

#[test]
fn s73_a_failure_from_before_the_owner_was_known_is_met_at_the_claim() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    host.blocks("a", ["d"]);
    let fails = failing(&host);
    fails.lock().unwrap().push((Stage::Analysis, "d"));
    let (_runtime, stages) = driven(&host);
    assert!(analysis(&stages, "d").wait().is_err());
    let error = artifact(&stages, "a").wait().unwrap_err();
    assert_eq!(failed(&error), ("d".into(), Stage::Analysis, "on purpose"));
    assert_eq!(host.ran(Stage::Artifact, "a"), 0);
    assert_eq!(host.ran(Stage::Analysis, "d"), 1, "an owner does not try it again");
}

#[test]
fn s55_s64_a_direct_request_tries_again_and_success_clears_it_for_every_profile() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    host.blocks("a", ["d"]);
    let fails = failing(&host);
    fails.lock().unwrap().push((Stage::Analysis, "d"));
    let (_runtime, stages) = driven(&host);
    let profile = |profile| stages.submit_request(Request::artifact("a".into(), profile));
    // Each profile meets the failure: the first does not use it up.
    assert!(profile(1).wait().unwrap_err().dependency().is_some());
    assert!(profile(2).wait().unwrap_err().dependency().is_some());
    fails.lock().unwrap().clear();
    assert!(profile(1).wait().unwrap_err().dependency().is_some(), "nobody has tried the blocker again");
    analysis(&stages, "d").wait().unwrap();
    assert_eq!(stages.generation(&"d".into()), Some(1), "at the same generation");
    profile(1).wait().unwrap();
    profile(2).wait().unwrap();
    assert_eq!(host.ran(Stage::Source, "d"), 1);
    nothing_left(&stages);
}

#[test]
fn s72_moving_the_blocker_on_clears_its_failure() {
    let host = Files::with([("a", "1"), ("b", "2"), ("d", "3"), ("e", "4")]);
    host.blocks("a", ["d"]);
    host.blocks("b", ["e"]);
    let fails = failing(&host);
    fails.lock().unwrap().extend([(Stage::Analysis, "d"), (Stage::Analysis, "e")]);
    let (_runtime, stages) = driven(&host);
    assert!(artifact(&stages, "a").wait().is_err());
    assert!(artifact(&stages, "b").wait().is_err());
    fails.lock().unwrap().clear();
    stages.invalidate(&"d".into());
    artifact(&stages, "a").wait().unwrap();
    let sibling = artifact(&stages, "b").wait().unwrap_err();
    assert_eq!(failed(&sibling).0, "e", "another file's failure stays");
    stages.set_text("e".into(), "5".into());
    artifact(&stages, "b").wait().unwrap();
    assert_eq!(host.ran(Stage::Analysis, "e"), 2);
}

#[test]
fn s70_an_artifacts_failure_fails_nobody_who_depends_on_the_file() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    host.blocks("a", ["d"]);
    failing(&host).lock().unwrap().push((Stage::Artifact, "d"));
    let (_runtime, stages) = driven(&host);
    assert!(artifact(&stages, "d").wait().is_err());
    artifact(&stages, "a").wait().unwrap();
}

#[test]
fn s34_a_blocker_that_moves_on_is_waited_for_at_its_new_generation() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    host.blocks("a", ["d"]);
    let (runtime, stages) = driven(&host);
    let owner = artifact(&stages, "a");
    while host.ran(Stage::Source, "d") == 0 {
        assert!(runtime.drive_one());
    }
    stages.set_text("d".into(), "3".into());
    assert_eq!(stages.dependency_occupancy().edges, 1, "the edge has moved with it");
    owner.wait().unwrap();
    let seen: Vec<_> = host.log().into_iter().filter(|at| at.file == "d" && at.stage == Stage::Analysis).collect();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].generation, 2);
    assert!(at(&host, Stage::Analysis, "d") < at(&host, Stage::Artifact, "a"));
    nothing_left(&stages);
}

#[test]
fn f26_f27_a_generation_that_names_others_depends_on_them_alone() {
    let host = Files::with([("a", "1"), ("d", "2"), ("e", "3")]);
    host.blocks("a", ["d"]);
    let (_runtime, stages) = driven(&host);
    artifact(&stages, "a").wait().unwrap();
    assert_eq!(stages.dependents(&"d".into()), ["a"]);
    host.blocks("a", ["e"]);
    stages.invalidate(&"a".into());
    assert_eq!(stages.dependents(&"d".into()), [""; 0], "the new generation has not said yet");
    source(&stages, "a").wait().unwrap();
    assert_eq!(stages.dependents(&"e".into()), ["a"]);
    assert_eq!(stages.dependents(&"d".into()), [""; 0]);
    host.needs("a", Dependencies::none());
    stages.invalidate(&"a".into());
    artifact(&stages, "a").wait().unwrap();
    assert_eq!(stages.dependents(&"e".into()), [""; 0]);
    assert_eq!(stages.dependents(&"never heard of".into()), [""; 0]);
}

#[test]
fn s75_a_file_that_blocks_itself_completes() {
    let host = Files::with([("a", "1")]);
    host.blocks("a", ["a", "a"]);
    let (_runtime, stages) = driven(&host);
    artifact(&stages, "a").wait().unwrap();
    assert_eq!(stages.dependents(&"a".into()), ["a"]);
    let cancelled = stages.submit_request(Request::artifact("a".into(), 2));
    cancelled.cancel();
    nothing_left(&stages);
}

/// Asks for the Artifact of every file, of which each blocks on those that `of` says.
fn ring(files: usize, of: impl Fn(usize) -> Vec<usize>) -> (Files, StagesCounters) {
    let host = Files::default();
    let name = |file: usize| format!("f{file}");
    for file in 0..files {
        host.store(&name(file), "x");
        host.needs(&name(file), Dependencies::none().with_blockers(of(file).into_iter().map(name)));
    }
    let (_runtime, stages) = driven(&host);
    let requests = (0..files).map(|file| Request::artifact(name(file), 1));
    let answers = stages.submit_batch(requests).wait();
    assert!(answers.iter().all(Result::is_ok));
    for file in 0..files {
        assert!(of(file).iter().all(|&of| stages.dependents(&name(of)).contains(&name(file))), "an edge was dropped");
        for of in of(file) {
            assert!(at(&host, Stage::Analysis, &name(of)) < at(&host, Stage::Artifact, &name(file)));
        }
    }
    nothing_left(&stages);
    let counters = stages.counters();
    (host, counters)
}

#[test]
fn s77_rings_of_blockers_complete_whatever_their_shape() {
    // Two that block each other, three in a ring, a ring of 300, and 81 files of which each blocks on every other.
    for (files, steps) in [(2, vec![1]), (3, vec![1]), (300, vec![1]), (81, (1..81).collect())] {
        let (_, counters) = ring(files, |file| steps.iter().map(|step| (file + step) % files).collect());
        let files = files as u64;
        assert_eq!((counters.sources, counters.analyses, counters.artifacts), (files, files, files));
    }
}

#[test]
fn s71_two_registrations_that_close_a_ring_never_gate_each_other_for_ever() {
    let host = Files::with([("a", "1"), ("b", "2")]);
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host.clone());
    for _ in 0..200 {
        stages.invalidate(&"a".into());
        stages.invalidate(&"b".into());
        std::thread::scope(|scope| {
            for (owner, other) in [("a", "b"), ("b", "a")] {
                let stages = &stages;
                scope.spawn(move || {
                    let handle = artifact(stages, owner);
                    register(stages, owner, [other]);
                    handle.wait().unwrap();
                });
            }
        });
    }
}

#[test]
fn s91_an_urgent_request_reaches_the_blockers_that_are_queued() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    host.blocks("a", ["d"]);
    let (runtime, stages) = driven(&host);
    source(&stages, "a").wait().unwrap();
    let strangers = |group: &str, priority| -> Vec<_> {
        (0..16).for_each(|n| host.store(&format!("{group}{n}"), "x"));
        let ask = |n| stages.submit_request(Request::source(format!("{group}{n}")).priority(priority));
        (0..16).map(ask).collect()
    };
    let ran = |group: char| host.log().iter().filter(|at| at.file.starts_with(group)).count();
    // A maintenance Artifact asks for its blocker no less urgently than Interactive.
    let owner = stages.submit_request(Request::artifact("a".into(), 1).priority(Priority::Maintenance));
    let _others = strangers("x", Priority::Background);
    while host.ran(Stage::Source, "d") == 0 {
        assert!(runtime.drive_one());
    }
    assert!(ran('x') <= 2, "{} strangers went first", ran('x'));
    owner.cancel();
    // Everything waits; then somebody in a hurry asks for the Artifact.
    stages.invalidate(&"d".into());
    let _others = strangers("y", Priority::Interactive);
    let _slow = stages.submit_request(Request::artifact("a".into(), 1).priority(Priority::Background));
    let _fast = stages.submit_request(Request::artifact("a".into(), 1).priority(Priority::Critical));
    while host.ran(Stage::Analysis, "d") == 0 {
        assert!(runtime.drive_one());
    }
    assert!(ran('y') <= 3, "{} strangers went first", ran('y'));
}

#[test]
fn s113_a_blocker_runs_in_the_context_of_the_owner() {
    use shardrun::RequestContext;
    let host = Files::with([("a", "1"), ("d", "2")]);
    host.blocks("a", ["d"]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    host.hook(move |_, at| {
        let context = RequestContext::current().and_then(|context| context.get::<u32>().copied());
        log.lock().unwrap().push((at.file.clone(), at.stage, context));
        Act::Go
    });
    let (_runtime, stages) = driven(&host);
    let request = Request::artifact("a".into(), 1).context(RequestContext::new(7_u32));
    stages.submit_request(request).wait().unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 5);
    assert!(seen.iter().all(|(_, _, context)| *context == Some(7)), "{seen:?}");
}

#[test]
fn a_panic_of_the_hosts_dependencies_fails_source_typed() {
    let host = Files::with([("a", "1")]);
    host.hook(|cx, at| {
        assert_eq!(cx.file(), &at.file);
        Act::Go
    });
    let (_runtime, stages) = driven(&host);
    host.needs("a", blockers(["d"]));
    host.panics_on_dependencies("a");
    let error = source(&stages, "a").wait().unwrap_err();
    let failure = error.failure().unwrap();
    assert_eq!(failure.stage(), Stage::Source);
    assert!(matches!(failure.cause(), FailureCause::Panicked(_)));
    assert_eq!(stages.dependents(&"d".into()), [""; 0]);
}

#[test]
fn f31_an_artifact_that_runs_is_not_changed_by_a_registration() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    let gate = Gate::default();
    let inside = gate.clone();
    host.hook(move |_, at| {
        if at.stage == Stage::Artifact && at.file == "a" || at.file == "d" {
            inside.pass();
        }
        Act::Go
    });
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host.clone());
    let running = artifact(&stages, "a");
    gate.arrived(1);
    assert_eq!(register(&stages, "a", ["d"]), Registered::Now);
    gate.open();
    running.wait().unwrap();
    assert_eq!(host.ran(Stage::Artifact, "a"), 1);
}

#[test]
fn f31_an_artifact_that_is_queued_waits_for_what_is_registered() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    let (runtime, stages) = driven(&host);
    analysis(&stages, "a").wait().unwrap();
    let queued = artifact(&stages, "a");
    assert_eq!(register(&stages, "a", ["d"]), Registered::Now);
    queued.wait().unwrap();
    assert!(at(&host, Stage::Analysis, "d") < at(&host, Stage::Artifact, "a"));
    runtime.drive_all();
    nothing_left(&stages);
}

#[test]
fn a_job_that_waits_for_an_owner_helps_its_blockers_on_one_worker() {
    let host = Files::with([("a", "1"), ("d", "2"), ("x", "3")]);
    host.blocks("a", ["d"]);
    host.hook(|cx, at| {
        if at.file == "x" && at.stage == Stage::Analysis {
            let scheduler = cx.scheduler().unwrap();
            assert!(scheduler.submit_request(Request::artifact("a".into(), 1)).wait().is_ok());
        }
        Act::Go
    });
    let runtime = shardrun::Runtime::builder().workers(1).max_spares(0).build().unwrap();
    let stages = Stages::new(&runtime, host.clone());
    analysis(&stages, "x").wait().unwrap();
    nothing_left(&stages);
}

#[test]
fn a_ring_through_a_job_that_waits_is_told() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    host.blocks("a", ["d"]);
    let told = Arc::new(Mutex::new(None));
    let heard = told.clone();
    host.hook(move |cx, at| {
        if at.file == "d" && at.stage == Stage::Analysis {
            let scheduler = cx.scheduler().unwrap();
            let answer = scheduler.submit_request(Request::artifact("a".into(), 1)).wait();
            *heard.lock().unwrap() = Some(answer.unwrap_err().to_string());
        }
        Act::Go
    });
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host.clone());
    artifact(&stages, "a").wait().unwrap();
    let told = told.lock().unwrap().take().unwrap();
    assert!(told.contains("analysis of \"d\"") && told.contains("artifact of \"a\""), "{told}");
}

/// An owner whose blocker waits: nothing of the blocker has run.
fn gated() -> (Files, shardrun::Runtime, Stages<Files>, shardrun::StageHandleOf<Files, shardrun::ToArtifact<u32>>) {
    let host = Files::with([("a", "1"), ("d", "2")]);
    host.blocks("a", ["d"]);
    let (runtime, stages) = driven(&host);
    let owner = artifact(&stages, "a");
    assert!(runtime.drive_one());
    assert_eq!(stages.dependency_occupancy().edges, 1);
    assert_eq!(host.log().len(), 1);
    (host, runtime, stages, owner)
}

#[test]
fn s134_an_owner_that_withdraws_leaves_no_edge_and_its_blocker_does_not_run() {
    let (host, runtime, stages, owner) = gated();
    let other = stages.submit_request(Request::artifact("a".into(), 2));
    owner.cancel();
    assert_eq!(stages.dependency_occupancy().edges, 1, "another profile is wanted");
    other.cancel();
    assert_eq!(stages.dependency_occupancy().edges, 0);
    runtime.drive_all();
    assert_eq!(host.stages_run("d"), []);
    // Asked for again, it waits again.
    artifact(&stages, "a").wait().unwrap();
    assert!(at(&host, Stage::Analysis, "d") < at(&host, Stage::Artifact, "a"));
    nothing_left(&stages);
}

#[test]
fn s65_an_owner_whose_analysis_fails_withdraws_from_its_blocker() {
    let (host, runtime, stages, owner) = gated();
    let list = failing(&host);
    list.lock().unwrap().push((Stage::Analysis, "a"));
    assert!(runtime.drive_one());
    assert!(owner.is_resolved() && owner.wait().is_err());
    assert_eq!(stages.dependency_occupancy().edges, 0);
    runtime.drive_all();
    assert_eq!(host.stages_run("d"), [], "the blocker ran for nobody");
    list.lock().unwrap().clear();
    artifact(&stages, "a").wait().unwrap();
    assert!(at(&host, Stage::Analysis, "d") < at(&host, Stage::Artifact, "a"));
    nothing_left(&stages);
}

#[test]
fn s51_who_withdraws_from_a_generation_that_is_tried_again_leaves_its_blockers_to_the_successor() {
    let (host, runtime, stages, owner) = gated();
    let list = failing(&host);
    list.lock().unwrap().push((Stage::Analysis, "a"));
    let mut other = stages.submit_request(Request::artifact("a".into(), 2));
    let again = Arc::new(Mutex::new(None));
    let waker = Waker::from(Arc::new(Once(Mutex::new(Some(Box::new({
        let (stages, again) = (stages.clone(), again.clone());
        move || {
            list.lock().unwrap().clear();
            *again.lock().unwrap() = Some(stages.submit_request(Request::artifact("a".into(), 2)));
            assert!(!owner.is_resolved(), "its turn is next");
            owner.cancel();
        }
    }))))));
    assert!(Pin::new(&mut other).poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(runtime.drive_one());
    runtime.drive_all();
    let mut again = again.lock().unwrap().take().expect("the failure was told");
    let answer = again.try_get().expect("who tried again was never answered");
    assert!(answer.is_ok(), "{answer:?}");
    assert!(at(&host, Stage::Analysis, "d") < at(&host, Stage::Artifact, "a"));
    nothing_left(&stages);
}

/// Does something when it is woken first.
struct Once(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for Once {
    fn wake(self: Arc<Self>) {
        let action = self.0.lock().unwrap().take();
        if let Some(action) = action {
            action();
        }
    }
}

#[test]
fn s66_a_commit_from_outside_clears_what_nobody_needs_any_more() {
    let (host, runtime, stages, owner) = gated();
    analysis(&stages, "a").wait().unwrap();
    let (_, witness) = stages.try_get_witnessed_source(&"a".into()).unwrap();
    let edges = stages.dependency_occupancy().edges;
    stages.commit_artifact(&witness, &1, Arc::new("from outside".to_owned())).unwrap();
    assert_eq!(*owner.wait().unwrap(), "from outside");
    assert_eq!(stages.dependency_occupancy().edges, 0, "{edges} before");
    runtime.drive_all();
    assert_eq!(host.ran(Stage::Artifact, "a"), 0);
}

#[test]
fn s40_an_owner_that_is_removed_withdraws_from_its_blockers() {
    let (host, runtime, stages, owner) = gated();
    assert_eq!(stages.dependents(&"d".into()), ["a"]);
    stages.remove(&"a".into());
    assert!(matches!(owner.wait(), Err(StageError::Shutdown)));
    runtime.drive_all();
    assert_eq!(host.stages_run("d"), [], "nobody wants it any more");
    assert_eq!(stages.dependents(&"d".into()), [""; 0]);
    nothing_left(&stages);
}

#[test]
fn s54_an_owner_goes_on_without_a_blocker_that_is_removed() {
    let (host, _runtime, stages, owner) = gated();
    stages.remove(&"d".into());
    owner.wait().unwrap();
    assert_eq!(host.stages_run("d"), []);
    assert!(!stages.has_file(&"d".into()), "nobody has brought it back");
    nothing_left(&stages);
    // Its next generation names the file anew, and has it loaded.
    stages.invalidate(&"a".into());
    artifact(&stages, "a").wait().unwrap();
    assert_eq!(host.stages_run("d"), [Stage::Source, Stage::Analysis]);
}

#[test]
fn s72_removing_the_blocker_clears_its_failure() {
    let host = Files::with([("a", "1"), ("b", "2"), ("d", "3"), ("e", "4")]);
    host.blocks("a", ["d"]);
    host.blocks("b", ["e"]);
    let fails = failing(&host);
    fails.lock().unwrap().extend([(Stage::Analysis, "d"), (Stage::Analysis, "e")]);
    let (_runtime, stages) = driven(&host);
    assert!(artifact(&stages, "a").wait().is_err() && artifact(&stages, "b").wait().is_err());
    stages.remove(&"d".into());
    artifact(&stages, "a").wait().unwrap();
    assert_eq!(failed(&artifact(&stages, "b").wait().unwrap_err()).0, "e", "a sibling's failure stays");
}

#[test]
fn s135_a_reset_answers_owners_and_frees_what_they_waited_for() {
    let (host, runtime, stages, owner) = gated();
    register(&stages, "late", ["d", "e"]);
    assert_ne!(stages.dependency_occupancy().edges, 0);
    stages.reset();
    assert!(matches!(owner.wait(), Err(StageError::Shutdown)));
    nothing_left(&stages);
    runtime.drive_all();
    assert_eq!(host.log().len(), 1, "nothing of the left world runs");
    artifact(&stages, "a").wait().unwrap();
    nothing_left(&stages);
}

#[test]
fn s68_the_scheduler_may_go_while_owners_wait() {
    let (host, runtime, stages, owner) = gated();
    register(&stages, "late", ["a"]);
    drop(stages);
    assert!(matches!(owner.wait(), Err(StageError::Shutdown)));
    runtime.drive_all();
    assert_eq!(host.log().len(), 1);
}

/// Where a blocker stands when its owner is classified, by what brings it there; whether the owner then goes on, fails or waits; and
/// how often the blocker's Analysis has run in the end.
#[test]
fn s74_the_classification_of_a_blocker_by_where_it_stands() {
    enum Is {
        Satisfied,
        Failed,
        Gating,
    }
    type Bring = fn(&Stages<Files>, &Mutex<Vec<(Stage, &'static str)>>, &Files);
    let done: Bring = |stages, _, _| drop(analysis(stages, "d").wait());
    let rows: [(&str, Bring, Is, usize); 9] = [
        ("unknown", |_, _, _| {}, Is::Gating, 1),
        ("analysed", done, Is::Satisfied, 1),
        ("source alone", |stages, _, _| drop(source(stages, "d").wait()), Is::Gating, 1),
        ("asked for", |stages, _, _| analysis(stages, "d").detach(), Is::Gating, 1),
        ("given a text", |stages, _, _| _ = stages.set_text("d".into(), "3".into()), Is::Gating, 1),
        (
            "failed",
            |stages, fails, _| {
                fails.lock().unwrap().push((Stage::Analysis, "d"));
                assert!(analysis(stages, "d").wait().is_err());
            },
            Is::Failed,
            1,
        ),
        (
            "missing",
            |stages, _, host| {
                host.unlink("d");
                assert!(source(stages, "d").wait().is_err());
            },
            Is::Failed,
            0,
        ),
        (
            "moved on",
            |stages, _, _| {
                analysis(stages, "d").wait().unwrap();
                stages.invalidate(&"d".into());
            },
            Is::Gating,
            2,
        ),
        (
            "removed",
            |stages, _, _| {
                analysis(stages, "d").wait().unwrap();
                stages.remove(&"d".into());
            },
            Is::Satisfied,
            1,
        ),
    ];
    for (row, bring, is, runs) in rows {
        let host = Files::with([("a", "1"), ("d", "2")]);
        let fails = failing(&host);
        let (runtime, stages) = driven(&host);
        host.blocks("a", ["d"]);
        source(&stages, "a").wait().unwrap();
        bring(&stages, &fails, &host);
        let owner = artifact(&stages, "a");
        let edges = stages.dependency_occupancy().edges;
        assert_eq!(edges, usize::from(matches!(is, Is::Gating)), "{row}");
        assert_eq!(owner.wait().is_ok(), !matches!(is, Is::Failed), "{row}");
        runtime.drive_all();
        assert_eq!(host.ran(Stage::Analysis, "d"), runs, "{row}");
        nothing_left(&stages);
    }
}

#[test]
fn s97_a_million_edits_of_an_owner_whose_blocker_never_ends_keep_one_entry() {
    let host = Files::with([("a", "1"), ("d", "2")]);
    host.blocks("a", ["d"]);
    let (gate, runs) = (Gate::default(), Arc::new(Mutex::new(0)));
    let (inside, counted) = (gate.clone(), runs.clone());
    host.hook(move |_, at| {
        if at.file == "d" && at.stage == Stage::Analysis {
            *counted.lock().unwrap() += 1;
            // Each edit is a round trip to a worker, of 7 µs on a calm machine, the last as the first: much longer on a busy one.
            inside.pass_within(Duration::from_secs(300));
        }
        Act::Go
    });
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host.clone());
    artifact(&stages, "a").detach();
    gate.arrived(1);
    let edits = if cfg!(debug_assertions) { 5_000 } else { 1_000_000 };
    for edit in 0..edits {
        artifact(&stages, "a").detach();
        stages.submit_request(Request::source("a".into()).text(edit.to_string())).wait().unwrap();
        if edit % 1_000 == 0 {
            let occupied = stages.dependency_occupancy();
            assert_eq!((occupied.edges, occupied.entries, occupied.demanded), (1, 1, 1), "after {edit} edits");
            host.forget();
        }
    }
    let owner = artifact(&stages, "a");
    gate.open();
    assert_eq!(*owner.wait().unwrap(), format!("1:analysis({})", edits - 1));
    assert_eq!(*runs.lock().unwrap(), 1);
    nothing_left(&stages);
}

#[test]
fn s132_owners_go_on_in_the_order_in_which_they_came() {
    let host = Files::with([("d", "1")]);
    let names: Vec<_> = (0..64).map(|owner| format!("o{}", owner * 37 % 64)).collect();
    for owner in &names {
        host.store(owner, "x");
        host.blocks(owner, ["d"]);
    }
    let (runtime, stages) = driven(&host);
    for owner in &names {
        analysis(&stages, owner).wait().unwrap();
    }
    let waiting: Vec<_> = names.iter().map(|owner| artifact(&stages, owner)).collect();
    assert_eq!(stages.dependency_occupancy().edges, 64);
    runtime.drive_all();
    let ran: Vec<_> = host.log().into_iter().filter(|at| at.stage == Stage::Artifact).map(|at| at.file).collect();
    assert_eq!(ran, names);
    assert_eq!(host.ran(Stage::Analysis, "d"), 1);
    assert!(waiting.into_iter().all(|owner| owner.wait().is_ok()));
}

#[test]
fn one_owner_waits_for_a_thousand_blockers() {
    let host = Files::with([("a", "1")]);
    let names: Vec<_> = (0..1_000).map(|blocker| format!("d{blocker}")).collect();
    names.iter().for_each(|name| host.store(name, "x"));
    host.needs("a", Dependencies::none().with_blockers(names.clone()));
    let (runtime, stages) = driven(&host);
    let owner = artifact(&stages, "a");
    assert!(runtime.drive_one());
    assert_eq!(stages.dependency_occupancy().demanded, 1_000);
    owner.wait().unwrap();
    assert_eq!(stages.counters().analyses, 1_001);
    assert_eq!(host.log().last().unwrap().stage, Stage::Artifact, "it went last");
    nothing_left(&stages);
}

#[test]
fn s32_a_name_that_nobody_names_any_more_leaves_nothing_behind() {
    let host = Files::with([("a", "1"), ("b", "1")]);
    let (_runtime, stages) = driven(&host);
    let name = "typed".to_owned();
    for owner in ["a", "b"] {
        host.needs(owner, Dependencies::none().with([name.clone()]));
        source(&stages, owner).wait().unwrap();
    }
    assert_eq!((stages.len(), stages.dependents(&name).len()), (3, 2));
    host.needs("a", Dependencies::none());
    stages.set_text("a".into(), "2".into());
    source(&stages, "a").wait().unwrap();
    assert_eq!((stages.len(), stages.dependents(&name)), (3, vec!["b".to_owned()]));
    stages.remove(&"b".into());
    assert_eq!((stages.len(), stages.dependents(&name).len()), (1, 0));
    assert!(!stages.has_file(&name));
    // It comes to life: then it stays when nobody names it, until it is removed.
    host.store("typed", "3");
    source(&stages, "b").wait().unwrap();
    source(&stages, "typed").wait().unwrap();
    stages.remove(&"b".into());
    assert_eq!((stages.len(), stages.generation(&name)), (2, Some(1)));
    stages.remove(&name);
    assert_eq!(stages.len(), 1);
}

/// A request, an edit and a registration that meet a name as it goes find the file, whoever is first: none is told of an end.
#[test]
fn s32_who_meets_a_name_as_it_goes_is_told_of_no_end() {
    let rounds = if cfg!(debug_assertions) { 300 } else { 3_000 };
    let host = Files::with([("a", "1")]);
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host.clone());
    for round in 0..rounds {
        let name = format!("typed {round}");
        host.store(&name, "3");
        host.needs("a", Dependencies::none().with([name.clone()]));
        stages.invalidate(&"a".into());
        source(&stages, "a").wait().unwrap();
        host.needs("a", Dependencies::none());
        let start = std::sync::Barrier::new(3);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                stages.invalidate(&"a".into());
                source(&stages, "a").wait().unwrap();
            });
            scope.spawn(|| {
                start.wait();
                match round % 3 {
                    0 => assert!(source(&stages, &name).wait().is_ok()),
                    1 => assert_eq!(stages.set_text(name.clone(), "4".into()), shardrun::Moved::On),
                    _ => assert_ne!(register(&stages, "other", [&name]), Registered::Refused),
                }
            });
            start.wait();
            let asked = analysis(&stages, &name).wait();
            let overtaken = round % 3 == 1 && matches!(asked, Err(StageError::Superseded));
            assert!(asked.is_ok() || overtaken, "{asked:?}");
        });
        assert!(stages.has_file(&name));
        stages.remove(&name);
        stages.remove(&"other".into());
        assert!(stages.len() <= 1);
        host.forget();
    }
    runtime.drive_all();
    nothing_left(&stages);
}
