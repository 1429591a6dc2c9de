//! Finds the slot of a file, and makes one for a file that has none; two makers end with one slot.
//! It does not know what a slot holds.
#![forbid(unsafe_code)]

use super::host::Host;
use super::slot::{Slot, Stripe};
use crate::flight::{PanicReport, catch};
use crate::sync::Arc;
use crate::sync::map::{Equivalent, HashMap};
use ahash::RandomState;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

/// Stripes of files, which share counters, a limbo and a count of the scheduler. A power of two.
const STRIPES: usize = 16;

/// The slots of a scheduler.
///
/// The name of a file is hashed once, outside the map, and the slot remembers the hash: the map's growth runs no host code.
/// Comparing names does, under the map's guard, which is shared and re-entrant: a comparison may use the scheduler.
pub(crate) struct Table<H: Host> {
    slots: HashMap<Key<H>, (), BuildHasherDefault<Hashed>>,
    stripes: Box<[Arc<Stripe<H>>]>,
    hasher: RandomState,
}

struct Key<H: Host>(Arc<Slot<H>>);

impl<H: Host> Hash for Key<H> {
    fn hash<S: Hasher>(&self, state: &mut S) {
        state.write_u64(self.0.hash);
    }
}

impl<H: Host> PartialEq for Key<H> {
    fn eq(&self, other: &Self) -> bool {
        self.0.hash == other.0.hash && self.0.file() == other.0.file()
    }
}

impl<H: Host> Eq for Key<H> {}

/// A file that is looked for.
struct Probe<'a, F> {
    hash: u64,
    file: &'a F,
}

impl<F> Hash for Probe<'_, F> {
    fn hash<S: Hasher>(&self, state: &mut S) {
        state.write_u64(self.hash);
    }
}

impl<H: Host> Equivalent<Key<H>> for Probe<'_, H::File> {
    fn equivalent(&self, key: &Key<H>) -> bool {
        self.hash == key.0.hash && self.file == key.0.file()
    }
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
    pub(crate) fn find<R>(
        &self,
        hash: u64,
        file: &H::File,
        f: impl FnOnce(&Arc<Slot<H>>) -> R,
    ) -> Result<Option<R>, PanicReport> {
        let guard = self.slots.guard();
        let found = catch(|| self.slots.get_key_value(&Probe { hash, file }, &guard))?;
        Ok(found.map(|(key, ())| f(&key.0)))
    }

    /// Adds a slot. False if another thread was faster with the same file.
    pub(crate) fn add(&self, slot: Arc<Slot<H>>) -> Result<bool, PanicReport> {
        let guard = self.slots.guard();
        catch(|| self.slots.try_insert(Key(slot), (), &guard).is_ok())
    }

    /// How many slots there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Every slot that there is now.
    pub(crate) fn all(&self) -> Vec<Arc<Slot<H>>> {
        let guard = self.slots.guard();
        self.slots.iter(&guard).map(|(key, ())| key.0.clone()).collect()
    }
}
