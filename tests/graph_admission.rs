//! Admission: who is asked what and when, who waits for what, and that no policy can end a run.

#[path = "graph/sim.rs"]
mod sim;

use shardrun::{
    Answer, Axis, ContinueMode, Covers, Freed, Policy, PolicyWaker, Refusal, ResourceBudget, Running, Solo, TaskId,
    TaskStatus, Usage, Wake, policy_fn,
};
use sim::{How, Scene, scene, t};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A scene with a budget of one axis; costs by place, zero for none.
fn budgeted(mut of: Scene, capacity: u64, costs: &[u64]) -> Scene {
    let ids: Vec<TaskId> = of.plan().tasks().collect();
    let mut budget = ResourceBudget::new();
    let axis = budget.axis("memory", capacity);
    for (task, cost) in ids.iter().zip(costs) {
        budget.cost(*task, axis, *cost);
    }
    of.policies.push(Box::new(budget));
    of
}

#[test]
fn s73_a_budget_bounds_what_runs_together() {
    let tasks = || ["a", "b", "c"].map(|name| t(name, 2));
    assert_eq!(budgeted(scene(4, tasks()), 8, &[4, 4, 4]).run().peak(|_| true), 2);
    assert_eq!(budgeted(scene(4, tasks()), 8, &[5, 5, 5]).run().peak(|_| true), 1);
    assert_eq!(budgeted(scene(4, tasks()), 8, &[5, 5, 0]).run().peak(|_| true), 2);
}

#[test]
fn s74_the_second_question_sees_the_first_task_running() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = seen.clone();
    let policy = policy_fn("watcher", move |task, running| {
        into.lock().unwrap().push((task.index(), running.tasks().iter().map(|task| task.index()).collect::<Vec<_>>()));
        assert_eq!(running.concurrency(), 4);
        true
    });
    scene(4, [t("a", 1), t("b", 1)]).policy(policy).run();
    assert_eq!(*seen.lock().unwrap(), [(0, vec![]), (1, vec![0])]);
}

#[test]
fn s77_tasks_over_the_budget_run_one_by_one_and_are_warned_of() {
    let ran = budgeted(scene(4, ["a", "b", "c"].map(|name| t(name, 5))), 8, &[16; 3]).run();
    assert_eq!((ran.peak(|_| true), ran.report.tally().succeeded), (1, 3));
    assert_eq!(["a", "b", "c"].map(|name| ran.held(name)), [None, Some(5), Some(10)]);
    assert_eq!(ran.warnings.len(), 3);
    assert!(ran.warnings[0].contains("a wants 16 of memory, of which there is 8"));
}

#[test]
fn s78_solo_among_holders_and_on_the_machine() {
    let tasks = || [t("big", 5).weight(3.0), t("small", 5).weight(2.0), t("free", 5).weight(1.0)];
    let ran = budgeted(scene(4, tasks()), 8, &[16, 1, 0]).run();
    assert_eq!((ran.at("big"), ran.at("free"), ran.at("small")), (vec![0], vec![0], vec![5]));
    let mut machine = scene(4, [t("free", 5).weight(9.0), t("big", 5)]);
    let ids: Vec<_> = machine.plan().tasks().collect();
    let mut budget = ResourceBudget::new();
    let axis = budget.axis("memory", 8);
    budget.cost(ids[1], axis, 16).solo(Solo::Machine);
    machine.policies.push(Box::new(budget));
    assert_eq!(machine.run().at("big"), [5]);
}

#[test]
fn s80_a_task_refused_and_admitted_in_one_millisecond_was_held_for_one() {
    // The policy refuses b once; the end of a in the same millisecond brings the next question.
    let mut refused = false;
    let policy = policy_fn("once", move |task, _| task.index() != 1 || std::mem::replace(&mut refused, true));
    let ran = scene(2, [t("a", 0), t("b", 1), t("c", 9)]).policy(policy).run();
    assert_eq!((ran.held("b"), ran.held("a"), ran.outcome("b").refusals()), (Some(1), None, 1));
}

#[test]
fn s81_time_behind_a_full_lane_is_not_held_time() {
    let tasks = [t("a", 10), t("b", 1)];
    let ran = budgeted(scene(1, tasks), 8, &[8, 8]).run();
    assert_eq!((ran.held("b"), ran.outcome("b").slot_wait()), (None, Duration::from_millis(10)));
    // Two slots: b is held while one is free (0 to 3), and waits behind full lanes after that.
    let tasks = [t("a", 10), t("b", 1), t("x", 3), t("y", 7).on(&["x"])];
    let ran = budgeted(scene(2, tasks), 8, &[8, 8, 0, 0]).run();
    assert_eq!(ran.at("b"), [10]);
    assert_eq!((ran.held("b"), ran.outcome("b").slot_wait()), (Some(1), Duration::from_millis(9)));
}

