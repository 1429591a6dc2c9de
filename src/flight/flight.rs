//! One execution with many waiters: the state word, the result, and the list of those who wait for it.
//! It does not know what is executed, nor its own name: its owner does.

use super::completion::Completion;
use super::contain::catch;
use super::error::Interrupt;
use super::first::FirstWaiter;
use super::list::SealableList;
use super::phase::{Killed, Left, Outcome, Phase, Refused};
use super::state::StateWord;
use super::trampoline;
use crate::runtime::Priority;
use crate::sync::cell::UnsafeCell;
use crate::sync::{Arc, mutant};

/// Why a waiter could not join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinRefused {
    /// The flight is over, in this phase: [`Flight::outcome`] says with what.
    Terminal(Phase),
    /// There are as many owners as can be counted.
    Full,
}

/// One execution, with any number of waiters, each of which gets exactly one outcome.
///
/// `T` and `E` are copied for each waiter, so they are `Arc`s or small.
#[repr(C)]
pub(crate) struct Flight<T, E, F = ()>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + From<Interrupt> + 'static,
    F: FirstWaiter,
{
    word: StateWord,
    /// Beside the word: who looks for a result reads the two.
    result: UnsafeCell<Option<Result<T, E>>>,
    first: F,
    waiters: SealableList<Completion<T, E>>,
}

// SAFETY: the result is written by the one that sealed the word, before it finishes it, and read only by those who saw it
// finished. Values are shared by reference and moved between threads, so `T` and `E` must be Send and Sync, which they are.
unsafe impl<T, E, F> Sync for Flight<T, E, F>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + From<Interrupt> + 'static,
    F: FirstWaiter,
{
}

