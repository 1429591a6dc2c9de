//! Random graphs in every mode, with lanes, pools and policies, against the model; and on real threads against invariants.

#[path = "graph/model.rs"]
mod model;
#[path = "graph/sim.rs"]
mod sim;

use model::{Admit, Model};
use shardrun::{Answer, ContinueMode, Policy, ResourceBudget, policy_fn};
use sim::{How, Scene, T, scene, t};
use std::num::NonZeroU32;

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
        concurrency: 1 + r.below(5),
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

    fn check(&self, mode: ContinueMode, of: &str) {
        let plan = self.scene(mode).plan();
        let model = Model::new(&plan, &self.tasks, mode, self.concurrency, self.capacities.clone(), self.admit());
        // A server that keeps its reservation keeps what it takes: left to the scenarios.
        let model = model.run(self.abort, self.death);
        let ran = self.scene(mode).run();
        let starts: Vec<(u64, usize)> =
            ran.log.iter().filter(|entry| entry.2).map(|entry| (entry.0, entry.1[1..].parse().unwrap())).collect();
        assert_eq!(starts, model.starts, "{of}: starts");
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
    check_mode(ContinueMode::DepsOk);
}

#[test]
fn random_graphs_agree_with_the_model_in_mode_never() {
    check_mode(ContinueMode::Never);
}

#[test]
fn random_graphs_agree_with_the_model_in_mode_always() {
    check_mode(ContinueMode::Always);
}

#[test]
fn random_graphs_agree_with_the_model_in_mode_kill() {
    check_mode(ContinueMode::Kill);
}

#[test]
fn random_graphs_agree_with_the_model_in_mode_stop_after() {
    check_mode(ContinueMode::StopAfter(NonZeroU32::new(3).unwrap()));
}
