//! The root of a trie: parts that are made when they are needed, and made anew, wider or narrower, as much as stands in them.
//! It does not know who adds entries or takes them out, nor who counts them.
//!
//! A part never changes its width: whoever finds it too narrow freezes all of its cells and all below them, makes another that holds
//! what they held, and puts that into its place by one exchange. Who is to change a frozen cell does the same himself first. Of
//! several who do so one wins, and since nothing frozen ever changes all would have made the same. Readers read frozen cells like others.

use super::node::{BITS, Cell, Hashed, Node, Word, entry, free_nodes, freeze_below, hash_of, node};
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::epoch::Guard;
use std::marker::PhantomData;
use std::ptr;

/// Bits of a hash that choose a part.
pub(super) const PART_BITS: u32 = if cfg!(shardrun_loom) { 1 } else { 6 };
/// Bits that choose a cell of a part: at least, and at most if it was not made wider from the beginning. What makes a part anew takes a
/// fraction of a microsecond for each slot in it, so that should be no more than a few thousand.
const CELL_BITS: std::ops::RangeInclusive<u32> = if cfg!(shardrun_loom) { 1..=3 } else { 6..=14 };
/// The most, if so many slots are expected.
const MOST_BITS: u32 = if cfg!(shardrun_loom) { 3 } else { 16 };

/// Slots for each cell from which on a part is too narrow. A node costs a look one more wait for memory, and as much memory as ten cells.
const FULL: usize = 1;
/// Cells for each slot from which on it is too wide.
const EMPTY: usize = 32;
/// Cells for each slot in one that is made anew.
const ROOMY: usize = 8;

/// Cells of a cache line.
const LINE: usize = if cfg!(shardrun_loom) { 2 } else { 8 };

#[cfg_attr(not(shardrun_loom), repr(align(64)))]
struct Line([Cell; LINE]);

const _: () = assert!(size_of::<Line>() == LINE * size_of::<Cell>(), "a part is one row of cells");

/// How many bits choose a cell stands in the lowest bits of the pointer to a part, so that it takes no look of its own.
const WIDTH: usize = align_of::<Line>() - 1;

/// A part that can be reached, or was when a pin began that has not ended.
#[derive(Clone, Copy)]
pub(super) struct Part<'g>(Word, PhantomData<&'g Line>);

impl<'g> Part<'g> {
    /// The part that stands in a place, if one was made.
    #[inline]
    fn of(place: &AtomicPtr<()>, _pinned: &'g Guard) -> Option<Self> {
        // ordering: pairs with `make` and `remake`. Whichever part is found is seen whole.
        let raw = place.load(Ordering::Acquire);
        (!raw.is_null()).then_some(Self(raw, PhantomData))
    }

    /// One without entries that nobody has seen yet.
    fn fresh(bits: u32) -> Self {
        let line = |_| Line(std::array::from_fn(|_| Cell::new(ptr::null_mut())));
        let lines: Box<[Line]> = (0..(1usize << bits) / LINE).map(line).collect();
        let raw = Box::into_raw(lines).cast::<()>();
        Self(raw.map_addr(|address| address | bits as usize), PhantomData)
    }

    #[inline]
    fn bits(self) -> u32 {
        (self.0.addr() & WIDTH) as u32
    }

    fn lines(self) -> *mut [Line] {
        let first = self.0.map_addr(|address| address & !WIDTH).cast::<Line>();
        ptr::slice_from_raw_parts_mut(first, (1 << self.bits()) / LINE)
    }

    /// The cell that a hash chooses, and how many bits of it have done so.
    #[inline]
    pub(super) fn cell(self, hash: u64) -> (&'g Cell, u32) {
        let at = ((hash << PART_BITS) >> (u64::BITS - self.bits())) as usize;
        let first = self.0.map_addr(|address| address & !WIDTH).cast::<Cell>();
        // SAFETY: made by `fresh`, with as many cells as the bits can choose, which lie in one row; and it lives as long as it says.
        (unsafe { &*first.add(at) }, PART_BITS + self.bits())
    }

    fn cells(self) -> impl Iterator<Item = &'g Cell> {
        // SAFETY: as in `cell`.
        unsafe { &*self.lines() }.iter().flat_map(|line| &line.0)
    }

    /// Puts an entry where nobody else sees it. No other there has its hash.
    fn hang<S: Hashed>(self, hash: u64, word: Word, pinned: &Guard) {
        let (mut cell, mut used) = self.cell(hash);
        loop {
            // ordering: the exchange that shows the part releases all of it.
            let there = cell.load(Ordering::Relaxed);
            // SAFETY: nobody shares the part.
            if let Some(node) = unsafe { node(there) } {
                cell = &node.0[Node::at(hash, used)];
                used += BITS;
                continue;
            }
            let other = entry::<S>(there).map(|entry| hash_of(entry, pinned));
            debug_assert!(other != Some(hash), "a hash has one entry");
            let next = other.map_or(word, |other| Node::fork(used, (other, there), (hash, word)));
            return cell.store(next, Ordering::Relaxed);
        }
    }

    /// Frees it and its nodes, but no entry.
    ///
    /// # Safety
    /// Nobody else can reach it.
    unsafe fn free(self) {
        for cell in self.cells() {
            // SAFETY: promised by the caller.
            unsafe { free_nodes(cell.load(Ordering::Acquire)) };
        }
        // SAFETY: made by `fresh`, and promised by the caller.
        drop(unsafe { Box::from_raw(self.lines()) });
    }
}

