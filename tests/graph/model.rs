//! What a run must do, computed the slow and obvious way: at every event all tasks are looked at.
//! It shares nothing with the engine but the plan's ranks.

use super::sim::{How, T};
use shardrun::{ContinueMode, Plan, TaskId, TaskStatus};
use std::collections::{BTreeMap, VecDeque};

/// Whether a local task may start beside those that run.
pub(crate) type Admit = Box<dyn Fn(usize, &[usize]) -> bool>;

#[derive(Default, Clone, Debug, PartialEq)]
pub(crate) struct Fate {
    pub(crate) status: Option<TaskStatus>,
    pub(crate) root: Option<usize>,
    pub(crate) tainted: bool,
    pub(crate) told: u64,
    pub(crate) held: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum At {
    Waiting,
    Ready(u64),
    Running,
    Owing,
    Done,
}

pub(crate) struct Model<'a> {
    plan: &'a Plan,
    tasks: &'a [T],
    mode: ContinueMode,
    concurrency: usize,
    capacities: Vec<usize>,
    admit: Option<Admit>,
    at: Vec<At>,
    released: Vec<bool>,
    restore: Vec<bool>,
    began: Vec<bool>,
    blocking: Vec<bool>,
    dead: Vec<Option<usize>>,
    /// Its death was told while its body ran.
    died: Vec<bool>,
    taint: Vec<bool>,
    held: Vec<Option<u64>>,
    pub(crate) fates: Vec<Fate>,
    pub(crate) starts: Vec<(u64, usize)>,
    ends: BTreeMap<(u64, u8, usize), ()>,
    arrivals: u64,
    now: u64,
    failures: u32,
    tripped: bool,
    aborted: bool,
}

