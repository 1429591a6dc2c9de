//! Views: built beside an actor, installed alone, superseded by newer ones without losing what those before were to look at.

#[path = "support/lanes.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod support;

use shardrun::{
    Driver, LaneError, LaneKind, Lanes, LanesConfig, PublishCx, PublishError, PublishPaths, PublishPhase, Publisher,
    Runtime, View,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(300);

/// What an actor shows, and what was done to it.
#[derive(Default)]
struct Shown {
    current: Mutex<String>,
    log: Mutex<Vec<String>>,
}

type Hook = Box<dyn Fn(&PublishCx<Shown>, usize) -> Result<(), PublishError> + Send + Sync>;

/// A view whose text names what was looked at.
struct Text {
    hook: Hook,
    builds: AtomicUsize,
    discarded: Arc<AtomicUsize>,
}

impl View<Shown> for Text {
    type Path = &'static str;
    type Built = String;

    fn build(&self, cx: &PublishCx<Shown>, paths: &PublishPaths<&'static str>) -> Result<String, PublishError> {
        let number = self.builds.fetch_add(1, Ordering::SeqCst);
        cx.enter(PublishPhase::Manifest)?;
        (self.hook)(cx, number)?;
        cx.enter(PublishPhase::Derived)?;
        cx.context().log.lock().unwrap().push(format!("derived {number}"));
        let named = paths.iter().copied().collect::<Vec<_>>().join("+");
        Ok(if paths.is_everything() { "everything".to_owned() } else { named })
    }

    fn install(&self, context: &Shown, built: String) {
        *context.current.lock().unwrap() = built;
    }

    fn discard(&self, _: String) {
        self.discarded.fetch_add(1, Ordering::SeqCst);
    }
}

struct World {
    runtime: Runtime,
    lanes: Lanes<u32, Shown>,
    publisher: Publisher<u32, Shown, Text>,
    discarded: Arc<AtomicUsize>,
}

fn world(driver: Driver, hook: Hook) -> World {
    let runtime = Runtime::builder().workers(2).io_threads(3).driver(driver).build().unwrap();
    let lanes = Lanes::new(&runtime, LanesConfig::preset(4, 2, 3, 1)).unwrap();
    lanes.register(0, Shown::default());
    let discarded = Arc::new(AtomicUsize::new(0));
    let view = Text { hook, builds: AtomicUsize::new(0), discarded: discarded.clone() };
    let publisher = Publisher::new(&lanes, view);
    World { runtime, lanes, publisher, discarded }
}

impl World {
    fn shown(&self) -> String {
        self.lanes.actor(&0).unwrap().context().current.lock().unwrap().clone()
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.lanes.actor(&0).unwrap().context().log.lock().unwrap())
    }
}

/// A hook that holds the first build until the sender is dropped.
fn held() -> (Hook, Sender<()>, Receiver<()>) {
    let (open, gate) = channel::<()>();
    let (entered, inside) = channel();
    let (gate, entered) = (Mutex::new(gate), Mutex::new(entered));
    let hook = move |_: &PublishCx<Shown>, number: usize| {
        if number == 0 {
            entered.lock().unwrap().send(()).unwrap();
            let _ = gate.lock().unwrap().recv_timeout(SOON);
        }
        Ok(())
    };
    (Box::new(hook), open, inside)
}

/// Waits until all that was submitted and published is over.
fn at_rest(world: &World) {
    while !world.publisher.health().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(world.lanes.drain(&0).wait(), Ok(()));
}

#[test]
fn s129_s132_an_actor_goes_on_while_its_view_is_built_and_is_not_idle_meanwhile() {
    let (hook, open, inside) = held();
    let world = world(Driver::Threads, hook);
    world.publisher.publish(&0, ["a"]).unwrap();
    inside.recv_timeout(SOON).unwrap();
    let write = world.lanes.job(LaneKind::Mutating, |_| 1);
    assert_eq!(world.lanes.submit(&0, write).wait(), Ok(1));
    let read = world.lanes.job(LaneKind::PureRead, |cx| cx.context().current.lock().unwrap().clone());
    assert_eq!(world.lanes.submit(&0, read).wait(), Ok(String::new()), "the view before");
    assert!(!world.lanes.is_idle(&0) && !world.lanes.retire_idle(&0));
    let health = world.publisher.health();
    assert_eq!((health.len(), health[0].phase, health[0].superseded), (1, PublishPhase::Manifest, false));
    drop(open);
    at_rest(&world);
    assert_eq!(world.shown(), "a");
    assert!(world.lanes.is_idle(&0));
}

