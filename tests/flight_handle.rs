//! Handles: a spawned job is awaited, waited for, cancelled and detached, and every waiter gets one outcome.

use shardrun::{Handle, JobError, Place, Priority, Runtime};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Longer than anything here takes, so that only a hang reaches it.
const LONG: Duration = Duration::from_secs(300);

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("a runtime starts")
}

/// A job that says when it has begun and then waits for leave to go on.
struct Gate {
    begun: Receiver<()>,
    leave: Sender<()>,
}

fn gated<T: Send + 'static>(runtime: &Runtime, f: impl FnOnce() -> T + Send + 'static) -> (Handle<T>, Gate) {
    let ((begin, begun), (leave, left)) = (channel(), channel::<()>());
    let handle = runtime.spawn(move || {
        let _ = begin.send(());
        let _ = left.recv();
        f()
    });
    (handle, Gate { begun, leave })
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll<T: Send + 'static>(handle: &mut Handle<T>, waker: &Waker) -> Poll<Result<T, JobError>> {
    Pin::new(handle).poll(&mut Context::from_waker(waker))
}

#[test]
fn a_job_is_waited_for_polled_and_looked_at() {
    let runtime = runtime(2);
    assert_eq!(runtime.spawn(|| 6 * 7).wait(), Ok(42));
    assert_eq!(runtime.spawn_on(Priority::Maintenance, || "late").wait(), Ok("late"));
    assert_eq!(runtime.spawn_on(Place::io(Priority::Critical), || 1).wait(), Ok(1));
    assert_eq!(runtime.spawn(|| 5).wait_helping(), Ok(5));

    let (mut handle, gate) = gated(&runtime, || 9);
    gate.begun.recv().unwrap();
    assert!(handle.try_get().is_none() && !handle.is_resolved());
    assert!(handle.wait_timeout(Duration::from_millis(1)).is_none());
    gate.leave.send(()).unwrap();
    assert_eq!(handle.wait_timeout(LONG), Some(Ok(9)));

    let mut ready = Handle::<u8>::ready(Ok(3));
    assert!(ready.is_resolved());
    assert_eq!(ready.try_get(), Some(Ok(3)));
    assert_eq!(Handle::<u8>::ready(Ok(4)).wait(), Ok(4));
}

#[test]
fn b31_a_new_waker_replaces_the_old_which_is_dropped_outside() {
    /// Its destructor comes back to the engine.
    struct Nosy {
        runtime: Runtime,
        dropped: Arc<AtomicUsize>,
        woken: Arc<AtomicUsize>,
    }
    impl Wake for Nosy {
        fn wake(self: Arc<Self>) {
            self.woken.fetch_add(1, Ordering::SeqCst);
            self.runtime.spawn(|| ()).wait().unwrap();
            panic!("a waker may panic");
        }
    }
    impl Drop for Nosy {
        fn drop(&mut self) {
            self.dropped.fetch_add(1, Ordering::SeqCst);
            self.runtime.spawn(|| ()).cancel();
            let _ = self.runtime.counters();
            assert!(std::thread::panicking(), "its destructor too");
        }
    }
    let runtime = runtime(1);
    let (dropped, woken) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let nosy =
        || Waker::from(Arc::new(Nosy { runtime: runtime.clone(), dropped: dropped.clone(), woken: woken.clone() }));
    let caught = shardrun::contained_panics();
    let (mut handle, gate) = gated(&runtime, || 1);
    gate.begun.recv().unwrap();
    // The last reference may be ours, and its destructor panics.
    let forget = |waker: Waker| drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(waker))));
    let first = nosy();
    assert!(poll(&mut handle, &first).is_pending());
    forget(first);
    let second = nosy();
    assert!(poll(&mut handle, &second).is_pending());
    let plain = Arc::new(Wakes::default());
    assert!(poll(&mut handle, &Waker::from(plain.clone())).is_pending());
    gate.leave.send(()).unwrap();
    assert_eq!(handle.wait(), Ok(1));
    assert_eq!(woken.load(Ordering::SeqCst), 0, "replaced wakers are not woken");
    forget(second);

    let (mut handle, gate) = gated(&runtime, || 2);
    gate.begun.recv().unwrap();
    let waker = nosy();
    assert!(poll(&mut handle, &waker).is_pending());
    forget(waker);
    gate.leave.send(()).unwrap();
    while !handle.is_resolved() {
        std::thread::yield_now();
    }
    assert_eq!(handle.wait(), Ok(2));
    while woken.load(Ordering::SeqCst) == 0 || shardrun::contained_panics() == caught {
        std::thread::yield_now();
    }
    assert_eq!(runtime.spawn(|| 3).wait(), Ok(3), "the worker goes on");
}

#[test]
fn b40_a_panic_is_the_jobs_outcome_and_the_worker_goes_on() {
    let runtime = runtime(1);
    let error = runtime.spawn(|| -> u8 { panic!("number {}", 5) }).wait().unwrap_err();
    let JobError::Panicked(report) = &error else { panic!("{error:?}") };
    assert_eq!(report.message(), "number 5");
    assert_eq!(error.to_string(), "the job panicked: number 5");
    assert!(std::error::Error::source(&error).is_none(), "what is shown is not told again");
    assert_eq!(runtime.spawn(|| 1).wait(), Ok(1));
    assert_eq!(runtime.call(|| 8), Ok(8));
    assert!(matches!(runtime.call(|| -> u8 { panic!("here") }), Err(JobError::Panicked(_))));
}

