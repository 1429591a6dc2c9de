//! Lending: a job that waits for another lends its slot, so that what it waits for need not wait for that slot.
//! It does not know who waits where, only which job runs on this thread.
//!
//! What is waited for notes who lends, and gives the slot back when it is over: until then nobody knows better whether the wait
//! goes on. A slot that was lent and given back is in use twice for a moment; a runner that sees it stops.

#![forbid(unsafe_code)]

use super::cancel::Cancels;
use super::current;
use super::meta::Meta;
use crate::flight::{FlightId, FlightRef, Interrupt, WaitCycle};
use crate::sync::{Arc, OnceLock};
use std::collections::HashSet;

/// Who lends its slot until a wait is over.
pub(super) type Lender = OnceLock<Arc<dyn Cancels>>;

/// A slot that is lent as long as this lives, by the first job that waits.
pub(super) struct Lent(Lender);

impl Lent {
    pub(super) fn new() -> Self {
        Self(Lender::new())
    }

    /// The job that runs on this thread waits.
    pub(super) fn lend(&self) {
        if self.0.get().is_none()
            && let Some(waiter) = current::running()
        {
            waiter.lend_slot();
            if let Err(waiter) = self.0.set(waiter) {
                waiter.unlend_slot();
            }
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(lender) = self.0.get() {
            lender.unlend_slot();
        }
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
    let Some(waiter) = current::running() else { return };
    let mut first = false;
    let lender = meta.lender.get_or_init(|| {
        first = true;
        waiter
    });
    lender.lend_slot();
    if !meta.state.lend() {
        // It is over, or another has lent meanwhile.
        lender.unlend_slot();
    } else if meta.state.is_to_begin() {
        meta.actor().shared.queue_awaited(meta.actor());
    }
    if first && meta.is_nested() {
        // Whether it goes in before a writer depends on whether somebody waits for it.
        meta.actor().poke(meta.class());
    }
}

/// The job of `meta` is answered: what was lent for it goes back.
pub(super) fn give_back<K, C>(meta: &Meta<K, C>) {
    if meta.state.unlend()
        && let Some(lender) = meta.lender.get()
    {
        lender.unlend_slot();
    }
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
