//! What a request finds of its file when it comes: its answer, if its stage is done, or the slot to join.
//! It does not know how it joins, nor how a file begins.
#![forbid(unsafe_code)]

use super::host::{Host, Stage};
use super::needed::Needed;
use super::request::{Request, StageValue};
use super::revision::Revision;
use super::scheduler::Core;
use super::slot::Slot;
use super::stamp::Clock;
use crate::flight::{PanicReport, catch};
use crate::sync::Arc;
use crate::sync::epoch::{self, Guard};

/// What a request finds of its file.
pub(crate) enum Found<H: Host> {
    /// Its answer.
    Answer(StageValue<H>),
    /// A slot to join.
    Live(Needed<H>),
    /// A slot of a life that has ended, or of none.
    Ended,
}

/// The hash of a name, and what was found under it.
pub(crate) type Sought<F> = Result<(u64, Option<F>), PanicReport>;

impl<H: Host> Core<H> {
    /// The answer of a request for `stage` that changes nothing, if that is done; else what is known of its file, if it was looked for.
    /// The request is left as it is: most are answered here, and need not be taken apart, nor moved, for it.
    #[inline(always)]
    pub(crate) fn at_hand<T>(
        &self,
        request: &Request<H, T>,
        stage: Stage,
    ) -> Result<StageValue<H>, Option<Sought<Needed<H>>>> {
        if !request.only_asks() {
            return Err(None);
        }
        match self.seek(&request.file, stage) {
            Ok((_, Some(Found::Answer(value)))) => Ok(value),
            Ok((hash, Some(Found::Live(slot)))) => Err(Some(Ok((hash, Some(slot))))),
            Ok((hash, Some(Found::Ended) | None)) => Err(Some(Ok((hash, None)))),
            Err(report) => Err(Some(Err(report))),
        }
    }

    /// Counts a request that only asks, and looks for its file.
    #[inline(always)]
    pub(crate) fn seek(&self, file: &H::File, stage: Stage) -> Sought<Found<H>> {
        self.look_for(file, stage, || self.shared.counters.here().one(|counts| &counts.submits))
    }

    /// Looks for the file of a request; calls `hashed` as soon as its name is hashed.
    #[inline(always)]
    pub(crate) fn look_for(&self, file: &H::File, stage: Stage, hashed: impl FnOnce()) -> Sought<Found<H>> {
        let hash = self.stripes.hash(file)?;
        // Before the pin, whose barrier keeps all that follows it waiting.
        hashed();
        let pinned = epoch::pin();
        let found = |slot: &Arc<Slot<H>>| Some(at_once(slot, stage, &self.shared.clock, &pinned));
        // Comparing is the host's code.
        let found = catch(|| self.worlds.now(&pinned).table.look(hash, file, &pinned, found))?;
        Ok((hash, found))
    }
}

/// A slot that has not ended, to be relied on.
#[inline]
pub(crate) fn needed<H: Host>(slot: &Arc<Slot<H>>, pinned: &Guard) -> Option<Needed<H>> {
    match slot.visible(pinned) {
        Some(seen) if seen.absent => None,
        Some(_) => Some(Needed::already(slot.clone())),
        None => Needed::of(slot.clone()),
    }
}

/// What a request finds in the slot of its file.
#[inline]
fn at_once<H: Host>(slot: &Arc<Slot<H>>, stage: Stage, clock: &Clock, pinned: &Guard) -> Found<H> {
    if stage == Stage::Source
        && let Some(source) = slot.versions.head(pinned).and_then(Revision::settled_source)
    {
        return Found::Answer(StageValue::Source(source.clone()));
    }
    match slot.versions.visible(clock, pinned) {
        Some(seen) => match answer_at_once(&seen, stage, clock) {
            Some(value) => Found::Answer(value),
            None if seen.absent => Found::Ended,
            None => Found::Live(Needed::already(slot.clone())),
        },
        None => Needed::of(slot.clone()).map_or(Found::Ended, Found::Live),
    }
}

/// The answer of a request whose stage is done already. Allocates nothing.
#[inline]
fn answer_at_once<H: Host>(seen: &Revision<H>, stage: Stage, clock: &Clock) -> Option<StageValue<H>> {
    match stage {
        Stage::Source => {
            let (value, _) = seen.published(clock)?;
            Some(StageValue::Source(value.clone()))
        }
        Stage::Analysis => {
            let value = seen.analysis.result()?.as_ref().ok()?;
            Some(StageValue::Analysis(value.clone()))
        }
        // To find the profile is to compare, which is the host's code: not under a pin.
        Stage::Artifact => None,
    }
}
