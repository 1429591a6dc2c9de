//! An executor at its limits: the smallest one, permits under every way to end, jobs that never end, background that is asked for
//! again and again, and what a host must still be told then.

#[path = "support/lanes.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod support;

use shardrun::{
    ActorOptions, Blocker, CoalesceKey, Driver, LaneClass, LaneError, LaneHandle, LaneKind, LanesConfig,
    LanesConfigError, Quantum,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use support::{Bench, Gate, Log};

const READ: LaneKind = LaneKind::PureRead;
const HEAVY: LaneKind = LaneKind::HeavyInit;
const COMMIT: LaneKind = LaneKind::MaintenanceCommit;
const NOW: LaneClass = LaneClass::Interactive;
const LATER: LaneClass = LaneClass::Maintenance;

/// Numbers that look random, from a seed that is printed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        println!("seed {seed}");
        Self(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn b16_background_that_is_asked_for_again_runs_once_at_a_time_and_leaves_a_slot_for_a_person() {
    let bench = Bench::new((2, 1, 1, 1));
    let (gate, runs) = (Gate::default(), Arc::new(AtomicU32::new(0)));
    let ask = || {
        let (at, counted) = (gate.clone(), runs.clone());
        let pass = bench.lanes.future(COMMIT, move |_| async move {
            counted.fetch_add(1, Ordering::Relaxed);
            at.await;
        });
        let handle = bench.lanes.submit(&0, pass.coalesced(CoalesceKey::STANDING_PASS));
        bench.settle();
        handle
    };
    let asked: Vec<LaneHandle<()>> = (0..6).map(|_| ask()).collect();
    assert_eq!(runs.load(Ordering::Relaxed), 1, "one runs, one is queued");
    let coalesced = asked.into_iter().skip(2).map(|handle| bench.refused(handle));
    assert!(coalesced.into_iter().all(|error| error == LaneError::Coalesced));
    for key in [0, 1] {
        let read = bench.read(key, "read");
        assert_eq!(bench.seen(), "+read", "at once");
        bench.open(&[&read]);
        bench.seen();
    }
    gate.open();
    bench.settle();
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

#[test]
fn b80_permits_and_places_are_within_bounds_at_every_step_and_all_there_at_the_end() {
    let config = LanesConfig::preset(6, 2, 5, 2);
    let bench = Bench::with(Driver::Inline, config.clone());
    let mut random = Random::new(80);
    let mut open: Vec<support::Gated> = Vec::new();
    for _ in 0..3_000 {
        let (key, class) = (random.below(8) as u32, if random.below(2) == 0 { NOW } else { LATER });
        match random.below(10) {
            0..3 => open.push(bench.post(key, HEAVY, class, "build")),
            3 => open.push(bench.post(key, COMMIT, LATER, "commit")),
            4 => {
                // Answered before it is queued, or while it is, or by a panic.
                let late =
                    bench.lanes.job(HEAVY, |_| panic!("asked for")).deadline(Duration::from_millis(random.below(3)));
                bench.lanes.submit(&key, late).detach();
            }
            5 => drop(bench.lanes.reset(key, Log::default())),
            6 if !open.is_empty() => {
                open[random.below(open.len() as u64) as usize].handle.cancel();
            }
            7 => bench.pass(Duration::from_millis(random.below(4))),
            _ if !open.is_empty() => {
                let ends = open.swap_remove(random.below(open.len() as u64) as usize);
                ends.gate.open();
            }
            _ => {}
        }
        if random.below(3) == 0 {
            bench.settle();
        }
        let live = bench.lanes.liveness();
        let builds: usize = bench.lanes.running().iter().filter(|job| job.lane == HEAVY).count();
        assert!(builds <= config.heavy_permits && live.heavy_free as usize <= config.heavy_permits);
        assert!(live.maintenance.running <= config.maintenance_cap + 1, "one beyond the cap has waited its age");
        assert!(live.idle <= config.pool);
    }
    open.iter().for_each(|gated| gated.gate.open());
    bench.settle();
    let live = bench.lanes.liveness();
    assert_eq!((live.heavy_free as usize, live.idle), (config.heavy_permits, config.pool));
    assert_eq!((live.interactive.queued, live.maintenance.queued, live.phantoms), (0, 0, 0));
}

#[test]
fn b87_the_smallest_executor_runs_a_job_of_every_lane_and_class() {
    let bench = Bench::new((0, 0, 0, 0));
    for lane in LaneKind::ALL {
        for class in LaneClass::ALL {
            let mut gated = bench.gated(0, lane, class, "job");
            bench.open(&[&gated]);
            assert_eq!(gated.handle.try_get(), Some(Ok("job")), "{lane} {class}");
        }
    }
}

#[test]
fn b89_jobs_that_never_end_are_told_of_and_one_actor_never_has_all_slots() {
    let bench = Bench::new((2, 2, 2, 1));
    let services = [bench.read(0, "service"), bench.read(0, "another")];
    assert_eq!(bench.seen(), "+service", "a slot is left to others");
    let other = bench.read(1, "other");
    assert_eq!(bench.seen(), "+other");
    let write = bench.write(2, "write");
    assert_eq!(bench.seen(), "", "all slots are taken by what never ends");
    bench.pass(Duration::from_secs(60));
    assert_eq!(bench.lanes.liveness().idle, 0);
    assert!(bench.lanes.blockers(&write.ticket()).contains(&Blocker::NoIdleSlot));
    assert!(bench.lanes.liveness().interactive.oldest >= Some(Duration::from_secs(60)));
    let long: Vec<_> = bench.lanes.take_long_running(Duration::from_secs(60)).iter().map(|job| job.label).collect();
    assert_eq!(long, ["service", "other"]);
    bench.open(&[&services[0], &services[1], &other, &write]);
}

#[test]
fn s67_s68_a_cancel_of_queued_maintenance_touches_nothing_that_runs_and_nothing_interactive() {
    let bench = Bench::new((4, 2, 3, 1));
    let running = bench.commit(0, "running");
    let write = bench.write(0, "write");
    let mut queued: Vec<_> = ["one", "two"].map(|name| bench.gated(0, COMMIT, LATER, name)).into();
    assert_eq!(bench.seen(), "+running");
    assert_eq!(bench.lanes.cancel_queued_maintenance(&0), 2);
    queued.iter_mut().for_each(|job| assert_eq!(job.handle.try_get(), Some(Err(LaneError::Cancelled))));
    assert_eq!(bench.lanes.cancel_queued_maintenance(&0), 0);
    assert_eq!(bench.lanes.cancel_queued_maintenance(&99), 0, "unknown");
    let later = bench.read(0, "later");
    bench.open(&[&running, &later]);
    assert_eq!(bench.seen(), "+later -running -later +write");
    let mut running = running;
    assert_eq!(running.handle.try_get(), Some(Ok("running")));
    bench.open(&[&write]);
}

#[test]
fn r9_what_is_configured_is_what_is_kept_and_shown() {
    let config = LanesConfig::preset(5, 9, 9, 9);
    let bench = Bench::with(Driver::Inline, config.clone());
    assert_eq!(bench.lanes.config(), &config);
    let live = bench.lanes.liveness();
    assert_eq!((live.interactive_reserve, live.maintenance_cap), (config.interactive_reserve, config.maintenance_cap));
    // A quantum of nothing is refused by name, not taken as another.
    for quantum in [Quantum::Jobs(0), Quantum::Time(Duration::ZERO)] {
        let mut wrong = config.clone();
        wrong.quantum = quantum;
        let refused = shardrun::Lanes::<u32, Log>::new(&bench.runtime, wrong).unwrap_err();
        assert!(matches!(refused, LanesConfigError { option: "quantum", .. }), "{refused}");
    }
}

#[test]
fn r14_r60_a_fresh_actor_takes_its_turn_behind_those_that_wait() {
    let bench = Bench::new((2, 1, 1, 1));
    let held = [bench.read(0, "held"), bench.read(1, "too")];
    let older = [bench.post(2, READ, NOW, "second"), bench.post(3, READ, NOW, "third")];
    assert!(bench.lanes.register_with(50, Log::default(), ActorOptions::default()).is_ok());
    let fresh = bench.post(50, READ, NOW, "fresh");
    bench.settle();
    bench.seen();
    bench.open(&[&held[0]]);
    bench.open(&[&older[0]]);
    bench.open(&[&older[1]]);
    assert_eq!(bench.seen(), "-held +second -second +third -third +fresh");
    bench.open(&[&held[1], &fresh]);
}

#[test]
fn r29_r30_r94_numbers_need_not_be_unique_and_answers_need_not_be_taken() {
    let bench = Bench::new((4, 2, 3, 1));
    let ran = Arc::new(AtomicU32::new(0));
    for _ in 0..10 {
        let counted = ran.clone();
        let job = bench.lanes.job(READ, move |cx| counted.fetch_add(cx.id() as u32, Ordering::Relaxed));
        // The answer is dropped with its handle.
        drop(bench.lanes.submit(&0, job.named(7, "same")));
    }
    bench.settle();
    assert_eq!(ran.load(Ordering::Relaxed), 70);
    assert!(bench.lanes.is_idle(&0));
}

#[test]
fn r77_what_a_panicking_build_was_to_install_is_not_installed() {
    let bench = Bench::new((4, 2, 3, 1));
    let log = bench.log.clone();
    let build = |panics: bool| {
        let log = log.clone();
        let job = bench
            .lanes
            .heavy(move |_| assert!(!panics, "asked for"), move |_, ()| log.lock().unwrap().push("install".into()));
        bench.lanes.submit(&0, job)
    };
    let broken = build(true);
    bench.settle();
    assert!(matches!(bench.refused(broken), LaneError::Panicked(_)));
    assert_eq!((bench.seen().as_str(), bench.lanes.is_fatal(&0)), ("", false));
    let mut whole = build(false);
    bench.settle();
    assert_eq!((whole.try_get(), bench.seen().as_str()), (Some(Ok(())), "install"));
    assert_eq!(bench.lanes.liveness().phantoms, 0);
    let write = bench.write(0, "write");
    bench.open(&[&write]);
}
