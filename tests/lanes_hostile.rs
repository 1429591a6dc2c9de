//! Hosts whose keys, contexts, results and callbacks do what they should not: they come back to the executor, change, or panic.

#[path = "support/lanes.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod support;

use shardrun::{
    ActorOptions, CancelOutcome, Driver, LaneError, LaneHandle, LaneKind, LaneTicket, Lanes, LanesConfig, PublishCx,
    PublishError, PublishPaths, Publisher, RegisterError, Runtime, View,
};
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;
use support::Bench;

const READ: LaneKind = LaneKind::PureRead;
const WRITE: LaneKind = LaneKind::Mutating;
const SOON: Duration = Duration::from_secs(300);

thread_local! {
    static LANES: RefCell<Option<Lanes<Restless, u32>>> = const { RefCell::new(None) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

/// All have one hash, and each comparison registers another.
#[derive(Debug)]
struct Restless(u32);

impl Hash for Restless {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(0);
    }
}

impl PartialEq for Restless {
    fn eq(&self, other: &Self) -> bool {
        if !INSIDE.replace(true) {
            let lanes = LANES.with_borrow(Clone::clone);
            if let Some(lanes) = lanes {
                let number = ASKED.replace(ASKED.get() + 1);
                lanes.remove(&Restless(1_000 + number));
                lanes.register(Restless(1_001 + number), 0);
            }
            INSIDE.set(false);
        }
        self.0 == other.0
    }
}

impl Eq for Restless {}

#[test]
fn b27_keys_that_register_others_while_they_are_compared_are_refused_and_nothing_hangs() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let lanes: Lanes<Restless, u32> = Lanes::new(&runtime, LanesConfig::preset(2, 1, 1, 1)).unwrap();
    assert!(lanes.register(Restless(0), 0));
    LANES.set(Some(lanes.clone()));
    let refused = lanes.register_with(Restless(1), 1, ActorOptions::default()).unwrap_err();
    assert!(matches!(refused, RegisterError::UnsteadyKey), "{refused}");
    assert!(lanes.reset(Restless(0), 7).is_none());
    LANES.set(None);
    assert!(!lanes.is_registered(&Restless(1)) && lanes.is_registered(&Restless(0)));
    assert_eq!(lanes.actor_count(), lanes.actors().len());
    let Err(RegisterError::Taken(other)) = lanes.register_with(Restless(0), 2, ActorOptions::default()) else {
        panic!("it is taken")
    };
    assert_eq!(**other.context(), 0);
    runtime.drive_all();
}

#[test]
fn an_error_shows_what_lies_below_or_gives_it_and_not_both() {
    let mut config = LanesConfig::preset(2, 1, 1, 1);
    config.interactive_queue = 1;
    let bench = Bench::with(Driver::Inline, config);
    let held = bench.write(0, "held");
    bench.read(0, "queued").handle.detach();
    let full = bench.lanes.try_submit(&0, bench.lanes.job(READ, |_| ())).unwrap_err();
    let panics = bench.lanes.submit(&1, bench.lanes.job(READ, |_| panic!("asked for")));
    bench.settle();
    let panicked = bench.refused(panics);
    let inner = bench.lanes.clone();
    let own = bench.lanes.future(WRITE, move |_| async move { inner.submit(&2, inner.job(READ, |_| ())).await });
    let mut own = bench.lanes.submit(&2, own);
    bench.settle();
    let cycle = own.try_get().unwrap().unwrap().unwrap_err();
    let all: [&dyn Error; 4] = [&full.error, &full, &panicked, &cycle];
    for error in all {
        let below = error.source().map(ToString::to_string);
        assert!(below.is_none_or(|below| !error.to_string().contains(&below)), "{error}");
    }
    assert!(full.to_string().contains("1 of 1") && panicked.to_string().contains("asked for"));
    assert!(cycle.source().is_some());
    bench.open(&[&held]);
}

