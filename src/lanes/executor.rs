//! What the actors of one executor share: slots, run queues, permits, bounds, the clock and the registry.
//! It does not know the order rules of an actor, nor what jobs do.
//!
//! # Run queues
//!
//! An actor with something to look at stands in at most one place per class. Interactive work goes first: actors that have some
//! of their share left, then the others in turn, and before both, at most three times in a row, those that are to be served
//! promptly. The first of those in turn stands in a word of its own. Maintenance is looked at when no interactive actor waits, and only with a place for it in hand; what has waited its
//! age stands apart and is looked at first, with the one place that there is for such.
//!
//! Push, barrier, look for an unused slot; give the slot up, barrier, look at the queues: either who queues starts a runner, or
//! who stops finds the work.

#![forbid(unsafe_code)]

use super::actor::{Actor, Why};
use super::ages::Ages;
use super::answer::LaneError;
use super::barrier;
use super::blocks::Depot;
use super::config::LanesConfig;
use super::first::First;
use super::heavy::Heavy;
use super::held;
use super::kind::{LaneClass, Latency, Quantum};
use super::order::Limits;
use super::outside::Lists;
use super::pool::PoolWord;
use super::registry::{Registry, let_go};
use super::runner::Runner;
use super::slots::Slots;
use super::word::RUNNING_MAX;
use crate::admission::Budget;
use crate::flight::Completion;
use crate::runtime::{Job, Place, Priority, Spawner};
use crate::sync::queue::{Injector, look_and_take};
use crate::sync::stat::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, hint};
use std::time::Duration;

/// How often in a row actors that are to be served promptly go first.
const PROMPT_STREAK: u64 = 3;

/// Who waits for the last job.
pub(super) type Ender = Completion<(), LaneError>;

/// The actors that are to be looked at.
struct RunQueues<K, C> {
    prompt: Injector<Arc<Actor<K, C>>>,
    front: Injector<Arc<Actor<K, C>>>,
    /// Goes before `back`, and is filled only while that is empty.
    first: First<Actor<K, C>>,
    back: Injector<Arc<Actor<K, C>>>,
    maintenance: Injector<Arc<Actor<K, C>>>,
    aged: Injector<Arc<Actor<K, C>>>,
    /// Stood in line for maintenance for long: looked at, so that each learns when its own reaches its age.
    due: Injector<Arc<Actor<K, C>>>,
    /// A job in a slot waits for one of these, or a permit was handed to maintenance of theirs.
    awaited: Injector<Arc<Actor<K, C>>>,
    streak: AtomicU64,
}

impl<K, C> RunQueues<K, C> {
    /// Queues an actor whose share is used up. Whether that was by an exchange of our own.
    fn line_up(&self, actor: Arc<Actor<K, C>>) -> bool {
        let put = if self.back.is_empty() { self.first.put(actor) } else { Err(actor) };
        let Err(actor) = put else { return true };
        self.back.push(actor);
        false
    }

    /// Whether nobody stands in turn.
    fn is_line_empty(&self) -> bool {
        self.first.is_empty() && self.back.is_empty()
    }
}

/// An actor to be visited, and how it was found.
pub(super) struct Found<K, C> {
    pub(super) actor: Arc<Actor<K, C>>,
    pub(super) ticket: Option<LaneClass>,
    pub(super) renews: bool,
    pub(super) place: Option<held::Place>,
}

/// The shared part of an executor.
pub(super) struct Shared<K, C> {
    pub(super) spawner: Spawner,
    pub(super) place: Place,
    pub(super) config: LanesConfig,
    pub(super) limits: Limits,
    /// What jobs take is measured, for the shares.
    pub(super) measures: bool,
    pub(super) pool: PoolWord,
    pub(super) slots: Slots,
    pub(super) heavy: Heavy,
    pub(super) registry: Registry<K, C>,
    pub(super) ages: Ages,
    pub(super) blocks: Depot,
    budgets: [Budget; 2],
    queues: RunQueues<K, C>,
    incarnations: AtomicU64,
    phantoms: AtomicU64,
    /// A timer is set for those who stand in line for maintenance.
    watches: AtomicBool,
    closed: AtomicBool,
    enders: Injector<Arc<Ender>>,
    /// Compares keys, for those who know only that there are some.
    pub(super) same_key: fn(&K, &K) -> bool,
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)
}

