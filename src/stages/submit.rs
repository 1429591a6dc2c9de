//! How a request finds its file, moves it on if it brings a text, joins the visible revision, and is answered.
//! It does not know how stages run, nor how a wish is weighed.
#![forbid(unsafe_code)]

use super::batch::{self, BatchHandle};
use super::edit::{Change, Edit, Moved, edit, move_on};
use super::error::{StageError, panicked};
use super::host::{Host, Stage};
use super::origin::Asked;
use super::request::{AnyTarget, Ask, Joined, Request, StageHandle};
use super::revision::Revision;
use super::scheduler::Core;
use super::slot::{Kind, Slot};
use super::tickets::Tickets;
use super::versions::Versions;
use super::wish::{Standing, Wished, wish};
use crate::flight::{Handle, PanicReport, catch, trampoline};
use crate::sync::{Arc, epoch, hint};
use smallvec::SmallVec;
use std::collections::HashMap;

/// What is called after everything else: the joiners' callbacks.
type Callbacks = smallvec::SmallVec<[Box<dyn FnOnce()>; 1]>;

/// Where the tickets of wishes go.
enum Posts<H: Host> {
    /// Queued at once.
    Now,
    /// Gathered, to be queued together.
    Later(Vec<(Arc<Slot<H>>, Kind)>),
}

impl<H: Host> Core<H> {
    /// Answers one request.
    pub(crate) fn submit(&self, request: Request<H>) -> StageHandle<H> {
        let Request { file, target, text, mut ask } = request;
        let hash = match self.table.hash(&file) {
            Ok(hash) => hash,
            Err(report) => return failed(&file, &target, report),
        };
        self.table.stripe(hash).counters.submits.one();
        let mut callbacks = Callbacks::new();
        let handle = match text {
            Some(text) => self.submit_edit(hash, file, text, &target, &mut ask, &mut callbacks),
            None => self.submit_plain(hash, file, &target, &mut ask, &mut callbacks),
        };
        run_callbacks(callbacks);
        handle
    }

    fn submit_plain(
        &self,
        hash: u64,
        file: H::File,
        target: &AnyTarget<H>,
        ask: &mut Ask<H>,
        callbacks: &mut Callbacks,
    ) -> StageHandle<H> {
        let found = self.table.find(hash, &file, |slot| match at_once(slot, target) {
            Some(handle) => Ok(handle),
            None => Err(slot.clone()),
        });
        let slot = match found {
            Ok(Some(Ok(handle))) => return handle,
            Ok(Some(Err(slot))) => slot,
            Ok(None) => match self.create(hash, file, target, ask) {
                Ok(Ok(handle)) => return handle,
                Ok(Err(slot)) => slot,
                Err(error) => return StageHandle::ready(target.stage(), Err(error)),
            },
            Err(report) => return failed(&file, target, report),
        };
        self.join(&slot, target, ask, &mut Posts::Now, callbacks)
    }

    fn submit_edit(
        &self,
        hash: u64,
        file: H::File,
        text: H::Text,
        target: &AnyTarget<H>,
        ask: &mut Ask<H>,
        callbacks: &mut Callbacks,
    ) -> StageHandle<H> {
        let slot = match self.slot(hash, file) {
            Ok(slot) => slot,
            Err(error) => return StageHandle::ready(target.stage(), Err(error)),
        };
        match self.edit(&slot, Change::Set(text)) {
            (Moved::On, revision) => self.join_edited(&slot, &revision, target, ask, &mut Posts::Now, callbacks),
            (Moved::Exhausted | Moved::Unknown, _) => {
                StageHandle::ready(target.stage(), Err(StageError::GenerationExhausted))
            }
        }
    }

    fn edit(&self, slot: &Arc<Slot<H>>, change: Change<H>) -> (Moved, Arc<Revision<H>>) {
        let creates = matches!(change, Change::Set(_));
        let mut edits = [edit(slot.clone(), change, creates)];
        move_on(&self.shared, &mut edits);
        let [edit] = edits;
        (edit.file.moved, edit.fresh)
    }

