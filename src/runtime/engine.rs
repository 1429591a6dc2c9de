//! What all threads of one runtime share: the two crews, the clock, the timer, the threads, the observer.
//! It does not know the public handles that keep it going.
#![forbid(unsafe_code)]

use super::affinity::Plan;
use super::clock::TimeSource;
use super::contain;
use super::crew::Crew;
use super::current;
use super::driven::Driven;
use super::fork;
use super::job::Job;
use super::place::{LEVELS, Place, Pool};
use super::threads::Threads;
use super::timer::Timer;
use super::waiting::Ages;
use crate::observe::{Counters, Event, Observer, Tally, WorkerId, WorkerKind, WorkerReport};
use crate::sync::stat::Ordering;
use crate::sync::{Arc, OnceLock};
use std::any::Any;
use std::time::Duration;

/// What a part above has attached to a runtime, to hear of its end.
pub(crate) trait Attached: Any + Send + Sync {
    /// The runtime is closed: no job is taken any more. May be called more than once, from several threads.
    fn closed(&self);
}

/// A hook of the host's, called on a thread of the runtime.
pub(crate) type Hook = Arc<dyn Fn(WorkerId) + Send + Sync>;

/// What the builder decided.
pub(crate) struct Config {
    pub(crate) thread_name: String,
    pub(crate) stack_size: usize,
    pub(crate) on_start: Option<Hook>,
    pub(crate) on_stop: Option<Hook>,
    /// The longest that a worker spins.
    pub(crate) spin: Duration,
    pub(crate) plan: Plan,
}

/// The observer and how often it wants to hear of jobs.
pub(crate) struct Watch {
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) every: u32,
}

impl Watch {
    /// Asks the observer once how often it wants to hear of jobs; one that panics does not hear of them.
    pub(crate) fn new(observer: Arc<dyn Observer>) -> Self {
        let every = contain::call(|| observer.every_nth_job()).map_err(contain::discard).unwrap_or(0);
        Self { observer, every }
    }
}

/// Why work is refused.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedBecause {
    /// The runtime is shut down.
    Shutdown,
    /// The process is a fork of the one that built the runtime: its threads are not here.
    Forked,
    /// The system refused the thread that waits for deadlines, which is started before the first one is taken.
    NoTimerThread,
}

/// The shared part of a runtime.
pub(crate) struct Engine {
    crews: [Crew; 2],
    /// Work for the I/O threads runs on the workers, since there are no I/O threads.
    merged: bool,
    /// There are no threads: who drives runs the jobs.
    pub(crate) driven: Option<Driven>,
    pub(crate) clock: TimeSource,
    pub(crate) timer: Timer,
    pub(crate) threads: Threads,
    pub(crate) watch: Option<Watch>,
    pub(crate) config: Config,
    /// What hears of the end.
    pub(crate) attached: OnceLock<Box<dyn Attached>>,
    /// The number of the process that built it.
    born: u64,
    pub(crate) outside_panics: Tally,
    pub(crate) outside_dropped: Tally,
    pub(crate) spares_missing: Tally,
    /// What snapshots have seen of the queues.
    ages: Ages,
}

impl AsRef<Threads> for Engine {
    fn as_ref(&self) -> &Threads {
        &self.threads
    }
}

/// How many threads of each kind a runtime has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) workers: usize,
    pub(crate) io_threads: usize,
    pub(crate) spares: usize,
}

impl Engine {
    pub(crate) fn new(
        sizes: Sizes,
        config: Config,
        clock: TimeSource,
        driven: Option<Driven>,
        watch: Option<Watch>,
        threads: Threads,
    ) -> Self {
        let spares = |regular: usize| if regular == 0 { 0 } else { sizes.spares };
        Self {
            crews: [
                Crew::new(Pool::Workers, sizes.workers, spares(sizes.workers)),
                Crew::new(Pool::Io, sizes.io_threads, spares(sizes.io_threads)),
            ],
            merged: sizes.io_threads == 0 && driven.is_none(),
            driven,
            clock,
            timer: Timer::new(),
            threads,
            watch,
            config,
            attached: OnceLock::new(),
            born: fork::generation(),
            outside_panics: Tally::default(),
            outside_dropped: Tally::default(),
            spares_missing: Tally::default(),
            ages: Ages::default(),
        }
    }

