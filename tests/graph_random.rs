//! Random graphs in every mode, with lanes, pools and policies, against the model; and on real threads against invariants.

#[path = "graph/model.rs"]
mod model;
#[path = "graph/sim.rs"]
mod sim;

use model::{Admit, Model};
use shardrun::{
    Answer, ContinueMode, Ended, Plan, Policy, ResourceBudget, Run, RunObserver, RunReport, Runtime, TaskFailure,
    TaskStatus, policy_fn,
};
use sim::{How, Scene, T, scene, t};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Graphs per mode; `SHARDRUN_GRAPHS` asks for more.
fn graphs() -> u64 {
    std::env::var("SHARDRUN_GRAPHS").ok().and_then(|n| n.parse().ok()).unwrap_or(500)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 20
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// What is drawn for one graph.
struct Drawn {
    tasks: Vec<T>,
    concurrency: usize,
    capacities: Vec<usize>,
    abort: Option<u64>,
    death: Option<(u64, usize)>,
    kind: usize,
    costs: Vec<u64>,
    seed: Option<u64>,
}

fn draw(seed: u64) -> Drawn {
    let r = &mut Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let n = 1 + r.below(36);
    let (restores, groups, weights, predicted) = (r.below(3) * 20, r.below(2) * 15, r.chance(30), r.chance(30));
    let bad = [0, 5, 20][r.below(3)];
    let pools = r.below(3);
    let fan = 1 + r.below(4);
    let mut tasks = Vec::new();
    for at in 0..n {
        let deps: Vec<String> =
            (0..r.below(fan + 1)).filter(|_| at > 0).map(|_| format!("t{}", r.below(at.max(1)))).collect();
        let mut task = t(&format!("t{at}"), 1 + r.below(9) as u64);
        task.deps = deps;
        if r.chance(bad) {
            task.how = [How::Fail, How::Abort, How::User, How::Internal, How::Panic][r.below(5)];
        }
        if r.chance(15) {
            task.owes = Some(1 + r.below(12) as u64);
        }
        if pools > 0 && r.chance(30) {
            task.pool = Some(format!("p{}", r.below(pools)));
        }
        if weights && r.chance(50) {
            task.weight = Some(r.below(7) as f64 - 2.0);
        }
        if predicted && r.chance(50) {
            task.predicted = Some(r.below(30) as u64);
        }
        if r.chance(restores) {
            task.restore = true;
            if task.how == How::Pass {
                task.how = if r.chance(30) { How::Demote } else { How::Hit };
            }
        } else if r.chance(groups) {
            task.group = true;
            (task.how, task.owes) = (How::Pass, None);
        } else if r.chance(10) {
            task.server = Some(r.chance(50));
        }
        tasks.push(task);
    }
    let servers: Vec<usize> = (0..n).filter(|at| tasks[*at].server.is_some()).collect();
    let death =
        (!servers.is_empty() && r.chance(40)).then(|| (1 + r.below(40) as u64, servers[r.below(servers.len())]));
    Drawn {
        concurrency: 1 + r.below(8),
        capacities: (0..pools).map(|_| 1 + r.below(3)).collect(),
        abort: r.chance(15).then(|| 1 + r.below(40) as u64),
        death,
        kind: r.below(5),
        costs: (0..n).map(|_| r.below(7) as u64).collect(),
        seed: None,
        tasks,
    }
}

impl Drawn {
    fn scene(&self, mode: ContinueMode) -> Scene {
        let mut of = scene(self.concurrency, self.tasks.clone()).mode(mode);
        for (at, capacity) in self.capacities.iter().enumerate() {
            of = of.pool(&format!("p{at}"), *capacity);
        }
        of.seed = self.seed;
        if let Some(at) = self.abort {
            of = of.at(at, |run, _| run.abort());
        }
        if let Some((at, task)) = self.death {
            of = of.at(at, move |run, plan| run.server_died(plan.tasks().nth(task).unwrap()));
        }
        match self.policy(&of) {
            Some(policy) => of.policy(policy),
            None => of,
        }
    }

    fn policy(&self, of: &Scene) -> Option<Box<dyn Policy>> {
        match self.kind {
            1 | 2 => {
                let mut budget = ResourceBudget::new();
                let axis = budget.axis("memory", 4);
                let second = budget.axis("cpu", 5);
                for (task, cost) in of.plan().tasks().zip(&self.costs) {
                    budget.cost(task, axis, *cost);
                    if self.kind == 2 {
                        budget.cost(task, second, (*cost * 3) % 7);
                    }
                }
                Some(Box::new(budget))
            }
            3 => Some(policy_fn("third", |task, running| running.tasks().len() < 2 || task.index() % 3 == 0)),
            4 => Some(policy_fn("hostile", |task, _| -> Answer { (task.index() % 4 != 0).into() })),
            _ => None,
        }
    }

    fn admit(&self) -> Option<Admit> {
        let fits = |costs: Vec<u64>, capacity: u64| {
            move |task: usize, running: &[usize]| {
                let used: u64 = running.iter().map(|task| costs[*task]).sum();
                let holders = running.iter().any(|task| costs[*task] > 0);
                match costs[task] {
                    0 => true,
                    cost if cost > capacity => !holders,
                    cost => used + cost <= capacity,
                }
            }
        };
        match self.kind {
            1 => Some(Box::new(fits(self.costs.clone(), 4))),
            2 => {
                let memory = fits(self.costs.clone(), 4);
                let cpu = fits(self.costs.iter().map(|cost| (cost * 3) % 7).collect(), 5);
                Some(Box::new(move |task, running| memory(task, running) && cpu(task, running)))
            }
            3 => Some(Box::new(|task, running| running.len() < 2 || task % 3 == 0)),
            4 => Some(Box::new(|task, _| task % 4 != 0)),
            _ => None,
        }
    }

    /// Runs it on real threads, bodies as plain calls: what becomes of each task does not depend on who runs it when, unless
    /// the run stops.
    fn check_on(&self, runtime: &Runtime, mode: ContinueMode, of: &str) {
        let plan = Arc::new(self.scene(mode).plan());
        let lanes: Arc<[Lane]> = (0..self.capacities.len() + 2).map(|_| Lane::default()).collect();
        let runs: Arc<[AtomicUsize]> = self.tasks.iter().map(|_| AtomicUsize::new(0)).collect();
        let (tasks, noted, counted) = (self.tasks.clone(), lanes.clone(), runs.clone());
        let mut run = Run::<()>::new(plan.clone()).mode(mode).observer(Quiet);
        if let Some(policy) = self.policy(&self.scene(mode)) {
            run = run.policy(policy);
        }
        let report = run
            .start(runtime, move |cx| {
                let at = cx.task().index();
                let again = counted[at].fetch_add(1, Ordering::SeqCst) > 0;
                let task = &tasks[at];
                let pool = cx.plan().pool_of(cx.task()).map(|pool| pool.index() + 2);
                let restore = task.restore && !again;
                let lane = if restore { 1 } else { pool.unwrap_or(0) };
                let _inside = noted[lane].enter();
                let known = cx.upstream().all(|up| up.outcome.is_some());
                assert!(known || restore, "a task starts after its dependencies");
                match task.how {
                    How::Demote if !again => Err(TaskFailure::NothingToRestore),
                    How::Pass | How::Demote => Ok(Ended::success()),
                    How::Hit => Ok(Ended::cache_hit()),
                    How::Fail => Ok(Ended::failed(3)),
                    How::Abort => Ok(Ended::aborted()),
                    How::User | How::Internal => Err(TaskFailure::user("no")),
                    How::Panic => panic!("asked for"),
                }
                .map(|ended| if task.owes.is_some() { ended.owes(std::future::ready(())) } else { ended })
            })
            .wait()
            .unwrap();
        let peaks: Vec<usize> = lanes.iter().map(|lane| lane.peak.load(Ordering::SeqCst)).collect();
        let bounds = [self.concurrency, if self.concurrency == 1 { 1 } else { 2 * self.concurrency }];
        let bounds: Vec<usize> = bounds.into_iter().chain(self.capacities.iter().copied()).collect();
        assert!(peaks.iter().zip(&bounds).all(|(peak, bound)| peak <= bound), "{of}: {peaks:?} of {bounds:?}");
        for (spec, runs) in self.tasks.iter().zip(runs.iter()) {
            let most = if spec.how == How::Demote { 2 } else { 1 };
            assert!(runs.load(Ordering::SeqCst) <= most, "{of}: {} ran again", spec.name);
        }
        let failed = report.tally().failed;
        match stops_after(mode) {
            // Who was running when the run stopped is a matter of chance.
            Some(most) if failed >= most as usize => self.check_stopped(&plan, &report, failed, most, of),
            _ => self.check_settled(&plan, &report, mode, of),
        }
    }

    /// Nothing has stopped the run: it went as if nothing could.
    fn check_settled(&self, plan: &Arc<Plan>, report: &RunReport, mode: ContinueMode, of: &str) {
        let mode = if mode == ContinueMode::Always { mode } else { ContinueMode::DepsOk };
        let model = Model::new(plan, &self.tasks, mode, self.concurrency, self.capacities.clone(), None);
        for (task, fate) in plan.tasks().zip(&model.run(None, None).fates) {
            let (outcome, label) = (report.outcome(task), plan.label(task));
            assert_eq!(Some(outcome.status()), fate.status, "{of}: status of {label}");
            if !outcome.ran() {
                assert_eq!(outcome.blocked_by().map(|root| root.index()), fate.root, "{of}: root of {label}");
            }
            if !self.tasks[task.index()].restore {
                assert_eq!(outcome.is_tainted(), fate.tainted, "{of}: taint of {label}");
            }
        }
    }

    /// The run has stopped somewhere: what ran ended as its body does and behind what ended well, and nothing began after it.
    fn check_stopped(&self, plan: &Plan, report: &RunReport, failed: usize, most: u32, of: &str) {
        let slots = 3 * self.concurrency + self.capacities.iter().sum::<usize>();
        assert!(failed < most as usize + slots, "{of}: {failed} failures, and a stop after {most}");
        for (task, spec) in plan.tasks().zip(&self.tasks) {
            let (outcome, label) = (report.outcome(task), plan.label(task));
            let possible: &[TaskStatus] = match spec.how {
                _ if spec.group && !outcome.status().is_pass() => &[TaskStatus::Skipped],
                _ if !outcome.ran() && !spec.group => &[TaskStatus::Skipped, TaskStatus::Aborted],
                How::Pass | How::Demote => &[TaskStatus::Success],
                How::Hit => &[TaskStatus::CacheHit],
                How::Abort => &[TaskStatus::Aborted],
                How::Fail => &[TaskStatus::Failed],
                How::User | How::Internal | How::Panic => &[TaskStatus::Failed, TaskStatus::Aborted],
            };
            assert!(possible.contains(&outcome.status()), "{of}: {label} ended as {:?}", outcome.status());
            let builds = outcome.ran() && (!spec.restore || spec.how == How::Demote);
            let well = plan.dependencies(task).all(|dep| report.outcome(dep).status().is_pass());
            assert!(well || !builds, "{of}: {label} ran behind what did not end well");
        }
    }

    fn check(&self, mode: ContinueMode, of: &str) {
        let plan = self.scene(mode).plan();
        let model = Model::new(&plan, &self.tasks, mode, self.concurrency, self.capacities.clone(), self.admit());
        // A server that keeps its reservation keeps what it takes: left to the scenarios.
        let model = model.run(self.abort, self.death);
        let ran = self.scene(mode).run();
        let starts: Vec<(u64, usize)> =
            ran.log.iter().filter(|entry| entry.2).map(|entry| (entry.0, entry.1[1..].parse().unwrap())).collect();
        if self.seed.is_none() {
            assert_eq!(starts, model.starts, "{of}: starts");
        } else {
            let sorted = |mut starts: Vec<(u64, usize)>| {
                starts.sort_unstable();
                starts
            };
            assert_eq!(sorted(starts), sorted(model.starts.clone()), "{of}: starts");
        }
        for (task, fate) in plan.tasks().zip(&model.fates) {
            let (outcome, name) = (ran.report.outcome(task), plan.label(task));
            assert_eq!(Some(outcome.status()), fate.status, "{of}: status of {name}");
            assert_eq!(ran.told[&name], fate.told, "{of}: when {name} was told");
            assert_eq!(outcome.is_tainted(), fate.tainted, "{of}: taint of {name}");
            if !outcome.ran() {
                assert_eq!(outcome.blocked_by().map(|root| root.index()), fate.root, "{of}: root of {name}");
            }
            assert_eq!(ran.held(&name), fate.held, "{of}: held time of {name}");
        }
    }
}

const MODES: [ContinueMode; 5] = [
    ContinueMode::DepsOk,
    ContinueMode::Never,
    ContinueMode::Always,
    ContinueMode::Kill,
    ContinueMode::StopAfter(NonZeroU32::new(3).unwrap()),
];

/// The failures at which a run of this mode stops.
fn stops_after(mode: ContinueMode) -> Option<u32> {
    match mode {
        ContinueMode::Never | ContinueMode::Kill => Some(1),
        ContinueMode::StopAfter(failures) => Some(failures.get()),
        _ => None,
    }
}

fn check_mode(mode: ContinueMode) {
    for seed in 1..=graphs() {
        let mut drawn = draw(seed);
        for task in &mut drawn.tasks {
            if task.server == Some(true) {
                task.server = Some(false);
            }
        }
        let of = format!("seed {seed} in mode {mode:?}");
        println!("{of}");
        drawn.check(mode, &of);
    }
}

#[test]
fn random_graphs_agree_with_the_model_in_mode_deps_ok() {
    check_mode(MODES[0]);
}

#[test]
fn random_graphs_agree_with_the_model_in_mode_never() {
    check_mode(MODES[1]);
}

#[test]
fn random_graphs_agree_with_the_model_in_mode_always() {
    check_mode(MODES[2]);
}

#[test]
fn random_graphs_agree_with_the_model_in_mode_kill() {
    check_mode(MODES[3]);
}

#[test]
fn random_graphs_agree_with_the_model_in_mode_stop_after() {
    check_mode(MODES[4]);
}

/// How many bodies of a lane run, and ran at most.
#[derive(Default)]
struct Lane {
    now: AtomicUsize,
    peak: AtomicUsize,
}

struct Inside<'a>(&'a Lane);

