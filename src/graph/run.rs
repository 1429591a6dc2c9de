//! A run to be started: mode, policies, observer and place; and what holds a run that was started.
//! It does not know how the run is decided.
#![forbid(unsafe_code)]

use super::course;
use super::ended::TaskEnd;
use super::engine::{Body, Engine, Message, Parts};
use super::ids::TaskId;
use super::machine::{Machine, Rules};
use super::observer::RunObserver;
use super::outcome::{Ledger, RunReport};
use super::plan::Plan;
use super::policy::Policy;
use super::status::ContinueMode;
use super::task::{Ran, TaskCx};
use crate::flight::{CancellationToken, Handle, Interrupt, catch};
use crate::runtime::{Place, Priority, Runtime};
use crate::sync::{Arc, Weak};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A run of a [`Plan`], to be started. `X` is the host's own value that outcomes may carry.
///
/// ```
/// use shardrun::{Plan, Run, Runtime};
///
/// let mut plan = Plan::builder();
/// let compile = plan.task("compile").id();
/// let test = plan.task("test").after(compile).id();
/// let plan = plan.build()?;
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let run = Run::<()>::new(plan).start(&runtime, |task| {
///     assert!(task.upstream().all(|dependency| dependency.outcome.is_some()));
/// });
/// let report = run.wait()?;
/// assert!(report.is_success());
/// assert!(report.outcome(test).ran());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a run does nothing before it is started"]
pub struct Run<X = ()> {
    plan: Arc<Plan>,
    mode: ContinueMode,
    policies: Vec<Box<dyn Policy>>,
    drain_after: Option<u32>,
    timed: bool,
    place: Place,
    observer: Option<Box<dyn RunObserver<X>>>,
    abort_on: Option<CancellationToken>,
}

impl<X: Send + Sync + 'static> Run<X> {
    /// A run of a plan. The plan may be run many times, at once too.
    pub fn new(plan: impl Into<Arc<Plan>>) -> Self {
        Self {
            plan: plan.into(),
            mode: ContinueMode::default(),
            policies: Vec::new(),
            drain_after: None,
            timed: false,
            place: Place::workers(Priority::Background),
            observer: None,
            abort_on: None,
        }
    }

    /// How it goes on after a failure.
    pub fn mode(mut self, mode: ContinueMode) -> Self {
        self.mode = mode;
        self
    }

    /// Adds an admission policy. All must admit; they are asked in the order in which they were added.
    pub fn policy(mut self, policy: Box<dyn Policy>) -> Self {
        self.policies.push(policy);
        self
    }

    /// Once so many later tasks have started past the task that was refused first, what takes from the axis that it waits for
    /// must wait until it has started. Without a word a large task may wait until nothing smaller is left.
    pub fn drain_after(mut self, starts: u32) -> Self {
        self.drain_after = Some(starts);
        self
    }

    /// Measures how long each task waits for a slot, at the price of a clock reading per decision. Runs with policies are
    /// timed anyway.
    pub fn timed(mut self, timed: bool) -> Self {
        self.timed = timed;
        self
    }

    /// Where bodies run, and how urgent they are: background work on the workers if nothing is said. Bodies that block, as on
    /// a child process, belong on the I/O threads.
    pub fn place(mut self, place: impl Into<Place>) -> Self {
        self.place = place.into();
        self
    }

    /// Who watches it. Without one what tasks fail with, and what is odd, is written to standard error, a line each.
    pub fn observer(mut self, observer: impl RunObserver<X> + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Aborts the run when the token is cancelled. One that is cancelled already lets nothing start.
    pub fn abort_on(mut self, token: &CancellationToken) -> Self {
        self.abort_on = Some(token.clone());
        self
    }

    /// Starts the run with a closure that is called once for every task that runs, on the runtime's threads.
    pub fn start<R: TaskEnd<X>>(
        self,
        runtime: &Runtime,
        body: impl Fn(&TaskCx<X>) -> R + Send + Sync + 'static,
    ) -> RunHandle<X> {
        self.launch(runtime, Box::new(Closure(body)))
    }

    /// Starts the run with a closure that makes a future for every task that runs. A pending future holds its slot, but no
    /// thread.
    pub fn start_async<F>(
        self,
        runtime: &Runtime,
        body: impl Fn(TaskCx<X>) -> F + Send + Sync + 'static,
    ) -> RunHandle<X>
    where
        F: Future + Send + 'static,
        F::Output: TaskEnd<X>,
    {
        self.launch(runtime, Box::new(Futures(body)))
    }

    fn launch(self, runtime: &Runtime, body: Box<dyn Body<X>>) -> RunHandle<X> {
        let workers = u32::try_from(runtime.workers().max(1)).unwrap_or(u32::MAX);
        let has_policies = !self.policies.is_empty();
        let rules = Rules {
            mode: self.mode,
            concurrency: self.plan.concurrency().unwrap_or(workers),
            policies: self.policies,
            drain_after: self.drain_after,
            timed: self.timed,
        };
        let engine = Engine::new(Parts {
            ledger: Arc::new(Ledger::new(self.plan.clone())),
            body,
            spawner: runtime.spawner().clone(),
            place: self.place,
            stop: CancellationToken::new(),
            machine: Machine::new(self.plan, rules),
            observer: self.observer,
        });
        let control = RunControl { engine: Arc::downgrade(&engine) };
        let handle = course::launch(engine, self.abort_on.as_ref(), |engine| engine.begin(has_policies));
        RunHandle { handle, control }
    }
}

impl<X> fmt::Debug for Run<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("tasks", &self.plan.len()).field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// Bodies that are calls.
struct Closure<F>(F);

impl<X, F, R> Body<X> for Closure<F>
where
    X: Send + Sync + 'static,
    F: Fn(&TaskCx<X>) -> R + Send + Sync,
    R: TaskEnd<X>,
{
    fn run(&self, cx: &TaskCx<X>) -> Ran<X> {
        Ran::Over(catch(|| (self.0)(cx).into_end()))
    }
}

/// Bodies that are futures.
struct Futures<F>(F);

impl<X, F, U> Body<X> for Futures<F>
where
    X: Send + Sync + 'static,
    F: Fn(TaskCx<X>) -> U + Send + Sync,
    U: Future + Send + 'static,
    U::Output: TaskEnd<X>,
{
    fn run(&self, cx: &TaskCx<X>) -> Ran<X> {
        match catch(|| (self.0)(cx.clone())) {
            Ok(future) => Ran::Later(Box::new(move |running| running.spawn(future))),
            Err(report) => Ran::Over(Err(report)),
        }
    }
}

/// The claim on a run's report: await it, wait for it, or look whether it is there. Dropping it detaches: the run goes on.
#[must_use = "dropping the handle detaches the run and loses its report; say `detach()` if that is meant"]
pub struct RunHandle<X: Send + Sync + 'static = ()> {
    handle: Handle<RunReport<X>, RunError>,
    control: RunControl<X>,
}

impl<X: Send + Sync + 'static> RunHandle<X> {
    /// Waits until every task has its outcome.
    ///
    /// A thread that waits inside a job runs tasks of the run meanwhile, if the run was begun inside a job: so runs inside the tasks
    /// of runs end on one thread, too, as deep as its stack allows. It polls no tasks that are futures, and of a run that was begun
    /// outside it runs nothing: those need other threads, or a spare in this one's place
    /// ([`max_spares`](crate::RuntimeBuilder::max_spares)); on a runtime without threads such a wait is refused.
    ///
    /// # Errors
    /// If waiting here could never end. The run is then detached, and goes on.
    pub fn wait(self) -> Result<RunReport<X>, RunError> {
        self.handle.wait()
    }

    /// As [`wait`](Self::wait), for at most `limit`; none if the run is not over by then.
    pub fn wait_timeout(&mut self, limit: Duration) -> Option<Result<RunReport<X>, RunError>> {
        self.handle.wait_timeout(limit)
    }

    /// The report, if the run is over.
    pub fn try_get(&mut self) -> Option<Result<RunReport<X>, RunError>> {
        self.handle.try_get()
    }

    /// Lets the run go on without a handle.
    pub fn detach(self) {
        self.handle.detach();
    }

    /// What can be told to the run, from anywhere and for as long as it lasts.
    pub fn control(&self) -> RunControl<X> {
        self.control.clone()
    }

    /// As [`RunControl::abort`].
    pub fn abort(&self) {
        self.control.abort();
    }
}

