//! The threads of one pool as others see them: queues, who is idle, and whether anybody looks for work.
//! It does not know how a worker runs jobs, nor why one is pushed.
//!
//! Two rules keep every job from being left behind. *Push, barrier, look for a searcher or a sleeper* on the one side;
//! *announce, barrier, look at every queue, sleep* on the other. At most one thread of a crew searches; who makes a sleeper run
//! gives it that role, so that a burst wakes one, which wakes the next if there is more.
#![forbid(unsafe_code)]

use super::barrier;
use super::bits::BitSet;
use super::fifo::{Fifo, Tap};
use super::hot::HotSlot;
use super::job::Job;
use super::place::{LEVELS, Pool};
use super::waiting::Line;
use crate::observe::{Tally, WorkerCounters, WorkerId, WorkerKind};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::queue::{Injector, Steal, Stealer, Worker as Queue};
use crate::sync::thread::Thread;
use crate::sync::{CachePadded, OnceLock, mutant, stat};

/// Bits of the door word below this one: the shared queue of that level may hold jobs.
const INJECTED: u64 = (1 << LEVELS) - 1;
/// Somebody looks for work, and will look at every queue before it stops. Set by who takes the role or wakes its next holder,
/// cleared by the holder.
const SEARCHING: u64 = 1 << LEVELS;
/// Shut down. Set once, never cleared.
const CLOSED: u64 = 1 << (LEVELS + 1);

/// What thieves have of a worker's queues, for each level.
struct Taps {
    own: [Tap<Job>; LEVELS],
    brought: [Stealer<Job>; LEVELS],
}

impl Taps {
    fn is_empty(&self, level: usize) -> bool {
        self.own[level].is_empty() && self.brought[level].is_empty()
    }
}

/// What others see of one worker.
pub(crate) struct Slot {
    /// Which of its queues may hold jobs; written by the owner alone, and only when that changes.
    pub(crate) levels: CachePadded<AtomicU32>,
    /// The job that it is to run soon.
    pub(crate) hot: HotSlot,
    /// Where thieves take from; set when the thread starts.
    taps: OnceLock<Taps>,
    /// Whom to unpark; set when the thread starts.
    thread: OnceLock<Thread>,
    pub(crate) counters: WorkerCounters,
    /// The CPU that it is pinned to, plus one.
    pub(crate) pinned: stat::AtomicUsize,
}

impl Slot {
    fn new() -> Self {
        Self {
            levels: CachePadded::new(AtomicU32::new(0)),
            hot: HotSlot::new(),
            taps: OnceLock::new(),
            thread: OnceLock::new(),
            counters: WorkerCounters::default(),
            pinned: stat::AtomicUsize::new(0),
        }
    }

    /// Makes the queues of a starting worker known to thieves and wakers.
    pub(crate) fn open(&self, own: &[Fifo<Job>; LEVELS], brought: &[Queue<Job>; LEVELS], thread: Thread) {
        let taps = || Taps {
            own: std::array::from_fn(|level| own[level].tap()),
            brought: std::array::from_fn(|level| brought[level].stealer()),
        };
        let _ = self.taps.get_or_init(taps);
        let _ = self.thread.set(thread);
    }

    /// The levels that hold jobs, and where to take from.
    fn loaded(&self) -> impl Iterator<Item = (usize, &Taps)> {
        let levels = self.levels.load(Ordering::Relaxed);
        let taps = if levels == 0 { None } else { self.taps.get() };
        let all = taps.into_iter().flat_map(|taps| (0..LEVELS).map(move |level| (level, taps)));
        all.filter(move |(level, taps)| levels & (1 << level) != 0 && !taps.is_empty(*level))
    }

    /// Whether a thief would find something here.
    fn has_work(&self) -> bool {
        self.hot.level().is_some() || self.loaded().next().is_some()
    }

    /// Takes up to half of the most urgent queue into the thief's `brought`, and one job at once.
    pub(crate) fn steal(&self, brought: &[Queue<Job>; LEVELS]) -> Option<(usize, Job)> {
        for (level, taps) in self.loaded() {
            loop {
                match taps.brought[level].steal_batch_and_pop(&brought[level]) {
                    Steal::Success(job) => return Some((level, job)),
                    Steal::Empty => break,
                    Steal::Retry => {}
                }
            }
            if let Some(job) = taps.own[level].steal(|job| brought[level].push(job)) {
                return Some((level, job));
            }
        }
        None
    }

