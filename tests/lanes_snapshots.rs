//! What can be seen from outside: liveness, ages, running jobs, long-running ones once, why a writer waits, counts.

#[path = "support/lanes.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod support;

use shardrun::{Blocker, JobStatus, LaneClass, LaneKind, Lanes, LanesConfig, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{Bench, Log};

const READ: LaneKind = LaneKind::PureRead;
const WRITE: LaneKind = LaneKind::Mutating;
const NOW: LaneClass = LaneClass::Interactive;
const LATER: LaneClass = LaneClass::Maintenance;
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn s104_an_idle_executor_shows_nothing() {
    let bench = Bench::new((8, 4, 4, 3));
    let live = bench.lanes.liveness();
    assert_eq!((live.interactive.queued, live.interactive.running, live.interactive.oldest), (0, 0, None));
    assert_eq!((live.maintenance.queued, live.maintenance.running, live.maintenance.oldest), (0, 0, None));
    assert_eq!((live.interactive_reserve, live.maintenance_cap, live.idle, live.heavy_free), (2, 6, 8, 3));
    assert_eq!(live.phantoms, 0);
}

#[test]
fn s105_r99_an_age_grows_without_any_event_also_of_what_came_at_the_first_moment() {
    let bench = Bench::new((4, 2, 3, 1));
    let write = bench.write(0, "write");
    let queued = bench.post(0, READ, NOW, "queued");
    let later = bench.post(0, WRITE, LATER, "later");
    for second in 0..20_u32 {
        let live = bench.lanes.liveness();
        assert_eq!((live.interactive.queued, live.interactive.oldest), (1, Some(second * SECOND)));
        assert_eq!(live.maintenance.oldest, Some(second * SECOND));
        bench.pass(SECOND);
    }
    bench.open(&[&write, &later]);
    assert_eq!(bench.lanes.liveness().interactive.oldest, None, "the maintenance had waited its age, and went first");
    bench.open(&[&queued]);
    let again = bench.write(0, "again");
    let young = bench.post(0, READ, NOW, "young");
    bench.pass(3 * SECOND);
    let oldest = bench.lanes.liveness().interactive.oldest.unwrap();
    assert!((3 * SECOND..=3 * SECOND + SECOND / 3).contains(&oldest), "{oldest:?}");
    bench.open(&[&again, &young]);
}

#[test]
fn ages_beyond_half_a_minute_are_never_told_too_young() {
    let bench = Bench::new((4, 2, 3, 1));
    let write = bench.write(0, "write");
    let old = bench.post(0, READ, NOW, "old");
    bench.pass(100 * SECOND);
    let young = bench.post(1, WRITE, NOW, "young");
    let blocker = bench.write(1, "blocker");
    assert_eq!(bench.lanes.liveness().interactive.oldest, Some(100 * SECOND));
    bench.open(&[&write, &old]);
    let oldest = bench.lanes.liveness().interactive.oldest.unwrap();
    assert!(oldest <= 100 * SECOND, "{oldest:?}");
    bench.open(&[&young, &blocker]);
    assert_eq!(bench.lanes.liveness().interactive.oldest, None);
}

#[test]
fn s106_a_look_at_liveness_never_waits() {
    let runtime = Runtime::builder().workers(2).io_threads(1).build().unwrap();
    let lanes: Lanes<u32, Log> = Lanes::new(&runtime, LanesConfig::preset(2, 1, 1, 1)).unwrap();
    for key in 0..100 {
        lanes.register(key, Log::default());
    }
    // The median of many.
    let looks = |lanes: &Lanes<u32, Log>| {
        let mut took: Vec<Duration> = (0..20_000)
            .map(|_| {
                let begun = Instant::now();
                std::hint::black_box(lanes.liveness());
                begun.elapsed()
            })
            .collect();
        took.sort();
        took[took.len() / 2]
    };
    let alone = looks(&lanes);
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (lanes, flag) = (&lanes, stop.clone());
        scope.spawn(move || {
            let mut key = 0;
            while !flag.load(Ordering::Relaxed) {
                key = (key + 1) % 100;
                lanes.submit(&key, lanes.job(READ, |_| ())).detach();
            }
        });
        let beside = looks(lanes);
        stop.store(true, Ordering::Relaxed);
        // The machine may take the thread away at any time; a lock would show in the median.
        assert!(beside < Duration::from_micros(20) + 20 * alone, "{beside:?}, and {alone:?} alone");
    });
}

#[test]
fn s107_s108_s109_f30_it_says_why_a_writer_has_not_begun() {
    let bench = Bench::new((4, 2, 3, 1));
    let read = bench.read(0, "read");
    let commit = bench.commit(0, "commit");
    bench.pass(2 * SECOND);
    let (first, second) = (bench.write(0, "first"), bench.write(0, "second"));
    let elsewhere = [bench.read(1, "a"), bench.read(2, "b")];
    let expected = [
        Blocker::Writers(2),
        Blocker::Readers(1, 2 * SECOND),
        Blocker::Commit(2 * SECOND),
        Blocker::Maintenance(1),
        Blocker::NoIdleSlot,
    ];
    assert_eq!(bench.lanes.blockers(&second.ticket()), expected);
    bench.pass(4 * SECOND);
    let blockers = bench.lanes.blockers(&first.ticket());
    assert_eq!(blockers[1].to_string(), "waiting_on_readers_stuck(1, oldest 6s)");
    bench.open(&[&read, &commit]);
    assert_eq!(bench.lanes.blockers(&first.ticket()), [], "it runs");
    assert_eq!(bench.lanes.blockers(&second.ticket())[0], Blocker::Writers(2));
    bench.open(&[&first, &second, &elsewhere[0], &elsewhere[1]]);
}

