//! Witnesses: proof that somebody was given one Source, with which Artifacts made of it can be published from outside.
//! They do not know what is published, nor whether the file has moved on since.
#![forbid(unsafe_code)]

use super::host::Host;
use super::revision::Revision;
use super::scheduler::Stages;
use super::slot::Slot;
use crate::flight::catch;
use crate::sync::epoch;
use crate::sync::{Arc, Weak, mutant};
use std::error::Error;
use std::fmt;

/// Which Source of a file: a later one is greater. Those of another life of the file compare by the life first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceVersion {
    /// The number of the file's life. Never used twice in a scheduler.
    pub incarnation: u64,
    /// The file's generation in that life.
    pub generation: u64,
}

/// Proof that a scheduler gave somebody the Source of one generation of one file: from
/// [`Stages::try_get_witnessed_source`], together with that Source, and from nowhere else.
///
/// With it an Artifact that was made elsewhere is [committed](Stages::commit_artifact), and refused once the file has moved on.
/// A witness keeps nothing of its file or scheduler alive.
pub struct SourceWitness<H: Host> {
    scheduler: u64,
    slot: Weak<Slot<H>>,
    file: H::File,
    version: SourceVersion,
}

/// A witness was shown to a scheduler that did not give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignWitness;

impl fmt::Display for ForeignWitness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the witness was given by another scheduler")
    }
}

impl Error for ForeignWitness {}

impl<H: Host> SourceWitness<H> {
    /// The file.
    pub fn file(&self) -> &H::File {
        &self.file
    }

    /// Which Source of the file.
    pub fn version(&self) -> SourceVersion {
        self.version
    }
}

impl<H: Host> Clone for SourceWitness<H> {
    fn clone(&self) -> Self {
        let Self { scheduler, slot, file, version } = self;
        Self { scheduler: *scheduler, slot: slot.clone(), file: file.clone(), version: *version }
    }
}

impl<H: Host> fmt::Debug for SourceWitness<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceWitness")
            .field("file", &self.file)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl<H: Host> Revision<H> {
    /// Which Source of its file is made in it.
    pub(crate) fn version(&self) -> SourceVersion {
        SourceVersion { incarnation: self.life.incarnation, generation: self.generation }
    }
}

impl<H: Host> Stages<H> {
    /// As [`try_get_source`](Self::try_get_source), with a witness of that very Source.
    pub fn try_get_witnessed_source(&self, file: &H::File) -> Option<(Arc<H::Source>, SourceWitness<H>)> {
        let (source, slot, version) = self.with_slot(file, |slot, pinned| {
            let seen = slot.visible(pinned)?;
            let (source, _) = seen.published(slot.clock())?;
            Some((source.clone(), slot.clone(), seen.version()))
        })?;
        // Copying the name is the host's code: not under a guard.
        let file = catch(|| slot.file().clone()).ok()?;
        let witness = SourceWitness { scheduler: self.core().shared.id, slot: Arc::downgrade(&slot), file, version };
        Some((source, witness))
    }

    /// The Source that `witness` is of, while the file stands there; `None` once it was edited, invalidated, closed or removed.
    ///
    /// # Errors
    /// Another scheduler gave the witness.
    pub fn try_get_source_for_witness(
        &self,
        witness: &SourceWitness<H>,
    ) -> Result<Option<Arc<H::Source>>, ForeignWitness> {
        let Some(slot) = self.witnessed(witness)? else { return Ok(None) };
        let revision = witness.revision(&slot);
        Ok(revision.and_then(|revision| revision.source.result()?.as_ref().ok().cloned()))
    }

    /// The slot of a witness's file, while it lives.
    pub(crate) fn witnessed(&self, witness: &SourceWitness<H>) -> Result<Option<Arc<Slot<H>>>, ForeignWitness> {
        if witness.scheduler != self.core().shared.id {
            return Err(ForeignWitness);
        }
        // What has ended may be there still, as long as somebody looks at it.
        let live = |slot: &Arc<Slot<H>>| !slot.is_over() && !slot.has_ended(&epoch::pin());
        Ok(witness.slot.upgrade().filter(live))
    }
}

impl<H: Host> SourceWitness<H> {
    /// The revision that it is of, while that is the visible one.
    pub(crate) fn revision(&self, slot: &Slot<H>) -> Option<Arc<Revision<H>>> {
        let pinned = epoch::pin();
        let seen = slot.visible(&pinned)?;
        (seen.version() == self.version || mutant("publish.no_look")).then(|| seen.share())
    }
}
