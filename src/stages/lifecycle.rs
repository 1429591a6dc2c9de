//! How files come to end and the scheduler starts afresh: removal, re-home, reset, stop and restart.
//! It does not know who waits for what, nor how a file comes in.
//!
//! A removal is a transition like an edit. What it installs is a mark, the last revision of its slot: nothing joins it, and nothing
//! is ever installed over it, so a slot is one life of its file and whoever is bound to the life holds the slot. Whoever looks for
//! the file and finds an ended slot puts a fresh one in its place; so nobody waits for the remover, who takes the slot out of the
//! table when the rest is done, and never takes out its successor.
//!
//! A reset leaves the whole world by one exchange, in the section, and marks every slot of it after that. Who adds a slot to a world
//! looks once more whether it was left; so each slot is marked by one of the two. What lives in a world that was left seals nothing
//! any more, and whoever polls for it helps to end it.
#![forbid(unsafe_code)]

use super::early::Start;
use super::edit::{Change, How, Moved};
use super::entry::Taken;
use super::error::{StageError, panicked};
use super::host::{Host, Stage};
use super::needed::Needed;
use super::revision::Revision;
use super::scheduler::{Core, Stages};
use super::slot::{Kind, Slot};
use super::stamp::Clock;
use super::tickets::Tickets;
use super::versions::{Version, Versions};
use super::world::{Left, World};
use crate::flight::{Contained, Killed};
use crate::sync::{Arc, epoch, mutant};

/// What is out of reach and may still be looked at by pinned readers.
pub(crate) enum Gone<H: Host> {
    Slots(#[expect(dead_code, reason = "kept for its destructor")] Taken<Slot<H>>),
    World(#[expect(dead_code, reason = "kept for its destructor")] Left<World<H>>),
}

/// What a removal found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Removed {
    /// The file, which is gone now.
    Gone,
    /// No such file: nothing was changed, nothing was made.
    Unknown,
}

impl<H: Host> Stages<H> {
    /// Forgets the file: its generations, its texts, its results. Whatever was asked of it and is not answered yet ends with
    /// [`StageError::Shutdown`], also what was submitted and is on its way; stages of it that run at this moment go on to their next
    /// [`StageCx::check`](super::StageCx::check), and their results are dropped.
    ///
    /// The next request for it begins a new life, with a new incarnation and at the first generation. Nobody
    /// [depends](Self::dependents) on it any more: who wants to invalidate its dependents asks for them first.
    pub fn remove(&self, file: &H::File) -> Removed {
        self.core().remove(file)
    }

    /// Gives the file a new incarnation and moves it on to a new generation with the same text: for a file whose kind has changed,
    /// its language say. It is the same life of the file, so edits that are on their way reach it.
    pub fn rehome(&self, file: &H::File) -> Moved {
        self.core().change(file, Change::Keep, true)
    }

    /// Forgets every file in one step, as [`remove`](Self::remove) does one, and goes on empty. How many there were.
    ///
    /// It waits for nothing that runs: whoever waits is answered at once.
    pub fn reset(&self) -> usize {
        self.core().leave_world(None)
    }

    /// As [`reset`](Self::reset), and from that step on every request ends with [`StageError::Shutdown`] and no file comes in, until
    /// a [`restart`](Self::restart).
    pub fn stop(&self) -> usize {
        self.core().leave_world(Some(false))
    }

    /// As [`reset`](Self::reset), and opens a scheduler that was [stopped](Self::stop).
    pub fn restart(&self) -> usize {
        self.core().leave_world(Some(true))
    }

    /// Whether the scheduler was [stopped](Self::stop) and not restarted.
    pub fn is_stopped(&self) -> bool {
        !self.core().worlds.now(&epoch::pin()).open
    }
}

impl<H: Host> Core<H> {
    fn remove(&self, file: &H::File) -> Removed {
        let Some(slot) = self.stripes.hash(file).ok().and_then(|hash| self.live(hash, file).ok()?) else {
            return Removed::Unknown;
        };
        match self.edit(&slot, Change::Remove, How::default(), Start::idle(), epoch::pin()).file.moved {
            Moved::On => {
                self.note_end(&slot);
                slot.bury();
                Removed::Gone
            }
            _ => Removed::Unknown,
        }
    }

    /// A slot of the table has ended.
    pub(crate) fn note_end(&self, slot: &Slot<H>) {
        let pinned = epoch::pin();
        let world = self.worlds.now(&pinned);
        if world.number == slot.world() {
            world.table.note_end(slot);
        }
    }

    /// Takes a slot that has ended out of the table.
    pub(crate) fn take_out(&self, slot: &Slot<H>) {
        let taken = {
            let pinned = epoch::pin();
            let world = self.worlds.now(&pinned);
            if world.number != slot.world() {
                return;
            }
            world.table.take_out(slot, &pinned)
        };
        self.keep(taken);
    }

    /// Keeps what was taken out of a table until the pins of this time have ended. Outside every section and pin.
    fn keep(&self, taken: Taken<Slot<H>>) {
        if !taken.is_nothing() {
            self.gone.put(Gone::Slots(taken));
        }
    }

