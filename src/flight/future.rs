//! A spawned future: polled by whoever pops its ticket, asleep without a thread in between, and dropped outside when it is over.
//! It does not know what wakes it.

use super::contain::{OnUnwind, PanicReport, catch, in_the_engine};
use super::error::{Interrupt, JobError};
use super::handle::SoleFlight;
use super::oneshot::OneShot;
use super::phase::{Killed, Left, Outcome, Phase, Suspended};
use super::sleepers::{Asleep, Sleeper};
use super::state::StateWord;
use super::target::{FlightId, FlightRef};
use super::task::{Ticketed, ticket};
use super::{active, trampoline};
use crate::runtime::{Place, Spawner};
use crate::sync::cell::UnsafeCell;
use crate::sync::{Arc, CachePadded, Weak};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

/// What the claimer alone may touch.
struct Inside<F> {
    future: Option<F>,
    /// The flights that it found pending when it was last polled: a worker that waits for this future helps those.
    awaits: Vec<Arc<dyn FlightRef>>,
    /// Its place among the sleepers, once it has slept.
    sleeper: Option<Arc<Sleeper>>,
}

/// A spawned future.
pub(super) struct FutureTask<F, T> {
    word: StateWord,
    shot: OneShot<Result<T, JobError>>,
    inside: UnsafeCell<Inside<F>>,
    me: Weak<Self>,
    spawner: Arc<CachePadded<Spawner>>,
    place: Place,
}

// SAFETY: what is inside is touched only by the one that holds the claim, or that ended the task while nobody did; the claim
// hands it over from thread to thread, for which it is Send. The result is guarded by the one-shot.
unsafe impl<F: Send, T: Send> Sync for FutureTask<F, T> {}

impl<F, T> FutureTask<F, T> {
    /// # Safety
    /// The caller holds the claim, or has ended the task while it was unclaimed, or has the task for itself.
    unsafe fn with_inside<R>(&self, f: impl FnOnce(&mut Inside<F>) -> R) -> R {
        // SAFETY: promised by the caller.
        self.inside.with_mut(|inside| f(unsafe { &mut *inside }))
    }

    /// Drops what is inside, in place and contained.
    ///
    /// # Safety
    /// As for `with_inside`.
    unsafe fn clear(&self) {
        // SAFETY: promised by the caller. The future is dropped where it lies, as pinning asks.
        unsafe {
            self.with_inside(|inside| {
                drop(std::mem::take(&mut inside.awaits));
                if let Some(sleeper) = inside.sleeper.take() {
                    sleeper.leave(&self.spawner);
                }
                if inside.future.is_some() {
                    trampoline::call(|| inside.future = None);
                }
            });
        }
    }
}

impl<F, T> Drop for FutureTask<F, T> {
    /// Nobody holds its handle, and nobody can wake it: it may be asleep for good, and is still among the sleepers then.
    fn drop(&mut self) {
        // SAFETY: the last reference is going.
        unsafe { self.clear() };
    }
}

