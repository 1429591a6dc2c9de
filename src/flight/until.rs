//! What may end one waiter's wait before its time: a token that is cancelled, a deadline that passes.
//! It does not know what is waited for, nor who else waits for it.
#![forbid(unsafe_code)]

use super::cancel::{CancelRegistration, CancellationToken};
use super::completion::Completion;
use super::error::Interrupt;
use super::target::FlightRef;
use super::trampoline;
use crate::runtime::{Job, Place, Priority, Spawner, TimerHandle};
use crate::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

/// What is watched for one waiter; dropping it ends the watch, and leaves nothing at the token or the timer.
pub(crate) struct Until {
    _heard: Option<CancelRegistration>,
    deadline: Option<TimerHandle>,
}

/// A waiter that is to be ended early.
struct Early<T: Send + 'static, E: Send + 'static> {
    waiter: Weak<Completion<T, E>>,
    flight: Weak<dyn FlightRef>,
}

impl<T: Send + 'static, E: Send + From<Interrupt> + 'static> Early<T, E> {
    fn of(waiter: &Arc<Completion<T, E>>, flight: &Arc<dyn FlightRef>) -> Self {
        Self { waiter: Arc::downgrade(waiter), flight: Arc::downgrade(flight) }
    }

    /// Answers it, unless it has been answered, and withdraws it.
    fn end(self, why: Interrupt) {
        if let (Some(waiter), Some(flight)) = (self.waiter.upgrade(), self.flight.upgrade()) {
            withdraw(&waiter, &*flight, why);
        }
    }
}

/// One waiter is answered with `why`, at once, and withdraws; unless it has been answered.
pub(crate) fn withdraw<T: Send + 'static, E: Send + From<Interrupt> + 'static>(
    waiter: &Completion<T, E>,
    flight: &dyn FlightRef,
    why: Interrupt,
) {
    if let Ok(waker) = waiter.shot().resolve(Err(why.into())) {
        flight.abandoned();
        flight.leave();
        trampoline::wake(waker);
    }
}

impl Until {
    /// Ends `waiter` once `token` is cancelled, or once the runtime's clock has come to `deadline`. A deadline that nobody would wait
    /// for has passed.
    pub(crate) fn watch<T: Send + 'static, E: Send + From<Interrupt> + 'static>(
        (waiter, flight): (&Arc<Completion<T, E>>, &Arc<dyn FlightRef>),
        spawner: &Spawner,
        token: Option<&CancellationToken>,
        deadline: Option<Duration>,
    ) -> Self {
        let heard = token.map(|token| {
            let early = Early::of(waiter, flight);
            token.on_cancel(move || early.end(Interrupt::Cancelled))
        });
        let deadline = deadline.and_then(|deadline| {
            let (early, left) = (Early::of(waiter, flight), deadline.saturating_sub(spawner.now()));
            if left.is_zero() || spawner.may_wait().is_err() {
                early.end(Interrupt::DeadlinePassed);
                return None;
            }
            let job = Job::new(move || early.end(Interrupt::DeadlinePassed));
            Some(spawner.after_at(Place::workers(Priority::Critical), left, job))
        });
        Self { _heard: heard, deadline }
    }

    /// Wakes who waits for something else once `token` is cancelled, or once the runtime's clock has come to `deadline`, for a caller
    /// that `may_wait`.
    pub(crate) fn wakes(
        waker: &Waker,
        spawner: &Spawner,
        token: Option<&CancellationToken>,
        deadline: Option<Duration>,
    ) -> Self {
        let heard = token.map(|token| {
            let waker = waker.clone();
            token.on_cancel(move || waker.wake())
        });
        let deadline = deadline.map(|deadline| {
            let (waker, left) = (waker.clone(), deadline.saturating_sub(spawner.now()));
            let job = Job::new(move || trampoline::wake(Some(waker)));
            spawner.after_at(Place::workers(Priority::Critical), left, job)
        });
        Self { _heard: heard, deadline }
    }
}

impl Drop for Until {
    fn drop(&mut self) {
        if let Some(deadline) = self.deadline.take() {
            deadline.cancel();
        }
    }
}
