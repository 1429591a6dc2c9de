//! Oracles on real threads: no job sees a writer, no registration is lost, sums come out at rest.

#[path = "support/lanes.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod support;

use shardrun::{
    ActorOptions, CancelOutcome, CoalesceKey, LaneClass, LaneError, LaneKind, Lanes, LanesConfig, RegisterError,
    Runtime,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// What has not come after this long never will.
const SOON: Duration = Duration::from_secs(300);

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

/// Readers and writers inside an actor.
#[derive(Default)]
struct Flags {
    writes: AtomicBool,
    shared: AtomicUsize,
}

fn executor<C: Send + Sync + 'static>(pool: usize) -> (Runtime, Lanes<u32, C>) {
    let runtime = Runtime::builder().workers(pool).io_threads(1).build().unwrap();
    let mut config = LanesConfig::preset(pool, 4, pool - 1, 2);
    config.interactive_queue = 4_096;
    config.maintenance_queue = 4_096;
    let lanes = Lanes::new(&runtime, config).unwrap();
    (runtime, lanes)
}

#[test]
fn s32_no_job_ever_sees_the_writer_of_its_actor() {
    let (_runtime, lanes) = executor::<Flags>(4);
    for key in 0..8 {
        lanes.register(key, Flags::default());
    }
    let seen = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (lanes, seen) = (&lanes, &seen);
            scope.spawn(move || {
                let mut random = Random(thread + 1);
                let mut handles = Vec::new();
                for _ in 0..20_000 {
                    let lane = LaneKind::ALL[random.next() as usize % 5];
                    let seen = seen.clone();
                    let job = lanes.job(lane, move |cx| {
                        let flags = cx.context();
                        let bad = match lane {
                            LaneKind::Mutating => {
                                let other = flags.writes.swap(true, Ordering::SeqCst);
                                let shared = flags.shared.load(Ordering::SeqCst) > 0;
                                std::hint::spin_loop();
                                flags.writes.store(false, Ordering::SeqCst);
                                other || shared
                            }
                            LaneKind::HeavyInit => false,
                            _ => {
                                flags.shared.fetch_add(1, Ordering::SeqCst);
                                let writes = flags.writes.load(Ordering::SeqCst);
                                std::hint::spin_loop();
                                flags.shared.fetch_sub(1, Ordering::SeqCst);
                                writes
                            }
                        };
                        seen.fetch_add(usize::from(bad), Ordering::Relaxed);
                    });
                    let job = if random.next().is_multiple_of(3) { job.maintenance() } else { job };
                    handles.push(lanes.submit(&(random.next() as u32 % 8), job));
                    if handles.len() > 64 {
                        handles.drain(..).for_each(|handle| assert_eq!(handle.wait(), Ok(())));
                    }
                }
                handles.into_iter().for_each(|handle| assert_eq!(handle.wait(), Ok(())));
            });
        }
    });
    assert_eq!(seen.load(Ordering::Relaxed), 0);
    let (interactive, maintenance) = lanes.completed();
    assert_eq!(interactive + maintenance, 40_000);
}

