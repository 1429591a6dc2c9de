//! Order, lanes, pools and restores: which task starts when.

#[path = "graph/sim.rs"]
mod sim;

use shardrun::{ContinueMode, Run, Runtime, TaskStatus};
use sim::{How, scene, t};

#[test]
fn s01_an_empty_graph_is_over_at_once() {
    let ran = scene(4, []).run();
    assert_eq!(ran.report.outcomes().count(), 0);
    assert!(ran.report.is_success());
}

#[test]
fn s02_a_dependent_starts_after_its_dependency_has_ended() {
    let ran = scene(4, [t("a", 5), t("b", 1).on(&["a"])]).run();
    assert_eq!((ran.end("a"), ran.at("b")), (5, vec![5]));
}

#[test]
fn s03_upstream_outcomes_come_in_the_order_of_dependencies() {
    let mut plan = shardrun::Plan::builder();
    let a = plan.task("a").id();
    let b = plan.task("b").id();
    plan.task("c").after(b).after(a);
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen_in = seen.clone();
    let run = Run::new(plan.build().unwrap()).start(&runtime, move |cx| {
        if cx.name() == "c" {
            let upstream = cx.upstream().map(|up| (up.task, up.outcome.and_then(|outcome| outcome.value().copied())));
            seen_in.lock().unwrap().extend(upstream);
        }
        shardrun::Ended::success().value(cx.task().index() * 10)
    });
    run.wait().unwrap();
    assert_eq!(*seen.lock().unwrap(), [(b, Some(10)), (a, Some(0))]);
}

#[test]
fn s04_s05_no_more_run_at_a_time_than_said() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let ran = scene(2, names.map(|name| t(name, 3))).run();
    assert_eq!(ran.peak(|_| true), 2);
    let ran = scene(1, names[..3].iter().map(|name| t(name, 3))).run();
    assert_eq!(ran.peak(|_| true), 1);
}

#[test]
fn s06_with_room_for_all_they_start_at_once_in_order_of_rank() {
    let tasks = [t("leaf", 1), t("root", 1), t("mid", 1).on(&["root"]), t("end", 1).on(&["mid"]), t("other", 1)];
    let ran = scene(10, tasks).run();
    assert_eq!(&ran.starts()[..3], ["root", "leaf", "other"]);
}

#[test]
fn s07_a_body_that_ends_in_an_error_fails_alone() {
    let ran = scene(2, [t("bad", 1).how(How::Internal), t("good", 1)]).run();
    assert_eq!(ran.statuses(&["bad", "good"]), [TaskStatus::Failed, TaskStatus::Success]);
    let bad = ran.outcome("bad");
    assert_eq!((bad.exit_code(), bad.duration().as_nanos()), (1, 0));
    assert_eq!(ran.lines, ["shardrun: internal error in bad: boom in bad"]);
}

#[test]
fn s12_b68_a_dependency_listed_twice_releases_once() {
    let ran = scene(1, [t("a", 1), t("b", 1).on(&["a", "a", "a"])]).run();
    assert_eq!(ran.starts(), ["a", "b"]);
}

#[test]
fn s14_the_root_of_a_chain_goes_before_a_leaf() {
    let chain = [t("leaf", 1), t("root", 1), t("1", 1).on(&["root"]), t("2", 1).on(&["1"]), t("3", 1).on(&["2"])];
    assert_eq!(scene(1, chain).run().starts()[0], "root");
}

#[test]
fn s15_b24_equals_go_in_order_of_insertion() {
    let ran = scene(1, [t("r1", 1), t("r2", 1), t("x", 1).on(&["r1"]), t("y", 1).on(&["r2"])]).run();
    assert_eq!(ran.starts(), ["r1", "r2", "x", "y"]);
}

#[test]
fn s19_s23_weights_come_first_and_zero_is_none() {
    let tasks = [t("a", 1).weight(1.0), t("b", 1), t("c", 1).weight(5.0), t("d", 1)];
    assert_eq!(scene(1, tasks).run().starts(), ["c", "a", "b", "d"]);
    let tasks =
        [t("zero", 1).weight(0.0), t("hub", 1), t("1", 1).on(&["hub"]), t("2", 1).on(&["1"]), t("3", 1).on(&["2"])];
    assert_eq!(scene(1, tasks).run().starts()[0], "hub");
}

#[test]
fn s20_s22_s26_any_weight_beats_none_and_equal_weights_fall_back() {
    let hub = |names: [&str; 6]| {
        let mut tasks = vec![t(names[0], 1)];
        tasks.extend((1..6).map(|at| t(names[at], 1).on(&[names[at - 1]])));
        tasks
    };
    let mut tasks = hub(["hub", "1", "2", "3", "4", "5"]);
    tasks.push(t("scored", 1).weight(1e-9));
    assert_eq!(&scene(1, tasks).run().starts()[..2], ["scored", "hub"]);
    let tasks = [t("flat", 1).weight(7.0), t("deep", 1).weight(7.0), t("1", 1).on(&["deep"]), t("2", 1).on(&["1"])];
    assert_eq!(scene(1, tasks).run().starts()[0], "deep");
}

