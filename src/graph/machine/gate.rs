//! Asks the policies, keeps whom they refuse, measures how long, and sees to it that nobody is refused for ever.
//! It does not know what a policy limits, nor which tasks are ready for other reasons.
#![forbid(unsafe_code)]

use super::super::ids::TaskId;
use super::super::plan::Plan;
use super::super::policy::{Answer, Axis, Covers, Freed, Policy, PolicyWaker, Refusal, Running, Usage, Wake};
use super::heap::{Entry, Heap};
use super::holds::{Cause, Holds, Waking};
use super::{Effect, Held};
use crate::flight::{Contained, catch};
use ahash::{AHashMap, AHashSet};
use std::collections::VecDeque;
use std::time::Duration;

/// The least that a task was held, once it was.
const HELD_MIN: Duration = Duration::from_millis(1);

/// What to do next in the local lane.
pub(crate) enum Choice {
    Start(u32),
    Nothing,
}

/// A policy and whether it still answers.
struct Asked {
    policy: Contained<Box<dyn Policy>>,
    broken: bool,
    overruled: bool,
}

/// A task that was refused and has not ended.
struct Refused {
    entry: Entry,
    free_since: Duration,
    held: Held,
    started: bool,
}

/// The task for whose sake others wait.
struct Starving {
    task: u32,
    policy: usize,
    axis: Option<Axis>,
}

pub(crate) struct Gate {
    policies: Vec<Asked>,
    concurrency: u32,
    running: Vec<TaskId>,
    /// Each running task's place among them.
    places: Box<[u32]>,
    holds: Holds,
    /// Nobody is to be asked before this wakes.
    closed: Option<(usize, Wake, Option<Duration>)>,
    refused: AHashMap<u32, Refused>,
    /// Who was refused, in order of the first refusal.
    first_refused: VecDeque<u32>,
    /// Starts that passed over the first of them.
    passed: u32,
    drain_after: Option<u32>,
    starving: Option<Starving>,
    /// Servers that ended for the run, whose reservations stay.
    kept: AHashSet<u32>,
    /// How long a local slot was free, and since when one is.
    free: Duration,
    free_since: Option<Duration>,
    chosen: Option<Entry>,
    /// The time at which a timer is to come back.
    asked_for: Option<Duration>,
}

impl Gate {
    pub(crate) fn new(
        policies: Vec<Box<dyn Policy>>,
        drain_after: Option<u32>,
        concurrency: u32,
        tasks: usize,
    ) -> Self {
        let asked = |policy| Asked { policy: Contained::new(policy), broken: false, overruled: false };
        Self {
            policies: policies.into_iter().map(asked).collect(),
            concurrency,
            running: Vec::new(),
            places: vec![0; tasks].into(),
            holds: Holds::default(),
            closed: None,
            refused: AHashMap::new(),
            first_refused: VecDeque::new(),
            passed: 0,
            drain_after,
            starving: None,
            kept: AHashSet::new(),
            free: Duration::ZERO,
            free_since: None,
            chosen: None,
            asked_for: None,
        }
    }

    /// Calls a policy; if it panics that is told once, and the policy is heard no more.
    fn call<R>(
        &mut self,
        at: usize,
        effects: &mut Vec<Effect>,
        f: impl FnOnce(&mut dyn Policy, &[TaskId]) -> R,
    ) -> Option<R> {
        let Asked { policy, broken, .. } = &mut self.policies[at];
        if *broken {
            return None;
        }
        match catch(|| f(&mut ***policy, &self.running)) {
            Ok(answer) => Some(answer),
            Err(report) => {
                *broken = true;
                self.closed = self.closed.filter(|(closer, ..)| *closer != at);
                self.holds.wake_policy(at as u16);
                let name = self.policy_name(at);
                effects.push(Effect::Warn(format!("policy {name} {report}; from now on it admits everything")));
                None
            }
        }
    }

    fn policy_name(&self, at: usize) -> String {
        catch(|| self.policies[at].policy.name().to_owned()).unwrap_or_else(|_| format!("#{at}"))
    }

    pub(crate) fn begin(&mut self, plan: &Plan, waker: &PolicyWaker, now: Duration, effects: &mut Vec<Effect>) {
        self.free_since = Some(now);
        for at in 0..self.policies.len() {
            let warnings = self.call(at, effects, |policy, _| policy.begin(plan, waker)).unwrap_or_default();
            effects.extend(warnings.into_iter().map(Effect::Warn));
        }
    }

    pub(crate) fn end(&mut self, effects: &mut Vec<Effect>) {
        for at in 0..self.policies.len() {
            let warnings = self.call(at, effects, |policy, _| policy.end()).unwrap_or_default();
            effects.extend(warnings.into_iter().map(Effect::Warn));
        }
    }

