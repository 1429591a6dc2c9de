//! The owner's handle of a runtime: put work on it, drive it, look at it, shut it down.
//! It does not know how jobs reach a worker.
#![forbid(unsafe_code)]

use super::affinity;
use super::batch;
use super::builder::RuntimeBuilder;
use super::current;
use super::engine::{Engine, RefusedBecause};
use super::job::Job;
use super::place::{Place, Pool};
use super::put_off;
use super::spawner::{Spawner, TimerHandle};
use super::start;
use super::stripe::{stripe, stripes};
use crate::observe::Counters;
use crate::sync::{Arc, CachePadded};
use std::fmt;
use std::time::Duration;

/// A set of worker threads that run closures, with priorities, a pool for blocking work, deadlines, and counters.
///
/// Clones are handles of the same runtime. When the last one is dropped the runtime is shut down, as by
/// [`shutdown`](Self::shutdown). What the engine's other parts keep does not hold it up.
///
/// ```
/// let runtime = shardrun::Runtime::builder().workers(2).build()?;
/// let (sender, receiver) = std::sync::mpsc::channel();
/// runtime.execute(move || sender.send(6 * 7).unwrap())?;
/// assert_eq!(receiver.recv(), Ok(42));
/// runtime.shutdown();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Runtime {
    owner: Arc<Owner>,
}

/// Shuts down when the last handle goes.
struct Owner {
    spawner: Spawner,
    /// Counted references to the spawner for work that holds one each, a few, so that not every thread counts at one word.
    shared: Box<[Arc<CachePadded<Spawner>>]>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        shut_down(&self.spawner.engine, None);
    }
}

/// What a shutdown left.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// Threads that still run: those that were not waited for, since the caller is one of them, or that did not end in time.
    pub running: usize,
    /// Closures dropped unrun since the runtime was built.
    pub dropped: u64,
}

/// Work that a runtime did not take, given back.
pub struct Rejected<F> {
    /// Why.
    pub because: RefusedBecause,
    /// The closure, or the iterator of a batch.
    pub work: F,
}

impl<F> fmt::Debug for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected").field("because", &self.because).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.because {
            RefusedBecause::Shutdown => "the runtime is shut down",
            RefusedBecause::Forked => "the runtime's threads were lost in a fork",
            RefusedBecause::NoTimerThread => "the thread that waits for deadlines could not be started",
        })
    }
}

impl<F> std::error::Error for Rejected<F> {}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("workers", &self.workers()).finish_non_exhaustive()
    }
}

