//! One execution with many waiters: the state word, the result, and the list of those who wait for it.
//! It does not know what is executed, nor its own name: its owner does.

use super::completion::Completion;
use super::contain::catch;
use super::error::Interrupt;
use super::list::SealableList;
use super::phase::{Killed, Left, Outcome, Phase, Refused};
use super::state::StateWord;
use super::trampoline;
use crate::sync::Arc;
use crate::sync::cell::UnsafeCell;

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
pub(crate) struct Flight<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + From<Interrupt> + 'static,
{
    word: StateWord,
    waiters: SealableList<Completion<T, E>>,
    result: UnsafeCell<Option<Result<T, E>>>,
}

// SAFETY: the result is written by the one that sealed the word, before it finishes it, and read only by those who saw it
// finished. Values are shared by reference and moved between threads, so `T` and `E` must be Send and Sync, which they are.
unsafe impl<T, E> Sync for Flight<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + From<Interrupt> + 'static,
{
}

impl<T, E> Flight<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + From<Interrupt> + 'static,
{
    /// Idle: nobody has asked for it.
    pub(crate) fn new() -> Self {
        Self { word: StateWord::new(), waiters: SealableList::new(), result: UnsafeCell::new(None) }
    }

    /// Done from the start, with a value that is there already.
    pub(crate) fn done(value: T) -> Self {
        let flight = Self::new();
        flight.publish(Ok(value)).unwrap_or_else(|_| unreachable!("nobody else knows it yet"));
        drop(flight.waiters.seal());
        flight
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
        if self.word.seal().is_err() {
            return Err(result);
        }
        let outcome = Outcome::of(&result);
        self.result.with_mut(|slot| {
            // SAFETY: sealing is won once, and nobody reads before `finish`.
            unsafe { *slot = Some(result) };
        });
        self.word.finish(outcome);
        Ok(())
    }

    /// Publishes the result and tells every waiter. False if the flight was over or somebody else is about to end it; then the
    /// result is dropped.
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
        let before = self.word.kill(how)?;
        self.deliver();
        Ok(before)
    }

    /// One owner withdraws; if it was the last, the flight is cancelled and whoever still waits is told.
    pub(crate) fn leave(&self) -> Left {
        let left = self.word.leave();
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
        self.waiters.seal().deliver(|waiter| {
            let outcome = self.outcome().expect("it is over");
            waiter.resolve(outcome);
        });
    }

    /// Makes `waiter` one of the owners and one of those who are told. On refusal `waiter` is unchanged.
    pub(crate) fn join(&self, waiter: Arc<Completion<T, E>>) -> Result<(), JoinRefused> {
        self.word.join().map_err(|refused| match refused {
            Refused::Phase(phase) => JoinRefused::Terminal(phase),
            Refused::Full => JoinRefused::Full,
        })?;
        self.hang(waiter)
    }

    /// Makes `waiter` one of those who are told, without being an owner.
    pub(crate) fn hang(&self, waiter: Arc<Completion<T, E>>) -> Result<(), JoinRefused> {
        self.waiters.push(waiter).map_err(|_| JoinRefused::Terminal(self.word.phase()))
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

impl<T, E> Drop for Flight<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + From<Interrupt> + 'static,
{
    fn drop(&mut self) {
        let _ = self.kill(Killed::Shutdown);
        trampoline::dispose(self.result.with_mut(|slot| {
            // SAFETY: `self` is borrowed exclusively.
            unsafe { (*slot).take() }
        }));
    }
}
