//! Units in reserve: each thread's stripe holds some, so that admitting and ending work touches no word that all threads write.
//! They do not know how many units there are, nor who waits for one.

#![forbid(unsafe_code)]

use crate::runtime::stripe;
use crate::sync::CachePadded;
use crate::sync::atomic::{AtomicU64, Ordering, load_for_cas};

/// A unit in the lower half of a stripe; the upper half counts what was put in, so that a reader can tell two looks apart.
const FREE: u64 = u32::MAX as u64;
const PUT: u64 = 1 << 32;

/// Reserves, one a thread as far as there are enough.
pub(crate) struct Stripes {
    words: Box<[CachePadded<AtomicU64>]>,
}

impl Stripes {
    /// `count` empty stripes.
    pub(crate) fn new(count: usize) -> Self {
        Self { words: (0..count.max(1)).map(|_| CachePadded::new(AtomicU64::new(0))).collect() }
    }

    /// The calling thread's stripe.
    #[inline]
    pub(crate) fn mine(&self) -> usize {
        stripe(self.words.len())
    }

    /// Takes `units` from a stripe, if it holds as many.
    #[inline]
    pub(crate) fn take(&self, stripe: usize, units: u32) -> bool {
        let word = &self.words[stripe];
        let mut seen = load_for_cas(word, Ordering::Relaxed);
        while seen & FREE >= u64::from(units) {
            // ordering: Acquire what the last holder of the units did; Release passes it on along the word.
            match word.compare_exchange_weak(seen, seen - u64::from(units), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Puts `units` into a stripe. Returns how many it holds now.
    #[inline]
    pub(crate) fn put(&self, stripe: usize, units: u32) -> u32 {
        // ordering: Release what was done with the units; see `take`.
        let before = self.words[stripe].fetch_add(PUT + u64::from(units), Ordering::AcqRel);
        ((before & FREE) as u32).wrapping_add(units)
    }

    /// Takes everything from one stripe.
    pub(crate) fn empty(&self, stripe: usize) -> u32 {
        let word = &self.words[stripe];
        // A look of its own, so that the models see a plain load here as a plain build does.
        if word.load(Ordering::Relaxed) & FREE == 0 {
            return 0;
        }
        let mut seen = load_for_cas(word, Ordering::Relaxed);
        while seen & FREE != 0 {
            match word.compare_exchange_weak(seen, seen & !FREE, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return (seen & FREE) as u32,
                Err(now) => seen = now,
            }
        }
        0
    }

    /// How many stripes there are.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// What they hold together; exact while nobody puts or takes.
    pub(crate) fn free(&self) -> u32 {
        // ordering: Acquire, so that a look that sees units put in sees what was done before.
        self.words.iter().map(|word| (word.load(Ordering::Acquire) & FREE) as u32).fold(0, u32::saturating_add)
    }

    /// A mark that differs from one look to the next if anything was put in meanwhile.
    pub(crate) fn mark(&self) -> u64 {
        self.words.iter().map(|word| word.load(Ordering::Acquire) >> 32).fold(0, u64::wrapping_add)
    }
}
