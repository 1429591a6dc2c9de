//! The policy of limited resources: any number of named axes, each with a capacity in whole units.
//! It does not know where capacities and costs come from.
#![forbid(unsafe_code)]

use super::ids::TaskId;
use super::plan::Plan;
use super::policy::{Answer, Axis, Covers, Freed, Policy, PolicyWaker, Refusal, Running, Usage, Wake};
use ahash::AHashMap;
use smallvec::SmallVec;

/// When a task that wants more of an axis than there is may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Solo {
    /// When no other task that runs takes anything of that axis.
    #[default]
    AmongHolders,
    /// When no other local task runs at all.
    Machine,
}

/// An admission policy that keeps the tasks that run within capacities.
///
/// Amounts are whole units (thousandths of a core, bytes), so that they add up exactly. A task that takes nothing of an axis
/// is never held by it, and one that wants more than there is runs alone (see [`Solo`]).
///
/// ```
/// use shardrun::{ResourceBudget, Plan, Run, Runtime};
///
/// let mut plan = Plan::builder();
/// let link = plan.task("link").id();
/// let migrate = plan.task("migrate").id();
/// let plan = plan.build()?;
///
/// let mut budget = ResourceBudget::new();
/// let memory = budget.axis("memory", 8 << 30);
/// budget.cost(link, memory, 6 << 30);
/// budget.mutex(migrate, "database");
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let run = Run::<()>::new(plan).policy(Box::new(budget)).start(&runtime, |_| ());
/// assert!(run.wait()?.is_success());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct ResourceBudget {
    axes: Vec<State>,
    places: AHashMap<String, u16>,
    costs: Costs,
    solo: Solo,
    memory: Option<Axis>,
    over: Vec<String>,
    names: AHashMap<u32, String>,
}

/// What tasks take of axes: of each task up to the last of which something was said; and what every task takes of these axes if
/// nothing is said of it.
#[derive(Debug, Default)]
struct Costs {
    own: Vec<SmallVec<[(u16, u64); 1]>>,
    everybody: Vec<(u16, u64)>,
}

impl Costs {
    fn of(&self, task: TaskId) -> impl Iterator<Item = (u16, u64)> + '_ {
        let own = self.own.get(task.index()).map(SmallVec::as_slice).unwrap_or_default();
        let rest = self.everybody.iter().filter(|(axis, _)| !own.iter().any(|(of, _)| of == axis));
        own.iter().chain(rest).copied().filter(|(_, amount)| *amount > 0)
    }
}

#[derive(Debug)]
struct State {
    name: String,
    capacity: u64,
    used: u128,
    holders: u32,
}

impl ResourceBudget {
    /// A budget without axes, which admits everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// When tasks that want more than there is may start.
    pub fn solo(&mut self, solo: Solo) -> &mut Self {
        self.solo = solo;
        self
    }

    /// Adds an axis, or sets the capacity of the one with this name.
    ///
    /// # Panics
    /// With more than 2¹⁶ axes.
    pub fn axis(&mut self, name: &str, capacity: u64) -> Axis {
        if let Some(at) = self.places.get(name) {
            self.axes[usize::from(*at)].capacity = capacity;
            return Axis(*at);
        }
        let at = u16::try_from(self.axes.len()).unwrap_or_else(|_| panic!("a budget has at most 65,536 axes"));
        self.places.insert(name.to_owned(), at);
        self.axes.push(State { name: name.to_owned(), capacity, used: 0, holders: 0 });
        Axis(at)
    }

    /// A task takes so much of an axis while it runs. Said twice, the last word counts.
    pub fn cost(&mut self, task: TaskId, axis: Axis, amount: u64) -> &mut Self {
        if self.costs.own.len() <= task.index() {
            self.costs.own.resize_with(task.index() + 1, SmallVec::new);
        }
        let costs = &mut self.costs.own[task.index()];
        costs.retain(|(of, _)| *of != axis.0);
        costs.push((axis.0, amount));
        self
    }

    /// At most one of the tasks with this name of a mutex runs at a time.
    pub fn mutex(&mut self, task: TaskId, name: &str) -> &mut Self {
        let axis = self.axis(&format!("mutex {name}"), 1);
        self.cost(task, axis, 1)
    }

