//! What one part offers beside another: caches and graphs of computations that run where a scheduler's stages run, within the same budget.
//! It does not know how either works.
#![forbid(unsafe_code)]

use crate::keyed::{CachesBuilder, Dags};
use crate::stages::{Host, Stages};

impl<H: Host> Stages<H> {
    /// Options of caches beside this scheduler: their builders run on its runtime, count against its budget, if it has one, and may wait
    /// for its stages as its stages may wait for them; a ring of such waits is found and told.
    ///
    /// The caches are no part of the scheduler: an edit, a reset and its end leave them as they are.
    pub fn caches(&self) -> CachesBuilder {
        let (spawner, budget) = self.runs_on();
        CachesBuilder::of(spawner, budget)
    }

    /// Graphs of computations beside this scheduler: their nodes run on its runtime, and may wait for its stages as its stages may wait
    /// for them. A [`WorkBudget`](crate::WorkBudget) whose [nodes](crate::WorkBudget::nodes_from) are those of the scheduler's budget
    /// bounds both together.
    #[must_use]
    pub fn dags(&self) -> Dags {
        Dags::of(self.runs_on().0)
    }
}
