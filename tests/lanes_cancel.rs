//! Cancelling: queued, claimed, running, sealed and finished jobs, on this thread and others; each job is answered once.

#[path = "support/lanes.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod support;

use shardrun::{CancelOutcome, JobStatus, LaneClass, LaneError, LaneKind, LaneTicket, Lanes, LanesConfig, Runtime};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::time::Duration;
use support::{Bench, Log};

const READ: LaneKind = LaneKind::PureRead;
const WRITE: LaneKind = LaneKind::Mutating;
const SOON: Duration = Duration::from_secs(300);

fn threads(pool: usize) -> (Runtime, Lanes<u32, Log>) {
    let runtime = Runtime::builder().workers(pool).io_threads(1).build().unwrap();
    let lanes = Lanes::new(&runtime, LanesConfig::preset(pool, 4, pool - 1, 2)).unwrap();
    for key in 0..8 {
        lanes.register(key, Log::default());
    }
    (runtime, lanes)
}

#[test]
fn s81_s86_what_is_queued_is_taken_out_and_never_runs() {
    let bench = Bench::new((4, 2, 3, 1));
    let (first, second) = (bench.write(0, "first"), bench.write(0, "second"));
    let ticket = second.ticket();
    assert_eq!(ticket.status(), JobStatus::BlockedByOtherMutating);
    assert_eq!(bench.lanes.cancel(&0, &ticket), CancelOutcome::QueuedRemoved);
    assert_eq!(bench.lanes.cancel(&0, &ticket), CancelOutcome::NotFound);
    assert_eq!(bench.refused(second.handle), LaneError::Cancelled);
    bench.open(&[&first]);
    assert_eq!(bench.seen(), "+first -first");
    assert_eq!(ticket.status(), JobStatus::Cancelled);
}

#[test]
fn s82_s86_a_running_job_sees_the_cancel_and_answers_itself() {
    let bench = Bench::new((4, 2, 3, 1));
    let gate = support::Gate::default();
    let at = gate.clone();
    let job = bench.lanes.future(WRITE, move |cx| async move {
        at.await;
        (cx.is_cancelled(), cx.check().is_err(), cx.seal())
    });
    let mut handle = bench.lanes.submit(&0, job);
    bench.settle();
    let ticket = handle.ticket().unwrap().clone();
    assert_eq!(ticket.status(), JobStatus::Running);
    assert_eq!(ticket.cancel(), CancelOutcome::RunningSignalled);
    assert_eq!(ticket.cancel(), CancelOutcome::NotFound);
    let next = bench.write(0, "next");
    gate.open();
    bench.settle();
    assert_eq!(handle.try_get(), Some(Ok((true, true, false))));
    assert_eq!((ticket.status(), ticket.cancel()), (JobStatus::Finished, CancelOutcome::NotFound));
    assert_eq!(bench.seen(), "+next");
    bench.open(&[&next]);
}

#[test]
fn s83_a_sealed_job_does_not_see_the_cancel() {
    let bench = Bench::new((4, 2, 3, 1));
    let gate = support::Gate::default();
    let at = gate.clone();
    let job = bench.lanes.future(WRITE, move |cx| async move {
        assert!(cx.seal() && cx.seal());
        at.await;
        cx.is_cancelled()
    });
    let mut handle = bench.lanes.submit(&0, job);
    bench.settle();
    let ticket = handle.ticket().unwrap().clone();
    assert_eq!(ticket.status(), JobStatus::Committed);
    assert_eq!(ticket.cancel(), CancelOutcome::RunningCommitted);
    gate.open();
    bench.settle();
    assert_eq!(handle.try_get(), Some(Ok(false)));
    assert_eq!(ticket.cancel(), CancelOutcome::Finished);
    assert!(ticket.seal(), "it has sealed, for good");
}

