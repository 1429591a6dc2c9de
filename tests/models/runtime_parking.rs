//! The parking protocol: real workers, real queues of the world that is built, and submitters that come just as all go to sleep.
//! It does not know time: a spinner looks around once.

use crate::models::check;
#[cfg(shardrun_loom)]
use crate::runtime::modelled::{Crew, Search};
use crate::runtime::{Job, Pool};
#[cfg(shardrun_shuttle)]
use crate::runtime::{
    Pinning, Place, Priority, Runtime,
    modelled::{Config, End, Engine, Plan, Sizes, Threads, TimeSource, Worker, blocking},
};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, thread};
#[cfg(shardrun_shuttle)]
use crate::sync::{Condvar, Mutex};
#[cfg(shardrun_shuttle)]
use std::time::Duration;

#[cfg(shardrun_shuttle)]
fn engine(workers: usize, spin: Duration) -> Arc<Engine> {
    let config = Config {
        thread_name: String::from("model"),
        stack_size: 0,
        on_start: None,
        on_stop: None,
        spin,
        plan: Plan::off(None),
    };
    let sizes = Sizes { workers, io_threads: 0, spares: 0 };
    let threads = Threads::failing_after(None);
    Arc::new(Engine::new(sizes, config, TimeSource::system(), None, None, threads))
}

#[cfg(shardrun_shuttle)]
fn work(engine: &Arc<Engine>, index: usize) -> thread::JoinHandle<End> {
    let engine = engine.clone();
    thread::spawn(move || Worker::new(engine, Pool::Workers, index).work())
}

/// A job that, as the last of `left`, ends the model. If a job is left behind nobody ends it: that is a deadlock.
#[cfg(shardrun_shuttle)]
fn job(engine: &Arc<Engine>, left: &Arc<AtomicUsize>) -> Job {
    let (engine, left) = (engine.clone(), left.clone());
    Job::new(move || {
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            engine.crew(Pool::Workers).close();
        }
    })
}

#[cfg(shardrun_shuttle)]
fn everybody_gets_work(workers: usize, submitters: usize, each: usize, spin: Duration) {
    let engine = engine(workers, spin);
    let left = Arc::new(AtomicUsize::new(submitters * each));
    let workers: Vec<_> = (0..workers).map(|index| work(&engine, index)).collect();
    let submit = move |engine: Arc<Engine>, left: Arc<AtomicUsize>| {
        for _ in 0..each {
            engine.submit(Place::workers(Priority::Critical), job(&engine, &left));
        }
    };
    let others: Vec<_> = (1..submitters)
        .map(|_| {
            let (engine, left) = (engine.clone(), left.clone());
            thread::spawn(move || submit(engine, left))
        })
        .collect();
    submit(engine.clone(), left.clone());
    for other in others {
        other.join().unwrap();
    }
    for worker in workers {
        assert_eq!(worker.join().unwrap(), End::Closed);
    }
    assert_eq!(left.load(Ordering::Acquire), 0);
}

/// A worker comes for its next job, as in `Worker::search`, and is then busy for ever: only the other can take the other job.
#[cfg(shardrun_loom)]
fn come_to_work(crew: &Crew, index: usize, searches: bool) {
    crew.sleeper(index);
    let mut search = Search::default();
    if searches {
        search.begin(crew);
    }
    loop {
        if crew.take_unhinted().is_some() {
            search.end(crew, index);
            return;
        }
        if search.may_sleep(crew, index) {
            crew.sleep(index);
            search.woken();
        }
    }
}

#[cfg(shardrun_loom)]
fn two_and_two(searches: bool) {
    let crew = Arc::new(Crew::new(Pool::Workers, 2, 0));
    let worker = |index| {
        let crew = crew.clone();
        thread::spawn(move || come_to_work(&crew, index, searches))
    };
    let workers = [worker(0), worker(1)];
    let theirs = crew.clone();
    let other = thread::spawn(move || theirs.push_unhinted(Job::new(|| {})));
    crew.push_unhinted(Job::new(|| {}));
    for thread in workers.into_iter().chain([other]) {
        thread.join().unwrap();
    }
}

