//! The nodes of a graph that who waits for it inside a job may run: those that are queued, found without a search.
//! They do not know what a node is, nor who queues it.
//!
//! As long as nobody waits so, nothing is noted. Who is the first to do so has each node looked at once that was there before; whatever is
//! queued later is laid down here beside its ticket. What lies here is a hint: the node may have been started since.
#![forbid(unsafe_code)]

use crate::runtime::Pool;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::sync::queue::{Injector, look_and_take};
use crate::sync::{OnceLock, mutant};

pub(crate) struct Offers {
    /// Somebody waits for the graph inside a job, or has.
    wanted: AtomicBool,
    /// Of the nodes that were there then: how many have been looked at, and how many there were.
    looked: AtomicU64,
    until: AtomicU64,
    /// Nodes that were queued since, those of the workers and those of the I/O threads.
    queued: OnceLock<[Injector<u32>; 2]>,
}

impl Offers {
    pub(crate) fn new() -> Self {
        let queued = OnceLock::new();
        Self { wanted: AtomicBool::new(false), looked: AtomicU64::new(0), until: AtomicU64::new(0), queued }
    }

    /// A node of `pool` has been queued: [`Word::queue`](super::word::Word::queue) has returned, or [`put`](Self::put) has.
    #[inline]
    pub(crate) fn offer(&self, node: u32, pool: Pool) {
        // ordering: Relaxed: kept behind the node's word by the fence in `queue`, or in `put`, which pairs with the one in `want`.
        if self.wanted.load(Ordering::Relaxed) {
            self.lay(node, pool);
        }
    }

    /// Nodes that are queued from the first have been put where they are found: comes before they are offered.
    pub(crate) fn put(&self) {
        if !mutant("offers.put_no_fence") {
            put_then_looks();
        }
    }

    /// Puts a node down for whoever may run what is of `pool`.
    #[cold]
    pub(crate) fn lay(&self, node: u32, pool: Pool) {
        self.of(pool).push(node);
    }

    fn of(&self, pool: Pool) -> &Injector<u32> {
        let [workers, io] = self.queued.get_or_init(|| [Injector::new(), Injector::new()]);
        if pool == Pool::Io { io } else { workers }
    }

    /// A node that `pool_of` says is free and of one of the pools that may run here; it lies here no more. `count` says how many nodes
    /// there are.
    pub(crate) fn take(
        &self,
        count: impl FnOnce() -> u64,
        pool_of: impl Fn(u32) -> Option<Pool>,
        may_run: impl Fn(Pool) -> bool,
    ) -> Option<u32> {
        self.want(count);
        for pool in [Pool::Workers, Pool::Io].into_iter().filter(|pool| may_run(*pool)) {
            while let Some(node) = look_and_take(self.of(pool)) {
                if pool_of(node).is_some() {
                    return Some(node);
                }
            }
        }
        // ordering: Relaxed: each number is given to one, who looks at the node's own word; and who has one is awake.
        let until = self.until.load(Ordering::Relaxed);
        while self.looked.load(Ordering::Relaxed) < until {
            let node = self.looked.fetch_add(1, Ordering::Relaxed);
            match if node < until { pool_of(node as u32) } else { None } {
                Some(pool) if may_run(pool) => return Some(node as u32),
                Some(pool) => self.lay(node as u32, pool),
                // It will be laid down when it is queued.
                None => {}
            }
        }
        None
    }

    /// From now on what is queued is to be laid down here.
    fn want(&self, count: impl FnOnce() -> u64) {
        if !self.wanted.load(Ordering::Relaxed) && !self.wanted.swap(true, Ordering::AcqRel) {
            if !mutant("offers.want_no_fence") {
                wanted_then_looks();
            }
            self.until.swap(count(), Ordering::Relaxed);
        }
    }
}

/// Between the place of nodes that were put and the look whether they are to be laid down.
fn put_then_looks() {
    // ordering: pairs with `wanted_then_looks`, see there.
    fence(Ordering::SeqCst);
}

/// Between the word that nodes are to be laid down and the first look at them.
fn wanted_then_looks() {
    // ordering: pairs with the fence in `Word::queue`, and with `put_then_looks`. If a node was queued, or put, first, the look finds it free;
    // else who queued or put it sees that it is to be laid down.
    fence(Ordering::SeqCst);
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn each_node_is_looked_at_once_and_then_only_what_was_queued_since() {
        let (offers, looks, free) = (Offers::new(), Cell::new(0), Cell::new(None));
        let pool_if_free = |node| {
            looks.set(looks.get() + 1);
            let pool = if node == 7 { Pool::Io } else { Pool::Workers };
            (free.get() == Some(node)).then_some(pool)
        };
        let take = |runs| (offers.take(|| 100, pool_if_free, |pool| pool == runs), looks.replace(0));
        offers.offer(3, Pool::Workers);
        free.set(Some(7));
        assert_eq!(take(Pool::Workers), (None, 100), "nothing was noted before anybody waited");
        assert_eq!(take(Pool::Workers), (None, 0));
        assert_eq!(take(Pool::Io), (Some(7), 1), "it was laid down for those who may run it");
        free.set(Some(5));
        offers.offer(4, Pool::Workers);
        offers.offer(5, Pool::Workers);
        assert_eq!(take(Pool::Workers), (Some(5), 2), "the other was started by its ticket");
        assert_eq!(take(Pool::Workers), (None, 0));
    }
}
