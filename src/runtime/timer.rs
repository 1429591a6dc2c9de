//! Deadlines: at its time each pushes one job.
//! It does not know what the jobs are; it only pushes them.
//!
//! An armed deadline goes into a lock-free inbox. The heap behind it belongs to whoever turns the timer: its own thread, or who
//! drives a runtime without threads. *Push, barrier, look until when the thread sleeps* meets *say until when, barrier, look at
//! the inbox, sleep*, so an early deadline never waits behind a late one.

use super::barrier;
use super::job::Job;
use super::place::Place;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::cell::UnsafeCell;
use crate::sync::queue::{Injector, take};
use crate::sync::thread::Thread;
use crate::sync::{Arc, Mutex, OnceLock, mutant, stat};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

const ARMED: u32 = 0;
const FIRED: u32 = 1;
const CANCELLED: u32 = 2;

/// The thread is awake and will look at the inbox before it sleeps.
const AWAKE: u64 = 0;
/// Beyond what a clock can tell.
const NEVER: u64 = u64::MAX;
/// Cancelled deadlines that may lie in the heap beside as many living ones.
const CANCELLED_MIN: u64 = 64;

/// One deadline.
pub(crate) struct Deadline {
    /// Leaves ARMED once: who leads it away owns the job.
    state: AtomicU32,
    at: u64,
    place: Place,
    job: UnsafeCell<Option<Job>>,
}

// SAFETY: jobs are `Send`, and the one who leads the state away from ARMED alone touches the cell.
unsafe impl Send for Deadline {}
// SAFETY: as above.
unsafe impl Sync for Deadline {}

impl Deadline {
    fn take(&self, to: u32) -> Option<Job> {
        // ordering: the cell was written before the deadline was shared, and is read by the one winner only.
        self.state.compare_exchange(ARMED, to, Ordering::AcqRel, Ordering::Acquire).ok()?;
        // SAFETY: the compare-and-swap has one winner.
        self.job.with_mut(|job| unsafe { (*job).take() })
    }

    fn is_armed(&self) -> bool {
        self.state.load(Ordering::Acquire) == ARMED
    }
}

/// A deadline in the heap: time, then order of arrival.
struct Entry(u64, u64, Arc<Deadline>);

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

#[derive(Default)]
struct Heap {
    entries: BinaryHeap<Reverse<Entry>>,
    arrivals: u64,
}

/// The deadlines of one runtime.
pub(crate) struct Timer {
    inbox: Injector<Arc<Deadline>>,
    heap: Mutex<Heap>,
    /// Until when the thread sleeps, in nanoseconds: written by the thread alone.
    sleeps_until: AtomicU64,
    thread: OnceLock<Thread>,
    pub(crate) started: stat::AtomicBool,
    /// How many lie in the heap, or are on the way there: written by who has it.
    inside: stat::AtomicUsize,
    cancelled: stat::AtomicU64,
}

impl Timer {
    pub(crate) fn new() -> Self {
        Self {
            inbox: Injector::new(),
            heap: Mutex::new(Heap::default()),
            sleeps_until: AtomicU64::new(AWAKE),
            thread: OnceLock::new(),
            started: stat::AtomicBool::new(false),
            inside: stat::AtomicUsize::new(0),
            cancelled: stat::AtomicU64::new(0),
        }
    }

    /// Arms a deadline, and wakes the thread if it would sleep past it.
    pub(crate) fn arm(&self, at: Duration, place: Place, job: Job) -> Arc<Deadline> {
        let at = u64::try_from(at.as_nanos()).unwrap_or(NEVER);
        let deadline = Arc::new(Deadline { state: AtomicU32::new(ARMED), at, place, job: UnsafeCell::new(Some(job)) });
        self.inbox.push(deadline.clone());
        if !mutant("timer.arm_without_barrier") {
            barrier::full(); // pairs with `sleeps`: it says until when, passes the barrier, looks at the inbox
        }
        if at < self.sleeps_until.load(Ordering::Relaxed) {
            self.poke();
        }
        deadline
    }

