//! Failures, stops, aborts, owed work and observers: what ends how, and who is named as the cause.

#[path = "graph/sim.rs"]
mod sim;

use shardrun::{CancellationToken, ContinueMode, Policy, Run, Runtime, TaskStatus};
use sim::{How, scene, t};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

const NEVER: ContinueMode = ContinueMode::Never;
const ALWAYS: ContinueMode = ContinueMode::Always;

#[test]
fn s58_what_depends_on_a_failure_is_skipped_and_the_rest_goes_on() {
    let ran = scene(1, [t("a", 1).fails(), t("b", 1).on(&["a"]), t("c", 1)]).run();
    assert_eq!(ran.statuses(&["a", "b", "c"]), [TaskStatus::Failed, TaskStatus::Skipped, TaskStatus::Success]);
    assert_eq!((ran.outcome("b").exit_code(), ran.outcome("b").duration().as_nanos()), (1, 0));
    assert_eq!(ran.outcome("a").exit_code(), 3);
    assert_eq!(ran.started, ["a", "c"]);
}

#[test]
fn s59_the_root_is_carried_down_a_chain() {
    let ran = scene(1, [t("a", 1).fails(), t("b", 1).on(&["a"]), t("c", 1).on(&["b"])]).run();
    assert_eq!((ran.root("b"), ran.root("c")), (Some("a".into()), Some("a".into())));
}

#[test]
fn s60_a_dependency_that_failed_itself_outranks_an_inherited_root() {
    let tasks = [t("a", 1).fails(), t("b", 1).on(&["a"]), t("c", 9).fails(), t("t", 1).on(&["b", "c"])];
    assert_eq!(scene(4, tasks).run().root("t"), Some("c".into()));
}

#[test]
fn s61_s65_b78_an_aborted_task_is_no_success_and_no_failure() {
    let tasks = [t("a", 1).how(How::Abort), t("b", 1).on(&["a"]), t("c", 3)];
    let ran = scene(4, tasks.clone()).run();
    assert_eq!(ran.statuses(&["a", "b", "c"]), [TaskStatus::Aborted, TaskStatus::Skipped, TaskStatus::Success]);
    assert_eq!(ran.root("b"), Some("a".into()));
    assert_eq!(ran.report.tally().failed, 0);
    // It does not trip fail-fast.
    let ran = scene(1, tasks).mode(NEVER).run();
    assert_eq!(ran.status("c"), TaskStatus::Success);
}

#[test]
fn b78_however_a_body_ends_badly_its_dependents_do_not_build_on_it() {
    for how in [How::Fail, How::Abort, How::User, How::Internal, How::Panic] {
        for mode in [ContinueMode::DepsOk, NEVER, ContinueMode::Kill] {
            let ran = scene(2, [t("a", 1).how(how), t("b", 1).on(&["a"])]).mode(mode).run();
            assert!(!ran.status("a").is_pass(), "{how:?}");
            assert_eq!(ran.status("b"), TaskStatus::Skipped, "{how:?} {mode:?}");
            assert!(ran.at("b").is_empty());
        }
    }
}

#[test]
fn s64_fail_fast_settles_what_has_not_started_at_the_outcome() {
    let mut tasks = vec![t("a", 1).fails(), t("next", 1), t("behind", 1).on(&["a"])];
    tasks.extend((0..5).map(|at| t(&format!("r{at}"), 5).restore()));
    let ran = scene(2, tasks).mode(NEVER).run();
    assert_eq!(ran.status("r4"), TaskStatus::Skipped);
    assert_eq!((ran.told["r4"], ran.told["behind"]), (1, 1));
    assert_eq!((ran.root("r4"), ran.root("behind")), (None, Some("a".into())));
    assert_eq!(ran.status("r0"), TaskStatus::CacheHit);
}

