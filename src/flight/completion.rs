//! One waiter of a flight that many wait for: a one-shot that can hang in a sealable list.
//! It does not know which flight.

#![forbid(unsafe_code)]

use super::list::{Link, Linked};
use super::oneshot::OneShot;
use super::trampoline;
use super::waits::{self, Shot};
use crate::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// A waiter's place: the first resolution stands.
pub(crate) struct Completion<T: Send + 'static, E: Send + 'static> {
    link: Link<Self>,
    shot: OneShot<Result<T, E>>,
}

impl<T: Send + 'static, E: Send + 'static> Completion<T, E> {
    /// A waiter that nobody has answered.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { link: Link::new(), shot: OneShot::new() })
    }

    /// Answers it, and wakes who waits. False if it was answered before, or nobody waits any more: then `result` is dropped.
    pub(crate) fn resolve(&self, result: Result<T, E>) -> bool {
        match self.shot.resolve(result) {
            Ok(waker) => {
                trampoline::wake(waker);
                true
            }
            Err(result) => {
                trampoline::dispose(result);
                false
            }
        }
    }

    /// Leaves `waker` to be woken by the answer, in place of the one before. True if it has been answered. For the one that waits.
    pub(crate) fn register(&self, waker: &Waker) -> bool {
        self.shot.register(waker)
    }

    /// Sleeps until it has been answered, for `limit` at most: true if it has. For the one that waits, outside any job.
    pub(crate) fn wait_here(&self, limit: Option<Duration>) -> bool {
        let shot = Shot { done: &|| self.shot.is_done(), register: &|waker| self.shot.register(waker) };
        waits::sleep(shot, limit)
    }

    /// As `wait_here`, until it is `over`, which is looked at whenever this thread is woken ([`waker_here`](super::waker_here)), and after
    /// each `step`.
    pub(crate) fn wait_here_until(&self, over: &dyn Fn() -> bool, step: &dyn Fn() -> Option<Duration>) -> bool {
        let shot = Shot { done: &|| self.shot.is_done(), register: &|waker| self.shot.register(waker) };
        waits::sleep_until(shot, over, step)
    }

    /// Nobody waits any more. True if it had not been answered.
    pub(crate) fn abandon(&self) -> bool {
        self.shot.abandon()
    }

    /// Whether it has been answered.
    #[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
    pub(crate) fn is_resolved(&self) -> bool {
        self.shot.is_done()
    }

    /// What it was told, if it was; taken out. For the one that waits.
    #[cfg(test)]
    pub(crate) fn told(&self) -> Option<Result<T, E>> {
        self.shot.take()
    }

    pub(super) fn shot(&self) -> &OneShot<Result<T, E>> {
        &self.shot
    }
}

impl<T: Send + 'static, E: Send + 'static> Linked for Completion<T, E> {
    fn link(&self) -> &Link<Self> {
        &self.link
    }

    fn is_dead(&self) -> bool {
        self.shot.is_dead()
    }
}
