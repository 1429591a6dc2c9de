//! Epoch-protected memory of the world that is built: pin, and defer what may be freed once nobody pinned can hold it.
//! It does not know what is protected. Host payloads are never handed to it: a deferred closure runs inside anybody's pin.
//!
//! Under loom a pin is nothing and a deferred closure never runs (the memory is left alive), so a model proves reachability
//! by flags of its own, not by use after free.

#[cfg(not(shardrun_loom))]
pub(crate) use crossbeam_epoch::{Guard, pin};

#[cfg(shardrun_loom)]
pub(crate) use stand::{Guard, pin};

#[cfg(shardrun_loom)]
mod stand {
    /// Stand-in for an epoch guard.
    #[derive(Debug)]
    pub(crate) struct Guard(());

    /// Stand-in for pinning the thread.
    pub(crate) fn pin() -> Guard {
        Guard(())
    }

    #[allow(dead_code, reason = "the face of the real crate, of which one model uses a part")]
    impl Guard {
        /// # Safety
        /// None is needed: the closure is leaked, never run.
        pub(crate) unsafe fn defer_unchecked<F: FnOnce() -> R, R>(&self, f: F) {
            std::mem::forget(f);
        }

        pub(crate) fn flush(&self) {}
    }
}