#[test]
fn s83_restores_and_pooled_tasks_are_never_asked_about() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = seen.clone();
    let alone = policy_fn("alone", move |task, running| {
        into.lock().unwrap().push(task.index());
        running.tasks().is_empty()
    });
    let tasks = [t("local", 5), t("r", 5).restore(), t("p", 5).pool("far")];
    let ran = scene(4, tasks).pool("far", 1).policy(alone).run();
    assert_eq!((seen.lock().unwrap().clone(), ran.peak(|_| true)), (vec![0], 3));
}

#[test]
fn s48_a_demoted_restore_is_asked_about_when_it_runs_again() {
    let seen = Arc::new(Mutex::new(0));
    let into = seen.clone();
    let policy = policy_fn("counts", move |_, _| {
        *into.lock().unwrap() += 1;
        true
    });
    let ran = scene(4, [t("r", 2).restore().how(How::Demote)]).policy(policy).run();
    assert_eq!((*seen.lock().unwrap(), ran.at("r")), (1, vec![0, 2]));
}

#[test]
fn s85_a_held_task_that_fails_says_how_long_and_one_that_is_skipped_does_not() {
    let tasks = [t("a", 5), t("b", 1).how(How::User)];
    assert_eq!(budgeted(scene(4, tasks), 8, &[8, 8]).run().held("b"), Some(5));
    let tasks = [t("a", 5).fails(), t("b", 1)];
    let ran = budgeted(scene(4, tasks).mode(ContinueMode::Never), 8, &[8, 8]).run();
    assert_eq!((ran.status("b"), ran.held("b")), (TaskStatus::Skipped, None));
}

#[test]
fn s86_a_policy_that_always_refuses_is_overruled_and_warned_of_once() {
    for answer in [
        Answer::not_yet(),
        Answer::close_until(Wake::Completion),
        Answer::wait_for(Axis(3), 0),
        Answer::close_until(Wake::Idle),
    ] {
        let ran = scene(4, ["a", "b", "c"].map(|name| t(name, 2))).policy(policy_fn("never", move |_, _| answer)).run();
        assert_eq!((ran.report.tally().succeeded, ran.peak(|_| true)), (3, 1), "{answer:?}");
        assert_eq!(ran.warnings, ["policy never refuses a though nothing runs; it starts all the same"]);
    }
}

#[test]
fn s87_a_policy_that_panics_is_told_once_and_admits_everything() {
    let ran = scene(4, ["a", "b", "c"].map(|name| t(name, 2)))
        .policy(policy_fn("broken", |_, _| -> bool { panic!("policy is broken") }))
        .run();
    assert_eq!(ran.peak(|_| true), 3);
    assert_eq!(ran.warnings.len(), 1);
    assert!(ran.warnings[0].contains("broken") && ran.warnings[0].contains("admits everything"));
}

#[test]
fn all_policies_must_admit() {
    let ran = scene(4, ["a", "b", "c", "d"].map(|name| t(name, 2)))
        .policy(policy_fn("three", |_, running| running.tasks().len() < 3))
        .policy(policy_fn("two", |_, running| running.tasks().len() < 2))
        .run();
    assert_eq!(ran.peak(|_| true), 2);
    assert_eq!(ran.outcome("c").refused_by(), Some((1, None)));
}

#[test]
fn a_refused_head_does_not_keep_those_that_fit_from_starting() {
    let tasks = [t("a", 9).weight(9.0), t("big", 1).weight(5.0), t("small", 1)];
    let ran = budgeted(scene(4, tasks), 8, &[6, 4, 2]).run();
    assert_eq!((ran.at("small"), ran.at("big")), (vec![0], vec![9]));
}