impl<F, T> FutureTask<F, T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    pub(super) fn new(future: F, spawner: Arc<CachePadded<Spawner>>, place: Place) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            word: StateWord::admitted(place.priority),
            shot: OneShot::new(),
            inside: UnsafeCell::new(Inside { future: Some(future), awaits: Vec::new(), sleeper: None }),
            me: me.clone(),
            spawner,
            place,
        })
    }

    /// Polls it if it is free. True if it was.
    fn poll_if_free(&self) -> bool {
        if self.word.claim().is_err() {
            return false;
        }
        let Some(me) = self.me.upgrade() else { unreachable!("whoever calls holds it") };
        let waker = Waker::from(me.clone());
        let unwound = OnUnwind::call(|| self.end(Err(JobError::Panicked(in_the_engine()))));
        // SAFETY: the claim is ours.
        let polled = unsafe { self.with_inside(|inside| self.poll(inside, &waker)) };
        match polled {
            Ok(Poll::Pending) => {
                // SAFETY: the claim is ours still.
                let open = unsafe { self.with_inside(|inside| self.enter_sleepers(inside)) };
                unwound.disarm();
                self.let_go(me, self.word.suspend());
                if !open {
                    self.shut_down();
                }
            }
            Ok(Poll::Ready(value)) => {
                unwound.disarm();
                self.end(Ok(value));
            }
            Err(report) => {
                unwound.disarm();
                self.end(Err(JobError::Panicked(report)));
            }
        }
        trampoline::dispose(waker);
        true
    }

    fn poll(&self, inside: &mut Inside<F>, waker: &Waker) -> Result<Poll<T>, PanicReport> {
        let scope = active::enter_future(self.id(), std::mem::take(&mut inside.awaits));
        let Some(future) = inside.future.as_mut() else { unreachable!("it is polled until it is over") };
        // SAFETY: the future lies in an `Arc`, is never moved, and is dropped in place.
        let future = unsafe { Pin::new_unchecked(future) };
        let polled = catch(|| future.poll(&mut Context::from_waker(waker)));
        inside.awaits = scope.awaited();
        polled
    }

    /// Sees to it that a shutdown finds it asleep. False if the runtime is shut down already.
    fn enter_sleepers(&self, inside: &mut Inside<F>) -> bool {
        if inside.sleeper.is_none() {
            let me: Weak<dyn Asleep> = self.me.clone();
            inside.sleeper = Sleeper::enter(&self.spawner, me);
        }
        inside.sleeper.is_some()
    }

    /// The claimer lets go of it, since its poll found it pending or it only looked.
    fn let_go(&self, me: Arc<Self>, suspended: Suspended) {
        match suspended {
            Suspended::Asleep => {}
            Suspended::Again => me.push(),
            // SAFETY: it was ended while we held the claim, so what is inside is ours.
            Suspended::Over(_) => unsafe { self.clear() },
        }
    }

    /// The claimer's poll ended it. The future goes before the outcome is told.
    fn end(&self, result: Result<T, JobError>) {
        // SAFETY: the claim is ours, and whoever ended the task meanwhile has left what is inside to us.
        unsafe { self.clear() };
        match self.word.complete(Outcome::of(&result)) {
            Ok(()) => self.resolve(result),
            Err(_) => trampoline::dispose(result),
        }
    }

    /// To be called once, by whoever won the edge that ended the task.
    fn resolve(&self, result: Result<T, JobError>) {
        // SAFETY: one thread wins the edge into a terminal phase, and only it comes here.
        trampoline::wake(unsafe { self.shot.resolve_alone(result) });
    }

    /// The caller has ended it; it stood in `before`. The future goes before the outcome is told, but where the destructors of
    /// futures have led to further ones for a few levels: there it is put off, so that long chains stay flat.
    fn ended(&self, before: Phase, interrupt: Interrupt) {
        if before.is_unclaimed() {
            if trampoline::is_deep() {
                let Some(me) = self.me.upgrade() else { unreachable!("whoever calls holds it") };
                // SAFETY: we ended it while it was unclaimed, so nobody can claim it any more.
                trampoline::run(move || unsafe { me.clear() });
            } else {
                // SAFETY: as above.
                unsafe { self.clear() };
            }
        }
        self.resolve(Err(interrupt.into()));
    }

    fn push(self: Arc<Self>) {
        let (spawner, place) = (self.spawner.clone(), self.place);
        // If the runtime is closed, dropping the ticket ends the task.
        drop(spawner.push_hot(place, ticket(self)));
    }
}

impl<F, T> Ticketed for FutureTask<F, T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn run(self: Arc<Self>) {
        self.poll_if_free();
    }

    fn shut_down(&self) {
        if let Ok(before) = self.word.kill(Killed::Shutdown) {
            self.ended(before, Interrupt::Shutdown);
        }
    }
}

impl<F, T> Wake for FutureTask<F, T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn wake(self: Arc<Self>) {
        if self.word.wake() {
            self.push();
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.word.wake() {
            self.clone().push();
        }
    }
}

impl<F, T> FlightRef for FutureTask<F, T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn id(&self) -> FlightId {
        FlightId::of(self, 0)
    }

    fn describe(&self) -> String {
        format!("future {}", std::any::type_name::<F>())
    }

    fn spawner(&self) -> Spawner {
        Spawner::clone(&self.spawner)
    }

    fn place(&self) -> Place {
        self.place
    }

    fn phase(&self) -> Phase {
        self.word.phase()
    }

    fn help(&self) -> bool {
        self.poll_if_free()
    }

    fn watch(&self) -> bool {
        self.word.watch()
    }

    /// What it found pending when it was last polled, if it sleeps: it is claimed for a moment to look.
    fn awaits(&self, out: &mut Vec<Arc<dyn FlightRef>>) {
        if !self.word.inspect() {
            return;
        }
        // SAFETY: the claim is ours.
        unsafe { self.with_inside(|inside| out.extend(inside.awaits.iter().cloned())) };
        if let Some(me) = self.me.upgrade() {
            self.let_go(me, self.word.put_back());
        }
    }

    fn leave(&self) {
        if let Left::Last(before) = self.word.leave() {
            self.ended(before, Interrupt::Cancelled);
        }
    }
}

impl<F, T> SoleFlight<T, JobError> for FutureTask<F, T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn shot(&self) -> &OneShot<Result<T, JobError>> {
        &self.shot
    }
}
