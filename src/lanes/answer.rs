//! What a lane job is answered when it does not give its own result: refusals, cancels, panics, ends of actors.
//! It does not know who answers, nor when.

#![forbid(unsafe_code)]

use super::kind::LaneClass;
use crate::flight::{Interrupt, PanicReport, WaitCycle};
use std::error::Error;
use std::fmt;

/// Which bound a queue has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueScope {
    /// What one actor may have queued.
    Actor,
    /// What all may have queued.
    Overall,
}

/// A queue was full: which, how full, and what its bound is. Asking again later may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneBackpressure {
    /// The class of the job that was refused.
    pub class: LaneClass,
    /// Whose bound it was.
    pub scope: QueueScope,
    /// Jobs of the class that were queued there.
    pub depth: u32,
    /// How many may be.
    pub cap: u32,
}

impl LaneBackpressure {
    pub(super) fn new(class: LaneClass, scope: QueueScope, depth: u32, cap: u32) -> Self {
        Self { class, scope, depth, cap }
    }
}

impl fmt::Display for LaneBackpressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = match self.scope {
            QueueScope::Actor => "the actor's",
            QueueScope::Overall => "the executor's",
        };
        write!(f, "{scope} queue for {} jobs is full: {} of {}", self.class, self.depth, self.cap)
    }
}

impl Error for LaneBackpressure {}

/// Why a lane job gave no result of its own. Each job is answered exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaneError {
    /// No actor of that key is registered.
    NotRegistered,
    /// A writer of the actor has panicked: nothing of it runs until it is reset, or removed and registered again.
    Fatal,
    /// The actor was removed, or retired, before the job began.
    Removed,
    /// The actor was reset before the job began.
    Reset,
    /// A queue was full.
    Backpressure(LaneBackpressure),
    /// An equal maintenance job is queued already, and will do.
    Coalesced,
    /// The job was cancelled: before it began, or a running one was dropped.
    Cancelled,
    /// The job was still queued at its deadline.
    DeadlineExceeded,
    /// The executor or its runtime was shut down before the job began.
    Shutdown,
    /// The job panicked. Only the panic of a writer makes the actor fatal.
    Panicked(PanicReport),
    /// Waiting for it here could never end. The job itself is not affected.
    WouldDeadlock(WaitCycle),
    /// On a runtime without threads nothing is left that could move, and the job is not over. The job itself is not affected.
    Stalled,
    /// The wait ended in a way that lane jobs do not know.
    Interrupted(Interrupt),
}

impl LaneError {
    /// A short name that does not change: for logs, wire codes and comparisons.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotRegistered => "actor_not_registered",
            Self::Fatal => "actor_fatal",
            Self::Removed => "actor_removed",
            Self::Reset => "actor_reset",
            Self::Backpressure(refused) => match refused.class {
                LaneClass::Interactive => "executor_backpressure",
                LaneClass::Maintenance => "maintenance_backpressure",
            },
            Self::Coalesced => "maintenance_coalesced",
            Self::Cancelled => "request_cancelled",
            Self::DeadlineExceeded => "request_deadline_exceeded",
            Self::Shutdown => "executor_shutdown",
            Self::Panicked(_) => "job_panicked",
            Self::WouldDeadlock(_) => "would_deadlock",
            Self::Stalled => "stalled",
            Self::Interrupted(_) => "interrupted",
        }
    }

    /// Whether the same submission may be taken a little later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Backpressure(_))
    }
}

impl From<Interrupt> for LaneError {
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

impl fmt::Display for LaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRegistered => f.write_str("no such actor is registered"),
            Self::Fatal => f.write_str("a writer of the actor has panicked"),
            Self::Removed => f.write_str("the actor was removed before the job began"),
            Self::Reset => f.write_str("the actor was reset before the job began"),
            Self::Backpressure(refused) => refused.fmt(f),
            Self::Coalesced => f.write_str("an equal maintenance job is queued already"),
            Self::Cancelled => f.write_str("the job was cancelled"),
            Self::DeadlineExceeded => f.write_str("the job was still queued at its deadline"),
            Self::Shutdown => f.write_str("the executor was shut down before the job began"),
            Self::Panicked(report) => write!(f, "the job {report}"),
            Self::WouldDeadlock(_) => f.write_str("waiting for the job here could never end"),
            Self::Stalled => f.write_str("nothing is left that could move, and the job is not over"),
            Self::Interrupted(_) => f.write_str("the wait for the job was interrupted"),
        }
    }
}

impl Error for LaneError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // A refusal and the message of a panic are part of what is shown.
            Self::WouldDeadlock(cycle) => Some(cycle),
            Self::Interrupted(interrupt) => Some(interrupt),
            _ => None,
        }
    }
}
