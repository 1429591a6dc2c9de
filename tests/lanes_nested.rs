//! Jobs that submit jobs to their own executor and wait for them, or do not: whose share they run under, which slots are lent
//! meanwhile, and which waits could never end.

#[path = "support/lanes.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod support;

use shardrun::{
    ActorOptions, Driver, Interrupt, LaneError, LaneHandle, LaneKind, LaneOrder, Lanes, LanesConfig, Runtime,
};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};
use support::{Bench, Gate, Log};

const READ: LaneKind = LaneKind::PureRead;
const WRITE: LaneKind = LaneKind::Mutating;
const SOON: Duration = Duration::from_secs(300);

/// What a read of a chain does once its gate is open and the next one is submitted.
#[derive(Clone, Copy)]
enum Then {
    Ends,
    /// Asks for the next one's answer once, and ends.
    LooksAndEnds,
    Waits,
}

/// Reads each of which submits the next.
struct Chain {
    lanes: Lanes<u32, Log>,
    log: Arc<Mutex<Vec<String>>>,
    gates: Vec<Gate>,
    then: Then,
}

async fn look(handle: &mut LaneHandle<()>) {
    poll_fn(|cx| {
        let _ = Pin::new(&mut *handle).poll(cx);
        Poll::Ready(())
    })
    .await;
}

impl Chain {
    fn new(bench: &Bench, length: usize, then: Then) -> Arc<Self> {
        let gates = (0..length).map(|_| Gate::default()).collect();
        Arc::new(Self { lanes: bench.lanes.clone(), log: bench.log.clone(), gates, then })
    }

    fn submit(self: &Arc<Self>, key: u32, number: usize) -> LaneHandle<()> {
        let chain = self.clone();
        let job = self.lanes.future(READ, move |_| async move {
            chain.log.lock().unwrap().push(format!("+{number}"));
            chain.gates[number].clone().await;
            if number + 1 < chain.gates.len() {
                let next: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(chain.clone().go_on(key, number + 1));
                next.await;
            }
            chain.log.lock().unwrap().push(format!("-{number}"));
        });
        self.lanes.submit(&key, job)
    }

    async fn go_on(self: Arc<Self>, key: u32, number: usize) {
        let mut next = self.submit(key, number);
        match self.then {
            Then::Ends => {}
            Then::LooksAndEnds => look(&mut next).await,
            Then::Waits => next.await.expect("it runs under the share of who waits"),
        }
    }

    fn open(&self, bench: &Bench, numbers: impl IntoIterator<Item = usize>) -> String {
        numbers.into_iter().for_each(|number| self.gates[number].open());
        bench.settle();
        bench.seen()
    }
}

#[test]
fn b20_reads_that_submit_reads_do_not_keep_a_due_writer_out() {
    let bench = Bench::new((4, 1, 3, 1));
    let chain = Chain::new(&bench, 4, Then::Ends);
    chain.submit(0, 0).detach();
    bench.settle();
    let write = bench.write(0, "write");
    assert_eq!(chain.open(&bench, [0]), "+0 -0 +1", "a young one waits for what readers submit");
    bench.pass(Duration::from_secs(6));
    assert_eq!(chain.open(&bench, [1]), "-1 +write", "a due one does not");
    bench.open(&[&write]);
    assert_eq!(bench.seen(), "-write +2", "which comes after it");
}

#[test]
fn b20_reads_that_wait_for_reads_go_before_a_due_writer_and_then_it_runs() {
    let bench = Bench::new((8, 1, 7, 1));
    let chain = Chain::new(&bench, 4, Then::Waits);
    chain.submit(0, 0).detach();
    bench.settle();
    let write = bench.write(0, "write");
    bench.pass(Duration::from_secs(6) - Duration::from_nanos(1));
    // The share is not older than what counts as stuck.
    assert_eq!(chain.open(&bench, [0, 1, 2]), "+0 +1 +2 +3");
    bench.pass(Duration::from_nanos(1));
    let late = bench.read(0, "late");
    assert_eq!(chain.open(&bench, [3]), "-3 -2 -1 -0 +write");
    bench.open(&[&write, &late]);
}

