//! What the calling thread is to a runtime: one of its workers, a driver of it, or a stranger.
//! It does not know what a worker does.

use super::engine::Engine;
use super::job::Job;
use super::place::Pool;
use super::worker::Worker;
use std::cell::Cell;
use std::ptr;

#[cfg(not(any(shardrun_loom, shardrun_shuttle)))]
crate::sync::thread_local! {
    /// The worker that this thread is, null on other threads. It lies in the frame of `enter`, which puts null back.
    static WORKER: Cell<*const Worker> = const { Cell::new(ptr::null()) };
    /// The job of a driven engine that runs on this thread, the innermost; null if none does. It lies in the frame of `driving`.
    static DRIVING: Cell<*const Drive> = const { Cell::new(ptr::null()) };
}

#[cfg(any(shardrun_loom, shardrun_shuttle))]
crate::sync::thread_local! {
    static WORKER: Cell<*const Worker> = Cell::new(ptr::null());
    static DRIVING: Cell<*const Drive> = Cell::new(ptr::null());
}

/// A job of a driven engine that a thread runs.
struct Drive {
    engine: *const Engine,
    pool: Pool,
    /// The one in which it was driven.
    outer: *const Drive,
}

/// Makes the calling thread `worker` for as long as `f` runs.
pub(crate) fn enter<R>(worker: &Worker, f: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            WORKER.with(|current| current.set(ptr::null()));
        }
    }
    WORKER.with(|current| current.set(worker));
    let _leave = Leave;
    f()
}

/// Calls `f` with the worker that the calling thread is, if it is one of any runtime.
#[inline(always)]
pub(crate) fn worker<R>(f: impl FnOnce(Option<&Worker>) -> R) -> R {
    let current = WORKER.with(Cell::get);
    // SAFETY: the pointer is null or was set on this thread by `enter`, whose borrow of the worker lasts until it has put null
    // back, and this call is inside it. The reference does not outlive the call, and only this thread ever has one.
    f(unsafe { current.as_ref() })
}

/// Pushes to the calling worker's own queue, if it is one of that pool of that engine; else gives the job back. No closure stands
/// between the caller and the queue: a job is seven words, written one by one and then copied in pairs, and every such copy
/// waits for the writes before it as long as for a locked instruction.
#[inline(always)]
pub(crate) fn push(engine: &Engine, pool: Pool, level: usize, job: Job) -> Result<(), Job> {
    let current = WORKER.with(Cell::get);
    // SAFETY: as in `worker`.
    match unsafe { current.as_ref() } {
        Some(worker) if worker.pool == pool && worker.is_of(engine) => {
            worker.push(level, job);
            Ok(())
        }
        _ => Err(job),
    }
}

/// Marks the calling thread as a driver of `engine` for `pool` while `f` runs.
pub(crate) fn driving<R>(engine: &Engine, pool: Pool, f: impl FnOnce() -> R) -> R {
    struct Restore(*const Drive);
    impl Drop for Restore {
        fn drop(&mut self) {
            DRIVING.with(|driving| driving.set(self.0));
        }
    }
    let outer = DRIVING.with(Cell::get);
    let drive = Drive { engine, pool, outer };
    let _restore = Restore(outer);
    DRIVING.with(|driving| driving.set(&raw const drive));
    f()
}

/// The jobs of driven engines that run on this thread, the innermost first: engine and pool.
fn drives() -> impl Iterator<Item = (*const Engine, Pool)> {
    let mut at = DRIVING.with(Cell::get);
    std::iter::from_fn(move || {
        // SAFETY: the pointer is null or was set on this thread by `driving`, whose frame lasts until it has put back the one
        // before; whoever iterates does so inside all of those calls.
        let drive = unsafe { at.as_ref() }?;
        at = drive.outer;
        Some((drive.engine, drive.pool))
    })
}

/// How many jobs of `engine` this thread drives, one inside the other.
pub(crate) fn drives_of(engine: &Engine) -> u64 {
    drives().filter(|(driven, _)| ptr::eq(*driven, engine)).count() as u64
}

/// The pool of `engine` that the calling thread works for at the moment, if any.
pub(crate) fn pool_of(engine: &Engine) -> Option<Pool> {
    worker(|worker| worker.filter(|worker| worker.is_of(engine)).map(|worker| worker.pool)).or_else(|| {
        let (driven, pool) = drives().next()?;
        ptr::eq(driven, engine).then_some(pool)
    })
}
