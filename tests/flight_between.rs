//! Threads between runtimes, and several that drive one: whoever waits lends its place, and nothing is called stalled that moves.

use shardrun::{Budget, Driver, Event, Handle, JobError, Observer, Runtime};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(300);

fn small() -> Runtime {
    Runtime::builder().workers(1).io_threads(0).build().unwrap()
}

fn next<T>(from: &Receiver<T>) -> T {
    from.recv_timeout(SOON).expect("it comes")
}

/// The only worker of a runtime waits, in one of the engine's ways, for something that only its runtime's next job brings.
fn lends_its_place(wait: impl FnOnce(Receiver<()>) + Send + 'static) {
    let runtime = small();
    let (bring, brought) = channel();
    let (done, end) = channel();
    let inner = runtime.clone();
    let job = move || {
        inner.execute(move || bring.send(()).unwrap()).unwrap();
        wait(brought);
        done.send(()).unwrap();
    };
    runtime.execute(job).unwrap();
    next(&end);
}

#[test]
fn b57_a_worker_that_shuts_another_runtime_down_lends_its_place() {
    lends_its_place(|brought| {
        let other = small();
        let (entered, inside) = channel();
        let job = move || {
            entered.send(()).unwrap();
            next(&brought);
        };
        other.execute(job).unwrap();
        next(&inside);
        assert_eq!(other.shutdown().running, 0);
    });
}

#[test]
fn b57_a_worker_that_waits_for_another_runtime_lends_its_place() {
    lends_its_place(|brought| {
        let other = small();
        let (entered, inside) = channel();
        let job = move || {
            entered.send(()).unwrap();
            next(&brought);
        };
        let waited: Handle<()> = other.spawn(job);
        next(&inside);
        assert_eq!(waited.wait(), Ok(()));
    });
}

#[test]
fn b61_a_worker_that_waits_for_a_budget_lends_its_place() {
    lends_its_place(|brought| {
        let budget = Budget::new(1);
        let one = budget.acquire(1).unwrap();
        std::thread::spawn(move || {
            next(&brought);
            drop(one);
        });
        drop(budget.acquire(1).unwrap());
    });
}

#[test]
fn a_runtime_that_another_thread_drives_is_not_stalled() {
    for round in 0..200 {
        let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
        let (entered, inside) = channel();
        let (go, gone) = channel::<()>();
        let woken: Arc<Mutex<(bool, Option<Waker>)>> = Arc::default();
        let theirs = woken.clone();
        let waits = runtime.spawn_future(std::future::poll_fn(move |cx| {
            let mut woken = theirs.lock().unwrap();
            woken.1 = Some(cx.waker().clone());
            if woken.0 { Poll::Ready(7) } else { Poll::Pending }
        }));
        assert!(runtime.drive_one());
        let job = move || {
            entered.send(()).unwrap();
            next(&gone);
            let waker = {
                let mut woken = woken.lock().unwrap();
                woken.0 = true;
                woken.1.take()
            };
            waker.unwrap().wake();
        };
        runtime.execute(job).unwrap();
        let driver = runtime.clone();
        let other = std::thread::spawn(move || driver.drive_one());
        next(&inside);
        // The other thread goes on at any moment of the wait.
        let goes = std::thread::spawn(move || {
            (0..round * 20).for_each(|_| std::hint::spin_loop());
            go.send(()).unwrap();
        });
        assert_eq!(waits.wait(), Ok(7));
        assert!(other.join().unwrap());
        goes.join().unwrap();
        assert_eq!(runtime.spawn_future(std::future::pending::<()>()).wait(), Err(JobError::Stalled));
    }
}

