//! Has what the calling thread has put off done, before it waits for threads to end that may wait for that.
//! It does not know what is put off, nor why.
#![forbid(unsafe_code)]

use crate::sync::OnceLock;

static FLUSH: OnceLock<fn()> = OnceLock::new();

/// Threads put calls off from now on, and `flush` does those of the calling thread.
pub(crate) fn puts_off(flush: fn()) {
    let _ = FLUSH.set(flush);
}

/// Does what this thread has put off.
pub(super) fn flush() {
    if let Some(flush) = FLUSH.get() {
        flush();
    }
}
