//! One ticket for many pieces: each is run once by one of the poppers, or ended once by who throws the ticket away, and none is
//! left over.

use super::check;
use crate::runtime::Job;
use crate::stages::{After, Many, Pieces};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::queue::{Injector, Steal};
use crate::sync::{Arc, Weak, thread};

const PIECES: usize = 3;

#[derive(Default)]
struct Piece {
    /// Written by a look and a store, so that loom sees two that run it.
    runs: AtomicUsize,
    ended: AtomicUsize,
}

/// What the pieces share with their queue, which holds the ticket and so must not be held by it.
struct Work {
    pieces: [Piece; PIECES],
    queue: Weak<Injector<Job>>,
}

impl Pieces for Work {
    fn queue(&self, ticket: Job) {
        let Some(queue) = self.queue.upgrade() else { return drop(ticket) };
        queue.push(ticket);
    }

    fn len(&self) -> usize {
        PIECES
    }

    fn run(&self, at: usize, _: After) {
        self.pieces[at].runs.fetch_add(1, Ordering::Relaxed);
    }

    fn end(&self, first: usize) {
        self.pieces[first..].iter().for_each(|piece| _ = piece.ended.fetch_add(1, Ordering::Relaxed));
    }
}

fn popped(queue: &Injector<Job>) -> Option<Job> {
    loop {
        match queue.steal() {
            Steal::Success(job) => return Some(job),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}

/// Two poppers and the thread that queued the ticket; one of them throws it away if `throws`.
fn poppers(throws: bool) {
    let queue = Arc::new(Injector::new());
    let many = Many::of(Work { pieces: Default::default(), queue: Arc::downgrade(&queue) });
    many.queue();
    let popper = |throws: bool| {
        let queue = queue.clone();
        thread::spawn(move || match popped(&queue) {
            Some(job) if throws => drop(job),
            Some(job) => job.run(),
            None => {}
        })
    };
    let others = [popper(throws), popper(false)];
    if let Some(job) = popped(&queue) {
        job.run();
    }
    for other in others {
        other.join().unwrap();
    }
    assert!(queue.len() <= 1, "at most one ticket is out");
    while let Some(job) = popped(&queue) {
        job.run();
    }
    for piece in &many.pieces().pieces {
        let (runs, ended) = (piece.runs.load(Ordering::Relaxed), piece.ended.load(Ordering::Relaxed));
        assert_eq!(runs + ended, 1, "run or ended, once");
        assert!(throws || ended == 0, "nobody has thrown it away");
    }
}

#[test]
fn each_piece_is_run_by_one_popper() {
    check(|| poppers(false));
}

#[test]
fn each_piece_is_run_or_ended_beside_who_throws_the_ticket_away() {
    check(|| poppers(true));
}