impl<T, E, F> Flight<T, E, F>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + From<Interrupt> + 'static,
    F: FirstWaiter,
{
    /// Idle: nobody has asked for it.
    pub(crate) fn new() -> Self {
        Self::with(StateWord::new(), None)
    }

    /// Admitted from the start, with one owner and the waiter that it may have.
    pub(crate) fn admitted(priority: Priority, waiter: Option<Arc<Completion<T, E>>>) -> Self {
        Self::with(StateWord::admitted(priority), waiter)
    }

    /// Idle, with one owner, and the waiter that it may have, until it is admitted.
    pub(crate) fn wanted(priority: Priority, waiter: Option<Arc<Completion<T, E>>>) -> Self {
        Self::with(StateWord::wanted(priority), waiter)
    }

    fn with(word: StateWord, waiter: Option<Arc<Completion<T, E>>>) -> Self {
        let listed = waiter.is_some();
        let waiters = waiter.map_or_else(SealableList::new, SealableList::with);
        Self { word: word.with_list(listed), first: F::nobody(), waiters, result: UnsafeCell::new(None) }
    }

    /// The same with its first waiter, before anybody else sees it.
    #[inline]
    pub(crate) fn with_first(mut self, first: F) -> Self {
        self.first = first;
        self
    }

    /// Done from the start, with a value that is there already.
    pub(crate) fn done(value: T) -> Self {
        let flight = Self::new();
        flight.publish(Ok(value)).unwrap_or_else(|_| unreachable!("nobody else knows it yet"));
        flight
    }

    /// The place of its first waiter.
    pub(crate) fn first(&self) -> &F {
        &self.first
    }

    /// Its state: admission, gates, claim, priority, and what else needs no result.
    ///
    /// End it through the flight, not through the word: waiters hear only of the former.
    pub(crate) fn word(&self) -> &StateWord {
        &self.word
    }

    /// The result, once it is over with one.
    pub(crate) fn result(&self) -> Option<&Result<T, E>> {
        if !self.word.phase().has_result() {
            return None;
        }
        // SAFETY: the phase was read with Acquire after `finish` released it, and nobody writes the result after that.
        self.result.with(|slot| unsafe { (*slot).as_ref() })
    }

    /// What a waiter is told now: the result, or how it ended without one. `None` while it is not over.
    pub(crate) fn outcome(&self) -> Option<Result<T, E>> {
        let phase = self.word.phase();
        if phase.has_result() {
            let result = self.result()?;
            return Some(catch(|| result.clone()).unwrap_or_else(|report| Err(Interrupt::Panicked(report).into())));
        }
        interrupt(phase).map(|interrupt| Err(interrupt.into()))
    }

    /// Writes the result, if the right to do so can be won; then it is visible, but no waiter has been told: see
    /// [`deliver`](Self::deliver). Gives the result back if the flight was over or somebody else is about to end it.
    pub(crate) fn publish(&self, result: Result<T, E>) -> Result<(), Result<T, E>> {
        self.publish_after(result, || {})
    }

    /// As [`publish`](Self::publish); `first` is called once the right to write has been won, and before anybody sees the result.
    /// It is short, and no host code.
    pub(crate) fn publish_after(&self, result: Result<T, E>, first: impl FnOnce()) -> Result<(), Result<T, E>> {
        if self.word.seal().is_err() {
            return Err(result);
        }
        first();
        let outcome = Outcome::of(&result);
        self.result.with_mut(|slot| {
            // SAFETY: sealing is won once, and nobody reads before `finish`.
            unsafe { *slot = Some(result) };
        });
        if mutant("flight.first_told_early") {
            self.first.tell();
        }
        self.word.finish(outcome);
        Ok(())
    }

    /// As [`publish`](Self::publish), in one step, for a claimer beside whom nobody may write a result: others can but end the flight
    /// without one.
    ///
    /// # Safety
    /// The caller has claimed the flight and has neither published nor given the claim back, and nobody else publishes from then on.
    pub(crate) unsafe fn complete(&self, result: Result<T, E>) -> Result<(), Result<T, E>> {
        if self.word.phase().is_terminal() {
            return Err(result);
        }
        let outcome = Outcome::of(&result);
        if mutant("flight.completes_first") && self.word.complete(outcome).is_err() {
            return Err(result);
        }
        self.result.with_mut(|slot| {
            // SAFETY: the caller alone writes, and nobody reads before the phase says that there is a result.
            unsafe { *slot = Some(result) };
        });
        self.word.complete(outcome).map_err(|_| {
            // SAFETY: it was ended without a result, so nobody ever reads.
            let result = self.result.with_mut(|slot| unsafe { (*slot).take() });
            result.expect("it was written above")
        })
    }

    /// Publishes the result and tells every waiter. False if the flight was over or somebody else is about to end it; then the
    /// result is dropped.
    #[cfg(test)]
    pub(crate) fn seal_and_publish(&self, result: Result<T, E>) -> bool {
        match self.publish(result) {
            Ok(()) => {
                self.deliver();
                true
            }
            Err(result) => {
                trampoline::dispose(result);
                false
            }
        }
    }

    /// Ends it without a result and tells every waiter. `Ok` holds the phase it stood in; `Err` that it was over or sealed.
    pub(crate) fn kill(&self, how: Killed) -> Result<Phase, Phase> {
        let (before, wanted) = self.word.kill_wanted(how)?;
        // Who is told has owned it first, so without owners the list may stay open: nobody will hang in it any more.
        if wanted {
            self.deliver();
        }
        Ok(before)
    }

    /// One owner withdraws; if it was the last, the flight is cancelled and whoever still waits is told.
    #[cfg(test)]
    pub(crate) fn leave(&self) -> Left {
        let left = self.word.leave();
        if let Left::Last(_) = left {
            self.deliver();
        }
        left
    }

    /// One owner withdraws; if it was the last, whoever still waits is told, and what nobody has claimed goes back to idle: see [`StateWord::withdraw`].
    pub(crate) fn withdraw(&self) -> Left {
        let left = self.word.withdraw();
        if let Left::Last(_) = left {
            self.deliver();
        }
        left
    }

    /// Tells every waiter the outcome, in order of registration. For the one that ended the flight; does nothing before the
    /// end, and nothing the second time. Runs wakers, so nothing may be half changed.
    pub(crate) fn deliver(&self) {
        if !self.word.phase().is_terminal() {
            return;
        }
        self.first.tell();
        // Whoever hangs a waiter up says so in the word first, and is refused by a word that is over: where nobody has, nobody will,
        // and the list may stay open.
        if self.word.is_listed() {
            self.waiters.seal().deliver(|waiter| {
                let outcome = self.outcome().expect("it is over");
                waiter.resolve(outcome);
            });
        }
    }

    /// Makes `waiter` one of the owners and one of those who are told; also whether nobody owned it before. On refusal `waiter` is
    /// unchanged.
    pub(crate) fn join_anew(&self, waiter: Arc<Completion<T, E>>) -> Result<bool, JoinRefused> {
        let anew = self.word.join_anew(!mutant("flight.joins_unlisted")).map_err(|refused| match refused {
            Refused::Phase(phase) => JoinRefused::Terminal(phase),
            Refused::Full => JoinRefused::Full,
        })?;
        // The word first, then the list: see `kill`.
        self.waiters.push(waiter).map_err(|_| JoinRefused::Terminal(self.word.phase()))?;
        Ok(anew)
    }

    /// As `join_anew`, for who does not ask.
    #[cfg(test)]
    pub(crate) fn join(&self, waiter: Arc<Completion<T, E>>) -> Result<(), JoinRefused> {
        self.join_anew(waiter).map(drop)
    }

    /// One of its waiters will never be asked again.
    pub(crate) fn abandoned(&self) {
        self.waiters.note_dead();
    }
}

