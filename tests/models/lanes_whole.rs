//! The executor as a whole: clients that submit, cancel, remove, register and drive, in any order of their steps.

use super::check;
use crate::lanes::{
    CancelOutcome, CoalesceKey, LaneError, LaneHandle, LaneKind, Lanes, LanesConfig, PublishCx, PublishError,
    PublishPaths, Publisher, View,
};
use crate::sync::stat::{AtomicU64, Ordering};
use crate::sync::{Arc, thread};
use crate::{Driver, Runtime};

/// What the jobs of one actor do to it: readers and writers inside, in one word.
#[derive(Default)]
struct Inside(AtomicU64);

const WRITER: u64 = 1 << 32;

impl Inside {
    fn read(&self) {
        assert!(self.0.fetch_add(1, Ordering::SeqCst) < WRITER, "a reader beside a writer");
        thread::yield_now();
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    fn write(&self) {
        assert_eq!(self.0.fetch_add(WRITER, Ordering::SeqCst), 0, "a writer beside somebody");
        thread::yield_now();
        self.0.fetch_sub(WRITER, Ordering::SeqCst);
    }
}

fn world() -> (Runtime, Lanes<u32, Inside>) {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let lanes = Lanes::new(&runtime, LanesConfig::preset(3, 2, 2, 1)).unwrap();
    for key in 0..2 {
        assert!(lanes.register(key, Inside::default()));
    }
    (runtime, lanes)
}

fn submit(lanes: &Lanes<u32, Inside>, key: u32, lane: LaneKind, later: bool) -> LaneHandle<()> {
    let job = lanes.job(lane, |cx| match cx.ticket().status() {
        _ if LaneKind::Mutating == lane_of(cx) => cx.context().write(),
        _ if LaneKind::HeavyInit == lane_of(cx) => thread::yield_now(),
        _ => cx.context().read(),
    });
    let job = job.named(lane as u64, "job");
    lanes.submit(&key, if later { job.maintenance() } else { job })
}

fn lane_of(cx: &crate::lanes::LaneCx<u32, Inside>) -> LaneKind {
    LaneKind::ALL[cx.id() as usize]
}

fn finish(runtime: &Runtime, lanes: &Lanes<u32, Inside>, handles: Vec<LaneHandle<()>>) {
    // Work that has waited its age, and what timers hold, is let go too.
    for _ in 0..3 {
        runtime.drive_all();
        runtime.advance(std::time::Duration::from_secs(11));
    }
    runtime.drive_all();
    for mut handle in handles {
        match handle.try_get() {
            None => panic!("a job was never answered"),
            Some(Ok(()) | Err(LaneError::Cancelled | LaneError::Removed | LaneError::NotRegistered)) => {}
            Some(Err(other)) => panic!("an unexpected answer: {other}"),
        }
    }
    let live = lanes.liveness();
    assert_eq!((live.interactive.queued, live.maintenance.queued), (0, 0), "room is left taken");
    assert_eq!((live.idle, live.heavy_free, live.phantoms), (3, 1, 0), "something is left taken");
}

/// Four clients submit jobs of every lane and class to two actors, and drive: all are answered, and nothing is left taken.
#[test]
fn four_clients_submit_and_drive() {
    check(|| {
        let (runtime, lanes) = world();
        let clients: Vec<_> = (0..4_u32)
            .map(|client| {
                let (runtime, lanes) = (runtime.clone(), lanes.clone());
                thread::spawn(move || {
                    let mut handles = Vec::new();
                    for step in 0..2 {
                        let lane = LaneKind::ALL[((client + 3 * step) % 5) as usize];
                        handles.push(submit(&lanes, (client + step) % 2, lane, client % 2 == 1));
                        runtime.drive_one();
                    }
                    runtime.drive_all();
                    handles
                })
            })
            .collect();
        let handles = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        finish(&runtime, &lanes, handles);
    });
}

/// Builds that compete for one permit, with cancels: the permit is never lost.
#[test]
fn builds_hand_the_permit_on() {
    check(|| {
        let (runtime, lanes) = world();
        let clients: Vec<_> = (0..4_u32)
            .map(|client| {
                let (runtime, lanes) = (runtime.clone(), lanes.clone());
                thread::spawn(move || {
                    let one = submit(&lanes, client % 2, LaneKind::HeavyInit, client == 3);
                    let two = submit(&lanes, client % 2, LaneKind::HeavyInit, false);
                    runtime.drive_one();
                    if client == 1 {
                        two.cancel();
                    }
                    runtime.drive_all();
                    vec![one, two]
                })
            })
            .collect();
        let handles = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        finish(&runtime, &lanes, handles);
    });
}

/// Reads that are let go of at once beside cancels of all that is queued: each runs or is cancelled, and nothing is left taken.
#[test]
fn reads_that_are_let_go_of_run_or_are_cancelled() {
    check(|| {
        let (runtime, lanes) = world();
        let ran = Arc::new(AtomicU64::new(0));
        let clients: Vec<_> = (0..3)
            .map(|client| {
                let (runtime, lanes, ran) = (runtime.clone(), lanes.clone(), ran.clone());
                thread::spawn(move || {
                    let mut cancelled = 0;
                    for _ in 0..2 {
                        let counts = ran.clone();
                        let read = lanes.job(LaneKind::PureRead, move |_| {
                            counts.fetch_add(1, Ordering::SeqCst);
                        });
                        let handle = lanes.submit(&0, read);
                        if client == 1 {
                            let outcomes = [CancelOutcome::QueuedRemoved, CancelOutcome::DispatchedCancelled];
                            cancelled += u64::from(outcomes.contains(&handle.cancel()));
                        }
                        handle.detach();
                        if client == 0 {
                            cancelled +=
                                lanes.actor(&0).unwrap().cancel_queued(crate::lanes::LaneClass::Interactive) as u64;
                        }
                        runtime.drive_one();
                    }
                    runtime.drive_all();
                    cancelled
                })
            })
            .collect();
        let cancelled: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
        finish(&runtime, &lanes, Vec::new());
        let ran = ran.load(Ordering::SeqCst);
        assert_eq!(ran + cancelled, 6, "{ran} ran, {cancelled} were cancelled");
        let (interactive, _) = lanes.completed();
        assert_eq!(interactive, ran);
    });
}

/// Cancels, a removal and a fresh registration beside submissions and drivers.
#[test]
fn clients_cancel_remove_and_register() {
    check(|| {
        let (runtime, lanes) = world();
        let submits = |key: u32, lane: LaneKind, cancels: bool| {
            let (runtime, lanes) = (runtime.clone(), lanes.clone());
            thread::spawn(move || {
                let one = submit(&lanes, key, lane, false);
                let two = submit(&lanes, key, LaneKind::Mutating, true);
                if cancels {
                    let outcome = two.cancel();
                    assert!(outcome != CancelOutcome::AlreadyStarted);
                }
                runtime.drive_all();
                vec![one, two]
            })
        };
        let clients = [submits(0, LaneKind::PureRead, true), submits(0, LaneKind::Mutating, false)];
        let (other, driver) = (lanes.clone(), runtime.clone());
        let removes = thread::spawn(move || {
            other.remove(&0);
            driver.drive_one();
            other.register(0, Inside::default());
            let handle = submit(&other, 0, LaneKind::Mutating, false);
            driver.drive_all();
            vec![handle]
        });
        let retires = {
            let lanes = lanes.clone();
            thread::spawn(move || lanes.retire_idle(&1))
        };
        let mut handles: Vec<_> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        handles.extend(removes.join().unwrap());
        assert!(retires.join().unwrap());
        finish(&runtime, &lanes, handles);
    });
}

/// A view that shows the set of all paths that were ever looked at.
struct Sets;

impl View<AtomicU64> for Sets {
    type Path = u64;
    type Built = u64;

