//! The ways in: checks a submission, reserves room, posts it, and has the actor looked at; and waits for room where that is asked.
//! It does not know in which order jobs run.

#![forbid(unsafe_code)]

use super::actor::Actor;
use super::answer::{LaneBackpressure, LaneError, QueueScope};
use super::awaited::OfActor;
use super::cancel::{self, CancelOutcome, LaneTicket};
use super::current;
use super::executor::nanos;
use super::fence::Fence;
use super::job::{JobCell, JobRef, Queued, post};
use super::kind::{LaneClass, LaneKind};
use super::mailbox::Mailbox;
use super::meta::{ALONE, Apart, Brought};
use super::room::Waiter;
use super::word::NoRoom;
use super::work::{LaneJob, Work};
use crate::admission::{BudgetGuard, RequestContext};
use crate::flight::trampoline::{self, Disposed};
use crate::flight::{self, Handle};
use crate::runtime::{self, Job, Place, Priority};
use crate::sync::{Arc, OnceLock, mutant};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// The claim on the answer of one job, and the ticket by which it can be cancelled.
///
/// It is a [`Future`] and can be waited for, like any [`Handle`]. Dropping it detaches: the job goes on.
#[must_use = "dropping a handle detaches the job and loses its answer; say `detach()` if that is meant"]
pub struct LaneHandle<T: Send + 'static> {
    handle: Handle<T, LaneError>,
    /// Made when it is first asked for: most jobs are never cancelled.
    ticket: OnceLock<LaneTicket>,
}

impl<T: Send + 'static> LaneHandle<T> {
    /// The job's ticket; none if the submission was refused.
    #[must_use]
    pub fn ticket(&self) -> Option<&LaneTicket> {
        if self.ticket.get().is_none() {
            let _ = self.ticket.set(LaneTicket::from_job(self.handle.sole_flight()?));
        }
        self.ticket.get()
    }

    /// Cancels the job, as its ticket does.
    pub fn cancel(&self) -> CancelOutcome {
        self.ticket().map_or(CancelOutcome::NotFound, LaneTicket::cancel)
    }

    /// Waits for the answer. See [`Handle::wait`].
    ///
    /// # Errors
    /// What the job was answered with instead of a result.
    pub fn wait(self) -> Result<T, LaneError> {
        self.handle.wait()
    }

    /// Waits for at most `limit`. See [`Handle::wait_timeout`].
    pub fn wait_timeout(&mut self, limit: Duration) -> Option<Result<T, LaneError>> {
        self.keep_ticket();
        self.handle.wait_timeout(limit)
    }

    /// The answer, if it is there. See [`Handle::try_get`].
    pub fn try_get(&mut self) -> Option<Result<T, LaneError>> {
        self.keep_ticket();
        self.handle.try_get()
    }

    /// Whether the answer is there.
    #[must_use]
    pub fn is_resolved(&self) -> bool {
        self.handle.is_resolved()
    }

    /// The plain handle. Its `cancel` cancels the job too, but the answer comes when the job is over.
    pub fn into_handle(self) -> Handle<T, LaneError> {
        self.handle
    }

    /// Lets the job go on without anyone to take its answer.
    pub fn detach(self) {}

    fn of<K, C, W>(cell: &Arc<JobCell<K, C, W>>) -> Self
    where
        K: Send + Sync + 'static,
        C: Send + Sync + 'static,
        W: Work<K, C, Out = T>,
    {
        cell.meta().keep_actor();
        Self { handle: Handle::sole(cell.clone()), ticket: OnceLock::new() }
    }

    pub(super) fn refused(error: LaneError) -> Self {
        Self { handle: Handle::ready(Err(error)), ticket: OnceLock::new() }
    }

    /// The ticket is there for good, also once the job is let go of with its result.
    fn keep_ticket(&self) {
        let _ = self.ticket();
    }
}

impl<T: Send + 'static> Future for LaneHandle<T> {
    type Output = Result<T, LaneError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.keep_ticket();
        Pin::new(&mut self.handle).poll(cx)
    }
}

