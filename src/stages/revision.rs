//! One generation of one file: its text, its stages and those who wait for them. What is stale holds an old revision and finds
//! it ended; it cannot reach the new one. It does not know how the file moves on, nor when its stages run.
#![forbid(unsafe_code)]

use super::artifact::{Artifacts, ReadyArtifacts};
use super::demand::Demand;
use super::early::Start;
use super::edges::{Consumers, Place, tell_consumers};
use super::error::StageError;
use super::host::Host;
use super::origin::{Forgotten, Origin, Origins};
use super::shared::Shared;
use super::slot::Slot;
use super::stamp::{Clock, Stamp};
use super::versions::{Link, Version, VersionExt};
use crate::flight::{First, FirstWaiter, Flight, Killed, Left, drop_contained};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Arc, Weak};

/// A stage of one revision, with a place for a first waiter or without.
pub(crate) type StageFlight<T, H, F> = Flight<Arc<T>, StageError<H>, F>;

/// The number that says of which life of a file a revision is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// The number of the file's life, never used twice in a scheduler. A re-home gives it a new one.
    pub(crate) incarnation: u64,
}

/// One generation of one file. What a look at a Source that is done reads stands first, 32 bytes in one row: on one cache line more often
/// than not; and what the opening of a gate reads stands together, from the link to the word of Analysis.
#[repr(C)]
pub(crate) struct Revision<H: Host> {
    /// When Source was published, once it is done.
    publication: Stamp,
    pub(crate) source: StageFlight<H::Source, H, First>,
    pub(crate) demand: Demand,
    pub(crate) origins: Origins,
    pub(crate) slot: Weak<Slot<H>>,
    /// The text that an edit gave; it stands until the file is closed or edited anew.
    pub(crate) text: Option<Arc<H::Text>>,
    link: Link<Self>,
    /// Why it ends, noted before it does: see [`Revision::reason`].
    reason: AtomicU32,
    /// The file was removed: this is the last revision of its slot, on which nothing runs and which nothing joins.
    pub(crate) absent: bool,
    /// Whether the file had been published before, there or gone: then views are told that it is gone while Source is not there.
    pub(crate) known: bool,
    pub(crate) life: Life,
    /// 0 for the stub that stands in for a predecessor where there is none, and for the mark of a removal.
    pub(crate) generation: u64,
    pub(crate) artifacts: Artifacts<H>,
    pub(crate) analysis: StageFlight<H::Analysis, H, ()>,
    pub(crate) ready: ReadyArtifacts<H>,
    /// Those who wait for its Analysis from other files, if there are any.
    pub(crate) consumers: Place<Consumers<H>>,
}

impl<H: Host> Version for Revision<H> {
    fn link(&self) -> &Link<Self> {
        &self.link
    }

    fn seen_from(&self, clock: &Clock) -> Option<u64> {
        if self.known { Some(self.stamp(clock)) } else { self.published(clock).map(|(_, stamp)| stamp) }
    }
}

impl<H: Host> Revision<H> {
    #[inline]
    fn with(link: Link<Self>, slot: Weak<Slot<H>>, life: Life, generation: u64, start: Start<H>) -> Self {
        let Start { demand, source, analysis, origins } = start;
        Self {
            link,
            slot,
            life,
            generation,
            reason: AtomicU32::new(0),
            absent: false,
            known: false,
            publication: Stamp::installing(),
            text: None,
            demand,
            source,
            analysis,
            artifacts: Artifacts::new(),
            ready: ReadyArtifacts::none(),
            origins,
            consumers: Place::new(),
        }
    }

    /// A revision that is visible as soon as it is linked: a file's first, or the stub.
    #[inline]
    pub(crate) fn visible(slot: Weak<Slot<H>>, life: Life, generation: u64, start: Start<H>) -> Self {
        Self::with(Link::first(), slot, life, generation, start)
    }

    /// A revision that a transition will install; its numbers are set in the section.
    #[inline]
    pub(crate) fn installing(slot: Weak<Slot<H>>, start: Start<H>) -> Self {
        let mut fresh = Self::with(Link::installing(), slot, Life { incarnation: 0 }, 0, start);
        fresh.known = true;
        fresh
    }

