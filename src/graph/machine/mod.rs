//! The decisions of a run as plain sequential data: what starts, what never starts, what is released, when it is over.
//! It does not know threads, clocks or bodies: it is told what happened and at what time, and answers with effects.
//!
//! Nothing here scans what it does not start. A ready task stands in the heap of its lane or pool, a refused one in the
//! list of what it waits for; a lane that is full is not looked at. The two exceptions are written where they stand: a
//! stop settles every task that has not started, once, and a policy that refuses tasks one by one is asked one by one.
#![forbid(unsafe_code)]

mod gate;
mod heap;
mod holds;
mod settle;
mod tick;

use super::ids::TaskId;
use super::plan::{Kind, Plan};
use super::policy::{Axis, Policy, PolicyWaker, Usage};
use super::status::{ContinueMode, TaskStatus};
use crate::sync::Arc;
use ahash::AHashMap;
use gate::Gate;
use heap::Heap;
use std::collections::VecDeque;
use std::time::Duration;

/// What the machine wants done, in order.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// Run the task's body. `again` if it was started before, as a restore that found nothing.
    Start { task: u32, again: bool, tainted: bool },
    /// Keep the task's outcome.
    Finish(Finish),
    /// Tell the tasks that run to stop.
    Kill,
    /// Come back at this time of the run's clock.
    At(Duration),
    /// Tell the observer.
    Warn(String),
    /// Every task has its outcome.
    Over,
}

/// What the machine knows of an outcome.
#[derive(Debug, PartialEq)]
pub(crate) struct Finish {
    pub(crate) task: u32,
    pub(crate) status: TaskStatus,
    /// Whether its body ran: then the rest of the outcome comes from there.
    pub(crate) ran: bool,
    pub(crate) blocked_by: Option<u32>,
    pub(crate) tainted: bool,
    /// Nanoseconds between ready and start, time held apart. Zero if nobody measures.
    pub(crate) slot_wait: u64,
    pub(crate) held: Option<Box<Held>>,
}

/// What policies did to a task that they refused at least once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Held {
    /// How long it was ready, refused, and a slot free.
    pub(crate) held: Duration,
    pub(crate) refusals: u32,
    /// The policy that refused it last, and its axis.
    pub(crate) refused_by: Option<(u16, Option<Axis>)>,
}

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    /// With this outcome; `owes` if its dependents have to wait for something yet.
    Outcome { status: TaskStatus, owes: bool },
    /// In an error or a panic.
    Rejected,
    /// As a restore that found nothing to restore.
    Demoted,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Some dependency has not been released.
    Waiting,
    /// In a heap or a hold list, or a restore in its lane.
    Queued,
    Running,
    /// It has its outcome, and owes work.
    Owing,
    Done,
}

/// Now of the restore lane.
const RESTORE: u8 = 1;
/// Its body was begun at least once.
const STARTED: u8 = 2;
/// Its dependents know that it is over.
const RELEASED: u8 = 4;
/// A restore that hit though its own dependencies did not all end well.
const BLOCKING: u8 = 8;
/// It stands behind a failure and runs all the same.
const TAINTED: u8 = 16;
/// A server that died after it was ready, or a group over one.
const DEAD: u8 = 32;
/// Its death was told while its body ran: it has died once it is ready.
const DIED: u8 = 64;
/// The same of its exit, or its death: it keeps nothing once it is ready.
const EXITED: u8 = 128;

#[derive(Clone, Copy, Debug)]
struct Task {
    pending: u32,
    phase: Phase,
    flags: u8,
    status: Option<TaskStatus>,
}

impl Task {
    fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn not_started(&self) -> bool {
        matches!(self.phase, Phase::Waiting | Phase::Queued)
    }
}

#[derive(Debug)]
struct PoolLane {
    ready: Heap,
    running: u32,
    capacity: u32,
    listed: bool,
}

