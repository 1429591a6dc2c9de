//! Lanes: what a job costs as the number of registered actors grows, from a worker, from outside, and what a look costs.
//! It knows no serving of requests: every job is a closure that does nothing.

use crate::Effort;
use crate::execute::per_task;
use crate::pools::{Place, shardrun_pool};
use serde_json::Value;
use shardrun::{ActorRef, LaneKind, Lanes, LanesConfig, Runtime};
use shardrun_perf::latch::{Latch, now};
use shardrun_perf::place;
use shardrun_perf::series::{NS, Series, quantile};
use std::hint::black_box;
use std::sync::Arc;

/// Jobs of one round.
const JOBS: usize = 40_000;
/// Jobs that are outstanding at once, per producer.
const OUTSTANDING: usize = 64;
/// Registered actors of a row.
const ACTORS: [u64; 5] = [1, 10, 100, 1_000, 10_000];

type Bench = Lanes<u64, ()>;

fn executor(runtime: &Runtime, actors: u64) -> Bench {
    let mut config = LanesConfig::preset(4, 4, 3, 1);
    config.interactive_queue = 16_384;
    config.interactive_queue_total = 65_536;
    let lanes = Lanes::new(runtime, config).expect("the limits can be kept");
    for key in 0..actors {
        assert!(lanes.register(key, ()));
    }
    lanes
}

/// Two producers, so many jobs, 64 outstanding each, spread over the first `busy` actors; nanoseconds per job.
fn flood(lanes: &Bench, busy: u64, jobs: usize) -> f64 {
    let begun = now();
    std::thread::scope(|scope| {
        for producer in 0..2 {
            scope.spawn(move || {
                let actors: Vec<ActorRef<u64, ()>> = (0..busy).filter_map(|key| lanes.actor(&key)).collect();
                let mut handles = std::collections::VecDeque::with_capacity(OUTSTANDING);
                for number in 0..jobs / 2 {
                    if handles.len() == OUTSTANDING {
                        let oldest: shardrun::LaneHandle<()> = handles.pop_front().expect("there are as many");
                        oldest.wait().expect("it runs");
                    }
                    let actor = &actors[(number * 2 + producer) % actors.len()];
                    handles.push_back(actor.submit(lanes.job(LaneKind::PureRead, |_| ())));
                }
                handles.into_iter().for_each(|handle| handle.wait().expect("it runs"));
            });
        }
    });
    (now() - begun) as f64 / jobs as f64
}

/// 40,000 reads that do nothing, by number of registered actors.
pub fn actors(place: &Place, effort: Effort) -> Vec<Value> {
    let runtime = shardrun_pool(place);
    let jobs = effort.of(JOBS);
    let mut series =
        Series::new("a read that does nothing, 2 producers, 64 outstanding each, all actors in turn", &place.says);
    let name = |actors: u64| format!("{actors} registered");
    for count in ACTORS {
        let lanes = executor(&runtime, count);
        series.peer(name(count), move || vec![(NS, flood(&lanes, count, jobs))]);
    }
    for count in &ACTORS[1..] {
        series.at_most(&name(*count), NS, 1.3, &[&name(1)]);
    }
    // Ten times the 121,000 a second that an executor under one lock reaches at best.
    series.limit(&name(1), NS, 826.0);
    let mut idle = Series::new("a round trip on one actor", &place.says);
    for others in [0, 1_024] {
        let lanes = executor(&runtime, 1 + others);
        let trips = effort.of(2_000);
        idle.peer(format!("{others} idle beside it"), move || {
            let actor = lanes.actor(&0).expect("it is registered");
            let begun = now();
            for _ in 0..trips {
                actor.submit(lanes.job(LaneKind::PureRead, |_| ())).wait().expect("it runs");
            }
            vec![(NS, (now() - begun) as f64 / trips as f64)]
        });
    }
    idle.at_most("1024 idle beside it", NS, 1.1, &["0 idle beside it"]);
    vec![series.run(effort.rounds), idle.run(effort.rounds)]
}