/// The interrupt that a phase without a result stands for.
pub(crate) fn interrupt(phase: Phase) -> Option<Interrupt> {
    match phase {
        Phase::Cancelled => Some(Interrupt::Cancelled),
        Phase::Superseded => Some(Interrupt::Superseded),
        Phase::Shutdown => Some(Interrupt::Shutdown),
        _ => None,
    }
}

impl<T, E, F> Drop for Flight<T, E, F>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + From<Interrupt> + 'static,
    F: FirstWaiter,
{
    fn drop(&mut self) {
        if !self.word.is_unwanted() {
            let _ = self.kill(Killed::Shutdown);
        }
        let result = self.result.with_mut(|slot| {
            // SAFETY: `self` is borrowed exclusively.
            unsafe { (*slot).take() }
        });
        if let Some(result) = result {
            trampoline::dispose(result);
        }
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::*;
    use crate::flight::Handle;
    use crate::runtime::Priority;
    use crate::sync::stat::{AtomicUsize, Ordering};
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Wake, Waker};

    type Probe = Flight<u64, Interrupt>;

    const _: () = assert!(size_of::<Probe>() <= 48 + size_of::<Result<u64, Interrupt>>());

    fn waiters(flight: &Probe, count: usize) -> Vec<Arc<Completion<u64, Interrupt>>> {
        let waiters: Vec<_> = (0..count).map(|_| Completion::new()).collect();
        for waiter in &waiters {
            assert_eq!(flight.join(waiter.clone()), Ok(()));
        }
        waiters
    }

    /// A way to end it.
    type End = &'static dyn Fn(&Probe);

    #[test]
    fn b40_eight_joiners_are_told_once_however_it_ends() {
        let report = crate::flight::PanicReport::new("panicked");
        let ends: [(End, Result<u64, Interrupt>); 5] = [
            (&|flight| assert!(flight.seal_and_publish(Ok(1))), Ok(1)),
            (&|flight| assert!(flight.kill(Killed::Cancelled).is_ok()), Err(Interrupt::Cancelled)),
            (&|flight| assert!(flight.kill(Killed::Superseded).is_ok()), Err(Interrupt::Superseded)),
            (
                &|flight| {
                    let caught = catch(|| -> u64 { panic!("panicked") });
                    assert!(flight.seal_and_publish(caught.map_err(Interrupt::Panicked)));
                },
                Err(Interrupt::Panicked(report)),
            ),
            (&|flight| assert!((0..8).all(|_| !matches!(flight.leave(), Left::TooLate(_)))), Err(Interrupt::Cancelled)),
        ];
        for (end, outcome) in ends {
            let flight = Probe::new();
            flight.word().admit(Priority::Interactive).unwrap();
            let waiters = waiters(&flight, 8);
            end(&flight);
            assert!(!flight.seal_and_publish(Ok(9)), "ended once");
            for waiter in waiters {
                assert_eq!(waiter.told(), Some(outcome.clone()));
                assert!(!waiter.resolve(Ok(9)), "told once");
            }
            assert!(matches!(flight.join(Completion::new()), Err(JoinRefused::Terminal(_))));
            assert_eq!(flight.outcome(), Some(outcome));
        }
    }

    #[test]
    fn b40_joiners_of_a_flight_that_is_thrown_away_are_told_shutdown() {
        let flight = Probe::new();
        let waiters = waiters(&flight, 8);
        drop(flight);
        for waiter in waiters {
            assert_eq!(waiter.told(), Some(Err(Interrupt::Shutdown)));
        }
    }

    #[test]
    fn b40_a_value_that_panics_when_it_is_copied_fails_that_waiter_alone() {
        struct Fragile(Arc<AtomicUsize>);
        impl Clone for Fragile {
            fn clone(&self) -> Self {
                assert_ne!(self.0.fetch_add(1, Ordering::Relaxed), 1, "the second copy");
                Self(self.0.clone())
            }
        }
        let flight = Flight::<Fragile, Interrupt>::new();
        let waiters: Vec<_> = (0..3).map(|_| Completion::new()).collect();
        for waiter in &waiters {
            flight.join(waiter.clone()).unwrap();
        }
        flight.seal_and_publish(Ok(Fragile(Arc::new(AtomicUsize::new(0)))));
        let told: Vec<bool> = waiters.iter().map(|waiter| waiter.told().unwrap().is_ok()).collect();
        assert_eq!(told, [true, false, true]);
    }

    /// One of its waiters, asked through a handle.
    struct Target(Arc<Probe>);
    impl crate::flight::FlightRef for Target {
        fn id(&self) -> crate::flight::FlightId {
            crate::flight::FlightId::of(&*self.0, 0)
        }
        fn describe(&self) -> String {
            "probe".into()
        }
        fn spawner(&self) -> crate::runtime::Spawner {
            unreachable!("nobody waits on a thread here")
        }
        fn place(&self) -> crate::runtime::Place {
            crate::runtime::Place::default()
        }
        fn phase(&self) -> Phase {
            self.0.word().phase()
        }
        fn help(&self) -> bool {
            false
        }
        fn watch(&self) -> bool {
            false
        }
        fn leave(&self) {
            self.0.leave();
        }
        fn abandoned(&self) {
            self.0.abandoned();
        }
    }

    fn handle(flight: &Arc<Probe>) -> Handle<u64, Interrupt> {
        let waiter = Completion::new();
        flight.join(waiter.clone()).unwrap();
        Handle::pending(waiter, Arc::new(Target(flight.clone())))
    }

    #[test]
    fn a_handle_that_withdraws_is_told_at_once_and_the_last_one_cancels() {
        let flight = Arc::new(Probe::new());
        let (one, two, three) = (handle(&flight), handle(&flight), handle(&flight));
        one.cancel();
        one.cancel();
        assert_eq!(one.wait(), Err(Interrupt::Cancelled));
        assert_eq!(flight.word().owners(), 2);
        drop(two.cancel_on_drop());
        drop(handle(&flight));
        assert_eq!(flight.word().owners(), 2, "dropping detaches: the wish stays");
        assert!(flight.seal_and_publish(Ok(3)));
        assert_eq!(three.wait(), Ok(3));
        let admitted = Arc::new(Probe::new());
        admitted.word().admit(Priority::Interactive).unwrap();
        drop(handle(&admitted).cancel_on_drop());
        assert_eq!(admitted.word().phase(), Phase::Cancelled);
        let idle = Arc::new(Probe::new());
        drop(handle(&idle).cancel_on_drop());
        assert_eq!(idle.word().phase(), Phase::Idle, "what was never admitted has nothing to cancel");
    }

    #[test]
    fn b115_a_hundred_thousand_waiters_that_wait_again_cost_each_end_once() {
        struct Again {
            next: Arc<Probe>,
            told: AtomicUsize,
        }
        impl Wake for Again {
            fn wake(self: Arc<Self>) {
                self.told.fetch_add(1, Ordering::Relaxed);
                let waiter = Completion::new();
                let _ = waiter.register(&Waker::from(self.clone()));
                let _ = self.next.join(waiter);
            }
        }
        const COUNT: usize = 100_000;
        let mut flight = Arc::new(Probe::new());
        let mut handles: Vec<_> = (0..COUNT).map(|_| handle(&flight)).collect();
        for round in 0..10 {
            let next = Arc::new(Probe::new());
            let again = Arc::new(Again { next: next.clone(), told: AtomicUsize::new(0) });
            let waker = Waker::from(again.clone());
            for handle in &mut handles {
                let _ = Pin::new(handle).poll(&mut Context::from_waker(&waker));
            }
            flight.seal_and_publish(Ok(round));
            assert_eq!(again.told.load(Ordering::Relaxed), COUNT, "each subscriber once");
            handles = (0..COUNT).map(|_| handle(&next)).collect();
            flight = next;
        }
        // The last subscribers hold their own flight until it ends.
        assert!(flight.kill(Killed::Shutdown).is_ok());
    }

    #[test]
    fn b101_handles_that_come_and_go_leave_nothing_at_a_flight_that_never_ends() {
        let flight = Arc::new(Probe::new());
        let stays = handle(&flight);
        let first = Arc::new(());
        for _ in 0..200_000 {
            drop(handle(&flight).cancel_on_drop());
        }
        let target = Arc::new(Target(flight.clone()));
        let entries: Vec<_> = (0..1_000)
            .map(|_| {
                let waiter = Completion::new();
                flight.join(waiter.clone()).unwrap();
                let entry = Arc::downgrade(&waiter);
                drop(Handle::pending(waiter, target.clone()).cancel_on_drop());
                entry
            })
            .collect();
        drop(first);
        for _ in 0..1_000 {
            crate::sync::epoch::pin().flush();
        }
        let left = entries.iter().filter(|entry| entry.strong_count() > 0).count();
        assert!(left < 600, "{left} of 1,000 entries are still there");
        assert_eq!(flight.word().owners(), 1);
        drop(stays);
    }
}
