//! The one door to `std::sync`, `std::thread`, thread-locals and the concurrent crates, so that loom and shuttle can stand behind it.
//! It knows no protocol: what is built from these parts is not its business.
//!
//! Three worlds stand behind the door, and a fourth for measuring: `--cfg shardrun_counting` is a plain build whose atomics count
//! how often they are written. A plain build hands out the standard library and the real crates. With
//! `--cfg shardrun_loom` atomics, cells, threads, locks and queues are loom's or small stand-ins made of them. With
//! `--cfg shardrun_shuttle` atomics, threads and locks are shuttle's; the real crates stay, since shuttle runs one thread at
//! a time and switches only inside its own operations.

#[cfg(shardrun_counting)]
mod counting;
pub(crate) mod epoch;
#[cfg(not(any(shardrun_loom, shardrun_shuttle)))]
mod fence;
pub(crate) mod map;
mod mutant;
pub(crate) mod queue;
#[cfg(shardrun_loom)]
mod standin;

#[cfg(shardrun_counting)]
pub use counting::counted_writes;
pub(crate) use crossbeam_utils::CachePadded;
pub(crate) use mutant::mutant;
pub(crate) use std::sync::{Arc, OnceLock, PoisonError, Weak};

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
pub(crate) use std::sync::mpsc;

/// Atomics and fences of the world that is built.
pub(crate) mod atomic {
    #[cfg(shardrun_counting)]
    pub(crate) use super::counting::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    #[cfg(not(any(shardrun_loom, shardrun_shuttle)))]
    pub(crate) use super::fence::{fence, fence_behind_exchange};
    #[cfg(shardrun_loom)]
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    #[cfg(shardrun_shuttle)]
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    #[cfg(not(any(shardrun_loom, shardrun_shuttle, shardrun_counting)))]
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

    /// A full fence behind a read-modify-write. The model checkers are shown the whole one.
    #[cfg(any(shardrun_loom, shardrun_shuttle))]
    pub(crate) fn fence_behind_exchange() {
        fence(Ordering::SeqCst);
    }

    /// The load that begins a compare-and-swap loop.
    ///
    /// Stock loom keeps only the last access of an atomic, so a loop that begins with a plain load hides races (loom #166,
    /// #392). In that world the loop therefore begins with a read-modify-write that changes nothing.
    #[inline(always)]
    pub(crate) fn load_for_cas(word: &AtomicU64, order: Ordering) -> u64 {
        #[cfg(shardrun_loom)]
        {
            let _ = order;
            word.fetch_add(0, Ordering::AcqRel)
        }
        #[cfg(not(shardrun_loom))]
        {
            word.load(order)
        }
    }
}

/// Atomics of the standard library in every world: for statistics, process-wide identities and other words that no protocol
/// rests on, and that must be constructible in a `static`.
pub(crate) mod stat {
    #[cfg(shardrun_counting)]
    pub(crate) use super::counting::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    #[cfg(not(shardrun_counting))]
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
}

/// A cell whose accesses loom checks for races.
pub(crate) mod cell {
    #[cfg(shardrun_loom)]
    pub(crate) use loom::cell::UnsafeCell;

    /// The standard cell behind loom's closure interface.
    #[cfg(not(shardrun_loom))]
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    #[cfg(not(shardrun_loom))]
    impl<T> UnsafeCell<T> {
        #[inline(always)]
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// Shared access by raw pointer; the caller proves that nobody writes meanwhile.
        #[inline(always)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        /// Exclusive access by raw pointer; the caller proves that nobody else touches the cell meanwhile.
        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

/// Threads of the world that is built.
pub(crate) mod thread {
    #[cfg(shardrun_loom)]
    pub(crate) use loom::thread::{Builder, JoinHandle, Thread, current, park, yield_now};
    #[cfg(shardrun_shuttle)]
    pub(crate) use shuttle::thread::{Builder, JoinHandle, Thread, current, park, yield_now};
    #[cfg(not(any(shardrun_loom, shardrun_shuttle)))]
    pub(crate) use std::thread::{Builder, JoinHandle, Thread, current, park, yield_now};

    #[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
    pub(crate) use std::thread::scope;

    #[cfg(all(test, shardrun_loom))]
    pub(crate) use loom::thread::spawn;
    #[cfg(all(test, shardrun_shuttle))]
    pub(crate) use shuttle::thread::spawn;

    pub(crate) use std::thread::available_parallelism;

    /// Parks for at most `limit`. The model checkers know no time: there it parks until it is unparked.
    pub(crate) fn park_timeout(limit: std::time::Duration) {
        #[cfg(not(any(shardrun_loom, shardrun_shuttle)))]
        std::thread::park_timeout(limit);
        #[cfg(any(shardrun_loom, shardrun_shuttle))]
        {
            let _ = limit;
            park();
        }
    }
}

/// Spin hints of the world that is built.
pub(crate) mod hint {
    #[cfg(shardrun_loom)]
    pub(crate) use loom::hint::spin_loop;
    #[cfg(shardrun_shuttle)]
    pub(crate) use shuttle::hint::spin_loop;
    #[cfg(not(any(shardrun_loom, shardrun_shuttle)))]
    pub(crate) use std::hint::spin_loop;
}

/// Thread-locals of the world that is built.
#[cfg(shardrun_loom)]
pub(crate) use loom::thread_local;
#[cfg(shardrun_shuttle)]
pub(crate) use shuttle::thread_local;
#[cfg(not(any(shardrun_loom, shardrun_shuttle)))]
pub(crate) use std::thread_local;

/// Thread-locals whose first value is a constant: in a plain build they cost no check of whether they are there yet.
macro_rules! local {
    ($($(#[$attr:meta])* static $name:ident: $kind:ty = $init:expr;)*) => {
        #[cfg(not(any(shardrun_loom, shardrun_shuttle)))]
        $crate::sync::thread_local! { $($(#[$attr])* static $name: $kind = const { $init };)* }
        #[cfg(any(shardrun_loom, shardrun_shuttle))]
        $crate::sync::thread_local! { $($(#[$attr])* static $name: $kind = $init;)* }
    };
}
pub(crate) use local;

#[cfg(shardrun_loom)]
use loom::sync as blocking;
#[cfg(shardrun_shuttle)]
use shuttle::sync as blocking;
#[cfg(not(any(shardrun_loom, shardrun_shuttle)))]
use std::sync as blocking;

pub(crate) use blocking::{Condvar, MutexGuard};

/// A mutex that a panic does not poison: what it guards is plain data, and every section that holds it leaves that data whole.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(blocking::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(blocking::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