/// A job beside a bare closure, from a worker and from outside; and a look at liveness under load.
pub fn jobs(place: &Place, effort: Effort) -> Vec<Value> {
    let runtime = shardrun_pool(place);
    shardrun_perf::place::pin(&place::allowed());
    let latch = Latch::leaked();
    let lanes = executor(&runtime, 1);
    let actor = lanes.actor(&0).expect("it is registered");
    vec![
        inside(&runtime, &lanes, &actor, latch, place, effort),
        outside(&runtime, &lanes, &actor, latch, place, effort),
        look(&runtime, place, effort),
    ]
}

const BARE: &str = "a bare execute";
const JOB: &str = "a read of an actor";

fn inside(
    runtime: &Runtime,
    lanes: &Bench,
    actor: &ActorRef<u64, ()>,
    latch: &'static Latch,
    place: &Place,
    effort: Effort,
) -> Value {
    const BURST: usize = 250;
    let mut series = Series::new("a closure that does nothing, from a worker, bursts of 250", &place.says);
    series.peer(BARE, || {
        per_task(BURST, || {
            latch.arm(BURST as u64);
            let inside = runtime.clone();
            let burst = move || {
                latch.begin();
                for _ in 0..BURST {
                    assert!(inside.execute(move || latch.count_down()).is_ok());
                }
            };
            assert!(runtime.execute(burst).is_ok());
            latch.wait()
        })
    });
    series.peer(JOB, || {
        per_task(BURST, || {
            latch.arm(BURST as u64);
            let (lanes, actor) = (lanes.clone(), actor.clone());
            let burst = move || {
                latch.begin();
                for _ in 0..BURST {
                    assert!(actor.execute(lanes.job(LaneKind::PureRead, move |_| latch.count_down())).is_ok());
                }
            };
            assert!(runtime.execute(burst).is_ok());
            latch.wait()
        })
    });
    series.at_most(JOB, NS, 5.0, &[BARE]);
    series.run(effort.rounds)
}

fn outside(
    runtime: &Runtime,
    lanes: &Bench,
    actor: &ActorRef<u64, ()>,
    latch: &'static Latch,
    place: &Place,
    effort: Effort,
) -> Value {
    let tasks = effort.of(10_000);
    let mut series = Series::new("a closure that does nothing, from outside", &place.says);
    series.peer(BARE, || {
        per_task(tasks, || {
            latch.arm(tasks as u64);
            (0..tasks).for_each(|_| assert!(runtime.execute(move || latch.count_down()).is_ok()));
            latch.wait()
        })
    });
    series.peer(JOB, || {
        per_task(tasks, || {
            latch.arm(tasks as u64);
            for _ in 0..tasks {
                assert!(actor.execute(lanes.job(LaneKind::PureRead, move |_| latch.count_down())).is_ok());
            }
            latch.wait()
        })
    });
    series.at_most(JOB, NS, 2.0, &[BARE]);
    series.run(effort.rounds)
}

const P999: &str = "p99.9 ns";

/// What a look at liveness takes while jobs come and go.
fn look(runtime: &Runtime, place: &Place, effort: Effort) -> Value {
    let lanes = Arc::new(executor(runtime, 100));
    let looks = effort.of(20_000);
    let mut series = Series::new("a look at liveness while jobs come and go", &place.says);
    series.peer("liveness", move || {
        let mut took = Vec::with_capacity(looks);
        for number in 0..looks as u64 {
            lanes.submit(&(number % 100), lanes.job(LaneKind::PureRead, |_| ())).detach();
            let begun = now();
            black_box(lanes.liveness());
            took.push((now() - begun) as f64);
        }
        vec![(P999, quantile(&took, 0.999)), (NS, quantile(&took, 0.5))]
    });
    series.limit("liveness", P999, 1_000.0);
    series.run(effort.rounds)
}