#[test]
fn predicted_durations_start_the_longest_path_first() {
    let mut tasks = vec![t("wide", 1), t("long", 1)];
    tasks.extend(["w1", "w2", "w3"].map(|name| t(name, 1).on(&["wide"])));
    tasks.push(t("slow", 1).on(&["long"]));
    tasks.last_mut().unwrap().predicted = Some(60_000);
    tasks[2].predicted = Some(10);
    tasks[3].predicted = Some(10);
    assert_eq!(scene(1, tasks).run().starts()[0], "long");
}

// ---- restores ----

#[test]
fn s27_s33_a_restore_starts_before_its_dependencies_and_once() {
    let ran = scene(4, [t("x", 10), t("r", 2).on(&["x"]).restore()]).run();
    assert_eq!(ran.at("r"), [0]);
    assert_eq!(ran.told["r"], 2);
}

#[test]
fn s28_s29_tasks_go_before_restores_which_have_twice_the_room() {
    let mut tasks: Vec<_> = (0..6).map(|at| t(&format!("r{at}"), 4).restore()).collect();
    tasks.extend((0..6).map(|at| t(&format!("e{at}"), 4)));
    let ran = scene(2, tasks).run();
    assert_eq!(&ran.starts()[..2], ["e0", "e1"]);
    assert_eq!((ran.peak(|name| name.starts_with('e')), ran.peak(|name| name.starts_with('r'))), (2, 4));
    assert_eq!(ran.peak(|_| true), 6);
}

#[test]
fn s30_s31_serial_means_one_local_task_of_any_kind() {
    let ran = scene(1, [t("r1", 2).restore(), t("r2", 2).restore(), t("e", 2)]).run();
    assert_eq!((ran.peak(|_| true), ran.starts()[0]), (1, "e"));
}

#[test]
fn s32_s35_a_restore_stays_a_hit_behind_a_failure_and_blocks() {
    for slow in [1, 10] {
        let tasks = [t("x", slow).fails(), t("r", 4).on(&["x"]).restore(), t("e", 1).on(&["r"]), t("f", 1).on(&["e"])];
        let ran = scene(4, tasks).run();
        assert_eq!(ran.statuses(&["r", "e", "f"]), [TaskStatus::CacheHit, TaskStatus::Skipped, TaskStatus::Skipped]);
        assert_eq!((ran.root("e"), ran.root("f")), (Some("x".into()), Some("x".into())));
        assert_eq!(ran.told["r"], 4);
    }
}

#[test]
fn a_block_goes_through_several_restores() {
    let tasks = [
        t("x", 9).fails(),
        t("r1", 1).on(&["x"]).restore(),
        t("r2", 2).on(&["r1"]).restore(),
        t("r3", 3).on(&["r2"]).restore(),
        t("e", 1).on(&["r3"]),
    ];
    let ran = scene(8, tasks).run();
    assert_eq!((ran.status("e"), ran.root("e")), (TaskStatus::Skipped, Some("x".into())));
}

#[test]
fn s36_always_lets_a_task_behind_a_blocked_restore_run_tainted() {
    let tasks = [t("x", 10).fails(), t("r", 1).on(&["x"]).restore(), t("e", 1).on(&["r"])];
    let ran = scene(4, tasks).mode(ContinueMode::Always).run();
    assert_eq!((ran.status("e"), ran.at("e")), (TaskStatus::Success, vec![10]));
    assert!(ran.outcome("e").is_tainted());
}

#[test]
fn s39_an_aborted_dependency_blocks_a_restore_too() {
    let tasks = [t("x", 10).how(How::Abort), t("r", 1).on(&["x"]).restore(), t("e", 1).on(&["r"])];
    let ran = scene(4, tasks).run();
    assert_eq!((ran.status("e"), ran.root("e")), (TaskStatus::Skipped, Some("x".into())));
}

#[test]
fn a_restore_releases_its_dependents_only_after_its_own_dependencies() {
    let ran = scene(4, [t("x", 10), t("r", 1).on(&["x"]).restore(), t("e", 1).on(&["r"])]).run();
    assert_eq!(ran.at("e"), [10]);
}

#[test]
fn s42_restores_ignore_pools() {
    let tasks = (0..6).map(|at| t(&format!("r{at}"), 2).restore().pool("far"));
    let ran = scene(1, tasks).pool("far", 6).run();
    assert_eq!(ran.peak(|_| true), 1);
}

#[test]
fn s43_a_failed_restore_trips_fail_fast() {
    let tasks = [t("r", 1).restore().how(How::Fail), t("a", 3), t("b", 1).on(&["a"])];
    let ran = scene(2, tasks).mode(ContinueMode::Never).run();
    assert_eq!(ran.statuses(&["a", "b"]), [TaskStatus::Success, TaskStatus::Skipped]);
    assert_eq!((ran.root("b"), ran.told["b"]), (None, 1));
}

// ---- demotion ----

