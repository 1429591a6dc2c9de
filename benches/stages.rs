//! The staged scheduler on a host in memory: fresh requests, satisfied ones, edits, atomic batches.
//! It knows no rivals; those stand in `perf/`, with goals and placement.

#[path = "../tests/support/memory_host.rs"]
mod host;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use host::Memory;
use shardrun::{Request, Runtime, Stages};
use std::hint::black_box;

const FILES: u64 = 1_000;

fn runtime() -> Runtime {
    Runtime::builder().workers(1).build().expect("the runtime starts")
}

fn empty(runtime: &Runtime) -> Stages<Memory> {
    Stages::new(runtime, Memory)
}

fn all_sources(scheduler: &Stages<Memory>) {
    let handles: Vec<_> = (0..FILES).map(|file| scheduler.submit_request(Request::source(file))).collect();
    handles.into_iter().for_each(|handle| drop(black_box(handle.wait()).expect("the stage does not fail")));
}

fn stages(c: &mut Criterion) {
    let runtime = runtime();
    let mut group = c.benchmark_group("stages");
    group.throughput(Throughput::Elements(FILES));
    group.bench_function("fresh Source", |b| {
        b.iter_batched(|| empty(&runtime), |scheduler| (all_sources(&scheduler), scheduler).1, BatchSize::PerIteration);
    });
    group.bench_function("fresh Artifact", |b| {
        let submit = |scheduler: &Stages<Memory>| {
            let requests = (0..FILES).map(|file| scheduler.submit_request(Request::artifact(file, 0)));
            let handles: Vec<_> = requests.collect();
            handles.into_iter().for_each(|handle| drop(black_box(handle.wait()).expect("the stage does not fail")));
        };
        b.iter_batched(|| empty(&runtime), |scheduler| (submit(&scheduler), scheduler).1, BatchSize::PerIteration);
    });
    let scheduler = empty(&runtime);
    all_sources(&scheduler);
    group.bench_function("satisfied request", |b| b.iter(|| all_sources(&scheduler)));
    group.bench_function("try_get_source", |b| {
        b.iter(|| (0..FILES).for_each(|file| drop(black_box(scheduler.try_get_source(&file)))));
    });
    group.bench_function("edit and request", |b| {
        b.iter(|| {
            let edited = (0..FILES).map(|file| scheduler.submit_request(Request::source(file).text(file + 1)));
            let handles: Vec<_> = edited.collect();
            handles.into_iter().for_each(|handle| drop(black_box(handle.wait()).expect("the stage does not fail")));
        });
    });
    group.bench_function("atomic batch of edits", |b| {
        b.iter(|| {
            let requests = (0..FILES).map(|file| Request::source(file).text(file + 1)).collect::<Vec<_>>();
            for result in scheduler.wait_batch(scheduler.submit_batch_atomic(requests)) {
                black_box(result).expect("the stage does not fail");
            }
        });
    });
    group.finish();
}

criterion_group!(benches, stages);
criterion_main!(benches);
