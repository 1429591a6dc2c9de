//! A task graph that has been checked and ranked: what may run, after what, and in which order where there is a choice.
//! It holds no run's state, so one plan may be run many times; it does not know what a task does.
#![forbid(unsafe_code)]

use super::builder::{Facts, PlanBuilder, pool_of};
use super::cohorts::Cohorts;
use super::edges::Lists;
use super::ids::{PoolId, TaskId};
use super::names::Names;
use super::rank::{EXACT_TASKS_MAX, Ranks};
use std::time::Duration;

/// What sort of task it is, as far as scheduling goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Task,
    Restore,
    Group,
    Server,
    ServerKeeping,
}

/// A pool that was declared.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) capacity: u32,
}

/// A task graph, checked and ranked, ready to be run as often as wanted.
///
/// Made by [`Plan::builder`]. It takes about 45 bytes a task and 8 a dependency, names apart.
#[derive(Debug)]
pub struct Plan {
    names: Names,
    deps: Lists,
    dependents: Lists,
    cohorts: Option<Cohorts>,
    order: Box<[u32]>,
    ranks: Ranks,
    kinds: Box<[Kind]>,
    pool_of: Box<[u16]>,
    pools: Box<[Pool]>,
    concurrency: Option<u32>,
    uniform: bool,
}

impl Plan {
    /// Plans up to this many tasks are ranked by their exact number of distinct dependents where nothing better is said;
    /// larger ones by the longest chain behind each task.
    pub const EXACT_TASKS_MAX: usize = EXACT_TASKS_MAX;

    /// Begins a plan.
    pub fn builder() -> PlanBuilder {
        PlanBuilder::new()
    }

    #[expect(clippy::too_many_arguments, reason = "the parts that the builder has checked, each used once")]
    pub(crate) fn assemble(
        names: Names,
        deps: Lists,
        dependents: Lists,
        order: Box<[u32]>,
        ranks: Ranks,
        facts: Facts,
        pools: Vec<Pool>,
        concurrency: Option<u32>,
    ) -> Self {
        let plain = facts.kinds.iter().all(|kind| *kind == Kind::Task) && facts.pools.is_empty();
        let uniform = plain && facts.weights.is_empty() && facts.predicted.is_empty();
        let cohorts = if uniform { Cohorts::of(&deps, &dependents) } else { None };
        Self {
            names,
            deps,
            dependents,
            cohorts,
            order,
            ranks,
            kinds: facts.kinds.into(),
            pool_of: facts.pools.into(),
            pools: pools.into(),
            concurrency,
            uniform,
        }
    }

    /// The number of tasks.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there is no task.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The number of dependencies, each counted once.
    pub fn edges(&self) -> usize {
        self.deps.edges()
    }

    /// All tasks in order of insertion.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = TaskId> + use<> {
        (0..self.len() as u32).map(TaskId)
    }

    /// The task of this name.
    pub fn find(&self, name: &str) -> Option<TaskId> {
        self.names.find(name).map(TaskId)
    }

    /// The name of a task; empty if it was given none.
    ///
    /// # Panics
    /// If the task is not of this plan.
    pub fn name(&self, task: TaskId) -> &str {
        self.names.get(task.0)
    }

    /// The name of a task as it is shown: its number if it was given none.
    pub fn label(&self, task: TaskId) -> String {
        match self.name(task) {
            "" => task.to_string(),
            name => name.to_owned(),
        }
    }

    /// The tasks that a task depends on, each once, in the order in which they were said.
    pub fn dependencies(&self, task: TaskId) -> impl ExactSizeIterator<Item = TaskId> + '_ {
        self.deps.of(task.0).iter().map(|id| TaskId(*id))
    }

    /// The tasks that depend on a task, in order of insertion.
    pub fn dependents(&self, task: TaskId) -> impl ExactSizeIterator<Item = TaskId> + '_ {
        self.dependents.of(task.0).iter().map(|id| TaskId(*id))
    }

    /// How many distinct tasks wait for a task, directly or not, restores not counted; in a plan of more than
    /// [`Plan::EXACT_TASKS_MAX`] tasks, how many stand on the longest chain behind it.
    pub fn waiting_behind(&self, task: TaskId) -> u32 {
        self.ranks.waiting[task.index()]
    }

    /// How long the run will last at least from the start of this task, by the predicted durations. None if nothing was
    /// predicted.
    pub fn remaining_path(&self, task: TaskId) -> Option<Duration> {
        self.ranks.remaining.get(task.index()).map(|micros| Duration::from_micros(*micros))
    }

    /// The pool that a task is assigned to. A restore keeps its word, but runs locally.
    pub fn pool_of(&self, task: TaskId) -> Option<PoolId> {
        pool_of(&self.pool_of, task.0)
    }

    /// The name and the capacity of a pool.
    pub fn pool(&self, pool: PoolId) -> (&str, u32) {
        let pool = &self.pools[pool.index()];
        (&pool.name, pool.capacity)
    }

    /// The number of pools declared.
    pub fn pools(&self) -> usize {
        self.pools.len()
    }

    /// How many local tasks may run at a time, if it was said.
    pub fn concurrency(&self) -> Option<u32> {
        self.concurrency
    }

    /// Whether the plan says nothing but what comes after what, so that counting alone decides.
    pub fn is_uniform(&self) -> bool {
        self.uniform
    }

    pub(crate) fn deps(&self) -> &Lists {
        &self.deps
    }

    pub(crate) fn edges_out(&self) -> &Lists {
        &self.dependents
    }

    /// Tasks that are counted together, in a plan that may be run by counting.
    pub(crate) fn cohorts(&self) -> Option<&Cohorts> {
        self.cohorts.as_ref()
    }

    /// An order in which every task comes after its dependencies.
    pub(crate) fn order(&self) -> &[u32] {
        &self.order
    }

    pub(crate) fn class(&self, task: u32) -> u32 {
        self.ranks.classes[task as usize]
    }

    pub(crate) fn kind(&self, task: u32) -> Kind {
        self.kinds[task as usize]
    }

    pub(crate) fn is_restore(&self, task: u32) -> bool {
        self.kind(task) == Kind::Restore
    }

    pub(crate) fn pool_capacities(&self) -> impl Iterator<Item = u32> + '_ {
        self.pools.iter().map(|pool| pool.capacity)
    }

    pub(crate) fn pool_index(&self, task: u32) -> Option<usize> {
        pool_of(&self.pool_of, task).map(PoolId::index)
    }
}
