//! Collects a plan: tasks with their dependencies, weights, pools and kinds, and the limits that hold for all.
//! It checks numbers when the plan is built, and does not know how graphs are checked or ranked.
#![forbid(unsafe_code)]

use super::error::PlanError;
use super::ids::{Limit, PoolId, TaskId};
use super::names::Names;
use super::plan::{Kind, Plan, Pool};
use super::{edges, rank};
use ahash::{AHashMap, AHashSet};
use std::time::Duration;

/// Set in a dependency that is not a task's number but the place of a name in the list of names.
const NAMED: u32 = 1 << 31;
/// A task without a pool.
pub(crate) const LOCAL: u16 = u16::MAX;

/// Collects the tasks of a [`Plan`].
///
/// ```
/// use shardrun::Plan;
///
/// let mut plan = Plan::builder();
/// let compile = plan.task("app#compile").id();
/// plan.task("app#test").after(compile);
/// plan.task("app#pack").after_named("app#compile");
/// let plan = plan.build()?;
/// assert_eq!(plan.len(), 3);
/// assert_eq!(plan.dependents(compile).count(), 2);
/// # Ok::<(), shardrun::PlanError>(())
/// ```
#[derive(Debug)]
pub struct PlanBuilder {
    names: Names,
    pub(crate) facts: Facts,
    deps: Vec<u32>,
    starts: Vec<usize>,
    late: Vec<(u32, u32)>,
    named: Vec<String>,
    pools: Vec<(String, Limit)>,
    pool_names: Vec<String>,
    /// Their places in that list.
    pool_places: AHashMap<String, usize>,
    concurrency: Option<Limit>,
    too_large: bool,
}

/// What is said of each task beside its name and its dependencies. Lists that say nothing stay empty.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) pools: Vec<u16>,
    pub(crate) weights: Vec<(u32, f64)>,
    pub(crate) predicted: Vec<(u32, Duration)>,
}

/// The task that was just added to a [`PlanBuilder`].
#[derive(Debug)]
pub struct TaskEntry<'a> {
    plan: &'a mut PlanBuilder,
    id: u32,
}

impl PlanBuilder {
    pub(crate) fn new() -> Self {
        Self {
            names: Names::new(),
            facts: Facts::default(),
            deps: Vec::new(),
            starts: Vec::new(),
            late: Vec::new(),
            named: Vec::new(),
            pools: Vec::new(),
            pool_names: Vec::new(),
            pool_places: AHashMap::new(),
            concurrency: None,
            too_large: false,
        }
    }

