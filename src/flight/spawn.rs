//! The verbs that put work with a handle on a runtime: spawn a closure or a future, or run a closure right here.
//! They do not know how the runtime queues it.

#![forbid(unsafe_code)]

use super::contain::catch;
use super::error::JobError;
use super::future::FutureTask;
use super::handle::Handle;
use super::target::FlightId;
use super::task::{Task, ticket};
use super::{active, trampoline};
use crate::runtime::{Place, Priority, Runtime, Spawner};
use crate::sync::{Arc, CachePadded};
use std::future::Future;

impl Runtime {
    /// Runs `f` on the workers and gives a handle on its result.
    ///
    /// The job, its state and its result share one allocation. If the runtime is shut down the closure is dropped, and the
    /// handle says [`JobError::Shutdown`].
    ///
    /// ```
    /// use shardrun::Runtime;
    ///
    /// let runtime = Runtime::builder().workers(2).build()?;
    /// let six = runtime.spawn(|| 2 * 3);
    /// assert_eq!(six.wait(), Ok(6));
    /// # Ok::<(), shardrun::BuildError>(())
    /// ```
    pub fn spawn<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        self.spawn_on(Place::workers(Priority::Interactive), f)
    }

    /// Runs `f` at `place` and gives a handle on its result; else like [`spawn`](Self::spawn).
    pub fn spawn_on<T: Send + 'static>(
        &self,
        place: impl Into<Place>,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Handle<T> {
        let (spawner, place) = (self.spawner(), place.into());
        let task = Task::new(f, self.shared_spawner(), place);
        let handle = Handle::sole(task.clone());
        // A ticket that is refused is dropped, which ends the task as shut down.
        drop(spawner.push(place, ticket(task)));
        handle
    }

    /// Polls `future` on the workers until it is over, and gives a handle on its result.
    ///
    /// While it is pending it holds no thread. Cancelled, it is dropped where it sleeps; while it is being polled, after that
    /// poll. It is never moved and never polled by two threads at once.
    pub fn spawn_future<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Handle<T> {
        self.spawn_future_on(Place::workers(Priority::Interactive), future)
    }

    /// Polls `future` at `place`; else like [`spawn_future`](Self::spawn_future).
    pub fn spawn_future_on<T: Send + 'static>(
        &self,
        place: impl Into<Place>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Handle<T> {
        spawn_future_shared(self.shared_spawner(), place.into(), future)
    }

    /// Runs `f` here and now, on the calling thread, as a job of this runtime: a panic becomes the error, and waits inside it
    /// are seen by the wait graph. Nothing is queued and nobody is woken.
    ///
    /// # Errors
    /// [`JobError::Panicked`] if `f` panics, [`JobError::Shutdown`] if the runtime is shut down.
    pub fn call<T>(&self, f: impl FnOnce() -> T) -> Result<T, JobError> {
        if self.spawner().is_closed() {
            trampoline::call(move || drop(f));
            return Err(JobError::Shutdown);
        }
        // Its place on this stack is its identity.
        let here = 0_u64;
        let _scope = active::enter(FlightId::of(&here, 0));
        catch(f).map_err(JobError::Panicked)
    }
}

/// Polls `future` at `place` until it is over, for a part of the engine that holds no runtime.
pub(crate) fn spawn_future_with<T: Send + 'static>(
    spawner: &Spawner,
    place: Place,
    future: impl Future<Output = T> + Send + 'static,
) -> Handle<T> {
    spawn_future_shared(Arc::new(CachePadded::new(spawner.clone())), place, future)
}

fn spawn_future_shared<T: Send + 'static>(
    spawner: Arc<CachePadded<Spawner>>,
    place: Place,
    future: impl Future<Output = T> + Send + 'static,
) -> Handle<T> {
    let task = FutureTask::new(future, spawner.clone(), place);
    let handle = Handle::sole(task.clone());
    drop(spawner.push(place, ticket(task)));
    handle
}