    /// Makes the thread look again.
    pub(crate) fn poke(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// The calling thread is the timer's.
    pub(crate) fn adopt(&self, thread: Thread) {
        let _ = self.thread.set(thread);
    }

    /// The thread is about to sleep until `until`: true if nothing has come meanwhile.
    pub(crate) fn sleeps(&self, until: Option<Duration>) -> bool {
        let until = until.map_or(u64::MAX, |until| u64::try_from(until.as_nanos()).unwrap_or(u64::MAX));
        self.sleeps_until.store(until, Ordering::Relaxed);
        if !mutant("timer.sleep_without_barrier") {
            barrier::full(); // pairs with `arm`
        }
        mutant("timer.no_second_look") || self.inbox.is_empty()
    }

    /// The thread has woken.
    pub(crate) fn woke(&self) {
        self.sleeps_until.store(AWAKE, Ordering::Relaxed);
    }

    /// Whether no deadline is set: then nobody needs the time to turn it.
    pub(crate) fn is_idle(&self) -> bool {
        // ordering: who takes the inbox in says so before, and what is on its way is seen here or there. What is armed meanwhile comes
        // too late for this look, as for any other.
        self.inbox.is_empty() && self.inside.load(stat::Ordering::SeqCst) == 0
    }

    /// Takes the inbox in and hands out the jobs that are due at `now`, in order of their times. The next deadline, if any.
    pub(crate) fn turn(&self, now: Duration, mut due: impl FnMut(Place, Job)) -> Option<Duration> {
        let now = u64::try_from(now.as_nanos()).unwrap_or(NEVER).min(NEVER - 1);
        let mut ready = Vec::new();
        let mut dead = Vec::new();
        let next = {
            let mut heap = self.heap.lock();
            self.take_in(&mut heap);
            while heap.entries.peek().is_some_and(|Reverse(first)| first.0 <= now) {
                ready.extend(heap.entries.pop().map(|Reverse(entry)| entry.2));
            }
            let cancelled = self.cancelled.load(stat::Ordering::Relaxed);
            if cancelled > CANCELLED_MIN && cancelled as usize * 2 > heap.entries.len() {
                self.cancelled.store(0, stat::Ordering::Relaxed);
                let entries = std::mem::take(&mut heap.entries).into_vec();
                let (armed, gone): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.0.2.is_armed());
                heap.entries = armed.into();
                dead = gone;
            }
            self.inside.store(heap.entries.len(), stat::Ordering::SeqCst);
            heap.entries.peek().map(|Reverse(first)| Duration::from_nanos(first.0))
        };
        drop(dead);
        for deadline in ready {
            if let Some(job) = deadline.take(FIRED) {
                due(deadline.place, job);
            }
        }
        next
    }

    fn take_in(&self, heap: &mut Heap) {
        self.inside.store(heap.entries.len() + 1, stat::Ordering::SeqCst);
        while let Some(deadline) = take(&self.inbox) {
            heap.arrivals += 1;
            let entry = Entry(deadline.at, heap.arrivals, deadline);
            heap.entries.push(Reverse(entry));
        }
    }

    /// Takes everything out, unfired: the jobs, to be dropped by the caller.
    pub(crate) fn close(&self) -> Vec<Job> {
        let entries = {
            let mut heap = self.heap.lock();
            self.take_in(&mut heap);
            self.inside.store(0, stat::Ordering::SeqCst);
            std::mem::take(&mut heap.entries)
        };
        entries.into_iter().filter_map(|Reverse(entry)| entry.2.take(CANCELLED)).collect()
    }

    /// Cancels a deadline: its job, if it had not fired and was not cancelled.
    pub(crate) fn cancel(&self, deadline: &Deadline) -> Option<Job> {
        let job = deadline.take(CANCELLED)?;
        if self.cancelled.fetch_add(1, stat::Ordering::Relaxed) % 1024 == 1023 {
            self.poke();
        }
        Some(job)
    }
}