#[test]
fn b20_a_share_that_is_handed_on_ends_when_it_is_as_old_as_a_stuck_reader() {
    let bench = Bench::new((4, 1, 3, 1));
    let chain = Chain::new(&bench, 20, Then::LooksAndEnds);
    chain.submit(0, 0).detach();
    bench.settle();
    let write = bench.write(0, "write");
    bench.seen();
    for number in 0..20 {
        bench.pass(Duration::from_secs(1));
        let seen = chain.open(&bench, [number]);
        if seen == format!("-{number} +write") {
            assert_eq!(number, 5, "it began when the first of them would have been stuck");
            bench.open(&[&write]);
            return;
        }
        assert_eq!(seen, format!("-{number} +{}", number + 1));
    }
    panic!("the writer never began");
}

#[test]
fn in_order_of_arrival_a_read_that_nobody_waits_for_does_not_pass_a_writer() {
    let bench = Bench::new((4, 2, 3, 1));
    let options = ActorOptions::new().order(LaneOrder::Arrival);
    assert!(bench.lanes.register_with(100, Log::default(), options).is_ok());
    let waits = Chain::new(&bench, 2, Then::Waits);
    waits.submit(100, 0).detach();
    bench.settle();
    let write = bench.write(100, "write");
    assert_eq!(waits.open(&bench, [0]), "+0 +1", "who waits for it would wait for ever");
    assert_eq!(waits.open(&bench, [1]), "-1 -0 +write");
    bench.open(&[&write]);
    let ends = Chain::new(&bench, 2, Then::Ends);
    ends.submit(100, 0).detach();
    bench.settle();
    let write = bench.write(100, "write");
    bench.seen();
    assert_eq!(ends.open(&bench, [0]), "-0 +write");
    bench.open(&[&write]);
    assert_eq!(bench.seen(), "-write +1");
}

fn threads(workers: usize, config: LanesConfig) -> (Runtime, Lanes<u32, Log>) {
    let runtime = Runtime::builder().workers(workers).io_threads(1).build().unwrap();
    let lanes = Lanes::new(&runtime, config).unwrap();
    (0..40).for_each(|key| assert!(lanes.register(key, Log::default())));
    (runtime, lanes)
}

/// A read that waits for another one of its actor on its thread, and so on.
fn deep(lanes: &Lanes<u32, Log>, key: u32, depth: usize) -> LaneHandle<Result<usize, LaneError>> {
    let inner = lanes.clone();
    let job = lanes.job(READ, move |_| if depth == 0 { Ok(0) } else { Ok(deep(&inner, key, depth - 1).wait()?? + 1) });
    lanes.submit(&key, job)
}

#[test]
fn b18_a_thread_that_waits_for_a_read_under_its_share_is_answered() {
    let mut config = LanesConfig::preset(4, 1, 3, 1);
    // A writer is due as soon as it is queued.
    config.promote_after = Duration::ZERO;
    let (_runtime, lanes) = threads(2, config);
    let (began, begin) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (inner, here, there) = (lanes.clone(), began.clone(), begin.clone());
    let outer = lanes.submit(
        &0,
        lanes.job(READ, move |_| {
            here.wait();
            there.wait();
            deep(&inner, 0, 3).wait()
        }),
    );
    began.wait();
    let write = lanes.submit(&0, lanes.job(WRITE, |_| ()));
    begin.wait();
    assert_eq!(outer.wait(), Ok(Ok(Ok(3))));
    assert_eq!(write.wait(), Ok(()));
    assert_eq!(lanes.liveness().lent, 0);
}

#[test]
fn f25_waits_beyond_what_can_be_lent_are_answered_and_all_is_given_back() {
    let (_runtime, lanes) = threads(2, LanesConfig::preset(2, 1, 1, 1));
    let depths = [3, 40, 100, 7, 40];
    let all: Vec<_> = depths.into_iter().zip(0..).map(|(depth, key)| (depth, deep(&lanes, key, depth))).collect();
    for (depth, mut handle) in all {
        match handle.wait_timeout(SOON).expect("no wait hangs") {
            Ok(Ok(reached)) => assert_eq!(reached, depth),
            Ok(Err(error)) => assert_eq!(error, LaneError::Interrupted(Interrupt::TooDeep)),
            Err(error) => panic!("{error}"),
        }
    }
    at_rest(&lanes);
}