    /// Makes a slot of a new file, with the ticket that is out for it from the start. `Err` inside has the one that another thread
    /// has added before, if it was faster.
    ///
    /// # Errors
    /// Shutdown, while the scheduler is stopped; a failure, if comparing names panics.
    #[expect(clippy::type_complexity, reason = "made, or found, or a failure")]
    pub(crate) fn add(
        &self,
        (file, hash): (Contained<H::File>, u64),
        posted: Option<Kind>,
    ) -> Result<Result<Arc<Slot<H>>, Needed<H>>, StageError<H>> {
        let stripe = self.stripes.of(hash).clone();
        let (fresh, added, still) = {
            let pinned = epoch::pin();
            let world = self.worlds.now(&pinned);
            if !world.open {
                return Err(StageError::Shutdown);
            }
            let tickets =
                posted.map_or_else(|| Tickets::new(world.number), |kind| Tickets::with(kind.bit(), world.number));
            let fresh = Arc::new(Slot::new((file, hash), stripe, tickets));
            let added = loop {
                match world.table.add(&fresh, &pinned) {
                    Ok(Ok(taken)) => break Ok(Ok(taken)),
                    Ok(Err(found)) => {
                        if let Some(found) = Needed::of(found) {
                            break Ok(Err(found));
                        }
                        // It was buried at this moment.
                    }
                    Err(report) => break Err(report),
                }
            };
            (fresh, added, self.worlds.is_still(world))
        };
        match added {
            Ok(Ok(taken)) => {
                self.keep(taken);
                if !still {
                    fresh.close();
                }
                Ok(Ok(fresh))
            }
            Ok(Err(found)) => Ok(Err(found)),
            Err(report) => Err(panicked(fresh.file(), Stage::Source, 0, report)),
        }
    }

    /// Leaves the present world for an empty one, open or not, or as this one is. How many files there were.
    fn leave_world(&self, open: Option<bool>) -> usize {
        let mut fresh = Arc::new(World::fresh(self.files));
        let pinned = epoch::pin();
        let left = self.shared.sequencer.run(1, || {
            let (now, unshared) = (self.worlds.now(&pinned), Arc::get_mut(&mut fresh));
            let number = now.number + 1;
            if let Some(fresh) = unshared {
                (fresh.number, fresh.open) = (number, open.unwrap_or(now.open));
            }
            let left = self.worlds.leave(fresh);
            self.shared.world.set(number);
            (left, true)
        });
        // It has its stamp before anybody is told, so that a root which is captured then shows it.
        self.worlds.now(&pinned).born.resolve(&self.shared.clock);
        drop(pinned);
        let slots = left.table.all();
        let ended = slots.iter().filter(|slot| slot.close()).count();
        drop(slots);
        self.gone.put(Gone::World(left));
        ended
    }

    /// What a request is answered that was bound to the life of `slot`, which has ended.
    pub(crate) fn ended(&self, slot: &Slot<H>) -> StageError<H> {
        match self.live(slot.hash, slot.file()) {
            Ok(Some(_)) => StageError::Superseded,
            _ => StageError::Shutdown,
        }
    }

    /// What a request is answered whose edit of `slot` was refused.
    pub(crate) fn refused(&self, slot: &Slot<H>, moved: Moved) -> StageError<H> {
        if moved == Moved::Exhausted { StageError::GenerationExhausted } else { self.ended(slot) }
    }
}

impl<H: Host> Slot<H> {
    /// Ends what lives in a slot whose world was left. True if a file lived here. Outside every section and pin.
    fn close(self: &Arc<Self>) -> bool {
        let last = Arc::new(Revision::absent_at_once(Arc::downgrade(self)));
        let is_last = |revision: &Revision<H>| revision.absent;
        let Some(last) = close((&self.versions, self.clock()), last, is_last, |old| old.note_reason(Killed::Shutdown))
        else {
            return false;
        };
        let replaced = {
            let _pinned = epoch::pin();
            Versions::finish(&*last, self.clock(), || self.shared().roots.live() > 0)
        };
        let old = replaced.revision();
        let lived = !old.is_stub();
        self.shared().note_overlay(old.text.is_some(), false);
        old.end(self.shared(), Killed::Shutdown);
        self.put_away(replaced);
        lived
    }
}

/// Links `last` over whatever stands in a slot whose world was left, so that nothing is put there any more: no transition, first
/// revision or retry. The last revision, if it was linked over something that is to be ended: the caller [finishes](Versions::finish)
/// it.
pub(crate) fn close<R: Version>(
    (versions, clock): (&Versions<R>, &Clock),
    mut last: Arc<R>,
    is_last: impl Fn(&R) -> bool,
    note: impl Fn(&R),
) -> Option<Arc<R>> {
    loop {
        let pinned = epoch::pin();
        let linked = last.clone();
        let closed = match versions.visible(clock, &pinned) {
            None if versions.is_buried() => return None,
            None => versions.create(last).map(|()| None),
            Some(seen) if is_last(&seen) => return None,
            Some(seen) => {
                // Why it ends stands there before anybody can see that it does.
                note(&seen);
                versions.put_over(&seen, last, &pinned).map(|()| Some(linked))
            }
        };
        match closed {
            Ok(closed) => return closed,
            // A first revision or a retry came between.
            Err(_) if mutant("lifecycle.close_once") => return None,
            Err(back) => last = back,
        }
    }
}
