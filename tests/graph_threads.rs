//! Runs on real threads, with 1 to 8 workers, counted and decided: each task once, in order, within bounds, whatever goes wrong.

use shardrun::{
    CancellationToken, ContinueMode, CountedRun, Driver, Ended, Plan, Run, RunObserver, Runtime, TaskId, TaskStatus,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }
}

/// Every other task has the dependencies of the one before it: if those are many, both are counted together.
fn random_plan(seed: u64, tasks: usize, fan: usize) -> Arc<Plan> {
    println!("plan of seed {seed}");
    let mut random = Random(seed | 1);
    let mut plan = Plan::builder();
    let (mut ids, mut deps): (Vec<TaskId>, Vec<TaskId>) = Default::default();
    for _ in 0..tasks {
        if random.below(2) == 0 {
            deps =
                (0..random.below(fan + 1)).filter(|_| !ids.is_empty()).map(|_| ids[random.below(ids.len())]).collect();
        }
        ids.push(plan.task("").after_all(deps.iter().copied()).id());
    }
    Arc::new(plan.build().unwrap())
}

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).stack_size(256 * 1024).build().unwrap()
}

/// What bodies note, to be checked afterwards.
struct Notes {
    plan: Arc<Plan>,
    runs: Vec<AtomicU32>,
    over: Vec<AtomicBool>,
    early: AtomicUsize,
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Notes {
    fn new(plan: &Arc<Plan>) -> Arc<Self> {
        let all = plan.len();
        Arc::new(Self {
            plan: plan.clone(),
            runs: (0..all).map(|_| AtomicU32::new(0)).collect(),
            over: (0..all).map(|_| AtomicBool::new(false)).collect(),
            early: AtomicUsize::new(0),
            now: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        })
    }

    fn body(&self, task: TaskId) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.peak.fetch_max(now, Ordering::Relaxed);
        self.runs[task.index()].fetch_add(1, Ordering::Relaxed);
        let waits = self.plan.dependencies(task).any(|dep| !self.over[dep.index()].load(Ordering::Acquire));
        self.early.fetch_add(usize::from(waits), Ordering::Relaxed);
        self.now.fetch_sub(1, Ordering::Relaxed);
        self.over[task.index()].store(true, Ordering::Release);
    }

    fn check_all_ran_once(&self, most: usize) {
        assert!(self.runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1), "each task runs once");
        assert_eq!(self.early.load(Ordering::Relaxed), 0, "nothing starts before its dependencies are over");
        assert!(self.peak.load(Ordering::Relaxed) <= most, "no more than {most} at a time");
    }
}

#[test]
fn b66_each_task_runs_once_in_order_with_1_to_8_workers() {
    for workers in 1..=8 {
        let runtime = runtime(workers);
        for seed in 0..12 {
            let plan =
                random_plan(seed * 8 + workers as u64, 1 + 97 * seed as usize, [1, 2, 3, 4, 24][seed as usize % 5]);
            let notes = Notes::new(&plan);
            let of = notes.clone();
            let run = CountedRun::new(plan.clone()).unwrap().start(&runtime, move |task| of.body(task));
            assert!(run.wait().unwrap().is_success());
            notes.check_all_ran_once(workers);

            let notes = Notes::new(&plan);
            let of = notes.clone();
            let run = Run::<()>::new(plan.clone()).start(&runtime, move |cx| of.body(cx.task()));
            assert!(run.wait().unwrap().is_success());
            notes.check_all_ran_once(workers);
        }
    }
}

#[test]
fn b66_a_lattice_reached_by_many_paths_runs_each_task_once() {
    let mut plan = Plan::builder();
    let mut ids: Vec<TaskId> = Vec::new();
    for at in 0..100 {
        let left = (at % 10 > 0).then(|| ids[at - 1]);
        let above = (at >= 10).then(|| ids[at - 10]);
        ids.push(plan.task("").after_all(left.into_iter().chain(above)).id());
    }
    let plan = Arc::new(plan.build().unwrap());
    for workers in [1, 2, 3, 8] {
        let runtime = runtime(workers);
        for _ in 0..100 {
            let notes = Notes::new(&plan);
            let of = notes.clone();
            let run = CountedRun::new(plan.clone()).unwrap().start(&runtime, move |task| of.body(task));
            run.wait().unwrap();
            notes.check_all_ran_once(workers);
        }
    }
}