impl<K, C> Shared<K, C> {
    /// A job that had begun was lost without an answer.
    pub(super) fn phantom(&self) {
        self.phantoms.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn phantoms(&self) -> u64 {
        self.phantoms.load(Ordering::Relaxed)
    }
}

impl<K, C> Shared<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    pub(super) fn new(spawner: Spawner, place: Place, config: LanesConfig, same_key: fn(&K, &K) -> bool) -> Arc<Self> {
        // A job has a slot each, so that no count of an actor's word overflows.
        let lent_max = config.pool.max(16).min(RUNNING_MAX - config.pool);
        let limits = Limits {
            read_cap: config.read_cap,
            actor_cap: config.actor_cap,
            promote_after: nanos(config.promote_after),
            maintenance_age: nanos(config.maintenance_age),
            stuck_after: nanos(config.stuck_after),
        };
        let budget = |units| Budget::with(units, Some(spawner.clone()), crate::runtime::stripes());
        Arc::new(Self {
            place,
            limits,
            measures: matches!(config.quantum, Quantum::Time(_)),
            pool: PoolWord::new(config.pool, config.interactive_reserve, config.maintenance_cap, lent_max),
            slots: Slots::new(config.pool + lent_max),
            heavy: Heavy::new(config.heavy_permits, config.heavy_reserve),
            registry: Registry::new(),
            ages: Ages::new(),
            blocks: Depot::new(),
            budgets: [budget(config.interactive_queue_total), budget(config.maintenance_queue_total)],
            queues: RunQueues {
                prompt: Injector::new(),
                front: Injector::new(),
                first: First::new(),
                back: Injector::new(),
                maintenance: Injector::new(),
                aged: Injector::new(),
                due: Injector::new(),
                awaited: Injector::new(),
                streak: AtomicU64::new(0),
            },
            incarnations: AtomicU64::new(1),
            phantoms: AtomicU64::new(0),
            watches: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            enders: Injector::new(),
            same_key,
            spawner,
            config,
        })
    }

    pub(super) fn next_incarnation(&self) -> u64 {
        self.incarnations.fetch_add(1, Ordering::Relaxed)
    }