    /// The last revision of a slot, which a removal will install.
    pub(crate) fn absent(slot: Weak<Slot<H>>) -> Self {
        let mut last = Self::installing(slot, Start::idle());
        last.absent = true;
        last
    }

    /// The last revision of a slot whose world was left, visible as soon as it is linked.
    pub(crate) fn absent_at_once(slot: Weak<Slot<H>>) -> Self {
        let mut last = Self::with(Link::committing(), slot, Life { incarnation: 0 }, 0, Start::idle());
        (last.absent, last.known) = (true, true);
        last
    }

    /// The same generation again, after a stage of it failed or was cancelled: what is done is carried over.
    pub(crate) fn again(&self, clock: &Clock) -> Self {
        let (start, publication) = match self.published(clock) {
            Some((source, stamp)) => (Start::with_source(source.clone()), Stamp::settled(stamp)),
            None => (Start::idle(), Stamp::installing()),
        };
        let mut fresh = Self::with(Link::installing(), self.slot.clone(), self.life, self.generation, start);
        (fresh.known, fresh.publication) = (self.known, publication);
        fresh.text.clone_from(&self.text);
        fresh
    }

    /// Source, if it is published, and when it was. Whoever sees that it is done helps it to its stamp, so that a view which is
    /// captured after that shows it.
    pub(crate) fn published(&self, clock: &Clock) -> Option<(&Arc<H::Source>, u64)> {
        let source = self.source.result()?.as_ref().ok()?;
        Some((source, self.publication.resolve_done(clock)))
    }

    /// Source, if it is published and has its stamp: then the revision has been visible, and says so nowhere else. Who published it had
    /// seen the revision's transition committed, and helped that to its stamp first.
    #[inline]
    pub(crate) fn settled_source(&self) -> Option<&Arc<H::Source>> {
        self.publication.once_settled(|| self.source.result()?.as_ref().ok())
    }

    /// Stamps the Source that the caller has published, which is shown by every view that is captured from then on.
    pub(crate) fn stamp_published(&self, clock: &Clock) {
        self.publication.resolve_own_done(clock);
    }

    /// From when on a view that is captured then does not even know that the file is gone: none before the mark of a removal is
    /// forgotten.
    pub(crate) fn forgotten(&self, clock: &Clock) -> Option<u64> {
        let stamp = if self.absent { self.publication.resolve(clock) } else { 0 };
        (stamp != 0).then_some(stamp)
    }

    /// Forgets the mark of a removal: made once.
    pub(crate) fn forget(&self, clock: &Clock) -> u64 {
        debug_assert!(self.absent, "only what is gone is forgotten");
        self.publication.commit();
        self.publication.resolve(clock)
    }

    /// Whether it is the stub or the mark of a removal, on which nothing runs.
    pub(crate) fn is_stub(&self) -> bool {
        self.generation == 0
    }

    /// Notes why it is about to end. In the section, before the commit.
    pub(crate) fn note_reason(&self, how: Killed) {
        // ordering: Relaxed; the commit that follows releases it to whoever sees the successor.
        self.reason.store(1 + how as u32, Ordering::Relaxed);
    }

    /// Whether it is known why it ends. Not so if it was only tried again: then whoever failed it tells its waiters.
    pub(crate) fn has_reason(&self) -> bool {
        self.reason.load(Ordering::Relaxed) != 0
    }

    /// Why it ends, for one whose successor is visible: never what the slot shows later.
    pub(crate) fn reason(&self) -> Killed {
        match self.reason.load(Ordering::Relaxed) {
            word if word == 1 + Killed::Shutdown as u32 => Killed::Shutdown,
            word if word == 1 + Killed::Cancelled as u32 => Killed::Cancelled,
            _ => Killed::Superseded,
        }
    }

    /// Why it ends, for one that may seal nothing any more: as `reason`, or since its world was left.
    pub(crate) fn why(&self, slot: &Slot<H>) -> Killed {
        if slot.is_over() && !self.has_reason() { Killed::Shutdown } else { self.reason() }
    }

