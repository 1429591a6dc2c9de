//! What sleeping futures keep in memory once they are over, or can never be woken: bytes alive, told by the allocator.

use shardrun::{CancellationToken, Runtime};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

#[path = "support/live_bytes.rs"]
mod live_bytes;

use live_bytes::LIVE;

/// One test of this file at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

const LARGE: usize = 16 << 10;

/// What `futures` of `LARGE` bytes each leave alive while their runtime lives on, in futures, once those are fewer than `most` if they
/// ever are: a worker that the machine holds up in the middle of something keeps meanwhile what others have let go of.
fn left_by(most: i64, futures: impl FnOnce(&Runtime)) -> i64 {
    let _alone = alone();
    let runtime = Runtime::builder().workers(2).io_threads(0).build().unwrap();
    let before = LIVE.load(Ordering::Relaxed);
    futures(&runtime);
    let left = || (LIVE.load(Ordering::Relaxed) - before) / LARGE as i64;
    let begun = Instant::now();
    while left() >= most && begun.elapsed() < Duration::from_secs(120) {
        assert_eq!(runtime.spawn_future(async {}).wait(), Ok(()));
    }
    left()
}

#[test]
fn b101_futures_that_nobody_can_wake_leave_nothing_behind() {
    let left = left_by(5_000, |runtime| {
        let polled = Arc::new(AtomicIsize::new(0));
        for number in 1..=20_000 {
            let large = std::hint::black_box([1_u8; LARGE]);
            let polls = polled.clone();
            let handle = runtime.spawn_future(std::future::poll_fn(move |_| {
                std::hint::black_box(&large);
                polls.fetch_add(1, Ordering::SeqCst);
                Poll::<()>::Pending
            }));
            while polled.load(Ordering::SeqCst) < number {
                std::thread::yield_now();
            }
            drop(handle);
        }
    });
    assert!(left < 5_000, "{left} futures of 20,000 are still there");
}

#[test]
fn b99_futures_that_slept_and_ended_leave_nothing_behind() {
    let left = left_by(8_000, |runtime| {
        for _ in 0..100 {
            let token = CancellationToken::new();
            let handles: Vec<_> = (0..500)
                .map(|_| {
                    let large = std::hint::black_box([1_u8; LARGE]);
                    let (opens, mut opened) = (token.clone(), None);
                    let future = std::future::poll_fn(move |cx| {
                        std::hint::black_box(&large);
                        let waker = cx.waker().clone();
                        opened.get_or_insert_with(|| opens.on_cancel(move || waker.wake()));
                        if opens.is_cancelled() { Poll::Ready(()) } else { Poll::Pending }
                    });
                    runtime.spawn_future(future)
                })
                .collect();
            token.cancel();
            assert!(handles.into_iter().all(|handle| handle.wait() == Ok(())));
        }
    });
    assert!(left < 8_000, "{left} futures of 50,000 are still there");
}
