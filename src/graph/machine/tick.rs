//! Starts what can start: local tasks first, then pools that have room, then restores.
//! It does not know why a task is ready, nor what a policy goes by.
#![forbid(unsafe_code)]

use super::super::ids::TaskId;
use super::super::plan::Kind;
use super::super::policy::Usage;
use super::gate::Choice;
use super::{EXITED, Effect, End, Machine, Phase, RESTORE, STARTED, TAINTED, nanos};
use std::time::Duration;

impl Machine {
    pub(super) fn tick(&mut self) {
        if !self.stopped() {
            self.tick_local();
            self.tick_pools();
            self.tick_restores();
            self.keep_alive();
            if let Some(at) = self.gate.as_mut().and_then(|gate| gate.next_timer()) {
                self.effects.push(Effect::At(at));
            }
        }
        if self.left == 0 {
            self.left = usize::MAX;
            self.effects.push(Effect::Over);
        }
    }

    fn local_room(&self) -> bool {
        let restores = if self.concurrency == 1 { self.restores_running } else { 0 };
        self.local_running + restores < self.concurrency
    }

    fn restore_room(&self) -> bool {
        if self.concurrency == 1 {
            self.local_running + self.restores_running == 0
        } else {
            self.restores_running < self.concurrency.saturating_mul(2)
        }
    }

    fn tick_local(&mut self) {
        while self.local_room() {
            let Some(gate) = &mut self.gate else {
                match self.local.pop() {
                    Some((_, task)) if self.tasks[task as usize].phase == Phase::Queued => self.start(task),
                    Some(_) => continue,
                    None => return,
                }
                continue;
            };
            let queued = |task: u32| self.tasks[task as usize].phase == Phase::Queued;
            match gate.choose(&mut self.local, queued, self.now, &mut self.effects) {
                Choice::Start(task) => self.start(task),
                Choice::Nothing => return,
            }
        }
    }

    fn tick_pools(&mut self) {
        let mut stirred = std::mem::take(&mut self.stirred);
        stirred.sort_unstable();
        for pool in stirred.drain(..).map(usize::from) {
            self.pools[pool].listed = false;
            while self.pools[pool].running < self.pools[pool].capacity {
                match self.pools[pool].ready.pop() {
                    Some((_, task)) if self.tasks[task as usize].phase == Phase::Queued => self.start(task),
                    Some(_) => {}
                    None => break,
                }
            }
        }
        self.stirred = stirred;
    }

    fn tick_restores(&mut self) {
        while self.restore_room() {
            match self.restores.pop() {
                Some((_, task)) if self.tasks[task as usize].phase == Phase::Queued => self.start(task),
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Something may start in this pool at the next tick.
    pub(super) fn stir(&mut self, pool: usize) {
        if !std::mem::replace(&mut self.pools[pool].listed, true) {
            self.stirred.push(pool as u16);
        }
    }

    /// Policies must not end a run: if nothing is in flight and nothing else can wake, the best refused task starts.
    fn keep_alive(&mut self) {
        if self.in_flight > 0 || self.left == 0 {
            return;
        }
        let Some(gate) = &mut self.gate else { return };
        let queued = |task: u32| self.tasks[task as usize].phase == Phase::Queued;
        if let Some(task) = gate.overrule(&mut self.local, queued, &self.plan, &mut self.effects) {
            self.start(task);
            self.tick_local();
        }
    }

    fn start(&mut self, task: u32) {
        let again = self.tasks[task as usize].is(STARTED);
        let restore = self.tasks[task as usize].is(RESTORE);
        let state = &mut self.tasks[task as usize];
        state.phase = Phase::Running;
        state.flags |= STARTED;
        self.in_flight += 1;
        let mut local = false;
        if restore {
            self.restores_running += 1;
        } else if let Some(pool) = self.plan.pool_index(task) {
            self.pools[pool].running += 1;
        } else {
            self.local_running += 1;
            local = true;
        }
        let full = !self.local_room();
        let mut held = Duration::ZERO;
        if let Some(gate) = &mut self.gate {
            held = gate.started(task, local, full, self.now, &mut self.effects);
        }
        if let Some(wait) = self.waits.get_mut(task as usize) {
            *wait = nanos(self.now).saturating_sub(*wait).saturating_sub(nanos(held));
        }
        let tainted = self.tasks[task as usize].is(TAINTED);
        self.effects.push(Effect::Start { task, again, tainted });
    }

    /// Gives back the slot of a body that ended.
    pub(super) fn free_slot(&mut self, task: u32, end: End, usage: Usage) {
        let mut local = false;
        if self.tasks[task as usize].is(RESTORE) {
            self.restores_running -= 1;
        } else if let Some(pool) = self.plan.pool_index(task) {
            self.pools[pool].running -= 1;
            self.stir(pool);
        } else {
            self.local_running -= 1;
            local = true;
        }
        let ready = matches!(end, End::Outcome { status, .. } if status.is_pass());
        let keeps = ready && self.kind(task) == Kind::ServerKeeping && !self.tasks[task as usize].is(EXITED);
        let (room, idle) = (self.local_room(), self.local_running == 0);
        if let Some(gate) = &mut self.gate {
            if local {
                gate.ended(TaskId(task), usage, keeps, &mut self.effects);
            }
            gate.completion(room, idle, self.now);
        }
    }

    /// Something of the run is over that gave no slot back.
    pub(super) fn completion(&mut self) {
        let (room, idle) = (self.local_room(), self.local_running == 0);
        if let Some(gate) = &mut self.gate {
            gate.completion(room, idle, self.now);
        }
    }
}
