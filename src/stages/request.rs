//! What a client asks for: a file, a stage, how urgently, with which text, under which name; and what he holds then.
//! It does not know how it is answered.
#![forbid(unsafe_code)]

use super::error::StageError;
use super::host::{Host, Stage};
use super::origin::Asker;
use super::target::{AnyTarget, Target, ToAnalysis, ToArtifact, ToSource};
use crate::admission::RequestContext;
use crate::flight::{CancellationToken, Handle, drop_contained};
use crate::runtime::{Priority, Spawner};
use crate::sync::Arc;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// What a joiner is told: its request met an execution that another had asked for.
pub struct Joined<H: Host> {
    /// The file.
    pub file: H::File,
    /// The stage that was joined.
    pub stage: Stage,
    /// The name of the request that asked first; `None` if it gave none.
    pub winner: Option<u64>,
}

impl<H: Host> fmt::Debug for Joined<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined")
            .field("file", &self.file)
            .field("stage", &self.stage)
            .field("winner", &self.winner)
            .finish()
    }
}

/// What a joiner leaves to be called.
pub(crate) type OnJoin<H> = Box<dyn FnOnce(Joined<H>) + Send>;

/// A request: bring this file to this stage.
///
/// ```
/// # use shardrun::{Host, Priority, Request, Stages};
/// # fn ask<H: Host<File = String, Text = String>>(stages: &Stages<H>) {
/// let handle = stages.submit_request(Request::analysis("a.rs".into()).priority(Priority::Critical));
/// let edited = stages.submit_request(Request::source("b.rs".into()).text("fn main() {}".into()));
/// # let _ = (handle, edited);
/// # }
/// ```
#[must_use = "a request does nothing until it is submitted"]
pub struct Request<H: Host, T = AnyTarget<H>> {
    pub(crate) file: H::File,
    pub(crate) target: T,
    pub(crate) text: Option<H::Text>,
    pub(crate) rehomes: bool,
    pub(crate) ask: Ask<H>,
}

impl<H: Host, T> Request<H, T> {
    /// Whether it changes nothing, and nothing but its answer can end it.
    #[inline]
    pub(crate) fn only_asks(&self) -> bool {
        let Ask { token, deadline, charged, .. } = &self.ask;
        self.text.is_none() && !self.rehomes && token.is_none() && deadline.is_none() && !charged
    }

    /// One that [only asks](Self::only_asks) has its answer. What the host gave is dropped, contained.
    #[inline]
    pub(crate) fn over(self) {
        let Self { file, target, text, ask, .. } = self;
        drop_contained(file);
        drop_contained(target);
        if ask.on_join.is_some() || ask.asker.context.is_some() {
            drop(ask);
        } else {
            // Nothing that is there has a destructor, and to find that out the rest of it need not be moved.
            std::mem::forget((text, ask));
        }
    }
}

impl<H: Host> Ask<H> {
    /// Drops what is the host's, whose destructors may panic: each by itself, since two that do so in one go end the process.
    #[cold]
    fn drop_hosts(&mut self) {
        drop_contained(self.asker.context.take());
        drop_contained(self.on_join.take());
    }

    /// Why it has ended before it was submitted, if it has.
    #[inline]
    pub(crate) fn is_over(&self, spawner: &Spawner) -> Option<StageError<H>> {
        if self.token.is_none() && self.deadline.is_none() {
            return None;
        }
        if self.token.as_ref().is_some_and(CancellationToken::is_cancelled) {
            return Some(StageError::Cancelled);
        }
        self.deadline.filter(|&at| at <= spawner.now()).map(|_| StageError::DeadlinePassed)
    }

    /// Has the handle of its answer watch for what may end it early.
    #[inline]
    pub(crate) fn watched(&self, handle: StageHandle<H>, spawner: &Spawner) -> StageHandle<H> {
        if self.token.is_none() && self.deadline.is_none() {
            return handle;
        }
        let (token, deadline) = (self.token.as_ref(), self.deadline);
        match handle {
            StageHandle::Source(handle) => StageHandle::Source(handle.until(spawner, token, deadline)),
            StageHandle::Analysis(handle) => StageHandle::Analysis(handle.until(spawner, token, deadline)),
            StageHandle::Artifact(handle) => StageHandle::Artifact(handle.until(spawner, token, deadline)),
        }
    }
}

/// What a request says beside its file, target and text.
pub(crate) struct Ask<H: Host> {
    pub(crate) priority: Priority,
    pub(crate) asker: Asker,
    pub(crate) on_join: Option<OnJoin<H>>,
    /// It withdraws once this is cancelled.
    pub(crate) token: Option<CancellationToken>,
    /// It withdraws once the runtime's clock has come to this.
    pub(crate) deadline: Option<Duration>,
    /// A unit of the budget is in hand for it.
    pub(crate) charged: bool,
    /// It has joined what another asked for.
    pub(crate) joined: bool,
    /// It needs no unit: it is part of a batch that holds the whole budget.
    pub(crate) uncharged: bool,
    /// It has no unit, so it may join what another has asked for, but be the first nowhere.
    pub(crate) joins_only: bool,
}

