//! Models of an actor's admission word with its mailbox: every job runs once or is refused, no writer beside anything, no job is left.

use super::check;
use crate::lanes::modelled::{LaneWord, Mailbox, Owes, Posted, Seen};
use crate::lanes::{LaneClass, LaneKind};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::cell::UnsafeCell;
use crate::sync::queue::{Injector, Steal};
use crate::sync::thread::spawn;
use std::ptr::NonNull;

const NOW: LaneClass = LaneClass::Interactive;

struct Job {
    next: AtomicPtr<Job>,
    lane: LaneKind,
    epoch: bool,
    panics: bool,
}

// SAFETY: `next` gives one word.
unsafe impl Posted for Job {
    fn next(&self) -> &AtomicPtr<Self> {
        &self.next
    }
}

/// An actor of the fewest parts: the real word and mailbox, a queue for readers and one for writers.
struct Mini {
    word: LaneWord,
    mailbox: Mailbox<Job>,
    inside: UnsafeCell<Vec<Box<Job>>>,
    tickets: Injector<()>,
    /// What jobs touch: loom reports a writer beside anything as a race.
    state: UnsafeCell<u64>,
    ran: AtomicU64,
    refused: AtomicU64,
    /// A writer has panicked and given its slot back.
    broken: AtomicU64,
}

// SAFETY: as for the actor: what is inside belongs to who has the turn; the state is what the model is about.
unsafe impl Sync for Mini {}
// SAFETY: as above.
unsafe impl Send for Mini {}

impl Mini {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            word: LaneWord::new(),
            mailbox: Mailbox::new(),
            inside: UnsafeCell::new(Vec::new()),
            tickets: Injector::new(),
            state: UnsafeCell::new(0),
            ran: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            broken: AtomicU64::new(0),
        })
    }

    fn refuse(&self, count: usize) {
        self.refused.fetch_add(count as u64, Ordering::AcqRel);
    }

    fn settle(&self, owes: Owes) {
        if owes.ticket.is_some() {
            self.tickets.push(());
        }
    }

    /// Submits a job; false if the actor was closed.
    fn submit(&self, lane: LaneKind, panics: bool) -> bool {
        let Ok(epoch) = self.word.reserve(NOW, 9) else { return false };
        let job = Box::new(Job { next: AtomicPtr::new(std::ptr::null_mut()), lane, epoch, panics });
        // SAFETY: the box is given away, and comes back from the mailbox.
        match unsafe { self.mailbox.post(NonNull::new_unchecked(Box::into_raw(job))) } {
            Ok(()) => {
                if self.word.announce_posted(NOW) {
                    self.tickets.push(());
                }
                true
            }
            Err(back) => {
                // SAFETY: what was given away comes back.
                drop(unsafe { Box::from_raw(back.as_ptr()) });
                let owes = self.word.leave_queue(NOW, epoch);
                self.settle(owes);
                false
            }
        }
    }

    fn take(posts: impl Iterator<Item = NonNull<Job>>) -> Vec<Box<Job>> {
        // SAFETY: each post was a box, and is taken once.
        posts.map(|post| unsafe { Box::from_raw(post.as_ptr()) }).collect()
    }

    /// Visits the actor as the executor does: a job to be run, if one was admitted.
    fn visit(&self, ticket: Option<LaneClass>) -> Option<Box<Job>> {
        let seen = self.word.begin_turn(ticket)?;
        self.serve(seen)
    }

    fn serve(&self, mut seen: Seen) -> Option<Box<Job>> {
        loop {
            // SAFETY: we have the turn.
            let picked = self.inside.with_mut(|inside| unsafe { self.judge(&mut *inside, seen) });
            let done = match picked {
                Picked::Nothing => self.word.leave(seen, None).map(|owes| (None, owes)),
                Picked::Job(job, more) => {
                    let again = more.then_some(NOW);
                    match self.word.admit(seen, job.lane, NOW, again) {
                        Some(owes) => Some((Some(job), owes)),
                        None => {
                            // SAFETY: we have the turn still.
                            self.inside.with_mut(|inside| unsafe { (*inside).insert(0, job) });
                            None
                        }
                    }
                }
            };
            if let Some((job, owes)) = done {
                self.settle(owes);
                return job;
            }
            seen = self.word.refresh();
        }
    }

    fn judge(&self, inside: &mut Vec<Box<Job>>, seen: Seen) -> Picked {
        inside.extend(Self::take(self.mailbox.take()));
        if seen.is_closed() {
            self.refuse(inside.len());
            inside.clear();
            return Picked::Nothing;
        }
        let writes = seen.running(LaneKind::Mutating) > 0;
        let reads = seen.running(LaneKind::PureRead) > 0;
        let free = |job: &Box<Job>| !writes && (job.lane == LaneKind::PureRead || !reads);
        match inside.iter().position(free) {
            Some(at) => Picked::Job(inside.remove(at), !inside.is_empty()),
            None => Picked::Nothing,
        }
    }

    /// Runs a job; after a read it goes on with the actor, as a runner does while nobody else waits.
    fn run(&self, job: Box<Job>) -> Option<Box<Job>> {
        if job.lane == LaneKind::Mutating {
            // SAFETY: only under loom, which tells if that is not so: no other job runs.
            self.state.with_mut(|state| unsafe { *state += 1 });
        } else {
            // SAFETY: as above: no writer runs.
            self.state.with(|state| unsafe { std::hint::black_box(*state) });
        }
        assert_eq!(self.broken.load(Ordering::Acquire), 0, "a job runs after a writer has panicked");
        self.ran.fetch_add(1, Ordering::AcqRel);
        if job.lane == LaneKind::PureRead {
            let (owes, seen) = self.word.release_and_turn(job.lane, job.epoch);
            self.settle(owes);
            return self.serve(seen?);
        }
        let owes = self.word.release(job.lane, job.panics, job.epoch);
        if job.panics {
            self.broken.fetch_add(1, Ordering::AcqRel);
            self.empty();
        }
        self.settle(owes);
        None
    }

    /// Answers what is queued at the closed actor.
    fn empty(&self) {
        self.refuse(Self::take(self.mailbox.seal()).len());
        drop(self.visit(None));
    }

    /// Works as a runner does, until no ticket is left.
    fn work(&self) {
        loop {
            match self.tickets.steal() {
                Steal::Success(()) => {
                    let mut next = self.visit(Some(NOW));
                    while let Some(job) = next {
                        next = self.run(job);
                    }
                }
                Steal::Empty => return,
                Steal::Retry => {}
            }
        }
    }

    fn ended(&self, accepted: u64) {
        self.work();
        let (ran, refused) = (self.ran.load(Ordering::Acquire), self.refused.load(Ordering::Acquire));
        assert_eq!(ran + refused, accepted, "a job was lost or answered twice: {:?}", self.word.look());
        assert_eq!(self.word.look().all_running(), 0);
    }
}

