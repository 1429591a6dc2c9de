//! A submitted job: its cell, its closure or future, its result and its place in a mailbox, in one allocation.
//! It does not know the order in which jobs are taken, nor the slots that they run in.

use super::actor::Actor;
use super::answer::LaneError;
use super::barrier;
use super::cancel::{self, Cancels};
use super::cell::{JobPhase, JobState};
use super::context::LaneCx;
use super::kind::{CoalesceKey, LaneClass, LaneKind};
use super::lent::{self, Lender};
use super::mailbox::{Mailbox, Posted};
use super::work::{Step, Work};
use super::{future, held, runner};
use crate::admission::RequestContext;
use crate::flight::{CancellationToken, FlightId, FlightRef, Interrupt, OneShot, Phase, SoleFlight, catch, trampoline};
use crate::runtime::{Place, Spawner, TimerHandle};
use crate::sync::atomic::{AtomicPtr, AtomicU32};
use crate::sync::cell::UnsafeCell;
use crate::sync::stat::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, OnceLock};
use std::any::Any;
use std::ptr::{self, NonNull};

/// A job, whatever its closure and its result are.
pub(super) type JobRef<K, C> = Arc<dyn Queued<K, C>>;

/// How a result is copied for those who follow, if any may.
type Share<T> = Option<fn(&T) -> T>;

/// A job that runs under no share but its own.
pub(super) const ALONE: u64 = u64::MAX;

/// What a job brings along when it is made.
pub(super) struct Brought<K, C> {
    pub(super) lane: LaneKind,
    pub(super) class: LaneClass,
    pub(super) id: u64,
    pub(super) label: &'static str,
    pub(super) key: Option<CoalesceKey>,
    /// It waits for the result of an equal job that is queued, if there is one.
    pub(super) joins: bool,
    /// It was submitted by a job of the same actor that shares the state, and runs under its share: since when that goes on.
    /// [`ALONE`] if it was not.
    pub(super) share: u64,
    /// What must be over before it is looked at.
    pub(super) fence: Option<JobRef<K, C>>,
    pub(super) epoch: bool,
    pub(super) at: u64,
    /// When it is too late to begin, on the runtime's clock, in nanoseconds.
    pub(super) expires: u64,
    pub(super) bucket: u16,
}

/// What everybody may know of a job.
#[repr(C)]
pub(super) struct Meta<K, C> {
    next: AtomicPtr<Self>,
    whole: unsafe fn(NonNull<Self>) -> JobRef<K, C>,
    pub(super) state: JobState,
    pub(super) actor: Arc<Actor<K, C>>,
    pub(super) brought: Brought<K, C>,
    /// Since when it is queued, or its install is.
    at: AtomicU64,
    /// Its build is over: what is left is the install.
    installing: AtomicBool,
    /// The slot that it runs in and what else it holds: see `held.rs`.
    pub(super) held: AtomicU64,
    token: OnceLock<CancellationToken>,
    pub(super) deadline: OnceLock<TimerHandle>,
    /// Equal jobs that are answered with this one's result; sealed by who ends it.
    followers: Mailbox<Self>,
    /// A job that waits for this one.
    pub(super) lender: Lender,
    /// What this one waits for: its slot is lent as long as it is anything.
    waits: AtomicU32,
    context: Option<RequestContext>,
}

// SAFETY: `next` gives one word, which nobody else uses.
unsafe impl<K, C> Posted for Meta<K, C> {
    fn next(&self) -> &AtomicPtr<Self> {
        &self.next
    }
}

impl<K, C> Meta<K, C> {
    /// The lane that it is queued in or runs in at the moment.
    pub(super) fn lane(&self) -> LaneKind {
        if self.is_installing() { LaneKind::Mutating } else { self.brought.lane }
    }

    pub(super) fn class(&self) -> LaneClass {
        self.brought.class
    }

    /// Since when it is queued, on the runtime's clock, in nanoseconds.
    pub(super) fn at(&self) -> u64 {
        self.at.load(Ordering::Relaxed)
    }

    /// It waits for one more. True for the first.
    pub(super) fn begins_wait(&self) -> bool {
        // ordering: each passes on what the last one did to the word of the slots.
        self.waits.fetch_add(1, Ordering::AcqRel) == 0
    }