/// No worker sleeps while a job waits, although both may be on their way to sleep when the jobs come: else loom reports a
/// deadlock.
#[cfg(shardrun_loom)]
#[test]
fn two_sleepers_two_submitters() {
    check(|| two_and_two(false));
}

/// The same while a worker searches, which submitters trust.
#[cfg(shardrun_loom)]
#[test]
fn two_searchers_two_submitters() {
    check(|| two_and_two(true));
}

/// No worker sleeps through the end, whenever two threads close the crew.
#[cfg(shardrun_loom)]
#[test]
fn two_sleepers_two_closers() {
    check(|| {
        let crew = Arc::new(Crew::new(Pool::Workers, 2, 0));
        let worker = |index| {
            let crew = crew.clone();
            thread::spawn(move || {
                crew.sleeper(index);
                let mut search = Search::default();
                while !crew.is_closed() {
                    if search.may_sleep(&crew, index) {
                        crew.sleep(index);
                        search.woken();
                    }
                }
            })
        };
        let workers = [worker(0), worker(1)];
        let theirs = crew.clone();
        let other = thread::spawn(move || theirs.close());
        crew.close();
        for thread in workers.into_iter().chain([other]) {
            thread.join().unwrap();
        }
    });
}

/// Where a shared queue holds a job at the end, its hint says so, whoever pushed and found it empty meanwhile.
#[cfg(shardrun_loom)]
#[test]
fn hints_outlast_the_jobs() {
    check(|| {
        let crew = Arc::new(Crew::new(Pool::Workers, 1, 0));
        let pusher = |crew: Arc<Crew>| crew.inject(0, std::iter::once(Job::new(|| {})));
        let taker = |crew: Arc<Crew>| drop(crew.take_one_injected(0));
        let threads = [
            thread::spawn({
                let crew = crew.clone();
                move || pusher(crew)
            }),
            thread::spawn({
                let crew = crew.clone();
                move || taker(crew)
            }),
            thread::spawn({
                let crew = crew.clone();
                move || taker(crew)
            }),
        ];
        pusher(crew.clone());
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(crew.look().0 & 1 != 0 || crew.injectors_with_work().next().is_none(), "a job without a hint");
    });
}

/// A job pushed beside a shutdown is refused, or dropped exactly once; none stays in the queue.
#[cfg(shardrun_loom)]
#[test]
fn push_against_close() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }
    check(|| {
        let crew = Arc::new(Crew::new(Pool::Workers, 1, 0));
        let drops = Arc::new(AtomicUsize::new(0));
        let push = |crew: Arc<Crew>, drops: Arc<AtomicUsize>| {
            let dropped = Dropped(drops);
            let job = Job::new(move || drop(dropped));
            if !crew.is_closed() {
                crew.inject(0, std::iter::once(job));
            }
        };
        let close = |crew: Arc<Crew>| {
            crew.close();
            crew.drain();
        };
        let (c1, d1, c2, c3) = (crew.clone(), drops.clone(), crew.clone(), crew.clone());
        let threads =
            [thread::spawn(move || push(c1, d1)), thread::spawn(move || close(c2)), thread::spawn(move || close(c3))];
        push(crew.clone(), drops.clone());
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(drops.load(Ordering::Acquire), 2, "a job was left behind");
    });
}

/// Every one of eight jobs runs, on four real workers that spin and sleep, from four submitters.
#[cfg(shardrun_shuttle)]
#[test]
fn four_workers_four_submitters() {
    check(|| everybody_gets_work(4, 4, 2, Duration::from_micros(1)));
    check(|| everybody_gets_work(4, 4, 2, Duration::ZERO));
}