impl<'a> Model<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        tasks: &'a [T],
        mode: ContinueMode,
        concurrency: usize,
        capacities: Vec<usize>,
        admit: Option<Admit>,
    ) -> Self {
        let n = tasks.len();
        Self {
            plan,
            tasks,
            mode,
            concurrency,
            capacities,
            admit,
            at: vec![At::Waiting; n],
            released: vec![false; n],
            restore: tasks.iter().map(|task| task.restore).collect(),
            began: vec![false; n],
            blocking: vec![false; n],
            dead: vec![None; n],
            died: vec![false; n],
            taint: vec![false; n],
            held: vec![None; n],
            fates: vec![Fate::default(); n],
            starts: Vec::new(),
            ends: BTreeMap::new(),
            arrivals: 0,
            now: 0,
            failures: 0,
            tripped: false,
            aborted: false,
        }
    }

    fn deps(&self, task: usize) -> Vec<usize> {
        self.plan.dependencies(self.plan.tasks().nth(task).unwrap()).map(TaskId::index).collect()
    }

    fn dependents(&self, task: usize) -> Vec<usize> {
        (0..self.tasks.len()).filter(|other| self.deps(*other).contains(&task)).collect()
    }

    fn pool(&self, task: usize) -> Option<usize> {
        let id = self.plan.tasks().nth(task).unwrap();
        self.plan.pool_of(id).map(|pool| pool.index()).filter(|_| !self.restore[task])
    }

    /// Runs to the end: an abort, a death of a server.
    pub(crate) fn run(mut self, abort: Option<u64>, death: Option<(u64, usize)>) -> Self {
        let mut events: Vec<(u64, Option<usize>)> = Vec::new();
        events.extend(abort.map(|at| (at, None)));
        events.extend(death.map(|(at, task)| (at, Some(task))));
        events.sort_by_key(|event| event.0);
        let mut events = VecDeque::from(events);
        for task in 0..self.tasks.len() {
            if self.restore[task] {
                self.enqueue(task);
            }
        }
        let first = (0..self.tasks.len()).filter(|task| !self.restore[*task] && self.deps(*task).is_empty()).collect();
        self.cascade(first);
        self.tick();
        while self.at.iter().any(|at| *at != At::Done) {
            let end = self.ends.keys().next().copied();
            let event = events.front().map(|event| event.0);
            let next = end.map(|end| end.0).into_iter().chain(event).min().expect("something moves the run on");
            self.pass_time(next);
            if event == Some(next) {
                match events.pop_front().unwrap().1 {
                    None => self.abort(),
                    Some(server) => self.die(server),
                }
            } else {
                let (_, kind, task) = end.unwrap();
                self.ends.remove(&(next, kind, task));
                if kind == 0 { self.ended(task) } else { self.settled(task) }
            }
            self.tick();
        }
        self
    }

    fn local_running(&self) -> Vec<usize> {
        let local = |task: &usize| self.at[*task] == At::Running && !self.restore[*task] && self.pool(*task).is_none();
        (0..self.tasks.len()).filter(local).collect()
    }

    fn restores_running(&self) -> usize {
        (0..self.tasks.len()).filter(|task| self.at[*task] == At::Running && self.restore[*task]).count()
    }

    fn local_room(&self) -> bool {
        let restores = if self.concurrency == 1 { self.restores_running() } else { 0 };
        self.local_running().len() + restores < self.concurrency
    }

    fn pass_time(&mut self, to: u64) {
        if self.local_room() {
            for task in 0..self.tasks.len() {
                if let (At::Ready(_), Some(held)) = (self.at[task], &mut self.held[task]) {
                    *held += to - self.now;
                }
            }
        }
        self.now = to;
    }

    fn enqueue(&mut self, task: usize) {
        self.at[task] = At::Ready(self.arrivals);
        self.arrivals += 1;
    }

    /// Tasks ready to start in a lane, the best first.
    fn ready(&self, of: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut ready: Vec<usize> = (0..self.tasks.len()).filter(|task| of(*task)).collect();
        ready.retain(|task| matches!(self.at[*task], At::Ready(_)));
        let key = |task: usize| {
            let id = self.plan.tasks().nth(task).unwrap();
            let weight = self.tasks[task].weight.unwrap_or(0.0);
            (weight, self.plan.remaining_path(id), self.plan.waiting_behind(id))
        };
        ready.sort_by(|a, b| {
            let arrival = |task: usize| if let At::Ready(at) = self.at[task] { at } else { unreachable!() };
            key(*b).partial_cmp(&key(*a)).unwrap().then(arrival(*a).cmp(&arrival(*b)))
        });
        ready
    }

    fn tick(&mut self) {
        if self.tripped || self.aborted {
            return;
        }
        self.tick_local();
        for pool in 0..self.capacities.len() {
            for task in self.ready(|task| self.pool(task) == Some(pool)) {
                let running =
                    (0..self.tasks.len()).filter(|t| self.at[*t] == At::Running && self.pool(*t) == Some(pool)).count();
                if running < self.capacities[pool] {
                    self.start(task);
                }
            }
        }
        for task in self.ready(|task| self.restore[task]) {
            let running = self.restores_running();
            let room = match self.concurrency {
                1 => running + self.local_running().len() == 0,
                many => running < 2 * many,
            };
            if room {
                self.start(task);
            }
        }
        let moves = self.at.iter().any(|at| matches!(at, At::Running | At::Owing));
        if !moves && let Some(best) = self.ready(|task| !self.restore[task] && self.pool(task).is_none()).first() {
            self.start(*best);
            self.tick_local();
        }
    }

    fn tick_local(&mut self) {
        for task in self.ready(|task| !self.restore[task] && self.pool(task).is_none()) {
            if !self.local_room() {
                break;
            }
            let running = self.local_running();
            if self.admit.as_ref().is_none_or(|admit| admit(task, &running)) {
                self.start(task);
            } else if self.held[task].is_none() {
                self.held[task] = Some(0);
            }
        }
    }

    fn start(&mut self, task: usize) {
        self.at[task] = At::Running;
        self.starts.push((self.now, task));
        self.ends.insert((self.now + self.tasks[task].ms, 0, task), ());
    }

    fn ended(&mut self, task: usize) {
        let again = std::mem::replace(&mut self.began[task], true);
        let stopping = self.aborted || (self.tripped && self.mode == ContinueMode::Kill);
        let status = match self.tasks[task].how {
            How::Demote if !again => {
                (self.restore[task], self.died[task]) = (false, false);
                self.at[task] = At::Waiting;
                if self.aborted {
                    return self.settle(task, TaskStatus::Aborted, None);
                }
                if self.tripped {
                    let root = self.bad(task).flatten();
                    return self.settle(task, TaskStatus::Skipped, root);
                }
                if self.deps(task).iter().all(|dep| self.released[*dep]) {
                    self.cascade(vec![task]);
                }
                return;
            }
            How::Pass | How::Demote => TaskStatus::Success,
            How::Hit => TaskStatus::CacheHit,
            How::Fail => TaskStatus::Failed,
            How::Abort => TaskStatus::Aborted,
            How::User | How::Internal | How::Panic if stopping => TaskStatus::Aborted,
            How::User | How::Internal | How::Panic => TaskStatus::Failed,
        };
        let rejected = matches!(self.tasks[task].how, How::User | How::Internal | How::Panic);
        let owes = self.tasks[task].owes.filter(|_| !rejected);
        self.fates[task].held = self.held[task].map(|held| held.max(1));
        self.at[task] = At::Owing;
        self.fates[task].status = Some(status);
        if status == TaskStatus::Failed {
            self.fail();
        } else if status == TaskStatus::Success && self.died[task] {
            self.dead[task] = Some(task);
            self.fail();
        }
        match owes {
            Some(ms) => {
                // Its outcome is not told yet.
                _ = self.ends.insert((self.now + ms, 1, task), ());
            }
            None => self.settled(task),
        }
    }

    fn settled(&mut self, task: usize) {
        let status = self.fates[task].status.unwrap();
        self.record(task, status, None);
        if !self.stopped() && (!self.restore[task] || self.deps(task).iter().all(|dep| self.released[*dep])) {
            let next = self.release(task);
            self.cascade(next);
        }
    }

    fn stopped(&self) -> bool {
        self.tripped || self.aborted
    }

    fn record(&mut self, task: usize, status: TaskStatus, root: Option<usize>) {
        if self.restore[task] && self.mode == ContinueMode::Always {
            self.taint[task] |= self.taint_of(task);
        }
        self.at[task] = At::Done;
        let fate = &mut self.fates[task];
        (fate.status, fate.root, fate.told) = (Some(status), root, self.now);
        fate.tainted = self.taint[task];
    }

    fn settle(&mut self, task: usize, status: TaskStatus, root: Option<usize>) {
        self.fates[task].held = None;
        self.record(task, status, root);
    }

    /// Lets those know that wait for the task; who has nothing more to wait for, in order.
    fn release(&mut self, task: usize) -> Vec<usize> {
        self.released[task] = true;
        if self.restore[task] {
            if self.mode == ContinueMode::Always {
                self.taint[task] |= self.taint_of(task);
            } else if let Some(root) = self.bad(task) {
                self.blocking[task] = true;
                self.fates[task].root = root;
            }
        }
        let all = |other: &usize| self.deps(*other).iter().all(|dep| self.released[*dep]);
        self.dependents(task).into_iter().filter(all).collect()
    }

    fn cascade(&mut self, first: Vec<usize>) {
        let mut queue = VecDeque::from(first);
        while let Some(task) = queue.pop_front() {
            if self.at[task] == At::Done {
                queue.extend(self.release(task));
                continue;
            }
            if self.at[task] != At::Waiting {
                continue;
            }
            if self.mode == ContinueMode::Always {
                self.taint[task] |= self.taint_of(task);
            } else if let Some(root) = self.bad(task) {
                self.settle(task, TaskStatus::Skipped, root);
                queue.extend(self.release(task));
                continue;
            }
            if self.tasks[task].group {
                self.settle(task, TaskStatus::Success, None);
                queue.extend(self.release(task));
                continue;
            }
            self.enqueue(task);
        }
    }

    fn bad(&self, task: usize) -> Option<Option<usize>> {
        let deps = self.deps(task);
        let failed = |dep: &&usize| matches!(self.fates[**dep].status, Some(TaskStatus::Failed | TaskStatus::Aborted));
        if let Some(dep) = deps.iter().find(failed) {
            return Some(Some(*dep));
        }
        let not_skipped = |dep: &&usize| self.fates[**dep].status != Some(TaskStatus::Skipped);
        if let Some(dep) = deps.iter().filter(not_skipped).find(|dep| self.dead[**dep].is_some()) {
            return Some(self.dead[*dep]);
        }
        if let Some(dep) = deps.iter().find(|dep| self.fates[**dep].status == Some(TaskStatus::Skipped)) {
            return Some(self.fates[*dep].root);
        }
        deps.iter().find(|dep| self.blocking[**dep]).map(|dep| self.fates[*dep].root)
    }

    fn taint_of(&self, task: usize) -> bool {
        self.deps(task).iter().any(|dep| {
            self.taint[*dep]
                || self.dead[*dep].is_some()
                || self.fates[*dep].status.is_some_and(|status| !status.is_pass())
        })
    }

    fn fail(&mut self) {
        self.failures += 1;
        let most = match self.mode {
            ContinueMode::Never | ContinueMode::Kill => 1,
            ContinueMode::StopAfter(most) => most.get(),
            _ => u32::MAX,
        };
        if self.failures >= most && !self.tripped {
            self.tripped = true;
            if !self.aborted {
                self.settle_rest();
            }
        }
    }

    fn abort(&mut self) {
        if !std::mem::replace(&mut self.aborted, true) {
            self.settle_rest();
        }
    }

    fn settle_rest(&mut self) {
        // Dependencies first: who has no unsettled dependency left goes, until nobody is left.
        loop {
            let open = |at: At| matches!(at, At::Waiting | At::Ready(_));
            let next = (0..self.tasks.len())
                .find(|task| open(self.at[*task]) && !self.deps(*task).iter().any(|dep| open(self.at[*dep])));
            let Some(task) = next else { return };
            if self.aborted {
                let ran_badly = |dep: &&usize| {
                    let started = self.starts.iter().any(|start| start.1 == **dep);
                    started && matches!(self.fates[**dep].status, Some(TaskStatus::Failed | TaskStatus::Aborted))
                };
                let root = self.deps(task).iter().find(ran_badly).copied();
                self.settle(task, TaskStatus::Aborted, root);
            } else {
                let root = self.bad(task).flatten();
                self.settle(task, TaskStatus::Skipped, root);
            }
        }
    }

    fn die(&mut self, server: usize) {
        self.died[server] |= self.at[server] == At::Running;
        let ready =
            matches!(self.at[server], At::Owing | At::Done) && self.fates[server].status == Some(TaskStatus::Success);
        if !ready || self.dead[server].is_some() {
            return;
        }
        self.dead[server] = Some(server);
        self.fail();
        if self.mode == ContinueMode::Always || self.stopped() {
            return;
        }
        let mut dead = vec![server];
        let mut skipped = Vec::new();
        while let Some(task) = dead.pop() {
            for dependent in self.dependents(task) {
                let over = self.at[dependent] == At::Done && self.fates[dependent].status == Some(TaskStatus::Success);
                if over && self.tasks[dependent].group && self.dead[dependent].is_none() {
                    self.dead[dependent] = Some(server);
                    dead.push(dependent);
                } else if matches!(self.at[dependent], At::Ready(_)) && !self.restore[dependent] {
                    let root = self.bad(dependent).flatten();
                    self.settle(dependent, TaskStatus::Skipped, root);
                    skipped.extend(self.release(dependent));
                }
            }
        }
        self.cascade(skipped);
    }
}
