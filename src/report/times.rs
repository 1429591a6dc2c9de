//! Where the time of a graph's run went: when each task was ready, which one it waited for, and the critical path.
//! It does not know why a task that was ready did not start at once; its outcome does.
#![forbid(unsafe_code)]

use crate::graph::{Plan, RunReport, TaskId};
use std::time::Duration;

/// No task.
const NOBODY: u32 = u32::MAX;

/// The times of a run's tasks, since the run began, and how they hang together.
///
/// A task is *ready* when the last of its dependencies has ended; that one is what it *waited for*. The *critical path* is the
/// chain that leads to the task which ended last: each task of it waited for the one before. A task that did not run, such as a
/// group, ends when it is ready.
///
/// ```
/// use shardrun::{Plan, Run, RunTimes, Runtime};
///
/// let mut plan = Plan::builder();
/// let compile = plan.task("compile").id();
/// let test = plan.task("test").after(compile).id();
/// let runtime = Runtime::builder().workers(1).build()?;
/// let report = Run::<()>::new(plan.build()?).start(&runtime, |_| ()).wait()?;
/// let times = RunTimes::new(&report);
/// assert_eq!(times.waited_for(test), Some(compile));
/// assert_eq!(times.critical_path(), [compile, test]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RunTimes {
    ready: Box<[Duration]>,
    ended: Box<[Duration]>,
    waited_for: Box<[u32]>,
    path: Vec<TaskId>,
}

impl RunTimes {
    /// Of a run that is over, in time linear in tasks and dependencies.
    #[must_use]
    pub fn new<X>(report: &RunReport<X>) -> Self {
        let plan = report.plan();
        let mut times = Self {
            ready: vec![Duration::ZERO; plan.len()].into(),
            ended: vec![Duration::ZERO; plan.len()].into(),
            waited_for: vec![NOBODY; plan.len()].into(),
            path: Vec::new(),
        };
        for &task in plan.order() {
            let at = task as usize;
            for dependency in plan.dependencies(TaskId(task)) {
                let ended = times.ended[dependency.index()];
                if times.waited_for[at] == NOBODY || ended > times.ready[at] {
                    (times.ready[at], times.waited_for[at]) = (ended, dependency.0);
                }
            }
            let outcome = report.outcome(TaskId(task));
            let own = if outcome.ran() { outcome.began() + outcome.duration() } else { Duration::ZERO };
            times.ended[at] = own.max(times.ready[at]);
        }
        let last = plan.tasks().max_by_key(|task| (times.ended[task.index()], std::cmp::Reverse(*task)));
        let mut next = last;
        while let Some(task) = next {
            times.path.push(task);
            next = times.waited_for(task);
        }
        times.path.reverse();
        times
    }

    /// When the last of the task's dependencies had ended: zero for a task without.
    ///
    /// # Panics
    /// Here and below: if the task is not of the run's plan.
    #[must_use]
    pub fn ready(&self, task: TaskId) -> Duration {
        self.ready[task.index()]
    }

    /// When the task ended.
    #[must_use]
    pub fn ended(&self, task: TaskId) -> Duration {
        self.ended[task.index()]
    }

    /// The dependency that ended last.
    #[must_use]
    pub fn waited_for(&self, task: TaskId) -> Option<TaskId> {
        Some(self.waited_for[task.index()]).filter(|task| *task != NOBODY).map(TaskId)
    }

    /// The tasks that waited for this one when all else that they depend on had ended.
    pub fn held_up<'a>(&'a self, task: TaskId, plan: &'a Plan) -> impl Iterator<Item = TaskId> + 'a {
        plan.dependents(task).filter(move |dependent| self.waited_for(*dependent) == Some(task))
    }

    /// The chain of tasks that leads to the one which ended last, first to last.
    #[must_use]
    pub fn critical_path(&self) -> &[TaskId] {
        &self.path
    }
}