/// What a run decides by. See the head of the file.
pub(crate) struct Machine {
    plan: Arc<Plan>,
    mode: ContinueMode,
    concurrency: u32,
    tasks: Box<[Task]>,
    local: Heap,
    local_running: u32,
    restores: Heap,
    restores_running: u32,
    pools: Box<[PoolLane]>,
    /// Pools that may have room for something.
    stirred: Vec<u16>,
    /// Tasks whose last dependency was just released, in order.
    released: VecDeque<u32>,
    /// The root causes of tasks skipped and of blocking restores.
    roots: AHashMap<u32, u32>,
    gate: Option<Box<Gate>>,
    /// When each task became ready, in nanoseconds of the run's clock; once it has started, how long it had to wait. Empty
    /// if nobody wants to know.
    waits: Box<[u64]>,
    failures: u32,
    /// Nothing of the run has gone wrong yet, so that nobody need look for it among dependencies.
    spotless: bool,
    begun: bool,
    tripped: bool,
    aborted: bool,
    /// Tasks without an outcome.
    left: usize,
    /// Tasks that run or owe.
    in_flight: usize,
    now: Duration,
    effects: Vec<Effect>,
}

/// How a run is to be decided.
pub(crate) struct Rules {
    pub(crate) mode: ContinueMode,
    pub(crate) concurrency: u32,
    pub(crate) policies: Vec<Box<dyn Policy>>,
    pub(crate) drain_after: Option<u32>,
    /// Whether waits are measured: then every call must be told the time.
    pub(crate) timed: bool,
}

impl Machine {
    pub(crate) fn new(plan: Arc<Plan>, rules: Rules) -> Self {
        let tasks: Box<[Task]> = (0..plan.len() as u32)
            .map(|task| Task {
                pending: plan.deps().count(task),
                phase: Phase::Waiting,
                flags: if plan.kind(task) == Kind::Restore { RESTORE } else { 0 },
                status: None,
            })
            .collect();
        let pools = plan.pool_capacities().map(|capacity| PoolLane {
            ready: Heap::default(),
            running: 0,
            capacity,
            listed: false,
        });
        let gate = (!rules.policies.is_empty())
            .then(|| Box::new(Gate::new(rules.policies, rules.drain_after, rules.concurrency, plan.len())));
        let stamps = if rules.timed || gate.is_some() { plan.len() } else { 0 };
        Self {
            pools: pools.collect(),
            mode: rules.mode,
            concurrency: rules.concurrency,
            left: tasks.len(),
            tasks,
            local: Heap::default(),
            local_running: 0,
            restores: Heap::default(),
            restores_running: 0,
            stirred: Vec::new(),
            released: VecDeque::new(),
            roots: AHashMap::new(),
            gate,
            waits: vec![0; stamps].into(),
            failures: 0,
            spotless: true,
            begun: false,
            tripped: false,
            aborted: false,
            in_flight: 0,
            now: Duration::ZERO,
            effects: Vec::new(),
            plan,
        }
    }

    /// Whether calls must be told the time.
    pub(crate) fn is_timed(&self) -> bool {
        !self.waits.is_empty()
    }

    /// Takes what is to be done since the last call, in order.
    pub(crate) fn take_effects(&mut self, into: &mut Vec<Effect>) {
        into.append(&mut self.effects);
    }

    /// The run begins: starts what can start.
    pub(crate) fn begin(&mut self, now: Duration, waker: &PolicyWaker) {
        let now = self.pass(now);
        self.begun = true;
        if let Some(gate) = &mut self.gate {
            gate.begin(&self.plan, waker, now, &mut self.effects);
        }
        if self.aborted {
            self.settle_all_unstarted();
            return self.tick();
        }
        for task in 0..self.tasks.len() as u32 {
            if self.tasks[task as usize].is(RESTORE) {
                self.enqueue(task);
            } else if self.tasks[task as usize].pending == 0 {
                self.released.push_back(task);
            }
        }
        self.settle_released();
        self.tick();
    }