#[test]
fn f13_a_queued_job_cannot_be_sealed_and_a_wrong_actor_finds_nothing() {
    let bench = Bench::new((4, 2, 3, 1));
    let (first, second) = (bench.write(0, "first"), bench.write(0, "second"));
    let ticket = second.ticket();
    assert!(!ticket.seal());
    assert_eq!(bench.lanes.cancel(&1, &ticket), CancelOutcome::NotFound);
    assert!(!ticket.is_cancelled(), "it was not touched");
    bench.open(&[&first]);
    bench.open(&[&second]);
    assert_eq!(bench.seen(), "+first -first +second -second");
    assert_eq!(ticket.cancel(), CancelOutcome::Finished);
}

#[test]
fn s84_of_a_seal_and_a_cancel_exactly_one_wins() {
    let (_runtime, lanes) = threads(4);
    for _ in 0..2_000 {
        let barrier = Arc::new(Barrier::new(2));
        let at = barrier.clone();
        let job = lanes.job(WRITE, move |cx| {
            at.wait();
            (cx.seal(), cx.is_cancelled())
        });
        let handle = lanes.submit(&0, job);
        let ticket = handle.ticket().unwrap().clone();
        barrier.wait();
        let outcome = ticket.cancel();
        let (sealed, _) = handle.wait().unwrap();
        match outcome {
            CancelOutcome::RunningSignalled => assert!(!sealed),
            CancelOutcome::RunningCommitted | CancelOutcome::Finished => assert!(sealed),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn s90_what_is_cancelled_while_queued_is_answered_once_and_does_not_run() {
    let bench = Bench::new((4, 2, 3, 1));
    let first = bench.write(0, "first");
    let ran = Arc::new(AtomicBool::new(false));
    let flag = ran.clone();
    let handle = bench.lanes.submit(&0, bench.lanes.job(READ, move |_| flag.store(true, Ordering::Relaxed)));
    let token = handle.ticket().unwrap().token();
    assert_eq!(handle.cancel(), CancelOutcome::QueuedRemoved);
    assert!(token.is_cancelled());
    assert_eq!(bench.refused(handle), LaneError::Cancelled);
    bench.open(&[&first]);
    assert!(!ran.load(Ordering::Relaxed));
}

#[test]
fn s92_each_job_either_runs_or_is_cancelled_and_is_answered_once() {
    let (_runtime, lanes) = threads(4);
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let lanes = &lanes;
            scope.spawn(move || {
                let mut random = thread + 1;
                for _ in 0..10_000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let lane = LaneKind::ALL[(random >> 33) as usize % 5];
                    let ran = Arc::new(AtomicU32::new(0));
                    let count = ran.clone();
                    let job = lanes.job(lane, move |_| count.fetch_add(1, Ordering::Relaxed));
                    let job = if random >> 41 & 1 == 0 { job.maintenance() } else { job };
                    let handle = lanes.submit(&((random >> 50) as u32 % 8), job);
                    let outcome = if random >> 43 & 1 == 0 { Some(handle.cancel()) } else { None };
                    let answer = handle.wait();
                    let ran = ran.load(Ordering::Relaxed);
                    match answer {
                        Ok(0) => assert_eq!(ran, 1),
                        Err(LaneError::Cancelled) => assert_eq!(ran, 0),
                        other => panic!("{other:?}"),
                    }
                    let removed =
                        matches!(outcome, Some(CancelOutcome::QueuedRemoved | CancelOutcome::DispatchedCancelled));
                    assert_eq!(removed, ran == 0, "{outcome:?}");
                }
            });
        }
    });
    for key in 0..8 {
        assert_eq!(lanes.drain(&key).wait(), Ok(()));
        assert!(lanes.is_idle(&key));
    }
    let live = lanes.liveness();
    assert_eq!((live.interactive.queued, live.maintenance.queued, live.phantoms), (0, 0, 0));
}