impl<H: Host> Drop for Ask<H> {
    #[inline]
    fn drop(&mut self) {
        if self.asker.context.is_some() || self.on_join.is_some() {
            self.drop_hosts();
        }
    }
}

impl<H: Host> Request<H, ToSource> {
    /// Asks for Source of `file`.
    pub fn source(file: H::File) -> Self {
        Self::to(file, ToSource)
    }
}

impl<H: Host> Request<H, ToAnalysis> {
    /// Asks for Analysis of `file`, and so for its Source.
    pub fn analysis(file: H::File) -> Self {
        Self::to(file, ToAnalysis)
    }
}

impl<H: Host> Request<H, ToArtifact<H::Profile>> {
    /// Asks for the Artifact of `file` for `profile`, and so for its Source and Analysis.
    pub fn artifact(file: H::File, profile: H::Profile) -> Self {
        Self::to(file, ToArtifact(profile))
    }
}

impl<H: Host, T: Target<H>> Request<H, T> {
    fn to(file: H::File, target: T) -> Self {
        let ask = Ask {
            priority: Priority::default(),
            asker: Asker::default(),
            on_join: None,
            token: None,
            deadline: None,
            charged: false,
            joined: false,
            uncharged: false,
            joins_only: false,
        };
        Self { file, target, text: None, rehomes: false, ask }
    }

    /// The same request without its target's type: a member of a batch.
    pub fn any(self) -> Request<H> {
        let Self { file, target, text, rehomes, ask } = self;
        Request { file, target: target.any(), text, rehomes, ask }
    }
}

impl<H: Host, T> Request<H, T> {
    /// How urgent it is; [`Priority::Interactive`] if nothing is said. What it joins becomes as urgent as this.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.ask.priority = priority;
        self
    }

    /// Edits the file in the same step: it moves on to a new generation with this text, which stands in place of the stored
    /// one until the file is closed or edited again. What was asked of older generations ends superseded.
    pub fn text(mut self, text: H::Text) -> Self {
        self.text = Some(text);
        self
    }

    /// Re-homes the file in the same step, as [`Stages::rehome`](super::Stages::rehome) does: with the request's text, or else
    /// with the one that it has.
    pub fn rehome(mut self) -> Self {
        self.rehomes = true;
        self
    }

    /// The request's name, which those who join what it asked for first are told.
    pub fn name(mut self, name: u64) -> Self {
        self.ask.asker.name = Some(name);
        self
    }

    /// The context in which what it asks for first is executed: see [`RequestContext::current`].
    pub fn context(mut self, context: RequestContext) -> Self {
        self.ask.asker.context = Some(context);
        self
    }

    /// Withdraws the request once `token` is cancelled, as [`Handle::cancel`] does: it ends with [`StageError::Cancelled`]. Cancelled
    /// before the submission, it changes nothing. Dropping the handle ends the watch.
    pub fn cancelled_by(mut self, token: &CancellationToken) -> Self {
        self.ask.token = Some(token.clone());
        self
    }

    /// Withdraws the request once the clock of the runtime ([`Runtime::now`](crate::Runtime::now)) has come to `at`: it ends with
    /// [`StageError::DeadlinePassed`]. Passed before the submission, it changes nothing. What others want goes on. Dropping the handle
    /// ends the watch.
    pub fn deadline(mut self, at: Duration) -> Self {
        self.ask.deadline = Some(at);
        self
    }

    /// Called once, if this request meets an execution that another has asked for, before the submission returns; with nothing
    /// of the engine's held, so it may do anything, also submit.
    pub fn on_join(mut self, callback: impl FnOnce(Joined<H>) + Send + 'static) -> Self {
        self.ask.on_join = Some(Box::new(callback));
        self
    }
}

impl<H: Host> From<Request<H, ToSource>> for Request<H> {
    fn from(request: Request<H, ToSource>) -> Self {
        request.any()
    }
}

impl<H: Host> From<Request<H, ToAnalysis>> for Request<H> {
    fn from(request: Request<H, ToAnalysis>) -> Self {
        request.any()
    }
}

impl<H: Host> From<Request<H, ToArtifact<H::Profile>>> for Request<H> {
    fn from(request: Request<H, ToArtifact<H::Profile>>) -> Self {
        request.any()
    }
}

impl<H: Host, T: fmt::Debug> fmt::Debug for Request<H, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("file", &self.file)
            .field("target", &self.target)
            .field("priority", &self.ask.priority)
            .field("has_text", &self.text.is_some())
            .finish_non_exhaustive()
    }
}

/// The value of a stage, whichever was asked for.
pub enum StageValue<H: Host> {
    /// Source.
    Source(Arc<H::Source>),
    /// Analysis.
    Analysis(Arc<H::Analysis>),
    /// An Artifact.
    Artifact(Arc<H::Artifact>),
}

