//! Models of what surrounds the admission word: the cell of a job, the word of the slots, the coalesce bits.

use super::check;
use crate::lanes::modelled::{Cancelled, Fence, First, JobState, Keys, Lender, Mailbox, Place, PoolWord, Posted};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::queue::{Injector, Steal};
use crate::sync::thread::spawn;
use std::ptr::NonNull;

/// A runner and two cancels: the job runs or is taken out, and exactly one answers it.
#[test]
fn a_job_runs_or_is_cancelled_and_one_answers_it() {
    check(|| {
        let job = Arc::new(JobState::new());
        let runs = job.clone();
        let runner = spawn(move || {
            if !runs.claim() {
                return (0, false);
            }
            if !runs.start() {
                return (0, false);
            }
            runs.finish();
            (1, true)
        });
        let cancels = |job: Arc<JobState>| {
            move || match job.cancel() {
                Cancelled::TakenOut | Cancelled::BeforeStart => (1, false),
                Cancelled::Signalled => (0, true),
                _ => (0, false),
            }
        };
        let canceller = spawn(cancels(job.clone()));
        let (mine, signalled) = cancels(job.clone())();
        let (others, also) = canceller.join().unwrap();
        let (answers, ran) = runner.join().unwrap();
        assert_eq!(mine + others + answers, 1, "answered once");
        assert!(!(signalled && also), "one cancel wins");
        assert_eq!(ran, mine + others == 0, "what was taken out does not run");
        assert!(job.is_over());
    });
}

/// A cancel by one who lets go of the job then, beside a runner that looks whether it has the job alone: it overlooks no cancel.
#[test]
fn who_has_a_job_alone_finds_what_others_did_before() {
    check(|| {
        let job = Arc::new(JobState::new());
        // The count of references is none of the checker's: a step beside it lets the other thread come in between.
        let steps = Arc::new(AtomicU64::new(0));
        let (cancels, step) = (job.clone(), steps.clone());
        let canceller = spawn(move || {
            let found = cancels.cancel();
            step.fetch_add(1, Ordering::AcqRel);
            drop(cancels);
            found
        });
        let alone = || {
            steps.fetch_add(1, Ordering::AcqRel);
            Arc::strong_count(&job) == 1
        };
        let claims = if alone() { job.claim_alone() } else { job.claim() };
        let starts = claims && if alone() { job.start_alone() } else { job.start() };
        if starts {
            if alone() { job.finish_alone() } else { job.finish() }
        }
        let found = canceller.join().unwrap();
        let taken_out = matches!(found, Cancelled::TakenOut | Cancelled::BeforeStart);
        assert!(starts != taken_out, "{found:?}");
        assert!(job.is_over());
    });
}

/// All that is queued is cancelled while a job of it begins: it runs and hears nothing, or never runs and is answered.
#[test]
fn a_cancel_of_all_that_is_queued_signals_nothing_that_has_begun() {
    check(|| {
        let job = Arc::new(JobState::new());
        let cancels = job.clone();
        let canceller = spawn(move || cancels.cancel_queued());
        let begun = job.claim() && job.start();
        let signalled = job.is_signalled();
        if begun {
            assert!(!signalled, "it had begun, and is asked to end");
            job.finish();
        }
        let found = canceller.join().unwrap();
        assert_eq!(matches!(found, Some(Cancelled::TakenOut | Cancelled::BeforeStart)), !begun, "{found:?}");
        assert_eq!(found.is_none(), begun, "{found:?}");
        assert!(job.is_over());
    });
}

/// A job that another one is to answer.
struct Follower {
    next: AtomicPtr<Self>,
    cell: JobState,
}

// SAFETY: `next` gives one word.
unsafe impl Posted for Follower {
    fn next(&self) -> &AtomicPtr<Self> {
        &self.next
    }
}

