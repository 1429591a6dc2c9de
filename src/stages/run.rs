//! Runs a claimed stage: the host's function, the seal, and what follows from it, in this order.
//! It does not know who asked, nor how the claim was come by.
//!
//! A result is sealed only if its revision is still the visible one; then by one compare-and-swap, which excludes a cancel and a
//! second writer. After the seal: admit what was waiting for it, tell the waiters, oldest first, and take the next.
#![forbid(unsafe_code)]

use super::artifact::{ArtifactFlight, Ready, done_behind_exchange};
use super::claim::{Claim, claim, hold};
use super::edges::{self, Dispatch};
use super::error::{FailureCause, StageError, StageFailure};
use super::host::{Host, Stage, StageCx};
use super::origin::Origin;
use super::ready;
use super::revision::{Revision, StageFlight, kill};
use super::slot::{Kind, Slot};
use super::versions::may_seal;
use crate::admission::ContextScope;
use crate::flight::{
    Contained, Facet, First, FirstWaiter, FlightId, PanicReport, Phase, StateWord, catch, drop_contained, enter,
};
use crate::observe::Event;
use crate::runtime::Priority;
use crate::sync::Arc;
use crate::sync::epoch::{self, Guard};

/// What the thread does after a stage, which says how the next one is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// It returns to its worker's loop at once.
    Return,
    /// It goes on with something else.
    Stay,
}

pub(crate) type Outcome<T, H> = Result<Arc<T>, StageError<H>>;

/// What the host's function made, or why not.
type Made<T, H> = Result<Result<T, FailureCause<H>>, PanicReport>;

/// The identity of a revision's Source or Analysis among the flights of this thread.
fn facet<const PART: u8, H: Host>(revision: &Revision<H>) -> FlightId {
    FlightId::of(revision, PART)
}

/// Runs the claimed Source of `revision`.
pub(crate) fn source<H: Host>(slot: &Arc<Slot<H>>, revision: &Revision<H>, after: After) {
    let fail = |error: &StageError<H>| revision.fail_after_source(slot.shared(), error);
    hold(slot, (&revision.source, &revision.origins.source), &fail, |claim| {
        claim.begin(Stage::Source);
        make_source(slot, revision, claim, after);
    });
}

fn make_source<H: Host>(
    slot: &Arc<Slot<H>>,
    revision: &Revision<H>,
    claim: &mut Claim<'_, H::Source, H, First>,
    after: After,
) {
    let cx = StageCx { slot, revision, stage: Stage::Source, word: revision.source.word() };
    let mut named = None;
    let made = call(facet::<0, H>(revision), &revision.origins.source, || {
        let host = &slot.shared().host;
        let text = match &revision.text {
            Some(text) => H::Text::clone(text),
            None => host.load(slot.file()).map_err(FailureCause::Host)?.ok_or(FailureCause::NotFound)?,
        };
        let source = host.source(&cx, text).map_err(FailureCause::Host)?;
        let found = host.dependencies(&cx, &source);
        // Most hosts name none, and then nothing has to be contained.
        named = (!found.is_empty()).then(|| Contained::new(found));
        Ok(source)
    });
    let outcome = judge(slot, revision, (Stage::Source, None), made);
    let (outcome, resolved) = match named {
        Some(named) => edges::found(slot, revision, outcome, named),
        None => (outcome, None),
    };
    let failure = outcome.as_ref().err().cloned();
    let mut installed = None;
    let publish = |outcome: Outcome<H::Source, H>| {
        if failure.is_some() || !edges::installs(slot, &resolved) {
            return claim.publish_alone(outcome);
        }
        revision.source.publish_after(outcome, || installed = edges::install(slot, revision, resolved))
    };
    if !seal(slot, revision, (&revision.source, &revision.origins.source), outcome, publish) {
        return;
    }
    match failure {
        Some(failure) => {
            revision.fail_after_source(slot.shared(), &failure);
            tell_sealed(slot, (revision, Stage::Source), &revision.source, &revision.origins.source);
        }
        None => {
            // It has its stamp before anybody is told of it, so that a view which is captured then shows it.
            revision.stamp_published(slot.clock());
            slot.shared().counters.here().one(|counts| &counts.publications);
            let wanted = revision.demand.source_done();
            edges::integrate(slot, revision, installed);
            let next = wanted.then(|| admit_analysis(revision));
            tell_sealed(slot, (revision, Stage::Source), &revision.source, &revision.origins.source);
            follow(slot, next.flatten(), after);
        }
    }
}

