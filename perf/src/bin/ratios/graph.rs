//! Task graphs with empty bodies beside what a user of rayon writes, run only: the plan is made before.
//! It does not know what the rivals do; they stand in `graph_rivals`.
//!
//! Every run begins on a worker and is told of its end there, ours as a future and the rival's as a scope, so that no figure
//! holds the client's sleep. Setting the counters is part of a run, whoever's.

use crate::Effort;
use crate::execute::per_task;
use crate::graph_rivals;
use crate::pools::{Place, Pools};
use serde_json::Value;
use shardrun::{CountedRun, Plan, Runtime, TaskId};
use shardrun_perf::graphs::{Counters, Shape};
use shardrun_perf::latch::Latch;
use shardrun_perf::series::{NS, Series};
use std::future::Future;
use std::hint::black_box;
use std::sync::Arc;

/// Tasks of one run.
pub const TASKS: usize = 10_000;

const OURS: &str = "shardrun CountedRun";
const COUNTERS: &str = "rayon with counters";
const INLINE: &str = "rayon with counters and inline next";

/// Runs `work` on a worker: nanoseconds from its beginning to its end, both there.
pub fn on_worker(runtime: &Runtime, latch: &'static Latch, work: impl Future<Output = ()> + Send + 'static) -> f64 {
    latch.arm(1);
    let told = async move {
        latch.begin();
        work.await;
        latch.count_down();
    };
    runtime.spawn_future(told).detach();
    latch.wait()
}

/// The same of the plan's run by counters.
pub fn counted(runtime: &Runtime, latch: &'static Latch, plan: &Arc<Plan>, body: fn(TaskId)) -> f64 {
    let (plan, inside) = (Arc::clone(plan), runtime.clone());
    on_worker(runtime, latch, async move {
        let run = CountedRun::new(plan).expect("the plan says nothing more").start(&inside, body);
        assert!(run.await.expect("nobody gives the run up").is_success());
    })
}

/// The body of an empty task.
fn nothing(task: TaskId) {
    black_box(task);
}

/// A rival's name and how it runs a graph.
type Rival = (&'static str, fn(&Counters));

fn shape(place: &Place, effort: Effort, what: &str, shape: Shape, goals: &[(f64, &str)]) -> Vec<Value> {
    let pools = Pools::build(place);
    let latch = Latch::leaked();
    let tasks = shape.tasks();
    let mut series = Series::new(format!("{what}, empty tasks, run only"), &place.says);
    let rivals: [Rival; 2] = [
        (COUNTERS, |graph| graph_rivals::with_counters(graph, &|task| _ = black_box(task))),
        (INLINE, |graph| graph_rivals::with_inline_next(graph, &|task| _ = black_box(task))),
    ];
    for (name, run) in rivals {
        let (graph, pool) = (Arc::new(Counters::new(&shape)), &pools.rayon);
        series.peer(name, move || {
            per_task(tasks, || {
                latch.arm(1);
                let graph = Arc::clone(&graph);
                pool.spawn(move || {
                    latch.begin();
                    run(&graph);
                    latch.count_down();
                });
                latch.wait()
            })
        });
    }
    let plan = Arc::new(shape.plan());
    let runtime = &pools.shardrun;
    series.peer(OURS, move || per_task(tasks, || counted(runtime, latch, &plan, nothing)));
    for (at_most, rival) in goals {
        series.at_most(OURS, NS, *at_most, &[rival]);
    }
    vec![series.run(effort.rounds)]
}

/// 100 layers of 100, 3 dependencies each.
pub fn layers(place: &Place, effort: Effort) -> Vec<Value> {
    let tasks = Shape::layers(effort.of(TASKS));
    shape(place, effort, "100 × 100 layers, 3 dependencies", tasks, &[(0.75, COUNTERS), (1.0, INLINE)])
}

/// One after the other.
pub fn chain(place: &Place, effort: Effort) -> Vec<Value> {
    shape(place, effort, "a chain of 10,000", Shape::chain(effort.of(TASKS)), &[(0.6, COUNTERS)])
}

/// One, all others, one.
pub fn fan(place: &Place, effort: Effort) -> Vec<Value> {
    shape(place, effort, "a fan of 10,000 and a join", Shape::fan(effort.of(TASKS)), &[(0.7, COUNTERS)])
}

/// Three dependencies on any that came before.
pub fn random(place: &Place, effort: Effort) -> Vec<Value> {
    let tasks = Shape::random(effort.of(TASKS));
    shape(place, effort, "10,000 at random, 3 dependencies", tasks, &[(0.8, COUNTERS)])
}

/// 100 layers of 100, each task after all of the layer before; and 50 of 200, no two of which have the same dependencies.
pub fn dense(place: &Place, effort: Effort) -> Vec<Value> {
    let (alike, unlike) = (Shape::dense(effort.of(TASKS)), Shape::unlike(effort.of(TASKS)));
    let mut all = shape(place, effort, "100 × 100 layers, 100 dependencies", alike, &[(1.0, COUNTERS)]);
    all.extend(shape(place, effort, "50 × 200 layers, 100 dependencies, no two alike", unlike, &[(1.0, COUNTERS)]));
    all
}