/// A job is hung on an equal one that ends meanwhile, beside a cancel: it is answered once, or runs itself.
#[test]
fn who_follows_is_answered_once_or_runs_itself() {
    check(|| {
        let leader = Arc::new(Mailbox::<Follower>::new());
        let follower = Arc::new(Follower { next: AtomicPtr::new(std::ptr::null_mut()), cell: JobState::new() });
        let (ends, cancels) = (leader.clone(), follower.clone());
        let ender = spawn(move || {
            // SAFETY: the post is alive until the end of the model.
            ends.seal().filter(|post| unsafe { post.as_ref() }.cell.adopt()).count()
        });
        let canceller = spawn(move || match cancels.cell.cancel() {
            Cancelled::TakenOut | Cancelled::LetGo | Cancelled::BeforeStart => 1,
            _ => 0,
        });
        let mut runs = 0;
        if follower.cell.follow() {
            // SAFETY: it is alive until the end of the model, and hangs nowhere else.
            let hung = unsafe { leader.post(NonNull::from(&*follower)) };
            if hung.is_err() && follower.cell.unfollow() && follower.cell.claim() && follower.cell.start() {
                follower.cell.finish();
                runs = 1;
            }
        }
        let (answered, cancelled) = (ender.join().unwrap(), canceller.join().unwrap());
        assert_eq!(answered + cancelled + runs, 1, "answered once");
        assert!(follower.cell.is_over());
    });
}

/// A job seals while another cancels: one of them wins, and both know which.
#[test]
fn of_a_seal_and_a_cancel_one_wins() {
    check(|| {
        let job = Arc::new(JobState::new());
        assert!(job.claim() && job.start());
        let cancels = job.clone();
        let canceller = spawn(move || cancels.cancel());
        let sealed = job.seal();
        assert_eq!(job.seal(), sealed, "for good");
        let found = canceller.join().unwrap();
        assert_eq!(found, if sealed { Cancelled::TooLate } else { Cancelled::Signalled });
        job.finish();
        assert_eq!(job.seal(), sealed);
    });
}

/// A build is over and its install is queued, beside a cancel: it is installed or answered by the cancel, never both.
#[test]
fn an_install_is_begun_or_cancelled() {
    check(|| {
        let job = Arc::new(JobState::new());
        assert!(job.claim() && job.start());
        let cancels = job.clone();
        let canceller = spawn(move || cancels.cancel());
        let installed = job.requeue() && job.claim() && job.start();
        let found = canceller.join().unwrap();
        let by_cancel = matches!(found, Cancelled::InstallTakenOut | Cancelled::BeforeStart);
        let by_runner = installed || found == Cancelled::Signalled;
        assert!(by_cancel != by_runner, "{found:?}");
    });
}

/// A deadline comes while a build of its job is over and its install is queued: a job that has begun is not late.
#[test]
fn an_install_is_never_late() {
    check(|| {
        let job = Arc::new(JobState::new());
        let late = job.clone();
        let deadline = spawn(move || late.take_out_late());
        let begun = job.claim() && job.start();
        let installed = begun && job.requeue() && job.claim() && job.start();
        let late = deadline.join().unwrap();
        assert_eq!((begun, installed), (!late, !late));
    });
}

/// Two maintenance jobs of one place: never both.
#[test]
fn maintenance_keeps_to_its_cap_and_the_reserve() {
    check(|| {
        let pool = Arc::new(PoolWord::new(3, 1, 1, 0));
        let inside = Arc::new(AtomicU64::new(0));
        let takes = |pool: Arc<PoolWord>, inside: Arc<AtomicU64>| {
            move || {
                if !pool.start() {
                    return;
                }
                if let Some(place) = pool.take_place(false) {
                    assert_eq!(inside.fetch_add(1, Ordering::AcqRel), 0, "two have the one place");
                    inside.fetch_sub(1, Ordering::AcqRel);
                    pool.give_place(place);
                }
                assert!(!pool.stop(|| false, || false));
            }
        };
        let other = spawn(takes(pool.clone(), inside.clone()));
        takes(pool.clone(), inside)();
        other.join().unwrap();
        assert_eq!(pool.look(), (0, 0, 0));
    });
}

/// A slot that was lent is given back while three are in use: of those who see that, one stops, and two go on to look for work.
#[test]
fn of_those_who_see_one_slot_too_many_one_stops() {
    check(|| {
        let pool = Arc::new(PoolWord::new(2, 0, 1, 1));
        pool.lend();
        assert!(pool.start() && pool.start() && pool.start());
        let looks = |pool: Arc<PoolWord>| move || usize::from(pool.is_over() && pool.stop_if_over());
        let others = [spawn(looks(pool.clone())), spawn(looks(pool.clone()))];
        pool.unlend();
        let mine = looks(pool.clone())();
        let stopped: usize = others.into_iter().map(|other| other.join().unwrap()).sum::<usize>() + mine;
        assert_eq!(stopped, 1);
        assert_eq!(pool.look(), (2, 0, 0));
    });
}