#[test]
fn b53_ten_thousand_jobs_of_which_one_in_three_panics_somewhere() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("destructor");
        }
    }
    struct Payload;
    impl Drop for Payload {
        fn drop(&mut self) {
            panic!("payload");
        }
    }
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let runtime = runtime(4);
    let handles: Vec<Handle<Option<usize>>> = (0..10_000)
        .map(|number| {
            let bomb = (number % 9 == 3).then(|| Bomb);
            runtime.spawn(move || {
                if number % 9 == 0 {
                    panic!("plain");
                } else if number % 9 == 6 {
                    std::panic::panic_any(Payload);
                }
                let _bomb = bomb;
                Some(number)
            })
        })
        .collect();
    // A result whose destructor panics, dropped with its handle and by a detached job.
    drop(runtime.spawn(|| Bomb));
    let outcomes: Vec<_> = handles.into_iter().map(Handle::wait).collect();
    std::panic::set_hook(hook);
    for (number, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.is_err(), number % 3 == 0, "{number}: {outcome:?}");
    }
    let meeting = Arc::new(Barrier::new(4));
    let all: Vec<_> = (0..4)
        .map(|_| {
            let meeting = meeting.clone();
            runtime.spawn(move || meeting.wait().is_leader())
        })
        .collect();
    assert_eq!(all.into_iter().filter_map(|handle| handle.wait().ok()).filter(|leads| *leads).count(), 1);
}

#[test]
fn a_cancelled_job_never_starts_and_a_running_one_loses_its_result() {
    let runtime = runtime(1);
    let (first, gate) = gated(&runtime, || 1);
    gate.begun.recv().unwrap();
    let dropped = Arc::new(());
    let guard = dropped.clone();
    let second = runtime.spawn(move || {
        let _guard = guard;
        unreachable!("it was cancelled before it began");
    });
    second.cancel();
    second.cancel();
    assert_eq!(second.wait(), Err::<(), _>(JobError::Cancelled));
    assert_eq!(Arc::strong_count(&dropped), 1, "its closure went at once");
    first.cancel();
    assert_eq!(first.wait(), Err(JobError::Cancelled), "at once, though it still runs");
    gate.leave.send(()).unwrap();
    assert_eq!(runtime.spawn(|| 2).wait(), Ok(2));
}

#[test]
fn dropping_detaches_and_cancel_on_drop_cancels() {
    let runtime = runtime(1);
    let (first, gate) = gated(&runtime, || 1);
    gate.begun.recv().unwrap();
    let ran = Arc::new(AtomicBool::new(false));
    let flag = ran.clone();
    drop(runtime.spawn(move || flag.store(true, Ordering::SeqCst)));
    drop(runtime.spawn(|| unreachable!("it was cancelled")).cancel_on_drop());
    let kept = runtime.spawn(|| 4).cancel_on_drop().into_inner();
    gate.leave.send(()).unwrap();
    assert_eq!((first.wait(), kept.wait()), (Ok(1), Ok(4)));
    assert!(ran.load(Ordering::SeqCst), "a dropped handle detaches");
}

#[test]
fn b34_jobs_that_never_began_say_shutdown_and_their_destructors_may_call_back() {
    struct Nosy(Option<Runtime>, Arc<AtomicUsize>);
    impl Drop for Nosy {
        fn drop(&mut self) {
            let runtime = self.0.take().expect("dropped once");
            assert_eq!(runtime.spawn(|| 1).wait(), Err(JobError::Shutdown), "closed");
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }
    let runtime = runtime(1);
    let (running, gate) = gated(&runtime, || 7);
    gate.begun.recv().unwrap();
    let drops = Arc::new(AtomicUsize::new(0));
    let queued: Vec<_> = (0..10)
        .map(|_| {
            let nosy = Nosy(Some(runtime.clone()), drops.clone());
            runtime.spawn(move || {
                let _nosy = nosy;
            })
        })
        .collect();
    let closer = {
        let runtime = runtime.clone();
        std::thread::spawn(move || runtime.shutdown_within(LONG))
    };
    for handle in queued {
        assert_eq!(handle.wait(), Err(JobError::Shutdown));
    }
    gate.leave.send(()).unwrap();
    assert_eq!(running.wait(), Ok(7), "what runs ends");
    assert_eq!(closer.join().unwrap().running, 0);
    assert_eq!(drops.load(Ordering::SeqCst), 10);
    assert_eq!(runtime.spawn(|| 1).wait(), Err(JobError::Shutdown));
    assert_eq!(runtime.call(|| 1), Err(JobError::Shutdown));
}

#[test]
fn b117_unparks_without_reason_end_no_wait() {
    let runtime = runtime(1);
    let (handle, gate) = gated(&runtime, || 5);
    gate.begun.recv().unwrap();
    let (say, said) = channel();
    let waiter = std::thread::spawn(move || {
        say.send(()).unwrap();
        handle.wait()
    });
    said.recv().unwrap();
    for _ in 0..10_000 {
        waiter.thread().unpark();
        assert!(!waiter.is_finished());
    }
    gate.leave.send(()).unwrap();
    assert_eq!(waiter.join().unwrap(), Ok(5));

    let (mut handle, gate) = gated(&runtime, || 6);
    gate.begun.recv().unwrap();
    let limit = Duration::from_millis(40);
    let waiter = std::thread::spawn(move || {
        let begun = std::time::Instant::now();
        let timed_out = handle.wait_timeout(limit).is_none();
        (timed_out, begun.elapsed())
    });
    while !waiter.is_finished() {
        waiter.thread().unpark();
    }
    let (timed_out, waited) = waiter.join().unwrap();
    assert!(timed_out && waited >= limit, "{waited:?}");
    gate.leave.send(()).unwrap();
}
