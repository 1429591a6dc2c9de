//! How many help a counted run: counted in, and out, so that none stays away while there is more than one can do.
//! It does not know what they do. Nothing rests on it but that work is shared: whoever pushed drains what it pushed.
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU64, Ordering, fence, load_for_cas};
use crate::sync::{CachePadded, mutant};

#[derive(Debug)]
pub(crate) struct Hands {
    most: u64,
    count: CachePadded<AtomicU64>,
}

impl Hands {
    pub(crate) fn new(most: u64) -> Self {
        Self { most, count: CachePadded::new(AtomicU64::new(0)) }
    }

    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// Counts one more, if there may be one.
    pub(crate) fn join(&self) -> bool {
        // ordering: the count alone is judged; what the helper sees is ordered by the seat that it takes.
        let mut count = load_for_cas(&self.count, Ordering::Relaxed);
        loop {
            if count >= self.most {
                return false;
            }
            match self.count.compare_exchange_weak(count, count + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
    }

    /// The caller has pushed work for others: whether somebody may join for it.
    #[inline]
    pub(crate) fn wanted(&self) -> bool {
        // ordering: pairs with `leave`. If we come first, who leaves sees what we pushed; else we see that it has left.
        if !mutant("graph.hands.push_no_fence") {
            fence(Ordering::SeqCst);
        }
        self.count.load(Ordering::Relaxed) < self.most
    }

    /// One leaves for want of work. It must look for work once more after this.
    pub(crate) fn leave(&self) {
        // ordering: pairs with `wanted`, by the fence.
        self.count.fetch_sub(1, Ordering::Relaxed);
        if !mutant("graph.hands.leave_no_fence") {
            fence(Ordering::SeqCst);
        }
    }
}
