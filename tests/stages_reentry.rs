//! Host code that does what it should not, from wherever it is called: it removes, resets, stops, commits, waits, drops the
//! scheduler, or panics. Whatever it does is answered, and nothing hangs.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, Gate, driven, threads};
use shardrun::{
    Budget, Dependencies, Driver, Host, Interrupt, Pool, Request, Runtime, SourceRoot, Stage, StageCx, StageError,
    Stages,
};
use std::collections::HashSet;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

const WATCHDOG: Duration = Duration::from_secs(300);

fn a() -> String {
    "a".into()
}

/// What host code does to the scheduler that has called it.
type Deed = fn(&Stages<Files>);

/// Every deed, with its name.
const DEEDS: [(&str, Deed); 13] = [
    ("remove", |stages| _ = stages.remove(&a())),
    ("reset", |stages| _ = stages.reset()),
    ("stop and restart", |stages| {
        stages.stop();
        stages.restart();
    }),
    ("re-home", |stages| _ = stages.rehome(&a())),
    ("invalidate", |stages| _ = stages.invalidate(&a())),
    ("close", |stages| _ = stages.close_file(&a())),
    ("edit", |stages| _ = stages.set_text(a(), "edit".into())),
    ("register a ring", |stages| {
        stages.register_resolved_deps(&a(), Dependencies::none().with_blockers([a(), "b".into()]));
        stages.register_resolved_deps(&"b".into(), Dependencies::none().with_blockers([a()]));
    }),
    ("register nothing", |stages| _ = stages.register_resolved_deps(&a(), Dependencies::none())),
    ("commit and evict", |stages| {
        let Some((_, witness)) = stages.try_get_witnessed_source(&a()) else { return };
        let _ = stages.commit_artifact(&witness, &1, Arc::new("outside".into()));
        let _ = stages.remove_artifact_not_newer_than(&witness, &1);
    }),
    ("batch", |stages| {
        let edits = ["a", "b"].map(|file| Request::artifact(file.into(), 1).text("batch".into()));
        drop(stages.submit_batch_atomic(edits));
    }),
    ("quiesce", |stages| _ = stages.quiesce_within(Duration::ZERO)),
    ("wait for itself", |stages| {
        for profile in 1..3 {
            let _ = stages.submit_request(Request::artifact(a(), profile)).wait_timeout(WATCHDOG).expect("an answer");
        }
    }),
];

/// The scheduler still does what it is for.
fn is_well(what: &str, stages: &Stages<Files>) {
    stages.restart();
    for file in ["a", "b", "c"] {
        let mut handle = stages.submit_request(Request::artifact(file.into(), 1));
        let answer = handle.wait_timeout(WATCHDOG).unwrap_or_else(|| panic!("{what}: {file} is not answered"));
        assert!(answer.is_ok(), "{what}: {file}: {answer:?}");
    }
    assert_eq!(stages.quiesce_within(WATCHDOG), Ok(true), "{what}");
    assert_eq!(stages.dependency_occupancy(), Default::default(), "{what}");
}

fn runtimes() -> [Runtime; 4] {
    [
        Runtime::builder().driver(Driver::Inline).build().unwrap(),
        Runtime::builder().driver(Driver::Seeded { seed: 7 }).build().unwrap(),
        Runtime::builder().workers(1).io_threads(0).build().unwrap(),
        Runtime::builder().workers(2).build().unwrap(),
    ]
}

fn stored() -> Files {
    let host = Files::with([("a", "one"), ("b", "two"), ("c", "three")]);
    host.blocks("a", ["b"]);
    host
}