#[test]
fn a_large_task_is_drained_for_after_so_many_starts() {
    let tasks = || {
        let mut tasks = vec![t("first", 2), t("giant", 2)];
        tasks.extend((0..40).map(|at| t(&format!("s{at}"), 1 + at % 3).weight(-1.0)));
        tasks
    };
    let costs: Vec<u64> = [5, 8].into_iter().chain([3; 40]).collect();
    let starving = budgeted(scene(3, tasks()), 8, &costs).run();
    let mut scene = budgeted(scene(3, tasks()), 8, &costs);
    scene.drain_after = Some(4);
    let drained = scene.run();
    let before = |ran: &sim::Ran| ran.starts().iter().position(|name| *name == "giant").unwrap();
    assert!(before(&starving) > 30, "without a drain it starves: {}", before(&starving));
    assert!(before(&drained) <= 8, "with one it starts soon: {}", before(&drained));
    assert!(drained.report.is_success());
}

#[test]
fn mutex_exclusive_and_weight_are_axes() {
    let mut of = scene(4, ["a", "b", "c", "d"].map(|name| t(name, 3)));
    let ids: Vec<_> = of.plan().tasks().collect();
    let mut budget = ResourceBudget::new();
    budget.mutex(ids[0], "db").mutex(ids[1], "db").exclusive(ids[2]);
    of.policies.push(Box::new(budget));
    let ran = of.run();
    assert_eq!(ran.peak(|name| name == "a" || name == "b"), 1);
    let alone = ran.at("c")[0]..ran.end("c");
    assert!(["a", "b", "d"].iter().all(|name| ran.end(name) <= alone.start || ran.at(name)[0] >= alone.end));

    let mut of = scene(4, ["a", "b", "c"].map(|name| t(name, 3)));
    let ids: Vec<_> = of.plan().tasks().collect();
    let mut budget = ResourceBudget::new();
    budget.weight(ids[0], 3, 4);
    of.policies.push(Box::new(budget));
    assert_eq!(of.run().peak(|_| true), 2);
}

/// Refuses until it is woken from outside or by time, and says how often it was asked.
struct Sleepy {
    wake: Wake,
    asked: Arc<Mutex<u32>>,
    waker: Arc<Mutex<Option<PolicyWaker>>>,
    ready_after: u32,
}

impl Policy for Sleepy {
    fn name(&self) -> &str {
        "sleepy"
    }
    fn begin(&mut self, _: &shardrun::Plan, waker: &PolicyWaker) -> Vec<String> {
        *self.waker.lock().unwrap() = Some(waker.clone());
        vec!["sleepy begins".to_owned()]
    }
    fn ask(&mut self, _: TaskId, _: &Running<'_>) -> Answer {
        let mut asked = self.asked.lock().unwrap();
        *asked += 1;
        if *asked > self.ready_after {
            return Answer::Admit;
        }
        Answer::Refuse(Refusal { wake: self.wake, covers: Covers::Class(0), axis: None })
    }
    fn finished(&mut self, _: TaskId, usage: Usage, _: &mut Freed) {
        assert_eq!(usage, Usage::default());
    }
    fn end(&mut self) -> Vec<String> {
        vec!["sleepy ends".to_owned()]
    }
}

#[test]
fn a_policy_is_woken_by_time_and_from_outside() {
    let asked = Arc::new(Mutex::new(0));
    let sleepy = |wake| Box::new(Sleepy { wake, asked: asked.clone(), waker: Arc::default(), ready_after: 1 });
    let ran = scene(4, [t("a", 2)]).policy(sleepy(Wake::Outside)).at(7, |run, _| run.wake_policies()).run();
    assert_eq!((ran.at("a"), ran.held("a")), (vec![7], Some(7)));
    assert_eq!(ran.warnings, ["sleepy begins", "sleepy ends"]);

    *asked.lock().unwrap() = 0;
    let waker = Arc::new(Mutex::new(None));
    let policy = Sleepy { wake: Wake::Outside, asked: asked.clone(), waker: waker.clone(), ready_after: 1 };
    let wakes = move |_: &_, _: &_| waker.lock().unwrap().as_ref().map(|waker: &PolicyWaker| waker.wake()).unwrap();
    let ran = scene(4, [t("a", 2)]).policy(Box::new(policy)).at(5, wakes).run();
    assert_eq!(ran.at("a"), [5]);

    // The runtime's virtual clock reaches the time only when something advances it.
    *asked.lock().unwrap() = 0;
    let after = Wake::After(Duration::from_millis(4));
    let ran = scene(4, [t("a", 2)]).policy(sleepy(after)).at(3, |_, _| ()).at(6, |_, _| ()).run();
    assert_eq!(ran.at("a"), [6]);
}