impl<H: Host> Clone for StageValue<H> {
    fn clone(&self) -> Self {
        match self {
            Self::Source(value) => Self::Source(value.clone()),
            Self::Analysis(value) => Self::Analysis(value.clone()),
            Self::Artifact(value) => Self::Artifact(value.clone()),
        }
    }
}

impl<H: Host> StageValue<H> {
    /// The stage that was asked for.
    pub fn stage(&self) -> Stage {
        match self {
            Self::Source(_) => Stage::Source,
            Self::Analysis(_) => Stage::Analysis,
            Self::Artifact(_) => Stage::Artifact,
        }
    }
}

impl<H: Host> fmt::Debug for StageValue<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source(_) => "Source(..)",
            Self::Analysis(_) => "Analysis(..)",
            Self::Artifact(_) => "Artifact(..)",
        })
    }
}

/// The handle of a batch's member, whichever stage it asked for: the same as the [`Handle`] inside.
#[must_use = "dropping a handle detaches the work and loses its result"]
pub enum StageHandle<H: Host> {
    /// It asked for Source.
    Source(Handle<Arc<H::Source>, StageError<H>>),
    /// It asked for Analysis.
    Analysis(Handle<Arc<H::Analysis>, StageError<H>>),
    /// It asked for an Artifact.
    Artifact(Handle<Arc<H::Artifact>, StageError<H>>),
}

/// Calls the same method on whichever handle it is, and wraps its value.
macro_rules! each {
    ($self:expr, $handle:ident => $call:expr) => {
        match $self {
            StageHandle::Source($handle) => $call.map(|result| result.map(StageValue::Source)),
            StageHandle::Analysis($handle) => $call.map(|result| result.map(StageValue::Analysis)),
            StageHandle::Artifact($handle) => $call.map(|result| result.map(StageValue::Artifact)),
        }
    };
}

impl<H: Host> StageHandle<H> {
    /// A handle of `stage` whose result is there already.
    pub(crate) fn ready(stage: Stage, result: Result<StageValue<H>, StageError<H>>) -> Self {
        match (result, stage) {
            (Ok(StageValue::Source(value)), _) => Self::Source(Handle::ready(Ok(value))),
            (Ok(StageValue::Analysis(value)), _) => Self::Analysis(Handle::ready(Ok(value))),
            (Ok(StageValue::Artifact(value)), _) => Self::Artifact(Handle::ready(Ok(value))),
            (Err(error), Stage::Source) => Self::Source(Handle::ready(Err(error))),
            (Err(error), Stage::Analysis) => Self::Analysis(Handle::ready(Err(error))),
            (Err(error), Stage::Artifact) => Self::Artifact(Handle::ready(Err(error))),
        }
    }

    /// The stage that was asked for.
    pub fn stage(&self) -> Stage {
        match self {
            Self::Source(_) => Stage::Source,
            Self::Analysis(_) => Stage::Analysis,
            Self::Artifact(_) => Stage::Artifact,
        }
    }

    /// As [`Handle::is_resolved`].
    pub fn is_resolved(&self) -> bool {
        match self {
            Self::Source(handle) => handle.is_resolved(),
            Self::Analysis(handle) => handle.is_resolved(),
            Self::Artifact(handle) => handle.is_resolved(),
        }
    }

    /// As [`Handle::try_get`].
    ///
    /// # Panics
    /// If the result has been taken already.
    pub fn try_get(&mut self) -> Option<Result<StageValue<H>, StageError<H>>> {
        each!(self, handle => handle.try_get())
    }

    /// As [`Handle::wait`].
    ///
    /// # Errors
    /// Why there is no value.
    pub fn wait(self) -> Result<StageValue<H>, StageError<H>> {
        match self {
            Self::Source(handle) => handle.wait().map(StageValue::Source),
            Self::Analysis(handle) => handle.wait().map(StageValue::Analysis),
            Self::Artifact(handle) => handle.wait().map(StageValue::Artifact),
        }
    }

    /// As [`Handle::wait_timeout`].
    ///
    /// # Panics
    /// If the result has been taken already.
    pub fn wait_timeout(&mut self, limit: Duration) -> Option<Result<StageValue<H>, StageError<H>>> {
        each!(self, handle => handle.wait_timeout(limit))
    }

    /// As [`Handle::cancel`].
    pub fn cancel(&self) {
        match self {
            Self::Source(handle) => handle.cancel(),
            Self::Analysis(handle) => handle.cancel(),
            Self::Artifact(handle) => handle.cancel(),
        }
    }
}

impl<H: Host> Future for StageHandle<H> {
    type Output = Result<StageValue<H>, StageError<H>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        each!(self.get_mut(), handle => Pin::new(handle).poll(cx))
    }
}

impl<H: Host> fmt::Debug for StageHandle<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageHandle")
            .field("stage", &self.stage())
            .field("is_resolved", &self.is_resolved())
            .finish_non_exhaustive()
    }
}
