//! Memory of jobs that are over, kept by the thread that ended them for the jobs that it makes next.
//! It does not know what a job is, only its size.
//!
//! Each thread keeps two magazines of a size of block: it fills and empties one, and has the other at hand, so that it goes to and
//! fro between the two only after so many blocks. A thread that ends jobs which others make fills more than that; it leaves what is
//! full at the executor's depot, where the others find it. So of the memory of a job that goes from one thread to the other no
//! allocator's lock or list travels along. What finds no place is freed.
//!
//! A thread keeps at most two magazines for each of four sizes, 60 kB where all jobs are alike; an executor as much again.

use super::first::First;
use crate::sync::Arc;
use crate::sync::atomic::{Ordering, fence};
use std::cell::RefCell;
use std::mem::{self, MaybeUninit};

/// Blocks of a magazine.
const BLOCKS: usize = 128;
/// Sizes that are kept at once; two that fall on one place take turns.
const SIZES: usize = 4;
/// Larger blocks are not kept.
const SIZE_MAX: usize = 512;

/// Blocks of one size, each a counted block that nobody refers to and whose content is gone.
struct Magazine {
    size: usize,
    /// Frees a block of that size.
    free: unsafe fn(*mut u8),
    blocks: Vec<*mut u8>,
}

// SAFETY: nothing lies in the blocks, and they belong to who has the magazine.
unsafe impl Send for Magazine {}
// SAFETY: who shares it can do nothing with it.
unsafe impl Sync for Magazine {}

impl Drop for Magazine {
    fn drop(&mut self) {
        for block in self.blocks.drain(..) {
            // SAFETY: it is of this size, and nobody else has it.
            unsafe { (self.free)(block) };
        }
    }
}

/// What a thread keeps of one size.
struct Kept {
    open: Option<Box<Magazine>>,
    other: Option<Box<Magazine>>,
}

crate::sync::local! {
    static KEPT: RefCell<[Kept; SIZES]> = RefCell::new([
        Kept { open: None, other: None },
        Kept { open: None, other: None },
        Kept { open: None, other: None },
        Kept { open: None, other: None },
    ]);
}

/// Full magazines on their way from those who end jobs to those who make them.
pub(super) struct Depot {
    places: [[First<Box<Magazine>>; 2]; SIZES],
}

impl Depot {
    pub(super) fn new() -> Self {
        Self { places: std::array::from_fn(|_| [First::new(), First::new()]) }
    }

    /// Leaves a magazine here, or frees it where there is no place.
    #[cold]
    fn leave(&self, at: usize, full: Box<Magazine>) {
        let mut full = Arc::new(full);
        for place in &self.places[at] {
            match place.put(full) {
                Ok(()) => return,
                Err(back) => full = back,
            }
        }
    }

    /// A magazine of blocks of that size, if one was left here.
    #[cold]
    fn find(&self, at: usize, size: usize) -> Option<Box<Magazine>> {
        let mut found = self.places[at].iter().filter_map(First::take).filter_map(Arc::into_inner);
        found.find(|magazine| magazine.size == size)
    }
}

/// Whether blocks of such jobs are kept.
const fn is_kept<T>() -> bool {
    size_of::<T>() <= SIZE_MAX && align_of::<T>() == align_of::<usize>()
}

/// Where blocks of such jobs are kept.
const fn place<T>() -> usize {
    size_of::<T>() / align_of::<usize>() % SIZES
}

/// # Safety
/// `block` is the content of a counted block of the size and alignment of `T` that nobody refers to.
unsafe fn free<T>(block: *mut u8) {
    // SAFETY: promised by the caller; what may hold anything is not looked at.
    drop(unsafe { Arc::from_raw(block.cast::<MaybeUninit<T>>()) });
}

impl Kept {
    #[inline]
    fn take(&mut self, depot: &Depot, at: usize, size: usize) -> Option<*mut u8> {
        if let Some(open) = self.open.as_mut().filter(|open| open.size == size)
            && let Some(block) = open.blocks.pop()
        {
            return Some(block);
        }
        self.take_other(depot, at, size)
    }

