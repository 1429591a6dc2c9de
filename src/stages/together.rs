//! Requests that are submitted together: their edits are one transition, their tickets one a stage and priority.
//! It does not know how one request is answered.
#![forbid(unsafe_code)]

use super::batch::{BatchHandle, Posts};
use super::early::{Early, Start};
use super::edit::{Change, Edit, How, edit, move_on};
use super::error::{StageError, panicked};
use super::host::Host;
use super::look::{Sought, needed};
use super::needed::Needed;
use super::request::{Ask, Request, StageHandle};
use super::revision::Revision;
use super::scheduler::Core;
use super::submit::{Stop, Submission};
use super::target::AnyTarget;
use crate::flight::{Contained, Interrupt, catch};
use crate::sync::{Arc, epoch};

/// Files that are looked for under one pin.
const PINNED: usize = 16;

/// A member's file, once it has been looked for.
type Found<H> = Result<Needed<H>, StageError<H>>;

/// What a member of a batch says beside its file.
struct Wanted<H: Host> {
    target: Contained<AnyTarget<H>>,
    text: Contained<Option<H::Text>>,
    rehomes: bool,
    ask: Contained<Ask<H>>,
    /// Its file's number, if it is looked for.
    file: usize,
    /// How it has joined the revision that its edit makes.
    early: Option<Early<H>>,
}

impl<H: Host> Wanted<H> {
    /// Whether it moves its file on.
    fn moves(&self) -> bool {
        self.text.is_some() || self.rehomes
    }
}

/// The edits of a batch, one a file.
struct Edits<'a, H: Host> {
    edits: Vec<Edit<'a, H>>,
    files: Vec<Named>,
}

/// Numbers of addresses in the order in which they come, in open places of which half at least stay free.
struct Numbers {
    /// One more than the number; 0 where there is none.
    places: Vec<usize>,
    next: usize,
}

impl Numbers {
    /// For so many addresses at most.
    fn of(count: usize) -> Self {
        Self { places: vec![0; (2 * count).next_power_of_two()], next: 0 }
    }

    /// The number of `address`: that of which `is_its` says yes, or the next.
    fn number(&mut self, address: usize, is_its: impl Fn(usize) -> bool) -> usize {
        // The upper bits of a product depend on all bits of the address.
        const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut at = ((address as u64).wrapping_mul(SPREAD) >> 32) as usize;
        loop {
            at &= self.places.len() - 1;
            match self.places[at] {
                0 => {
                    self.next += 1;
                    self.places[at] = self.next;
                    return self.next - 1;
                }
                number if is_its(number - 1) => return number - 1,
                _ => at += 1,
            }
        }
    }
}

/// A file that a batch names.
#[derive(Default)]
struct Named {
    /// Where its slot lies.
    address: usize,
    /// The last member that moves it on: that brings a text, if any does.
    newest: Option<usize>,
    has_text: bool,
    /// Some member re-homes it.
    rehomes: bool,
    /// More than one member names it.
    often: bool,
    edit: Option<usize>,
}

impl<'a, H: Host> Edits<'a, H> {
    /// The edits that the members bring; the newest text of a file stands. A member that alone names its file joins at once.
    fn of(slots: &'a [Found<H>], wanted: &mut [Wanted<H>]) -> Self {
        let moves = wanted.iter().filter(|wanted| wanted.moves()).count();
        let mut edits = Self { edits: Vec::with_capacity(moves), files: Vec::new() };
        if moves == 0 {
            return edits;
        }
        edits.number(slots, wanted);
        // What a batch before has replaced goes now rather than after this one: its memory is then that of the new revisions.
        if let Some(slot) = slots.iter().flatten().next() {
            slot.stripe.empty();
        }
        for (at, (slot, wanted)) in slots.iter().zip(wanted).enumerate() {
            if let Ok(slot) = slot
                && let named = &mut edits.files[wanted.file]
                && named.newest == Some(at)
            {
                let (start, early) =
                    if named.often { (Start::idle(), None) } else { Start::asked(&wanted.target, &mut wanted.ask) };
                wanted.early = early;
                named.edit = Some(edits.edits.len());
                let how = How { creates: true, rehomes: named.rehomes };
                // Those that do not stand are left where their destructors are contained.
                let text = wanted.text.take();
                edits.edits.push(edit(slot, text.map_or(Change::Keep, Change::Set), how, start));
            }
        }
        edits
    }

