//! How a request finds its file, is charged to the budget, moves the file on if it brings a text, joins the visible revision,
//! and is answered. It does not know how stages run, nor how a wish is weighed.
#![forbid(unsafe_code)]

use super::early::{Early, Start};
use super::edges;
use super::edit::{Change, Edit, How, Moved, edit, move_on};
use super::error::{StageError, panicked};
use super::host::{Host, Stage};
use super::look::{Found, Sought, needed};
use super::needed::Needed;
use super::origin::Asked;
use super::profiles::Named;
use super::request::{Ask, Joined, Request, StageHandle};
use super::revision::Revision;
use super::scheduler::Core;
use super::slot::{Kind, Slot};
use super::target::AnyTarget;
use super::wish::{Standing, Wished, wish};
use crate::admission::Refused;
use crate::flight::{Contained, Interrupt, PanicReport, catch, drop_contained, trampoline};
use crate::sync::epoch::{self, Guard};
use crate::sync::{Arc, hint, mutant};
use smallvec::SmallVec;

/// Requests that are submitted in one call.
pub(crate) struct Submission<'a, H: Host> {
    core: &'a Core<H>,
    /// Whether it may wait for the budget. If not, it may be declined.
    waits: bool,
    /// The ticket that the last request has called for, to be queued.
    pub(crate) ticket: Option<Kind>,
    /// What is called after everything else.
    callbacks: SmallVec<[Box<dyn FnOnce()>; 1]>,
}

/// Why a request was not submitted, or what it is answered without.
pub(crate) enum Stop<H: Host> {
    /// It is answered with this.
    Failed(StageError<H>),
    /// The budget declined it, and it may not wait.
    Declined(Refused),
}

impl<H: Host> From<StageError<H>> for Stop<H> {
    fn from(error: StageError<H>) -> Self {
        Self::Failed(error)
    }
}

type Answer<H> = Result<StageHandle<H>, Stop<H>>;

impl<'a, H: Host> Submission<'a, H> {
    pub(crate) fn new(core: &'a Core<H>, waits: bool) -> Self {
        Self { core, waits, ticket: None, callbacks: SmallVec::new() }
    }

    /// Calls the joiners, in the order of the requests. Nothing is held any more.
    #[inline]
    pub(crate) fn call_joiners(self) {
        if !self.callbacks.is_empty() {
            self.call_all();
        }
    }

    #[cold]
    fn call_all(self) {
        for callback in self.callbacks {
            trampoline::run(callback);
        }
    }

    /// Answers one request, whose file has been sought, or not yet. True with it if it joined what another had asked for.
    #[inline(never)]
    pub(crate) fn submit(
        &mut self,
        request: Request<H>,
        sought: Option<Sought<Needed<H>>>,
    ) -> Result<(StageHandle<H>, bool), Refused> {
        let Request { file, target, text, rehomes, ask } = request;
        // What the host gave is dropped here, and its destructors may panic: not while a handle is on its way out.
        let (file, target) = (Contained::new(file), Contained::new(target));
        let mut ask = Contained::new(ask);
        let spawner = &self.core.shared.spawner;
        if let Some(error) = ask.is_over(spawner) {
            drop_contained(text);
            self.core.give_back(&mut ask);
            return Ok((StageHandle::ready(target.stage(), Err(error)), false));
        }
        let answer = if text.is_none() && !rehomes {
            match sought {
                Some(Ok((hash, found))) => self.join_found((hash, file), found, &target, &mut ask),
                Some(Err(report)) => Err(panicked::<H>(&file, target.stage(), 0, report).into()),
                None => self.find_and_join(file, &target, &mut ask),
            }
        } else {
            let mut text = Contained::new(text);
            match self.core.stripes.hash(&file) {
                Ok(hash) => self.edit_and_join((hash, file), (&mut text, rehomes), &target, &mut ask),
                Err(report) => Err(panicked::<H>(&file, target.stage(), 0, report).into()),
            }
        };
        self.core.give_back(&mut ask);
        match answer {
            Ok(handle) => Ok((ask.watched(handle, spawner), ask.joined)),
            Err(Stop::Failed(error)) => Ok((StageHandle::ready(target.stage(), Err(error)), false)),
            Err(Stop::Declined(refused)) => Err(refused),
        }
    }

