//! A runner: has a slot, visits actors, and runs what they admit, until there is nothing to do or others want the thread.
//! It does not know in which order actors and jobs are taken.
//!
//! A job is over in this order: its slot shows nothing any more, its cell says finished, the actor's word lets the next one in
//! (and is closed in the same step if a writer has panicked), permits and places go back, and only then it is answered.
//!
//! While no other actor waits a runner goes on with the one whose read is over: it takes the turn with the step that lets the next one
//! in, and no ticket goes through a run queue. A ticket of the actor that stands there stays, for others with a slot.

#![forbid(unsafe_code)]

use super::actor::{Actor, Why};
use super::answer::LaneError;
use super::context::LaneCx;
use super::current;
use super::executor::{Found, Shared};
use super::held;
use super::job::{self, JobRef, Ran, post};
use super::kind::{LaneClass, LaneKind};
use super::meta::Meta;
use super::queue::Queues;
use super::share;
use super::slots::InSlot;
use super::turn::Visit;
use super::word::Owes;
use crate::admission::ContextScope;
use crate::flight::{self, ActiveScope, OnUnwind};
use crate::sync::Arc;
use crate::sync::stat::Ordering;

/// Visits after which a runner lets the runtime's other jobs have the thread.
const VISITS: usize = 32;

/// A slot, and the job of the runtime that works for it.
pub(super) struct Runner<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    /// None once it has been taken over.
    at: Option<(Arc<Shared<K, C>>, usize)>,
}

impl<K, C> Runner<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    pub(super) fn new(shared: Arc<Shared<K, C>>, slot: usize) -> Self {
        Self { at: Some((shared, slot)) }
    }

    pub(super) fn run(mut self) {
        let Some((shared, mut slot)) = self.at.take() else { return };
        let (mut spare, mut active) = (None, None);
        // The actor of the job in hand, which the runner keeps as long as it has the job: see `Meta::new`.
        let (mut actor, mut kept, mut now) = (None, None, 0);
        let visits = if shared.spawner.is_driven() { 1 } else { VISITS };
        for visit in 1..=visits {
            if kept.is_none() {
                if shared.gives_back(&mut slot) {
                    return;
                }
                let Some(found) = shared.next() else {
                    match shared.stop(slot) {
                        Some(again) => slot = again,
                        None => return,
                    }
                    continue;
                };
                kept = visit_found(&shared, found, &mut spare, &mut actor, &mut now);
            }
            let (Some(job), Some(of)) = (kept.take(), &actor) else { continue };
            let next = (visit < visits).then_some(Next { spare: &mut spare, job: &mut kept });
            let has_slot = begin(&shared, of, job, (slot, &mut active, &mut now), next);
            if kept.is_none() {
                actor = None;
            }
            if has_slot {
                continue;
            }
            if !shared.pool.start() {
                return;
            }
            slot = shared.take_slot();
        }
        shared.launch(slot);
    }
}

/// Queues for an actor that has none, and from one that needs them no more.
type Spare<K, C> = Option<Box<Queues<K, C>>>;

/// What a runner needs to go on with an actor, and the job of it that is admitted then.
struct Next<'a, K, C> {
    spare: &'a mut Spare<K, C>,
    job: &'a mut Option<JobRef<K, C>>,
}

/// Visits an actor that stood in a run queue: a job of it that is to be begun, if one was admitted, and when that was.
fn visit_found<K, C>(
    shared: &Arc<Shared<K, C>>,
    found: Found<K, C>,
    spare: &mut Spare<K, C>,
    visited: &mut Option<Arc<Actor<K, C>>>,
    now: &mut u64,
) -> Option<JobRef<K, C>>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let Found { actor, ticket, renews, place } = found;
    let mut visit = Visit { ticket, renews, alone: shared.is_alone(), place, now: shared.about(), spare };
    let admitted = actor.visit(&mut visit);
    *now = visit.now;
    *visited = admitted.is_some().then_some(actor);
    admitted
}

impl<K, C> Drop for Runner<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    /// The runtime has thrown it away: nothing of the executor will run any more.
    fn drop(&mut self) {
        if let Some((shared, slot)) = self.at.take() {
            shared.close();
            let mut has = Some(slot);
            // Who is queued while the slot is held is seen by the stop.
            while let Some(slot) = has {
                shared.clear_lines();
                has = shared.stop(slot);
            }
        }
    }
}

/// The slot of a job that is begun; its place on the thread's stack, which the next one finds there if the runner goes on with the
/// actor, since nothing of the host's is called between the two; and when it was admitted.
type Seat<'a> = (usize, &'a mut Option<ActiveScope>, &'a mut u64);

