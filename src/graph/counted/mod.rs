//! Runs of plans that say nothing but what comes after what: counters decide, and nobody sorts, times or keeps outcomes.
//! It does not know lanes, priorities or policies; a plan that speaks of them is refused.

mod crew;
pub(crate) mod hands;
pub(crate) mod seats;
pub(crate) mod word;

use super::course;
use super::ids::TaskId;
use super::plan::Plan;
use super::run::RunError;
use super::status::{ContinueMode, TaskStatus};
use crate::flight::{CancellationToken, Handle};
use crate::runtime::{Place, Priority, Runtime};
use crate::sync::Arc;
use crew::{Crew, Parts};
use std::fmt;
use std::time::Duration;

/// A run of a uniform [`Plan`], in the cheapest way there is: about two dozen nanoseconds a task and no allocation per task.
///
/// Ready tasks start in no particular order, their outcomes are not kept if they are good, and a task that made another
/// ready runs that one next on the same worker. Workers share what else is ready by stealing. For anything more take
/// [`Run`](crate::Run).
///
/// ```
/// use shardrun::{CountedRun, Plan, Runtime};
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use std::sync::Arc;
///
/// let mut plan = Plan::builder();
/// let mut last = plan.task("").id();
/// for _ in 0..999 {
///     last = plan.task("").after(last).id();
/// }
/// let plan = plan.build()?;
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let ran = Arc::new(AtomicUsize::new(0));
/// let count = ran.clone();
/// let run = CountedRun::new(plan)?.start(&runtime, move |_task| {
///     count.fetch_add(1, Ordering::Relaxed);
/// });
/// assert!(run.wait()?.is_success());
/// assert_eq!(ran.load(Ordering::Relaxed), 1_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a run does nothing before it is started"]
#[derive(Debug)]
pub struct CountedRun {
    plan: Arc<Plan>,
    mode: ContinueMode,
    place: Place,
    abort_on: Option<CancellationToken>,
}

/// A plan that speaks of weights, durations, pools, restores, groups or servers, which a [`CountedRun`] knows nothing of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotUniform;

impl fmt::Display for NotUniform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the plan says more than what comes after what; run it with `Run`")
    }
}

impl std::error::Error for NotUniform {}

/// What a body of a counted run may answer: nothing (it succeeded), a [`TaskStatus`], or a `Result` whose error is a failure.
pub trait CountedEnd {
    /// How the body ended.
    fn status(self) -> TaskStatus;
}

impl CountedEnd for () {
    #[inline(always)]
    fn status(self) -> TaskStatus {
        TaskStatus::Success
    }
}

impl CountedEnd for TaskStatus {
    #[inline(always)]
    fn status(self) -> TaskStatus {
        self
    }
}

impl<T: CountedEnd, E> CountedEnd for Result<T, E> {
    #[inline(always)]
    fn status(self) -> TaskStatus {
        self.map_or(TaskStatus::Failed, CountedEnd::status)
    }
}

impl CountedRun {
    /// A run of a plan, which may be run many times, at once too.
    ///
    /// # Errors
    /// If the plan says more than what comes after what ([`Plan::is_uniform`]).
    pub fn new(plan: impl Into<Arc<Plan>>) -> Result<Self, NotUniform> {
        let plan = plan.into();
        if !plan.is_uniform() {
            return Err(NotUniform);
        }
        Ok(Self { plan, mode: ContinueMode::default(), place: Place::workers(Priority::Background), abort_on: None })
    }

    /// How it goes on after a failure. [`ContinueMode::Kill`] is as `Never` here: bodies cannot be told to stop.
    pub fn mode(mut self, mode: ContinueMode) -> Self {
        self.mode = mode;
        self
    }

    /// Where bodies run, and how urgent they are: background work on the workers if nothing is said.
    pub fn place(mut self, place: impl Into<Place>) -> Self {
        self.place = place.into();
        self
    }

    /// Aborts the run when the token is cancelled.
    pub fn abort_on(mut self, token: &CancellationToken) -> Self {
        self.abort_on = Some(token.clone());
        self
    }

    /// Starts the run with a closure that is called once for every task that runs. A panic of it is a failure of that task.
    ///
    /// At most as many bodies run at a time as the plan's concurrency says, and no more than there are workers.
    pub fn start<R: CountedEnd + 'static>(
        self,
        runtime: &Runtime,
        body: impl Fn(TaskId) -> R + Send + Sync + 'static,
    ) -> Handle<CountedReport, RunError> {
        let workers = u32::try_from(runtime.workers().max(1)).unwrap_or(u32::MAX);
        let crew = Crew::new(
            Parts {
                helpers_max: self.plan.concurrency().unwrap_or(workers).min(workers),
                plan: self.plan,
                mode: self.mode,
                place: self.place,
                spawner: runtime.spawner().clone(),
            },
            body,
        );
        course::launch(crew, self.abort_on.as_ref(), |crew| crew.begin())
    }
}

/// What became of a counted run.
#[derive(Clone, Debug)]
pub struct CountedReport {
    plan: Arc<Plan>,
    elapsed: Duration,
    /// What did not end well, by task.
    bad: Vec<(u32, TaskStatus)>,
}

impl CountedReport {
    /// The plan that was run.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether every task ended well.
    pub fn is_success(&self) -> bool {
        self.bad.is_empty()
    }

    /// How long the run took on the runtime's clock.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// How a task ended.
    ///
    /// # Panics
    /// If the task is not of this plan.
    pub fn status(&self, task: TaskId) -> TaskStatus {
        assert!(task.index() < self.plan.len(), "{task} is not of this plan");
        self.bad_status(task.0).unwrap_or(TaskStatus::Success)
    }

    fn bad_status(&self, task: u32) -> Option<TaskStatus> {
        self.bad.binary_search_by_key(&task, |bad| bad.0).ok().map(|at| self.bad[at].1)
    }

    /// The tasks that did not end well, in order of insertion.
    pub fn bad(&self) -> impl ExactSizeIterator<Item = (TaskId, TaskStatus)> + '_ {
        self.bad.iter().map(|(task, status)| (TaskId(*task), *status))
    }

    /// For a skipped task: the failed or aborted task at the root of it, if it was not a stop alone.
    pub fn blocked_by(&self, task: TaskId) -> Option<TaskId> {
        let mut task = task.0;
        loop {
            if self.bad_status(task) != Some(TaskStatus::Skipped) {
                return None;
            }
            let deps = self.plan.deps().of(task);
            let of = |wanted: &[TaskStatus]| {
                deps.iter().copied().find(|dep| self.bad_status(*dep).is_some_and(|status| wanted.contains(&status)))
            };
            if let Some(root) = of(&[TaskStatus::Failed, TaskStatus::Aborted]) {
                return Some(TaskId(root));
            }
            task = of(&[TaskStatus::Skipped])?;
        }
    }
}