    /// Answers a request that needs no unit of the budget, or for which one is free: one that finds its answer, joins, or is the first.
    /// Else it is left as it is, and has changed nothing.
    pub(crate) fn join_without_waiting(&mut self, request: &mut Request<H>) -> Option<StageHandle<H>> {
        if request.text.is_some() || request.rehomes {
            return None;
        }
        let (target, ask) = (&request.target, &mut request.ask);
        let answer = match self.core.look_for(&request.file, target.stage(), || {}).ok()?.1? {
            Found::Answer(value) => Ok(StageHandle::ready(target.stage(), Ok(value))),
            Found::Ended => return None,
            Found::Live(slot) => {
                let answer = self.join(&slot, target, ask);
                self.post(slot);
                answer
            }
        };
        self.core.give_back(ask);
        let handle = match answer {
            Ok(handle) => handle,
            Err(Stop::Failed(error)) => StageHandle::ready(target.stage(), Err(error)),
            Err(Stop::Declined(_)) => return None,
        };
        self.core.shared.counters.here().one(|counts| &counts.submits);
        Some(ask.watched(handle, &self.core.shared.spawner))
    }

    #[cold]
    fn find_and_join(&mut self, file: Contained<H::File>, target: &AnyTarget<H>, ask: &mut Ask<H>) -> Answer<H> {
        match self.core.seek(&file, target.stage()) {
            Ok((_, Some(Found::Answer(value)))) => Ok(StageHandle::ready(target.stage(), Ok(value))),
            Ok((hash, Some(Found::Live(slot)))) => self.join_found((hash, file), Some(slot), target, ask),
            Ok((hash, Some(Found::Ended) | None)) => self.join_found((hash, file), None, target, ask),
            Err(report) => Err(panicked::<H>(&file, target.stage(), 0, report).into()),
        }
    }

    /// Joins in the live slot of the file, or makes one.
    fn join_found(
        &mut self,
        (hash, file): (u64, Contained<H::File>),
        found: Option<Needed<H>>,
        target: &AnyTarget<H>,
        ask: &mut Ask<H>,
    ) -> Answer<H> {
        let slot = match found {
            Some(slot) => slot,
            None => {
                self.charge(ask)?;
                match self.create((hash, file), target, ask)? {
                    Ok(handle) => return Ok(handle),
                    Err(slot) => slot,
                }
            }
        };
        let answer = self.join(&slot, target, ask);
        self.post(slot);
        answer
    }

    /// Queues the ticket that the last request has called for.
    fn post(&mut self, slot: Needed<H>) {
        if let Some(kind) = self.ticket.take() {
            self.core.shared.post(slot.into_slot(), kind);
        }
    }

    /// Moves the file on, to `text` if that is one, and joins. The text is taken out of the caller's hands only once a revision
    /// has it: wherever this ends before, its destructor stays contained.
    fn edit_and_join(
        &mut self,
        (hash, file): (u64, Contained<H::File>),
        (text, rehomes): (&mut Option<H::Text>, bool),
        target: &AnyTarget<H>,
        ask: &mut Ask<H>,
    ) -> Answer<H> {
        self.charge(ask)?;
        self.core.shared.counters.here().one(|counts| &counts.submits);
        let pinned = epoch::pin();
        let (slot, pinned) = match self.core.known(hash, &file, &pinned) {
            // One pin for the look and the transition.
            Ok(Some(slot)) => (slot, pinned),
            other => {
                drop(pinned);
                (self.core.known_or_made(other, (file, hash))?, epoch::pin())
            }
        };
        let (start, early) = Start::asked(target, ask);
        let change = text.take().map_or(Change::Keep, Change::Set);
        let mut edit = self.core.edit(&slot, change, How { creates: true, rehomes }, start, pinned);
        let Some(revision) = edit.installed.take() else {
            ask.charged |= edit.declined().is_some_and(Revision::uncharge);
            return Err(self.core.refused(&slot, edit.file.moved).into());
        };
        if let Some(early) = early {
            self.core.shared.post(slot.into_slot(), Early::ticket(ask));
            return Ok(early.handle(revision));
        }
        let answer = self.join_edited(&slot, &revision, target, ask);
        self.post(slot);
        answer
    }

