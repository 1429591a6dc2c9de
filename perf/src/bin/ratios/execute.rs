//! Small closures: from a worker, from outside, in batches, and one producer's ten thousand with a join.
//! It knows no handles: every peer counts down the same latch.

use crate::Effort;
use crate::pools::{Place, Pools};
use serde_json::Value;
use shardrun_perf::latch::Latch;
use shardrun_perf::place;
use shardrun_perf::series::{CPU, NS, SWITCHES, Sample, Series};
use std::hint::black_box;

/// Tasks of one round.
const TASKS: usize = 10_000;
/// Tasks that a worker has in its own queue at a time in ordinary use.
const BURST: usize = 250;

/// Time, CPU and context switches per task of repetitions of `once`, which returns its nanoseconds: enough of them for some 80,000 tasks.
pub fn per_task(tasks: usize, mut once: impl FnMut() -> f64) -> Sample {
    let repeats = (80_000 / tasks).clamp(1, 100);
    once();
    let (cpu, switches) = (place::cpu_of_process(), place::switches_of_process());
    let walls: Vec<f64> = (0..repeats).map(|_| once() / tasks as f64).collect();
    let all = (tasks * repeats) as f64;
    let cpu = (place::cpu_of_process() - cpu).as_nanos() as f64 / all;
    let switches = (place::switches_of_process() - switches) as f64 / all;
    vec![(NS, shardrun_perf::series::median(&walls)), (CPU, cpu), (SWITCHES, switches)]
}

/// `execute` on a worker, beside `rayon::spawn` and `tokio::spawn` there: in bursts that stay in the caches and small queues,
/// and in one burst of 10,000, for which every queue has to grow.
pub fn on_worker(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let latch = Latch::leaked();
    [BURST, effort.of(TASKS)].map(|tasks| burst(&pools, place, effort, latch, tasks)).into()
}

/// A producing job on a worker of some pool; `tasks` jobs that count down the latch come from it.
fn burst(pools: &Pools, place: &Place, effort: Effort, latch: &'static Latch, tasks: usize) -> Value {
    let mut series = Series::new(format!("empty tasks from a worker, a burst of {tasks}"), &place.says);
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
    for (name, bytes) in [(OURS_8, 8), (OURS_48, 48)] {
        let runtime = pools.shardrun.clone();
        series.peer(name, move || {
            per_task(tasks, || {
                latch.arm(tasks as u64);
                let inside = runtime.clone();
                accept(runtime.execute(move || {
                    latch.begin();
                    match bytes {
                        8 => (0..tasks).for_each(|_| accept(inside.execute(move || latch.count_down()))),
                        _ => (0..tasks as u64).for_each(|task| accept(inside.execute(wide(latch, task)))),
                    }
                }));
                latch.wait()
            })
        });
    }
    series.at_most(OURS_8, NS, 0.7, &["rayon::spawn, 8 bytes"]);
    series.at_most(OURS_48, NS, 0.7, &["rayon::spawn, 48 bytes"]);
    series.at_most(OURS_8, NS, 0.2, &["tokio::spawn, 8 bytes"]);
    series.run(effort.rounds)
}

const OURS_8: &str = "shardrun execute, 8 bytes";
const OURS_48: &str = "shardrun execute, 48 bytes";

/// No runtime here is shut down while it is measured.
fn accept<T, E>(outcome: Result<T, E>) {
    assert!(outcome.is_ok(), "the runtime takes work");
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
    let runtime = &pools.shardrun;
    series.peer("shardrun execute", || {
        per_task(tasks, || {
            latch.arm(tasks as u64);
            (0..tasks).for_each(|_| accept(runtime.execute(move || latch.count_down())));
            latch.wait()
        })
    });
    series.peer("shardrun execute_batch of 64", || {
        per_task(tasks, || {
            latch.arm(tasks as u64);
            for first in (0..tasks).step_by(64) {
                let batch = (first..tasks.min(first + 64)).map(|_| move || latch.count_down());
                accept(runtime.execute_batch(shardrun::Place::default(), batch));
            }
            latch.wait()
        })
    });
    series.at_most("shardrun execute", NS, 0.7, &[S]);
    series.at_most("shardrun execute_batch of 64", NS, 0.25, &[S]);
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
    let runtime = &pools.shardrun;
    series.peer("shardrun execute and a latch", || {
        per_task(tasks, || {
            latch.arm(tasks as u64);
            let inside = runtime.clone();
            accept(runtime.execute(move || {
                latch.begin();
                (0..tasks).for_each(|_| accept(inside.execute(move || latch.count_down())));
            }));
            latch.wait()
        })
    });
    series.peer("shardrun execute_batch and a latch", || {
        per_task(tasks, || {
            latch.arm(tasks as u64);
            let inside = runtime.clone();
            accept(runtime.execute(move || {
                latch.begin();
                accept(
                    inside.execute_batch(shardrun::Place::default(), (0..tasks).map(|_| move || latch.count_down())),
                );
            }));
            latch.wait()
        })
    });
    series.at_most("shardrun execute and a latch", NS, 0.6, &["rayon scope"]);
    series.at_most("shardrun execute_batch and a latch", NS, 0.6, &["rayon scope"]);
    vec![series.run(effort.rounds)]
}
