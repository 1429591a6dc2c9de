//! A runtime without threads: jobs wait until somebody drives, in the order of their priorities or in one that a seed chooses.
//! It does not know who drives, nor when.
#![forbid(unsafe_code)]

use super::choice::Cursor;
use super::contain;
use super::current;
use super::engine::Engine;
use super::job::Job;
use super::place::{LEVELS, Place, Priority};
use super::waiting::Line;
use crate::sync::queue::{Injector, look_and_take};
use crate::sync::{CachePadded, Mutex, stat};
use std::collections::VecDeque;
use std::time::Duration;

/// Continuations that are driven in a row before the queues are looked at.
const STREAK_MAX: u8 = 3;

/// One thread at a job, or looking for one: in the lower bits of what is going on.
const ACTIVE: u64 = 1;
/// One job that was run: in the upper bits.
const RUN: u64 = 1 << 16;

/// The jobs of a runtime without threads.
pub(crate) struct Driven {
    order: Order,
    /// How many drive at the moment, and how many jobs were run.
    going_on: stat::AtomicU64,
}

/// A thread that drives.
struct Active<'a>(&'a Driven, u64);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        // ordering: Release, so that who sees the end sees what the job has pushed.
        self.0.going_on.fetch_add(self.1.wrapping_sub(ACTIVE), stat::Ordering::AcqRel);
    }
}

enum Order {
    /// By priority, and first come, first served within one.
    Priority(Box<Inline>),
    /// By a seed.
    Seeded(Mutex<Seeded>),
}

struct Inline {
    queues: [CachePadded<Injector<(Place, Job)>>; LEVELS],
    hot: Injector<(Place, Job)>,
    turn: Mutex<Turn>,
}

/// Whose turn it is: plain data, since threads that drive at once share it.
#[derive(Default)]
struct Turn {
    cursor: Cursor,
    streak: u8,
    /// Jobs that have left the queue of each level; goes round.
    left: [u32; LEVELS],
}

struct Seeded {
    random: u64,
    jobs: VecDeque<(Place, Job)>,
    /// Jobs of each level that have left; goes round.
    left: [u32; LEVELS],
}

impl Driven {
    /// Jobs run in the order of their priorities.
    pub(crate) fn inline() -> Self {
        let inline = Inline {
            queues: std::array::from_fn(|_| CachePadded::new(Injector::new())),
            hot: Injector::new(),
            turn: Mutex::new(Turn::default()),
        };
        Self::of(Order::Priority(Box::new(inline)))
    }

