//! What a worker pushes: into its own queues, as its next continuation, or beyond its own queues where those are long.
//! It does not know in which order the worker takes what it has.
#![forbid(unsafe_code)]

use super::job::Job;
use super::worker::Worker;
use crate::sync::atomic::Ordering;
use crate::sync::mutant;

/// Jobs of one level that a worker keeps in its own queue. Beyond that they go to the shared queue, which grows by blocks and
/// copies nothing, until the own queue has run empty: so both are served in the order of arrival.
const OWN_MAX: u32 = 1024;
impl Worker {
    /// Pushes to the worker's own queue, if that is not too long. Refusing is the caller's affair.
    #[inline(always)]
    pub(crate) fn push(&self, level: usize, job: Job) {
        if self.has_room(level) {
            self.queues[level].push(job);
            self.mark(level);
            self.crew().pushed(None, Some(self.index));
        } else {
            self.push_beyond(level, job);
        }
    }

    #[cold]
    fn push_beyond(&self, level: usize, job: Job) {
        self.crew().inject(level, std::iter::once(job));
    }

    /// Pushes many with one look for somebody to help.
    pub(crate) fn push_all(&self, level: usize, jobs: impl Iterator<Item = Job>) {
        let mut jobs = jobs.peekable();
        while jobs.peek().is_some() && self.has_room(level) {
            if let Some(job) = jobs.next() {
                self.queues[level].push(job);
            }
        }
        self.mark(level);
        if jobs.peek().is_some() {
            self.crew().inject(level, jobs);
        } else {
            self.crew().pushed(None, Some(self.index));
        }
    }

    #[inline(always)]
    fn has_room(&self, level: usize) -> bool {
        let pushes = self.pushes[level].get();
        if pushes < OWN_MAX {
            self.pushes[level].set(pushes + 1);
            return true;
        }
        self.makes_room(level)
    }

    /// Whether the own queue of a level is short, although there were many pushes.
    #[cold]
    fn makes_room(&self, level: usize) -> bool {
        let long = self.pushes[level].get() > OWN_MAX || self.queues[level].len() >= OWN_MAX as usize / 2;
        // One more than the limit says that jobs stand in the shared queue behind those here.
        self.pushes[level].set(if long { OWN_MAX + 1 } else { 1 });
        !long
    }

    /// Makes `job` the next continuation, seen by thieves. The one that was there goes to its queue.
    pub(crate) fn push_hot(&self, level: usize, job: Job) {
        let slot = self.slot();
        if let Some((level, older)) = slot.hot.take() {
            self.queues[level].push(older);
            self.mark(level);
        }
        if let Err(job) = slot.hot.put(level, job) {
            self.queues[level].push(job);
            self.mark(level);
        }
        self.crew().pushed(None, Some(self.index));
    }

    /// Makes `job` the next continuation, unseen by thieves until the worker does something else first.
    #[inline]
    pub(crate) fn push_next(&self, level: usize, job: Job) {
        if self.next_bit.get() != 0 {
            self.expose();
        }
        self.next.set(Some(job));
        self.next_bit.set(1 << level);
    }

    /// Shows the unseen continuation to thieves.
    #[cold]
    pub(crate) fn expose(&self) {
        let bit = self.next_bit.replace(0);
        if let Some(job) = self.next.take() {
            self.push_hot(bit.trailing_zeros() as usize, job);
        }
    }

    /// Notes that the own queue of a level may hold jobs.
    #[inline(always)]
    pub(super) fn mark(&self, level: usize) {
        let levels = &self.slot().levels;
        let known = levels.load(Ordering::Relaxed);
        if known & (1 << level) == 0 {
            // ordering: the push that follows or precedes it is published by the queue; `pushed`'s barrier stands behind both.
            levels.store(known | 1 << level, Ordering::Relaxed);
        }
    }

    pub(super) fn unmark(&self, level: usize) {
        let levels = &self.slot().levels;
        levels.store(levels.load(Ordering::Relaxed) & !(1 << level), Ordering::Relaxed);
    }

