//! Work put on a runtime from inside and outside runs once, in order, by priority, and a panic of it stays where it was.

#[path = "support/gate.rs"]
mod gate;

use gate::{SOON, gate, small};
use shardrun::{Place, Priority, Runtime};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier, Mutex};

fn next<T>(from: &Receiver<T>) -> T {
    from.recv_timeout(SOON).expect("it comes")
}

#[test]
fn work_from_outside_runs() {
    let runtime = small(2);
    let (sender, receiver) = channel();
    for n in 0..100 {
        let sender = sender.clone();
        runtime.execute(move || sender.send(n).unwrap()).unwrap();
    }
    let mut got: Vec<i32> = (0..100).map(|_| next(&receiver)).collect();
    got.sort_unstable();
    assert_eq!(got, (0..100).collect::<Vec<_>>());
}

#[test]
fn work_from_inside_runs_wherever_it_is_placed() {
    let runtime = small(2);
    let (sender, receiver) = channel();
    let inner = runtime.clone();
    runtime
        .execute(move || {
            for priority in Priority::ALL {
                for place in [Place::workers(priority), Place::io(priority)] {
                    let sender = sender.clone();
                    inner
                        .execute_on(place, move || {
                            sender.send((place, std::thread::current().name().map(str::to_owned))).unwrap()
                        })
                        .unwrap();
                }
            }
        })
        .unwrap();
    for _ in 0..8 {
        let (place, name) = next(&receiver);
        let io = name.expect("workers have names").contains("-io");
        assert_eq!(io, place.pool == shardrun::Pool::Io);
    }
}

#[test]
fn b24_equal_priorities_run_in_the_order_of_submission() {
    let runtime = small(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let gate = gate(&runtime);
    for n in 0..10_000 {
        let order = order.clone();
        let priority = Priority::ALL[n % 3];
        runtime.execute_on(priority, move || order.lock().unwrap().push((priority, n))).unwrap();
    }
    drop(gate);
    let (done, end) = channel();
    runtime.execute_on(Priority::Maintenance, move || done.send(()).unwrap()).unwrap();
    // The last job of the lowest level may pass others: wait for all.
    next(&end);
    while order.lock().unwrap().len() < 10_000 {
        std::thread::yield_now();
    }
    let order = order.lock().unwrap();
    for priority in &Priority::ALL[..3] {
        let of_it: Vec<_> = order.iter().filter(|(p, _)| p == priority).map(|(_, n)| *n).collect();
        assert!(of_it.is_sorted(), "{priority:?} ran out of order");
    }
}

#[test]
fn b53_panicking_jobs_cost_no_worker_and_no_other_job() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("in a destructor");
            }
        }
    }
    std::panic::set_hook(Box::new(|_| {}));
    let runtime = small(4);
    let ran = Arc::new(AtomicUsize::new(0));
    for n in 0..10_000 {
        let ran = ran.clone();
        runtime
            .execute(move || {
                ran.fetch_add(1, Ordering::Relaxed);
                match n % 12 {
                    0 => panic!("with text"),
                    3 => std::panic::panic_any(17),
                    6 => std::panic::panic_any(Bomb),
                    9 => drop(Bomb),
                    _ => {}
                }
            })
            .unwrap();
    }
    let barrier = Arc::new(Barrier::new(5));
    for _ in 0..4 {
        let barrier = barrier.clone();
        runtime
            .execute_on(Priority::Maintenance, move || {
                barrier.wait();
            })
            .unwrap();
    }
    // Passes only if four workers are there.
    barrier.wait();
    while runtime.counters().executed() < 10_004 {
        std::thread::yield_now();
    }
    let _ = std::panic::take_hook();
    assert_eq!(ran.load(Ordering::Relaxed), 10_000);
    assert_eq!(runtime.counters().panics(), 10_000_usize.div_ceil(3) as u64);
}

#[test]
fn a_batch_is_shared_closure_by_closure_and_each_counts() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let (met, (done, all)) = (Arc::new(Barrier::new(2)), channel());
    // Each closure waits for another one beside it: a worker that took two for itself would wait for ever.
    let closures = (0..64).map(|at| {
        let (met, done) = (met.clone(), done.clone());
        move || {
            met.wait();
            done.send(at).unwrap();
            assert!(at != 63, "asked for");
        }
    });
    assert_eq!(runtime.execute_batch(Place::default(), closures).ok(), Some(64));
    drop(done);
    let mut ran: Vec<i32> = all.iter().collect();
    ran.sort_unstable();
    assert_eq!(ran, (0..64).collect::<Vec<_>>());
    let end = runtime.shutdown();
    assert_eq!((runtime.counters().executed(), runtime.counters().panics(), end.dropped), (64, 1, 0));
}

#[test]
fn what_a_shutdown_leaves_of_a_batch_is_dropped_once_and_counted() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let held = Arc::new(());
    let (first, running) = channel();
    let (go, gate) = channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let closures = (0..10).map(|_| {
        let (held, first, gate) = (held.clone(), first.clone(), gate.clone());
        move || {
            let _held = held;
            first.send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
        }
    });
    assert_eq!(runtime.execute_batch(Place::default(), closures).ok(), Some(10));
    running.recv().unwrap();
    let end = std::thread::scope(|scope| {
        let end = scope.spawn(|| runtime.shutdown());
        // Refused from now on; the closure that runs is the last.
        while runtime.execute(|| ()).is_ok() {
            std::thread::yield_now();
        }
        drop(go);
        end.join().unwrap()
    });
    assert_eq!((end.running, Arc::strong_count(&held)), (0, 1));
    assert_eq!(running.try_iter().count(), 0, "nothing ran after the end");
    assert!(end.dropped >= 9, "{} of 9 were counted as dropped", end.dropped);
}

/// A more urgent continuation that a closure of a batch makes ready, on the batch's own worker, waits for no more of the batch.
#[test]
fn what_a_batch_wakes_at_another_priority_waits_for_one_closure() {
    let runtime = Runtime::builder().workers(1).io_threads(0).build().unwrap();
    let (ran, (woken, polled)) = (Arc::new(AtomicUsize::new(0)), channel());
    let (seen, mut first) = (ran.clone(), true);
    let future = std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut first, false) {
            woken.send(cx.waker().clone()).unwrap();
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(seen.load(Ordering::SeqCst))
    });
    let future = runtime.spawn_future_on(Priority::Critical, future);
    let waker = polled.recv_timeout(SOON).unwrap();
    let open = gate(&runtime);
    let closures: Vec<_> = (0..20)
        .map(|at| {
            let (ran, waker) = (ran.clone(), waker.clone());
            move || {
                ran.fetch_add(1, Ordering::SeqCst);
                if at == 0 {
                    waker.wake();
                }
            }
        })
        .collect();
    assert_eq!(runtime.execute_batch(Priority::Background, closures).ok(), Some(20));
    drop(open);
    assert_eq!(future.wait(), Ok(1));
}
