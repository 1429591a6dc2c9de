//! What a scheduler counts: requests, executions, refusals of stale results, takings of the sequencer.
//! It does not know what the counts are used for.
//!
//! Each of the first threads has a line of its own, which it alone writes, so that to count costs no exchange; those that come
//! later share others. Lines are few, since a process may have thousands of schedulers.
#![forbid(unsafe_code)]

use super::sequencer::SequencerCounters;
use crate::runtime::{own_stripe, own_stripes, stripe, stripes};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{CachePadded, mutant};

/// Lines of one thread that there are at most.
const OWNED_MAX: usize = 64;
/// Lines of several threads that there are at most.
const SHARED_MAX: usize = 16;

/// The counts of one scheduler.
pub(crate) struct Counters {
    owned: Box<[CachePadded<Counts>]>,
    shared: Box<[CachePadded<Counts>]>,
}

/// What happens on one thread, or on some.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) submits: Count,
    pub(crate) joins: Count,
    pub(crate) executions: [Count; 3],
    /// Claims that were tried.
    pub(crate) claims: Count,
    /// Claims that are over, whatever became of them.
    pub(crate) ended: Count,
    pub(crate) refusals: Count,
    pub(crate) abandoned: Count,
    pub(crate) commits: Count,
    pub(crate) publications: Count,
}

/// One number.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

/// Where the calling thread counts.
#[derive(Clone, Copy)]
pub(crate) struct Here<'a> {
    counts: &'a Counts,
    is_mine: bool,
}

impl Here<'_> {
    /// Counts one. What the thread did before is seen by who sees the count.
    #[inline]
    pub(crate) fn one(self, of: impl FnOnce(&Counts) -> &Count) {
        let Count(word) = of(self.counts);
        if self.is_mine {
            // ordering: this thread alone writes it. Release pairs with `Counters::sum`.
            word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        } else {
            word.fetch_add(1, Ordering::Release);
        }
    }
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self::of(own_stripes().min(OWNED_MAX), stripes().min(SHARED_MAX))
    }

    /// With so many lines of one thread, and so many (not zero) of several.
    pub(crate) fn of(owned: usize, shared: usize) -> Self {
        let lines = |count| (0..count).map(|_| CachePadded::default()).collect();
        Self { owned: lines(owned), shared: lines(shared) }
    }

    /// Where the calling thread counts.
    #[inline]
    pub(crate) fn here(&self) -> Here<'_> {
        match own_stripe().and_then(|mine| self.owned.get(mine)) {
            Some(counts) => Here { counts, is_mine: true },
            None => self.with_others(),
        }
    }

    #[cold]
    fn with_others(&self) -> Here<'_> {
        Here { counts: &self.shared[stripe(self.shared.len())], is_mine: false }
    }

    /// Whether nothing ran all the while that `looks` took, which finds out whether anything that is wanted is left to run.
    ///
    /// # Errors
    /// Those of `looks`.
    pub(crate) fn is_still<E>(&self, looks: impl FnOnce() -> Result<bool, E>) -> Result<bool, E> {
        let too_early = mutant("quiesce.begun_first").then(|| self.begun());
        // First those that are over, last those that were begun, or about to be: if they are as many, nothing ran in between.
        let ended = self.ended();
        Ok(looks()? && too_early.unwrap_or_else(|| self.begun()) == ended)
    }

    /// Whether something is claimed, for whomever, or about to be.
    pub(crate) fn is_busy(&self) -> bool {
        self.begun() != self.ended()
    }

    fn ended(&self) -> u64 {
        self.sum(|counts| &counts.ended)
    }

    fn begun(&self) -> u64 {
        self.sum(|counts| &counts.claims)
    }

    /// One number over all threads.
    pub(crate) fn sum(&self, of: impl Fn(&Counts) -> &Count) -> u64 {
        // ordering: pairs with `Here::one`: what the counted thing came after is seen from here on.
        let lines = self.owned.iter().chain(&self.shared);
        lines.map(|counts| of(counts).0.load(Ordering::Acquire)).fold(0, u64::wrapping_add)
    }
}

/// A snapshot of what a scheduler has counted.
///
/// Each number is exact for the past; together they are no single moment, since nobody is stopped for the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StagesCounters {
    /// Submissions: a batch counts once, an empty batch not at all.
    pub submits: u64,
    /// Requests that joined an execution which another had asked for.
    pub joins: u64,
    /// Executions of Source that began.
    pub sources: u64,
    /// Executions of Analysis that began.
    pub analyses: u64,
    /// Executions of an Artifact that began.
    pub artifacts: u64,
    /// Results that were refused since the file had moved on, the scheduler had shut down, or an Artifact had been committed from
    /// outside, before they were sealed.
    pub stale_refusals: u64,
    /// Results that were dropped since everybody who wanted them had withdrawn.
    pub cancelled_results: u64,
    /// Artifacts that were committed from outside.
    pub external_commits: u64,
    /// Source roots that there are.
    pub live_roots: u64,
    /// Superseded versions of files that are kept for them.
    pub retained_versions: u64,
    /// Transitions that roots tell apart: edits, batches, and Sources that were published. Each counts once, however many files it
    /// moved.
    pub epochs: u64,
    /// Files for which an edit's text stands.
    pub overlaid: u64,
    /// The sequencer's.
    pub sequencer: SequencerCounters,
}

impl StagesCounters {
    /// What `counters` say, beside what others know.
    pub(crate) fn of(counters: &Counters) -> Self {
        Self {
            submits: counters.sum(|counts| &counts.submits),
            joins: counters.sum(|counts| &counts.joins),
            sources: counters.sum(|counts| &counts.executions[0]),
            analyses: counters.sum(|counts| &counts.executions[1]),
            artifacts: counters.sum(|counts| &counts.executions[2]),
            stale_refusals: counters.sum(|counts| &counts.refusals),
            cancelled_results: counters.sum(|counts| &counts.abandoned),
            external_commits: counters.sum(|counts| &counts.commits),
            epochs: counters.sum(|counts| &counts.publications),
            ..Self::default()
        }
    }
}