#[test]
fn s130_s131_a_newer_publication_looks_at_all_that_is_owed_and_does_not_wait_for_the_older() {
    let (hook, open, inside) = held();
    let world = world(Driver::Threads, hook);
    world.publisher.publish(&0, ["a"]).unwrap();
    inside.recv_timeout(SOON).unwrap();
    world.publisher.publish(&0, ["b"]).unwrap();
    while world.shown() != "a+b" {
        std::thread::yield_now();
    }
    assert!(world.publisher.health()[0].superseded, "the older one has not been let go");
    drop(open);
    at_rest(&world);
    assert_eq!((world.shown(), world.log()), ("a+b".into(), vec!["derived 1".to_owned()]));
    world.publisher.publish(&0, ["c"]).unwrap();
    at_rest(&world);
    assert_eq!(world.shown(), "c", "what was published is owed no more");
}

#[test]
fn s131_an_empty_set_stands_for_everything() {
    let (hook, open, inside) = held();
    let world = world(Driver::Threads, hook);
    world.publisher.publish(&0, ["a"]).unwrap();
    inside.recv_timeout(SOON).unwrap();
    // Nothing is installed before all has been asked for.
    let (installs, held) = channel::<()>();
    let held = Mutex::new(held);
    let write = world.lanes.job(LaneKind::Mutating, move |_| held.lock().unwrap().recv_timeout(SOON).is_ok());
    world.lanes.submit(&0, write).detach();
    world.publisher.publish(&0, []).unwrap();
    world.publisher.publish(&0, ["b"]).unwrap();
    drop((open, installs));
    at_rest(&world);
    assert_eq!(world.shown(), "everything");
}

#[test]
fn f17_the_install_waits_like_a_writer_and_what_is_superseded_there_is_discarded() {
    let world = world(Driver::Inline, Box::new(|_, _| Ok(())));
    let gate = support::Gate::default();
    let at = gate.clone();
    let read = world.lanes.submit(&0, world.lanes.future(LaneKind::PureRead, move |_| at));
    world.publisher.publish(&0, ["a"]).unwrap();
    world.runtime.drive_all();
    assert_eq!(world.publisher.health()[0].phase, PublishPhase::Install);
    assert_eq!(world.lanes.actor(&0).unwrap().counts().interactive_queued, 1, "it waits without a thread");
    world.publisher.publish(&0, ["b"]).unwrap();
    world.runtime.drive_all();
    gate.open();
    world.runtime.drive_all();
    assert!(read.is_resolved());
    assert_eq!((world.shown(), world.discarded.load(Ordering::SeqCst)), ("a+b".into(), 1));
    assert!(world.lanes.is_idle(&0) && world.publisher.health().is_empty());
}

#[test]
fn s134_s135_a_failure_is_tried_again_with_all_that_is_owed_and_waits_longer_each_time() {
    let fails = Arc::new(AtomicUsize::new(10));
    let left = fails.clone();
    let hook =
        move |_: &PublishCx<Shown>, number: usize| match left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
        {
            Ok(_) if number % 2 == 1 => panic!("asked for"),
            Ok(_) => Err(PublishError::Failed("asked for".into())),
            Err(_) => Ok(()),
        };
    let world = world(Driver::Inline, Box::new(hook));
    let second = Duration::from_secs(1);
    world.publisher.publish(&0, ["a"]).unwrap();
    world.runtime.drive_all();
    assert_eq!(fails.load(Ordering::SeqCst), 9);
    for (round, wait) in (0_u32..).zip([1, 2, 4, 8]) {
        assert_eq!(world.publisher.health()[0].phase, PublishPhase::RetryWait);
        world.runtime.advance(wait * second - Duration::from_nanos(1));
        world.runtime.drive_all();
        assert_eq!(fails.load(Ordering::SeqCst), 9 - round as usize);
        world.runtime.advance(Duration::from_nanos(1));
        world.runtime.drive_all();
        assert_eq!(fails.load(Ordering::SeqCst), 8 - round as usize);
    }
    world.publisher.publish(&0, ["b"]).unwrap();
    world.runtime.drive_all();
    assert_eq!(fails.load(Ordering::SeqCst), 4, "an edit is tried at once");
    world.runtime.advance(second);
    world.runtime.drive_all();
    assert_eq!(fails.load(Ordering::SeqCst), 3, "and begins with a second again");
    for _ in 0..4 {
        world.runtime.advance(400 * second);
        world.runtime.drive_all();
    }
    assert_eq!(world.shown(), "a+b");
    assert!(world.lanes.is_idle(&0) && world.publisher.health().is_empty());
}