/// Runs the claimed Analysis of `revision`.
pub(crate) fn analysis<H: Host>(slot: &Arc<Slot<H>>, revision: &Revision<H>, after: After) {
    let fail = |error: &StageError<H>| revision.fail_after_analysis(slot.shared(), error);
    hold(slot, (&revision.analysis, &revision.origins.analysis), &fail, |claim| {
        claim.begin(Stage::Analysis);
        make_analysis(slot, revision, claim, after);
    });
}

fn make_analysis<H: Host>(
    slot: &Arc<Slot<H>>,
    revision: &Revision<H>,
    claim: &mut Claim<'_, H::Analysis, H, ()>,
    after: After,
) {
    let Some(Ok(source)) = revision.source.result() else { unreachable!("Analysis is admitted after Source is done") };
    let cx = StageCx { slot, revision, stage: Stage::Analysis, word: revision.analysis.word() };
    let made = call(facet::<1, H>(revision), &revision.origins.analysis, || {
        slot.shared().host.analysis(&cx, source).map_err(FailureCause::Host)
    });
    let outcome = judge(slot, revision, (Stage::Analysis, None), made);
    let failure = outcome.as_ref().err().cloned();
    let part = (&revision.analysis, &revision.origins.analysis);
    if !seal(slot, revision, part, outcome, |outcome| claim.publish_alone(outcome)) {
        return;
    }
    if let Some(failure) = failure {
        revision.fail_after_analysis(slot.shared(), &failure);
        tell_sealed(slot, (revision, Stage::Analysis), &revision.analysis, &revision.origins.analysis);
        edges::withdrawn(slot, revision);
        return;
    }
    done_behind_exchange();
    let mut kinds =
        if edges::is_open(slot, revision) { admit_artifacts(revision, &epoch::pin()) } else { Kinds::none() };
    let next = kinds.next();
    kinds.for_each(|kind| slot.post(kind));
    edges::tell_consumers(slot, revision);
    tell_sealed(slot, (revision, Stage::Analysis), &revision.analysis, &revision.origins.analysis);
    follow(slot, next, after);
}

/// Tickets that several Artifacts call for: one a priority, the more urgent first.
pub(crate) struct Kinds(u8);

impl Kinds {
    pub(crate) fn none() -> Self {
        Self(0)
    }
}

impl Iterator for Kinds {
    type Item = Kind;

