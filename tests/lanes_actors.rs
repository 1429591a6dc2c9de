//! Actors come and go: register, remove, retire, reset; what becomes of their jobs; panics, fatal actors, destructors, shutdown.

#[path = "support/lanes.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod support;

use shardrun::{CancelOutcome, Driver, LaneClass, LaneError, LaneHandle, LaneKind, Lanes, LanesConfig, Runtime};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Bench, Log};

const READ: LaneKind = LaneKind::PureRead;
const HEAVY: LaneKind = LaneKind::HeavyInit;
const WRITE: LaneKind = LaneKind::Mutating;
const COMMIT: LaneKind = LaneKind::MaintenanceCommit;
const SOON: Duration = Duration::from_secs(300);

fn threads<C: Send + Sync + 'static>(pool: usize) -> (Runtime, Lanes<u32, C>) {
    let runtime = Runtime::builder().workers(pool).io_threads(1).build().unwrap();
    let lanes = Lanes::new(&runtime, LanesConfig::preset(pool, 4, pool - 1, 2)).unwrap();
    (runtime, lanes)
}

/// Counts how often it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_job_without_a_handle_runs_or_is_refused_and_what_it_brings_is_dropped_once() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let mut config = LanesConfig::preset(2, 1, 1, 1);
    config.interactive_queue = 3;
    let lanes: Lanes<u32, AtomicUsize> = Lanes::new(&runtime, config).unwrap();
    assert!(lanes.register(0, AtomicUsize::new(0)));
    let dropped = Arc::new(AtomicUsize::new(0));
    let gone = || dropped.load(Ordering::Relaxed);
    let counts = || {
        let value = Dropped(dropped.clone());
        lanes.job(READ, move |cx| {
            cx.context().fetch_add(1, Ordering::Relaxed);
            value
        })
    };
    let actor = lanes.actor(&0).unwrap();
    assert_eq!((lanes.execute(&0, counts()), actor.execute(counts())), (Ok(()), Ok(())));
    assert_eq!(gone(), 0);
    assert_eq!(lanes.execute(&1, counts()), Err(LaneError::NotRegistered));
    assert_eq!(gone(), 1);
    let ticket = Arc::new(Mutex::new(None));
    let keeps = ticket.clone();
    assert_eq!(actor.execute(lanes.job(READ, move |cx| *keeps.lock().unwrap() = Some(cx.ticket()))), Ok(()));
    assert!(matches!(actor.execute(counts()), Err(LaneError::Backpressure(_))));
    assert_eq!(gone(), 2);
    runtime.drive_all();
    assert_eq!((gone(), actor.context().load(Ordering::Relaxed)), (4, 2));
    let ticket = ticket.lock().unwrap().take().unwrap();
    assert_eq!(ticket.cancel(), CancelOutcome::Finished);
    assert_eq!(actor.execute(counts()), Ok(()));
    assert!(lanes.remove(&0));
    assert_eq!(gone(), 5);
    assert_eq!(actor.execute(counts()), Err(LaneError::Removed));
    runtime.drive_all();
    assert_eq!((gone(), actor.context().load(Ordering::Relaxed)), (6, 2));
}

#[test]
fn s6_s7_a_key_keeps_the_context_that_it_was_first_registered_with() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let lanes: Lanes<&str, u32> = Lanes::new(&runtime, LanesConfig::preset(2, 1, 1, 1)).unwrap();
    assert!(lanes.register("a", 1) && !lanes.register("a", 2) && lanes.register("b", 3));
    let mut seen = lanes.submit(&"a", lanes.job(READ, |cx| **cx.context()));
    runtime.drive_all();
    assert_eq!(seen.try_get(), Some(Ok(1)));
    let mut all: Vec<_> = lanes.actors().iter().map(|actor| (*actor.key(), **actor.context())).collect();
    all.sort_unstable();
    assert_eq!((all, lanes.actor_count()), (vec![("a", 1), ("b", 3)], 2));
    assert!(lanes.is_registered(&"a") && !lanes.is_registered(&"c"));
}