    /// No other local task runs beside this one.
    pub fn exclusive(&mut self, task: TaskId) -> &mut Self {
        let capacity = u64::from(u32::MAX);
        let axis = self.axis("exclusive", capacity);
        self.by_everybody(axis, 1);
        self.cost(task, axis, capacity)
    }

    /// The task takes so many of `slots` in all; every other takes one.
    pub fn weight(&mut self, task: TaskId, slots: u64, of: u64) -> &mut Self {
        let axis = self.axis("slots", of);
        self.by_everybody(axis, 1);
        self.cost(task, axis, slots)
    }

    /// Tasks of which nothing else is said take so much of an axis.
    pub fn by_everybody(&mut self, axis: Axis, amount: u64) -> &mut Self {
        self.costs.everybody.retain(|(of, _)| *of != axis.0);
        self.costs.everybody.push((axis.0, amount));
        self
    }

    /// What tasks take of this axis is compared with the peak memory that their bodies say they held; after the run there is a
    /// warning for each that held more.
    pub fn measure_memory(&mut self, axis: Axis) -> &mut Self {
        self.memory = Some(axis);
        self
    }

    /// How much of an axis is taken by the tasks that run.
    pub fn used(&self, axis: Axis) -> u128 {
        self.axes[usize::from(axis.0)].used
    }
}

impl Policy for ResourceBudget {
    fn name(&self) -> &str {
        "resource budget"
    }

    fn begin(&mut self, plan: &Plan, _: &PolicyWaker) -> Vec<String> {
        let mut warnings = Vec::new();
        for task in plan.tasks() {
            for (at, amount) in self.costs.of(task) {
                let State { name, capacity, .. } = &self.axes[usize::from(at)];
                if amount > *capacity {
                    let task = plan.label(task);
                    warnings
                        .push(format!("{task} wants {amount} of {name}, of which there is {capacity}: it runs alone"));
                }
            }
        }
        if self.memory.is_some() {
            let said = plan.tasks().zip(&self.costs.own).filter(|(_, costs)| !costs.is_empty());
            self.names = said.map(|(task, _)| (task.0, plan.label(task))).collect();
        }
        warnings
    }

    fn ask(&mut self, task: TaskId, running: &Running<'_>) -> Answer {
        for (at, amount) in self.costs.of(task) {
            let State { capacity, used, holders, .. } = &self.axes[usize::from(at)];
            let fits = if amount <= *capacity {
                used + u128::from(amount) <= u128::from(*capacity)
            } else {
                match self.solo {
                    Solo::AmongHolders => *holders == 0,
                    Solo::Machine if running.tasks().is_empty() => true,
                    Solo::Machine => {
                        let covers = Covers::Class(u64::MAX - u64::from(at));
                        return Answer::Refuse(Refusal { wake: Wake::Idle, covers, axis: Some(Axis(at)) });
                    }
                }
            };
            if !fits {
                return Answer::wait_for(Axis(at), amount);
            }
        }
        Answer::Admit
    }

    fn takes(&mut self, task: TaskId, axis: Axis) -> bool {
        self.costs.of(task).any(|(at, _)| at == axis.0)
    }

    fn started(&mut self, task: TaskId) {
        for (at, amount) in self.costs.of(task) {
            let axis = &mut self.axes[usize::from(at)];
            axis.used += u128::from(amount);
            axis.holders += 1;
        }
    }

    fn finished(&mut self, task: TaskId, usage: Usage, freed: &mut Freed) {
        for (at, amount) in self.costs.of(task) {
            let axis = &mut self.axes[usize::from(at)];
            axis.used -= u128::from(amount);
            axis.holders -= 1;
            freed.axis(Axis(at));
            let peak = usage.peak_memory.filter(|peak| self.memory == Some(Axis(at)) && *peak > amount);
            if let Some(peak) = peak {
                let name = self.names.get(&task.0).cloned().unwrap_or_else(|| task.to_string());
                self.over.push(format!("{name} held {peak} bytes at its peak, and {amount} were reserved"));
            }
        }
    }

    fn end(&mut self) -> Vec<String> {
        std::mem::take(&mut self.over)
    }
}
