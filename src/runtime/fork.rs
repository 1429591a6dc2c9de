//! Tells whether the process is a fork of the one in which a runtime was built.
//! It does not know what a runtime does about it.

use crate::sync::stat::{AtomicU64, Ordering};

/// How many forks lie between this process and the one that first asked.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// The number of this process; a runtime keeps the one of its birth.
#[inline(always)]
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Whether this process is a fork of one that had a runtime.
#[inline]
pub(crate) fn is_forked() -> bool {
    generation() != 0
}

/// Sees to it that `generation` changes in every forked child. To be called before a runtime starts threads.
#[cfg(unix)]
pub(crate) fn watch() {
    use crate::sync::OnceLock;
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        // SAFETY: the handler does one atomic addition, which is allowed between fork and exec.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Elsewhere there is no fork.
#[cfg(not(unix))]
pub(crate) fn watch() {}