/// Nothing is lent, and as many jobs run at once as there are slots, and no more.
#[track_caller]
fn at_rest(lanes: &Lanes<u32, Log>) {
    // Those whose waiters were told that they must not wait go on.
    let begun = Instant::now();
    loop {
        let live = lanes.liveness();
        if (live.lent, live.interactive.queued, live.idle) == (0, 0, lanes.config().pool) {
            break;
        }
        assert!(begun.elapsed() < SOON, "{live:?}");
        std::thread::yield_now();
    }
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let jobs: Vec<_> = (0..400_u32)
        .map(|number| {
            let (inside, most) = (inside.clone(), most.clone());
            let job = lanes.job(READ, move |_| {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
            });
            lanes.submit(&(number % 40), job)
        })
        .collect();
    jobs.into_iter().for_each(|job| job.wait().unwrap());
    assert!(most.load(Ordering::SeqCst) <= lanes.config().pool, "{most:?} at once");
}

#[test]
fn what_was_lent_for_a_job_that_is_taken_out_is_given_back() {
    let (_runtime, lanes) = threads(4, LanesConfig::preset(2, 1, 1, 1));
    for way in 0..3 {
        let (held, gate) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let (inside, opens) = (held.clone(), gate.clone());
        let blocks = lanes.job(WRITE, move |_| {
            inside.wait();
            opens.wait();
        });
        let blocks = lanes.submit(&0, blocks);
        held.wait();
        let (inner, (tell, told)) = (lanes.clone(), channel());
        let waits = lanes.job(READ, move |_| {
            let awaited = inner.submit(&0, inner.job(READ, |_| ()));
            tell.send(awaited.ticket().unwrap().clone()).unwrap();
            awaited.wait()
        });
        let waits = lanes.submit(&1, waits);
        let ticket = told.recv_timeout(SOON).unwrap();
        while lanes.liveness().lent == 0 {
            std::thread::yield_now();
        }
        let expected = match way {
            0 => {
                ticket.cancel();
                LaneError::Cancelled
            }
            1 => {
                lanes.remove(&0);
                LaneError::Removed
            }
            _ => {
                lanes.reset(0, Log::default());
                LaneError::Reset
            }
        };
        assert_eq!(waits.wait(), Ok(Err(expected)));
        assert_eq!(lanes.liveness().lent, 0, "way {way}");
        gate.wait();
        blocks.wait().unwrap();
        lanes.register(0, Log::default());
    }
    at_rest(&lanes);
}

/// How a job that waits for another stops to wait.
#[derive(Clone, Copy)]
enum Stops {
    TimesOut,
    LetsGo,
    Ends,
}

#[test]
fn what_was_lent_is_given_back_when_who_waits_gives_up() {
    let (_runtime, lanes) = threads(4, LanesConfig::preset(2, 1, 1, 1));
    let (gate, gated) = channel::<()>();
    let gated = Mutex::new(gated);
    let blocks = lanes.job(WRITE, move |_| gated.lock().unwrap().recv_timeout(SOON).is_ok());
    let blocks = lanes.submit(&0, blocks);
    for stops in [Stops::TimesOut, Stops::LetsGo, Stops::Ends] {
        let inner = lanes.clone();
        let (kept, left) = channel();
        let waits = lanes.future(READ, move |_| async move {
            let mut awaited = inner.submit(&0, inner.job(READ, |_| ()));
            match stops {
                Stops::TimesOut => assert_eq!(awaited.wait_timeout(Duration::from_millis(1)), None),
                Stops::LetsGo | Stops::Ends => {
                    poll_fn(|task| {
                        assert!(Pin::new(&mut awaited).poll(task).is_pending());
                        Poll::Ready(())
                    })
                    .await
                }
            }
            // Who ends without letting go of it has another keep it.
            if matches!(stops, Stops::LetsGo) { drop(awaited) } else { kept.send(awaited).unwrap() }
        });
        lanes.submit(&1, waits).wait().unwrap();
        assert_eq!(lanes.liveness().lent, 0, "nobody waits");
        drop(left);
    }
    drop(gate);
    blocks.wait().unwrap();
    at_rest(&lanes);
}

#[test]
fn after_what_was_lent_has_been_given_back_no_more_run_at_once_than_there_are_slots() {
    let (_runtime, lanes) = threads(8, LanesConfig::preset(2, 1, 1, 1));
    for _ in 0..20 {
        let waits: Vec<_> = (0..8).map(|key| deep(&lanes, key, 1)).collect();
        waits.into_iter().for_each(|wait| assert_eq!(wait.wait(), Ok(Ok(1))));
        at_rest(&lanes);
    }
}

/// A job that is a future and awaits a job of another actor.
fn awaits(lanes: &Lanes<u32, Log>, key: u32, other: u32) -> LaneHandle<Result<u32, LaneError>> {
    let inner = lanes.clone();
    let job = lanes.future(READ, move |_| async move { inner.submit(&other, inner.job(WRITE, move |_| other)).await });
    lanes.submit(&key, job)
}

