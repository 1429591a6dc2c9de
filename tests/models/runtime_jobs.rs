//! The small protocols that hand a job over: the stealable continuation, deadlines, permits.
//! It does not know the workers.

use crate::models::check;
use crate::runtime::modelled::{HotSlot, Shares, Timer};
use crate::runtime::{Acquire, Job, Permits, Place};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, thread};
use std::time::Duration;

/// A job that counts its run.
fn counting(runs: &Arc<AtomicUsize>) -> Job {
    let runs = runs.clone();
    Job::new(move || {
        runs.fetch_add(1, Ordering::AcqRel);
    })
}

/// Each closure of a batch is run once by one of two takers, or dropped once with the batch.
#[test]
fn each_closure_of_a_batch_has_one_taker() {
    check(|| {
        let runs: [_; 3] = std::array::from_fn(|_| Arc::new(AtomicUsize::new(0)));
        let shares = Arc::new(Shares::new(runs.each_ref().map(counting)));
        let taker = || {
            let shares = shares.clone();
            thread::spawn(move || shares.take().into_iter().for_each(Job::run))
        };
        for taker in [taker(), taker()] {
            taker.join().unwrap();
        }
        drop(shares);
        let counts = runs.map(|runs| (runs.load(Ordering::Acquire), Arc::strong_count(&runs)));
        assert_eq!(counts, [(1, 1), (1, 1), (0, 1)]);
    });
}

/// Each continuation is taken once, by its owner or by one of two thieves, and none is overwritten.
#[test]
fn a_continuation_is_taken_once() {
    check(|| {
        let slot = Arc::new(HotSlot::new());
        let runs = Arc::new(AtomicUsize::new(0));
        let thief = || {
            let slot = slot.clone();
            thread::spawn(move || slot.take().into_iter().for_each(|(_, job)| job.run()))
        };
        let thieves = [thief(), thief()];
        for _ in 0..2 {
            if let Err(job) = slot.put(3, counting(&runs)) {
                job.run();
            }
        }
        for thief in thieves {
            thief.join().unwrap();
        }
        while let Some((level, job)) = slot.take() {
            assert_eq!(level, 3);
            job.run();
        }
        assert_eq!(runs.load(Ordering::Acquire), 2);
    });
}

/// The owner puts a new continuation only where the thief of the last one has read it.
#[test]
fn a_continuation_is_read_before_the_next_is_put() {
    check(|| {
        let slot = Arc::new(HotSlot::new());
        let runs = Arc::new(AtomicUsize::new(0));
        let thief = {
            let slot = slot.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    while slot.take().map(|(_, job)| job.run()).is_none() {
                        thread::yield_now();
                    }
                }
            })
        };
        for _ in 0..2 {
            let mut job = counting(&runs);
            while let Err(again) = slot.put(0, job) {
                job = again;
                thread::yield_now();
            }
        }
        thief.join().unwrap();
        assert_eq!(runs.load(Ordering::Acquire), 2);
    });
}

/// A deadline fires or is cancelled, never both, never neither.
#[test]
fn a_deadline_fires_or_is_cancelled() {
    check(|| {
        let timer = Arc::new(Timer::new());
        let runs = Arc::new(AtomicUsize::new(0));
        let deadline = timer.arm(Duration::ZERO, Place::default(), counting(&runs));
        let cancel = || {
            let (timer, deadline) = (timer.clone(), deadline.clone());
            thread::spawn(move || usize::from(timer.cancel(&deadline).is_some()))
        };
        let cancels = [cancel(), cancel()];
        timer.turn(Duration::ZERO, |_, job| job.run());
        let cancelled: usize = cancels.into_iter().map(|cancel| cancel.join().unwrap()).sum();
        assert_eq!(runs.load(Ordering::Acquire) + cancelled, 1);
    });
}

