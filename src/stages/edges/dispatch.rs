//! The gate as an Artifact meets it: when it is asked for, when it is admitted, and once more when it is claimed.
//! It does not know how a blocker is asked for, nor how an Artifact is run.
#![forbid(unsafe_code)]

use super::super::artifact::{ArtifactFlight, known_or_done};
use super::super::batch::Posts;
use super::super::error::StageError;
use super::super::host::Host;
use super::super::revision::Revision;
use super::super::run::{self, AnalysisRef, Kinds};
use super::super::slot::Slot;
use super::edge::Edge;
use super::seek::{Verdict, is_wanting, seek, urge, verdict};
use super::set::{Blocker, DependencySet};
use crate::flight::{FlightRef, Interrupt, Phase, catch};
use crate::runtime::Priority;
use crate::sync::epoch;
use crate::sync::{Arc, mutant};
use smallvec::SmallVec;

/// The visible revision of a file.
pub(crate) fn visible<H: Host>(slot: &Slot<H>) -> Option<Arc<Revision<H>>> {
    let pinned = epoch::pin();
    slot.visible(&pinned).map(|seen| seen.share())
}

fn set_of<H: Host>(slot: &Slot<H>, revision: &Revision<H>) -> Option<Arc<DependencySet<H>>> {
    slot.node.get()?.set_of(revision.tag())
}

/// Whether nothing stands before the Artifacts of `revision` but its own Analysis. After [`known_or_done`].
#[inline]
pub(crate) fn is_open<H: Host>(slot: &Slot<H>, revision: &Revision<H>) -> bool {
    let Some(node) = slot.node.get() else { return true };
    node.current.look(|set| set.tag != revision.tag() || set.gate.is_open()).unwrap_or(true)
}

/// Asks for the blockers of `revision`, on behalf of an Artifact that is wanted at `priority` and known. `first` says that its
/// execution is asked for the first time: then those that have been answered before are looked at anew.
pub(crate) fn ask<H: Host>(slot: &Slot<H>, revision: &Revision<H>, priority: Priority, first: bool) {
    if let Some(set) = set_of(slot, revision) {
        let raised = set.gate.raise(priority);
        set.start(first);
        if raised {
            known_or_done();
            urge(&set);
        }
    }
}

impl<H: Host> DependencySet<H> {
    /// Asks for every blocker that is not there, if that has not been done; or `anew`.
    pub(crate) fn start(self: &Arc<Self>, anew: bool) {
        let first = self.gate.start();
        if first || anew {
            self.classify();
        }
        if first {
            self.answered();
        }
    }

    /// Asks for every blocker that is not there and is not being asked for.
    fn classify(self: &Arc<Self>) {
        for (at, blocker) in self.blockers.iter().enumerate() {
            let seen = blocker.edge.get();
            if seen.as_ref().is_some_and(|edge| !edge.target.is_taken()) {
                continue;
            }
            self.ask(at, seen);
        }
    }

    /// Asks for blocker `at`, unless it is there; `seen` is the edge that asked last, which asks no more.
    pub(crate) fn ask(self: &Arc<Self>, at: usize, seen: Option<Arc<Edge<H>>>) {
        if self.blockers[at].producer.upgrade().is_some_and(|producer| is_wanting(&producer)) {
            self.gate.add();
            seek(self.clone(), at, seen);
        }
    }
}

impl<H: Host> Revision<H> {
    /// Whether somebody wants an Artifact that is not over.
    pub(crate) fn wants_artifact(&self) -> bool {
        let mut wanted = false;
        self.artifacts.each_pinned(|artifact| {
            let word = artifact.flight.word();
            wanted |= !word.is_unwanted() && !word.phase().is_terminal();
        });
        wanted
    }
}

/// An Artifact of `revision` is over or was withdrawn otherwise than by being made. If that was the last one that anybody wants of its
/// generation, its blockers are asked for no more.
///
/// Who wants one is asked of the visible revision: the generation may have been tried again, and its set is the successor's then.
pub(crate) fn withdrawn<H: Host>(slot: &Arc<Slot<H>>, revision: &Revision<H>) {
    let Some(node) = slot.node.get() else { return };
    let Some(set) = node.set_of(revision.tag()) else { return };
    let wanted = || {
        if mutant("edges.asks_the_old_revision") {
            return revision.wants_artifact();
        }
        visible(slot).is_some_and(|now| now.tag() == set.tag && now.wants_artifact())
    };
    if set.gate.is_open() || set.waiting().next().is_none() || wanted() {
        return;
    }
    let fresh = set.afresh(slot);
    fresh.name_owner();
    if !node.current.exchange(Some(&set), Some(fresh.clone())) {
        return fresh.close(None);
    }
    set.close(None);
    // Somebody may have asked the old set meanwhile: as for the gate, each makes itself known and then looks at the other.
    known_or_done();
    if wanted() {
        fresh.gate.raise(set.gate.priority());
        fresh.start(false);
    }
}

/// Sets whose gates have opened together.
pub(crate) type Opened<H> = SmallVec<[Arc<DependencySet<H>>; 4]>;