#[test]
fn s66_always_runs_behind_failures_and_says_that_it_does() {
    let tasks = [t("a", 1).fails(), t("b", 1).on(&["a"]), t("c", 1).on(&["b"]), t("d", 1)];
    let ran = scene(2, tasks).mode(ALWAYS).run();
    assert_eq!(ran.statuses(&["b", "c", "d"]), [TaskStatus::Success; 3]);
    let tainted = ["a", "b", "c", "d"].map(|name| ran.outcome(name).is_tainted());
    assert_eq!(tainted, [false, true, true, false]);
    let ran = scene(2, [t("a", 1).how(How::Abort), t("b", 1).on(&["a"])]).mode(ALWAYS).run();
    assert_eq!(ran.status("b"), TaskStatus::Success);
}

#[test]
fn taint_goes_through_hits_and_early_restores() {
    let tasks = [t("a", 9).fails(), t("r", 1).on(&["a"]).restore(), t("e", 1).on(&["r"]), t("f", 1).on(&["e"])];
    let ran = scene(4, tasks).mode(ALWAYS).run();
    assert!(ran.outcome("e").is_tainted() && ran.outcome("f").is_tainted());
}

#[test]
fn kill_stops_what_runs_and_counts_its_errors_as_aborts() {
    let mut plan = shardrun::Plan::builder();
    plan.concurrency(2);
    let bad = plan.task("bad").id();
    let slow = plan.task("slow").id();
    let next = plan.task("next").id();
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let run =
        Run::<()>::new(plan.build().unwrap()).mode(ContinueMode::Kill).start_async(&runtime, move |cx| async move {
            if cx.task() == bad {
                return Ok(shardrun::Ended::failed(1));
            }
            let (told, heard) = std::sync::mpsc::channel();
            let heard = std::sync::Mutex::new(heard);
            let _registration = cx.stop_token().on_cancel(move || _ = told.send(()));
            heard.lock().unwrap().recv().unwrap();
            assert!(cx.is_stopping());
            Err(shardrun::TaskFailure::user("interrupted"))
        });
    let report = run.wait().unwrap();
    let statuses = [bad, slow, next].map(|task| report.outcome(task).status());
    assert_eq!(statuses, [TaskStatus::Failed, TaskStatus::Aborted, TaskStatus::Skipped]);
}

#[test]
fn b73_a_run_stops_after_so_many_failures_and_never_runs_more_at_a_time() {
    let tasks = |fails: usize| {
        (0..100).map(move |at| t(&format!("t{at}"), 3).how(if at < fails { How::Fail } else { How::Pass }))
    };
    let three = ContinueMode::StopAfter(NonZeroU32::new(3).unwrap());
    let ran = scene(2, tasks(100)).mode(three).run();
    assert_eq!((ran.report.tally().failed, ran.report.tally().skipped, ran.peak(|_| true)), (4, 96, 2));
    let ran = scene(2, tasks(2)).mode(three).run();
    assert_eq!((ran.report.tally().failed, ran.report.tally().succeeded), (2, 98));
    for mode in [NEVER, ContinueMode::DepsOk] {
        let mut tasks: Vec<_> = (0..100).map(|at| t(&format!("t{at}"), 3)).collect();
        tasks[5].how = How::Fail;
        let ran = scene(2, tasks).mode(mode).run();
        assert_eq!(ran.peak(|_| true), 2);
        let failed = ran.log.iter().position(|entry| entry.1 == "t5" && !entry.2).unwrap();
        let later = ran.log[failed..].iter().any(|entry| entry.2);
        assert_eq!(later, mode == ContinueMode::DepsOk);
    }
}

// ---- aborts ----

#[test]
fn s68_an_abort_settles_what_has_not_started_at_once() {
    let ran = scene(1, ["a", "b", "c"].map(|name| t(name, 5))).at(2, |run, _| run.abort()).run();
    assert_eq!(ran.statuses(&["a", "b", "c"]), [TaskStatus::Success, TaskStatus::Aborted, TaskStatus::Aborted]);
    assert_eq!((ran.told["b"], ran.told["a"], ran.starts().len()), (2, 5, 1));
}