    /// The best task that all policies admit, among those that have not been refused since they last could be admitted.
    pub(crate) fn choose(
        &mut self,
        ready: &mut Heap,
        queued: impl Fn(u32) -> bool,
        now: Duration,
        effects: &mut Vec<Effect>,
    ) -> Choice {
        if self.closed.is_some() {
            return Choice::Nothing;
        }
        self.holds.give_back(ready, self.starving.is_none());
        loop {
            while ready.peek().is_some_and(|entry| !queued(entry.1)) {
                ready.pop();
            }
            let held = self.holds.best(&queued);
            let (entry, list) = match (ready.peek(), held) {
                (None, None) => return Choice::Nothing,
                (Some(entry), Some((other, list))) if other < entry => (other, Some(list)),
                (Some(entry), _) => (entry, None),
                (None, Some((entry, list))) => (entry, Some(list)),
            };
            if self.must_wait_for_starving(entry.1, effects) {
                self.remove(ready, list);
                self.holds.set_aside(entry);
                continue;
            }
            let Some((policy, refusal)) = self.ask(entry.1, effects) else {
                self.remove(ready, list);
                self.chosen = Some(entry);
                return Choice::Start(entry.1);
            };
            self.note(entry, policy, refusal, now);
            // A time that never comes is none: what waits for it waits for a word from outside.
            let until = if let Wake::After(delay) = refusal.wake { now.checked_add(delay) } else { None };
            if refusal.covers == Covers::All {
                self.closed = Some((policy, refusal.wake, until));
                return Choice::Nothing;
            }
            self.remove(ready, list);
            let cause = Cause { policy: policy as u16, wake: Waking::of(refusal.wake) };
            self.holds.keep(entry, cause, refusal.covers, until);
        }
    }

    fn remove(&mut self, ready: &mut Heap, list: Option<usize>) {
        match list {
            Some(list) => self.holds.take(list),
            None => _ = ready.pop(),
        }
    }

    /// The first policy that refuses the task.
    fn ask(&mut self, task: u32, effects: &mut Vec<Effect>) -> Option<(usize, Refusal)> {
        let concurrency = self.concurrency;
        (0..self.policies.len()).find_map(|at| {
            let ask =
                |policy: &mut dyn Policy, tasks: &[TaskId]| policy.ask(TaskId(task), &Running { tasks, concurrency });
            match self.call(at, effects, ask) {
                Some(Answer::Refuse(refusal)) => Some((at, refusal)),
                Some(Answer::Admit) | None => None,
            }
        })
    }

    /// Keeps account of a refusal.
    fn note(&mut self, entry: Entry, policy: usize, refusal: Refusal, now: Duration) {
        let free_since = self.free_time(now);
        let refused = self.refused.entry(entry.1).or_insert_with(|| {
            self.first_refused.push_back(entry.1);
            Refused { entry, free_since, held: Held::default(), started: false }
        });
        refused.held.refusals += 1;
        refused.held.refused_by = Some((policy as u16, refusal.axis));
    }

