//! What all nodes of a cache share, and where those lie that the cache's map has let go of, until somebody clears the yard.
//! It does not know who does, nor what the map holds.
//!
//! The map frees an entry when no reader is left that can have seen it, inside whatever guard ends then: there a host's destructor
//! must not run. So an entry only lays its reference down here, and whoever next has done something with the cache, outside every
//! guard, drops what lies here.
#![forbid(unsafe_code)]

use super::bucket::Entry;
use super::caches::CacheId;
use super::counters::Tallies;
use super::memo::Memo;
use crate::admission::Budget;
use crate::flight::drop_contained;
use crate::runtime::Spawner;
use crate::sync::queue::{Injector, take};

/// What all nodes and flights of a cache share.
pub(crate) struct Shared<M: Memo> {
    pub(crate) id: CacheId,
    pub(crate) spawner: Spawner,
    pub(crate) budget: Option<Budget>,
    pub(crate) tallies: Tallies,
    yard: Injector<Entry<M>>,
}

impl<M: Memo> Shared<M> {
    pub(crate) fn new(id: CacheId, spawner: Spawner, budget: Option<Budget>) -> Self {
        Self { id, spawner, budget, tallies: Tallies::new(), yard: Injector::new() }
    }

    /// Lays down what the map has let go of.
    pub(crate) fn lay_down(&self, entry: Entry<M>) {
        self.yard.push(entry);
    }

    /// Drops what lies in the yard. To be called outside every guard, while nothing is half changed.
    pub(crate) fn clear_yard(&self) {
        // As many as lie here now: a destructor may lay down more.
        for _ in 0..self.yard.len() {
            let Some(entry) = take(&self.yard) else { return };
            drop_contained(entry);
        }
    }
}
