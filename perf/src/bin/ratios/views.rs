//! Looks at published state: captured source roots, borrowed reads from many threads, and reads and requests in a storm of edits.
//! It does not know how long a stage takes: next to nothing, so that the engine is what is measured.

use crate::Effort;
use crate::pools::{Place, Pools};
use crate::stages::{Scheduler, filled, per_operation};
use serde_json::Value;
use shardrun::{Request, SourceLookup};
use shardrun_perf::series::{CPU, NS, Sample, Series, quantile};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const FILES: usize = 1_000;
const LOOKS: usize = 100_000;
/// What a growth may be at most to count as flat.
const FLAT: f64 = 1.3;

/// Captures and lookups, with one live root and with a thousand.
pub fn roots(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let scheduler = filled(&pools, FILES);
    let shared = papaya::HashMap::<u64, Arc<u64>, ahash::RandomState>::with_hasher(ahash::RandomState::new());
    (0..FILES as u64).for_each(|file| _ = shared.pin().insert(file, Arc::new(file)));
    let looks = effort.of(LOOKS);
    let mut series = Series::new("a source root: capture and drop, and a lookup in it", &place.says);
    series.peer(MAP, || {
        let pass = || (0..looks as u64).for_each(|at| _ = black_box(shared.pin().get(&(at % 1_000)).map(Arc::clone)));
        per_operation(looks, || (), |()| pass())
    });
    for live in [1, 1_000] {
        let scheduler = &scheduler;
        series.peer(format!("shardrun capture, {live} live"), move || {
            let _others: Vec<_> = (1..live).map(|_| scheduler.capture_source_root()).collect();
            vec![(NS, captured(scheduler, looks / TOGETHER))]
        });
        series.peer(format!("shardrun capture and drop, {live} live"), move || {
            let keep = || (1..live).map(|_| scheduler.capture_source_root()).collect::<Vec<_>>();
            per_operation(looks, keep, |_| {
                (0..looks).for_each(|_| drop(black_box(scheduler.capture_source_root())));
            })
        });
        series.peer(format!("shardrun lookup in a root, {live} live"), move || {
            let keep = || (0..live).map(|_| scheduler.capture_source_root()).collect::<Vec<_>>();
            per_operation(looks, keep, |roots| {
                for at in 0..looks as u64 {
                    let found = black_box(roots[0].lookup(&(at % 1_000)));
                    assert!(matches!(found, SourceLookup::Present { .. }));
                }
            })
        });
    }
    series.limit("shardrun capture, 1 live", NS, 60.0);
    series.at_most("shardrun capture, 1000 live", NS, FLAT, &["shardrun capture, 1 live"]);
    series.at_most("shardrun capture and drop, 1000 live", NS, FLAT, &["shardrun capture and drop, 1 live"]);
    series.at_most("shardrun lookup in a root, 1 live", NS, 1.5, &[MAP]);
    series.at_most("shardrun lookup in a root, 1000 live", NS, FLAT, &["shardrun lookup in a root, 1 live"]);
    vec![series.run(effort.rounds)]
}

const MAP: &str = "papaya get and Arc clone";
/// Roots that are captured between two looks at the clock.
const TOGETHER: usize = 64;

/// Nanoseconds per capture, without the drop.
fn captured(scheduler: &Scheduler, times: usize) -> f64 {
    let mut roots = Vec::with_capacity(TOGETHER);
    let once = |_| {
        let begun = Instant::now();
        (0..TOGETHER).for_each(|_| roots.push(scheduler.capture_source_root()));
        let took = begun.elapsed().as_nanos() as f64;
        roots.clear();
        took
    };
    (0..times).map(once).sum::<f64>() / (times * TOGETHER) as f64
}