impl<T: Send + 'static> fmt::Debug for LaneHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneHandle").field("ticket", &self.ticket()).finish_non_exhaustive()
    }
}

/// A submission that was refused, with the job to submit again or to throw away.
pub struct LaneRejected<W, T> {
    /// Why.
    pub error: LaneError,
    /// What was submitted.
    pub job: LaneJob<W, T>,
}

impl<W, T> fmt::Debug for LaneRejected<W, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneRejected").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<W, T> fmt::Display for LaneRejected<W, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<W, T> std::error::Error for LaneRejected<W, T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The error itself is what is shown.
        self.error.source()
    }
}

impl<K, C> Actor<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    fn closed(&self) -> Option<LaneError> {
        let seen = self.word.look();
        if seen.is_fatal() { Some(LaneError::Fatal) } else { seen.is_closed().then(|| self.why_closed()) }
    }

    /// Submits a job, or gives it back. `unit` is one of the class's budget that the caller has already.
    pub(super) fn try_submit<W: Work<K, C>>(
        self: &Arc<Self>,
        job: LaneJob<W, W::Out>,
        unit: Option<BudgetGuard>,
    ) -> Result<LaneHandle<W::Out>, LaneRejected<W, W::Out>> {
        self.try_keep(job, unit, LaneHandle::of)
    }

    /// Submits a job whose answer nobody waits for.
    pub(super) fn execute<W: Work<K, C>>(self: &Arc<Self>, job: LaneJob<W, W::Out>) -> Result<(), LaneError> {
        self.try_keep(job, None, |cell| cell.let_go()).map_err(|rejected| {
            trampoline::dispose(rejected.job);
            rejected.error
        })
    }

    /// As [`try_submit`](Self::try_submit), with what `keep` makes of the job before it is queued.
    #[inline(always)]
    fn try_keep<W: Work<K, C>, R>(
        self: &Arc<Self>,
        job: LaneJob<W, W::Out>,
        unit: Option<BudgetGuard>,
        keep: impl FnOnce(&Arc<JobCell<K, C, W>>) -> R,
    ) -> Result<R, LaneRejected<W, W::Out>> {
        let reject = |error, job| Err(LaneRejected { error, job });
        // Else it is told with the room.
        if (job.key.is_some() || job.deadline.is_some())
            && let Some(error) = self.closed()
        {
            return reject(error, job);
        }
        if job.deadline == Some(Duration::ZERO) {
            return reject(LaneError::DeadlineExceeded, job);
        }
        // An equal one that is queued will do, whether there is room or not.
        let waits = job.key.is_some_and(|key| match mutant("lanes.key_before_room") {
            true => self.keys.ask(key.bit()),
            false => self.keys.is_asked(key.bit()),
        });
        if waits && job.share.is_none() {
            return reject(LaneError::Coalesced, job);
        }
        let epoch = match self.reserve(job.class, unit) {
            Ok(epoch) => epoch,
            Err(error) => return reject(error, job),
        };
        // Only who has room asks: whoever finds that he has is right to rely on him.
        let joins = job.key.is_some_and(|key| self.keys.ask(key.bit()));
        if joins && job.share.is_none() {
            self.shared.budget(job.class).release(1);
            self.unreserve(job.class, epoch);
            return reject(LaneError::Coalesced, job);
        }
        Ok(self.submit_reserved(job, epoch, joins, keep))
    }

    /// Gives back the room here that was reserved and is not used.
    fn unreserve(self: &Arc<Self>, class: LaneClass, epoch: bool) {
        let owes = self.word.leave_queue(class, epoch);
        self.settle(owes);
    }

    /// Room for one more, here and in all.
    #[inline(always)]
    fn reserve(self: &Arc<Self>, class: LaneClass, unit: Option<BudgetGuard>) -> Result<bool, LaneError> {
        let shared = &self.shared;
        let cap = shared.queue_cap(class);
        let epoch = self.word.reserve(class, cap).map_err(|no_room| match no_room {
            NoRoom::Closed => self.why_closed(),
            NoRoom::Fatal => LaneError::Fatal,
            NoRoom::Full(depth) => LaneError::Backpressure(LaneBackpressure::new(class, QueueScope::Actor, depth, cap)),
        })?;
        let budget = shared.budget(class);
        match unit {
            Some(unit) => unit.keep(),
            None if budget.take(1) => {}
            None => {
                self.unreserve(class, epoch);
                let depth = u32::try_from(budget.in_use()).unwrap_or(u32::MAX);
                let refused = LaneBackpressure::new(class, QueueScope::Overall, depth, budget.capacity());
                return Err(LaneError::Backpressure(refused));
            }
        }
        Ok(epoch)
    }

    #[inline(always)]
    fn submit_reserved<W: Work<K, C>, R>(
        self: &Arc<Self>,
        job: LaneJob<W, W::Out>,
        epoch: bool,
        joins: bool,
        keep: impl FnOnce(&Arc<JobCell<K, C, W>>) -> R,
    ) -> R {
        let shared = &self.shared;
        // A plain read is never due for anything but its turn.
        let plain = job.lane == LaneKind::PureRead && job.class == LaneClass::Interactive && job.deadline.is_none();
        let (class, at) = (job.class, if plain { shared.about() } else { shared.now() });
        let share = match job.lane {
            LaneKind::PureRead => current::share(shared.identity(), self.incarnation).unwrap_or(ALONE),
            _ => ALONE,
        };
        let deadline = job.deadline;
        let context = RequestContext::current();
        let few = job.key.is_some() || job.after.is_some() || deadline.is_some() || context.is_some();
        let apart = few.then(|| {
            Box::new(Apart {
                key: job.key,
                joins,
                fence: Fence::new(job.after.and_then(|ticket| self.own_job(&ticket))),
                expires: deadline.map_or(u64::MAX, |deadline| at.saturating_add(nanos(deadline))),
                deadline: OnceLock::new(),
                followers: Mailbox::new(),
                context: context.map(Disposed::new),
            })
        });
        let (lane, id, label, bucket) = (job.lane, job.id, job.label, shared.ages.enter(class, at));
        if lane == LaneKind::Mutating {
            self.writer_comes();
        }
        let brought = Brought { lane, class, id, label, share, epoch, bucket, apart };
        let cell = JobCell::new(self, brought, at, job.work, job.share);
        if few {
            cell.meta().keep_actor();
        }
        let kept = keep(&cell);
        if let Some(deadline) = deadline {
            self.expire_after(&cell, deadline);
        }
        match post(self, cell) {
            Ok(()) => self.poke_posted(class),
            Err(job) => {
                cancel::refuse(&*job, self.why_closed());
            }
        }
        kept
    }

    /// Ends a job that is queued still once so much time has passed.
    fn expire_after<W: Work<K, C>>(&self, cell: &Arc<JobCell<K, C, W>>, deadline: Duration) {
        let spawner = &self.shared.spawner;
        let late = Arc::downgrade(cell);
        let expire = Job::new(move || {
            if let Some(cell) = late.upgrade() {
                cancel::refuse_late(&*cell as &dyn Queued<K, C>);
            }
        });
        // Where no timer can be had it ends when the actor is next looked at.
        if spawner.may_wait().is_ok()
            && let Some(place) = cell.meta().timer()
        {
            let _ = place.set(spawner.after_at(Place::workers(Priority::Critical), deadline, expire));
        }
    }

    /// Queues a job that no bound refuses: the last step of something that is under way. A closed actor answers it.
    pub(super) fn submit_intent<W: Work<K, C>>(self: &Arc<Self>, job: LaneJob<W, W::Out>) {
        let Ok(epoch) = self.word.reserve(job.class, u32::from(u16::MAX)) else {
            trampoline::dispose(job);
            return;
        };
        // Called inside a job of the runtime: beyond the bound the budget goes into debt.
        if self.shared.budget(job.class).take_waiting(1, None).is_err() {
            self.unreserve(job.class, epoch);
            trampoline::dispose(job);
            return;
        }
        self.submit_reserved(job, epoch, false, |cell| cell.let_go());
    }

    /// The job of a ticket, if it is one of this registration and not over.
    fn own_job(&self, ticket: &LaneTicket) -> Option<JobRef<K, C>> {
        if ticket.incarnation() != self.incarnation {
            return None;
        }
        let job = ticket.job().clone().whole().downcast::<JobRef<K, C>>().ok().map(|job| *job);
        job.filter(|job| !job.meta().state.is_over())
    }

    /// Whether the calling thread must not be made to wait: it is inside a job, or works for the runtime.
    fn must_not_wait(&self) -> bool {
        flight::is_inside_job() || runtime::current_pool(&self.shared.spawner).is_some()
    }

    /// Submits a job, and waits for room if there is none. Inside a job it does not wait.
    pub(super) fn submit_waiting<W: Work<K, C>>(
        self: &Arc<Self>,
        mut job: LaneJob<W, W::Out>,
    ) -> Result<LaneHandle<W::Out>, LaneRejected<W, W::Out>> {
        let mut unit = None;
        loop {
            let rejected = match self.try_submit(job, unit.take()) {
                Ok(handle) => return Ok(handle),
                Err(rejected) => rejected,
            };
            let LaneError::Backpressure(full) = &rejected.error else { return Err(rejected) };
            if self.must_not_wait() || !self.wait_for_room(full, &mut unit) {
                return Err(rejected);
            }
            job = rejected.job;
        }
    }

    /// Waits for room. False if there never will be any: on a runtime without threads nothing is left that could move.
    fn wait_for_room(self: &Arc<Self>, full: &LaneBackpressure, unit: &mut Option<BudgetGuard>) -> bool {
        if full.scope == QueueScope::Overall {
            *unit = self.shared.budget(full.class).acquire(1).ok();
            return unit.is_some();
        }
        let Some(told) = self.ask_for_room(full) else { return true };
        Handle::pending(told, OfActor::new(self.clone())).wait().is_ok()
    }

    /// Stands in line for room here. None if there is room already.
    fn ask_for_room(&self, full: &LaneBackpressure) -> Option<Arc<Waiter>> {
        let waiter = Waiter::new();
        self.room().push(waiter.clone());
        if self.word.want_room(full.class, full.cap) {
            // Nobody else is told for it: those in line look again, too.
            self.room().tell();
            return None;
        }
        Some(waiter)
    }

    /// Submits a job, and awaits room if there is none. Inside a job of the executor it does not: that might be who is to make it.
    pub(super) async fn submit_async<W: Work<K, C>>(
        self: Arc<Self>,
        mut job: LaneJob<W, W::Out>,
    ) -> Result<LaneHandle<W::Out>, LaneRejected<W, W::Out>> {
        let mut unit = None;
        loop {
            let rejected = match self.try_submit(job, unit.take()) {
                Ok(handle) => return Ok(handle),
                Err(rejected) => rejected,
            };
            let LaneError::Backpressure(full) = rejected.error.clone() else { return Err(rejected) };
            if current::is_inside(&self.shared.identity()) {
                return Err(rejected);
            }
            if full.scope == QueueScope::Overall {
                unit = self.shared.budget(full.class).acquire_async(1).await.ok();
                if unit.is_none() {
                    return Err(rejected);
                }
            } else if let Some(told) = self.ask_for_room(&full) {
                // What was not told is that it will never be: the process was forked, say.
                if Handle::pending(told, OfActor::new(self.clone())).await.is_err() {
                    return Err(rejected);
                }
            }
            job = rejected.job;
        }
    }

    /// Resolves once all that was submitted before is over.
    pub(super) fn drain_handle(self: &Arc<Self>) -> Handle<(), LaneError> {
        let waiter = Waiter::new();
        self.room().ask_drain(waiter.clone());
        if self.word.look().is_closed() {
            self.tell_drains_at_end();
        } else {
            self.poke(LaneClass::Interactive);
        }
        Handle::pending(waiter, OfActor::new(self.clone()))
    }
}
