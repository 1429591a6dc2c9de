//! The clock of a runtime: the system's, a virtual one that a driver moves, or the host's own.
//! It does not know what waits for which time.
#![forbid(unsafe_code)]

use super::coarse::Coarse;
use super::contain;
use crate::sync::Arc;
use crate::sync::stat::{AtomicU64, Ordering};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// A clock that the host gives to a runtime, for deadlines and the times of events.
///
/// It is called while the engine decides, so it must be quick and must not wait for the runtime. A panic of it is caught, and
/// the last time that it told is used; so is it when the clock asks the runtime for the time. It may not run backwards: where
/// it does, the latest time that it told is used.
pub trait Clock: Send + Sync {
    /// The time since some fixed moment.
    fn now(&self) -> Duration;

    /// Moves the clock on, if it is one that can be moved; false if not.
    fn advance(&self, by: Duration) -> bool {
        let _ = by;
        false
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub struct VirtualClock(AtomicU64);

impl VirtualClock {
    /// A clock at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }

    fn advance(&self, by: Duration) -> bool {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        // A clock that was moved by more than five hundred years stands still at its end.
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| Some(now.saturating_add(by)));
        true
    }
}

/// Where a runtime's time comes from.
pub(crate) enum TimeSource {
    /// The system's monotonic clock, from the runtime's start on, and that of its ticks.
    System(Instant, Coarse),
    /// A clock of the host's, and the latest time that it told.
    Hosted(Arc<dyn Clock>, AtomicU64),
}

#[cfg(not(any(shardrun_loom, shardrun_shuttle)))]
crate::sync::thread_local! {
    /// Whether this thread is inside a clock of the host's.
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

#[cfg(any(shardrun_loom, shardrun_shuttle))]
crate::sync::thread_local! {
    static ASKING: Cell<bool> = Cell::new(false);
}

impl TimeSource {
    pub(crate) fn system() -> Self {
        Self::System(Instant::now(), Coarse::start())
    }

    pub(crate) fn hosted(clock: Arc<dyn Clock>) -> Self {
        Self::Hosted(clock, AtomicU64::new(0))
    }

    /// The time, and whether the host's clock panicked.
    pub(crate) fn now(&self) -> (Duration, bool) {
        let (clock, last) = match self {
            Self::System(begun, _) => return (begun.elapsed(), false),
            Self::Hosted(clock, last) => (clock, last),
        };
        if ASKING.with(|asking| asking.replace(true)) {
            return (Duration::from_nanos(last.load(Ordering::Relaxed)), false);
        }
        let told = contain::call(|| clock.now());
        ASKING.with(|asking| asking.set(false));
        let panicked = told.is_err();
        let told = told.map_err(contain::discard).map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        (Duration::from_nanos(last.fetch_max(told, Ordering::Relaxed).max(told)), panicked)
    }

    /// Nanoseconds from the start to a moment that is a few milliseconds back at most, where that is cheaper to know than the time.
    #[inline]
    pub(crate) fn about(&self) -> Option<u64> {
        match self {
            Self::System(_, coarse) => coarse.elapsed(),
            Self::Hosted(..) => None,
        }
    }

    /// Moves the clock, if it can be moved.
    pub(crate) fn advance(&self, by: Duration) -> bool {
        match self {
            Self::System(..) => false,
            Self::Hosted(clock, _) => contain::call(|| clock.advance(by)).map_err(contain::discard).unwrap_or(false),
        }
    }

    /// Whether time passes by itself at the rate of the system's clock, so that a thread can sleep until a deadline.
    pub(crate) fn is_system(&self) -> bool {
        matches!(self, Self::System(..))
    }
}