    /// It waits for one less. True for the last.
    pub(super) fn ends_wait(&self) -> bool {
        // ordering: as in `begins_wait`.
        self.waits.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether it runs under the share of the job that submitted it.
    pub(super) fn is_nested(&self) -> bool {
        self.brought.share != ALONE
    }

    pub(super) fn is_installing(&self) -> bool {
        self.installing.load(Ordering::Relaxed)
    }

    /// Its build is over, for who ran that and is about to queue its install.
    pub(super) fn to_install(&self, now: u64) {
        self.at.store(now, Ordering::Relaxed);
        self.installing.store(true, Ordering::Relaxed);
    }

    pub(super) fn context(&self) -> Option<RequestContext> {
        self.context.clone()
    }

    /// The token that is cancelled with the job, made when somebody first asks for it.
    pub(super) fn token(&self) -> &CancellationToken {
        let token = self.token.get_or_init(CancellationToken::new);
        barrier::full(); // pairs with `signal`: it comes after the signal, and looks for the token
        if self.state.is_signalled() {
            token.cancel();
        }
        token
    }

    /// Tells the token, if somebody has asked for it, that the job was signalled.
    pub(super) fn signal(&self) {
        barrier::full(); // pairs with `token`: it makes the token, then looks whether the job was signalled
        if let Some(token) = self.token.get() {
            token.cancel();
        }
    }
}

/// What the executor does with a job. `run`, `deliver` and `lead` are for who has claimed it, `answer` for who has ended it.
pub(super) trait Queued<K, C>: FlightRef + Cancels {
    fn meta(&self) -> &Meta<K, C>;
    /// Runs the next step of it. For the one that has started it, with the `cx` of this very job.
    fn run(&self, cx: &LaneCx<K, C>) -> Ran;
    /// Tells the result that `run` has left, also to those who follow.
    fn deliver(&self);
    /// Whether to deliver it and to let it go calls nothing of the host's, as it looks now: no waker, no destructor, no copy.
    fn is_answered_quietly(&self) -> bool;
    /// Ends it without a result of its own: drops what it would have run, and tells `error`, also to those who follow.
    fn answer(&self, error: LaneError);
    /// Answers it with the result of an equal job. False if that is of another type.
    fn adopt(&self, offer: &mut dyn Any) -> bool;
}

/// What a step of a job has led to.
pub(super) enum Ran {
    /// The result is there. `panicked`: as a report of a panic.
    Over { panicked: bool },
    /// The build is there, and its install is to be queued.
    Built,
    /// A future has taken it over, and will end it.
    Away,
}

/// A job with its closure and the place of its result.
#[repr(C)]
pub(super) struct JobCell<K, C, W: Work<K, C>> {
    meta: Meta<K, C>,
    work: UnsafeCell<Option<W>>,
    result: UnsafeCell<Option<Result<W::Out, LaneError>>>,
    shot: OneShot<Result<W::Out, LaneError>>,
    share: Share<W::Out>,
}

// SAFETY: the closure and the result are touched only by the one that has started the job, or that led it away from Queued or
// Claimed into Cancelled (see `cell.rs`: one of them, once), and move to that thread, for which they are Send. The one-shot guards what it holds.
unsafe impl<K: Send + Sync, C: Send + Sync, W: Work<K, C>> Sync for JobCell<K, C, W> {}
// SAFETY: as above; what moves with the cell is Send.
unsafe impl<K: Send + Sync, C: Send + Sync, W: Work<K, C>> Send for JobCell<K, C, W> {}

/// # Safety
/// `meta` is the beginning of a `JobCell<K, C, W>` whose counted reference, given away by [`post`], comes back here.
unsafe fn whole<K, C, W>(meta: NonNull<Meta<K, C>>) -> JobRef<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    W: Work<K, C>,
{
    // SAFETY: promised by the caller; the cell begins with its meta, as `repr(C)` says.
    unsafe { Arc::from_raw(meta.as_ptr().cast::<JobCell<K, C, W>>()) }
}

/// Posts a job to its actor, or gives it back if the mailbox is sealed.
pub(super) fn post<K, C>(actor: &Actor<K, C>, job: JobRef<K, C>) -> Result<(), JobRef<K, C>> {
    hang(&actor.mailbox, job)
}

fn hang<K, C>(mailbox: &Mailbox<Meta<K, C>>, job: JobRef<K, C>) -> Result<(), JobRef<K, C>> {
    let raw = Arc::into_raw(job).cast::<Meta<K, C>>().cast_mut();
    // SAFETY: an `Arc` is never null. The whole cell is behind the pointer, since it was made from the reference to the whole.
    // The counted reference keeps it alive until `taken` makes a reference of it again; and a job hangs in one mailbox at a time.
    match unsafe { mailbox.post(NonNull::new_unchecked(raw)) } {
        Ok(()) => Ok(()),
        // SAFETY: what comes back is what was given.
        Err(back) => Err(unsafe { taken(back) }),
    }
}

/// The job that was taken from a mailbox.
///
/// # Safety
/// `meta` came from a mailbox of such an actor, and is turned back once.
pub(super) unsafe fn taken<K, C>(meta: NonNull<Meta<K, C>>) -> JobRef<K, C> {
    // SAFETY: promised by the caller; `whole` was chosen for this cell.
    unsafe { (meta.as_ref().whole)(meta) }
}

impl<K, C, W> JobCell<K, C, W>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    W: Work<K, C>,
{
    pub(super) fn new(actor: Arc<Actor<K, C>>, brought: Brought<K, C>, work: W, share: Share<W::Out>) -> Arc<Self> {
        let meta = Meta {
            next: AtomicPtr::new(ptr::null_mut()),
            whole: whole::<K, C, W>,
            state: JobState::new(),
            actor,
            at: AtomicU64::new(brought.at),
            brought,
            installing: AtomicBool::new(false),
            held: AtomicU64::new(0),
            token: OnceLock::new(),
            deadline: OnceLock::new(),
            followers: Mailbox::new(),
            lender: Lender::new(),
            waits: AtomicU32::new(0),
            context: RequestContext::current(),
        };
        let (work, result) = (UnsafeCell::new(Some(work)), UnsafeCell::new(None));
        Arc::new(Self { meta, work, result, shot: OneShot::new(), share })
    }

