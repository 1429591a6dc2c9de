//! One blocker that an owner waits for, hanging in the revision whose Analysis will answer it.
//! It does not know how it came to hang there, nor what the answer means to the owner.
#![forbid(unsafe_code)]

use super::super::host::Host;
use super::super::revision::Revision;
use super::seek::ask_again;
use super::set::DependencySet;
use super::target::Target;
use crate::flight::{Link, Linked, SealableList};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Weak};

/// An edge from a set of an owner to a revision of a producer. It holds nothing of the host's.
pub(crate) struct Edge<H: Host> {
    link: Link<Self>,
    pub(crate) target: Target<DependencySet<H>>,
    pub(crate) producer: Weak<Revision<H>>,
    /// Where it hangs.
    consumers: Weak<Consumers<H>>,
}

impl<H: Host> Edge<H> {
    pub(crate) fn new(
        target: Arc<DependencySet<H>>,
        producer: &Arc<Revision<H>>,
        consumers: &Arc<Consumers<H>>,
    ) -> Arc<Self> {
        let (producer, consumers) = (Arc::downgrade(producer), Arc::downgrade(consumers));
        Arc::new(Self { link: Link::new(), target: Target::new(target), producer, consumers })
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
        self.leave_list();
        self.leave_analysis();
    }

    fn leave_analysis(&self) {
        if let Some(revision) = self.producer.upgrade()
            && let Some(slot) = revision.slot.upgrade()
        {
            revision.demand.withdraw();
            revision.leave_owned(&slot);
        }
    }

    /// It hangs in its list for nobody any more. A list that nobody is left in is put away, with its dead.
    pub(crate) fn leave_list(&self) {
        let Some(consumers) = self.consumers.upgrade() else { return };
        consumers.edges.note_dead();
        // ordering: AcqRel. Pairs with `Consumers::push`: if that came first the count is not down to zero; else the edge is hung in
        // a list that is about to be sealed, and is either refused there, or found by who seals it.
        if consumers.living.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(revision) = self.producer.upgrade()
            && revision.consumers.exchange(Some(&consumers), None)
        {
            consumers.put_away();
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
    /// Edges that hang for somebody, or are about to.
    living: AtomicUsize,
}

impl<H: Host> Consumers<H> {
    /// The list of `revision`, made now if there is none.
    pub(crate) fn of(revision: &Revision<H>) -> Arc<Self> {
        loop {
            if let Some(there) = revision.consumers.get() {
                return there;
            }
            let fresh = Arc::new(Self { edges: SealableList::new(), living: AtomicUsize::new(0) });
            if revision.consumers.exchange(None, Some(fresh.clone())) {
                return fresh;
            }
        }
    }

    /// Hangs `edge` up. False if the list has been sealed.
    #[must_use]
    pub(crate) fn push(&self, edge: Arc<Edge<H>>) -> bool {
        // ordering: see `Edge::leave_list`.
        self.living.fetch_add(1, Ordering::AcqRel);
        self.edges.push(edge).is_ok()
    }

    /// Nobody was left in the list, and no revision shows it any more. Who has come meanwhile asks again.
    fn put_away(&self) {
        self.edges.seal().deliver(|edge| {
            let Some(taken) = edge.target.take() else { return };
            ask_again(taken.target, edge);
            if taken.held {
                edge.leave_analysis();
            }
        });
    }
}
