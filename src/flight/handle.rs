//! The handle: a future that any executor can poll, and a thread can wait for.
//! It does not know what it waits for, only how to ask, to help and to leave.

#![forbid(unsafe_code)]

use super::cancel::CancellationToken;
use super::completion::Completion;
use super::error::{Interrupt, JobError};
use super::first::{FirstFlight, Told};
use super::oneshot::OneShot;
use super::target::FlightRef;
use super::until::{Until, withdraw};
use super::waits::{self, Awaited, Helping, Shot, Waited};
use super::{active, trampoline};
use crate::runtime::{self, Spawner};
use crate::sync::Arc;
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A flight that has exactly one waiter, whose one-shot it holds itself: work that was spawned with a handle.
pub(crate) trait SoleFlight<T, E>: FlightRef {
    /// Where the result will be.
    fn shot(&self) -> &OneShot<Result<T, E>>;

    /// Puts itself into `place`, if that is an empty `Option` of what its maker knows it as.
    fn put_into(self: Arc<Self>, place: &mut dyn Any) {
        let _ = place;
    }

    /// Its only waiter lets go of it.
    fn put_down(self: Arc<Self>) {}
}

enum State<T: Send + 'static, E: Send + 'static> {
    Ready(Option<Result<T, E>>),
    Sole(Arc<dyn SoleFlight<T, E>>),
    Joined(Arc<Completion<T, E>>, Arc<dyn FlightRef>),
    /// The flight's first waiter, whose place is there.
    First(Arc<dyn FirstFlight<T, E>>),
}

/// The claim on one result: await it, wait for it, or look whether it is there.
///
/// * **Await** it on any executor: it is a [`Future`] of `Result<T, E>`. A new waker replaces the one before.
/// * **Wait** for it on a thread with [`wait`](Self::wait) or [`wait_timeout`](Self::wait_timeout). A worker that waits inside a
///   job runs the awaited work itself if it is free, and what stands before it, and nothing else; a wait that could never
///   end is answered at once with [`Interrupt::WouldDeadlock`].
/// * **Look** with [`try_get`](Self::try_get).
///
/// Dropping a handle detaches: the work goes on, and its result is dropped. [`cancel`](Self::cancel) withdraws;
/// [`cancel_on_drop`](Self::cancel_on_drop) makes dropping withdraw.
///
/// # Panics
///
/// Polled or waited for again after it gave its result away, it panics, like any future.
#[must_use = "dropping a handle detaches the work and loses its result; say `detach()` if that is meant"]
pub struct Handle<T: Send + 'static, E: Send + From<Interrupt> + 'static = JobError> {
    state: State<T, E>,
    /// What may end the wait early.
    until: Option<Box<Until>>,
}

impl<T: Send + 'static, E: Send + From<Interrupt> + 'static> Handle<T, E> {
    /// A handle whose result is there already. Costs no allocation.
    pub fn ready(result: Result<T, E>) -> Self {
        Self { state: State::Ready(Some(result)), until: None }
    }

    /// The handle of `waiter`, which waits for `flight`.
    pub(crate) fn pending(waiter: Arc<Completion<T, E>>, flight: Arc<dyn FlightRef>) -> Self {
        Self { state: State::Joined(waiter, flight), until: None }
    }

