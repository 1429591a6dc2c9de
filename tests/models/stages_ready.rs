//! Cells of a list that are made ready while tickets are popped: the oldest is looked at by every popper, the others are pushed.

use super::check;
use crate::flight::{Phase, StateWord};
use crate::runtime::Priority;
use crate::stages::Tickets;
use crate::stages::profiles::{Listed, Place};
use crate::stages::ready_cells::{Queueable, Queued, ReadyCells};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::queue::{Injector, Steal};
use crate::sync::{Arc, thread};

struct Cell {
    older: Option<Arc<Cell>>,
    place: Place<Cell>,
    queued: Queued<Cell>,
    word: StateWord,
    work: AtomicU64,
    done: AtomicU64,
}

impl Cell {
    fn over(older: Option<Arc<Cell>>) -> Arc<Self> {
        let (place, queued, word) = (Place::new(), Queued::new(), StateWord::new());
        Arc::new(Self { older, place, queued, word, work: AtomicU64::new(0), done: AtomicU64::new(0) })
    }
}

impl Listed for Cell {
    fn hash(&self) -> u64 {
        unreachable!("nobody looks for one by its hash")
    }

    fn older(&self) -> Option<&Self> {
        self.older.as_deref()
    }

    fn number(&self) -> u32 {
        self.older().map_or(0, |older| older.number() + 1)
    }

    fn place(&self) -> &Place<Self> {
        &self.place
    }
}

impl Queueable for Cell {
    fn queued(&self) -> &Queued<Self> {
        &self.queued
    }
}

/// Two cells of a slot, and its tickets.
struct Slot {
    newest: Arc<Cell>,
    ready: ReadyCells<Cell>,
    tickets: Tickets,
    out: Injector<()>,
}

// SAFETY: cells are written before they are shown, and shared by reference then.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

impl Slot {
    fn new() -> Arc<Self> {
        let newest = Cell::over(Some(Cell::over(None)));
        Arc::new(Self { newest, ready: ReadyCells::none(), tickets: Tickets::new(0), out: Injector::new() })
    }

    fn oldest(&self) -> &Cell {
        self.newest.older().unwrap()
    }

    fn cells(&self) -> [&Cell; 2] {
        [&self.newest, self.oldest()]
    }

    /// As who has made something ready in `cell`.
    fn call(&self, cell: &Cell) {
        self.ready.push(cell);
        self.post();
    }

    fn post(&self) {
        if self.tickets.post(0) {
            self.out.push(());
        }
    }

    /// As who pops a ticket. False if none was there.
    fn pop(&self, look: impl FnMut(&Cell) -> bool) -> bool {
        let popped = matches!(self.out.steal(), Steal::Success(()));
        if popped {
            self.tickets.take(0, || self.ready.take(Some(&*self.newest), look));
        }
        popped
    }

    /// Pops a ticket and runs the first that can be claimed; others are kept, and have a ticket of their own.
    fn run_one(&self) -> bool {
        let (mut has_run, mut keeps) = (false, false);
        let popped = self.pop(|cell| {
            if !has_run && cell.word.claim().is_ok() {
                cell.done.fetch_add(1, Ordering::Relaxed);
                has_run = true;
                return false;
            }
            let is_left = cell.word.phase() == Phase::Waiting;
            keeps |= is_left;
            is_left
        });
        if keeps {
            self.post();
        }
        popped
    }

    /// Pops a ticket and does the work that is seen in each cell.
    fn work_all(&self) -> bool {
        // What is found is taken without an exchange, so that the look alone decides: the popper's only read.
        self.pop(|cell| {
            cell.done.fetch_max(cell.work.load(Ordering::Relaxed), Ordering::Relaxed);
            false
        })
    }
}

/// Of two cells that two threads admit, each is run once, by poppers that run one and keep the other.
#[test]
fn what_is_ready_is_run_once_by_poppers_that_take_one_each() {
    check(|| {
        let slot = Slot::new();
        let admit = |at: usize| {
            let slot = slot.clone();
            thread::spawn(move || {
                let cell = slot.cells()[at];
                cell.word.admit(Priority::Interactive).unwrap();
                slot.call(cell);
            })
        };
        let threads = [admit(0), admit(1)];
        slot.run_one();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        while slot.run_one() {}
        for cell in slot.cells() {
            assert_eq!(cell.done.load(Ordering::Relaxed), 1, "each runs once");
        }
    });
}

/// What is made ready in a cell while a popper looks at it is found by that one or by the next.
#[test]
fn what_is_made_ready_again_is_found() {
    check(|| {
        let slot = Slot::new();
        let submit = |at: usize| {
            let slot = slot.clone();
            thread::spawn(move || {
                let cell = slot.cells()[at];
                // ordering: relaxed on purpose: the ticket and the chain alone must make the work visible to the popper.
                cell.work.fetch_add(1, Ordering::Relaxed);
                slot.call(cell);
            })
        };
        let threads = [submit(0), submit(0), submit(1)];
        slot.work_all();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        while slot.work_all() {}
        assert_eq!(slot.newest.done.load(Ordering::Relaxed), 2, "all work of the pushed cell was found");
        assert_eq!(slot.oldest().done.load(Ordering::Relaxed), 1, "so was that of the oldest");
    });
}