#[test]
fn a_budget_that_another_thread_frees_is_not_stalled() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let budget = Budget::for_runtime(1, &runtime);
    let one = budget.acquire(1).unwrap();
    let (entered, inside) = channel();
    let (go, gone) = channel::<()>();
    let job = move || {
        entered.send(()).unwrap();
        next(&gone);
        drop(one);
    };
    runtime.execute(job).unwrap();
    let driver = runtime.clone();
    let other = std::thread::spawn(move || driver.drive_one());
    next(&inside);
    let waits = std::thread::spawn(move || budget.acquire(1).is_ok());
    (0..20_000).for_each(|_| std::hint::spin_loop());
    go.send(()).unwrap();
    assert!(waits.join().unwrap());
    assert!(other.join().unwrap());
}

/// Two threads drive a job each, which wait for what `handle` gives them.
fn two_drivers_wait(handle: impl Fn(usize) -> Handle<()> + Clone + Send + 'static, runtime: &Runtime) -> [JobError; 2] {
    let both = Arc::new(Barrier::new(2));
    let (told, tells) = channel();
    for number in 0..2 {
        let (both, handle, told) = (both.clone(), handle.clone(), told.clone());
        let job = move || {
            both.wait();
            told.send((number, handle(number).wait().unwrap_err())).unwrap();
        };
        runtime.execute(job).unwrap();
    }
    let drivers = [(); 2].map(|()| {
        let runtime = runtime.clone();
        std::thread::spawn(move || runtime.drive_all())
    });
    let mut told = [next(&tells), next(&tells)];
    told.sort_by_key(|(number, _)| *number);
    assert!(drivers.into_iter().map(|driver| driver.join().unwrap()).sum::<usize>() >= 2);
    told.map(|(_, error)| error)
}

#[test]
fn drivers_that_wait_are_not_at_work_for_each_other() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let inner = runtime.clone();
    let never = move |_| inner.spawn_future(std::future::pending::<()>());
    for _ in 0..20 {
        assert_eq!(two_drivers_wait(never.clone(), &runtime), [JobError::Stalled, JobError::Stalled]);
    }
}

#[test]
fn two_driven_jobs_that_wait_for_each_other_are_told() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    for _ in 0..50 {
        let both = Arc::new(Barrier::new(2));
        let slots: Arc<[Mutex<Option<Handle<bool>>>; 2]> = Arc::default();
        for number in 0..2 {
            let (both, theirs) = (both.clone(), slots.clone());
            let handle = runtime.spawn(move || {
                both.wait();
                let other = theirs[1 - number].lock().unwrap().take().unwrap();
                matches!(other.wait(), Err(JobError::WouldDeadlock(_)))
            });
            *slots[number].lock().unwrap() = Some(handle);
        }
        let drivers = [(); 2].map(|()| {
            let runtime = runtime.clone();
            std::thread::spawn(move || runtime.drive_all())
        });
        let (ended, end) = channel();
        std::thread::spawn(move || {
            assert!(drivers.into_iter().map(|driver| driver.join().unwrap()).sum::<usize>() >= 2);
            ended.send(()).unwrap();
        });
        next(&end);
    }
}

/// Waits, when it is told of a panic, for what nobody brings.
struct WaitsOnPanic(Mutex<Option<Handle<()>>>, std::sync::mpsc::Sender<Result<(), JobError>>);

impl Observer for WaitsOnPanic {
    fn event(&self, event: &Event) {
        if matches!(event, Event::Panicked { .. }) {
            let waits = self.0.lock().unwrap().take().unwrap();
            self.1.send(waits.wait()).unwrap();
        }
    }
}

#[test]
fn an_observer_that_waits_for_what_cannot_move_is_told_on_a_driven_runtime_too() {
    let (tell, told) = channel();
    let observer = Arc::new(WaitsOnPanic(Mutex::new(None), tell));
    let runtime = Runtime::builder().driver(Driver::Inline).observer(observer.clone()).build().unwrap();
    *observer.0.lock().unwrap() = Some(runtime.spawn_future(std::future::pending()));
    assert!(runtime.drive_one());
    runtime.execute(|| panic!("asked for")).unwrap();
    let driver = runtime.clone();
    std::thread::spawn(move || driver.drive_one());
    assert!(matches!(next(&told), Err(JobError::Stalled)));
}
