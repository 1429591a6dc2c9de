//! How a request joins a revision: it hangs its waiter up, owns what it needs, counts as demand, and has the first missing stage
//! admitted. It does not know how the revision was found, nor how the file moves on.
//!
//! Nothing here holds a pin, so whatever is told on the way (waiters of what is left, say) may run the host's code.
#![forbid(unsafe_code)]

use super::artifact::{ArtifactFlight, known_or_done};
use super::demand::Wish;
use super::edges;
use super::error::{StageError, panicked};
use super::host::{Host, Stage};
use super::origin::{Asked, Asker, Origin, Turn};
use super::request::{Ask, StageHandle};
use super::revision::{Revision, StageFlight, leave};
use super::run::{AnalysisRef, SourceRef};
use super::slot::{Kind, Slot};
use super::stripe::Garbage;
use super::target::AnyTarget;
use crate::flight::{Completion, FirstWaiter, Handle, Interrupt, JoinRefused, Phase, Refused, StateWord, catch};
use crate::runtime::Priority;
use crate::sync::Arc;

/// What became of a wish.
pub(crate) enum Wished<R> {
    /// It stands, or has its answer.
    Answered(R),
    /// The revision has been left behind, or will be: look at the file again.
    LookAgain,
    /// The stage has failed or was cancelled at this generation: try it again.
    TryAgain,
}

use Wished::{Answered, LookAgain, TryAgain};

/// A wish that stands, and the ticket that it calls for.
pub(crate) struct Standing<H: Host> {
    pub(crate) handle: StageHandle<H>,
    pub(crate) ticket: Option<Kind>,
    /// Who asked before, if the execution was joined.
    pub(crate) asked: Asked,
}

type Attempt<H> = Wished<Standing<H>>;
pub(crate) type Refusal<H> = Wished<Option<StageError<H>>>;

impl<H: Host> Refusal<H> {
    /// Whether there are as many owners as can be counted: to look again would find the same.
    pub(crate) fn is_for_want_of_room(&self) -> bool {
        let Answered(Some(StageError::Interrupted(why))) = self else { return false };
        matches!(**why, Interrupt::TooManyWaiters)
    }
}

/// The place of one waiter.
pub(crate) type Waiter<T, H> = Arc<Completion<Arc<T>, StageError<H>>>;

/// What a phase that is over means to a request that comes now.
fn over<H: Host>(phase: Phase) -> Option<Refusal<H>> {
    match phase {
        Phase::Failed | Phase::Cancelled => Some(TryAgain),
        Phase::Superseded => Some(LookAgain),
        Phase::Shutdown => Some(Answered(Some(StageError::Shutdown))),
        _ => None,
    }
}

/// Owns a stage before the wanted one, unless it is done. What is over otherwise refuses the wish.
fn own<H: Host>(slot: &Slot<H>, (word, origin): (&StateWord, &Origin), asker: &Asker) -> Result<(), Refusal<H>> {
    match word.join_anew(false) {
        Ok(true) => {
            // It runs on behalf of who comes to own it first, for whatever needs it.
            let taken = origin.take_over(asker, false, false);
            slot.stripe.keep_asker(taken.and_then(|taken| taken.before));
            Ok(())
        }
        Ok(false) => {
            if origin.is_free() {
                origin.ask(asker, false);
            }
            Ok(())
        }
        Err(Refused::Phase(Phase::Done)) => Ok(()),
        Err(Refused::Phase(phase)) => Err(over(phase).unwrap_or(LookAgain)),
        Err(Refused::Full) => Err(Answered(Some(Interrupt::TooManyWaiters.into()))),
    }
}

/// A waiter that hangs in a flight, and whether nobody owned that before.
type Hung<T, H> = (Waiter<T, H>, bool);

