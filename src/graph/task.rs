//! What a body is given: which task it is, what became of its dependencies, and whether it should stop.
//! It does not know how the run decides; when it is done it sends the answer there, exactly once.
#![forbid(unsafe_code)]

use super::ended::{Ended, Owed, TaskEnd, TaskFailure};
use super::engine::{Engine, Message};
use super::ids::TaskId;
use super::machine::{End, nanos};
use super::outcome::{More, TaskOutcome};
use super::plan::Plan;
use super::policy::Usage;
use super::status::TaskStatus;
use crate::flight::{CancellationToken, PanicReport, catch};
use crate::sync::Arc;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// What a task's body is given.
pub struct TaskCx<X: Send + Sync + 'static = ()> {
    engine: Arc<Engine<X>>,
    task: u32,
    tainted: bool,
}

/// A dependency as a body sees it.
#[derive(Debug)]
pub struct Upstream<'a, X> {
    /// The task.
    pub task: TaskId,
    /// What became of it. None only for a restore that runs before its dependencies, which must not rely on them.
    pub outcome: Option<&'a TaskOutcome<X>>,
}

impl<X: Send + Sync + 'static> TaskCx<X> {
    pub(crate) fn engine(&self) -> &Arc<Engine<X>> {
        &self.engine
    }

    /// The task.
    pub fn task(&self) -> TaskId {
        TaskId(self.task)
    }

    /// The name of the task; empty if it was given none.
    pub fn name(&self) -> &str {
        self.plan().name(self.task())
    }

    /// The plan that is run.
    pub fn plan(&self) -> &Plan {
        &self.engine.ledger.plan
    }

    /// What became of the task's dependencies, in the order in which they were said.
    pub fn upstream(&self) -> impl ExactSizeIterator<Item = Upstream<'_, X>> + '_ {
        let ledger = &self.engine.ledger;
        ledger.plan.dependencies(self.task()).map(|task| Upstream { task, outcome: ledger.get(task.0) })
    }

    /// Whether the run was aborted, or a failure has told all that runs to stop. A body that stops for it answers
    /// [`Ended::aborted`], or any error.
    pub fn is_stopping(&self) -> bool {
        self.engine.stop.is_cancelled()
    }

    /// Is cancelled when the body should stop.
    pub fn stop_token(&self) -> &CancellationToken {
        &self.engine.stop
    }

    /// Under [`ContinueMode::Always`](crate::ContinueMode::Always): whether the task stands behind a failure, so that its
    /// result must not be kept.
    pub fn is_tainted(&self) -> bool {
        self.tainted
    }
}

impl<X: Send + Sync + 'static> Clone for TaskCx<X> {
    fn clone(&self) -> Self {
        Self { engine: self.engine.clone(), ..*self }
    }
}

impl<X: Send + Sync + 'static> fmt::Debug for TaskCx<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskCx").field("task", &self.task()).finish_non_exhaustive()
    }
}

/// The right, and the duty, to run one body and to answer for it once. Dropped unused it answers that the body was lost.
pub(crate) struct Launch<X: Send + Sync + 'static> {
    engine: Option<Arc<Engine<X>>>,
    task: u32,
    again: bool,
    tainted: bool,
}

impl<X: Send + Sync + 'static> Launch<X> {
    pub(crate) fn new(engine: Arc<Engine<X>>, task: u32, again: bool, tainted: bool) -> Self {
        Self { engine: Some(engine), task, again, tainted }
    }

    /// Runs the body, or begins it if it is a future.
    pub(crate) fn run(self) {
        let Some(engine) = self.engine.clone() else { return };
        if engine.stop.is_cancelled() {
            // Not begun: the stop came between the decision and this.
            let outcome = TaskOutcome::unrun(self.task, TaskStatus::Aborted);
            let end = End::Outcome { status: TaskStatus::Aborted, owes: false };
            return self.answer(|_| Message::ended(outcome, end, Usage::default(), None));
        }
        let cx = TaskCx { engine: engine.clone(), task: self.task, tainted: self.tainted };
        if !self.again {
            engine.tell_started(self.task);
        }
        let began = engine.spawner.now();
        engine.body.run(cx, Running { launch: self, began });
    }

    fn answer(mut self, message: impl FnOnce(&Engine<X>) -> Message<X>) {
        if let Some(engine) = self.engine.take() {
            let message = message(&engine);
            engine.submit(message);
        }
    }
}