    pub(crate) fn change(&self, file: &H::File, change: Change<H>) -> Moved {
        let Ok(hash) = self.table.hash(file) else { return Moved::Unknown };
        match self.table.find(hash, file, Arc::clone) {
            Ok(Some(slot)) => self.edit(&slot, change).0,
            _ => Moved::Unknown,
        }
    }

    /// The slot of `file`, made if there is none.
    fn slot(&self, hash: u64, file: H::File) -> Result<Arc<Slot<H>>, StageError<H>> {
        let lookup = |file: &H::File| {
            self.table.find(hash, file, Arc::clone).map_err(|report| panicked(file, Stage::Source, 0, report))
        };
        if let Some(slot) = lookup(&file)? {
            return Ok(slot);
        }
        let fresh = Arc::new(Slot::new(file, hash, self.table.stripe(hash).clone(), Versions::empty(), Tickets::new()));
        self.add(fresh).map(|added| added.unwrap_or_else(|found| found))
    }

    /// Adds a slot that was just made, or finds the one that another thread has added before: `Err` inside.
    #[expect(clippy::type_complexity, reason = "two outcomes that both hold a slot, and a failure")]
    fn add(&self, fresh: Arc<Slot<H>>) -> Result<Result<Arc<Slot<H>>, Arc<Slot<H>>>, StageError<H>> {
        let file = fresh.file();
        let failed = |report| panicked(file, Stage::Source, 0, report);
        loop {
            if self.table.add(fresh.clone()).map_err(failed)? {
                return Ok(Ok(fresh));
            }
            if let Some(slot) = self.table.find(fresh.hash, file, Arc::clone).map_err(failed)? {
                return Ok(Err(slot));
            }
        }
    }

    /// Makes the slot of a new file together with its first revision, which the request joins before anybody sees it.
    /// `Ok(Err)` holds the slot of another thread that was faster.
    #[expect(clippy::type_complexity, reason = "an answer, or a slot to join, or a failure")]
    fn create(
        &self,
        hash: u64,
        file: H::File,
        target: &AnyTarget<H>,
        ask: &Ask<H>,
    ) -> Result<Result<StageHandle<H>, Arc<Slot<H>>>, StageError<H>> {
        let stripe = self.table.stripe(hash);
        let slot = Arc::new(Slot::new(file, hash, stripe.clone(), Versions::empty(), Tickets::new()));
        let first = Revision::visible(Arc::downgrade(&slot), stripe.new_life(), self.shared.first_generation);
        let first = Arc::new(first);
        let Wished::Answered(Standing { handle, ticket, .. }) = wish(&slot, &first, target, ask) else {
            return Err(StageError::Cancelled);
        };
        let _ = slot.versions.create(first);
        let out = ticket.is_some_and(|kind| slot.tickets.post(kind.bit()));
        match self.add(slot)? {
            Ok(slot) => {
                if let (true, Some(kind)) = (out, ticket) {
                    slot.push(kind);
                }
                Ok(Ok(handle))
            }
            Err(found) => Ok(Err(found)),
        }
    }

    /// Has a request join whatever revision of the file is visible, until it stands.
    fn join(
        &self,
        slot: &Arc<Slot<H>>,
        target: &AnyTarget<H>,
        ask: &mut Ask<H>,
        posts: &mut Posts<H>,
        callbacks: &mut Callbacks,
    ) -> StageHandle<H> {
        loop {
            let revision = self.visible_or_first(slot);
            match wish(slot, &revision, target, ask) {
                Wished::Answered(standing) => return settle(slot, target, standing, ask, posts, callbacks),
                Wished::LookAgain => hint::spin_loop(),
                Wished::TryAgain => try_again(slot, &revision),
            }
        }
    }