#[test]
fn s45_a_demoted_restore_waits_for_its_dependencies_and_runs_again() {
    let tasks = [t("x", 10), t("r", 2).on(&["x"]).restore().how(How::Demote), t("e", 1).on(&["r"])];
    let ran = scene(4, tasks).run();
    assert_eq!((ran.at("r"), ran.at("e")), (vec![0, 10], vec![12]));
    assert_eq!(ran.started.iter().filter(|name| *name == "r").count(), 1);
    assert_eq!(ran.finished.iter().filter(|name| *name == "r").count(), 1);
}

#[test]
fn s46_a_demoted_restore_behind_a_failure_never_runs() {
    let tasks = [t("x", 10).fails(), t("r", 2).on(&["x"]).restore().how(How::Demote), t("e", 1).on(&["r"])];
    let ran = scene(4, tasks).run();
    assert_eq!(ran.statuses(&["r", "e"]), [TaskStatus::Skipped; 2]);
    assert_eq!((ran.root("r"), ran.root("e")), (Some("x".into()), Some("x".into())));
    assert_eq!(ran.at("r"), [0]);
}

#[test]
fn s47_a_demoted_restore_without_dependencies_runs_again_at_once() {
    let ran = scene(4, [t("r", 2).restore().how(How::Demote)]).run();
    assert_eq!((ran.at("r"), ran.status("r")), (vec![0, 2], TaskStatus::Success));
}

#[test]
fn s49_a_restore_demoted_after_the_stop_is_skipped() {
    let tasks = [t("bad", 1).fails(), t("r", 5).restore().how(How::Demote)];
    let ran = scene(4, tasks).mode(ContinueMode::Never).run();
    assert_eq!((ran.status("r"), ran.at("r")), (TaskStatus::Skipped, vec![0]));
}

// ---- pools ----

#[test]
fn s50_b81_a_pool_keeps_its_bound_through_errors() {
    let tasks = (0..6).map(|at| t(&format!("p{at}"), 2).pool("far").how(if at < 3 { How::Panic } else { How::Pass }));
    let ran = scene(1, tasks).pool("far", 2).run();
    assert_eq!((ran.peak(|_| true), ran.report.tally().failed, ran.report.tally().succeeded), (2, 3, 3));
}

#[test]
fn b81_failing_tasks_in_a_pool_of_one_are_all_tried() {
    for how in [How::Fail, How::User, How::Panic, How::Abort] {
        let tasks = ["a", "b", "c"].map(|name| t(name, 1).pool("one").how(how));
        let ran = scene(4, tasks).pool("one", 1).run();
        assert_eq!(ran.starts(), ["a", "b", "c"], "{how:?}");
    }
}

#[test]
fn s51_s55_pools_bound_only_their_own() {
    let mut tasks: Vec<_> = (0..3).map(|at| t(&format!("a{at}"), 2).pool("a")).collect();
    tasks.extend((0..3).map(|at| t(&format!("b{at}"), 2).pool("b")));
    let ran = scene(8, tasks).pool("a", 1).pool("b", 3).run();
    assert_eq!((ran.peak(|name| name.starts_with('a')), ran.peak(|name| name.starts_with('b'))), (1, 3));
}

#[test]
fn s52_s54_pools_and_local_slots_do_not_wait_for_one_another() {
    let ran = scene(1, [t("far", 9).pool("p"), t("near", 1)]).pool("p", 1).run();
    assert_eq!(ran.end("near"), 1);
    let tasks = [t("l1", 5), t("l2", 5), t("next", 1).on(&["l2"]), t("far", 1).pool("p").weight(-1.0)];
    assert_eq!(scene(1, tasks).pool("p", 1).run().at("far"), [0]);
    let tasks = [t("p1", 5).pool("p"), t("p2", 5).pool("p"), t("last", 1).weight(-1.0)];
    assert_eq!(scene(1, tasks).pool("p", 1).run().at("last"), [0]);
}

#[test]
fn s56_fail_fast_reaches_across_pools() {
    let tasks = [t("far", 1).pool("p").fails(), t("slow", 5), t("next", 1)];
    let ran = scene(1, tasks).pool("p", 1).mode(ContinueMode::Never).run();
    assert_eq!(ran.statuses(&["slow", "next"]), [TaskStatus::Success, TaskStatus::Skipped]);
    let tasks = [t("near", 1).fails(), t("far", 5).pool("p"), t("next", 1).pool("p")];
    let ran = scene(1, tasks).pool("p", 1).mode(ContinueMode::Never).run();
    assert_eq!(ran.statuses(&["far", "next"]), [TaskStatus::Success, TaskStatus::Skipped]);
}

#[test]
fn b15_a_full_pool_with_better_work_does_not_keep_another_empty() {
    let mut tasks: Vec<_> = (0..1_019).map(|at| t(&format!("one{at}"), 50).pool("p1").weight(2.0)).collect();
    tasks.extend((0..100).map(|at| t(&format!("two{at}"), 50).pool("p2").weight(1.0)));
    let ran = scene(1, tasks).pool("p1", 20).pool("p2", 20).run();
    let at_once = ran.log.iter().take_while(|entry| entry.0 == 0).filter(|entry| entry.1.starts_with("two")).count();
    assert_eq!(at_once, 20);
}
