//! The helpers of a counted run: each runs tasks of it for a while, releases what they make ready, and gives way.
//! It does not know who waits for the run. Nothing here waits, and no word is written by every task but those of its own edges.
//!
//! Helpers join while there is more work than helpers, and leave when they find none: *push, fence, count helpers* against
//! *leave, fence, look for work*. That handshake decides about parallelism only: whoever pushed drains what it pushed before
//! it leaves. Where no more than one may help, there is one from the begin to the end, and words are counted without atomics.

use super::super::course::{Course, OnCourse};
use super::super::ids::TaskId;
use super::super::plan::Plan;
use super::super::status::{ContinueMode, TaskStatus};
use super::hands::Hands;
use super::seats::Seats;
use super::word::{DOOMED, Word};
use super::{CountedEnd, CountedReport};
use crate::flight::{FlightRef, catch, enter};
use crate::runtime::{Job, Place, Spawner};
use crate::sync::CachePadded;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::queue::{Injector, Worker, take};
use crate::sync::{Arc, Weak};
use std::time::Duration;

/// No task.
const NONE: u32 = u32::MAX;
/// First tasks that a helper takes at a time.
const FIRST_MAX: u64 = 32;
/// Tasks that a helper runs before it lets the runtime's other work have its turn.
const QUOTA_MAX: u32 = 1_024;
/// How long that should take at most.
const SLICE_MAX: Duration = Duration::from_micros(100);

/// Dependents up to which each word is looked at before it is written: more are often shared with others, who write them too.
const FEW_MAX: usize = 8;

/// How far the run has stopped: nothing, what has not started is skipped, it is aborted.
const SKIP: u32 = 1;
const ABORT: u32 = 2;

pub(super) struct Parts {
    pub(super) plan: Arc<Plan>,
    pub(super) mode: ContinueMode,
    pub(super) place: Place,
    pub(super) helpers_max: u32,
    pub(super) spawner: Spawner,
}

pub(super) struct Crew<F> {
    plan: Arc<Plan>,
    body: F,
    mode: ContinueMode,
    course: Course<CountedReport>,
    words: Box<[Word]>,
    seats: Seats,
    stop: AtomicU32,
    hands: Hands,
    /// How many of the tasks without dependencies have been taken.
    first: CachePadded<AtomicU64>,
    first_count: u64,
    /// Tasks that are not over, less those that helpers have not told of.
    left: CachePadded<AtomicU64>,
    failures: AtomicU32,
    bad: Injector<(u32, TaskStatus)>,
    me: Weak<Self>,
}

impl<R: CountedEnd + 'static, F: Fn(TaskId) -> R + Send + Sync + 'static> Crew<F> {
    pub(super) fn new(parts: Parts, body: F) -> Arc<Self> {
        let Parts { plan, mode, place, helpers_max, spawner } = parts;
        let course = Course::new(spawner, place);
        let deps = plan.deps();
        let words = deps.counts().map(Word::new).collect();
        let first_count = plan.order().iter().take_while(|task| deps.count(**task) == 0).count() as u64;
        let left = plan.len() as u64;
        Arc::new_cyclic(|me| Self {
            plan,
            body,
            mode,
            course,
            words,
            seats: Seats::new(helpers_max as usize),
            stop: AtomicU32::new(0),
            hands: Hands::new(u64::from(helpers_max)),
            first: CachePadded::new(AtomicU64::new(0)),
            first_count,
            left: CachePadded::new(AtomicU64::new(left)),
            failures: AtomicU32::new(0),
            bad: Injector::new(),
            me: me.clone(),
        })
    }

    pub(super) fn begin(&self) {
        if self.plan.is_empty() {
            return self.finish();
        }
        let wanted = self.first_count.div_ceil(FIRST_MAX).clamp(1, self.hands.most());
        for _ in 0..wanted {
            self.add_helper();
        }
    }

    fn add_helper(&self) {
        if let Some(run) = self.me.upgrade()
            && self.hands.join()
        {
            let seat = self.seats.take();
            let helper = Helper { run: Some(run), seat: seat as u32, quota: 1 };
            self.course.push(Job::new(move || helper.run()));
        }
    }

