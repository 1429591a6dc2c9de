//! The short way of plain reads through a turn, where nothing but reads is queued.
//! It does not know the order of other jobs, nor how the turn is left.

#![forbid(unsafe_code)]

use super::actor::{Actor, Inside};
use super::job::{JobRef, claim};
use super::kind::{LaneClass, LaneKind};
use super::order::lets_read;
use super::outside::Outside;
use super::turn::Visit;
use super::word::Seen;

/// A plain read.
pub(super) const READ: (LaneClass, LaneKind) = (LaneClass::Interactive, LaneKind::PureRead);

/// What a short look that finds no read to begin comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRead {
    /// None may go now.
    Waits,
    /// There is more to look at.
    LookAtAll,
}

impl<K, C> Actor<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    /// The next read, which is claimed, where nothing but reads is queued: then there is nothing to put in order, and no age matters.
    /// `why` is set if there is none: a result of both would go through memory.
    #[inline(always)]
    pub(super) fn next_read(
        &self,
        inside: &mut Inside<K, C>,
        seen: Seen,
        visit: &mut Visit<'_, K, C>,
        outside: &mut Outside<K, C>,
        why: &mut NoRead,
    ) -> Option<JobRef<K, C>> {
        *why = NoRead::LookAtAll;
        self.take_in(inside, visit, outside);
        let queues = inside.queues.as_deref_mut().filter(|queues| queues.only_reads())?;
        // A drain that goes on is left to the last of its jobs.
        let drains = if seen.is_draining() { self.drain_left() == 0 } else { !queues.drains.asked.is_empty() };
        let plain = !seen.is_closed() && !drains && self.asks_no_drain() && self.grants.is_empty();
        let has_share = inside.credit > 0 || visit.alone;
        if !plain || !has_share || visit.place.is_some() || self.has_many_dead() {
            return None;
        }
        queues.flood.is_over();
        queues.flood_before = queues.flood;
        if !lets_read(&self.shared.limits, seen) {
            *why = NoRead::Waits;
            return None;
        }
        let job = queues.pop(READ.0, READ.1)?;
        if !claim(&job) {
            self.forget_dead(1);
            outside.lists().trash.push(job);
            return None;
        }
        inside.credit -= self.price();
        outside.front = inside.credit > 0;
        if queues.is_empty() {
            inside.credit = inside.credit.min(0);
            *visit.spare = inside.queues.take();
        }
        Some(job)
    }
}
