//! What a host submits: a closure, a future, or a build with its install, and the options that go with it.
//! It does not know where it is queued.

#![forbid(unsafe_code)]

use super::cancel::LaneTicket;
use super::context::LaneCx;
use super::kind::{CoalesceKey, LaneClass, LaneKind};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A future of a job.
pub(super) type JobFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What a step of some work leads to.
pub enum Step<W, T> {
    /// The result.
    Done(T),
    /// What is to be installed.
    Built(W),
    /// A future that will have the result.
    Future(JobFuture<T>),
}

/// What can be submitted.
pub trait Work<K, C>: Sized + Send + 'static {
    /// The result.
    type Out: Send + 'static;
    /// Runs the next step.
    fn step(self, cx: &LaneCx<K, C>) -> Step<Self, Self::Out>;
}

/// A closure.
pub struct Call<F>(pub(super) F);

impl<K, C, F, T> Work<K, C> for Call<F>
where
    F: FnOnce(&LaneCx<K, C>) -> T + Send + 'static,
    T: Send + 'static,
{
    type Out = T;

    fn step(self, cx: &LaneCx<K, C>) -> Step<Self, T> {
        Step::Done(self.0(cx))
    }
}

/// A closure that makes a future.
pub struct Begin<F>(pub(super) F);

impl<K, C, F, R> Work<K, C> for Begin<F>
where
    F: FnOnce(LaneCx<K, C>) -> R + Send + 'static,
    R: Future + Send + 'static,
    R::Output: Send + 'static,
{
    type Out = R::Output;

    fn step(self, cx: &LaneCx<K, C>) -> Step<Self, R::Output> {
        Step::Future(Box::pin(self.0(cx.clone())))
    }
}

/// A build and the install of what it made.
pub struct Build<B, I, V>(pub(super) Stage<B, I, V>);

/// Which of the two is next.
pub(super) enum Stage<B, I, V> {
    Build(B, I),
    Install(I, V),
}

impl<K, C, B, I, V, T> Work<K, C> for Build<B, I, V>
where
    B: FnOnce(&LaneCx<K, C>) -> V + Send + 'static,
    I: FnOnce(&LaneCx<K, C>, V) -> T + Send + 'static,
    V: Send + 'static,
    T: Send + 'static,
{
    type Out = T;

    fn step(self, cx: &LaneCx<K, C>) -> Step<Self, T> {
        match self.0 {
            Stage::Build(build, install) => Step::Built(Self(Stage::Install(install, build(cx)))),
            Stage::Install(install, built) => Step::Done(install(cx, built)),
        }
    }
}

/// A job to be submitted: what runs, in which lane, and how.
///
/// Made by [`Lanes::job`](crate::Lanes::job), [`Lanes::future`](crate::Lanes::future) and [`Lanes::heavy`](crate::Lanes::heavy).
#[must_use = "a job does nothing until it is submitted"]
pub struct LaneJob<W, T = ()> {
    pub(super) work: W,
    pub(super) lane: LaneKind,
    pub(super) class: LaneClass,
    pub(super) id: u64,
    pub(super) label: &'static str,
    pub(super) key: Option<CoalesceKey>,
    pub(super) share: Option<fn(&T) -> T>,
    pub(super) deadline: Option<Duration>,
    pub(super) after: Option<LaneTicket>,
}

impl<W, T> fmt::Debug for LaneJob<W, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneJob").field("lane", &self.lane).field("class", &self.class).finish_non_exhaustive()
    }
}

impl<W, T> LaneJob<W, T> {
    pub(super) fn new(lane: LaneKind, work: W) -> Self {
        let class = LaneClass::Interactive;
        Self { work, lane, class, id: 0, label: "", key: None, share: None, deadline: None, after: None }
    }

    /// Nobody waits for it: it never takes the last slots, and yields to interactive work until it has waited its age.
    pub fn maintenance(mut self) -> Self {
        self.class = LaneClass::Maintenance;
        self
    }

    /// A number and a name by which snapshots show it. Neither need be unique.
    pub fn named(mut self, id: u64, label: &'static str) -> Self {
        (self.id, self.label) = (id, label);
        self
    }

    /// It is maintenance, and while an equal one of the actor is queued there is no need for another: the later one is answered
    /// [`LaneError::Coalesced`](crate::LaneError::Coalesced) at once, and its closure dropped.
    pub fn coalesced(mut self, key: CoalesceKey) -> Self {
        (self.class, self.key) = (LaneClass::Maintenance, Some(key));
        self
    }

    /// As [`coalesced`](Self::coalesced), but the later one is answered with the result of the one that is queued. If that has
    /// begun by then, the later one runs itself. The results must be of one type.
    pub fn joined(mut self, key: CoalesceKey) -> Self
    where
        T: Clone,
    {
        (self.class, self.key) = (LaneClass::Maintenance, Some(key));
        self.share = Some(T::clone);
        self
    }

    /// How long it may be queued. Then it is answered [`LaneError::DeadlineExceeded`](crate::LaneError::DeadlineExceeded); a
    /// job that has begun is never ended by its deadline.
    pub fn deadline(mut self, after: Duration) -> Self {
        self.deadline = Some(after);
        self
    }

    /// It is not looked at before the job of `ticket`, of the same actor, is over: a read that must see what that writes. A
    /// ticket of another actor is ignored.
    pub fn after(mut self, ticket: LaneTicket) -> Self {
        self.after = Some(ticket);
        self
    }
}
