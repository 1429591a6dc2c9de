//! What one generation of a file depends on, as it was found or registered, and how far its blockers have been answered.
//! It does not know how a blocker is asked for.
#![forbid(unsafe_code)]

use super::super::host::Host;
use super::super::revision::Revision;
use super::super::slot::Slot;
use super::dispatch::opened;
use super::edge::Edge;
use super::gate::Gate;
use super::node::Dependent;
use super::place::Place;
use super::seek::seek;
use crate::flight::Linked;
use crate::sync::{Arc, Weak, mutant};

/// Incarnation and generation, in this order: a later one is newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tag {
    incarnation: u64,
    generation: u64,
}

impl<H: Host> Revision<H> {
    /// Which generation it is. A retry has the same.
    pub(crate) fn tag(&self) -> Tag {
        Tag { incarnation: self.life.incarnation, generation: self.generation }
    }
}

/// A file that is depended on, and the entry that says so there. Its slot is needed until the entry goes.
struct Forward<H: Host> {
    file: Weak<Slot<H>>,
    entry: Arc<Dependent<H>>,
}

/// A blocker, and the edge that asks for it or has asked last.
pub(crate) struct Blocker<H: Host> {
    pub(crate) producer: Weak<Slot<H>>,
    pub(crate) edge: Place<Edge<H>>,
}

/// The dependencies of one generation. What an answer reads stands first.
#[repr(C)]
pub(crate) struct DependencySet<H: Host> {
    pub(crate) gate: Gate,
    pub(crate) owner: Weak<Slot<H>>,
    pub(crate) tag: Tag,
    /// In the order of the slots' addresses, each once.
    forward: Box<[Forward<H>]>,
    /// In the same order.
    pub(crate) blockers: Box<[Blocker<H>]>,
}

/// Slots in the order of their addresses, each once.
pub(crate) fn in_order<H: Host>(mut slots: Vec<Arc<Slot<H>>>) -> Vec<Arc<Slot<H>>> {
    slots.sort_unstable_by_key(Arc::as_ptr);
    slots.dedup_by(|one, other| Arc::ptr_eq(one, other));
    slots
}

impl<H: Host> DependencySet<H> {
    /// A set that nobody has seen yet and that nothing names. The slots come in order; every blocker is one of `forward`.
    pub(crate) fn new(
        owner: &Arc<Slot<H>>,
        tag: Tag,
        forward: &[Arc<Slot<H>>],
        blockers: &[Arc<Slot<H>>],
    ) -> Arc<Self> {
        let weak = Arc::downgrade(owner);
        let name = |file: &Arc<Slot<H>>| {
            let entry = Dependent::new(weak.clone());
            // Buried it is if the set that it was found in has been closed meanwhile: then this one will not be shown.
            if !file.versions.need() {
                entry.go();
            }
            Forward { file: Arc::downgrade(file), entry }
        };
        // Its own Analysis stands before every Artifact anyway.
        let others = blockers.iter().filter(|file| !Arc::ptr_eq(file, owner));
        let block = |file: &Arc<Slot<H>>| Blocker { producer: Arc::downgrade(file), edge: Place::new() };
        Arc::new(Self {
            tag,
            owner: weak.clone(),
            forward: forward.iter().map(name).collect(),
            blockers: others.map(block).collect(),
            gate: Gate::new(),
        })
    }

    /// The same set again, of which nothing has been asked for.
    pub(crate) fn afresh(&self, owner: &Arc<Slot<H>>) -> Arc<Self> {
        Self::new(owner, self.tag, &self.forward(), &self.producers())
    }

    /// Has the files that are depended on name the owner. Before the set is shown to anybody.
    pub(crate) fn name_owner(&self) {
        for forward in &self.forward {
            if !forward.entry.is_dead()
                && let Some(slot) = forward.file.upgrade()
            {
                let _ = slot.node().dependents.push(forward.entry.clone());
            }
        }
    }

