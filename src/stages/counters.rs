//! What a scheduler counts: requests, executions, refusals of stale results, takings of the sequencer.
//! It does not know what the counts are used for.
#![forbid(unsafe_code)]

use super::sequencer::SequencerCounters;
use crate::sync::CachePadded;
use crate::sync::stat::{AtomicU64, Ordering};

/// The counters of one stripe of files, alone on their cache lines.
pub(crate) type StripeCounters = CachePadded<Counts>;

/// What happens to the files of one stripe.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) submits: Count,
    pub(crate) joins: Count,
    pub(crate) executions: [Count; 3],
    /// Executions that are over, whatever became of them.
    pub(crate) ended: Count,
    pub(crate) refusals: Count,
    pub(crate) abandoned: Count,
    pub(crate) commits: Count,
    pub(crate) publications: Count,
}

/// One number that several threads raise.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
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
    pub(crate) fn add(&mut self, counts: &Counts) {
        self.submits += counts.submits.get();
        self.joins += counts.joins.get();
        self.sources += counts.executions[0].get();
        self.analyses += counts.executions[1].get();
        self.artifacts += counts.executions[2].get();
        self.stale_refusals += counts.refusals.get();
        self.cancelled_results += counts.abandoned.get();
        self.external_commits += counts.commits.get();
        self.epochs += counts.publications.get();
    }
}
