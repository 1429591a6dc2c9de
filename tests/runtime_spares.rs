//! Work that only another thread can do gets one: a woken future while its waker's worker goes on, and whatever waits while
//! workers block and spares come and go.

use shardrun::{Handle, Place, Priority, Runtime};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(300);

fn next<T>(from: &Receiver<T>) -> T {
    from.recv_timeout(SOON).expect("it comes")
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

/// A worker that wakes a future and then waits for it in a way of its own, which no thief may be too patient for.
fn wakes_and_goes_on(spin: Duration) {
    let runtime = Runtime::builder().workers(2).io_threads(0).max_spares(0).spin(spin).build().unwrap();
    for _ in 0..200 {
        let door = Door::default();
        let (slept, sleeps) = channel();
        let (told, tells) = channel();
        let inside = door.clone();
        let woken = runtime.spawn_future(async move {
            slept.send(()).unwrap();
            inside.await;
            told.send(()).unwrap();
        });
        next(&sleeps);
        let (done, end) = channel();
        runtime
            .execute(move || {
                door.open();
                done.send(tells.recv_timeout(SOON).is_ok()).unwrap();
            })
            .unwrap();
        assert!(next(&end), "the woken future waits behind the job that woke it, spin {spin:?}");
        assert_eq!(woken.wait(), Ok(()));
    }
}

#[test]
fn b10_a_woken_future_is_stolen_however_short_the_spin() {
    for spin in [0, 1, 5, 50, 400] {
        wakes_and_goes_on(Duration::from_micros(spin));
    }
}

/// A worker blocks for what only a spare can do, just as the spare that it once needed hands back its jobs and goes to rest.
fn blocks_as_its_spare_goes_to_rest(rounds: usize) {
    let runtime = Runtime::builder().workers(1).io_threads(0).max_spares(1).build().unwrap();
    let (done, end) = channel();
    let inner = runtime.clone();
    let job = move || {
        for round in 0..rounds {
            let door = Door::default();
            let inside = door.clone();
            let opened: Handle<()> = inner.spawn_future(inside);
            inner.execute(move || door.open()).unwrap();
            assert_eq!(opened.wait(), Ok(()));
            // The worker is back. What runs on the spare now is the last before it rests, and leaves it much to hand back.
            let (theirs, last) = (inner.clone(), Arc::new(AtomicBool::new(false)));
            let ends = last.clone();
            let leaves_much = move || {
                (0..200).for_each(|_| theirs.execute_on(Place::workers(Priority::Maintenance), || {}).unwrap());
                ends.store(true, Ordering::Release);
            };
            inner.execute(leaves_much).unwrap();
            let begun = Instant::now();
            while !last.load(Ordering::Acquire) && begun.elapsed() < Duration::from_micros(200) {
                std::hint::spin_loop();
            }
            (0..round % 256).for_each(|_| std::hint::spin_loop());
        }
        done.send(()).unwrap();
    };
    runtime.execute(job).unwrap();
    next(&end);
}

#[test]
fn b60_a_spare_that_goes_to_rest_is_not_missed_by_who_blocks_next() {
    blocks_as_its_spare_goes_to_rest(5_000);
}
