//! The job that a ticket is in a queue: it names a slot and a stage, and whoever pops it runs what is current there.
//! It does not know what a stage does, nor how it waits for a permit.
#![forbid(unsafe_code)]

use super::capacity::{self, InLine, Permit};
use super::claim::claim;
use super::host::{Host, Stage};
use super::revision::Revision;
use super::run::{self, After};
use super::shared::Shared;
use super::slot::{Kind, Slot};
use crate::flight::Killed;
use crate::runtime::{Job, Place};
use crate::sync::Arc;
use crate::sync::epoch;

/// The job that stands for `kind` of `slot` in a queue.
pub(crate) fn job<H: Host>(slot: Arc<Slot<H>>, kind: Kind) -> Job {
    Ticket { slot: Some(slot), kind, granted: false }.job()
}

/// Stands for a stage of a slot, in a queue or in the line for a permit. The slot's bit of its kind is set meanwhile.
pub(crate) struct Ticket<H: Host> {
    slot: Option<Arc<Slot<H>>>,
    kind: Kind,
    /// A permit goes with it.
    granted: bool,
}

impl<H: Host> Ticket<H> {
    fn job(self) -> Job {
        Job::new(move || self.run())
    }

    fn run(self) {
        if self.is_free() { self.work() } else { InLine::Slot(self).enter() }
    }

    /// Runs what it finds. Whatever permit that takes is the caller's.
    #[inline]
    pub(crate) fn work(mut self) {
        let Some(slot) = self.slot.take() else { return };
        let found = slot.tickets.take(self.kind.bit(), || visible(&slot));
        if let Some(revision) = found {
            work(&slot, &revision, self.kind, After::Return);
        }
    }

    /// Whether it needs no permit.
    #[inline]
    fn is_free(&self) -> bool {
        self.slot.as_ref().is_none_or(|slot| slot.shared().capacity.is_free(slot.shared().place(self.kind).pool))
    }

    /// Where it is queued.
    pub(crate) fn way(&self) -> (Arc<Shared<H>>, Place) {
        let slot = self.slot.as_ref().expect("it is taken when the ticket runs");
        (slot.stripe.shared.clone(), slot.shared().place(self.kind))
    }

    pub(crate) fn is_granted(&self) -> bool {
        self.granted
    }

    pub(crate) fn with_permit(mut self, granted: bool) -> Self {
        self.granted = granted;
        self
    }

    /// Queues it. A runtime that refuses it drops it.
    pub(crate) fn push(self) {
        let (shared, place) = self.way();
        drop(shared.spawner.push(place, self.job()));
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
            if self.granted {
                capacity::pass_on(&slot.stripe.shared, slot.shared().place(self.kind).pool);
            }
        }
    }
}

fn visible<H: Host>(slot: &Arc<Slot<H>>) -> Option<Arc<Revision<H>>> {
    let pinned = epoch::pin();
    slot.visible(&pinned).map(|seen| seen.share())
}

/// Runs what a ticket of `kind` finds in the visible revision, or leaves that to a ticket of its own which waits for a permit.
pub(crate) fn look<H: Host>(slot: &Arc<Slot<H>>, kind: Kind, after: After) {
    let Some(_permit) = Permit::at_once(&slot.stripe.shared, slot.shared().place(kind).pool) else {
        return slot.post(kind);
    };
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
    let free = !revision.is_stub() && claim(slot, revision.source.word());
    if free {
        run::source(slot, revision, after);
    }
    free
}

/// Claims and runs Analysis here, if it is free and wanted.
pub(crate) fn analysis<H: Host>(slot: &Arc<Slot<H>>, revision: &Revision<H>, after: After) -> bool {
    let free = claim(slot, revision.analysis.word());
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
