//! How a thread sleeps until a waker wakes it: one waker per thread, made once, and the token that says why it was woken.
//! It does not know what the thread waits for.

#![forbid(unsafe_code)]

use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{self, Thread};
use std::cell::Cell;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

/// How long who waits for another thread that tells nobody leaves it in peace.
const DOZE: Duration = Duration::from_millis(1);

/// A thread that can be woken.
pub(crate) struct Parker {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // ordering: Release pairs with the swap in `park_until`: who takes the token sees what was done before the wake. The
        // sleeper's condition itself is published elsewhere; the token only says that it is worth a look.
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.thread.unpark();
        }
    }
}

crate::sync::local! {
    static MINE: Cell<Option<Arc<Parker>>> = Cell::new(None);
}

impl Parker {
    /// This thread's own. Made at the first use, and kept; if the thread is being torn down, made anew.
    pub(crate) fn mine() -> Arc<Self> {
        let fresh = || Arc::new(Self { thread: thread::current(), woken: AtomicBool::new(false) });
        let parker = MINE.try_with(Cell::take).ok().flatten().unwrap_or_else(fresh);
        let _ = MINE.try_with(|mine| mine.set(Some(parker.clone())));
        parker
    }

    /// The waker that ends a [`park_until`](Self::park_until).
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(self.clone())
    }

    /// Sleeps for a moment, or until woken through the waker. The model checkers know no time: there it lets others run.
    pub(crate) fn doze(&self) {
        if cfg!(any(shardrun_loom, shardrun_shuttle)) {
            thread::yield_now();
        } else {
            self.park_until(Instant::now().checked_add(DOZE));
        }
    }

    /// Sleeps until woken through the waker, or until `deadline`. A wake that came before is not lost. Unparks from elsewhere
    /// do not end it. True if it was woken.
    pub(crate) fn park_until(&self, deadline: Option<Instant>) -> bool {
        loop {
            // ordering: Acquire pairs with `wake_by_ref`. If the token came first we see it; else its unpark ends our park.
            if self.woken.swap(false, Ordering::AcqRel) {
                return true;
            }
            match deadline {
                None => thread::park(),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    thread::park_timeout(left);
                }
            }
        }
    }
}
