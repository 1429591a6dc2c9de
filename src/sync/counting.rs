//! Atomics of the instrumented build (`--cfg shardrun_counting`): each counts how often it is written.
//! They do not know which word they are, nor whose; reference counts and the words of the crates below are not among them.
#![forbid(unsafe_code)]

use std::sync::atomic as plain;

pub(crate) use plain::Ordering;

static STORES: plain::AtomicU64 = plain::AtomicU64::new(0);
static EXCHANGES: plain::AtomicU64 = plain::AtomicU64::new(0);

/// How often words of the engine were written so far: by plain stores, and by exchanges, also those that failed.
pub fn counted_writes() -> (u64, u64) {
    (STORES.load(Ordering::Relaxed), EXCHANGES.load(Ordering::Relaxed))
}

#[inline(always)]
fn stored() {
    STORES.fetch_add(1, Ordering::Relaxed);
}

#[inline(always)]
fn exchanged() {
    EXCHANGES.fetch_add(1, Ordering::Relaxed);
}

macro_rules! counted {
    ($name:ident $(<$t:ident>)?, $value:ty) => {
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub(crate) struct $name$(<$t>)?(plain::$name$(<$t>)?);

        impl$(<$t>)? $name$(<$t>)? {
            #[inline(always)]
            pub(crate) const fn new(value: $value) -> Self {
                Self(plain::$name::new(value))
            }

            #[inline(always)]
            pub(crate) fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            #[inline(always)]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            #[inline(always)]
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                stored();
                self.0.store(value, order);
            }

            #[inline(always)]
            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                exchanged();
                self.0.swap(value, order)
            }
        }
    };
}

macro_rules! number {
    ($name:ident, $value:ty, $($method:ident)*) => {
        counted!($name, $value);

        impl $name {$(
            #[inline(always)]
            pub(crate) fn $method(&self, by: $value, order: Ordering) -> $value {
                exchanged();
                self.0.$method(by, order)
            }
        )*}
    };
}

counted!(AtomicPtr<T>, *mut T);
counted!(AtomicBool, bool);
number!(AtomicU32, u32, fetch_add fetch_sub fetch_or fetch_and fetch_max fetch_min);
number!(AtomicU64, u64, fetch_add fetch_sub fetch_or fetch_and fetch_max);
number!(AtomicUsize, usize, fetch_add fetch_sub);

macro_rules! compared {
    ($name:ident $(<$t:ident>)?, $value:ty, $($method:ident)*) => {
        impl$(<$t>)? $name$(<$t>)? {$(
            #[inline(always)]
            pub(crate) fn $method(
                &self,
                old: $value,
                new: $value,
                won: Ordering,
                lost: Ordering,
            ) -> Result<$value, $value> {
                exchanged();
                self.0.$method(old, new, won, lost)
            }
        )*}
    };
}

compared!(AtomicPtr<T>, *mut T, compare_exchange compare_exchange_weak);
compared!(AtomicU32, u32, compare_exchange compare_exchange_weak);
compared!(AtomicU64, u64, compare_exchange compare_exchange_weak);
compared!(AtomicUsize, usize, compare_exchange);

impl AtomicU64 {
    #[inline(always)]
    pub(crate) fn fetch_update(
        &self,
        won: Ordering,
        lost: Ordering,
        step: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        exchanged();
        self.0.fetch_update(won, lost, step)
    }
}
