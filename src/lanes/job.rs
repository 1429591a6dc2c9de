//! A submitted job: its cell, its closure or future, its result and its place in a mailbox, in one allocation.
//! It does not know the order in which jobs are taken, nor the slots that they run in.

use super::actor::Actor;
use super::answer::LaneError;
use super::blocks::{self, Depot};
use super::cancel::{self, Cancels};
use super::cell::JobPhase;
use super::context::LaneCx;
use super::lent;
use super::mailbox::Mailbox;
use super::meta::{Apart, Brought, Meta};
use super::work::{Step, Work};
use super::{future, held, runner};
use crate::flight::{FlightId, FlightRef, Interrupt, OneShot, Phase, SoleFlight, catch, trampoline};
use crate::runtime::{Place, Spawner};
use crate::sync::Arc;
use crate::sync::cell::UnsafeCell;
use std::any::Any;
use std::ptr::NonNull;

/// A job, whatever its closure and its result are.
pub(super) type JobRef<K, C> = Arc<dyn Queued<K, C>>;

/// How a result is copied for those who follow, if any may.
type Share<T> = Option<fn(&T) -> T>;

/// What the executor does with a job. `run` and `deliver` are for who has claimed it, `answer` for who has ended it.
///
/// # Safety
/// What implements it begins with its [`Meta`].
pub(super) unsafe trait Queued<K, C>: FlightRef + Cancels {
    /// Runs the next step of it. For the one that has started it, with the `cx` of this very job.
    fn run(&self, cx: &LaneCx<K, C>) -> Ran;
    /// Tells the result that `run` has left, also to those who follow. `alone`: nobody but the caller can reach it.
    fn deliver(&self, alone: bool);
    /// Whether to deliver it and to let it go calls nothing of the host's, as it looks now: no waker, no destructor, no copy.
    fn is_answered_quietly(&self) -> bool;
    /// Ends it without a result of its own: drops what it would have run, and tells `error`, also to those who follow.
    fn answer(&self, error: LaneError);
    /// Answers it with the result of an equal job. False if that is of another type.
    fn adopt(&self, offer: &mut dyn Any) -> bool;
    /// Lets it go and keeps its memory.
    ///
    /// # Safety
    /// [`is_alone`] says so.
    unsafe fn put_away(self: Arc<Self>, depot: &Depot);
}

impl<K, C> dyn Queued<K, C> + '_ {
    /// What everybody may know of the job.
    #[inline]
    pub(super) fn meta(&self) -> &Meta<K, C> {
        let meta: *const Meta<K, C> = std::ptr::from_ref(self).cast();
        // SAFETY: the job begins with it, says who implements the trait, and is borrowed as long as what is returned.
        unsafe { &*meta }
    }
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

/// Whether nobody but the caller can reach the job, whose counted reference it has taken out of the queue: no handle, no ticket, no
/// other job. A count of one stays one, since only who has a reference makes another; a timer has one that is not counted, and a
/// place in `apart`.
pub(super) fn is_alone<K, C>(job: &JobRef<K, C>) -> bool {
    Arc::strong_count(job) == 1 && job.meta().apart().is_none()
}

/// Claims a job. For who has the turn and has taken it out of the queue.
pub(super) fn claim<K, C>(job: &JobRef<K, C>) -> bool {
    let state = &job.meta().state;
    if is_alone(job) { state.claim_alone() } else { state.claim() }
}

/// Starts a job. For who had it admitted.
pub(super) fn start<K, C>(job: &JobRef<K, C>) -> bool {
    let state = &job.meta().state;
    if is_alone(job) { state.start_alone() } else { state.start() }
}

impl<K, C, W> JobCell<K, C, W>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    W: Work<K, C>,
{
    /// A job of `actor` that is queued since `at`.
    #[inline(always)]
    pub(super) fn new(
        actor: &Arc<Actor<K, C>>,
        brought: Brought<K, C>,
        at: u64,
        work: W,
        share: Share<W::Out>,
    ) -> Arc<Self> {
        let depot = &actor.shared.blocks;
        blocks::make(depot, || Self {
            meta: Meta::new(whole::<K, C, W>, actor, brought, at),
            work: UnsafeCell::new(Some(work)),
            shot: OneShot::new(),
            share,
        })
    }

    /// What everybody may know of it.
    pub(super) fn meta(&self) -> &Meta<K, C> {
        &self.meta
    }