    /// Has a request join the revision that its own edit made.
    fn join_edited(
        &self,
        slot: &Arc<Slot<H>>,
        revision: &Arc<Revision<H>>,
        target: &AnyTarget<H>,
        ask: &mut Ask<H>,
        posts: &mut Posts<H>,
        callbacks: &mut Callbacks,
    ) -> StageHandle<H> {
        if let Wished::Answered(standing) = wish(slot, revision, target, ask) {
            return settle(slot, target, standing, ask, posts, callbacks);
        }
        // Somebody ended it meanwhile: by a retry at the same generation, which this request joins, or by a newer edit.
        let now = self.visible_or_first(slot);
        if (now.life, now.generation) == (revision.life, revision.generation) {
            self.join(slot, target, ask, posts, callbacks)
        } else {
            StageHandle::ready(target.stage(), Err(StageError::Superseded))
        }
    }

    fn visible_or_first(&self, slot: &Arc<Slot<H>>) -> Arc<Revision<H>> {
        loop {
            let seen = {
                let pinned = epoch::pin();
                slot.visible(&pinned).map(|seen| seen.share())
            };
            if let Some(revision) = seen {
                return revision;
            }
            let life = slot.stripe.new_life();
            let first = Arc::new(Revision::visible(Arc::downgrade(slot), life, self.shared.first_generation));
            if slot.versions.create(first.clone()).is_ok() {
                return first;
            }
        }
    }

    /// Gives a file a text and asks for nothing.
    pub(crate) fn set_text(&self, file: H::File, text: H::Text) -> Moved {
        let Ok(hash) = self.table.hash(&file) else { return Moved::Unknown };
        self.table.stripe(hash).counters.submits.one();
        self.slot(hash, file).map_or(Moved::Unknown, |slot| self.edit(&slot, Change::Set(text)).0)
    }

    /// Answers requests that were submitted together.
    pub(crate) fn submit_batch(&self, requests: Vec<Request<H>>) -> BatchHandle<H> {
        if requests.is_empty() {
            return BatchHandle::new(Vec::new());
        }
        self.table.stripe(0).counters.submits.one();
        let mut edits: Vec<Edit<H>> = Vec::new();
        let mut edited = HashMap::<*const Slot<H>, usize, ahash::RandomState>::default();
        let members: Vec<_> =
            requests.into_iter().map(|request| self.member(request, &mut edits, &mut edited)).collect();
        if !edits.is_empty() {
            move_on(&self.shared, &mut edits);
        }
        let (mut posts, mut callbacks) = (Posts::Later(Vec::with_capacity(members.len())), Callbacks::new());
        let answer = |member: BatchMember<H>| match member.slot {
            Ok(slot) => {
                let (target, mut ask) = (member.target, member.ask);
                match edited.get(&Arc::as_ptr(&slot)).map(|&at| &edits[at]) {
                    None => self.join(&slot, &target, &mut ask, &mut posts, &mut callbacks),
                    Some(edit) if edit.file.moved == Moved::On => {
                        self.join_edited(&slot, &edit.fresh, &target, &mut ask, &mut posts, &mut callbacks)
                    }
                    Some(_) => StageHandle::ready(target.stage(), Err(StageError::GenerationExhausted)),
                }
            }
            Err(error) => StageHandle::ready(member.target.stage(), Err(error)),
        };
        let handles = members.into_iter().map(answer).collect();
        self.queue(posts);
        run_callbacks(callbacks);
        BatchHandle::new(handles)
    }

    /// Finds the file of a batch's member, and notes the edit that it brings.
    fn member(
        &self,
        request: Request<H>,
        edits: &mut Vec<Edit<H>>,
        edited: &mut HashMap<*const Slot<H>, usize, ahash::RandomState>,
    ) -> BatchMember<H> {
        let Request { file, target, text, ask } = request;
        let slot = match self.table.hash(&file) {
            Ok(hash) => self.slot(hash, file),
            Err(report) => Err(panicked(&file, target.stage(), 0, report)),
        };
        if let (Ok(slot), Some(text)) = (&slot, text) {
            let fresh = edit(slot.clone(), Change::Set(text), true);
            match edited.entry(Arc::as_ptr(slot)) {
                std::collections::hash_map::Entry::Occupied(at) => edits[*at.get()] = fresh,
                std::collections::hash_map::Entry::Vacant(at) => {
                    at.insert(edits.len());
                    edits.push(fresh);
                }
            }
        }
        BatchMember { slot, target, ask }
    }

