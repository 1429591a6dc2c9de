//! Puts the tasks of a file together: whom each depends on, which are wanted, and the plan and budget of those.
//! It does not know how commands are run.
#![forbid(unsafe_code)]

use super::faults::Faults;
use super::shape::{Package, Task, TaskFile};
use super::values::Named;
use ahash::{AHashMap, AHashSet};
use shardrun::{History, Plan, PlanError, ResourceBudget, TaskId};
use std::cell::OnceCell;
use std::sync::Arc;

/// A budget has two axes more, for memory and for tasks that run alone.
const AXES_MAX: usize = 65_000;
/// Names that are told of each end of a long ring.
const RING_SHOWN: usize = 10;

/// Which tasks each task depends on, by their places in the file.
pub(super) struct Links<'f> {
    file: &'f TaskFile<'f>,
    places: AHashMap<&'f str, usize>,
    on: Vec<Vec<usize>>,
    /// Tasks of packages by the rest of their names, for hints.
    by_rest: OnceCell<AHashMap<&'f str, &'f str>>,
}

/// The names of what tasks may take.
struct Declared<'f> {
    pools: AHashSet<&'f str>,
    resources: AHashSet<&'f str>,
}

/// The tasks that are wanted.
pub(super) struct Chosen {
    pub(super) plan: Arc<Plan>,
    /// The place in the file of each task of the plan.
    pub(super) places: Vec<usize>,
    /// Whether it was asked for by name.
    pub(super) named: Vec<bool>,
    /// None if no task reserves anything.
    pub(super) budget: Option<ResourceBudget>,
}

impl<'f> Links<'f> {
    /// Finds everybody that is named. What is wrong is in `faults`.
    pub(super) fn new(file: &'f TaskFile<'f>, faults: &Faults<'_>) -> Self {
        let places = file.tasks.iter().enumerate().map(|(place, task)| (task.name, place)).collect();
        let mut links = Links { file, places, on: Vec::new(), by_rest: OnceCell::new() };
        let packages: AHashMap<&str, &Package<'f>> = file.packages.iter().map(|one| (one.name, one)).collect();
        for package in &file.packages {
            for on in package.on.iter().filter(|on| !packages.contains_key(on.name)) {
                let hint = faults.suggestion(on.name, packages.keys().copied());
                let what =
                    format!("package {} is built on `{}`, which is not in [packages]{hint}", package.name, on.name);
                faults.add(on.at, None, what);
            }
        }
        let declared = Declared {
            pools: file.pools.iter().map(|(name, _)| *name).collect(),
            resources: file.resources.iter().map(|(name, _)| *name).collect(),
        };
        for place in 0..file.tasks.len() {
            let on = links.dependencies(place, &packages, faults);
            links.on.push(on);
            links.check_names(place, &declared, faults);
        }
        for name in file.default.iter().flatten().filter(|name| !links.places.contains_key(name.name)) {
            faults.add(
                name.at,
                None,
                format!("`default` names `{}`, which is no task{}", name.name, links.hint(name.name, faults)),
            );
        }
        links
    }

    fn hint(&self, name: &str, faults: &Faults<'_>) -> String {
        let tasks = &self.file.tasks;
        let like = faults.suggestion(name, tasks.iter().map(|task| task.name));
        // A package's task without its package.
        let by_rest = || tasks.iter().rev().filter_map(|task| Some((task.package()?.1, task.name))).collect();
        match self.by_rest.get_or_init(by_rest).get(name).filter(|_| like.is_empty()) {
            Some(whole) => format!("; did you mean {whole}?"),
            None => like,
        }
    }

    fn dependencies(&self, place: usize, packages: &AHashMap<&str, &Package<'f>>, faults: &Faults<'_>) -> Vec<usize> {
        let task = &self.file.tasks[place];
        let mut on = Vec::new();
        for dependency in &task.dependencies {
            let name = dependency.name;
            if let Some(rest) = name.strip_prefix('^') {
                match self.behind(place, rest, packages) {
                    Ok(found) => on.extend(found),
                    Err(what) => faults.add(dependency.at, Some(task.name), format!("`{name}` {what}")),
                }
            } else if let Some(found) = self.places.get(name) {
                on.push(*found);
            } else {
                let what = format!("depends on `{name}`, which is not in the file{}", self.hint(name, faults));
                faults.add(dependency.at, Some(task.name), what);
            }
        }
        on
    }

