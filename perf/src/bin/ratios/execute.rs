//! Small closures: from a worker, from outside, in batches, and one producer's ten thousand with a join.
//! It knows no handles: every peer counts down the same latch.

use crate::Effort;
use crate::pools::{Place, Pools};
use serde_json::Value;
use shardrun_perf::latch::Latch;
use shardrun_perf::place;
use shardrun_perf::series::{CPU, NS, Sample, Series};
use std::hint::black_box;

/// Tasks of one round.
const TASKS: usize = 10_000;
/// Repetitions within a round, of which the least disturbed half counts.
const REPEATS: usize = 8;

/// Time and CPU per task of a few repetitions of `once`, which returns its nanoseconds.
fn per_task(tasks: usize, mut once: impl FnMut() -> f64) -> Sample {
    once();
    let cpu = place::cpu_of_process();
    let walls: Vec<f64> = (0..REPEATS).map(|_| once() / tasks as f64).collect();
    let cpu = (place::cpu_of_process() - cpu).as_nanos() as f64 / (tasks * REPEATS) as f64;
    vec![(NS, shardrun_perf::series::median(&walls)), (CPU, cpu)]
}

/// `execute` on a worker, beside `rayon::spawn` and `tokio::spawn` there.
pub fn on_worker(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let tasks = effort.of(TASKS);
    let latch = Latch::leaked();
    let mut series = Series::new("an empty task from a worker, captures of 8 and of 48 bytes", &place.says);
    series.peer("rayon::spawn, 8 bytes", || {
        per_task(tasks, || {
            latch.arm(tasks as u64);
            pools.rayon.spawn(move || {
                latch.begin();
                (0..tasks).for_each(|_| rayon::spawn(move || latch.count_down()));
            });
            latch.wait()
        })
    });
    series.peer("rayon::spawn, 48 bytes", || {
        per_task(tasks, || {
            latch.arm(tasks as u64);
            pools.rayon.spawn(move || {
                latch.begin();
                (0..tasks as u64).for_each(|task| rayon::spawn(wide(latch, task)));
            });
            latch.wait()
        })
    });
    series.peer("tokio::spawn, 8 bytes", || {
        per_task(tasks, || {
            latch.arm(tasks as u64);
            pools.tokio.spawn(async move {
                latch.begin();
                (0..tasks).for_each(|_| drop(tokio::spawn(async move { latch.count_down() })));
            });
            latch.wait()
        })
    });
    vec![series.run(effort.rounds)]
}

/// A task that captures 48 bytes.
fn wide(latch: &'static Latch, task: u64) -> impl FnOnce() + Send + 'static {
    let load = [task; 5];
    move || {
        black_box(load);
        latch.count_down();
    }
}

/// S: `spawn` of rayon's pool from outside, per task, waited for at the end.
pub fn rayon_from_outside(pool: &rayon::ThreadPool, latch: &'static Latch, tasks: usize) -> Sample {
    per_task(tasks, || {
        latch.arm(tasks as u64);
        (0..tasks).for_each(|_| pool.spawn(move || latch.count_down()));
        latch.wait()
    })
}

/// The name of S in the tables.
pub const S: &str = "S: rayon pool.spawn";

/// From outside: one by one, and in batches of 64.
pub fn outside(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let tasks = effort.of(TASKS);
    let latch = Latch::leaked();
    let mut series = Series::new("an empty task from outside the pool", &place.says);
    series.peer(S, || rayon_from_outside(&pools.rayon, latch, tasks));
    series.peer("tokio Runtime::spawn", || {
        per_task(tasks, || {
            latch.arm(tasks as u64);
            (0..tasks).for_each(|_| drop(pools.tokio.spawn(async move { latch.count_down() })));
            latch.wait()
        })
    });
    vec![series.run(effort.rounds)]
}

/// One producer on a worker, many tasks, and a join.
pub fn fan(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let tasks = effort.of(TASKS);
    let latch = Latch::leaked();
    let mut series = Series::new("one producer on a worker, 10,000 empty tasks and a join", &place.says);
    series.peer("rayon scope", || {
        per_task(tasks, || {
            latch.arm(1);
            pools.rayon.spawn(move || {
                latch.begin();
                rayon::scope(|scope| (0..tasks).for_each(|_| scope.spawn(|_| black_box(()))));
                latch.count_down();
            });
            latch.wait()
        })
    });
    series.peer("rayon::spawn and a latch", || {
        per_task(tasks, || {
            latch.arm(tasks as u64);
            pools.rayon.spawn(move || {
                latch.begin();
                (0..tasks).for_each(|_| rayon::spawn(move || latch.count_down()));
            });
            latch.wait()
        })
    });
    series.peer("tokio::spawn and a latch", || {
        per_task(tasks, || {
            latch.arm(tasks as u64);
            pools.tokio.spawn(async move {
                latch.begin();
                (0..tasks).for_each(|_| drop(tokio::spawn(async move { latch.count_down() })));
            });
            latch.wait()
        })
    });
    vec![series.run(effort.rounds)]
}
