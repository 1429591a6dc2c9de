//! Task graphs: plans of ten thousand tasks, and their runs by counters and with decisions, empty bodies.
//! It knows no rivals; those stand in `perf/`, with goals and placement.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use shardrun::{CountedRun, Plan, ResourceBudget, Run, Runtime, TaskId};
use std::hint::black_box;
use std::sync::Arc;

const TASKS: usize = 10_000;
const WIDTH: usize = 100;

/// Layers of a hundred tasks, each task after three of the layer before; with weights and a pool if `limited`.
fn layers(limited: bool) -> Plan {
    let mut plan = Plan::builder();
    plan.concurrency(2u32).pool("narrow", 2u32);
    let mut ids: Vec<TaskId> = Vec::with_capacity(TASKS);
    for task in 0..TASKS {
        let before = (task / WIDTH).checked_sub(1).map(|layer| layer * WIDTH);
        let deps = before.into_iter().flat_map(|first| [0, 1, 7].map(|step| first + (task + step) % WIDTH));
        let mut entry = plan.task("").after_all(deps.map(|task| ids[task]));
        if limited {
            entry = entry.weight((task % 7) as f64);
            if task.is_multiple_of(4) {
                entry = entry.pool("narrow");
            }
        }
        ids.push(entry.id());
    }
    plan.build().expect("the plan has no fault")
}

fn plan(c: &mut Criterion) {
    let mut group = c.benchmark_group("graph plan");
    group.throughput(Throughput::Elements(TASKS as u64));
    for limited in [false, true] {
        let name = if limited { "with weights and a pool" } else { "plain" };
        group.bench_function(name, |b| b.iter(|| black_box(layers(limited))));
    }
    group.finish();
}

fn run(c: &mut Criterion) {
    let mut group = c.benchmark_group("graph run");
    group.throughput(Throughput::Elements(TASKS as u64));
    let (plain, limited) = (Arc::new(layers(false)), Arc::new(layers(true)));
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).build().expect("the runtime starts");
        group.bench_function(BenchmarkId::new("counted", workers), |b| {
            b.iter(|| {
                let run = CountedRun::new(plain.clone()).expect("the plan says nothing more");
                let report = run.start(&runtime, |task| _ = black_box(task)).wait();
                assert!(report.expect("nobody gives it up").is_success());
            });
        });
        group.bench_function(BenchmarkId::new("decided", workers), |b| {
            b.iter(|| {
                let run = Run::<()>::new(plain.clone()).start(&runtime, |cx| _ = black_box(cx.task()));
                assert!(run.wait().expect("nobody gives it up").is_success());
            });
        });
        group.bench_function(BenchmarkId::new("with weights, a pool and a budget", workers), |b| {
            b.iter(|| {
                let mut budget = ResourceBudget::new();
                let memory = budget.axis("memory", 64);
                limited.tasks().for_each(|task| _ = budget.cost(task, memory, 1));
                let run = Run::<()>::new(limited.clone()).policy(Box::new(budget));
                let report = run.start(&runtime, |cx| _ = black_box(cx.task())).wait();
                assert!(report.expect("nobody gives it up").is_success());
            });
        });
    }
    group.finish();
}

criterion_group!(benches, plan, run);
criterion_main!(benches);