    /// Jobs run in an order that depends on the seed alone, as long as one thread drives at a time.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self::of(Order::Seeded(Mutex::new(Seeded {
            random: seed ^ 0x9e37_79b9_7f4a_7c15,
            jobs: VecDeque::new(),
            left: [0; LEVELS],
        })))
    }

    fn of(order: Order) -> Self {
        Self { order, going_on: stat::AtomicU64::new(0) }
    }

    /// A mark by which `others_at_work` tells whether anything has gone on since.
    pub(crate) fn mark(&self) -> u64 {
        // ordering: pairs with the end of a drive. If that came first, what its job pushed is found by who looks next.
        self.going_on.load(stat::Ordering::Acquire)
    }

    /// How many jobs were run.
    pub(crate) fn runs(&self) -> u64 {
        self.mark() / RUN
    }

    /// Whether another thread drives, or has driven since `mark`: so that what it has pushed, or will, may not have been seen by
    /// a look in between.
    pub(crate) fn others_at_work(&self, engine: &Engine, mark: u64) -> bool {
        self.mark() != mark || mark % RUN != current::drives_of(engine)
    }

    pub(crate) fn push(&self, engine: &Engine, place: Place, jobs: impl Iterator<Item = Job>) {
        match &self.order {
            Order::Priority(inline) => {
                for job in jobs {
                    inline.queues[place.priority.level()].push((place, job));
                }
            }
            Order::Seeded(seeded) => {
                for job in jobs {
                    seeded.lock().jobs.push_back((place, job));
                }
            }
        }
        self.drain_if_closed(engine);
    }

    pub(crate) fn push_hot(&self, engine: &Engine, place: Place, job: Job) {
        match &self.order {
            Order::Priority(inline) if current::pool_of(engine) == Some(place.pool) => {
                inline.hot.push((place, job));
                self.drain_if_closed(engine);
            }
            _ => self.push(engine, place, std::iter::once(job)),
        }
    }

    /// Calls `f`, which waits for other threads that drive. Meanwhile what this thread drives is not at work.
    pub(crate) fn aside<R>(&self, engine: &Engine, f: impl FnOnce() -> R) -> R {
        let mine = current::drives_of(engine);
        // ordering: as at the end of a drive.
        self.going_on.fetch_sub(mine, stat::Ordering::AcqRel);
        let result = f();
        self.going_on.fetch_add(mine, stat::Ordering::AcqRel);
        result
    }

    fn drain_if_closed(&self, engine: &Engine) {
        super::barrier::full(); // pairs with `Crew::close`
        if engine.refusal().is_some() {
            let dropped = self.drain();
            engine.outside_dropped.add_shared(dropped);
        }
    }

    fn pop(&self) -> Option<(Place, Job)> {
        match &self.order {
            Order::Priority(inline) => inline.pop(),
            Order::Seeded(seeded) => {
                let mut seeded = seeded.lock();
                let count = seeded.jobs.len() as u64;
                let at = if count == 0 { 0 } else { seeded.next() % count };
                let found = seeded.jobs.swap_remove_front(at as usize)?;
                let left = &mut seeded.left[found.0.priority.level()];
                *left = left.wrapping_add(1);
                Some(found)
            }
        }
    }

    /// Fires what is due and runs one job; false if there was none.
    pub(crate) fn drive_one(&self, engine: &Engine) -> bool {
        // ordering: AcqRel, before the job is taken: who finds none left sees that somebody is at work.
        self.going_on.fetch_add(ACTIVE, stat::Ordering::AcqRel);
        let mut active = Active(self, 0);
        _ = self.fire(engine);
        let Some((place, job)) = self.pop() else { return false };
        active.1 = RUN;
        // Who is told of a panic is driven too: what he waits for is not at work on another thread.
        current::driving(engine, place.pool, || {
            if let Err(payload) = contain::call(|| job.run()) {
                engine.outside_panics.add_shared(1);
                engine.report_panic(None, payload);
            }
        });
        true
    }

    /// Pushes the jobs whose deadlines have come. The next deadline, if any.
    pub(crate) fn fire(&self, engine: &Engine) -> Option<Duration> {
        if engine.timer.is_idle() {
            return None;
        }
        engine.timer.turn(engine.now(), |place, job| self.push(engine, place, std::iter::once(job)))
    }

    pub(crate) fn drain(&self) -> u64 {
        let mut dropped = 0;
        while let Some((_, job)) = self.pop() {
            contain::dropping(job);
            dropped += 1;
        }
        dropped
    }

    /// The jobs of each level: how many have left, and how many wait.
    pub(crate) fn lines(&self) -> [Line; LEVELS] {
        match &self.order {
            Order::Priority(inline) => {
                let left = inline.turn.lock().left;
                std::array::from_fn(|level| Line { left: left[level], waiting: inline.queues[level].len() })
            }
            Order::Seeded(seeded) => {
                let seeded = seeded.lock();
                let waiting = |level| seeded.jobs.iter().filter(|(place, _)| place.priority.level() == level).count();
                std::array::from_fn(|level| Line { left: seeded.left[level], waiting: waiting(level) })
            }
        }
    }

    pub(crate) fn add_depths(&self, depths: &mut [usize; LEVELS]) {
        match &self.order {
            Order::Priority(inline) => {
                for (depth, queue) in depths.iter_mut().zip(&inline.queues) {
                    *depth += queue.len();
                }
                depths[Priority::Interactive.level()] += inline.hot.len();
            }
            Order::Seeded(seeded) => {
                for (place, _) in &seeded.lock().jobs {
                    depths[place.priority.level()] += 1;
                }
            }
        }
    }
}

impl Inline {
    fn pop(&self) -> Option<(Place, Job)> {
        let mut turn = self.turn.lock();
        if turn.streak < STREAK_MAX
            && let Some(hot) = look_and_take(&self.hot)
        {
            turn.streak += 1;
            return Some(hot);
        }
        turn.streak = 0;
        let mut ready = (0..LEVELS as u8).filter(|level| !self.queues[usize::from(*level)].is_empty());
        let mut ready = ready.by_ref().fold(0, |set, level| set | 1 << level);
        while ready != 0 {
            let (level, after) = turn.cursor.choose(ready);
            if let Some(found) = look_and_take(&self.queues[level]) {
                turn.cursor = after;
                turn.left[level] = turn.left[level].wrapping_add(1);
                return Some(found);
            }
            ready &= !(1 << level);
        }
        look_and_take(&self.hot)
    }
}

impl Seeded {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