#[test]
fn b21_futures_that_await_jobs_do_not_use_up_the_slots() {
    let bench = Bench::new((2, 1, 1, 1));
    let mut all: Vec<_> = (0..4).map(|key| awaits(&bench.lanes, key, key + 4)).collect();
    bench.settle();
    for (handle, other) in all.iter_mut().zip(4..) {
        assert_eq!(handle.try_get(), Some(Ok(Ok(other))));
    }
    let live = bench.lanes.liveness();
    assert_eq!((live.lent, live.idle), (0, 2));
    // Nor do those that wait until another actor has nothing to do.
    let held = bench.write(4, "held");
    let mut drains: Vec<_> = (0..2)
        .map(|key| {
            let inner = bench.lanes.clone();
            bench.lanes.submit(&key, bench.lanes.future(READ, move |_| async move { inner.drain(&4).await }))
        })
        .collect();
    bench.settle();
    let beside = bench.read(5, "beside");
    assert_eq!(bench.seen(), "+held +beside");
    bench.open(&[&held, &beside]);
    assert!(drains.iter_mut().all(|drain| drain.try_get() == Some(Ok(Ok(())))));
    let live = bench.lanes.liveness();
    assert_eq!((live.lent, live.idle), (0, 2));
}

#[test]
fn b21_a_flood_of_jobs_that_wait_for_others_is_served_and_lends_one_slot_each() {
    let bench = Bench::new((2, 1, 1, 1));
    // Each waits for four at once, which stand behind all of the flood.
    let flood: Vec<_> = (0..100_u32)
        .map(|number| {
            let inner = bench.lanes.clone();
            let job = bench.lanes.future(READ, move |_| async move {
                let all: Vec<_> = (4..8).map(|other| inner.submit(&other, inner.job(READ, |_| ()))).collect();
                let mut all: Vec<_> = all.into_iter().map(Box::pin).collect();
                poll_fn(|cx| {
                    // Polled together, as by those who join futures.
                    all.retain_mut(|one| !matches!(one.as_mut().poll(cx), Poll::Ready(Ok(()))));
                    assert!(inner.liveness().lent <= 16);
                    if all.is_empty() { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            });
            bench.lanes.submit(&(number % 4), job)
        })
        .collect();
    bench.settle();
    for mut handle in flood {
        assert_eq!(handle.try_get(), Some(Ok(())));
    }
    let live = bench.lanes.liveness();
    assert_eq!((live.lent, live.idle), (0, 2));
    let (_runtime, lanes) = threads(2, LanesConfig::preset(2, 1, 1, 1));
    let flood: Vec<_> = (0..200).map(|number| wait_for_another(&lanes, number % 20)).collect();
    flood.into_iter().for_each(|handle| assert_eq!(handle.wait(), Ok(Ok(()))));
    at_rest(&lanes);
}

fn wait_for_another(lanes: &Lanes<u32, Log>, key: u32) -> LaneHandle<Result<(), LaneError>> {
    let inner = lanes.clone();
    let job = lanes.job(READ, move |_| inner.submit(&(key + 20), inner.job(READ, |_| ())).wait());
    lanes.submit(&key, job)
}

#[test]
fn f25_a_future_that_awaits_what_waits_for_itself_is_answered() {
    let bench = Bench::new((4, 2, 3, 1));
    let pending = |lane: LaneKind, own: bool, awaited: LaneKind| {
        let inner = bench.lanes.clone();
        let log = bench.log.clone();
        let job = bench.lanes.future(lane, move |_| async move {
            let answer = inner.submit(&if own { 0 } else { 1 }, inner.job(awaited, |_| ())).await;
            log.lock().unwrap().push("ends".into());
            answer
        });
        let mut handle = bench.lanes.submit(&0, job);
        bench.settle();
        handle.try_get().expect("no wait hangs").unwrap()
    };
    for (lane, awaited) in [(WRITE, READ), (WRITE, WRITE), (READ, WRITE), (LaneKind::MaintenanceCommit, WRITE)] {
        let Err(LaneError::WouldDeadlock(cycle)) = pending(lane, true, awaited) else { panic!("{lane} {awaited}") };
        assert!(cycle.members().iter().any(|member| member.contains(&lane.to_string())), "{cycle}");
        assert_eq!(pending(lane, false, awaited), Ok(()), "of another actor");
    }
    assert_eq!(pending(READ, true, READ), Ok(()), "under its share");
    // A read after a write that waits for the reader, and the end of all that the actor does.
    let inner = bench.lanes.clone();
    let after = bench.lanes.future(READ, move |_| async move {
        let write = inner.submit(&0, inner.job(WRITE, |_| ()));
        inner.submit(&0, inner.job(READ, |_| ()).after(write.ticket().unwrap().clone())).await
    });
    let inner = bench.lanes.clone();
    let drains = bench.lanes.future(READ, move |_| async move { inner.drain(&0).await });
    for job in [bench.lanes.submit(&0, after), bench.lanes.submit(&0, drains)] {
        let mut job = job;
        bench.settle();
        let answer = job.try_get().expect("no wait hangs").unwrap();
        assert!(matches!(answer, Err(LaneError::WouldDeadlock(_))), "{answer:?}");
    }
}

#[test]
fn inside_a_job_that_is_a_future_nobody_awaits_room() {
    for total in [1, 100] {
        let mut config = LanesConfig::preset(2, 1, 1, 1);
        (config.interactive_queue, config.interactive_queue_total) = (1, total);
        let bench = Bench::with(Driver::Inline, config);
        let inner = bench.lanes.clone();
        let job = bench.lanes.future(WRITE, move |cx| async move {
            let own = inner.actor(cx.key()).unwrap();
            inner.submit(cx.key(), inner.job(READ, |_| ())).detach();
            own.submit_async(inner.job(READ, |_| ())).await.map(LaneHandle::detach).map_err(|rejected| rejected.error)
        });
        let mut handle = bench.lanes.submit(&0, job);
        bench.settle();
        assert!(matches!(handle.try_get(), Some(Ok(Err(LaneError::Backpressure(_))))));
    }
}

/// A job of the one executor that waits for one of the other, and so on; each of an actor of its own, unless `same`.
fn across(both: &[Lanes<u32, Log>; 2], key: u32, depth: usize, same: bool) -> LaneHandle<Result<usize, LaneError>> {
    let others = both.clone();
    let lanes = &both[depth % 2];
    let job = lanes.job(READ, move |_| {
        let key = if same { key } else { key + 1 };
        if depth == 0 { Ok(0) } else { Ok(across(&others, key, depth - 1, same).wait()?? + 1) }
    });
    lanes.submit(&key, job)
}

#[test]
fn b57_executors_whose_jobs_wait_for_each_others_go_on() {
    let runtime = Runtime::builder().workers(2).io_threads(1).build().unwrap();
    let both: [Lanes<u32, Log>; 2] = [0, 1].map(|_| Lanes::new(&runtime, LanesConfig::preset(2, 1, 1, 1)).unwrap());
    both.iter().for_each(|lanes| (0..40).for_each(|key| assert!(lanes.register(key, Log::default()))));
    for same in [false, true] {
        for round in 0..20 {
            let all: Vec<_> = (0..4).map(|chain| across(&both, chain * 10, 4, same)).collect();
            for mut handle in all {
                match handle.wait_timeout(SOON).unwrap_or_else(|| panic!("round {round} hangs")) {
                    // An actor of each executor has one reader, who waits for another one of it.
                    Ok(Err(LaneError::WouldDeadlock(_))) if same => {}
                    answer => assert!(answer == Ok(Ok(4)) && !same, "round {round}: {answer:?}"),
                }
            }
        }
    }
    both.iter().for_each(at_rest);
}

#[test]
fn b34_executors_whose_jobs_wait_for_each_others_end_whenever_they_are_dropped() {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for round in 0..60 {
            let runtime = Runtime::builder().workers(2).io_threads(1).build().unwrap();
            let both: [Lanes<u32, Log>; 2] =
                [0, 1].map(|_| Lanes::new(&runtime, LanesConfig::preset(2, 1, 1, 1)).unwrap());
            both.iter().for_each(|lanes| (0..40).for_each(|key| assert!(lanes.register(key, Log::default()))));
            let all: Vec<_> = (0..4).map(|chain| across(&both, chain * 10, 4, round % 2 == 0)).collect();
            (0..round * 10).for_each(|_| std::thread::yield_now());
            drop(both);
            for handle in all {
                // However each of them ends, it is answered.
                let _ = handle.wait();
            }
            tell.send(round).unwrap();
        }
    });
    (0..60).for_each(|round| assert_eq!(told.recv_timeout(SOON), Ok(round)));
}