    /// # Safety
    /// The caller has started the job, or has led it into Cancelled.
    unsafe fn take_work(&self) -> Option<W> {
        // SAFETY: promised by the caller.
        self.work.with_mut(|work| unsafe { (*work).take() })
    }

    fn set_result(&self, result: Result<W::Out, LaneError>) {
        self.result.with_mut(|slot| {
            // SAFETY: only who has started the job comes here, once.
            unsafe { *slot = Some(result) };
        });
    }

    /// A future of it is over.
    pub(super) fn ended(self: Arc<Self>, result: Result<W::Out, LaneError>) {
        let panicked = matches!(result, Err(LaneError::Panicked(_)));
        self.set_result(result);
        runner::over_elsewhere(self, panicked);
    }

    fn tell(&self, result: Result<W::Out, LaneError>) {
        // Only what has a key is followed.
        let followers = self.meta.brought.key.map(|_| self.meta.followers.seal());
        for follower in followers.into_iter().flatten() {
            // SAFETY: what hangs here are jobs of this actor, see `follow`, and each is taken once.
            let follower = unsafe { taken(follower) };
            if !follower.meta().state.adopt() {
                continue;
            }
            let shared: Result<W::Out, LaneError> = match (&result, self.share) {
                (Ok(value), Some(share)) => catch(|| share(value)).map_err(LaneError::Panicked),
                (Err(error), _) => Err(error.clone()),
                (Ok(_), None) => Err(LaneError::Coalesced),
            };
            let mut offer = Some(shared);
            if !follower.adopt(&mut offer) {
                follower.answer(LaneError::Coalesced);
            }
        }
        lent::give_back(&self.meta);
        // SAFETY: one ends the job, and only that one comes here, once.
        trampoline::wake(unsafe { self.shot.resolve_alone(result) });
    }
}

/// Has `follower` answered with the result of `leader`, an equal job of the same actor. Comes back if that is over: nobody would
/// answer it.
pub(super) fn follow<K, C>(leader: &Meta<K, C>, follower: JobRef<K, C>) -> Result<(), JobRef<K, C>> {
    hang(&leader.followers, follower)
}

impl<K, C, W> Queued<K, C> for JobCell<K, C, W>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    W: Work<K, C>,
{
    fn meta(&self) -> &Meta<K, C> {
        &self.meta
    }

    fn run(&self, cx: &LaneCx<K, C>) -> Ran {
        // SAFETY: the caller has started it.
        let Some(work) = (unsafe { self.take_work() }) else { unreachable!("a job is started once a step") };
        let (result, panicked) = match catch(|| work.step(cx)) {
            Ok(Step::Done(value)) => (Ok(value), false),
            Ok(Step::Built(work)) => {
                self.work.with_mut(|slot| {
                    // SAFETY: the caller has started it.
                    unsafe { *slot = Some(work) };
                });
                return Ran::Built;
            }
            Ok(Step::Future(future)) => {
                let counted = Arc::into_raw(cx.job.clone()).cast::<Self>();
                // SAFETY: `cx` is of this very job, says the caller, so the cell behind the reference is of this type; the
                // pointer came from the reference to the whole, and its count goes along.
                let job = unsafe { Arc::from_raw(counted) };
                future::spawn(&self.meta.actor.shared.spawner, job, future);
                return Ran::Away;
            }
            Err(report) => (Err(LaneError::Panicked(report)), true),
        };
        self.set_result(result);
        Ran::Over { panicked }
    }

