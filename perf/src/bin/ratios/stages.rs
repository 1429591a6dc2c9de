//! The staged scheduler on a host in memory: fresh requests, satisfied ones, whole chains, edits, atomic batches.
//! It does not know what a stage does: next to nothing, so that the engine is what is measured.

use crate::Effort;
use crate::execute::{S, rayon_from_outside};
use crate::pools::{Place, Pools};
use serde_json::Value;
use shardrun::{Handle, Interrupt, Request, Stages};
use shardrun_perf::host::Memory;
use shardrun_perf::latch::Latch;
use shardrun_perf::place;
use shardrun_perf::series::{CPU, NS, SWITCHES, Sample, Series, median};
use std::cell::Cell;
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Files of one round.
const FILES: usize = 10_000;
/// Requests that are out at the same time.
const OUTSTANDING: usize = 64;
/// Repetitions within a round.
const REPEATS: usize = 4;

pub type Scheduler = Stages<Memory>;

/// A scheduler with nothing in it.
pub fn empty(pools: &Pools) -> Scheduler {
    Stages::new(&pools.shardrun, Memory)
}

/// A scheduler whose files have Source done.
pub fn filled(pools: &Pools, files: usize) -> Scheduler {
    let scheduler = empty(pools);
    windowed(files, OUTSTANDING, |file| scheduler.submit_request(Request::source(file)));
    scheduler
}

/// Keeps up to `width` requests out until `count` have been answered.
///
/// When all are out it waits for the middle one and takes the older half: waiting for the oldest alone would measure how the
/// kernel switches between two threads, one answer at a time.
pub fn windowed<T: Send + 'static, E: std::fmt::Debug + Send + From<Interrupt> + 'static>(
    count: usize,
    width: usize,
    mut submit: impl FnMut(u64) -> Handle<T, E>,
) {
    let mut out = VecDeque::with_capacity(width);
    for file in 0..count as u64 {
        if out.len() == width {
            let middle = (width - 1) / 2;
            answered(out.remove(middle));
            (0..middle).for_each(|_| answered(out.pop_front()));
        }
        out.push_back(submit(file));
    }
    answered(out.pop_back());
    while !out.is_empty() {
        answered(out.pop_front());
    }
}

pub fn answered<T: Send + 'static, E: std::fmt::Debug + Send + From<Interrupt> + 'static>(
    handle: Option<Handle<T, E>>,
) {
    if let Some(handle) = handle {
        black_box(handle.wait()).expect("the stage does not fail");
    }
}

/// Time, CPU and context switches per operation over a few repetitions; only `timed` is timed, on what `prepare` made.
pub fn per_operation<P>(count: usize, mut prepare: impl FnMut() -> P, mut timed: impl FnMut(&P)) -> Sample {
    let (mut walls, mut cpu, mut switches) = (Vec::new(), 0.0, 0);
    for _ in 0..REPEATS {
        let prepared = prepare();
        let (cpu_before, switches_before) = (place::cpu_of_process(), place::switches_of_process());
        let begun = Instant::now();
        timed(&prepared);
        walls.push(begun.elapsed().as_nanos() as f64 / count as f64);
        cpu += (place::cpu_of_process() - cpu_before).as_nanos() as f64;
        switches += place::switches_of_process() - switches_before;
    }
    let all = (count * REPEATS) as f64;
    vec![(NS, median(&walls)), (CPU, cpu / all), (SWITCHES, switches as f64 / all)]
}

const FRESH: &str = "shardrun Source, 64 outstanding";
const FRESH_ONE: &str = "shardrun Source, one at a time";
const CHAIN: &str = "shardrun Source to Artifact, 64 outstanding";
const CHAIN_ONE: &str = "shardrun Source to Artifact, one at a time";

/// Fresh requests for Source, and for an Artifact, on files never seen.
pub fn fresh(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let files = effort.of(FILES);
    let latch = Latch::leaked();
    let mut series = Series::new("a request on a new file, submit to done", &place.says);
    series.peer(S, || rayon_from_outside(&pools.rayon, latch, files));
    for (name, width, files) in [(FRESH, OUTSTANDING, files), (FRESH_ONE, 1, files / 10)] {
        let pools = &pools;
        series.peer(name, move || {
            let submit = |scheduler: &Scheduler| {
                windowed(files, width, |file| scheduler.submit_request(Request::source(file)));
            };
            per_operation(files, || empty(pools), submit)
        });
    }
    for (name, width, files) in [(CHAIN, OUTSTANDING, files), (CHAIN_ONE, 1, files / 10)] {
        let pools = &pools;
        series.peer(name, move || {
            let submit = |scheduler: &Scheduler| {
                windowed(files, width, |file| scheduler.submit_request(Request::artifact(file, 0)));
            };
            per_operation(files, || empty(pools), submit)
        });
    }
    series.at_most(FRESH, NS, 5.0, &[S]);
    series.at_most(CHAIN, NS, 9.0, &[S]);
    vec![series.run(effort.rounds)]
}