    /// The two queues of each level, its own and what it has brought: how many have left, and how many wait.
    pub(crate) fn lines(&self) -> [[Line; 2]; LEVELS] {
        let Some(taps) = self.taps.get() else { return [[Line::default(); 2]; LEVELS] };
        std::array::from_fn(|level| {
            let (left, waiting) = taps.own[level].line();
            // What came before all that waits has left, whoever took it. Counted after the look, so that it is not too little.
            let here = taps.brought[level].len();
            let came = self.counters.brought[level].get() as u32;
            [Line { left, waiting }, Line { left: came.wrapping_sub(here as u32), waiting: here }]
        })
    }

    /// Takes everything out.
    fn empty(&self, mut put: impl FnMut(Job)) {
        while let Some((_, job)) = self.hot.take() {
            put(job);
        }
        let Some(taps) = self.taps.get() else { return };
        for level in 0..LEVELS {
            loop {
                match taps.brought[level].steal() {
                    Steal::Success(job) => put(job),
                    Steal::Empty => break,
                    Steal::Retry => {}
                }
            }
            while let Some(job) = taps.own[level].steal(&mut put) {
                put(job);
            }
        }
    }

    /// How many jobs wait at each level here.
    fn add_depths(&self, depths: &mut [usize; LEVELS]) {
        if let Some(taps) = self.taps.get() {
            for (level, depth) in depths.iter_mut().enumerate() {
                *depth += taps.own[level].len() + taps.brought[level].len();
            }
        }
        if let Some(level) = self.hot.level() {
            depths[level] += 1;
        }
    }
}

/// The threads of one pool.
pub(crate) struct Crew {
    pub(crate) pool: Pool,
    /// Hints about the shared queues, the searcher, the end: read with every push and every selection, written when one changes.
    door: CachePadded<AtomicU64>,
    /// Who sleeps. The bit that a waker clears is its claim on the sleeper.
    idle: BitSet,
    /// Spares that have no work to stand in for.
    pub(crate) resting: BitSet,
    /// Slots for spares that count as started and have no thread, since none could be started.
    pub(crate) vacant: BitSet,
    injectors: [Injector<Job>; LEVELS],
    slots: Box<[CachePadded<Slot>]>,
    /// Threads that are not spares.
    pub(crate) regular: usize,
    /// Slots whose threads were started; spares come after the regular ones.
    pub(crate) started: stat::AtomicUsize,
    /// Spares that are to rest, since the workers that they stood in for are back. Below zero, in two's complement: workers that
    /// block and have no spare.
    pub(crate) surplus: AtomicU64,
    pub(crate) outside_wakes: Tally,
}

impl Crew {
    pub(crate) fn new(pool: Pool, regular: usize, spares: usize) -> Self {
        Self {
            pool,
            door: CachePadded::new(AtomicU64::new(0)),
            idle: BitSet::new(regular + spares),
            resting: BitSet::new(regular + spares),
            vacant: BitSet::new(regular + spares),
            injectors: std::array::from_fn(|_| Injector::new()),
            slots: (0..regular + spares).map(|_| CachePadded::new(Slot::new())).collect(),
            regular,
            started: stat::AtomicUsize::new(regular),
            surplus: AtomicU64::new(0),
            outside_wakes: Tally::default(),
        }
    }

    pub(crate) fn id(&self, index: usize) -> WorkerId {
        let kind = match self.pool {
            Pool::Workers => WorkerKind::Worker,
            Pool::Io => WorkerKind::Io,
        };
        WorkerId { kind, index }
    }

    pub(crate) fn slot(&self, index: usize) -> &Slot {
        &self.slots[index]
    }

    /// The slots of all threads that were ever started.
    pub(crate) fn slots(&self) -> &[CachePadded<Slot>] {
        &self.slots[..self.started.load(stat::Ordering::Acquire).min(self.slots.len())]
    }

    /// How many threads this crew can have.
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        self.door.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// The levels whose shared queue may hold jobs, and whether the crew is closed.
    #[inline(always)]
    pub(crate) fn look(&self) -> (u32, bool) {
        let door = self.door.load(Ordering::Relaxed);
        ((door & INJECTED) as u32, door & CLOSED != 0)
    }