#[test]
fn contexts_and_keys_of_refused_registrations_are_dropped_outside() {
    // A context whose destructor comes back to the executor that refuses it.
    struct Comes(Option<Lanes<u32, Comes>>);
    impl Drop for Comes {
        fn drop(&mut self) {
            if let Some(lanes) = self.0.take() {
                assert!(!lanes.register(0, Comes(None)), "the key has one already");
                lanes.remove(&1);
                panic!("asked for");
            }
        }
    }
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let lanes = Lanes::new(&runtime, LanesConfig::preset(2, 1, 1, 1)).unwrap();
    assert!(lanes.register(0, Comes(None)) && lanes.register(1, Comes(None)));
    assert!(!lanes.register(0, Comes(Some(lanes.clone()))));
    assert!(!lanes.is_registered(&1));
    assert!(lanes.reset(2, Comes(Some(lanes.clone()))).is_none());
    assert!(lanes.reset(0, Arc::new(Comes(Some(lanes.clone())))).is_some());
    assert_eq!(bench_answer(&runtime, &lanes), Ok(()));
    assert!(lanes.remove(&0));
    runtime.drive_all();
}

fn bench_answer<C: Send + Sync + 'static>(runtime: &Runtime, lanes: &Lanes<u32, C>) -> Result<(), LaneError> {
    let mut handle = lanes.submit(&0, lanes.job(WRITE, |_| ()));
    runtime.drive_all();
    handle.try_get().expect("it is answered")
}

/// All have one hash; comparing two looks around in the executor.
#[derive(Clone, PartialOrd, Ord)]
struct Curious(u32);

type Looks = Lanes<Curious, u32>;
static LOOKS: Mutex<Option<Looks>> = Mutex::new(None);

impl Hash for Curious {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(0);
    }
}

impl PartialEq for Curious {
    fn eq(&self, other: &Self) -> bool {
        if !INSIDE.replace(true) {
            let lanes = LOOKS.lock().unwrap().clone();
            if let Some(lanes) = lanes {
                let _ =
                    (lanes.liveness(), lanes.actor_count(), lanes.is_idle(&Curious(self.0 ^ 1)), lanes.running().len());
            }
            INSIDE.set(false);
        }
        self.0 == other.0
    }
}

impl Eq for Curious {}

#[test]
fn b26_b27_b28_everything_may_be_called_on_other_keys_from_inside_everything() {
    const KEYS: u32 = 6;
    let runtime = Runtime::builder().workers(4).io_threads(1).build().unwrap();
    let lanes: Looks = Lanes::new(&runtime, LanesConfig::preset(4, 2, 3, 1)).unwrap();
    *LOOKS.lock().unwrap() = Some(lanes.clone());
    let answered = |handle: LaneHandle<()>| {
        let mut handle = handle;
        handle.wait_timeout(SOON).expect("it is answered")
    };
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let lanes = lanes.clone();
            scope.spawn(move || {
                for round in 0..150 {
                    let (key, other) = (Curious((thread + round) % KEYS), Curious((thread * round + 1) % KEYS));
                    lanes.register(key.clone(), round);
                    // Both orders of two keys come up: a job of the one does everything to the other.
                    let inner = lanes.clone();
                    let job = lanes.job(if round % 3 == 0 { WRITE } else { READ }, move |_| {
                        let nested = inner.submit(&other, inner.job(READ, |_| ()));
                        match round % 5 {
                            0 => drop(inner.remove(&other)),
                            1 => drop(inner.reset(other, round)),
                            2 => drop(inner.retire_idle(&other)),
                            3 => drop(nested.cancel()),
                            _ => drop(inner.cancel_queued_maintenance(&other)),
                        }
                    });
                    let answer = answered(lanes.submit(&key, job));
                    let known = matches!(
                        answer,
                        Ok(())
                            | Err(LaneError::NotRegistered | LaneError::Removed | LaneError::Reset | LaneError::Fatal)
                    );
                    assert!(known, "{answer:?}");
                }
            });
        }
    });
    *LOOKS.lock().unwrap() = None;
    assert_eq!(lanes.liveness().phantoms, 0);
}

/// Says when it is dropped.
struct Tells(Sender<()>);