/// A request that is already satisfied, and a read, beside a bare lookup in the map below.
pub fn satisfied(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let files = effort.of(FILES);
    let latch = Latch::leaked();
    let scheduler = filled(&pools, files);
    let map = papaya::HashMap::<u64, u64, ahash::RandomState>::with_hasher(ahash::RandomState::new());
    for file in 0..files as u64 {
        map.pin().insert(file, file);
    }
    let shared = papaya::HashMap::<u64, Arc<u64>, ahash::RandomState>::with_hasher(ahash::RandomState::new());
    for file in 0..files as u64 {
        shared.pin().insert(file, Arc::new(file));
    }
    let mut series = Series::new("a file whose Source is done", &place.says);
    series.peer(S, || rayon_from_outside(&pools.rayon, latch, files));
    series.peer("papaya get", || {
        per_operation(
            files,
            || (),
            |()| {
                for file in 0..files as u64 {
                    black_box(map.pin().get(&file));
                }
            },
        )
    });
    series.peer("papaya get and Arc clone", || {
        per_operation(
            files,
            || (),
            |()| {
                for file in 0..files as u64 {
                    black_box(shared.pin().get(&file).map(Arc::clone));
                }
            },
        )
    });
    series.peer("shardrun try_get_source", || {
        per_operation(
            files,
            || (),
            |()| {
                for file in 0..files as u64 {
                    black_box(scheduler.try_get_source(&file)).expect("it is done");
                }
            },
        )
    });
    series.peer("shardrun with_source", || {
        per_operation(
            files,
            || (),
            |()| {
                for file in 0..files as u64 {
                    black_box(scheduler.with_source(&file, |source| black_box(*source))).expect("it is done");
                }
            },
        )
    });
    series.peer("shardrun request, satisfied", || {
        per_operation(
            files,
            || (),
            |()| {
                for file in 0..files as u64 {
                    black_box(scheduler.submit_request(Request::source(file)).wait()).expect("it is done");
                }
            },
        )
    });
    series.at_most("shardrun request, satisfied", NS, 0.6, &[S]);
    series.at_most("shardrun with_source", NS, 2.0, &["papaya get"]);
    series.at_most("shardrun try_get_source", NS, 2.0, &["papaya get"]);
    series.at_most("shardrun try_get_source", NS, 2.0, &["papaya get and Arc clone"]);
    vec![series.run(effort.rounds)]
}

/// An edit, which is a request with text, on files whose Source is done.
pub fn edit(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let files = effort.of(FILES);
    let latch = Latch::leaked();
    let mut series = Series::new("edit a file and request it again", &place.says);
    series.peer(S, || rayon_from_outside(&pools.rayon, latch, files));
    for (name, width, count) in [(EDIT, OUTSTANDING, files), (EDIT_ONE, 1, files / 10)] {
        let scheduler = filled(&pools, files);
        series.peer(name, move || {
            per_operation(
                count,
                || (),
                |()| {
                    windowed(count, width, |file| scheduler.submit_request(Request::source(file).text(file + 1)));
                },
            )
        });
    }
    let scheduler = filled(&pools, files);
    series.peer("shardrun invalidate, then request, 64 outstanding", move || {
        per_operation(
            files,
            || (),
            |()| {
                windowed(files, OUTSTANDING, |file| {
                    scheduler.invalidate(&file);
                    scheduler.submit_request(Request::source(file))
                });
            },
        )
    });
    series.at_most(EDIT, NS, 7.0, &[S]);
    vec![series.run(effort.rounds)]
}

const EDIT: &str = "shardrun edit, 64 outstanding";
const EDIT_ONE: &str = "shardrun edit, one at a time";

/// Edits of one atomic batch.
const MEMBERS: usize = 1_000;
const HELD: &str = "held ns";

/// An atomic batch of edits, per member, with few and with many threads that have used the scheduler.
pub fn batch(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let latch = Latch::leaked();
    let few = filled(&pools, MEMBERS);
    let many = filled(&pools, MEMBERS);
    let mut series = Series::new("an atomic batch of 1,000 edits, per member", &place.says);
    series.peer(S, || rayon_from_outside(&pools.rayon, latch, effort.of(FILES)));
    series.peer(FEW, || edits(&few));
    // The threads stay alive to the end, since what walks registered threads meets the living ones.
    let (release, parked) = (std::sync::Barrier::new(65), std::sync::Barrier::new(65));
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                black_box(many.try_get_source(&0)).expect("it is done");
                black_box(many.submit_request(Request::source(1)).wait()).expect("it is done");
                parked.wait();
                release.wait();
            });
        }
        parked.wait();
        series.peer(MANY, || edits(&many));
        series.at_most(FEW, NS, 4.0, &[S]);
        series.limit(FEW, HELD, 100.0);
        series.limit(MANY, HELD, 100.0);
        series.at_most(MANY, HELD, 1.3, &[FEW]);
        let report = series.run(effort.rounds);
        release.wait();
        vec![report]
    })
}

const FEW: &str = "shardrun atomic batch, 1 thread";
const MANY: &str = "shardrun atomic batch, 64 more threads alive";

fn edits(scheduler: &Scheduler) -> Sample {
    let before = scheduler.counters().sequencer;
    let batch =
        || Cell::new(Some((0..MEMBERS as u64).map(|file| Request::source(file).text(file + 1)).collect::<Vec<_>>()));
    let mut sample = per_operation(MEMBERS, batch, |batch| {
        for result in scheduler.wait_batch(scheduler.submit_batch_atomic(batch.take().into_iter().flatten())) {
            black_box(result).expect("the stage does not fail");
        }
    });
    let after = scheduler.counters().sequencer;
    let members = after.timed_members - before.timed_members;
    sample.push((HELD, (after.timed_nanos - before.timed_nanos) as f64 / members as f64));
    sample
}
