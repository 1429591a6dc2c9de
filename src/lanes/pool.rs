//! The slots of an executor as one word: how many are in use, how many are lent on top, and what maintenance has of them.
//! It does not know which slots these are, nor what runs there.
//!
//! Whether maintenance may start is one decision, since its cap and the reserve stand in the same word as what is in use.

#![forbid(unsafe_code)]

use super::barrier;
use super::held::Place;
use crate::sync::atomic::{AtomicU64, Ordering, load_for_cas};
use crate::sync::mutant;

const USED: u64 = 1;
const LENT: u64 = 1 << 16;
const MAINTENANCE: u64 = 1 << 32;
const AGED: u64 = 1 << 48;
const FIELD: u64 = (1 << 16) - 1;

fn used(word: u64) -> u64 {
    word & FIELD
}

fn lent(word: u64) -> u64 {
    (word >> 16) & FIELD
}

fn maintenance(word: u64) -> u64 {
    (word >> 32) & FIELD
}

/// The word, and the limits that it keeps.
#[derive(Debug)]
pub(crate) struct PoolWord {
    word: AtomicU64,
    pool: u64,
    reserve: u64,
    cap: u64,
    /// Slots that may be lent at once.
    lent_max: u64,
}

impl PoolWord {
    pub(crate) fn new(pool: usize, reserve: usize, cap: usize, lent_max: usize) -> Self {
        Self {
            word: AtomicU64::new(0),
            pool: pool as u64,
            reserve: reserve as u64,
            cap: cap as u64,
            lent_max: lent_max as u64,
        }
    }

