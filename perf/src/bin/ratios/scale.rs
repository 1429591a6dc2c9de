//! Whether the cost per request stays flat: with more files, more submitting threads, more requests pending.
//! It does not know why a figure grows; a bare map at the same sizes stands beside it, since cache misses are nobody's fault.

use crate::Effort;
use crate::execute::{S, rayon_from_outside};
use crate::pools::{Place, Pools};
use crate::stages::{Scheduler, answered, empty, per_operation, windowed};
use serde_json::Value;
use shardrun::Request;
use shardrun_perf::latch::Latch;
use shardrun_perf::series::{NS, Series};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::channel;

const FEW: usize = 1_000;
const MANY: usize = 100_000;
const PENDING: usize = 30_000;
const BLOCKS: &str = "papaya get, a block per file, and clone";
/// What a growth may be at most to count as flat.
const FLAT: f64 = 1.3;
/// The same for requests that are pending.
const FLAT_PENDING: f64 = 1.2;

/// What a host would keep of a file by itself: a block of the size of ours, and what it made behind a pointer in it.
struct Block {
    _state: [u64; 40],
    made: Arc<[u64; 16]>,
}

type Map = papaya::HashMap<u64, Arc<[u64; 16]>, ahash::RandomState>;

/// Every file once, in an order that no cache foresees.
fn shuffled(files: usize) -> Vec<u64> {
    let mut order: Vec<u64> = (0..files as u64).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for at in (1..files).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(at, (state % (at as u64 + 1)) as usize);
    }
    order
}

/// From 1,000 to 100,000 files: fresh requests and reads, beside a bare map of `Arc`s.
pub fn files(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    vec![growing(&pools, place, effort), grown(&pools, place, effort)]
}

fn growing(pools: &Pools, place: &Place, effort: Effort) -> Value {
    let mut series = Series::new("a request on a new file, as files grow", &place.says);
    for files in [FEW, MANY] {
        series.peer(format!("papaya insert, {files} files"), move || {
            per_operation(files, Map::default, |map| {
                for file in 0..files as u64 {
                    map.pin().insert(file, Arc::new([file; 16]));
                }
            })
        });
        series.peer(format!("shardrun Source, {files} files"), move || {
            per_operation(
                files,
                || empty(pools),
                |scheduler| {
                    windowed(files, 64, |file| scheduler.submit_request(Request::source(file)));
                },
            )
        });
    }
    series.at_most("shardrun Source, 100000 files", NS, FLAT, &["shardrun Source, 1000 files"]);
    series.at_most("papaya insert, 100000 files", NS, FLAT, &["papaya insert, 1000 files"]);
    series.run(effort.rounds)
}