#[test]
fn every_stage_may_do_anything_to_its_own_file_and_scheduler() {
    for runtime in runtimes() {
        for (name, deed) in DEEDS {
            for stage in [Stage::Source, Stage::Analysis, Stage::Artifact] {
                let what = format!("{name} in {stage}");
                let host = stored();
                let budget = Budget::for_runtime(16, &runtime);
                let stages = Stages::builder(&runtime, host.clone()).budget(budget.clone()).build();
                let (left, (over, done)) = (AtomicUsize::new(1), channel());
                host.hook(move |cx, at| {
                    let again = |left: usize| left.checked_sub(1);
                    let mine = at.file == "a" && at.stage == stage;
                    if mine && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, again).is_ok() {
                        deed(&cx.scheduler().expect("it is there"));
                        over.send(()).expect("the test waits for it");
                    }
                    Act::Go
                });
                let mut asked = stages.submit_request(Request::artifact(a(), 1));
                assert!(asked.wait_timeout(WATCHDOG).is_some(), "{what} is not answered");
                // What the deed ended may be answered before the deed is over, which restarts, perhaps.
                done.recv_timeout(WATCHDOG).unwrap_or_else(|_| panic!("{what} does not end"));
                is_well(&what, &stages);
                assert_eq!(budget.in_use(), 0, "{what}");
            }
        }
    }
}

#[test]
fn a_joiners_callback_may_do_anything_to_its_own_file_and_scheduler() {
    for runtime in runtimes() {
        for (name, deed) in DEEDS {
            let host = stored();
            let stages = Stages::new(&runtime, host.clone());
            let gate = Gate::default();
            let driven = runtime.workers() == 0;
            if !driven {
                let at = gate.clone();
                host.hook(move |_, _| {
                    at.pass();
                    Act::Go
                });
            }
            let mut first = stages.submit_request(Request::artifact(a(), 1));
            let (inner, opened) = (stages.clone(), gate.clone());
            let request = Request::artifact(a(), 1).on_join(move |_| {
                if name == "wait for itself" {
                    opened.open();
                }
                deed(&inner);
                panic!("asked for");
            });
            let mut second = stages.submit_request(request);
            gate.open();
            for handle in [&mut first, &mut second] {
                assert!(handle.wait_timeout(WATCHDOG).is_some(), "{name} is not answered");
            }
            is_well(name, &stages);
        }
    }
}