/// Hangs a waiter up in `flight`.
fn hang<T: Send + Sync + 'static, H: Host, F: FirstWaiter>(
    flight: &StageFlight<T, H, F>,
) -> Result<Hung<T, H>, Refusal<H>> {
    let waiter = Completion::new();
    match flight.join_anew(waiter.clone()) {
        Ok(anew) => Ok((waiter, anew)),
        Err(JoinRefused::Terminal(phase)) => Err(over(phase).unwrap_or(LookAgain)),
        Err(JoinRefused::Full) => Err(Answered(Some(Interrupt::TooManyWaiters.into()))),
    }
}

fn refused<H: Host>(refusal: Refusal<H>, stage: Stage) -> Attempt<H> {
    match refusal {
        Answered(Some(error)) => {
            Answered(Standing { handle: StageHandle::ready(stage, Err(error)), ticket: None, asked: Asked::First })
        }
        Answered(None) | LookAgain => LookAgain,
        TryAgain => TryAgain,
    }
}

/// Joins `revision` for `target`.
pub(crate) fn wish<H: Host>(
    slot: &Slot<H>,
    revision: &Arc<Revision<H>>,
    target: &AnyTarget<H>,
    ask: &mut Ask<H>,
) -> Attempt<H> {
    let attempt = match target {
        AnyTarget::Source => to_source(slot, revision, ask),
        AnyTarget::Analysis => to_analysis(slot, revision, ask),
        AnyTarget::Artifact(profile) => to_artifact(slot, revision, profile, ask),
    };
    attempt.unwrap_or_else(|refusal| refused(refusal, target.stage()))
}

/// The answer of a stage that is over with a value, if it is.
fn ready<T: Send + Sync + 'static, H: Host, F: FirstWaiter>(
    flight: &StageFlight<T, H, F>,
    wrap: impl FnOnce(Handle<Arc<T>, StageError<H>>) -> StageHandle<H>,
) -> Result<Option<Attempt<H>>, Refusal<H>> {
    match flight.word().phase() {
        Phase::Done => {
            let value = flight.outcome().unwrap_or(Err(StageError::Cancelled));
            Ok(Some(Answered(Standing { handle: wrap(Handle::ready(value)), ticket: None, asked: Asked::First })))
        }
        phase => over(phase).map_or(Ok(None), Err),
    }
}

/// The ticket that a stage calls for which nothing stands before: if this wish has it admitted, or has made it more urgent
/// while it waited. Else whoever had it admitted has seen to its ticket.
pub(crate) fn start(word: &StateWord, stage: Stage, priority: Priority, raised: bool) -> Option<Kind> {
    match word.admit(priority) {
        Ok(_) => Some(Kind::of(stage, word.priority())),
        Err(Phase::Waiting) if raised => Some(Kind::of(stage, priority)),
        Err(_) => None,
    }
}

/// The ticket that Source calls for. Nothing runs on the stub.
pub(crate) fn start_source<H: Host>(revision: &Revision<H>, priority: Priority) -> Option<Kind> {
    let word = revision.source.word();
    if revision.is_stub() {
        return None;
    }
    let raised = word.raise(priority).is_some();
    start(word, Stage::Source, priority, raised)
}

fn to_source<H: Host>(slot: &Slot<H>, revision: &Arc<Revision<H>>, ask: &mut Ask<H>) -> Result<Attempt<H>, Refusal<H>> {
    if let Some(ready) = ready(&revision.source, StageHandle::Source)? {
        return Ok(ready);
    }
    let origin = &revision.origins.source;
    let (asked, turn) = ask_for(origin, ask)?;
    let (waiter, anew) = hang(&revision.source).inspect_err(|_| ask.take_back(origin, asked))?;
    let asked = ask.again(slot, origin, (asked, turn), anew).inspect_err(|_| revision.leave_source(slot))?;
    let ticket = start_source(revision, ask.priority);
    let handle = StageHandle::Source(Handle::pending(waiter, SourceRef::<H>::of(revision.clone())));
    Ok(Answered(Standing { handle, ticket, asked }))
}