impl Runtime {
    /// Options of a runtime to be built.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    pub(crate) fn of(engine: Arc<Engine>) -> Self {
        let spawner = Spawner { engine };
        let shared = (0..stripes()).map(|_| Arc::new(CachePadded::new(spawner.clone()))).collect();
        Self { owner: Arc::new(Owner { spawner, shared }) }
    }

    fn engine(&self) -> &Engine {
        &self.owner.spawner.engine
    }

    #[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
    pub(crate) fn engine_for_tests(&self) -> &Engine {
        self.engine()
    }

    /// What the engine's parts hold instead of the runtime.
    pub(crate) fn spawner(&self) -> &Spawner {
        &self.owner.spawner
    }

    /// The same for a piece of work that holds it while it lives, counted where few others count.
    pub(crate) fn shared_spawner(&self) -> Arc<CachePadded<Spawner>> {
        self.owner.shared[stripe(self.owner.shared.len())].clone()
    }

    /// Runs `work` on the workers, at the default priority, some time. A panic of it is caught and counted.
    ///
    /// A closure of at most 48 bytes costs no allocation. From a worker it goes to that worker's own queue, where idle
    /// workers find it; from elsewhere to a shared queue. Each closure that was taken is run once, or dropped once by a
    /// shutdown.
    ///
    /// A call that meets a shutdown half way may drop what others have queued, on the calling thread: a destructor of theirs that
    /// waits for the caller waits for ever.
    ///
    /// # Errors
    /// Gives the closure back after a shutdown, and in a forked child.
    #[inline]
    pub fn execute<F: FnOnce() + Send + 'static>(&self, work: F) -> Result<(), Rejected<F>> {
        self.execute_at(Place::default(), work)
    }

    /// As [`execute`](Self::execute), at a [`Place`] or, on the workers, at a [`Priority`](crate::Priority).
    ///
    /// # Errors
    /// As `execute`.
    #[inline]
    pub fn execute_on<F: FnOnce() + Send + 'static>(
        &self,
        place: impl Into<Place>,
        work: F,
    ) -> Result<(), Rejected<F>> {
        self.execute_at(place.into(), work)
    }

    #[inline(always)]
    fn execute_at<F: FnOnce() + Send + 'static>(&self, place: Place, work: F) -> Result<(), Rejected<F>> {
        let engine = self.engine();
        if let Some(because) = engine.refusal() {
            return Err(Rejected { because, work });
        }
        engine.submit(place, Job::new(work));
        Ok(())
    }

    /// Runs many closures at a [`Place`], or at a [`Priority`](crate::Priority) on the workers: the cheapest way in from outside.
    /// How many there were.
    ///
    /// They share one place in the queue. Workers take them one by one, in order; what is queued later at the same priority
    /// waits for at most 16 of them, and what is queued at another priority for one. Under the inline and the seeded driver each
    /// is a job of its own.
    ///
    /// The iterator is run to its end first. If it panics the panic goes on to the caller, and none of the closures runs.
    ///
    /// # Errors
    /// Gives the iterator back untouched after a shutdown, and in a forked child.
    pub fn execute_batch<I>(&self, place: impl Into<Place>, work: I) -> Result<usize, Rejected<I>>
    where
        I: IntoIterator,
        I::Item: FnOnce() + Send + 'static,
    {
        let (engine, place) = (self.engine(), place.into());
        if let Some(because) = engine.refusal() {
            return Err(Rejected { because, work });
        }
        if engine.driven.is_some() {
            let jobs: Vec<Job> = work.into_iter().map(Job::new).collect();
            let count = jobs.len();
            engine.submit_all(place, jobs.into_iter());
            return Ok(count);
        }
        let mut work: Vec<I::Item> = work.into_iter().collect();
        let count = work.len();
        if count > 1 {
            batch::submit(&self.spawner().engine, place, work);
        } else if let Some(one) = work.pop() {
            engine.submit(place, Job::new(one));
        }
        Ok(count)
    }

    /// Runs `work` on the workers, at the default priority, once `delay` has passed on the runtime's clock.
    ///
    /// The deadline only queues the closure: it is late by as much as the workers are busy. A deadline beyond what 64 bits of
    /// nanoseconds hold is never reached. A shutdown drops the closures of deadlines that have not come.
    ///
    /// # Errors
    /// Gives the closure back after a shutdown, in a forked child, and if the thread that waits for deadlines cannot be started.
    pub fn after<F: FnOnce() + Send + 'static>(&self, delay: Duration, work: F) -> Result<TimerHandle, Rejected<F>> {
        match self.spawner().may_wait() {
            Ok(()) => Ok(self.spawner().after_at(Place::default(), delay, Job::new(work))),
            Err(because) => Err(Rejected { because, work }),
        }
    }

    /// The time on the runtime's clock: since it was built, or what the clock that was given to the builder says.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.engine().now()
    }

    /// How many worker threads it has, spares and I/O threads apart. None if it is driven.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.engine().crew(Pool::Workers).regular
    }

    /// How many I/O threads it has.
    #[must_use]
    pub fn io_threads(&self) -> usize {
        self.engine().crew(Pool::Io).regular
    }

    /// The CPUs that the workers were to be pinned to, and why they are not pinned where `Pinning::Auto` decided so.
    #[must_use]
    pub fn pinning(&self) -> (&[usize], Option<&'static str>) {
        let plan = &self.engine().config.plan;
        (&plan.cpus, plan.note)
    }

    /// Runs one job on the calling thread, after queueing what is due. False if none waits, or the runtime has threads of its
    /// own (see `Driver`).
    pub fn drive_one(&self) -> bool {
        self.spawner().drive_one()
    }

    /// Drives until no job waits; how many ran. Jobs that keep making new ones keep it going.
    pub fn drive_all(&self) -> usize {
        let mut ran = 0;
        while self.drive_one() {
            ran += 1;
        }
        ran
    }

    /// Moves the clock on and queues what has become due; false if the runtime's clock cannot be moved. A driven runtime
    /// has a clock that can, unless another one was given to its builder.
    pub fn advance(&self, by: Duration) -> bool {
        let engine = self.engine();
        let moved = engine.clock.advance(by);
        match &engine.driven {
            Some(driven) => drop(driven.fire(engine)),
            None => engine.timer.poke(),
        }
        moved
    }

    /// When the earliest deadline of a driven runtime is due, on the runtime's clock: until then whoever drives may sleep once
    /// `drive_all` has found nothing more to do. None if there is no deadline, or the runtime has threads of its own.
    ///
    /// What is due by now is queued. A deadline that was cancelled may still be told.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let engine = self.engine();
        engine.driven.as_ref()?.fire(engine)
    }

    /// A snapshot of what the runtime has counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.engine().counters()
    }

    /// Calls `f` with the affinity mask that the process had at first, so that threads and processes that `f` starts do not
    /// inherit a worker's one CPU. Only a pinned worker changes its mask for it.
    pub fn unpinned<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Repin(Option<usize>);
        impl Drop for Repin {
            fn drop(&mut self) {
                if let Some(cpu) = self.0 {
                    affinity::pin(cpu);
                }
            }
        }
        let pinned = current::worker(|worker| {
            let worker = worker.filter(|worker| worker.is_of(self.engine()))?;
            worker.pinned()
        });
        if pinned.is_some() {
            affinity::unpin();
        }
        let _repin = Repin(pinned);
        f()
    }

    /// Shuts the runtime down: refuses further work, lets the running jobs end, drops every closure that waits, and joins
    /// the threads. The wait lasts as long as the running jobs.
    ///
    /// Called from one of the runtime's own jobs, hooks or destructors it does all but wait. It may be called any number of
    /// times, from several threads at once; in a forked child it does nothing.
    pub fn shutdown(&self) -> Shutdown {
        shut_down(&self.spawner().engine, None)
    }

    /// As [`shutdown`](Self::shutdown), waiting for at most `limit`. Threads that are still running then end by themselves.
    ///
    /// It waits for jobs and hooks, but not for the destructors of thread-locals that those have left on the threads: `shutdown` waits for
    /// these, and the drop of the last handle.
    pub fn shutdown_within(&self, limit: Duration) -> Shutdown {
        shut_down(&self.spawner().engine, Some(limit))
    }
}

fn shut_down(engine: &Engine, limit: Option<Duration>) -> Shutdown {
    let mut running = 0;
    if !engine.is_forked() {
        engine.close();
        let limit = if current::pool_of(engine).is_some() { Some(Duration::ZERO) } else { limit };
        running = match limit {
            Some(Duration::ZERO) => engine.threads.join(limit),
            _ => {
                // A job may wait for a waker that this thread has put off, since it was deep in callbacks.
                put_off::flush();
                start::blocking(|| engine.threads.join(limit))
            }
        };
        engine.drain();
    }
    Shutdown { running, dropped: engine.counters().dropped }
}
