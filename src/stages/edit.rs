//! Moving files on: an edit, an invalidation, a closing, a re-home, a removal, or many edits together, each one transition.
//! It does not know who asked, nor what is wanted of the new generation.
#![forbid(unsafe_code)]

use super::advance::{Member, Movable, advance};
use super::chain::{Cut, Replaced};
use super::early::Start;
use super::edges;
use super::host::Host;
use super::revision::Revision;
use super::shared::Shared;
use super::slot::Slot;
use super::versions::{Unshared, Versions, let_go};
use crate::flight::Killed;
use crate::observe::Event;
use crate::sync::epoch::Guard;
use crate::sync::{Arc, mutant};

/// What becomes of a file, and of the text that an edit gave it.
pub(crate) enum Change<H: Host> {
    /// This one stands from now on.
    Set(H::Text),
    /// It stands as before.
    Keep,
    /// The stored one counts again.
    Clear,
    /// The file goes.
    Remove,
}

/// What a transition does to one file beside its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct How {
    /// A slot without a revision gets one.
    pub(crate) creates: bool,
    /// The file gets a new incarnation.
    pub(crate) rehomes: bool,
}

/// How a file moved on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Moved {
    /// It did: what was asked of older generations ends superseded.
    On,
    /// The scheduler knows no such file: nothing was changed, nothing was made.
    Unknown,
    /// Its generation is at its maximum: nothing was changed.
    Exhausted,
    /// The file was removed, or the scheduler reset or stopped, while this was on its way: nothing was changed.
    Ended,
}

/// A file that a transition moves on.
pub(crate) type Edit<'a, H> = Member<File<'a, H>, Revision<H>>;

/// The file of an edit.
pub(crate) struct File<'a, H: Host> {
    slot: &'a Arc<Slot<H>>,
    keeps_text: bool,
    removes: bool,
    how: How,
    old: Option<Replaced<Revision<H>>>,
    pub(crate) moved: Moved,
}

/// Prepares everything that can be prepared outside the section.
#[inline]
pub(crate) fn edit<H: Host>(slot: &Arc<Slot<H>>, change: Change<H>, how: How, start: Start<H>) -> Edit<'_, H> {
    let weak = Arc::downgrade(slot);
    let stub = (how.creates && slot.versions.is_empty())
        .then(|| Arc::new(Revision::visible(weak.clone(), slot.stripe.new_life(), 0, Start::idle())));
    let (keeps_text, removes) = (matches!(change, Change::Keep), matches!(change, Change::Remove));
    let mut fresh = if removes { Revision::absent(weak) } else { Revision::installing(weak, start) };
    if let Change::Set(text) = change {
        fresh.text = Some(Arc::new(text));
    }
    Member::new(File { slot, keeps_text, removes, how, old: None, moved: Moved::Unknown }, Unshared::new(fresh), stub)
}

impl<H: Host> Movable<Revision<H>> for File<'_, H> {
    fn versions(&self) -> &Versions<Revision<H>> {
        &self.slot.versions
    }

    fn prepare(&mut self, old: &Revision<H>, fresh: &mut Revision<H>) -> bool {
        if (old.absent && !mutant("edit.over_the_mark")) || self.slot.is_over() {
            self.moved = Moved::Ended;
            return false;
        }
        if old.is_stub() && !self.how.creates {
            return false;
        }
        fresh.life = old.life;
        if self.removes {
            self.moved = Moved::On;
            old.note_reason(Killed::Shutdown);
            return true;
        }
        let Some(generation) = self.slot.shared().generation_after(old.generation) else {
            self.moved = Moved::Exhausted;
            return false;
        };
        self.moved = Moved::On;
        fresh.generation = generation;
        if self.how.rehomes {
            fresh.life = self.slot.stripe.new_life();
        }
        if self.keeps_text {
            // Asked again after a retry, it replaces a count of the same text, which the retry holds too: nothing is freed.
            fresh.text.clone_from(&old.text);
        }
        old.note_reason(Killed::Superseded);
        true
    }

    fn replaced(&mut self, old: Replaced<Revision<H>>, fresh: &Revision<H>) {
        self.slot.shared().note_overlay(old.revision().text.is_some(), fresh.text.is_some());
        self.old = Some(old);
    }

    fn is_watched(&self) -> bool {
        self.slot.shared().roots.live() > 0
    }
}

/// Moves all of `edits` on in one transition, each of a different file; then ends what they replaced, and answers those who
/// waited for it. To be called outside every section, and outside every pin but `pinned`, which ends once the transition stands.
pub(crate) fn move_on<H: Host>(shared: &Shared<H>, edits: &mut [Edit<'_, H>], pinned: Guard) {
    if let Some(transition) = advance((&shared.sequencer, &shared.clock), edits, &pinned) {
        let_go(transition, &pinned);
    }
    drop(pinned);
    let mut gone = Cut::new();
    for edit in edits.iter_mut() {
        if let Some(old) = edit.file.old.take() {
            let (life, generation) = (old.revision().life.incarnation, old.revision().generation);
            old.revision().end(shared, old.revision().reason());
            edit.file.slot.put_aside(old, &mut gone);
            edges::moved_on(edit.file.slot);
            if generation > 0 {
                shared.spawner.event(|| Event::Superseded { life, generation });
            }
        }
    }
    if let Some(edit) = edits.first() {
        edit.file.slot.stripe.retire_all(gone);
    }
}
