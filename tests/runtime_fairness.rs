//! Nobody starves, nothing waits beside an idle worker, and each kind of work has its share.

#[path = "support/gate.rs"]
mod gate;

use gate::{SOON, gate, small};
use shardrun::{Driver, Place, Priority, Runtime};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn next<T>(from: &Receiver<T>) -> T {
    from.recv_timeout(SOON).expect("it comes")
}

/// Fails unless `round` ends in time, whatever it waits for.
fn within(limit: Duration, round: impl FnOnce() + Send + 'static) {
    let (done, end) = channel();
    let thread = std::thread::spawn(move || {
        round();
        done.send(()).unwrap();
    });
    end.recv_timeout(limit).expect("it ends in time");
    thread.join().unwrap();
}

#[test]
fn b01_no_wake_is_lost_when_work_comes_as_all_go_to_sleep() {
    within(Duration::from_secs(900), || {
        let runtime = small(2);
        for _ in 0..10_000 {
            let (sender, receiver) = channel();
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    let (runtime, sender) = (&runtime, sender.clone());
                    scope.spawn(move || runtime.execute(move || sender.send(()).unwrap()).unwrap());
                }
            });
            for _ in 0..2 {
                // Nothing else happens here that could wake a worker for a task whose own wake was lost.
                receiver.recv_timeout(SOON).expect("a worker was woken for it");
            }
        }
    });
}

#[test]
fn b06_work_for_another_pool_is_never_left_as_its_last_worker_leaves() {
    within(Duration::from_secs(900), || {
        let runtime = small(1);
        let (done, end) = channel();
        let inner = runtime.clone();
        runtime
            .execute(move || {
                for _ in 0..10_000 {
                    let (sender, receiver) = channel();
                    inner.execute_on(Place::io(Priority::Interactive), move || sender.send(()).unwrap()).unwrap();
                    receiver.recv_timeout(SOON).expect("an I/O thread took it");
                }
                done.send(()).unwrap();
            })
            .unwrap();
        end.recv().expect("all rounds end");
    });
}

#[test]
fn b10_a_follow_up_does_not_wait_behind_the_long_job_that_made_it() {
    let runtime = small(2);
    let (started, start) = channel();
    let inner = runtime.clone();
    runtime
        .execute(move || {
            let (sender, receiver) = channel();
            inner.execute(move || sender.send(()).unwrap()).unwrap();
            // The long job: it ends only once its follow-up has run, so only another worker can run that.
            started.send(receiver.recv_timeout(SOON)).unwrap();
        })
        .unwrap();
    next(&start).expect("the follow-up ran beside its maker");
}

#[test]
fn b12_any_thread_may_drive_and_none_needs_to() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let (inner, ran) = (runtime.clone(), ran.clone());
        // This thread never drives; each job leaves another one behind.
        runtime
            .execute(move || {
                ran.fetch_add(1, Ordering::Relaxed);
                inner.execute(move || _ = ran.fetch_add(1, Ordering::Relaxed)).unwrap();
            })
            .unwrap();
    }
    let first = std::thread::spawn({
        let runtime = runtime.clone();
        move || (0..2).filter(|_| runtime.drive_one()).count()
    });
    assert_eq!(first.join().unwrap(), 2);
    let third = std::thread::spawn({
        let runtime = runtime.clone();
        move || runtime.drive_all()
    });
    assert_eq!((third.join().unwrap(), ran.load(Ordering::Relaxed)), (4, 6));
    assert_eq!(runtime.counters().executed(), 6);
}

/// Puts itself back until told to stop.
fn again(runtime: &Runtime, turns: Arc<AtomicUsize>, stop: Arc<AtomicBool>) {
    let inner = runtime.clone();
    runtime
        .execute(move || {
            turns.fetch_add(1, Ordering::Relaxed);
            if !stop.load(Ordering::Relaxed) {
                again(&inner, turns, stop);
            }
        })
        .unwrap();
}

