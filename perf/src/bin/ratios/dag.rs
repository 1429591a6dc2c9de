//! Graphs of computations that are made and run once, beside what a user of rayon writes for that: counted nodes that spawn each other.
//! It does not know what is computed. A figure holds making the graph, running it and throwing it away, all on a worker.

use crate::Effort;
use crate::execute::per_task;
use crate::graph::{TASKS, on_worker};
use crate::pools::{Place, Pools};
use crate::stages::per_operation;
use serde_json::Value;
use shardrun::{Admission, Dag, Dags, TaskKind, WorkAmounts, WorkBudget};
use shardrun_perf::graphs::Shape;
use shardrun_perf::latch::Latch;
use shardrun_perf::series::{NS, Series};
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

const OURS: &str = "shardrun Dag";
const SPAWNED: &str = "Arc nodes with counters under rayon::spawn";

/// A node as a user of rayon writes it.
struct Node {
    left: AtomicU32,
    after: Mutex<Vec<Arc<Node>>>,
    body: Box<dyn Fn() + Send + Sync>,
}

/// What all nodes of a graph tell.
struct End {
    left: AtomicU32,
    latch: &'static Latch,
}

fn body(task: u32) {
    black_box(task);
}

/// Makes the nodes, hands them to rayon, and lets go of them.
fn spawned(shape: &Shape, latch: &'static Latch) {
    let mut nodes: Vec<Arc<Node>> = Vec::with_capacity(shape.tasks());
    for (task, deps) in shape.deps().enumerate() {
        let task = task as u32;
        let body = Box::new(move || body(task));
        let node = Arc::new(Node { left: AtomicU32::new(deps.len() as u32), after: Mutex::default(), body });
        for dep in deps {
            nodes[*dep as usize].after.lock().expect("nobody panics").push(node.clone());
        }
        nodes.push(node);
    }
    let end = Arc::new(End { left: AtomicU32::new(shape.tasks() as u32), latch });
    for (node, deps) in nodes.into_iter().zip(shape.deps()) {
        if deps.is_empty() {
            let end = end.clone();
            rayon::spawn(move || run(&node, end));
        }
    }
}

fn run(node: &Node, end: Arc<End>) {
    (node.body)();
    for after in std::mem::take(&mut *node.after.lock().expect("nobody panics")) {
        if after.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let end = end.clone();
            rayon::spawn(move || run(&after, end));
        }
    }
    if end.left.fetch_sub(1, Ordering::AcqRel) == 1 {
        end.latch.count_down();
    }
}

fn shape(place: &Place, effort: Effort, what: &str, shape: Shape) -> Value {
    let pools = Pools::build(place);
    let latch = Latch::leaked();
    let tasks = shape.tasks();
    let shape = Arc::new(shape);
    let mut series = Series::new(format!("{what}, empty nodes, made, run and dropped"), &place.says);
    let (of_rayon, pool) = (Arc::clone(&shape), &pools.rayon);
    series.peer(SPAWNED, move || {
        per_task(tasks, || {
            latch.arm(1);
            let shape = Arc::clone(&of_rayon);
            pool.spawn(move || {
                latch.begin();
                spawned(&shape, latch);
            });
            latch.wait()
        })
    });
    let runtime = &pools.shardrun;
    series.peer(OURS, move || {
        per_task(tasks, || {
            let (shape, dags) = (Arc::clone(&shape), Dags::new(runtime));
            on_worker(runtime, latch, async move {
                let handle = dags.submit_dag(shape.dag(body)).expect("there is room without end");
                assert!(handle.await.expect("nobody ends it").is_success());
            })
        })
    });
    series.at_most(OURS, NS, 2.0, &[SPAWNED]);
    if what.contains("3 dependencies") {
        series.limit(OURS, NS, 300.0);
    }
    series.run(effort.rounds)
}

const DECLINED: &str = "shardrun try_submit_dag, 1,000 nodes";
const DECLINED_SMALL: &str = "shardrun try_submit_dag, 100 nodes";

/// What it costs to be told that there is no room, and to have the graph back.
fn declined(place: &Place, effort: Effort) -> Value {
    let pools = Pools::build(place);
    let runtime = &pools.shardrun;
    let amounts = WorkAmounts { nodes: 1_500, edges: 9_000, cpu: 1_500, io: 1 };
    let budget = WorkBudget::for_runtime(amounts, runtime).expect("it is a budget of something");
    let dags = Dags::new(runtime).budget(budget);
    // The nodes of the graph that has the room wait for the gate.
    let (open, closed) = channel::<()>();
    let mut holds = Dag::builder();
    let gate = holds.node(TaskKind::CacheNode, move |_| _ = closed.recv()).id();
    for _ in 1..1_500 {
        holds.node(TaskKind::CacheNode, |_| ()).after(gate);
    }
    let holds = dags.submit_dag(holds.build().expect("it has no fault")).expect("there is room");
    let mut series = Series::new("a graph that a spent budget declines", &place.says);
    for (name, nodes) in [(DECLINED, 1_000), (DECLINED_SMALL, 100)] {
        let (dags, tries) = (&dags, effort.of(20_000));
        let mut dag = Some(Box::new(Shape::layers(nodes).dag(body)));
        series.peer(name, move || {
            let tried = |_: &()| {
                for _ in 0..tries {
                    let asked = *dag.take().expect("it comes back");
                    let answer = dags.try_submit_dag(asked).expect("it is not too large");
                    let Admission::Backpressured(declined) = answer else { panic!("there is no room") };
                    dag = Some(declined.dag);
                }
            };
            per_operation(tries, || (), tried)
        });
    }
    series.limit(DECLINED, NS, 1_000.0);
    series.at_most(DECLINED, NS, 1.3, &[DECLINED_SMALL]);
    let told = series.run(effort.rounds);
    drop(open);
    assert!(holds.wait().expect("nobody ends it").is_success());
    told
}

/// 10,000 nodes with 3 dependencies each, in layers and at random; a chain, and nobody after anybody; one that is not let in.
pub fn dag(place: &Place, effort: Effort) -> Vec<Value> {
    let of = effort.of(TASKS);
    vec![
        shape(place, effort, "100 × 100 layers, 3 dependencies", Shape::layers(of)),
        shape(place, effort, "10,000 at random, 3 dependencies", Shape::random(of)),
        shape(place, effort, "a chain of 10,000", Shape::chain(of)),
        shape(place, effort, "10,000 without dependencies", Shape::loose(of)),
        declined(place, effort),
    ]
}