    /// What stands for this executor in a thread-local.
    pub(super) fn identity(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The time on the runtime's clock, in nanoseconds.
    pub(super) fn now(&self) -> u64 {
        nanos(self.spawner.now())
    }

    /// As [`now`](Self::now), or a few milliseconds before it where that costs less: for jobs that nothing is due for, and shown ages.
    pub(super) fn about(&self) -> u64 {
        if self.measures { self.now() } else { self.spawner.about().unwrap_or_else(|| self.now()) }
    }

    /// What bounds the queued jobs of a class.
    pub(super) fn budget(&self, class: LaneClass) -> &Budget {
        &self.budgets[class as usize]
    }

    /// What one actor may have queued.
    pub(super) fn queue_cap(&self, class: LaneClass) -> u32 {
        match class {
            LaneClass::Interactive => self.config.interactive_queue,
            LaneClass::Maintenance => self.config.maintenance_queue,
        }
    }

    /// A job is queued no more.
    pub(super) fn left_queue(&self, class: LaneClass, bucket: u16) {
        self.ages.leave(class, bucket);
        self.budget(class).release(1);
    }

    pub(super) fn queue(self: &Arc<Self>, actor: Arc<Actor<K, C>>, class: LaneClass) {
        self.queue_at(actor, class, false);
    }

    /// Has an actor looked at, whose ticket the caller has just set. `front`: before those whose share is used up.
    pub(super) fn queue_at(self: &Arc<Self>, actor: Arc<Actor<K, C>>, class: LaneClass, front: bool) {
        let queues = &self.queues;
        let mut exchanged = false;
        match class {
            LaneClass::Maintenance => queues.maintenance.push(actor),
            LaneClass::Interactive if actor.options.latency == Latency::Prompt => queues.prompt.push(actor),
            LaneClass::Interactive if front => queues.front.push(actor),
            LaneClass::Interactive => exchanged = queues.line_up(actor),
        }
        let starts = match class {
            LaneClass::Interactive if exchanged => self.pool.start_for_exchanged(false),
            _ => self.pool.start_for_queued(class == LaneClass::Maintenance),
        };
        if starts {
            self.launch(self.take_slot());
        } else if class == LaneClass::Maintenance {
            self.watch();
        }
    }

    /// Somebody stands in line for maintenance: whatever else happens, the line is looked at within the age of maintenance.
    fn watch(self: &Arc<Self>) {
        if self.watches.load(Ordering::Relaxed) || self.watches.swap(true, Ordering::AcqRel) {
            return;
        }
        let me = Arc::downgrade(self);
        let job = Job::new(move || {
            if let Some(shared) = me.upgrade() {
                shared.look_at_line();
            }
        });
        self.wait(self.config.maintenance_age, job);
    }

    fn look_at_line(self: &Arc<Self>) {
        self.watches.store(false, Ordering::Release);
        for _ in 0..self.queues.maintenance.len() {
            let Some(actor) = look_and_take(&self.queues.maintenance) else { break };
            self.queues.due.push(actor);
        }
        if !self.queues.due.is_empty() && self.pool.start_for_queued(false) {
            self.launch(self.take_slot());
        }
    }

    /// Has an actor looked at whose maintenance has waited its age.
    pub(super) fn queue_aged(self: &Arc<Self>, actor: &Arc<Actor<K, C>>) {
        if actor.aged.swap(true, Ordering::AcqRel) {
            return;
        }
        self.queues.aged.push(actor.clone());
        if self.pool.start_for_aged() {
            self.launch(self.take_slot());
        }
    }

    /// Has an actor looked at once so much time has passed.
    pub(super) fn wake_later(self: &Arc<Self>, actor: &Arc<Actor<K, C>>, delay: u64) {
        let woken = Arc::downgrade(actor);
        let job = Job::new(move || {
            let Some(woken) = woken.upgrade() else { return };
            let seen = woken.word.look();
            if seen.queued(LaneClass::Interactive) > 0 {
                woken.poke(LaneClass::Interactive);
            }
            if seen.queued(LaneClass::Maintenance) > 0 {
                woken.shared.queue_aged(&woken);
            }
        });
        // Left set: when it fires for nothing, that costs a look.
        self.wait(Duration::from_nanos(delay), job);
    }

    /// Runs `job` once so much time has passed. Where no timer can be had ages are looked at when something else happens.
    fn wait(&self, delay: Duration, job: Job) {
        if self.spawner.may_wait().is_ok() {
            let timer = self.spawner.after_at(Place::workers(Priority::Critical), delay, job);
            drop(timer);
        }
    }

    /// A slot for who has just been counted in.
    pub(super) fn take_slot(&self) -> usize {
        loop {
            // Slots are given back before they are counted out, so one is free; a preempted taker may hide it for a moment.
            if let Some(slot) = self.slots.take() {
                return slot;
            }
            hint::spin_loop();
        }
    }

    /// Sends a runner off, for whom a slot was taken.
    pub(super) fn launch(self: &Arc<Self>, slot: usize) {
        let runner = Runner::new(self.clone(), slot);
        // Refused, it is dropped, and that shuts the executor down.
        drop(self.spawner.push(self.place, Job::new(move || runner.run())));
    }

    /// Drops what a visit has thrown away, on a stack on which no job of the executor stands.
    pub(super) fn drop_later(&self, thrown: Box<Lists<K, C>>) {
        // Refused, it is dropped here: no runner is there any more.
        drop(self.spawner.push(self.place, Job::new(move || drop(thrown))));
    }

    /// A job waits inside the engine for another one of this executor: its slot is lent.
    pub(super) fn look_for_lent(self: &Arc<Self>) {
        if self.pool.start_for_lent(|| self.has_work()) {
            self.launch(self.take_slot());
        }
    }

    /// Has an actor looked at before others, since a job in a slot waits for one of it, or others wait for what it was handed: that must not
    /// stand behind others that would wait in turn.
    pub(super) fn queue_awaited(self: &Arc<Self>, actor: &Arc<Actor<K, C>>) {
        self.queues.awaited.push(actor.clone());
        if self.pool.start_for_queued(false) {
            self.launch(self.take_slot());
        }
    }

    fn has_interactive(&self) -> bool {
        let queues = &self.queues;
        !(queues.is_line_empty() && queues.awaited.is_empty() && queues.front.is_empty() && queues.prompt.is_empty())
    }

    fn has_work(&self) -> bool {
        self.has_interactive()
            || !self.queues.due.is_empty()
            || (!self.queues.aged.is_empty() && self.pool.has_aged_place())
    }

    /// Gives a slot back if more are in use than there are. Then somebody else looks at the queues.
    pub(super) fn gives_back(&self, slot: &mut usize) -> bool {
        if !self.pool.is_over() {
            return false;
        }
        self.slots.give(*slot);
        let stopped = self.pool.stop_if_over();
        if !stopped {
            *slot = self.take_slot();
        }
        stopped
    }

    /// Gives a slot up, if there is nothing to do. True if there is: then the caller has a slot again.
    pub(super) fn stop(self: &Arc<Self>, slot: usize) -> Option<usize> {
        self.slots.give(slot);
        if self.pool.stop(|| self.has_work(), || !self.queues.maintenance.is_empty()) {
            return Some(self.take_slot());
        }
        if !self.queues.maintenance.is_empty() {
            self.watch();
        }
        if self.closed.load(Ordering::Relaxed) {
            self.tell_enders();
        }
        None
    }

    /// The next actor to be visited.
    pub(super) fn next(self: &Arc<Self>) -> Option<Found<K, C>> {
        let queues = &self.queues;
        if !queues.aged.is_empty()
            && let Some(place) = self.pool.take_place(true)
        {
            if let Some(actor) = look_and_take(&queues.aged) {
                actor.aged.store(false, Ordering::Release);
                return Some(Found { actor, ticket: None, renews: false, place: Some(place) });
            }
            self.pool.give_place(place);
        }
        if let Some(actor) = look_and_take(&queues.due) {
            return Some(Found { actor, ticket: Some(LaneClass::Maintenance), renews: false, place: None });
        }
        if let Some(actor) = look_and_take(&queues.awaited) {
            return Some(Found { actor, ticket: None, renews: true, place: None });
        }
        let interactive = |actor, renews| Found { actor, ticket: Some(LaneClass::Interactive), renews, place: None };
        if !queues.prompt.is_empty() {
            let others = !(queues.front.is_empty() && queues.is_line_empty());
            let goes = !others || queues.streak.load(Ordering::Relaxed) < PROMPT_STREAK;
            if goes && let Some(actor) = look_and_take(&queues.prompt) {
                queues.streak.fetch_add(1, Ordering::Relaxed);
                return Some(interactive(actor, true));
            }
            queues.streak.store(0, Ordering::Relaxed);
        }
        if let Some(actor) = look_and_take(&queues.front) {
            return Some(interactive(actor, false));
        }
        if let Some(actor) = queues.first.take().or_else(|| look_and_take(&queues.back)) {
            return Some(interactive(actor, true));
        }
        if let Some(actor) = look_and_take(&queues.prompt) {
            return Some(interactive(actor, true));
        }
        self.next_maintenance()
    }

    fn next_maintenance(self: &Arc<Self>) -> Option<Found<K, C>> {
        if self.queues.maintenance.is_empty() {
            return None;
        }
        let Some(place) = self.pool.take_place(false) else {
            self.watch();
            return None;
        };
        if let Some(actor) = look_and_take(&self.queues.maintenance) {
            return Some(Found { actor, ticket: Some(LaneClass::Maintenance), renews: false, place: Some(place) });
        }
        self.pool.give_place(place);
        None
    }

    /// Forgets who stands in line, for who knows that nobody will look there: an actor holds its executor, which would never go.
    pub(super) fn clear_lines(&self) {
        let queues = &self.queues;
        queues.first.take().into_iter().for_each(let_go);
        let lines = [&queues.prompt, &queues.front, &queues.back, &queues.maintenance];
        for line in lines.into_iter().chain([&queues.aged, &queues.due, &queues.awaited]) {
            std::iter::from_fn(|| look_and_take(line)).for_each(let_go);
        }
    }

    /// Whether no other interactive actor waits.
    pub(super) fn is_alone(&self) -> bool {
        !self.has_interactive()
    }

    /// Whether nothing waits that is interactive or would go before it, but for a ticket of `actor` itself.
    pub(super) fn is_alone_with(&self, actor: &Actor<K, C>) -> bool {
        let queues = &self.queues;
        let line = queues.first.is_empty_but(actor) && queues.back.is_empty() && queues.awaited.is_empty();
        line && queues.front.is_empty() && queues.prompt.is_empty() && queues.aged.is_empty() && queues.due.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Closes the executor: every queued job is answered, nothing more is taken. Jobs that run go on.
    pub(super) fn close(self: &Arc<Self>) {
        self.closed.store(true, Ordering::Release);
        barrier::full(); // pairs with `register`: it enters the actor, then looks whether we are closed
        for actor in self.registry.take_all() {
            actor.close(Why::Shutdown);
            let_go(actor);
        }
    }

    /// Resolves `ender` once nothing runs any more.
    pub(super) fn tell_at_end(&self, ender: Arc<Ender>) {
        self.enders.push(ender);
        barrier::full(); // pairs with `stop`: it counts its slot out, then looks for those who wait
        self.tell_enders();
    }

    fn tell_enders(&self) {
        if self.pool.look().0 == 0 {
            while let Some(ender) = look_and_take(&self.enders) {
                ender.resolve(Ok(()));
            }
        }
    }
}
