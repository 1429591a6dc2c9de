//! The files of one world: finds the slot of a file, and makes one for a file that has none; two makers end with one slot.
//! It does not know what a slot holds, nor when one ends.
//!
//! The trie goes from the hash of a name to an entry of the slots whose names have it. So none of the host's code (hashing,
//! comparing, destructors) ever runs inside it, and names that all have one hash are merely slow.
//! Names are compared under a pin: it is shared and re-entrant, and a comparison may use the scheduler.
#![forbid(unsafe_code)]

use super::entry::{self, Entry, Taken};
use super::host::Host;
use super::slot::Slot;
use super::trie::{At, PARTS, Trie};
use crate::flight::{PanicReport, catch};
use crate::sync::epoch::{self, Guard};
use crate::sync::stat::{AtomicU64, Ordering};
use crate::sync::{Arc, CachePadded};
use std::array;
use std::mem::ManuallyDrop;

/// Of a count: one that stands in the table.
const STANDS: u64 = 1;
/// One of those that stand there has ended.
const ENDED: u64 = 1 << 32;

/// The slots of a world.
pub(crate) struct Table<H: Host> {
    slots: Trie<Slot<H>>,
    /// Slots that stand in each part of the trie, and how many of them have ended. An end may be counted after the slot has gone.
    counts: CachePadded<[AtomicU64; PARTS]>,
}

impl<H: Host> Table<H> {
    /// With room for `files` files from the beginning.
    pub(crate) fn new(files: usize) -> Self {
        Self { slots: Trie::new(files), counts: CachePadded::new(array::from_fn(|_| AtomicU64::new(0))) }
    }

    #[inline]
    fn at<'a>(&'a self, hash: u64, pinned: &'a Guard) -> At<'a, Slot<H>> {
        At { trie: &self.slots, hash, pinned }
    }

    fn count(&self, hash: u64) -> &AtomicU64 {
        &self.counts[Trie::<Slot<H>>::part(hash)]
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
        catch(|| self.look(hash, file, pinned, |slot| Some(f(slot))))
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
        let (entry, first) = self.slots.look(hash, pinned)?;
        let slot = if first.file() == file { first } else { of_several(entry, file, pinned)? };
        f(&slot)
    }

    /// Calls `f` with each slot of `file` that stands here, the newest first, until it answers. As `look` else.
    #[inline]
    pub(crate) fn look_back<R>(
        &self,
        hash: u64,
        file: &H::File,
        pinned: &Guard,
        mut f: impl FnMut(&Slot<H>) -> Option<R>,
    ) -> Option<R> {
        let (entry, first) = self.slots.look(hash, pinned)?;
        let (mut slot, mut at) = (first, 0);
        loop {
            if slot.file() == file
                && let Some(answer) = f(&slot)
            {
                return Some(answer);
            }
            at += 1;
            slot = entry.get(at, pinned)?;
        }
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
            let before = self.count(slot.hash).fetch_add(STANDS, Ordering::Relaxed);
            self.fit(slot.hash, stand(before) + 1, pinned);
        }
        Ok(added)
    }

    /// So many slots stand now where those of this hash do.
    fn fit(&self, hash: u64, slots: i32, pinned: &Guard) {
        self.slots.fit(hash, slots.max(0).unsigned_abs() as usize, pinned);
    }

    /// Takes out a slot that has ended, if it stands here still.
    pub(crate) fn take_out(&self, slot: &Slot<H>, pinned: &Guard) -> Taken<Slot<H>> {
        let taken = entry::take_out(&self.at(slot.hash, pinned), slot, pinned);
        if !taken.is_nothing() {
            let before = self.count(slot.hash).fetch_sub(STANDS + ENDED, Ordering::Relaxed);
            self.fit(slot.hash, stand(before) - 1, pinned);
        }
        taken
    }

    /// One of its slots has ended: to be said once of each.
    pub(crate) fn note_end(&self, slot: &Slot<H>) {
        self.count(slot.hash).fetch_add(ENDED, Ordering::Relaxed);
    }

    /// How many live slots there are.
    pub(crate) fn len(&self) -> usize {
        let live = |count: &AtomicU64| {
            let count = count.load(Ordering::Relaxed);
            i64::from(stand(count)) - (count.cast_signed().wrapping_sub(stand(count).into()) >> 32)
        };
        // An end may be seen before the beginning.
        self.counts.iter().map(live).sum::<i64>().max(0) as usize
    }

    /// Every slot that there is now, live or ended.
    pub(crate) fn all(&self) -> Vec<Arc<Slot<H>>> {
        let pinned = epoch::pin();
        let entries = self.slots.all(&pinned).into_iter().flat_map(|entry| entry.slots(&pinned));
        entries.map(|slot| Arc::clone(&slot)).collect()
    }
}

/// The newest slot of `file` in an entry but the first: of names that share a hash.
#[cold]
fn of_several<H: Host>(entry: Entry<Slot<H>>, file: &H::File, pinned: &Guard) -> Option<ManuallyDrop<Arc<Slot<H>>>> {
    (1..).map_while(|at| entry.get(at, pinned)).find(|slot| slot.file() == file)
}

/// How many stand there, of a count. Less than none, if one that has gone again is still to be counted.
#[inline]
fn stand(count: u64) -> i32 {
    count as i32
}