#[test]
fn keys_that_share_a_hash_are_told_apart() {
    #[derive(PartialEq, Eq)]
    struct Same(u32);
    impl std::hash::Hash for Same {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            state.write_u8(0);
        }
    }
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let lanes: Lanes<Same, u32> = Lanes::new(&runtime, LanesConfig::preset(2, 1, 1, 1)).unwrap();
    assert!((0..50).all(|key| lanes.register(Same(key), key)));
    assert!((0..50).step_by(2).all(|key| lanes.retire_idle(&Same(key))));
    assert_eq!(lanes.actor_count(), 25);
    for key in 0..50 {
        assert_eq!(lanes.actor(&Same(key)).map(|actor| **actor.context()), (key % 2 == 1).then_some(key));
    }
}

#[test]
fn s8_s9_an_unknown_key_is_answered_and_its_closure_dropped() {
    let bench = Bench::new((2, 1, 1, 1));
    let held = Arc::new(());
    let inside = held.clone();
    let handle = bench.lanes.submit(&99, bench.lanes.job(READ, move |_| drop(inside)));
    let error = bench.refused(handle);
    assert_eq!((error.code(), error), ("actor_not_registered", LaneError::NotRegistered));
    assert_eq!(Arc::strong_count(&held), 1);
    assert!(
        !bench.lanes.remove(&99) && !bench.lanes.retire_idle(&99) && bench.lanes.reset(99, Log::default()).is_none()
    );
}

/// A context that says on which thread it was dropped.
struct Torn(std::sync::mpsc::Sender<std::thread::ThreadId>);

impl Drop for Torn {
    fn drop(&mut self) {
        let _ = self.0.send(std::thread::current().id());
    }
}

#[test]
fn s10_an_idle_actor_is_retired_once_and_torn_down_on_another_thread() {
    let (_runtime, lanes) = threads::<Torn>(2);
    let (sender, receiver) = channel();
    lanes.register(0, Torn(sender));
    assert_eq!(lanes.submit(&0, lanes.job(WRITE, |_| ())).wait(), Ok(()));
    assert!(lanes.retire_idle(&0), "right after the answer: the slot is free by then");
    assert!(!lanes.retire_idle(&0) && !lanes.is_registered(&0));
    let torn_on = receiver.recv_timeout(SOON).expect("it is torn down");
    assert_ne!(torn_on, std::thread::current().id());
}

#[test]
fn s11_f21_an_actor_with_work_is_not_retired() {
    let bench = Bench::new((2, 1, 1, 1));
    let read = bench.read(0, "read");
    assert!(!bench.lanes.retire_idle(&0));
    let queued = bench.post(1, READ, LaneClass::Interactive, "queued");
    assert!(!bench.lanes.retire_idle(&1) && !bench.lanes.is_idle(&1));
    bench.open(&[&read, &queued]);
    assert!(bench.lanes.is_idle(&0) && bench.lanes.retire_idle(&0) && bench.lanes.retire_idle(&1));
}

#[test]
fn s12_of_eight_that_retire_an_actor_one_does() {
    let (_runtime, lanes) = threads::<Log>(2);
    for key in 0..200 {
        lanes.register(key, Log::default());
        let retired = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| retired.fetch_add(usize::from(lanes.retire_idle(&key)), Ordering::Relaxed));
            }
        });
        assert_eq!(retired.into_inner(), 1);
    }
    assert_eq!(lanes.actor_count(), 0);
}

#[test]
fn s13_what_runs_goes_on_when_its_actor_is_removed() {
    let bench = Bench::new((2, 1, 1, 1));
    let read = bench.read(0, "read");
    assert!(bench.lanes.remove(&0) && !bench.lanes.is_idle(&0));
    bench.open(&[&read]);
    let mut handle = read.handle;
    assert_eq!(handle.try_get(), Some(Ok("read")));
}

