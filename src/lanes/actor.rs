//! An actor: one registration of a key, with its context, its admission word, its mailbox, and what lies inside its turn.
//! It does not know the order rules, nor who runs its jobs.

use super::answer::LaneError;
use super::awaited::InSlotOf;
use super::barrier;
use super::cancel;
use super::cell::JobPhase;
use super::executor::Shared;
use super::first::First;
use super::heavy::Grants;
use super::job::{JobRef, taken};
use super::keys::Keys;
use super::kind::{ActorOptions, LaneClass, LaneKind};
use super::mailbox::Mailbox;
use super::meta::{Apart, Meta};
use super::queue::{Free, Queues};
use super::room::{Room, Waiter};
use super::word::{LaneWord, Owes, Seen};
use crate::flight::FlightRef;
use crate::flight::trampoline::Disposed;
use crate::sync::cell::UnsafeCell;
use crate::sync::mutant;
use crate::sync::stat::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, OnceLock, hint};

/// Jobs that were taken out and may lie in the queues of an actor before anybody looks for them.
const DEAD_MAX: i64 = 64;

/// What only who has the turn may touch.
pub(super) struct Inside<K, C> {
    /// None while the actor is idle, so that an idle actor costs little.
    pub(super) queues: Option<Box<Queues<K, C>>>,
    /// What is left of the actor's share: jobs, or nanoseconds.
    pub(super) credit: i64,
}

/// One registration.
pub(super) struct Actor<K, C> {
    pub(super) word: LaneWord,
    pub(super) mailbox: Mailbox<Meta<K, C>>,
    inside: UnsafeCell<Inside<K, C>>,
    /// Coalesce keys that are queued.
    pub(super) keys: Keys,
    /// Writers that are queued.
    writers: AtomicU64,
    /// Jobs that were taken out and may still lie in the queues.
    dead: AtomicU64,
    /// Jobs that the drain which goes on still counts.
    drain_left: AtomicU64,
    /// What the jobs that are over have cost since the turn last asked, in nanoseconds.
    pub(super) cost: AtomicU64,
    pub(super) grants: Grants,
    /// It stands among those whose maintenance has waited its age.
    pub(super) aged: AtomicBool,
    /// Its maintenance has waited its age, and could not run when the turn last looked.
    overdue: AtomicBool,
    /// Why it is closed: an index of [`Actor::why_closed`].
    closed_for: AtomicU64,
    room: OnceLock<Box<Room>>,
    /// Itself, while it is registered.
    pub(super) kept: First<Self>,
    pub(super) options: ActorOptions,
    pub(super) incarnation: u64,
    pub(super) hash: u64,
    // A runner may be the last to let go of an actor: what is the host's must not take its slot along, nor wait for that.
    pub(super) key: Disposed<K>,
    pub(super) context: Disposed<Arc<C>>,
    pub(super) shared: Arc<Shared<K, C>>,
}

// SAFETY: what is inside is touched only by who has the turn, of whom the admission word lets there be one at a time; its
// exchanges hand it over with release and acquire. Keys and contexts are shared, jobs are Send and Sync.
unsafe impl<K: Send + Sync, C: Send + Sync> Sync for Actor<K, C> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, C: Send + Sync> Send for Actor<K, C> {}

/// Why an actor was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Removed = 0,
    Reset = 1,
    Shutdown = 2,
    Fatal = 3,
}

impl<K, C> Actor<K, C> {
    /// Whether a writer is queued.
    pub(super) fn writer_waiting(&self) -> bool {
        self.writers.load(Ordering::Relaxed) > 0
    }
}