#[test]
fn s19_register_remove_retire_and_submit_lose_no_answer() {
    let (_runtime, lanes) = executor::<AtomicU64>(4);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (lanes, stop) = (&lanes, &stop);
        scope.spawn(move || {
            let mut random = Random(7);
            while !stop.load(Ordering::Relaxed) {
                let key = random.next() as u32 % 4;
                match random.next() % 4 {
                    0 => drop(lanes.register(key, AtomicU64::new(0))),
                    1 => drop(lanes.remove(&key)),
                    2 => drop(lanes.retire_idle(&key)),
                    _ => drop(lanes.reset(key, AtomicU64::new(0))),
                }
            }
        });
        let clients: Vec<_> = (0..2)
            .map(|client| {
                scope.spawn(move || {
                    let mut random = Random(client + 11);
                    for _ in 0..10_000 {
                        let lane = LaneKind::ALL[random.next() as usize % 5];
                        let job = lanes.job(lane, |cx| cx.context().fetch_add(1, Ordering::Relaxed));
                        match lanes.submit(&(random.next() as u32 % 4), job).wait() {
                            Ok(_) | Err(LaneError::NotRegistered | LaneError::Removed | LaneError::Reset) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        stop.store(true, Ordering::Relaxed);
    });
    let left = (0..4).filter(|key| lanes.is_registered(key)).count();
    assert_eq!((lanes.actor_count(), lanes.actors().len()), (left, left));
    for key in 0..4 {
        assert!(!lanes.is_registered(&key) || lanes.is_idle(&key));
    }
}

#[test]
fn s78_a_drain_sees_the_flag_of_every_submission_that_it_stands_for() {
    let (_runtime, lanes) = executor::<AtomicU64>(4);
    lanes.register(0, AtomicU64::new(0));
    // An event raises the number, and asks for a drain; a drain takes the number down.
    let drained = Arc::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (lanes, drained) = (&lanes, &drained);
            scope.spawn(move || {
                let actor = lanes.actor(&0).unwrap();
                for _ in 0..20_000 {
                    actor.context().fetch_add(1, Ordering::Relaxed);
                    let drained = drained.clone();
                    let job = lanes.job(LaneKind::MaintenanceCommit, move |cx| {
                        drained.fetch_add(cx.context().swap(0, Ordering::Relaxed), Ordering::Relaxed);
                    });
                    lanes.submit(&0, job.coalesced(CoalesceKey::WATCHER_DRAIN)).detach();
                }
            });
        }
    });
    assert_eq!(lanes.drain(&0).wait(), Ok(()));
    assert_eq!(drained.load(Ordering::Relaxed), 40_000, "an event was lost");
}

#[test]
fn a_job_that_is_let_go_of_runs_or_is_cancelled_and_never_both() {
    let (_runtime, lanes) = executor::<AtomicU64>(3);
    lanes.register(0, AtomicU64::new(0));
    let (cancelled, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (lanes, cancelled, stop) = (&lanes, &cancelled, &stop);
        let clients: Vec<_> = (0..2)
            .map(|client| {
                scope.spawn(move || {
                    let (actor, mut random) = (lanes.actor(&0).unwrap(), Random(client + 29));
                    for _ in 0..8_000 {
                        let lane =
                            if random.next().is_multiple_of(8) { LaneKind::Mutating } else { LaneKind::PureRead };
                        let job = lanes.job(lane, |cx| _ = cx.context().fetch_add(1, Ordering::Relaxed));
                        if random.next().is_multiple_of(3) {
                            let refused = actor.execute(job).is_err();
                            cancelled.fetch_add(u64::from(refused), Ordering::Relaxed);
                            continue;
                        }
                        let handle = actor.submit_blocking(job).expect("it is registered");
                        let outcome = match random.next() % 4 {
                            0 => handle.cancel(),
                            1 => {
                                let ticket = handle.ticket().unwrap().clone();
                                handle.detach();
                                ticket.cancel_before_start()
                            }
                            _ => continue,
                        };
                        let never_runs = [CancelOutcome::QueuedRemoved, CancelOutcome::DispatchedCancelled];
                        cancelled.fetch_add(u64::from(never_runs.contains(&outcome)), Ordering::Relaxed);
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            let actor = lanes.actor(&0).unwrap();
            while !stop.load(Ordering::Relaxed) {
                let queued = actor.cancel_queued(LaneClass::Interactive);
                cancelled.fetch_add(queued as u64, Ordering::Relaxed);
                std::thread::yield_now();
            }
        });
        clients.into_iter().for_each(|client| client.join().unwrap());
        stop.store(true, Ordering::Relaxed);
    });
    lanes.drain(&0).wait().unwrap();
    let ran = lanes.actor(&0).unwrap().context().load(Ordering::Relaxed);
    assert_eq!(ran + cancelled.load(Ordering::Relaxed), 16_000);
    let live = lanes.liveness();
    assert_eq!((live.interactive.queued, live.phantoms), (0, 0));
}

#[test]
fn s114_at_rest_every_slot_is_idle_and_no_room_is_taken() {
    let (_runtime, lanes) = executor::<AtomicU64>(4);
    for key in 0..4 {
        lanes.register(key, AtomicU64::new(0));
    }
    for round in 0..20 {
        let mut random = Random(round);
        let handles: Vec<_> = (0..500)
            .map(|_| {
                let lane = LaneKind::ALL[random.next() as usize % 5];
                let job = lanes.job(lane, |_| ());
                let job = if random.next().is_multiple_of(2) { job.maintenance() } else { job };
                let handle = lanes.submit(&(random.next() as u32 % 4), job);
                if random.next().is_multiple_of(5) {
                    handle.cancel();
                }
                handle
            })
            .collect();
        for handle in handles {
            assert!(matches!(handle.wait(), Ok(()) | Err(LaneError::Cancelled)));
        }
        let live = lanes.liveness();
        assert_eq!((live.interactive.running, live.maintenance.running, live.phantoms), (0, 0, 0));
        assert_eq!((live.interactive.queued, live.maintenance.queued, live.heavy_free), (0, 0, 2));
    }
    lanes.shutdown();
    assert_eq!(lanes.liveness().idle, 4);
}

#[test]
fn s119_s120_idle_actors_and_registrations_cost_a_busy_one_nothing() {
    let (_runtime, lanes) = executor::<AtomicU64>(2);
    for key in 0..2_000 {
        lanes.register(key, AtomicU64::new(0));
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert!(!lanes.register(1, AtomicU64::new(0)));
            }
        });
        for _ in 0..2_000 {
            assert_eq!(lanes.submit(&0, lanes.job(LaneKind::PureRead, |_| ())).wait(), Ok(()));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(lanes.actor_count(), 2_000);
}

#[test]
fn nothing_is_registered_after_a_shutdown_nor_left_beside_one() {
    for round in 0..30_u64 {
        let (_runtime, lanes) = executor::<()>(2);
        let begun = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (lanes, begun) = (&lanes, &begun);
                scope.spawn(move || {
                    let mut random = Random(4 * round + thread);
                    let mut actors = Vec::new();
                    while actors.len() < 10_000 {
                        let key = (random.next() % 4) as u32;
                        begun.fetch_add(1, Ordering::Relaxed);
                        let registered = match random.next() % 4 {
                            0 => lanes.reset(key, ()),
                            1 => lanes.remove(&key).then_some(()).and(None),
                            _ => match lanes.register_with(key, (), ActorOptions::default()) {
                                Ok(actor) => Some(actor),
                                Err(RegisterError::Taken(actor)) => Some(actor),
                                Err(RegisterError::Shutdown) => break,
                                Err(other) => panic!("{other}"),
                            },
                        };
                        actors.extend(registered);
                    }
                    actors
                });
            }
            while begun.load(Ordering::Relaxed) < 100 {
                std::hint::spin_loop();
            }
            lanes.shutdown();
        });
        assert_eq!((lanes.actor_count(), lanes.actors().len()), (0, 0), "round {round}");
        assert!(!lanes.register(7, ()) && !lanes.is_registered(&7));
        let refused = lanes.register_with(7, (), ActorOptions::default()).map(drop);
        assert!(matches!(refused, Err(RegisterError::Shutdown)), "{refused:?}");
        assert_eq!(lanes.submit(&7, lanes.job(LaneKind::PureRead, |_| ())).wait(), Err(LaneError::Shutdown));
        assert!(lanes.reset(7, ()).is_none());
    }
}

