//! Lending: a job that waits for another lends its slot, so that what it waits for need not wait for that slot.
//! It does not know who waits where, only which job runs on this thread.
//!
//! What is waited for notes who lends, and gives the slot back when it is over; so does who waits when it gives up, lets go of what it
//! waits for, or ends. A slot that was lent and given back is in use twice for a moment; a runner that sees it stops.

#![forbid(unsafe_code)]

use super::cancel::Cancels;
use super::current;
use super::first::First;
use super::meta::Meta;
use crate::flight::{FlightId, FlightRef, Interrupt, WaitCycle, trampoline};
use crate::sync::Arc;
use std::collections::HashSet;

/// A job that waits, and lends its slot meanwhile.
pub(super) struct Waits(Arc<dyn Cancels>);

impl Waits {
    /// The job that runs on this thread begins to. `None` outside of one.
    fn begin() -> Option<Arc<Self>> {
        let job = current::running()?;
        job.lend_slot();
        Some(Arc::new(Self(job)))
    }

    /// It does so no more.
    fn end(self: Arc<Self>) {
        self.0.unlend_slot();
        // Where it has ended already, this may be the last that is known of it.
        trampoline::dispose(self);
    }
}

/// A slot that is lent until the wait ends, or this goes.
pub(super) struct Lent(First<Waits>);

impl Lent {
    pub(super) fn new() -> Self {
        Self(First::new())
    }

    /// The job that runs on this thread waits.
    pub(super) fn lend(&self) {
        if self.0.is_empty()
            && let Some(waits) = Waits::begin()
            && let Err(waits) = self.0.put(waits)
        {
            waits.end();
        }
    }

    /// Nobody waits any more.
    pub(super) fn give_back(&self) {
        if let Some(waits) = self.0.take() {
            waits.end();
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The job that runs on this thread waits for the job of `meta`: its slot is lent until that is answered.
pub(super) fn lend<K, C>(meta: &Meta<K, C>)
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    if meta.state.is_lent() {
        return;
    }
    let Some(waits) = Waits::begin() else { return };
    meta.note_waited_by(waits.0.incarnation());
    if let Err(waits) = meta.lender.lend(&meta.state, waits) {
        waits.end();
    } else if meta.state.is_to_begin() {
        meta.actor().shared.queue_awaited(meta.actor());
        if meta.is_nested() {
            // Whether it goes in before a writer depends on whether somebody waits for it.
            meta.actor().poke(meta.class());
        }
    }
}

/// Nobody waits for the job of `meta` any more: what was lent for it goes back.
pub(super) fn give_back<K, C>(meta: &Meta<K, C>) {
    given_back(meta).into_iter().for_each(trampoline::dispose);
}

/// The job of `meta` is about to be answered: what was lent for it goes back. To be disposed of behind the answer.
pub(super) fn given_back<K, C>(meta: &Meta<K, C>) -> Option<Arc<Waits>> {
    let waits = meta.lender.give_back(&meta.state)?;
    waits.0.unlend_slot();
    Some(waits)
}

/// The job that runs on this thread is about to sleep until the job of `meta` is over. Why it must not.
pub(super) fn slept_for<K, C>(job: &dyn FlightRef, meta: &Meta<K, C>) -> Option<Interrupt>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let waiter = current::running()?;
    lend(meta);
    let starves = || meta.state.is_to_begin() && meta.actor().shared.pool.is_starved();
    let refused = refuse(job, &*waiter, starves);
    if refused.is_some() {
        give_back(meta);
    }
    refused
}

/// Why `waiter` must not sleep until `awaited` is over. `starves`: that has not begun, and every slot that it could have belongs to
/// a job that waits.
pub(super) fn refuse(awaited: &dyn FlightRef, waiter: &dyn Cancels, starves: impl Fn() -> bool) -> Option<Interrupt> {
    if let Some(cycle) = cycle(awaited, waiter.slot_id()) {
        return Some(Interrupt::WouldDeadlock(cycle));
    }
    (waiter.is_starved() && starves()).then_some(Interrupt::TooDeep)
}

/// The cycle that a wait for `awaited` would close, if what runs in the slot of that identity must be over first.
fn cycle(awaited: &dyn FlightRef, slot: FlightId) -> Option<WaitCycle> {
    let (mut open, mut seen) = (Vec::new(), HashSet::new());
    awaited.gates(&mut open);
    while let Some(flight) = open.pop() {
        if flight.id() == slot {
            return Some(WaitCycle::new(vec![awaited.describe(), flight.describe()]));
        }
        if seen.insert(flight.id()) {
            flight.gates(&mut open);
        }
    }
    None
}
