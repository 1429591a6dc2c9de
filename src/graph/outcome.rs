//! What became of each task and of the run as a whole.
//! It does not know how it was decided.
#![forbid(unsafe_code)]

use super::ids::TaskId;
use super::machine::Held;
use super::plan::Plan;
use super::policy::Axis;
use super::status::TaskStatus;
use crate::flight::drop_contained;
use crate::sync::{Arc, OnceLock};
use std::fmt;
use std::time::Duration;

/// There is no task of this number.
const NOBODY: u32 = u32::MAX;

/// What became of one task. `X` is the host's own, passed through untouched: a hash, a verdict, a fingerprint.
#[derive(Clone, PartialEq)]
pub struct TaskOutcome<X = ()> {
    pub(crate) task: u32,
    pub(crate) status: TaskStatus,
    pub(crate) tainted: bool,
    pub(crate) ran: bool,
    pub(crate) exit_code: i32,
    pub(crate) attempts: u32,
    pub(crate) blocked_by: u32,
    /// Times are nanoseconds.
    pub(crate) began: u64,
    pub(crate) duration: u64,
    pub(crate) slot_wait: u64,
    pub(crate) held: Option<Box<Held>>,
    pub(crate) more: Option<Box<More<X>>>,
}

/// What few outcomes have.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct More<X> {
    pub(crate) value: Option<X>,
    pub(crate) peak_memory: Option<u64>,
    pub(crate) message: Option<String>,
}

impl<X> More<X> {
    pub(crate) fn boxed(value: Option<X>, peak_memory: Option<u64>, message: Option<String>) -> Option<Box<Self>> {
        let said = value.is_some() || peak_memory.is_some() || message.is_some();
        said.then(|| Box::new(Self { value, peak_memory, message }))
    }
}

impl<X> TaskOutcome<X> {
    /// Of a task whose body was not run.
    pub(crate) fn unrun(task: u32, status: TaskStatus) -> Self {
        Self {
            task,
            status,
            tainted: false,
            ran: false,
            exit_code: i32::from(!status.is_pass()),
            attempts: 1,
            blocked_by: NOBODY,
            began: 0,
            duration: 0,
            slot_wait: 0,
            held: None,
            more: None,
        }
    }

    /// Of a task whose body ran to an end of its own.
    pub(crate) fn of_body(task: u32, status: TaskStatus) -> Self {
        Self { ran: true, ..Self::unrun(task, status) }
    }

    pub(crate) fn block(&mut self, by: Option<u32>) {
        self.blocked_by = by.unwrap_or(NOBODY);
    }

    /// The task.
    pub fn task(&self) -> TaskId {
        TaskId(self.task)
    }

    /// How it ended.
    pub fn status(&self) -> TaskStatus {
        self.status
    }

    /// Whether its body ran to an end of its own.
    pub fn ran(&self) -> bool {
        self.ran
    }

    /// What its body gave as exit code; 0 for passes and 1 for all else if it gave none.
    pub fn exit_code(&self) -> i32 {
        self.exit_code
    }

    /// How long its body took in this run: zero if it did not run, or ended in an error.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration)
    }

    /// When its body was begun, since the run began; zero if it did not run.
    pub fn began(&self) -> Duration {
        Duration::from_nanos(self.began)
    }

    /// How often the body says that it tried.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// For a task that did not run: the failed or aborted task, or dead server, at the root of it. None where the run had
    /// stopped for another reason.
    pub fn blocked_by(&self) -> Option<TaskId> {
        (self.blocked_by != NOBODY).then_some(TaskId(self.blocked_by))
    }

    /// Under [`ContinueMode::Always`](crate::ContinueMode::Always): whether it stands behind a failure, at any distance, so
    /// that its result must not be kept.
    ///
    /// Of a restore that ended before its dependencies this says only what was known then; what depends on it is told the
    /// whole.
    pub fn is_tainted(&self) -> bool {
        self.tainted
    }

    /// How long policies held it though a slot was free: at least a millisecond, and none for a task never so refused, or one
    /// that did not run.
    pub fn held(&self) -> Option<Duration> {
        self.held.as_ref().map(|held| held.held)
    }

    /// How often policies refused it.
    pub fn refusals(&self) -> u32 {
        self.held.as_ref().map_or(0, |held| held.refusals)
    }

    /// The policy that refused it last, by its place in the run, and the axis that was short.
    pub fn refused_by(&self) -> Option<(usize, Option<Axis>)> {
        self.held.as_ref()?.refused_by.map(|(policy, axis)| (usize::from(policy), axis))
    }

    /// How long it was ready and not held and yet did not start: it waited for a slot. Zero unless the run is timed.
    pub fn slot_wait(&self) -> Duration {
        Duration::from_nanos(self.slot_wait)
    }

    /// The most memory that its body says it held, in bytes.
    pub fn peak_memory(&self) -> Option<u64> {
        self.more.as_ref()?.peak_memory
    }

    /// What its error or panic said.
    pub fn message(&self) -> Option<&str> {
        self.more.as_ref()?.message.as_deref()
    }

    /// The host's own value.
    pub fn value(&self) -> Option<&X> {
        self.more.as_ref()?.value.as_ref()
    }
}

