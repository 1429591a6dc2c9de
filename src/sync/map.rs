//! The epoch-protected map of the world that is built: read far more than written, and lock-free to read.
//! It does not know what it maps. Models do not use it: what it holds is long-lived, and changes in cells of its own.
#![forbid(unsafe_code)]

use std::hash::{BuildHasherDefault, Hasher};

use papaya::ResizeMode;
pub(crate) use papaya::{Compute, Guard, HashMap, LocalGuard, Operation};

/// A map whose keys are hashes already.
pub(crate) type ByHash<V> = HashMap<u64, V, BuildHasherDefault<Hashed>>;

/// A map of what comes and goes, with room for so many.
///
/// The map forgets the places of what has gone only by copying its table, and where it copies step by step such tables form chains,
/// each of which every look goes through. So it is copied at once: readers never wait for that, and who adds something may.
pub(crate) fn by_hash<V>(room: usize) -> ByHash<V> {
    HashMap::builder().hasher(Default::default()).capacity(room).resize_mode(ResizeMode::Blocking).build()
}

/// A hasher of what is a hash already.
#[derive(Default)]
pub(crate) struct Hashed(u64);

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
