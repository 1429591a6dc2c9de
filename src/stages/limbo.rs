//! Where what was taken out of a slot waits until no pinned reader can hold it, and is then dropped at a safe point.
//! It does not know what it keeps, but that dropping it runs the host's destructors.
//!
//! The host's payloads are never handed to the epoch, whose deferred closures run inside anybody's pin. The epoch only says when
//! a bag of them is ripe; whoever retires something next, outside every section and pin, empties the bag.
//!
//! There is one open bag. Who has an entry takes the bag out of its place, puts the entry in, and lays it back; two who do so at
//! once find each other's bags and join them. So an entry costs two exchanges, and nobody waits.
//!
//! The bound: one limbo keeps fewer than [`BAG`] entries in its open bag and in the hand of each thread that is at it, and closed
//! bags as long as some thread stays pinned, which no thread does while it runs host code, waits or sleeps.

use crate::flight::drop_contained;
use crate::sync::Arc;
use crate::sync::atomic::AtomicPtr;
use crate::sync::epoch::{self, Guard};
use crate::sync::queue::{Injector, take};
use crate::sync::stat::{AtomicBool, Ordering};
use std::ptr;

/// Entries of one bag.
pub(crate) const BAG: usize = 16;

/// Entries that wait for the pins of readers.
pub(crate) struct Limbo<G> {
    /// The open bag while nobody has it in hand.
    open: AtomicPtr<Vec<G>>,
    closed: Injector<Bag<G>>,
}

struct Bag<G> {
    entries: Vec<G>,
    ripe: Arc<AtomicBool>,
}

impl<G> Limbo<G> {
    pub(crate) fn new() -> Self {
        Self { open: AtomicPtr::new(ptr::null_mut()), closed: Injector::new() }
    }

    /// Takes an entry that no longer can be reached, but by readers that are pinned already. Now and then it drops what is ripe.
    /// To be called outside every section and pin.
    pub(crate) fn put(&self, entry: G) {
        let mut bag = self.exchange(None).unwrap_or_else(|| Box::new(Vec::with_capacity(BAG)));
        bag.push(entry);
        while bag.len() < BAG {
            let Some(mut other) = self.exchange(Some(bag)) else { return };
            // Another's bag lay there: join the two, or lay the one down if somebody has the other in hand already.
            if let Some(mut mine) = self.exchange(None) {
                other.append(&mut mine);
            }
            bag = other;
        }
        self.close(*bag);
        self.empty_ripe();
    }

    /// As `put`, for many at once: as many as fill a bag are one, and cost no more than that.
    pub(crate) fn put_all(&self, entries: impl IntoIterator<Item = G, IntoIter: ExactSizeIterator>) {
        let entries = entries.into_iter();
        if entries.len() < BAG {
            return entries.for_each(|entry| self.put(entry));
        }
        self.close(entries.collect());
        self.empty_ripe();
    }

    /// Lays a bag, or none, into the place of the open one, and takes what was there.
    #[expect(clippy::box_collection, reason = "a bag goes through one pointer")]
    fn exchange(&self, bag: Option<Box<Vec<G>>>) -> Option<Box<Vec<G>>> {
        let raw = bag.map_or(ptr::null_mut(), Box::into_raw);
        // ordering: Release hands our entries over, Acquire takes the other's: each bag is in one hand at a time.
        let there = self.open.swap(raw, Ordering::AcqRel);
        // SAFETY: not null, so from `Box::into_raw` above, and the swap took it out of the one place where it stood.
        (!there.is_null()).then(|| unsafe { Box::from_raw(there) })
    }

    /// Closes a bag, and asks the epoch to say when it is ripe.
    fn close(&self, entries: Vec<G>) {
        let ripe = Arc::new(AtomicBool::new(false));
        let mark = Mark(ripe.clone());
        self.closed.push(Bag { entries, ripe });
        let pinned = epoch::pin();
        mark.when_unreachable(&pinned);
        pinned.flush();
    }

    /// Drops the entries of ripe bags.
    pub(crate) fn empty_ripe(&self) {
        // As many as are there now: each is looked at once.
        for _ in 0..self.closed.len() {
            let Some(bag) = take(&self.closed) else { return };
            // ordering: pairs with `Mark`: if the flag is seen, the pins that could reach the entries have ended before.
            if bag.ripe.load(Ordering::Acquire) {
                bag.entries.into_iter().for_each(drop_contained);
            } else {
                self.closed.push(bag);
                return;
            }
        }
    }
}

impl<G> Drop for Limbo<G> {
    fn drop(&mut self) {
        while let Some(bag) = take(&self.closed) {
            bag.entries.into_iter().for_each(drop_contained);
        }
        if let Some(bag) = self.exchange(None) {
            bag.into_iter().for_each(drop_contained);
        }
    }
}

/// Says that a bag is ripe.
struct Mark(Arc<AtomicBool>);

impl Mark {
    fn when_unreachable(self, pinned: &Guard) {
        // SAFETY: the closure owns all that it touches, and runs none of the host's code.
        // ordering: Release; pairs with `empty_ripe`.
        unsafe { pinned.defer_unchecked(move || self.0.store(true, Ordering::Release)) };
    }
}