impl Lane {
    fn enter(&self) -> Inside<'_> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.peak.fetch_max(now, Ordering::SeqCst);
        Inside(self)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Quiet;
impl<X> RunObserver<X> for Quiet {
    fn error_line(&self, _: &Plan, _: shardrun::TaskId, _: &str) {}
    fn warning(&self, _: &str) {}
}

#[test]
fn random_graphs_agree_with_the_model_on_1_to_8_workers() {
    for workers in 1..=8 {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        for seed in 1..=graphs() / 10 {
            let drawn = draw(seed * 8 + workers as u64);
            for mode in MODES {
                let of = format!("seed {} in mode {mode:?} on {workers} workers", seed * 8 + workers as u64);
                println!("{of}");
                drawn.check_on(&runtime, mode, &of);
            }
        }
    }
}

#[test]
fn random_graphs_agree_with_the_model_whatever_order_jobs_run_in() {
    for seed in 1..=graphs() / 5 {
        let mut drawn = draw(seed + 50_000);
        drawn.seed = Some(seed);
        drawn.tasks.iter_mut().filter(|task| task.server.is_some()).for_each(|task| task.server = Some(false));
        for mode in [ContinueMode::DepsOk, ContinueMode::Never, ContinueMode::Always] {
            let of = format!("seed {} in mode {mode:?}, jobs in random order", seed + 50_000);
            println!("{of}");
            drawn.check(mode, &of);
        }
    }
}