    /// The handle of the one for whom a flight was made, and who has its place there.
    pub(crate) fn first<F: FirstFlight<T, E> + 'static>(flight: Arc<F>) -> Self {
        Self { state: State::First(flight), until: None }
    }

    /// The handle of a flight that nobody else can wait for.
    pub(crate) fn sole(flight: Arc<dyn SoleFlight<T, E>>) -> Self {
        Self { state: State::Sole(flight), until: None }
    }

    /// Withdraws by itself once `token` is cancelled, or once the runtime's clock has come to `deadline`.
    pub(crate) fn until(
        mut self,
        spawner: &Spawner,
        token: Option<&CancellationToken>,
        deadline: Option<Duration>,
    ) -> Self {
        if let State::Joined(waiter, flight) = &self.state {
            self.until = Some(Box::new(Until::watch((waiter, flight), spawner, token, deadline)));
        }
        self
    }

    /// The flight it waits for; `None` if the result was there from the start.
    pub(crate) fn flight(&self) -> Option<Arc<dyn FlightRef>> {
        match &self.state {
            State::Ready(_) => None,
            State::Sole(flight) => Some(flight.clone()),
            State::Joined(_, flight) => Some(flight.clone()),
            State::First(flight) => Some(flight.clone()),
        }
    }

    /// The flight that nobody else can wait for, as its maker knows it; `None` for other handles, and once the result was taken.
    pub(crate) fn sole_flight<F: 'static>(&self) -> Option<F> {
        let State::Sole(flight) = &self.state else { return None };
        let mut place: Option<F> = None;
        flight.clone().put_into(&mut place);
        place
    }

    fn flight_ref(&self) -> Option<&dyn FlightRef> {
        match &self.state {
            State::Ready(_) => None,
            State::Sole(flight) => Some(&**flight as &dyn FlightRef),
            State::Joined(_, flight) => Some(&**flight),
            State::First(flight) => Some(&**flight as &dyn FlightRef),
        }
    }

    /// Whether the result is there, or has been taken from here.
    pub fn is_resolved(&self) -> bool {
        match &self.state {
            State::Ready(_) => true,
            State::Sole(flight) => flight.shot().is_done(),
            State::Joined(waiter, _) => waiter.shot().is_done(),
            State::First(flight) => flight.first().shot().is_done(),
        }
    }

    #[inline]
    fn taken(&mut self) -> Option<Result<T, E>> {
        match &mut self.state {
            State::Ready(result) => Some(result.take().expect("a handle gives its result away once")),
            _ => self.taken_from_flight(),
        }
    }

    fn taken_from_flight(&mut self) -> Option<Result<T, E>> {
        let result = match &self.state {
            State::Ready(_) => return None,
            State::Sole(flight) => flight.shot().take()?,
            State::Joined(waiter, _) => waiter.shot().take()?,
            State::First(flight) => match flight.first().told()? {
                Told::Over => flight.outcome().expect("it is over, says who was told"),
                Told::Withdrawn => Err(Interrupt::Cancelled.into()),
            },
        };
        // The work is let go of together with its result.
        self.put_down();
        self.until = None;
        Some(result)
    }

    /// Lets go of what it waits for.
    fn put_down(&mut self) {
        if let State::Sole(flight) = std::mem::replace(&mut self.state, State::Ready(None)) {
            flight.put_down();
        }
    }

    /// Leaves a waker. True if the result is there.
    fn register(&self, waker: &Waker) -> bool {
        match &self.state {
            State::Ready(_) => true,
            State::Sole(flight) => flight.shot().register(waker),
            State::Joined(waiter, _) => waiter.shot().register(waker),
            State::First(flight) => flight.first().shot().register(waker),
        }
    }

    /// The result, if it is there. Never waits and runs nothing.
    ///
    /// # Panics
    /// If the result has been taken already.
    pub fn try_get(&mut self) -> Option<Result<T, E>> {
        if let Some(flight) = self.flight_ref()
            && !self.is_resolved()
        {
            flight.poke();
        }
        self.taken()
    }

    /// Waits until the result is there.
    ///
    /// On a worker inside a job it runs the awaited work itself if that is free, and else lends its place to a spare thread. On a
    /// runtime without threads it drives that runtime. On any other thread it spins for a moment and then sleeps.
    ///
    /// A worker may wait under a lock of the host's: it runs no stranger meanwhile. A body that has a permit of a
    /// [`CpuConcurrencySemaphore`](crate::CpuConcurrencySemaphore) lends that while it waits, so its lock must be none that other bodies of the
    /// semaphore take.
    ///
    /// # Errors
    /// What the work ended with; or, made from [`Interrupt::WouldDeadlock`] or [`Interrupt::Stalled`], that waiting here could
    /// never end. The work is then detached, and goes on.
    #[inline]
    pub fn wait(mut self) -> Result<T, E> {
        if self.until.is_none()
            && let State::Ready(result) = &mut self.state
            && let Some(result) = result.take()
        {
            // Nothing is left in it.
            std::mem::forget(self);
            return result;
        }
        self.wait_on()
    }

    #[inline(never)]
    fn wait_on(mut self) -> Result<T, E> {
        self.wait_for(None, Helping::Workers).unwrap_or_else(|| unreachable!("a wait without limit does not time out"))
    }

    /// Like [`wait`](Self::wait), and if the work has not been started yet this thread runs it, whichever thread it is.
    ///
    /// Saves the way to a worker and back, for callers who would only sleep meanwhile.
    ///
    /// # Errors
    /// As for `wait`.
    pub fn wait_helping(mut self) -> Result<T, E> {
        self.wait_for(None, Helping::Anyone).unwrap_or_else(|| unreachable!("a wait without limit does not time out"))
    }

    /// As [`wait`](Self::wait), for who keeps the handle. Also whether the result is here still: if its flight keeps one for all who
    /// wait, this is a copy of that.
    pub(crate) fn wait_in_place(&mut self) -> (Result<T, E>, bool) {
        if !self.is_resolved()
            && let Waited::GivenUp(interrupt) = self.wait_here(None, Helping::Workers)
        {
            return (Err(interrupt.into()), false);
        }
        match &self.state {
            State::First(flight) if flight.first().told() == Some(Told::Over) => {
                (flight.outcome().expect("it is over, says who was told"), true)
            }
            _ => (self.taken().expect("a wait without limit does not time out"), false),
        }
    }

    /// Waits until the result is there, at most for `limit`. `None` if it was not: the handle is as good as before.
    ///
    /// A worker that waits may run the awaited work, and does not come back before that is over. On a runtime without threads
    /// the limit is counted by the runtime's own clock.
    ///
    /// # Panics
    /// If the result has been taken already.
    pub fn wait_timeout(&mut self, limit: Duration) -> Option<Result<T, E>> {
        self.wait_for(Some(limit), Helping::Workers)
    }

    #[inline]
    fn wait_for(&mut self, limit: Option<Duration>, helping: Helping) -> Option<Result<T, E>> {
        if let State::Ready(_) = &self.state {
            return self.taken();
        }
        self.wait_for_flight(limit, helping)
    }

    fn wait_for_flight(&mut self, limit: Option<Duration>, helping: Helping) -> Option<Result<T, E>> {
        if self.is_resolved() {
            return self.taken();
        }
        match self.wait_here(limit, helping) {
            Waited::Resolved => self.taken(),
            Waited::TimedOut => None,
            Waited::GivenUp(interrupt) => Some(Err(interrupt.into())),
        }
    }

    fn wait_here(&self, limit: Option<Duration>, helping: Helping) -> Waited {
        let shot = Shot { done: &|| self.is_resolved(), register: &|waker| self.register(waker) };
        let Some(flight) = self.flight_ref() else { return Waited::Resolved };
        let share = || self.flight().expect("it has one, and keeps it while it is borrowed");
        let waited = waits::wait(Awaited { flight, share: &share }, shot, limit, helping);
        if !matches!(waited, Waited::Resolved) {
            flight.waits_no_more();
        }
        waited
    }

    /// Withdraws. If the result is not there yet, this handle's result is `Cancelled`, at once; and if nobody else wants the
    /// work it is cancelled too: not started if it has not been, else its result is dropped.
    pub fn cancel(&self) {
        match &self.state {
            State::Ready(_) => {}
            State::Sole(flight) => flight.leave(),
            State::Joined(waiter, flight) => {
                withdraw(waiter, &**flight, Interrupt::Cancelled);
            }
            State::First(flight) => {
                if let Ok(waker) = flight.first().withdraw() {
                    flight.leave();
                    trampoline::wake(waker);
                }
            }
        }
    }

    /// Lets the work go on without anyone to take its result. Dropping the handle does the same; this says that it is meant.
    pub fn detach(self) {}

    /// Makes dropping withdraw, as [`cancel`](Self::cancel) does.
    pub fn cancel_on_drop(self) -> CancelOnDrop<T, E> {
        CancelOnDrop { handle: Some(self) }
    }
}