    /// A body ended. Its slot is free, whatever it still owes.
    pub(crate) fn ended(&mut self, task: u32, end: End, usage: Usage, now: Duration) {
        self.pass(now);
        debug_assert_eq!(self.tasks[task as usize].phase, Phase::Running);
        self.free_slot(task, end, usage);
        let (status, owes) = match end {
            End::Outcome { status, owes } => (status, owes),
            End::Rejected if self.is_stopping() => (TaskStatus::Aborted, false),
            End::Rejected => (TaskStatus::Failed, false),
            End::Demoted => {
                self.demote(task);
                self.settle_released();
                self.tick();
                return;
            }
        };
        self.spotless &= status.is_pass();
        self.tasks[task as usize].status = Some(status);
        if owes {
            self.tasks[task as usize].phase = Phase::Owing;
        } else {
            self.in_flight -= 1;
        }
        if status == TaskStatus::Failed {
            self.fail();
        } else if status == TaskStatus::Success && self.tasks[task as usize].is(DIED) {
            self.die(task);
        }
        if !owes {
            self.record(task, true, None);
        }
        self.settle_released();
        self.tick();
    }

    /// What a task owed has been done.
    pub(crate) fn settled(&mut self, task: u32, now: Duration) {
        self.pass(now);
        debug_assert_eq!(self.tasks[task as usize].phase, Phase::Owing);
        self.in_flight -= 1;
        self.record(task, true, None);
        self.completion();
        self.settle_released();
        self.tick();
    }

    /// Nothing more is to start, and what has not started ends as aborted; of a run that has not begun, when it begins.
    pub(crate) fn abort(&mut self, now: Duration) {
        self.pass(now);
        let before = std::mem::replace(&mut self.aborted, true);
        if self.begun {
            if !before {
                self.settle_all_unstarted();
            }
            self.tick();
        }
    }

    /// A server that was ready has died.
    pub(crate) fn server_died(&mut self, task: u32, now: Duration) {
        self.pass(now);
        self.free_reservation(task);
        let Some(state) = self.tasks.get_mut(task as usize) else { return };
        if state.phase == Phase::Running {
            state.flags |= DIED;
        }
        let ready = matches!(state.phase, Phase::Owing | Phase::Done) && state.status == Some(TaskStatus::Success);
        if ready && !state.is(DEAD) {
            self.die(task);
            if self.mode != ContinueMode::Always && !self.stopped() {
                self.skip_behind_dead(task);
            }
            self.settle_released();
        }
        self.tick();
    }

    /// A server that was ready is dead: to whatever starts from now on.
    fn die(&mut self, task: u32) {
        self.tasks[task as usize].flags |= DEAD;
        self.spotless = false;
        self.fail();
    }

    /// A server has ended: what policies reserved for it is free.
    pub(crate) fn server_exited(&mut self, task: u32, now: Duration) {
        self.pass(now);
        self.free_reservation(task);
        self.tick();
    }

    fn free_reservation(&mut self, task: u32) {
        if let Some(state) = self.tasks.get_mut(task as usize).filter(|state| state.phase == Phase::Running) {
            state.flags |= EXITED;
        }
        if let Some(gate) = &mut self.gate {
            gate.exited(TaskId(task), &mut self.effects);
        }
    }

    /// A policy says that something has changed outside, or the time that was asked for has come.
    pub(crate) fn woken(&mut self, outside: bool, now: Duration) {
        let now = self.pass(now);
        if let Some(gate) = &mut self.gate {
            gate.wake_by_time(now, outside);
        }
        self.tick();
    }

    /// The policies are told that the run is over.
    pub(crate) fn end(&mut self) {
        if let Some(gate) = &mut self.gate {
            gate.end(&mut self.effects);
        }
    }

    /// Time passes. What is told by different threads may come a little out of order; time does not go back.
    fn pass(&mut self, now: Duration) -> Duration {
        self.now = self.now.max(now);
        self.now
    }

    /// Whether bodies are told to stop: what they end in then is no failure.
    pub(crate) fn is_stopping(&self) -> bool {
        self.aborted || (self.tripped && self.mode == ContinueMode::Kill)
    }

    /// Whether nothing more is to start.
    fn stopped(&self) -> bool {
        self.tripped || self.aborted
    }

    fn kind(&self, task: u32) -> Kind {
        self.plan.kind(task)
    }
}

/// A time of the run's clock as it is kept: 584 years fit.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
