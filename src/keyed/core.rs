//! What the handles of a cache share: where its identities stand, which values are kept, and how one is settled when its
//! computation is over. It does not know what is asked of the cache.
#![forbid(unsafe_code)]

use super::bucket::{Entry, Seen};
use super::build::{Build, Work};
use super::counters::{CacheCounters, Tally};
use super::memo::Memo;
use super::node::Node;
use super::request::KeyedView;
use super::retain::{Retain, Weigh};
use super::shelf::Shelf;
use super::table::Table;
use super::yard::Shared;
use crate::flight::catch;
use crate::sync::Arc;
use ahash::RandomState;
use std::hash::Hash;

/// A cache.
pub(crate) struct Core<M: Memo> {
    pub(crate) table: Table<M>,
    pub(crate) shelf: Option<Shelf<Node<M>>>,
    weigh: Option<Weigh<M::Key, M::Value>>,
    hasher: RandomState,
    order: Order,
    pub(crate) shared: Arc<Shared<M>>,
    /// The last to go: the table's entries lie in the yard then.
    _last: ClearsYard<M>,
}

/// Which values of one key may be kept beside one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// One of each view.
    EachView,
    /// The one of the newest epoch alone.
    Newest,
}

struct ClearsYard<M: Memo>(Arc<Shared<M>>);

impl<M: Memo> Drop for ClearsYard<M> {
    fn drop(&mut self) {
        self.0.clear_yard();
    }
}

impl<M: Memo> Core<M> {
    pub(crate) fn new(
        shared: Shared<M>,
        retain: Retain<M::Key, M::Value>,
        hasher: RandomState,
        order: Order,
    ) -> Arc<Self> {
        let shared = Arc::new(shared);
        Arc::new(Self {
            table: Table::new(),
            shelf: retain.bounds.map(Shelf::new),
            weigh: retain.weigh,
            hasher,
            order,
            _last: ClearsYard(shared.clone()),
            shared,
        })
    }

    /// The hash of an identity; it is the host's code that feeds it.
    #[inline]
    pub(crate) fn hash<Q: Hash + ?Sized>(&self, view: KeyedView, key: &Q) -> u64 {
        let hash = self.hasher.hash_one(key);
        if view == KeyedView::default() {
            return hash;
        }
        self.hasher.hash_one((hash, view.epoch, view.pin))
    }

    /// What a value weighs, if it is to be kept. Runs the host's code.
    pub(crate) fn weigh(&self, key: &M::Key, value: &M::Value) -> Option<u64> {
        let shelf = self.shelf.as_ref()?;
        let weight = match &self.weigh {
            Some(weigh) => catch(|| (**weigh)(key, value)).ok()?,
            None => 0,
        };
        shelf.takes(weight).then_some(weight)
    }

    /// Begins a computation in the place of the entry `at` of what was seen under its hash, or beside all of that. Its work back if
    /// something else stands there now.
    pub(crate) fn begin(&self, seen: &Seen<M>, at: Option<usize>, build: &Arc<Build<M>>) -> Result<(), Work<M>> {
        let (mut next, entry) = (seen.clone(), Entry::Flying(build.clone()));
        match at {
            Some(at) => next[at] = entry,
            None => next.push(entry),
        }
        if !self.table.exchange(build.node().hash, seen, &next) {
            let Some(work) = build.give_up() else { unreachable!("nobody else has seen it") };
            return Err(work);
        }
        self.shared.tallies.one(Tally::Miss);
        build.push();
        self.shared.clear_yard();
        Ok(())
    }

    /// A computation is over: its identity has a kept value now, or none. What has come in its place is left alone.
    pub(crate) fn settle(&self, build: &Build<M>, keep: Option<(&Arc<M::Value>, u64)>) {
        if self.order == Order::Newest {
            return self.settle_newest(build, keep);
        }
        let node = build.node();
        let mine = |entry: &Entry<M>| is_of(entry, build);
        let kept = keep.map(|(value, weight)| {
            node.set(value.clone());
            (Entry::Kept(node.clone()), weight)
        });
        let (entry, weight) = kept.unzip();
        let settled = self.table.settle(node.hash, mine, entry);
        if let (true, Some(shelf), Some(weight)) = (settled, &self.shelf, weight) {
            for evicted in shelf.put(node, node.hash, weight) {
                self.take_out(&evicted);
            }
        }
    }

    /// As `settle`, where of one key the value of the newest epoch alone is kept: this one, if it is, even if a newer computation has
    /// come in its place meanwhile.
    fn settle_newest(&self, build: &Build<M>, keep: Option<(&Arc<M::Value>, u64)>) {
        let node = build.node();
        if let Some((value, _)) = keep {
            node.set(value.clone());
        }
        loop {
            let seen = self.table.seen(node.hash);
            let same = |entry: &&Entry<M>| matches!(entry, Entry::Kept(other) if other.key() == node.key());
            // Comparing is the host's code; where it panics nothing more is kept.
            let older = catch(|| seen.iter().find(same).cloned());
            let newest = older
                .as_ref()
                .is_ok_and(|older| older.as_ref().is_none_or(|older| older.node().view.epoch < node.view.epoch));
            let older = older.ok().flatten().filter(|_| newest && keep.is_some());
            let stays = keep.filter(|_| newest);
            let gone = |entry: &Entry<M>| is_of(entry, build) || older.as_ref().is_some_and(|older| entry.is(older));
            let mut next: Seen<M> = seen.iter().filter(|entry| !gone(entry)).cloned().collect();
            if stays.is_some() {
                next.push(Entry::Kept(node.clone()));
            } else if next.len() == seen.len() {
                return;
            }
            if !self.table.exchange(node.hash, &seen, &next) {
                continue;
            }
            if let (Some(older), Some(shelf)) = (&older, &self.shelf) {
                shelf.take_out(older.node(), node.hash);
            }
            if let (Some((_, weight)), Some(shelf)) = (stays, &self.shelf) {
                for evicted in shelf.put(node, node.hash, weight) {
                    self.take_out(&evicted);
                }
            }
            return;
        }
    }

    /// Something was taken out: it is dropped now if nobody reads it.
    pub(crate) fn freed(&self) {
        self.table.flush();
        self.shared.clear_yard();
    }

    pub(crate) fn counters(&self) -> CacheCounters {
        self.shared.tallies.counters(self.shelf.as_ref().map_or((0, 0), Shelf::holds))
    }

    /// Takes out a node that was led away from the shelf.
    fn take_out(&self, node: &Arc<Node<M>>) {
        self.shared.tallies.one(Tally::Evicted);
        let same = |entry: &Entry<M>| matches!(entry, Entry::Kept(other) if Arc::ptr_eq(other, node));
        self.table.settle(node.hash, same, None);
    }

    /// Takes out an entry, a computation under way as well: its value goes to those who wait for it and is not kept. False if somebody
    /// else has.
    pub(crate) fn evict(&self, entry: &Entry<M>) -> bool {
        match (entry, &self.shelf) {
            (Entry::Kept(node), Some(shelf)) => {
                let mine = shelf.take_out(node, node.hash);
                if mine {
                    self.take_out(node);
                }
                mine
            }
            (Entry::Kept(_), None) => unreachable!("nothing is kept without a shelf"),
            (Entry::Flying(build), _) => self.table.settle(build.node().hash, |other| other.is(entry), None),
        }
    }
}

/// Whether an entry is this computation.
fn is_of<M: Memo>(entry: &Entry<M>, build: &Build<M>) -> bool {
    matches!(entry, Entry::Flying(other) if std::ptr::eq(&raw const **other, build))
}
