//! What a thread does that waits for a graph inside a job: it runs nodes of the graph that are queued, where they may run.
//! It does not know why the thread waits, nor what else that may run meanwhile.
//!
//! So a graph inside a graph comes to its end where nobody else is left to run it: on a runtime without threads, and where so many
//! threads wait that no spare is left.
#![forbid(unsafe_code)]

use super::run::Run;
use super::walk::Walk;
use crate::runtime::{Place, Pool, current_pool};

impl Run {
    /// Runs a queued node here, and for a while what that makes ready. True if there was one.
    pub(super) fn help_here(&self) -> bool {
        while let Some(id) = self.queued_here() {
            let node = self.node(id);
            // Its ticket will find it started.
            if let Some(held) = node.claim() {
                let place = Place { pool: node.kind.pool(), priority: held.seen.priority() };
                Walk::with(self, place, |walk| walk.go(id, held));
                return true;
            }
        }
        false
    }

    /// Whether `help_here` would find something. Who asks stands among those who wait already: so either he sees a node, or he is
    /// nudged by the thread that has queued it and blocks.
    pub(super) fn has_queued_here(&self) -> bool {
        let found = self.queued_here();
        if let Some(id) = found {
            self.offers.lay(id, self.node(id).kind.pool());
        }
        found.is_some()
    }

    /// A queued node that may run on this thread, and is no longer offered.
    fn queued_here(&self) -> Option<u32> {
        let (here, anywhere) = (current_pool(&self.spawner), self.spawner.is_driven());
        if here.is_none() && !anywhere {
            return None;
        }
        let pool_if_free = |id: u32| {
            let node = self.has(id).then(|| self.node(id))?;
            node.load().is_free().then(|| node.kind.pool())
        };
        let may_run = |pool: Pool| anywhere || here.is_some_and(|here| self.spawner.runs_at(here, pool));
        self.offers.take(|| self.len() as u64, pool_if_free, may_run)
    }
}
