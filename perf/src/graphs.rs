//! Shapes of task graphs: who depends on whom, as lists in one piece, and the same turned round.
//! It does not know who runs them. Every shape is the same on every machine.

use shardrun::{Dag, DagNode, Plan, PlanBuilder, Policy, ResourceBudget, TaskEntry, TaskId, TaskKind};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

/// Lists of numbers, one after the other.
#[derive(Clone, Default)]
struct Lists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    fn of(&self, list: u32) -> &[u32] {
        &self.items[self.starts[list as usize] as usize..self.starts[list as usize + 1] as usize]
    }

    fn len(&self) -> usize {
        self.starts.len() - 1
    }
}

/// A graph: each task's dependencies, all added before it.
#[derive(Clone)]
pub struct Shape {
    deps: Lists,
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tasks, {} dependencies", self.tasks(), self.deps.items.len())
    }
}

impl Shape {
    /// `tasks` tasks; `of` appends the dependencies of each.
    fn new(tasks: usize, mut of: impl FnMut(u32, &mut Vec<u32>)) -> Self {
        let mut deps = Lists { starts: vec![0], items: Vec::new() };
        for task in 0..tasks as u32 {
            of(task, &mut deps.items);
            deps.starts.push(deps.items.len() as u32);
        }
        Self { deps }
    }

    /// Tasks in layers of a hundred, each but those of the first layer after three of the layer before.
    pub fn layers(tasks: usize) -> Self {
        const WIDTH: u32 = 100;
        Self::new(tasks, |task, deps| {
            if let Some(first) = (task / WIDTH).checked_sub(1).map(|layer| layer * WIDTH) {
                deps.extend([0, 1, 7].map(|step| first + (task + step) % WIDTH));
            }
        })
    }

    /// Layers of a hundred, each task after all of the layer before.
    pub fn dense(tasks: usize) -> Self {
        const WIDTH: u32 = 100;
        Self::new(tasks, |task, deps| {
            if let Some(first) = (task / WIDTH).checked_sub(1).map(|layer| layer * WIDTH) {
                deps.extend(first..first + WIDTH);
            }
        })
    }

    /// Layers of two hundred, each task after a hundred of the layer before, no two after the same.
    pub fn unlike(tasks: usize) -> Self {
        const WIDTH: u32 = 200;
        Self::new(tasks, |task, deps| {
            if let Some(first) = (task / WIDTH).checked_sub(1).map(|layer| layer * WIDTH) {
                deps.extend((0..WIDTH / 2).map(|step| first + (task + step) % WIDTH));
            }
        })
    }

    /// One after the other.
    pub fn chain(tasks: usize) -> Self {
        Self::new(tasks, |task, deps| deps.extend(task.checked_sub(1)))
    }

    /// One, then all others but one, then that one.
    pub fn fan(tasks: usize) -> Self {
        let last = tasks as u32 - 1;
        Self::new(tasks, |task, deps| match task {
            0 => {}
            task if task == last => deps.extend(1..last),
            _ => deps.push(0),
        })
    }

    /// Each after three of all that were added before it, drawn at random.
    pub fn random(tasks: usize) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        Self::new(tasks, |task, deps| {
            let from = deps.len();
            while task > 0 && deps.len() - from < 3.min(task as usize) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let drawn = (state % u64::from(task)) as u32;
                if !deps[from..].contains(&drawn) {
                    deps.push(drawn);
                }
            }
        })
    }

    /// Nobody after anybody.
    pub fn loose(tasks: usize) -> Self {
        Self::new(tasks, |_, _| {})
    }

    /// How many tasks there are.
    pub fn tasks(&self) -> usize {
        self.deps.len()
    }

    /// A plan that says nothing but what comes after what.
    pub fn plan(&self) -> Plan {
        self.plan_with(|_| {}, |_, entry| entry)
    }

    /// A plan that `begin` and, of each task, `say` may say more of.
    pub fn plan_with(
        &self,
        begin: impl FnOnce(&mut PlanBuilder),
        say: impl for<'a> Fn(u32, TaskEntry<'a>) -> TaskEntry<'a>,
    ) -> Plan {
        let mut plan = Plan::builder();
        begin(&mut plan);
        let mut ids: Vec<TaskId> = Vec::with_capacity(self.tasks());
        for task in 0..self.tasks() as u32 {
            let deps = self.deps.of(task).iter().map(|dep| ids[*dep as usize]);
            let entry = say(task, plan.task("").after_all(deps));
            ids.push(entry.id());
        }
        drop(ids);
        plan.build().unwrap_or_else(|error| panic!("the shape has no fault: {error}"))
    }

    /// The same as a graph of computations, each of which is made here and calls `body`.
    pub fn dag(&self, body: impl Fn(u32) + Copy + Send + 'static) -> Dag {
        let mut dag = Dag::builder();
        for task in 0..self.tasks() as u32 {
            let mut entry = dag.node(TaskKind::CacheNode, move |_| body(task));
            for dep in self.deps.of(task) {
                entry = entry.after(DagNode::nth(*dep));
            }
        }
        dag.build().unwrap_or_else(|error| panic!("the shape has no fault: {error}"))
    }

    /// Each task's dependencies, in order.
    pub fn deps(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.tasks() as u32).map(|task| self.deps.of(task))
    }

    /// The same with each task's dependents, in order.
    pub fn turned(&self) -> Turned {
        let tasks = self.tasks();
        let mut starts = vec![0; tasks + 1];
        for &dep in &self.deps.items {
            starts[dep as usize + 1] += 1;
        }
        for task in 0..tasks {
            starts[task + 1] += starts[task];
        }
        let (mut next, mut items) = (starts.clone(), vec![0; self.deps.items.len()]);
        for task in 0..tasks as u32 {
            for &dep in self.deps.of(task) {
                items[next[dep as usize] as usize] = task;
                next[dep as usize] += 1;
            }
        }
        let counts: Vec<u32> = (0..tasks as u32).map(|task| self.deps.of(task).len() as u32).collect();
        Turned { dependents: Lists { starts, items }, counts }
    }
}