#[test]
fn what_a_policy_refuses_for_all_is_not_asked_about_one_by_one() {
    for answer in [Answer::close_until(Wake::Completion), Answer::wait_for(Axis(0), 7)] {
        let asked = Arc::new(Mutex::new(0_u32));
        let count = asked.clone();
        let one_at_a_time = OneAtATime { asked: count, running: false, answer };
        let ran = scene(8, (0..6_000).map(|at| t(&format!("t{at}"), 1))).policy(Box::new(one_at_a_time)).run();
        assert_eq!((ran.peak(|_| true), ran.report.tally().succeeded), (1, 6_000));
        let asked = *asked.lock().unwrap();
        assert!(asked <= 3 * 6_000, "asked {asked} times");
    }
}

struct OneAtATime {
    asked: Arc<Mutex<u32>>,
    running: bool,
    answer: Answer,
}

impl Policy for OneAtATime {
    fn name(&self) -> &str {
        "one at a time"
    }
    fn ask(&mut self, _: TaskId, _: &Running<'_>) -> Answer {
        *self.asked.lock().unwrap() += 1;
        if self.running { self.answer } else { Answer::Admit }
    }
    fn started(&mut self, _: TaskId) {
        self.running = true;
    }
    fn finished(&mut self, _: TaskId, _: Usage, freed: &mut Freed) {
        self.running = false;
        freed.axis(Axis(0));
    }
}

#[test]
fn b82_amounts_add_up_exactly() {
    let mut random = 7_u64;
    let mut next = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random >> 33
    };
    let thirds = [100, 300, 333];
    let tasks = (0..3_000).map(|at| t(&format!("t{at}"), 1 + at % 7));
    let mut costs: Vec<u64> = (0..3_000).map(|_| thirds[(next() % 3) as usize]).collect();
    costs.push(1_000);
    let tasks = tasks.chain([t("whole", 1).weight(-1.0)]);
    let ran = budgeted(scene(64, tasks), 1_000, &costs).run();
    assert!(ran.report.is_success() && ran.warnings.is_empty());
}

#[test]
fn b75_what_was_reserved_comes_back_however_a_task_ends() {
    let mut tasks = Vec::new();
    for at in 0..16 {
        let chain = ["a", "b", "c", "d"].map(|step| format!("{step}{at}"));
        tasks.push(t(&chain[0], 2));
        tasks.push(t(&chain[1], 1).on(&[&chain[0]]).how([How::Panic, How::User, How::Fail, How::Abort][at % 4]));
        tasks.push(t(&chain[2], 1).on(&[&chain[1]]));
        tasks.push(t(&chain[3], 1).on(&[&chain[2]]));
    }
    let costs = vec![1; tasks.len()];
    for _ in 0..2 {
        let ran = budgeted(scene(32, tasks.clone()), 4, &costs).run();
        assert_eq!((ran.peak(|_| true), ran.report.tally().skipped), (4, 32));
    }
}

#[test]
fn a_server_keeps_its_reservation_until_it_exits_if_it_is_said_to() {
    let tasks = |keeps| [t("server", 2).server(keeps), t("slow", 20), t("test", 1).on(&["server"])];
    let ran = budgeted(scene(4, tasks(false)), 4, &[4, 0, 4]).run();
    assert_eq!(ran.at("test"), [2]);
    let ran = budgeted(scene(4, tasks(true)), 4, &[4, 0, 4])
        .at(9, |run, plan| run.server_exited(plan.find("server").unwrap()))
        .run();
    assert_eq!(ran.at("test"), [9]);
}

#[test]
fn more_memory_than_was_reserved_is_reported_after_the_run() {
    let mut plan = shardrun::Plan::builder();
    let (a, b) = (plan.task("a").id(), plan.task("b").id());
    let mut budget = ResourceBudget::new();
    let memory = budget.axis("memory", 100);
    budget.cost(a, memory, 10).cost(b, memory, 10).measure_memory(memory);
    let runtime = shardrun::Runtime::builder().workers(1).build().unwrap();
    let run = shardrun::Run::<()>::new(plan.build().unwrap()).policy(Box::new(budget)).observer(Quiet);
    let run =
        run.start(&runtime, move |cx| shardrun::Ended::success().peak_memory(if cx.task() == a { 11 } else { 10 }));
    let report = run.wait().unwrap();
    assert_eq!(report.warnings(), ["a held 11 bytes at its peak, and 10 were reserved"]);
    assert_eq!(report.outcome(a).peak_memory(), Some(11));
}

struct Quiet;
impl<X> shardrun::RunObserver<X> for Quiet {
    fn warning(&self, _: &str) {}
}
