//! The staged scheduler on a host in memory: fresh requests, satisfied ones, edits, atomic batches.
//! It knows no rivals; those stand in `perf/`, with goals and placement.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use shardrun::{Host, Pool, Request, Runtime, StageCx, Stages};
use std::convert::Infallible;
use std::hint::black_box;

/// Every text is there, and a stage does next to nothing.
struct Memory;

impl Host for Memory {
    type File = u64;
    type Text = u64;
    type Source = u64;
    type Analysis = u64;
    type Artifact = u64;
    type Profile = u8;
    type Error = Infallible;

    fn load(&self, file: &u64) -> Result<Option<u64>, Infallible> {
        Ok(Some(*file))
    }

    fn source(&self, _: &StageCx<'_, Self>, text: u64) -> Result<u64, Infallible> {
        Ok(text)
    }

    fn analysis(&self, _: &StageCx<'_, Self>, source: &u64) -> Result<u64, Infallible> {
        Ok(*source)
    }

    fn artifact(&self, _: &StageCx<'_, Self>, _: &u8, source: &u64, analysis: &u64) -> Result<u64, Infallible> {
        Ok(source + analysis)
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

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
