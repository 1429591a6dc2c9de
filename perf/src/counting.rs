//! An allocator that counts live bytes and calls, over the system's.
//! It does not know who allocates: a measurement takes the difference of two snapshots while nobody else works.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);
static MOST_BYTES: AtomicI64 = AtomicI64::new(0);
static LIVE_BLOCKS: AtomicI64 = AtomicI64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// The allocator; make it the binary's own with `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

/// What the allocator has counted up to one moment.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Bytes asked for and not given back, without the allocator's own overhead.
    pub live_bytes: i64,
    /// Blocks not given back.
    pub live_blocks: i64,
    /// Calls that returned memory, growth included.
    pub calls: u64,
    /// Bytes asked for in those calls.
    pub bytes: u64,
}

/// What has been counted up to now, by all threads.
pub fn snapshot() -> Snapshot {
    Snapshot {
        live_bytes: LIVE_BYTES.load(Ordering::SeqCst),
        live_blocks: LIVE_BLOCKS.load(Ordering::SeqCst),
        calls: CALLS.load(Ordering::SeqCst),
        bytes: BYTES.load(Ordering::SeqCst),
    }
}

/// The most bytes that were live at a time since this was asked last.
pub fn most_bytes() -> i64 {
    MOST_BYTES.swap(LIVE_BYTES.load(Ordering::SeqCst), Ordering::SeqCst)
}

fn gained(bytes: usize) {
    let live = LIVE_BYTES.fetch_add(bytes as i64, Ordering::Relaxed) + bytes as i64;
    MOST_BYTES.fetch_max(live, Ordering::Relaxed);
    LIVE_BLOCKS.fetch_add(1, Ordering::Relaxed);
    CALLS.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
}

fn lost(bytes: usize) {
    LIVE_BYTES.fetch_sub(bytes as i64, Ordering::Relaxed);
    LIVE_BLOCKS.fetch_sub(1, Ordering::Relaxed);
}

// SAFETY: every call is handed to the system's allocator unchanged; counting touches only statics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        gained(layout.size());
        // SAFETY: the caller keeps GlobalAlloc's contract, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        gained(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        lost(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        lost(layout.size());
        gained(size);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}
