//! What a file keeps of its place among the others: what it depends on, and who depends on it.
//! It does not know the stages.
#![forbid(unsafe_code)]

use super::super::host::Host;
use super::super::slot::Slot;
use super::place::Place;
use super::set::{DependencySet, Tag};
use crate::flight::{Link, Linked, SealableList};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Weak, mutant};

/// A file that takes part: made when it first depends on another, or another on it.
pub(crate) struct Node<H: Host> {
    /// The set of the newest generation that has one.
    pub(crate) current: Place<DependencySet<H>>,
    /// The set that was registered while the newest generation had no Source: that, or a later one, takes it in.
    pub(crate) deferred: Place<DependencySet<H>>,
    /// One entry for each set that names the file; sealed when the file goes.
    pub(crate) dependents: SealableList<Dependent<H>>,
}

/// An owner whose set names the file.
pub(crate) struct Dependent<H: Host> {
    link: Link<Self>,
    pub(crate) owner: Weak<Slot<H>>,
    gone: AtomicBool,
}

impl<H: Host> Dependent<H> {
    pub(crate) fn new(owner: Weak<Slot<H>>) -> Arc<Self> {
        Arc::new(Self { link: Link::new(), owner, gone: AtomicBool::new(false) })
    }

    /// The set has been closed. True for the first caller, who counts the entry as dead.
    pub(crate) fn go(&self) -> bool {
        !self.gone.swap(true, Ordering::AcqRel)
    }
}

impl<H: Host> Linked for Dependent<H> {
    fn link(&self) -> &Link<Self> {
        &self.link
    }

    fn is_dead(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}

impl<H: Host> Node<H> {
    pub(crate) fn new() -> Self {
        Self { current: Place::new(), deferred: Place::new(), dependents: SealableList::new() }
    }

    /// The set of the generation `tag`, if it has one.
    pub(crate) fn set_of(&self, tag: Tag) -> Option<Arc<DependencySet<H>>> {
        self.current.get().filter(|set| set.tag == tag)
    }

    /// The slot itself goes: what its sets name is named no more.
    fn forget(&self) {
        for set in [self.current.get(), self.deferred.get()].into_iter().flatten() {
            set.unname();
        }
    }

    /// The owner's life is over: what it waited for is withdrawn, what it was to wait for forgotten, and whoever has still to put a
    /// set in its place is refused: so nothing is asked for on behalf of who has gone. Outside every section and pin.
    pub(crate) fn end(&self) {
        for place in [&self.current, &self.deferred] {
            let out = if mutant("edges.end_leaves_open") {
                place.get().filter(|set| place.exchange(Some(set), None))
            } else {
                place.close()
            };
            if let Some(set) = out {
                set.close(None);
            }
        }
    }
}

impl<H: Host> Drop for Node<H> {
    fn drop(&mut self) {
        self.forget();
    }
}
