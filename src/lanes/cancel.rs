//! Tickets: cancel a job wherever it is, learn what that found, let the job seal its commit, and see the ticket on other threads.
//! It does not know what the job does, nor in which order jobs are taken.

#![forbid(unsafe_code)]

use super::actor::Actor;
use super::answer::LaneError;
use super::cell::{Cancelled, JobPhase, JobState};
use super::current;
use super::held;
use super::job::{JobCell, JobRef, Queued};
use super::kind::LaneKind;
use super::work::Work;
use crate::flight::{CancellationToken, FlightId};
use crate::sync::Arc;
use std::any::Any;
use std::fmt;

/// What a cancel found. The state is that of the moment at which it was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelOutcome {
    /// It was queued. It never runs, and is answered as cancelled.
    QueuedRemoved,
    /// It had been given a slot, and its body had not begun. It never runs, and is answered as cancelled.
    DispatchedCancelled,
    /// It runs, and sees that it should end; it is answered with what it returns. Or its build was over and its install was
    /// queued: that never runs, and the job is answered as cancelled.
    RunningSignalled,
    /// It runs and has sealed its commit: it does not see the cancel.
    RunningCommitted,
    /// Its body had begun, and this call cancels only what has not: nothing was changed.
    AlreadyStarted,
    /// It was over.
    Finished,
    /// There is nothing to cancel: it was cancelled before, or it is no job of that actor.
    NotFound,
}

/// Where a job stands, as far as one may know without asking anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobStatus {
    /// It waits in a queue.
    Queued,
    /// It is a writer, and waits for another writer of the actor that runs.
    BlockedByOtherMutating,
    /// It has a slot, and its body is about to begin.
    Dispatched,
    /// It runs.
    Running,
    /// It runs past its point of no return.
    Committed,
    /// It was cancelled.
    Cancelled,
    /// It is over.
    Finished,
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queued => "queued",
            Self::BlockedByOtherMutating => "blocked_by_other_mutating",
            Self::Dispatched => "dispatched",
            Self::Running => "running",
            Self::Committed => "committed",
            Self::Cancelled => "cancelled",
            Self::Finished => "finished",
        })
    }
}

/// What a ticket asks of its job, whatever its actor's types are.
pub(super) trait Cancels: Send + Sync {
    fn state(&self) -> &JobState;
    fn cancel_token(&self) -> &CancellationToken;
    /// Cancels it, or only if it has not begun.
    fn cancel(&self, before_start: bool) -> CancelOutcome;
    fn status(&self) -> JobStatus;
    /// Whether its actor, of whatever registration, has this key.
    fn is_of(&self, key: &dyn Any) -> bool;
    fn number(&self) -> u64;
    fn incarnation(&self) -> u64;
    /// The same job, as a boxed `JobRef` of its actor's types.
    fn whole(self: Arc<Self>) -> Box<dyn Any>;
    /// Writers of its actor that run or are queued.
    fn writers(&self) -> usize;
    /// Since when the share goes on under which it runs: its own, or that of the first of those that submitted one another.
    fn share(&self) -> u64;
    /// What stands for it while it runs when one looks for who holds whom up.
    fn slot_id(&self) -> FlightId;
    /// It waits for something, and lends its slot.
    fn lend_slot(&self);
    /// It does not wait for that any more.
    fn unlend_slot(&self);
    /// Whether every slot of its executor belongs to a job that waits.
    fn is_starved(&self) -> bool;
}

impl<K, C, W> Cancels for JobCell<K, C, W>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    W: Work<K, C>,
{
    fn state(&self) -> &JobState {
        &self.meta().state
    }

    fn cancel_token(&self) -> &CancellationToken {
        self.meta().token()
    }

    fn cancel(&self, before_start: bool) -> CancelOutcome {
        if before_start { cancel_before_start(self) } else { cancel(self) }
    }

    fn status(&self) -> JobStatus {
        status(self, self.meta().actor())
    }