#[test]
fn r90_a_cancel_before_the_start_changes_nothing_of_what_has_begun() {
    let bench = Bench::new((4, 2, 3, 1));
    let (first, second) = (bench.write(0, "first"), bench.write(0, "second"));
    let (running, queued) = (first.ticket(), second.ticket());
    assert_eq!(bench.lanes.cancel_before_start(&0, &running), CancelOutcome::AlreadyStarted);
    assert!(!running.is_cancelled());
    assert_eq!(queued.cancel_before_start(), CancelOutcome::QueuedRemoved);
    assert_eq!(queued.cancel_before_start(), CancelOutcome::NotFound);
    bench.open(&[&first]);
    assert_eq!(running.cancel_before_start(), CancelOutcome::Finished);
    assert_eq!(bench.lanes.cancel_before_start(&1, &running), CancelOutcome::NotFound);
}

#[test]
fn r83_what_is_taken_out_leaves_the_order_of_the_others() {
    let bench = Bench::new((4, 1, 1, 1));
    let gate = bench.write(0, "gate");
    let one = bench.post(0, WRITE, LaneClass::Interactive, "one");
    let build = bench.post(0, LaneKind::HeavyInit, LaneClass::Interactive, "build");
    let two = bench.post(0, WRITE, LaneClass::Interactive, "two");
    bench.settle();
    two.ticket().cancel();
    bench.open(&[&gate]);
    assert_eq!(bench.seen(), "+gate -gate +one", "not the build");
    bench.open(&[&one, &build]);
}

#[test]
fn r81_h3_a_job_of_an_actor_that_is_gone_is_signalled() {
    let bench = Bench::new((4, 2, 3, 1));
    let read = bench.read(0, "read");
    let ticket = read.ticket();
    assert!(bench.lanes.remove(&0));
    assert_eq!(bench.lanes.cancel(&0, &ticket), CancelOutcome::RunningSignalled);
    bench.open(&[&read]);
    assert_eq!(ticket.status(), JobStatus::Finished);
}

#[test]
fn r87_a_ticket_cancels_its_own_job_alone() {
    let bench = Bench::new((4, 2, 3, 1));
    let gate = bench.write(0, "gate");
    let handles: Vec<_> =
        (0..3).map(|_| bench.lanes.submit(&0, bench.lanes.job(WRITE, |_| ()).named(7, "same"))).collect();
    bench.settle();
    handles[1].cancel();
    bench.open(&[&gate]);
    let answers: Vec<_> = handles.into_iter().map(|mut handle| handle.try_get().unwrap().is_ok()).collect();
    assert_eq!(answers, [true, false, true]);
}

#[test]
fn s93_a_ticket_is_seen_where_the_job_runs_and_where_it_is_brought() {
    let (_runtime, lanes) = threads(2);
    assert!(LaneTicket::current().is_none());
    let (send, receive) = channel();
    let (done, wait) = channel::<()>();
    let job = lanes.job(READ, move |cx| {
        let mine = LaneTicket::current().unwrap();
        assert_eq!((mine.id(), cx.id()), (5, 5));
        send.send(mine).unwrap();
        let _ = wait.recv_timeout(SOON);
        LaneTicket::current().unwrap().is_cancelled()
    });
    let handle = lanes.submit(&0, job.named(5, "read"));
    let ticket = receive.recv_timeout(SOON).unwrap();
    let brought = ticket.clone();
    std::thread::spawn(move || {
        assert!(LaneTicket::current().is_none());
        brought.scope(|| {
            let here = LaneTicket::current().unwrap();
            assert!(!here.is_cancelled());
            here.cancel();
            assert!(LaneTicket::current().unwrap().is_cancelled());
        });
        assert!(LaneTicket::current().is_none());
    })
    .join()
    .unwrap();
    drop(done);
    assert_eq!(handle.wait(), Ok(true));
}

#[test]
fn s94_h18_who_waits_for_a_cancel_is_told_and_may_cancel_itself() {
    let (_runtime, lanes) = threads(2);
    for _ in 0..2_000 {
        let (entered, inside) = channel();
        let job = lanes.job(READ, move |cx| {
            let (told, hear) = channel();
            let _heard = cx.token().on_cancel(move || told.send(()).unwrap());
            entered.send(cx.ticket()).unwrap();
            hear.recv_timeout(SOON).is_ok()
        });
        let handle = lanes.submit(&0, job);
        inside.recv_timeout(SOON).unwrap().cancel();
        assert_eq!(handle.wait(), Ok(true));
    }
    let job = lanes.job(READ, |cx| {
        let ticket = cx.ticket();
        let again = ticket.clone();
        let _heard = cx.token().on_cancel(move || assert!(again.token().is_cancelled()));
        ticket.cancel()
    });
    assert_eq!(lanes.submit(&0, job).wait(), Ok(CancelOutcome::RunningSignalled));
}

