//! What the handles of a cache share: where its identities stand, which values are kept, and how one is settled when its
//! computation is over. It does not know what is asked of the cache.
#![forbid(unsafe_code)]

use super::bucket::Entry;
use super::build::Build;
use super::counters::Tally;
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
    pub(crate) shared: Arc<Shared<M>>,
    /// The last to go: the table's entries lie in the yard then.
    _last: ClearsYard<M>,
}

struct ClearsYard<M: Memo>(Arc<Shared<M>>);

impl<M: Memo> Drop for ClearsYard<M> {
    fn drop(&mut self) {
        self.0.clear_yard();
    }
}

impl<M: Memo> Core<M> {
    pub(crate) fn new(shared: Shared<M>, retain: Retain<M::Key, M::Value>, hasher: RandomState) -> Arc<Self> {
        let shared = Arc::new(shared);
        Arc::new(Self {
            table: Table::new(),
            shelf: retain.bounds.map(Shelf::new),
            weigh: retain.weigh,
            hasher,
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
            Some(weigh) => catch(|| weigh(key, value)).ok()?,
            None => 0,
        };
        shelf.takes(weight).then_some(weight)
    }

    /// A computation is over: its identity has a kept value now, or none. What has come in its place is left alone.
    pub(crate) fn settle(&self, build: &Build<M>, keep: Option<(&Arc<M::Value>, u64)>) {
        let node = build.node();
        let mine = |entry: &Entry<M>| matches!(entry, Entry::Flying(other) if std::ptr::eq(&raw const **other, build));
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
