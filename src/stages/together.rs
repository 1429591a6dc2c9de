//! Requests that are submitted together: their edits are one transition, their tickets one a stage and priority.
//! It does not know how one request is answered.
#![forbid(unsafe_code)]

use super::batch::{self, BatchHandle};
use super::contained::Contained;
use super::early::Start;
use super::edit::{Change, Edit, Moved, edit, move_on};
use super::error::{StageError, panicked};
use super::host::Host;
use super::request::{AnyTarget, Ask, Request, StageHandle};
use super::scheduler::Core;
use super::slot::{Kind, Slot};
use super::submit::{Stop, Submission};
use crate::sync::Arc;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Members of a batch that share a ticket.
type Slots<H> = Vec<Arc<Slot<H>>>;

/// A member of a batch whose file has been looked for.
struct Member<H: Host> {
    slot: Result<Arc<Slot<H>>, StageError<H>>,
    target: Contained<AnyTarget<H>>,
    ask: Contained<Ask<H>>,
}

/// The edits of a batch, one a file.
struct Edits<H: Host> {
    edits: Vec<Edit<H>>,
    of: HashMap<*const Slot<H>, usize, ahash::RandomState>,
}

impl<H: Host> Edits<H> {
    /// Notes an edit; the newest text of a file stands.
    fn note(&mut self, slot: &Arc<Slot<H>>, text: H::Text) {
        let fresh = edit(slot.clone(), Change::Set(text), true, Start::idle());
        match self.of.entry(Arc::as_ptr(slot)) {
            Entry::Occupied(at) => self.edits[*at.get()] = fresh,
            Entry::Vacant(at) => {
                at.insert(self.edits.len());
                self.edits.push(fresh);
            }
        }
    }

    fn get(&self, slot: &Arc<Slot<H>>) -> Option<&Edit<H>> {
        self.of.get(&Arc::as_ptr(slot)).map(|&at| &self.edits[at])
    }
}

impl<H: Host> Core<H> {
    /// Answers requests that were submitted together.
    pub(crate) fn submit_batch(&self, requests: Vec<Request<H>>) -> BatchHandle<H> {
        if requests.is_empty() {
            return BatchHandle::new(Vec::new());
        }
        self.table.stripe(0).counters.submits.one();
        let mut edits = Edits { edits: Vec::new(), of: HashMap::default() };
        let mut units = self.charge_batch(requests.len());
        let mut members: Vec<_> = requests.into_iter().map(|request| self.member(request, &mut edits)).collect();
        if !edits.edits.is_empty() {
            move_on(&self.shared, &mut edits.edits);
        }
        let mut submission = Submission::new(self, true);
        submission.posts = Some(Vec::with_capacity(members.len()));
        let handles =
            members.iter_mut().map(|member| self.answer(member, &edits, &mut units, &mut submission)).collect();
        let spare = units + members.iter().filter(|member| member.ask.charged).count() as u32;
        self.queue(submission.posts.take().unwrap_or_default());
        if let Some(budget) = self.shared.budget.as_ref().filter(|_| spare > 0) {
            budget.release(spare);
        }
        submission.call_joiners();
        BatchHandle::new(handles)
    }

    /// Takes the budget's units for a batch: one a member, or all that there are if it has more members than that.
    fn charge_batch(&self, members: usize) -> u32 {
        let Some(budget) = &self.shared.budget else { return 0 };
        let units = budget.capacity().min(u32::try_from(members).unwrap_or(u32::MAX));
        if budget.take_waiting(units, None).is_ok() { units } else { 0 }
    }

    /// Finds the file of a batch's member, and notes the edit that it brings.
    fn member(&self, request: Request<H>, edits: &mut Edits<H>) -> Member<H> {
        let Request { file, target, text, ask } = request;
        let (file, target, ask) = (Contained::new(file), Contained::new(target), Contained::new(ask));
        let slot = match self.table.hash(&file) {
            Ok(hash) => self.slot(hash, file),
            Err(report) => Err(panicked::<H>(&file, target.stage(), 0, report)),
        };
        if let (Ok(slot), Some(text)) = (&slot, text) {
            edits.note(slot, text);
        }
        Member { slot, target, ask }
    }

    fn answer(
        &self,
        member: &mut Member<H>,
        edits: &Edits<H>,
        units: &mut u32,
        submission: &mut Submission<'_, H>,
    ) -> StageHandle<H> {
        let Member { slot, target, ask } = member;
        if *units > 0 {
            *units -= 1;
            ask.charged = true;
        } else {
            ask.uncharged = true;
        }
        let answer = match slot {
            Err(error) => Err(Stop::Failed(error.clone())),
            Ok(slot) => match edits.get(slot) {
                None => submission.join(slot, target, ask),
                Some(edit) if edit.file.moved == Moved::On => submission.join_edited(slot, &edit.fresh, target, ask),
                Some(_) => Err(Stop::Failed(StageError::GenerationExhausted)),
            },
        };
        answer.unwrap_or_else(|stop| match stop {
            Stop::Failed(error) => StageHandle::ready(target.stage(), Err(error)),
            Stop::Declined(_) => unreachable!("a batch waits for the budget before it begins"),
        })
    }

    /// Queues the tickets of a batch: one for each stage and priority.
    fn queue(&self, posts: Vec<(Arc<Slot<H>>, Kind)>) {
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
