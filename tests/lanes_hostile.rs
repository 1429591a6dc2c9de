//! Hosts whose keys, contexts, results and callbacks do what they should not: they come back to the executor, change, or panic.

#[path = "support/lanes.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod support;

use shardrun::{ActorOptions, Driver, LaneError, LaneKind, Lanes, LanesConfig, RegisterError, Runtime};
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use support::Bench;

const READ: LaneKind = LaneKind::PureRead;
const WRITE: LaneKind = LaneKind::Mutating;

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