impl<X: Send + Sync + 'static> Future for RunHandle<X> {
    type Output = Result<RunReport<X>, RunError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.handle).poll(cx)
    }
}

impl<X: Send + Sync + 'static> fmt::Debug for RunHandle<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("is_over", &self.handle.is_resolved()).finish_non_exhaustive()
    }
}

/// What can be told to a run while it lasts. It keeps no run alive; after the run's end nothing happens.
pub struct RunControl<X: Send + Sync + 'static = ()> {
    engine: Weak<Engine<X>>,
}

impl<X: Send + Sync + 'static> RunControl<X> {
    fn tell(&self, message: Message<X>) {
        if let Some(engine) = self.engine.upgrade() {
            engine.submit(message);
        }
    }

    /// Aborts the run: what has not started ends as aborted at once, bodies are told to stop ([`TaskCx::is_stopping`]), and
    /// the run is over when those that run have ended.
    pub fn abort(&self) {
        self.tell(Message::Abort);
    }

    /// A server of the run, ready by now, has died: what has not started and depends on it, also through groups, is skipped;
    /// to a run that stops at failures it is one. Told while the server's body runs still, it holds once that has ended well: who watches
    /// the process need not know whether the run has heard yet that it is ready.
    pub fn server_died(&self, task: TaskId) {
        self.tell(Message::ServerDied(task.0));
    }

    /// A server of the run has exited in an orderly way: what was reserved until then is free. Told while the server's body runs still,
    /// it keeps nothing reserved beyond the end of that.
    pub fn server_exited(&self, task: TaskId) {
        self.tell(Message::ServerExited(task.0));
    }

    /// Asks the policies again about what they refused until a word from outside.
    pub fn wake_policies(&self) {
        self.tell(Message::Woken { outside: true });
    }
}

impl<X: Send + Sync + 'static> Clone for RunControl<X> {
    fn clone(&self) -> Self {
        Self { engine: self.engine.clone() }
    }
}

impl<X: Send + Sync + 'static> fmt::Debug for RunControl<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunControl")
    }
}

/// Why there is no report.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The wait was given up; the run itself goes on, unless it was cancelled.
    Interrupted(Interrupt),
}

impl From<Interrupt> for RunError {
    fn from(interrupt: Interrupt) -> Self {
        RunError::Interrupted(interrupt)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no report of the run")
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let RunError::Interrupted(interrupt) = self;
        Some(interrupt)
    }
}
