//! A job's future: polled by the runtime like any other, with the job as the thread's current one, until it ends the job.
//! It does not know who woke it.

#![forbid(unsafe_code)]

use super::answer::LaneError;
use super::current;
use super::job::{JobCell, JobRef};
use super::work::{JobFuture, Work};
use crate::admission::ContextScope;
use crate::flight::{catch, spawn_future_with, trampoline};
use crate::runtime::Spawner;
use crate::sync::Arc;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The future of a job that has started. Dropped before it is over, it ends the job as shut down.
struct LaneFuture<K, C, W>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    W: Work<K, C>,
{
    job: Arc<JobCell<K, C, W>>,
    /// None once it is over.
    future: Option<JobFuture<W::Out>>,
}

/// Hands the future of a job over to the runtime.
pub(super) fn spawn<K, C, W>(spawner: &Spawner, job: Arc<JobCell<K, C, W>>, future: JobFuture<W::Out>)
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    W: Work<K, C>,
{
    let place = job.meta().actor().shared.place;
    // Nobody waits for it as such: the job's own handle hears of its end.
    spawn_future_with(spawner, place, LaneFuture { job, future: Some(future) }).detach();
}

impl<K, C, W> LaneFuture<K, C, W>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    W: Work<K, C>,
{
    fn end(&mut self, result: Result<W::Out, LaneError>) {
        // The future goes before the outcome is told, and while the job has its slot still.
        trampoline::call(|| drop(self.future.take()));
        self.job.clone().ended(result);
    }
}

impl<K, C, W> Future for LaneFuture<K, C, W>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    W: Work<K, C>,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(future) = &mut this.future else { return Poll::Ready(()) };
        let meta = this.job.meta();
        let polled = {
            let _context = ContextScope::enter(meta.context());
            let shared = &meta.actor().shared;
            let job: JobRef<K, C> = this.job.clone();
            let of = (shared.identity(), meta.actor().incarnation, meta.lane());
            current::enter(&job, of, || catch(|| future.as_mut().poll(cx)))
        };
        match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(value)) => this.end(Ok(value)),
            Err(report) => this.end(Err(LaneError::Panicked(report))),
        }
        Poll::Ready(())
    }
}

impl<K, C, W> Drop for LaneFuture<K, C, W>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    W: Work<K, C>,
{
    fn drop(&mut self) {
        if self.future.is_some() {
            self.end(Err(LaneError::Shutdown));
        }
    }
}

impl<K, C, W> Unpin for LaneFuture<K, C, W>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    W: Work<K, C>,
{
}