#[test]
fn s69_s71_a_run_that_is_aborted_before_it_starts_starts_nothing() {
    for mode in [ContinueMode::DepsOk, ALWAYS] {
        let mut plan = shardrun::Plan::builder();
        let a = plan.task("a").id();
        plan.task("b").after(a);
        plan.task("r").restore();
        let token = CancellationToken::new();
        token.cancel();
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let policy = Told(told.clone());
        let run = Run::<()>::new(plan.build().unwrap()).mode(mode).policy(Box::new(policy)).abort_on(&token);
        fn nothing(_: &shardrun::TaskCx) {
            unreachable!("nothing may start")
        }
        let report = run.start(&runtime, nothing).wait().unwrap();
        assert_eq!(report.tally().aborted, 3);
        assert_eq!(*told.lock().unwrap(), ["begin", "end"]);
    }
}

/// A policy that notes what it is told.
struct Told(Arc<Mutex<Vec<&'static str>>>);

impl Policy for Told {
    fn name(&self) -> &str {
        "told"
    }
    fn begin(&mut self, _: &shardrun::Plan, _: &shardrun::PolicyWaker) -> Vec<String> {
        self.0.lock().unwrap().push("begin");
        Vec::new()
    }
    fn ask(&mut self, _: shardrun::TaskId, _: &shardrun::Running<'_>) -> shardrun::Answer {
        self.0.lock().unwrap().push("ask");
        shardrun::Answer::Admit
    }
    fn end(&mut self) -> Vec<String> {
        self.0.lock().unwrap().push("end");
        Vec::new()
    }
}

#[test]
fn what_is_said_of_tasks_that_are_not_there_does_nothing() {
    let mut other = shardrun::Plan::builder();
    for _ in 0..9 {
        other.task("");
    }
    let foreign = other.build().unwrap().tasks().last().unwrap();
    let ran = scene(1, [t("a", 5)]).at(2, move |run, _| {
        run.server_died(foreign);
        run.server_exited(foreign);
    });
    assert!(ran.run().report.is_success());
    assert_eq!(shardrun::contained_panics(), 0, "nothing of ours panicked");
}

#[test]
fn s72_an_error_after_the_stop_is_an_abort_without_a_line() {
    let tasks = [t("a", 5).how(How::User)];
    let ran = scene(1, tasks.clone()).at(2, |run, _| run.abort()).run();
    assert_eq!((ran.status("a"), ran.lines.len()), (TaskStatus::Aborted, 0));
    let ran = scene(1, tasks).run();
    assert_eq!((ran.status("a"), ran.lines.len()), (TaskStatus::Failed, 1));
}

#[test]
fn an_aborted_task_names_what_went_wrong_before_it() {
    let tasks = [t("a", 1).fails(), t("slow", 9), t("b", 1).on(&["a", "slow"]), t("c", 1).on(&["slow"])];
    let ran = scene(4, tasks).at(3, |run, _| run.abort()).run();
    assert_eq!(ran.statuses(&["b", "c"]), [TaskStatus::Aborted; 2]);
    assert_eq!((ran.root("b"), ran.root("c")), (Some("a".into()), None));
}

#[test]
fn a_shutdown_ends_the_run_with_aborted_tasks() {
    let mut plan = shardrun::Plan::builder();
    plan.concurrency(1);
    let a = plan.task("a").id();
    plan.task("b").after(a);
    plan.task("c");
    let runtime = Runtime::builder().driver(shardrun::Driver::Inline).build().unwrap();
    let mut run = Run::<()>::new(plan.build().unwrap()).start(&runtime, |_| ());
    runtime.shutdown();
    let report = run.try_get().expect("it is over").unwrap();
    assert_eq!(report.tally().aborted, 3);
}

// ---- servers ----

#[test]
fn a_dead_server_blocks_what_has_not_started_also_through_groups() {
    let tasks = [
        t("db", 1).server(false),
        t("stack", 1).on(&["db"]).group(),
        t("all", 1).on(&["stack"]).group(),
        t("slow", 9),
        t("e2e", 1).on(&["all", "slow"]),
        t("direct", 1).on(&["db", "slow"]),
        t("free", 1).on(&["slow"]),
    ];
    let ran = scene(4, tasks.clone()).at(5, |run, plan| run.server_died(plan.find("db").unwrap())).run();
    assert_eq!(
        ran.statuses(&["db", "e2e", "direct", "free"]),
        [TaskStatus::Success, TaskStatus::Skipped, TaskStatus::Skipped, TaskStatus::Success]
    );
    assert_eq!((ran.root("e2e"), ran.root("direct")), (Some("db".into()), Some("db".into())));
    let ran = scene(4, tasks).mode(NEVER).at(5, |run, plan| run.server_died(plan.find("db").unwrap())).run();
    assert_eq!((ran.status("free"), ran.told["free"]), (TaskStatus::Skipped, 5));
}

/// Whoever watches the process cannot know whether the run has heard that the server is ready.
#[test]
fn a_server_whose_death_is_told_before_it_is_ready_is_dead_once_it_is() {
    for owes in [false, true] {
        for mode in [ContinueMode::DepsOk, NEVER] {
            let mut plan = shardrun::Plan::builder();
            let db = plan.task("db").persistent().id();
            let e2e = plan.task("e2e").after(db).id();
            let plan = std::sync::Arc::new(plan.build().unwrap());
            let runtime = Runtime::builder().driver(shardrun::Driver::Inline).build().unwrap();
            let control = std::sync::Arc::new(std::sync::OnceLock::<shardrun::RunControl>::new());
            let told = control.clone();
            let run = Run::<()>::new(plan).mode(mode).start(&runtime, move |cx| {
                told.get().unwrap().server_died(cx.task());
                let ended = shardrun::Ended::success();
                if owes { ended.owes(async {}) } else { ended }
            });
            control.set(run.control()).unwrap();
            let report = run.wait().unwrap();
            assert_eq!(report.outcome(db).status(), TaskStatus::Success);
            assert_eq!(
                (report.outcome(e2e).status(), report.outcome(e2e).blocked_by()),
                (TaskStatus::Skipped, Some(db))
            );
        }
    }
}

/// As for a body that has ended: what is owed still is not waited for.
#[test]
fn a_server_that_dies_while_it_owes_blocks_what_waits_for_that() {
    let tasks = [t("db", 1).server(false).owes(10), t("e2e", 1).on(&["db"]), t("free", 20)];
    let ran = scene(4, tasks.clone()).at(5, |run, plan| run.server_died(plan.find("db").unwrap())).run();
    assert_eq!(
        (ran.statuses(&["db", "e2e", "free"]), ran.root("e2e")),
        (vec![TaskStatus::Success, TaskStatus::Skipped, TaskStatus::Success], Some("db".into()))
    );
    let ran = scene(1, tasks).mode(NEVER).at(5, |run, plan| run.server_died(plan.find("db").unwrap())).run();
    assert_eq!(ran.statuses(&["db", "e2e", "free"]), [TaskStatus::Success, TaskStatus::Skipped, TaskStatus::Success]);
    assert_eq!((ran.told["e2e"], ran.told["db"]), (5, 11));
}

#[test]
fn a_server_whose_exit_is_told_before_it_is_ready_keeps_nothing() {
    for dies in [false, true] {
        let mut budget = shardrun::ResourceBudget::new();
        let port = budget.axis("port", 1);
        let mut plan = shardrun::Plan::builder();
        let db = plan.task("db").persistent_until_exit().id();
        let next = plan.task("next").id();
        budget.cost(db, port, 1);
        budget.cost(next, port, 1);
        let plan = std::sync::Arc::new(plan.build().unwrap());
        let runtime = Runtime::builder().driver(shardrun::Driver::Inline).build().unwrap();
        let control = std::sync::Arc::new(std::sync::OnceLock::<shardrun::RunControl>::new());
        let told = control.clone();
        let run = Run::<()>::new(plan).policy(Box::new(budget)).start(&runtime, move |cx| match cx.task() == db {
            true if dies => told.get().unwrap().server_died(db),
            true => told.get().unwrap().server_exited(db),
            false => {}
        });
        control.set(run.control()).unwrap();
        let report = run.wait().unwrap();
        assert_eq!(report.outcome(next).status(), TaskStatus::Success);
        assert_eq!(report.warnings(), &[] as &[String], "nobody had to start it against the policy's will");
    }
}

#[test]
fn a_group_succeeds_in_place_without_a_slot() {
    let ran = scene(1, [t("a", 3), t("g", 0).on(&["a"]).group(), t("b", 1).on(&["g"])]).run();
    assert_eq!((ran.at("b"), ran.starts()), (vec![3], vec!["a", "b"]));
    assert_eq!(ran.status("g"), TaskStatus::Success);
}

// ---- owed work ----

#[test]
fn owed_work_frees_the_slot_and_holds_the_dependents() {
    let ran = scene(1, [t("a", 2).owes(10), t("b", 1).on(&["a"]), t("c", 1)]).run();
    assert_eq!((ran.at("c"), ran.at("b"), ran.told["a"]), (vec![2], vec![12], 12));
}

#[test]
fn s91_nothing_owed_releases_at_once() {
    let ran = scene(1, [t("a", 2), t("b", 1).on(&["a"])]).run();
    assert_eq!(ran.at("b"), [2]);
}

#[test]
fn s92_a_run_is_over_when_the_last_debt_is_paid() {
    let ran = scene(4, [t("a", 2).owes(50), t("b", 4)]).run();
    assert_eq!((ran.told["a"], ran.finished), (52, vec!["b".to_owned(), "a".to_owned()]));
}

#[test]
fn s90_a_debt_that_panics_is_paid() {
    let mut plan = shardrun::Plan::builder();
    let a = plan.task("a").id();
    let b = plan.task("b").after(a).id();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let run = Run::<()>::new(plan.build().unwrap()).start(&runtime, move |cx| {
        let ended = shardrun::Ended::success();
        if cx.task() == a { ended.owes(async { panic!("asked for") }) } else { ended }
    });
    let report = run.wait().unwrap();
    assert_eq!((report.outcome(a).status(), report.outcome(b).status()), (TaskStatus::Success, TaskStatus::Success));
}

#[test]
fn fail_fast_trips_at_the_outcome_not_when_the_debt_is_paid() {
    let tasks = [t("a", 1).fails().owes(20), t("b", 3), t("c", 1), t("d", 1).on(&["a"])];
    let ran = scene(1, tasks).mode(NEVER).run();
    assert_eq!(ran.starts(), ["a"]);
    assert_eq!((ran.told["c"], ran.told["a"]), (1, 21));
    assert_eq!(ran.root("d"), Some("a".into()));
}

// ---- observers and lines ----

#[test]
fn s94_s95_an_observer_that_throws_changes_nothing() {
    let mut chain = scene(1, [t("a", 1), t("b", 1).on(&["a"])]);
    chain.throwing = true;
    let ran = chain.run();
    assert_eq!(ran.statuses(&["a", "b"]), [TaskStatus::Success; 2]);
    assert_eq!(ran.warnings.len(), 4, "{:?}", ran.warnings);
    assert!(ran.warnings.iter().any(|text| text.contains("`started` for a") && text.contains("started throws")));
    assert!(ran.warnings.iter().any(|text| text.contains("`finished` for b")));
    assert_eq!(ran.report.warnings(), ran.warnings);
}

#[test]
fn s96_lines_tell_a_users_error_from_an_internal_one() {
    let ran = scene(1, [t("a", 1).how(How::User), t("b", 1).how(How::Internal), t("c", 1).how(How::Panic)]).run();
    assert_eq!(
        ran.lines,
        [
            "shardrun: a: the disk is on fire",
            "shardrun: internal error in b: boom in b",
            "shardrun: internal error in c: panic: c panics",
        ]
    );
    assert_eq!(ran.outcome("c").message(), Some("c panics"));
}

#[test]
fn s97_a_users_error_is_told_once_per_text() {
    let ran = scene(1, (0..40).map(|at| t(&format!("t{at}"), 1).how(How::User))).run();
    assert_eq!(ran.lines.iter().filter(|line| line.contains("on fire")).count(), 1);
    assert_eq!(ran.lines.iter().filter(|line| line.ends_with(": as t0 above")).count(), 39);
}

#[test]
fn errors_of_the_file_system_are_the_users_and_others_name_their_kind() {
    let failure = shardrun::TaskFailure::from(std::io::Error::from_raw_os_error(24));
    assert!(matches!(&failure, shardrun::TaskFailure::User(text) if text.contains("ulimit")), "{failure:?}");
    let failure = shardrun::TaskFailure::from("x".parse::<u8>().unwrap_err());
    assert!(matches!(&failure, shardrun::TaskFailure::Internal { name, .. } if name == "ParseIntError"), "{failure:?}");
}

#[test]
fn b77_a_failed_run_leaves_nothing_behind_for_the_next() {
    let build = |fails: bool| {
        let mut tasks = vec![t("a", 1), t("mid", 1).on(&["a"]).how(if fails { How::Fail } else { How::Pass })];
        tasks.extend((0..30).map(|at| t(&format!("d{at}"), 1).on(&["mid"]).pool("p")));
        scene(2, tasks).pool("p", 1)
    };
    for _ in 0..20 {
        assert_eq!(build(true).run().report.tally().skipped, 30);
        assert!(scene(2, [t("x", 1), t("y", 1).on(&["x"])]).run().report.is_success());
        assert!(build(false).run().report.is_success());
    }
}

#[test]
fn r72_a_body_that_panics_before_it_is_a_future_fails_and_gives_its_slot_back() {
    let mut plan = shardrun::Plan::builder();
    plan.concurrency(1);
    let a = plan.task("a").id();
    let b = plan.task("b").after(a).id();
    let c = plan.task("c").id();
    let runtime = Runtime::builder().driver(shardrun::Driver::Inline).build().unwrap();
    let mut run = Run::<()>::new(plan.build().unwrap()).start_async(&runtime, move |cx: shardrun::TaskCx| {
        assert_ne!(cx.task(), a, "no future");
        async {}
    });
    runtime.drive_all();
    let report = run.try_get().expect("it is over").unwrap();
    let statuses = [a, b, c].map(|task| report.outcome(task).status());
    assert_eq!(statuses, [TaskStatus::Failed, TaskStatus::Skipped, TaskStatus::Success]);
}

#[test]
fn r38_a_restore_that_runs_early_is_told_that_its_dependency_is_not_over() {
    let mut plan = shardrun::Plan::builder();
    plan.concurrency(2);
    let x = plan.task("x").id();
    let r = plan.task("r").restore().after(x).id();
    let e = plan.task("e").after(r).id();
    let runtime = Runtime::builder().driver(shardrun::Driver::Inline).build().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let mut run = Run::<()>::new(plan.build().unwrap()).start_async(&runtime, move |cx: shardrun::TaskCx| {
        let upstream: Vec<bool> = cx.upstream().map(|upstream| upstream.outcome.is_some()).collect();
        noted.lock().unwrap().push((cx.task(), upstream));
        let mut later = cx.task() == x;
        std::future::poll_fn(move |context| {
            context.waker().wake_by_ref();
            if std::mem::take(&mut later) { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
        })
    });
    runtime.drive_all();
    assert!(run.try_get().expect("it is over").unwrap().is_success());
    assert_eq!(*seen.lock().unwrap(), [(x, vec![]), (r, vec![false]), (e, vec![true])]);
}

#[test]
fn r61_a_run_without_policies_that_is_not_timed_measures_no_waits() {
    let mut plan = shardrun::Plan::builder();
    plan.concurrency(1);
    (0..3).for_each(|at| _ = plan.task(&format!("t{at}")).id());
    let runtime = Runtime::builder().driver(shardrun::Driver::Inline).build().unwrap();
    let mut run = Run::<()>::new(plan.build().unwrap()).start(&runtime, |_| ());
    runtime.drive_all();
    let report = run.try_get().expect("it is over").unwrap();
    for outcome in report.outcomes() {
        assert_eq!((outcome.held(), outcome.refusals(), outcome.slot_wait().as_nanos()), (None, 0, 0));
    }
}
