//! What everybody may know of a job: whose it is, where it stands and since when, and what few jobs have beside that.
//! It does not know the job's closure, nor its result.

use super::actor::Actor;
use super::barrier;
use super::cell::JobState;
use super::counted::MaybeCounted;
use super::fence::Fence;
use super::job::JobRef;
use super::kind::{CoalesceKey, LaneClass, LaneKind};
use super::lender::Lender;
use super::lent::Waits;
use super::mailbox::{Mailbox, Posted};
use crate::admission::RequestContext;
use crate::flight::CancellationToken;
use crate::flight::trampoline::Disposed;
use crate::runtime::TimerHandle;
use crate::sync::atomic::{AtomicPtr, AtomicU32};
use crate::sync::stat::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, OnceLock};
use std::ptr::{self, NonNull};

/// A job that runs under no share but its own.
pub(super) const ALONE: u64 = u64::MAX;

/// Beside what a job waits for: it is over.
const OVER: u32 = 1 << 31;

/// What a job brings along when it is made.
pub(super) struct Brought<K, C> {
    pub(super) lane: LaneKind,
    pub(super) class: LaneClass,
    pub(super) id: u64,
    pub(super) label: &'static str,
    /// It was submitted by a job of the same actor that shares the state, and runs under its share: since when that goes on.
    /// [`ALONE`] if it was not.
    pub(super) share: u64,
    pub(super) epoch: bool,
    pub(super) bucket: u16,
    /// What few jobs have.
    pub(super) apart: Option<Box<Apart<K, C>>>,
}

/// What few jobs bring along, so that the block of the others is small.
pub(super) struct Apart<K, C> {
    pub(super) key: Option<CoalesceKey>,
    /// It waits for the result of an equal job that is queued, if there is one.
    pub(super) joins: bool,
    /// What must be over before it is looked at.
    pub(super) fence: Fence<JobRef<K, C>>,
    /// When it is too late to begin, on the runtime's clock, in nanoseconds.
    pub(super) expires: u64,
    pub(super) deadline: OnceLock<TimerHandle>,
    /// Equal jobs that are answered with this one's result; sealed by who ends it.
    pub(super) followers: Mailbox<Meta<K, C>>,
    pub(super) context: Option<Disposed<RequestContext>>,
}

/// What everybody may know of a job.
#[repr(C)]
pub(super) struct Meta<K, C> {
    next: AtomicPtr<Self>,
    /// Makes a reference to the whole job of one to this, its beginning.
    pub(super) whole: unsafe fn(NonNull<Self>) -> JobRef<K, C>,
    pub(super) state: JobState,
    /// Its build is over: what is left is the install.
    installing: AtomicBool,
    actor: MaybeCounted<Actor<K, C>>,
    pub(super) brought: Brought<K, C>,
    /// Since when it is queued, or its install is.
    at: AtomicU64,
    /// Its number in the order of arrival, since it lies in the actor's queues.
    arrival: AtomicU64,
    /// The slot that it runs in and what else it holds: see `held.rs`.
    pub(super) held: AtomicU64,
    token: OnceLock<CancellationToken>,
    /// A job that waits for this one.
    pub(super) lender: Lender<Waits>,
    /// The registration whose job it is that waited last.
    waited_by: AtomicU64,
    /// What this one waits for: its slot is lent as long as it is anything, and it is not over.
    waits: AtomicU32,
}

// SAFETY: `next` gives one word, which nobody else uses.
unsafe impl<K, C> Posted for Meta<K, C> {
    fn next(&self) -> &AtomicPtr<Self> {
        &self.next
    }
}