    fn is_of(&self, key: &dyn Any) -> bool {
        let actor = self.meta().actor();
        key.downcast_ref::<K>().is_some_and(|key| (actor.shared.same_key)(&actor.key, key))
    }

    fn number(&self) -> u64 {
        self.meta().brought.id
    }

    fn incarnation(&self) -> u64 {
        self.meta().actor().incarnation
    }

    fn whole(self: Arc<Self>) -> Box<dyn Any> {
        Box::new(self as JobRef<K, C>)
    }

    fn writers(&self) -> usize {
        self.meta().actor().writers() + self.meta().actor().word.look().running(LaneKind::Mutating)
    }

    fn share(&self) -> u64 {
        let begun = || self.meta().actor().shared.slots.read(held::slot(self.meta())).map_or(0, |(job, _)| job.started);
        if self.meta().is_nested() { self.meta().brought.share } else { begun() }
    }

    fn slot_id(&self) -> FlightId {
        self.meta().actor().shared.slots.id(held::slot(self.meta()))
    }

    fn lend_slot(&self) {
        let shared = &self.meta().actor().shared;
        // Before it is said that it waits, so that nobody gives back what was not lent.
        shared.pool.lend();
        if self.meta().begins_wait() {
            shared.look_for_lent();
        } else {
            shared.pool.unlend();
        }
    }

    fn unlend_slot(&self) {
        if self.meta().ends_wait() {
            self.meta().actor().shared.pool.unlend();
        }
    }

    fn is_starved(&self) -> bool {
        self.meta().actor().shared.pool.is_starved()
    }
}

/// Names one job, and only that: whatever its number, name and lane. Clones name the same.
///
/// A ticket keeps the actor of its job, and so the context, also when that actor is removed: a context that holds tickets of its own
/// jobs must let them go once those are over, or it never goes.
#[derive(Clone)]
pub struct LaneTicket {
    job: Arc<dyn Cancels>,
}

impl fmt::Debug for LaneTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneTicket").field("id", &self.id()).field("status", &self.status()).finish()
    }
}

impl LaneTicket {
    pub(super) fn of<K: Send + Sync + 'static, C: Send + Sync + 'static>(job: super::job::JobRef<K, C>) -> Self {
        Self { job }
    }

    pub(super) fn from_job(job: Arc<dyn Cancels>) -> Self {
        Self { job }
    }

    pub(super) fn job(&self) -> &Arc<dyn Cancels> {
        &self.job
    }

    /// The number that the job was submitted with.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.job.number()
    }

    /// The registration of the actor that the job belongs to.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.job.incarnation()
    }

    /// Where the job stands.
    #[must_use]
    pub fn status(&self) -> JobStatus {
        self.job.status()
    }

    /// Cancels the job, wherever it is: also one of an actor that is gone. What is queued never runs; what runs is signalled.
    pub fn cancel(&self) -> CancelOutcome {
        self.job.cancel(false)
    }

    /// Cancels the job if its body has not begun; else changes nothing.
    pub fn cancel_before_start(&self) -> CancelOutcome {
        self.job.cancel(true)
    }

    /// Whether a cancel has won. Changes nothing.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.job.state().is_signalled()
    }

    /// As [`LaneCx::seal`](crate::LaneCx::seal). False for a job that has not begun.
    #[must_use = "if it is false nothing may be changed"]
    pub fn seal(&self) -> bool {
        self.job.state().seal()
    }

    /// A token that is cancelled when a cancel of the job wins: to wait for it, or to hear of it.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.job.cancel_token().clone()
    }

    /// The ticket of the job that runs on this thread, or whose ticket was installed here.
    #[must_use]
    pub fn current() -> Option<Self> {
        current::job().map(Self::from_job)
    }

    /// Makes this the thread's current ticket while `f` runs, for work of the job on another thread.
    pub fn scope<R>(&self, f: impl FnOnce() -> R) -> R {
        current::install(&self.job, f)
    }
}

