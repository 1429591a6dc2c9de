//! Reads that a reader submits: they run under its share, beside whatever waits, and yet keep no writer waiting for ever.
//! It does not know the order of other jobs.
//!
//! A reader that waits for such a read would wait for itself if a queued writer kept that out. So it goes in whatever the caps
//! say, and before a writer that is due as long as a job waits for it that runs under the same share, and the share is not older
//! than what counts as a stuck reader. Others are new readers: while a writer is due they are kept out until it has run, and they take
//! turns with all else that may go, or readers that submit readers would keep every other lane out. So what a
//! due writer waits for is no longer than one reader, and what readers submit adds no more than that age.

#![forbid(unsafe_code)]

use super::actor::Actor;
use super::cell::JobPhase;
use super::job::JobRef;
use super::kind::LaneKind;
use super::meta::Meta;
use super::order::View;
use super::queue::Queues;

/// What comes of a look at them.
pub(super) enum Nested<K, C> {
    /// This one goes in, if it is still queued.
    Goes(JobRef<K, C>),
    /// None does; those that are kept out are to be looked at again then.
    KeptOut(Option<u64>),
}

impl<K, C> Actor<K, C> {
    /// The first of the reads under a reader's share that may go in. `others`: others may go, so that it is their turn if such a
    /// read that nobody waits for went in last.
    pub(super) fn nested(&self, queues: &mut Queues<K, C>, view: &View, others: bool) -> Nested<K, C> {
        if queues.nested.is_empty() || view.seen.running(LaneKind::Mutating) > 0 {
            return Nested::KeptOut(None);
        }
        let (flood, passed) = (queues.flood, others && queues.nested_went);
        let until = |job: &JobRef<K, C>| view.keeps_nested_out(flood, job.meta().arrival());
        let goes = |job: &JobRef<K, C>| {
            let meta = job.meta();
            let free = !passed && until(job).is_none();
            free || meta.state.phase() != JobPhase::Queued || self.is_waited_for(meta, view)
        };
        let found = queues.nested.iter().position(goes);
        match found.and_then(|at| queues.nested.remove(at)) {
            Some(job) => {
                queues.nested_went |= !self.is_waited_for(job.meta(), view);
                Nested::Goes(job)
            }
            None => Nested::KeptOut(queues.nested.front().and_then(until)),
        }
    }

    /// Whether a job waits for it under whose share it is to run, and that share is young enough to go before a writer.
    fn is_waited_for(&self, meta: &Meta<K, C>, view: &View) -> bool {
        let is_young = view.now.saturating_sub(meta.brought.share) < view.limits.stuck_after;
        is_young && meta.is_waited_by(self.incarnation)
    }
}
