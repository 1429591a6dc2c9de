//! Which lane job runs on this thread: its ticket, and which executor and actor it is of.
//! It does not know who puts it there.

use super::cancel::Cancels;
use super::job::{JobRef, Queued};
use super::kind::LaneKind;
use crate::sync::Arc;
use std::cell::Cell;
use std::marker::PhantomData;

/// The job that runs here.
#[derive(Clone, Copy)]
struct Here {
    /// Behind a counted reference, which a scope on this thread's stack has borrowed.
    job: *const dyn Cancels,
    /// The executor, the registration and the lane; nothing if the ticket was merely installed.
    of: Option<(usize, u64, LaneKind)>,
}

crate::sync::local! {
    static HERE: Cell<Option<Here>> = Cell::new(None);
}

/// While it lives, a job is the thread's current one; then the one before is again. It stays on the stack, so that scopes end
/// in the reverse of the order in which they began: none is handed to a host.
#[must_use = "the job is the current one until the scope is dropped"]
pub(super) struct Scope<'a> {
    before: Option<Here>,
    /// What it borrows; and it belongs to the thread that entered.
    job: PhantomData<(&'a dyn Cancels, *const ())>,
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        let _ = HERE.try_with(|here| here.set(self.before));
    }
}

fn enter_with<'a>(here: Here) -> Scope<'a> {
    let before = HERE.try_with(|current| current.replace(Some(here))).ok().flatten();
    Scope { before, job: PhantomData }
}

/// The job of an executor's runner.
pub(super) fn enter<K, C>(job: &JobRef<K, C>, executor: usize, incarnation: u64, lane: LaneKind) -> Scope<'_>
where
    K: 'static,
    C: 'static,
{
    let job: *const dyn Queued<K, C> = Arc::as_ptr(job);
    enter_with(Here { job, of: Some((executor, incarnation, lane)) })
}

/// A ticket that was brought to this thread.
pub(super) fn install(job: &Arc<dyn Cancels>) -> Scope<'_> {
    enter_with(Here { job: Arc::as_ptr(job), of: None })
}

/// The current ticket's job.
pub(super) fn job() -> Option<Arc<dyn Cancels>> {
    let here = HERE.try_with(Cell::get).ok().flatten()?;
    // SAFETY: the pointer came from a counted reference that a scope of this thread still borrows, so the count is not zero;
    // the new reference gets a count of its own.
    unsafe {
        Arc::increment_strong_count(here.job);
        Some(Arc::from_raw(here.job))
    }
}

fn of() -> Option<(usize, u64, LaneKind)> {
    HERE.try_with(Cell::get).ok().flatten().and_then(|here| here.of)
}

/// Whether a job of this executor runs here.
pub(super) fn is_inside(executor: &usize) -> bool {
    of().is_some_and(|(current, _, _)| current == *executor)
}

/// Whether a job runs here that shares the state of this registration.
pub(super) fn shares(executor: usize, incarnation: u64) -> bool {
    of().is_some_and(|(current, of, lane)| (current, of) == (executor, incarnation) && lane.is_shared())
}
