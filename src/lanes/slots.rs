//! The worker slots of an executor and what runs in each, to be looked at by anybody without a lock.
//! It does not know why a job runs there.
//!
//! Who has a slot alone writes it; the sequence number tells a reader whether what it has read belongs together. A reader that
//! meets a change tries again a few times, and then leaves the slot out.

use super::kind::{LaneClass, LaneKind};
use crate::flight::FlightId;
use crate::runtime::BitSet;
use crate::sync::CachePadded;
use crate::sync::atomic::{AtomicPtr, fence};
use crate::sync::stat::{AtomicU64, AtomicUsize, Ordering};

/// What a job looks like from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InSlot {
    pub(super) hash: u64,
    pub(super) incarnation: u64,
    pub(super) lane: LaneKind,
    pub(super) class: LaneClass,
    pub(super) id: u64,
    pub(super) label: &'static str,
    /// When it got its slot, on the runtime's clock, in nanoseconds.
    pub(super) started: u64,
}

/// Reads of one slot before it is left out.
const TRIES: usize = 8;
const BUSY: u64 = 1 << 8;
const MAINTENANCE: u64 = 1 << 9;

#[derive(Debug, Default)]
struct Slot {
    /// Odd while it is written.
    sequence: AtomicU64,
    what: AtomicU64,
    hash: AtomicU64,
    incarnation: AtomicU64,
    id: AtomicU64,
    label: AtomicPtr<u8>,
    label_len: AtomicUsize,
    started: AtomicU64,
    /// The sequence number of the job that a census has reported.
    reported: AtomicU64,
    completed: [AtomicU64; 2],
}

/// The slots.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Box<[CachePadded<Slot>]>,
    /// Those that nobody has.
    free: BitSet,
}

impl Slots {
    pub(super) fn new(count: usize) -> Self {
        let free = BitSet::new(count);
        (0..count).for_each(|slot| free.insert(slot));
        Self { slots: (0..count).map(|_| CachePadded::new(Slot::default())).collect(), free }
    }

    /// Takes a slot that is free. None, while more have been promised than there are. Who takes it sees what the one before wrote
    /// there.
    pub(super) fn take(&self) -> Option<usize> {
        self.free.claim_any()
    }

    /// Gives a slot back.
    pub(super) fn give(&self, slot: usize) {
        self.free.insert(slot);
    }

    /// What stands for the job in a slot when one looks for who holds whom up.
    #[inline]
    pub(super) fn id(&self, slot: usize) -> FlightId {
        FlightId::of(&self.slots[slot.min(self.slots.len() - 1)], 0)
    }

    #[inline]
    fn write(&self, slot: usize, write: impl FnOnce(&Slot)) {
        let slot = &self.slots[slot];
        let sequence = slot.sequence.load(Ordering::Relaxed);
        slot.sequence.store(sequence + 1, Ordering::Relaxed);
        // ordering: pairs with the Acquire fence in `read`: if any of our stores is read there, so is the odd number.
        fence(Ordering::Release);
        write(slot);
        // ordering: Release; pairs with the first load in `read`.
        slot.sequence.store(sequence + 2, Ordering::Release);
    }

    /// A job has the slot. For who has it.
    #[inline]
    pub(super) fn begin(&self, slot: usize, job: &InSlot) {
        self.write(slot, |slot| {
            let class = if job.class == LaneClass::Maintenance { MAINTENANCE } else { 0 };
            slot.what.store(job.lane as u64 | class | BUSY, Ordering::Relaxed);
            slot.hash.store(job.hash, Ordering::Relaxed);
            slot.incarnation.store(job.incarnation, Ordering::Relaxed);
            slot.id.store(job.id, Ordering::Relaxed);
            slot.label.store(job.label.as_ptr().cast_mut(), Ordering::Relaxed);
            slot.label_len.store(job.label.len(), Ordering::Relaxed);
            slot.started.store(job.started, Ordering::Relaxed);
        });
    }

    /// The job is over, and counts as completed if it ran. For who has the slot.
    #[inline]
    pub(super) fn end(&self, slot: usize, ran: Option<LaneClass>) {
        self.write(slot, |slot| slot.what.store(0, Ordering::Relaxed));
        if let Some(class) = ran {
            let count = &self.slots[slot].completed[class as usize];
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// What runs in a slot, and the number by which a census knows it.
    pub(super) fn read(&self, slot: usize) -> Option<(InSlot, u64)> {
        let slot = &self.slots[slot];
        for _ in 0..TRIES {
            let sequence = slot.sequence.load(Ordering::Acquire);
            let what = slot.what.load(Ordering::Relaxed);
            if sequence % 2 == 1 {
                continue;
            }
            let hash = slot.hash.load(Ordering::Relaxed);
            let incarnation = slot.incarnation.load(Ordering::Relaxed);
            let id = slot.id.load(Ordering::Relaxed);
            let label = (slot.label.load(Ordering::Relaxed), slot.label_len.load(Ordering::Relaxed));
            let started = slot.started.load(Ordering::Relaxed);
            // ordering: pairs with the Release fence in `write`.
            fence(Ordering::Acquire);
            if slot.sequence.load(Ordering::Relaxed) != sequence {
                continue;
            }
            if what & BUSY == 0 {
                return None;
            }
            let class = if what & MAINTENANCE == 0 { LaneClass::Interactive } else { LaneClass::Maintenance };
            // SAFETY: address and length were stored together from one `&'static str`, and the sequence number says that they
            // were read together.
            let label = unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(label.0, label.1)) };
            let lane = LaneKind::of((what & 0xFF) as u8);
            return Some((InSlot { hash, incarnation, lane, class, id, label, started }, sequence));
        }
        None
    }

    /// What runs in all slots.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, InSlot, u64)> + '_ {
        (0..self.slots.len()).filter_map(|at| self.read(at).map(|(job, number)| (at, job, number)))
    }

    /// Whether this is the first report of the job with that number.
    pub(super) fn report(&self, slot: usize, number: u64) -> bool {
        self.slots[slot].reported.swap(number, Ordering::Relaxed) != number
    }

    /// How many run in each class.
    pub(super) fn running(&self) -> [usize; 2] {
        let mut running = [0, 0];
        for slot in &self.slots {
            let what = slot.what.load(Ordering::Relaxed);
            if what & BUSY != 0 {
                running[usize::from(what & MAINTENANCE != 0)] += 1;
            }
        }
        running
    }

    /// How many ran in each class.
    pub(super) fn completed(&self) -> [u64; 2] {
        let sum = |class: usize| {
            self.slots.iter().map(|slot: &CachePadded<Slot>| slot.completed[class].load(Ordering::Relaxed)).sum()
        };
        [sum(0), sum(1)]
    }

    /// Whether what runs in it is of that incarnation: for who looks at a slot that it found by number.
    pub(super) fn is_of(&self, slot: usize, incarnation: u64) -> bool {
        self.read(slot).is_some_and(|(job, _)| job.incarnation == incarnation)
    }
}
