//! Which lane jobs run on this thread, one inside what another one runs: their tickets, and which executors and actors they are of.
//! It does not know who puts them there.

use super::cancel::Cancels;
use super::job::{JobRef, Queued};
use super::kind::LaneKind;
use crate::sync::Arc;
use std::cell::Cell;
use std::ptr;

/// A job that runs here.
struct Here {
    /// Behind a counted reference, which the caller of `within` has borrowed.
    job: *const dyn Cancels,
    /// The executor, the registration and the lane; nothing if the ticket was merely installed.
    of: Option<(usize, u64, LaneKind)>,
    /// The one inside which it runs.
    outer: *const Here,
}

crate::sync::local! {
    /// The innermost job, null if none runs here. It lies in the frame of `within`, which puts back the one before.
    static HERE: Cell<*const Here> = Cell::new(ptr::null());
}

/// Calls `f` with `job` as the thread's current one. Always inlined: else what stands for the job would be copied.
#[inline(always)]
fn within<R>(job: *const dyn Cancels, of: Option<(usize, u64, LaneKind)>, f: impl FnOnce() -> R) -> R {
    struct Back(*const Here);
    impl Drop for Back {
        fn drop(&mut self) {
            let _ = HERE.try_with(|here| here.set(self.0));
        }
    }
    let outer = HERE.try_with(Cell::get).unwrap_or(ptr::null());
    let here = Here { job, of, outer };
    let _back = Back(outer);
    let _ = HERE.try_with(|innermost| innermost.set(&raw const here));
    f()
}

/// Calls `f` with the job of an executor's runner as the thread's current one.
#[inline(always)]
pub(super) fn enter<K, C, R>(
    job: &JobRef<K, C>,
    (executor, incarnation, lane): (usize, u64, LaneKind),
    f: impl FnOnce() -> R,
) -> R
where
    K: 'static,
    C: 'static,
{
    let job: *const dyn Queued<K, C> = Arc::as_ptr(job);
    within(job, Some((executor, incarnation, lane)), f)
}

/// Calls `f` with the job of a ticket that was brought to this thread as the current one.
pub(super) fn install<R>(job: &Arc<dyn Cancels>, f: impl FnOnce() -> R) -> R {
    within(Arc::as_ptr(job), None, f)
}

/// What `look` finds first among the jobs that run here, the innermost first.
fn find<R>(mut look: impl FnMut(&Here) -> Option<R>) -> Option<R> {
    let mut at = HERE.try_with(Cell::get).unwrap_or(ptr::null());
    loop {
        // SAFETY: the pointer is null or was set on this thread by `within`, whose frame lasts until it has put back the one
        // before; this call is inside all of those frames, and lends out what lies there for the look alone.
        let here = unsafe { at.as_ref() }?;
        let found = look(here);
        if found.is_some() {
            return found;
        }
        at = here.outer;
    }
}

/// The job of an entry.
fn counted(here: &Here) -> Arc<dyn Cancels> {
    // SAFETY: the pointer came from a counted reference that a call of `within` on this thread still borrows, so the count is not
    // zero; the new reference gets a count of its own.
    unsafe {
        Arc::increment_strong_count(here.job);
        Arc::from_raw(here.job)
    }
}

/// The current ticket's job.
pub(super) fn job() -> Option<Arc<dyn Cancels>> {
    find(|here| Some(counted(here)))
}

/// Whether a job of this executor runs here, also further down the stack: inside it something else may be helped or driven.
pub(super) fn is_inside(executor: &usize) -> bool {
    find(|here| here.of.filter(|of| of.0 == *executor)).is_some()
}

/// If a job runs here, also further down the stack, that shares the state of this registration, since when its share goes on.
pub(super) fn share(executor: usize, incarnation: u64) -> Option<u64> {
    let shares = |of: &(usize, u64, LaneKind)| (of.0, of.1) == (executor, incarnation) && of.2.is_shared();
    find(|here| here.of.filter(shares).map(|_| counted(here))).map(|job| job.share())
}

/// The innermost job that runs here: not a ticket that was merely brought.
pub(super) fn running() -> Option<Arc<dyn Cancels>> {
    find(|here| here.of.map(|_| counted(here)))
}