    /// Takes a unit of the budget in hand, if there is a budget and none is in hand yet.
    pub(crate) fn charge(&self, ask: &mut Ask<H>) -> Result<(), Stop<H>> {
        let Some(budget) = self.core.shared.budget.as_ref().filter(|_| !ask.charged) else { return Ok(()) };
        if !budget.take(1) {
            if !self.waits {
                return Err(Stop::Declined(budget.refused(1)));
            }
            // A budget of nothing, or a runtime without threads that has nothing left to drive: nobody would ever free any.
            let spawner = &self.core.shared.spawner;
            let stalled = |_| Stop::Failed(ask.is_over(spawner).unwrap_or_else(|| Interrupt::Stalled.into()));
            budget.take_until(1, spawner, ask.token.as_ref(), ask.deadline).map_err(stalled)?;
            ask.charged = true;
            // It may have ended while it waited; then it changes nothing.
            return ask.is_over(spawner).map_or(Ok(()), |over| Err(over.into()));
        }
        ask.charged = true;
        Ok(())
    }

    /// Makes the slot of a new file, and then its first revision, which the request joins before anybody sees it.
    /// `Err` inside holds a slot of which another thread was faster.
    ///
    /// The life is numbered when its slot is in the table: so its number is greater than those of all lives before.
    fn create(
        &mut self,
        (hash, file): (u64, Contained<H::File>),
        target: &AnyTarget<H>,
        ask: &mut Ask<H>,
    ) -> Result<Result<StageHandle<H>, Needed<H>>, Stop<H>> {
        let stripe = self.core.stripes.of(hash);
        // To copy and hash a profile is the host's code.
        let profile = match target {
            AnyTarget::Artifact(profile) => Some(catch(|| Named::of(profile.clone()))),
            AnyTarget::Source | AnyTarget::Analysis => None,
        };
        let generation = self.core.shared.first_generation;
        let profile = profile.transpose().map_err(|report| panicked::<H>(&file, target.stage(), generation, report))?;
        let kind = Early::ticket(ask);
        let early_life = mutant("submit.number_first").then(|| stripe.new_life());
        let slot = match self.core.add((file, hash), Some(kind))? {
            Ok(slot) => slot,
            Err(found) => return Ok(Err(found)),
        };
        let (start, early) =
            if profile.is_some() { (Start::before_artifact(ask), None) } else { Start::asked(target, ask) };
        let life = early_life.unwrap_or_else(|| stripe.new_life());
        let first = Arc::new(Revision::visible(Arc::downgrade(&slot), life, generation, start));
        let early = early.or_else(|| Some(Early::artifact(&first, profile?, ask)));
        let made = slot.versions.create(first.clone());
        if made.is_err() {
            // Another thread has found the slot meanwhile. The ticket is out all the same: its bit is set.
            ask.charged |= first.uncharge();
            self.core.shared.push(slot.clone(), kind);
            return Ok(Err(Needed::already(slot)));
        }
        self.core.shared.push(slot, kind);
        Ok(Ok(early.expect("every target joins early").handle(first)))
    }

    /// Has a request join whatever revision of the file is visible, until it stands.
    pub(crate) fn join(&mut self, slot: &Needed<H>, target: &AnyTarget<H>, ask: &mut Ask<H>) -> Answer<H> {
        self.join_if(slot, target, ask, |_| true)
    }