    fn update<R>(&self, mut step: impl FnMut(u64) -> Option<(u64, R)>) -> Option<R> {
        // ordering: each edge publishes what was done before it, and sees what the last one published.
        let mut seen = load_for_cas(&self.word, Ordering::Acquire);
        loop {
            let (next, result) = step(seen)?;
            match self.word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(result),
                Err(now) => seen = now,
            }
        }
    }

    fn limit(&self, word: u64) -> u64 {
        self.pool + lent(word).min(self.lent_max)
    }

    /// Takes one more slot into use, if there is one.
    pub(crate) fn start(&self) -> bool {
        self.update(|word| (used(word) < self.limit(word)).then_some((word + USED, ()))).is_some()
    }

    /// Whether there is one more slot, and, for maintenance, a place that it could have then.
    fn has_slot(&self, word: u64, for_maintenance: bool) -> bool {
        let place = maintenance(word) < self.cap && self.leaves_reserve(word + USED);
        used(word) < self.limit(word) && (!for_maintenance || place)
    }

    /// As [`start`](Self::start), for maintenance: only if it could have a place then.
    pub(crate) fn start_for_maintenance(&self) -> bool {
        self.update(|word| self.has_slot(word, true).then_some((word + USED, ()))).is_some()
    }

    /// Something was queued: takes a slot into use for it, if there is one. If there is none, who has the last will look at the
    /// queues before it gives it up.
    pub(crate) fn start_for_queued(&self, maintenance: bool) -> bool {
        if !mutant("lanes.queue_without_barrier") {
            barrier::full(); // pairs with `stop`
        }
        self.start_if_free(maintenance)
    }

    /// As [`start_for_queued`](Self::start_for_queued), for who has queued it by a read-modify-write just now.
    pub(crate) fn start_for_exchanged(&self, maintenance: bool) -> bool {
        if !mutant("lanes.exchange_without_barrier") {
            barrier::behind_exchange(); // pairs with `stop`
        }
        self.start_if_free(maintenance)
    }

    fn start_if_free(&self, maintenance: bool) -> bool {
        // A look of its own, so that nothing is written where no slot is free, which is so under load.
        let free = self.has_slot(self.word.load(Ordering::Relaxed), maintenance);
        free && if maintenance { self.start_for_maintenance() } else { self.start() }
    }

    /// Gives a slot up, and then looks whether there is work: `interactive` tells of work for anybody, `maintenance` of work that
    /// needs a place. True if there is, and the caller has a slot again.
    pub(crate) fn stop(&self, interactive: impl FnOnce() -> bool, maintenance: impl FnOnce() -> bool) -> bool {
        // ordering: pairs with `start_for_queued`: one pushes, passes the barrier and looks for an unused slot, the other
        // counts itself out, passes the barrier and looks at the queues.
        self.word.fetch_sub(USED, Ordering::AcqRel);
        if !mutant("lanes.stop_without_barrier") {
            barrier::full();
        }
        if mutant("lanes.stop_without_look") {
            return false;
        }
        (interactive() && self.start()) || (maintenance() && self.start_for_maintenance())
    }

    fn leaves_reserve(&self, word: u64) -> bool {
        self.limit(word) >= used(word) + self.reserve
    }

    /// Gives the maintenance job that the caller has a slot for a place, if it may have one.
    pub(crate) fn take_place(&self, aged: bool) -> Option<Place> {
        if aged {
            let taken = self.update(|word| (word & AGED == 0).then_some((word | AGED, ())));
            return taken.map(|()| Place::Aged);
        }
        if mutant("lanes.reserve_apart") {
            let word = self.word.load(Ordering::Acquire);
            let may = maintenance(word) < self.cap && self.leaves_reserve(word);
            return may.then(|| {
                self.word.fetch_add(MAINTENANCE, Ordering::AcqRel);
                Place::Capped
            });
        }
        let may = |word: u64| maintenance(word) < self.cap && self.leaves_reserve(word);
        self.update(|word| may(word).then_some((word + MAINTENANCE, Place::Capped)))
    }

    /// As [`start_for_queued`](Self::start_for_queued), for maintenance that has waited its age: if the place that there is for such is
    /// free. If it is not, who has it looks at the queue once he has given it back.
    pub(crate) fn start_for_aged(&self) -> bool {
        if !mutant("lanes.aged_without_barrier") {
            barrier::full(); // pairs with `stop`, before which the place is given back
        }
        self.has_aged_place() && self.start_if_free(false)
    }

    /// A slot was lent: takes one into use, if there is work for it.
    pub(crate) fn start_for_lent(&self, work: impl FnOnce() -> bool) -> bool {
        barrier::behind_exchange(); // pairs with `start_for_queued`: it queues, then looks for a slot
        work() && self.start()
    }

    /// Whether the place for maintenance that has waited its age is free.
    pub(crate) fn has_aged_place(&self) -> bool {
        self.word.load(Ordering::Acquire) & AGED == 0
    }

    /// The place is free again.
    pub(crate) fn give_place(&self, place: Place) {
        // ordering: as in `stop`.
        match place {
            Place::Capped => self.word.fetch_sub(MAINTENANCE, Ordering::AcqRel),
            Place::Aged => self.word.fetch_and(!AGED, Ordering::AcqRel),
        };
    }

    /// A job waits inside the engine: its slot is lent to another, as far as slots may be lent.
    pub(crate) fn lend(&self) {
        // ordering: as in `stop`.
        self.word.fetch_add(LENT, Ordering::AcqRel);
    }

    /// Whether every slot there is belongs to a job that waits, so that nothing more begins before one of those goes on.
    pub(crate) fn is_starved(&self) -> bool {
        let word = self.word.load(Ordering::Acquire);
        used(word) >= self.limit(word) && lent(word) >= used(word)
    }

    /// Whether more slots are in use than there are, since one that was lent has been given back. A hint.
    pub(crate) fn is_over(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        used(word) > self.limit(word)
    }

    /// Gives a slot up if more are in use than there are. True for the one who did: all the others look at the queues still.
    pub(crate) fn stop_if_over(&self) -> bool {
        if mutant("lanes.stop_without_count") {
            self.word.fetch_sub(USED, Ordering::AcqRel);
            return true;
        }
        self.update(|word| (used(word) > self.limit(word)).then_some((word - USED, ()))).is_some()
    }

    /// What was lent is given back. More may be in use than there are, until one of those who have them looks.
    pub(crate) fn unlend(&self) {
        self.word.fetch_sub(LENT, Ordering::AcqRel);
    }

    /// In use, lent, and what maintenance has.
    pub(crate) fn look(&self) -> (usize, usize, usize) {
        let word = self.word.load(Ordering::Acquire);
        (
            used(word) as usize,
            lent(word).min(self.lent_max) as usize,
            (maintenance(word) + u64::from(word & AGED != 0)) as usize,
        )
    }
}
