//! Which lane job runs on this thread: its ticket, and which executor and actor it is of.
//! It does not know who puts it there.

#![forbid(unsafe_code)]

use super::cancel::Cancels;
use super::kind::LaneKind;
use crate::sync::Arc;
use std::cell::RefCell;
use std::marker::PhantomData;

/// The job that runs here.
#[derive(Clone)]
struct Here {
    job: Arc<dyn Cancels>,
    /// The executor, the registration and the lane; nothing if the ticket was merely installed.
    of: Option<(usize, u64, LaneKind)>,
}

crate::sync::local! {
    static HERE: RefCell<Option<Here>> = RefCell::new(None);
}

/// While it lives, a job is the thread's current one; then the one before is again.
#[must_use = "the job is the current one until the scope is dropped"]
pub(super) struct Scope {
    before: Option<Here>,
    /// It belongs to the thread that entered.
    here: PhantomData<*const ()>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        let left = HERE.try_with(|here| here.replace(self.before.take()));
        // Dropped when nothing is borrowed: it may be the last reference.
        drop(left);
    }
}

fn enter_with(here: Here) -> Scope {
    let before = HERE.try_with(|current| current.replace(Some(here))).ok().flatten();
    Scope { before, here: PhantomData }
}

/// The job of an executor's runner.
pub(super) fn enter(job: Arc<dyn Cancels>, executor: usize, incarnation: u64, lane: LaneKind) -> Scope {
    enter_with(Here { job, of: Some((executor, incarnation, lane)) })
}

/// A ticket that was brought to this thread.
pub(super) fn install(job: Arc<dyn Cancels>) -> Scope {
    enter_with(Here { job, of: None })
}

/// The current ticket's job.
pub(super) fn job() -> Option<Arc<dyn Cancels>> {
    HERE.try_with(|here| here.borrow().as_ref().map(|here| here.job.clone())).ok().flatten()
}

fn of() -> Option<(usize, u64, LaneKind)> {
    HERE.try_with(|here| here.borrow().as_ref().and_then(|here| here.of)).ok().flatten()
}

/// Whether a job of this executor runs here.
pub(super) fn is_inside(executor: &usize) -> bool {
    of().is_some_and(|(current, _, _)| current == *executor)
}

/// Whether a job runs here that shares the state of this registration.
pub(super) fn shares(executor: usize, incarnation: u64) -> bool {
    of().is_some_and(|(current, of, lane)| (current, of) == (executor, incarnation) && lane.is_shared())
}