    fn deliver(&self) {
        // SAFETY: only who ran the job comes here.
        let result = self.result.with_mut(|slot| unsafe { (*slot).take() });
        self.tell(result.unwrap_or(Err(LaneError::Cancelled)));
    }

    fn is_answered_quietly(&self) -> bool {
        let quiet = if std::mem::needs_drop::<W::Out>() { self.shot.is_awaited() } else { !self.shot.has_waker() };
        quiet && self.meta.brought.key.is_none() && self.meta.context.is_none()
    }

    fn answer(&self, error: LaneError) {
        // SAFETY: the caller has led it into Cancelled, or has started it and ran nothing.
        if let Some(work) = unsafe { self.take_work() } {
            trampoline::dispose(work);
        }
        self.tell(Err(error));
    }

    fn adopt(&self, offer: &mut dyn Any) -> bool {
        let Some(offer) = offer.downcast_mut::<Option<Result<W::Out, LaneError>>>() else { return false };
        let Some(result) = offer.take() else { return false };
        // SAFETY: the caller has led it out of Following.
        if let Some(work) = unsafe { self.take_work() } {
            trampoline::dispose(work);
        }
        self.tell(result);
        true
    }
}

impl<K, C, W> FlightRef for JobCell<K, C, W>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    W: Work<K, C>,
{
    /// While it runs it is the slot that it runs in, so that who looks for what holds an actor up finds who waits there.
    fn id(&self) -> FlightId {
        match self.meta.state.phase() {
            JobPhase::Started | JobPhase::Sealed => self.meta.actor.shared.slots.id(held::slot(&self.meta)),
            JobPhase::Cancelled if !self.meta.state.is_over() => {
                self.meta.actor.shared.slots.id(held::slot(&self.meta))
            }
            _ => FlightId::of(self, 0),
        }
    }

    fn describe(&self) -> String {
        let meta = &self.meta;
        format!("{} job {:?} of actor {}", meta.brought.lane, meta.brought.label, meta.actor.incarnation)
    }

    fn spawner(&self) -> Spawner {
        self.meta.actor.shared.spawner.clone()
    }

    fn place(&self) -> Place {
        self.meta.actor.shared.place
    }

    fn phase(&self) -> Phase {
        match self.meta.state.phase() {
            JobPhase::Queued | JobPhase::Claimed | JobPhase::Following => Phase::Waiting,
            JobPhase::Cancelled if self.meta.state.is_over() => Phase::Cancelled,
            JobPhase::Started | JobPhase::Sealed | JobPhase::Cancelled => Phase::Claimed,
            JobPhase::Finished => Phase::Done,
        }
    }

    /// Nobody but the executor's runners starts a job: rules and caps are theirs.
    fn help(&self) -> bool {
        false
    }

    fn watch(&self) -> bool {
        lent::lend(&self.meta);
        false
    }

    fn slept_for(&self) -> Option<Interrupt> {
        lent::slept_for(self, &self.meta)
    }

    fn leave(&self) {
        let _ = cancel::cancel(self);
    }

    fn gates(&self, out: &mut Vec<Arc<dyn FlightRef>>) {
        if self.meta.state.is_to_begin() {
            self.meta.actor.holders(&self.meta, out);
        }
    }
}

impl<K, C, W> SoleFlight<W::Out, LaneError> for JobCell<K, C, W>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    W: Work<K, C>,
{
    fn shot(&self) -> &OneShot<Result<W::Out, LaneError>> {
        &self.shot
    }

    fn put_into(self: Arc<Self>, place: &mut dyn Any) {
        if let Some(place) = place.downcast_mut::<Option<Arc<dyn Cancels>>>() {
            *place = Some(self);
        }
    }
}

impl<K, C, W: Work<K, C>> Drop for JobCell<K, C, W> {
    /// A closure or a result that nobody took, which happens only if a submission ends half way.
    fn drop(&mut self) {
        if matches!(self.meta.state.phase(), JobPhase::Started | JobPhase::Sealed) {
            self.meta.actor.shared.phantom();
        }
        for follower in self.meta.followers.take() {
            // SAFETY: as in `tell`.
            drop(unsafe { taken(follower) });
        }
        self.work.with_mut(|work| {
            // SAFETY: nobody else has it any more.
            if let Some(work) = unsafe { (*work).take() } {
                trampoline::dispose(work);
            }
        });
        self.result.with_mut(|result| {
            // SAFETY: as above.
            if let Some(result) = unsafe { (*result).take() } {
                trampoline::dispose(result);
            }
        });
    }
}