    /// Adds a task. Tasks are tied in order of insertion where nothing else orders them.
    ///
    /// An empty name leaves the task without one: it is then shown by its number, and nothing can name it.
    pub fn task(&mut self, name: &str) -> TaskEntry<'_> {
        let id = self.starts.len() as u32;
        self.too_large |= id >= NAMED || !self.names.push(name);
        self.facts.kinds.push(Kind::Task);
        if !self.facts.pools.is_empty() {
            self.facts.pools.push(LOCAL);
        }
        self.starts.push(self.deps.len());
        TaskEntry { plan: self, id }
    }

    /// Makes `task` depend on `dependency`, both already added. A dependency said twice counts once.
    pub fn depend(&mut self, task: TaskId, dependency: TaskId) -> &mut Self {
        self.late.push((task.0, dependency.0));
        self
    }

    /// Asks of every task added so far that has a name how long it will take, as [`TaskEntry::predicted`] says it of one.
    pub fn predict(&mut self, mut duration: impl FnMut(&str) -> Option<Duration>) -> &mut Self {
        for task in 0..self.names.len() as u32 {
            if let Some(predicted) = Some(self.names.get(task)).filter(|name| !name.is_empty()).and_then(&mut duration)
            {
                self.facts.predicted.push((task, predicted));
            }
        }
        self
    }

    /// Declares a pool: at most `capacity` of the tasks assigned to it run at a time, and they take no local slot.
    pub fn pool(&mut self, name: &str, capacity: impl Into<Limit>) -> &mut Self {
        self.pools.push((name.to_owned(), capacity.into()));
        self
    }

    /// How many local tasks run at a time. Without a word it is the number of workers of the runtime that runs the plan.
    ///
    /// Restores have a lane of their own, twice as wide. With 1 the run is serial: one local task of any kind at a time.
    pub fn concurrency(&mut self, tasks: impl Into<Limit>) -> &mut Self {
        self.concurrency = Some(tasks.into());
        self
    }

    /// Checks everything and ranks the tasks, in time linear in tasks and dependencies (and in the weights given, times
    /// the logarithm of the tasks; distinct dependents are counted exactly up to [`Plan::EXACT_TASKS_MAX`] tasks).
    ///
    /// # Errors
    /// The first fault found; see [`PlanError`].
    pub fn build(mut self) -> Result<Plan, PlanError> {
        if self.too_large || self.starts.len() >= NAMED as usize || self.pools.len() >= usize::from(LOCAL) {
            return Err(PlanError::TooLarge);
        }
        let concurrency = match self.concurrency {
            Some(limit) => Some(limit.count().ok_or(PlanError::Concurrency { concurrency: limit })?),
            None => None,
        };
        let pools = self.check_pools()?;
        if let Some(&(task, weight)) = self.facts.weights.iter().find(|(_, weight)| !weight.is_finite()) {
            return Err(PlanError::Weight { task: self.name(task), weight });
        }
        if let Err(twin) = self.names.seal() {
            return Err(PlanError::DuplicateTask { name: self.name(twin) });
        }
        self.assign_pools(&pools)?;
        self.resolve()?;
        let deps = edges::Lists::distinct(&self.deps, &self.starts, &self.late).ok_or(PlanError::TooLarge)?;
        self.deps = Vec::new();
        if let Some(task) = deps.self_edge() {
            return Err(PlanError::SelfDependency { task: self.name(task) });
        }
        let dependents = deps.reversed();
        let order = edges::order(&deps, &dependents)
            .map_err(|ring| PlanError::Cycle { path: ring.into_iter().map(|task| self.name(task)).collect() })?;
        let ranks = rank::rank(&deps, &dependents, &order, &self.facts);
        Ok(Plan::assemble(self.names, deps, dependents, order, ranks, self.facts, pools, concurrency))
    }

    fn name(&self, task: u32) -> String {
        match self.names.get(task) {
            "" => TaskId(task).to_string(),
            name => name.to_owned(),
        }
    }

    fn check_pools(&self) -> Result<Vec<Pool>, PlanError> {
        let mut pools: Vec<Pool> = Vec::with_capacity(self.pools.len());
        let mut seen = AHashSet::with_capacity(self.pools.len());
        for (name, limit) in &self.pools {
            if !seen.insert(name) {
                return Err(PlanError::DuplicatePool { pool: name.clone() });
            }
            let capacity =
                limit.count().ok_or_else(|| PlanError::PoolCapacity { pool: name.clone(), capacity: *limit })?;
            pools.push(Pool { name: name.clone(), capacity });
        }
        Ok(pools)
    }

    /// Turns the pools that tasks named into the pools that were declared.
    fn assign_pools(&mut self, pools: &[Pool]) -> Result<(), PlanError> {
        let declared: AHashMap<&str, u16> =
            pools.iter().enumerate().map(|(at, pool)| (pool.name.as_str(), at as u16)).collect();
        let place = |name: &String| declared.get(name.as_str()).copied();
        let places: Vec<Option<u16>> = self.pool_names.iter().map(place).collect();
        for task in 0..self.facts.pools.len() {
            let wanted = self.facts.pools[task];
            if wanted == LOCAL {
                continue;
            }
            let Some(found) = places[usize::from(wanted)] else {
                let pool = self.pool_names[usize::from(wanted)].clone();
                return Err(PlanError::UnknownPool { task: self.name(task as u32), pool });
            };
            self.facts.pools[task] = found;
        }
        Ok(())
    }

    /// Turns names into numbers and checks that every number is a task's.
    fn resolve(&mut self) -> Result<(), PlanError> {
        let tasks = self.starts.len() as u32;
        for at in 0..self.deps.len() {
            let dep = self.deps[at];
            if dep & NAMED != 0 {
                let wanted = &self.named[(dep & !NAMED) as usize];
                match self.names.find(wanted) {
                    Some(id) => self.deps[at] = id,
                    None => return Err(self.unknown(self.owner(at), wanted.clone())),
                }
            } else if dep >= tasks {
                return Err(self.unknown(self.owner(at), TaskId(dep).to_string()));
            }
        }
        for &(task, dep) in &self.late {
            if task >= tasks || dep >= tasks {
                let (task, dep) = (TaskId(task).to_string(), TaskId(dep).to_string());
                return Err(PlanError::UnknownDependency { task, dependency: dep });
            }
        }
        Ok(())
    }

    /// The task in whose list the dependency at this place stands.
    fn owner(&self, at: usize) -> u32 {
        self.starts.partition_point(|start| *start <= at) as u32 - 1
    }

    fn unknown(&self, task: u32, dependency: String) -> PlanError {
        PlanError::UnknownDependency { task: self.name(task), dependency }
    }
}

