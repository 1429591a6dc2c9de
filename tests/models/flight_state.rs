//! Models of the flight's state word: claim, seal, end, join, leave, gates, suspension and wake.

#![cfg(any(shardrun_loom, shardrun_shuttle))]

use super::check;
use crate::flight::{Admitted, Killed, Left, Outcome, Phase, StateWord, Suspended};
use crate::runtime::Priority;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::cell::UnsafeCell;
use crate::sync::thread::{self, spawn};

/// A flight with a result that only the one who may write it may touch: loom reports two writers as a race.
struct Probe {
    word: StateWord,
    runs: AtomicU64,
    ends: AtomicU64,
    result: UnsafeCell<u64>,
    cause: AtomicU64,
}

// The cell is what the word guards; loom checks each access.
unsafe impl Sync for Probe {}
unsafe impl Send for Probe {}

fn probe(word: StateWord) -> Arc<Probe> {
    Arc::new(Probe {
        word,
        runs: AtomicU64::new(0),
        ends: AtomicU64::new(0),
        result: UnsafeCell::new(0),
        cause: AtomicU64::new(0),
    })
}

impl Probe {
    /// A ticket is popped: claim, run, seal, write, finish.
    fn ticket(&self, value: u64) {
        if self.word.claim().is_err() {
            return;
        }
        assert_eq!(self.runs.fetch_add(1, Ordering::AcqRel), 0, "executed twice");
        if self.word.seal().is_ok() {
            self.result.with_mut(|slot| unsafe { *slot = value });
            self.word.finish(Outcome::Done);
            self.ends.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn kill(&self, how: Killed) {
        if self.word.kill(how).is_ok() {
            self.ends.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// However two tickets, a cancel and a supersession meet: it is executed at most once, ends exactly once, and who sees it done
/// sees the result.
#[test]
fn claim_seal_cancel_supersede() {
    check(|| {
        let flight = probe(StateWord::admitted(Priority::Interactive));
        let threads = [
            spawn({
                let flight = flight.clone();
                move || flight.ticket(7)
            }),
            spawn({
                let flight = flight.clone();
                move || flight.ticket(7)
            }),
            spawn({
                let flight = flight.clone();
                move || flight.kill(Killed::Cancelled)
            }),
        ];
        flight.kill(Killed::Superseded);
        if flight.word.phase() == Phase::Done {
            flight.result.with(|slot| assert_eq!(unsafe { *slot }, 7));
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(flight.ends.load(Ordering::Acquire), 1, "ended exactly once");
    });
}

/// A worker and an external publisher both have a result: exactly one writes it, and a cancel between them changes nothing.
#[test]
fn two_publishers_and_a_cancel() {
    check(|| {
        let flight = probe(StateWord::admitted(Priority::Interactive));
        let external = |flight: Arc<Probe>, value| {
            spawn(move || {
                if flight.word.seal().is_ok() {
                    flight.result.with_mut(|slot| unsafe { *slot = value });
                    flight.word.finish(Outcome::Done);
                    flight.ends.fetch_add(1, Ordering::AcqRel);
                }
            })
        };
        let (one, two) = (external(flight.clone(), 1), external(flight.clone(), 2));
        flight.kill(Killed::Cancelled);
        one.join().unwrap();
        two.join().unwrap();
        assert_eq!(flight.ends.load(Ordering::Acquire), 1);
    });
}

/// Whoever joined before the last owner left is never cancelled under: the last one out, and only the last, cancels.
#[test]
fn join_against_leave() {
    check(|| {
        let flight = probe(StateWord::admitted(Priority::Interactive));
        let joiner = spawn({
            let flight = flight.clone();
            move || {
                if flight.word.join().is_ok() {
                    assert_ne!(flight.word.phase(), Phase::Cancelled, "cancelled under an owner");
                    flight.word.leave() == Left::Last(Phase::Waiting)
                } else {
                    false
                }
            }
        });
        let second = spawn({
            let flight = flight.clone();
            move || flight.word.join().is_ok() && flight.word.leave() == Left::Last(Phase::Waiting)
        });
        let lasts = [flight.word.leave() == Left::Last(Phase::Waiting), joiner.join().unwrap(), second.join().unwrap()];
        assert_eq!(lasts.iter().filter(|last| **last).count(), 1, "cancelled exactly once");
        assert_eq!(flight.word.phase(), Phase::Cancelled);
    });
}

/// It is claimed only when every gate is open, whoever opens the last pushes exactly one ticket, and the claimer sees the
/// failure that a gate recorded, however two gates and the admission meet.
#[test]
fn gates_against_admission() {
    check(|| {
        let flight = probe(StateWord::new());
        for _ in 0..3 {
            flight.word.add_gate().unwrap();
        }
        let opened = Arc::new(AtomicU64::new(0));
        let gate = |fails: bool| {
            let (flight, opened) = (flight.clone(), opened.clone());
            spawn(move || {
                opened.fetch_add(1, Ordering::Relaxed);
                let pushes = if fails {
                    flight.word.release_failed_gate(|| {
                        flight.cause.fetch_add(9, Ordering::Relaxed);
                    })
                } else {
                    flight.word.release_gate()
                };
                if pushes {
                    claimed(&flight, &opened);
                }
                u32::from(pushes)
            })
        };
        let (one, two) = (gate(true), gate(false));
        let admitted = flight.word.admit(Priority::Background).unwrap();
        assert_eq!(admitted, Admitted::Gated);
        // A stale ticket.
        if flight.word.claim().is_ok() {
            assert_eq!(opened.load(Ordering::Relaxed), 3, "claimed before its gates were open");
        }
        opened.fetch_add(1, Ordering::Relaxed);
        let here = flight.word.release_gate();
        if here {
            claimed(&flight, &opened);
        }
        assert_eq!(u32::from(here) + one.join().unwrap() + two.join().unwrap(), 1, "one ticket");
    });

    fn claimed(flight: &Probe, opened: &AtomicU64) {
        flight.word.claim().expect("ready and unclaimed");
        assert_eq!(opened.load(Ordering::Relaxed), 3, "claimed before its gates were open");
        assert_eq!(flight.cause.load(Ordering::Relaxed), 9, "the failure is visible to the claimer");
    }
}

/// No wake is lost: whenever both wakes have been given, the future has been polled after the last of them, or a ticket for that
/// is out; and never two tickets at once.
#[test]
fn suspend_against_two_wakes() {
    check(|| {
        let flight = probe(StateWord::admitted(Priority::Interactive));
        let events = Arc::new(AtomicU64::new(0));
        let tickets = Arc::new(AtomicU64::new(1));
        let waker = || {
            let (flight, events, tickets) = (flight.clone(), events.clone(), tickets.clone());
            spawn(move || {
                events.fetch_add(1, Ordering::AcqRel);
                if flight.word.wake() {
                    assert_eq!(tickets.fetch_add(1, Ordering::AcqRel), 0, "two tickets at once");
                }
            })
        };
        let wakers = [waker(), waker()];
        // The only worker: while there is a ticket, poll.
        let mut seen = 0;
        let mut turns = 0;
        while seen < 2 {
            if tickets.load(Ordering::Acquire) == 0 {
                turns += 1;
                if turns > 6 {
                    break;
                }
                thread::yield_now();
                continue;
            }
            tickets.fetch_sub(1, Ordering::AcqRel);
            flight.word.claim().expect("a ticket is good for a claim");
            seen = events.load(Ordering::Acquire);
            if flight.word.suspend() == Suspended::Again {
                assert_eq!(tickets.fetch_add(1, Ordering::AcqRel), 0, "two tickets at once");
            }
        }
        for waker in wakers {
            waker.join().unwrap();
        }
        if seen < 2 && tickets.load(Ordering::Acquire) == 1 {
            flight.word.claim().expect("a ticket is good for a claim");
            seen = events.load(Ordering::Acquire);
        }
        assert_eq!(seen, 2, "a wake was lost");
    });
}

/// A worker that watches and sleeps is nudged, or finds the flight free when it starts to watch: never neither.
#[test]
fn watch_against_the_last_gate() {
    check(|| {
        let flight = probe(StateWord::new());
        flight.word.add_gate().unwrap();
        flight.word.add_gate().unwrap();
        flight.word.admit(Priority::Interactive).unwrap();
        let gate = |flight: Arc<Probe>| spawn(move || flight.word.release_gate_watched());
        let (one, two) = (gate(flight.clone()), gate(flight.clone()));
        let free = flight.word.watch();
        let (one, two) = (one.join().unwrap(), two.join().unwrap());
        assert!(free || one || two, "sleeps beside a free flight");
    });
}

/// The future belongs to one at a time: a helper that looks at it, a worker that polls it, and a cancel that drops it.
#[test]
fn inspect_against_wake_and_cancel() {
    check(|| {
        let flight = probe(StateWord::admitted(Priority::Interactive));
        flight.word.claim().unwrap();
        assert_eq!(flight.word.suspend(), Suspended::Asleep);
        let touch = |flight: &Probe| flight.result.with_mut(|slot| unsafe { *slot += 1 });
        let helper = spawn({
            let flight = flight.clone();
            move || {
                if flight.word.inspect() {
                    flight.result.with_mut(|slot| unsafe { *slot += 1 });
                    match flight.word.suspend() {
                        Suspended::Asleep => {}
                        // The ticket is pushed and run here.
                        Suspended::Again => {
                            if flight.word.claim().is_ok() {
                                flight.result.with_mut(|slot| unsafe { *slot += 1 });
                                if let Suspended::Over(_) = flight.word.suspend() {
                                    flight.result.with_mut(|slot| unsafe { *slot += 1 });
                                }
                            }
                        }
                        Suspended::Over(_) => flight.result.with_mut(|slot| unsafe { *slot += 1 }),
                    }
                }
            }
        });
        let worker = spawn({
            let flight = flight.clone();
            move || {
                if flight.word.wake() && flight.word.claim().is_ok() {
                    flight.result.with_mut(|slot| unsafe { *slot += 1 });
                    if let Suspended::Over(_) = flight.word.suspend() {
                        flight.result.with_mut(|slot| unsafe { *slot += 1 });
                    }
                }
            }
        });
        if flight.word.kill(Killed::Cancelled).is_ok_and(Phase::is_unclaimed) {
            touch(&flight);
        }
        helper.join().unwrap();
        worker.join().unwrap();
        assert_eq!(flight.word.phase(), Phase::Cancelled);
    });
}
