//! Jobs written as futures: they free their worker while they sleep, are woken once, cancelled where they sleep, and end with
//! their runtime.

use shardrun::{Driver, Handle, JobError, Runtime};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("a runtime starts")
}

/// A door that futures wait at until it is opened.
#[derive(Clone, Default)]
struct Door(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Door {
    fn open(&self) {
        let wakers = {
            let mut door = self.0.lock().unwrap();
            door.0 = true;
            std::mem::take(&mut door.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn waiting(&self) -> usize {
        self.0.lock().unwrap().1.len()
    }

    fn wakers(&self) -> Vec<Waker> {
        std::mem::take(&mut self.0.lock().unwrap().1)
    }
}

impl Future for Door {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut door = self.0.lock().unwrap();
        if door.0 {
            return Poll::Ready(());
        }
        door.1.push(cx.waker().clone());
        Poll::Pending
    }
}

fn until(mut reached: impl FnMut() -> bool) {
    while !reached() {
        std::thread::yield_now();
    }
}

#[test]
fn a_sleeping_future_holds_no_worker() {
    let runtime = runtime(1);
    let door = Door::default();
    let sleepers: Vec<_> = (0..100)
        .map(|number| {
            let door = door.clone();
            runtime.spawn_future(async move {
                door.await;
                number
            })
        })
        .collect();
    until(|| door.waiting() == 100);
    assert_eq!(runtime.spawn(|| 1).wait(), Ok(1));
    door.open();
    for (number, sleeper) in sleepers.into_iter().enumerate() {
        assert_eq!(sleeper.wait(), Ok(number));
    }
}

#[test]
fn a_future_that_wakes_itself_is_polled_again_and_lets_others_run() {
    struct Yields(usize);
    impl Future for Yields {
        type Output = usize;
        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<usize> {
            self.0 += 1;
            if self.0 == 1_000 {
                return Poll::Ready(self.0);
            }
            cx.waker().wake_by_ref();
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    }
    let runtime = runtime(1);
    let yields = runtime.spawn_future(Yields(0));
    let other = runtime.spawn(|| 2);
    assert_eq!((yields.wait(), other.wait()), (Ok(1_000), Ok(2)));
}

#[test]
fn b40_a_future_that_panics_is_dropped_and_says_so() {
    let runtime = runtime(1);
    let kept = Arc::new(());
    let guard = kept.clone();
    let failed = runtime.spawn_future(async move {
        let _guard = guard;
        if Arc::strong_count(&_guard) > 0 {
            panic!("in a poll");
        }
    });
    assert!(matches!(failed.wait(), Err(JobError::Panicked(report)) if report.message() == "in a poll"));
    assert_eq!(Arc::strong_count(&kept), 1);
    assert_eq!(runtime.spawn_future(async { 1 }).wait(), Ok(1));
}

#[test]
fn a_future_is_cancelled_where_it_sleeps_and_dropped_at_once() {
    let runtime = runtime(1);
    let (door, kept) = (Door::default(), Arc::new(()));
    let (inner, guard) = (door.clone(), kept.clone());
    let sleeper = runtime.spawn_future(async move {
        let _guard = guard;
        inner.await;
    });
    until(|| door.waiting() == 1);
    runtime.spawn(|| ()).wait().unwrap(); // The only worker has done with it.
    sleeper.cancel();
    assert_eq!(Arc::strong_count(&kept), 1, "dropped by the canceller");
    assert_eq!(sleeper.wait(), Err(JobError::Cancelled));
    door.open();
    assert_eq!(runtime.spawn(|| 1).wait(), Ok(1), "its late wake does nothing");
}

#[test]
fn a_future_that_is_cancelled_while_it_is_polled_is_dropped_after_that_poll() {
    let runtime = runtime(1);
    let (begin, begun) = channel();
    let (leave, left) = channel::<()>();
    let kept = Arc::new(());
    let guard = kept.clone();
    let sleeper = runtime.spawn_future(async move {
        let _guard = guard;
        begin.send(()).unwrap();
        left.recv().unwrap();
        std::future::pending::<()>().await;
    });
    begun.recv().unwrap();
    sleeper.cancel();
    assert_eq!(sleeper.wait(), Err(JobError::Cancelled));
    assert_eq!(Arc::strong_count(&kept), 2, "it is being polled");
    leave.send(()).unwrap();
    assert_eq!(runtime.spawn(|| 1).wait(), Ok(1));
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn b34_sleeping_futures_end_with_their_runtime() {
    for driver in [Driver::Threads, Driver::Inline] {
        let runtime = Runtime::builder().workers(2).driver(driver).build().unwrap();
        let door = Door::default();
        let sleepers: Vec<Handle<()>> = (0..50).map(|_| runtime.spawn_future(door.clone())).collect();
        while door.waiting() < 50 {
            runtime.drive_one();
        }
        let spawner = runtime.clone();
        let late = runtime.spawn_future(async move {
            spawner.shutdown();
            std::future::pending::<()>().await;
        });
        runtime.drive_all();
        for sleeper in sleepers {
            assert_eq!(sleeper.wait(), Err(JobError::Shutdown));
        }
        assert_eq!(late.wait(), Err(JobError::Shutdown), "also one that goes to sleep afterwards");
        door.open();
    }
}

#[test]
fn b36_wakers_that_fire_while_the_last_runtime_handle_goes() {
    for round in 0..300 {
        let runtime = runtime(1);
        let door = Door::default();
        let sleepers: Vec<_> = (0..4).map(|_| runtime.spawn_future(door.clone())).collect();
        until(|| door.waiting() == 4);
        let wakers = door.wakers();
        let together = Arc::new(Barrier::new(2));
        let foreign = {
            let together = together.clone();
            std::thread::spawn(move || {
                together.wait();
                for waker in wakers {
                    waker.wake_by_ref();
                    waker.wake();
                }
            })
        };
        together.wait();
        if round % 2 == 0 {
            std::thread::yield_now();
        }
        drop(runtime);
        for sleeper in sleepers {
            assert_eq!(sleeper.wait(), Err(JobError::Shutdown));
        }
        foreign.join().unwrap();
    }
}

#[test]
fn handles_are_awaited_by_futures() {
    let runtime = runtime(2);
    let polls = Arc::new(AtomicUsize::new(0));
    let (spawner, count) = (runtime.clone(), polls.clone());
    let sum = runtime.spawn_future(async move {
        let mut sum = 0;
        for number in 0..100_u64 {
            count.fetch_add(1, Ordering::Relaxed);
            sum += spawner.spawn(move || number).await.unwrap();
        }
        sum
    });
    assert_eq!(sum.wait(), Ok(4_950));
    assert_eq!(polls.load(Ordering::Relaxed), 100);
}
