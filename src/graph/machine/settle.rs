//! Outcomes and what follows from them: releases, skips with their root causes, restores that block, stops.
//! It does not know which ready task is started first. Every walk is a loop over a list.
#![forbid(unsafe_code)]

use super::super::plan::Kind;
use super::super::status::{ContinueMode, TaskStatus};
use super::{BLOCKING, DEAD, DIED, EXITED, Effect, Finish, Machine, Phase, RELEASED, RESTORE, STARTED, TAINTED, nanos};

/// A dependency that did not end well: the root cause, if there is one to name.
type Bad = Option<u32>;

impl Machine {
    /// Handles every task whose last dependency was released, and those whose turn comes through that.
    pub(super) fn settle_released(&mut self) {
        while let Some(task) = self.released.pop_front() {
            match self.tasks[task as usize].phase {
                Phase::Waiting => self.ready(task),
                Phase::Done => self.release(task),
                Phase::Queued | Phase::Running | Phase::Owing => {}
            }
        }
    }

    /// All dependencies of a task that is not a restore are over: it is queued, or settled in place.
    fn ready(&mut self, task: u32) {
        if self.mode == ContinueMode::Always {
            if self.taint_of(task) {
                self.tasks[task as usize].flags |= TAINTED;
            }
        } else if let Some(root) = self.bad_dependency(task) {
            return self.settle_unstarted(task, TaskStatus::Skipped, root);
        }
        if self.kind(task) == Kind::Group {
            self.tasks[task as usize].status = Some(TaskStatus::Success);
            return self.record(task, false, None);
        }
        self.enqueue(task);
    }

    pub(super) fn enqueue(&mut self, task: u32) {
        self.tasks[task as usize].phase = Phase::Queued;
        if let Some(stamp) = self.waits.get_mut(task as usize) {
            *stamp = nanos(self.now);
        }
        let class = self.plan.class(task);
        if self.tasks[task as usize].is(RESTORE) {
            self.restores.push(class, task);
        } else if let Some(pool) = self.plan.pool_index(task) {
            self.pools[pool].ready.push(class, task);
            self.stir(pool);
        } else {
            self.local.push(class, task);
        }
    }

    /// A restore found nothing: from now on it is a task like any other.
    pub(super) fn demote(&mut self, task: u32) {
        self.in_flight -= 1;
        let state = &mut self.tasks[task as usize];
        // What was told of its first body says nothing of the next.
        state.flags &= !(RESTORE | DIED | EXITED);
        state.phase = Phase::Waiting;
        if self.aborted {
            self.settle_unstarted(task, TaskStatus::Aborted, None);
        } else if self.tripped {
            let root = self.bad_dependency(task).flatten();
            self.settle_unstarted(task, TaskStatus::Skipped, root);
        } else if self.tasks[task as usize].pending == 0 {
            self.released.push_back(task);
        }
    }

    fn settle_unstarted(&mut self, task: u32, status: TaskStatus, root: Bad) {
        self.spotless = false;
        self.tasks[task as usize].status = Some(status);
        if let Some(gate) = &mut self.gate {
            gate.forget(task);
        }
        if let Some(root) = root {
            self.roots.insert(task, root);
        }
        self.record(task, false, root);
    }

    /// Keeps the outcome of a task, and releases what waits for it unless it has to wait for its own dependencies.
    pub(super) fn record(&mut self, task: u32, ran: bool, blocked_by: Bad) {
        let tainted_early = self.mode == ContinueMode::Always && self.tasks[task as usize].is(RESTORE);
        if tainted_early && self.taint_of(task) {
            self.tasks[task as usize].flags |= TAINTED;
        }
        let state = &mut self.tasks[task as usize];
        state.phase = Phase::Done;
        let early = state.is(RESTORE) && state.pending > 0;
        let (status, tainted) = (state.status.unwrap_or(TaskStatus::Aborted), state.is(TAINTED));
        let held = if ran { self.gate.as_mut().and_then(|gate| gate.take_held(task)) } else { None };
        let waited = self.waits.get(task as usize).copied().filter(|_| ran);
        let slot_wait = waited.unwrap_or(0);
        self.effects.push(Effect::Finish(Finish { task, status, ran, blocked_by, tainted, slot_wait, held }));
        self.left -= 1;
        if !early && !self.stopped() {
            self.release(task);
        }
    }