/// Four jobs that wait for each other all run at once: no worker sleeps while one of them is left.
#[cfg(shardrun_shuttle)]
#[test]
fn four_jobs_at_once_get_four_workers() {
    let model = |spin| {
        let engine = engine(4, spin);
        let here = Arc::new((Mutex::new(0), Condvar::new()));
        let workers: Vec<_> = (0..4).map(|index| work(&engine, index)).collect();
        let submitters: Vec<_> = (0..4)
            .map(|_| {
                let (engine, here) = (engine.clone(), here.clone());
                thread::spawn(move || {
                    let theirs = engine.clone();
                    let job = Job::new(move || {
                        let mut count = here.0.lock();
                        *count += 1;
                        here.1.notify_all();
                        while *count < 4 {
                            count = here.1.wait(count).unwrap();
                        }
                        drop(count);
                        theirs.crew(Pool::Workers).close();
                    });
                    engine.submit(Place::workers(Priority::Critical), job);
                })
            })
            .collect();
        submitters.into_iter().for_each(|thread| thread.join().unwrap());
        workers.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), End::Closed));
    };
    check(move || model(Duration::from_micros(1)));
    check(move || model(Duration::ZERO));
}

/// Two jobs that block, on a runtime with one worker, each get a spare that runs what they wait for; all threads end.
#[cfg(shardrun_shuttle)]
#[test]
fn two_that_block_get_two_spares() {
    let model = |spin: Duration| {
        let runtime = Runtime::builder().workers(1).io_threads(0).max_spares(3).pinning(Pinning::Off).spin(spin);
        let runtime = runtime.stack_size(1 << 20).build().unwrap();
        let done = Arc::new((Mutex::new(0), Condvar::new()));
        let submitters: Vec<_> = (0..2)
            .map(|_| {
                let (runtime, done) = (runtime.clone(), done.clone());
                thread::spawn(move || {
                    let inner = runtime.clone();
                    let job = move || {
                        let here = Arc::new((Mutex::new(false), Condvar::new()));
                        let theirs = here.clone();
                        let brings = move || {
                            *theirs.0.lock() = true;
                            theirs.1.notify_all();
                        };
                        inner.execute(brings).unwrap();
                        blocking(|| {
                            let mut there = here.0.lock();
                            while !*there {
                                there = here.1.wait(there).unwrap();
                            }
                        });
                        *done.0.lock() += 1;
                        done.1.notify_all();
                    };
                    runtime.execute(job).unwrap();
                })
            })
            .collect();
        submitters.into_iter().for_each(|thread| thread.join().unwrap());
        let mut count = done.0.lock();
        while *count < 2 {
            count = done.1.wait(count).unwrap();
        }
        drop(count);
        assert_eq!(runtime.shutdown().running, 0);
    };
    check(move || model(Duration::from_micros(1)));
    check(move || model(Duration::ZERO));
}

/// A job that blocks again and again gets the one spare each time, also when that is just going to rest.
#[cfg(shardrun_shuttle)]
#[test]
fn one_that_blocks_again_gets_the_spare_that_goes_to_rest() {
    let model = |spin: Duration| {
        let runtime = Runtime::builder().workers(1).io_threads(0).max_spares(1).pinning(Pinning::Off).spin(spin);
        let runtime = runtime.stack_size(1 << 20).build().unwrap();
        let done = Arc::new((Mutex::new(false), Condvar::new()));
        let (inner, theirs) = (runtime.clone(), done.clone());
        let job = move || {
            for _ in 0..3 {
                let here = Arc::new((Mutex::new(false), Condvar::new()));
                let brought = here.clone();
                let brings = move || {
                    *brought.0.lock() = true;
                    brought.1.notify_all();
                };
                inner.execute(brings).unwrap();
                blocking(|| {
                    let mut there = here.0.lock();
                    while !*there {
                        there = here.1.wait(there).unwrap();
                    }
                });
            }
            *theirs.0.lock() = true;
            theirs.1.notify_all();
        };
        runtime.execute(job).unwrap();
        let mut over = done.0.lock();
        while !*over {
            over = done.1.wait(over).unwrap();
        }
        drop(over);
        assert_eq!(runtime.shutdown().running, 0);
    };
    check(move || model(Duration::from_micros(1)));
    check(move || model(Duration::ZERO));
}