impl<T: Send + 'static, E: Send + From<Interrupt> + 'static> Future for Handle<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(result) = this.taken() {
            return Poll::Ready(result);
        }
        let flight = this.flight_ref().expect("an unresolved handle has a flight");
        if active::contains(flight.id()) {
            return Poll::Ready(Err(Interrupt::WouldDeadlock(waits::self_wait(flight)).into()));
        }
        if runtime::is_forked() && is_lost(flight) {
            return Poll::Ready(Err(Interrupt::Shutdown.into()));
        }
        flight.poke();
        if this.register(cx.waker()) {
            return this.taken().map_or(Poll::Pending, Poll::Ready);
        }
        if let Some(why) = this.flight_ref().and_then(|flight| flight.slept_for()) {
            // It may have resolved meanwhile: the real result goes before the synthetic one.
            return Poll::Ready(this.taken().unwrap_or_else(|| Err(why.into())));
        }
        active::note_awaited(|| this.flight());
        Poll::Pending
    }
}

/// Whether who executes it is in the parent of this process, so that it will never end here.
#[cold]
fn is_lost(flight: &dyn FlightRef) -> bool {
    let mut lost = false;
    flight.poke_and_ask(&mut |spawner| lost = spawner.is_forked());
    lost
}

// Nothing in it is ever pinned.
impl<T: Send + 'static, E: Send + From<Interrupt> + 'static> Unpin for Handle<T, E> {}