enum Picked {
    Nothing,
    Job(Box<Job>, bool),
}

/// Two threads submit a job each and work: both run, alone if they write, and none is left.
fn two_submit(first: LaneKind, second: LaneKind) {
    let mini = Mini::new();
    let submits = |lane: LaneKind| {
        let mini = mini.clone();
        spawn(move || {
            let accepted = mini.submit(lane, false);
            mini.work();
            u64::from(accepted)
        })
    };
    let threads = [submits(first), submits(second)];
    let accepted: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(accepted, 2);
    mini.ended(2);
    assert!(mini.word.look().is_idle());
}

#[test]
fn a_reader_and_a_writer_each_run_once_and_never_together() {
    check(|| two_submit(LaneKind::PureRead, LaneKind::Mutating));
}

#[test]
fn two_writers_each_run_once_and_never_together() {
    check(|| two_submit(LaneKind::Mutating, LaneKind::Mutating));
}

/// Three reads are queued, and two runners go on with the actor whenever one is over: each runs once, and one judges at a time.
#[test]
fn runners_that_go_on_with_an_actor_take_turns() {
    check(|| {
        let mini = Mini::new();
        (0..3).for_each(|_| assert!(mini.submit(LaneKind::PureRead, false)));
        let other = mini.clone();
        let works = spawn(move || other.work());
        mini.work();
        works.join().unwrap();
        mini.ended(3);
        assert!(mini.word.look().is_idle());
    });
}

/// A read comes while a runner, whose ticket stands in line still, is about to find nothing more: it is found.
#[test]
fn a_read_that_comes_while_a_ticket_is_out_is_found() {
    check(|| {
        let mini = Mini::new();
        assert!(mini.submit(LaneKind::PureRead, false));
        let other = mini.clone();
        let works = spawn(move || other.work());
        assert!(mini.submit(LaneKind::PureRead, false));
        works.join().unwrap();
        mini.ended(2);
        assert!(mini.word.look().is_idle());
    });
}

/// A close beside a submission and a runner: the job runs or is refused, once, and nothing is left.
#[test]
fn what_is_submitted_beside_a_close_runs_or_is_refused() {
    check(|| {
        let mini = Mini::new();
        let other = mini.clone();
        let submits = spawn(move || {
            let accepted = other.submit(LaneKind::PureRead, false);
            other.work();
            u64::from(accepted)
        });
        let other = mini.clone();
        let closes = spawn(move || {
            assert!(other.word.close(false));
            other.empty();
            other.work();
        });
        closes.join().unwrap();
        let accepted = submits.join().unwrap();
        mini.ended(accepted);
    });
}

/// A retire beside a submission: either the actor is busy and stays, or the submission is refused.
#[test]
fn nothing_is_retired_under_a_submission() {
    check(|| {
        let mini = Mini::new();
        let other = mini.clone();
        let submits = spawn(move || {
            let accepted = other.submit(LaneKind::Mutating, false);
            other.work();
            u64::from(accepted)
        });
        let retired = mini.word.close_if_idle();
        let accepted = submits.join().unwrap();
        mini.ended(accepted);
        assert_eq!(mini.refused.load(Ordering::Acquire), 0, "an accepted job was refused by a retire");
        assert!(accepted == 1 || retired);
    });
}

/// A writer panics beside a submission: what is accepted runs before it or is refused, and nothing runs after it.
#[test]
fn nothing_runs_after_a_writer_has_panicked() {
    check(|| {
        let mini = Mini::new();
        assert!(mini.submit(LaneKind::Mutating, true));
        let other = mini.clone();
        let submits = spawn(move || {
            let accepted = other.submit(LaneKind::PureRead, false);
            other.work();
            u64::from(accepted)
        });
        mini.work();
        let accepted = submits.join().unwrap();
        mini.ended(1 + accepted);
        assert!(mini.word.look().is_fatal());
    });
}
