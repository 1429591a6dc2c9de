//! Faults that were seen in software of this kind, asked of lanes: who joins, drains, wakes and waits when others end badly.

#[path = "support/lanes.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod support;

use shardrun::{
    ActorRef, CancelOutcome, CoalesceKey, Driver, JobStatus, LaneClass, LaneError, LaneKind, LaneTicket, Lanes,
    LanesConfig, Runtime,
};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use support::Bench;

const READ: LaneKind = LaneKind::PureRead;
const HEAVY: LaneKind = LaneKind::HeavyInit;
const WRITE: LaneKind = LaneKind::Mutating;
const COMMIT: LaneKind = LaneKind::MaintenanceCommit;
const DRAIN: CoalesceKey = CoalesceKey::WATCHER_DRAIN;
const SOON: Duration = Duration::from_secs(300);

fn threads(pool: usize) -> (Runtime, Lanes<u32, ()>) {
    let runtime = Runtime::builder().workers(pool).io_threads(1).build().unwrap();
    let lanes = Lanes::new(&runtime, LanesConfig::preset(pool, 4, pool - 1, 2)).unwrap();
    (runtime, lanes)
}

fn again(lanes: &Lanes<u32, ()>, at: u32, stop: &Arc<AtomicBool>, turns: &Arc<AtomicUsize>) {
    let (inside, stopped, counted) = (lanes.clone(), stop.clone(), turns.clone());
    let job = lanes.job(READ, move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        if !stopped.load(Ordering::Relaxed) {
            again(&inside, 1 - at, &stopped, &counted);
        }
    });
    lanes.submit(&at, job).detach();
}

