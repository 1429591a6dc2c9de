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
use crate::flight::{CancellationToken, FlightRef, PanicReport, WholeScope, catch, enter, enter_whole};
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
///
/// It holds the one reference to the run that a task needs: the count of those is a word that all workers write.
pub(crate) struct Launch<X: Send + Sync + 'static> {
    cx: Option<TaskCx<X>>,
    again: bool,
}

impl<X: Send + Sync + 'static> Launch<X> {
    pub(crate) fn new(engine: Arc<Engine<X>>, task: u32, again: bool, tainted: bool) -> Self {
        Self { cx: Some(TaskCx { engine, task, tainted }), again }
    }

    /// Runs the body, or begins it if it is a future.
    pub(crate) fn run(self) {
        let Some(cx) = &self.cx else { return };
        if cx.is_stopping() {
            // Not begun: the stop came between the decision and this.
            let outcome = TaskOutcome::unrun(cx.task, TaskStatus::Aborted);
            let end = End::Outcome { status: TaskStatus::Aborted, owes: false };
            return self.answer(|engine| {
                let now = engine.course.spawner.now();
                Message::ended(outcome, end, Usage::default(), None, now)
            });
        }
        // As of any flight: who waits here for the run waits for himself.
        let inside = enter(cx.engine.id());
        if !self.again {
            cx.engine.tell_started(cx.task);
        }
        let began = cx.engine.course.spawner.now();
        let ran = cx.engine.body.run(cx);
        drop(inside);
        match ran {
            Ran::Over(result) => Running { launch: self, began }.over(result),
            Ran::Later(begin) => begin(Running { launch: self, began }),
        }
    }

    fn answer(mut self, message: impl FnOnce(&Engine<X>) -> Message<X>) {
        if let Some(cx) = self.cx.take() {
            let message = message(&cx.engine);
            cx.engine.submit(message);
        }
    }

    fn task(&self) -> u32 {
        self.cx.as_ref().map_or(0, |cx| cx.task)
    }

    /// Whether its dependents may be told that there was nothing to restore: once.
    fn is_restore(&self) -> bool {
        !self.again && self.cx.as_ref().is_some_and(|cx| cx.engine.ledger.plan.is_restore(cx.task))
    }
}

impl<X: Send + Sync + 'static> Drop for Launch<X> {
    fn drop(&mut self) {
        if let Some(cx) = self.cx.take() {
            cx.engine.lost(cx.task);
        }
    }
}

/// How a body ended, if it did not panic.
pub(crate) type Ending<X> = Result<Ended<X>, TaskFailure>;

/// What came of calling a body.
pub(crate) enum Ran<X: Send + Sync + 'static> {
    /// It is over.
    Over(Result<Ending<X>, PanicReport>),
    /// It is a future, to be begun with the duty to answer.
    Later(Box<dyn FnOnce(Running<X>) + Send>),
}

/// A body that was begun.
pub(crate) struct Running<X: Send + Sync + 'static> {
    launch: Launch<X>,
    began: Duration,
}

impl<X: Send + Sync + 'static> Running<X> {
    /// Polls a body until it is over.
    pub(crate) fn spawn<F>(self, future: F)
    where
        F: Future + Send + 'static,
        F::Output: TaskEnd<X>,
    {
        let Some(engine) = self.launch.cx.as_ref().map(|cx| cx.engine.clone()) else { return };
        engine.spawn(Bodied { future: Box::pin(future), running: Some(self) });
    }

    /// Has this thread be inside the run while it polls the body.
    fn enter(&self) -> Option<WholeScope> {
        self.launch.cx.as_ref().map(|cx| enter_whole(cx.engine.id()))
    }

    /// The body is over.
    pub(crate) fn over(self, result: Result<Ending<X>, PanicReport>) {
        let task = self.launch.task();
        let failure = match result {
            Ok(Ok(ended)) => return self.ended(ended),
            Ok(Err(TaskFailure::NothingToRestore)) if self.launch.is_restore() => {
                let outcome = TaskOutcome::unrun(task, TaskStatus::Aborted);
                return self.launch.answer(|engine| {
                    let now = engine.course.spawner.now();
                    Message::ended(outcome, End::Demoted, Usage::default(), None, now)
                });
            }
            Ok(Err(failure)) => failure,
            Err(report) => {
                TaskFailure::Internal { name: "panic".to_owned(), message: report.message().to_owned(), cause: None }
            }
        };
        let began = self.began;
        let mut outcome = TaskOutcome::of_body(task, TaskStatus::Failed);
        outcome.more = More::boxed(None, None, Some(failure.message().to_owned()));
        self.launch.answer(|engine| {
            let now = engine.course.spawner.now();
            outcome.began = nanos(began.saturating_sub(engine.course.began));
            Message::ended(outcome, End::Rejected, Usage::default(), Some(failure), now)
        });
    }

    fn ended(self, ended: Ended<X>) {
        let (began, task) = (self.began, self.launch.task());
        let Ended { status, exit_code, attempts, peak_memory, value, owes } = ended;
        let creditor = owes.and_then(|owed| self.launch.cx.as_ref().map(|cx| (owed, cx.engine.clone())));
        let owes = creditor.is_some();
        self.launch.answer(|engine| {
            let now = engine.course.spawner.now();
            let mut outcome = TaskOutcome::of_body(task, status);
            outcome.exit_code = exit_code;
            outcome.attempts = attempts;
            outcome.began = nanos(began.saturating_sub(engine.course.began));
            outcome.duration = nanos(now.saturating_sub(began));
            outcome.more = More::boxed(value, peak_memory, None);
            Message::ended(outcome, End::Outcome { status, owes }, Usage { peak_memory }, None, now)
        });
        if let Some((owed, engine)) = creditor {
            let settle = Settle { engine: Some(engine.clone()), task };
            engine.spawn(Debt { owed, settle });
        }
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
        let inside = self.settle.engine.as_ref().map(|engine| enter_whole(engine.id()));
        let polled = self.owed.as_mut().poll(cx);
        drop(inside);
        if polled.is_ready() {
            self.settle.engine.take().into_iter().for_each(|engine| engine.submit(Message::Settled(self.settle.task)));
        }
        polled
    }
}

/// A body that is a future.
struct Bodied<X: Send + Sync + 'static, F> {
    future: Pin<Box<F>>,
    running: Option<Running<X>>,
}

impl<X, F> Future for Bodied<X, F>
where
    X: Send + Sync + 'static,
    F: Future,
    F::Output: TaskEnd<X>,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let inside = self.running.as_ref().and_then(Running::enter);
        let polled = catch(|| self.future.as_mut().poll(cx).map(TaskEnd::into_end));
        drop(inside);
        let result = match polled {
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