    /// As [`join`](Self::join), but the request is superseded once a revision is visible that is not `its`.
    fn join_if(
        &mut self,
        slot: &Needed<H>,
        target: &AnyTarget<H>,
        ask: &mut Ask<H>,
        its: impl Fn(&Revision<H>) -> bool,
    ) -> Answer<H> {
        loop {
            if let Some(budget) = self.core.shared.budget.as_ref().filter(|_| !ask.charged && !ask.uncharged) {
                ask.charged = budget.take(1);
                ask.joins_only = !ask.charged;
            }
            let revision = visible_or_first(slot);
            if revision.absent {
                return Err(self.core.ended(slot).into());
            }
            if !(its(&revision) || mutant("submit.joins_newer")) {
                return Err(StageError::Superseded.into());
            }
            let wished = wish(slot, &revision, target, ask);
            if let Wished::Answered(standing) = wished {
                return Ok(self.settle(slot, target, standing, ask));
            }
            if ask.joins_only {
                // There is nothing to join, and to be the first costs a unit.
                self.charge(ask)?;
                ask.joins_only = false;
            } else if let Wished::TryAgain = wished {
                if !try_again(slot, &revision) && slot.versions.is_moving(slot.clock()) {
                    // A transition has been linked over it and waits to be committed: it supersedes this request.
                    return Err(StageError::Superseded.into());
                }
            } else {
                hint::spin_loop();
            }
        }
    }

    /// Has a request join the revision that its own edit made.
    pub(crate) fn join_edited(
        &mut self,
        slot: &Needed<H>,
        revision: &Arc<Revision<H>>,
        target: &AnyTarget<H>,
        ask: &mut Ask<H>,
    ) -> Answer<H> {
        if let Wished::Answered(standing) = wish(slot, revision, target, ask) {
            return Ok(self.settle(slot, target, standing, ask));
        }
        // Somebody ended it meanwhile: by a retry at the same generation, which this request joins, or by a newer edit.
        let its = (revision.life, revision.generation);
        self.join_if(slot, target, ask, |now| (now.life, now.generation) == its)
    }

    /// Queues what a wish calls for, and keeps the joiner's callback for the end.
    fn settle(
        &mut self,
        slot: &Arc<Slot<H>>,
        target: &AnyTarget<H>,
        standing: Standing<H>,
        ask: &mut Ask<H>,
    ) -> StageHandle<H> {
        let Standing { handle, ticket, asked } = standing;
        self.ticket = ticket;
        if let Asked::After(winner) = asked {
            ask.joined = true;
            self.core.shared.counters.here().one(|counts| &counts.joins);
            if let Some(callback) = ask.on_join.take() {
                let (slot, stage) = (slot.clone(), target.stage());
                self.callbacks.push(Box::new(move || {
                    callback(Joined { file: slot.file().clone(), stage, winner });
                }));
            }
        }
        handle
    }
}

impl<H: Host> Core<H> {
    /// Gives back a unit of the budget that a request has in hand and did not use.
    pub(crate) fn give_back(&self, ask: &mut Ask<H>) {
        if let Some(budget) = &self.shared.budget
            && std::mem::take(&mut ask.charged)
        {
            budget.release(1);
        }
    }