    #[inline]
    fn next(&mut self) -> Option<Kind> {
        let priority = *Priority::ALL.get(self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(Kind::of(Stage::Artifact, priority))
    }
}

/// Has every Artifact of `revision` admitted, whose Analysis is done and whose gate is open. The tickets that they need.
pub(crate) fn admit_artifacts<H: Host>(revision: &Revision<H>, pinned: &Guard) -> Kinds {
    let mut kinds = Kinds::none();
    revision.ready.push_each(&revision.artifacts, pinned, |artifact| {
        let kind = admit(artifact.flight.word(), Stage::Artifact, Priority::Maintenance);
        kinds.0 |= kind.map_or(0, |kind| 1 << kind.priority as u8);
        kind.is_some()
    });
    kinds
}

/// Runs one Artifact that is ready, if a ticket of `kind` finds one.
pub(crate) fn ready_artifact<H: Host>(slot: &Arc<Slot<H>>, revision: &Revision<H>, kind: Kind, after: After) {
    let taken = revision.ready.take(&revision.artifacts, |artifact, is_first| {
        let word = artifact.flight.word();
        if word.phase() != Phase::Waiting {
            return Ready::Drop;
        }
        // What is more urgent may come first, but is not left to wait with the others.
        let others = word.priority() == kind.priority;
        match is_first {
            true if word.priority() > kind.priority => Ready::Keep,
            true if !claim(slot, word) => Ready::Drop,
            false if !others => Ready::Keep,
            _ => Ready::Run,
        }
    });
    for priority in taken.left {
        slot.post(Kind::of(Stage::Artifact, priority));
    }
    if !taken.rest.is_empty() {
        ready::push(slot, taken.rest, kind);
    }
    if let Some(first) = taken.first {
        artifact(slot, revision, &first, after);
    }
}

/// Runs a claimed Artifact of `revision`. False if its blockers hold it up again: then the claim has been given back.
pub(crate) fn artifact<H: Host>(
    slot: &Arc<Slot<H>>,
    revision: &Revision<H>,
    artifact: &Arc<ArtifactFlight<H>>,
    after: After,
) -> bool {
    hold(slot, (&artifact.flight, &artifact.origin), &|_| {}, |claim| {
        let outcome = match edges::before_dispatch(slot, revision, artifact) {
            Dispatch::Go => {
                claim.begin(Stage::Artifact);
                make_artifact(slot, revision, artifact)
            }
            Dispatch::Fail(failure) => Err(failure),
            Dispatch::Wait => return false,
        };
        let good = outcome.is_ok();
        // Somebody outside may publish it too.
        let publish = |outcome| artifact.flight.publish(outcome);
        if !seal(slot, revision, (&artifact.flight, &artifact.origin), outcome, publish) {
            return true;
        }
        if good {
            slot.keep_good(artifact);
        }
        tell_sealed(slot, (revision, Stage::Artifact), &artifact.flight, &artifact.origin);
        follow(slot, None, after);
        true
    })
}

/// Has the host make an Artifact.
fn make_artifact<H: Host>(
    slot: &Arc<Slot<H>>,
    revision: &Revision<H>,
    artifact: &ArtifactFlight<H>,
) -> Outcome<H::Artifact, H> {
    let (Some(Ok(source)), Some(Ok(analysis))) = (revision.source.result(), revision.analysis.result()) else {
        unreachable!("an Artifact is admitted after Analysis is done")
    };
    let cx = StageCx { slot, revision, stage: Stage::Artifact, word: artifact.flight.word() };
    let made = call(FlightId::of(artifact, 0), &artifact.origin, || {
        slot.shared().host.artifact(&cx, &artifact.profile, source, analysis).map_err(FailureCause::Host)
    });
    judge(slot, revision, (Stage::Artifact, Some(&artifact.profile)), made)
}

/// Calls the host, with the flight on this thread's stack and in the context of who asked first, and stops its panic.
fn call<T, H: Host>(id: FlightId, origin: &Origin, f: impl FnOnce() -> Result<T, FailureCause<H>>) -> Made<T, H> {
    let _scope = enter(id);
    let _context = ContextScope::enter(origin.context());
    catch(f)
}

/// Makes an outcome of what the host's function made. Copies the file's name, which is the host's code, only for a failure.
fn judge<T, H: Host>(
    slot: &Slot<H>,
    revision: &Revision<H>,
    (stage, profile): (Stage, Option<&H::Profile>),
    made: Made<T, H>,
) -> Outcome<T, H> {
    let cause = match made {
        Ok(Ok(value)) => return Ok(Arc::new(value)),
        Ok(Err(cause)) => cause,
        Err(report) => FailureCause::Panicked(report),
    };
    let failure = catch(|| {
        let at = (stage, profile.cloned());
        StageError::failed(StageFailure::new(slot.file().clone(), at, revision.generation, cause))
    });
    Err(failure.unwrap_or_else(|report| crate::flight::Interrupt::Panicked(report).into()))
}

/// Seals the result by `publish`, which gives it back if somebody was faster, if the revision is still the visible one. A refused
/// result is dropped and counted.
fn seal<T: Send + Sync + 'static, H: Host, F: FirstWaiter>(
    slot: &Slot<H>,
    revision: &Revision<H>,
    (flight, origin): (&StageFlight<T, H, F>, &Origin),
    outcome: Outcome<T, H>,
    publish: impl FnOnce(Outcome<T, H>) -> Result<(), Outcome<T, H>>,
) -> bool {
    let may = may_seal(&slot.versions, revision, slot.clock()) && !slot.is_over();
    let refused = if may {
        match publish(outcome) {
            Ok(()) => return true,
            Err(outcome) => outcome,
        }
    } else {
        // Its end has been decided and perhaps not been carried out: help.
        kill(slot.shared(), flight, origin, revision.why(slot));
        outcome
    };
    let is_abandoned = flight.word().phase() == Phase::Cancelled;
    let here = slot.shared().counters.here();
    here.one(|counts| if is_abandoned { &counts.abandoned } else { &counts.refusals });
    drop_contained(refused);
    false
}