#[test]
fn what_failed_and_waits_to_be_tried_again_holds_nobody_up() {
    let fails = Arc::new(AtomicUsize::new(2));
    let left = fails.clone();
    let hook =
        move |_: &PublishCx<Shown>, _: usize| match left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
        {
            Ok(_) => Err(PublishError::Failed("asked for".into())),
            Err(_) => Ok(()),
        };
    let world = world(Driver::Inline, Box::new(hook));
    world.publisher.publish(&0, ["a"]).unwrap();
    world.runtime.drive_all();
    assert_eq!(world.publisher.health()[0].phase, PublishPhase::RetryWait);
    let mut drain = world.lanes.drain(&0);
    world.runtime.drive_all();
    assert_eq!(drain.try_get(), Some(Ok(())), "nothing of it runs or is queued");
    assert!(world.lanes.is_idle(&0));
    world.runtime.advance(Duration::from_secs(1));
    world.runtime.drive_all();
    assert_eq!(fails.load(Ordering::SeqCst), 0, "it was tried again");
    world.publisher.publish(&0, ["b"]).unwrap();
    world.runtime.drive_all();
    assert_eq!(world.shown(), "a+b");
    assert!(world.publisher.health().is_empty(), "what a newer one has published is not tried again");
    assert!(world.lanes.is_idle(&0) && world.lanes.retire_idle(&0));
}

#[test]
fn of_publications_that_come_faster_than_they_are_built_none_is_refused() {
    let world = world(Driver::Inline, Box::new(|_, _| Ok(())));
    for _ in 0..1_100 {
        assert_eq!(world.publisher.publish(&0, ["a"]), Ok(()));
    }
    assert!(world.publisher.health().len() <= 2, "those that have not begun are one");
    world.publisher.publish(&0, ["b"]).unwrap();
    world.runtime.drive_all();
    assert_eq!((world.shown().len(), world.shown().ends_with('b')), (2 * 1_101 - 1, true), "each was looked at");
    assert!(world.lanes.is_idle(&0) && world.publisher.health().is_empty());
    for _ in 0..5_000 {
        assert_eq!(world.publisher.publish(&0, ["a"]), Ok(()));
    }
    world.runtime.drive_all();
    assert_eq!(world.shown(), "everything", "what is owed does not grow without end");
}

#[test]
fn builds_that_wait_to_be_installed_are_bounded_and_count_as_nothing_else() {
    let world = world(Driver::Inline, Box::new(|_, _| Ok(())));
    let gate = support::Gate::default();
    let at = gate.clone();
    let read = world.lanes.submit(&0, world.lanes.future(LaneKind::PureRead, move |_| at));
    for _ in 0..1_023 {
        world.publisher.publish(&0, ["a"]).unwrap();
        world.runtime.drive_all();
    }
    assert!(matches!(world.publisher.publish(&0, ["b"]), Err(LaneError::Backpressure(_))));
    let hold = support::Gate::default();
    let at = hold.clone();
    let status = world.lanes.submit(&0, world.lanes.future(LaneKind::SerialLspStatus, move |_| at));
    world.runtime.drive_all();
    let build = world.lanes.submit(&0, world.lanes.heavy(|_| (), |_, ()| ()));
    world.runtime.drive_all();
    let counts = world.lanes.actor(&0).unwrap().counts();
    let running = (counts.reads, counts.status, counts.heavy, counts.writers, counts.commits);
    assert_eq!(running, (1, 1, 1_023, 0, 0), "the build waits, and takes nobody's place");
    assert!(!build.is_resolved() && !status.is_resolved());
    gate.open();
    hold.open();
    world.runtime.drive_all();
    assert!(read.is_resolved() && status.is_resolved() && build.is_resolved());
    assert_eq!((world.shown().len(), world.discarded.load(Ordering::SeqCst)), (2 * 1_023 - 1, 1_022));
    assert!(world.lanes.is_idle(&0) && world.publisher.health().is_empty());
}