    /// Numbers the files that the members name.
    fn number(&mut self, slots: &[Found<H>], wanted: &mut [Wanted<H>]) {
        self.files.reserve(slots.len());
        let mut numbers = Numbers::of(slots.len());
        for (at, (slot, wanted)) in slots.iter().zip(wanted).enumerate() {
            let Ok(slot) = slot else { continue };
            let address = Arc::as_ptr(slot).addr();
            wanted.file = numbers.number(address, |file| self.files[file].address == address);
            match self.files.get_mut(wanted.file) {
                Some(named) => named.often = true,
                None => self.files.push(Named { address, ..Named::default() }),
            }
            let named = &mut self.files[wanted.file];
            if wanted.text.is_some() {
                (named.newest, named.has_text) = (Some(at), true);
            } else if wanted.rehomes && !named.has_text {
                named.newest = Some(at);
            }
            named.rehomes |= wanted.rehomes;
        }
    }

    /// The edit of a member's file.
    fn get(&mut self, wanted: &Wanted<H>) -> Option<&mut Edit<'a, H>> {
        let at = self.files.get(wanted.file)?.edit?;
        Some(&mut self.edits[at])
    }
}

impl<H: Host> Core<H> {
    /// Answers requests that were submitted together.
    pub(crate) fn submit_batch(&self, requests: Vec<Request<H>>) -> BatchHandle<H> {
        if requests.is_empty() {
            return BatchHandle::new(Vec::new());
        }
        let Some(mut units) = self.charge_batch(requests.len()) else { return self.stalled_batch(requests) };
        self.shared.counters.here().one(|counts| &counts.submits);
        let mut wanted = Vec::with_capacity(requests.len());
        let sought = self.seek_all(&requests);
        let members = requests.into_iter().zip(sought);
        let slots: Vec<_> = members.map(|(request, sought)| self.member(request, sought, &mut wanted)).collect();
        for wanted in &mut wanted {
            if units > 0 {
                units -= 1;
                wanted.ask.charged = true;
            } else {
                wanted.ask.uncharged = true;
            }
        }
        let mut edits = Edits::of(&slots, &mut wanted);
        if !edits.edits.is_empty() {
            move_on(&self.shared, &mut edits.edits, epoch::pin());
        }
        let mut submission = Submission::new(self, true);
        let mut tickets = Vec::with_capacity(slots.len());
        let answers = slots.iter().zip(&mut wanted).map(|(slot, wanted)| {
            let handle = self.answer((slot, wanted), &mut edits, &mut submission);
            tickets.push(submission.ticket.take());
            handle
        });
        let handles = answers.collect();
        let spare = units + wanted.iter().filter(|wanted| wanted.ask.charged).count() as u32;
        drop(edits);
        let mut posts = Posts::of(slots.len());
        for (slot, ticket) in slots.into_iter().zip(tickets) {
            if let (Ok(slot), Some(kind)) = (slot, ticket) {
                posts.add(slot.into_slot(), kind);
            }
        }
        posts.queue();
        if let Some(budget) = self.shared.budget.as_ref().filter(|_| spare > 0) {
            budget.release(spare);
        }
        submission.call_joiners();
        BatchHandle::new(handles)
    }

    /// Takes the budget's units for a batch: one a member, or all that there are if it has more members than that. `None` if there are
    /// none at all, or nobody would ever free them.
    fn charge_batch(&self, members: usize) -> Option<u32> {
        let Some(budget) = &self.shared.budget else { return Some(0) };
        let units = budget.capacity().min(u32::try_from(members).unwrap_or(u32::MAX));
        (units > 0 && budget.take_waiting(units, None).is_ok()).then_some(units)
    }

