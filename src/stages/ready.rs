//! Many Artifacts of one revision that are ready at once: one ticket for all that a popper leaves, so that none is looked at more than
//! once however many profiles there are. It does not know how one is run.
#![forbid(unsafe_code)]

use super::artifact::ArtifactFlight;
use super::capacity::Permit;
use super::claim::claim;
use super::host::Host;
use super::many::{self, Pieces};
use super::run::{self, After};
use super::slot::{Kind, Slot};
use crate::flight::Killed;
use crate::runtime::Job;
use crate::sync::Arc;

/// Artifacts that were taken off the list of what is ready.
struct Members<H: Host> {
    slot: Arc<Slot<H>>,
    artifacts: Vec<Arc<ArtifactFlight<H>>>,
    kind: Kind,
}

/// Queues one ticket for all of `artifacts`, which are of one revision and ready.
pub(crate) fn push<H: Host>(slot: &Arc<Slot<H>>, artifacts: Vec<Arc<ArtifactFlight<H>>>, kind: Kind) {
    many::push(Members { slot: slot.clone(), artifacts, kind });
}

impl<H: Host> Pieces for Members<H> {
    fn queue(&self, ticket: Job) {
        self.slot.shared().queue(self.kind, ticket);
    }

    fn len(&self) -> usize {
        self.artifacts.len()
    }

    fn run(&self, at: usize, after: After) {
        let artifact = &self.artifacts[at];
        // What is superseded has no revision any more, or cannot be claimed.
        let Some(revision) = artifact.revision.upgrade() else { return };
        let pool = self.slot.shared().place(self.kind).pool;
        let Some(_permit) = Permit::at_once(&self.slot.stripe.shared, pool) else {
            revision.ready.push(&revision.artifacts, artifact);
            return self.slot.post(self.kind);
        };
        if claim(&self.slot, artifact.flight.word()) {
            run::artifact(&self.slot, &revision, artifact, after);
        }
    }

    fn end(&self, _: usize) {
        self.slot.end(Killed::Shutdown);
    }
}