    /// Nobody will read its result. For who has made it, and has no handle made for it.
    pub(super) fn let_go(&self) {
        if std::mem::needs_drop::<W::Out>() {
            self.shot.abandon();
        }
    }

    /// # Safety
    /// The caller has started the job, or has led it into Cancelled.
    unsafe fn take_work(&self) -> Option<W> {
        // SAFETY: promised by the caller.
        self.work.with_mut(|work| unsafe { (*work).take() })
    }

    /// Whether it has nothing to drop, as a job that ran and whose result needs no destructor.
    ///
    /// # Safety
    /// Nobody but the caller can reach it.
    #[inline]
    unsafe fn drops_nothing(&self) -> bool {
        let result = |result: Option<&Result<W::Out, LaneError>>| !matches!(result, Some(Err(_)));
        // SAFETY: promised by the caller.
        let ran = self.work.with(|work| unsafe { (*work).is_none() });
        // SAFETY: as above.
        let trivial = !std::mem::needs_drop::<W::Out>() && unsafe { self.shot.drops_nothing(result) };
        ran && trivial && self.meta.drops_nothing()
    }

    /// # Safety
    /// The caller ends the job, and has told no result yet.
    unsafe fn set_result(&self, result: Result<W::Out, LaneError>) {
        // SAFETY: promised by the caller.
        unsafe { self.shot.put(result) };
    }

    /// A future of it is over.
    pub(super) fn ended(self: Arc<Self>, result: Result<W::Out, LaneError>) {
        let panicked = matches!(result, Err(LaneError::Panicked(_)));
        // SAFETY: the future has started the job, and ends once.
        unsafe { self.set_result(result) };
        runner::over_elsewhere(self, panicked);
    }

    /// Tells the result that was left, also to those who follow.
    ///
    /// # Safety
    /// The caller has left the result, and tells it once.
    unsafe fn tell(&self) {
        let fence = self.meta.apart().and_then(|apart| {
            // SAFETY: promised by the caller.
            unsafe { self.tell_apart(apart) };
            apart.fence.take()
        });
        let lender = lent::given_back(&self.meta);
        // SAFETY: promised by the caller.
        trampoline::wake(unsafe { self.shot.resolve_put() });
        // Either may be the last that is known of another job, whose destructors may wait for this one.
        fence.into_iter().for_each(trampoline::dispose);
        lender.into_iter().for_each(trampoline::dispose);
    }

    /// # Safety
    /// As for `tell`.
    #[cold]
    unsafe fn tell_apart(&self, apart: &Apart<K, C>) {
        // Only what has a key is followed.
        if apart.key.is_none() {
            return;
        }
        for follower in apart.followers.seal() {
            // SAFETY: what hangs here are jobs of this actor, see `follow`, and each is taken once.
            let follower = unsafe { taken(follower) };
            if !follower.meta().state.adopt() {
                continue;
            }
            follower.meta().actor().left_following();
            // SAFETY: the result was left, and is not told yet.
            let shared: Result<W::Out, LaneError> = match (unsafe { self.shot.look_at_put() }, self.share) {
                (Some(Ok(value)), Some(share)) => catch(|| share(value)).map_err(LaneError::Panicked),
                (Some(Err(error)), _) => Err(error.clone()),
                (Some(Ok(_)) | None, _) => Err(LaneError::Coalesced),
            };
            let mut offer = Some(shared);
            if !follower.adopt(&mut offer) {
                follower.answer(LaneError::Coalesced);
            }
        }
    }
}

/// Has `follower` answered with the result of `leader`, an equal job of the same actor. Comes back if that is over: nobody would
/// answer it.
pub(super) fn follow<K, C>(leader: &Meta<K, C>, follower: JobRef<K, C>) -> Result<(), JobRef<K, C>> {
    match leader.apart() {
        Some(apart) => hang(&apart.followers, follower),
        None => Err(follower),
    }
}

