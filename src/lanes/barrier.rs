//! The full barrier of the store-load hand-shakes between those who queue and those who leave.
//! It does not know which words it keeps apart: each caller says so beside its call.

#![forbid(unsafe_code)]

use crate::sync::atomic::{Ordering, fence, fence_behind_exchange};

/// Keeps what the thread stored before it ahead of what the thread loads after it.
#[inline(always)]
pub(super) fn full() {
    // ordering: store-load; the callers come in pairs, each storing its word, passing here, and loading the other's. If the
    // first passes first, the second loads what the first stored; else the first loads what the second stored.
    fence(Ordering::SeqCst);
}

/// As [`full`], right behind a read-modify-write of the caller's, where many processors need nothing more.
#[inline(always)]
pub(super) fn behind_exchange() {
    // ordering: as in `full`; the read-modify-write is the store.
    fence_behind_exchange();
}
