//! Clocks that jump a day ahead, are set back, or stand at their end: ages, deadlines, turns and back-off of lanes.

#[path = "support/lanes.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod support;

use shardrun::{
    Clock, Driver, LaneClass, LaneError, LaneKind, Lanes, LanesConfig, PublishCx, PublishError, PublishPaths,
    Publisher, Quantum, Runtime, View,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use support::{Bench, Log};

const READ: LaneKind = LaneKind::PureRead;
const WRITE: LaneKind = LaneKind::Mutating;
const NOW: LaneClass = LaneClass::Interactive;
const LATER: LaneClass = LaneClass::Maintenance;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// A clock that can be set, also back.
#[derive(Default)]
struct Wall(AtomicU64);

impl Wall {
    fn set(&self, to: Duration) {
        self.0.store(to.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Clock for Wall {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }

    fn advance(&self, by: Duration) -> bool {
        self.0.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
        true
    }
}

fn on_a_wall_clock() -> (Bench, Arc<Wall>) {
    let wall = Arc::new(Wall::default());
    wall.set(DAY);
    let runtime = Runtime::builder().driver(Driver::Inline).clock(wall.clone()).build().unwrap();
    let lanes = Lanes::new(&runtime, LanesConfig::preset(4, 2, 3, 1)).unwrap();
    for key in 0..8 {
        assert!(lanes.register(key, Log::default()));
    }
    (Bench { runtime, lanes, log: Arc::default() }, wall)
}

#[test]
fn a_job_that_comes_after_a_day_in_which_nobody_looked_is_young() {
    let bench = Bench::new((4, 2, 3, 1));
    for day in 0..3 {
        bench.pass(DAY);
        let (write, read) = (bench.write(0, "write"), bench.post(0, READ, NOW, "read"));
        bench.pass(SECOND);
        let oldest = bench.lanes.liveness().interactive.oldest.unwrap();
        assert!((SECOND..=SECOND + SECOND / 3).contains(&oldest), "day {day}: {oldest:?}");
        bench.open(&[&write, &read]);
    }
    // Nor does one that has left a day ago make it old.
    let (write, old) = (bench.write(0, "write"), bench.post(0, READ, NOW, "old"));
    bench.pass(HOUR);
    bench.open(&[&write, &old]);
    let (write, young) = (bench.write(0, "write"), bench.post(0, READ, NOW, "young"));
    let oldest = bench.lanes.liveness().interactive.oldest.unwrap();
    assert!(oldest <= SECOND / 3, "{oldest:?}");
    bench.open(&[&write, &young]);
    assert_eq!(bench.lanes.liveness().interactive.oldest, None);
}

#[test]
fn a_jump_of_a_day_makes_all_due_at_once_and_each_once() {
    let bench = Bench::new((4, 2, 3, 1));
    let (held, kept) = (bench.write(0, "held"), bench.read(1, "kept"));
    let (late, writer) = (bench.lanes.job(READ, |_| ()).deadline(HOUR), bench.post(1, WRITE, NOW, "writer"));
    let late = bench.lanes.submit(&0, late);
    let reads: Vec<_> = (0..4).map(|_| bench.post(1, READ, NOW, "read")).collect();
    let commit = bench.post(0, LaneKind::MaintenanceCommit, LATER, "commit");
    let runs = bench.lanes.submit(&2, bench.lanes.future(READ, |_| support::Gate::default()).deadline(SECOND));
    bench.settle();
    assert_eq!(bench.seen(), "+held +kept +read");
    bench.pass(DAY);
    assert_eq!(bench.refused(late), LaneError::DeadlineExceeded);
    assert!(!runs.is_resolved(), "a deadline ends nothing that runs");
    let long = bench.lanes.take_long_running(HOUR);
    assert_eq!(long.len(), 4, "{long:?}");
    assert!(bench.lanes.take_long_running(HOUR).is_empty(), "each is told once");
    // The readers have run for a day: such a one does not keep others out, and a writer waits for it alone.
    bench.open(&[&kept, &reads[0]]);
    let rest: Vec<_> = reads[1..].iter().collect();
    bench.open(&rest);
    bench.open(&[&writer, &held, &commit]);
    let seen = bench.seen();
    for name in ["held", "kept", "writer", "commit"] {
        assert_eq!(seen.matches(&format!("-{name}")).count(), 1, "{name}: {seen}");
    }
    assert_eq!(seen.matches("-read").count(), 4, "{seen}");
    // What comes after the jump begins to wait then.
    let (writer, reader) = (bench.write(3, "writer"), bench.post(3, WRITE, NOW, "next"));
    let soon = bench.lanes.submit(&3, bench.lanes.job(READ, |_| ()).deadline(SECOND));
    bench.pass(SECOND / 2);
    assert!(!soon.is_resolved());
    let oldest = bench.lanes.liveness().interactive.oldest.unwrap();
    assert!(oldest <= SECOND, "{oldest:?}");
    bench.pass(SECOND / 2);
    assert_eq!(bench.refused(soon), LaneError::DeadlineExceeded);
    bench.open(&[&writer, &reader]);
    bench.lanes.shutdown();
}

#[test]
fn a_clock_that_is_set_back_stands_still_until_it_is_there_again() {
    let (bench, wall) = on_a_wall_clock();
    let write = bench.write(0, "write");
    let (writer, read) = (bench.post(0, WRITE, NOW, "writer"), bench.post(0, READ, NOW, "read"));
    let timed = bench.lanes.submit(&0, bench.lanes.job(READ, |_| ()).deadline(10 * SECOND));
    bench.pass(5 * SECOND);
    let told = bench.lanes.liveness().interactive.oldest.unwrap();
    wall.set(Duration::ZERO);
    bench.settle();
    let set_back = bench.lanes.liveness().interactive.oldest.unwrap();
    assert_eq!(set_back, told, "nobody grows younger, nor older than the clock has told");
    assert!(bench.lanes.running().iter().all(|job| job.age == 5 * SECOND));
    let fresh = bench.post(1, READ, NOW, "fresh");
    let short = bench.lanes.submit(&0, bench.lanes.job(READ, |_| ()).deadline(SECOND));
    bench.pass(HOUR);
    assert!(!timed.is_resolved() && !short.is_resolved(), "no time has passed");
    // Work goes on all the same.
    bench.open(&[&fresh]);
    assert!(fresh.handle.is_resolved());
    wall.set(DAY + 6 * SECOND);
    bench.pass(Duration::ZERO);
    assert_eq!(bench.refused(short), LaneError::DeadlineExceeded);
    assert!(!timed.is_resolved());
    bench.seen();
    bench.open(&[&write]);
    assert_eq!(bench.seen(), "-write +writer", "it is six seconds old, and goes before reads");
    bench.pass(4 * SECOND);
    assert_eq!(bench.refused(timed), LaneError::DeadlineExceeded);
    bench.open(&[&writer, &read]);
    assert_eq!(bench.seen(), "-writer +read -read");
    assert_eq!(bench.lanes.liveness().phantoms, 0);
}

#[test]
fn at_the_end_of_all_time_every_lane_still_runs() {
    let bench = Bench::new((4, 2, 3, 1));
    let queued = (bench.write(0, "write"), bench.post(0, READ, NOW, "read"));
    let late = bench.lanes.submit(&0, bench.lanes.job(READ, |_| ()).deadline(Duration::MAX));
    bench.pass(Duration::MAX);
    bench.pass(Duration::MAX);
    bench.open(&[&queued.0, &queued.1]);
    // All the time there is has passed; for what comes now none passes any more.
    drop(late);
    for lane in [READ, LaneKind::SerialLspStatus, LaneKind::HeavyInit, WRITE, LaneKind::MaintenanceCommit] {
        for class in [NOW, LATER] {
            let gated = bench.gated(1, lane, class, "job");
            bench.open(&[&gated]);
            assert!(gated.handle.is_resolved(), "{lane:?} {class:?}");
        }
    }
    let timed = bench.lanes.submit(&2, bench.lanes.job(WRITE, |_| 7).deadline(SECOND));
    bench.pass(DAY);
    assert_eq!(timed.wait(), Ok(7));
    assert_eq!(bench.lanes.liveness().interactive.oldest, None);
}

/// Reads of actor 0 that run before one of actor 1 that came after them, where shares are measured: each read moves the clock so far.
fn ran_before(first: Duration, each: Duration) -> usize {
    const FLOOD: u32 = 14_000;
    let wall = Arc::new(Wall::default());
    let runtime = Runtime::builder().driver(Driver::Inline).clock(wall.clone()).build().unwrap();
    let mut config = LanesConfig::preset(4, 2, 3, 1);
    config.quantum = Quantum::Time(Duration::from_millis(1));
    (config.interactive_queue, config.interactive_queue_total) = (FLOOD, 2 * FLOOD);
    let lanes: Lanes<u32, ()> = Lanes::new(&runtime, config).unwrap();
    assert!(lanes.register(0, ()) && lanes.register(1, ()));
    let moves = |key: u32, by: Duration| {
        let wall = wall.clone();
        lanes.submit(&key, lanes.job(READ, move |_| wall.advance(by)))
    };
    let own = moves(1, first);
    runtime.drive_all();
    assert!(own.is_resolved());
    let flood: Vec<_> = (0..FLOOD).map(|_| moves(0, each)).collect();
    let one = moves(1, each);
    while !one.is_resolved() {
        assert!(runtime.drive_one());
    }
    let before = flood.iter().filter(|handle| handle.is_resolved()).count();
    runtime.drive_all();
    assert!(flood.iter().all(|handle| handle.is_resolved()));
    before
}

#[test]
fn where_shares_are_measured_neither_a_clock_that_stands_nor_one_that_jumps_starves_an_actor() {
    let millisecond = Duration::from_millis(1);
    let fair = ran_before(millisecond, millisecond);
    assert!(fair <= 8, "{fair}");
    let stands = ran_before(Duration::ZERO, Duration::ZERO);
    assert!(stands <= 2_100, "{stands} while the clock stood still");
    let jumped = ran_before(DAY, millisecond);
    assert!(jumped <= 10_100, "{jumped} after a job during which a day passed");
}

/// A view that fails a number of times.
struct Fails(Arc<AtomicUsize>);

impl View<()> for Fails {
    type Path = u32;
    type Built = ();

    fn build(&self, _: &PublishCx<()>, _: &PublishPaths<u32>) -> Result<(), PublishError> {
        let fails = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if fails { Err(PublishError::Failed("asked for".into())) } else { Ok(()) }
    }

    fn install(&self, (): &(), (): ()) {}
}

#[test]
fn a_jump_has_a_failed_publication_tried_once_more_and_a_clock_set_back_does_not_lose_it() {
    let wall = Arc::new(Wall::default());
    wall.set(DAY);
    let runtime = Runtime::builder().driver(Driver::Inline).clock(wall.clone()).build().unwrap();
    let lanes: Lanes<u32, ()> = Lanes::new(&runtime, LanesConfig::preset(4, 2, 3, 1)).unwrap();
    assert!(lanes.register(0, ()));
    let left = Arc::new(AtomicUsize::new(6));
    let publisher = Publisher::new(&lanes, Fails(left.clone()));
    publisher.publish(&0, [1]).unwrap();
    runtime.drive_all();
    let tried = || 6 - left.load(Ordering::SeqCst);
    assert_eq!(tried(), 1);
    // As many waits fit into a day, but they are not made up for.
    runtime.advance(DAY);
    runtime.drive_all();
    assert_eq!(tried(), 2);
    // Two seconds are to be waited for.
    wall.set(Duration::ZERO);
    runtime.advance(HOUR);
    runtime.drive_all();
    assert_eq!(tried(), 2);
    wall.set(2 * DAY + 2 * SECOND);
    runtime.advance(Duration::ZERO);
    runtime.drive_all();
    assert_eq!(tried(), 3);
    while !publisher.health().is_empty() {
        runtime.advance(HOUR);
        runtime.drive_all();
    }
    assert_eq!(left.load(Ordering::SeqCst), 0);
    assert!(lanes.is_idle(&0));
}
