//! What holds for every run of every graph, on random graphs and on one that is dense, whatever order jobs run in.
//! These tests know nothing of how a run is decided; they look at starts, ends and outcomes alone.

use shardrun::{ContinueMode, Driver, Ended, Plan, Run, RunObserver, RunReport, Runtime, TaskCx, TaskId, TaskOutcome};
use shardrun::{TaskFailure, TaskStatus, VirtualClock};
use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Instant;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Gives way so many times.
struct Yields(usize);

impl Future for Yields {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lane {
    Local,
    Restore,
    Pool(usize),
}

/// What is drawn for one graph.
struct Graph {
    deps: Vec<Vec<usize>>,
    lanes: Vec<Lane>,
    ends: Vec<TaskStatus>,
    yields: Vec<usize>,
    concurrency: usize,
    pools: Vec<usize>,
}

impl Graph {
    fn draw(random: &mut Random) -> Graph {
        let tasks = 1 + random.below(40);
        let pools: Vec<usize> = (0..random.below(3)).map(|_| 1 + random.below(3)).collect();
        let (bad, restores) = ([0, 8, 25][random.below(3)], [0, 30][random.below(2)]);
        let mut graph = Graph {
            deps: Vec::new(),
            lanes: Vec::new(),
            ends: Vec::new(),
            yields: Vec::new(),
            concurrency: 1 + random.below(5),
            pools,
        };
        for at in 0..tasks {
            graph.deps.push((0..random.below(4).min(at)).map(|_| random.below(at)).collect());
            graph.lanes.push(match graph.pools.len() {
                _ if random.chance(restores) => Lane::Restore,
                count @ 1.. if random.chance(40) => Lane::Pool(random.below(count)),
                _ => Lane::Local,
            });
            let failed = if random.chance(80) { TaskStatus::Failed } else { TaskStatus::Aborted };
            graph.ends.push(if random.chance(bad) { failed } else { TaskStatus::Success });
            graph.yields.push(random.below(6));
        }
        graph
    }

    fn plan(&self) -> Plan {
        let mut plan = Plan::builder();
        plan.concurrency(self.concurrency);
        for (at, capacity) in self.pools.iter().enumerate() {
            plan.pool(&format!("p{at}"), *capacity);
        }
        let mut ids: Vec<TaskId> = Vec::new();
        for (at, deps) in self.deps.iter().enumerate() {
            let entry = plan.task(&format!("t{at}"));
            ids.push(entry.id());
            let entry = entry.after_all(deps.iter().map(|dep| ids[*dep]).collect::<Vec<_>>());
            match self.lanes[at] {
                Lane::Local => {}
                Lane::Restore => drop(entry.restore()),
                Lane::Pool(pool) => drop(entry.pool(&format!("p{pool}"))),
            }
        }
        plan.build().unwrap()
    }

    /// All tasks that a task depends on, at any distance.
    fn ancestors(&self) -> Vec<HashSet<usize>> {
        let mut all: Vec<HashSet<usize>> = Vec::new();
        for deps in &self.deps {
            let far = deps.iter().flat_map(|dep| all[*dep].iter().copied());
            all.push(far.chain(deps.iter().copied()).collect());
        }
        all
    }
}

/// What happened, in order.
#[derive(Default)]
struct Log {
    running: HashSet<usize>,
    finished: HashSet<usize>,
    started: HashSet<usize>,
    /// Once a failure was told: how many more could have been chosen already, and how many have started since.
    after_failure: Option<(usize, usize)>,
    breaches: Vec<String>,
}

#[derive(Clone)]
struct Watch {
    log: Arc<Mutex<Log>>,
    graph: Arc<Graph>,
    ancestors: Arc<Vec<HashSet<usize>>>,
}

impl Watch {
    fn room(&self) -> usize {
        3 * self.graph.concurrency + self.graph.pools.iter().sum::<usize>()
    }

    fn start(&self, task: usize) {
        let mut log = self.log.lock().unwrap();
        let graph = &self.graph;
        if !log.started.insert(task) {
            log.breaches.push(format!("t{task} starts twice"));
        }
        log.running.insert(task);
        if graph.lanes[task] != Lane::Restore {
            let unfinished = self.ancestors[task].iter().find(|dep| !log.finished.contains(dep));
            let breach = unfinished.map(|dep| format!("t{task} starts before t{dep} has finished"));
            log.breaches.extend(breach);
        }
        let count = |lane: Lane| log.running.iter().filter(|task| graph.lanes[**task] == lane).count();
        let (local, restores) = (count(Lane::Local), count(Lane::Restore));
        let serial = graph.concurrency == 1 && local + restores > 1;
        let pools = (0..graph.pools.len()).any(|pool| count(Lane::Pool(pool)) > graph.pools[pool]);
        if local > graph.concurrency || restores > 2 * graph.concurrency || serial || pools {
            log.breaches.push(format!("too many beside t{task}"));
        }
        if let Some((_, since)) = &mut log.after_failure {
            *since += 1;
        }
    }