    /// What `^rest` means to a task: the task `rest` of each package that its own is built on; where one has no such task, of
    /// those that this one is built on.
    fn behind(&self, place: usize, rest: &str, packages: &AHashMap<&str, &Package<'f>>) -> Result<Vec<usize>, String> {
        let task = &self.file.tasks[place];
        let (own, _) = task.package().ok_or("is for tasks of a package, which are named `package:task`")?;
        let own = packages.get(own).ok_or_else(|| format!("needs package {own}, which is not in [packages]"))?;
        let (mut found, mut seen) = (Vec::new(), AHashSet::new());
        let mut next: Vec<&str> = own.on.iter().rev().map(|on| on.name).collect();
        while let Some(name) = next.pop() {
            if !seen.insert(name) {
                continue;
            }
            match (self.places.get(format!("{name}:{rest}").as_str()), packages.get(name)) {
                (Some(at), _) if *at == place => {
                    return Err(format!("leads back to the task itself: package {} is built on itself", own.name));
                }
                (Some(at), _) => found.push(*at),
                (None, Some(package)) => next.extend(package.on.iter().rev().map(|on| on.name)),
                (None, None) => {}
            }
        }
        Ok(found)
    }

    fn check_names(&self, place: usize, declared: &Declared<'_>, faults: &Faults<'_>) {
        let task = &self.file.tasks[place];
        let unknown = |named: &Named<'_>, what: &str, names: &AHashSet<&str>| {
            if !names.contains(named.name) {
                let hint = faults.suggestion(named.name, names.iter().copied());
                faults.add(named.at, Some(task.name), format!("{what} `{}` is not declared{hint}", named.name));
            }
        };
        if let Some(pool) = &task.pool {
            unknown(pool, "pool", &declared.pools);
        }
        if let (Some((_, at)), None) = (task.memory, self.file.memory) {
            let what = "has `memory`, but the file does not say how much there is: `memory = true` or an amount";
            faults.add(at, Some(task.name), what);
        }
        for (resource, _) in &task.resources {
            unknown(resource, "resource", &declared.resources);
        }
    }

    /// A plan was refused: says which task of the file is at fault, if it is one.
    fn refused(&self, error: PlanError, faults: &Faults<'_>) {
        let path = match error {
            PlanError::Cycle { path } => path,
            PlanError::SelfDependency { task } => vec![task.clone(), task],
            error => return faults.add(0, None, error),
        };
        let [first, second, ..] = &path[..] else { return };
        let Some(task) = self.places.get(first.as_str()).map(|place| &self.file.tasks[*place]) else { return };
        let named = task.dependencies.iter().find(|dependency| dependency.name == second.as_str());
        let grouped = || task.dependencies.iter().find(|dependency| dependency.name.starts_with('^'));
        let at = named.or_else(grouped).map_or(task.at, |dependency| dependency.at);
        faults.add(at, Some(first), format!("depends on itself: {}", ring(&path)));
    }

    fn build(&self, wanted: &[bool], history: &History, concurrency: Option<u32>) -> Result<Plan, PlanError> {
        let mut plan = Plan::builder();
        for (name, capacity) in &self.file.pools {
            plan.pool(name, *capacity);
        }
        if let Some(concurrency) = concurrency {
            plan.concurrency(concurrency);
        }
        let mut ids = vec![None; wanted.len()];
        for place in (0..wanted.len()).filter(|place| wanted[*place]) {
            let task = &self.file.tasks[place];
            let entry = plan.task(task.name);
            ids[place] = Some(entry.id());
            let entry = match (&task.command, task.persistent) {
                (None, _) => entry.group(),
                (Some(_), false) => entry,
                (Some(_), true) => entry.persistent_until_exit(),
            };
            if let Some(pool) = &task.pool {
                entry.pool(pool.name);
            }
        }
        for (task, on) in ids.iter().zip(&self.on) {
            for on in on {
                if let (Some(task), Some(on)) = (task, ids[*on]) {
                    plan.depend(*task, on);
                }
            }
        }
        plan.predict(|name| history.predicted(name));
        plan.build()
    }

    /// The tasks that are named, or the file's default ones, or all, and everything that they depend on. None if something is
    /// wrong in the file, also with other tasks: it is in `faults`.
    ///
    /// # Errors
    /// If a name is none of a task, or there is more to be kept account of than can be.
    pub(super) fn choose(
        &self,
        names: &[String],
        history: &History,
        concurrency: u32,
        faults: &Faults<'_>,
    ) -> Result<Option<Chosen>, String> {
        let tasks = &self.file.tasks;
        let mut roots = Vec::new();
        for name in names {
            let unknown = || format!("there is no task {name}{}", self.hint(name, faults));
            roots.push(*self.places.get(name.as_str()).ok_or_else(unknown)?);
        }
        let default = self.file.default.iter().flatten().filter_map(|name| self.places.get(name.name).copied());
        if names.is_empty() {
            roots.extend(default);
        }
        let mut named = vec![false; tasks.len()];
        roots.iter().for_each(|place| named[*place] = true);
        if names.is_empty() && self.file.default.is_none() {
            roots.extend(0..tasks.len());
        }
        let mut wanted = vec![false; tasks.len()];
        while let Some(place) = roots.pop() {
            if !std::mem::replace(&mut wanted[place], true) {
                roots.extend(&self.on[place]);
            }
        }
        let whole = if wanted.contains(&false) {
            self.build(&vec![true; tasks.len()], &History::new(), None).err()
        } else {
            None
        };
        let plan = match whole.map_or_else(|| self.build(&wanted, history, Some(concurrency)), Err) {
            Ok(plan) => plan,
            Err(error) => {
                self.refused(error, faults);
                return Ok(None);
            }
        };
        let places: Vec<usize> = (0..tasks.len()).filter(|place| wanted[*place]).collect();
        let named = places.iter().map(|place| named[*place]).collect();
        let budget = self.budget(&plan, &places, history)?;
        Ok(Some(Chosen { plan: Arc::new(plan), places, named, budget }))
    }

    /// What is reserved for a task: what it says, or what it held in earlier runs and a margin.
    fn memory(&self, task: &Task<'_>, history: &History) -> Option<u64> {
        let runs_here = task.command.is_some() && task.pool.is_none();
        task.memory.map(|(bytes, _)| bytes).or_else(|| history.memory_estimate(task.name)).filter(|_| runs_here)
    }

    fn budget(&self, plan: &Plan, places: &[usize], history: &History) -> Result<Option<ResourceBudget>, String> {
        let memory = |place: usize| self.file.memory.and_then(|_| self.memory(&self.file.tasks[place], history));
        let reserves = |place: usize| self.file.tasks[place].reserves() || memory(place).is_some();
        let reserving: Vec<(TaskId, usize)> =
            plan.tasks().zip(places.iter().copied()).filter(|(_, place)| reserves(*place)).collect();
        if reserving.is_empty() {
            return Ok(None);
        }
        let users = users(reserving.iter().map(|(_, place)| &self.file.tasks[*place]));
        if self.file.resources.len() + users.values().filter(|users| **users > 1).count() > AXES_MAX {
            return Err(format!("there are more than {AXES_MAX} resources and mutexes that tasks share"));
        }
        let mut budget = ResourceBudget::new();
        let axis = |(name, amount): &(&'f str, u64)| (*name, budget.axis(&format!("resource {name}"), *amount));
        let axes: AHashMap<&str, _> = self.file.resources.iter().map(axis).collect();
        if let Some(capacity) = self.file.memory {
            let axis = budget.axis("memory", capacity);
            budget.measure_memory(axis);
            for (id, place) in &reserving {
                if let Some(bytes) = memory(*place) {
                    budget.cost(*id, axis, bytes);
                }
            }
        }
        for (id, place) in reserving {
            let task = &self.file.tasks[place];
            for (resource, amount) in &task.resources {
                budget.cost(id, axes[resource.name], *amount);
            }
            for mutex in task.mutexes.iter().filter(|mutex| users[*mutex] > 1) {
                budget.mutex(id, mutex);
            }
            if task.exclusive {
                budget.exclusive(id);
            }
        }
        Ok(Some(budget))
    }
}

/// The names of a ring, or of a long one both ends.
fn ring(path: &[String]) -> String {
    let left_out = path.len().saturating_sub(2 * RING_SHOWN);
    if left_out == 0 {
        return path.join(" -> ");
    }
    let (begin, end) = (&path[..RING_SHOWN], &path[path.len() - RING_SHOWN..]);
    format!("{} -> ({left_out} more) -> {}", begin.join(" -> "), end.join(" -> "))
}

/// By how many of the tasks each mutex is named: one alone keeps nobody waiting.
fn users<'f>(tasks: impl Iterator<Item = &'f Task<'f>>) -> AHashMap<&'f str, u32> {
    let mut users = AHashMap::new();
    for task in tasks {
        let names: AHashSet<&str> = task.mutexes.iter().copied().collect();
        names.into_iter().for_each(|name| *users.entry(name).or_default() += 1);
    }
    users
}