impl<T: Send + 'static, E: Send + From<Interrupt> + 'static> Drop for Handle<T, E> {
    #[inline]
    fn drop(&mut self) {
        if !matches!(self.state, State::Ready(None)) {
            self.leave_state();
        }
    }
}

impl<T: Send + 'static, E: Send + From<Interrupt> + 'static> Handle<T, E> {
    /// Nobody takes the result from here any more.
    #[inline(never)]
    fn leave_state(&mut self) {
        match &mut self.state {
            State::Ready(result) => {
                if let Some(result) = result.take() {
                    trampoline::dispose(result);
                }
            }
            State::Sole(flight) => {
                // Else what was left here may as well go with the flight.
                if std::mem::needs_drop::<T>() || flight.shot().has_waker() {
                    flight.shot().abandon();
                }
                self.put_down();
            }
            State::Joined(waiter, flight) => {
                if waiter.shot().abandon() {
                    flight.abandoned();
                }
            }
            State::First(flight) => {
                // Whoever has told him asks for nothing more, and what he was told lies in the flight.
                if flight.first().told().is_none() {
                    flight.first().shot().abandon();
                }
            }
        }
    }
}

impl<T: Send + 'static, E: Send + From<Interrupt> + 'static> fmt::Debug for Handle<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("is_resolved", &self.is_resolved()).finish_non_exhaustive()
    }
}

/// A handle whose drop withdraws, as [`Handle::cancel`] does.
#[must_use = "dropping it cancels the work"]
pub struct CancelOnDrop<T: Send + 'static, E: Send + From<Interrupt> + 'static = JobError> {
    handle: Option<Handle<T, E>>,
}

impl<T: Send + 'static, E: Send + From<Interrupt> + 'static> CancelOnDrop<T, E> {
    /// The plain handle again, whose drop detaches.
    pub fn into_inner(mut self) -> Handle<T, E> {
        self.handle.take().expect("it is there until it is dropped")
    }

    /// The handle, to look at, to wait for with a limit, or to cancel.
    pub fn handle(&mut self) -> &mut Handle<T, E> {
        self.handle.as_mut().expect("it is there until it is dropped")
    }
}

impl<T: Send + 'static, E: Send + From<Interrupt> + 'static> Future for CancelOnDrop<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(self.handle()).poll(cx)
    }
}

impl<T: Send + 'static, E: Send + From<Interrupt> + 'static> Drop for CancelOnDrop<T, E> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.cancel();
        }
    }
}

impl<T: Send + 'static, E: Send + From<Interrupt> + 'static> fmt::Debug for CancelOnDrop<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelOnDrop").field("handle", &self.handle).finish()
    }
}