    #[cold]
    fn take_other(&mut self, depot: &Depot, at: usize, size: usize) -> Option<*mut u8> {
        let full = |other: &mut Box<Magazine>| other.size == size && !other.blocks.is_empty();
        if self.other.as_mut().is_some_and(full) {
            mem::swap(&mut self.open, &mut self.other);
        } else {
            self.open = Some(depot.find(at, size)?);
        }
        self.open.as_mut()?.blocks.pop()
    }

    #[inline]
    fn put(&mut self, depot: Option<&Depot>, at: usize, size: usize, free: unsafe fn(*mut u8), block: *mut u8) {
        match &mut self.open {
            Some(open) if open.size == size && open.blocks.len() < BLOCKS => open.blocks.push(block),
            _ => self.put_other(depot, at, size, free).blocks.push(block),
        }
    }

    /// A magazine with room for one more.
    #[cold]
    fn put_other(&mut self, depot: Option<&Depot>, at: usize, size: usize, free: unsafe fn(*mut u8)) -> &mut Magazine {
        let room = |other: &Magazine| other.size == size && other.blocks.len() < BLOCKS;
        if self.other.as_deref().is_some_and(room) {
            mem::swap(&mut self.open, &mut self.other);
        } else {
            let full = mem::replace(&mut self.other, self.open.take());
            if let (Some(full), Some(depot)) = (full.filter(|full| full.size == size), depot) {
                depot.leave(at, full);
            }
        }
        self.open.get_or_insert_with(|| Box::new(Magazine { size, free, blocks: Vec::with_capacity(BLOCKS) }))
    }
}

/// As `Arc::new`, in a block that the thread has kept. `content` is called once; called where it is to lie it is not copied there.
#[inline(always)]
pub(super) fn make<T>(depot: &Depot, content: impl FnOnce() -> T) -> Arc<T> {
    if !is_kept::<T>() {
        return Arc::new(content());
    }
    let (at, size) = (place::<T>(), size_of::<T>());
    match KEPT.try_with(|kept| kept.try_borrow_mut().ok()?[at].take(depot, at, size)) {
        Ok(Some(block)) => {
            let block = block.cast::<T>();
            // SAFETY: the block came from a counted one of this size and alignment, which `keep` got with its only count, strong
            // and weak; nobody else has it, and nothing lies in it.
            unsafe {
                block.write(content());
                Arc::from_raw(block)
            }
        }
        _ => Arc::new(content()),
    }
}

/// Lets go of `last`, and keeps its block. Without a depot, which might go with it, the thread keeps what it can. `drops` says
/// whether something may lie in it that is to be dropped.
///
/// # Safety
/// It is the only reference, counted or weak, and nobody can make another.
#[inline]
pub(super) unsafe fn keep<T>(depot: Option<&Depot>, last: Arc<T>, drops: impl FnOnce(&T) -> bool) {
    if !is_kept::<T>() {
        return;
    }
    // ordering: pairs with the Release by which the other references were let go of: what they did last is seen by who looks now.
    fence(Ordering::Acquire);
    let drops = drops(&last);
    let block = Arc::into_raw(last).cast_mut();
    if drops {
        // SAFETY: nobody else refers to it, and it is not looked at any more. Should a destructor panic its block is lost.
        unsafe { block.drop_in_place() };
    }
    if cfg!(debug_assertions) {
        // SAFETY: the content is gone; the block is ours.
        unsafe { block.cast::<u8>().write_bytes(0xDD, size_of::<T>()) };
    }
    let block = block.cast::<u8>();
    let put = |kept: &RefCell<[Kept; SIZES]>| {
        kept.try_borrow_mut().ok()?[place::<T>()].put(depot, place::<T>(), size_of::<T>(), free::<T>, block);
        Some(())
    };
    if KEPT.try_with(put).ok().flatten().is_none() {
        // SAFETY: as above; the thread is at its end.
        unsafe { free::<T>(block) };
    }
}