#[test]
fn b13_jobs_that_keep_rescheduling_themselves_shut_nobody_out() {
    let runtime = small(1);
    let (turns, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    for _ in 0..2 {
        again(&runtime, turns.clone(), stop.clone());
    }
    let (sender, receiver) = channel();
    for n in 0..100 {
        let sender = sender.clone();
        runtime.execute(move || sender.send(n).unwrap()).unwrap();
    }
    for n in 0..100 {
        assert_eq!(next(&receiver), n);
    }
    let then = turns.load(Ordering::Relaxed);
    while turns.load(Ordering::Relaxed) == then {
        std::thread::yield_now();
    }
    stop.store(true, Ordering::Relaxed);
}

#[test]
fn b25_under_steady_inflow_the_oldest_runs_first() {
    let runtime = small(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let gate = gate(&runtime);
    for n in 0..1_000 {
        let (order, inner) = (order.clone(), runtime.clone());
        runtime
            .execute(move || {
                order.lock().unwrap().push(n);
                // As much comes as goes.
                let order = order.clone();
                inner.execute(move || order.lock().unwrap().push(1_000 + n)).unwrap();
            })
            .unwrap();
    }
    drop(gate);
    while order.lock().unwrap().len() < 2_000 {
        std::thread::yield_now();
    }
    let order = order.lock().unwrap();
    let place = |n| order.iter().position(|x| *x == n).unwrap();
    // Whoever came from outside runs in the order of coming, and each one's follow-up after it, with a bounded delay.
    assert!((0..999).all(|n| place(n) < place(n + 1)));
    assert!((0..999).all(|n| place(1_000 + n) < place(1_001 + n)));
}

#[test]
fn every_priority_gets_its_share_of_a_busy_worker() {
    let runtime = small(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let gate = gate(&runtime);
    for priority in Priority::ALL {
        for _ in 0..150 {
            let order = order.clone();
            runtime.execute_on(priority, move || order.lock().unwrap().push(priority)).unwrap();
        }
    }
    drop(gate);
    while order.lock().unwrap().len() < 600 {
        std::thread::yield_now();
    }
    let order = order.lock().unwrap();
    let bounds = [2, 4, 8, 15];
    for (priority, bound) in Priority::ALL.into_iter().zip(bounds) {
        let places: Vec<_> = (0..600).filter(|n| order[*n] == priority).collect();
        let waits = places.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(waits <= bound && places[0] < bound, "{priority:?} waited {waits} selections");
    }
}

#[test]
fn outside_work_is_not_shut_out_by_a_workers_own() {
    let runtime = small(1);
    let (turns, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    for _ in 0..64 {
        again(&runtime, turns.clone(), stop.clone());
    }
    for _ in 0..20 {
        let (sender, receiver) = channel();
        runtime.execute(move || sender.send(()).unwrap()).unwrap();
        next(&receiver);
    }
    stop.store(true, Ordering::Relaxed);
}

#[test]
fn a_seed_chooses_the_order_and_the_same_seed_the_same_one() {
    let run = |seed| {
        let runtime = Runtime::builder().driver(Driver::Seeded { seed }).build().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        for n in 0..20 {
            let (order, inner) = (order.clone(), runtime.clone());
            runtime
                .execute(move || {
                    order.lock().unwrap().push(n);
                    let order = order.clone();
                    inner.execute(move || order.lock().unwrap().push(100 + n)).unwrap();
                })
                .unwrap();
        }
        assert_eq!(runtime.drive_all(), 40);
        Arc::try_unwrap(order).unwrap().into_inner().unwrap()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn idle_workers_help_with_a_workers_own_work() {
    let runtime = small(2);
    let (sender, receiver) = channel();
    let inner = runtime.clone();
    runtime
        .execute(move || {
            for _ in 0..2 {
                let sender = sender.clone();
                // Only the other worker can run them, since this one waits for both.
                inner.execute(move || sender.send(std::thread::current().id()).unwrap()).unwrap();
            }
            let (begun, mut came) = (Instant::now(), 0);
            while came < 2 {
                assert!(begun.elapsed() < SOON, "only {came} of two ran beside this job");
                came += receiver.try_iter().count();
                std::thread::yield_now();
            }
        })
        .unwrap();
    while runtime.counters().executed() < 3 {
        std::thread::yield_now();
    }
    assert_eq!(runtime.counters().panics(), 0);
}

#[test]
fn b72_the_one_worker_that_is_free_takes_all_that_comes() {
    const WORKERS: usize = 48;
    let runtime = small(WORKERS);
    let blocked: Vec<_> = (1..WORKERS).map(|_| gate(&runtime)).collect();
    let (sender, receiver) = channel();
    for number in 0..1_000 {
        let sender = sender.clone();
        runtime.execute(move || sender.send(number).unwrap()).unwrap();
        // Sometimes it is awaited, so that the free worker goes to sleep, and sometimes more comes meanwhile.
        if number % 3 == 0 {
            while next(&receiver) != number {}
        }
    }
    assert_eq!(runtime.counters().workers.iter().filter(|worker| worker.executed > 0).count(), 1);
    drop(blocked);
}
