//! Work-stealing queues of the world that is built.
//! It does not know what is queued, nor in which order the queues are asked.
#![forbid(unsafe_code)]

#[cfg(not(shardrun_loom))]
pub(crate) use crossbeam_deque::{Injector, Steal, Stealer, Worker};

#[cfg(shardrun_loom)]
pub(crate) use super::standin::{Injector, Stealer, Worker};
#[cfg(shardrun_loom)]
pub(crate) use crossbeam_deque::Steal;

/// Takes what has lain in a queue longest. Who else is at it may make that longer, and never more than that.
#[inline]
pub(crate) fn take<T>(queue: &Injector<T>) -> Option<T> {
    loop {
        match queue.steal() {
            Steal::Success(item) => return Some(item),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}

/// As [`take`], for queues that are mostly empty: a look costs no fence, and so what was pushed just now may be missed.
#[inline]
pub(crate) fn look_and_take<T>(queue: &Injector<T>) -> Option<T> {
    if queue.is_empty() { None } else { take(queue) }
}
