//! Finds the slot of a file, and makes one for a file that has none; two makers end with one slot.
//! It does not know what a slot holds.
//!
//! The map goes from the hash of a name to a slot; slots whose names have one hash hang in a chain behind the first. So none of
//! the host's code (hashing, comparing, destructors) ever runs inside the map, and names that all have one hash are merely slow.

use super::host::Host;
use super::slot::{Slot, Stripe};
use crate::flight::{PanicReport, catch};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::map::HashMap;
use crate::sync::stat::AtomicUsize;
use ahash::RandomState;
use std::hash::{BuildHasherDefault, Hasher};
use std::ptr;

/// Stripes of files, which share counters, a limbo and a count of the scheduler. A power of two.
const STRIPES: usize = 16;

/// The next slot whose name has the same hash: none, or one count of it, set once.
pub(crate) struct SameHash<H: Host>(AtomicPtr<Slot<H>>);

impl<H: Host> SameHash<H> {
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    fn get(&self) -> Option<Arc<Slot<H>>> {
        // ordering: pairs with `set`. If that came first the slot is seen whole; else there is none.
        let next = self.0.load(Ordering::Acquire);
        // SAFETY: not null, so from `Arc::into_raw` in `set`, whose count this holds until it is dropped or taken apart, by the
        // owner of the whole table alone.
        (!next.is_null()).then(|| unsafe {
            Arc::increment_strong_count(next);
            Arc::from_raw(next)
        })
    }

    /// Hangs `slot` in, unless another is there. True if it hangs.
    fn set(&self, slot: &Arc<Slot<H>>) -> bool {
        let raw = Arc::into_raw(slot.clone()).cast_mut();
        // ordering: pairs with `get`, both cases there.
        let set = self.0.compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !set {
            // SAFETY: the count that `into_raw` gave up was not taken over.
            drop(unsafe { Arc::from_raw(raw) });
        }
        set
    }

    /// Lets go of the next one. When nobody looks at the chain any more.
    fn cut(&self) {
        let next = self.0.swap(ptr::null_mut(), Ordering::AcqRel);
        if !next.is_null() {
            // SAFETY: the count that `set` left here.
            drop(unsafe { Arc::from_raw(next) });
        }
    }
}

impl<H: Host> Drop for SameHash<H> {
    fn drop(&mut self) {
        self.cut();
    }
}

/// The slots of a scheduler.
pub(crate) struct Table<H: Host> {
    slots: HashMap<u64, Arc<Slot<H>>, BuildHasherDefault<Hashed>>,
    /// Slots that hang behind another.
    behind: AtomicUsize,
    stripes: Box<[Arc<Stripe<H>>]>,
    hasher: RandomState,
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

impl<H: Host> Table<H> {
    /// With room for `files` files from the beginning.
    pub(crate) fn new(files: usize, stripe: impl Fn((u64, u64)) -> Stripe<H>, hasher: RandomState) -> Self {
        Self {
            slots: HashMap::with_capacity_and_hasher(files, BuildHasherDefault::default()),
            behind: AtomicUsize::new(0),
            stripes: (0..STRIPES).map(|at| Arc::new(stripe((at as u64, STRIPES as u64)))).collect(),
            hasher,
        }
    }

    /// The hash of a name; it is the host's code that feeds it.
    pub(crate) fn hash(&self, file: &H::File) -> Result<u64, PanicReport> {
        catch(|| self.hasher.hash_one(file))
    }

    pub(crate) fn stripes(&self) -> &[Arc<Stripe<H>>] {
        &self.stripes
    }

    pub(crate) fn stripe(&self, hash: u64) -> &Arc<Stripe<H>> {
        &self.stripes[(hash >> 32) as usize % STRIPES]
    }

    /// Calls `f` with the slot of `file`, if there is one. `f` runs under the map's guard, so it is short and no host code.
    ///
    /// Names are compared under the guard too: it is shared and re-entrant, and a comparison may use the scheduler.
    pub(crate) fn find<R>(
        &self,
        hash: u64,
        file: &H::File,
        f: impl FnOnce(&Arc<Slot<H>>) -> R,
    ) -> Result<Option<R>, PanicReport> {
        let guard = self.slots.guard();
        let Some(first) = self.slots.get(&hash, &guard) else { return Ok(None) };
        if catch(|| first.file() == file)? {
            return Ok(Some(f(first)));
        }
        Ok(catch(|| behind(first).find(|slot| slot.file() == file))?.map(|slot| f(&slot)))
    }

    /// As `find`, for a reader that has not hashed the name yet: the host's code is guarded once.
    #[inline]
    pub(crate) fn look<R>(&self, file: &H::File, f: impl FnOnce(&Arc<Slot<H>>) -> Option<R>) -> Option<R> {
        let guard = self.slots.guard();
        let found = catch(|| {
            let hash = self.hasher.hash_one(file);
            let first = self.slots.get(&hash, &guard)?;
            if first.file() == file { Some(Ok(first)) } else { behind(first).find(|slot| slot.file() == file).map(Err) }
        });
        match found.ok()?? {
            Ok(slot) => f(slot),
            Err(slot) => f(&slot),
        }
    }

    /// Adds a slot, or finds the one that another thread has added before with the same file.
    pub(crate) fn add(&self, slot: &Arc<Slot<H>>) -> Result<Option<Arc<Slot<H>>>, PanicReport> {
        let guard = self.slots.guard();
        let Err(taken) = self.slots.try_insert(slot.hash, slot.clone(), &guard) else { return Ok(None) };
        catch(|| {
            let mut other = taken.current.clone();
            loop {
                if other.file() == slot.file() {
                    return Some(other);
                }
                // If it is the last of the chain, whoever sets its successor first has added; the others go on behind that.
                match other.same_hash.get() {
                    Some(next) => other = next,
                    None if other.same_hash.set(slot) => {
                        self.behind.fetch_add(1, Ordering::Relaxed);
                        return None;
                    }
                    None => {}
                }
            }
        })
    }

    /// How many slots there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() + self.behind.load(Ordering::Relaxed)
    }

    /// Every slot that there is now.
    pub(crate) fn all(&self) -> Vec<Arc<Slot<H>>> {
        let guard = self.slots.guard();
        self.slots.iter(&guard).flat_map(|(_, first)| std::iter::once(first.clone()).chain(behind(first))).collect()
    }
}

/// The slots that hang behind `first`.
fn behind<H: Host>(first: &Arc<Slot<H>>) -> impl Iterator<Item = Arc<Slot<H>>> {
    std::iter::successors(first.same_hash.get(), |slot| slot.same_hash.get())
}

impl<H: Host> Drop for Table<H> {
    fn drop(&mut self) {
        // A chain of many would be dropped by recursion: take it apart from here.
        self.all().iter().for_each(|slot| slot.same_hash.cut());
    }
}