    /// How long a local slot was free in all.
    fn free_time(&self, now: Duration) -> Duration {
        self.free + self.free_since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Whether a task would take what a starving one waits for.
    fn must_wait_for_starving(&mut self, task: u32, effects: &mut Vec<Effect>) -> bool {
        let Some(starving) = &self.starving else { return false };
        let Some(axis) = starving.axis.filter(|_| starving.task != task) else { return starving.task != task };
        let policy = starving.policy;
        self.call(policy, effects, |policy, _| policy.takes(TaskId(task), axis)).unwrap_or(false)
    }

    /// A task starts, in whichever lane. How long it was held, if it ever was refused.
    pub(crate) fn started(
        &mut self,
        task: u32,
        local: bool,
        full: bool,
        now: Duration,
        effects: &mut Vec<Effect>,
    ) -> Duration {
        let free = self.free_time(now);
        if full && self.free_since.is_some() {
            self.free = free;
            self.free_since = None;
        }
        if !local {
            return Duration::ZERO;
        }
        for at in 0..self.policies.len() {
            self.call(at, effects, |policy, _| policy.started(TaskId(task)));
        }
        self.places[task as usize] = self.running.len() as u32;
        self.running.push(TaskId(task));
        if self.starving.as_ref().is_some_and(|starving| starving.task == task) {
            self.starving = None;
        }
        let entry = self.chosen.take();
        let held = self.refused.get_mut(&task).map_or(Duration::ZERO, |refused| {
            refused.started = true;
            let held = free.saturating_sub(refused.free_since).max(HELD_MIN);
            refused.held.held = held;
            held
        });
        self.watch(entry);
        held
    }

    /// Counts starts that passed over the task that was refused first; past the limit it is starving.
    fn watch(&mut self, started: Option<Entry>) {
        let Some(most) = self.drain_after.filter(|_| self.starving.is_none()) else { return };
        while let Some(first) = self.first_refused.front() {
            if self.refused.get(first).is_some_and(|refused| !refused.started) {
                break;
            }
            self.first_refused.pop_front();
            self.passed = 0;
        }
        let Some(refused) = self.first_refused.front().and_then(|first| self.refused.get(first)) else { return };
        self.passed += u32::from(started.is_some_and(|started| started > refused.entry));
        if self.passed >= most {
            let (policy, axis) = refused.held.refused_by.unwrap_or_default();
            self.starving = Some(Starving { task: refused.entry.1, policy: usize::from(policy), axis });
        }
    }

    /// A local task gave its slot back; a server may keep what was reserved for it.
    pub(crate) fn ended(&mut self, task: TaskId, usage: Usage, keeps: bool, effects: &mut Vec<Effect>) {
        let place = self.places[task.index()] as usize;
        self.running.swap_remove(place);
        if let Some(moved) = self.running.get(place) {
            self.places[moved.index()] = place as u32;
        }
        if keeps {
            self.kept.insert(task.0);
        } else {
            self.finished(task, usage, effects);
        }
    }

    /// A server has ended.
    pub(crate) fn exited(&mut self, task: TaskId, effects: &mut Vec<Effect>) {
        if self.kept.remove(&task.0) {
            self.finished(task, Usage::default(), effects);
            self.wake_all(Waking::Completion);
        }
    }

    fn finished(&mut self, task: TaskId, usage: Usage, effects: &mut Vec<Effect>) {
        for at in 0..self.policies.len() {
            let mut freed = Freed::default();
            self.call(at, effects, |policy, _| policy.finished(task, usage, &mut freed));
            for axis in freed.0 {
                self.wake(at, Waking::Axis(axis));
            }
        }
    }

    /// Something of the run is over: `room` if a local slot is free now, `idle` if no local task runs.
    pub(crate) fn completion(&mut self, room: bool, idle: bool, now: Duration) {
        if room && self.free_since.is_none() {
            self.free_since = Some(now);
        }
        self.wake_all(Waking::Completion);
        self.wake_all(Waking::Outside);
        if idle {
            self.wake_all(Waking::Idle);
        }
        self.wake_by_time(now, false);
    }

    fn wake_all(&mut self, wake: Waking) {
        for at in 0..self.policies.len() {
            self.wake(at, wake);
        }
    }

    fn wake(&mut self, policy: usize, wake: Waking) {
        self.closed = self.closed.filter(|(at, closed, _)| *at != policy || Waking::of(*closed) != wake);
        self.holds.wake(Cause { policy: policy as u16, wake });
    }

    /// Wakes what waited for a time that has come, and if `outside` what waits for a word from outside.
    pub(crate) fn wake_by_time(&mut self, now: Duration, outside: bool) {
        self.closed = self.closed.filter(|(.., until)| until.is_none_or(|until| until > now));
        self.asked_for = self.asked_for.filter(|at| *at > now);
        self.holds.wake_by_time(now);
        if outside {
            self.wake_all(Waking::Outside);
        }
    }

    /// A time to come back at that was not asked for yet.
    pub(crate) fn next_timer(&mut self) -> Option<Duration> {
        let closed = self.closed.and_then(|(.., until)| until);
        let next = closed.into_iter().chain(self.holds.next_time()).min()?;
        if self.asked_for.is_some_and(|at| at <= next) {
            return None;
        }
        self.asked_for = Some(next);
        Some(next)
    }

    /// When nothing runs and nothing can wake: the best refused task, against the policies' will.
    pub(crate) fn overrule(
        &mut self,
        ready: &mut Heap,
        queued: impl Fn(u32) -> bool,
        plan: &Plan,
        effects: &mut Vec<Effect>,
    ) -> Option<u32> {
        let closed_by = self.closed.map(|(at, wake, _)| (at, Waking::of(wake)));
        if closed_by.is_some_and(|(_, wake)| wake == Waking::Outside) || self.holds.waits_for_outside(&queued) {
            return None;
        }
        self.holds.give_all_back(ready);
        let starving = self.starving.take().map(|starving| starving.task).filter(|task| queued(*task));
        let entry = loop {
            let entry = ready.pop()?;
            if queued(entry.1) {
                break entry;
            }
        };
        let task = match starving {
            Some(task) if task != entry.1 => {
                ready.put_back(entry);
                task
            }
            _ => entry.1,
        };
        self.closed = None;
        self.chosen = None;
        let refused_by = self.refused.get(&task).and_then(|refused| refused.held.refused_by);
        let at = refused_by.map_or(closed_by.map_or(0, |(at, _)| at), |(at, _)| usize::from(at));
        if !std::mem::replace(&mut self.policies[at].overruled, true) {
            let (name, task) = (self.policy_name(at), plan.label(TaskId(task)));
            effects.push(Effect::Warn(format!(
                "policy {name} refuses {task} though nothing runs; it starts all the same"
            )));
        }
        Some(task)
    }

    /// What a task that ran was held, if it was.
    pub(crate) fn take_held(&mut self, task: u32) -> Option<Box<Held>> {
        self.refused.remove(&task).map(|refused| Box::new(refused.held))
    }

    /// A task ends without having started.
    pub(crate) fn forget(&mut self, task: u32) {
        self.refused.remove(&task);
        if self.starving.as_ref().is_some_and(|starving| starving.task == task) {
            self.starving = None;
        }
    }

    /// Nothing more is to start.
    pub(crate) fn clear(&mut self) {
        self.holds.clear();
        self.closed = None;
        self.starving = None;
        self.refused.retain(|_, refused| refused.started);
        self.first_refused.clear();
    }
}