/// One hot file read by more and more threads: CPU per read, borrowed and counted; and by as many threads that share nothing, since
/// CPUs of one core and the starts of threads cost what nobody's reads are to blame for.
pub fn borrowed(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let scheduler = filled(&pools, 1);
    let looks = effort.of(10 * LOOKS);
    let mut series = Series::new("reads of one hot file by several threads", &place.says);
    for threads in [1, 2, 4, 8, 16] {
        let (scheduler, share) = (&scheduler, looks / threads);
        series.peer(format!("shardrun with_source, {threads} threads"), move || {
            let read = || (0..share).for_each(|_| _ = black_box(scheduler.with_source(&0, |source| *source)));
            per_operation(share * threads, || (), |()| in_threads(threads, read))
        });
        let apart: Vec<_> = (0..threads).map(|_| filled(&pools, 1)).collect();
        series.peer(format!("shardrun with_source, {threads} threads with a scheduler each"), move || {
            let read = |at: usize| (0..share).for_each(|_| _ = black_box(apart[at].with_source(&0, |source| *source)));
            per_operation(share * threads, || (), |()| in_numbered_threads(threads, read))
        });
        series.peer(format!("shardrun try_get_source, {threads} threads"), move || {
            let read = || (0..share).for_each(|_| _ = black_box(scheduler.try_get_source(&0)));
            per_operation(share * threads, || (), |()| in_threads(threads, read))
        });
    }
    for threads in [2, 4, 8, 16] {
        let ours = format!("shardrun with_source, {threads} threads");
        series.at_most(&ours, CPU, FLAT, &[&format!("{ours} with a scheduler each")]);
    }
    vec![series.run(effort.rounds)]
}

pub fn in_threads(threads: usize, work: impl Fn() + Sync) {
    in_numbered_threads(threads, |_| work());
}

fn in_numbered_threads(threads: usize, work: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for at in 0..threads {
            let work = &work;
            scope.spawn(move || work(at));
        }
    });
}

const REQUEST_P99: &str = "request p99 ns";
const READ_P99: &str = "read p99 ns";
const READERS: usize = 8;

/// Eight threads read and request while eight others edit, or do not.
pub fn storm(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let scheduler = filled(&pools, FILES);
    let requests = effort.of(2_000);
    let mut series = Series::new("8 threads read and request 1,000 files", &place.says);
    for (name, editors) in [(QUIET, 0), (STORM, 8)] {
        let scheduler = &scheduler;
        series.peer(name, move || stormed(scheduler, editors, requests));
    }
    series.at_most(STORM, REQUEST_P99, 3.0, &[QUIET]);
    series.at_most(STORM, READ_P99, 3.0, &[QUIET]);
    vec![series.run(effort.rounds)]
}

const QUIET: &str = "shardrun, nobody edits";
const STORM: &str = "shardrun, 8 threads edit";

fn stormed(scheduler: &Scheduler, editors: usize, requests: usize) -> Sample {
    let over = AtomicBool::new(false);
    let (mut asked, mut read) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        for editor in 0..editors {
            let over = &over;
            scope.spawn(move || {
                let mut text = editor as u64;
                while !over.load(Ordering::Relaxed) {
                    text += 1;
                    let edit = Request::source((text * 31) % FILES as u64).text(text);
                    // Superseded by another editor, perhaps.
                    let _ = black_box(scheduler.submit_request(edit).wait());
                }
            });
        }
        let readers: Vec<_> = (0..READERS).map(|at| scope.spawn(move || reader(scheduler, at, requests))).collect();
        for reader in readers {
            let (requests, reads) = reader.join().expect("a reader does not panic");
            asked.extend(requests);
            read.extend(reads);
        }
        over.store(true, Ordering::Relaxed);
    });
    vec![(REQUEST_P99, quantile(&asked, 0.99)), (READ_P99, quantile(&read, 0.99))]
}

fn reader(scheduler: &Scheduler, first: usize, requests: usize) -> (Vec<f64>, Vec<f64>) {
    let nanos = |begun: Instant| begun.elapsed().as_nanos() as f64;
    (0..requests)
        .map(|at| {
            let file = ((first * 127 + at * 7) % FILES) as u64;
            let begun = Instant::now();
            black_box(scheduler.with_source(&file, |source| *source));
            let read = nanos(begun);
            let begun = Instant::now();
            // An edit meanwhile supersedes the request, which is an answer too.
            let _ = black_box(scheduler.submit_request(Request::source(file)).wait());
            (nanos(begun), read)
        })
        .unzip()
}
