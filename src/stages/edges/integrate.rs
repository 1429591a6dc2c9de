//! What a file depends on becomes part of its revision in the moment in which Source is sealed.
//! It does not know what the files are, nor who registers others later.
#![forbid(unsafe_code)]

use super::super::error::{FailureCause, StageError, StageFailure, panicked};
use super::super::host::{Host, Stage};
use super::super::needed::Needed;
use super::super::revision::Revision;
use super::super::run::Outcome;
use super::super::scheduler::Core;
use super::super::slot::Slot;
use super::super::versions::may_seal;
use super::dependencies::Dependencies;
use super::node::Node;
use super::register::settle_deferred;
use super::set::{DependencySet, Tag, in_order};
use crate::flight::{Contained, drop_contained};
use crate::sync::{Arc, mutant};
use smallvec::SmallVec;

/// The slots of what a file depends on: in order, every blocker also among the first.
pub(crate) struct Resolved<H: Host> {
    pub(crate) forward: Vec<Arc<Slot<H>>>,
    pub(crate) blockers: Vec<Arc<Slot<H>>>,
    /// Keeps the slots from burial until a set needs them. Dropped outside every section and pin.
    held: Vec<Needed<H>>,
}

impl<H: Host> Resolved<H> {
    fn nothing() -> Self {
        Self { forward: Vec::new(), blockers: Vec::new(), held: Vec::new() }
    }

    /// What `set` names too. The caller closes it, after he has put what was resolved in place: so the slots stay.
    pub(crate) fn and(mut self, set: &DependencySet<H>) -> Self {
        self.forward.extend(set.forward());
        self.blockers.extend(set.producers());
        Self { forward: in_order(self.forward), blockers: in_order(self.blockers), held: self.held }
    }

    /// As `set` names it.
    pub(crate) fn of(set: &DependencySet<H>) -> Self {
        Self::nothing().and(set)
    }
}

/// Finds the slots of what a host has named, and makes those of files that are not known yet. Runs the host's code.
pub(crate) fn resolve<H: Host>(core: &Core<H>, named: Dependencies<H::File>) -> Result<Resolved<H>, StageError<H>> {
    let slots = |files: Vec<H::File>| -> Result<Vec<Needed<H>>, StageError<H>> {
        // Contained before the first of them can fail: all are dropped then.
        let files: Vec<_> = files.into_iter().map(Contained::new).collect();
        let find = |file: Contained<H::File>| match core.stripes.hash(&file) {
            Ok(hash) => core.slot(hash, file),
            Err(report) => Err(panicked::<H>(&file, Stage::Source, 0, report)),
        };
        files.into_iter().map(find).collect()
    };
    let Dependencies { forward, blockers } = named;
    let (mut held, blocking) = (slots(forward)?, slots(blockers)?);
    let blockers = blocking.iter().map(|slot| Arc::clone(slot)).collect();
    held.extend(blocking);
    let forward = held.iter().map(|slot| Arc::clone(slot)).collect();
    Ok(Resolved { forward: in_order(forward), blockers: in_order(blockers), held })
}

/// Finds what Source, which was just made, has named. A name that panics fails it; what is stale finds nothing and makes nothing.
pub(crate) fn found<H: Host>(
    slot: &Slot<H>,
    revision: &Revision<H>,
    outcome: Outcome<H::Source, H>,
    mut named: Contained<Dependencies<H::File>>,
) -> (Outcome<H::Source, H>, Option<Resolved<H>>) {
    if outcome.is_err() || !may_seal(&slot.versions, revision, slot.clock()) {
        return (outcome, None);
    }
    let Some(scheduler) = slot.shared().scheduler() else { return (outcome, None) };
    match resolve(scheduler.core(), std::mem::take(&mut named)) {
        Ok(resolved) => (outcome, Some(resolved)),
        Err(error) => {
            drop_contained(outcome);
            (Err(of_owner(slot, revision, error)), None)
        }
    }
}

/// The failure of the owner's Source by a name that has panicked: it is the owner's, not that of the file which was named.
fn of_owner<H: Host>(slot: &Slot<H>, revision: &Revision<H>, error: StageError<H>) -> StageError<H> {
    match error.failure().map(StageFailure::cause) {
        Some(FailureCause::Panicked(report)) => {
            panicked(slot.file(), Stage::Source, revision.generation, report.clone())
        }
        _ => error,
    }
}

