//! Reading what has been published, without waiting and without asking for anything.
//! It does not know how it came to be published.
#![forbid(unsafe_code)]

use super::artifact::ArtifactFlight;
use super::host::Host;
use super::revision::Revision;
use super::scheduler::Stages;
use super::slot::Slot;
use crate::flight::catch;
use crate::sync::Arc;
use crate::sync::epoch::{self, Guard};

impl<H: Host> Stages<H> {
    fn read<R>(&self, file: &H::File, f: impl FnOnce(&Revision<H>) -> Option<R>) -> Option<R> {
        // Not the slot's way to the clock, which is two loads longer.
        let clock = &self.core().shared.clock;
        self.with_slot(file, |slot, pinned| f(&*slot.versions.visible(clock, pinned)?))
    }

    /// Calls `f` with the slot of a file, under a pin: so it is short and no host code.
    pub(crate) fn with_slot<R>(&self, file: &H::File, f: impl FnOnce(&Arc<Slot<H>>, &Guard) -> Option<R>) -> Option<R> {
        let core = self.core();
        // Before the pin, whose barrier keeps all that follows it waiting.
        let hash = core.stripes.hash(file).ok()?;
        let pinned = epoch::pin();
        // Comparing is the host's code.
        catch(|| core.worlds.now(&pinned).table.look(hash, file, &pinned, |slot| f(slot, &pinned))).ok().flatten()
    }

    /// The slot of a file, if it has one that has not ended.
    pub(crate) fn slot(&self, file: &H::File) -> Option<Arc<Slot<H>>> {
        self.with_slot(file, |slot, pinned| (!slot.has_ended(pinned)).then(|| slot.clone()))
    }

    /// Source of the file's current generation, if it is there.
    pub fn try_get_source(&self, file: &H::File) -> Option<Arc<H::Source>> {
        let clock = &self.core().shared.clock;
        self.with_slot(file, |slot, pinned| slot.source(clock, pinned).cloned())
    }

    /// Calls `f` with Source of the file's current generation, if it is there, without counting a reference: for many threads that
    /// read one file.
    ///
    /// As long as `f` runs nothing is freed that any thread of the process has replaced meanwhile. So let it be short, and let it not
    /// wait. It may use the scheduler. If it panics, so does this call.
    pub fn with_source<R>(&self, file: &H::File, f: impl FnOnce(&H::Source) -> R) -> Option<R> {
        let core = self.core();
        let clock = &core.shared.clock;
        let hash = core.stripes.hash(file).ok()?;
        let pinned = epoch::pin();
        let source = |slot: &Arc<Slot<H>>| slot.source(clock, &pinned);
        // Comparing is the host's code.
        let source = catch(|| core.worlds.now(&pinned).table.look(hash, file, &pinned, source)).ok().flatten()?;
        Some(f(source))
    }

    /// Analysis of the file's current generation, if it is there.
    pub fn try_get_analysis(&self, file: &H::File) -> Option<Arc<H::Analysis>> {
        self.read(file, |revision| revision.analysis.result()?.as_ref().ok().cloned())
    }

    /// The Artifact of the file's current generation for `profile`, if it is there.
    pub fn try_get_artifact(&self, file: &H::File, profile: &H::Profile) -> Option<Arc<H::Artifact>> {
        let revision = self.with_slot(file, |slot, pinned| Some(slot.visible(pinned)?.share()))?;
        // Comparing profiles is the host's code.
        value(catch(|| revision.artifacts.find(profile)).ok()??)
    }

    /// The newest Artifact for `profile` that was ever published of this file, whatever has become of its generation; until the
    /// file is removed.
    pub fn try_get_last_good_artifact(&self, file: &H::File, profile: &H::Profile) -> Option<Arc<H::Artifact>> {
        let slot = self.slot(file)?;
        value(catch(|| slot.good.find(profile)).ok()??)
    }

    /// The text that an edit gave the file, while it stands.
    pub fn overlay(&self, file: &H::File) -> Option<Arc<H::Text>> {
        self.read(file, |revision| revision.text.clone())
    }

    /// The generation at which the file stands, if the scheduler knows it.
    pub fn generation(&self, file: &H::File) -> Option<u64> {
        self.read(file, |revision| (revision.generation > 0).then_some(revision.generation))
    }

    /// Whether the scheduler knows the file.
    pub fn has_file(&self, file: &H::File) -> bool {
        self.generation(file).is_some()
    }

    /// How many files the scheduler knows.
    pub fn len(&self) -> usize {
        self.core().worlds.now(&epoch::pin()).table.len()
    }

    /// Whether the scheduler knows no file.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

pub(crate) fn value<H: Host>(artifact: Arc<ArtifactFlight<H>>) -> Option<Arc<H::Artifact>> {
    artifact.flight.result()?.as_ref().ok().cloned()
}
