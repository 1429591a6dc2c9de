//! Worlds: the files of a scheduler from one reset to the next. A reset puts a fresh world in the place of the one that is left
//! behind, by one exchange of a pointer. It does not know what a file is, nor how those of a world that was left come to end.
//!
//! Who adds a file looks at the pointer once more after that, and if it has moved ends what it added itself; who moves the
//! pointer looks at the files after that. So every file of a world that was left is ended by one of the two.

use super::host::Host;
use super::stamp::Stamp;
use super::table::Table;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use crate::sync::epoch::Guard;
use crate::sync::{Arc, CachePadded, mutant};
use std::ops::Deref;
use std::ptr;

/// The files of a scheduler from one reset to the next.
pub(crate) struct World<H: Host> {
    /// Later worlds have greater numbers.
    pub(crate) number: u64,
    /// Whether files may come into it: not while the scheduler is stopped.
    pub(crate) open: bool,
    /// When it took the place of the one before.
    pub(crate) born: Stamp,
    pub(crate) table: Table<H>,
}

impl<H: Host> World<H> {
    /// The first world.
    pub(crate) fn first(files: usize) -> Self {
        Self { number: 1, open: true, born: Stamp::first(), table: Table::new(files) }
    }

    /// One that is to take the place of another.
    pub(crate) fn fresh(files: usize) -> Self {
        Self { number: 0, open: true, born: Stamp::committing(), table: Table::new(files) }
    }
}

/// The number of the present world, for those who know a slot only. On a line of its own: it is read by every seal, and written
/// by resets alone.
#[derive(Debug)]
pub(crate) struct WorldNumber(CachePadded<AtomicU64>);

impl WorldNumber {
    /// Of the first world.
    pub(crate) fn first() -> Self {
        Self(CachePadded::new(AtomicU64::new(1)))
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        // ordering: pairs with `set`. Who learns here that a world was left finds the one that took its place.
        self.0.load(Ordering::Acquire)
    }

    /// In the section, after the pointer has moved.
    pub(crate) fn set(&self, number: u64) {
        // ordering: Release, see `get`.
        self.0.store(number, Ordering::Release);
    }
}

/// The pointer to the present world; owns it.
#[derive(Debug)]
pub(crate) struct Worlds<W>(AtomicPtr<W>);

/// A world that was left. Pinned threads may look at it still, so it must outlive their pins.
#[must_use]
pub(crate) struct Left<W>(Arc<W>);

impl<W> Deref for Left<W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.0
    }
}

/// The half of who has added a file, in the hand-shake with `moved_before_look`.
#[inline]
fn added_before_look() {
    if mutant("world.add_no_fence") {
        return;
    }
    // ordering: store-load; pairs with `moved_before_look`. If the adder passes first, the reset's look at the files finds what was
    // added; else the adder finds that the pointer has moved.
    fence(Ordering::SeqCst);
}

/// The half of who has moved the pointer, in the hand-shake with `added_before_look`.
fn moved_before_look() {
    if mutant("world.move_no_fence") {
        return;
    }
    // ordering: as there, both cases.
    fence(Ordering::SeqCst);
}

impl<W> Worlds<W> {
    pub(crate) fn new(first: W) -> Self {
        Self(AtomicPtr::new(Arc::into_raw(Arc::new(first)).cast_mut()))
    }

    /// The present world.
    #[inline]
    pub(crate) fn now<'g>(&self, _pinned: &'g Guard) -> &'g W {
        // ordering: pairs with `leave`. Whichever world is found is seen whole.
        let world = self.0.load(Ordering::Acquire);
        // SAFETY: never null, and a world that is left outlives the pins of that time.
        unsafe { &*world }
    }

    /// The same, to be kept longer than the pin.
    pub(crate) fn hold(&self, pinned: &Guard) -> Arc<W> {
        let world = ptr::from_ref(self.now(pinned));
        // SAFETY: it lies in an `Arc`, whose count the pointer owns, or a `Left` that outlives this pin.
        unsafe {
            Arc::increment_strong_count(world);
            Arc::from_raw(world)
        }
    }

    /// Whether `world` is the present one still. For who has added a file to it.
    pub(crate) fn is_still(&self, world: &W) -> bool {
        added_before_look();
        mutant("world.add_no_look") || ptr::eq(self.0.load(Ordering::Acquire), world)
    }

    /// Puts `fresh` in the place of the present world. In the section: one at a time.
    pub(crate) fn leave(&self, fresh: Arc<W>) -> Left<W> {
        // ordering: AcqRel; pairs with `now`.
        let left = self.0.swap(Arc::into_raw(fresh).cast_mut(), Ordering::AcqRel);
        moved_before_look();
        // SAFETY: what the pointer owned, taken out by the one swap.
        Left(unsafe { Arc::from_raw(left) })
    }
}

impl<W> Drop for Worlds<W> {
    fn drop(&mut self) {
        // SAFETY: as in `leave`; nobody shares the pointer any more.
        drop(unsafe { Arc::from_raw(self.0.load(Ordering::Acquire)) });
    }
}
