//! Stand-ins for the concurrent queues under loom, which cannot see into the real ones.
//! They know nothing of capacity or speed: only which orderings a caller may rely on.
//!
//! The length stands apart from the lock on purpose. An emptiness check that took the lock would order the checker after the
//! pusher, and a parking protocol with its fences removed would pass.
#![forbid(unsafe_code)]

use super::atomic::{AtomicUsize, Ordering};
use super::{Arc, Mutex};
use crossbeam_deque::Steal;
use std::collections::VecDeque;

#[derive(Debug)]
struct Shared<T> {
    items: Mutex<VecDeque<T>>,
    len: AtomicUsize,
}

impl<T> Shared<T> {
    fn new() -> Self {
        Self { items: Mutex::new(VecDeque::new()), len: AtomicUsize::new(0) }
    }

    fn push(&self, item: T) {
        self.items.lock().push_back(item);
        self.len.fetch_add(1, Ordering::Release);
    }

    fn take(&self, back: bool) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut items = self.items.lock();
        let item = if back { items.pop_back() } else { items.pop_front() };
        if item.is_some() {
            self.len.fetch_sub(1, Ordering::AcqRel);
        }
        item
    }

    fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }
}

fn steal<T>(item: Option<T>) -> Steal<T> {
    item.map_or(Steal::Empty, Steal::Success)
}

/// Stand-in for `crossbeam_deque::Injector`.
#[derive(Debug)]
pub(crate) struct Injector<T>(Shared<T>);

#[allow(dead_code, reason = "the whole face of the real crate, of which one model uses a part")]
impl<T> Injector<T> {
    pub(crate) fn new() -> Self {
        Self(Shared::new())
    }

    pub(crate) fn push(&self, item: T) {
        self.0.push(item);
    }

    pub(crate) fn steal(&self) -> Steal<T> {
        steal(self.0.take(false))
    }

    pub(crate) fn steal_batch_with_limit_and_pop(&self, _into: &Worker<T>, _limit: usize) -> Steal<T> {
        self.steal()
    }

    pub(crate) fn steal_batch_and_pop(&self, _into: &Worker<T>) -> Steal<T> {
        self.steal()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len.load(Ordering::Acquire)
    }
}

/// Stand-in for `crossbeam_deque::Worker`.
#[derive(Debug)]
pub(crate) struct Worker<T> {
    shared: Arc<Shared<T>>,
    lifo: bool,
}

/// Stand-in for `crossbeam_deque::Stealer`.
#[derive(Debug)]
pub(crate) struct Stealer<T>(Arc<Shared<T>>);

#[allow(dead_code, reason = "the whole face of the real crate, of which one model uses a part")]
impl<T> Worker<T> {
    pub(crate) fn new_fifo() -> Self {
        Self { shared: Arc::new(Shared::new()), lifo: false }
    }

    pub(crate) fn new_lifo() -> Self {
        Self { shared: Arc::new(Shared::new()), lifo: true }
    }

    pub(crate) fn push(&self, item: T) {
        self.shared.push(item);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.shared.take(self.lifo)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.shared.len.load(Ordering::Acquire)
    }

    pub(crate) fn stealer(&self) -> Stealer<T> {
        Stealer(self.shared.clone())
    }
}

#[allow(dead_code, reason = "the whole face of the real crate, of which one model uses a part")]
impl<T> Stealer<T> {
    pub(crate) fn steal(&self) -> Steal<T> {
        steal(self.0.take(false))
    }

    pub(crate) fn steal_batch_and_pop(&self, _into: &Worker<T>) -> Steal<T> {
        self.steal()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len.load(Ordering::Acquire)
    }
}

impl<T> Clone for Stealer<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
