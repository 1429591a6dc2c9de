//! What one can wait for beside a job: all that an actor has to do, the end of an executor, and what runs in a slot.
//! It does not know who waits, nor what for.

#![forbid(unsafe_code)]

use super::actor::Actor;
use super::current;
use super::executor::Shared;
use super::lent::{self, Lent};
use crate::flight::{FlightId, FlightRef, Interrupt, Phase};
use crate::runtime::{Place, Spawner};
use crate::sync::Arc;

/// What runs in a slot, for who looks for what holds a job up.
pub(super) struct InSlotOf<K, C> {
    shared: Arc<Shared<K, C>>,
    slot: usize,
    incarnation: u64,
}

impl<K, C> InSlotOf<K, C> {
    pub(super) fn new(shared: &Arc<Shared<K, C>>, slot: usize, incarnation: u64) -> Arc<Self> {
        Arc::new(Self { shared: shared.clone(), slot, incarnation })
    }
}

impl<K, C> FlightRef for InSlotOf<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    fn id(&self) -> FlightId {
        self.shared.slots.id(self.slot)
    }

    fn describe(&self) -> String {
        match self.shared.slots.read(self.slot) {
            Some((job, _)) => format!("{} job {:?} of actor {}", job.lane, job.label, job.incarnation),
            None => format!("a job of actor {}", self.incarnation),
        }
    }

    fn spawner(&self) -> Spawner {
        self.shared.spawner.clone()
    }

    fn place(&self) -> Place {
        self.shared.place
    }

    fn phase(&self) -> Phase {
        if self.shared.slots.is_of(self.slot, self.incarnation) { Phase::Claimed } else { Phase::Done }
    }

    fn help(&self) -> bool {
        false
    }

    fn watch(&self) -> bool {
        false
    }

    fn leave(&self) {}
}

/// What somebody waits for who waits for an actor.
pub(super) struct OfActor<K, C> {
    actor: Arc<Actor<K, C>>,
    lent: Lent,
}

impl<K, C> OfActor<K, C> {
    pub(super) fn new(actor: Arc<Actor<K, C>>) -> Arc<Self> {
        Arc::new(Self { actor, lent: Lent::new() })
    }
}

impl<K, C> FlightRef for OfActor<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    fn id(&self) -> FlightId {
        FlightId::of(&*self.actor, 1)
    }

    fn describe(&self) -> String {
        format!("the jobs of actor {}", self.actor.incarnation)
    }

    fn spawner(&self) -> Spawner {
        self.actor.shared.spawner.clone()
    }

    fn place(&self) -> Place {
        self.actor.shared.place
    }

    fn phase(&self) -> Phase {
        if self.actor.word.look().is_idle() { Phase::Done } else { Phase::Claimed }
    }

    fn help(&self) -> bool {
        false
    }

    fn watch(&self) -> bool {
        self.lent.lend();
        false
    }

    fn slept_for(&self) -> Option<Interrupt> {
        let waiter = current::running()?;
        self.lent.lend();
        let starves = || self.actor.word.look().all_queued() > 0 && self.actor.shared.pool.is_starved();
        lent::refuse(self, &*waiter, starves).inspect(|_| self.lent.give_back())
    }

    fn waits_no_more(&self) {
        self.lent.give_back();
    }

    fn leave(&self) {}

    fn gates(&self, out: &mut Vec<Arc<dyn FlightRef>>) {
        self.actor.holders_of_all(out);
    }
}

/// What somebody waits for who waits until nothing of an executor runs any more.
pub(super) struct EndOf<K, C> {
    shared: Arc<Shared<K, C>>,
    lent: Lent,
}

impl<K, C> EndOf<K, C> {
    pub(super) fn new(shared: &Arc<Shared<K, C>>) -> Arc<Self> {
        Arc::new(Self { shared: shared.clone(), lent: Lent::new() })
    }
}

impl<K, C> FlightRef for EndOf<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    fn id(&self) -> FlightId {
        FlightId::of(&*self.shared, 1)
    }

    fn describe(&self) -> String {
        "the jobs of an executor that is shut down".to_owned()
    }

    fn spawner(&self) -> Spawner {
        self.shared.spawner.clone()
    }

    fn place(&self) -> Place {
        self.shared.place
    }

    fn phase(&self) -> Phase {
        if self.shared.pool.look().0 == 0 { Phase::Done } else { Phase::Claimed }
    }

    fn help(&self) -> bool {
        false
    }

    fn watch(&self) -> bool {
        self.lent.lend();
        false
    }

    fn waits_no_more(&self) {
        self.lent.give_back();
    }

    fn leave(&self) {}

    fn gates(&self, out: &mut Vec<Arc<dyn FlightRef>>) {
        for (slot, job, _) in self.shared.slots.all() {
            out.push(InSlotOf::new(&self.shared, slot, job.incarnation));
        }
    }
}