impl TaskEntry<'_> {
    /// The task's number, to depend on it and to know it again.
    pub fn id(&self) -> TaskId {
        TaskId(self.id)
    }

    /// Depends on a task that was added before. The order of dependencies is the order in which their outcomes are shown.
    pub fn after(self, dependency: TaskId) -> Self {
        self.plan.deps.push(dependency.0 & !NAMED);
        self
    }

    /// Depends on each of the tasks.
    pub fn after_all(self, dependencies: impl IntoIterator<Item = TaskId>) -> Self {
        self.plan.deps.extend(dependencies.into_iter().map(|id| id.0 & !NAMED));
        self
    }

    /// Depends on the task of this name, which may be added later.
    pub fn after_named(self, dependency: &str) -> Self {
        self.plan.deps.push(self.plan.named.len() as u32 | NAMED);
        self.plan.named.push(dependency.to_owned());
        self
    }

    /// Ranks the task by hand: every weight above zero comes before all tasks without one, the larger first; zero is as
    /// if nothing were said; below zero comes after all.
    pub fn weight(self, weight: f64) -> Self {
        self.plan.facts.weights.push((self.id, weight));
        self
    }

    /// How long the task is thought to take, from history or as a hint. If any task of the plan has such a word, ready
    /// tasks start in order of the longest path that remains; tasks without one are taken to last as long as the median.
    pub fn predicted(self, duration: Duration) -> Self {
        self.plan.facts.predicted.push((self.id, duration));
        self
    }

    /// Runs in the pool of this name, which may be declared later. The task then takes no local slot.
    pub fn pool(self, name: &str) -> Self {
        let (names, places) = (&mut self.plan.pool_names, &mut self.plan.pool_places);
        let at = places.get(name).copied().unwrap_or_else(|| {
            names.push(name.to_owned());
            places.insert(name.to_owned(), names.len() - 1);
            names.len() - 1
        });
        let pools = &mut self.plan.facts.pools;
        pools.resize(self.plan.starts.len(), LOCAL);
        pools[self.id as usize] = at as u16;
        self.plan.too_large |= at >= usize::from(LOCAL);
        self
    }

    /// A restore: a task whose result is known to lie in a cache. It may start before its dependencies, in a lane of its
    /// own, ignores its pool, and releases its dependents only after its own dependencies.
    pub fn restore(self) -> Self {
        self.kind(Kind::Restore)
    }

    /// A group: it stands for its dependencies, runs nothing and takes no slot; it succeeds in place.
    pub fn group(self) -> Self {
        self.kind(Kind::Group)
    }

    /// A server: it ends for the run when it is ready, and gives its slot back then; it may be said to have died later.
    /// What policies reserved for it is given back when it is ready.
    pub fn persistent(self) -> Self {
        self.kind(Kind::Server)
    }

    /// A server, whose reservations are kept until it is said to have exited, or the run ends.
    pub fn persistent_until_exit(self) -> Self {
        self.kind(Kind::ServerKeeping)
    }

    fn kind(self, kind: Kind) -> Self {
        self.plan.facts.kinds[self.id as usize] = kind;
        self
    }
}

/// The pool of a task, as it is kept: none is [`LOCAL`].
pub(crate) fn pool_of(pools: &[u16], task: u32) -> Option<PoolId> {
    pools.get(task as usize).copied().filter(|pool| *pool != LOCAL).map(PoolId)
}