/// A graph turned round, as whoever runs it by counters wants it.
pub struct Turned {
    dependents: Lists,
    /// How many each task waits for.
    counts: Vec<u32>,
}

impl fmt::Debug for Turned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tasks", self.counts.len())
    }
}

impl Turned {
    /// Tasks that wait for nobody.
    pub fn first(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.counts.len() as u32).filter(|task| self.counts[*task as usize] == 0)
    }

    /// Kahn's algorithm on one thread, with plain counters and a queue: each task once, after those it depends on.
    pub fn kahn(&self, mut body: impl FnMut(u32)) {
        let mut counts = self.counts.clone();
        let mut queue: Vec<u32> = Vec::with_capacity(counts.len());
        queue.extend(self.first());
        let mut at = 0;
        while let Some(&task) = queue.get(at) {
            at += 1;
            body(task);
            for &dependent in self.dependents.of(task) {
                counts[dependent as usize] -= 1;
                if counts[dependent as usize] == 0 {
                    queue.push(dependent);
                }
            }
        }
        assert_eq!(at, counts.len(), "every task has run");
    }
}

/// A graph with one atomic counter a task, for as many runs as wanted, one after the other.
pub struct Counters {
    turned: Turned,
    first: Vec<u32>,
    words: Box<[AtomicU32]>,
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.turned.fmt(f)
    }
}

impl Counters {
    /// Counters for `shape`.
    pub fn new(shape: &Shape) -> Self {
        let turned = shape.turned();
        let first = turned.first().collect();
        let words = turned.counts.iter().map(|_| AtomicU32::new(0)).collect();
        Self { turned, first, words }
    }

    /// Sets the counters for a run. Every run does it, whoever's.
    pub fn reset(&self) {
        for (word, count) in self.words.iter().zip(&self.turned.counts) {
            word.store(*count, Ordering::Relaxed);
        }
    }

    /// Tasks that wait for nobody.
    pub fn first(&self) -> &[u32] {
        &self.first
    }

    /// A task is over: calls `ready` with each task that this makes ready.
    #[inline]
    pub fn release(&self, task: u32, mut ready: impl FnMut(u32)) {
        for &dependent in self.turned.dependents.of(task) {
            if self.words[dependent as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
                ready(dependent);
            }
        }
    }
}

/// Layers of which half of the tasks are in one of two pools of two, and all have weights.
pub fn limited(tasks: usize) -> Plan {
    Shape::layers(tasks).plan_with(
        |plan| _ = plan.pool("first", 2u32).pool("second", 2u32).concurrency(2u32),
        |task, entry| {
            let entry = entry.weight(f64::from(task % 7));
            match task % 4 {
                1 => entry.pool("first"),
                2 => entry.pool("second"),
                _ => entry,
            }
        },
    )
}

/// A policy that is asked for each task without a pool, keeps account of it, and admits it.
pub fn admitting(plan: &Plan) -> Box<dyn Policy> {
    let mut budget = ResourceBudget::new();
    let memory = budget.axis("memory", 64);
    plan.tasks().for_each(|task| _ = budget.cost(task, memory, 1 + task.index() as u64 % 3));
    Box::new(budget)
}