/// Begins a job that was admitted. With `next` it may go on with the actor. False if a future has taken the slot along.
#[inline(always)]
fn begin<K, C>(
    shared: &Arc<Shared<K, C>>,
    actor: &Arc<Actor<K, C>>,
    job: JobRef<K, C>,
    (slot, active, now): Seat<'_>,
    next: Option<Next<'_, K, C>>,
) -> bool
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let meta = job.meta();
    let only_slot = held::note_slot(meta, slot);
    let lane = meta.lane();
    shared.slots.begin(
        slot,
        &InSlot {
            hash: actor.hash,
            incarnation: actor.incarnation,
            lane,
            class: meta.class(),
            id: meta.brought.id,
            label: meta.brought.label,
            started: *now,
        },
    );
    if !job::start(&job) {
        // Cancelled in between, and answered by who did that.
        *active = None;
        shared.slots.end(slot, None);
        release(meta, false);
        return true;
    }
    if let Some(error) = too_late(meta, *now) {
        *active = None;
        shared.slots.end(slot, None);
        meta.state.finish();
        release(meta, false);
        job.answer(error);
        return true;
    }
    let cx = LaneCx { job };
    let unwound = OnUnwind::call(|| unwound(shared, &cx.job, slot));
    let ran = {
        let _context = ContextScope::enter(meta_context(&cx));
        current::enter(&cx.job, (shared.identity(), cx.incarnation(), lane), || {
            active.get_or_insert_with(|| flight::enter(shared.slots.id(slot)));
            cx.job.run(&cx)
        })
    };
    let quiet = only_slot && matches!(ran, Ran::Over { panicked: false });
    let next = next.filter(|_| quiet && may_go_on(shared, &cx.job));
    if next.is_none() {
        *active = None;
    }
    unwound.disarm();
    match ran {
        Ran::Over { panicked } => {
            let goes_on = over(shared, &cx.job, slot, panicked, next.map(|next| (next, now)));
            if !goes_on {
                *active = None;
            }
            job::put_away(cx.job, &shared.blocks);
        }
        Ran::Built => built(shared, cx.job, slot),
        Ran::Away => return false,
    }
    true
}

/// Whether the runner may go on with the actor of a job that held a slot alone and is over: it was a read, nobody else waits, and to answer the read calls nothing of
/// the host's, which the next one would have to wait for.
fn may_go_on<K, C>(shared: &Shared<K, C>, job: &JobRef<K, C>) -> bool
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let meta = job.meta();
    let plain = meta.brought.lane == LaneKind::PureRead && meta.class() == LaneClass::Interactive;
    plain && job.is_answered_quietly() && shared.is_alone_with(meta.actor())
}

/// Gives back what a read held of its actor, and goes on with that.
#[inline(always)]
fn go_on<K, C>(
    shared: &Arc<Shared<K, C>>,
    meta: &Meta<K, C>,
    spare: &mut Spare<K, C>,
    now: &mut u64,
) -> Option<JobRef<K, C>>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let actor = meta.actor();
    let (owes, seen) = actor.word.release_and_turn(meta.lane(), meta.brought.epoch);
    if owes != Owes::default() {
        actor.settle(owes);
    }
    let mut visit = Visit { ticket: None, renews: true, alone: true, place: None, now: shared.about(), spare };
    let admitted = actor.go_on(seen?, &mut visit);
    *now = visit.now;
    admitted
}

/// Why a job that was admitted must not begin: a writer has panicked since, or its deadline is over and no timer has said so.
fn too_late<K, C>(meta: &Meta<K, C>, now: u64) -> Option<LaneError> {
    if meta.actor().word.look().is_fatal() {
        return Some(LaneError::Fatal);
    }
    (now >= meta.expires() && !meta.is_installing()).then_some(LaneError::DeadlineExceeded)
}

fn meta_context<K, C>(cx: &LaneCx<K, C>) -> Option<crate::admission::RequestContext> {
    cx.job.meta().context()
}

/// Gives back what a job held of its actor and of the process-wide things. `fatal`: a writer has panicked.
fn release<K, C>(meta: &Meta<K, C>, fatal: bool)
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let (actor, held) = (meta.actor(), held::of(meta));
    if fatal {
        actor.note_why(Why::Fatal);
    }
    let owes = actor.word.release(meta.lane(), fatal, meta.brought.epoch);
    if let Some(permit) = held.permit {
        actor.shared.heavy.give(permit);
    }
    if let Some(place) = held.place {
        actor.shared.pool.give_place(place);
    }
    if fatal {
        actor.empty();
    }
    actor.settle(owes);
}