// SAFETY: the cell begins with its meta, as `repr(C)` says.
unsafe impl<K, C, W> Queued<K, C> for JobCell<K, C, W>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    W: Work<K, C>,
{
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
                // The runner does not stay with it.
                self.meta.keep_actor();
                let counted = Arc::into_raw(cx.job.clone()).cast::<Self>();
                // SAFETY: `cx` is of this very job, says the caller, so the cell behind the reference is of this type; the
                // pointer came from the reference to the whole, and its count goes along.
                let job = unsafe { Arc::from_raw(counted) };
                future::spawn(&self.meta.actor().shared.spawner, job, future);
                return Ran::Away;
            }
            Err(report) => (Err(LaneError::Panicked(report)), true),
        };
        // SAFETY: the caller has started it, so it is the one that leaves the result.
        unsafe { self.set_result(result) };
        Ran::Over { panicked }
    }

    fn deliver(&self, alone: bool) {
        // There is no reader, nobody follows, and what has no destructor may go with the block.
        if alone && !std::mem::needs_drop::<W::Out>() && !self.meta.state.is_lent() {
            return;
        }
        // SAFETY: only who ran the job comes here, after `run` has left the result.
        unsafe { self.tell() };
    }

    fn is_answered_quietly(&self) -> bool {
        let quiet = if std::mem::needs_drop::<W::Out>() { self.shot.is_awaited() } else { !self.shot.has_waker() };
        quiet && self.meta.is_plain()
    }

    fn answer(&self, error: LaneError) {
        // SAFETY: the caller has led it into Cancelled, or has started it and ran nothing.
        if let Some(work) = unsafe { self.take_work() } {
            trampoline::dispose(work);
        }
        // SAFETY: as above: nobody else ends it, and nothing has left a result.
        unsafe {
            self.set_result(Err(error));
            self.tell();
        }
    }

    fn adopt(&self, offer: &mut dyn Any) -> bool {
        let Some(offer) = offer.downcast_mut::<Option<Result<W::Out, LaneError>>>() else { return false };
        let Some(result) = offer.take() else { return false };
        // SAFETY: the caller has led it out of Following.
        if let Some(work) = unsafe { self.take_work() } {
            trampoline::dispose(work);
        }
        // SAFETY: as above.
        unsafe {
            self.set_result(result);
            self.tell();
        }
        true
    }

    unsafe fn put_away(self: Arc<Self>, depot: &Depot) {
        // SAFETY: promised by the caller; a weak reference is made only for a timer, which stands in `apart`.
        unsafe { blocks::keep(Some(depot), self, |job| !job.drops_nothing()) };
    }
}

/// Lets go of a job, and keeps its memory if nobody else can reach it.
pub(super) fn put_away<K, C>(job: JobRef<K, C>, depot: &Depot) {
    if is_alone(&job) {
        // SAFETY: just asked.
        unsafe { job.put_away(depot) };
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
            JobPhase::Started | JobPhase::Sealed => self.meta.actor().shared.slots.id(held::slot(&self.meta)),
            JobPhase::Cancelled if !self.meta.state.is_over() => {
                self.meta.actor().shared.slots.id(held::slot(&self.meta))
            }
            _ => FlightId::of(self, 0),
        }
    }

    fn describe(&self) -> String {
        let meta = &self.meta;
        format!("{} job {:?} of actor {}", meta.brought.lane, meta.brought.label, meta.actor().incarnation)
    }

    fn spawner(&self) -> Spawner {
        self.meta.actor().shared.spawner.clone()
    }

    fn place(&self) -> Place {
        self.meta.actor().shared.place
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

    fn waits_no_more(&self) {
        lent::give_back(&self.meta);
    }

    fn leave(&self) {
        let _ = cancel::cancel(self);
    }

    fn gates(&self, out: &mut Vec<Arc<dyn FlightRef>>) {
        if self.meta.state.is_to_begin() {
            self.meta.actor().holders(&self.meta, out);
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

    fn put_down(self: Arc<Self>) {
        if self.meta.state.is_lent() {
            lent::give_back(&self.meta);
        }
        if Arc::strong_count(&self) == 1 && self.meta.apart().is_none() {
            // SAFETY: as in `is_alone`. Its executor may go with it.
            unsafe { blocks::keep(None, self, |_| true) };
        }
    }
}

impl<K, C, W: Work<K, C>> Drop for JobCell<K, C, W> {
    /// A closure that nobody took, which happens only if a submission ends half way.
    fn drop(&mut self) {
        if matches!(self.meta.state.phase(), JobPhase::Started | JobPhase::Sealed) {
            self.meta.actor().shared.phantom();
        }
        for follower in self.meta.apart().into_iter().flat_map(|apart| apart.followers.take()) {
            // SAFETY: as in `tell`.
            drop(unsafe { taken(follower) });
        }
        self.work.with_mut(|work| {
            // SAFETY: nobody else has it any more.
            if let Some(work) = unsafe { (*work).take() } {
                trampoline::dispose(work);
            }
        });
    }
}
