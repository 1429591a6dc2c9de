//! How much of what was computed a cache keeps: nothing, everything, so many values, or so much weight.
//! It does not know which values make room.
#![forbid(unsafe_code)]

use super::shelf::{Bounds, WEIGHT_MAX};
use crate::flight::Contained;
use std::fmt;

/// What one value weighs.
pub(crate) type Weigh<K, V> = Contained<Box<dyn Fn(&K, &V) -> u64 + Send + Sync>>;

/// How much a cache keeps of what was computed.
///
/// ```
/// use shardrun::Retain;
///
/// let retain = Retain::count(10_000).weight(64 << 20, |_: &u64, text: &String| text.len() as u64);
/// # let _ = retain;
/// ```
#[must_use = "it says what a cache keeps when it is opened with it"]
pub struct Retain<K, V> {
    pub(crate) bounds: Option<Bounds>,
    pub(crate) weigh: Option<Weigh<K, V>>,
}

impl<K, V> Retain<K, V> {
    /// Keeps nothing: a value is for those who ask while it is computed.
    pub fn none() -> Self {
        Self { bounds: None, weigh: None }
    }

    /// Keeps everything, until it is evicted by a call.
    pub fn all() -> Self {
        Self { bounds: Some(Bounds::NONE), weigh: None }
    }

    /// Keeps `count` values at most. Which of them make room for new ones is decided by second chances: those that were not used
    /// since it was last their turn.
    pub fn count(count: usize) -> Self {
        Self { bounds: Some(Bounds { count, ..Bounds::NONE }), weigh: None }
    }

    /// Keeps values that weigh `most` together, beside what is said else; `weigh` tells what one weighs, and is called by the thread
    /// that has computed it. A value that weighs more than that alone is not kept, nor is one that weighs 2⁶¹ or more, nor one whose
    /// weighing panics. With [`none`](Self::none) nothing is kept still: begin with [`all`](Self::all) for a bound on weight alone.
    pub fn weight(self, most: u64, weigh: impl Fn(&K, &V) -> u64 + Send + Sync + 'static) -> Self {
        // So sums of what is kept stay far from what a word holds.
        let weight = if most == u64::MAX { most } else { most.min(WEIGHT_MAX) };
        let bounds = self.bounds.map(|bounds| Bounds { weight, ..bounds });
        Self { bounds, weigh: Some(Contained::new(Box::new(weigh))) }
    }
}

impl<K, V> fmt::Debug for Retain<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retain").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}
