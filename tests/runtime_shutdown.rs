//! A runtime ends from wherever it is told to, within the time of its running jobs, and every closure is run or dropped once.

#[path = "support/gate.rs"]
mod gate;

use gate::{SOON, gate, small};
use shardrun::{Driver, Place, Priority, RefusedBecause, Runtime};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

/// Counts its drops, opens the gate that holds the worker, and puts work on the runtime and shuts it down from its destructor.
struct Nosy {
    runtime: Runtime,
    open: Arc<Mutex<Option<Sender<()>>>>,
    drops: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
}

impl Drop for Nosy {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::SeqCst);
        drop(self.open.lock().unwrap().take());
        let outcome = self.runtime.execute(|| {});
        self.refused.fetch_add(usize::from(outcome.is_err()), Ordering::SeqCst);
        self.runtime.shutdown();
        let _ = self.runtime.counters();
    }
}

/// Queues ten closures whose captures are nosy behind a job that runs, and shuts down by `end`.
fn ends(end: impl FnOnce(Runtime) + Send + 'static) {
    let (done, ended) = channel();
    let (drops, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (theirs, their_refused) = (drops.clone(), refused.clone());
    let thread = std::thread::spawn(move || {
        let runtime = small(1);
        let open = Arc::new(Mutex::new(Some(gate(&runtime))));
        for n in 0..10 {
            let (drops, refused) = (theirs.clone(), their_refused.clone());
            let nosy = Nosy { runtime: runtime.clone(), open: open.clone(), drops, refused };
            runtime.execute_on(Priority::ALL[n % 4], move || drop(nosy)).unwrap();
        }
        end(runtime);
        done.send(()).unwrap();
    });
    ended.recv_timeout(SOON).expect("the shutdown ends");
    thread.join().unwrap();
    assert_eq!((drops.load(Ordering::SeqCst), refused.load(Ordering::SeqCst)), (10, 10));
}

#[test]
fn b34_a_shutdown_from_outside_and_from_destructors_meanwhile_drops_each_closure_once() {
    ends(|runtime| {
        // The destructors run on this thread, inside the shutdown, and shut down again: that waits for the worker whose gate
        // the first of them has opened.
        let end = runtime.shutdown();
        assert!(end.running == 0 && end.dropped >= 10);
    });
}

#[test]
fn b34_a_shutdown_beside_pushes_drops_each_closure_once() {
    ends(|runtime| {
        let closer = runtime.clone();
        let thread = std::thread::spawn(move || closer.shutdown());
        // Who pushes beside the end may find itself dropping what others have queued.
        while runtime.execute(|| {}).is_ok() {
            std::thread::yield_now();
        }
        assert_eq!(thread.join().unwrap().running, 0);
    });
}

#[test]
fn b34_a_shutdown_from_a_worker_does_not_wait_for_itself() {
    let runtime = small(2);
    let (sender, receiver) = channel();
    let inner = runtime.clone();
    let inside = runtime.clone();
    runtime.execute(move || sender.send(inner.shutdown()).unwrap()).unwrap();
    let end = receiver.recv_timeout(SOON).expect("it returns");
    assert!(end.running > 0, "at least the caller still runs");
    assert_eq!(inside.shutdown().running, 0);
}

#[test]
fn b34_the_last_handle_dropped_on_a_worker_ends_the_runtime() {
    let (stopped, stop) = channel();
    let runtime =
        Runtime::builder().workers(1).io_threads(0).on_stop(move |_| stopped.send(()).unwrap()).build().unwrap();
    let (sender, receiver) = channel::<()>();
    let inner = runtime.clone();
    runtime
        .execute(move || {
            let _ = receiver.recv();
            drop(inner);
        })
        .unwrap();
    drop(runtime);
    drop(sender);
    stop.recv_timeout(SOON).expect("the worker ends");
}

#[test]
fn b34_a_shutdown_from_a_hook_returns() {
    let slot: Arc<Mutex<Option<Runtime>>> = Arc::default();
    let (told, tell) = channel();
    let theirs = slot.clone();
    let runtime = Runtime::builder()
        .workers(1)
        .io_threads(0)
        .on_stop(move |_| told.send(theirs.lock().unwrap().take().map(|runtime| runtime.shutdown())).unwrap())
        .build()
        .unwrap();
    *slot.lock().unwrap() = Some(runtime.clone());
    assert_eq!(runtime.shutdown().running, 0);
    assert!(tell.recv_timeout(SOON).expect("the hook ran").is_some());
}

#[test]
fn b34_a_driven_runtime_drops_what_waits() {
    for driver in [Driver::Inline, Driver::Seeded { seed: 3 }] {
        let runtime = Runtime::builder().driver(driver).build().unwrap();
        let drops = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let (open, refused) = (Arc::default(), Arc::default());
            let nosy = Nosy { runtime: runtime.clone(), open, drops: drops.clone(), refused };
            runtime.execute(move || drop(nosy)).unwrap();
        }
        assert!(runtime.shutdown().dropped >= 10);
        assert_eq!((drops.load(Ordering::SeqCst), runtime.drive_all()), (10, 0));
    }
}

