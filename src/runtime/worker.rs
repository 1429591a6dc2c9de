//! One worker thread: its queues, the order in which it takes jobs, how it looks for more, and how it sleeps.
//! It does not know what a job does, nor who pushes it.
#![forbid(unsafe_code)]

use super::affinity;
use super::choice::Cursor;
use super::contain;
use super::crew::{Crew, Slot};
use super::engine::Engine;
use super::fifo::Fifo;
use super::job::Job;
use super::place::{LEVELS, Place, Pool};
use super::search::Search;
use super::spin::Spin;
use crate::observe::Event;
use crate::sync::atomic::Ordering;
use crate::sync::queue::Worker as Queue;
use crate::sync::{Arc, hint, stat, thread};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Continuations that a worker runs in a row at one level before it looks at that level's queue: a pair of jobs that keep
/// making each other ready must not shut the others out.
const STREAK_MAX: u8 = 3;
/// Every how many selections a level's shared queue is looked at although the worker has jobs of its own at that level.
const OUTSIDE_EVERY: u32 = 16;
/// How many jobs such a look takes along.
const OUTSIDE_TAKE: usize = 4;
/// Rounds of spinning during which a thief leaves a victim its continuation, which it will most likely run at once.
const HOT_PATIENCE: u32 = 32;
/// Victims looked at in one round of spinning.
const VICTIMS_A_ROUND: usize = 8;

/// Why a worker stops working.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The runtime is shut down.
    Closed,
    /// A spare is not needed any more.
    Rest,
}

/// A worker, owned by its thread.
pub(crate) struct Worker {
    engine: Arc<Engine>,
    pub(crate) pool: Pool,
    pub(crate) index: usize,
    /// What it has pushed.
    pub(super) own: [Fifo<Job>; LEVELS],
    /// What it has brought from the shared queues and other workers, which goes before what it pushes meanwhile.
    pub(super) brought: [Queue<Job>; LEVELS],
    /// One bit for each level: `brought` may hold jobs.
    pub(super) brings: Cell<u32>,
    /// The continuation that runs next; no thief sees it, since the worker is about to take it.
    pub(super) next: Cell<Option<Job>>,
    /// One bit: the level of `next`. Zero if there is none.
    pub(super) next_bit: Cell<u32>,
    /// One bit for each level: jobs for which the own queue had no room stand in the shared one.
    pub(super) beyond: Cell<u32>,
    cursor: Cell<Cursor>,
    streak: Cell<u8>,
    tick: Cell<u32>,
    random: Cell<u32>,
    spin: Spin,
}

impl Worker {
    pub(crate) fn new(engine: Arc<Engine>, pool: Pool, index: usize) -> Self {
        let spin = Spin::new(engine.config.spin);
        Self {
            engine,
            pool,
            index,
            own: std::array::from_fn(|_| Fifo::new()),
            brought: std::array::from_fn(|_| Queue::new_fifo()),
            brings: Cell::new(0),
            next: Cell::new(None),
            next_bit: Cell::new(0),
            beyond: Cell::new(0),
            cursor: Cell::new(Cursor::default()),
            streak: Cell::new(0),
            tick: Cell::new(0),
            random: Cell::new(0x9e37_79b9 ^ (index as u32 + 1)),
            spin,
        }
    }

    #[inline(always)]
    pub(crate) fn is_of(&self, engine: &Engine) -> bool {
        std::ptr::eq(&raw const *self.engine, engine)
    }

    /// The CPU that it is pinned to, if it is.
    pub(crate) fn pinned(&self) -> Option<usize> {
        self.slot().pinned.load(stat::Ordering::Relaxed).checked_sub(1)
    }