    /// More than the caller can run next is ready: somebody may join.
    #[inline]
    fn pushed(&self) {
        if self.hands.wanted() && !self.is_stopped() {
            self.add_helper();
        }
    }

    #[inline]
    fn is_stopped(&self) -> bool {
        // ordering: only a hint to begin no more; what was stopped for is told elsewhere.
        self.stop.load(Ordering::Relaxed) != 0
    }

    /// Runs a task, or not, as its word and the run say. Whether its dependents are doomed.
    #[inline]
    fn execute(&self, entry: u32) -> bool {
        if entry & DOOMED != 0 || self.is_stopped() {
            return self.pass_over(entry);
        }
        let status = catch(|| (self.body)(TaskId(entry)).status());
        match status {
            Ok(status) if status.is_pass() => false,
            Ok(status) => self.went_bad(entry, status),
            Err(_) => self.went_bad(entry, TaskStatus::Failed),
        }
    }

    #[cold]
    fn pass_over(&self, entry: u32) -> bool {
        let aborted = self.stop.load(Ordering::Relaxed) == ABORT;
        let status = if aborted { TaskStatus::Aborted } else { TaskStatus::Skipped };
        self.bad.push((entry & !DOOMED, status));
        self.mode != ContinueMode::Always
    }

    #[cold]
    fn went_bad(&self, task: u32, status: TaskStatus) -> bool {
        self.bad.push((task, status));
        if status == TaskStatus::Failed {
            let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
            if self.mode.failures_max().is_some_and(|most| failures >= most) {
                self.stop.fetch_max(SKIP, Ordering::Relaxed);
            }
        }
        self.mode != ContinueMode::Always
    }

    /// A task is over: of the dependents that it makes ready one is the caller's, the others go into its deque.
    #[inline]
    fn release<const ALONE: bool>(&self, task: u32, doom: bool, deque: &Worker<u32>) -> u32 {
        let (mut next, mut shared) = (NONE, false);
        let mut ready = |entry: u32| {
            // The last, and not the first: where lists are alike, each helper then stays with the tasks that it began.
            let before = std::mem::replace(&mut next, entry);
            if before != NONE {
                deque.push(before);
                shared = true;
            }
        };
        let cohorts = self.plan.cohorts();
        let dependents = cohorts.map_or_else(|| self.plan.edges_out().of(task), |cohorts| cohorts.counted(task));
        for &dependent in dependents {
            let word = &self.words[dependent as usize];
            if doom {
                word.doom();
            }
            if let Some(doomed) = word.release::<ALONE>(dependents.len() <= FEW_MAX) {
                ready(dependent | doomed);
                let behind = cohorts.map_or(&[][..], |cohorts| cohorts.behind(dependent));
                behind.iter().for_each(|task| ready(task | doomed));
            }
        }
        if !ALONE && shared {
            self.pushed();
        }
        next
    }

    /// Takes first tasks that nobody has taken: one, and some into the deque.
    fn take_first(&self, deque: &Worker<u32>) -> Option<u32> {
        // ordering: a claim of numbers; what they name was there before the run began.
        if self.first.load(Ordering::Relaxed) >= self.first_count {
            return None;
        }
        let from = self.first.fetch_add(FIRST_MAX, Ordering::Relaxed).min(self.first_count);
        let to = (from + FIRST_MAX).min(self.first_count);
        let mut taken = self.plan.order()[from as usize..to as usize].iter().copied();
        let mine = taken.next()?;
        taken.for_each(|task| deque.push(task));
        Some(mine)
    }

    fn has_work(&self) -> bool {
        self.seats.has_work() || self.first.load(Ordering::Relaxed) < self.first_count
    }

    /// Tasks are over. Whoever tells of the last one ends the run.
    fn tell(&self, done: u32) {
        // ordering: AcqRel gathers what all bodies did for whoever gets the report.
        if done > 0 && self.left.fetch_sub(u64::from(done), Ordering::AcqRel) == u64::from(done) {
            self.finish();
        }
    }