#[test]
fn s14_f1_what_is_queued_when_an_actor_is_removed_is_answered() {
    let bench = Bench::new((2, 1, 1, 1));
    let read = bench.read(0, "read");
    let lanes = &bench.lanes;
    let queued = [
        lanes.submit(&0, lanes.job(READ, |_| ())),
        lanes.submit(&0, lanes.job(WRITE, |_| ())),
        lanes.submit(&0, lanes.job(COMMIT, |_| ()).maintenance()),
    ];
    bench.settle();
    let posted = lanes.submit(&0, lanes.job(HEAVY, |_| ()));
    assert!(lanes.remove(&0));
    for handle in queued {
        assert_eq!(bench.refused(handle), LaneError::Removed);
    }
    assert_eq!(bench.refused(posted), LaneError::Removed);
    let late = lanes.submit(&0, lanes.job(READ, |_| ()));
    assert_eq!(bench.refused(late), LaneError::NotRegistered);
    bench.open(&[&read]);
    assert_eq!(lanes.liveness().interactive.queued, 0);
}

#[test]
fn f3_nothing_of_an_old_registration_reaches_the_fresh_one() {
    let bench = Bench::new((8, 4, 4, 2));
    let actor = bench.lanes.actor(&0).unwrap();
    let old = bench.write(0, "old");
    assert!(bench.lanes.remove(&0) && bench.lanes.register(0, Log::default()));
    let fresh = bench.lanes.actor(&0).unwrap();
    assert_ne!(actor.incarnation(), fresh.incarnation());
    let write = bench.write(0, "fresh");
    assert_eq!(bench.seen(), "+old +fresh", "the old one's writer is of another context");
    assert!(!fresh.is_idle());
    bench.open(&[&old]);
    assert!(!fresh.is_idle(), "an old end is not counted here");
    let second = bench.write(0, "second");
    assert_eq!(bench.seen(), "-old");
    bench.open(&[&write]);
    assert_eq!(bench.seen(), "-fresh +second");
    bench.open(&[&second]);
    let refused = actor.submit(bench.lanes.job(READ, |_| ()));
    assert_eq!(bench.refused(refused), LaneError::Removed);
}

#[test]
fn f3_f28_an_old_writers_panic_does_not_touch_a_reset_actor() {
    let bench = Bench::new((4, 2, 3, 1));
    let gate = support::Gate::default();
    let at = gate.clone();
    let old = bench.lanes.submit(
        &0,
        bench.lanes.future(WRITE, move |_| async move {
            at.await;
            panic!("old");
        }),
    );
    bench.settle();
    let queued = bench.lanes.submit(&0, bench.lanes.job(READ, |_| ()));
    let fresh = bench.lanes.reset(0, Log::default()).unwrap();
    assert_eq!(bench.refused(queued), LaneError::Reset);
    gate.open();
    bench.settle();
    let old: LaneHandle<()> = old;
    assert!(matches!(bench.refused(old), LaneError::Panicked(_)));
    assert!(!fresh.is_fatal() && !bench.lanes.is_fatal(&0));
}

#[test]
fn s95_s96_f12_a_writers_panic_makes_its_actor_fatal_and_answers_all() {
    let bench = Bench::new((4, 2, 3, 1));
    let gate = support::Gate::default();
    let at = gate.clone();
    let write = bench.lanes.future(WRITE, move |_| async move {
        at.await;
        panic!("broken {}", 7);
    });
    let write: LaneHandle<()> = bench.lanes.submit(&0, write);
    bench.settle();
    let ran = Arc::new(AtomicBool::new(false));
    let queued: Vec<_> = LaneKind::ALL
        .iter()
        .flat_map(|lane| [false, true].map(|later| (*lane, later)))
        .map(|(lane, later)| {
            let ran = ran.clone();
            let job = bench.lanes.job(lane, move |_| ran.store(true, Ordering::Relaxed));
            bench.lanes.submit(&0, if later { job.maintenance() } else { job })
        })
        .collect();
    gate.open();
    bench.settle();
    let error = bench.refused(write);
    assert_eq!((error.code(), error.to_string()), ("job_panicked", "the job panicked: broken 7".into()));
    for handle in queued {
        assert_eq!(bench.refused(handle), LaneError::Fatal);
    }
    assert!(!ran.load(Ordering::Relaxed) && bench.lanes.is_fatal(&0));
    let late = bench.lanes.submit(&0, bench.lanes.job(READ, |_| ()));
    assert_eq!(bench.refused(late).code(), "actor_fatal");
    assert!(!bench.lanes.register(0, Log::default()), "it stays fatal");
    let other = bench.read(1, "other");
    assert_eq!(bench.seen(), "+other");
    bench.open(&[&other]);
    assert!(bench.lanes.reset(0, Log::default()).is_some() && !bench.lanes.is_fatal(&0));
    let read = bench.read(0, "read");
    assert_eq!(bench.seen(), "-other +read");
    bench.open(&[&read]);
}

