//! The files of one world: finds the slot of a file, and makes one for a file that has none; two makers end with one slot.
//! It does not know what a slot holds, nor when one ends.
//!
//! The map goes from the hash of a name to an entry of the slots whose names have it. So none of the host's code (hashing,
//! comparing, destructors) ever runs inside the map or under its guard, and names that all have one hash are merely slow.
//! Names are compared under a pin: it is shared and re-entrant, and a comparison may use the scheduler.

use super::entry::{self, Entry, Place, Taken};
use super::host::Host;
use super::slot::Slot;
use crate::flight::{PanicReport, catch};
use crate::sync::Arc;
use crate::sync::epoch::{self, Guard};
use crate::sync::map::{Compute, HashMap, Operation};
use crate::sync::stat::{AtomicUsize, Ordering};
use std::hash::{BuildHasherDefault, Hasher};

type Map<H> = HashMap<u64, Entry<Slot<H>>, BuildHasherDefault<Hashed>>;

/// The slots of a world.
pub(crate) struct Table<H: Host> {
    slots: Map<H>,
    /// Slots beyond the first of their entry, less those that have ended and still stand here: as a signed number.
    more: AtomicUsize,
}

/// A hasher of what is a hash already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only whole hashes are hashed");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The place of one hash in a map.
struct At<'a, H: Host>(&'a Map<H>, u64);

impl<H: Host> Place<Slot<H>> for At<'_, H> {
    #[inline]
    fn load(&self) -> Option<Entry<Slot<H>>> {
        self.0.get(&self.1, &self.0.guard()).copied()
    }

    fn exchange(&self, old: Option<Entry<Slot<H>>>, new: Option<Entry<Slot<H>>>) -> bool {
        let guard = self.0.guard();
        if let (None, Some(new)) = (old, new) {
            return self.0.try_insert(self.1, new, &guard).is_ok();
        }
        let exchanged = self.0.compute(
            self.1,
            |seen| match (seen.map(|(_, entry)| *entry) == old, new) {
                (false, _) => Operation::Abort(()),
                (true, Some(new)) => Operation::Insert(new),
                (true, None) => Operation::Remove,
            },
            &guard,
        );
        !matches!(exchanged, Compute::Aborted(()))
    }
}

impl<H: Host> Table<H> {
    /// With room for `files` files from the beginning.
    pub(crate) fn new(files: usize) -> Self {
        let slots = HashMap::with_capacity_and_hasher(files, BuildHasherDefault::default());
        Self { slots, more: AtomicUsize::new(0) }
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
        let Some(entry) = At(&self.slots, hash).load() else { return Ok(None) };
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
        f(&*At(&self.slots, hash).load()?.find(pinned, |slot| slot.file() == file)?)
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
        At(&self.slots, hash).load()?.slots(pinned).filter(|slot| slot.file() == file).find_map(|slot| f(&slot))
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
        let added = catch(|| entry::add(&At(&self.slots, slot.hash), slot, same, ended, pinned))?;
        // It stands behind others, or in the place of one that had been taken off the count when it ended.
        if let Ok(taken) = &added
            && !taken.is_nothing()
        {
            self.more.fetch_add(1, Ordering::Relaxed);
        }
        Ok(added)
    }

    /// Takes out a slot that has ended, if it stands here still.
    pub(crate) fn take_out(&self, slot: &Slot<H>, pinned: &Guard) -> Taken<Slot<H>> {
        let taken = entry::take_out(&At(&self.slots, slot.hash), slot, pinned);
        // With the last of an entry the map itself counts one less.
        if taken.is_one() {
            self.more.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Takes one of its slots off the count, which has ended.
    pub(crate) fn note_end(&self) {
        self.more.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many live slots there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len().saturating_add_signed(self.more.load(Ordering::Relaxed) as isize)
    }

    /// Every slot that there is now, live or ended.
    pub(crate) fn all(&self) -> Vec<Arc<Slot<H>>> {
        let pinned = epoch::pin();
        let guard = self.slots.guard();
        let entries = self.slots.iter(&guard).flat_map(|(_, entry)| entry.slots(&pinned));
        entries.map(|slot| Arc::clone(&slot)).collect()
    }
}

impl<H: Host> Drop for Table<H> {
    fn drop(&mut self) {
        let entries: Vec<_> = self.slots.iter(&self.slots.guard()).map(|(_, entry)| *entry).collect();
        // SAFETY: nobody can reach the table any more, and each entry stands in it once.
        entries.into_iter().for_each(|entry| drop(unsafe { Taken::unreachable(entry) }));
    }
}
