//! How a handle helps, leaves and looks behind the stage that it waits for.
//! It does not know who holds the handle.
use super::artifact::ArtifactFlight;
use super::capacity::Permit;
use super::claim::claim;
use super::edges;
use super::error::StageError;
use super::host::{Host, Stage};
use super::origin::Origin;
use super::revision::{Revision, StageFlight, kill, leave};
use super::run::{self, After, AnalysisRef, SourceRef};
use super::slot::Slot;
use super::ticket;
use super::versions::has_moved_on;
use crate::flight::{First, FirstFlight, FirstWaiter, FlightId, FlightRef, Phase, StateWord, catch};
use crate::runtime::{Driver, Place, Pool, Runtime, Spawner};
use crate::sync::Arc;

/// Another count of a revision or an execution that lies behind a [`FlightRef`].
///
/// # Safety
/// `this` lies in an `Arc`.
unsafe fn share<T>(this: &T) -> Arc<T> {
    // SAFETY: promised by the caller.
    unsafe {
        Arc::increment_strong_count(this);
        Arc::from_raw(this)
    }
}

impl<H: Host> Revision<H> {
    /// Carries out what a transition has decided about a flight of this revision.
    fn poke<T: Send + Sync + 'static, F: FirstWaiter>(&self, flight: &StageFlight<T, H, F>, origin: &Origin) {
        if !flight.word().phase().is_terminal()
            && let Some(slot) = self.slot.upgrade()
        {
            self.poke_in(&slot, flight, origin);
        }
    }

    fn poke_in<T: Send + Sync + 'static, F: FirstWaiter>(
        &self,
        slot: &Slot<H>,
        flight: &StageFlight<T, H, F>,
        origin: &Origin,
    ) {
        let moved = || has_moved_on(&slot.versions, self, slot.clock()) && self.has_reason();
        if !flight.word().phase().is_terminal() && (moved() || slot.is_over()) {
            kill(slot.shared(), flight, origin, self.why(slot));
        }
    }

    /// As `poke`, and then calls `f` with the way to the threads.
    fn poke_and_ask<T: Send + Sync + 'static, F: FirstWaiter>(
        &self,
        (flight, origin): (&StageFlight<T, H, F>, &Origin),
        f: &mut dyn FnMut(&Spawner),
    ) {
        let Some(slot) = self.slot.upgrade() else { return f(&nowhere()) };
        self.poke_in(&slot, flight, origin);
        f(&slot.shared().spawner);
    }

    fn describe(&self, stage: Stage) -> String {
        let Some(slot) = self.slot.upgrade() else { return format!("{stage} of a file that is gone") };
        catch(|| format!("{stage} of {:?} at generation {}", slot.file(), self.generation))
            .unwrap_or_else(|_| format!("{stage} of a file whose name cannot be printed"))
    }

    fn spawner(&self) -> Spawner {
        self.slot.upgrade().map_or_else(nowhere, |slot| slot.shared().spawner.clone())
    }

    fn place(&self, stage: Stage, word: &StateWord) -> Place {
        let pool = match stage {
            Stage::Source => self.slot.upgrade().map_or(Pool::Workers, |slot| slot.shared().source_pool),
            Stage::Analysis | Stage::Artifact => Pool::Workers,
        };
        Place { pool, priority: word.priority() }
    }

    /// An owner of Source withdraws.
    pub(crate) fn leave_source(&self, slot: &Slot<H>) {
        leave(slot, &self.source, &self.origins.source);
    }

    /// An owner of Analysis and Source withdraws.
    pub(crate) fn leave_owned(&self, slot: &Slot<H>) {
        leave(slot, &self.analysis, &self.origins.analysis);
        self.leave_source(slot);
    }
}

/// The way to a runtime that has gone: the scheduler has ended, and so has everything that could be waited for.
fn nowhere() -> Spawner {
    let runtime = Runtime::builder().driver(Driver::Inline).build().expect("a runtime without threads can be built");
    runtime.spawner().clone()
}

impl<H: Host> FlightRef for SourceRef<H> {
    fn id(&self) -> FlightId {
        self.flight_id()
    }

    fn describe(&self) -> String {
        self.owner().describe(Stage::Source)
    }

    fn spawner(&self) -> Spawner {
        self.owner().spawner()
    }

    fn place(&self) -> Place {
        self.owner().place(Stage::Source, self.owner().source.word())
    }

    fn phase(&self) -> Phase {
        self.owner().source.word().phase()
    }

    fn help(&self) -> bool {
        let revision = self.owner();
        let Some(slot) = revision.slot.upgrade() else { return false };
        let _permit = Permit::lent(&slot.stripe.shared, slot.shared().source_pool);
        ticket::source(&slot, revision, After::Stay)
    }

    fn watch(&self) -> bool {
        self.owner().source.word().watch()
    }

    fn leave(&self) {
        if let Some(slot) = self.owner().slot.upgrade() {
            self.owner().leave_source(&slot);
        }
    }

    fn poke(&self) {
        self.owner().poke(&self.owner().source, &self.owner().origins.source);
    }

    fn poke_and_ask(&self, f: &mut dyn FnMut(&Spawner)) {
        self.owner().poke_and_ask((&self.owner().source, &self.owner().origins.source), f);
    }

