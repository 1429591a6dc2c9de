//! The full barrier of the store-load hand-shakes between those who queue and those who leave.
//! It does not know which words it keeps apart: each caller says so beside its call.

#![forbid(unsafe_code)]

use crate::sync::atomic::{Ordering, fence};

/// Keeps what the thread stored before it ahead of what the thread loads after it.
#[inline(always)]
pub(super) fn full() {
    // ordering: store-load; the callers come in pairs, each storing its word, passing here, and loading the other's. If the
    // first passes first, the second loads what the first stored; else the first loads what the second stored.
    fence(Ordering::SeqCst);
}
