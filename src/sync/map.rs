//! The epoch-protected map of the world that is built: read far more than written, and lock-free to read.
//! It does not know what it maps. Models do not use it: what it holds is long-lived, and changes in cells of its own.
#![forbid(unsafe_code)]

use std::hash::{BuildHasherDefault, Hasher};

pub(crate) use papaya::{Compute, Guard, HashMap, LocalGuard, Operation, ResizeMode};

/// A map whose keys are hashes already.
pub(crate) type ByHash<V> = HashMap<u64, V, BuildHasherDefault<Hashed>>;

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
