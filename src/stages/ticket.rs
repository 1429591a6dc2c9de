//! The job that a ticket is in a queue: it names a slot and a stage, and whoever pops it runs what is current there.
//! It does not know what a stage does.
#![forbid(unsafe_code)]

use super::host::{Host, Stage};
use super::revision::Revision;
use super::run::{self, After};
use super::slot::{Kind, Slot};
use crate::flight::Killed;
use crate::runtime::Job;
use crate::sync::Arc;
use crate::sync::epoch;

/// The job that stands for `kind` of `slot` in a queue.
pub(crate) fn job<H: Host>(slot: Arc<Slot<H>>, kind: Kind) -> Job {
    let ticket = Ticket { slot: Some(slot), kind };
    Job::new(move || ticket.run())
}

struct Ticket<H: Host> {
    slot: Option<Arc<Slot<H>>>,
    kind: Kind,
}

impl<H: Host> Ticket<H> {
    fn run(mut self) {
        let Some(slot) = self.slot.take() else { return };
        let found = slot.tickets.take(self.kind.bit(), || visible(&slot));
        if let Some(revision) = found {
            work(&slot, &revision, self.kind, After::Return);
        }
    }
}

impl<H: Host> Drop for Ticket<H> {
    /// The runtime has thrown the ticket away: nobody will run what it stood for.
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            // As a popper does: clear the bit first, then look, so that whoever posts from now on learns it from its own ticket.
            if let Some(revision) = slot.tickets.take(self.kind.bit(), || visible(&slot)) {
                shut_down(&slot, &revision, Killed::Shutdown);
            }
        }
    }
}

fn visible<H: Host>(slot: &Arc<Slot<H>>) -> Option<Arc<Revision<H>>> {
    let pinned = epoch::pin();
    slot.visible(&pinned).map(|seen| seen.share())
}

/// Runs what a ticket of `kind` finds in the visible revision.
pub(crate) fn look<H: Host>(slot: &Arc<Slot<H>>, kind: Kind, after: After) {
    if let Some(revision) = visible(slot) {
        work(slot, &revision, kind, after);
    }
}

/// Runs what a ticket of `kind` finds in `revision`, if no more urgent ticket sees to it.
fn work<H: Host>(slot: &Arc<Slot<H>>, revision: &Revision<H>, kind: Kind, after: After) {
    match kind.stage {
        Stage::Source if revision.source.word().priority() <= kind.priority => _ = source(slot, revision, after),
        Stage::Analysis if revision.analysis.word().priority() <= kind.priority => _ = analysis(slot, revision, after),
        Stage::Artifact => run::ready_artifact(slot, revision, kind, after),
        Stage::Source | Stage::Analysis => {}
    }
}

/// Claims and runs Source here, if it is free and wanted. Nothing runs on the stub.
pub(crate) fn source<H: Host>(slot: &Arc<Slot<H>>, revision: &Revision<H>, after: After) -> bool {
    let free = !revision.is_stub() && revision.source.word().claim_wanted().is_ok();
    if free {
        run::source(slot, revision, after);
    }
    free
}

/// Claims and runs Analysis here, if it is free and wanted.
pub(crate) fn analysis<H: Host>(slot: &Arc<Slot<H>>, revision: &Revision<H>, after: After) -> bool {
    let free = revision.analysis.word().claim_wanted().is_ok();
    if free {
        run::analysis(slot, revision, after);
    }
    free
}

impl<H: Host> Slot<H> {
    /// Ends the visible revision. Outside every section and pin.
    pub(crate) fn end(self: &Arc<Self>, how: Killed) {
        if let Some(revision) = visible(self) {
            shut_down(self, &revision, how);
        }
    }
}

/// Ends a revision that is not replaced: says why before it admits nothing any more, so that others can help.
fn shut_down<H: Host>(slot: &Slot<H>, revision: &Revision<H>, how: Killed) {
    revision.note_reason(how);
    revision.end(slot.shared(), how);
}