/// A job is over, in a slot. With `next` its runner goes on with the actor: true if a job of it was admitted, at the time noted.
#[inline(always)]
fn over<K, C>(
    shared: &Arc<Shared<K, C>>,
    job: &JobRef<K, C>,
    slot: usize,
    panicked: bool,
    next: Option<(Next<'_, K, C>, &mut u64)>,
) -> bool
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let meta = job.meta();
    if shared.measures
        && let Some((inside, _)) = shared.slots.read(slot)
    {
        let took = shared.now().saturating_sub(inside.started);
        meta.actor().cost.fetch_add(share::cost(shared.config.quantum, took), Ordering::Relaxed);
    }
    shared.slots.end(slot, Some(meta.class()));
    if meta.ends_all_waits() {
        shared.pool.unlend();
    }
    let alone = job::is_alone(job);
    if alone {
        meta.state.finish_alone();
    } else {
        meta.keep_actor();
        meta.state.finish();
    }
    let goes_on = match next {
        Some((next, now)) => {
            *next.job = go_on(shared, meta, next.spare, now);
            next.job.is_some()
        }
        None => {
            release(meta, panicked && meta.lane() == LaneKind::Mutating);
            false
        }
    };
    job.deliver(alone);
    goes_on
}

/// The engine's own code has panicked while a job was in a slot: the job ends as panicked, and the slot goes to another runner.
#[cold]
fn unwound<K, C>(shared: &Arc<Shared<K, C>>, job: &JobRef<K, C>, slot: usize)
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let meta = job.meta();
    shared.slots.end(slot, Some(meta.class()));
    meta.keep_actor();
    meta.state.finish();
    release(meta, meta.lane() == LaneKind::Mutating);
    job.answer(LaneError::Panicked(flight::in_the_engine()));
    shared.launch(slot);
}

/// A build is over, and its install is queued.
fn built<K, C>(shared: &Arc<Shared<K, C>>, job: JobRef<K, C>, slot: usize)
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let meta = job.meta();
    let (actor, held, class) = (meta.actor().clone(), held::of(meta), meta.class());
    shared.slots.end(slot, None);
    if !job::is_alone(&job) {
        meta.keep_actor();
    }
    meta.to_install(shared.now());
    actor.writer_comes();
    actor.word.requeue(class);
    if let Some(permit) = held.permit {
        shared.heavy.give(permit);
    }
    if let Some(place) = held.place {
        shared.pool.give_place(place);
    }
    if !meta.state.requeue() {
        // Cancelled while it was built: what was built is thrown away.
        meta.state.finish();
        actor.taken_along(meta);
        job.answer(LaneError::Cancelled);
        return;
    }
    match post(&actor, job) {
        Ok(()) => actor.poke(class),
        Err(job) => {
            super::cancel::refuse(&*job, actor.why_closed());
        }
    }
}

/// A job is over that a future had taken away, on whatever thread; its result lies in it.
pub(super) fn over_elsewhere<K, C>(job: JobRef<K, C>, panicked: bool)
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let shared = job.meta().actor().shared.clone();
    let slot = held::slot(job.meta());
    over(&shared, &job, slot, panicked, None);
    if let Some(slot) = shared.stop(slot) {
        shared.launch(slot);
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use crate::flight::broken;
    use crate::lanes::{LaneError, LaneKind, Lanes, LanesConfig};
    use crate::runtime::{Driver, Runtime};

    #[test]
    fn b53_a_bug_of_the_engine_while_a_job_is_in_a_slot_answers_it_and_costs_no_slot() {
        let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
        let lanes: Lanes<u8, ()> = Lanes::new(&runtime, LanesConfig::preset(2, 1, 1, 1)).unwrap();
        for (lane, next) in [(LaneKind::PureRead, Ok(3)), (LaneKind::Mutating, Err(LaneError::Fatal))] {
            assert!(lanes.register(0, ()));
            let mut job = lanes.submit(&0, lanes.job(lane, |_| 1));
            broken(|| while !job.is_resolved() && runtime.drive_one() {});
            let answer = job.try_get();
            assert!(matches!(answer, Some(Err(LaneError::Panicked(_)))), "{lane}: {answer:?}");
            let mut after = lanes.submit(&0, lanes.job(LaneKind::PureRead, |_| 3));
            runtime.drive_all();
            assert_eq!(after.try_get(), Some(next));
            assert!(lanes.register(1, ()));
            let mut other = lanes.submit(&1, lanes.job(LaneKind::Mutating, |_| 4));
            runtime.drive_all();
            assert_eq!(other.try_get(), Some(Ok(4)), "the slot is there again");
            assert!(lanes.remove(&0) && lanes.remove(&1));
        }
        lanes.shutdown();
    }
}
