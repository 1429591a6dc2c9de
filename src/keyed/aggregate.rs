//! A flight that many want, and the token of who computes it: raised when the last of them has withdrawn, and not before.
//! It does not know what is computed, nor under which name.
//!
//! # Protocol
//!
//! Owners are counted in the flight's word. The last one out cancels the flight in the same step that takes it off the count, so
//! there is one such owner, and he alone raises the token; who comes later finds the flight over and must begin another. A result
//! and a cancel meet at the word too: if the result was sealed first, leaving is too late and the token stays down.
#![forbid(unsafe_code)]

use crate::flight::{CancellationToken, Completion, Flight, Interrupt, JoinRefused, Left, Phase};
use crate::runtime::Priority;
use crate::sync::{Arc, mutant};

/// One computation with its owners.
pub(crate) struct Aggregate<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + From<Interrupt> + 'static,
{
    pub(crate) flight: Flight<T, E>,
    token: CancellationToken,
}

/// Why nobody can join.
#[derive(Debug)]
pub(crate) enum Over<T> {
    /// The value is there.
    Value(T),
    /// It ended without one, for those who had asked; who comes now begins another.
    Nothing,
    /// There are as many owners as can be counted.
    Full,
}

impl<T, E> Aggregate<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + From<Interrupt> + 'static,
{
    /// Admitted, with the one owner who begins it.
    pub(crate) fn begun(priority: Priority, waiter: Arc<Completion<T, E>>) -> Self {
        Self { flight: Flight::admitted(priority, Some(waiter)), token: CancellationToken::new() }
    }

    /// The token of who computes it.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// One more wants it, and will be told by `waiter`.
    pub(crate) fn join(&self, waiter: Arc<Completion<T, E>>) -> Result<(), Over<T>> {
        match self.flight.join_anew(waiter) {
            Ok(_) => Ok(()),
            Err(JoinRefused::Full) => Err(Over::Full),
            Err(JoinRefused::Terminal(_)) if mutant("keyed.join_the_ended") => Ok(()),
            Err(JoinRefused::Terminal(_)) => match self.flight.outcome() {
                Some(Ok(value)) => Err(Over::Value(value)),
                _ => Err(Over::Nothing),
            },
        }
    }

    /// One wants it no more. If it was the last the flight is cancelled, the token raised, and what it stood in returned: the caller
    /// then tells whoever is still to be told.
    pub(crate) fn leave(&self) -> Option<Phase> {
        match self.flight.word().leave() {
            Left::Last(before) => {
                self.token.cancel();
                Some(before)
            }
            Left::StillWanted if mutant("keyed.token_by_any") => {
                self.token.cancel();
                None
            }
            _ => None,
        }
    }
}
