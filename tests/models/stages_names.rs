//! Slots of files that are only named: whoever was promised a slot finds no other in its place, and nobody's slot stays behind.

use super::check;
use crate::stages::{Clock, Entry, Link, Place, Version, Versions, add, close, take_out};
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::epoch::{Guard, pin};
use crate::sync::{Arc, thread};

struct Revision {
    link: Link<Revision>,
    absent: bool,
}

impl Version for Revision {
    fn link(&self) -> &Link<Self> {
        &self.link
    }
}

/// A slot of the one name that there is.
struct Slot(Versions<Revision>);

/// The place of the one hash that there is.
struct Table(AtomicPtr<()>);

impl Place<Slot> for Table {
    fn load(&self) -> Option<Entry<Slot>> {
        Entry::of_raw(self.0.load(Ordering::Acquire))
    }

    fn exchange(&self, old: Option<Entry<Slot>>, new: Option<Entry<Slot>>) -> bool {
        self.0.compare_exchange(Entry::raw(old), Entry::raw(new), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Table {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicPtr::new(std::ptr::null_mut())))
    }

    fn look(&self, pinned: &Guard) -> Option<Arc<Slot>> {
        let slot = self.load()?.slots(pinned).next()?;
        Some(Arc::clone(&slot))
    }

    /// The slot of the name, kept from burial.
    fn needed(&self) -> Arc<Slot> {
        let pinned = pin();
        if let Some(slot) = self.look(&pinned).filter(|slot| slot.0.need()) {
            return slot;
        }
        let fresh = Arc::new(Slot(Versions::empty()));
        loop {
            let found = match add(self, &fresh, |_| true, |other| other.0.is_buried(), &pinned) {
                // Readers may look at it still: the model keeps it, the engine waits for their pins.
                Ok(taken) => {
                    std::mem::forget(taken);
                    return fresh;
                }
                Err(found) => found,
            };
            if found.0.need() {
                return found;
            }
            std::mem::forget(found);
        }
    }

    fn unneed(&self, slot: Arc<Slot>) {
        if slot.0.unneed() {
            std::mem::forget(take_out(self, &slot, &pin()));
        }
        std::mem::forget(slot);
    }

    /// Names the file for a while.
    fn name(&self) {
        let slot = self.needed();
        self.stands(&slot);
        self.unneed(slot);
    }

    /// Asks for the file: its first revision is there from then on.
    fn ask(&self) -> Arc<Slot> {
        let slot = self.needed();
        let first = Arc::new(Revision { link: Link::first(), absent: false });
        if let Err(lost) = slot.0.create(first) {
            assert!(slot.0.head(&pin()).is_some(), "a slot that was promised has been buried");
            std::mem::forget(lost);
        }
        self.unneed(slot.clone());
        slot
    }

    /// What was promised is what a look finds.
    fn stands(&self, slot: &Arc<Slot>) {
        assert!(!slot.0.is_buried(), "a slot that was promised has been buried");
        let found = self.look(&pin());
        assert!(found.as_ref().is_some_and(|found| Arc::ptr_eq(found, slot)), "a slot that was promised is not found");
        std::mem::forget(found);
    }
}

fn spawn<T: Send + 'static>(table: &Arc<Table>, f: impl FnOnce(&Table) -> T + Send + 'static) -> thread::JoinHandle<T> {
    let table = table.clone();
    thread::spawn(move || f(&table))
}

/// Two that name a file come and go as a third does: whoever names it finds his slot, and in the end there is none.
#[test]
fn names_that_come_and_go() {
    check(|| {
        let table = Table::new();
        let others = [(); 2].map(|()| spawn(&table, Table::name));
        table.name();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(table.load().is_none(), "the slot of a name that nobody needs was left behind");
    });
}

/// A file that is asked for as others name it, and cease to, lives in the slot that is found.
#[test]
fn a_request_beside_names() {
    check(|| {
        let table = Table::new();
        let asking = spawn(&table, Table::ask);
        let naming = spawn(&table, Table::name);
        table.name();
        naming.join().unwrap();
        let slot = asking.join().unwrap();
        assert!(slot.0.head(&pin()).is_some(), "a file was made and is not there");
        table.stands(&slot);
        std::mem::forget(slot);
    });
}

/// A slot whose world is left as the last name goes either is buried or gets the mark, and nothing is made in it after that.
#[test]
fn a_world_that_is_left_beside_the_last_name() {
    check(|| {
        let (table, clock) = (Table::new(), Clock::new(0));
        let slot = table.needed();
        let unneeding = {
            let slot = slot.clone();
            spawn(&table, move |table| table.unneed(slot))
        };
        let last = Arc::new(Revision { link: Link::committing(), absent: true });
        let over = close((&slot.0, &clock), last, |seen| seen.absent, |_| {});
        assert!(over.is_none(), "nothing has lived here");
        unneeding.join().unwrap();
        let marked = slot.0.visible(&clock, &pin()).is_some_and(|seen| seen.absent);
        assert!(marked != slot.0.is_buried(), "it has one end");
        let first = Arc::new(Revision { link: Link::first(), absent: false });
        let refused = slot.0.create(first).expect_err("a file was made in a slot that has ended");
        std::mem::forget((slot, refused));
    });
}
