//! Waiting for units of a budget as a future.
//! It does not know how the budget counts.

#![forbid(unsafe_code)]

use super::answer::BudgetError;
use super::budget::{Budget, BudgetGuard, Grant};
use crate::runtime::Waiting;
use crate::sync::Arc;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Units to come: from [`Budget::acquire_async`].
#[must_use = "a future does nothing until it is polled"]
pub struct Acquiring {
    budget: Budget,
    units: u32,
    state: State,
}

enum State {
    New,
    InLine(Arc<Grant>, Waiting),
    Over,
}

impl Acquiring {
    pub(super) fn new(budget: Budget, units: u32) -> Self {
        Self { budget, units, state: State::New }
    }

    fn granted(&mut self) -> Poll<Result<BudgetGuard, BudgetError>> {
        self.state = State::Over;
        Poll::Ready(Ok(BudgetGuard::of(&self.budget, self.units)))
    }
}

impl Future for Acquiring {
    type Output = Result<BudgetGuard, BudgetError>;

    /// # Panics
    /// If it is polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let State::New = this.state {
            if this.budget.take(this.units) {
                return this.granted();
            }
            if this.units > this.budget.capacity() {
                this.state = State::Over;
                return Poll::Ready(Err(BudgetError::TooMany(this.budget.refused(this.units))));
            }
            match this.budget.stand_in_line(this.units) {
                None => return this.granted(),
                Some((grant, place)) => this.state = State::InLine(grant, place),
            }
        }
        match &this.state {
            State::InLine(grant, _) if grant.register(cx.waker()) => this.granted(),
            State::InLine(..) => Poll::Pending,
            _ => panic!("polled again after it was ready"),
        }
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        if let State::InLine(grant, place) = &self.state
            && !self.budget.leave_line(grant, place)
        {
            self.budget.release(self.units);
        }
    }
}

impl fmt::Debug for Acquiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquiring").field("units", &self.units).finish_non_exhaustive()
    }
}