    /// Ends whatever of it is not over, and answers those who wait. After the commit, outside every section and pin.
    pub(crate) fn end(&self, shared: &Shared<H>, how: Killed) {
        let wanted = self.demand.retire();
        kill(shared, &self.source, &self.origins.source, how);
        // What nobody wants no request will join any more: its wish is refused, and it looks at the file again. There it must
        // find the successor; if there is none, it must find that all is over.
        if !wanted && how == Killed::Superseded {
            return;
        }
        kill(shared, &self.analysis, &self.origins.analysis, how);
        self.artifacts.each(|artifact| kill(shared, &artifact.flight, &artifact.origin, how));
        self.tell_others();
        if how == Killed::Shutdown
            && let Some(slot) = self.slot.upgrade()
            && let Some(node) = slot.node.get()
        {
            node.end();
        }
    }

    /// Analysis is over, or will never be: tells those who wait for it from other files.
    fn tell_others(&self) {
        if !self.consumers.is_empty()
            && let Some(slot) = self.slot.upgrade()
        {
            tell_consumers(&slot, self);
        }
    }

    /// Source has failed: so has everything that needs it.
    pub(crate) fn fail_after_source(&self, shared: &Shared<H>, error: &StageError<H>) {
        self.demand.retire();
        fail(shared, &self.analysis, &self.origins.analysis, error);
        self.fail_artifacts(shared, error);
        self.tell_others();
    }

    /// Analysis has failed: so has everything that needs it.
    pub(crate) fn fail_after_analysis(&self, shared: &Shared<H>, error: &StageError<H>) {
        self.demand.retire();
        self.fail_artifacts(shared, error);
        self.tell_others();
    }

    fn fail_artifacts(&self, shared: &Shared<H>, error: &StageError<H>) {
        self.artifacts.each(|artifact| fail(shared, &artifact.flight, &artifact.origin, error));
    }

    /// Takes back whatever units of the budget are held for a revision that nobody has seen. Whether there was one.
    pub(crate) fn uncharge(&self) -> bool {
        let mut any = self.origins.source.uncharge() | self.origins.analysis.uncharge();
        self.artifacts.each(|artifact| any |= artifact.origin.uncharge());
        any
    }
}

/// Ends one execution, if it is not over.
pub(crate) fn kill<T: Send + Sync + 'static, H: Host, F: FirstWaiter>(
    shared: &Shared<H>,
    flight: &StageFlight<T, H, F>,
    origin: &Origin,
    how: Killed,
) {
    if !flight.word().phase().is_terminal() && flight.word().kill(how).is_ok() {
        shared.over(origin);
        flight.deliver();
    }
}

/// Fails one execution with the failure of one before it, if it is not over.
fn fail<T: Send + Sync + 'static, H: Host, F: FirstWaiter>(
    shared: &Shared<H>,
    flight: &StageFlight<T, H, F>,
    origin: &Origin,
    error: &StageError<H>,
) {
    if flight.publish(Err(error.clone())).is_ok() {
        shared.over(origin);
        flight.deliver();
    }
}

/// One owner of an execution withdraws, unless it is over. Who asked after it was done is none of its owners.
///
/// What nobody has begun and nobody wants any more is as if it had never been asked for.
pub(crate) fn leave<T: Send + Sync + 'static, H: Host, F: FirstWaiter>(
    slot: &Slot<H>,
    flight: &StageFlight<T, H, F>,
    origin: &Origin,
) {
    if flight.word().phase().is_terminal() {
        return;
    }
    let asked = origin.seen();
    match flight.withdraw() {
        Left::Last(_) => slot.shared().over(origin),
        Left::Unstarted => {
            let Forgotten { asker, charged } = origin.forget(asked);
            slot.shared().release(charged);
            slot.stripe.keep_asker(asker);
        }
        Left::StillWanted | Left::TooLate(_) => {}
    }
}

impl<H: Host> Drop for Revision<H> {
    fn drop(&mut self) {
        drop_contained(self.text.take());
    }
}
