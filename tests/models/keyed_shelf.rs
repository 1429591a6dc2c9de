//! Models of what is kept: however newcomers and evictions meet, each entry leaves once, the bound is held in the end, and what is
//! counted is what is there.

#![cfg(any(shardrun_loom, shardrun_shuttle))]

use super::check;
use crate::keyed::shelf::{Bounds, Mark, Shelf, Shelved};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread::spawn;

struct Entry {
    mark: Mark,
    left: AtomicU64,
}

impl Entry {
    fn new() -> Arc<Self> {
        Arc::new(Self { mark: Mark::new(), left: AtomicU64::new(0) })
    }

    fn leaves(&self) {
        assert_eq!(self.left.fetch_add(1, Ordering::Relaxed), 0, "an entry leaves once");
    }

    fn stays(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

impl Shelved for Entry {
    fn mark(&self) -> &Mark {
        &self.mark
    }
}

fn put(shelf: &Shelf<Entry>, entry: &Arc<Entry>) {
    shelf.put(entry, 0, 1).iter().for_each(|evicted| evicted.leaves());
}

/// Two newcomers on a full shelf of one, where the one that stood there is used: the bound holds, and nothing leaves twice.
#[test]
fn two_newcomers_on_a_full_shelf() {
    check(|| {
        let shelf: Arc<Shelf<Entry>> = Arc::new(Shelf::new(Bounds { count: 1, ..Bounds::NONE }));
        let entries = [Entry::new(), Entry::new(), Entry::new()];
        put(&shelf, &entries[0]);
        entries[0].mark.used();
        let newcomer = |at: usize| {
            let (shelf, entry) = (shelf.clone(), entries[at].clone());
            spawn(move || put(&shelf, &entry))
        };
        let newcomers = [newcomer(1), newcomer(2)];
        newcomers.into_iter().for_each(|newcomer| newcomer.join().unwrap());
        let stay = entries.iter().filter(|entry| entry.stays()).count() as u64;
        assert!(stay <= 1, "{stay} stay");
        assert_eq!(shelf.holds(), (stay, stay));
    });
}

/// An entry is put in, evicted by a call, and pushed out by a newcomer, all at once: it leaves once, and the counts are exact.
#[test]
fn an_entry_is_put_in_while_it_is_evicted_and_pushed_out() {
    check(|| {
        let shelf: Arc<Shelf<Entry>> = Arc::new(Shelf::new(Bounds { count: 1, ..Bounds::NONE }));
        let (entry, other) = (Entry::new(), Entry::new());
        let evicts = {
            let (shelf, entry) = (shelf.clone(), entry.clone());
            spawn(move || {
                if shelf.take_out(&entry, 0) {
                    entry.leaves();
                }
            })
        };
        let pushes = {
            let (shelf, other) = (shelf.clone(), other.clone());
            spawn(move || put(&shelf, &other))
        };
        put(&shelf, &entry);
        evicts.join().unwrap();
        pushes.join().unwrap();
        assert!(!entry.stays(), "it was evicted by one of them");
        let stay = u64::from(other.stays());
        assert_eq!(shelf.holds(), (stay, stay));
    });
}