/// Gives back what was held for a sealed execution, and tells its waiters, oldest first: who is told finds it given back.
pub(crate) fn tell<T: Send + Sync + 'static, H: Host, F: FirstWaiter>(
    slot: &Slot<H>,
    flight: &StageFlight<T, H, F>,
    origin: &Origin,
) {
    slot.shared().over(origin);
    flight.deliver();
}

/// As [`tell`], and tells the observer too, of a stage that the caller has sealed.
pub(crate) fn tell_sealed<T: Send + Sync + 'static, H: Host, F: FirstWaiter>(
    slot: &Slot<H>,
    (revision, stage): (&Revision<H>, Stage),
    flight: &StageFlight<T, H, F>,
    origin: &Origin,
) {
    tell(slot, flight, origin);
    slot.shared().spawner.event(|| Event::StageSealed {
        stage: stage.name(),
        life: revision.life.incarnation,
        generation: revision.generation,
        failed: flight.word().phase() == Phase::Failed,
    });
}

/// Has the Analysis of `revision` admitted, whose demand the caller has moved to admitted. The ticket that it needs.
pub(crate) fn admit_analysis<H: Host>(revision: &Revision<H>) -> Option<Kind> {
    admit(revision.analysis.word(), Stage::Analysis, Priority::Maintenance)
}

/// Has an Artifact admitted whose Analysis is done. The ticket that it needs.
pub(crate) fn admit_artifact<H: Host>(
    revision: &Revision<H>,
    artifact: &ArtifactFlight<H>,
    priority: Priority,
) -> Option<Kind> {
    let kind = admit(artifact.flight.word(), Stage::Artifact, priority)?;
    revision.ready.push(&revision.artifacts, artifact);
    Some(kind)
}

/// Idle → waiting. The ticket that it needs, unless it has been claimed or is over.
pub(crate) fn admit(word: &StateWord, stage: Stage, priority: Priority) -> Option<Kind> {
    match word.admit(priority) {
        Ok(_) | Err(Phase::Waiting) => Some(Kind::of(stage, word.priority())),
        Err(_) => None,
    }
}

/// Queues what comes next.
fn follow<H: Host>(slot: &Arc<Slot<H>>, next: Option<Kind>, after: After) {
    match (next, after) {
        (Some(kind), After::Return) => slot.post_next(kind),
        (Some(kind), After::Stay) => slot.post(kind),
        (None, _) => {}
    }
}

/// The part of a revision that is its Source, as a handle sees it.
pub(crate) type SourceRef<H> = Facet<0, Revision<H>>;
/// The part of a revision that is its Analysis, as a handle sees it.
pub(crate) type AnalysisRef<H> = Facet<1, Revision<H>>;