/// Cancels `job`, and does all that follows: room, tickets, the signal, the answer.
pub(super) fn cancel<K, C>(job: &dyn Queued<K, C>) -> CancelOutcome
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let found = job.meta().state.cancel();
    follow_up(job, found)
}

pub(super) fn cancel_before_start<K, C>(job: &dyn Queued<K, C>) -> CancelOutcome
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    match job.meta().state.cancel_before_start() {
        Some(found) => follow_up(job, found),
        None if job.meta().state.phase() == JobPhase::Finished => CancelOutcome::Finished,
        None if job.meta().state.is_over() => CancelOutcome::NotFound,
        None => CancelOutcome::AlreadyStarted,
    }
}

/// Cancels `job` unless it runs; also an install that is queued. True if it will not run.
pub(super) fn cancel_queued<K, C>(job: &dyn Queued<K, C>) -> bool
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let Some(found) = job.meta().state.cancel_queued() else { return false };
    follow_up(job, found);
    matches!(found, Cancelled::TakenOut | Cancelled::InstallTakenOut | Cancelled::BeforeStart)
}

fn follow_up<K, C>(job: &dyn Queued<K, C>, found: Cancelled) -> CancelOutcome
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let meta = job.meta();
    match found {
        Cancelled::TakenOut | Cancelled::InstallTakenOut => {
            meta.actor().taken_out(meta);
            meta.signal();
            job.answer(LaneError::Cancelled);
            if found == Cancelled::TakenOut { CancelOutcome::QueuedRemoved } else { CancelOutcome::RunningSignalled }
        }
        Cancelled::LetGo => {
            meta.actor().left_following();
            meta.signal();
            job.answer(LaneError::Cancelled);
            CancelOutcome::QueuedRemoved
        }
        Cancelled::BeforeStart => {
            meta.signal();
            job.answer(LaneError::Cancelled);
            CancelOutcome::DispatchedCancelled
        }
        Cancelled::Signalled => {
            meta.signal();
            CancelOutcome::RunningSignalled
        }
        Cancelled::TooLate => CancelOutcome::RunningCommitted,
        Cancelled::Finished => CancelOutcome::Finished,
        Cancelled::Already => CancelOutcome::NotFound,
    }
}

/// Takes a queued job out, or one that waits for the result of another, and answers it with `error`. False if it is neither.
pub(super) fn refuse<K, C>(job: &dyn Queued<K, C>, error: LaneError) -> bool
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    refuse_if(job, error, JobState::take_out)
}

/// As [`refuse`], for a job whose deadline has come: not once its build has begun.
pub(super) fn refuse_late<K, C>(job: &dyn Queued<K, C>) -> bool
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    refuse_if(job, LaneError::DeadlineExceeded, JobState::take_out_late)
}

fn refuse_if<K, C>(job: &dyn Queued<K, C>, error: LaneError, take_out: impl FnOnce(&JobState) -> bool) -> bool
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let meta = job.meta();
    if take_out(&meta.state) {
        meta.actor().taken_out(meta);
    } else if meta.state.let_go() {
        meta.actor().left_following();
    } else {
        return false;
    }
    job.answer(error);
    true
}

/// Where `job` stands.
pub(super) fn status<K, C>(job: &dyn Queued<K, C>, actor: &Actor<K, C>) -> JobStatus {
    let meta = job.meta();
    match meta.state.phase() {
        JobPhase::Queued => {
            let writes = meta.lane() == LaneKind::Mutating;
            if writes && actor.word.look().running(LaneKind::Mutating) > 0 {
                JobStatus::BlockedByOtherMutating
            } else {
                JobStatus::Queued
            }
        }
        JobPhase::Following => JobStatus::Queued,
        JobPhase::Claimed => JobStatus::Dispatched,
        JobPhase::Started => JobStatus::Running,
        JobPhase::Sealed => JobStatus::Committed,
        JobPhase::Cancelled if meta.state.is_over() => JobStatus::Cancelled,
        JobPhase::Cancelled => JobStatus::Running,
        JobPhase::Finished => JobStatus::Finished,
    }
}
