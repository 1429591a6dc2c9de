//! The tree beside a long list of cells: cells are put at the head of the list and entered while others look for them.

use super::check;
use crate::stages::profiles::{Listed, Place, enter, find};
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::{Arc, thread};
use std::ptr;

/// Hashes that choose one branch, and one that chooses another; the last two are the same.
const HASHES: [u64; 4] = [0b01 << 62, 0b01_10 << 60, 0b11 << 62, 0b11 << 62];

struct Cell {
    name: usize,
    older: *mut Cell,
    number: u32,
    place: Place<Cell>,
}

impl Listed for Cell {
    fn hash(&self) -> u64 {
        HASHES[self.name]
    }

    fn older(&self) -> Option<&Self> {
        // SAFETY: cells are freed with the list alone.
        unsafe { self.older.as_ref() }
    }

    fn number(&self) -> u32 {
        self.number
    }

    fn place(&self) -> &Place<Self> {
        &self.place
    }
}

struct List(AtomicPtr<Cell>);

// SAFETY: cells are written before they are shown, and shared by reference then.
unsafe impl Send for List {}
// SAFETY: as above.
unsafe impl Sync for List {}

impl List {
    fn with(names: &[usize]) -> Arc<Self> {
        let list = Arc::new(Self(AtomicPtr::new(ptr::null_mut())));
        names.iter().for_each(|&name| list.put(name));
        list
    }

    fn newest(&self) -> Option<&Cell> {
        // SAFETY: cells are freed with the list alone.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    fn put(&self, name: usize) {
        let mut head = ptr::null_mut();
        let cell = Box::into_raw(Box::new(Cell { name, older: head, number: 0, place: Place::new() }));
        loop {
            // SAFETY: shown to nobody yet; and the head lives as long as the list.
            unsafe {
                (*cell).older = head;
                (*cell).number = head.as_ref().map_or(0, |head| head.number + 1);
            }
            match self.0.compare_exchange(head, cell, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: as in `newest`.
                Ok(_) => return enter(unsafe { &*cell }),
                Err(now) => head = now,
            }
        }
    }

    fn has(&self, name: usize) -> bool {
        find(self.newest(), HASHES[name], |cell| cell.name == name).is_some()
    }

    /// Whether whatever stands in the list now is found.
    fn is_sound(&self) -> bool {
        std::iter::successors(self.newest(), |cell| cell.older()).all(|cell| self.has(cell.name))
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let mut at = self.0.load(Ordering::Acquire);
        while !at.is_null() {
            // SAFETY: nobody shares the list any more, and `put` made each.
            at = unsafe { Box::from_raw(at) }.older;
        }
    }
}

/// What stands in the list is found at every moment, whoever has entered it.
#[test]
fn what_stands_in_the_list_is_found_while_two_put_cells_at_its_head() {
    check(|| {
        let list = List::with(&[0]);
        let putters = [1, 2].map(|name| {
            let list = list.clone();
            thread::spawn(move || {
                list.put(name);
                assert!(list.has(name));
            })
        });
        assert!(list.is_sound());
        putters.into_iter().for_each(|putter| putter.join().unwrap());
        assert!(list.is_sound() && !list.has(3));
    });
}

/// Cells whose hashes are the same stand one behind the other.
#[test]
fn two_cells_of_one_hash_are_both_found() {
    check(|| {
        let list = List::with(&[0, 1]);
        let putters = [2, 3].map(|name| {
            let list = list.clone();
            thread::spawn(move || list.put(name))
        });
        putters.into_iter().for_each(|putter| putter.join().unwrap());
        assert!((0..4).all(|name| list.has(name)));
    });
}