impl<K, C> Actor<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    pub(super) fn new(
        shared: Arc<Shared<K, C>>,
        key: K,
        hash: u64,
        context: Arc<C>,
        options: ActorOptions,
    ) -> Arc<Self> {
        let incarnation = shared.next_incarnation();
        Arc::new(Self {
            word: LaneWord::new(),
            mailbox: Mailbox::new(),
            inside: UnsafeCell::new(Inside { queues: None, credit: 0 }),
            keys: Keys::new(),
            writers: AtomicU64::new(0),
            dead: AtomicU64::new(0),
            drain_left: AtomicU64::new(0),
            cost: AtomicU64::new(0),
            grants: Grants::new(),
            aged: AtomicBool::new(false),
            overdue: AtomicBool::new(false),
            closed_for: AtomicU64::new(0),
            room: OnceLock::new(),
            kept: First::new(),
            options,
            incarnation,
            hash,
            key: Disposed::new(key),
            context: Disposed::new(context),
            shared,
        })
    }

    /// What lies inside the turn.
    ///
    /// # Safety
    /// The caller has the turn.
    pub(super) unsafe fn with_inside<R>(&self, f: impl FnOnce(&mut Inside<K, C>) -> R) -> R {
        // SAFETY: promised by the caller.
        self.inside.with_mut(|inside| f(unsafe { &mut *inside }))
    }

    /// What was posted since the last look, oldest first.
    pub(super) fn posted(&self) -> impl Iterator<Item = JobRef<K, C>> + use<K, C> {
        // SAFETY: the posts of this mailbox are jobs of this actor, and each is taken once.
        self.mailbox.take().map(|post| unsafe { taken(post) })
    }

    /// Has the actor looked at.
    pub(super) fn poke(self: &Arc<Self>, class: LaneClass) {
        if self.word.announce(class) {
            self.shared.queue(self.clone(), class);
        }
    }

    /// As [`poke`](Self::poke), for who has just posted a job.
    pub(super) fn poke_posted(self: &Arc<Self>, class: LaneClass) {
        if self.word.announce_posted(class) {
            self.shared.queue(self.clone(), class);
        }
    }

    /// Does what a change of the word owes.
    pub(super) fn settle(self: &Arc<Self>, owes: Owes) {
        self.settle_at(owes, false);
    }

    /// As [`settle`](Self::settle). `front`: the actor has some of its share left, and goes on before others.
    pub(super) fn settle_at(self: &Arc<Self>, owes: Owes, front: bool) {
        if owes.drained && self.drain_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.poke(LaneClass::Interactive);
        }
        if owes.room {
            self.tell_room();
        }
        if owes.over {
            self.tell_drains_at_end();
        }
        if let Some(class) = owes.ticket {
            self.shared.queue_at(self.clone(), class, front);
            // Of what it had to wait for something is over: it is not to stand in line for as long again.
            if class == LaneClass::Maintenance && self.overdue.load(Ordering::Relaxed) {
                self.shared.queue_aged(self);
            }
        }
    }

    /// Notes whether its maintenance has waited its age. For who has the turn, which publishes it when it is left.
    pub(super) fn note_overdue(&self, overdue: bool) {
        if self.overdue.load(Ordering::Relaxed) != overdue {
            self.overdue.store(overdue, Ordering::Relaxed);
        }
    }

    /// Whether no drain was asked for since the last look.
    pub(super) fn asks_no_drain(&self) -> bool {
        self.room.get().is_none_or(|room| room.asks_no_drain())
    }

    /// The drains that were asked for since the last look.
    pub(super) fn drains_asked(&self) -> impl Iterator<Item = Arc<Waiter>> + '_ {
        std::iter::from_fn(|| self.room.get()?.drain_asked())
    }

    /// Tells all who asked a closed actor for a drain, if nothing of it runs any more; else the last job does.
    pub(super) fn tell_drains_at_end(&self) {
        barrier::full(); // pairs with itself: who asks and who ends the last job each come here, and one finds the other's
        if self.word.look().is_idle() {
            for waiter in self.drains_asked() {
                waiter.resolve(Ok(()));
            }
        }
    }

    fn tell_room(&self) {
        if let Some(room) = self.room.get() {
            room.tell();
        }
    }

    /// Those who wait for room here.
    pub(super) fn room(&self) -> &Room {
        self.room.get_or_init(|| Box::new(Room::new()))
    }

    /// Sets how many jobs the drain that begins counts down. For who has the turn, before it begins.
    pub(super) fn set_drain(&self, jobs: usize) {
        self.drain_left.store(jobs as u64, Ordering::Release);
    }

    pub(super) fn drain_left(&self) -> u64 {
        self.drain_left.load(Ordering::Acquire)
    }

    /// A writer is about to be queued.
    pub(super) fn writer_comes(&self) {
        self.writers.fetch_add(1, Ordering::Relaxed);
    }

    /// Writers that are queued.
    pub(super) fn writers(&self) -> usize {
        self.writers.load(Ordering::Relaxed) as usize
    }

    /// A job has left the queue, says who led its cell out of Queued. The word is not touched.
    pub(super) fn left_queue(&self, meta: &Meta<K, C>) {
        if meta.lane() == LaneKind::Mutating {
            self.writers.fetch_sub(1, Ordering::Relaxed);
        }
        if meta.is_installing() {
            return;
        }
        if let Some(apart) = meta.apart() {
            self.left_apart(meta, apart);
        }
        self.shared.left_queue(meta.class(), meta.brought.bucket);
    }

    /// As [`left_queue`](Self::left_queue), for what few jobs have.
    #[cold]
    fn left_apart(&self, meta: &Meta<K, C>, apart: &Apart<K, C>) {
        if let Some(key) = apart.key.filter(|_| !apart.joins) {
            self.keys.clear(key.bit());
        }
        // Who waits for the result of another is bounded by its deadline all the same.
        if let Some(timer) = apart.deadline.get()
            && meta.state.phase() != JobPhase::Following
        {
            timer.cancel();
        }
    }

    /// A job waits for the result of another no more, says who led its cell out of Following: what waits for it in turn is looked at.
    pub(super) fn left_following(self: &Arc<Self>) {
        if !self.word.look().is_closed() && !mutant("lanes.follower_ends_in_silence") {
            self.poke(LaneClass::Interactive);
        }
    }

    /// A job was taken out without having run, says who led its cell out of Queued: it may lie in the queues still.
    pub(super) fn taken_out(self: &Arc<Self>, meta: &Meta<K, C>) {
        self.left_queue(meta);
        // Before the room is given back, which has the actor looked at.
        self.dead.fetch_add(1, Ordering::Relaxed);
        let owes = self.word.leave_queue(meta.class(), meta.brought.epoch);
        self.settle(owes);
    }

    /// As [`taken_out`](Self::taken_out), of a job that lies in no queue.
    pub(super) fn taken_along(self: &Arc<Self>, meta: &Meta<K, C>) {
        self.left_queue(meta);
        let owes = self.word.leave_queue(meta.class(), meta.brought.epoch);
        self.settle(owes);
    }

    /// How many jobs that were taken out may still lie in the queues. One may be found there before it is counted.
    fn dead(&self) -> i64 {
        self.dead.load(Ordering::Relaxed).cast_signed()
    }

    /// Whether jobs that were taken out may still lie in the queues. Who takes one out says so before the actor is looked at for it.
    pub(super) fn has_dead(&self) -> bool {
        self.dead() > 0
    }

    /// Whether so many of them may lie there that they are to be looked for.
    pub(super) fn has_many_dead(&self) -> bool {
        self.dead() > DEAD_MAX
    }

    /// So many of them lie there no more. For who has the turn, who alone takes the number down.
    pub(super) fn forget_dead(&self, gone: usize) {
        if gone > 0 {
            self.dead.fetch_sub(gone as u64, Ordering::Relaxed);
        }
    }

    /// Whether the queues are to be swept: more lie there dead than alive.
    pub(super) fn is_to_be_swept(&self, lie: impl FnOnce() -> usize) -> bool {
        self.has_many_dead() && self.dead().cast_unsigned() * 2 > lie() as u64
    }

    pub(super) fn why_closed(&self) -> LaneError {
        match self.closed_for.load(Ordering::Acquire) {
            0 => LaneError::Removed,
            1 => LaneError::Reset,
            2 => LaneError::Shutdown,
            _ => LaneError::Fatal,
        }
    }

    /// Notes why the actor is about to be closed; it is read only once it is.
    pub(super) fn note_why(&self, why: Why) {
        self.closed_for.store(why as u64, Ordering::Release);
    }

    /// Closes the actor, if it is not closed, and answers all that is queued. True for who closed it.
    pub(super) fn close(self: &Arc<Self>, why: Why) -> bool {
        if self.word.look().is_closed() {
            return false;
        }
        self.note_why(why);
        let first = self.word.close(why == Why::Fatal);
        self.empty();
        first
    }

    /// Answers all that is queued at a closed actor.
    pub(super) fn empty(self: &Arc<Self>) {
        // SAFETY: as in `posted`; what the seal gives is taken once.
        let posted: Vec<JobRef<K, C>> = self.mailbox.seal().map(|post| unsafe { taken(post) }).collect();
        self.refuse_all(posted);
        self.tell_room();
        if let Some(seen) = self.word.begin_turn(None) {
            self.empty_inside(seen);
        }
    }

    /// Answers what lies inside at a closed actor, and leaves the turn. For who has it.
    pub(super) fn empty_inside(self: &Arc<Self>, mut seen: Seen) {
        let (mut jobs, mut trash) = (Vec::new(), Vec::new());
        let mut waiters = Vec::new();
        loop {
            // SAFETY: the caller has the turn.
            unsafe {
                self.with_inside(|inside| {
                    let Some(queues) = &mut inside.queues else { return };
                    jobs.extend(queues.take_all(&mut trash));
                    waiters.append(&mut queues.drains.asked);
                    waiters.append(&mut queues.drains.going);
                    for class in LaneClass::ALL {
                        self.shared.heavy.let_go(self, &mut queues.lines, class);
                    }
                    if queues.lines.is_empty() {
                        inside.queues = None;
                    }
                });
            }
            if self.word.leave(seen, None).is_some() {
                break;
            }
            seen = self.word.refresh();
            jobs.extend(self.posted());
        }
        self.refuse_all(jobs);
        drop(trash);
        for waiter in waiters {
            self.room().ask_drain(waiter);
        }
        self.tell_drains_at_end();
    }

    /// Cancels every queued job of a class; how many. A visit that goes on at the moment is waited for: it is short.
    pub(super) fn cancel_queued(self: &Arc<Self>, class: LaneClass) -> usize {
        let mut seen = loop {
            match self.word.try_turn() {
                Some(seen) => break seen,
                None => hint::spin_loop(),
            }
        };
        let (mut jobs, mut trash) = (Vec::new(), Vec::new());
        loop {
            // SAFETY: the turn is ours.
            unsafe {
                self.with_inside(|inside| {
                    for job in self.posted() {
                        let queues = inside.queues.get_or_insert_with(|| Box::new(Queues::new()));
                        if let Some(Free { job, over }) = queues.keep_fenced(job) {
                            trash.extend(over);
                            queues.arrive(job);
                        }
                    }
                    jobs = inside.queues.as_ref().map_or_else(Vec::new, |queues| queues.of_class(class));
                });
            }
            // What was news may have been another's visit, for a grant or a drain: it is made up for, whatever is queued.
            if let Some(owes) = self.word.leave(seen, seen.owed().or(Some(LaneClass::Interactive))) {
                self.settle(owes);
                break;
            }
            seen = self.word.refresh();
        }
        drop(trash);
        // One that has begun since goes on; one that was only admitted since never begins.
        let cancelled = jobs.iter().filter(|job| cancel::cancel_queued(&***job)).count();
        if self.word.look().is_closed() {
            // Who closed it found the turn taken, and may be the last who comes by.
            self.empty();
        }
        cancelled
    }

    fn refuse_all(&self, jobs: Vec<JobRef<K, C>>) {
        let why = self.why_closed();
        for job in jobs {
            cancel::refuse(&*job, why.clone());
        }
    }

    /// What keeps a queued job from running, as far as the end of one of them is what it waits for: slots of jobs, and its fence.
    pub(super) fn holders(self: &Arc<Self>, meta: &Meta<K, C>, out: &mut Vec<Arc<dyn FlightRef>>) {
        if let Some(fence) = meta.fence().filter(|fence| !fence.meta().state.is_over()) {
            out.push(fence);
        }
        let (seen, lane) = (self.word.look(), meta.lane());
        let limits = &self.shared.limits;
        let readers = seen.running(LaneKind::PureRead) + seen.running(LaneKind::SerialLspStatus);
        let writes = seen.running(LaneKind::Mutating) > 0;
        let holds = |other: LaneKind| match lane {
            _ if writes => other == LaneKind::Mutating,
            // It goes in beside all others.
            _ if meta.is_nested() => false,
            LaneKind::Mutating => other.is_shared(),
            // Any of several ends the wait: no single one holds it up.
            LaneKind::PureRead => readers == 1 && limits.read_cap == 1 && other == LaneKind::PureRead,
            LaneKind::SerialLspStatus => other == LaneKind::SerialLspStatus,
            LaneKind::MaintenanceCommit => other == LaneKind::MaintenanceCommit,
            LaneKind::HeavyInit => false,
        };
        self.holders_that(holds, out);
    }

    /// The slots of all that runs.
    pub(super) fn holders_of_all(self: &Arc<Self>, out: &mut Vec<Arc<dyn FlightRef>>) {
        self.holders_that(|_| true, out);
    }

    fn holders_that(self: &Arc<Self>, holds: impl Fn(LaneKind) -> bool, out: &mut Vec<Arc<dyn FlightRef>>) {
        for (slot, job, _) in self.shared.slots.all() {
            if job.incarnation == self.incarnation && holds(job.lane) {
                out.push(InSlotOf::new(&self.shared, slot, job.incarnation));
            }
        }
    }
}
