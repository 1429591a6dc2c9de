//! How many stages may run at once in each pool: permits that are taken before the claim and given back when the stage is over.
//! It does not know how a stage runs, nor which tickets there are.
#![forbid(unsafe_code)]

use super::host::Host;
use super::line::Line;
use super::ready::Rest;
use super::shared::Shared;
use super::ticket::Ticket;
use crate::flight::trampoline;
use crate::runtime::{Place, Pool, Spawner};
use crate::sync::Arc;
use crate::sync::stat::{AtomicUsize, Ordering};
use std::error::Error;
use std::fmt;

/// A limit of nothing: nothing would ever run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroLimit;

impl fmt::Display for ZeroLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a limit of no stages at once would let nothing run")
    }
}

impl Error for ZeroLimit {}

/// What a [limit](super::StagesBuilder::limit) allows and what is in use of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolUse {
    /// How many stages may run at once.
    pub limit: u32,
    /// How many run, or are about to.
    pub in_flight: u32,
    /// Stages that a waiting worker runs over the limit, since it needs them itself.
    pub on_loan: u32,
    /// Tickets that wait for a permit.
    pub waiting: u32,
}

/// The limits of a scheduler, one for each pool that has one.
pub(crate) struct Capacity<H: Host>([Option<Limited<H>>; 2]);

struct Limited<H: Host> {
    line: Line<InLine<H>>,
    loans: AtomicUsize,
}

/// What stands in line for a permit.
pub(crate) enum InLine<H: Host> {
    /// A stage of a slot.
    Slot(Ticket<H>),
    /// The next of several Artifacts of a revision.
    Rest(Rest<H>),
}

impl<H: Host> InLine<H> {
    /// Runs it, or another of the line in its place, if there is a permit. Else it waits now: its permit brings it back.
    pub(crate) fn enter(self) {
        match Permit::enter(self) {
            Some((Self::Slot(ticket), _permit)) => ticket.work(),
            Some((Self::Rest(rest), _permit)) => rest.work(),
            None => {}
        }
    }

    fn way(&self) -> (Arc<Shared<H>>, Place) {
        match self {
            Self::Slot(ticket) => ticket.way(),
            Self::Rest(rest) => rest.way(),
        }
    }

    fn is_granted(&self) -> bool {
        match self {
            Self::Slot(ticket) => ticket.is_granted(),
            Self::Rest(rest) => rest.is_granted(),
        }
    }

    fn with_permit(self, granted: bool) -> Self {
        match self {
            Self::Slot(ticket) => Self::Slot(ticket.with_permit(granted)),
            Self::Rest(rest) => Self::Rest(rest.with_permit(granted)),
        }
    }

    fn push(self) {
        match self {
            Self::Slot(ticket) => ticket.push(),
            Self::Rest(rest) => rest.push(),
        }
    }
}

/// Leave to run one stage, given back when it is dropped.
#[must_use]
pub(crate) struct Permit<H: Host>(Option<(Arc<Shared<H>>, Pool, bool)>);

impl<H: Host> Capacity<H> {
    /// The limits that are tighter than the pools themselves: where every thread of a pool may run a stage, the threads are the
    /// permits.
    pub(crate) fn new(limits: [Option<u32>; 2], spawner: &Spawner) -> Self {
        let tighter = |at: usize, pool| {
            let limit =
                limits[at].filter(|&limit| spawner.most_threads(pool).is_none_or(|most| (limit as usize) < most))?;
            Some(Limited { line: Line::new(limit), loans: AtomicUsize::new(0) })
        };
        Self([tighter(0, Pool::Workers), tighter(1, Pool::Io)])
    }

    /// Whether the pool has no limit.
    #[inline]
    pub(crate) fn is_free(&self, pool: Pool) -> bool {
        self.0[pool as usize].is_none()
    }

    fn of(&self, pool: Pool) -> Option<&Limited<H>> {
        self.0[pool as usize].as_ref()
    }

    pub(crate) fn in_use(&self, pool: Pool) -> Option<PoolUse> {
        let limited = self.of(pool)?;
        let (in_flight, waiting) = limited.line.in_use();
        Some(PoolUse {
            limit: limited.line.limit(),
            in_flight,
            on_loan: limited.loans.load(Ordering::Relaxed) as u32,
            waiting,
        })
    }
}

impl<H: Host> Permit<H> {
    fn limited(shared: &Arc<Shared<H>>, pool: Pool, loan: bool) -> Self {
        Self(Some((shared.clone(), pool, loan)))
    }

    /// Leave for what was popped; or for another of the line, in its place. None if it waits now.
    fn enter(ticket: InLine<H>) -> Option<(InLine<H>, Self)> {
        let (shared, place) = ticket.way();
        let Some(limited) = shared.capacity.of(place.pool) else { return Some((ticket, Self(None))) };
        let permit = Self::limited(&shared, place.pool, false);
        if ticket.is_granted() || limited.line.try_take() {
            return Some((ticket.with_permit(false), permit));
        }
        match limited.line.wait(place.priority.level(), ticket) {
            Some(next) => Some((next, permit)),
            None => {
                permit.keep();
                None
            }
        }
    }

    /// Leave that is there at once, if it is.
    pub(crate) fn at_once(shared: &Arc<Shared<H>>, pool: Pool) -> Option<Self> {
        let Some(limited) = shared.capacity.of(pool) else { return Some(Self(None)) };
        limited.line.try_take().then(|| Self::limited(shared, pool, false))
    }

    /// Leave for who waits for the stage itself: over the limit, if need be.
    pub(crate) fn lent(shared: &Arc<Shared<H>>, pool: Pool) -> Self {
        Self::at_once(shared, pool).unwrap_or_else(|| {
            if let Some(limited) = shared.capacity.of(pool) {
                limited.loans.fetch_add(1, Ordering::Relaxed);
            }
            Self::limited(shared, pool, true)
        })
    }

    /// Has nothing to give back.
    fn keep(mut self) {
        self.0 = None;
    }
}

impl<H: Host> Drop for Permit<H> {
    fn drop(&mut self) {
        let Some((shared, pool, loan)) = self.0.take() else { return };
        let Some(limited) = shared.capacity.of(pool) else { return };
        if loan {
            limited.loans.fetch_sub(1, Ordering::Relaxed);
        } else if let Some(next) = limited.line.give_back() {
            next.with_permit(true).push();
        }
    }
}

/// A ticket that was granted a permit is thrown away by the runtime: the permit goes to the next. From the trampoline, since that one
/// is thrown away too, and so on.
pub(crate) fn pass_on<H: Host>(shared: &Arc<Shared<H>>, pool: Pool) {
    let permit = Permit::limited(shared, pool, false);
    trampoline::run(move || drop(permit));
}
