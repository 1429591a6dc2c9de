//! One worker's way from running out of jobs to its next one: searching, sleeping, and what it owes to those who trusted it.
//! It does not know where jobs come from.
#![forbid(unsafe_code)]

use super::crew::Crew;
use crate::sync::mutant;

/// Whether the worker has the role of the crew's searcher, and whether a submitter may have left it a job.
///
/// A submitter that sees a searcher wakes nobody. So whoever has had the role since it last saw all queues empty must, once it
/// has a job, look whether there is another one, also when it gave the role up in between.
#[derive(Debug, Default)]
pub(crate) struct Search {
    searching: bool,
    trusted: bool,
}

impl Search {
    /// Takes the role if it is free; whether the worker has it.
    pub(crate) fn begin(&mut self, crew: &Crew) -> bool {
        self.searching = self.searching || crew.begin_search();
        self.trusted |= self.searching;
        self.searching
    }

    /// The worker has a job, or stops for another reason: wakes the next one if there is work left to do for it.
    pub(crate) fn end(&mut self, crew: &Crew, index: usize) {
        if self.searching || self.trusted && !mutant("park.trust_forgotten") {
            crew.found(index, self.searching);
        }
        *self = Self::default();
    }

    /// Announces that the worker is about to sleep, and gives the role up. True if it may sleep; false if there is something to
    /// do after all.
    pub(crate) fn may_sleep(&mut self, crew: &Crew, index: usize) -> bool {
        if crew.announce(index, self.searching) {
            return true;
        }
        self.searching = !crew.retract(index);
        self.trusted |= self.searching;
        false
    }

    /// The worker was claimed by a waker, who gave it the role.
    pub(crate) fn woken(&mut self) {
        *self = Self { searching: true, trusted: true };
    }
}
