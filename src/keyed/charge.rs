//! The unit of a budget that a computation costs: taken when one is about to begin, and given back unless it has begun.
//! It does not know what is computed.
#![forbid(unsafe_code)]

use super::request::Limits;
use crate::admission::{Budget, Refused};
use crate::flight::{Interrupt, Until};
use crate::runtime::Spawner;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// How the unit is had, if a computation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Waits for it.
    Wait,
    /// Declines if there is none.
    Try,
    /// Needs none: somebody else answers for it.
    Free,
}

/// Why there is none.
#[derive(Debug)]
pub(crate) enum Lack {
    /// The budget is spent.
    Declined(Refused),
    /// It could never be had by waiting, or the request has ended meanwhile.
    Ended(Interrupt),
}

impl Lack {
    /// What a request that cannot be declined ends with.
    pub(crate) fn why(self) -> Interrupt {
        match self {
            Self::Declined(_) => Interrupt::Stalled,
            Self::Ended(why) => why,
        }
    }
}

/// The unit of one request, given back when this is dropped.
pub(crate) struct Charge<'a> {
    budget: Option<&'a Budget>,
    how: Unit,
    held: bool,
}

impl<'a> Charge<'a> {
    /// None is in hand yet.
    pub(crate) fn new(budget: Option<&'a Budget>, how: Unit) -> Self {
        Self { budget: budget.filter(|_| how != Unit::Free), how, held: false }
    }

    /// Sees to it that a unit is in hand, if one is needed.
    pub(crate) fn take(&mut self, limits: &Limits, spawner: &Spawner) -> Result<(), Lack> {
        let Some(budget) = self.budget.filter(|_| !self.held) else { return Ok(()) };
        if !budget.take(1) {
            if self.how == Unit::Try {
                return Err(Lack::Declined(budget.refused(1)));
            }
            let taken = budget.take_until(1, spawner, limits.token.as_ref(), limits.deadline);
            taken.map_err(|_| lacks(limits, spawner))?;
        }
        self.held = true;
        Ok(())
    }

    /// As `take`, as a future that stands in line without a thread. Inside a job it does not: that might be who is to make room.
    pub(crate) async fn take_async(&mut self, limits: &Limits, spawner: &Spawner) -> Result<(), Lack> {
        let Some(budget) = self.budget.filter(|_| !self.held) else { return Ok(()) };
        let (mut line, mut heard) = (pin!(budget.acquire_async(1)), None);
        let unit = poll_fn(|cx| {
            if let Some(why) = limits.over(spawner) {
                return Poll::Ready(Err(Lack::Ended(why)));
            }
            if budget.must_not_wait() {
                budget.take_at_once(1);
                return Poll::Ready(Ok(None));
            }
            if let Poll::Ready(unit) = line.as_mut().poll(cx) {
                return Poll::Ready(unit.map(Some).map_err(|_| lacks(limits, spawner)));
            }
            if limits.deadline.is_some() && spawner.may_wait().is_err() {
                // A deadline that nobody would wait for has passed.
                return Poll::Ready(Err(Lack::Ended(Interrupt::DeadlinePassed)));
            }
            heard = Some(Until::wakes(cx.waker(), spawner, limits.token.as_ref(), limits.deadline));
            Poll::Pending
        });
        if let Some(unit) = unit.await? {
            unit.keep();
        }
        self.held = true;
        Ok(())
    }

    /// Whether the computation that is about to begin is to give a unit back.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// The computation has begun, and gives the unit back.
    pub(crate) fn begun(&mut self) {
        self.held = false;
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        if let (true, Some(budget)) = (self.held, self.budget) {
            budget.release(1);
        }
    }
}

/// Something has ended the request; else it is a budget of nothing, or a runtime without threads has nothing left to drive, so that nobody
/// would ever free any.
fn lacks(limits: &Limits, spawner: &Spawner) -> Lack {
    Lack::Ended(limits.over(spawner).unwrap_or(Interrupt::Stalled))
}