impl<K, C> Meta<K, C> {
    /// Of a job of `actor` that is queued since `at`. `whole` is made for the type of the job.
    ///
    /// # What keeps the actor
    ///
    /// The job does, once [`keep_actor`](Self::keep_actor) was called: for whom a handle or what few jobs have was made is so from
    /// the start. Any other job is reached through its actor alone, until a runner takes it out; a queued one lies inside an actor that is
    /// registered, or that is being emptied by who holds it; and the runner holds the actor until it has let go of the job. If it
    /// finds then that others can reach the job, by a ticket, say, that its body has made, it has the job keep the actor.
    #[inline(always)]
    pub(super) fn new(
        whole: unsafe fn(NonNull<Self>) -> JobRef<K, C>,
        actor: &Arc<Actor<K, C>>,
        brought: Brought<K, C>,
        at: u64,
    ) -> Self {
        // SAFETY: see above.
        let actor = unsafe { MaybeCounted::borrowed(actor) };
        Self {
            next: AtomicPtr::new(ptr::null_mut()),
            whole,
            state: JobState::new(),
            installing: AtomicBool::new(false),
            actor,
            brought,
            at: AtomicU64::new(at),
            arrival: AtomicU64::new(0),
            held: AtomicU64::new(0),
            token: OnceLock::new(),
            lender: Lender::new(),
            waited_by: AtomicU64::new(0),
            waits: AtomicU32::new(0),
        }
    }

    /// Whose it is. For who knows that the actor is alive, see `new`.
    #[inline]
    pub(super) fn actor(&self) -> &Arc<Actor<K, C>> {
        self.actor.get()
    }

    /// The job keeps its actor from now on. For who knows that the actor is alive.
    pub(super) fn keep_actor(&self) {
        self.actor.count();
    }

    /// Whether there is nothing to drop in it. For who alone can reach the job.
    #[inline]
    pub(super) fn drops_nothing(&self) -> bool {
        !self.actor.is_counted() && self.is_plain()
    }

    /// Whether nothing hangs on it whose destructor could call the host.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.brought.apart.is_none() && self.token.get().is_none() && self.lender.is_empty()
    }

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

    /// A job of that registration is about to wait for this one, and will say so in the cell.
    pub(super) fn note_waited_by(&self, incarnation: u64) {
        self.waited_by.store(incarnation, Ordering::Relaxed);
    }

    /// Whether a job of that registration waits for this one.
    pub(super) fn is_waited_by(&self, incarnation: u64) -> bool {
        self.state.is_lent() && self.waited_by.load(Ordering::Relaxed) == incarnation
    }

    /// Its number in the order of arrival.
    #[inline]
    pub(super) fn arrival(&self) -> u64 {
        self.arrival.load(Ordering::Relaxed)
    }

    /// Notes its number in the order of arrival. For who has the actor's turn.
    #[inline]
    pub(super) fn note_arrival(&self, arrival: u64) {
        self.arrival.store(arrival, Ordering::Relaxed);
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

    /// It is over, and waits for nothing any more. True if it did: what was lent is to be given back, and nobody else does that.
    pub(super) fn ends_all_waits(&self) -> bool {
        let waits = self.waits.load(Ordering::Relaxed) != 0;
        // ordering: as in `begins_wait`; it begins none any more.
        waits && !matches!(self.waits.fetch_or(OVER, Ordering::AcqRel), 0 | OVER..)
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

    pub(super) fn apart(&self) -> Option<&Apart<K, C>> {
        self.brought.apart.as_deref()
    }

    pub(super) fn key(&self) -> Option<CoalesceKey> {
        self.apart()?.key
    }

    /// The key by which it may be answered with the result of an equal one.
    pub(super) fn joins(&self) -> Option<CoalesceKey> {
        self.apart().filter(|apart| apart.joins)?.key
    }

    /// What must be over before it is looked at, unless this one is answered. For who can let go of a job where he is.
    pub(super) fn fence(&self) -> Option<JobRef<K, C>> {
        self.apart()?.fence.look()
    }

    /// When it is too late to begin, on the runtime's clock, in nanoseconds.
    pub(super) fn expires(&self) -> u64 {
        self.apart().map_or(u64::MAX, |apart| apart.expires)
    }

    /// The timer that ends it when it is late.
    pub(super) fn timer(&self) -> Option<&OnceLock<TimerHandle>> {
        self.apart().map(|apart| &apart.deadline)
    }

    pub(super) fn context(&self) -> Option<RequestContext> {
        self.apart()?.context.as_ref().map(|context| RequestContext::clone(context))
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