#[test]
fn b13_two_actors_that_wake_each_other_for_ever_let_others_run() {
    let (_runtime, lanes) = threads(2);
    (0..10).for_each(|key| assert!(lanes.register(key, ())));
    let (stop, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    (0..2).for_each(|_| again(&lanes, 0, &stop, &turns));
    let others: Vec<_> = (0..100).map(|number| lanes.submit(&(2 + number % 8), lanes.job(READ, |_| ()))).collect();
    for mut other in others {
        assert_eq!(other.wait_timeout(SOON), Some(Ok(())), "it runs beside them");
    }
    let before = turns.load(Ordering::Relaxed);
    let (runs, told) = std::sync::mpsc::channel();
    let later = turns.clone();
    lanes
        .submit(
            &9,
            lanes.job(READ, move |_| {
                while later.load(Ordering::Relaxed) <= before {
                    std::thread::yield_now();
                }
                runs.send(()).unwrap();
            }),
        )
        .detach();
    told.recv_timeout(SOON).expect("the two go on");
    stop.store(true, Ordering::Relaxed);
}

#[test]
fn b34_the_last_handle_in_a_queued_job_goes_with_the_runtime() {
    let (runtime, lanes) = threads(2);
    assert!(lanes.register(0, ()));
    let (held, gate) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
    for _ in 0..2 {
        let (held, gate) = (held.clone(), gate.clone());
        runtime
            .execute(move || {
                held.wait();
                gate.wait();
            })
            .unwrap();
    }
    held.wait();
    // Both workers are busy, so the job and its runner stay queued, and nobody but the job has a handle.
    let inside = lanes.clone();
    let mut last = lanes.submit(&0, lanes.job(READ, move |_| drop(inside)));
    drop(lanes);
    runtime.shutdown_within(Duration::ZERO);
    gate.wait();
    assert_eq!(last.wait_timeout(SOON), Some(Err(LaneError::Shutdown)));
    assert_eq!(runtime.shutdown_within(SOON).running, 0, "nobody waits for what it holds itself");
}

#[test]
fn b34_actors_that_stand_in_line_when_the_runtime_goes_are_let_go() {
    let runtime = Runtime::builder().workers(2).io_threads(1).build().unwrap();
    let lanes = Lanes::<u32, Arc<()>>::new(&runtime, LanesConfig::preset(2, 4, 1, 2)).unwrap();
    let context = Arc::new(());
    (0..8).for_each(|key| assert!(lanes.register(key, context.clone())));
    let gate = Arc::new(Barrier::new(3));
    for _ in 0..2 {
        let (held, gate) = (Arc::new(Barrier::new(2)), gate.clone());
        let inside = held.clone();
        runtime
            .execute(move || {
                inside.wait();
                gate.wait();
            })
            .unwrap();
        held.wait();
    }
    // Both workers are busy: two runners are queued, and more actors than they could visit stand in line.
    let lane = |key| if key % 2 == 0 { READ } else { COMMIT };
    let queued: Vec<_> = (0..8).map(|key| lanes.submit(&key, lanes.job(lane(key), |_| ()))).collect();
    let late: Vec<_> = (0..8).map(|key| lanes.submit(&key, lanes.job(COMMIT, |_| ()).maintenance())).collect();
    runtime.shutdown_within(Duration::ZERO);
    gate.wait();
    for handle in queued.into_iter().chain(late) {
        assert_eq!(handle.wait(), Err(LaneError::Shutdown));
    }
    assert_eq!(runtime.shutdown_within(SOON).running, 0);
    drop(lanes);
    assert_eq!(Arc::strong_count(&context), 1, "no actor is left, and none keeps the executor");
}

#[test]
fn b81_of_two_permits_that_come_at_once_to_one_build_the_other_goes_back() {
    let config = LanesConfig::preset(6, 4, 4, 2);
    assert_eq!((config.heavy_permits, config.heavy_reserve), (2, 1), "one of each kind");
    let bench = Bench::with(Driver::Inline, config);
    let reserved = bench.gated(0, HEAVY, LaneClass::Interactive, "reserved");
    let common = bench.gated(1, HEAVY, LaneClass::Interactive, "common");
    let both = bench.gated(2, HEAVY, LaneClass::Interactive, "both");
    assert_eq!(bench.seen(), "+reserved +common");
    // Both end before the third is looked at.
    bench.open(&[&reserved, &common]);
    bench.open(&[&both]);
    assert_eq!(bench.lanes.liveness().heavy_free, 2, "{}", bench.seen());
    let late = bench.gated(3, HEAVY, LaneClass::Maintenance, "late");
    bench.open(&[&late]);
    assert!(late.handle.is_resolved(), "an idle actor has its permit: {}", bench.seen());
}

/// Writes that each submit the next, so that as many come as go.
fn next_write(lanes: &Lanes<u32, support::Log>, number: u32, began: &Arc<Mutex<Vec<u32>>>) {
    let (inside, notes) = (lanes.clone(), began.clone());
    let job = lanes.job(WRITE, move |_| {
        notes.lock().unwrap().push(number);
        if number < 900 {
            next_write(&inside, number + 50, &notes);
        }
    });
    lanes.submit(&0, job).detach();
}

#[test]
fn b24_b25_under_steady_inflow_equals_begin_in_the_order_in_which_they_came() {
    let bench = Bench::new((2, 1, 1, 1));
    let began = Arc::default();
    let write = bench.write(0, "write");
    (0..50).for_each(|number| next_write(&bench.lanes, number, &began));
    bench.open(&[&write]);
    let began = began.lock().unwrap();
    assert_eq!(began.len(), 950);
    assert!(began.is_sorted(), "the first that came is the first to begin, and none is passed");
}

#[test]
fn b37_all_who_drain_are_told_when_all_that_was_submitted_before_is_over_and_not_sooner() {
    let bench = Bench::new((4, 2, 3, 1));
    let running = [bench.read(0, "one"), bench.read(0, "two")];
    let ran = Arc::new(AtomicU32::new(0));
    let count = || {
        let ran = ran.clone();
        bench.lanes.submit(&0, bench.lanes.job(READ, move |_| ran.fetch_add(1, Ordering::Relaxed))).detach();
    };
    (0..50).for_each(|_| count());
    let mut drains: Vec<_> = (0..3).map(|_| bench.lanes.drain(&0)).collect();
    bench.settle();
    (0..50).for_each(|_| count());
    bench.settle();
    assert!(drains.iter_mut().all(|drain| drain.try_get().is_none()), "two still run");
    bench.open(&[&running[0]]);
    assert!(drains.iter_mut().all(|drain| drain.try_get().is_none()), "one still runs");
    bench.open(&[&running[1]]);
    assert!(drains.iter_mut().all(|drain| drain.try_get() == Some(Ok(()))));
    assert_eq!(ran.load(Ordering::Relaxed), 100);
}

#[test]
fn b37_a_drain_of_an_actor_that_is_gone_waits_for_what_still_runs() {
    let bench = Bench::new((4, 2, 3, 1));
    let actor: ActorRef<u32, support::Log> = bench.lanes.actor(&0).unwrap();
    let (one, two) = (bench.read(0, "one"), bench.read(0, "two"));
    let mut before = actor.drain();
    bench.settle();
    assert!(bench.lanes.remove(&0));
    let mut after = actor.drain();
    bench.settle();
    assert!(before.try_get().is_none() && after.try_get().is_none(), "two still run");
    bench.open(&[&one]);
    assert!(before.try_get().is_none() && after.try_get().is_none(), "one still runs");
    bench.open(&[&two]);
    assert_eq!((before.try_get(), after.try_get()), (Some(Ok(())), Some(Ok(()))));
    assert_eq!(actor.drain().try_get(), Some(Ok(())), "nothing runs any more");
}

#[test]
fn b39_a_panic_among_a_thousand_queued_loses_none_and_an_end_answers_all() {
    let bench = Bench::new((2, 1, 1, 1));
    let began: Arc<Mutex<Vec<u32>>> = Arc::default();
    let submit = |key: u32, lane: LaneKind, number: u32, panics: u32| {
        let notes = began.clone();
        let job = bench.lanes.job(lane, move |_| {
            assert_ne!(number, panics, "asked for");
            notes.lock().unwrap().push(number);
        });
        bench.lanes.submit(&key, job.maintenance())
    };
    let held = bench.write(0, "write");
    let mut reads: Vec<_> = (0..500).map(|number| submit(0, READ, number, 10)).collect();
    bench.open(&[&held]);
    let lost: Vec<_> = reads.iter_mut().map(|read| read.try_get().expect("each is answered")).collect();
    assert_eq!(lost.iter().filter(|answer| answer.is_err()).count(), 1);
    assert!(matches!(lost[10], Err(LaneError::Panicked(_))));
    let all: Vec<u32> = (0..500).filter(|number| *number != 10).collect();
    assert_eq!(std::mem::take(&mut *began.lock().unwrap()), all, "in order");
    let held = bench.write(1, "write");
    let mut writes: Vec<_> = (0..500).map(|number| submit(1, WRITE, number, 10)).collect();
    bench.open(&[&held]);
    for (number, write) in writes.iter_mut().enumerate() {
        match write.try_get().expect("each is answered") {
            Ok(()) => assert!(number < 10),
            Err(LaneError::Panicked(_)) => assert_eq!(number, 10),
            Err(error) => assert!(number > 10 && error == LaneError::Fatal),
        }
    }
}

#[test]
fn b40_who_joins_is_answered_however_the_one_that_is_queued_ends_and_the_next_runs_afresh() {
    let bench = Bench::new((4, 2, 3, 1));
    let ran = Arc::new(AtomicU32::new(0));
    for way in ["panics", "is cancelled", "is dropped", "is late"] {
        let write = bench.write(0, "write");
        let counted = ran.clone();
        let job = bench.lanes.job(COMMIT, move |_| {
            assert_ne!(way, "panics", "asked for");
            counted.fetch_add(1, Ordering::Relaxed) + 1
        });
        let job = if way == "is late" { job.deadline(Duration::from_millis(5)) } else { job };
        let first = bench.lanes.submit(&0, job.joined(DRAIN));
        let joins: Vec<_> =
            (0..8).map(|_| bench.lanes.submit(&0, bench.lanes.job(COMMIT, |_| 0_u32).joined(DRAIN))).collect();
        bench.settle();
        match way {
            "is cancelled" => assert_eq!(first.cancel(), CancelOutcome::QueuedRemoved),
            "is late" => bench.pass(Duration::from_millis(6)),
            _ => first.detach(),
        }
        bench.open(&[&write]);
        for mut join in joins {
            let answer = join.try_get().expect("it is answered");
            match way {
                "panics" => assert!(matches!(answer, Err(LaneError::Panicked(_)))),
                "is cancelled" => assert_eq!(answer, Err(LaneError::Cancelled)),
                "is late" => assert_eq!(answer, Err(LaneError::DeadlineExceeded)),
                _ => assert_eq!(answer, Ok(1)),
            }
            assert_eq!(join.ticket().unwrap().status(), JobStatus::Finished);
        }
        let mut fresh = bench.lanes.submit(&0, bench.lanes.job(COMMIT, |_| 7_u32).joined(DRAIN));
        bench.settle();
        assert_eq!(fresh.try_get(), Some(Ok(7)), "the next one runs itself");
    }
    assert_eq!(bench.lanes.actor(&0).unwrap().counts().maintenance_queued, 0);
}

#[test]
fn b40_who_joins_can_be_cancelled_alone_and_is_late_alone() {
    let bench = Bench::new((4, 2, 3, 1));
    let write = bench.write(0, "write");
    let join = || bench.lanes.job(COMMIT, |_| 3).joined(DRAIN);
    let mut first = bench.lanes.submit(&0, join());
    let (mut stays, goes) = (bench.lanes.submit(&0, join()), bench.lanes.submit(&0, join()));
    let late = bench.lanes.submit(&0, join().deadline(Duration::from_millis(5)));
    bench.settle();
    assert_eq!(goes.ticket().unwrap().status(), JobStatus::Queued);
    assert_eq!(goes.cancel(), CancelOutcome::QueuedRemoved);
    assert_eq!(goes.cancel(), CancelOutcome::NotFound);
    assert_eq!(goes.ticket().unwrap().status(), JobStatus::Cancelled);
    assert_eq!(bench.refused(goes), LaneError::Cancelled);
    bench.pass(Duration::from_millis(6));
    assert_eq!(bench.refused(late), LaneError::DeadlineExceeded);
    assert!(first.try_get().is_none() && stays.try_get().is_none());
    bench.open(&[&write]);
    assert_eq!((first.try_get(), stays.try_get()), (Some(Ok(3)), Some(Ok(3))));
    assert_eq!(bench.lanes.actor(&0).unwrap().counts().maintenance_queued, 0);
}

#[test]
fn b40_who_joins_beside_a_cancel_of_the_one_that_is_queued_is_answered() {
    let (_runtime, lanes) = threads(3);
    assert!(lanes.register(0, ()));
    for _ in 0..2_000 {
        let join = || lanes.job(COMMIT, |_| ()).joined(DRAIN);
        let begin = Barrier::new(2);
        std::thread::scope(|scope| {
            let joins = scope.spawn(|| {
                begin.wait();
                (0..4).map(|_| lanes.submit(&0, join())).collect::<Vec<_>>()
            });
            let first = lanes.submit(&0, join());
            begin.wait();
            first.cancel();
            for mut join in joins.join().unwrap() {
                let answer = join.wait_timeout(SOON).expect("it is answered");
                assert!(matches!(answer, Ok(()) | Err(LaneError::Cancelled)), "{answer:?}");
            }
        });
    }
}

#[test]
fn b43_who_waits_for_room_and_is_polled_no_more_does_not_hold_others_up() {
    let mut config = LanesConfig::preset(2, 1, 1, 1);
    config.interactive_queue = 1;
    let bench = Bench::with(Driver::Inline, config);
    let (_held, queued) = (bench.write(0, "held"), bench.read(0, "queued"));
    let actor = bench.lanes.actor(&0).unwrap();
    let wait = || Box::pin(actor.submit_async(bench.lanes.job(READ, |_| ())));
    let mut cx = Context::from_waker(Waker::noop());
    let (mut parked, mut active) = (wait(), wait());
    assert!(parked.as_mut().poll(&mut cx).is_pending() && active.as_mut().poll(&mut cx).is_pending());
    assert_eq!(queued.handle.cancel(), CancelOutcome::QueuedRemoved);
    bench.settle();
    let Poll::Ready(taken) = active.as_mut().poll(&mut cx) else { panic!("there is room") };
    taken.unwrap().detach();
}

#[test]
fn b55_a_result_that_cannot_be_copied_costs_those_alone_who_asked_for_copies() {
    #[derive(Debug, PartialEq)]
    struct Once(u32);
    impl Clone for Once {
        fn clone(&self) -> Self {
            panic!("asked for")
        }
    }
    let bench = Bench::new((4, 2, 3, 1));
    let write = bench.write(0, "write");
    let join = || bench.lanes.submit(&0, bench.lanes.job(COMMIT, |_| Once(1)).joined(DRAIN));
    let (mut first, second, third) = (join(), join(), join());
    bench.settle();
    bench.open(&[&write]);
    assert_eq!(first.try_get(), Some(Ok(Once(1))));
    for other in [second, third] {
        assert!(matches!(bench.refused(other), LaneError::Panicked(_)));
    }
    let mut fresh = join();
    bench.settle();
    assert_eq!(fresh.try_get(), Some(Ok(Once(1))));
}

#[test]
fn b81_b84_a_permit_goes_to_the_next_when_the_first_in_line_gives_up() {
    let bench = Bench::new((4, 2, 3, 1));
    let first = bench.gated(0, HEAVY, LaneClass::Interactive, "first");
    let (head, next) =
        (bench.gated(1, HEAVY, LaneClass::Interactive, "head"), bench.gated(2, HEAVY, LaneClass::Interactive, "next"));
    assert_eq!(bench.seen(), "+first");
    assert_eq!(head.handle.cancel(), CancelOutcome::QueuedRemoved);
    bench.open(&[&first]);
    assert_eq!(bench.seen(), "-first +next");
    let last = bench.gated(3, HEAVY, LaneClass::Interactive, "last");
    assert_eq!(next.handle.cancel(), CancelOutcome::RunningSignalled);
    bench.open(&[&next]);
    assert_eq!(bench.seen(), "-next +last", "a build that was cancelled gives its permit back");
    bench.open(&[&last]);
}

/// An executor on a runtime that its caller drives.
fn driven() -> (Runtime, Lanes<u32, ()>) {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let lanes = Lanes::new(&runtime, LanesConfig::preset(2, 2, 1, 1)).unwrap();
    assert!(lanes.register(0, ()));
    (runtime, lanes)
}

#[test]
fn f11_who_ends_an_executor_somewhere_inside_its_own_job_does_not_wait_for_that_job() {
    for by_another in [false, true] {
        let (_runtime, lanes) = threads(2);
        assert!(lanes.register(0, ()));
        let (ends, (inner, others)) = (lanes.clone(), driven());
        let mut job = lanes.submit(
            &0,
            lanes.job(READ, move |_| {
                if !by_another {
                    return LaneTicket::current().expect("a job runs here").scope(|| ends.shutdown());
                }
                let ended = others.submit(&0, others.job(READ, move |_| ends.shutdown()));
                inner.drive_all();
                assert!(ended.is_resolved());
                others.shutdown();
            }),
        );
        assert_eq!(job.wait_timeout(SOON), Some(Ok(())), "by a job of another executor: {by_another}");
    }
}

#[test]
fn b18_a_read_that_another_executors_job_submits_inside_a_reader_runs_under_the_readers_share() {
    let bench = Bench::new((4, 1, 1, 1));
    let (lanes, log, gate) = (bench.lanes.clone(), bench.log.clone(), support::Gate::default());
    let ((inner, others), at) = (driven(), gate.clone());
    let outer = bench.lanes.future(READ, move |_| async move {
        at.await;
        let nested = others.job(READ, move |_| {
            lanes.submit(&0, lanes.job(READ, move |_| log.lock().unwrap().push("nested".to_owned())))
        });
        let mut submitted = others.submit(&0, nested);
        inner.drive_all();
        let nested = submitted.try_get().expect("it was driven").expect("it has submitted");
        let answer = nested.await;
        others.shutdown();
        answer
    });
    let outer = bench.lanes.submit(&0, outer);
    bench.settle();
    let write = bench.write(0, "write");
    bench.pass(Duration::from_secs(7));
    gate.open();
    bench.settle();
    assert!(outer.is_resolved(), "though a writer is due and there is one read at a time");
    assert_eq!(bench.seen(), "nested +write");
    bench.open(&[&write]);
}