    /// Pushes jobs from outside, with one look for somebody to run them.
    pub(crate) fn inject(&self, level: usize, jobs: impl Iterator<Item = Job>) {
        for job in jobs {
            self.injectors[level].push(job);
        }
        self.pushed(Some(level), None);
    }

    /// To be called after a push: makes sure that somebody will come for it. `waker` is the worker that pushed, if one did.
    #[inline(always)]
    pub(crate) fn pushed(&self, shared: Option<usize>, waker: Option<usize>) {
        if !mutant("park.push_without_barrier") {
            barrier::full(); // pairs with `announce` and `end_search`: they change idle or door, pass it, look at the queues
        }
        let door = self.door.load(Ordering::Relaxed);
        if let Some(level) = shared {
            if door & (1 << level) == 0 {
                self.hint(level);
            }
            if door & CLOSED != 0 && !mutant("close.push_without_look") {
                self.drain();
                return;
            }
        }
        if door & SEARCHING == 0 && self.idle.any() {
            self.wake_one(waker);
        }
    }

    /// Says that the shared queue of a level holds jobs.
    fn hint(&self, level: usize) {
        // ordering: the queue itself hands the jobs over; the hint only has to arrive.
        self.door.fetch_or(1 << level, Ordering::AcqRel);
    }

    /// Takes some jobs of the shared queue of a level into `into`, and one at once; forgets the hint if there are none.
    pub(crate) fn take_injected(&self, level: usize, into: &Queue<Job>) -> Option<Job> {
        loop {
            match self.injectors[level].steal_batch_with_limit_and_pop(into, 32) {
                Steal::Success(job) => return Some(job),
                Steal::Retry => {}
                Steal::Empty => break,
            }
        }
        self.forget_hint(level);
        None
    }

    /// Takes one job of the shared queue of a level.
    // Not by `sync::queue::take`: taken in there, the compiler makes 19 instructions more of each job of a batch from outside.
    pub(crate) fn take_one_injected(&self, level: usize) -> Option<Job> {
        loop {
            match self.injectors[level].steal() {
                Steal::Success(job) => return Some(job),
                Steal::Retry => {}
                Steal::Empty => break,
            }
        }
        self.forget_hint(level);
        None
    }

    fn forget_hint(&self, level: usize) {
        if self.door.load(Ordering::Relaxed) & (1 << level) == 0 {
            return;
        }
        self.door.fetch_and(!(1 << level), Ordering::AcqRel);
        if !mutant("park.hint_without_barrier") {
            barrier::full(); // pairs with `pushed`: it pushes, passes the barrier, looks at the hint
        }
        if !mutant("park.hint_without_look") && !self.injectors[level].is_empty() {
            self.hint(level);
        }
    }

    /// The shared queues that hold jobs, whatever the hints say.
    pub(crate) fn injectors_with_work(&self) -> impl Iterator<Item = usize> {
        // loom counts every load: there one level stands for all.
        let levels = if cfg!(shardrun_loom) { 1 } else { LEVELS };
        (0..levels).filter(|level| !self.injectors[*level].is_empty())
    }

    /// Whether any queue holds a job that somebody could take.
    pub(crate) fn has_work(&self) -> bool {
        self.injectors_with_work().next().is_some() || self.slots().iter().any(|slot| slot.has_work())
    }

    /// Takes the role of the one that searches, if nobody has it.
    pub(crate) fn begin_search(&self) -> bool {
        self.door.load(Ordering::Relaxed) & SEARCHING == 0
            && self.door.fetch_or(SEARCHING, Ordering::AcqRel) & SEARCHING == 0
    }

    /// Gives the role up without having found anything, after `announce`, or in order to look once more.
    fn end_search(&self) {
        // ordering: pairs with `pushed`. If its look at the door comes first, its push is seen by the look at the queues that
        // follows the caller's barrier; else it finds nobody searching and looks for a sleeper itself.
        self.door.fetch_and(!SEARCHING, Ordering::AcqRel);
    }

    /// One that searched, and whom submitters may have trusted, has found a job: gives the role up if it still has it, and
    /// wakes the next if there is more.
    pub(crate) fn found(&self, index: usize, searching: bool) {
        if searching {
            self.end_search();
        }
        if !mutant("park.found_without_barrier") {
            barrier::full(); // pairs with `pushed`
        }
        if !mutant("park.found_without_look") && self.idle.any() && self.has_work() {
            self.wake_one(Some(index));
        }
    }