/// A waker that does something once.
struct Once(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for Once {
    fn wake(self: Arc<Self>) {
        let action = self.0.lock().unwrap().take();
        if let Some(action) = action {
            action();
        }
    }
}

#[test]
fn who_waits_for_quiescence_as_a_blockers_failure_is_told_is_told_that_he_waits_for_himself() {
    let (host, told) = (stored(), Arc::new(Mutex::new(None)));
    host.hook(|_, at| if at.file == "b" { Act::Fail("asked for") } else { Act::Go });
    let (runtime, stages) = driven(&host);
    let mut owner = stages.submit_request(Request::artifact(a(), 1));
    let (inner, said) = (stages.clone(), told.clone());
    let action = move || *said.lock().unwrap() = Some(inner.quiesce());
    let waker = Waker::from(Arc::new(Once(Mutex::new(Some(Box::new(action))))));
    assert!(Pin::new(&mut owner).poll(&mut Context::from_waker(&waker)).is_pending());
    runtime.drive_all();
    assert!(owner.is_resolved());
    let said = told.lock().unwrap().take();
    assert!(matches!(said, Some(Err(Interrupt::WouldDeadlock(_)))), "{said:?}");
    assert_eq!(stages.quiesce(), Ok(()));
}

#[test]
fn a_waker_may_do_anything_to_the_file_and_scheduler_and_panic() {
    for runtime in runtimes() {
        for (name, deed) in DEEDS {
            let host = stored();
            let stages = Stages::new(&runtime, host.clone());
            let gate = Gate::default();
            if runtime.workers() > 0 {
                let at = gate.clone();
                host.hook(move |_, _| {
                    at.pass();
                    Act::Go
                });
            }
            let mut handle = stages.submit_request(Request::artifact(a(), 1));
            let (inner, (over, done)) = (stages.clone(), channel());
            let action = move || {
                deed(&inner);
                over.send(()).expect("the test waits for it");
                panic!("asked for");
            };
            let waker = Waker::from(Arc::new(Once(Mutex::new(Some(Box::new(action))))));
            let polled = Pin::new(&mut handle).poll(&mut Context::from_waker(&waker));
            gate.open();
            if polled.is_pending() {
                // Not by a wait at first, which would take the waker's place.
                if runtime.workers() == 0 {
                    runtime.drive_all();
                }
                done.recv_timeout(WATCHDOG).unwrap_or_else(|_| panic!("{name} does not end"));
                assert!(handle.wait_timeout(WATCHDOG).is_some(), "{name} is not answered");
            }
            is_well(name, &stages);
        }
    }
}

#[test]
fn the_last_handle_of_a_scheduler_may_be_dropped_anywhere() {
    for runtime in runtimes() {
        for stage in [Stage::Source, Stage::Analysis, Stage::Artifact] {
            let host = stored();
            let slot: Arc<Mutex<Option<Stages<Files>>>> = Arc::default();
            let mine = slot.clone();
            host.hook(move |_, at| {
                if at.stage == stage && at.file == "a" {
                    drop(mine.lock().unwrap().take());
                }
                Act::Go
            });
            let stages = Stages::new(&runtime, host.clone());
            *slot.lock().unwrap() = Some(stages.clone());
            let root = stages.capture_source_root();
            let mut handles: Vec<_> =
                ["a", "b"].map(|file| stages.submit_request(Request::artifact(file.into(), 1))).into();
            drop(stages);
            for handle in &mut handles {
                let answer = handle.wait_timeout(WATCHDOG).expect("an answer");
                assert!(matches!(answer, Ok(_) | Err(StageError::Shutdown)), "{answer:?}");
            }
            drop(root);
        }
    }
}

/// A host whose payloads, when they are dropped, use the scheduler in every way.
struct Clinging(Mutex<Option<Stages<Clinging>>>, AtomicUsize, Mutex<Vec<SourceRoot<Clinging>>>);

struct Payload(u32);

static CLINGING: Mutex<Option<Arc<dyn Fn() + Send + Sync>>> = Mutex::new(None);

impl Drop for Payload {
    fn drop(&mut self) {
        let action = CLINGING.lock().unwrap().clone();
        if let Some(action) = action {
            action();
        }
    }
}

impl Host for Clinging {
    type File = u32;
    type Text = ();
    type Source = Payload;
    type Analysis = Payload;
    type Artifact = Payload;
    type Profile = u8;
    type Error = Infallible;

    fn load(&self, _: &u32) -> Result<Option<()>, Infallible> {
        Ok(Some(()))
    }

    fn source(&self, cx: &StageCx<'_, Self>, (): ()) -> Result<Payload, Infallible> {
        Ok(Payload(*cx.file()))
    }

    fn dependencies(&self, cx: &StageCx<'_, Self>, _: &Payload) -> Dependencies<u32> {
        Dependencies::none().with_blockers([(cx.file() + 1) % 4])
    }

    fn analysis(&self, _: &StageCx<'_, Self>, source: &Payload) -> Result<Payload, Infallible> {
        Ok(Payload(source.0))
    }

    fn artifact(&self, _: &StageCx<'_, Self>, _: &u8, source: &Payload, _: &Payload) -> Result<Payload, Infallible> {
        Ok(Payload(source.0))
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

/// One test alone uses what the destructors share.
#[test]
fn destructors_of_payloads_may_use_the_scheduler_in_every_way() {
    for runtime in runtimes() {
        let host = Clinging(Mutex::default(), AtomicUsize::new(0), Mutex::default());
        let stages = Stages::new(&runtime, host);
        *stages.host().0.lock().unwrap() = Some(stages.clone());
        let (inner, depth) = (stages.clone(), Mutex::new(HashSet::new()));
        let action: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            // Not inside one another for ever.
            let me = std::thread::current().id();
            if !depth.lock().unwrap().insert(me) {
                return;
            }
            let round = inner.host().1.fetch_add(1, Ordering::Relaxed);
            let file = (round % 4) as u32;
            match round % 11 {
                0 => drop(inner.submit_request(Request::artifact(file, 1).text(()))),
                1 => _ = inner.remove(&file),
                2 if round % 5 == 0 => _ = inner.reset(),
                3 => inner.host().2.lock().unwrap().push(inner.capture_source_root()),
                4 => {
                    let mut roots = std::mem::take(&mut *inner.host().2.lock().unwrap());
                    roots.truncate(2);
                    *inner.host().2.lock().unwrap() = roots;
                }
                5 => _ = inner.rehome(&file),
                6 => drop(inner.submit_batch_atomic((0..4).map(|file| Request::analysis(file).text(())))),
                7 => _ = inner.dependents(&file),
                8 => _ = inner.try_get_last_good_artifact(&file, &1),
                9 => _ = inner.register_resolved_deps(&file, Dependencies::none().with_blockers([0, 1, 2])),
                _ => _ = inner.dependency_occupancy(),
            }
            depth.lock().unwrap().remove(&me);
        });
        *CLINGING.lock().unwrap() = Some(action.clone());
        // What is replaced is dropped once no thread is pinned that was then, so it may take more rounds on a busy machine.
        let deeds = || stages.host().1.load(Ordering::Relaxed);
        for round in (0..40_000).take_while(|&round| round < 400 || deeds() <= 400) {
            let mut handle = stages.submit_request(Request::artifact(round % 4, 1).text(()));
            assert!(handle.wait_timeout(WATCHDOG).is_some(), "round {round} is not answered");
            if round % 7 == 0 {
                stages.remove(&(round % 4));
            }
        }
        assert!(deeds() > 400);
        *CLINGING.lock().unwrap() = None;
        // A destructor on another thread may still be at it.
        while Arc::strong_count(&action) > 1 {
            std::thread::yield_now();
        }
        drop(action);
        assert_eq!(stages.quiesce_within(WATCHDOG), Ok(true));
        let roots = std::mem::take(&mut *stages.host().2.lock().unwrap());
        drop(roots);
        let counters = stages.counters();
        assert_eq!((counters.live_roots, counters.retained_versions), (0, 0));
        assert_eq!(stages.dependency_occupancy(), Default::default());
        stages.host().0.lock().unwrap().take();
    }
}

#[test]
fn quiescence_inside_a_stage_is_refused() {
    let host = stored();
    let (_runtime, stages) = driven(&host);
    host.hook(|cx, _| {
        let stages = cx.scheduler().expect("it is there");
        match stages.quiesce() {
            Err(Interrupt::WouldDeadlock(_)) => Act::Go,
            _ => Act::Fail("it was not refused"),
        }
    });
    assert!(stages.submit_request(Request::artifact(a(), 1)).wait().is_ok());
}

#[test]
fn resets_in_a_storm_answer_everybody_on_one_worker() {
    let host = stored();
    let runtime = threads(1);
    let budget = Budget::for_runtime(8, &runtime);
    let stages = Stages::builder(&runtime, host).budget(budget.clone()).limit(Pool::Workers, 1).unwrap().build();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let stages = &stages;
            scope.spawn(move || {
                for round in 0..300 {
                    let file = ["a", "b", "c"][round % 3].to_string();
                    let mut handle = stages.submit_request(Request::artifact(file.clone(), 1));
                    if round % 5 == thread {
                        stages.submit_request(Request::source(file).text("edit".into())).detach();
                    }
                    let answer = handle.wait_timeout(WATCHDOG).expect("an answer");
                    assert!(matches!(answer, Ok(_) | Err(StageError::Shutdown | StageError::Superseded)), "{answer:?}");
                }
            });
        }
        scope.spawn(|| (0..2_000).for_each(|_| _ = stages.reset()));
    });
    is_well("a storm", &stages);
    assert_eq!(budget.in_use(), 0);
}