    /// The pool that runs what is meant for `pool`.
    #[inline(always)]
    pub(crate) fn resolve(&self, pool: Pool) -> Pool {
        if self.merged { Pool::Workers } else { pool }
    }

    #[inline(always)]
    pub(crate) fn crew(&self, pool: Pool) -> &Crew {
        match pool {
            Pool::Workers => &self.crews[0],
            Pool::Io => &self.crews[1],
        }
    }

    /// Why no work is taken, if none is.
    #[inline(always)]
    pub(crate) fn refusal(&self) -> Option<RefusedBecause> {
        if self.crews[0].is_closed() {
            Some(RefusedBecause::Shutdown)
        } else if self.is_forked() {
            Some(RefusedBecause::Forked)
        } else {
            None
        }
    }

    #[inline(always)]
    pub(crate) fn is_forked(&self) -> bool {
        self.born != fork::generation()
    }

    /// Takes a job that was not refused. If the runtime is shut down meanwhile the job is dropped with the others.
    #[inline(always)]
    pub(crate) fn submit(&self, place: Place, job: Job) {
        let level = place.priority.level();
        let pool = self.resolve(place.pool);
        if let Err(job) = current::push(self, pool, level, job) {
            self.submit_one_outside(Place { pool, priority: place.priority }, job);
        }
    }

    /// Apart, so that only the way to the worker's own queue is copied into every caller.
    #[inline(never)]
    fn submit_one_outside(&self, place: Place, job: Job) {
        self.submit_outside(place, std::iter::once(job));
    }

    /// As `submit`, for the continuation of the job that runs now. `soon`: the calling job ends at once.
    #[inline]
    pub(crate) fn submit_hot(&self, place: Place, job: Job, soon: bool) {
        let level = place.priority.level();
        let pool = self.resolve(place.pool);
        current::worker(|worker| match worker {
            Some(worker) if worker.pool == pool && worker.is_of(self) => {
                if soon {
                    worker.push_next(level, job);
                } else {
                    worker.push_hot(level, job);
                }
            }
            _ => match &self.driven {
                Some(driven) => driven.push_hot(self, place, job),
                None => self.submit_outside(Place { pool, priority: place.priority }, std::iter::once(job)),
            },
        });
    }

    /// As `submit`, for many.
    pub(crate) fn submit_all(&self, place: Place, jobs: impl Iterator<Item = Job>) {
        let level = place.priority.level();
        let pool = self.resolve(place.pool);
        current::worker(|worker| match worker {
            Some(worker) if worker.pool == pool && worker.is_of(self) => worker.push_all(level, jobs),
            _ => self.submit_outside(Place { pool, priority: place.priority }, jobs),
        });
    }

    fn submit_outside(&self, place: Place, jobs: impl Iterator<Item = Job>) {
        match &self.driven {
            Some(driven) => driven.push(self, place, jobs),
            None => self.crew(place.pool).inject(place.priority.level(), jobs),
        }
    }

    /// The time since the runtime was built, or whatever the host's clock says.
    pub(crate) fn now(&self) -> Duration {
        let (now, panicked) = self.clock.now();
        if panicked {
            self.outside_panics.add_shared(1);
        }
        now
    }

    /// Tells the observer, if there is one.
    pub(crate) fn event(&self, event: &Event) {
        if let Some(watch) = &self.watch
            && let Err(payload) = contain::call(|| watch.observer.event(event))
        {
            self.outside_panics.add_shared(1);
            contain::discard(payload);
        }
    }

    /// Tells the observer of a caught panic and ends its payload.
    #[cold]
    pub(crate) fn report_panic(&self, worker: Option<WorkerId>, payload: contain::Payload) {
        if self.watch.is_some() {
            self.event(&Event::Panicked { worker, message: contain::message(&payload) });
        }
        contain::discard(payload);
    }