/// What was put in place, and out of it.
pub(crate) struct Installed<H: Host> {
    set: Option<Arc<DependencySet<H>>>,
    /// What was registered before Source is in it, and is asked for at once: who registered may find that its own set has been closed.
    registered: bool,
    /// To be closed: what stood there, what was deferred, and what another thread was faster than.
    out: Out<H>,
    #[expect(dead_code, reason = "kept for its destructor")]
    held: Vec<Needed<H>>,
}

/// Whether there is anything to install. What comes later is found by [`integrate`].
pub(crate) fn installs<H: Host>(slot: &Slot<H>, resolved: &Option<Resolved<H>>) -> bool {
    resolved.is_some() || slot.node.get().is_some()
}

/// Makes `resolved`, and what was registered before, the dependencies of `revision`, whose Source has been sealed by the caller and is
/// about to be shown. No host code.
pub(crate) fn install<H: Host>(
    slot: &Arc<Slot<H>>,
    revision: &Revision<H>,
    resolved: Option<Resolved<H>>,
) -> Option<Installed<H>> {
    let tag = revision.tag();
    if !installs(slot, &resolved) {
        return None;
    }
    let node = slot.node();
    let deferred = take_deferred(node, tag);
    let mut found = resolved.unwrap_or_else(Resolved::nothing);
    if let Some(deferred) = &deferred {
        found = found.and(deferred);
    }
    let (set, mut out) = put(slot, node, tag, &found);
    let registered = deferred.is_some();
    out.extend(deferred);
    Some(Installed { set, registered, out, held: found.held })
}

/// Takes the set that was registered before Source was there, unless a newer generation's.
pub(crate) fn take_deferred<H: Host>(node: &Node<H>, tag: Tag) -> Option<Arc<DependencySet<H>>> {
    loop {
        let deferred = node.deferred.get().filter(|deferred| deferred.tag <= tag)?;
        if node.deferred.exchange(Some(&deferred), None) {
            return Some(deferred);
        }
    }
}

/// Sets that have been put out of their place, or were never shown. The caller closes them, outside every section and pin.
pub(crate) type Out<H> = SmallVec<[Arc<DependencySet<H>>; 2]>;

/// Makes `found` the set of generation `tag`, unless a newer one has one. What that generation was found to depend on before stays
/// among its dependencies; its blockers are replaced.
pub(crate) fn put<H: Host>(
    slot: &Arc<Slot<H>>,
    node: &Node<H>,
    tag: Tag,
    found: &Resolved<H>,
) -> (Option<Arc<DependencySet<H>>>, Out<H>) {
    let mut out = Out::new();
    loop {
        let before = node.current.get();
        let set = match &before {
            Some(before) if before.tag > tag => return (None, out),
            Some(before) if before.tag == tag => {
                let mut forward = before.forward();
                forward.extend(found.forward.iter().cloned());
                DependencySet::new(slot, tag, &in_order(forward), &found.blockers)
            }
            None if found.forward.is_empty() || node.current.is_closed() => return (None, out),
            _ => DependencySet::new(slot, tag, &found.forward, &found.blockers),
        };
        set.name_owner();
        if node.current.exchange(before.as_ref(), Some(set.clone())) {
            out.extend(before);
            return (Some(set), out);
        }
        out.push(set);
    }
}

/// Has what `install` has put in place take over from what it put out, and asks for the blockers if an Artifact is wanted or some of
/// them were registered.
/// After Source is known to be done, before Analysis is admitted.
pub(crate) fn integrate<H: Host>(slot: &Arc<Slot<H>>, revision: &Revision<H>, installed: Option<Installed<H>>) {
    if let Some(Installed { set, registered, out, .. }) = installed {
        out.iter().for_each(|out| out.close(set.as_ref()));
        if let Some(set) = set
            && (registered && !mutant("edges.registered_waits") || revision.wants_artifact())
        {
            set.gate.raise(revision.analysis.word().priority());
            set.start(false);
        }
    }
    if let Some(node) = slot.node.get()
        && !mutant("edges.no_second_look")
    {
        // Somebody may have registered between the look and now, and have found Source not done.
        settle_deferred(slot, node);
    }
}
