//! What a host may say about when local tasks start: policies, their answers, and what wakes a refused task.
//! It does not know how refused tasks are kept.
#![forbid(unsafe_code)]

use super::ids::TaskId;
use super::plan::Plan;
use crate::sync::Arc;
use smallvec::SmallVec;
use std::fmt;
use std::time::Duration;

/// Something limited, numbered by the policy that watches over it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Axis(pub u16);

/// An admission policy of one run.
///
/// It is asked only for local tasks that could start now: a slot is free, the task is ready, and nothing it depends on
/// went wrong. Restores and tasks in pools are exempt. Where several policies are given, all must admit.
///
/// Its methods run inside the run's decision: one call at a time, on any thread, while other threads go on. They must be
/// short and must not wait. A method that panics is told once to the observer; from then on that policy admits everything.
pub trait Policy: Send {
    /// The name by which messages call it.
    fn name(&self) -> &str;

    /// The run begins. What is returned is told to the observer as warnings.
    fn begin(&mut self, plan: &Plan, waker: &PolicyWaker) -> Vec<String> {
        let _ = (plan, waker);
        Vec::new()
    }

    /// May this task start beside those that run?
    fn ask(&mut self, task: TaskId, running: &Running<'_>) -> Answer;

    /// Whether the task takes anything of the axis. Asked when a task that waits for the axis has been passed over too
    /// often, and what takes from it must wait until that one has started.
    fn takes(&mut self, task: TaskId, axis: Axis) -> bool {
        let _ = (task, axis);
        true
    }

    /// A local task starts, whether this policy was asked or overruled.
    fn started(&mut self, task: TaskId) {
        let _ = task;
    }

    /// A local task gave its slot back. Says which axes have more room than before.
    fn finished(&mut self, task: TaskId, usage: Usage, freed: &mut Freed) {
        let _ = (task, usage, freed);
    }

    /// The run is over. What is returned is told to the observer as warnings.
    fn end(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// What a policy may look at when asked.
#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    pub(crate) tasks: &'a [TaskId],
    pub(crate) concurrency: u32,
}

impl Running<'_> {
    /// The local tasks that run, in no order: neither restores nor tasks in pools.
    pub fn tasks(&self) -> &[TaskId] {
        self.tasks
    }

    /// How many local tasks may run at a time.
    pub fn concurrency(&self) -> u32 {
        self.concurrency
    }
}

/// What a task's body said that it used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Usage {
    /// The most memory that it held, in bytes.
    pub peak_memory: Option<u64>,
}

/// The axes that have more room since a task ended.
#[derive(Clone, Debug, Default)]
pub struct Freed(pub(crate) SmallVec<[Axis; 4]>);

impl Freed {
    /// There is more room on this axis.
    pub fn axis(&mut self, axis: Axis) {
        if !self.0.contains(&axis) {
            self.0.push(axis);
        }
    }
}

/// A policy's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The task may start.
    Admit,
    /// It may not yet.
    Refuse(Refusal),
}

/// Why not, until when, and for whom else this holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// When to ask again.
    pub wake: Wake,
    /// Whom it spares asking until then.
    pub covers: Covers,
    /// The axis that was short, for the report.
    pub axis: Option<Axis>,
}

/// When to ask again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Wake {
    /// When anything of the run has ended.
    Completion,
    /// When there is more room on this axis of the policy's.
    Axis(Axis),
    /// When no local task runs.
    Idle,
    /// After this long, or when anything of the run has ended.
    After(Duration),
    /// When the policy's [`PolicyWaker`] says so, or when anything of the run has ended.
    Outside,
}

/// Whom a refusal covers. The wider, the less is asked in vain: a policy that refuses thousands of waiting tasks one by one
/// is asked for all of them at each wake.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Covers {
    /// This task alone.
    Task,
    /// Every task that would be refused with the same number.
    Class(u64),
    /// Every task.
    All,
}

impl Answer {
    /// Not before there is more room on `axis`; holds for all tasks with the same `class`.
    pub fn wait_for(axis: Axis, class: u64) -> Self {
        Answer::Refuse(Refusal { wake: Wake::Axis(axis), covers: Covers::Class(class), axis: Some(axis) })
    }

    /// No task at all before `wake`.
    pub fn close_until(wake: Wake) -> Self {
        Answer::Refuse(Refusal { wake, covers: Covers::All, axis: None })
    }

    /// Not this task before something has ended.
    pub fn not_yet() -> Self {
        Answer::Refuse(Refusal { wake: Wake::Completion, covers: Covers::Task, axis: None })
    }
}

impl From<bool> for Answer {
    fn from(admit: bool) -> Self {
        if admit { Answer::Admit } else { Answer::not_yet() }
    }
}

/// Wakes what a policy refused with [`Wake::Outside`] or [`Wake::After`], from any thread. It keeps no run alive.
#[derive(Clone)]
pub struct PolicyWaker(pub(crate) Arc<dyn Fn() + Send + Sync>);

impl PolicyWaker {
    /// Asks again for what waits for an outside wake.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for PolicyWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PolicyWaker")
    }
}

/// A policy made of a name and a closure, which answers `true`, `false` or an [`Answer`].
pub fn policy_fn<A, F>(name: impl Into<String>, ask: F) -> Box<dyn Policy>
where
    A: Into<Answer>,
    F: FnMut(TaskId, &Running<'_>) -> A + Send + 'static,
{
    Box::new(Asked { name: name.into(), ask })
}

struct Asked<F> {
    name: String,
    ask: F,
}

impl<A: Into<Answer>, F: FnMut(TaskId, &Running<'_>) -> A + Send> Policy for Asked<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&mut self, task: TaskId, running: &Running<'_>) -> Answer {
        (self.ask)(task, running).into()
    }
}
