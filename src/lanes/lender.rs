//! Who lends something as long as it waits for a job: noted before it is said, and given back once, whoever ends the wait.
//! It does not know what is lent, nor how one waits.

#![forbid(unsafe_code)]

use super::cell::JobState;
use super::first::First;
use crate::sync::{Arc, mutant};

/// The one who lends, as long as the cell of the job says that somebody does.
pub(crate) struct Lender<W>(First<W>);

impl<W> Lender<W> {
    pub(crate) fn new() -> Self {
        Self(First::new())
    }

    /// Whether nobody lends, as it looks now.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `waiter` lends from now on. It comes back if the job is over, or if what somebody else has lent is being given back.
    pub(crate) fn lend(&self, state: &JobState, waiter: Arc<W>) -> Result<(), Arc<W>> {
        if mutant("lanes.lent_before_it_is_noted") && state.lend() {
            return self.0.put(waiter);
        }
        self.0.put(waiter)?;
        if state.lend() {
            return Ok(());
        }
        // Nobody was told, so nobody else takes it.
        self.0.take().map_or(Ok(()), Err)
    }

    /// The one who has lent and does so no more, for the one who gives it back.
    pub(crate) fn give_back(&self, state: &JobState) -> Option<Arc<W>> {
        if state.unlend() { self.0.take() } else { None }
    }
}