#[test]
fn a_publication_of_an_actor_that_goes_is_discarded() {
    let (hook, open, inside) = held();
    let world = world(Driver::Threads, hook);
    world.publisher.publish(&0, ["a"]).unwrap();
    inside.recv_timeout(SOON).unwrap();
    assert!(world.lanes.remove(&0));
    drop(open);
    while !world.publisher.health().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(world.discarded.load(Ordering::SeqCst), 1);
    assert_eq!(world.publisher.publish(&0, ["a"]), Err(LaneError::NotRegistered));
}

#[test]
fn publications_from_many_threads_publish_the_union() {
    let world = world(Driver::Threads, Box::new(|_, _| Ok(())));
    let seen = Arc::new(Mutex::new(std::collections::BTreeSet::new()));
    std::thread::scope(|scope| {
        for names in [["a", "b"], ["c", "d"], ["e", "f"]] {
            let (world, seen) = (&world, &seen);
            scope.spawn(move || {
                for name in names.into_iter().cycle().take(200) {
                    world.publisher.publish(&0, [name]).unwrap();
                    seen.lock().unwrap().extend(world.shown().split('+').map(str::to_owned));
                }
            });
        }
    });
    at_rest(&world);
    world.publisher.publish(&0, ["z"]).unwrap();
    at_rest(&world);
    assert_eq!(world.shown(), "z", "nothing is owed twice");
}

/// A version of a view, which lies somewhere as long as somebody shows it.
struct Version(u32, Arc<AtomicUsize>);

impl Drop for Version {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What an actor shows: one version, which readers hold on to.
#[derive(Default)]
struct Holder(Mutex<Option<Arc<Version>>>);

/// Numbers the versions that it builds, and counts those that are there.
struct Numbered(AtomicUsize, Arc<AtomicUsize>);

impl View<Holder> for Numbered {
    type Path = ();
    type Built = Version;

    fn build(&self, _: &PublishCx<Holder>, _: &PublishPaths<()>) -> Result<Version, PublishError> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Ok(Version(self.0.fetch_add(1, Ordering::SeqCst) as u32, self.1.clone()))
    }

    fn install(&self, context: &Holder, built: Version) {
        *context.0.lock().unwrap() = Some(Arc::new(built));
    }
}

#[test]
fn s133_an_old_version_is_there_as_long_as_a_reader_holds_it_and_then_goes() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let lanes = Lanes::new(&runtime, LanesConfig::preset(4, 2, 3, 1)).unwrap();
    lanes.register(0, Holder::default());
    let there = Arc::new(AtomicUsize::new(0));
    let publisher = Publisher::new(&lanes, Numbered(AtomicUsize::new(0), there.clone()));
    let publish = || {
        publisher.publish(&0, []).unwrap();
        runtime.drive_all();
    };
    publish();
    let gate = support::Gate::default();
    let at = gate.clone();
    // It reads on outside the lane, so that the next version may be installed.
    let mut held =
        lanes.submit(&0, lanes.job(LaneKind::PureRead, |cx| cx.context().0.lock().unwrap().clone().unwrap()));
    runtime.drive_all();
    let version = held.try_get().unwrap().unwrap();
    let reads = runtime.spawn_future(async move {
        at.await;
        version.0
    });
    runtime.drive_all();
    publish();
    publish();
    assert_eq!(there.load(Ordering::SeqCst), 2, "the one that is shown, and the one that is held");
    gate.open();
    runtime.drive_all();
    assert_eq!(reads.wait(), Ok(0), "it saw its version to the end");
    assert_eq!(there.load(Ordering::SeqCst), 1);
}
