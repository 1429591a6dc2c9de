//! How work can end without a value of its own: interrupted from outside, panicked, or unable ever to be waited for.
//! It does not know which part of the engine the work belongs to; each part turns an [`Interrupt`] into its own error.

#![forbid(unsafe_code)]

use super::contain::PanicReport;
use super::phase::Killed;
use crate::sync::Arc;
use std::error::Error;
use std::fmt;

/// A wait that could never end, since the waiter is among those it would wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitCycle {
    members: Arc<[String]>,
}

impl WaitCycle {
    /// A cycle of these members, each of which waits for the next, the last for the first.
    pub(crate) fn new(members: Vec<String>) -> Self {
        Self { members: members.into() }
    }

    /// The descriptions of the members, in order: each waits for the next, and the last for the first.
    pub fn members(&self) -> &[String] {
        &self.members
    }
}

impl fmt::Display for WaitCycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("would wait for itself: ")?;
        for member in self.members.iter() {
            write!(f, "{member} -> ")?;
        }
        f.write_str(self.members.first().map_or("itself", String::as_str))
    }
}

impl Error for WaitCycle {}

/// Why work ended, or a wait was given up, without a value or an error of the work's own.
///
/// Every error type of a [`Handle`](crate::Handle) can be made from it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interrupt {
    /// Nobody wanted it any more, or this waiter withdrew.
    Cancelled,
    /// A newer one took its place.
    Superseded,
    /// The runtime, the scheduler or the file that it belonged to went away.
    Shutdown,
    /// Its code panicked.
    Panicked(PanicReport),
    /// Waiting for it here could never end. The work itself is not affected.
    WouldDeadlock(WaitCycle),
    /// Its request's deadline passed. The work goes on if somebody else wants it.
    DeadlinePassed,
    /// On a runtime without threads nothing is left that could move, and the awaited work is not over. The work itself is not
    /// affected.
    Stalled,
    /// Too many waits stand on this thread's stack, each inside what another one runs while it waits, and no spare thread can
    /// take this one's place. The work itself is not affected.
    TooDeep,
    /// More waiters joined one execution than can be counted (2^28 - 1).
    TooManyWaiters,
}

impl From<Killed> for Interrupt {
    fn from(how: Killed) -> Self {
        match how {
            Killed::Cancelled => Self::Cancelled,
            Killed::Superseded => Self::Superseded,
            Killed::Shutdown => Self::Shutdown,
        }
    }
}

impl fmt::Display for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("cancelled"),
            Self::Superseded => f.write_str("superseded by a newer one"),
            Self::Shutdown => f.write_str("shut down"),
            Self::Panicked(report) => report.fmt(f),
            Self::WouldDeadlock(cycle) => cycle.fmt(f),
            Self::DeadlinePassed => f.write_str("the deadline passed"),
            Self::Stalled => f.write_str("nothing is left that could move"),
            Self::TooDeep => f.write_str("too many waits inside one another on one thread"),
            Self::TooManyWaiters => f.write_str("too many waiters on one execution"),
        }
    }
}

impl Error for Interrupt {
    /// Nothing: what lies below is shown with it.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        None
    }
}

/// Why a spawned job gave no value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobError {
    /// It was cancelled before it ended.
    Cancelled,
    /// The runtime shut down before it ended.
    Shutdown,
    /// It panicked.
    Panicked(PanicReport),
    /// Waiting for it here could never end. The job itself is not affected.
    WouldDeadlock(WaitCycle),
    /// On a runtime without threads nothing is left that could move, and the job is not over. The job itself is not affected.
    Stalled,
    /// It was interrupted in a way that jobs of [`Runtime::spawn`](crate::Runtime::spawn) do not know.
    Interrupted(Interrupt),
}

impl From<Interrupt> for JobError {
    fn from(interrupt: Interrupt) -> Self {
        match interrupt {
            Interrupt::Cancelled => Self::Cancelled,
            Interrupt::Shutdown => Self::Shutdown,
            Interrupt::Panicked(report) => Self::Panicked(report),
            Interrupt::WouldDeadlock(cycle) => Self::WouldDeadlock(cycle),
            Interrupt::Stalled => Self::Stalled,
            other => Self::Interrupted(other),
        }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("the job was cancelled"),
            Self::Shutdown => f.write_str("the runtime shut down before the job ended"),
            Self::Panicked(report) => write!(f, "the job {report}"),
            Self::WouldDeadlock(_) => f.write_str("waiting for the job here could never end"),
            Self::Stalled => f.write_str("nothing is left that could move, and the job is not over"),
            Self::Interrupted(_) => f.write_str("the job was interrupted"),
        }
    }
}

impl Error for JobError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // The message of a panic is part of what is shown.
            Self::WouldDeadlock(cycle) => Some(cycle),
            Self::Interrupted(interrupt) => Some(interrupt),
            _ => None,
        }
    }
}
