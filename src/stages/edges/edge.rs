//! One blocker that an owner waits for, hanging in the revision whose Analysis will answer it.
//! It does not know how it came to hang there, nor what the answer means to the owner.
#![forbid(unsafe_code)]

use super::super::host::Host;
use super::super::revision::Revision;
use super::set::DependencySet;
use super::target::Target;
use crate::flight::{Link, Linked, SealableList};
use crate::sync::{Arc, Weak};

/// An edge from a set of an owner to a revision of a producer. It holds nothing of the host's.
pub(crate) struct Edge<H: Host> {
    link: Link<Self>,
    pub(crate) target: Target<DependencySet<H>>,
    pub(crate) producer: Weak<Revision<H>>,
}

impl<H: Host> Edge<H> {
    pub(crate) fn new(target: Arc<DependencySet<H>>, producer: &Arc<Revision<H>>) -> Arc<Self> {
        Arc::new(Self { link: Link::new(), target: Target::new(target), producer: Arc::downgrade(producer) })
    }

    /// Nobody waits for it any more: the demand that is held for it is withdrawn. For the one who has put it out of its set.
    pub(crate) fn withdraw(&self) {
        if let Some(taken) = self.target.take()
            && taken.held
        {
            self.withdraw_demand();
        }
    }

    /// As the owner of an Analysis that withdraws, and leaves the edge to be unlinked.
    pub(crate) fn withdraw_demand(&self) {
        let Some(revision) = self.producer.upgrade() else { return };
        if let Some(consumers) = revision.consumers.get() {
            consumers.edges.note_dead();
        }
        if let Some(slot) = revision.slot.upgrade() {
            revision.demand.withdraw();
            revision.leave_owned(&slot);
        }
    }
}

impl<H: Host> Linked for Edge<H> {
    fn link(&self) -> &Link<Self> {
        &self.link
    }

    fn is_dead(&self) -> bool {
        self.target.is_taken()
    }
}

/// Those who wait for a revision's Analysis from other files. Sealed by whoever sees the Analysis over.
pub(crate) struct Consumers<H: Host> {
    pub(crate) edges: SealableList<Edge<H>>,
}

impl<H: Host> Consumers<H> {
    pub(crate) fn new() -> Self {
        Self { edges: SealableList::new() }
    }
}
