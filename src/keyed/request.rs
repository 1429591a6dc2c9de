//! What is asked of a cache: a key in a view, how urgently, on whose behalf, and what may withdraw the wish.
//! It does not know what becomes of it.
#![forbid(unsafe_code)]

use super::kind::TaskKind;
use super::semaphore::CpuConcurrencySemaphore;
use crate::admission::RequestContext;
use crate::flight::{CancellationToken, Interrupt};
use crate::runtime::{Priority, Spawner};
use std::fmt;
use std::time::Duration;

/// Of which view of the world a value is: part of a computation's identity, beside the cache and the key. Two numbers that only the
/// host gives a meaning; equal keys of different views are computed apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct KeyedView {
    /// The epoch of the view.
    pub epoch: u64,
    /// Which snapshot it is pinned to.
    pub pin: u64,
}

impl KeyedView {
    /// The view of an epoch, pinned to nothing.
    #[must_use]
    pub const fn epoch(epoch: u64) -> Self {
        Self { epoch, pin: 0 }
    }

    /// The same epoch, pinned to a snapshot.
    #[must_use]
    pub const fn pinned(self, pin: u64) -> Self {
        Self { epoch: self.epoch, pin }
    }
}

/// A request for a value: a key, and what else there is to say. A key alone is one.
///
/// ```
/// use shardrun::{CacheRequest, KeyedView, Priority};
///
/// let plain: CacheRequest<u64> = 7.into();
/// let urgent = CacheRequest::key(7).view(KeyedView::epoch(3)).priority(Priority::Critical);
/// # let _ = (plain, urgent);
/// ```
#[must_use = "a request asks for nothing until it is submitted"]
pub struct CacheRequest<K> {
    pub(crate) key: K,
    pub(crate) view: KeyedView,
    pub(crate) wish: Wish,
    pub(crate) limits: Limits,
}

/// What may end a request before its time.
#[derive(Default)]
pub(crate) struct Limits {
    pub(crate) token: Option<CancellationToken>,
    pub(crate) deadline: Option<Duration>,
}

impl Limits {
    /// Why it has ended, if it has.
    pub(crate) fn over(&self, spawner: &Spawner) -> Option<Interrupt> {
        if self.token.as_ref().is_some_and(CancellationToken::is_cancelled) {
            return Some(Interrupt::Cancelled);
        }
        self.deadline.filter(|at| *at <= spawner.now()).map(|_| Interrupt::DeadlinePassed)
    }
}

/// How a computation is to be run, if this request begins it.
#[derive(Default)]
pub(crate) struct Wish {
    pub(crate) priority: Priority,
    pub(crate) kind: TaskKind,
    pub(crate) context: Option<RequestContext>,
    pub(crate) semaphore: Option<CpuConcurrencySemaphore>,
}

impl<K> CacheRequest<K> {
    /// Asks for the value of `key`, in the default view, at interactive priority.
    pub fn key(key: K) -> Self {
        Self { key, view: KeyedView::default(), wish: Wish::default(), limits: Limits::default() }
    }

    /// In which view.
    pub fn view(mut self, view: KeyedView) -> Self {
        self.view = view;
        self
    }

    /// How urgently. A computation is as urgent as the most urgent of those who asked for it.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.wish.priority = priority;
        self
    }

    /// What kind of work the builder does, which says on which threads it runs: [`TaskKind::CacheNode`] if nothing is said. Of those
    /// who ask for one computation the first says it.
    pub fn kind(mut self, kind: TaskKind) -> Self {
        self.wish.kind = kind;
        self
    }

    /// On whose behalf: the context of the first who asks is current while the builder runs.
    pub fn context(mut self, context: RequestContext) -> Self {
        self.wish.context = Some(context);
        self
    }

    /// How many builders of the caller's may run at once: the builder takes a permit when a worker comes to it, and gives it back
    /// right after. Of those who ask for one computation the first says it.
    pub fn semaphore(mut self, semaphore: CpuConcurrencySemaphore) -> Self {
        self.wish.semaphore = Some(semaphore);
        self
    }

    /// Withdraws this request once `token` is cancelled; also while it waits for the budget.
    pub fn token(mut self, token: CancellationToken) -> Self {
        self.limits.token = Some(token);
        self
    }

    /// Withdraws this request once the runtime's clock has come to `deadline`; also while it waits for the budget.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.limits.deadline = Some(deadline);
        self
    }
}

impl<K> From<K> for CacheRequest<K> {
    fn from(key: K) -> Self {
        Self::key(key)
    }
}

impl<K: fmt::Debug> fmt::Debug for CacheRequest<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheRequest").field("key", &self.key).field("view", &self.view).finish_non_exhaustive()
    }
}
