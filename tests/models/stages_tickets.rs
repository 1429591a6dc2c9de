//! Tickets of a slot: one bit for each kind, so that a million edits leave one ticket, and none leaves its work behind.

use super::check;
use crate::stages::Tickets;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::queue::{Injector, Steal};
use crate::sync::{Arc, thread};

struct Cell {
    tickets: Tickets,
    work: AtomicU64,
    out: Injector<()>,
    done: AtomicU64,
}

impl Cell {
    fn submit(&self) {
        // ordering: relaxed on purpose: the ticket word alone must make the work visible to the popper.
        self.work.fetch_add(1, Ordering::Relaxed);
        if self.tickets.post(0) {
            self.out.push(());
        }
    }

    fn pop(&self) {
        if let Steal::Success(()) = self.out.steal() {
            let found = self.tickets.take(0, || self.work.load(Ordering::Relaxed));
            // What is found is taken without an exchange, so that the look alone decides: the popper's only read.
            self.done.fetch_max(found, Ordering::Relaxed);
        }
    }
}

/// Of what two submitters post, nothing is left without a ticket when the poppers are through.
#[test]
fn work_is_never_left_without_a_ticket() {
    check(|| {
        let cell = Arc::new(Cell {
            tickets: Tickets::new(0),
            work: AtomicU64::new(0),
            out: Injector::new(),
            done: AtomicU64::new(0),
        });
        let threads: Vec<_> = [true, true, false]
            .into_iter()
            .map(|submits| {
                let cell = cell.clone();
                thread::spawn(move || if submits { cell.submit() } else { cell.pop() })
            })
            .collect();
        cell.pop();
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(cell.out.len() <= 1, "at most one ticket is out");
        cell.pop();
        assert_eq!(cell.done.load(Ordering::Relaxed), 2, "both pieces of work were found");
    });
}
