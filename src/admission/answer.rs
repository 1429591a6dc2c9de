//! What a submission that never blocks is answered, and why units of a budget could not be waited for.
//! It does not know what was submitted.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt;

/// The answer to a submission that must not block.
#[derive(Debug)]
#[must_use = "a submission that was declined has changed nothing"]
#[non_exhaustive]
pub enum Admission<H, R = Refused> {
    /// It was admitted, and counts against the budget until it is over.
    Admitted(H),
    /// The same work was under way already: this is one more handle on it, and costs no budget.
    DedupeJoined(H),
    /// The budget is spent: nothing was changed.
    Backpressured(R),
}

impl<H, R> Admission<H, R> {
    /// The handle, if there is one.
    pub fn handle(self) -> Option<H> {
        match self {
            Self::Admitted(handle) | Self::DedupeJoined(handle) => Some(handle),
            Self::Backpressured(_) => None,
        }
    }

    /// The handle.
    ///
    /// # Errors
    /// What was asked for and what was free, if the budget is spent.
    pub fn into_result(self) -> Result<H, R> {
        match self {
            Self::Admitted(handle) | Self::DedupeJoined(handle) => Ok(handle),
            Self::Backpressured(refused) => Err(refused),
        }
    }

    /// The same answer with another kind of handle.
    pub fn map<G>(self, f: impl FnOnce(H) -> G) -> Admission<G, R> {
        match self {
            Self::Admitted(handle) => Admission::Admitted(f(handle)),
            Self::DedupeJoined(handle) => Admission::DedupeJoined(f(handle)),
            Self::Backpressured(refused) => Admission::Backpressured(refused),
        }
    }
}

/// A budget declined: what was asked for, what was free and what there is at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// Units asked for.
    pub asked: u32,
    /// Units that were free when it was declined. May be enough if others wait in line.
    pub free: u32,
    /// Units that there are at all. If fewer than were asked for, asking again is of no use.
    pub capacity: u32,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the budget declined {} units: {} of {} were free", self.asked, self.free, self.capacity)
    }
}

impl Error for Refused {}

/// Why units could not be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BudgetError {
    /// More than there will ever be.
    TooMany(Refused),
    /// They were not free in time.
    TimedOut(Refused),
    /// On a runtime without threads nothing is left that could free any.
    Stalled(Refused),
}

impl BudgetError {
    fn refused(&self) -> &Refused {
        match self {
            Self::TooMany(refused) | Self::TimedOut(refused) | Self::Stalled(refused) => refused,
        }
    }
}

impl fmt::Display for BudgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany(_) => f.write_str("the budget will never have as many units"),
            Self::TimedOut(_) => f.write_str("the budget had not as many free units in time"),
            Self::Stalled(_) => f.write_str("nothing is left that could free units of the budget"),
        }
    }
}

impl Error for BudgetError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.refused())
    }
}