/// A deadline that comes while the timer's thread is about to sleep until a later one is not slept past: else the thread never
/// ends, since nobody else wakes it.
#[test]
fn b07_an_early_deadline_is_not_slept_past() {
    check(|| {
        let timer = Arc::new(Timer::new());
        let runs = Arc::new(AtomicUsize::new(0));
        let sleeper = {
            let timer = timer.clone();
            thread::spawn(move || {
                timer.adopt(thread::current());
                let mut fired = 0;
                while fired < 2 {
                    timer.turn(Duration::ZERO, |_, job| {
                        job.run();
                        fired += 1;
                    });
                    if fired < 2 && timer.sleeps(Some(Duration::from_secs(1_000))) {
                        thread::park();
                    }
                    timer.woke();
                }
            })
        };
        let other = {
            let (timer, runs) = (timer.clone(), runs.clone());
            thread::spawn(move || drop(timer.arm(Duration::ZERO, Place::default(), counting(&runs))))
        };
        drop(timer.arm(Duration::ZERO, Place::default(), counting(&runs)));
        other.join().unwrap();
        sleeper.join().unwrap();
        assert_eq!(runs.load(Ordering::Acquire), 2);
    });
}

fn acquire(permits: &Permits, want: u32, granted: &Arc<AtomicUsize>) -> Acquire {
    match permits.acquire_or_queue(want, counting(granted)) {
        Acquire::Now(job) => {
            job.run();
            Acquire::Now(Job::new(|| {}))
        }
        other => other,
    }
}

/// Two permits given back reach two waiters, whoever serves the line.
#[test]
fn permits_reach_all_who_wait() {
    check(|| {
        let permits = Arc::new(Permits::new(2, Job::run));
        let granted = Arc::new(AtomicUsize::new(0));
        assert!(permits.try_acquire(2));
        let waiter = || {
            let (permits, granted) = (permits.clone(), granted.clone());
            thread::spawn(move || drop(acquire(&permits, 1, &granted)))
        };
        let waiters = [waiter(), waiter()];
        let theirs = permits.clone();
        let other = thread::spawn(move || theirs.release(1));
        permits.release(1);
        for thread in waiters.into_iter().chain([other]) {
            thread.join().unwrap();
        }
        assert_eq!((granted.load(Ordering::Acquire), permits.available(), permits.waiting()), (2, 0, 0));
    });
}

/// One who asks for too much and gives up does not keep back those behind him, and permits are neither lost nor made.
#[test]
fn b84_who_gives_up_makes_way() {
    check(|| {
        let permits = Arc::new(Permits::new(2, Job::run));
        let granted = Arc::new(AtomicUsize::new(0));
        assert!(permits.try_acquire(1));
        let theirs = permits.clone();
        let greedy = thread::spawn(move || match theirs.acquire_or_queue(2, Job::new(|| {})) {
            Acquire::Queued(waiting) => assert!(theirs.abandon(&waiting)),
            other => panic!("{other:?}"),
        });
        let waiter = {
            let (permits, granted) = (permits.clone(), granted.clone());
            thread::spawn(move || drop(acquire(&permits, 1, &granted)))
        };
        greedy.join().unwrap();
        waiter.join().unwrap();
        assert_eq!((granted.load(Ordering::Acquire), permits.available(), permits.waiting()), (1, 0, 0));
    });
}

/// A grant is delivered before its server serves another round, and what came meanwhile is not forgotten over that.
#[test]
fn b84_a_grant_is_delivered_before_the_line_is_served_again() {
    check(|| {
        let permits = Arc::new(Permits::new(2, Job::run));
        let granted = Arc::new(AtomicUsize::new(0));
        assert!(permits.try_acquire(2));
        let first = acquire(&permits, 1, &granted);
        assert!(matches!(first, Acquire::Queued(_)));
        let releases = [(); 2].map(|()| {
            let permits = permits.clone();
            thread::spawn(move || permits.release(1))
        });
        drop(acquire(&permits, 1, &granted));
        for thread in releases {
            thread.join().unwrap();
        }
        assert_eq!(permits.late(), 0, "a grant waited while its server went on");
        assert_eq!((granted.load(Ordering::Acquire), permits.available(), permits.waiting()), (2, 0, 0));
    });
}
