//! What is shared among actors: slots, classes, heavy permits, shares, latency, and the presets of all of them.

#[path = "support/lanes.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod support;

use shardrun::{
    ActorOptions, Driver, JobStatus, LaneClass, LaneError, LaneKind, Lanes, LanesConfig, Latency, Quantum, Runtime,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Bench, Gated, Log};

const READ: LaneKind = LaneKind::PureRead;
const HEAVY: LaneKind = LaneKind::HeavyInit;
const WRITE: LaneKind = LaneKind::Mutating;
const COMMIT: LaneKind = LaneKind::MaintenanceCommit;
const STATUS: LaneKind = LaneKind::SerialLspStatus;
const NOW: LaneClass = LaneClass::Interactive;
const LATER: LaneClass = LaneClass::Maintenance;

fn numbers(config: &LanesConfig) -> [usize; 6] {
    [
        config.pool,
        config.actor_cap,
        config.read_cap,
        config.heavy_permits,
        config.interactive_reserve,
        config.maintenance_cap,
    ]
}

#[test]
fn s1_s2_s3_s5_the_preset_clamps_its_wishes() {
    assert_eq!(numbers(&LanesConfig::preset(1, 1, 1, 1)), [2, 1, 1, 1, 1, 1]);
    assert_eq!(numbers(&LanesConfig::preset(100, 100, 100, 100)), [8, 7, 4, 3, 2, 6]);
    assert_eq!(numbers(&LanesConfig::preset(0, 0, 0, 0)), [2, 1, 1, 1, 1, 1]);
    let config = LanesConfig::preset(4, 9, 2, 9);
    assert_eq!((config.read_cap, config.heavy_permits), (2, 3));
    assert_eq!(LanesConfig::preset(2, 1, 1, 2).heavy_permits, 1);
}

#[test]
fn s4_the_preset_follows_from_how_many_threads_can_run() {
    let expected = [
        [2, 1, 1, 1, 1, 1],
        [3, 2, 2, 2, 1, 2],
        [4, 3, 3, 3, 2, 2],
        [5, 4, 4, 3, 2, 3],
        [6, 4, 4, 3, 2, 4],
        [7, 4, 4, 3, 2, 5],
        [8, 4, 4, 3, 2, 6],
    ];
    for (row, expected) in (2..).zip(expected) {
        assert_eq!(numbers(&LanesConfig::for_parallelism(row + 1)), expected);
    }
    assert_eq!(LanesConfig::for_parallelism(0).pool, 2);
    assert_eq!(LanesConfig::for_parallelism(1_000).pool, 8);
}

#[test]
fn wider_pools_are_configured_and_options_that_cannot_be_are_named() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let wide = LanesConfig::wide(64);
    assert_eq!(numbers(&wide), [64, 63, 63, 16, 8, 56]);
    let lanes: Lanes<u32, Log> = Lanes::new(&runtime, wide).unwrap();
    lanes.register(0, Log::default());
    let reads: Vec<_> = (0..63).map(|_| lanes.submit(&0, lanes.future(READ, |_| support::Gate::default()))).collect();
    runtime.drive_all();
    assert_eq!(lanes.actor(&0).unwrap().counts().reads, 63);
    drop(reads);
    type Break = fn(&mut LanesConfig);
    let broken: [(&str, Break); 11] = [
        ("pool", |config| config.pool = 1),
        ("pool", |config| config.pool = 1_001),
        ("actor_cap", |config| config.actor_cap = 0),
        ("read_cap", |config| config.read_cap = 64),
        ("heavy_permits", |config| config.heavy_permits = 0),
        ("heavy_reserve", |config| config.heavy_reserve = 16),
        ("interactive_reserve", |config| config.interactive_reserve = 64),
        ("maintenance_cap", |config| config.maintenance_cap = 0),
        ("interactive_queue", |config| config.interactive_queue = 0),
        ("maintenance_queue", |config| config.maintenance_queue = 60_001),
        ("quantum", |config| config.quantum = Quantum::Jobs(0)),
    ];
    for (option, break_it) in broken {
        let mut config = LanesConfig::wide(64);
        break_it(&mut config);
        let error = Lanes::<u32, Log>::new(&runtime, config).unwrap_err();
        assert_eq!(error.option, option, "{error}");
    }
}

