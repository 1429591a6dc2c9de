//! Runs a task graph on a runtime without threads, on virtual milliseconds: every body is a future that waits for its time.
//! Two bodies that end in the same millisecond end in order of insertion, one after the other.
#![allow(dead_code, reason = "each test file uses a part")]

use shardrun::{
    ContinueMode, Driver, Ended, Plan, Policy, Run, RunControl, RunObserver, RunReport, Runtime, TaskCx, TaskFailure,
    TaskId, TaskOutcome, TaskStatus,
};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How a body ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    Pass,
    Hit,
    Fail,
    Abort,
    /// In an error: a user's, or an internal one.
    User,
    Internal,
    Panic,
    /// The first time as a restore that found nothing; then it passes.
    Demote,
}

/// A task of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct T {
    pub(crate) name: String,
    pub(crate) deps: Vec<String>,
    pub(crate) ms: u64,
    pub(crate) how: How,
    pub(crate) owes: Option<u64>,
    pub(crate) restore: bool,
    pub(crate) group: bool,
    pub(crate) server: Option<bool>,
    pub(crate) pool: Option<String>,
    pub(crate) weight: Option<f64>,
    pub(crate) predicted: Option<u64>,
}

/// A task that passes after so many milliseconds.
pub(crate) fn t(name: &str, ms: u64) -> T {
    let (restore, group) = (false, false);
    let (owes, server, pool, weight, predicted) = (None, None, None, None, None);
    let (name, deps, how) = (name.to_owned(), Vec::new(), How::Pass);
    T { name, deps, ms, how, owes, restore, group, server, pool, weight, predicted }
}

impl T {
    pub(crate) fn on(mut self, deps: &[&str]) -> Self {
        self.deps.extend(deps.iter().map(|dep| (*dep).to_owned()));
        self
    }
    pub(crate) fn how(mut self, how: How) -> Self {
        self.how = how;
        self
    }
    pub(crate) fn fails(self) -> Self {
        self.how(How::Fail)
    }
    pub(crate) fn owes(mut self, ms: u64) -> Self {
        self.owes = Some(ms);
        self
    }
    pub(crate) fn restore(mut self) -> Self {
        self.restore = true;
        self.how = How::Hit;
        self
    }
    pub(crate) fn group(mut self) -> Self {
        self.group = true;
        self
    }
    /// A server, which keeps its reservation until it exits if `keeps`.
    pub(crate) fn server(mut self, keeps: bool) -> Self {
        self.server = Some(keeps);
        self
    }
    pub(crate) fn pool(mut self, pool: &str) -> Self {
        self.pool = Some(pool.to_owned());
        self
    }
    pub(crate) fn weight(mut self, weight: f64) -> Self {
        self.weight = Some(weight);
        self
    }
}

/// What is done to a run from outside.
type Happening = Box<dyn FnOnce(&RunControl, &Plan)>;

/// A scenario: tasks, limits, and what happens when.
pub(crate) struct Scene {
    pub(crate) tasks: Vec<T>,
    pub(crate) concurrency: usize,
    pub(crate) pools: Vec<(String, usize)>,
    pub(crate) mode: ContinueMode,
    pub(crate) policies: Vec<Box<dyn Policy>>,
    pub(crate) drain_after: Option<u32>,
    pub(crate) seed: Option<u64>,
    pub(crate) events: Vec<(u64, Happening)>,
    pub(crate) throwing: bool,
}

pub(crate) fn scene(concurrency: usize, tasks: impl IntoIterator<Item = T>) -> Scene {
    Scene {
        tasks: tasks.into_iter().collect(),
        concurrency,
        pools: Vec::new(),
        mode: ContinueMode::DepsOk,
        policies: Vec::new(),
        drain_after: None,
        seed: None,
        events: Vec::new(),
        throwing: false,
    }
}

/// What came of a scenario.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) report: RunReport,
    /// Starts and ends of bodies, in order: time, name, and whether it is a start.
    pub(crate) log: Vec<(u64, String, bool)>,
    /// Names in order of `finished`.
    pub(crate) finished: Vec<String>,
    pub(crate) started: Vec<String>,
    pub(crate) lines: Vec<String>,
    pub(crate) warnings: Vec<String>,
    /// When each outcome was told.
    pub(crate) told: BTreeMap<String, u64>,
}