#[test]
fn s110_f29_a_ticket_says_where_its_job_stands() {
    let bench = Bench::new((4, 2, 3, 1));
    let (write, read) = (bench.write(0, "write"), bench.post(0, READ, NOW, "read"));
    let behind = bench.write(0, "behind");
    let status = [&write, &read, &behind].map(|gated| gated.ticket().status());
    assert_eq!(status, [JobStatus::Running, JobStatus::Queued, JobStatus::BlockedByOtherMutating]);
    assert_eq!(status[2].to_string(), "blocked_by_other_mutating");
    bench.open(&[&write, &read]);
    assert_eq!(behind.ticket().status(), JobStatus::Running);
    bench.open(&[&behind]);
    assert_eq!(behind.ticket().status(), JobStatus::Finished);
}

#[test]
fn s111_f2_a_census_reports_each_long_running_interactive_job_once() {
    let bench = Bench::new((8, 4, 7, 1));
    let jobs = [bench.read(3, "b"), bench.read(1, "a"), bench.read(1, "c"), bench.commit(2, "m")];
    bench.pass(10 * SECOND - Duration::from_nanos(1));
    assert!(bench.lanes.take_long_running(10 * SECOND).is_empty());
    bench.pass(Duration::from_nanos(1));
    let found = bench.lanes.take_long_running(10 * SECOND);
    let names: Vec<_> = found.iter().map(|job| (*job.actor.as_ref().unwrap().key(), job.label, job.age)).collect();
    assert_eq!(names.len(), 3, "maintenance is not listed, and equal numbers are no matter: {found:?}");
    assert_eq!((names[0].0, names[1].0, names[2]), (1, 1, (3, "b", 10 * SECOND)));
    assert!(bench.lanes.take_long_running(Duration::ZERO).is_empty());
    let late = bench.read(5, "late");
    assert_eq!(bench.lanes.take_long_running(Duration::ZERO).len(), 1);
    bench.open(&jobs.iter().collect::<Vec<_>>());
    bench.open(&[&late]);
}

#[test]
fn running_jobs_are_listed_with_their_actors_also_of_actors_that_are_gone() {
    let bench = Bench::new((8, 4, 7, 1));
    let (write, read, commit) = (bench.write(0, "write"), bench.read(1, "read"), bench.commit(2, "commit"));
    let all: Vec<_> = bench.lanes.running().iter().map(|job| (job.lane, job.class, job.label)).collect();
    let expected = [(WRITE, NOW, "write"), (READ, NOW, "read"), (LaneKind::MaintenanceCommit, LATER, "commit")];
    assert_eq!(all, expected);
    let writers = bench.lanes.running_writers();
    assert_eq!((writers.len(), writers[0].label), (1, "write"));
    bench.lanes.remove(&1);
    assert!(bench.lanes.running()[1].actor.is_none());
    let counts = bench.lanes.actor(&2).unwrap().counts();
    assert_eq!((counts.commits, counts.writers, counts.maintenance_queued), (1, 0, 0));
    bench.open(&[&write, &read, &commit]);
    assert!(bench.lanes.running().is_empty());
}

#[test]
fn s112_completions_are_counted_by_class_panics_too_and_refusals_not() {
    let bench = Bench::new((4, 2, 3, 1));
    let submit = |panics: bool, later: bool| {
        let job = bench.lanes.job(LaneKind::HeavyInit, move |_| assert!(!panics, "asked for"));
        bench.lanes.submit(&0, if later { job.maintenance() } else { job }).detach();
    };
    (0..5).for_each(|number| submit(number == 2, false));
    (0..3).for_each(|number| submit(number == 1, true));
    bench.lanes.submit(&99, bench.lanes.job(READ, |_| ())).detach();
    bench.settle();
    assert_eq!(bench.lanes.completed(), (5, 3));
}

#[test]
fn s95_f21_right_after_an_answer_the_slot_is_free() {
    let runtime = Runtime::builder().workers(2).io_threads(1).build().unwrap();
    let lanes: Lanes<u32, Log> = Lanes::new(&runtime, LanesConfig::preset(2, 1, 1, 1)).unwrap();
    lanes.register(0, Log::default());
    for round in 0..2_000 {
        let lane = LaneKind::ALL[round % 5];
        assert_eq!(lanes.submit(&0, lanes.job(lane, |_| ())).wait(), Ok(()));
        assert!(lanes.is_idle(&0), "round {round}");
        let live = lanes.liveness();
        assert_eq!((live.interactive.running, live.interactive.queued), (0, 0));
    }
}
