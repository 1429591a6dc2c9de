//! The identities of a cache by their hash: what stands under one is exchanged as a whole, against what was seen there.
//! It does not know what keys are, nor when a flight ends.
//!
//! None of the host's code runs inside the map. Who changes something looks first, compares keys with no guard held, and exchanges
//! what was seen; only a borrowed read compares under its guard, which hinders nobody and may be nested.
#![forbid(unsafe_code)]

use super::bucket::{Bucket, Entry, Seen};
use super::memo::Memo;
use super::node::Node;
use crate::sync::map::{self, ByHash, Compute, Guard, LocalGuard, Operation};

/// Room that a table has at first, and is never without.
const ROOM_MIN: usize = 64;

/// The map of a cache.
pub(crate) struct Table<M: Memo>(ByHash<Bucket<M>>);

impl<M: Memo> Table<M> {
    pub(crate) fn new() -> Self {
        Self(map::by_hash(ROOM_MIN))
    }

    /// A guard, under which nothing that was seen is freed.
    #[inline]
    pub(crate) fn guard(&self) -> LocalGuard<'_> {
        self.0.guard()
    }

    /// The entry of which `is` says yes. `is` runs under the guard.
    #[inline]
    pub(crate) fn find<'g>(
        &self,
        hash: u64,
        is: impl Fn(&Node<M>) -> bool,
        guard: &'g LocalGuard<'_>,
    ) -> Option<&'g Entry<M>> {
        self.0.get(&hash, guard)?.find(is)
    }

    /// What stands under a hash.
    pub(crate) fn seen(&self, hash: u64) -> Seen<M> {
        let guard = self.0.guard();
        self.0.get(&hash, &guard).map(|bucket| bucket.entries().cloned().collect()).unwrap_or_default()
    }

    /// Puts `new` in the place of what was seen; false if something else stands there.
    pub(crate) fn exchange(&self, hash: u64, seen: &[Entry<M>], new: &[Entry<M>]) -> bool {
        let guard = self.0.guard();
        let exchanged = self.0.compute(
            hash,
            |now| match now {
                Some((_, bucket)) if !bucket.holds(seen) => Operation::Abort(()),
                None if !seen.is_empty() => Operation::Abort(()),
                _ => match Bucket::of(new) {
                    Some(bucket) => Operation::Insert(bucket),
                    None if seen.is_empty() => Operation::Abort(()),
                    None => Operation::Remove,
                },
            },
            &guard,
        );
        !matches!(exchanged, Compute::Aborted(()))
    }

    /// Puts `new` in the place of the entry that `is` says, or takes that out, if it stands there still. Whatever came in its place is
    /// left alone.
    pub(crate) fn settle(&self, hash: u64, is: impl Fn(&Entry<M>) -> bool, new: Option<Entry<M>>) -> bool {
        loop {
            let seen = self.seen(hash);
            let Some(at) = seen.iter().position(&is) else { return false };
            let mut next = seen.clone();
            match &new {
                Some(new) => next[at] = new.clone(),
                None => drop(next.remove(at)),
            }
            if self.exchange(hash, &seen, &next) {
                return true;
            }
        }
    }

    /// Everything that stands in it now.
    pub(crate) fn all(&self) -> Vec<Entry<M>> {
        let guard = self.0.guard();
        self.0.iter(&guard).flat_map(|(_, bucket)| bucket.entries()).cloned().collect()
    }

    /// Has what was taken out by this thread freed as soon as nobody can see it.
    pub(crate) fn flush(&self) {
        self.0.guard().flush();
    }
}