/// The gates of `sets` have opened: admits the Artifacts behind them whose Analysis is done. Outside every section and pin.
///
/// Whether a set still counts is not asked here, but by who claims: most often it does.
pub(crate) fn opened<'a, H: Host>(sets: impl ExactSizeIterator<Item = &'a DependencySet<H>>) {
    if sets.len() == 0 {
        return;
    }
    // The gates are open; now look at the others, as everybody does who makes one of the conditions true.
    known_or_done();
    let (mut posts, mut idle) = (Posts::of(sets.len()), Vec::new());
    let pinned = epoch::pin();
    for set in sets {
        let Some(owner) = set.owner.upgrade() else { continue };
        let is_ready =
            |revision: &Revision<H>| revision.tag() == set.tag && revision.analysis.word().phase() == Phase::Done;
        let ready = owner.visible(&pinned).filter(|revision| is_ready(revision));
        let mut kinds = ready.map_or_else(Kinds::none, |revision| run::admit_artifacts(&revision, &pinned));
        match kinds.next() {
            Some(first) => {
                kinds.for_each(|kind| posts.add(owner.clone(), kind));
                posts.add(owner, first);
            }
            // The last count of a slot runs the host's destructors: not under the pin.
            None => idle.push(owner),
        }
    }
    drop(pinned);
    posts.queue();
}

/// What the claimer of an Artifact does.
pub(crate) enum Dispatch<H: Host> {
    /// It runs it.
    Go,
    /// It leaves it: the gate has closed again, and the claim has been given back.
    Wait,
    /// It fails it with this.
    Fail(StageError<H>),
}

/// The one place where a claimed Artifact meets its blockers, before the host is called.
#[inline]
pub(crate) fn before_dispatch<H: Host>(
    slot: &Arc<Slot<H>>,
    revision: &Revision<H>,
    artifact: &ArtifactFlight<H>,
) -> Dispatch<H> {
    if slot.node.get().is_none() {
        return Dispatch::Go;
    }
    meet_blockers(slot, revision, artifact)
}

#[cold]
fn meet_blockers<H: Host>(slot: &Arc<Slot<H>>, revision: &Revision<H>, artifact: &ArtifactFlight<H>) -> Dispatch<H> {
    let Some(set) = set_of(slot, revision) else { return Dispatch::Go };
    if set.gate.is_open() {
        if !set.gate.has_failed() {
            return Dispatch::Go;
        }
        if let Some(failure) = set.failure() {
            return Dispatch::Fail(failure);
        }
        // What has failed then has moved on, or is tried again.
        set.classify();
        if set.gate.is_open() {
            return set.failure().map_or(Dispatch::Go, Dispatch::Fail);
        }
    }
    // The claim goes back, unless the execution has been ended meanwhile.
    if artifact.flight.word().unclaim().is_ok() {
        known_or_done();
        if is_open(slot, revision)
            && let Some(kind) = run::admit_artifact(revision, artifact, Priority::Maintenance)
        {
            slot.post(kind);
        }
    }
    Dispatch::Wait
}

impl<H: Host> DependencySet<H> {
    /// The failure of a blocker, as its visible revision tells it, or that this had no room for the one who asked.
    fn failure(&self) -> Option<StageError<H>> {
        for blocker in &self.blockers {
            let Some(producer) = blocker.producer.upgrade() else { continue };
            let Some(revision) = visible(&producer) else { continue };
            let cause = match verdict(&revision) {
                Verdict::Failed => cause(&revision),
                // What has gone otherwise than by a removal will never be analysed.
                Verdict::Gone if !revision.absent => Some(StageError::Shutdown),
                Verdict::Pending if blocker.is_refused_by(&revision) => Some(Interrupt::TooManyWaiters.into()),
                _ => None,
            };
            if let Some(cause) = cause {
                // To copy a name is the host's code.
                let failure = catch(|| StageError::dependency_failed(producer.file().clone(), cause));
                return Some(failure.unwrap_or_else(|report| Interrupt::Panicked(report).into()));
            }
        }
        None
    }
}

/// What the Analysis of `revision`, or Source before it, has failed with.
fn cause<H: Host>(revision: &Revision<H>) -> Option<StageError<H>> {
    let analysis = revision.analysis.result().and_then(|result| result.as_ref().err());
    analysis.or_else(|| revision.source.result().and_then(|result| result.as_ref().err())).cloned()
}

impl<H: Host> Blocker<H> {
    /// Whether the edge that has asked last asked `revision`, and found no room there.
    fn is_refused_by(&self, revision: &Arc<Revision<H>>) -> bool {
        let asked = |edge: &Arc<Edge<H>>| std::ptr::eq(edge.producer.as_ptr(), Arc::as_ptr(revision));
        self.edge.get().is_some_and(|edge| edge.target.is_refused() && asked(&edge))
    }
}

/// The Analyses of other files that an Artifact of `revision` waits for.
pub(crate) fn gates<H: Host>(slot: &Slot<H>, revision: &Revision<H>, out: &mut Vec<Arc<dyn FlightRef>>) {
    let Some(set) = set_of(slot, revision) else { return };
    for edge in set.waiting() {
        if let Some(producer) = edge.producer.upgrade()
            && !producer.analysis.word().phase().is_terminal()
        {
            out.push(AnalysisRef::<H>::of(producer));
        }
    }
}