    /// Sets every counter near the end of its range.
    #[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
    pub(super) fn near_the_end(&self) {
        self.tick.set(u32::MAX - 100);
        let counters = &self.slot().counters;
        for tally in [&counters.executed, &counters.panics, &counters.steals, &counters.parks, &counters.wakes] {
            tally.set(u64::MAX - 100);
        }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    #[inline(always)]
    pub(crate) fn crew(&self) -> &Crew {
        self.engine.crew(self.pool)
    }

    #[inline(always)]
    pub(super) fn slot(&self) -> &Slot {
        self.crew().slot(self.index)
    }

    fn is_spare(&self) -> bool {
        self.index >= self.crew().regular
    }

    /// Works until the runtime is shut down or the worker is to rest, and then leaves its queues empty.
    pub(crate) fn work(&self) -> End {
        self.slot().open(&self.own, &self.brought, thread::current());
        let mut begun = Instant::now();
        loop {
            while self.select_with(|job| self.run(job)).is_some() {
                if self.is_spare() && self.may_rest() {
                    return self.rest(begun, false);
                }
            }
            let idle = Instant::now();
            self.slot().counters.busy_nanos.add(nanos(idle - begun));
            match self.search() {
                Ok(job) => {
                    begun = Instant::now();
                    self.spin.learn(begun - idle);
                    self.run(Some(job));
                }
                Err(End::Rest) => return self.rest(idle, true),
                Err(End::Closed) => {
                    let dropped = self.drop_jobs();
                    self.slot().counters.dropped.add(dropped);
                    return End::Closed;
                }
            }
        }
    }

    fn rest(&self, begun: Instant, counted: bool) -> End {
        if !counted {
            self.slot().counters.busy_nanos.add(nanos(begun.elapsed()));
        }
        while let Some((level, job)) = self.pop_any() {
            self.crew().inject(level, std::iter::once(job));
        }
        End::Rest
    }

    /// Whether this spare has nobody to stand in for any more; then it must rest.
    fn may_rest(&self) -> bool {
        self.crew().take_surplus()
    }

    #[inline(always)]
    fn run(&self, job: Option<Job>) {
        let counters = &self.slot().counters;
        let result = match &self.engine.watch {
            None => Job::run_contained(job),
            Some(_) => self.run_watched(job),
        };
        counters.executed.add(1);
        if let Err(payload) = result {
            counters.panics.add(1);
            self.engine.report_panic(Some(self.crew().id(self.index)), payload);
        }
    }

    #[cold]
    fn run_watched(&self, job: Option<Job>) -> Result<(), contain::Payload> {
        let worker = self.crew().id(self.index);
        let every = u64::from(self.engine.watch.as_ref().map_or(0, |watch| watch.every));
        if every == 0 || !self.slot().counters.executed.get().is_multiple_of(every) {
            return Job::run_contained(job);
        }
        self.engine.event(&Event::JobStarted { worker, at: self.engine.now() });
        let result = Job::run_contained(job);
        self.engine.event(&Event::JobFinished { worker, at: self.engine.now(), panicked: result.is_err() });
        result
    }

    /// Counts what ran inside a job beside the job itself; wraps.
    pub(crate) fn count(&self, executed: u64, panics: u64) {
        let counters = &self.slot().counters;
        counters.executed.add(executed);
        counters.panics.add(panics);
    }

    /// Whether jobs wait here at another priority than that of `place`, or the runtime is shut down.
    pub(crate) fn has_other_work(&self, place: Place) -> bool {
        let (injected, closed) = self.crew().look();
        let soon = self.next_bit.get() | self.slot().hot.level().map_or(0, |level| 1 << level);
        let ready = self.slot().levels.load(Ordering::Relaxed) | soon | injected;
        closed || ready & !(1 << place.priority.level()) != 0
    }

    /// The next job by the table, from the worker's own queues and the shared ones.
    pub(crate) fn select(&self) -> Option<Job> {
        self.select_with(|job| job).flatten()
    }

    /// Hands the next job by the table to `then` as the queue hands it over, so that it is not copied on the way.
    #[inline(always)]
    fn select_with<R>(&self, then: impl FnOnce(Option<Job>) -> R) -> Option<R> {
        let slot = self.slot();
        loop {
            let (injected, closed) = self.crew().look();
            if closed {
                return None;
            }
            let soon = self.next_bit.get() | slot.hot.level().map_or(0, |level| 1 << level);
            let ready = slot.levels.load(Ordering::Relaxed) | soon | injected;
            if ready == 0 {
                return None;
            }
            let (level, after) = self.cursor.get().choose(ready as u8);
            if (soon | injected) & (1 << level) == 0 {
                let job = self.pop(level);
                if job.is_some() {
                    self.streak.set(0);
                    self.chosen(after);
                    return Some(then(job));
                }
                self.ran_empty(level);
            } else if let Some(job) = self.take(level, injected) {
                self.chosen(after);
                return Some(then(Some(job)));
            }
        }
    }

    /// The oldest job of the worker's own queues at a level.
    #[inline(always)]
    fn pop(&self, level: usize) -> Option<Job> {
        if self.brings.get() & (1 << level) != 0 {
            let brought = self.brought[level].pop();
            if brought.is_some() {
                return brought;
            }
            self.brings.set(self.brings.get() & !(1 << level));
        }
        self.own[level].pop()
    }

    /// The own queues of a level were found empty.
    fn ran_empty(&self, level: usize) {
        self.unmark(level);
        self.beyond.set(self.beyond.get() & !(1 << level));
    }

    /// A job was selected.
    #[inline(always)]
    fn chosen(&self, after: Cursor) {
        self.cursor.set(after);
        if self.next_bit.get() != 0 {
            self.expose();
        }
    }

    /// A job of one level: the continuation unless it had its turns, then the own queue, then the shared one. Clears what says
    /// that the level has jobs if it finds none.
    fn take(&self, level: usize, injected: u32) -> Option<Job> {
        let streak = self.streak.get();
        if streak < STREAK_MAX
            && let Some(job) = self.take_continuation(level)
        {
            self.streak.set(streak + 1);
            return Some(job);
        }
        let outside = injected & (1 << level) != 0;
        let tick = self.tick.get().wrapping_add(1);
        self.tick.set(tick);
        if outside && tick.is_multiple_of(OUTSIDE_EVERY) {
            self.take_along(level);
        }
        if let Some(job) = self.pop(level) {
            self.streak.set(0);
            return Some(job);
        }
        self.ran_empty(level);
        if outside && let Some(job) = self.fetch(level) {
            self.streak.set(0);
            return Some(job);
        }
        self.take_continuation(level)
    }

    #[inline]
    fn take_continuation(&self, level: usize) -> Option<Job> {
        if self.next_bit.get() == 1 << level {
            self.next_bit.set(0);
            return self.next.take();
        }
        if self.slot().hot.level() == Some(level) {
            return self.slot().hot.take().map(|(_, job)| job);
        }
        None
    }

    /// Takes some jobs of the shared queue along, and one at once. For a worker that has brought none of that level before.
    fn fetch(&self, level: usize) -> Option<Job> {
        let job = self.crew().take_injected(level, &self.brought[level])?;
        let along = self.brought[level].len() as u64;
        let counters = &self.slot().counters;
        counters.fetched[level].add(1 + along);
        counters.brought[level].add(along);
        self.has_brought(level);
        Some(job)
    }

    /// Brings a few jobs from the shared queue, so that outside work is never shut out: before the worker's own, unless some of
    /// those there are its own and younger.
    fn take_along(&self, level: usize) {
        if self.beyond.get() & (1 << level) != 0 {
            return;
        }
        let mut along = 0;
        while along < OUTSIDE_TAKE
            && let Some(job) = self.crew().take_one_injected(level)
        {
            self.brought[level].push(job);
            along += 1;
        }
        let counters = &self.slot().counters;
        counters.fetched[level].add(along as u64);
        counters.brought[level].add(along as u64);
        self.has_brought(level);
    }

    /// Whatever the worker still has; for one that ends or rests.
    fn pop_any(&self) -> Option<(usize, Job)> {
        self.expose();
        if let Some(hot) = self.slot().hot.take() {
            return Some(hot);
        }
        (0..LEVELS).find_map(|level| {
            let job = self.pop(level);
            if job.is_none() {
                self.ran_empty(level);
            }
            job.map(|job| (level, job))
        })
    }

    fn drop_jobs(&self) -> u64 {
        let mut dropped = 0;
        while let Some((_, job)) = self.pop_any() {
            if !contain::dropping(job) {
                self.slot().counters.panics.add(1);
            }
            dropped += 1;
        }
        dropped
    }

    /// Looks for a job elsewhere: takes over, spins, sleeps.
    fn search(&self) -> Result<Job, End> {
        let crew = self.crew();
        let mut search = Search::default();
        loop {
            if crew.is_closed() {
                return Err(End::Closed);
            }
            if self.is_spare() && self.may_rest() {
                search.end(crew, self.index);
                return Err(End::Rest);
            }
            let spins = self.spin.budget() > 0 && search.begin(crew);
            let job = self.select().or_else(|| self.take_elsewhere(!spins));
            // Whoever goes to sleep has left nothing behind, also no continuation that its worker keeps waiting.
            let job = job.or_else(|| if spins { self.spin().or_else(|| self.take_elsewhere(true)) } else { None });
            if let Some(job) = job {
                search.end(crew, self.index);
                return Ok(job);
            }
            if search.may_sleep(crew, self.index) {
                self.sleep();
                search.woken();
            } else {
                // Perhaps another thief is at the only queue with work, and needs this CPU to be done there.
                thread::yield_now();
            }
        }
    }

    fn sleep(&self) {
        let crew = self.crew();
        let worker = crew.id(self.index);
        self.slot().counters.parks.add(1);
        if self.engine.watch.is_some() {
            self.engine.event(&Event::Parked { worker, at: self.engine.now() });
        }
        crew.sleep(self.index);
        if self.engine.watch.is_some() {
            self.engine.event(&Event::Unparked { worker, at: self.engine.now() });
        }
    }

    /// A job from a shared queue, whatever its hint says, or from another worker.
    fn take_elsewhere(&self, hot: bool) -> Option<Job> {
        let crew = self.crew();
        for level in crew.injectors_with_work() {
            if let Some(job) = self.fetch(level) {
                return Some(job);
            }
        }
        self.steal(crew.slots().len(), hot)
    }

    /// Looks at `count` other workers, from a random one on.
    fn steal(&self, count: usize, hot: bool) -> Option<Job> {
        let slots = self.crew().slots();
        let first = self.random() as usize % slots.len();
        for victim in (first..slots.len()).chain(0..first).take(count) {
            if victim == self.index {
                continue;
            }
            let taken = slots[victim].steal(&self.brought);
            let taken = taken.or_else(|| if hot { slots[victim].hot.take() } else { None });
            if let Some((level, job)) = taken {
                self.slot().counters.brought[level].add(self.brought[level].len() as u64);
                self.has_brought(level);
                self.stole(victim);
                return Some(job);
            }
        }
        None
    }

    fn stole(&self, victim: usize) {
        self.slot().counters.steals.add(1);
        if self.engine.watch.is_some() {
            let crew = self.crew();
            self.engine.event(&Event::Stole { worker: crew.id(self.index), victim: crew.id(victim) });
        }
    }

    fn random(&self) -> u32 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.random.set(x);
        x
    }

    /// Looks around for a while, as the one searcher of the crew.
    fn spin(&self) -> Option<Job> {
        let crew = self.crew();
        let (begun, budget) = (Instant::now(), Duration::from_nanos(self.spin.budget()));
        self.slot().counters.spins.add(1);
        // With one CPU nothing comes while this looks: it lets who may bring work run, and looks again. A worker that slept at
        // once would cost every submitter a wake, and the CPU two changes of threads for each job.
        let alone = affinity::machine().parallel < 2;
        for round in 1_u32.. {
            if !alone {
                (0..8).for_each(|_| hint::spin_loop());
            }
            let (injected, closed) = crew.look();
            if closed {
                return None;
            }
            let job = if injected != 0 { self.select() } else { None };
            let job = job.or_else(|| self.steal(VICTIMS_A_ROUND, round > HOT_PATIENCE));
            if job.is_some() {
                return job;
            }
            if cfg!(any(shardrun_loom, shardrun_shuttle)) {
                return None; // The model checkers know no time: one round stands for any number.
            }
            if alone || round.is_multiple_of(8) {
                if begun.elapsed() > budget {
                    return None;
                }
                // Whoever is to bring the work may want this CPU.
                thread::yield_now();
            }
        }
        None
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
