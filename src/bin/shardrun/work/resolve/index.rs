//! Finds the paths of a tree by a part of them: a hash table of numbers that borrows its keys from the paths.
//! It does not know what the paths stand for.
#![forbid(unsafe_code)]

use std::hash::{BuildHasher, RandomState};

const NONE: u32 = u32::MAX;

/// Which part of a path is the key.
pub(crate) type Key = fn(&str) -> &str;

/// Chains of path numbers, one per bucket.
pub(crate) struct Index {
    hasher: RandomState,
    key: Key,
    heads: Vec<u32>,
    next: Vec<u32>,
}

impl Index {
    /// Over all `paths`; among equal keys the smaller number comes first.
    pub(crate) fn new(paths: &[Box<str>], key: Key) -> Self {
        let buckets = (paths.len() * 2).next_power_of_two().max(2);
        let mut index =
            Index { hasher: RandomState::new(), key, heads: vec![NONE; buckets], next: vec![NONE; paths.len()] };
        for (number, path) in paths.iter().enumerate().rev() {
            let bucket = index.bucket(key(path));
            index.next[number] = std::mem::replace(&mut index.heads[bucket], number as u32);
        }
        index
    }

    fn bucket(&self, key: &str) -> usize {
        self.hasher.hash_one(key) as usize & (self.heads.len() - 1)
    }

    /// The numbers of all paths with this key.
    pub(crate) fn get<'i>(&'i self, paths: &'i [Box<str>], key: &'i str) -> impl Iterator<Item = u32> + 'i {
        let mut at = self.heads[self.bucket(key)];
        std::iter::from_fn(move || {
            while at != NONE {
                let number = at;
                at = self.next[number as usize];
                if (self.key)(&paths[number as usize]) == key {
                    return Some(number);
                }
            }
            None
        })
    }
}
