//! Ready tasks in order: the better class first, and within a class who was ready first.
//! It does not know what the classes mean; entries of tasks that are no longer ready are left to whoever takes them.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A task's place: its class, and its number in the queue where it became ready. Kept while the task is set aside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place(u64);

/// A task with its place.
pub(crate) type Entry = (Place, u32);

#[derive(Debug, Default)]
pub(crate) struct Heap {
    entries: BinaryHeap<Reverse<Entry>>,
    arrivals: u32,
}

impl Heap {
    /// Queues a task behind its equals.
    pub(crate) fn push(&mut self, class: u32, task: u32) {
        let place = Place(u64::from(class) << 32 | u64::from(self.arrivals));
        self.arrivals = self.arrivals.wrapping_add(1);
        self.entries.push(Reverse((place, task)));
    }

    /// Puts back what was taken, at its old place.
    pub(crate) fn put_back(&mut self, entry: Entry) {
        self.entries.push(Reverse(entry));
    }

    pub(crate) fn peek(&self) -> Option<Entry> {
        self.entries.peek().map(|entry| entry.0)
    }

    pub(crate) fn pop(&mut self) -> Option<Entry> {
        self.entries.pop().map(|entry| entry.0)
    }

    pub(crate) fn clear(&mut self) {
        self.entries = BinaryHeap::new();
    }
}
