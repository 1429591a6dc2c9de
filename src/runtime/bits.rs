//! A set of small numbers in atomic words: who is idle, who rests.
//! It does not know what a member stands for; clearing a bit is the one claim on it.
#![forbid(unsafe_code)]

use crate::sync::CachePadded;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A bit set of any size. A word is written only when a member comes or goes.
#[derive(Debug)]
pub(crate) struct BitSet {
    words: Box<[CachePadded<AtomicU64>]>,
}

impl BitSet {
    /// An empty set for the numbers below `size`.
    pub(crate) fn new(size: usize) -> Self {
        Self { words: (0..size.div_ceil(64)).map(|_| CachePadded::new(AtomicU64::new(0))).collect() }
    }

    /// Adds `member`.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn insert(&self, member: usize) {
        // ordering: release what the member did before; pairs with `claim`, whose owner then may read it.
        self.words[member / 64].fetch_or(1 << (member % 64), Ordering::AcqRel);
    }

    /// Takes `member` out; true if it was in, and then the caller is the one who took it.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn claim(&self, member: usize) -> bool {
        let bit = 1 << (member % 64);
        // ordering: pairs with `insert`, and with the `contains` of a member that waits to be taken out.
        self.words[member / 64].fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    /// Whether `member` is in.
    pub(crate) fn contains(&self, member: usize) -> bool {
        // ordering: pairs with `claim`: who finds itself taken out sees what its claimer did before.
        self.words[member / 64].load(Ordering::Acquire) & (1 << (member % 64)) != 0
    }

    /// Whether anybody is in; a hint unless a barrier stands between the caller's store and this look.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.words.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Takes out the smallest member that can be had.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn claim_any(&self) -> Option<usize> {
        for (at, word) in self.words.iter().enumerate() {
            let mut seen = word.load(Ordering::Relaxed);
            while seen != 0 {
                let bit = seen.trailing_zeros() as usize;
                // ordering: as in `claim`.
                let before = word.fetch_and(!(1 << bit), Ordering::AcqRel);
                if before & (1 << bit) != 0 {
                    return Some(at * 64 + bit);
                }
                seen = before;
            }
        }
        None
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::BitSet;

    #[test]
    fn each_member_is_claimed_once_in_any_number_of_words() {
        let set = BitSet::new(1_000);
        for member in [999, 0, 63, 64, 500] {
            set.insert(member);
            assert!(set.contains(member) && set.any());
        }
        assert!(set.claim(500) && !set.claim(500));
        let taken: Vec<_> = std::iter::from_fn(|| set.claim_any()).collect();
        assert_eq!(taken, [0, 63, 64, 999]);
        assert!(!set.any());
    }
}
