//! How the engine's parts put jobs on a runtime: a handle that does not keep the runtime running.
//! It does not know what the jobs are for.
#![forbid(unsafe_code)]

use super::contain;
use super::current;
use super::driven::Driven;
use super::engine::{Attached, Engine, RefusedBecause};
use super::job::Job;
use super::place::{Place, Pool, Priority};
use super::start;
use super::timer::Deadline;
use crate::observe::Event;
use crate::sync::Arc;
use std::fmt;
use std::time::Duration;

/// Puts jobs on a runtime. All parts of the engine hold this, never a `Runtime`: it does not keep the runtime running.
#[derive(Clone)]
pub(crate) struct Spawner {
    pub(crate) engine: Arc<Engine>,
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}

impl Spawner {
    /// Queues a job: on the calling worker's own queue if it is one of that pool, else on the pool's shared one.
    ///
    /// # Errors
    /// Gives the job back after a shutdown, or in a forked child. A job that was taken before a shutdown and not run by then
    /// is dropped.
    #[inline]
    pub(crate) fn push(&self, place: Place, job: Job) -> Result<(), Job> {
        if self.engine.refusal().is_some() {
            return Err(job);
        }
        self.engine.submit(place, job);
        Ok(())
    }

    /// Queues the continuation of the job that runs now, to be run next where that is fair, and to be stolen if its worker is
    /// busy otherwise. Costs a look for sleepers, like `push`.
    ///
    /// # Errors
    /// As `push`.
    pub(crate) fn push_hot(&self, place: Place, job: Job) -> Result<(), Job> {
        if self.engine.refusal().is_some() {
            return Err(job);
        }
        self.engine.submit_hot(place, job, false);
        Ok(())
    }

    /// As `push_hot`, for a caller that *returns to the worker right after it and runs no host code before*: nobody is woken,
    /// no atomic is touched, and no thief sees the job unless the worker is kept from running it next. A finisher that has
    /// published and delivered calls this last.
    ///
    /// # Errors
    /// As `push`.
    #[inline]
    pub(crate) fn push_next(&self, place: Place, job: Job) -> Result<(), Job> {
        if self.engine.refusal().is_some() {
            return Err(job);
        }
        self.engine.submit_hot(place, job, true);
        Ok(())
    }

    /// How many threads of a pool can ever run jobs at once, spares among them; `None` if the runtime has no threads of its own.
    pub(crate) fn most_threads(&self, pool: Pool) -> Option<usize> {
        let engine = &self.engine;
        (!self.is_driven()).then(|| engine.crew(engine.resolve(pool)).slots().len())
    }

    /// Whether a thread of a pool is blocked whose place no spare has taken, so that what is queued there may wait for it.
    pub(crate) fn is_short(&self, pool: Pool) -> bool {
        super::barrier::full(); // pairs with `lend`: either this sees that a spare is missing, or who misses it sees who asks
        self.engine.crew(self.engine.resolve(pool)).is_wanting()
    }

    /// Whether a thread of this runtime that works for `here` runs what is meant for `pool`.
    pub(crate) fn runs_at(&self, here: Pool, pool: Pool) -> bool {
        self.engine.resolve(pool) == here
    }