/// One queues work while another stops: either the one that queues gets the slot, or the one that stops finds the work.
#[test]
fn work_that_is_queued_beside_a_stop_is_found() {
    check(|| {
        let pool = Arc::new(PoolWord::new(1, 0, 1, 0));
        let work: Arc<Injector<()>> = Arc::new(Injector::new());
        let done = Arc::new(AtomicU64::new(0));
        let runs = |pool: Arc<PoolWord>, work: Arc<Injector<()>>, done: Arc<AtomicU64>| {
            move || loop {
                while let Steal::Success(()) = work.steal() {
                    done.fetch_add(1, Ordering::AcqRel);
                }
                if !pool.stop(|| !work.is_empty(), || false) {
                    return;
                }
            }
        };
        assert!(pool.start());
        let stops = spawn(runs(pool.clone(), work.clone(), done.clone()));
        let queues = {
            let (pool, work, done) = (pool.clone(), work.clone(), done.clone());
            spawn(move || {
                work.push(());
                if pool.start_for_queued(false) {
                    runs(pool, work, done)();
                }
            })
        };
        stops.join().unwrap();
        queues.join().unwrap();
        assert_eq!(done.load(Ordering::Acquire), 1, "work is left, and nobody has a slot");
    });
}

/// As above, with maintenance that has waited its age, while the one who stops gives back the place for such.
#[test]
fn aged_work_that_is_queued_beside_a_stop_is_found() {
    check(|| {
        let pool = Arc::new(PoolWord::new(2, 0, 1, 0));
        let work: Arc<Injector<()>> = Arc::new(Injector::new());
        let done = Arc::new(AtomicU64::new(0));
        let runs = |pool: Arc<PoolWord>, work: Arc<Injector<()>>, done: Arc<AtomicU64>| {
            move |mut place: Option<Place>| loop {
                place = place.or_else(|| if work.is_empty() { None } else { pool.take_place(true) });
                if place.is_some() && matches!(work.steal(), Steal::Success(())) {
                    done.fetch_add(1, Ordering::AcqRel);
                }
                place.take().into_iter().for_each(|place| pool.give_place(place));
                if !pool.stop(|| !work.is_empty() && pool.has_aged_place(), || false) {
                    return;
                }
            }
        };
        assert!(pool.start());
        let place = pool.take_place(true);
        let (stops, mine) = (runs(pool.clone(), work.clone(), done.clone()), (pool.clone(), work.clone()));
        let stops = spawn(move || {
            place.into_iter().for_each(|place| mine.0.give_place(place));
            if mine.0.stop(|| !mine.1.is_empty() && mine.0.has_aged_place(), || false) {
                stops(None);
            }
        });
        let queues = {
            let (pool, work, done) = (pool.clone(), work.clone(), done.clone());
            spawn(move || {
                work.push(());
                if pool.start_for_aged() {
                    runs(pool, work, done)(None);
                }
            })
        };
        stops.join().unwrap();
        queues.join().unwrap();
        assert_eq!(done.load(Ordering::Acquire), 1, "work is left, and nobody has a slot");
    });
}

/// As above, with the place at the head of the line.
#[test]
fn work_that_stands_first_beside_a_stop_is_found() {
    check(|| {
        let pool = Arc::new(PoolWord::new(1, 0, 1, 0));
        let first: Arc<First<()>> = Arc::new(First::new());
        let done = Arc::new(AtomicU64::new(0));
        let runs = |pool: Arc<PoolWord>, first: Arc<First<()>>, done: Arc<AtomicU64>| {
            move || loop {
                while first.take().is_some() {
                    done.fetch_add(1, Ordering::AcqRel);
                }
                if !pool.stop(|| !first.is_empty(), || false) {
                    return;
                }
            }
        };
        assert!(pool.start());
        let stops = spawn(runs(pool.clone(), first.clone(), done.clone()));
        let queues = {
            let (pool, first, done) = (pool.clone(), first.clone(), done.clone());
            spawn(move || {
                assert!(first.put(Arc::new(())).is_ok());
                if pool.start_for_exchanged(false) {
                    runs(pool, first, done)();
                }
            })
        };
        stops.join().unwrap();
        queues.join().unwrap();
        assert_eq!(done.load(Ordering::Acquire), 1, "work is left, and nobody has a slot");
    });
}