impl Ran {
    pub(crate) fn outcome(&self, name: &str) -> &TaskOutcome {
        self.report.outcome(self.report.plan().find(name).expect(name))
    }
    pub(crate) fn status(&self, name: &str) -> TaskStatus {
        self.outcome(name).status()
    }
    pub(crate) fn root(&self, name: &str) -> Option<String> {
        self.outcome(name).blocked_by().map(|root| self.report.plan().label(root))
    }
    pub(crate) fn held(&self, name: &str) -> Option<u64> {
        self.outcome(name).held().map(|held| held.as_millis() as u64)
    }
    /// Bodies in order of their starts.
    pub(crate) fn starts(&self) -> Vec<&str> {
        self.log.iter().filter(|entry| entry.2).map(|entry| entry.1.as_str()).collect()
    }
    /// Times at which a body was started.
    pub(crate) fn at(&self, name: &str) -> Vec<u64> {
        self.log.iter().filter(|entry| entry.2 && entry.1 == name).map(|entry| entry.0).collect()
    }
    pub(crate) fn end(&self, name: &str) -> u64 {
        self.log.iter().rfind(|entry| !entry.2 && entry.1 == name).expect(name).0
    }
    /// The most bodies at a time among those that `of` chooses.
    pub(crate) fn peak(&self, of: impl Fn(&str) -> bool) -> usize {
        let (mut now, mut peak) = (0_i64, 0);
        for (_, name, start) in self.log.iter().filter(|entry| of(&entry.1)) {
            let _ = name;
            now += if *start { 1 } else { -1 };
            peak = peak.max(now);
        }
        peak as usize
    }
    pub(crate) fn statuses(&self, names: &[&str]) -> Vec<TaskStatus> {
        names.iter().map(|name| self.status(name)).collect()
    }
}

/// Time as the bodies see it. Gates by (time, kind, task): bodies before debts.
#[derive(Default)]
struct World {
    now: u64,
    gates: BTreeMap<(u64, u8, usize), Arc<Mutex<Gate>>>,
    log: Vec<(u64, String, bool)>,
    finished: Vec<String>,
    started: Vec<String>,
    lines: Vec<String>,
    warnings: Vec<String>,
    told: BTreeMap<String, u64>,
}

#[derive(Default)]
struct Gate {
    open: bool,
    waker: Option<Waker>,
}

/// Waits until its gate is opened.
struct Sleep(Arc<Mutex<Gate>>);

impl Future for Sleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut gate = self.0.lock().unwrap();
        if gate.open {
            return Poll::Ready(());
        }
        gate.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

type Shared = Arc<Mutex<World>>;

fn sleep(world: &Shared, ms: u64, kind: u8, task: usize) -> Sleep {
    let gate = Arc::new(Mutex::new(Gate::default()));
    let mut world = world.lock().unwrap();
    let at = world.now + ms;
    let twin = world.gates.insert((at, kind, task), gate.clone());
    assert!(twin.is_none(), "a body runs once at a time");
    Sleep(gate)
}

struct Watch(Shared, bool);

impl RunObserver<()> for Watch {
    fn started(&self, plan: &Plan, task: TaskId) {
        self.0.lock().unwrap().started.push(plan.label(task));
        assert!(!self.1, "started throws");
    }
    fn finished(&self, plan: &Plan, outcome: &TaskOutcome) {
        {
            let mut world = self.0.lock().unwrap();
            let name = plan.label(outcome.task());
            world.finished.push(name.clone());
            let now = world.now;
            assert!(world.told.insert(name, now).is_none(), "finished is called once");
        }
        assert!(!self.1, "finished throws");
    }
    fn error_line(&self, _: &Plan, _: TaskId, line: &str) {
        self.0.lock().unwrap().lines.push(line.to_owned());
    }
    fn warning(&self, text: &str) {
        self.0.lock().unwrap().warnings.push(text.to_owned());
    }
}