#[test]
fn s47_heavy_permits_bound_all_actors_together() {
    let mut config = LanesConfig::preset(6, 3, 5, 2);
    config.heavy_reserve = 0;
    let bench = Bench::with(Driver::Inline, config);
    let names = ["a", "b", "c", "d", "e", "f"];
    let builds: Vec<_> = (0..).zip(names).map(|(key, name)| bench.gated(key, HEAVY, NOW, name)).collect();
    assert_eq!(bench.seen(), "+a +b");
    for build in &builds {
        bench.open(&[build]);
    }
    assert_eq!(bench.seen(), "-a +c -b +d -c +e -d +f -e -f", "handed on in the order in which they were asked for");
    assert_eq!(bench.lanes.liveness().heavy_free, 2);
}

#[test]
fn s48_builds_leave_a_slot_for_another_actors_writer() {
    let bench = Bench::new((2, 1, 1, 2));
    let builds = [bench.gated(0, HEAVY, NOW, "a"), bench.gated(1, HEAVY, NOW, "b")];
    let write = bench.write(2, "write");
    assert_eq!(bench.seen(), "+a +write");
    bench.open(&[&builds[0], &builds[1], &write]);
}

#[test]
fn f18_maintenance_builds_leave_a_permit_for_an_interactive_one() {
    let bench = Bench::new((8, 2, 4, 3));
    let background: Vec<_> =
        (0..).zip(["a", "b", "c"]).map(|(key, name)| bench.gated(key, HEAVY, LATER, name)).collect();
    let build = bench.gated(4, HEAVY, NOW, "build");
    assert_eq!(bench.seen(), "+a +b +build");
    bench.open(&[&build]);
    assert_eq!(bench.seen(), "-build", "what is reserved stays free");
    bench.open(&[&background[0]]);
    assert_eq!(bench.seen(), "-a +c");
    bench.open(&[&background[1], &background[2]]);
    assert_eq!(bench.lanes.liveness().heavy_free, 3);
}