    /// Moves one file on. `pinned` ends once the transition stands.
    pub(crate) fn edit<'s>(
        &self,
        slot: &'s Arc<Slot<H>>,
        change: Change<H>,
        how: How,
        start: Start<H>,
        pinned: Guard,
    ) -> Edit<'s, H> {
        let mut edits = [edit(slot, change, how, start)];
        move_on(&self.shared, &mut edits, pinned);
        let [edit] = edits;
        edit
    }

    /// Moves a known file on, and asks for nothing.
    pub(crate) fn change(&self, file: &H::File, change: Change<H>, rehomes: bool) -> Moved {
        let Some(slot) = self.stripes.hash(file).ok().and_then(|hash| self.live(hash, file).ok()?) else {
            return Moved::Unknown;
        };
        match self.edit(&slot, change, How { creates: false, rehomes }, Start::idle(), epoch::pin()).file.moved {
            Moved::Ended => Moved::Unknown,
            moved => moved,
        }
    }

    /// Gives a file a text, and asks for nothing.
    pub(crate) fn set_text(&self, file: H::File, text: H::Text) -> Moved {
        let (file, mut text) = (Contained::new(file), Contained::new(Some(text)));
        let Ok(hash) = self.stripes.hash(&file) else { return Moved::Unknown };
        self.shared.counters.here().one(|counts| &counts.submits);
        let how = How { creates: true, rehomes: false };
        match self.slot(hash, file) {
            Ok(slot) => {
                let change = text.take().map_or(Change::Keep, Change::Set);
                self.edit(&slot, change, how, Start::idle(), epoch::pin()).file.moved
            }
            Err(StageError::Shutdown) => Moved::Ended,
            Err(_) => Moved::Unknown,
        }
    }

    /// The live slot of `file`, if there is one.
    pub(crate) fn live(&self, hash: u64, file: &H::File) -> Result<Option<Arc<Slot<H>>>, PanicReport> {
        let pinned = epoch::pin();
        let live = |slot: &Arc<Slot<H>>| (!slot.has_ended(&pinned)).then(|| slot.clone());
        Ok(self.worlds.now(&pinned).table.find(hash, file, &pinned, live)?.flatten())
    }

    /// The slot of `file`, made if there is none.
    pub(crate) fn slot(&self, hash: u64, file: Contained<H::File>) -> Result<Needed<H>, StageError<H>> {
        let known = self.known(hash, &file, &epoch::pin());
        self.known_or_made(known, (file, hash))
    }

    /// The slot of `file`, if it has one.
    fn known(&self, hash: u64, file: &H::File, pinned: &Guard) -> Result<Option<Needed<H>>, PanicReport> {
        Ok(self.worlds.now(pinned).table.find(hash, file, pinned, |slot| needed(slot, pinned))?.flatten())
    }

    /// As `slot`, once that is known. Outside every pin.
    fn known_or_made(
        &self,
        known: Result<Option<Needed<H>>, PanicReport>,
        (file, hash): (Contained<H::File>, u64),
    ) -> Result<Needed<H>, StageError<H>> {
        match known {
            Ok(Some(slot)) => Ok(slot),
            Ok(None) => self.add((file, hash), None).map(|added| added.map_or_else(|found| found, Needed::already)),
            Err(report) => Err(panicked::<H>(&file, Stage::Source, 0, report)),
        }
    }
}

/// The visible revision of a file, or its first, made now.
pub(crate) fn visible_or_first<H: Host>(slot: &Needed<H>) -> Arc<Revision<H>> {
    loop {
        let seen = {
            let pinned = epoch::pin();
            slot.visible(&pinned).map(|seen| seen.share())
        };
        if let Some(revision) = seen {
            return revision;
        }
        let (life, generation) = (slot.stripe.new_life(), slot.shared().first_generation);
        let first = Arc::new(Revision::visible(Arc::downgrade(slot), life, generation, Start::idle()));
        if slot.versions.create(first.clone()).is_ok() {
            return first;
        }
    }
}

/// Puts a fresh revision of the same generation in the place of one whose stage failed or was cancelled. False if the file has
/// moved on meanwhile.
pub(crate) fn try_again<H: Host>(slot: &Arc<Slot<H>>, ended: &Arc<Revision<H>>) -> bool {
    let pinned = epoch::pin();
    let fresh = Arc::new(ended.again(slot.clock()));
    let swung = slot.versions.swing(ended, fresh, slot.clock(), &pinned);
    drop(pinned);
    let Ok(old) = swung else { return false };
    ended.demand.retire();
    match old {
        Some(old) => slot.stripe.retire(old),
        None => slot.sweep(),
    }
    edges::moved_on(slot);
    true
}