impl<X: Send + Sync + 'static> Drop for Launch<X> {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.lost(self.task);
        }
    }
}

/// A body that was begun.
pub(crate) struct Running<X: Send + Sync + 'static> {
    launch: Launch<X>,
    began: Duration,
}

impl<X: Send + Sync + 'static> Running<X> {
    /// The body is over.
    pub(crate) fn over(self, result: Result<Result<Ended<X>, TaskFailure>, PanicReport>) {
        let failure = match result {
            Ok(Ok(ended)) => return self.ended(ended),
            Ok(Err(TaskFailure::NothingToRestore)) if self.launch.is_restore() => {
                let outcome = TaskOutcome::unrun(self.launch.task, TaskStatus::Aborted);
                return self.launch.answer(|_| Message::ended(outcome, End::Demoted, Usage::default(), None));
            }
            Ok(Err(failure)) => failure,
            Err(report) => {
                TaskFailure::Internal { name: "panic".to_owned(), message: report.message().to_owned(), cause: None }
            }
        };
        let began = self.began;
        let mut outcome = TaskOutcome::unrun(self.launch.task, TaskStatus::Failed);
        outcome.more = More::boxed(None, None, Some(failure.message().to_owned()));
        self.launch.answer(|engine| {
            outcome.began = nanos(began.saturating_sub(engine.began));
            Message::ended(outcome, End::Rejected, Usage::default(), Some(failure))
        });
    }

    fn ended(self, ended: Ended<X>) {
        let (began, task) = (self.began, self.launch.task);
        let mut owed = None;
        let engine = self.launch.engine.clone();
        self.launch.answer(|engine| {
            let mut outcome = TaskOutcome::unrun(task, ended.status);
            outcome.exit_code = ended.exit_code;
            outcome.attempts = ended.attempts;
            outcome.began = nanos(began.saturating_sub(engine.began));
            outcome.duration = nanos(engine.spawner.now().saturating_sub(began));
            outcome.more = More::boxed(ended.value, ended.peak_memory, None);
            owed = ended.owes;
            let end = End::Outcome { status: ended.status, owes: owed.is_some() };
            Message::ended(outcome, end, Usage { peak_memory: ended.peak_memory }, None)
        });
        if let (Some(owed), Some(engine)) = (owed, engine) {
            let settle = Settle { engine: Some(engine.clone()), task };
            engine.spawn(Debt { owed, settle });
        }
    }
}

impl<X: Send + Sync + 'static> Launch<X> {
    /// Whether its dependents may be told that there was nothing to restore: once.
    fn is_restore(&self) -> bool {
        let engine = self.engine.as_ref();
        !self.again && engine.is_some_and(|engine| engine.ledger.plan.is_restore(self.task))
    }
}

/// Tells that what a task owed is done, at the latest when it is dropped.
struct Settle<X: Send + Sync + 'static> {
    engine: Option<Arc<Engine<X>>>,
    task: u32,
}

impl<X: Send + Sync + 'static> Drop for Settle<X> {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.submit(Message::Settled(self.task));
        }
    }
}

/// What a task owes, and the word that it is done.
struct Debt<X: Send + Sync + 'static> {
    owed: Owed,
    settle: Settle<X>,
}

impl<X: Send + Sync + 'static> Future for Debt<X> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.owed.as_mut().poll(cx);
        if polled.is_ready() {
            self.settle.engine.take().into_iter().for_each(|engine| engine.submit(Message::Settled(self.settle.task)));
        }
        polled
    }
}

/// A body that is a future.
pub(crate) struct Bodied<X: Send + Sync + 'static, F> {
    future: Pin<Box<F>>,
    running: Option<Running<X>>,
}

impl<X: Send + Sync + 'static, F> Bodied<X, F> {
    pub(crate) fn new(future: F, running: Running<X>) -> Self {
        Self { future: Box::pin(future), running: Some(running) }
    }
}

impl<X, F> Future for Bodied<X, F>
where
    X: Send + Sync + 'static,
    F: Future,
    F::Output: TaskEnd<X>,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let result = match catch(|| self.future.as_mut().poll(cx).map(TaskEnd::into_end)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => Ok(result),
            Err(report) => Err(report),
        };
        if let Some(running) = self.running.take() {
            running.over(result);
        }
        Poll::Ready(())
    }
}