/// Two stand in line while two take: each is taken once, or comes back to who brought it.
#[test]
fn who_stands_first_is_taken_once() {
    check(|| {
        let first: Arc<First<u64>> = Arc::new(First::new());
        let puts = |first: Arc<First<u64>>, number: u64| {
            move || {
                let back = first.put(Arc::new(number)).err().map_or(0, |back| *back);
                back + first.take().map_or(0, |taken| *taken)
            }
        };
        let other = spawn(puts(first.clone(), 1));
        let mine = puts(first.clone(), 2)();
        let taken = mine + other.join().unwrap() + first.take().map_or(0, |taken| *taken);
        assert_eq!(taken, 3, "one is lost, or taken twice");
    });
}

/// An event comes while an equal job is queued and begins: if the key is found set, the job sees the event.
#[test]
fn an_event_whose_key_is_found_set_is_seen_by_the_queued_job() {
    check(|| {
        let keys = Arc::new(Keys::new());
        let event = Arc::new(AtomicU64::new(0));
        assert!(!keys.ask(1));
        let (queued, input) = (keys.clone(), event.clone());
        let drains = spawn(move || {
            queued.clear(1);
            input.load(Ordering::Relaxed)
        });
        event.store(1, Ordering::Relaxed);
        let coalesced = keys.is_asked(1) || keys.ask(1);
        let seen = drains.join().unwrap();
        assert!(!coalesced || seen == 1, "the event is lost");
    });
}

/// Two look at what a job waits for while another takes it: each sees the thing whole or not at all, and it is let go of once.
#[test]
fn what_a_job_waits_for_is_let_go_of_once_by_who_takes_it_or_looks_last() {
    /// A thing whose copies are counted.
    struct Thing(Arc<AtomicU64>);
    impl Clone for Thing {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, Ordering::AcqRel);
            Self(self.0.clone())
        }
    }
    impl Drop for Thing {
        fn drop(&mut self) {
            assert!(self.0.fetch_sub(1, Ordering::AcqRel) > 0, "let go of twice");
        }
    }
    check(|| {
        let there = Arc::new(AtomicU64::new(1));
        let fence = Arc::new(Fence::new(Some(Thing(there.clone()))));
        let looks = [fence.clone(), fence.clone()].map(|fence| spawn(move || fence.look().is_some()));
        let taken = fence.take();
        assert!(fence.take().is_none(), "taken once");
        assert!(fence.look().is_none(), "and seen no more");
        let looked = looks.map(|look| look.join().unwrap());
        assert!(taken.is_some() || looked.contains(&true), "somebody has it");
        drop(taken);
        assert_eq!(there.load(Ordering::Acquire), 0, "nothing of it is kept");
    });
}

/// A job lends while it waits, beside the end of what it waits for, and gives up; then another waits: each gives back what it lent.
#[test]
fn what_is_lent_is_given_back_once_whoever_ends_the_wait() {
    /// Something that is lent as long as this is counted.
    struct Waits(Arc<AtomicU64>);
    impl Waits {
        fn begin(lent: &Arc<AtomicU64>) -> Arc<Self> {
            lent.fetch_add(1, Ordering::AcqRel);
            Arc::new(Self(lent.clone()))
        }
        fn end(self: Arc<Self>) {
            assert!(self.0.fetch_sub(1, Ordering::AcqRel) > 0, "given back twice");
        }
    }
    check(|| {
        let (lent, job) = (Arc::new(AtomicU64::new(0)), Arc::new((JobState::new(), Lender::<Waits>::new())));
        assert!(job.0.claim() && job.0.start());
        let ends = job.clone();
        let ender = spawn(move || {
            ends.0.finish();
            ends.1.give_back(&ends.0).into_iter().for_each(Waits::end);
        });
        for _ in 0..2 {
            let _ = job.1.lend(&job.0, Waits::begin(&lent)).map_err(Waits::end);
            job.1.give_back(&job.0).into_iter().for_each(Waits::end);
        }
        let _ = job.1.lend(&job.0, Waits::begin(&lent)).map_err(Waits::end);
        ender.join().unwrap();
        assert_eq!(lent.load(Ordering::Acquire), 0, "something is lent for what is over");
        assert!(job.1.is_empty());
    });
}