/// Every task fails with the chance of one in so many.
fn fails(task: TaskId, one_in: usize) -> bool {
    Random(task.index() as u64 * 7_919 + 13).below(one_in) == 0
}

#[test]
fn failures_doom_the_same_tasks_whoever_runs_the_graph() {
    for workers in [1, 2, 5] {
        let runtime = runtime(workers);
        for seed in 0..20 {
            let plan = random_plan(seed + 1_000, 300, if seed % 2 == 0 { 3 } else { 24 });
            let counted = CountedRun::new(plan.clone()).unwrap().start(&runtime, |task| {
                assert!(!fails(task, 24), "asked for");
                if fails(task, 23) { Err(()) } else { Ok(()) }
            });
            let decided = Run::<()>::new(plan.clone()).observer(Quiet).start(&runtime, |cx| {
                assert!(!fails(cx.task(), 24), "asked for");
                if fails(cx.task(), 23) { Ended::failed(1) } else { Ended::success() }
            });
            let (counted, decided) = (counted.wait().unwrap(), decided.wait().unwrap());
            for task in plan.tasks() {
                assert_eq!(counted.status(task), decided.outcome(task).status(), "{task} of seed {seed}");
                assert_eq!(counted.blocked_by(task).is_some(), decided.outcome(task).blocked_by().is_some());
            }
            assert!(counted.bad().count() > 0);
        }
    }
}

struct Quiet;
impl<X> RunObserver<X> for Quiet {
    fn error_line(&self, _: &Plan, _: TaskId, _: &str) {}
}

#[test]
fn a_counted_run_stops_at_failures_as_it_is_told_to() {
    let plan = random_plan(5, 2_000, 2);
    let runtime = runtime(2);
    let run = |mode| {
        let run = CountedRun::new(plan.clone()).unwrap().mode(mode);
        run.start(&runtime, |task| if fails(task, 50) { TaskStatus::Failed } else { TaskStatus::Success })
            .wait()
            .unwrap()
    };
    let bad = |report: &shardrun::CountedReport, of| report.bad().filter(|(_, status)| *status == of).count();
    let always = run(ContinueMode::Always);
    assert_eq!(bad(&always, TaskStatus::Failed), plan.tasks().filter(|task| fails(*task, 50)).count());
    assert_eq!(bad(&always, TaskStatus::Skipped), 0);
    let never = run(ContinueMode::Never);
    assert!((1..=2).contains(&bad(&never, TaskStatus::Failed)));
    assert!(bad(&never, TaskStatus::Skipped) > 1_000);
    let three = run(ContinueMode::StopAfter(3.try_into().unwrap()));
    assert!((3..=4).contains(&bad(&three, TaskStatus::Failed)));
}

#[test]
fn a_counted_run_is_aborted_by_its_token_its_handle_and_a_shutdown() {
    let plan = random_plan(9, 500, 2);
    for way in 0..3 {
        let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
        let token = CancellationToken::new();
        let ran = Arc::new(AtomicUsize::new(0));
        let count = ran.clone();
        let stop = token.clone();
        let run = CountedRun::new(plan.clone()).unwrap().abort_on(&token);
        let mut run = run.start(&runtime, move |_| {
            if count.fetch_add(1, Ordering::Relaxed) == 40 && way == 0 {
                stop.cancel();
            }
        });
        match way {
            0 => _ = runtime.drive_all(),
            1 => {
                run.cancel();
                runtime.drive_all();
                assert_eq!(ran.load(Ordering::Relaxed), 0);
                continue;
            }
            _ => _ = runtime.shutdown(),
        }
        let report = run.try_get().expect("it is over").unwrap();
        let done = ran.load(Ordering::Relaxed);
        assert_eq!((done, report.bad().count()), (if way == 0 { 41 } else { 0 }, 500 - done));
        assert!(report.bad().all(|(_, status)| status == TaskStatus::Aborted));
    }
}

#[test]
fn a_plan_with_more_to_say_is_no_counted_one() {
    let mut plan = Plan::builder();
    plan.task("a").weight(1.0);
    assert!(CountedRun::new(plan.build().unwrap()).is_err());
}