#[test]
fn maintenance_has_tickets_too_and_hears_that_a_writer_waits() {
    let bench = Bench::new((4, 2, 3, 1));
    let gate = support::Gate::default();
    let at = gate.clone();
    let commit = bench.lanes.future(LaneKind::MaintenanceCommit, move |cx| async move {
        let before = cx.writer_waiting();
        at.await;
        (before, cx.writer_waiting(), cx.is_cancelled())
    });
    let mut commit = bench.lanes.submit(&0, commit.maintenance());
    bench.settle();
    let write = bench.write(0, "write");
    commit.cancel();
    gate.open();
    bench.settle();
    assert_eq!(commit.try_get(), Some(Ok((false, true, true))));
    bench.open(&[&write]);
}

#[test]
fn a_queued_install_is_cancelled_with_all_that_is_queued() {
    let bench = Bench::new((4, 2, 3, 1));
    let read = bench.read(0, "read");
    let installed = Arc::new(AtomicBool::new(false));
    let sets = installed.clone();
    let heavy = bench.lanes.heavy(|_| 1, move |_, _| sets.store(true, Ordering::Relaxed));
    let build = bench.lanes.submit(&0, heavy.maintenance());
    bench.settle();
    assert_eq!(build.ticket().unwrap().status(), JobStatus::Queued, "it is built, and waits for the reader");
    assert_eq!(bench.lanes.cancel_queued_maintenance(&0), 1);
    assert_eq!(bench.lanes.cancel_queued_maintenance(&0), 0);
    bench.open(&[&read]);
    assert_eq!(bench.refused(build), LaneError::Cancelled);
    assert!(!installed.load(Ordering::Relaxed));
}

#[test]
fn a_cancelled_build_is_not_installed() {
    let bench = Bench::new((4, 2, 3, 1));
    let ran = Arc::new(AtomicBool::new(false));
    let submit = || {
        let ran = ran.clone();
        bench.lanes.submit(&0, bench.lanes.heavy(|_| 1, move |_, _| ran.store(true, Ordering::Relaxed)))
    };
    let read = bench.read(0, "read");
    let install = submit();
    bench.settle();
    assert_eq!(install.cancel(), CancelOutcome::RunningSignalled, "it is built, and its install is queued");
    assert_eq!(bench.refused(install), LaneError::Cancelled);
    bench.open(&[&read]);
    assert!(!ran.load(Ordering::Relaxed));
    assert!(bench.lanes.is_idle(&0));
    let handle = bench.lanes.submit(
        &0,
        bench.lanes.heavy(
            |cx| {
                cx.ticket().cancel();
            },
            |_, ()| panic!("not installed"),
        ),
    );
    bench.settle();
    assert_eq!(bench.refused(handle), LaneError::Cancelled);
    assert!(bench.lanes.is_idle(&0));
}

/// A cancel of all that is queued has an actor's turn for a moment. Who comes to look at the actor for a drain goes away again then,
/// and leaves a note: the cancel is to make up for it.
#[test]
fn a_drain_that_is_asked_for_beside_cancels_of_all_that_is_queued_is_told() {
    let (_runtime, lanes) = threads(2);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(lanes.cancel_queued_maintenance(&0), 0);
            }
        });
        let mut told = 0;
        while told < 3_000 && lanes.drain(&0).wait_timeout(SOON) == Some(Ok(())) {
            told += 1;
        }
        over.store(true, Ordering::Relaxed);
        assert_eq!(told, 3_000, "a drain was overlooked");
    });
    lanes.shutdown();
}
