//! Bounds and what is done at them: coalescing, backpressure, room, deadlines, and the ways to submit.

#[path = "support/lanes.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod support;

use shardrun::{CoalesceKey, Driver, LaneClass, LaneError, LaneHandle, LaneKind, LanesConfig, QueueScope, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use support::{Bench, Log};

const READ: LaneKind = LaneKind::PureRead;
const COMMIT: LaneKind = LaneKind::MaintenanceCommit;
const DRAIN: CoalesceKey = CoalesceKey::WATCHER_DRAIN;

fn keyed(bench: &Bench, key: u32, lane: LaneKind, what: CoalesceKey, ran: &Arc<AtomicU32>) -> LaneHandle<u32> {
    let ran = ran.clone();
    let job = bench.lanes.job(lane, move |_| ran.fetch_add(1, Ordering::Relaxed) + 1);
    bench.lanes.submit(&key, job.coalesced(what))
}

#[test]
fn s69_s73_an_equal_maintenance_job_that_is_queued_will_do() {
    let bench = Bench::new((4, 2, 3, 1));
    let ran = Arc::default();
    let write = bench.write(0, "write");
    let mut first = keyed(&bench, 0, COMMIT, DRAIN, &ran);
    assert_eq!(bench.refused(keyed(&bench, 0, COMMIT, DRAIN, &ran)), LaneError::Coalesced);
    assert_eq!(bench.refused(keyed(&bench, 0, LaneKind::Mutating, DRAIN, &ran)), LaneError::Coalesced);
    bench.open(&[&write]);
    assert_eq!((first.try_get(), ran.load(Ordering::Relaxed)), (Some(Ok(1)), 1));
}

#[test]
fn s70_an_event_after_the_drain_began_is_not_lost() {
    let bench = Bench::new((4, 2, 3, 1));
    let ran = Arc::default();
    let gate = support::Gate::default();
    let at = gate.clone();
    let running = bench.lanes.future(COMMIT, move |_| at).coalesced(DRAIN);
    let running = bench.lanes.submit(&0, running);
    bench.settle();
    let mut next = keyed(&bench, 0, COMMIT, DRAIN, &ran);
    assert_eq!(bench.refused(keyed(&bench, 0, COMMIT, DRAIN, &ran)), LaneError::Coalesced, "one runs, one is queued");
    gate.open();
    bench.settle();
    assert!(running.is_resolved());
    assert_eq!(next.try_get(), Some(Ok(1)));
}

#[test]
fn s71_s72_different_keys_and_different_actors_do_not_coalesce() {
    let bench = Bench::new((4, 2, 3, 1));
    let ran = Arc::default();
    let writes = [bench.write(0, "a"), bench.write(1, "b")];
    let keys = [DRAIN, CoalesceKey::LSP_DRAIN, CoalesceKey::STANDING_PASS, CoalesceKey::new(63).unwrap()];
    let handles: Vec<_> =
        keys.iter().flat_map(|what| [0, 1].map(|key| keyed(&bench, key, COMMIT, *what, &ran))).collect();
    bench.open(&[&writes[0], &writes[1]]);
    assert!(handles.iter().all(|handle| handle.is_resolved()));
    assert_eq!(ran.load(Ordering::Relaxed), 8);
    assert_eq!(CoalesceKey::new(64), None);
}

#[test]
fn a_key_is_free_again_however_its_job_left_the_queue() {
    let bench = Bench::new((4, 2, 3, 1));
    let ran = Arc::default();
    let write = bench.write(0, "write");
    let first = keyed(&bench, 0, COMMIT, DRAIN, &ran);
    first.cancel();
    let second = keyed(&bench, 0, COMMIT, DRAIN, &ran);
    assert!(!second.is_resolved(), "it is queued");
    assert_eq!(bench.lanes.cancel_queued_maintenance(&0), 1);
    let mut third = keyed(&bench, 0, COMMIT, DRAIN, &ran);
    bench.open(&[&write]);
    assert_eq!(third.try_get(), Some(Ok(1)));
}

#[test]
fn s79_f15_who_joins_is_answered_with_the_result_of_the_one_that_is_queued() {
    let bench = Bench::new((4, 2, 3, 1));
    let write = bench.write(0, "write");
    let ran = Arc::new(AtomicU32::new(0));
    let mut handles: Vec<_> = (0..5)
        .map(|_| {
            let ran = ran.clone();
            let job = bench.lanes.job(COMMIT, move |_| ran.fetch_add(1, Ordering::Relaxed) + 1);
            bench.lanes.submit(&0, job.joined(DRAIN))
        })
        .collect();
    bench.settle();
    assert_eq!(bench.lanes.actor(&0).unwrap().counts().maintenance_queued, 1, "those who join need no room");
    let other = bench.lanes.submit(&0, bench.lanes.job(COMMIT, |_| "text").joined(DRAIN));
    bench.open(&[&write]);
    assert!(handles.iter_mut().all(|handle| handle.try_get() == Some(Ok(1))));
    assert_eq!(bench.refused(other), LaneError::Coalesced, "its result would be of another type");
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}

#[test]
fn who_joins_is_told_of_a_cancel_and_of_a_panic() {
    let bench = Bench::new((4, 2, 3, 1));
    let write = bench.write(0, "write");
    let join = |panics: bool| {
        let job = bench.lanes.job(COMMIT, move |_| assert!(!panics, "asked for"));
        bench.lanes.submit(&0, job.joined(DRAIN))
    };
    let (first, second) = (join(false), join(false));
    bench.settle();
    first.cancel();
    bench.settle();
    assert_eq!(bench.refused(second), LaneError::Cancelled);
    let (_third, fourth) = (join(true), join(false));
    bench.open(&[&write]);
    assert!(matches!(bench.refused(fourth), LaneError::Panicked(_)));
}

#[test]
fn s74_s75_s76_f14_at_the_bound_a_job_is_refused_and_says_why() {
    let bench = Bench::new((4, 2, 3, 1));
    let write = bench.write(0, "write");
    let ran = Arc::new(AtomicU32::new(0));
    let submit = |key: u32| {
        let ran = ran.clone();
        let job = bench.lanes.job(COMMIT, move |_| ran.fetch_add(1, Ordering::Relaxed));
        bench.lanes.submit(&key, job.maintenance())
    };
    let first = keyed(&bench, 0, COMMIT, DRAIN, &ran);
    let handles: Vec<_> = (1..512).map(|_| submit(0)).collect();
    let LaneError::Backpressure(full) = bench.refused(submit(0)) else { panic!("it is full") };
    assert_eq!((full.scope, full.depth, full.cap), (QueueScope::Actor, 512, 512));
    assert_eq!(full.class, LaneClass::Maintenance);
    assert!(LaneError::Backpressure(full).is_retryable());
    assert_eq!(LaneError::Backpressure(full).code(), "maintenance_backpressure");
    assert_eq!(bench.refused(keyed(&bench, 0, COMMIT, DRAIN, &ran)), LaneError::Coalesced, "not backpressure");
    let elsewhere = submit(1);
    bench.settle();
    assert!(elsewhere.is_resolved());
    bench.open(&[&write]);
    assert!(first.is_resolved() && handles.iter().all(|handle| handle.is_resolved()));
    assert_eq!(ran.load(Ordering::Relaxed), 513);
}

#[test]
fn s77_what_is_cancelled_makes_room_at_once() {
    let bench = Bench::new((4, 2, 3, 1));
    let write = bench.write(0, "write");
    let submit = || bench.lanes.submit(&0, bench.lanes.job(COMMIT, |_| ()).maintenance());
    let handles: Vec<_> = (0..512).map(|_| submit()).collect();
    handles[100].cancel();
    assert!(!submit().is_resolved());
    assert!(submit().is_resolved(), "exactly one");
    assert_eq!(bench.lanes.cancel_queued_maintenance(&0), 512);
    let again: Vec<_> = (0..512).map(|_| submit()).collect();
    assert!(submit().is_resolved());
    bench.open(&[&write]);
    assert!(again.iter().all(|handle| handle.is_resolved()));
    assert_eq!(bench.lanes.liveness().maintenance.queued, 0);
}

#[test]
fn s80_f26_a_flood_of_submissions_and_cancels_leaves_a_bounded_queue() {
    let bench = Bench::new((4, 2, 3, 1));
    let write = bench.write(0, "write");
    let mut refused = 0;
    for _ in 0..100_000 {
        let handle = bench.lanes.submit(&0, bench.lanes.job(READ, |_| ()));
        refused += usize::from(handle.is_resolved());
    }
    assert_eq!(refused, 100_000 - 1_024);
    assert_eq!(bench.lanes.liveness().interactive.queued, 1_024);
    bench.settle();
    bench.open(&[&write]);
    assert_eq!(bench.lanes.completed(), (1_025, 0));
}

#[test]
fn f26_the_overall_bound_holds_over_actors() {
    let mut config = LanesConfig::preset(4, 2, 3, 1);
    config.interactive_queue_total = 10;
    let bench = Bench::with(Driver::Inline, config);
    let writes = [bench.write(0, "a"), bench.write(1, "b")];
    let handles: Vec<_> =
        (0..12).map(|number| bench.lanes.submit(&(number % 2), bench.lanes.job(READ, |_| ()))).collect();
    let refused: Vec<_> = handles.into_iter().filter(|handle| handle.is_resolved()).collect();
    assert_eq!(refused.len(), 2);
    for handle in refused {
        let LaneError::Backpressure(full) = bench.refused(handle) else { panic!("it is full") };
        assert_eq!((full.scope, full.cap), (QueueScope::Overall, 10));
    }
    bench.open(&[&writes[0], &writes[1]]);
    assert_eq!(bench.lanes.liveness().interactive.queued, 0);
}

#[test]
fn try_submit_gives_the_job_back_to_be_submitted_again() {
    let mut config = LanesConfig::preset(4, 2, 3, 1);
    config.interactive_queue = 1;
    let bench = Bench::with(Driver::Inline, config);
    let write = bench.write(0, "write");
    let queued = bench.lanes.try_submit(&0, bench.lanes.job(READ, |_| 1)).unwrap();
    let rejected = bench.lanes.try_submit(&0, bench.lanes.job(READ, |_| 2)).unwrap_err();
    assert!(rejected.error.is_retryable());
    bench.open(&[&write]);
    assert!(queued.is_resolved());
    let mut again = bench.lanes.try_submit(&0, rejected.job).unwrap();
    bench.settle();
    assert_eq!(again.try_get(), Some(Ok(2)));
    let missing = bench.lanes.try_submit(&99, bench.lanes.job(READ, |_| 3)).unwrap_err();
    assert_eq!(missing.error, LaneError::NotRegistered);
}

#[test]
fn submitters_wait_for_room_on_threads_and_as_futures() {
    let runtime = Runtime::builder().workers(4).io_threads(1).build().unwrap();
    let mut config = LanesConfig::preset(4, 2, 3, 1);
    config.interactive_queue = 4;
    config.interactive_queue_total = 6;
    let lanes: shardrun::Lanes<u32, Log> = shardrun::Lanes::new(&runtime, config).unwrap();
    lanes.register(0, Log::default());
    lanes.register(1, Log::default());
    let ran = Arc::new(AtomicU32::new(0));
    std::thread::scope(|scope| {
        for key in 0..2 {
            for _ in 0..2 {
                let (lanes, ran) = (&lanes, &ran);
                scope.spawn(move || {
                    let actor = lanes.actor(&key).unwrap();
                    for _ in 0..500 {
                        let ran = ran.clone();
                        let job = lanes.job(READ, move |_| ran.fetch_add(1, Ordering::Relaxed));
                        actor.submit_blocking(job).unwrap().detach();
                    }
                });
            }
        }
        let (inner, count) = (lanes.clone(), ran.clone());
        let asynchronous = runtime.spawn_future(async move {
            let actor = inner.actor(&0).unwrap();
            for _ in 0..500 {
                let ran = count.clone();
                let job = inner.job(READ, move |_| ran.fetch_add(1, Ordering::Relaxed));
                actor.submit_async(job).await.unwrap().detach();
            }
        });
        assert_eq!(asynchronous.wait(), Ok(()));
    });
    for key in 0..2 {
        assert_eq!(lanes.drain(&key).wait(), Ok(()));
    }
    assert_eq!(ran.load(Ordering::Relaxed), 2_500);
    assert_eq!(lanes.liveness().interactive.queued, 0);
}

#[test]
fn inside_a_job_nobody_is_made_to_wait_for_room() {
    let runtime = Runtime::builder().workers(2).io_threads(1).build().unwrap();
    let mut config = LanesConfig::preset(2, 1, 1, 1);
    config.interactive_queue = 1;
    let lanes: shardrun::Lanes<u32, Log> = shardrun::Lanes::new(&runtime, config).unwrap();
    lanes.register(0, Log::default());
    let inner = lanes.clone();
    let job = lanes.job(LaneKind::Mutating, move |_| {
        let actor = inner.actor(&0).unwrap();
        actor.submit_blocking(inner.job(READ, |_| ())).unwrap().detach();
        actor.submit_blocking(inner.job(READ, |_| ())).map(drop).unwrap_err().error.is_retryable()
    });
    assert_eq!(lanes.submit(&0, job).wait(), Ok(true));
}

#[test]
fn f27_a_deadline_ends_what_is_queued_and_never_what_runs() {
    let bench = Bench::new((4, 2, 3, 1));
    let write = bench.write(0, "write");
    let second = Duration::from_secs(1);
    let late = bench.lanes.submit(&0, bench.lanes.job(READ, |_| ()).deadline(second));
    let soon = bench.lanes.submit(&0, bench.lanes.job(READ, |_| ()).deadline(3 * second));
    let running = bench.lanes.submit(&1, bench.lanes.future(READ, |_| support::Gate::default()).deadline(second));
    bench.settle();
    bench.pass(second / 2);
    assert!(!late.is_resolved());
    bench.pass(second / 2);
    assert_eq!(bench.refused(late), LaneError::DeadlineExceeded, "though nothing else has happened");
    bench.open(&[&write]);
    assert!(soon.is_resolved());
    bench.pass(5 * second);
    assert!(!running.is_resolved());
    let passed = bench.lanes.submit(&0, bench.lanes.job(READ, |_| ()).deadline(Duration::ZERO));
    assert_eq!(bench.refused(passed), LaneError::DeadlineExceeded);
    bench.lanes.shutdown();
}
