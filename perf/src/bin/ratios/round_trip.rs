//! A round trip: an empty job is handed over, runs, and its answer is awaited; back to back, and after a pause.
//! It does not know how a pool wakes its workers; CPU time stands beside the wall time, so that spinning shows.

use crate::Effort;
use crate::pools::{Place, Pools};
use serde_json::Value;
use shardrun_perf::latch::Latch;
use shardrun_perf::place;
use shardrun_perf::series::{CPU, SWITCHES, Sample, Series, quantile};
use std::hint::black_box;
use std::time::{Duration, Instant};

const P50: &str = "p50 ns";
const P99: &str = "p99 ns";

/// A round of trips takes at least this long, so that its CPU time is more than noise.
const AT_LEAST: Duration = Duration::from_millis(30);

/// Times at least `count` trips, each after `pause`; CPU per trip includes the pause.
fn trips(count: usize, pause: Duration, mut trip: impl FnMut()) -> Sample {
    (0..count / 10).for_each(|_| trip());
    let mut walls = Vec::with_capacity(count);
    let (cpu, switches) = (place::cpu_of_process(), place::switches_of_process());
    let started = Instant::now();
    while walls.len() < count || started.elapsed() < AT_LEAST {
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        let begun = Instant::now();
        trip();
        walls.push(begun.elapsed().as_nanos() as f64);
    }
    let cpu = (place::cpu_of_process() - cpu).as_nanos() as f64 / walls.len() as f64;
    let switches = (place::switches_of_process() - switches) as f64 / walls.len() as f64;
    vec![(P50, quantile(&walls, 0.5)), (P99, quantile(&walls, 0.99)), (CPU, cpu), (SWITCHES, switches)]
}

type Boxed = Box<dyn FnOnce() + Send>;

/// A worker behind a channel: the least that a user would write without any pool.
fn channel_worker(place: &Place) -> crossbeam_channel::Sender<Boxed> {
    let (sender, receiver) = crossbeam_channel::unbounded::<Boxed>();
    let cpu = place.workers[0];
    std::thread::spawn(move || {
        place::pin(&[cpu]);
        receiver.iter().for_each(|job| job());
    });
    sender
}

fn all(place: &Place, effort: Effort, what: &str, count: usize, pause: Duration) -> Vec<Value> {
    let pools = Pools::build(place);
    let worker = channel_worker(place);
    let latch = Latch::leaked();
    let mut series = Series::new(what, &place.says);
    series.peer("rayon install", || {
        trips(count, pause, || {
            black_box(pools.rayon.install(|| black_box(1)));
        })
    });
    series.peer("rayon spawn and unpark", || {
        trips(count, pause, || {
            latch.arm(1);
            pools.rayon.spawn(|| latch.count_down());
            latch.wait();
        })
    });
    series.peer("tokio spawn and block_on", || {
        trips(count, pause, || {
            let task = pools.tokio.spawn(async { black_box(1) });
            black_box(pools.tokio.block_on(task)).expect("the task does not panic");
        })
    });
    series.peer("channel worker and unpark", || {
        trips(count, pause, || {
            latch.arm(1);
            worker.send(Box::new(|| latch.count_down())).expect("the worker lives");
            latch.wait();
        })
    });
    series.peer(OURS, || {
        trips(count, pause, || {
            black_box(pools.shardrun.spawn(|| black_box(1)).wait()).expect("the job does not panic");
        })
    });
    series.peer(CALL, || {
        trips(count, pause, || {
            black_box(pools.shardrun.call(|| black_box(1))).expect("the job does not panic");
        })
    });
    if pause.is_zero() {
        series.at_most(OURS, P50, 0.1, &["tokio spawn and block_on"]);
        series.at_most(OURS, CPU, 1.0, &["tokio spawn and block_on"]);
        series.limit(CALL, P50, 150.0);
    } else {
        let rivals = ["rayon install", "rayon spawn and unpark", "tokio spawn and block_on"];
        series.at_most(OURS, P50, 1.1, &rivals);
    }
    vec![series.run(effort.rounds)]
}

const OURS: &str = "shardrun spawn and wait";
const CALL: &str = "shardrun call (caller-runs)";

/// Back to back.
pub fn back_to_back(place: &Place, effort: Effort) -> Vec<Value> {
    all(place, effort, "a round trip, back to back", effort.of(2_000), Duration::ZERO)
}

/// After 2 ms without work.
pub fn after_idle(place: &Place, effort: Effort) -> Vec<Value> {
    // What a wake costs drifts by a third within seconds: many short rounds, in which all peers see the same drift.
    let effort = Effort { rounds: effort.rounds * 5, ..effort };
    all(place, effort, "a round trip after 2 ms of idleness", effort.of(64), Duration::from_millis(2))
}