impl<X> fmt::Debug for TaskOutcome<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("TaskOutcome");
        out.field("task", &self.task()).field("status", &self.status).field("exit_code", &self.exit_code);
        if let Some(root) = self.blocked_by() {
            out.field("blocked_by", &root);
        }
        out.finish_non_exhaustive()
    }
}

/// The plan and the outcomes that there are: each is written once, before anything that may look at it starts.
pub(crate) struct Ledger<X> {
    pub(crate) plan: Arc<Plan>,
    pub(crate) outcomes: Box<[OnceLock<TaskOutcome<X>>]>,
}

/// The host's values are dropped one by one: each may panic.
impl<X> Drop for Ledger<X> {
    fn drop(&mut self) {
        if std::mem::needs_drop::<X>() {
            self.outcomes.iter_mut().for_each(|outcome| drop_contained(outcome.take()));
        }
    }
}

impl<X> Ledger<X> {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        let outcomes = (0..plan.len()).map(|_| OnceLock::new()).collect();
        Self { plan, outcomes }
    }

    pub(crate) fn get(&self, task: u32) -> Option<&TaskOutcome<X>> {
        self.outcomes[task as usize].get()
    }
}

/// What became of a run: one outcome per task.
pub struct RunReport<X = ()> {
    pub(crate) ledger: Arc<Ledger<X>>,
    pub(crate) elapsed: Duration,
    pub(crate) warnings: Vec<String>,
}

/// How many tasks ended in which way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Ran and succeeded.
    pub succeeded: usize,
    /// Taken from a cache, near or far.
    pub cached: usize,
    /// Failed.
    pub failed: usize,
    /// Skipped.
    pub skipped: usize,
    /// Aborted.
    pub aborted: usize,
}

impl<X> RunReport<X> {
    /// The plan that was run.
    pub fn plan(&self) -> &Plan {
        &self.ledger.plan
    }

    /// What became of a task.
    ///
    /// # Panics
    /// If the task is not of this plan.
    pub fn outcome(&self, task: TaskId) -> &TaskOutcome<X> {
        match self.ledger.get(task.0) {
            Some(outcome) => outcome,
            None => unreachable!("a run is over when every task has its outcome"),
        }
    }

    /// All outcomes in order of insertion.
    pub fn outcomes(&self) -> impl ExactSizeIterator<Item = &TaskOutcome<X>> + '_ {
        self.ledger.plan.tasks().map(|task| self.outcome(task))
    }

    /// How many tasks ended in which way.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for outcome in self.outcomes() {
            *match outcome.status {
                TaskStatus::Success => &mut tally.succeeded,
                TaskStatus::CacheHit | TaskStatus::CacheHitRemote => &mut tally.cached,
                TaskStatus::Failed => &mut tally.failed,
                TaskStatus::Skipped => &mut tally.skipped,
                TaskStatus::Aborted => &mut tally.aborted,
            } += 1;
        }
        tally
    }

    /// Whether every task ended well.
    pub fn is_success(&self) -> bool {
        self.outcomes().all(|outcome| outcome.status.is_pass())
    }

    /// How long the run took on the runtime's clock.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// What policies and observers gave occasion to warn of, in order.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl<X> Clone for RunReport<X> {
    fn clone(&self) -> Self {
        Self { ledger: self.ledger.clone(), elapsed: self.elapsed, warnings: self.warnings.clone() }
    }
}

impl<X> fmt::Debug for RunReport<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunReport").field("tasks", &self.ledger.plan.len()).field("elapsed", &self.elapsed).finish()
    }
}