    fn stop(&self, task: usize) {
        self.log.lock().unwrap().running.remove(&task);
    }
}

impl RunObserver<()> for Watch {
    fn finished(&self, _: &Plan, outcome: &TaskOutcome) {
        let mut log = self.log.lock().unwrap();
        if !log.finished.insert(outcome.task().index()) {
            log.breaches.push(format!("{} finishes twice", outcome.task()));
        }
        if outcome.status() == TaskStatus::Failed && log.after_failure.is_none() {
            log.after_failure = Some((self.room() - log.running.len().min(self.room()), 0));
        }
    }
}

fn run(graph: &Arc<Graph>, mode: ContinueMode, seed: u64) -> (RunReport, Watch) {
    let clock = Arc::new(VirtualClock::new());
    let runtime = Runtime::builder().driver(Driver::Seeded { seed }).clock(clock).build().unwrap();
    let watch = Watch { log: Arc::default(), graph: graph.clone(), ancestors: Arc::new(graph.ancestors()) };
    let body = watch.clone();
    let run = Run::new(graph.plan()).mode(mode).observer(watch.clone());
    let mut run = run.start_async(&runtime, move |cx: TaskCx| {
        let (task, body) = (cx.task().index(), body.clone());
        body.start(task);
        async move {
            Yields(body.graph.yields[task]).await;
            body.stop(task);
            match body.graph.ends[task] {
                TaskStatus::Failed => Ended::failed(1),
                TaskStatus::Aborted => Ended::aborted(),
                _ => Ended::success(),
            }
        }
    });
    runtime.drive_all();
    (run.try_get().expect("the run is over when nothing is left to do").unwrap(), watch)
}

fn check(graph: &Graph, mode: ContinueMode, report: &RunReport, watch: &Watch) -> Vec<String> {
    let mut log = watch.log.lock().unwrap();
    let mut breaches = std::mem::take(&mut log.breaches);
    if report.outcomes().len() != graph.deps.len() || log.finished.len() != graph.deps.len() {
        breaches.push("not every task has one outcome".to_owned());
    }
    let any_failed = report.outcomes().any(|outcome| outcome.status() == TaskStatus::Failed);
    for outcome in report.outcomes() {
        let task = outcome.task().index();
        let bad =
            |at: &usize| graph.lanes[*at] != Lane::Restore && !report.outcomes().nth(*at).unwrap().status().is_pass();
        let direct = graph.deps[task].iter().any(bad);
        if mode == ContinueMode::DepsOk && outcome.ran() && graph.lanes[task] != Lane::Restore && direct {
            breaches.push(format!("t{task} ran over a bad dependency"));
        }
        if mode == ContinueMode::Always && !outcome.ran() {
            breaches.push(format!("t{task} did not run"));
        }
        if outcome.status() != TaskStatus::Skipped {
            continue;
        }
        match outcome.blocked_by() {
            Some(root) => {
                let status = report.outcome(root).status();
                let is_bad = matches!(status, TaskStatus::Failed | TaskStatus::Aborted);
                if !is_bad || !watch.ancestors[task].contains(&root.index()) {
                    breaches.push(format!("t{task} is skipped because of {root}, which is {status:?}"));
                }
            }
            None if mode == ContinueMode::Never && any_failed => {}
            None => breaches.push(format!("t{task} is skipped because of nothing")),
        }
    }
    if let (ContinueMode::Never, Some((room, since))) = (mode, log.after_failure)
        && since > room
    {
        breaches.push(format!("{since} tasks start after a failure, and {room} can have been chosen before"));
    }
    breaches
}

#[test]
fn s08_s101_what_holds_for_every_graph_holds_for_random_ones() {
    for seed in 0..300 {
        let graph = Arc::new(Graph::draw(&mut Random(seed)));
        for mode in [ContinueMode::DepsOk, ContinueMode::Never, ContinueMode::Always] {
            let (report, watch) = run(&graph, mode, seed);
            let breaches = check(&graph, mode, &report, &watch);
            assert!(breaches.is_empty(), "seed {seed}, {mode:?}: {breaches:?}");
        }
    }
}

/// Runs a small graph all of whose tasks are of one pool of 2, but for restores, of which some find nothing and then are of it, too.
/// What was wrong: the pool's places taken at a time were too many, or not all came back.
fn pool_of_two(random: &mut Random, seed: u64) -> Option<String> {
    let mut plan = Plan::builder();
    plan.concurrency(1 + random.below(4)).pool("p", 2);
    let mut ids: Vec<TaskId> = Vec::new();
    let (mut found, mut ends, mut yields) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..1 + random.below(10) {
        let entry = plan.task("").pool("p");
        ids.push(entry.id());
        let deps: Vec<TaskId> = (0..random.below(3).min(at)).map(|_| ids[random.below(at)]).collect();
        let entry = entry.after_all(deps);
        let restore = random.chance(30);
        if restore {
            _ = entry.restore();
        }
        found.push(restore.then(|| random.chance(50)));
        ends.push(random.below(6));
        yields.push(random.below(4));
    }
    let mode = [ContinueMode::DepsOk, ContinueMode::Never, ContinueMode::Always, ContinueMode::Kill][random.below(4)];
    let abort_after = random.chance(15).then(|| random.below(20));
    let runtime = Runtime::builder().driver(Driver::Seeded { seed }).build().unwrap();
    let in_use = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let (uses, tried) = (in_use.clone(), Arc::new(Mutex::new(HashSet::new())));
    let (found, ends) = (Arc::new(found), Arc::new(ends));
    let tasks = ids.len();
    let mut run = Run::<()>::new(plan.build().unwrap()).mode(mode).start_async(&runtime, move |cx: TaskCx| {
        let (at, uses, found, ends, steps) =
            (cx.task().index(), uses.clone(), found.clone(), ends.clone(), yields[cx.task().index()]);
        let first = tried.lock().unwrap().insert(at);
        let restoring = found[at].is_some() && first;
        async move {
            if !restoring {
                let now = uses.0.fetch_add(1, Ordering::SeqCst) + 1;
                uses.1.fetch_max(now, Ordering::SeqCst);
            }
            Yields(steps).await;
            if restoring {
                return if found[at] == Some(true) {
                    Ok(Ended::cache_hit())
                } else {
                    Err(TaskFailure::NothingToRestore)
                };
            }
            uses.0.fetch_sub(1, Ordering::SeqCst);
            match ends[at] {
                0 => Ok(Ended::failed(1)),
                1 => Ok(Ended::aborted()),
                2 => Err(TaskFailure::user("no")),
                3 => Ok(Ended::success().owes(Yields(2))),
                _ => Ok(Ended::success()),
            }
        }
    });
    for step in 0.. {
        if abort_after == Some(step) {
            run.abort();
        }
        if !runtime.drive_one() {
            break;
        }
    }
    let Some(report) = run.try_get() else { return Some("the run is not over".to_owned()) };
    let (left, most) = (in_use.0.load(Ordering::SeqCst), in_use.1.load(Ordering::SeqCst));
    let whole = report.unwrap().outcomes().len() == tasks;
    (left != 0 || most > 2 || !whole).then(|| format!("{left} places left taken, {most} taken at a time"))
}

#[test]
fn b80_a_pool_of_two_keeps_its_bound_in_every_run_of_random_graphs() {
    let graphs = std::env::var("SHARDRUN_GRAPHS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    for seed in 0..graphs {
        let breach = pool_of_two(&mut Random(seed), seed);
        assert_eq!(breach, None, "seed {seed}");
    }
}

#[test]
fn s98_a_hundred_layers_of_thirty_on_the_five_before_all_succeed() {
    const LAYERS: usize = 100;
    const WIDTH: usize = 30;
    let mut plan = Plan::builder();
    let mut ids: Vec<TaskId> = Vec::new();
    for at in 0..LAYERS * WIDTH {
        let layer = at / WIDTH;
        let before = layer.saturating_sub(5) * WIDTH..layer * WIDTH;
        let entry = plan.task(&format!("l{layer}t{}", at % WIDTH));
        ids.push(entry.id());
        entry.after_all(ids[before].to_vec());
    }
    let began = Instant::now();
    let plan = plan.build().unwrap();
    println!("{} edges planned and ranked in {:?}", plan.edges(), began.elapsed());
    assert_eq!(plan.edges(), 436_500);
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let mut run = Run::<()>::new(plan).start(&runtime, move |cx| {
        assert!(cx.upstream().all(|dependency| dependency.outcome.is_some_and(|outcome| outcome.status().is_pass())));
        // A layer is over before the next begins, since each depends on the whole one before.
        assert!(cx.task().index() / WIDTH <= count.fetch_add(1, Ordering::Relaxed) / WIDTH);
    });
    runtime.drive_all();
    let report = run.try_get().unwrap().unwrap();
    assert!(report.is_success());
    assert_eq!(seen.load(Ordering::Relaxed), LAYERS * WIDTH);
}