fn grown(pools: &Pools, place: &Place, effort: Effort) -> Value {
    let mut series = Series::new("reads in random order, as files grow", &place.says);
    for files in [FEW, MANY] {
        let order = Arc::new(shuffled(files));
        let passes = (MANY / files).min(10);
        let map = Map::default();
        let blocks = papaya::HashMap::<u64, Arc<Block>, ahash::RandomState>::default();
        // In the order in which the scheduler makes its files: a map that is filled in the order of the reads lies in memory as the
        // prefetcher wants it.
        for file in 0..files as u64 {
            map.pin().insert(file, Arc::new([file; 16]));
        }
        for file in 0..files as u64 {
            blocks.pin().insert(file, Arc::new(Block { _state: [file; 40], made: Arc::new([file; 16]) }));
        }
        let scheduler = empty(pools);
        windowed(files, 64, |file| scheduler.submit_request(Request::source(file)));
        let of_map = Arc::clone(&order);
        series.peer(format!("papaya get and clone, {files} files"), move || {
            per_operation(
                files * passes,
                || (),
                |()| {
                    for file in (0..passes).flat_map(|_| of_map.iter()) {
                        black_box(map.pin().get(file).map(Arc::clone));
                    }
                },
            )
        });
        let of_blocks = Arc::clone(&order);
        series.peer(format!("{BLOCKS}, {files} files"), move || {
            per_operation(
                files * passes,
                || (),
                |()| {
                    for file in (0..passes).flat_map(|_| of_blocks.iter()) {
                        black_box(blocks.pin().get(file).map(|block| Arc::clone(&block.made)));
                    }
                },
            )
        });
        let reader = scheduler.clone();
        let of_reader = Arc::clone(&order);
        series.peer(format!("shardrun try_get_source, {files} files"), move || {
            per_operation(
                files * passes,
                || (),
                |()| {
                    for file in (0..passes).flat_map(|_| of_reader.iter()) {
                        black_box(reader.try_get_source(file)).expect("it is done");
                    }
                },
            )
        });
        series.peer(format!("shardrun request, satisfied, {files} files"), move || {
            per_operation(
                files * passes,
                || (),
                |()| {
                    for &file in (0..passes).flat_map(|_| order.iter()) {
                        black_box(scheduler.submit_request(Request::source(file)).wait()).expect("it is done");
                    }
                },
            )
        });
    }
    let pairs = ["papaya get and clone", BLOCKS, "shardrun try_get_source", "shardrun request, satisfied"];
    for name in pairs {
        series.at_most(&format!("{name}, 100000 files"), NS, FLAT, &[&format!("{name}, 1000 files")]);
    }
    series.at_most("shardrun try_get_source, 100000 files", NS, FLAT, &[&format!("{BLOCKS}, 100000 files")]);
    series.run(effort.rounds)
}

/// 1, 2, 4, 8 and 16 threads submit at once; wall time per request over all of them.
pub fn threads(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let files = effort.of(20_000);
    let mut series =
        Series::new("requests on new files from several threads at once, 64 outstanding each", &place.says);
    for threads in [1, 2, 4, 8, 16] {
        let pools = &pools;
        series.peer(format!("shardrun, {threads} threads"), move || {
            per_operation(files, || empty(pools), |scheduler| submitting(scheduler, files, threads))
        });
    }
    for threads in [2, 4, 8, 16] {
        series.at_most(&format!("shardrun, {threads} threads"), NS, FLAT, &["shardrun, 1 threads"]);
    }
    vec![series.run(effort.rounds)]
}

fn submitting(scheduler: &Scheduler, files: usize, threads: usize) {
    let share = files / threads;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let first = (thread * share) as u64;
                windowed(share, 64, |file| scheduler.submit_request(Request::source(first + file)));
            });
        }
    });
}

/// 1,000 to 30,000 requests pending at once: the only worker is held until all are submitted.
pub fn pending(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let latch = Latch::leaked();
    let mut series = Series::new("requests that all stand pending before the first runs, submit to done", &place.says);
    for count in [FEW, 10_000, PENDING] {
        let pools = &pools;
        series.peer(format!("{S}, {count} tasks"), move || rayon_from_outside(&pools.rayon, latch, count));
        series.peer(format!("shardrun Source, {count} pending"), move || {
            per_operation(count, || empty(pools), |scheduler| flood(pools, scheduler, count))
        });
    }
    for count in [10_000, PENDING] {
        let ours = format!("shardrun Source, {count} pending");
        series.at_most(&ours, NS, FLAT_PENDING, &["shardrun Source, 1000 pending"]);
    }
    vec![series.run(effort.rounds)]
}

fn flood(pools: &Pools, scheduler: &Scheduler, count: usize) {
    let (open, gate) = channel::<()>();
    let held = pools.shardrun.execute(move || gate.recv().unwrap_or_default());
    assert!(held.is_ok(), "the runtime takes work");
    let handles: Vec<_> = (0..count as u64).map(|file| scheduler.submit_request(Request::source(file))).collect();
    drop(open);
    handles.into_iter().for_each(|handle| answered(Some(handle)));
}
