//! Publication of Artifacts from outside, by whoever holds a witness of the Source that they were made of; and their eviction.
//! It does not know how an Artifact was made, nor who waits for it.
//!
//! An external commit is a seal like a worker's: a look whether the revision is still the visible one, then one
//! compare-and-swap, which excludes the worker's result and a cancel. What is over already is replaced in its cell.
#![forbid(unsafe_code)]

use super::artifact::ArtifactFlight;
use super::edges;
use super::host::{Host, Stage};
use super::read::value;
use super::revision::Revision;
use super::run;
use super::scheduler::Stages;
use super::slot::Slot;
use super::stripe::Garbage;
use super::versions::may_seal;
use super::witness::{ForeignWitness, SourceWitness};
use crate::flight::{PanicReport, Phase, catch};
use crate::sync::{Arc, hint, mutant};
use std::error::Error;
use std::fmt;

/// Why an Artifact from outside was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusedCommit {
    /// Another scheduler gave the witness.
    Foreign,
    /// The file has moved on from the Source that is witnessed, or is gone.
    Stale,
    /// There is no Analysis of that Source yet.
    NotAnalysed,
    /// Comparing or copying the profile panicked.
    Panicked(PanicReport),
}

impl fmt::Display for RefusedCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => ForeignWitness.fmt(f),
            Self::Stale => f.write_str("the file has moved on from the source that is witnessed"),
            Self::NotAnalysed => f.write_str("there is no analysis of the source that is witnessed"),
            Self::Panicked(report) => write!(f, "the profile {report}"),
        }
    }
}

/// An Artifact from outside that was refused: nothing was changed.
pub struct CommitRefused<H: Host> {
    /// Why.
    pub because: RefusedCommit,
    /// The Artifact, given back.
    pub artifact: Arc<H::Artifact>,
}

impl<H: Host> fmt::Debug for CommitRefused<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitRefused").field("because", &self.because).finish_non_exhaustive()
    }
}

impl<H: Host> fmt::Display for CommitRefused<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.because.fmt(f)
    }
}

impl<H: Host> Error for CommitRefused<H> {}

impl<H: Host> Stages<H> {
    /// Publishes an Artifact that was made outside of the Source that `witness` is of.
    ///
    /// It is accepted if and only if the file still stands at that Source, and its Analysis is there. Then it is the Artifact of
    /// that generation for `profile`: who waits for it is answered with it, and a worker that computes it meanwhile is refused.
    /// It takes the place of an Artifact that is there already.
    ///
    /// # Errors
    /// Why it was refused, with the Artifact; nothing was changed.
    pub fn commit_artifact(
        &self,
        witness: &SourceWitness<H>,
        profile: &H::Profile,
        artifact: Arc<H::Artifact>,
    ) -> Result<(), CommitRefused<H>> {
        let slot = match self.witnessed(witness) {
            Ok(Some(slot)) => slot,
            Ok(None) => return Err(CommitRefused { because: RefusedCommit::Stale, artifact }),
            Err(ForeignWitness) => return Err(CommitRefused { because: RefusedCommit::Foreign, artifact }),
        };
        commit(&slot, witness, profile, &artifact).map_err(|because| CommitRefused { because, artifact })
    }

    /// Takes the Artifact for `profile` away, and the last good one, if they are of the life of the file that `witness` is of and
    /// of no newer generation. True if there was one. The next request makes it anew; an execution that runs is let alone.
    ///
    /// # Errors
    /// Another scheduler gave the witness.
    pub fn remove_artifact_not_newer_than(
        &self,
        witness: &SourceWitness<H>,
        profile: &H::Profile,
    ) -> Result<bool, ForeignWitness> {
        let Some(slot) = self.witnessed(witness)? else { return Ok(false) };
        // Comparing profiles is the host's code: if it panics, nothing is found.
        Ok(catch(|| evict(&slot, witness, profile)).unwrap_or(false))
    }
}

fn commit<H: Host>(
    slot: &Arc<Slot<H>>,
    witness: &SourceWitness<H>,
    profile: &H::Profile,
    made: &Arc<H::Artifact>,
) -> Result<(), RefusedCommit> {
    loop {
        let revision = witness.revision(slot).ok_or(RefusedCommit::Stale)?;
        if !matches!(revision.analysis.result(), Some(Ok(_))) {
            return Err(RefusedCommit::NotAnalysed);
        }
        // Comparing and copying profiles is the host's code.
        let found = catch(|| revision.artifacts.find_or_add(profile, &revision)).map_err(RefusedCommit::Panicked)?;
        if seal(slot, &revision, &found, made) {
            slot.shared().counters.here().one(|counts| &counts.commits);
            edges::withdrawn(slot, &revision);
            return Ok(());
        }
        // A worker was faster, or the file has moved on.
        hint::spin_loop();
    }
}

/// Makes `made` the value of `found`, or of what takes its place if it is over. False if somebody was faster.
fn seal<H: Host>(
    slot: &Arc<Slot<H>>,
    revision: &Arc<Revision<H>>,
    found: &Arc<ArtifactFlight<H>>,
    made: &Arc<H::Artifact>,
) -> bool {
    if !may_seal(&slot.versions, revision, slot.clock()) {
        return false;
    }
    if !found.flight.word().phase().is_terminal() {
        let sealed = found.flight.publish(Ok(made.clone())).is_ok();
        if sealed {
            slot.keep_good(found);
            run::tell_sealed(slot, (revision, Stage::Artifact), &found.flight, &found.origin);
        }
        return sealed;
    }
    let fresh = found.after(Some(made.clone()));
    let Some(old) = revision.artifacts.replace(found, fresh.clone()) else { return false };
    slot.stripe.limbo.put(Garbage::Artifact(old));
    slot.keep_good(&fresh);
    true
}

fn evict<H: Host>(slot: &Arc<Slot<H>>, witness: &SourceWitness<H>, profile: &H::Profile) -> bool {
    let version = witness.version();
    let is_old = |artifact: &ArtifactFlight<H>| {
        let (incarnation, generation) = artifact.of();
        incarnation == version.incarnation
            && generation <= version.generation
            && artifact.flight.word().phase() == Phase::Done
    };
    let mut evicted = false;
    loop {
        let revision = witness.revision(slot);
        let current = revision.as_ref().and_then(|revision| revision.artifacts.find(profile)).filter(|now| is_old(now));
        if let (Some(revision), Some(current)) = (revision, current) {
            let fresh = current.after(None);
            if let Some(old) = revision.artifacts.replace(&current, fresh.clone()) {
                slot.stripe.limbo.put(Garbage::Artifact(old));
                // If whoever sealed it has not yet noted it as good, it comes too late: this one is newer.
                if !mutant("publish.evict_current_alone") {
                    slot.keep_good(&fresh);
                }
                evicted = true;
            }
        } else if let Some(good) = slot.good.find(profile).filter(|good| is_old(good)) {
            slot.keep_good(&good.after(None));
            evicted |= value(good).is_some();
        } else {
            return evicted;
        }
    }
}