#[test]
fn s97_s98_a_panic_in_another_lane_has_its_own_code_and_leaves_the_actor_usable() {
    let bench = Bench::new((8, 4, 4, 2));
    for lane in [READ, LaneKind::SerialLspStatus, HEAVY, COMMIT] {
        let job = bench.lanes.job(lane, |_| -> () { std::panic::panic_any(5_u8) });
        let handle = bench.lanes.submit(&0, job);
        bench.settle();
        let error = bench.refused(handle);
        assert_eq!(error.code(), "job_panicked", "{lane}");
        assert!(!bench.lanes.is_fatal(&0) && bench.lanes.is_idle(&0));
    }
    let reads = ["a", "b", "c", "d"].map(|name| bench.read(0, name));
    assert_eq!(bench.seen(), "+a +b +c +d");
    bench.open(&reads.iter().collect::<Vec<_>>());
    assert_eq!(bench.lanes.completed(), (8, 0));
}

#[test]
fn s76_a_build_that_runs_when_its_actor_turns_fatal_ends_and_answers() {
    let bench = Bench::new((4, 2, 3, 1));
    let build = bench.gated(0, HEAVY, LaneClass::Interactive, "build");
    let write: LaneHandle<()> = bench.lanes.submit(&0, bench.lanes.job(WRITE, |_| panic!("asked for")));
    bench.settle();
    assert!(bench.lanes.is_fatal(&0));
    drop(write);
    bench.open(&[&build]);
    let mut handle = build.handle;
    assert_eq!(handle.try_get(), Some(Ok("build")));
}

#[test]
fn a_panicking_install_makes_its_actor_fatal_and_a_panicking_build_does_not() {
    let bench = Bench::new((4, 2, 3, 1));
    let build: LaneHandle<()> = bench.lanes.submit(&0, bench.lanes.heavy(|_| panic!("build"), |_, ()| ()));
    bench.settle();
    assert!(matches!(bench.refused(build), LaneError::Panicked(_)));
    assert!(!bench.lanes.is_fatal(&0));
    let install: LaneHandle<()> = bench.lanes.submit(&0, bench.lanes.heavy(|_| (), |_, ()| panic!("install")));
    bench.settle();
    assert!(matches!(bench.refused(install), LaneError::Panicked(_)));
    assert!(bench.lanes.is_fatal(&0));
}

#[test]
fn s103_after_the_answer_of_a_panicking_writer_nothing_of_its_actor_begins() {
    let (_runtime, lanes) = threads::<Log>(4);
    for round in 0..30 {
        lanes.register(round, Log::default());
        let answered = Arc::new(AtomicBool::new(false));
        let late = Arc::new(AtomicUsize::new(0));
        let write: LaneHandle<()> = lanes.submit(&round, lanes.job(WRITE, |_| panic!("asked for")));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for number in 0..500 {
                        let (answered, late) = (answered.clone(), late.clone());
                        let lane = LaneKind::ALL[number % 5];
                        let job = lanes.job(lane, move |_| {
                            late.fetch_add(usize::from(answered.load(Ordering::SeqCst)), Ordering::SeqCst);
                        });
                        let answer = lanes.submit(&round, job).wait();
                        assert!(matches!(answer, Ok(()) | Err(LaneError::Fatal)), "{answer:?}");
                    }
                });
            }
            assert!(matches!(write.wait(), Err(LaneError::Panicked(_))));
            answered.store(true, Ordering::SeqCst);
        });
        assert_eq!(late.load(Ordering::SeqCst), 0);
        assert!(lanes.remove(&round));
    }
}

/// Calls the executor while it is dropped, and then panics.
struct Nosy {
    lanes: Lanes<u32, Log>,
    drops: Arc<AtomicUsize>,
    panics: bool,
}