    /// Queues the tickets of a batch: one for each stage and priority, or as single ones if there are few.
    fn queue(&self, posts: Posts<H>) {
        let Posts::Later(posts) = posts else { return };
        let mut groups = SmallVec::<[(Kind, Slots<H>); 4]>::new();
        for (slot, kind) in posts {
            match groups.iter_mut().find(|(group, _)| *group == kind) {
                Some((_, slots)) => slots.push(slot),
                None => groups.push((kind, vec![slot])),
            }
        }
        for (kind, slots) in groups {
            match &slots[..] {
                [slot] => slot.post(kind),
                _ => batch::push(&self.shared, slots, kind),
            }
        }
    }
}

/// Members of a batch that share a ticket.
type Slots<H> = Vec<Arc<Slot<H>>>;

/// A member of a batch whose file has been found.
struct BatchMember<H: Host> {
    slot: Result<Arc<Slot<H>>, StageError<H>>,
    target: AnyTarget<H>,
    ask: Ask<H>,
}

/// The answer of a request whose stage is done already. Allocates nothing.
fn at_once<H: Host>(slot: &Slot<H>, target: &AnyTarget<H>) -> Option<StageHandle<H>> {
    let pinned = epoch::pin();
    let seen = slot.visible(&pinned)?;
    match target {
        AnyTarget::Source => match seen.source.result()? {
            Ok(value) => Some(StageHandle::Source(Handle::ready(Ok(value.clone())))),
            Err(_) => None,
        },
        AnyTarget::Analysis => match seen.analysis.result()? {
            Ok(value) => Some(StageHandle::Analysis(Handle::ready(Ok(value.clone())))),
            Err(_) => None,
        },
        // To find the profile is to compare, which is the host's code: not under a pin.
        AnyTarget::Artifact(_) => None,
    }
}

/// Queues what a wish calls for, and keeps the joiner's callback for the end.
fn settle<H: Host>(
    slot: &Arc<Slot<H>>,
    target: &AnyTarget<H>,
    standing: Standing<H>,
    ask: &mut Ask<H>,
    posts: &mut Posts<H>,
    callbacks: &mut Callbacks,
) -> StageHandle<H> {
    let Standing { handle, ticket, asked } = standing;
    match (ticket, posts) {
        (Some(kind), Posts::Now) => slot.post(kind),
        (Some(kind), Posts::Later(later)) => later.push((slot.clone(), kind)),
        (None, _) => {}
    }
    if let Asked::After(winner) = asked {
        slot.stripe.counters.joins.one();
        if let Some(callback) = ask.on_join.take() {
            let (slot, stage) = (slot.clone(), target.stage());
            callbacks.push(Box::new(move || {
                callback(Joined { file: slot.file().clone(), stage, winner });
            }));
        }
    }
    handle
}

/// Calls the joiners, in the order of the requests.
fn run_callbacks(callbacks: Callbacks) {
    for callback in callbacks {
        trampoline::run(callback);
    }
}

/// Puts a fresh revision of the same generation in the place of one whose stage failed or was cancelled.
fn try_again<H: Host>(slot: &Arc<Slot<H>>, ended: &Arc<Revision<H>>) {
    let fresh = Arc::new(ended.again());
    let pinned = epoch::pin();
    let swung = slot.versions.swing(ended, fresh, &pinned);
    drop(pinned);
    if let Ok(old) = swung {
        old.0.demand.retire();
        slot.stripe.retire(old);
    }
}

/// The answer of a request whose file could not be looked up.
fn failed<H: Host>(file: &H::File, target: &AnyTarget<H>, report: PanicReport) -> StageHandle<H> {
    StageHandle::ready(target.stage(), Err(panicked(file, target.stage(), 0, report)))
}
