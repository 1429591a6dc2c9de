//! A spawned closure: state word, closure and result in one allocation, shared by its ticket in a queue and its handle.
//! It does not know which queue, nor who waits.

use super::contain::{OnUnwind, catch, in_the_engine};
use super::error::{Interrupt, JobError};
use super::handle::SoleFlight;
use super::oneshot::OneShot;
use super::phase::{Killed, Left, Outcome, Phase};
use super::state::StateWord;
use super::target::{FlightId, FlightRef};
use super::{active, trampoline};
use crate::runtime::{Job, Place, Spawner};
use crate::sync::cell::UnsafeCell;
use crate::sync::{Arc, CachePadded};

/// Work that a ticket stands for: run it, or end it because its ticket is thrown away.
pub(crate) trait Ticketed: Send + Sync + 'static {
    /// Runs it, if it is still to be run.
    fn run(self: Arc<Self>);
    /// The runtime throws the ticket away: ends it as shut down, if it was still to be run.
    fn shut_down(&self);
}

/// The job that stands for `work` in a queue.
pub(super) fn ticket<W: Ticketed>(work: Arc<W>) -> Job {
    Ticket::new(work).job()
}

/// Stands for work that is to be run: dropped before that, it ends it as shut down.
pub(crate) struct Ticket<W: Ticketed>(Option<Arc<W>>);

impl<W: Ticketed> Ticket<W> {
    pub(crate) fn new(work: Arc<W>) -> Self {
        Self(Some(work))
    }

    /// The job that it is in a queue.
    pub(crate) fn job(self) -> Job {
        Job::new(move || self.take().run())
    }

    /// The work, which the caller runs.
    pub(crate) fn take(mut self) -> Arc<W> {
        self.0.take().expect("a ticket is taken once")
    }
}

impl<W: Ticketed> Drop for Ticket<W> {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            work.shut_down();
        }
    }
}

/// A spawned closure.
pub(super) struct Task<F, T> {
    word: StateWord,
    shot: OneShot<Result<T, JobError>>,
    work: UnsafeCell<Option<F>>,
    spawner: Arc<CachePadded<Spawner>>,
    place: Place,
}

// SAFETY: the closure is touched only by the one that won the claim, or that ended the task before anyone did; it moves to that
// thread, for which it is Send. The result is guarded by the one-shot, which is Sync for a `T` that is Send.
unsafe impl<F: Send, T: Send> Sync for Task<F, T> {}

impl<F, T> Task<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    pub(super) fn new(f: F, spawner: Arc<CachePadded<Spawner>>, place: Place) -> Arc<Self> {
        Arc::new(Self {
            word: StateWord::admitted(place.priority),
            shot: OneShot::new(),
            work: UnsafeCell::new(Some(f)),
            spawner,
            place,
        })
    }

    /// # Safety
    /// The caller has won the claim, or ended the task while it was unclaimed.
    unsafe fn take_work(&self) -> Option<F> {
        // SAFETY: promised by the caller.
        self.work.with_mut(|slot| unsafe { (*slot).take() })
    }

    /// Runs it if it is free. True if it was.
    fn run_if_free(&self) -> bool {
        if self.word.claim().is_err() {
            return false;
        }
        let unwound = OnUnwind::call(|| {
            if self.word.complete(Outcome::Failed).is_ok() {
                self.resolve(Err(JobError::Panicked(in_the_engine())));
            }
        });
        // SAFETY: the claim is ours.
        let Some(f) = (unsafe { self.take_work() }) else { unreachable!("a task is claimed once") };
        let result = {
            let _scope = active::enter(self.id());
            catch(f).map_err(JobError::Panicked)
        };
        match self.word.complete(Outcome::of(&result)) {
            Ok(()) => self.resolve(result),
            Err(_) => trampoline::dispose(result),
        }
        unwound.disarm();
        true
    }

    /// To be called once, by whoever won the edge that ended the task.
    fn resolve(&self, result: Result<T, JobError>) {
        // SAFETY: one thread wins the edge into a terminal phase, and only it comes here.
        trampoline::wake(unsafe { self.shot.resolve_alone(result) });
    }

    /// The caller has ended it; it stood in `before`.
    fn ended(&self, before: Phase, interrupt: Interrupt) {
        if before.is_unclaimed() {
            // SAFETY: we ended it while it was unclaimed, so nobody can claim it any more.
            trampoline::dispose(unsafe { self.take_work() });
        }
        self.resolve(Err(interrupt.into()));
    }
}

impl<F, T> Ticketed for Task<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    fn run(self: Arc<Self>) {
        self.run_if_free();
    }

    fn shut_down(&self) {
        // Claimed means that a waiter runs it: then the ticket was of no use anyway.
        if self.word.phase() == Phase::Waiting
            && let Ok(before) = self.word.kill(Killed::Shutdown)
        {
            self.ended(before, Interrupt::Shutdown);
        }
    }
}

impl<F, T> FlightRef for Task<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    fn id(&self) -> FlightId {
        FlightId::of(self, 0)
    }

    fn describe(&self) -> String {
        format!("job {}", std::any::type_name::<F>())
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
        self.run_if_free()
    }

    fn watch(&self) -> bool {
        self.word.watch()
    }

    fn leave(&self) {
        if let Left::Last(before) = self.word.leave() {
            self.ended(before, Interrupt::Cancelled);
        }
    }
}

impl<F, T> SoleFlight<T, JobError> for Task<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    fn shot(&self) -> &OneShot<Result<T, JobError>> {
        &self.shot
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use crate::flight::{JobError, broken};
    use crate::runtime::{Driver, Runtime};

    #[test]
    fn b53_a_bug_of_the_engine_while_it_holds_a_claim_answers_who_waits() {
        let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
        let mut job = runtime.spawn(|| 1);
        let mut future = runtime.spawn_future(async { 2 });
        assert!(broken(|| runtime.drive_one() && runtime.drive_one()));
        assert!(matches!(job.try_get(), Some(Err(JobError::Panicked(_)))), "nobody else would ever answer");
        assert!(matches!(future.try_get(), Some(Err(JobError::Panicked(_)))), "nobody else would ever answer");
        assert_eq!(runtime.spawn(|| 3).wait(), Ok(3));
    }
}