fn to_analysis<H: Host>(
    slot: &Slot<H>,
    revision: &Arc<Revision<H>>,
    ask: &mut Ask<H>,
) -> Result<Attempt<H>, Refusal<H>> {
    if let Some(ready) = ready(&revision.analysis, StageHandle::Analysis)? {
        return Ok(ready);
    }
    let origin = &revision.origins.analysis;
    let (asked, turn) = ask_for(origin, ask)?;
    own_source(slot, revision, &ask.asker).inspect_err(|_| ask.take_back(origin, asked))?;
    let (waiter, anew) = hang(&revision.analysis).inspect_err(|_| {
        revision.leave_source(slot);
        ask.take_back(origin, asked);
    })?;
    let asked = ask.again(slot, origin, (asked, turn), anew).inspect_err(|_| revision.leave_owned(slot))?;
    let raised = revision.analysis.word().raise(ask.priority).is_some();
    let ticket = match revision.demand.wish() {
        Wish::Due => start(revision.analysis.word(), Stage::Analysis, ask.priority, raised),
        Wish::Counted => start_source(revision, ask.priority),
        // Whoever retired the revision may have seen nobody who wants it: leave it.
        Wish::Retired => {
            leave(slot, &revision.analysis, origin);
            revision.leave_source(slot);
            ask.take_back(origin, asked);
            return Err(revision.why_retired(slot));
        }
    };
    let handle = StageHandle::Analysis(Handle::pending(waiter, AnalysisRef::<H>::of(revision.clone())));
    Ok(Answered(Standing { handle, ticket, asked }))
}

/// Who asked first for the wanted execution. A request without a unit of the budget is the first nowhere.
fn ask_for<H: Host>(origin: &Origin, ask: &mut Ask<H>) -> Result<(Asked, Turn), Refusal<H>> {
    if ask.joins_only && origin.is_free() {
        return Err(LookAgain);
    }
    let (asked, turn) = origin.ask(&ask.asker, ask.charged);
    if asked == Asked::First {
        ask.charged = false;
    }
    Ok((asked, turn))
}

/// Owns Source.
pub(crate) fn own_source<H: Host>(slot: &Slot<H>, revision: &Revision<H>, asker: &Asker) -> Result<(), Refusal<H>> {
    own(slot, (revision.source.word(), &revision.origins.source), asker)
}

/// Owns Analysis.
pub(crate) fn own_analysis<H: Host>(slot: &Slot<H>, revision: &Revision<H>, asker: &Asker) -> Result<(), Refusal<H>> {
    own(slot, (revision.analysis.word(), &revision.origins.analysis), asker)
}

impl<H: Host> Ask<H> {
    /// It owns an execution, and is the first if nobody did before.
    fn again(
        &mut self,
        slot: &Slot<H>,
        origin: &Origin,
        (asked, turn): (Asked, Turn),
        anew: bool,
    ) -> Result<Asked, Refusal<H>> {
        match asked {
            // Another one came to own it in between, and takes the entry over if it has not yet.
            Asked::First if !anew && origin.seen() == turn => return Ok(Asked::After(None)),
            Asked::First if !anew => return Ok(Asked::After(origin.name())),
            Asked::First if origin.seen() == turn => return Ok(asked),
            Asked::After(_) if !anew => return Ok(asked),
            _ => {}
        }
        let taken = origin.take_over(&self.asker, self.charged, self.joins_only).ok_or(LookAgain)?;
        self.charged &= !taken.charged;
        slot.stripe.keep_asker(taken.before);
        Ok(Asked::First)
    }

    /// The wish for an execution that it was the first to ask for does not stand: its unit of the budget is in hand again,
    /// unless whoever ended the execution has released it.
    fn take_back(&mut self, origin: &Origin, asked: Asked) {
        if asked == Asked::First && origin.uncharge() {
            self.charged = true;
        }
    }
}