    /// Answers a batch that has no units: nothing moves on, and those who only ask are answered as if each had come alone.
    #[cold]
    fn stalled_batch(&self, requests: Vec<Request<H>>) -> BatchHandle<H> {
        let answer = |request: Request<H>| {
            if request.text.is_none() && !request.rehomes {
                return self.submit(request);
            }
            let Request { file, target, text, rehomes: _, ask } = request;
            let (_file, _text) = (Contained::new(file), Contained::new(text));
            let (target, ask) = (Contained::new(target), Contained::new(ask));
            let over = ask.is_over(&self.shared.spawner).unwrap_or_else(|| Interrupt::Stalled.into());
            StageHandle::ready(target.stage(), Err(over))
        };
        BatchHandle::new(requests.into_iter().map(answer).collect())
    }

    /// Looks for the files of a batch, a few of them under one pin.
    fn seek_all(&self, requests: &[Request<H>]) -> Vec<Sought<Needed<H>>> {
        let mut sought = Vec::with_capacity(requests.len());
        for few in requests.chunks(PINNED) {
            let pinned = epoch::pin();
            let table = &self.worlds.now(&pinned).table;
            sought.extend(few.iter().map(|request| {
                // Hashing and comparing is the host's code.
                catch(|| {
                    let hash = self.stripes.hash_here(&request.file);
                    (hash, table.look(hash, &request.file, &pinned, |slot| needed(slot, &pinned)))
                })
            }));
        }
        sought
    }

    /// Makes the file of a batch's member if there is none, and keeps the rest of what it says.
    fn member(&self, request: Request<H>, sought: Sought<Needed<H>>, wanted: &mut Vec<Wanted<H>>) -> Found<H> {
        let Request { file, target, text, rehomes, ask } = request;
        let (file, target, ask) = (Contained::new(file), Contained::new(target), Contained::new(ask));
        let slot = match (ask.is_over(&self.shared.spawner), sought) {
            (Some(over), _) => Err(over),
            (None, Ok((_, Some(slot)))) => Ok(slot),
            (None, Ok((hash, None))) => self.slot(hash, file),
            (None, Err(report)) => Err(panicked::<H>(&file, target.stage(), 0, report)),
        };
        let text = Contained::new(text);
        wanted.push(Wanted { target, text, rehomes, ask, file: usize::MAX, early: None });
        slot
    }

    fn answer(
        &self,
        (slot, wanted): (&Found<H>, &mut Wanted<H>),
        edits: &mut Edits<'_, H>,
        submission: &mut Submission<'_, H>,
    ) -> StageHandle<H> {
        let edit = edits.get(wanted);
        let Wanted { target, ask, early, .. } = wanted;
        let answer = match (slot, edit) {
            (Err(error), _) => Err(Stop::Failed(error.clone())),
            (Ok(slot), None) => submission.join(slot, target, ask),
            (Ok(slot), Some(edit)) => match (&edit.installed, early.take()) {
                (Some(_), Some(early)) => {
                    submission.ticket = Some(Early::ticket(ask));
                    Ok(early.handle(edit.installed.take().expect("nobody else names this file")))
                }
                (Some(revision), None) => submission.join_edited(slot, revision, target, ask),
                (None, _) => {
                    ask.charged |= edit.declined().is_some_and(Revision::uncharge);
                    Err(Stop::Failed(self.refused(slot, edit.file.moved)))
                }
            },
        };
        let handle = answer.unwrap_or_else(|stop| match stop {
            Stop::Failed(error) => StageHandle::ready(target.stage(), Err(error)),
            Stop::Declined(_) => unreachable!("a batch waits for the budget before it begins"),
        });
        ask.watched(handle, &self.shared.spawner)
    }
}
