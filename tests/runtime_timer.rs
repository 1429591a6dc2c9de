//! Deadlines on the system's clock, on a clock that stands still, and on one of the host's.

use shardrun::{Clock, Driver, RefusedBecause, Runtime, TimerHandle, VirtualClock};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(300);
const MS: Duration = Duration::from_millis(1);

fn driven() -> Runtime {
    Runtime::builder().driver(Driver::Inline).build().unwrap()
}

fn threads() -> Runtime {
    Runtime::builder().workers(1).io_threads(0).build().unwrap()
}

#[test]
fn deadlines_fire_in_the_order_of_their_times_on_a_clock_that_is_moved() {
    let runtime = driven();
    let fired = Arc::new(Mutex::new(Vec::new()));
    for ms in [30, 10, 20, 10] {
        let fired = fired.clone();
        drop(runtime.after(MS * ms, move || fired.lock().unwrap().push(ms)).unwrap());
    }
    assert_eq!((runtime.drive_all(), runtime.now()), (0, Duration::ZERO));
    assert!(runtime.advance(MS * 19));
    assert_eq!(runtime.drive_all(), 2);
    assert!(runtime.advance(MS * 11));
    assert_eq!(runtime.drive_all(), 2);
    assert_eq!(*fired.lock().unwrap(), [10, 10, 20, 30]);
    assert_eq!(runtime.now(), MS * 30);
}

#[test]
fn who_drives_is_told_until_when_to_sleep() {
    let runtime = driven();
    assert_eq!(runtime.next_deadline(), None);
    drop(runtime.after(MS * 30, || {}));
    drop(runtime.after(MS * 10, || {}));
    assert_eq!(runtime.next_deadline(), Some(MS * 10));
    assert!(runtime.advance(MS * 10));
    assert_eq!(runtime.next_deadline(), Some(MS * 30), "what is due is queued");
    assert_eq!(runtime.drive_all(), 1);
    let threads = threads();
    drop(threads.after(MS * 100_000, || {}));
    assert_eq!(threads.next_deadline(), None, "threads need nobody who drives");
}

#[test]
fn b07_an_early_deadline_fires_in_time_beside_a_late_one() {
    let runtime = threads();
    drop(runtime.after(Duration::from_secs(1_000), || {}).unwrap());
    for _ in 0..50 {
        let (sender, receiver) = channel();
        let begun = Instant::now();
        drop(runtime.after(MS, move || sender.send(begun.elapsed()).unwrap()).unwrap());
        let late = receiver.recv_timeout(SOON).expect("nothing else has to happen for it to fire");
        assert!(late >= MS, "it fired {late:?} after it was set");
    }
}

#[test]
fn b09_deadlines_are_set_and_cancelled_from_inside_their_own_callbacks() {
    let runtime = threads();
    let (sender, receiver) = channel();
    let own: Arc<OnceLock<TimerHandle>> = Arc::default();
    let (inner, mine) = (runtime.clone(), own.clone());
    let handle = runtime.after(MS, move || {
        while mine.get().is_none() {
            std::thread::yield_now();
        }
        let cancelled_itself = mine.get().unwrap().cancel();
        let other = inner.after(Duration::from_secs(1_000), || unreachable!()).unwrap();
        let cancelled_other = other.cancel() && !other.cancel();
        drop(inner.after(MS, move || sender.send((cancelled_itself, cancelled_other)).unwrap()).unwrap());
    });
    let _ = own.set(handle.unwrap());
    assert_eq!(receiver.recv_timeout(SOON), Ok((false, true)));
}

#[test]
fn b09_a_deadline_fires_or_is_cancelled_never_both() {
    let runtime = threads();
    let fired = Arc::new(AtomicUsize::new(0));
    let mut cancelled = 0;
    for n in 0..2_000 {
        let fired = fired.clone();
        let handle = runtime.after(Duration::from_micros(n % 40), move || _ = fired.fetch_add(1, Ordering::SeqCst));
        cancelled += usize::from(handle.unwrap().cancel());
    }
    let begun = Instant::now();
    while fired.load(Ordering::SeqCst) + cancelled < 2_000 && begun.elapsed() < SOON {
        std::thread::yield_now();
    }
    assert_eq!(fired.load(Ordering::SeqCst) + cancelled, 2_000);
}

#[test]
fn a_cancelled_deadline_drops_its_closure_at_once() {
    let runtime = driven();
    let held = Arc::new(());
    let theirs = held.clone();
    let handle = runtime.after(SOON, move || drop(theirs)).unwrap();
    assert!(handle.cancel());
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn a_shutdown_drops_what_has_not_fired() {
    for runtime in [driven(), threads()] {
        let held = Arc::new(());
        let theirs = held.clone();
        let handle = runtime.after(SOON, move || drop(theirs)).unwrap();
        runtime.shutdown();
        assert_eq!(Arc::strong_count(&held), 1);
        let theirs = held.clone();
        let late = runtime.after(Duration::ZERO, move || drop(theirs)).expect_err("it is refused");
        assert_eq!((late.because, Arc::strong_count(&held), handle.cancel()), (RefusedBecause::Shutdown, 2, false));
        drop(late.work);
        assert_eq!(Arc::strong_count(&held), 1, "the closure was given back");
    }
}

#[test]
fn a_virtual_clock_moves_a_runtime_with_threads() {
    let runtime = Runtime::builder().workers(1).clock(Arc::new(VirtualClock::new())).build().unwrap();
    let (sender, receiver) = channel();
    drop(runtime.after(Duration::from_secs(3_600), move || sender.send(()).unwrap()).unwrap());
    assert!(runtime.advance(Duration::from_secs(3_600)));
    receiver.recv_timeout(SOON).expect("an hour has passed");
    assert!(!threads().advance(MS), "the system's clock is not moved");
}

#[test]
fn a_clock_that_panics_or_asks_the_runtime_stops_nobody() {
    #[derive(Default)]
    struct Odd(AtomicUsize, Mutex<Option<Runtime>>);
    impl Clock for Odd {
        fn now(&self) -> Duration {
            let asked = self.0.fetch_add(1, Ordering::Relaxed);
            let runtime = self.1.lock().unwrap().clone();
            if let Some(runtime) = runtime {
                let _ = runtime.now();
            }
            assert!(!asked.is_multiple_of(3), "a clock that panics");
            Duration::from_secs(asked as u64)
        }
    }
    let clock = Arc::new(Odd::default());
    let runtime = Runtime::builder().driver(Driver::Inline).clock(clock.clone()).build().unwrap();
    *clock.1.lock().unwrap() = Some(runtime.clone());
    std::panic::set_hook(Box::new(|_| {}));
    let times: Vec<_> = (0..9).map(|_| runtime.now()).collect();
    let _ = std::panic::take_hook();
    assert!(times.is_sorted() && *times.last().unwrap() > Duration::ZERO);
    assert_eq!(runtime.counters().panics(), 3);
    clock.1.lock().unwrap().take();
}