    fn build(&self, _: &PublishCx<AtomicU64>, paths: &PublishPaths<u64>) -> Result<u64, PublishError> {
        thread::yield_now();
        Ok(paths.iter().fold(0, |set, path| set | path))
    }

    fn install(&self, context: &AtomicU64, built: u64) {
        // What is shown is what was looked at last; a path that nobody looks at again would be missing from the union.
        context.fetch_or(built, Ordering::SeqCst);
        context.fetch_add(1 << 32, Ordering::SeqCst);
    }
}

/// Three publish and drive: whoever is superseded, every path is looked at, and nothing is installed by who is not the newest.
#[test]
fn the_newest_publication_shows_all_that_was_asked_for() {
    check(|| {
        let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
        let lanes: Lanes<u32, AtomicU64> = Lanes::new(&runtime, LanesConfig::preset(3, 2, 2, 1)).unwrap();
        lanes.register(0, AtomicU64::new(0));
        let publisher = Publisher::new(&lanes, Sets);
        let clients: Vec<_> = [1, 2, 4]
            .map(|path| {
                let (runtime, publisher) = (runtime.clone(), publisher.clone());
                thread::spawn(move || {
                    publisher.publish(&0, [path]).unwrap();
                    runtime.drive_one();
                    runtime.drive_one();
                    runtime.drive_all();
                })
            })
            .into();
        clients.into_iter().for_each(|client: thread::JoinHandle<()>| client.join().unwrap());
        runtime.drive_all();
        let shown = lanes.actor(&0).unwrap().context().load(Ordering::SeqCst);
        assert_eq!(shown & 7, 7, "a path was not looked at");
        assert!((1..=3).contains(&(shown >> 32)));
        assert!(publisher.health().is_empty() && lanes.is_idle(&0));
    });
}

/// A read waits for a job that is answered with the result of an equal one, or cancelled, while two drive: it is answered.
#[test]
fn what_waits_for_one_who_follows_another_begins_when_that_is_answered() {
    check(|| {
        let (runtime, lanes) = world();
        let drain = || lanes.submit(&0, lanes.job(LaneKind::MaintenanceCommit, |_| ()).joined(CoalesceKey::LSP_DRAIN));
        let (leads, follows) = (drain(), drain());
        let ticket = follows.ticket().unwrap().clone();
        let read = lanes.submit(&0, lanes.job(LaneKind::PureRead, |_| ()).after(ticket.clone()));
        let drivers: Vec<_> = (0..2)
            .map(|number| {
                let (runtime, ticket) = (runtime.clone(), ticket.clone());
                thread::spawn(move || {
                    while runtime.drive_one() {
                        if number == 1 {
                            ticket.cancel();
                        }
                    }
                })
            })
            .collect();
        drivers.into_iter().for_each(|driver: thread::JoinHandle<()>| driver.join().unwrap());
        runtime.drive_all();
        assert!(read.is_resolved(), "what it waited for is over");
        finish(&runtime, &lanes, vec![leads, follows, read]);
    });
}

/// Two say that something is to be done, and there is no room: neither is told that the other does it, unless that one is queued.
#[test]
fn nobody_relies_on_an_equal_job_that_is_refused() {
    check(|| {
        let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
        let mut config = LanesConfig::preset(3, 2, 2, 1);
        config.maintenance_queue = 1;
        let lanes: Lanes<u32, ()> = Lanes::new(&runtime, config).unwrap();
        assert!(lanes.register(0, ()));
        let other = lanes.submit(&0, lanes.job(LaneKind::MaintenanceCommit, |_| ()).maintenance());
        let clients: Vec<_> = (0..2)
            .map(|_| {
                let lanes = lanes.clone();
                thread::spawn(move || {
                    let job = lanes.job(LaneKind::MaintenanceCommit, |_| ()).coalesced(CoalesceKey::LSP_DRAIN);
                    lanes.actor(&0).unwrap().try_submit(job).map_err(|refused| refused.error)
                })
            })
            .collect();
        runtime.drive_one();
        let found: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        let relies = found.iter().any(|found| matches!(found, Err(LaneError::Coalesced)));
        assert!(!relies || found.iter().any(Result::is_ok), "nobody does it");
        runtime.drive_all();
        assert!(other.is_resolved());
        let live = lanes.liveness();
        assert_eq!((live.maintenance.queued, live.idle), (0, 3), "room is left taken");
    });
}