#[test]
fn s49_s51_permits_come_back_however_a_build_ends() {
    let bench = Bench::new((8, 2, 4, 2));
    let mut random = 1_u64;
    let mut handles = Vec::new();
    for round in 0..1_000_u64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = (random >> 33) as u32 % 8;
        let panics = (random >> 40).is_multiple_of(3);
        let job = bench.lanes.job(HEAVY, move |_| assert!(!panics, "asked for"));
        let job = if random >> 50 & 1 == 0 { job.maintenance() } else { job };
        let handle = bench.lanes.submit(&key, job);
        if (random >> 44).is_multiple_of(4) {
            handle.cancel();
        }
        handles.push(handle);
        if round % 7 == 0 {
            bench.runtime.drive_one();
        }
    }
    bench.settle();
    for mut handle in handles {
        match handle.try_get().expect("each is answered") {
            Ok(()) | Err(LaneError::Cancelled | LaneError::Panicked(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(bench.lanes.liveness().heavy_free, 2);
    assert!((0..8).all(|key| bench.lanes.is_idle(&key) && !bench.lanes.is_fatal(&key)));
    let builds = [bench.gated(0, HEAVY, NOW, "a"), bench.gated(1, HEAVY, NOW, "b")];
    assert_eq!(bench.seen(), "+a +b");
    bench.open(&[&builds[0], &builds[1]]);
}

#[test]
fn s52_a_flood_of_one_actor_leaves_a_slot_for_another() {
    let bench = Bench::new((4, 4, 3, 1));
    let flood: Vec<_> = (0..20).map(|_| bench.post(0, READ, NOW, "a")).collect();
    bench.settle();
    let read = bench.read(1, "b");
    assert_eq!(bench.seen(), "+a +a +a +b");
    bench.open(&flood.iter().collect::<Vec<_>>());
    bench.open(&[&read]);
}

/// Actors with so many reads each that end at once, on one slot; who began, in order.
fn turns(config: LanesConfig, actors: u32, reads: usize, options: impl Fn(u32) -> ActorOptions) -> Vec<u32> {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let lanes: Lanes<u32, Log> = Lanes::new(&runtime, config).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut handles = Vec::new();
    // Every slot but one is held by a job that sleeps.
    for key in 0..actors {
        assert!(lanes.register_with(key, Log::default(), options(key)).is_ok());
    }
    lanes.register(u32::MAX, Log::default());
    for _ in 1..lanes.config().pool {
        handles.push(lanes.submit(&u32::MAX, lanes.future(READ, |_| support::Gate::default())));
    }
    runtime.drive_all();
    for _ in 0..reads {
        for key in 0..actors {
            let order = order.clone();
            let job = lanes.job(READ, move |_| order.lock().unwrap().push(key));
            lanes.submit(&key, job).detach();
        }
    }
    runtime.drive_all();
    let order = std::mem::take(&mut *order.lock().unwrap());
    assert_eq!(order.len(), actors as usize * reads);
    order
}

fn narrow() -> LanesConfig {
    let mut config = LanesConfig::preset(2, 1, 1, 1);
    config.interactive_queue = 2_000;
    config
}

#[test]
fn s53_two_actors_on_one_slot_alternate() {
    let order = turns(narrow(), 2, 6, |_| ActorOptions::new());
    assert_eq!(order, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
}

#[test]
fn a_runner_that_goes_on_with_one_actor_lets_another_in_as_soon_as_it_waits() {
    let runtime = Runtime::builder().workers(1).io_threads(1).build().unwrap();
    let lanes = Lanes::new(&runtime, narrow()).unwrap();
    for key in 0..2 {
        assert!(lanes.register(key, ()));
    }
    let began = Arc::new(Mutex::new(Vec::new()));
    let read = |key: u32| {
        let began = began.clone();
        lanes.submit(&key, lanes.job(READ, move |_| began.lock().unwrap().push(key)))
    };
    let (inside, entered) = std::sync::mpsc::channel();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let first = lanes.job(READ, move |_| {
        inside.send(()).unwrap();
        gate.recv().unwrap();
    });
    let first = lanes.submit(&0, first);
    entered.recv().unwrap();
    // While the worker is inside, one actor has many reads, and another has one.
    let mut reads: Vec<_> = (0..20).map(|_| read(0)).collect();
    reads.push(read(1));
    reads.extend((0..20).map(|_| read(0)));
    open.send(()).unwrap();
    first.wait().unwrap();
    reads.into_iter().for_each(|read| read.wait().unwrap());
    let began = began.lock().unwrap();
    let other = began.iter().position(|key| *key == 1).unwrap();
    assert!(other <= 2, "{other} reads of the other actor went first");
    assert_eq!(began.len(), 41);
}

#[test]
fn s55_of_five_hundred_actors_none_is_ahead_of_another_by_more_than_two() {
    let order = turns(narrow(), 500, 4, |_| ActorOptions::new());
    let mut begun = vec![0_usize; 500];
    for key in order {
        begun[key as usize] += 1;
        let (least, most) = (begun.iter().min().unwrap(), begun.iter().max().unwrap());
        assert!(most - least <= 2);
    }
}

#[test]
fn f7_a_quantum_of_jobs_and_weights_shape_the_turns() {
    let mut config = narrow();
    config.quantum = Quantum::Jobs(3);
    assert_eq!(turns(config, 2, 6, |_| ActorOptions::new()), [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]);
    let order = turns(narrow(), 2, 1_200, |key| ActorOptions::new().weight(1 + 2 * key));
    let heavy = order[..1_000].iter().filter(|key| **key == 1).count();
    assert!((712..=788).contains(&heavy), "three quarters of the first thousand, within five percent: {heavy}");
}

#[test]
fn a_prompt_actor_goes_first_three_times_in_a_row() {
    let order = turns(narrow(), 3, 8, |key| {
        let latency = if key == 2 { Latency::Prompt } else { Latency::Normal };
        ActorOptions::new().latency(latency)
    });
    assert_eq!(order[..8], [2, 2, 2, 0, 2, 2, 2, 1]);
}

/// Two actors whose jobs cost so many milliseconds each, for a while; what each has got.
fn shares(costs: [u64; 2], weights: [u32; 2]) -> [f64; 2] {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let mut config = narrow();
    config.quantum = Quantum::Time(Duration::from_millis(10));
    let lanes: Lanes<u32, Log> = Lanes::new(&runtime, config).unwrap();
    let got = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    lanes.register(9, Log::default());
    let _asleep = lanes.submit(&9, lanes.future(READ, |_| support::Gate::default()));
    runtime.drive_all();
    for key in 0..2 {
        assert!(lanes.register_with(key as u32, Log::default(), ActorOptions::new().weight(weights[key])).is_ok());
        for _ in 0..1_000 {
            let (clock, got) = (runtime.clone(), got.clone());
            let job = lanes.job(READ, move |_| {
                clock.advance(Duration::from_millis(costs[key]));
                got[key].fetch_add(costs[key], Ordering::Relaxed);
            });
            lanes.submit(&(key as u32), job).detach();
        }
    }
    for _ in 0..1_000 {
        runtime.drive_one();
    }
    let got = [0, 1].map(|key: usize| got[key].load(Ordering::Relaxed) as f64);
    let all = got[0] + got[1];
    lanes.shutdown();
    [got[0] / all, got[1] / all]
}

#[test]
fn f7_a_quantum_of_time_shares_time_whatever_jobs_cost() {
    for (costs, weights, expected) in [([1, 20], [1, 1], 0.5), ([5, 5], [1, 3], 0.25), ([1, 7], [2, 1], 2.0 / 3.0)] {
        let [first, _] = shares(costs, weights);
        assert!((first - expected).abs() < 0.05, "{costs:?} {weights:?}: {first}");
    }
}

#[test]
fn fairness_a_light_actor_beside_a_flood_begins_within_twice_its_fair_share() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let lanes: Lanes<u32, Log> = Lanes::new(&runtime, narrow()).unwrap();
    for key in [0, 1, 9] {
        lanes.register(key, Log::default());
    }
    let _asleep = lanes.submit(&9, lanes.future(READ, |_| support::Gate::default()));
    runtime.drive_all();
    let cost = Duration::from_millis(10);
    let waits = Arc::new(Mutex::new(Vec::new()));
    for round in 0..600 {
        while lanes.actor(&0).unwrap().counts().interactive_queued < 500 {
            let clock = runtime.clone();
            lanes.submit(&0, lanes.job(READ, move |_| clock.advance(cost))).detach();
        }
        if round % 3 == 0 {
            let (clock, waits, begun) = (runtime.clone(), waits.clone(), runtime.now());
            let job = lanes.job(READ, move |_| waits.lock().unwrap().push(clock.now() - begun));
            lanes.submit(&1, job).detach();
        }
        runtime.drive_one();
    }
    let mut waits = std::mem::take(&mut *waits.lock().unwrap());
    waits.sort();
    assert!(waits.len() > 150);
    // Its fair share is every other job: it waits for one of the other's.
    assert!(waits[waits.len() * 99 / 100] <= 2 * cost, "{:?}", waits.last());
    lanes.shutdown();
}

#[test]
fn s57_random_jobs_all_end() {
    for seed in 0..20 {
        let bench = Bench::with(Driver::Seeded { seed }, LanesConfig::preset(4, 2, 3, 2));
        let lanes = [READ, LaneKind::SerialLspStatus, HEAVY, WRITE];
        let handles: Vec<_> = (0..96)
            .map(|number: u32| {
                let lane = lanes[(number as usize * 7 + seed as usize) % 4];
                bench.lanes.submit(&(number % 2), bench.lanes.job(lane, move |_| number))
            })
            .collect();
        bench.settle();
        for (mut handle, number) in handles.into_iter().zip(0..) {
            assert_eq!(handle.try_get(), Some(Ok(number)));
        }
        let live = bench.lanes.liveness();
        assert_eq!((live.idle, live.phantoms, live.interactive.queued), (4, 0, 0));
    }
}

#[test]
fn s58_s54_maintenance_keeps_to_its_cap_and_leaves_the_reserve() {
    let bench = Bench::new((4, 1, 1, 2));
    let background: Vec<_> =
        (0..).zip(["a", "b", "c"]).map(|(key, name)| bench.gated(key, WRITE, LATER, name)).collect();
    assert_eq!(bench.seen(), "+a +b");
    let (read, write) = (bench.read(4, "read"), bench.write(5, "write"));
    assert_eq!(bench.seen(), "+read +write");
    bench.open(&[&background[0]]);
    assert_eq!(bench.seen(), "-a", "one slot idle is less than the reserve");
    bench.open(&[&read, &write]);
    assert_eq!(bench.seen(), "-read -write +c");
    bench.open(&[&background[1], &background[2]]);
    let small = Bench::new((2, 1, 1, 1));
    let read = small.read(0, "read");
    let commit = small.commit(1, "commit");
    assert_eq!(small.seen(), "+read", "with two slots any running job keeps maintenance out");
    small.open(&[&read, &commit]);
    assert_eq!(small.seen(), "-read +commit -commit");
}

#[test]
fn s59_interactive_writers_begin_beside_a_flood_of_maintenance() {
    let mut config = LanesConfig::preset(4, 1, 1, 2);
    config.pool = 8;
    config.maintenance_cap = 2;
    let bench = Bench::with(Driver::Inline, config);
    let background: Vec<_> = (0..8).map(|key| bench.gated(key, WRITE, LATER, "m")).collect();
    assert_eq!(bench.seen(), "+m +m");
    let writes: Vec<_> = (4..8).map(|key| bench.write(key, "w")).collect();
    assert_eq!(bench.seen(), "+w +w +w +w");
    bench.open(&writes.iter().collect::<Vec<_>>());
    bench.open(&background.iter().collect::<Vec<_>>());
}

#[test]
fn s60_s61_maintenance_yields_to_interactive_writers_of_its_actor() {
    let bench = Bench::new((4, 1, 1, 2));
    let full = [bench.gated(1, WRITE, LATER, "x"), bench.gated(2, WRITE, LATER, "y")];
    let older = bench.gated(0, WRITE, LATER, "older");
    let newer = bench.write(0, "newer");
    assert_eq!(bench.seen(), "+x +y +newer");
    bench.open(&[&full[0]]);
    bench.open(&[&newer]);
    assert_eq!(bench.seen(), "-x -newer +older");
    bench.open(&[&full[1], &older]);
    bench.seen();
    let read = bench.read(0, "read");
    let (held, write, commit) = (bench.read(0, "held"), bench.write(0, "write"), bench.commit(0, "commit"));
    assert_eq!(bench.seen(), "+read", "a writer is queued behind a read that cannot run: no maintenance");
    bench.open(&[&read]);
    bench.open(&[&held]);
    bench.open(&[&write]);
    assert_eq!(bench.seen(), "-read +held -held +write -write +commit");
    bench.open(&[&commit]);
}

#[test]
fn s62_s63_maintenance_of_an_actor_begins_in_order_of_arrival() {
    let bench = Bench::new((8, 2, 4, 1));
    let commits = [bench.commit(0, "one"), bench.commit(0, "two")];
    let read = bench.read(0, "read");
    assert_eq!(bench.seen(), "+one +read");
    bench.open(&[&commits[0], &read]);
    bench.open(&[&commits[1]]);
    bench.seen();
    let elsewhere = bench.gated(1, HEAVY, NOW, "elsewhere");
    let (build, commit) = (bench.gated(0, HEAVY, LATER, "build"), bench.commit(0, "commit"));
    assert_eq!(bench.seen(), "+elsewhere", "the commit does not pass the build, which lacks a permit");
    bench.open(&[&elsewhere]);
    assert_eq!(bench.seen(), "-elsewhere +build +commit");
    bench.open(&[&build, &commit]);
}

#[test]
fn f6_interactive_work_goes_first_wherever_it_could_run() {
    let bench = Bench::new((8, 4, 7, 1));
    let mut jobs: Vec<Gated> = Vec::new();
    for _ in 0..4 {
        jobs.push(bench.post(0, COMMIT, LATER, "m"));
        jobs.push(bench.post(0, READ, NOW, "r"));
    }
    bench.settle();
    assert_eq!(bench.seen(), "+r +r +r +r +m");
    bench.open(&jobs.iter().collect::<Vec<_>>());
}

#[test]
fn f20_maintenance_that_has_waited_its_age_gets_one_slot() {
    let bench = Bench::new((2, 1, 1, 1));
    // Interactive work on two actors never lets the reserve stay free.
    let mut reads = vec![bench.read(0, "r"), bench.read(1, "r")];
    let commits = [bench.commit(2, "M"), bench.commit(3, "M")];
    let mut seen = String::new();
    for round in 0..110_u32 {
        reads.push(bench.post(round % 2, READ, NOW, "r"));
        reads.push(bench.post(round % 2, READ, NOW, "r"));
        bench.open(&[&reads.remove(0)]);
        assert!(!seen.contains("+M") || round > 90, "not before its age");
        bench.pass(Duration::from_millis(100));
        seen.push_str(&bench.seen());
    }
    assert_eq!(seen.matches("+M").count(), 1, "one at a time");
    bench.open(&[&commits[0]]);
    bench.open(&[&reads.remove(0)]);
    assert_eq!(bench.seen().matches("+M").count(), 1, "then the next");
    bench.open(&[&commits[1]]);
    bench.lanes.shutdown();
}

#[test]
fn f20_maintenance_begins_within_its_age_under_endless_writers_of_its_actor() {
    let bench = Bench::new((4, 1, 1, 1));
    let mut writes = vec![bench.write(0, "w"), bench.write(0, "w")];
    let commit = bench.commit(0, "M");
    let mut rounds = 0;
    while !bench.seen().contains("+M") {
        writes.push(bench.post(0, WRITE, NOW, "w"));
        bench.open(&[&writes.remove(0)]);
        bench.pass(Duration::from_millis(100));
        rounds += 1;
        assert!(rounds < 105, "it waits for longer than its age");
    }
    assert!(rounds > 95);
    bench.open(&[&commit]);
    bench.lanes.shutdown();
}

/// Actors that are never without a read, more than the executor has slots.
struct Flood<'a>(&'a Bench, Vec<Gated>);

impl<'a> Flood<'a> {
    const KEYS: std::ops::Range<u32> = 100..106;

    fn new(bench: &'a Bench) -> Self {
        for key in Self::KEYS {
            assert!(bench.lanes.register(key, Log::default()));
        }
        let mut flood = Self(bench, Vec::new());
        flood.come();
        bench.settle();
        flood
    }

    fn come(&mut self) {
        self.1.extend(Self::KEYS.map(|key| self.0.post(key, READ, NOW, "r")));
    }

    /// A read comes for each actor, and the oldest that runs ends.
    fn step(&mut self) -> String {
        self.come();
        let runs = |read: &Gated| read.ticket().status() == JobStatus::Running;
        let oldest = self.1.iter().position(runs).expect("one runs");
        self.0.open(&[&self.1.remove(oldest)]);
        self.0.seen()
    }
}

#[test]
fn f20_maintenance_that_could_not_run_at_its_age_runs_as_soon_as_it_can() {
    let bench = Bench::new((3, 1, 1, 1));
    let commits = ["M1", "M2"].map(|name| bench.commit(2, name));
    assert_eq!(bench.seen(), "+M1");
    let mut flood = Flood::new(&bench);
    for _ in 0..150 {
        flood.step();
        bench.pass(Duration::from_millis(100));
    }
    bench.open(&[&commits[0]]);
    let mut seen = bench.seen();
    for _ in 0..2 {
        seen.push_str(&flood.step());
    }
    assert!(seen.contains("+M2"), "it is older than it may get, and nothing of its actor runs: {seen}");
    bench.open(&[&commits[1]]);
    bench.lanes.shutdown();
}

#[test]
fn f18_an_interactive_build_does_not_wait_for_a_permit_that_maintenance_was_handed() {
    let bench = Bench::new((5, 1, 1, 2));
    let builds = [(2, "Z0"), (3, "Z1")].map(|(key, name)| bench.gated(key, HEAVY, NOW, name));
    let later = bench.gated(4, HEAVY, LATER, "X");
    assert_eq!(bench.seen(), "+Z0 +Z1");
    let mut flood = Flood::new(&bench);
    let next = bench.gated(6, HEAVY, NOW, "Z2");
    for _ in 0..6 {
        flood.step();
    }
    bench.open(&[&builds[1]]);
    let mut seen = bench.seen();
    for _ in 0..6 {
        seen.push_str(&flood.step());
    }
    assert!(seen.contains("+Z2"), "a permit is there: {seen}");
    bench.open(&[&builds[0], &later, &next]);
    bench.lanes.shutdown();
}

#[test]
fn f18_a_permit_is_not_handed_to_and_fro_between_actors_whose_interactive_jobs_cannot_go() {
    let bench = Bench::new((8, 3, 1, 1));
    let holds = bench.gated(4, HEAVY, NOW, "Z");
    let busy = [(2, "x"), (3, "y")].map(|(key, name)| bench.gated(key, STATUS, NOW, name));
    let behind = [(2, "x2"), (3, "y2")].map(|(key, name)| bench.gated(key, STATUS, NOW, name));
    let builds = [(2, "X"), (3, "Y")].map(|(key, name)| bench.gated(key, HEAVY, LATER, name));
    assert_eq!(bench.seen(), "+Z +x +y");
    bench.open(&[&holds]);
    assert_eq!(bench.seen(), "-Z +X", "what waits behind a job of its own lane is in nobody's way");
    bench.open(&[&builds[0]]);
    assert_eq!(bench.seen(), "-X +Y");
    bench.open(&[&builds[1], &busy[0], &busy[1], &behind[0], &behind[1]]);
    bench.lanes.shutdown();
}

#[test]
fn f18_a_permit_that_comes_while_a_writer_runs_goes_to_the_build_that_the_writer_may_wait_for() {
    for class in [LATER, NOW] {
        let bench = Bench::new((8, 3, 1, 1));
        let holds = bench.gated(4, HEAVY, NOW, "Z");
        let first = bench.gated(2, HEAVY, class, "X");
        let writes = bench.write(2, "W");
        let second = bench.gated(3, HEAVY, NOW, "Y");
        assert_eq!(bench.seen(), "+Z +W");
        bench.open(&[&holds]);
        assert_eq!(bench.seen(), "-Z +Y");
        bench.open(&[&writes, &second]);
        assert_eq!(bench.seen(), "-W -Y +X");
        bench.open(&[&first]);
        bench.lanes.shutdown();
    }
}