    /// A worker says that it is about to sleep, gives up the role if it has it, and looks at every queue. True if it may sleep.
    pub(crate) fn announce(&self, index: usize, searching: bool) -> bool {
        self.idle.insert(index);
        if searching {
            self.end_search();
        }
        if !mutant("park.announce_without_barrier") {
            barrier::full(); // pairs with `pushed` and `close`
        }
        mutant("park.no_second_look") || !(self.has_work() || self.is_closed())
    }

    /// A worker that announced itself takes itself back. False if somebody has claimed it meanwhile: then it was given the role
    /// of the searcher, and the wake that it swallowed is passed on by what it does with the role.
    pub(crate) fn retract(&self, index: usize) -> bool {
        self.idle.claim(index) || mutant("park.no_hand_over")
    }

    /// Sleeps until somebody has claimed the worker. It then has the role of the searcher. Wakes without a reason are slept over.
    pub(crate) fn sleep(&self, index: usize) {
        while self.idle.contains(index) {
            crate::sync::thread::park();
        }
    }

    /// Wakes one sleeper, as the searcher, unless somebody searches already.
    #[cold]
    pub(crate) fn wake_one(&self, waker: Option<usize>) {
        while self.begin_search() {
            if let Some(index) = self.idle.claim_any() {
                match waker {
                    Some(waker) => self.slots[waker].counters.wakes.add(1),
                    None => self.outside_wakes.add_shared(1),
                }
                self.unpark(index);
                return;
            }
            self.end_search();
            barrier::full(); // pairs with `pushed` and `announce`: one may have trusted this search
            if mutant("park.waker_without_look") || !(self.idle.any() && self.has_work()) {
                return;
            }
        }
    }

    /// Unparks the thread of a slot, which must have been claimed from a bit set that its thread put it into.
    pub(crate) fn unpark(&self, index: usize) {
        if let Some(thread) = self.slots[index].thread.get() {
            thread.unpark();
        }
    }

    /// Refuses all further work and wakes everybody.
    pub(crate) fn close(&self) {
        // ordering: pairs with the closed check after every push, and with `announce`.
        self.door.fetch_or(CLOSED, Ordering::AcqRel);
        if !mutant("close.no_barrier") {
            barrier::full(); // pairs with `pushed` and `announce`: they store, pass the barrier, look at the door
        }
        while let Some(index) = self.idle.claim_any().or_else(|| self.resting.claim_any()) {
            self.unpark(index);
        }
    }

    /// Drops every job that waits, unrun, also in the queues of workers: one that blocks would not come to what stands in its own,
    /// and may block for what goes with that. How many there were.
    pub(crate) fn drain(&self) -> u64 {
        let mut dropped = 0;
        let mut drop_one = |job| {
            super::contain::dropping(job);
            dropped += 1;
        };
        for level in 0..LEVELS {
            while let Some(job) = self.take_one_injected(level) {
                drop_one(job);
            }
        }
        self.slots().iter().for_each(|slot| slot.empty(&mut drop_one));
        dropped
    }

    /// The shared queue of each level: how many have left, and how many wait.
    pub(crate) fn lines(&self) -> [Line; LEVELS] {
        std::array::from_fn(|level| {
            let fetched = self.slots().iter().map(|slot| slot.counters.fetched[level].get());
            Line { left: fetched.fold(0, u64::wrapping_add) as u32, waiting: self.injectors[level].len() }
        })
    }

    /// How many jobs wait at each level.
    pub(crate) fn add_depths(&self, depths: &mut [usize; LEVELS]) {
        for (depth, injector) in depths.iter_mut().zip(&self.injectors) {
            *depth += injector.len();
        }
        for slot in self.slots() {
            slot.add_depths(depths);
        }
    }
}

/// Shorter ways for models that look at one protocol at a time.
#[cfg(all(test, shardrun_loom))]
impl Crew {
    /// The calling thread is worker `index`, which thieves know nothing of.
    pub(crate) fn sleeper(&self, index: usize) {
        let _ = self.slots[index].thread.set(crate::sync::thread::current());
        self.started.store(0, stat::Ordering::Relaxed);
    }

    /// Pushes, without the hint.
    pub(crate) fn push_unhinted(&self, job: Job) {
        self.injectors[0].push(job);
        self.pushed(None, None);
    }

    /// Takes, without the hint.
    pub(crate) fn take_unhinted(&self) -> Option<Job> {
        self.injectors[0].steal().success()
    }
}