impl Drop for Tells {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn b99_what_a_removed_actor_held_goes_though_others_never_stop_looking() {
    /// Lets the lookers go, also when the test fails.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let runtime = Runtime::builder().workers(1).io_threads(1).build().unwrap();
    let lanes: Lanes<u32, Tells> = Lanes::new(&runtime, LanesConfig::preset(1, 1, 1, 1)).unwrap();
    let (tell, told) = channel();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = (lanes.is_registered(&0), lanes.is_registered(&1));
                }
            });
        }
        let _over = Over(&over);
        for round in 0..1_000 {
            assert!(lanes.register(1, Tells(tell.clone())));
            assert!(lanes.remove(&1));
            told.recv_timeout(SOON).unwrap_or_else(|_| panic!("the context of round {round} was not dropped"));
        }
    });
}

#[test]
fn b33_a_lock_of_the_host_that_a_build_takes_may_be_held_by_who_calls() {
    struct Locks(Arc<Mutex<u32>>);
    impl View<()> for Locks {
        type Path = ();
        type Built = u32;
        fn build(&self, _: &PublishCx<()>, _: &PublishPaths<()>) -> Result<u32, PublishError> {
            *self.0.lock().unwrap() += 1;
            Ok(1)
        }
        fn install(&self, (): &(), _: u32) {}
    }
    let runtime = Runtime::builder().workers(2).io_threads(1).build().unwrap();
    let lanes: Lanes<u32, ()> = Lanes::new(&runtime, LanesConfig::preset(2, 1, 1, 1)).unwrap();
    lanes.register(0, ());
    let lock = Arc::new(Mutex::new(0));
    let publisher = Publisher::new(&lanes, Locks(lock.clone()));
    let held = lock.lock().unwrap();
    for _ in 0..3 {
        publisher.publish(&0, []).unwrap();
        assert!(!publisher.health().is_empty());
        assert_eq!(lanes.submit(&0, lanes.job(WRITE, |_| 1)).wait(), Ok(1));
        assert_eq!(lanes.liveness().phantoms, 0);
    }
    drop(held);
    while !publisher.health().is_empty() {
        std::thread::yield_now();
    }
    assert!(*lock.lock().unwrap() >= 1);
}

#[test]
fn b36_a_waker_that_fires_while_executor_and_runtime_go_does_nothing() {
    for round in 0..200 {
        let runtime = Runtime::builder().workers(1).io_threads(0).build().unwrap();
        let lanes: Lanes<u32, ()> = Lanes::new(&runtime, LanesConfig::preset(2, 1, 1, 1)).unwrap();
        lanes.register(0, ());
        let (tell, told) = channel::<Waker>();
        let job = lanes.future(READ, move |_| {
            std::future::poll_fn(move |cx| {
                let _ = tell.send(cx.waker().clone());
                Poll::<()>::Pending
            })
        });
        let mut handle = lanes.submit(&0, job);
        let waker = told.recv_timeout(SOON).unwrap();
        let begin = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                begin.wait();
                (0..20).for_each(|_| waker.wake_by_ref());
            });
            begin.wait();
            if round % 2 == 0 {
                runtime.shutdown_within(SOON);
            }
            drop(runtime);
        });
        waker.wake();
        assert_eq!(handle.wait_timeout(SOON), Some(Err(LaneError::Shutdown)), "round {round}");
        drop(lanes);
    }
}

#[test]
fn b41_after_a_sealed_job_has_panicked_the_next_is_cancelled_as_ever() {
    let bench = Bench::new((2, 1, 1, 1));
    let sealed = bench.lanes.job(READ, |cx| {
        assert!(cx.seal() && cx.ticket().scope(|| LaneTicket::current().is_some()));
        let ticket = cx.ticket();
        ticket.scope(|| panic!("asked for"))
    });
    let sealed: LaneHandle<()> = bench.lanes.submit(&0, sealed);
    bench.settle();
    assert_eq!(sealed.ticket().unwrap().cancel(), CancelOutcome::Finished);
    assert!(matches!(bench.refused(sealed), LaneError::Panicked(_)));
    assert!(LaneTicket::current().is_none(), "the scope was left");
    let gate = support::Gate::default();
    let at = gate.clone();
    let next = bench.lanes.future(READ, move |cx| async move {
        at.await;
        cx.check()
    });
    let mut next = bench.lanes.submit(&0, next);
    bench.settle();
    assert_eq!(next.cancel(), CancelOutcome::RunningSignalled);
    gate.open();
    bench.settle();
    assert_eq!(next.try_get(), Some(Ok(Err(LaneError::Cancelled))));
}
