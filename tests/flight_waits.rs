//! Waiting inside jobs: nobody waits for himself, whoever waits helps with what he waits for and with nothing else, and a pool
//! whose workers all wait goes on.

use shardrun::{Driver, Event, Handle, Interrupt, JobError, Observer, Place, Priority, Runtime};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// A runtime whose waiting workers get no help from spares.
fn alone(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).io_threads(1).max_spares(0).build().expect("a runtime starts")
}

fn cycle_of(error: &JobError) -> &[String] {
    match error {
        JobError::WouldDeadlock(cycle) => cycle.members(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_job_that_waits_for_itself_is_told_at_once() {
    let runtime = alone(1);
    let (send, receive) = channel::<Handle<()>>();
    let (tell, told) = channel();
    let handle = runtime.spawn(move || {
        let me = receive.recv().unwrap();
        tell.send(me.wait()).unwrap();
    });
    send.send(handle).unwrap();
    assert_eq!(cycle_of(&told.recv().unwrap().unwrap_err()).len(), 1);
    assert_eq!(runtime.spawn(|| 1).wait(), Ok(1), "the worker is free again");
}

/// What a job of the next test sees of the other.
type Seen = Result<(), JobError>;

/// Two jobs that wait for each other. `meet`: each has begun before it hears of the other, so that they stand on two threads;
/// else one may run the other on its own stack.
fn each_other(workers: usize, meet: bool) -> Vec<Seen> {
    let runtime = alone(workers);
    let (tell, told) = channel();
    let (begin, begun) = channel();
    let job = |receive: std::sync::mpsc::Receiver<Handle<Seen>>| {
        let (tell, begin) = (tell.clone(), begin.clone());
        move || {
            begin.send(()).unwrap();
            let other: Handle<Seen> = receive.recv().unwrap();
            let seen = other.wait().map(drop);
            tell.send(seen.clone()).unwrap();
            seen
        }
    };
    let (to_one, for_one) = channel();
    let (to_two, for_two) = channel();
    let one = runtime.spawn(job(for_one));
    let two = runtime.spawn(job(for_two));
    if meet {
        begun.recv().unwrap();
        begun.recv().unwrap();
    }
    to_one.send(two).unwrap();
    to_two.send(one).unwrap();
    vec![told.recv().unwrap(), told.recv().unwrap()]
}

#[test]
fn two_jobs_that_wait_for_each_other_are_told_who_they_are() {
    for (workers, meet) in [(2, true), (2, false), (1, false)] {
        let seen = each_other(workers, meet);
        let refused: Vec<_> = seen.iter().filter_map(|seen| seen.as_ref().err()).collect();
        assert_eq!(refused.len(), 1, "one is told, and the other then gets its answer: {seen:?}");
        assert_eq!(cycle_of(refused[0]).len(), 2, "{seen:?}");
    }
}

#[test]
fn b57_two_pools_that_wait_for_each_other_go_on() {
    fn nest(pools: Arc<[Runtime; 2]>, depth: usize) -> usize {
        if depth == 0 {
            return 0;
        }
        let inner = pools.clone();
        pools[depth % 2].spawn(move || nest(inner, depth - 1) + 1).wait().unwrap()
    }
    for spares in [0, 2] {
        let one = || Runtime::builder().workers(1).max_spares(spares).build().unwrap();
        let pools = Arc::new([one(), one()]);
        for depth in 1..=16 {
            assert_eq!(nest(pools.clone(), depth), depth, "spares {spares}");
        }
    }
}

#[test]
fn b56_a_worker_that_waits_under_a_lock_runs_no_stranger() {
    for workers in [1, 2, 4] {
        for spares in [0, 4] {
            let runtime = Runtime::builder().workers(workers).max_spares(spares).build().unwrap();
            let lock = Arc::new(Mutex::new(0));
            let stages: Vec<_> = (0..100)
                .map(|_| {
                    let (lock, inside) = (lock.clone(), runtime.clone());
                    runtime.spawn(move || {
                        let mut held = lock.lock().unwrap();
                        *held += inside.spawn(|| 1).wait().unwrap();
                    })
                })
                .collect();
            for stage in stages {
                stage.wait().unwrap();
            }
            assert_eq!(*lock.lock().unwrap(), 100, "{workers} workers, {spares} spares");
        }
    }
}

#[test]
fn b60_as_many_waiting_parents_as_workers() {
    for workers in [1, 2] {
        for spares in [0, 2] {
            let runtime = Runtime::builder().workers(workers).max_spares(spares).build().unwrap();
            let parents: Vec<_> = (0..workers)
                .map(|number| {
                    let inside = runtime.clone();
                    runtime.spawn(move || inside.spawn(move || number).wait().unwrap())
                })
                .collect();
            for (number, parent) in parents.into_iter().enumerate() {
                assert_eq!(parent.wait(), Ok(number));
            }
        }
    }
}

#[test]
fn b60_one_worker_and_one_io_thread_that_wait_for_each_other() {
    let runtime = alone(1);
    let inside = runtime.clone();
    let outer = runtime.spawn(move || {
        let inner = inside.clone();
        let reads = inside.spawn_on(Place::io(Priority::Interactive), move || inner.spawn(|| 3).wait().unwrap() + 1);
        reads.wait().unwrap() + 1
    });
    assert_eq!(outer.wait(), Ok(5));
}

#[test]
fn a_worker_that_waits_for_a_future_runs_what_the_future_awaits() {
    let runtime = alone(1);
    let inside = runtime.clone();
    let outer = runtime.spawn(move || {
        let spawner = inside.clone();
        let future = inside.spawn_future(async move {
            let first = spawner.spawn(|| 1).await.unwrap();
            first + spawner.spawn(|| 2).await.unwrap()
        });
        future.wait().unwrap()
    });
    assert_eq!(outer.wait(), Ok(3), "the only worker, no spare");
}

#[test]
fn a_waiter_from_outside_helps_only_where_asked() {
    let runtime = alone(1);
    let (held, hold) = channel::<()>();
    let (begin, begun) = channel();
    let busy = runtime.spawn(move || {
        begin.send(()).unwrap();
        let _ = hold.recv();
    });
    begun.recv().unwrap();
    let me = std::thread::current().id();
    assert_eq!(runtime.spawn(move || std::thread::current().id() == me).wait_helping(), Ok(true));
    let mut other = runtime.spawn(move || std::thread::current().id() == me);
    assert!(other.wait_timeout(Duration::from_millis(5)).is_none());
    held.send(()).unwrap();
    assert_eq!((busy.wait(), other.wait()), (Ok(()), Ok(false)));
}

#[test]
fn a_driven_runtime_is_driven_by_who_waits() {
    for driver in [Driver::Inline, Driver::Seeded { seed: 7 }] {
        let runtime = Runtime::builder().driver(driver).build().unwrap();
        let inside = runtime.clone();
        let outer = runtime.spawn(move || inside.spawn(|| 20).wait().unwrap() + 1);
        assert_eq!(outer.wait(), Ok(21));
        let never = runtime.spawn_future(std::future::pending::<()>());
        assert_eq!(never.wait(), Err(JobError::Stalled), "nothing can move");
        let mut never = runtime.spawn_future(std::future::pending::<()>());
        assert!(never.wait_timeout(Duration::from_secs(3600)).is_none(), "on the virtual clock nobody waits an hour");
    }
}

#[test]
fn b113_a_long_chain_of_cancelled_work_is_dropped_without_recursion() {
    let runtime = Runtime::builder().workers(1).stack_size(256 * 1024).build().unwrap();
    let (held, hold) = channel::<()>();
    let busy = runtime.spawn(move || {
        let _ = hold.recv();
    });
    let length = 200_000;
    let dropped = Arc::new(AtomicUsize::new(0));
    struct Count(Arc<AtomicUsize>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let chain = {
        let mut last = runtime.spawn(|| ()).cancel_on_drop();
        for _ in 0..length {
            let count = Count(dropped.clone());
            last = runtime
                .spawn(move || {
                    let _both = (count, last);
                })
                .cancel_on_drop();
        }
        last
    };
    std::thread::Builder::new().stack_size(256 * 1024).spawn(move || drop(chain)).unwrap().join().unwrap();
    assert_eq!(dropped.load(Ordering::SeqCst), length);
    held.send(()).unwrap();
    busy.wait().unwrap();
}

#[test]
fn a_wait_inside_call_is_seen_by_the_wait_graph() {
    let runtime = alone(1);
    static MINE: OnceLock<Mutex<Option<Handle<u8>>>> = OnceLock::new();
    let (go, gone) = channel::<()>();
    let handle = runtime.spawn(move || {
        gone.recv().unwrap();
        1
    });
    *MINE.get_or_init(Mutex::default).lock().unwrap() = Some(handle);
    let seen = runtime.call(|| {
        go.send(()).unwrap();
        MINE.get().unwrap().lock().unwrap().take().unwrap().wait()
    });
    assert_eq!(seen, Ok(Ok(1)));
}

/// A chain of jobs each of which waits for the next: how far down the answer of this one comes from.
fn chain(runtime: &Runtime, left: usize) -> usize {
    if left == 0 {
        return 0;
    }
    let inner = runtime.clone();
    match runtime.spawn(move || chain(&inner, left - 1)).wait() {
        Ok(further) => further + 1,
        Err(JobError::Interrupted(Interrupt::TooDeep)) => 0,
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn b113_a_long_chain_of_waits_is_told_that_it_is_too_deep_instead_of_ending_the_stack() {
    const LENGTH: usize = 20_000;
    let threads = |spares| Runtime::builder().workers(1).io_threads(1).max_spares(spares).stack_size(1 << 20);
    let driven = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let depth = |runtime: &Runtime| {
        let inner = runtime.clone();
        runtime.spawn(move || chain(&inner, LENGTH)).wait().unwrap()
    };
    assert_eq!(depth(&driven), 32);
    // The last of the chain is queued still, and holds its runtime: nobody drives that any more.
    driven.shutdown();
    let alone = depth(&threads(0).build().unwrap());
    assert_eq!(alone, 16, "a wait for each 64 KiB of the stack");
    // Spares take the places of those who may not help any more, and go on from there.
    let many = depth(&threads(7).build().unwrap());
    assert!(many > 4 * alone, "{many} with spares, {alone} without");
    assert!(Interrupt::TooDeep.to_string().contains("waits"));
}

/// Counts what it is told of missing spares.
#[derive(Default)]
struct CountsMissing(AtomicUsize);

impl Observer for CountsMissing {
    fn event(&self, event: &Event) {
        if matches!(event, Event::SpareMissing { .. }) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn b95_a_wait_without_a_spare_tells_of_it_once_however_often_it_looks() {
    let missing = Arc::new(CountsMissing::default());
    let runtime = Runtime::builder().workers(1).io_threads(1).max_spares(0).observer(missing.clone()).build().unwrap();
    let ((begin, begun), counts) = (channel(), runtime.clone());
    let io = runtime.spawn_on(Place::io(Priority::Interactive), move || {
        begin.send(()).unwrap();
        while counts.counters().spares_missing == 0 {
            std::thread::yield_now();
        }
        (0..300).for_each(|_| std::thread::yield_now());
    });
    let waits = runtime.spawn(move || {
        begun.recv().unwrap();
        io.wait()
    });
    assert_eq!(waits.wait(), Ok(Ok(())));
    assert_eq!((runtime.counters().spares_missing, missing.0.load(Ordering::SeqCst)), (1, 1));
}
