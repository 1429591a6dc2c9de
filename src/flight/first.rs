//! The first waiter of a flight, whose place lies in the flight itself: who has work made for it needs no block of its own.
//! It does not know the outcome: the waiter asks the flight for that once it is told.
#![forbid(unsafe_code)]

use super::oneshot::OneShot;
use super::target::FlightRef;
use super::trampoline;
use std::task::Waker;

/// What the first waiter is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The flight is over.
    Over,
    /// The waiter itself has withdrawn.
    Withdrawn,
}

/// The place for a first waiter that a flight may have.
pub(crate) trait FirstWaiter: Send + Sync + 'static {
    /// Nobody waits there, and nobody will.
    fn nobody() -> Self;
    /// The flight is over, and the outcome can be asked for.
    fn tell(&self);
}

/// There is no such place.
impl FirstWaiter for () {
    fn nobody() -> Self {}
    fn tell(&self) {}
}

/// The place of a first waiter.
pub(crate) struct First(OneShot<()>);

impl First {
    /// One waits from the beginning.
    pub(crate) fn waits() -> Self {
        Self(OneShot::new())
    }

    pub(crate) fn shot(&self) -> &OneShot<()> {
        &self.0
    }

    /// What he was told, if he was.
    #[inline]
    pub(crate) fn told(&self) -> Option<Told> {
        self.0.marked().map(|withdrawn| if withdrawn { Told::Withdrawn } else { Told::Over })
    }

    /// He withdraws, unless he has been told. `Ok` holds the waker that he has left, to be woken once nothing is half changed.
    pub(crate) fn withdraw(&self) -> Result<Option<Waker>, ()> {
        self.0.mark(true)
    }
}

impl FirstWaiter for First {
    fn nobody() -> Self {
        Self(OneShot::abandoned())
    }

    #[inline]
    fn tell(&self) {
        if let Ok(waker) = self.0.mark(false) {
            trampoline::wake(waker);
        }
    }
}

/// A flight with a place for its first waiter, as that one sees it.
pub(crate) trait FirstFlight<T, E>: FlightRef {
    /// Its place.
    fn first(&self) -> &First;
    /// What a waiter is told now, once the flight is over.
    fn outcome(&self) -> Option<Result<T, E>>;
}