    fn finish(&self) {
        let mut bad: Vec<_> = std::iter::from_fn(|| take(&self.bad)).collect();
        bad.sort_unstable_by_key(|bad| bad.0);
        self.course.end(|elapsed| CountedReport { plan: self.plan.clone(), elapsed, bad });
    }
}

impl<R: CountedEnd + 'static, F: Fn(TaskId) -> R + Send + Sync + 'static> OnCourse for Crew<F> {
    type Report = CountedReport;

    fn course(&self) -> &Course<CountedReport> {
        &self.course
    }

    fn describe(&self) -> String {
        format!("counted run of {} tasks", self.plan.len())
    }

    fn abort(&self) {
        // ordering: only a hint to begin no more.
        self.stop.fetch_max(ABORT, Ordering::Relaxed);
    }
}

/// One who runs tasks of a run. Dropped unrun, as by a shutdown, it aborts the run and settles what it finds.
struct Helper<R: CountedEnd + 'static, F: Fn(TaskId) -> R + Send + Sync + 'static> {
    run: Option<Arc<Crew<F>>>,
    seat: u32,
    quota: u32,
}

impl<R: CountedEnd + 'static, F: Fn(TaskId) -> R + Send + Sync + 'static> Helper<R, F> {
    fn run(mut self) {
        let Some(run) = self.run.clone() else { return };
        let spawner = &run.course.spawner;
        loop {
            let began = spawner.now();
            let (done, dry) = self.slice(&run);
            run.tell(done);
            if !dry {
                let quick = spawner.now().saturating_sub(began) < SLICE_MAX;
                self.quota = if quick { (self.quota * 2).min(QUOTA_MAX) } else { (self.quota / 2).max(1) };
                run.course.push_next(Job::new(move || self.run()));
                return;
            }
            if !self.stay(&run) {
                self.run = None;
                return;
            }
        }
    }

    /// Runs up to a quota of tasks: how many, and whether it stopped for want of work.
    fn slice(&self, run: &Crew<F>) -> (u32, bool) {
        // As of any flight: who waits inside a body for the run waits for himself.
        let _inside = enter(run.id());
        if run.hands.most() == 1 { self.slice_of::<true>(run) } else { self.slice_of::<false>(run) }
    }

    fn slice_of<const ALONE: bool>(&self, run: &Crew<F>) -> (u32, bool) {
        // SAFETY: a helper has taken its seat, and runs on one thread at a time.
        let deque = unsafe { run.seats.deque(self.seat as usize) };
        let mut done = 0;
        while done < self.quota {
            let Some(mut entry) = deque.pop().or_else(|| self.find(run, deque)) else { return (done, true) };
            loop {
                let doom = run.execute(entry);
                let next = run.release::<ALONE>(entry & !DOOMED, doom, deque);
                done += 1;
                if next == NONE {
                    break;
                }
                if done >= self.quota {
                    deque.push(next);
                    break;
                }
                entry = next;
            }
        }
        (done, false)
    }

    #[cold]
    fn find(&self, run: &Crew<F>, deque: &Worker<u32>) -> Option<u32> {
        let found = run.take_first(deque).or_else(|| run.seats.steal(self.seat as usize, deque))?;
        if run.has_work() {
            run.pushed();
        }
        Some(found)
    }

    /// Leaves for want of work, unless there is some after all: then it sits down again.
    fn stay(&mut self, run: &Crew<F>) -> bool {
        run.seats.give_up(self.seat as usize);
        run.hands.leave();
        if run.has_work() && run.hands.join() {
            self.seat = run.seats.take() as u32;
            return true;
        }
        false
    }
}

impl<R: CountedEnd + 'static, F: Fn(TaskId) -> R + Send + Sync + 'static> Drop for Helper<R, F> {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        run.abort();
        self.quota = u32::MAX;
        loop {
            let (done, dry) = self.slice(&run);
            run.tell(done);
            if dry && !self.stay(&run) {
                return;
            }
        }
    }
}