    /// Tells a task's dependents that it is over.
    fn release(&mut self, task: u32) {
        if self.tasks[task as usize].is(RELEASED) {
            return;
        }
        self.tasks[task as usize].flags |= RELEASED;
        if self.tasks[task as usize].is(RESTORE) {
            self.judge_restore(task);
        }
        let Self { plan, tasks, released, .. } = self;
        for &dependent in plan.edges_out().of(task) {
            let state = &mut tasks[dependent as usize];
            state.pending -= 1;
            if state.pending == 0 {
                released.push_back(dependent);
            }
        }
    }

    /// A restore may be a hit though what it depends on went wrong: then it is one, and blocks.
    fn judge_restore(&mut self, task: u32) {
        if self.mode == ContinueMode::Always {
            if self.taint_of(task) {
                self.tasks[task as usize].flags |= TAINTED;
            }
        } else if let Some(root) = self.bad_dependency(task) {
            self.tasks[task as usize].flags |= BLOCKING;
            if let Some(root) = root {
                self.roots.insert(task, root);
            }
        }
    }

    /// Whether a dependency did not end well, and the root cause: first a dependency that itself failed or was aborted,
    /// then a dead server, then the root carried by one that was skipped, then that of a restore that blocks.
    fn bad_dependency(&self, task: u32) -> Option<Bad> {
        if self.spotless {
            return None;
        }
        let (mut dead, mut skipped, mut blocking) = (None, None, None);
        for &dep in self.plan.deps().of(task) {
            let state = &self.tasks[dep as usize];
            let root = || self.roots.get(&dep).copied();
            match state.status {
                Some(TaskStatus::Failed | TaskStatus::Aborted) => return Some(Some(dep)),
                Some(TaskStatus::Skipped) => _ = skipped.get_or_insert_with(root),
                _ if state.is(DEAD) => _ = dead.get_or_insert_with(|| root().or(Some(dep))),
                _ if state.is(BLOCKING) => _ = blocking.get_or_insert_with(root),
                _ => {}
            }
        }
        dead.or(skipped).or(blocking)
    }

    /// Whether a task stands behind a failure, as far as its dependencies are known.
    fn taint_of(&self, task: u32) -> bool {
        !self.spotless
            && self.plan.deps().of(task).iter().any(|dep| {
                let state = &self.tasks[*dep as usize];
                state.is(TAINTED | DEAD) || state.status.is_some_and(|status| !status.is_pass())
            })
    }

    /// A failure counts; perhaps nothing more is to start.
    pub(super) fn fail(&mut self) {
        self.failures += 1;
        let most = self.mode.failures_max();
        if !self.tripped && most.is_some_and(|most| self.failures >= most) {
            self.tripped = true;
            if self.mode == ContinueMode::Kill {
                self.effects.push(Effect::Kill);
            }
            if !self.aborted {
                self.settle_all_unstarted();
            }
        }
    }

    /// Settles everything that has not started, dependencies first, so that root causes are carried on.
    pub(super) fn settle_all_unstarted(&mut self) {
        let plan = self.plan.clone();
        for &task in plan.order() {
            if !self.tasks[task as usize].not_started() {
                continue;
            }
            if self.aborted {
                let ran_badly = |dep: &&u32| {
                    let state = &self.tasks[**dep as usize];
                    state.is(STARTED) && matches!(state.status, Some(TaskStatus::Failed | TaskStatus::Aborted))
                };
                let root = plan.deps().of(task).iter().find(ran_badly).copied();
                self.settle_unstarted(task, TaskStatus::Aborted, root);
            } else {
                let root = self.bad_dependency(task).flatten();
                self.settle_unstarted(task, TaskStatus::Skipped, root);
            }
        }
        self.released.clear();
        self.local.clear();
        self.restores.clear();
        for pool in &mut self.pools {
            pool.ready.clear();
        }
        if let Some(gate) = &mut self.gate {
            gate.clear();
        }
    }

    /// Skips what is ready behind a server that died, also through groups that are over.
    pub(super) fn skip_behind_dead(&mut self, server: u32) {
        let plan = self.plan.clone();
        let mut dead = vec![server];
        while let Some(task) = dead.pop() {
            for &dependent in plan.edges_out().of(task) {
                let state = &mut self.tasks[dependent as usize];
                let over = state.phase == Phase::Done && state.status == Some(TaskStatus::Success);
                if over && plan.kind(dependent) == Kind::Group && !state.is(DEAD) {
                    state.flags |= DEAD;
                    self.roots.insert(dependent, server);
                    dead.push(dependent);
                } else if state.phase == Phase::Queued && !state.is(RESTORE) {
                    let root = self.bad_dependency(dependent).flatten();
                    self.settle_unstarted(dependent, TaskStatus::Skipped, root);
                }
            }
        }
    }
}