    /// Whether both put jobs on one runtime.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.engine, &other.engine)
    }

    /// Whether the runtime is shut down, or its threads were lost in a fork.
    pub(crate) fn is_closed(&self) -> bool {
        self.engine.refusal().is_some()
    }

    /// Whether the process is a fork of the one that built the runtime, so that its threads are not here.
    pub(crate) fn is_forked(&self) -> bool {
        self.engine.is_forked()
    }

    /// The time on the runtime's clock.
    pub(crate) fn now(&self) -> Duration {
        self.engine.now()
    }

    /// As [`now`](Self::now), in nanoseconds and a few milliseconds back at most; `None` where the time costs no more.
    #[inline]
    pub(crate) fn about(&self) -> Option<u64> {
        self.engine.clock.about()
    }

    /// Runs `job` on the workers, at critical priority, once `delay` has passed. Where nothing can wait for that time it runs as
    /// soon as nothing else does, which is early, but not never; after a shutdown it is dropped.
    pub(crate) fn after(&self, delay: Duration, job: Job) {
        match self.may_wait() {
            Ok(()) => drop(self.after_at(Place::workers(Priority::Critical), delay, job)),
            Err(_) => drop(self.push(Place::workers(Priority::Maintenance), job)),
        }
    }

    /// How long a thread may sleep that waits itself for the runtime's clock to come to `deadline`, before it looks again.
    pub(crate) fn sleep_towards(&self, deadline: Duration) -> Duration {
        if self.engine.clock.is_system() { deadline.saturating_sub(self.now()) } else { start::HOSTED_CLOCK_STEP }
    }

    /// Sees to it that a deadline that is set now fires, or says why it would not.
    pub(crate) fn may_wait(&self) -> Result<(), RefusedBecause> {
        match self.engine.refusal() {
            Some(because) => Err(because),
            // Where a shutdown has come in between, that is why.
            None => {
                start::timer(&self.engine).map_err(|_| self.engine.refusal().unwrap_or(RefusedBecause::NoTimerThread))
            }
        }
    }

    /// Queues `job` at a place once `delay` has passed, for a caller that `may_wait`. Beside a shutdown it may be dropped.
    pub(crate) fn after_at(&self, place: Place, delay: Duration, job: Job) -> TimerHandle {
        let engine = &self.engine;
        let deadline = engine.timer.arm(engine.now().saturating_add(delay), place, job);
        super::barrier::full(); // pairs with `Crew::close`: a deadline armed beside a shutdown is dropped by one of the two
        if engine.refusal().is_some() {
            engine.drain();
        }
        TimerHandle { engine: engine.clone(), deadline }
    }

    /// Tells the observer of the event that `event` makes, if there is one. To be called where the host's code may run.
    #[inline]
    pub(crate) fn event(&self, event: impl FnOnce() -> Event) {
        if self.engine.watch.is_some() {
            self.engine.event(&event());
        }
    }

    /// Whether nobody runs jobs but who drives: an inline or a seeded runtime.
    pub(crate) fn is_driven(&self) -> bool {
        self.engine.driven.is_some()
    }

    /// Runs one job of a driven runtime; false if there is none, or the runtime has threads of its own.
    pub(crate) fn drive_one(&self) -> bool {
        self.engine.driven.as_ref().is_some_and(|driven| driven.drive_one(&self.engine))
    }

    /// A mark of what goes on at a driven runtime, for [`others_drive`](Self::others_drive).
    pub(crate) fn mark(&self) -> u64 {
        self.engine.driven.as_ref().map_or(0, Driven::mark)
    }

    /// Whether another thread drives this driven runtime, or has since `mark`, so that nothing found in between says nothing.
    pub(crate) fn others_drive(&self, mark: u64) -> bool {
        self.engine.driven.as_ref().is_some_and(|driven| driven.others_at_work(&self.engine, mark))
    }

    /// Calls `f`, which waits for another thread that drives this runtime and must not panic.
    pub(crate) fn aside<R>(&self, f: impl FnOnce() -> R) -> R {
        match &self.engine.driven {
            Some(driven) => driven.aside(&self.engine, f),
            None => f(),
        }
    }

    /// What is attached to the runtime, to hear of its end; attached now if nothing is.
    pub(crate) fn attached(&self, make: impl FnOnce() -> Box<dyn Attached>) -> &dyn Attached {
        &**self.engine.attached.get_or_init(make)
    }
}

/// The pool of this runtime that the calling thread works for, if any: as one of its workers, or as the driver of a job.
pub(crate) fn current_pool(spawner: &Spawner) -> Option<Pool> {
    current::pool_of(&spawner.engine)
}

/// Whether who runs a job of `place` on the calling thread should give way: other priorities have work here, or the thread is no
/// worker.
#[inline]
pub(crate) fn yields(place: Place) -> bool {
    current::worker(|worker| worker.is_none_or(|worker| worker.has_other_work(place)))
}

/// A deadline that was set. Dropping the handle leaves it set.
#[must_use = "to drop the handle leaves the deadline set"]
pub struct TimerHandle {
    engine: Arc<Engine>,
    deadline: Arc<Deadline>,
}

impl TimerHandle {
    /// Cancels the deadline: true if it had not fired and was not cancelled; then its closure is dropped here and never runs.
    /// False if it has fired: then its closure runs, or has run. Exactly one of the two wins.
    pub fn cancel(&self) -> bool {
        let Some(job) = self.engine.timer.cancel(&self.deadline) else { return false };
        if !contain::dropping(job) {
            self.engine.outside_panics.add_shared(1);
        }
        true
    }
}

impl fmt::Debug for TimerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerHandle").finish_non_exhaustive()
    }
}