impl Drop for Nosy {
    fn drop(&mut self) {
        let (lanes, drops) = (&self.lanes, &self.drops);
        lanes.submit(&0, lanes.job(READ, |_| ())).detach();
        let _ = lanes.cancel_queued_maintenance(&0);
        let _ = (lanes.liveness(), lanes.is_idle(&0), lanes.running().len());
        drops.fetch_add(1, Ordering::Relaxed);
        if self.panics {
            std::panic::panic_any(Payload);
        }
    }
}

struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic!("the payload's destructor panics too");
    }
}

#[test]
fn f8_f9_b31_b34_destructors_of_jobs_may_call_the_executor_and_panic_wherever_they_run() {
    for panics in [false, true] {
        let bench = Bench::new((4, 2, 3, 1));
        let drops = Arc::new(AtomicUsize::new(0));
        let nosy = || Nosy { lanes: bench.lanes.clone(), drops: drops.clone(), panics };
        let queue = |later: bool| {
            let nosy = nosy();
            let job = bench.lanes.job(COMMIT, move |_| drop(nosy));
            bench.lanes.submit(&0, if later { job.maintenance() } else { job })
        };
        let write = bench.write(0, "write");
        let first = [queue(true), queue(true)];
        bench.settle();
        assert_eq!(bench.lanes.cancel_queued_maintenance(&0), 1, "the destructor of the first cancels the second");
        assert_eq!(drops.load(Ordering::Relaxed), 2);
        let cancelled = queue(false);
        cancelled.cancel();
        let refused = bench.lanes.submit(&99, {
            let nosy = nosy();
            bench.lanes.job(READ, move |_| drop(nosy))
        });
        assert!(refused.is_resolved());
        let fatal = [queue(true), queue(false)];
        let broken: LaneHandle<()> = bench.lanes.submit(&0, bench.lanes.job(WRITE, |_| std::panic::panic_any(Payload)));
        bench.open(&[&write]);
        assert_eq!(bench.refused(broken).code(), "job_panicked");
        assert_eq!(drops.load(Ordering::Relaxed), 6);
        assert!(first.iter().chain(&fatal).all(LaneHandle::is_resolved));
        let removed = {
            let nosy = nosy();
            bench.lanes.submit(&1, bench.lanes.job(COMMIT, move |_| drop(nosy)).maintenance())
        };
        bench.lanes.remove(&1);
        assert!(removed.is_resolved());
        assert_eq!(drops.load(Ordering::Relaxed), 7);
        let read = bench.read(2, "read");
        bench.open(&[&read]);
        bench.lanes.shutdown();
    }
}

#[test]
fn f10_b53_a_payload_whose_destructor_panics_costs_nothing() {
    let (_runtime, lanes) = threads::<Log>(2);
    lanes.register(0, Log::default());
    for _ in 0..100 {
        let answer: Result<(), _> = lanes.submit(&0, lanes.job(READ, |_| std::panic::panic_any(Payload))).wait();
        assert!(matches!(answer, Err(LaneError::Panicked(_))));
    }
    assert_eq!(lanes.submit(&0, lanes.job(WRITE, |_| 3)).wait(), Ok(3));
}

#[test]
fn s115_s116_f1_a_shutdown_waits_for_what_runs_and_answers_what_is_queued() {
    let (_runtime, lanes) = threads::<Log>(2);
    lanes.register(0, Log::default());
    let (entered, inside) = channel();
    let (open, gate) = channel::<()>();
    let running = lanes.submit(
        &0,
        lanes.job(WRITE, move |_| {
            entered.send(()).unwrap();
            let _ = gate.recv_timeout(SOON);
            1
        }),
    );
    inside.recv_timeout(SOON).unwrap();
    let queued = [lanes.submit(&0, lanes.job(READ, |_| 2)), lanes.submit(&0, lanes.job(COMMIT, |_| 3).maintenance())];
    let ended = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let flag = ended.clone();
        scope.spawn(move || {
            drop(lanes);
            flag.store(true, Ordering::SeqCst);
        });
        for handle in queued {
            assert_eq!(handle.wait(), Err(LaneError::Shutdown));
        }
        assert!(!ended.load(Ordering::SeqCst), "one still runs");
        drop(open);
        assert_eq!(running.wait(), Ok(1));
    });
    assert!(ended.load(Ordering::SeqCst));
}