/// A deferred closure's own.
struct Old(Word);

// SAFETY: memory of ours that one thread frees.
unsafe impl Send for Old {}

impl Old {
    /// # Safety
    /// As of [`Part::free`].
    unsafe fn free(self) {
        // SAFETY: promised by the caller.
        unsafe { Part(self.0, PhantomData).free() };
    }
}

/// Every part that there is.
pub(super) struct Root {
    /// Each null, or a part.
    parts: [AtomicPtr<()>; 1 << PART_BITS],
    /// Bits that choose a cell of a part, at least.
    least: u32,
}

impl Root {
    /// For so many slots from the beginning.
    pub(super) fn new(slots: usize) -> Self {
        let bits = slots.next_power_of_two().ilog2().saturating_sub(PART_BITS);
        let parts = std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        Self { parts, least: bits.clamp(*CELL_BITS.start(), MOST_BITS) }
    }

    /// Which part a hash chooses.
    #[inline]
    pub(super) fn at(hash: u64) -> usize {
        (hash >> (u64::BITS - PART_BITS)) as usize
    }

    /// The part of a hash, if it was made.
    #[inline]
    pub(super) fn part<'g>(&self, hash: u64, pinned: &'g Guard) -> Option<Part<'g>> {
        Part::of(&self.parts[Self::at(hash)], pinned)
    }

    /// The same; it is made if it is not there.
    pub(super) fn part_or_made<'g>(&self, hash: u64, pinned: &'g Guard) -> Part<'g> {
        loop {
            match self.part(hash, pinned) {
                Some(part) => return part,
                None => self.make(&self.parts[Self::at(hash)]),
            }
        }
    }

    #[cold]
    fn make(&self, place: &AtomicPtr<()>) {
        let part = Part::fresh(self.least);
        // ordering: Release shows the cells with the part. If another thread was faster, its part is used.
        if place.compare_exchange(ptr::null_mut(), part.0, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: made above, and shown to nobody.
            unsafe { part.free() };
        }
    }

    /// Every cell of the root that there is.
    pub(super) fn cells<'g>(&self, pinned: &'g Guard) -> impl Iterator<Item = &'g Cell> {
        self.parts.iter().filter_map(move |place| Part::of(place, pinned)).flat_map(Part::cells)
    }

    /// Bits for a part of so many slots.
    fn bits_for(&self, slots: usize) -> u32 {
        let cells = ROOMY * slots.min(1 << MOST_BITS);
        (cells | 1).ilog2().clamp(self.least, self.least.max(*CELL_BITS.end()))
    }

    /// Makes the part of a hash, in which there are so many slots, anew if that is far too narrow or far too wide for them.
    #[inline]
    pub(super) fn fit<S: Hashed>(&self, hash: u64, slots: usize, pinned: &Guard) {
        let Some(part) = self.part(hash, pinned) else { return };
        let cells = 1usize << part.bits();
        if slots > FULL * cells || slots < cells / EMPTY {
            self.fit_now::<S>(hash, part, slots, pinned);
        }
    }

    #[cold]
    fn fit_now<S: Hashed>(&self, hash: u64, part: Part<'_>, slots: usize, pinned: &Guard) {
        if self.bits_for(slots) != part.bits() {
            self.remake::<S>(hash, part, pinned);
        }
    }

    /// Puts another part into the place of `part`, which is that of a hash, as wide as what is in it asks for. If another thread
    /// has done so it does nothing.
    #[cold]
    pub(super) fn remake<S: Hashed>(&self, hash: u64, part: Part<'_>, pinned: &Guard) {
        let mut words = Vec::new();
        part.cells().for_each(|cell| freeze_below(cell, &mut words));
        let slots = words.iter().filter_map(|&word| entry::<S>(word)).map(|entry| entry.slots(pinned).count()).sum();
        let fresh = Part::fresh(self.bits_for(slots));
        for word in words {
            if let Some(entry) = entry::<S>(word) {
                fresh.hang::<S>(hash_of(entry, pinned), word, pinned);
            }
        }
        let place = &self.parts[Self::at(hash)];
        // ordering: Release: who comes through the place finds what the cells held, and what those who filled them had written.
        if place.compare_exchange(part.0, fresh.0, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: made above, and shown to nobody. The entries stand in the part of who was faster.
            return unsafe { fresh.free() };
        }
        let old = Old(part.0);
        // SAFETY: the exchange has taken it out of the one place where it stood, with its nodes; none of those has been replaced, since
        // the cells that point to them were frozen. The closure frees memory of ours alone.
        unsafe { pinned.defer_unchecked(move || old.free()) };
        // It may be large.
        pinned.flush();
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        for place in &self.parts {
            let raw = place.load(Ordering::Acquire);
            if !raw.is_null() {
                // SAFETY: nobody shares the trie any more.
                unsafe { Part(raw, PhantomData).free() };
            }
        }
    }
}