#[test]
fn b36_work_that_comes_after_the_end_is_given_back() {
    let runtime = small(1);
    let late = runtime.clone();
    runtime.shutdown();
    let held = Arc::new(5);
    let theirs = held.clone();
    let rejected = late.execute(move || drop(theirs)).expect_err("it is shut down");
    assert_eq!((rejected.because, Arc::strong_count(&held)), (RefusedBecause::Shutdown, 2));
    assert_eq!(rejected.to_string(), "the runtime is shut down");
    (rejected.work)();
    assert_eq!(Arc::strong_count(&held), 1);
    let batch = late.execute_batch(Place::default(), vec![|| {}]).expect_err("it is shut down");
    assert_eq!(batch.work.len(), 1);
}

#[test]
fn b36_work_pushed_beside_the_end_is_run_dropped_or_given_back() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    for _ in 0..200 {
        let runtime = small(2);
        let (drops, start) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(3)));
        let pushers: Vec<_> = (0..2)
            .map(|_| {
                let (runtime, drops, start) = (runtime.clone(), drops.clone(), start.clone());
                std::thread::spawn(move || {
                    start.wait();
                    for _ in 0..50 {
                        let counted = Counted(drops.clone());
                        drop(runtime.execute(move || drop(counted)));
                    }
                })
            })
            .collect();
        start.wait();
        assert_eq!(runtime.shutdown().running, 0);
        for pusher in pushers {
            pusher.join().unwrap();
        }
        assert_eq!(drops.load(Ordering::SeqCst), 100, "each closure was dropped once, none waits");
    }
}

#[test]
fn a_shutdown_within_a_limit_leaves_a_job_that_does_not_end() {
    let runtime = small(1);
    let open = gate(&runtime);
    let mut running = runtime.shutdown_within(Duration::from_millis(10)).running;
    while running > 1 {
        // The I/O thread has not come to its end yet.
        running = runtime.shutdown_within(Duration::from_millis(10)).running;
    }
    assert_eq!(running, 1, "the I/O thread has ended, the worker has not");
    drop(open);
    assert_eq!(runtime.shutdown().running, 0);
}

#[test]
fn b55_a_batch_whose_iterator_panics_leaves_nothing() {
    const N: usize = 64;
    struct Lying(std::ops::Range<usize>, usize);
    impl Iterator for Lying {
        type Item = Box<dyn FnOnce() + Send>;
        fn next(&mut self) -> Option<Self::Item> {
            let n = self.0.next()?;
            assert_ne!(n, self.1, "asked for");
            Some(Box::new(|| {}))
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (0, Some(1))
        }
    }
    std::panic::set_hook(Box::new(|_| {}));
    let runtime = small(1);
    for at in [0, 1, N / 2, N - 1] {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = runtime.execute_batch(Place::default(), Lying(0..N, at));
        }));
        assert!(outcome.is_err());
    }
    let _ = std::panic::take_hook();
    assert_eq!(runtime.execute_batch(Place::default(), Lying(0..N, N)).unwrap(), N);
    while runtime.counters().executed() < N as u64 {
        std::thread::yield_now();
    }
    assert_eq!(runtime.shutdown().dropped, 0);
    assert_eq!(runtime.counters().executed(), N as u64);
}

/// What a job has left in a thread-local waits, when it is dropped, for what the caller does after the shutdown.
#[test]
fn b34_a_shutdown_within_a_limit_does_not_wait_for_what_jobs_left_in_thread_locals() {
    struct Waits(std::sync::mpsc::Receiver<()>, Sender<bool>);
    impl Drop for Waits {
        fn drop(&mut self) {
            let came = self.0.recv_timeout(Duration::from_secs(20)).is_ok();
            self.1.send(came).unwrap();
        }
    }
    thread_local! {
        static LEFT: std::cell::RefCell<Option<Waits>> = const { std::cell::RefCell::new(None) };
    }
    for limit in [Duration::ZERO, SOON] {
        let runtime = small(1);
        let ((open, opened), (tell, told)) = (channel(), channel());
        runtime.spawn(move || LEFT.set(Some(Waits(opened, tell)))).wait().unwrap();
        while runtime.shutdown_within(limit).running > 0 {
            std::thread::yield_now();
        }
        open.send(()).unwrap();
        assert_eq!(told.recv_timeout(SOON), Ok(true), "the caller came to it");
        assert_eq!(runtime.shutdown().running, 0);
    }
}
