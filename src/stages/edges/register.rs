//! Dependencies that a host registers after the fact, at any stage of the owner's life.
//! It does not know how they were resolved, nor how an Artifact meets them.
#![forbid(unsafe_code)]

use super::super::demand::Touched;
use super::super::host::Host;
use super::super::revision::Revision;
use super::super::scheduler::{Core, Stages};
use super::super::slot::Slot;
use super::super::submit::visible_or_first;
use super::dependencies::Dependencies;
use super::dispatch::visible;
use super::integrate::{Resolved, put, resolve, take_deferred};
use super::node::Node;
use super::set::DependencySet;
use crate::flight::{Contained, nudge};
use crate::sync::Arc;

/// What became of a late registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Registered {
    /// It counts for the file's current generation, from now on.
    Now,
    /// The file has no Source yet: it counts for the generation that has it next.
    Deferred,
    /// The file has moved on meanwhile, or a name panicked: nothing was changed.
    Refused,
}

impl<H: Host> Stages<H> {
    /// Says after the fact what `owner` depends on: for a host that knows it exactly only once it has resolved names.
    ///
    /// The blockers replace those of the file's current generation, those that [`Host::dependencies`] named among them; none at all
    /// clears them. The other files join its dependencies. An Artifact that runs already is not changed; one that waits, or is
    /// queued, waits for the new blockers. The blockers are asked for at once, whether an Artifact is wanted or not, and files
    /// that are not known yet are loaded for that.
    ///
    /// Before the generation has Source the registration is kept for whichever generation has it next; a later one replaces it.
    pub fn register_resolved_deps(&self, owner: &H::File, dependencies: Dependencies<H::File>) -> Registered {
        register(self.core(), owner, dependencies).unwrap_or(Registered::Refused)
    }
}

fn register<H: Host>(core: &Core<H>, owner: &H::File, named: Dependencies<H::File>) -> Option<Registered> {
    // Runs the host's code: names are copied, hashed and compared.
    let owner = crate::flight::catch(|| Contained::new(owner.clone())).ok()?;
    let slot = core.slot(core.stripes.hash(&owner).ok()?, owner).ok()?;
    let found = resolve(core, named).ok()?;
    let node = slot.node();
    // A file that nobody has asked for has its first generation from now on.
    let mut revision = visible_or_first(&slot);
    while revision.demand.touch() == Touched::SourceDone && !revision.absent {
        if slot.versions.is_current(&revision, slot.clock()) {
            let now = register_now(&slot, &revision, &found, None);
            return Some(if now { Registered::Now } else { Registered::Refused });
        }
        revision = visible_or_first(&slot);
    }
    let set = DependencySet::new(&slot, revision.tag(), &found.forward, &found.blockers);
    if revision.absent || !defer(node, &set) {
        set.close(None);
        return Some(Registered::Refused);
    }
    set.start(false);
    Some(if settle_deferred(&slot, node) { Registered::Now } else { Registered::Deferred })
}

/// Keeps `set` until its owner has Source; an older one goes over to it. False if a newer generation's is there, or the owner's life is
/// over.
fn defer<H: Host>(node: &Node<H>, set: &Arc<DependencySet<H>>) -> bool {
    loop {
        let before = node.deferred.get();
        let is_newer = |before: &Arc<DependencySet<H>>| before.tag > set.tag;
        if before.as_ref().map_or_else(|| node.deferred.is_closed(), is_newer) {
            return false;
        }
        if node.deferred.exchange(before.as_ref(), Some(set.clone())) {
            if let Some(before) = before {
                before.close(Some(set));
            }
            return true;
        }
    }
}

/// Registers for the generation of `revision`, which has Source; `deferred` has asked for the same already. False if a newer one
/// has a set of its own, or the owner's life is over.
fn register_now<H: Host>(
    slot: &Arc<Slot<H>>,
    revision: &Revision<H>,
    found: &Resolved<H>,
    deferred: Option<&DependencySet<H>>,
) -> bool {
    let node = slot.node();
    let (set, out) = put(slot, node, revision.tag(), found);
    if let Some(set) = &set {
        set.gate.raise(revision.analysis.word().priority());
    }
    for out in out.iter().map(|out| &**out).chain(deferred) {
        if let Some(set) = &set {
            set.gate.raise(out.gate.priority());
        }
        out.close(set.as_ref());
    }
    // If there is none, a newer generation has its own, or there was nothing to clear.
    let Some(set) = set else { return node.current.is_empty() };
    set.start(false);
    // Who waits for an Artifact inside a job may have other things to help with now.
    nudge();
    true
}

/// Has a deferred set count for the visible generation if that has Source by now. True if it did.
pub(crate) fn settle_deferred<H: Host>(slot: &Arc<Slot<H>>, node: &Node<H>) -> bool {
    while !node.deferred.is_empty() {
        let Some(revision) = visible(slot).filter(|revision| !revision.absent) else { return false };
        // ordering: the touch and what it meets (Source done, retired) change one word. If ours came first, who made the other step
        // sees the deferred set, and looks after it; else we are told.
        match revision.demand.touch() {
            Touched::SourceDone if slot.versions.is_current(&revision, slot.clock()) => {
                let Some(deferred) = take_deferred(node, revision.tag()) else { return false };
                let found = Resolved::of(&deferred);
                return register_now(slot, &revision, &found, Some(&deferred));
            }
            // Who retired it makes its successor visible, or has done so, and looks then.
            Touched::Retired if slot.versions.is_current(&revision, slot.clock()) => return false,
            Touched::SourceDone | Touched::Retired => {}
            Touched::Waiting => return false,
        }
    }
    false
}

/// The file has moved on, or is tried again: a set that was deferred on the old revision may have been overlooked by the new one.
#[inline]
pub(crate) fn moved_on<H: Host>(slot: &Arc<Slot<H>>) {
    if let Some(node) = slot.node.get() {
        settle_deferred(slot, node);
    }
}
