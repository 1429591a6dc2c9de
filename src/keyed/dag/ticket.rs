//! What stands for a node in the runtime's queues. Thrown away unrun, as by a shutdown, it ends the run.
//! It does not know what is done with the node.
#![forbid(unsafe_code)]

use super::run::Run;
use super::walk::Walk;
use crate::flight::Killed;
use crate::runtime::{Job, Place, Priority};
use crate::sync::Arc;

pub(super) struct Ticket {
    run: Option<Arc<Run>>,
    node: u32,
    /// In whose queue it lies.
    priority: Priority,
}

impl Ticket {
    pub(super) fn of(run: Arc<Run>, node: u32, priority: Priority) -> Job {
        let ticket = Self { run: Some(run), node, priority };
        Job::new(move || ticket.pop())
    }

    fn pop(mut self) {
        let Some(run) = self.run.take() else { return };
        let node = run.node(self.node);
        let seen = node.load();
        if seen.is_started() {
            return;
        }
        let place = Place { pool: node.kind.pool(), priority: seen.priority() };
        if place.priority > self.priority && run.stopped().is_none() {
            // It has become less urgent since.
            return run.push(self.node, place, false);
        }
        if let Some(held) = node.claim() {
            Walk::with(&run, place, |walk| walk.go(self.node, held));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        run.stop(Killed::Shutdown);
        if let Some(held) = run.node(self.node).claim() {
            Walk::with(&run, Place::default(), |walk| walk.go(self.node, held));
        }
    }
}