impl Scene {
    pub(crate) fn mode(mut self, mode: ContinueMode) -> Self {
        self.mode = mode;
        self
    }
    pub(crate) fn pool(mut self, name: &str, capacity: usize) -> Self {
        self.pools.push((name.to_owned(), capacity));
        self
    }
    pub(crate) fn policy(mut self, policy: Box<dyn Policy>) -> Self {
        self.policies.push(policy);
        self
    }
    pub(crate) fn at(mut self, ms: u64, what: impl FnOnce(&RunControl, &Plan) + 'static) -> Self {
        self.events.push((ms, Box::new(what)));
        self
    }
    pub(crate) fn seeded(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    pub(crate) fn plan(&self) -> Plan {
        let mut plan = Plan::builder();
        plan.concurrency(self.concurrency);
        for (name, capacity) in &self.pools {
            plan.pool(name, *capacity);
        }
        for task in &self.tasks {
            let mut entry = plan.task(&task.name);
            for dep in &task.deps {
                entry = entry.after_named(dep);
            }
            if let Some(pool) = &task.pool {
                entry = entry.pool(pool);
            }
            if let Some(weight) = task.weight {
                entry = entry.weight(weight);
            }
            if let Some(ms) = task.predicted {
                entry = entry.predicted(Duration::from_millis(ms));
            }
            if task.restore {
                entry = entry.restore();
            }
            if task.group {
                entry = entry.group();
            }
            match task.server {
                Some(true) => _ = entry.persistent_until_exit(),
                Some(false) => _ = entry.persistent(),
                None => {}
            }
        }
        plan.build().expect("the plan is sound")
    }

    /// Runs the scenario; panics if it hangs.
    pub(crate) fn run(self) -> Ran {
        let plan = Arc::new(self.plan());
        let driver = self.seed.map_or(Driver::Inline, |seed| Driver::Seeded { seed });
        let runtime = Runtime::builder().driver(driver).build().expect("a runtime without threads");
        let world: Shared = Arc::default();
        let mut run = Run::new(plan.clone()).mode(self.mode).observer(Watch(world.clone(), self.throwing));
        for policy in self.policies {
            run = run.policy(policy);
        }
        if let Some(starts) = self.drain_after {
            run = run.drain_after(starts);
        }
        let (tasks, clock) = (self.tasks, world.clone());
        let again = Mutex::new(vec![0_u32; tasks.len()]);
        let body = move |cx: TaskCx| {
            let at = cx.task().index();
            let times = {
                let mut again = again.lock().unwrap();
                again[at] += 1;
                again[at]
            };
            let (task, world) = (tasks[at].clone(), clock.clone());
            let now = world.lock().unwrap().now;
            world.lock().unwrap().log.push((now, task.name.clone(), true));
            let sleeps = sleep(&world, task.ms, 0, at);
            async move {
                sleeps.await;
                let now = world.lock().unwrap().now;
                world.lock().unwrap().log.push((now, task.name.clone(), false));
                finish(&task, at, times, &world)
            }
        };
        let mut events = self.events;
        events.sort_by_key(|event| std::cmp::Reverse(event.0));
        let mut early = Vec::new();
        while events.last().is_some_and(|event| event.0 == 0) {
            early.push(events.pop().unwrap().1);
        }
        let mut handle = run.start_async(&runtime, body);
        let control = handle.control();
        early.into_iter().for_each(|event| event(&control, &plan));
        let report = loop {
            runtime.drive_all();
            if let Some(report) = handle.try_get() {
                break report.expect("the run is over");
            }
            let gate = world.lock().unwrap().gates.keys().next().copied();
            let event = events.last().map(|event| event.0);
            let Some(next) = gate.map(|gate| gate.0).into_iter().chain(event).min() else {
                panic!("the run hangs: {:?}", world.lock().unwrap().log);
            };
            let by = next - world.lock().unwrap().now;
            world.lock().unwrap().now = next;
            runtime.advance(Duration::from_millis(by));
            if event == Some(next) {
                events.pop().unwrap().1(&control, &plan);
                continue;
            }
            let opened = world.lock().unwrap().gates.remove(&gate.unwrap()).unwrap();
            let mut opened = opened.lock().unwrap();
            opened.open = true;
            let waker = opened.waker.take();
            drop(opened);
            waker.into_iter().for_each(Waker::wake);
        };
        let world = std::mem::take(&mut *world.lock().unwrap());
        assert!(world.gates.is_empty(), "the run is over, and bodies still run");
        assert_eq!(world.finished.len(), plan.len(), "finished is called for every task");
        let World { log, finished, started, lines, warnings, told, .. } = world;
        Ran { report, log, finished, started, lines, warnings, told }
    }
}

fn finish(task: &T, at: usize, times: u32, world: &Shared) -> Result<Ended, TaskFailure> {
    let ended = match task.how {
        How::Demote if times == 1 => return Err(TaskFailure::NothingToRestore),
        How::Pass | How::Demote => Ended::success(),
        How::Hit => Ended::cache_hit(),
        How::Fail => Ended::failed(3),
        How::Abort => Ended::aborted(),
        How::User => return Err(TaskFailure::user("the disk is on fire")),
        How::Internal => return Err(TaskFailure::internal(format!("boom in {}", task.name))),
        How::Panic => panic!("{} panics", task.name),
    };
    Ok(match task.owes {
        Some(ms) => ended.owes(sleep(world, ms, 1, at)),
        None => ended,
    })
}
