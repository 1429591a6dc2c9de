//! The files of one world: finds the slot of a file, and makes one for a file that has none; two makers end with one slot.
//! It does not know what a slot holds, nor when one ends.
//!
//! The trie goes from the hash of a name to an entry of the slots whose names have it. So none of the host's code (hashing,
//! comparing, destructors) ever runs inside it, and names that all have one hash are merely slow.
//! Names are compared under a pin: it is shared and re-entrant, and a comparison may use the scheduler.
#![forbid(unsafe_code)]

use super::entry::{self, Taken};
use super::host::Host;
use super::slot::Slot;
use super::trie::{At, Trie};
use crate::flight::{PanicReport, catch};
use crate::sync::epoch::{self, Guard};
use crate::sync::stat::{AtomicUsize, Ordering};
use crate::sync::{Arc, CachePadded};
use std::array;

/// Counts by which those who add files do not meet.
const COUNTS: usize = 8;

/// The slots of a world.
pub(crate) struct Table<H: Host> {
    slots: Trie<Slot<H>>,
    /// Slots that were added, less those that have ended; only the sum of all counts says anything.
    live: [CachePadded<AtomicUsize>; COUNTS],
}

impl<H: Host> Table<H> {
    /// With room for `files` files from the beginning.
    pub(crate) fn new(files: usize) -> Self {
        Self { slots: Trie::new(files), live: array::from_fn(|_| CachePadded::new(AtomicUsize::new(0))) }
    }

    #[inline]
    fn at<'a>(&'a self, hash: u64, pinned: &'a Guard) -> At<'a, Slot<H>> {
        At { trie: &self.slots, hash, pinned }
    }

    fn count(&self, hash: u64) -> &AtomicUsize {
        &self.live[hash as usize % COUNTS]
    }

    /// Calls `f` with the slot of `file`, if there is one, live or ended. `f` runs under the pin, so it is short and no host code.
    #[inline]
    pub(crate) fn find<R>(
        &self,
        hash: u64,
        file: &H::File,
        pinned: &Guard,
        f: impl FnOnce(&Arc<Slot<H>>) -> R,
    ) -> Result<Option<R>, PanicReport> {
        let Some(entry) = self.slots.load(hash, pinned) else { return Ok(None) };
        Ok(catch(|| entry.find(pinned, |slot| slot.file() == file))?.map(|slot| f(&slot)))
    }

    /// As `find`, for a caller who stops the host's panics himself.
    #[inline]
    pub(crate) fn look<R>(
        &self,
        hash: u64,
        file: &H::File,
        pinned: &Guard,
        f: impl FnOnce(&Arc<Slot<H>>) -> Option<R>,
    ) -> Option<R> {
        f(&*self.slots.load(hash, pinned)?.find(pinned, |slot| slot.file() == file)?)
    }

    /// Calls `f` with each slot of `file` that stands here, the newest first, until it answers. As `look` else.
    #[inline]
    pub(crate) fn look_back<R>(
        &self,
        hash: u64,
        file: &H::File,
        pinned: &Guard,
        f: impl FnMut(&Slot<H>) -> Option<R>,
    ) -> Option<R> {
        let mut f = f;
        self.slots.load(hash, pinned)?.slots(pinned).filter(|slot| slot.file() == file).find_map(|slot| f(&slot))
    }

    /// Adds a slot, also before one of the same name that has ended, or finds the live one that another thread has added
    /// before. What it takes out is to be kept until the pins of this time have ended.
    #[expect(clippy::type_complexity, reason = "added, or found, or a failure")]
    pub(crate) fn add(
        &self,
        slot: &Arc<Slot<H>>,
        pinned: &Guard,
    ) -> Result<Result<Taken<Slot<H>>, Arc<Slot<H>>>, PanicReport> {
        let same = |other: &Slot<H>| other.file() == slot.file();
        let ended = |other: &Slot<H>| other.has_ended(pinned);
        let added = catch(|| entry::add(&self.at(slot.hash, pinned), slot, same, ended, pinned))?;
        if added.is_ok() {
            self.count(slot.hash).fetch_add(1, Ordering::Relaxed);
        }
        Ok(added)
    }

    /// Takes out a slot that has ended, if it stands here still.
    pub(crate) fn take_out(&self, slot: &Slot<H>, pinned: &Guard) -> Taken<Slot<H>> {
        entry::take_out(&self.at(slot.hash, pinned), slot, pinned)
    }

    /// Takes one of its slots off the count, which has ended.
    pub(crate) fn note_end(&self, slot: &Slot<H>) {
        self.count(slot.hash).fetch_sub(1, Ordering::Relaxed);
    }

    /// How many live slots there are.
    pub(crate) fn len(&self) -> usize {
        let sum = self.live.iter().map(|live| live.load(Ordering::Relaxed)).fold(0, usize::wrapping_add);
        // An end may be seen before the beginning that was counted elsewhere.
        sum.cast_signed().max(0).cast_unsigned()
    }

    /// Every slot that there is now, live or ended.
    pub(crate) fn all(&self) -> Vec<Arc<Slot<H>>> {
        let pinned = epoch::pin();
        let entries = self.slots.all(&pinned).into_iter().flat_map(|entry| entry.slots(&pinned));
        entries.map(|slot| Arc::clone(&slot)).collect()
    }
}