fn to_artifact<H: Host>(
    slot: &Slot<H>,
    revision: &Arc<Revision<H>>,
    profile: &H::Profile,
    ask: &mut Ask<H>,
) -> Result<Attempt<H>, Refusal<H>> {
    // Comparing and copying profiles is the host's code.
    let found = catch(|| revision.artifacts.find_or_add(profile, revision));
    let artifact =
        found.map_err(|report| Answered(Some(panicked(slot.file(), Stage::Artifact, revision.generation, report))))?;
    match ready(&artifact.flight, StageHandle::Artifact) {
        Ok(Some(ready)) => return Ok(ready),
        Ok(None) => {}
        Err(TryAgain) => {
            if let Some(ended) = revision.artifacts.replace(&artifact, artifact.after(None)) {
                slot.stripe.limbo.put(Garbage::Artifact(ended));
            }
            return Err(LookAgain);
        }
        Err(refusal) => return Err(refusal),
    }
    let origin = &artifact.origin;
    let (asked, turn) = ask_for(origin, ask)?;
    let (waiter, anew) = match own_and_hang(slot, revision, &artifact, ask) {
        Ok(hung) => hung,
        Err(refusal) => {
            ask.take_back(origin, asked);
            // If this execution alone is over, its cell is tried again, and nothing else of the revision.
            return Err(if artifact.flight.word().phase().is_terminal() { LookAgain } else { refusal });
        }
    };
    let asked = ask.again(slot, origin, (asked, turn), anew).inspect_err(|_| {
        leave(slot, &artifact.flight, origin);
        revision.leave_owned(slot);
    })?;
    let raised = revision.analysis.word().raise(ask.priority).is_some();
    let more = artifact.flight.word().raise(ask.priority).is_some();
    let wished = revision.demand.wish();
    known_or_done();
    if wished == Wish::Due {
        edges::ask(slot, revision, ask.priority, asked == Asked::First);
    }
    let ticket = match wished {
        Wish::Due if revision.analysis.word().phase() == Phase::Done => {
            let open = edges::is_open(slot, revision);
            let ticket = open.then(|| start(artifact.flight.word(), Stage::Artifact, ask.priority, more)).flatten();
            ticket.inspect(|_| revision.ready.push(&revision.artifacts, &artifact))
        }
        Wish::Due => start(revision.analysis.word(), Stage::Analysis, ask.priority, raised),
        Wish::Counted => start_source(revision, ask.priority),
        // Whoever retired the revision may not have seen the execution: leave it.
        Wish::Retired => {
            leave(slot, &artifact.flight, origin);
            revision.leave_owned(slot);
            ask.take_back(origin, asked);
            return Err(revision.why_retired(slot));
        }
    };
    let handle = StageHandle::Artifact(Handle::pending(waiter, artifact));
    Ok(Answered(Standing { handle, ticket, asked }))
}

impl<H: Host> Revision<H> {
    /// What to do about a revision that admits nothing any more.
    fn why_retired<R>(&self, slot: &Slot<H>) -> Wished<R> {
        let over = |word: &StateWord| matches!(word.phase(), Phase::Failed | Phase::Cancelled);
        if over(self.source.word()) || over(self.analysis.word()) {
            return TryAgain;
        }
        if slot.versions.is_current(self, slot.clock()) {
            // Neither failed nor replaced: it is being shut down, by a thread that may sleep meanwhile. Help.
            self.end(slot.shared(), self.why(slot));
        }
        LookAgain
    }
}

/// Owns what an Artifact needs, and hangs a waiter up in it.
fn own_and_hang<H: Host>(
    slot: &Slot<H>,
    revision: &Revision<H>,
    artifact: &ArtifactFlight<H>,
    ask: &Ask<H>,
) -> Result<Hung<H::Artifact, H>, Refusal<H>> {
    own_source(slot, revision, &ask.asker)?;
    own_analysis(slot, revision, &ask.asker).inspect_err(|_| revision.leave_source(slot))?;
    hang(&artifact.flight).inspect_err(|_| revision.leave_owned(slot))
}