#[test]
fn f11_a_job_may_drop_the_last_handle_of_its_executor() {
    let (runtime, lanes) = threads::<Log>(2);
    lanes.register(0, Log::default());
    let slot = Arc::new(Mutex::new(None));
    let inside = slot.clone();
    let (open, gate) = channel::<()>();
    let job = lanes.job(WRITE, move |_| {
        gate.recv_timeout(SOON).unwrap();
        drop(inside.lock().unwrap().take());
        7
    });
    let handle = lanes.submit(&0, job);
    *slot.lock().unwrap() = Some(lanes);
    open.send(()).unwrap();
    assert_eq!(handle.wait(), Ok(7));
    drop(runtime);
}

#[test]
fn a_shutdown_of_the_runtime_answers_every_job() {
    let (runtime, lanes) = threads::<Log>(2);
    for key in 0..4 {
        lanes.register(key, Log::default());
    }
    let (entered, inside) = channel();
    let (open, gate) = channel::<()>();
    let running = lanes.submit(
        &0,
        lanes.job(WRITE, move |_| {
            entered.send(()).unwrap();
            let _ = gate.recv_timeout(SOON);
        }),
    );
    inside.recv_timeout(SOON).unwrap();
    let asleep = lanes.submit(&1, lanes.future(READ, |_| support::Gate::default()));
    let queued: Vec<_> = (0..100).map(|number| lanes.submit(&(number % 4), lanes.job(WRITE, |_| ()))).collect();
    let ender = runtime.clone();
    let stop = std::thread::spawn(move || ender.shutdown());
    drop(open);
    assert_eq!(running.wait(), Ok(()));
    assert_eq!(asleep.wait(), Err(LaneError::Shutdown));
    for handle in queued {
        assert!(matches!(handle.wait(), Ok(()) | Err(LaneError::Shutdown)));
    }
    stop.join().unwrap();
    assert_eq!(lanes.submit(&0, lanes.job(READ, |_| ())).wait(), Err(LaneError::Shutdown));
    assert!(!lanes.is_registered(&0));
}

#[test]
fn f25_a_wait_that_could_never_end_is_answered() {
    let (_runtime, lanes) = threads::<Log>(4);
    for key in 0..2 {
        lanes.register(key, Log::default());
    }
    let inner = lanes.clone();
    let own = lanes.job(WRITE, move |_| inner.submit(&0, inner.job(READ, |_| ())).wait());
    let answer = lanes.submit(&0, own).wait().unwrap();
    let Err(LaneError::WouldDeadlock(cycle)) = answer else { panic!("{answer:?}") };
    assert!(cycle.members().iter().any(|member| member.contains("Mutating")), "{cycle}");
    let meet = Arc::new(std::sync::Barrier::new(2));
    let crossed = [0, 1].map(|key: u32| {
        let (inner, meet) = (lanes.clone(), meet.clone());
        let job = lanes.job(WRITE, move |_| {
            meet.wait();
            inner.submit(&(1 - key), inner.job(READ, |_| ())).wait()
        });
        lanes.submit(&key, job)
    });
    let answers = crossed.map(|handle| handle.wait().unwrap());
    let gave_up = answers.iter().filter(|answer| matches!(answer, Err(LaneError::WouldDeadlock(_)))).count();
    assert!(gave_up >= 1, "{answers:?}");
}

#[test]
fn f25_b21_b86_jobs_that_wait_for_others_do_not_use_up_the_slots() {
    let (_runtime, lanes) = threads::<Log>(2);
    for key in 0..20 {
        lanes.register(key, Log::default());
    }
    let handles: Vec<_> = (0..10)
        .map(|key| {
            let inner = lanes.clone();
            let job = lanes.job(READ, move |_| inner.submit(&(key + 10), inner.job(WRITE, move |_| key)).wait());
            lanes.submit(&key, job)
        })
        .collect();
    for (handle, key) in handles.into_iter().zip(0..) {
        assert_eq!(handle.wait(), Ok(Ok(key)));
    }
    assert_eq!(lanes.liveness().lent, 0);
}
