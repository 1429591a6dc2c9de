//! What a file depends on becomes part of its revision in the moment in which Source is sealed.
//! It does not know what the files are, nor who registers others later.
#![forbid(unsafe_code)]

use super::super::contained::Contained;
use super::super::error::{StageError, panicked};
use super::super::host::{Host, Stage};
use super::super::revision::Revision;
use super::super::run::Outcome;
use super::super::scheduler::Core;
use super::super::slot::Slot;
use super::super::versions::may_seal;
use super::dependencies::Dependencies;
use super::node::Node;
use super::register::settle_deferred;
use super::set::{DependencySet, Tag, in_order};
use crate::flight::drop_contained;
use crate::sync::{Arc, mutant};

/// The slots of what a file depends on: in order, every blocker also among the first.
pub(crate) struct Resolved<H: Host> {
    pub(crate) forward: Vec<Arc<Slot<H>>>,
    pub(crate) blockers: Vec<Arc<Slot<H>>>,
}

/// Finds the slots of what a host has named, and makes those of files that are not known yet. Runs the host's code.
pub(crate) fn resolve<H: Host>(core: &Core<H>, named: Dependencies<H::File>) -> Result<Resolved<H>, StageError<H>> {
    let slots = |files: Vec<H::File>| -> Result<Vec<Arc<Slot<H>>>, StageError<H>> {
        // Contained before the first of them can fail: all are dropped then.
        let files: Vec<_> = files.into_iter().map(Contained::new).collect();
        let find = |file: Contained<H::File>| match core.stripes.hash(&file) {
            Ok(hash) => core.slot(hash, file),
            Err(report) => Err(panicked::<H>(&file, Stage::Source, 0, report)),
        };
        files.into_iter().map(find).collect()
    };
    let Dependencies { forward, blockers } = named;
    let (mut forward, blockers) = (slots(forward)?, slots(blockers)?);
    forward.extend(blockers.iter().cloned());
    Ok(Resolved { forward: in_order(forward), blockers: in_order(blockers) })
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
            (Err(error), None)
        }
    }
}

/// What was put in place, and out of it.
pub(crate) struct Installed<H: Host> {
    set: Arc<DependencySet<H>>,
    before: Option<Arc<DependencySet<H>>>,
    deferred: Option<Arc<DependencySet<H>>>,
}

/// Makes `resolved`, and what was registered before, the dependencies of `revision`, whose Source has been sealed by the caller and is
/// about to be shown. No host code.
pub(crate) fn install<H: Host>(
    slot: &Arc<Slot<H>>,
    revision: &Revision<H>,
    resolved: Option<Resolved<H>>,
) -> Option<Installed<H>> {
    let tag = revision.tag();
    if resolved.is_none() && slot.node.get().is_none() {
        return None;
    }
    let node = slot.node();
    let deferred = take_deferred(node, tag);
    let mut found = resolved.unwrap_or_else(|| Resolved { forward: Vec::new(), blockers: Vec::new() });
    if let Some(deferred) = &deferred {
        found.forward.extend(deferred.forward());
        found.blockers.extend(deferred.producers());
        found = Resolved { forward: in_order(found.forward), blockers: in_order(found.blockers) };
    }
    let put = put(slot, node, tag, &found);
    if let (None, Some(deferred)) = (&put, &deferred) {
        deferred.close(None);
    }
    put.map(|(set, before)| Installed { set, before, deferred })
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

/// The set that was put in place, and the one before it.
type Put<H> = (Arc<DependencySet<H>>, Option<Arc<DependencySet<H>>>);

/// Makes `found` the set of generation `tag`, unless a newer one has one. What that generation was found to depend on before stays
/// among its dependencies; its blockers are replaced.
pub(crate) fn put<H: Host>(slot: &Arc<Slot<H>>, node: &Node<H>, tag: Tag, found: &Resolved<H>) -> Option<Put<H>> {
    loop {
        let before = node.current.get();
        let set = match &before {
            Some(before) if before.tag > tag => return None,
            Some(before) if before.tag == tag => {
                let mut forward = before.forward();
                forward.extend(found.forward.iter().cloned());
                DependencySet::new(slot, tag, &in_order(forward), &found.blockers)
            }
            None if found.forward.is_empty() => return None,
            _ => DependencySet::new(slot, tag, &found.forward, &found.blockers),
        };
        set.name_owner();
        if node.current.exchange(before.as_ref(), Some(set.clone())) {
            return Some((set, before));
        }
        set.close(None);
    }
}

/// Has what `install` has put in place take over from what it put out, and asks for the blockers if an Artifact is wanted.
/// After Source is known to be done, before Analysis is admitted.
pub(crate) fn integrate<H: Host>(slot: &Arc<Slot<H>>, revision: &Revision<H>, installed: Option<Installed<H>>) {
    if let Some(Installed { set, before, deferred }) = installed {
        for out in [before, deferred].into_iter().flatten() {
            out.close(Some(&set));
        }
        if revision.wants_artifact() {
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
