//! How a computation can end without a value, and what a cache says when it is opened with other types.
//! It does not know what is computed.
#![forbid(unsafe_code)]

use super::caches::CacheId;
use crate::flight::{Interrupt, PanicReport, WaitCycle};
use crate::sync::Arc;
use std::error::Error;
use std::fmt;

/// Why a computation gave no value.
///
/// Cheap to copy: everybody who waits for one execution gets the same.
#[non_exhaustive]
pub enum CacheError<E> {
    /// The builder said so.
    Failed(Arc<E>),
    /// The builder panicked; or the key's `Hash` or `Eq` did, and nothing was begun.
    Panicked(PanicReport),
    /// This request withdrew, or all who wanted the value did.
    Cancelled,
    /// The runtime went away before the value was there.
    Shutdown,
    /// The value is asked for from inside its own computation, directly or by way of others: to wait for it could never end.
    Reentrant(WaitCycle),
    /// The wait was given up, or nothing was begun, for another reason: see there.
    Interrupted(Interrupt),
}

impl<E> CacheError<E> {
    /// What the builder failed with, if it did.
    pub fn failure(&self) -> Option<&E> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }
}

impl<E> From<Interrupt> for CacheError<E> {
    fn from(interrupt: Interrupt) -> Self {
        match interrupt {
            Interrupt::Cancelled => Self::Cancelled,
            Interrupt::Shutdown => Self::Shutdown,
            Interrupt::Panicked(report) => Self::Panicked(report),
            Interrupt::WouldDeadlock(cycle) => Self::Reentrant(cycle),
            other => Self::Interrupted(other),
        }
    }
}

impl<E> Clone for CacheError<E> {
    fn clone(&self) -> Self {
        match self {
            Self::Failed(failure) => Self::Failed(failure.clone()),
            Self::Panicked(report) => Self::Panicked(report.clone()),
            Self::Cancelled => Self::Cancelled,
            Self::Shutdown => Self::Shutdown,
            Self::Reentrant(cycle) => Self::Reentrant(cycle.clone()),
            Self::Interrupted(interrupt) => Self::Interrupted(interrupt.clone()),
        }
    }
}

impl<E: fmt::Debug> fmt::Debug for CacheError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) => f.debug_tuple("Failed").field(failure).finish(),
            Self::Panicked(report) => f.debug_tuple("Panicked").field(report).finish(),
            Self::Cancelled => f.write_str("Cancelled"),
            Self::Shutdown => f.write_str("Shutdown"),
            Self::Reentrant(cycle) => f.debug_tuple("Reentrant").field(cycle).finish(),
            Self::Interrupted(interrupt) => f.debug_tuple("Interrupted").field(interrupt).finish(),
        }
    }
}

impl<E> fmt::Display for CacheError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(_) => f.write_str("the computation failed"),
            Self::Panicked(report) => write!(f, "the computation {report}"),
            Self::Cancelled => f.write_str("the computation was cancelled"),
            Self::Shutdown => f.write_str("the runtime shut down before the computation ended"),
            Self::Reentrant(_) => f.write_str("the computation asks for its own value"),
            Self::Interrupted(_) => f.write_str("the computation was interrupted"),
        }
    }
}

impl<E: Error + 'static> Error for CacheError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed(failure) => Some(&**failure),
            Self::Reentrant(cycle) => Some(cycle),
            Self::Interrupted(interrupt) => Some(interrupt),
            // What else there is to say is part of what is shown.
            _ => None,
        }
    }
}

/// A cache is opened with other types than it was opened with first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeMismatch {
    /// Which cache.
    pub cache: CacheId,
    /// The types of its keys, values and errors.
    pub opened_with: &'static str,
    /// The types that were asked for.
    pub asked_for: &'static str,
}

impl fmt::Display for TypeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cache, opened_with, asked_for } = self;
        write!(f, "{cache} holds {opened_with}, not {asked_for}")
    }
}

impl Error for TypeMismatch {}