    /// Calls a hook of the host's.
    pub(crate) fn hook(&self, hook: Option<&Hook>, worker: WorkerId) {
        if let Some(hook) = hook
            && let Err(payload) = contain::call(|| hook(worker))
        {
            self.outside_panics.add_shared(1);
            self.report_panic(Some(worker), payload);
        }
    }

    /// Counts closures that were dropped unrun; wraps, so that a count too many can be taken back.
    pub(crate) fn count_dropped(&self, closures: u64) {
        self.outside_dropped.add_shared(closures);
    }

    /// Refuses all further work, wakes everybody, and drops what waits in the shared queues.
    pub(crate) fn close(&self) {
        self.threads.close();
        for crew in &self.crews {
            crew.close();
        }
        self.timer.poke();
        self.drain();
        super::barrier::full(); // pairs with who attaches or enters something there: it looks whether we are closed afterwards
        if let Some(attached) = self.attached.get() {
            attached.closed();
        }
    }

    /// Drops what waits in the shared queues and the timer.
    pub(crate) fn drain(&self) {
        let mut dropped: u64 = self.crews.iter().map(Crew::drain).sum();
        if let Some(driven) = &self.driven {
            dropped += driven.drain();
        }
        for job in self.timer.close() {
            contain::dropping(job);
            dropped += 1;
        }
        self.outside_dropped.add_shared(dropped);
    }

    /// A snapshot of all counters.
    pub(crate) fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        for crew in &self.crews {
            crew.add_depths(&mut counters.queued);
            counters.outside_wakes += crew.outside_wakes.get();
            for (index, slot) in crew.slots().iter().enumerate() {
                let pinned = slot.pinned.load(Ordering::Relaxed).checked_sub(1);
                let report = WorkerReport::new(crew.id(index), index >= crew.regular, pinned, &slot.counters);
                counters.dropped += report.dropped;
                counters.workers.push(report);
            }
        }
        if let Some(driven) = &self.driven {
            driven.add_depths(&mut counters.queued);
            counters.driven = driven.runs();
        }
        counters.outside_panics = self.outside_panics.get();
        counters.dropped += self.outside_dropped.get();
        counters.spares_missing = self.spares_missing.get();
        if !self.is_forked() {
            self.add_ages(&mut counters);
        }
        counters
    }

    /// Adds how long what waits has waited.
    fn add_ages(&self, counters: &mut Counters) {
        // The shared queues first: their number does not grow.
        let shared = self.crews.iter().map(Crew::lines).chain(self.driven.iter().map(Driven::lines));
        let mut lines: Vec<_> = shared.flatten().collect();
        let own_from = lines.len();
        for crew in &self.crews {
            // Also of threads that may be started later, so that each queue has its place.
            lines.extend((0..crew.capacity()).flat_map(|index| crew.slot(index).lines()).flatten());
        }
        let ages = self.ages.look(&lines, counters.executed(), self.now());
        let older = |oldest: &mut Option<Duration>, age: Option<Duration>| *oldest = (*oldest).max(age);
        for (line, age) in ages[..own_from].iter().enumerate() {
            older(&mut counters.oldest_waiting[line % LEVELS], *age);
        }
        for report in &mut counters.workers {
            let before = if report.worker.kind == WorkerKind::Io { self.crews[0].capacity() } else { 0 };
            let ages = ages[own_from..].chunks_exact(2 * LEVELS).nth(before + report.worker.index);
            for (level, ages) in ages.into_iter().flat_map(|ages| ages.chunks_exact(2)).enumerate() {
                report.oldest_waiting[level] = ages[0].max(ages[1]);
                older(&mut counters.oldest_waiting[level], report.oldest_waiting[level]);
            }
        }
    }
}

impl Drop for Engine {
    /// What the host has given to the builder goes where its destructors' panics are caught.
    fn drop(&mut self) {
        contain::dropping(self.config.on_start.take());
        contain::dropping(self.config.on_stop.take());
        contain::dropping(self.watch.take());
        contain::dropping(std::mem::replace(&mut self.clock, TimeSource::system()));
    }
}

const _: () = assert!(LEVELS == 4, "Counters has four entries a row");