/// A read that submits the next one before it ends, and does not wait for it.
fn read_on(lanes: &Lanes<u32, ()>, stop: &Arc<AtomicBool>) {
    let (on, until) = (lanes.clone(), stop.clone());
    let read = lanes.job(LaneKind::PureRead, move |_| {
        if !until.load(Ordering::Relaxed) {
            read_on(&on, &until);
        }
    });
    lanes.submit(&0, read).detach();
}

#[test]
fn b20_reads_that_submit_reads_without_end_do_not_keep_a_due_writer_out() {
    for round in 0..40 {
        let runtime = Runtime::builder().workers(2).io_threads(1).build().unwrap();
        let mut config = LanesConfig::wide(4);
        config.promote_after = Duration::from_millis(5);
        let lanes: Lanes<u32, ()> = Lanes::new(&runtime, config).unwrap();
        assert!(lanes.register(0, ()));
        let stop = Arc::new(AtomicBool::new(false));
        (0..16).for_each(|_| read_on(&lanes, &stop));
        for writer in 0..3 {
            let write = lanes.submit(&0, lanes.job(LaneKind::Mutating, |_| ())).wait_timeout(SOON);
            assert!(matches!(write, Some(Ok(()))), "round {round}, writer {writer}: {write:?}");
        }
        stop.store(true, Ordering::Relaxed);
        lanes.shutdown();
    }
}

#[test]
fn b20_reads_that_submit_reads_without_end_let_every_other_lane_run() {
    for lane in LaneKind::ALL {
        for maintenance in [false, true] {
            let runtime = Runtime::builder().workers(2).io_threads(1).build().unwrap();
            let mut config = LanesConfig::wide(4);
            (config.promote_after, config.maintenance_age) = (Duration::from_millis(5), Duration::from_millis(10));
            let lanes: Lanes<u32, ()> = Lanes::new(&runtime, config).unwrap();
            assert!(lanes.register(0, ()));
            let stop = Arc::new(AtomicBool::new(false));
            (0..16).for_each(|_| read_on(&lanes, &stop));
            let job = lanes.job(lane, |_| ());
            let mut other = lanes.submit(&0, if maintenance { job.maintenance() } else { job });
            let ran = other.wait_timeout(SOON);
            stop.store(true, Ordering::Relaxed);
            lanes.shutdown();
            assert!(matches!(ran, Some(Ok(()))), "{lane:?}, maintenance {maintenance}: {ran:?}");
        }
    }
}