    /// Names nobody any more: a file that is no more than a name goes with the last who names it. Outside every section and pin.
    pub(crate) fn unname(&self) {
        for forward in &self.forward {
            if forward.entry.go()
                && let Some(slot) = forward.file.upgrade()
            {
                if let Some(node) = slot.node.get() {
                    node.dependents.note_dead();
                }
                slot.unneed();
            }
        }
    }

    /// The files that are depended on and still there, in order.
    pub(crate) fn forward(&self) -> Vec<Arc<Slot<H>>> {
        self.forward.iter().filter_map(|forward| forward.file.upgrade()).collect()
    }

    /// The blockers that are still there, in order.
    pub(crate) fn producers(&self) -> Vec<Arc<Slot<H>>> {
        self.blockers.iter().filter_map(|blocker| blocker.producer.upgrade()).collect()
    }

    /// Whether the owner depends on `slot`.
    pub(crate) fn depends_on(&self, slot: &Arc<Slot<H>>) -> bool {
        self.forward.binary_search_by_key(&Arc::as_ptr(slot), |forward| forward.file.as_ptr()).is_ok()
    }

    /// The number of a blocker.
    pub(crate) fn index_of(&self, producer: *const Slot<H>) -> Option<usize> {
        self.blockers.binary_search_by_key(&producer, |blocker| blocker.producer.as_ptr()).ok()
    }

    /// The blockers that have not been answered: the edges that ask for them.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Arc<Edge<H>>> {
        self.blockers.iter().filter_map(|blocker| blocker.edge.get()).filter(|edge| !edge.target.is_taken())
    }

    /// Puts `fresh` in the place of the edge that has asked last for a blocker. False if another thread asks for it, or the set
    /// has been closed.
    pub(crate) fn put(&self, at: usize, seen: Option<&Arc<Edge<H>>>, fresh: &Arc<Edge<H>>) -> bool {
        self.blockers[at].edge.exchange(seen, Some(fresh.clone()))
    }

    /// A blocker has been answered.
    pub(crate) fn answered(&self) {
        if self.gate.release() {
            opened([self].into_iter());
        }
    }

    /// A blocker has failed.
    pub(crate) fn answered_failed(&self) {
        if self.gate.release_failed() {
            opened([self].into_iter());
        }
    }

    /// Ends a set that has been put out of its place, or was never shown: what still waits goes over to `successor`, or is
    /// withdrawn. For the one who put it out; outside every section and pin.
    pub(crate) fn close(&self, successor: Option<&Arc<Self>>) {
        self.unname();
        for blocker in &self.blockers {
            let Some(edge) = blocker.edge.close() else { continue };
            let next = successor.and_then(|next| Some((next, next.index_of(blocker.producer.as_ptr())?)));
            match next.filter(|_| !edge.target.is_taken()) {
                Some((next, at)) => next.take_over(at, &edge),
                None if mutant("edges.close_forgets") => {}
                None => edge.withdraw(),
            }
        }
    }

    /// Takes over an edge of a closed set, with its place in the producer's list and its demand. The caller has taken it out of the
    /// place there.
    ///
    /// It is moved over before it stands in a place here: whoever closes this set too finds it there, and moves it on. The other way round
    /// that one could be first, and the edge come back to a set that has been closed.
    fn take_over(self: &Arc<Self>, at: usize, edge: &Arc<Edge<H>>) {
        self.gate.add();
        if mutant("edges.moves_over_late") && self.put(at, None, edge) {
            let _ = edge.target.move_over(self.clone());
            return;
        }
        if !edge.target.move_over(self.clone()) {
            // The old set was answered meanwhile: see what the producer says now.
            return seek(self.clone(), at, None);
        }
        if self.put(at, None, edge) {
            // Who was to ask again may not have found the edge in its place.
            if edge.target.is_taken() {
                self.ask(at, Some(edge.clone()));
            }
        } else if let Some(taken) = edge.target.take() {
            // Somebody has asked for it already, or this set has been closed too.
            if taken.held {
                edge.withdraw_demand();
            }
            self.answered();
        }
    }
}
