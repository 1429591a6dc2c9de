//! The line for permits: no permit lies beside a ticket that waits, and none is lost or given twice.

use super::check;
use crate::stages::Line;
use crate::sync::stat::{AtomicUsize, Ordering};
use crate::sync::{Arc, thread};

struct World {
    line: Line<u32>,
    running: AtomicUsize,
    ran: AtomicUsize,
}

impl World {
    fn run(&self, ticket: Option<u32>) {
        let mut next = ticket;
        while let Some(ticket) = next {
            assert!(
                self.running.fetch_add(1, Ordering::Relaxed) < self.line.limit() as usize,
                "more than the limit run"
            );
            let ran = self.ran.fetch_or(1 << ticket, Ordering::Relaxed);
            assert_eq!(ran & (1 << ticket), 0, "a ticket ran twice");
            self.running.fetch_sub(1, Ordering::Relaxed);
            next = self.line.give_back();
        }
    }

    fn come(&self, ticket: u32) {
        if self.line.try_take() {
            self.run(Some(ticket));
        } else {
            self.run(self.line.wait(ticket as usize % 2, ticket));
        }
    }
}

/// Three tickets come for one permit: each runs once, and the permit is there at the end.
#[test]
fn each_ticket_gets_a_permit_and_the_permit_comes_back() {
    check(|| {
        let world = Arc::new(World { line: Line::new(1), running: AtomicUsize::new(0), ran: AtomicUsize::new(0) });
        let others = [0, 1].map(|ticket| {
            let world = world.clone();
            thread::spawn(move || world.come(ticket))
        });
        world.come(2);
        others.map(|other| other.join().unwrap());
        assert_eq!(world.ran.load(Ordering::Relaxed), 0b111, "a ticket waits beside a free permit");
        assert_eq!(world.line.in_use(), (0, 0));
    });
}
