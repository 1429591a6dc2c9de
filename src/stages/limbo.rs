//! Where what was taken out of a slot waits until no pinned reader can hold it, and is then dropped at a safe point.
//! It does not know what it keeps, but that dropping it runs the host's destructors.
//!
//! The host's payloads are never handed to the epoch, whose deferred closures run inside anybody's pin. The epoch only says when
//! a bag of them is ripe; whoever retires something next, outside every section and pin, empties the bag.
//!
//! The bound: one limbo keeps fewer than [`BAG`] entries that are in no bag, and bags as long as some thread stays pinned, which
//! no thread does while it runs host code, waits or sleeps.

use crate::flight::drop_contained;
use crate::sync::Arc;
use crate::sync::epoch::{self, Guard};
use crate::sync::queue::{Injector, Steal};
use crate::sync::stat::{AtomicBool, AtomicUsize, Ordering};

/// Entries of one bag.
pub(crate) const BAG: usize = 16;

/// Entries that wait for the pins of readers.
pub(crate) struct Limbo<G> {
    loose: Injector<G>,
    arrivals: AtomicUsize,
    bags: Injector<Bag<G>>,
}

struct Bag<G> {
    entries: Vec<G>,
    ripe: Arc<AtomicBool>,
}

impl<G> Limbo<G> {
    pub(crate) fn new() -> Self {
        Self { loose: Injector::new(), arrivals: AtomicUsize::new(0), bags: Injector::new() }
    }

    /// Takes an entry that no longer can be reached, but by readers that are pinned already. Now and then it drops what is ripe.
    /// To be called outside every section and pin.
    pub(crate) fn put(&self, entry: G) {
        self.loose.push(entry);
        // ordering: only a count; the queue publishes the entry.
        if (self.arrivals.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(BAG) {
            self.fill_bag();
            self.empty_ripe();
        }
    }

    /// Puts what is loose into a bag, and asks the epoch to say when it is ripe.
    fn fill_bag(&self) {
        let entries: Vec<G> = std::iter::from_fn(|| take(&self.loose)).take(BAG).collect();
        if entries.is_empty() {
            return;
        }
        let ripe = Arc::new(AtomicBool::new(false));
        let mark = Mark(ripe.clone());
        self.bags.push(Bag { entries, ripe });
        let pinned = epoch::pin();
        mark.when_unreachable(&pinned);
        pinned.flush();
    }

    /// Drops the entries of ripe bags.
    pub(crate) fn empty_ripe(&self) {
        // As many as are there now: each is looked at once.
        for _ in 0..self.bags.len() {
            let Some(bag) = take(&self.bags) else { return };
            // ordering: pairs with `Mark`: if the flag is seen, the pins that could reach the entries have ended before.
            if bag.ripe.load(Ordering::Acquire) {
                bag.entries.into_iter().for_each(drop_contained);
            } else {
                self.bags.push(bag);
                return;
            }
        }
    }
}

impl<G> Drop for Limbo<G> {
    fn drop(&mut self) {
        while let Some(bag) = take(&self.bags) {
            bag.entries.into_iter().for_each(drop_contained);
        }
        while let Some(entry) = take(&self.loose) {
            drop_contained(entry);
        }
    }
}

fn take<T>(queue: &Injector<T>) -> Option<T> {
    loop {
        match queue.steal() {
            Steal::Success(item) => return Some(item),
            Steal::Empty => return None,
            Steal::Retry => {}
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
