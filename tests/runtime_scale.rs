//! Many workers: they start and stop, are woken sparingly, and cost nothing while idle. One test at a time, since CPU time is
//! measured for the whole process.

use shardrun::Runtime;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Thread;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(300);

/// One test of this file at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn with_workers(count: usize) -> Runtime {
    Runtime::builder().workers(count).io_threads(0).max_spares(0).stack_size(64 << 10).build().expect("it starts")
}

/// The CPU time of this process so far.
fn cpu() -> Duration {
    // SAFETY: a structure of zeros is a valid one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is that of a structure of ours.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) }, 0);
    let time = |t: libc::timeval| Duration::from_micros(t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Measures until a measurement is as it should be: the machine may add to what one says, but takes nothing away. What is wrong
/// with the last of many.
fn at_best(mut measure: impl FnMut() -> Result<(), String>) {
    let mut last = String::new();
    for _ in 0..20 {
        match measure() {
            Ok(()) => return,
            Err(why) => last = why,
        }
    }
    panic!("at the best of twenty times: {last}");
}

/// Runs `count` empty jobs one after the other, each pushed `gap` after the last one's push.
fn tick(runtime: &Runtime, count: u32, gap: Duration) {
    let begun = Instant::now();
    for n in 1..=count {
        let (sender, receiver) = channel();
        runtime.execute(move || sender.send(()).unwrap()).unwrap();
        receiver.recv_timeout(SOON).expect("it runs");
        std::thread::sleep((gap * n).saturating_sub(begun.elapsed()));
    }
}

#[test]
fn b93_a_burst_wakes_no_more_workers_than_it_has_work() {
    let _alone = alone();
    let runtime = with_workers(8);
    let (sender, receiver) = channel();
    let bursts = 200;
    for _ in 0..bursts {
        for _ in 0..64 {
            let sender = sender.clone();
            runtime.execute(move || sender.send(()).unwrap()).unwrap();
        }
        for _ in 0..64 {
            receiver.recv_timeout(SOON).expect("it runs");
        }
    }
    let counters = runtime.counters();
    let tasks = bursts * 64;
    assert!(counters.executed() >= tasks - 8, "a worker counts a job once it has run");
    assert!(counters.wakes() <= tasks, "{} wakes for {tasks} tasks", counters.wakes());
}

#[test]
fn b94_the_price_of_a_lonely_task_does_not_grow_with_the_workers() {
    let _alone = alone();
    let price = |workers| {
        let runtime = with_workers(workers);
        tick(&runtime, 50, Duration::from_millis(1));
        let before = (cpu(), runtime.counters().wakes());
        tick(&runtime, 300, Duration::from_millis(1));
        (cpu() - before.0, runtime.counters().wakes() - before.1)
    };
    // Time on a shared machine is noise: allow more than the factor of two, and count the wakes exactly.
    at_best(|| {
        let (few, many) = (price(4), price(64));
        assert!(many.1 <= 310, "{} wakes for 300 tasks", many.1);
        let cheap = many.0 < few.0 * 3 + Duration::from_millis(5);
        cheap.then_some(()).ok_or_else(|| format!("{many:?} with 64 workers, {few:?} with 4"))
    });
}

#[test]
fn b95_an_idle_runtime_costs_nothing_and_a_nearly_idle_one_little() {
    let _alone = alone();
    let runtime = with_workers(4);
    let parks = || runtime.counters().workers.iter().map(|worker| worker.parks).sum::<u64>();
    // A worker that the machine has held up may only now be on its way to sleep: then the second begins again.
    at_best(|| {
        tick(&runtime, 20, Duration::from_millis(1));
        std::thread::sleep(Duration::from_millis(50));
        let before = (cpu(), parks());
        std::thread::sleep(Duration::from_secs(1));
        let (idle, wakes) = (cpu() - before.0, parks() - before.1);
        let still = idle < Duration::from_millis(5) && wakes == 0;
        still.then_some(()).ok_or_else(|| format!("{idle:?} of CPU and {wakes} parks in an idle second"))
    });
    at_best(|| {
        let before = cpu();
        tick(&runtime, 20, Duration::from_millis(100));
        let busy = cpu() - before;
        let cheap = busy < Duration::from_millis(40);
        cheap.then_some(()).ok_or_else(|| format!("{busy:?} of CPU for twenty tasks in two seconds"))
    });
}

#[test]
fn b105_hundreds_of_workers_start_work_and_stop() {
    let _alone = alone();
    for (workers, rounds) in [(96, 10), (128, 10), (256, 20), (1_000, 2)] {
        let mut fastest = Duration::MAX;
        for _ in 0..rounds {
            let begun = Instant::now();
            let runtime = with_workers(workers);
            fastest = fastest.min(begun.elapsed());
            let (sender, receiver) = channel();
            for _ in 0..workers {
                let sender = sender.clone();
                runtime.execute(move || sender.send(()).unwrap()).unwrap();
            }
            for _ in 0..workers {
                receiver.recv_timeout(SOON).expect("each job runs");
            }
            assert_eq!(runtime.shutdown().running, 0);
        }
        assert!(workers > 256 || fastest < Duration::from_secs(5), "the start of {workers} took {fastest:?} at best");
    }
}

#[test]
fn b105_a_runtime_is_first_used_from_inside_anothers_workers() {
    let _alone = alone();
    let outer = with_workers(4);
    for _ in 0..20 {
        let (sender, receiver) = channel();
        for _ in 0..4 {
            let sender = sender.clone();
            outer
                .execute(move || {
                    let inner = with_workers(32);
                    let (theirs, end) = channel();
                    inner.execute(move || theirs.send(()).unwrap()).unwrap();
                    let ran = end.recv_timeout(SOON).is_ok();
                    sender.send(ran && inner.shutdown().running == 0).unwrap();
                })
                .unwrap();
        }
        for _ in 0..4 {
            assert_eq!(receiver.recv_timeout(SOON), Ok(true));
        }
    }
}

#[test]
fn b117_wakes_without_a_reason_change_nothing() {
    let _alone = alone();
    let threads: Arc<Mutex<Vec<Thread>>> = Arc::default();
    let theirs = threads.clone();
    let runtime = Runtime::builder()
        .workers(4)
        .io_threads(1)
        .on_start(move |_| theirs.lock().unwrap().push(std::thread::current()))
        .build()
        .unwrap();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = stop.clone();
    let helper = std::thread::spawn(move || {
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            threads.lock().unwrap().iter().for_each(Thread::unpark);
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    for n in 0..300 {
        let (sender, receiver) = channel();
        let begun = Instant::now();
        drop(runtime.after(Duration::from_micros(n), move || sender.send(begun.elapsed()).unwrap()).unwrap());
        assert!(receiver.recv_timeout(SOON).expect("no deadline is missed") >= Duration::from_micros(n));
        tick(&runtime, 1, Duration::ZERO);
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    helper.join().unwrap();
    assert_eq!(runtime.shutdown().running, 0);
    assert_eq!((runtime.counters().panics(), runtime.counters().executed()), (0, 600));
}