    /// Jobs may have come along into the own queue. While they were on their way nobody saw them, so whoever then looked at all
    /// queues may sleep by now: this is a push like any other.
    #[inline]
    pub(super) fn brought(&self, level: usize) {
        if !self.queues[level].is_empty() {
            self.mark(level);
            if !mutant("park.moved_in_silence") {
                self.crew().pushed(None, Some(self.index));
            }
        }
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use crate::runtime::current;
    use crate::runtime::{Job, Place, Priority, Runtime, Spawner};
    use crate::sync::Arc;
    use crate::sync::mpsc::channel;
    use crate::sync::stat::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    const SOON: Duration = Duration::from_secs(20);
    const HERE: Place = Place::workers(Priority::Interactive);

    fn small(workers: usize) -> Runtime {
        Runtime::builder().workers(workers).io_threads(0).build().unwrap()
    }

    #[test]
    fn b10_a_continuation_is_stolen_from_a_worker_that_goes_on_with_something_else() {
        let runtime = small(2);
        for exposed in [false, true] {
            let (done, end) = channel();
            let spawner = runtime.spawner().clone();
            runtime
                .execute(move || {
                    let (sender, receiver) = channel();
                    let job = Job::new(move || sender.send(()).unwrap());
                    if exposed {
                        spawner.push_hot(HERE, job).unwrap();
                        done.send(receiver.recv_timeout(SOON).is_ok()).unwrap();
                    } else {
                        spawner.push_next(HERE, job).unwrap();
                        // Not seen by thieves until this worker blocks.
                        let ran = crate::runtime::blocking(|| receiver.recv_timeout(SOON).is_ok());
                        done.send(ran).unwrap();
                    }
                })
                .unwrap();
            assert_eq!(end.recv_timeout(SOON), Ok(true), "exposed: {exposed}");
        }
    }

    /// A job that makes itself its own continuation until told to stop.
    fn chain(spawner: Spawner, turns: Arc<AtomicUsize>, stop: Arc<AtomicBool>, soon: bool) {
        turns.fetch_add(1, Ordering::Relaxed);
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let theirs = spawner.clone();
        let job = Job::new(move || chain(theirs, turns, stop, soon));
        let pushed = if soon { spawner.push_next(HERE, job) } else { spawner.push_hot(HERE, job) };
        pushed.unwrap();
    }

    #[test]
    fn b13_a_chain_of_continuations_shuts_nobody_out() {
        for soon in [false, true] {
            let runtime = small(1);
            let (turns, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let (spawner, theirs, their_stop) = (runtime.spawner().clone(), turns.clone(), stop.clone());
            runtime.execute(move || chain(spawner, theirs, their_stop, soon)).unwrap();
            for priority in Priority::ALL {
                let (sender, receiver) = channel();
                for n in 0..100 {
                    let sender = sender.clone();
                    runtime.execute_on(priority, move || sender.send(n).unwrap()).unwrap();
                }
                for n in 0..100 {
                    assert_eq!(receiver.recv_timeout(SOON), Ok(n));
                }
            }
            let then = turns.load(Ordering::Relaxed);
            while turns.load(Ordering::Relaxed) == then {
                crate::sync::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_long_burst_keeps_its_order_beyond_the_own_queue() {
        let runtime = small(1);
        let (sender, receiver) = channel();
        let inner = runtime.clone();
        runtime
            .execute(move || {
                for n in 0..5_000 {
                    let sender = sender.clone();
                    inner.execute(move || sender.send(n).unwrap()).unwrap();
                }
                let batch = (5_000..10_000).map(|n| {
                    let sender = sender.clone();
                    move || sender.send(n).unwrap()
                });
                inner.execute_batch(HERE, batch).unwrap();
            })
            .unwrap();
        assert!((0..10_000).all(|n| receiver.recv_timeout(SOON) == Ok(n)));
    }

    #[test]
    fn b107_counters_near_their_end_go_round() {
        let runtime = small(1);
        let spawner = runtime.spawner().clone();
        let (sender, receiver) = channel();
        runtime
            .execute(move || {
                current::worker(|worker| worker.expect("on a worker").near_the_end());
                for n in 0..10_000 {
                    let sender = sender.clone();
                    let job = Job::new(move || sender.send(n).unwrap());
                    spawner.push(HERE, job).unwrap();
                }
            })
            .unwrap();
        assert!((0..10_000).all(|n| receiver.recv_timeout(SOON) == Ok(n)));
        while runtime.counters().workers[0].executed > 10_000 {
            crate::sync::thread::yield_now();
        }
    }
}
