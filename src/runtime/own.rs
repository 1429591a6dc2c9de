//! What a worker pushes: into its own queues, as its next continuation, or beyond its own queues where those are long.
//! It does not know in which order the worker takes what it has.
#![forbid(unsafe_code)]

use super::job::Job;
use super::worker::Worker;
use crate::sync::atomic::Ordering;
use crate::sync::mutant;

impl Worker {
    /// Pushes to the worker's own queue, if that is not too long. Refusing is the caller's affair.
    #[inline(always)]
    pub(crate) fn push(&self, level: usize, job: Job) {
        match self.push_own(level, job) {
            Ok(()) => self.crew().pushed(None, Some(self.index)),
            Err(job) => self.push_beyond(level, job),
        }
    }

    /// Pushes to the worker's own queue, which nobody is told of. Gives the job back if that queue is as long as it can be, or if
    /// jobs that did not fit stand in the shared queue: until the own one has run empty more go there, so that both are served in
    /// the order of arrival.
    #[inline(always)]
    fn push_own(&self, level: usize, job: Job) -> Result<(), Job> {
        if self.beyond.get() & (1 << level) != 0 {
            return Err(job);
        }
        self.own[level].push(job)?;
        self.mark(level);
        Ok(())
    }

    #[cold]
    fn push_beyond(&self, level: usize, job: Job) {
        self.beyond.set(self.beyond.get() | 1 << level);
        self.crew().inject(level, std::iter::once(job));
    }

    /// Pushes many with one look for somebody to help.
    pub(crate) fn push_all(&self, level: usize, jobs: impl Iterator<Item = Job>) {
        let mut jobs = jobs;
        while let Some(job) = jobs.next() {
            if let Err(job) = self.push_own(level, job) {
                self.beyond.set(self.beyond.get() | 1 << level);
                return self.crew().inject(level, std::iter::once(job).chain(jobs));
            }
        }
        self.crew().pushed(None, Some(self.index));
    }

    /// Makes `job` the next continuation, seen by thieves. The one that was there goes to its queue.
    pub(crate) fn push_hot(&self, level: usize, job: Job) {
        let slot = self.slot();
        if let Some((level, older)) = slot.hot.take() {
            self.push(level, older);
        }
        match slot.hot.put(level, job) {
            Ok(()) => self.crew().pushed(None, Some(self.index)),
            Err(job) => self.push(level, job),
        }
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

    /// Jobs may have come along from elsewhere. While they were on their way nobody saw them, so whoever then looked at all
    /// queues may sleep by now: this is a push like any other.
    #[inline]
    pub(super) fn has_brought(&self, level: usize) {
        if !self.brought[level].is_empty() {
            self.brings.set(self.brings.get() | 1 << level);
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
                        let ran = crate::runtime::start::blocking(|| receiver.recv_timeout(SOON).is_ok());
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
