//! Many Artifacts of one revision that are ready at once: one ticket for all that a popper leaves, which yields a few and queues
//! itself again, so that none is looked at more than once however many profiles there are. It does not know how one is run.
#![forbid(unsafe_code)]

use super::artifact::ArtifactFlight;
use super::batch::CHUNK;
use super::capacity::Permit;
use super::host::Host;
use super::run::{self, After};
use super::slot::{Kind, Slot};
use crate::flight::Killed;
use crate::runtime::Job;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Artifacts that were taken off the list of what is ready.
struct Members<H: Host> {
    slot: Arc<Slot<H>>,
    artifacts: Vec<Arc<ArtifactFlight<H>>>,
    kind: Kind,
    /// The first that nobody has taken.
    next: AtomicUsize,
}

/// Their ticket. At most one is out.
struct Ticket<H: Host>(Option<Arc<Members<H>>>);

/// Queues one ticket for all of `artifacts`, which are of one revision and ready.
pub(crate) fn push<H: Host>(slot: &Arc<Slot<H>>, artifacts: Vec<Arc<ArtifactFlight<H>>>, kind: Kind) {
    queue(Arc::new(Members { slot: slot.clone(), artifacts, kind, next: AtomicUsize::new(0) }));
}

fn queue<H: Host>(members: Arc<Members<H>>) {
    let slot = members.slot.clone();
    let ticket = Ticket(Some(members));
    drop(slot.shared().spawner.push(slot.shared().place(kind_of(&ticket)), Job::new(move || ticket.run())));
}

fn kind_of<H: Host>(ticket: &Ticket<H>) -> Kind {
    ticket.0.as_ref().expect("it is taken when the ticket runs").kind
}

impl<H: Host> Ticket<H> {
    fn run(mut self) {
        let Some(members) = self.0.take() else { return };
        for taken in 0..CHUNK {
            // ordering: each is taken by one popper; what it does is in its word, and was published with the ticket.
            let at = members.next.fetch_add(1, Ordering::Relaxed);
            let Some(artifact) = members.artifacts.get(at) else { return };
            let more = at + 1 < members.artifacts.len();
            if taken == 0 && more {
                queue(members.clone());
            }
            let after = if taken + 1 == CHUNK || !more { After::Return } else { After::Stay };
            members.run_one(artifact, after);
        }
    }
}

impl<H: Host> Members<H> {
    fn run_one(&self, artifact: &Arc<ArtifactFlight<H>>, after: After) {
        // What is superseded has no revision any more, or cannot be claimed.
        let Some(revision) = artifact.revision.upgrade() else { return };
        let pool = self.slot.shared().place(self.kind).pool;
        let Some(_permit) = Permit::at_once(&self.slot.stripe.shared, pool) else {
            revision.ready.push(&revision.artifacts, artifact);
            return self.slot.post(self.kind);
        };
        if artifact.flight.word().claim_wanted().is_ok() {
            run::artifact(&self.slot, &revision, artifact, after);
        }
    }
}

impl<H: Host> Drop for Ticket<H> {
    /// The runtime has thrown the ticket away: nobody will run what is left.
    fn drop(&mut self) {
        if let Some(members) = self.0.take()
            && members.next.fetch_add(members.artifacts.len(), Ordering::Relaxed) < members.artifacts.len()
        {
            members.slot.end(Killed::Shutdown);
        }
    }
}
