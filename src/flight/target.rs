//! What a handle knows of the work it waits for: an identity, and ways to help it, to leave it and to look behind it.
//! It does not know what kind of work that is.

use super::error::Interrupt;
use super::phase::Phase;
use crate::runtime::{Place, Spawner};
use crate::sync::Arc;

/// The identity of a flight while somebody holds it: where it lies, and which part of its owner it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FlightId(u64);

impl FlightId {
    /// The identity of the flight that is part number `part` (below 8) of `owner`.
    pub(crate) fn of<O: ?Sized>(owner: &O, part: u8) -> Self {
        let address = std::ptr::from_ref(owner).cast::<u8>().addr() as u64;
        debug_assert!(part < 8 && address.is_multiple_of(8), "the part stands in the address's lowest bits");
        Self(address | u64::from(part))
    }
}

/// One flight, as its waiters see it.
///
/// Nothing here may wait or run host code, but for `help`, which runs the flight, and `describe`.
pub(crate) trait FlightRef: Send + Sync {
    /// Who it is.
    fn id(&self) -> FlightId;
    /// What people call it. May run host code (a key's `Debug`), so never under a lock.
    fn describe(&self) -> String;
    /// Whose threads execute it.
    fn spawner(&self) -> Spawner;
    /// Which of those threads, and how soon.
    fn place(&self) -> Place;
    /// Where it stands.
    fn phase(&self) -> Phase;
    /// Claims it and runs it here, if it is free. True if something was run. What gates it is found by `gates`, and helped
    /// by whoever waits.
    fn help(&self) -> bool;
    /// Asks for a nudge when it becomes claimable ([`StateWord::watch`](super::StateWord::watch)). True if `help` would find
    /// something to do already.
    fn watch(&self) -> bool;
    /// One owner withdraws; the last one out cancels it.
    fn leave(&self);
    /// Somebody polls for its outcome: whatever has been decided and not been carried out (its supersession, say) is helped on.
    fn poke(&self) {}
    /// Whoever executes here, a job or a future, is about to sleep until it is over. Why that could never end, if it is known.
    fn slept_for(&self) -> Option<Interrupt> {
        None
    }
    /// Who waited for it on this thread has given up, and may wait again.
    fn waits_no_more(&self) {}
    /// One of its waiters will never be asked again, and may be unlinked.
    fn abandoned(&self) {}
    /// Pokes, and calls `f` with the way to the threads that execute it: what a waiter begins with.
    fn poke_and_ask(&self, f: &mut dyn FnMut(&Spawner)) {
        self.poke();
        f(&self.spawner());
    }
    /// The flights that must end before it can be claimed: who waits for it waits for them.
    fn gates(&self, out: &mut Vec<Arc<dyn FlightRef>>) {
        let _ = out;
    }
    /// Flights whose end may help it on: worth helping, but it may end without them.
    fn awaits(&self, out: &mut Vec<Arc<dyn FlightRef>>) {
        let _ = out;
    }
}

/// Part number `PART` of an owner that holds several flights, so that each can have a [`FlightRef`] of its own without an
/// allocation of its own.
#[repr(transparent)]
pub(crate) struct Facet<const PART: u8, O>(O);

impl<const PART: u8, O> Facet<PART, O> {
    /// The same reference, seen as one to this part.
    pub(crate) fn of(owner: Arc<O>) -> Arc<Self> {
        // SAFETY: `Facet` is a transparent wrapper of `O`, so both have one layout, and the count stands beside it either way.
        unsafe { Arc::from_raw(Arc::into_raw(owner).cast::<Self>()) }
    }

    /// The owner of this part.
    pub(crate) fn owner(&self) -> &O {
        &self.0
    }

    /// The identity of this part.
    pub(crate) fn flight_id(&self) -> FlightId {
        FlightId::of(&self.0, PART)
    }
}

/// A flight that some thread executes, for tests and models.
#[cfg(test)]
pub(crate) struct Running(#[expect(dead_code, reason = "its address is its identity")] u64);

#[cfg(test)]
impl Running {
    pub(crate) fn new(number: u64) -> Self {
        Self(number)
    }
}

#[cfg(test)]
impl FlightRef for Running {
    fn id(&self) -> FlightId {
        FlightId::of(self, 0)
    }
    fn describe(&self) -> String {
        String::new()
    }
    fn spawner(&self) -> Spawner {
        unreachable!("nobody is driven here")
    }
    fn place(&self) -> Place {
        Place::default()
    }
    fn phase(&self) -> Phase {
        Phase::Claimed
    }
    fn help(&self) -> bool {
        false
    }
    fn watch(&self) -> bool {
        false
    }
    fn leave(&self) {}
}