#[test]
fn a_counted_run_keeps_to_the_plans_concurrency_and_gives_way() {
    let mut plan = Plan::builder();
    for _ in 0..3_000 {
        plan.task("");
    }
    plan.concurrency(1);
    let plan = Arc::new(plan.build().unwrap());
    let runtime = runtime(4);
    let notes = Notes::new(&plan);
    let of = notes.clone();
    let run = CountedRun::new(plan.clone()).unwrap().start(&runtime, move |task| of.body(task));
    run.wait().unwrap();
    notes.check_all_ran_once(1);
    // Another job of the same worker has its turn before the run is over.
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let (done, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, look, note) = (done.clone(), done, seen.clone());
    // The worker waits until both are queued.
    let (open, gate) = std::sync::mpsc::channel::<()>();
    runtime.execute(move || _ = gate.recv()).unwrap();
    let run = CountedRun::new(plan).unwrap().start(&runtime, move |_| _ = count.fetch_add(1, Ordering::Relaxed));
    runtime.execute(move || note.store(look.load(Ordering::Relaxed), Ordering::Relaxed)).unwrap();
    drop(open);
    run.wait().unwrap();
    assert!(seen.load(Ordering::Relaxed) < 200, "after {} tasks", seen.load(Ordering::Relaxed));
}

// ---- depth and width ----

const MANY: usize = 1_000_000;

fn shape(of: impl Fn(usize) -> [Option<usize>; 2]) -> Arc<Plan> {
    let mut plan = Plan::builder();
    let mut ids: Vec<TaskId> = Vec::with_capacity(MANY);
    for at in 0..MANY {
        let deps = of(at).into_iter().flatten().map(|dep| ids[dep]);
        ids.push(plan.task("").after_all(deps).id());
    }
    Arc::new(plan.build().unwrap())
}

fn chain() -> Arc<Plan> {
    shape(|at| [at.checked_sub(1), None])
}

#[test]
fn b113_a_chain_of_a_million_runs_fails_and_is_aborted_on_small_stacks() {
    let plan = chain();
    let runtime = runtime(2);
    let end = TaskId::clone(&plan.tasks().last().unwrap());
    for fails_at in [None, Some(0), Some(MANY - 1)] {
        let body =
            move |task: TaskId| if Some(task.index()) == fails_at { TaskStatus::Failed } else { TaskStatus::Success };
        let counted = CountedRun::new(plan.clone()).unwrap().start(&runtime, body).wait().unwrap();
        let decided = Run::<()>::new(plan.clone()).start(&runtime, move |cx| match body(cx.task()) {
            TaskStatus::Failed => Ended::failed(1),
            _ => Ended::success(),
        });
        let decided = decided.wait().unwrap();
        let expected = match fails_at {
            None => TaskStatus::Success,
            Some(0) => TaskStatus::Skipped,
            Some(_) => TaskStatus::Failed,
        };
        assert_eq!((counted.status(end), decided.outcome(end).status()), (expected, expected));
    }
    let run = Run::<()>::new(plan.clone()).start(&runtime, |_| ());
    run.abort();
    assert_eq!(run.wait().unwrap().outcomes().len(), MANY);
    let token = CancellationToken::new();
    token.cancel();
    let run = CountedRun::new(plan.clone()).unwrap().abort_on(&token).start(&runtime, |_| ());
    assert_eq!(run.wait().unwrap().bad().count(), MANY);
    drop(Run::<()>::new(plan));
}

#[test]
fn b114_a_star_and_a_chain_of_early_restores_of_a_million_do_not_recur() {
    let runtime = runtime(2);
    let star = shape(|at| [(at > 0).then_some(0), None]);
    assert!(CountedRun::new(star.clone()).unwrap().start(&runtime, |_| ()).wait().unwrap().is_success());
    assert!(Run::<()>::new(star).start(&runtime, |_| ()).wait().unwrap().is_success());
    // All restores are over before the first task, whose end then releases them one through the other.
    let mut plan = Plan::builder();
    plan.concurrency(64);
    let gate = plan.task("gate").id();
    let mut last = gate;
    for _ in 0..200_000 {
        last = plan.task("").after(last).restore().id();
    }
    let end = plan.task("end").after(last).id();
    let restored = Arc::new(AtomicUsize::new(0));
    let count = restored.clone();
    let run = Run::<()>::new(plan.build().unwrap()).start_async(&runtime, move |cx| {
        let (count, is_gate) = (count.clone(), cx.task() == gate);
        std::future::poll_fn(move |poll| {
            if is_gate && count.load(Ordering::Relaxed) < 200_000 {
                poll.waker().wake_by_ref();
                return std::task::Poll::Pending;
            }
            count.fetch_add(1, Ordering::Relaxed);
            std::task::Poll::Ready(())
        })
    });
    assert!(run.wait().unwrap().outcome(end).ran());
}