    fn abandoned(&self) {
        self.owner().source.abandoned();
    }
}

impl<H: Host> FirstFlight<Arc<H::Source>, StageError<H>> for SourceRef<H> {
    fn first(&self) -> &First {
        self.owner().source.first()
    }

    fn outcome(&self) -> Option<Result<Arc<H::Source>, StageError<H>>> {
        self.owner().source.outcome()
    }
}

impl<H: Host> FirstFlight<Arc<H::Artifact>, StageError<H>> for ArtifactFlight<H> {
    fn first(&self) -> &First {
        self.flight.first()
    }

    fn outcome(&self) -> Option<Result<Arc<H::Artifact>, StageError<H>>> {
        self.flight.outcome()
    }
}

impl<H: Host> FlightRef for AnalysisRef<H> {
    fn id(&self) -> FlightId {
        self.flight_id()
    }

    fn describe(&self) -> String {
        self.owner().describe(Stage::Analysis)
    }

    fn spawner(&self) -> Spawner {
        self.owner().spawner()
    }

    fn place(&self) -> Place {
        self.owner().place(Stage::Analysis, self.owner().analysis.word())
    }

    fn phase(&self) -> Phase {
        self.owner().analysis.word().phase()
    }

    fn help(&self) -> bool {
        let revision = self.owner();
        let Some(slot) = revision.slot.upgrade() else { return false };
        let _permit = Permit::lent(&slot.stripe.shared, Pool::Workers);
        ticket::analysis(&slot, revision, After::Stay)
    }

    fn watch(&self) -> bool {
        self.owner().analysis.word().watch()
    }

    fn leave(&self) {
        if let Some(slot) = self.owner().slot.upgrade() {
            self.owner().demand.withdraw();
            self.owner().leave_owned(&slot);
        }
    }

    fn poke(&self) {
        self.owner().poke(&self.owner().analysis, &self.owner().origins.analysis);
    }

    fn poke_and_ask(&self, f: &mut dyn FnMut(&Spawner)) {
        self.owner().poke_and_ask((&self.owner().analysis, &self.owner().origins.analysis), f);
    }

    fn abandoned(&self) {
        self.owner().analysis.abandoned();
    }

    fn gates(&self, out: &mut Vec<Arc<dyn FlightRef>>) {
        let revision = self.owner();
        if !revision.source.word().phase().is_terminal() {
            // SAFETY: who holds a reference to this part holds an `Arc` of the revision.
            out.push(SourceRef::of(unsafe { share(revision) }));
        }
    }
}

impl<H: Host> FlightRef for ArtifactFlight<H> {
    fn id(&self) -> FlightId {
        FlightId::of(self, 0)
    }

    fn describe(&self) -> String {
        let of = self.revision.upgrade().map(|revision| revision.describe(Stage::Artifact));
        let of = of.unwrap_or_else(|| "artifact of a generation that is gone".to_owned());
        catch(|| format!("{of} for {:?}", **self.profile))
            .unwrap_or_else(|_| "artifact for a profile that cannot be printed".to_owned())
    }

    fn spawner(&self) -> Spawner {
        self.revision.upgrade().map_or_else(nowhere, |revision| revision.spawner())
    }

    fn place(&self) -> Place {
        Place { pool: Pool::Workers, priority: self.flight.word().priority() }
    }

    fn phase(&self) -> Phase {
        self.flight.word().phase()
    }

    fn help(&self) -> bool {
        let Some(revision) = self.revision.upgrade() else { return false };
        let Some(slot) = revision.slot.upgrade() else { return false };
        // SAFETY: who holds a reference to this execution holds an `Arc` of it.
        let this = || unsafe { share(self) };
        let _permit = Permit::lent(&slot.stripe.shared, Pool::Workers);
        claim(&slot, self.flight.word()) && run::artifact(&slot, &revision, &this(), After::Stay)
    }

    fn watch(&self) -> bool {
        self.flight.word().watch()
    }

    fn leave(&self) {
        if let Some(revision) = self.revision.upgrade()
            && let Some(slot) = revision.slot.upgrade()
        {
            leave(&slot, &self.flight, &self.origin);
            revision.demand.withdraw();
            revision.leave_owned(&slot);
            edges::withdrawn(&slot, &revision);
        }
    }

    fn poke(&self) {
        if let Some(revision) = self.revision.upgrade() {
            revision.poke(&self.flight, &self.origin);
        }
    }

    fn poke_and_ask(&self, f: &mut dyn FnMut(&Spawner)) {
        match self.revision.upgrade() {
            Some(revision) => revision.poke_and_ask((&self.flight, &self.origin), f),
            None => f(&nowhere()),
        }
    }

    fn abandoned(&self) {
        self.flight.abandoned();
    }

    fn gates(&self, out: &mut Vec<Arc<dyn FlightRef>>) {
        let Some(revision) = self.revision.upgrade() else { return };
        if let Some(slot) = revision.slot.upgrade() {
            edges::gates(&slot, &revision, out);
        }
        if !revision.analysis.word().phase().is_terminal() {
            out.push(AnalysisRef::of(revision));
        }
    }
}
