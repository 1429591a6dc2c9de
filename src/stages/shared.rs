//! What all slots of a scheduler share: the host, the clock and section of transitions, the way to the runtime.
//! It does not know the slots.
#![forbid(unsafe_code)]

use super::capacity::Capacity;
use super::counters::Counters;
use super::host::{Host, Stage};
use super::leases::Leases;
use super::origin::Origin;
use super::retain::Retained;
use super::scheduler::{Ends, Stages};
use super::sequencer::Sequencer;
use super::slot::{Kind, Slot};
use super::stamp::Clock;
use super::ticket;
use super::world::WorldNumber;
use crate::admission::Budget;
use crate::flight::Contained;
use crate::runtime::{Job, Place, Pool, Spawner};
use crate::sync::stat::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, Weak};

/// What all slots share. Read by all, written by few.
pub(crate) struct Shared<H: Host> {
    /// The scheduler's number, which no other scheduler of this process has.
    pub(crate) id: u64,
    pub(crate) host: Contained<H>,
    pub(crate) source_pool: Pool,
    pub(crate) spawner: Spawner,
    pub(crate) clock: Clock,
    pub(crate) sequencer: Sequencer,
    pub(crate) world: WorldNumber,
    /// The source roots that there are, and what is kept for them.
    pub(crate) roots: Leases<Retained<H>>,
    pub(crate) counters: Counters,
    overlaid: AtomicUsize,
    pub(crate) first_generation: u64,
    pub(crate) budget: Option<Budget>,
    pub(crate) capacity: Capacity<H>,
    ends: Weak<Ends<H>>,
}

impl<H: Host> Shared<H> {
    /// An execution is over: the unit that was held for it is free. Runs wakers, so outside every section and pin.
    pub(crate) fn over(&self, origin: &Origin) {
        if self.budget.is_some() {
            self.release(origin.uncharge());
        }
    }

    /// Gives a unit of the budget back, if one was held.
    pub(crate) fn release(&self, held: bool) {
        if let Some(budget) = self.budget.as_ref().filter(|_| held) {
            budget.release(1);
        }
    }

    pub(crate) fn new(
        host: H,
        source_pool: Pool,
        spawner: Spawner,
        (first_generation, first_epoch): (u64, u64),
        budget: Option<Budget>,
        limits: [Option<u32>; 2],
        ends: Weak<Ends<H>>,
    ) -> Self {
        // ordering: only a number; each call gets its own.
        static IDS: AtomicU64 = AtomicU64::new(0);
        let capacity = Capacity::new(limits, &spawner);
        Self {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            host: Contained::new(host),
            source_pool,
            spawner,
            clock: Clock::new(first_epoch),
            sequencer: Sequencer::new(),
            world: WorldNumber::first(),
            roots: Leases::new(),
            counters: Counters::new(),
            overlaid: AtomicUsize::new(0),
            first_generation,
            budget,
            capacity,
            ends,
        }
    }

    /// The scheduler, while somebody holds it.
    pub(crate) fn scheduler(&self) -> Option<Stages<H>> {
        self.ends.upgrade().map(Stages::of)
    }

    /// Whether anybody holds the scheduler still.
    pub(crate) fn has_scheduler(&self) -> bool {
        self.ends.strong_count() > 0
    }

    /// The generation after `generation`, if there is one: it never wraps.
    pub(crate) fn generation_after(&self, generation: u64) -> Option<u64> {
        if generation == 0 { Some(self.first_generation) } else { generation.checked_add(1) }
    }

    /// One more or one fewer file has an edit's text, or as many as before.
    pub(crate) fn note_overlay(&self, before: bool, after: bool) {
        match (before, after) {
            (false, true) => _ = self.overlaid.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = self.overlaid.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }

    pub(crate) fn overlaid(&self) -> usize {
        self.overlaid.load(Ordering::Relaxed)
    }

    /// Pushes the ticket whose bit the caller has set. A runtime that refuses it drops it, and that ends what waits for it.
    pub(crate) fn push(&self, slot: Arc<Slot<H>>, kind: Kind) {
        self.queue(kind, ticket::job(slot, kind));
    }

    /// Queues what runs stages of this kind. A runtime that refuses it drops it.
    pub(crate) fn queue(&self, kind: Kind, job: Job) {
        drop(self.spawner.push(self.place(kind), job));
    }

    /// As [`Slot::post`], of a slot that the caller needs no longer.
    pub(crate) fn post(&self, slot: Arc<Slot<H>>, kind: Kind) {
        if slot.tickets.post(kind.bit()) {
            self.push(slot, kind);
        }
    }

    /// Where a ticket's stage runs.
    pub(crate) fn place(&self, kind: Kind) -> Place {
        let pool = if kind.stage == Stage::Source { self.source_pool } else { Pool::Workers };
        Place { pool, priority: kind.priority }
    }
}

impl<H: Host> Slot<H> {
    /// Sees to it that a ticket of this kind is out. What it stands for has been made visible before.
    pub(crate) fn post(self: &Arc<Self>, kind: Kind) {
        if self.tickets.post(kind.bit()) {
            self.shared().push(self.clone(), kind);
        }
    }

    /// As [`post`](Self::post), for a worker that returns to its loop right after.
    pub(crate) fn post_next(self: &Arc<Self>, kind: Kind) {
        if self.tickets.post(kind.bit()) {
            let shared = self.shared();
            drop(shared.spawner.push_next(shared.place(kind), ticket::job(self.clone(), kind)));
        }
    }
}
