//! How a task ended, and how a run goes on after failures.
//! It does not know who decides either.
#![forbid(unsafe_code)]

use std::num::NonZeroU32;

/// How a task ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TaskStatus {
    /// It ran, and did what it was to do.
    Success,
    /// Its result lay in a local cache.
    CacheHit,
    /// Its result lay in a cache elsewhere.
    CacheHitRemote,
    /// It ran and failed, or its body ended in an error or a panic.
    Failed,
    /// It never started: something that it depends on did not end well, or the run had stopped at a failure.
    Skipped,
    /// It did not end on its own terms: killed by a stop, or not started because the run was aborted. It does not count
    /// as a failure, and what depends on it treats it as one.
    Aborted,
}

impl TaskStatus {
    /// Whether dependents may build on it.
    pub fn is_pass(self) -> bool {
        matches!(self, TaskStatus::Success | TaskStatus::CacheHit | TaskStatus::CacheHitRemote)
    }
}

/// How a run goes on after a failure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum ContinueMode {
    /// Fail fast: after the first failure nothing more is started, and what runs ends on its own terms.
    Never,
    /// What depends on a failure is skipped; all else goes on.
    #[default]
    DepsOk,
    /// Everything runs, also behind failures; what runs behind one is *tainted*, and its result must not be kept.
    Always,
    /// As [`ContinueMode::Never`], and what runs is told to stop.
    Kill,
    /// As [`ContinueMode::DepsOk`] until so many tasks have failed, then as [`ContinueMode::Never`].
    StopAfter(NonZeroU32),
}

impl ContinueMode {
    /// The number of failures at which nothing more is started.
    pub(crate) fn failures_max(self) -> Option<u32> {
        match self {
            ContinueMode::Never | ContinueMode::Kill => Some(1),
            ContinueMode::StopAfter(failures) => Some(failures.get()),
            ContinueMode::DepsOk | ContinueMode::Always => None,
        }
    }
}
