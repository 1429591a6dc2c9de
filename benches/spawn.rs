//! Small jobs: pushed on a worker, from outside one by one and in batches, with a handle.
//! It knows no rivals; those stand in `perf/`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use shardrun::{Place, Runtime};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};

const JOBS: u64 = 10_000;

/// Wakes the bench's thread when the last job has run.
struct Latch {
    left: AtomicU64,
    waiter: Thread,
}

impl Latch {
    fn new(jobs: u64) -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(jobs), waiter: thread::current() })
    }

    fn count_down(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.unpark();
        }
    }

    fn wait(&self) {
        while self.left.load(Ordering::Acquire) != 0 {
            thread::park();
        }
    }
}

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("the runtime starts")
}

fn push<F: FnOnce() + Send + 'static>(runtime: &Runtime, job: F) {
    assert!(runtime.execute(job).is_ok(), "the runtime takes work");
}

fn execute(c: &mut Criterion) {
    let mut group = c.benchmark_group("execute");
    group.throughput(Throughput::Elements(JOBS));
    for workers in [1, 2] {
        let runtime = runtime(workers);
        group.bench_function(BenchmarkId::new("on a worker", workers), |b| {
            b.iter(|| {
                let latch = Latch::new(JOBS);
                let (inside, counted) = (runtime.clone(), Arc::clone(&latch));
                push(&runtime, move || {
                    for _ in 0..JOBS {
                        let counted = Arc::clone(&counted);
                        push(&inside, move || counted.count_down());
                    }
                });
                latch.wait();
            });
        });
        group.bench_function(BenchmarkId::new("from outside", workers), |b| {
            b.iter(|| {
                let latch = Latch::new(JOBS);
                for _ in 0..JOBS {
                    let counted = Arc::clone(&latch);
                    push(&runtime, move || counted.count_down());
                }
                latch.wait();
            });
        });
        group.bench_function(BenchmarkId::new("from outside in batches of 64", workers), |b| {
            b.iter(|| {
                let latch = Latch::new(JOBS / 64 * 64);
                for _ in 0..JOBS / 64 {
                    let batch = (0..64).map(|_| {
                        let counted = Arc::clone(&latch);
                        move || counted.count_down()
                    });
                    assert!(runtime.execute_batch(Place::default(), batch).is_ok(), "the runtime takes work");
                }
                latch.wait();
            });
        });
    }
    group.finish();
}

fn round_trip(c: &mut Criterion) {
    let mut group = c.benchmark_group("round trip");
    let runtime = runtime(1);
    group.bench_function("spawn and wait", |b| {
        b.iter(|| runtime.spawn(|| black_box(1)).wait().expect("the job does not panic"));
    });
    group.bench_function("call", |b| {
        b.iter(|| runtime.call(|| black_box(1)).expect("the job does not panic"));
    });
    group.finish();
}

criterion_group!(benches, execute, round_trip);
criterion_main!(benches);
