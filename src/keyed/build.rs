//! One computation of one identity: its flight and owners, the builder until it is claimed, and what happens when it is over.
//! It does not know where its identity stands, only whom to tell.

use super::aggregate::Aggregate;
use super::core::Core;
use super::counters::Tally;
use super::cx::BuildCx;
use super::error::CacheError;
use super::kind::Disposition;
use super::memo::Memo;
use super::node::Node;
use super::request::Wish;
use super::semaphore::{CpuConcurrencySemaphore, CpuPermit};
use crate::admission::{ContextScope, RequestContext};
use crate::flight::{
    Completion, FlightId, FlightRef, Interrupt, Killed, OnUnwind, Phase, Ticket, Ticketed, catch, drop_contained,
    enter, in_the_engine, trampoline,
};
use crate::runtime::{Place, Pool, Priority, Spawner};
use crate::sync::cell::UnsafeCell;
use crate::sync::stat::{AtomicBool, Ordering};
use crate::sync::{Arc, Weak};

/// What computes a value.
pub(crate) type Work<M> =
    Box<dyn FnOnce(&BuildCx<'_, <M as Memo>::Key>) -> Result<<M as Memo>::Value, <M as Memo>::Error> + Send>;
/// How a computation ends.
pub(crate) type Answer<M> = Result<Arc<<M as Memo>::Value>, CacheError<<M as Memo>::Error>>;
/// Who waits for it.
pub(crate) type Waiter<M> = Completion<Arc<<M as Memo>::Value>, CacheError<<M as Memo>::Error>>;

/// One computation.
pub(crate) struct Build<M: Memo> {
    pub(crate) joint: Aggregate<Arc<M::Value>, CacheError<M::Error>>,
    node: Arc<Node<M>>,
    /// The cache, as long as anybody holds it.
    core: Weak<Core<M>>,
    work: UnsafeCell<Option<Work<M>>>,
    context: Option<RequestContext>,
    semaphore: Option<CpuConcurrencySemaphore>,
    pool: Pool,
    /// A unit of the budget is held for it.
    charged: AtomicBool,
    return_only: AtomicBool,
}

// SAFETY: the builder is touched only by the one that won the claim, or that ended the flight before anyone did; it moves to that
// thread, for which it is Send. All else is shared as it is.
unsafe impl<M: Memo> Sync for Build<M> {}

impl<M: Memo> Build<M> {
    /// Begun by one who waits for it, and shown to nobody yet.
    pub(crate) fn new(
        (core, node): (&Arc<Core<M>>, &Arc<Node<M>>),
        wish: &Wish,
        work: Work<M>,
        waiter: Arc<Waiter<M>>,
        charged: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            joint: Aggregate::begun(wish.priority, waiter),
            node: node.clone(),
            core: Arc::downgrade(core),
            work: UnsafeCell::new(Some(work)),
            context: wish.context.clone(),
            semaphore: wish.semaphore.clone(),
            pool: wish.kind.pool(),
            charged: AtomicBool::new(charged),
            return_only: AtomicBool::new(false),
        })
    }

    pub(crate) fn node(&self) -> &Arc<Node<M>> {
        &self.node
    }

    /// The builder again, of a computation that somebody else has begun meanwhile and that was shown to nobody.
    pub(crate) fn give_up(&self) -> Option<Work<M>> {
        // Another's begin keeps none of it: no owner, no unit.
        self.charged.store(false, Ordering::Relaxed);
        self.joint.flight.word().claim().ok()?;
        // SAFETY: the claim is ours.
        unsafe { self.take_work() }
    }

    /// # Safety
    /// The caller has won the claim, or ended the flight while it was unclaimed.
    unsafe fn take_work(&self) -> Option<Work<M>> {
        // SAFETY: promised by the caller.
        self.work.with_mut(|slot| unsafe { (*slot).take() })
    }

    /// Queues it. A runtime that refuses it drops it, and that ends it.
    pub(crate) fn push(self: &Arc<Self>) {
        drop(self.node.shared.spawner.push(self.place(), Ticket::new(self.clone()).job()));
    }

    /// What may be done with its value. For who has seen that it is there.
    pub(crate) fn disposition(&self) -> Disposition {
        // ordering: written by the claimer before it published.
        if self.return_only.load(Ordering::Relaxed) { Disposition::ReturnOnly } else { Disposition::Cacheable }
    }

    /// Somebody wants it at `priority`.
    pub(crate) fn raise(self: &Arc<Self>, priority: Priority) {
        let word = self.joint.flight.word();
        if word.raise(priority).is_some() && word.phase() == Phase::Waiting {
            self.push();
        }
    }

    /// Claims and runs it here, if it is free.
    pub(crate) fn run_if_free(&self, permit: Option<CpuPermit>) -> bool {
        if self.joint.flight.word().claim().is_err() {
            return false;
        }
        let unwound = OnUnwind::call(|| self.end(Err(Interrupt::Panicked(in_the_engine()).into()), None));
        // SAFETY: the claim is ours.
        let work = unsafe { self.take_work() };
        let (result, keep) = {
            let _holding = permit.map(CpuPermit::hold);
            let _scope = enter(self.id());
            let result = self.call(work).map(Arc::new);
            let keep = self.weigh(&result);
            (result, keep)
        };
        self.end(result, keep);
        unwound.disarm();
        true
    }

    fn call(&self, work: Option<Work<M>>) -> Result<M::Value, CacheError<M::Error>> {
        let Some(work) = work else { unreachable!("a builder is claimed once") };
        let _context = ContextScope::enter(self.context.clone());
        let cx = BuildCx {
            key: self.node.key(),
            view: self.node.view,
            token: self.joint.token(),
            return_only: &self.return_only,
        };
        match catch(|| work(&cx)) {
            Ok(result) => result.map_err(|error| CacheError::Failed(Arc::new(error))),
            Err(report) => Err(CacheError::Panicked(report)),
        }
    }

    /// What its value weighs, if that is to be kept.
    fn weigh(&self, result: &Answer<M>) -> Option<u64> {
        let value = result.as_ref().ok().filter(|_| !self.return_only.load(Ordering::Relaxed))?;
        self.core.upgrade()?.weigh(self.node.key(), value)
    }

    /// The claimer has the result, and says what it weighs if it is to be kept.
    fn end(&self, result: Answer<M>, keep: Option<u64>) {
        match self.joint.flight.publish(result) {
            Ok(()) => self.over(keep),
            Err(result) => trampoline::dispose(result),
        }
    }

    /// It stood in `before`, and the caller has ended it without a result.
    fn ended(&self, before: Phase) {
        if before.is_unclaimed() {
            // SAFETY: we ended it while it was unclaimed, so nobody can claim it any more.
            trampoline::dispose(unsafe { self.take_work() });
        }
        self.over(None);
    }

    /// It is over, and the caller alone has ended it: its identity is settled, its unit is free, and then its owners are told. Its
    /// value is kept if it was given a weight.
    fn over(&self, keep: Option<u64>) {
        let (shared, result) = (&self.node.shared, self.joint.flight.result());
        let value = result.and_then(|result| result.as_ref().ok());
        shared.tallies.one(if value.is_some() { Tally::Completed } else { Tally::Cancelled });
        if let Some(core) = self.core.upgrade() {
            core.settle(self, value.zip(keep));
        }
        if self.charged.swap(false, Ordering::AcqRel)
            && let Some(budget) = &shared.budget
        {
            budget.release(1);
        }
        self.joint.flight.deliver();
        shared.clear_yard();
    }
}

impl<M: Memo> Ticketed for Build<M> {
    fn run(self: Arc<Self>) {
        let Some(semaphore) = self.semaphore.clone() else {
            self.run_if_free(None);
            return;
        };
        if self.phase() == Phase::Waiting {
            let (spawner, place, ticket) = (self.spawner(), self.place(), Ticket::new(self));
            drop(semaphore.dispatch(&spawner, place, move |permit| {
                ticket.take().run_if_free(Some(permit));
            }));
        }
    }

    fn shut_down(&self) {
        // Claimed means that a waiter runs it: then the ticket was of no use anyway.
        if self.phase() == Phase::Waiting
            && let Ok((before, _)) = self.joint.flight.word().kill_wanted(Killed::Shutdown)
        {
            self.ended(before);
        }
    }
}

impl<M: Memo> FlightRef for Build<M> {
    fn id(&self) -> FlightId {
        FlightId::of(self, 0)
    }

    fn describe(&self) -> String {
        let name = || format!("{} of {:?}", self.node.shared.id, self.node.key());
        catch(name).unwrap_or_else(|_| format!("{} of a key that cannot be shown", self.node.shared.id))
    }

    fn spawner(&self) -> Spawner {
        self.node.shared.spawner.clone()
    }

    fn place(&self) -> Place {
        Place { pool: self.pool, priority: self.joint.flight.word().priority() }
    }

    fn phase(&self) -> Phase {
        self.joint.flight.word().phase()
    }

    fn help(&self) -> bool {
        let Some(semaphore) = &self.semaphore else { return self.run_if_free(None) };
        if self.phase() != Phase::Waiting {
            return false;
        }
        semaphore.take_here().is_some_and(|permit| self.run_if_free(Some(permit)))
    }

    fn watch(&self) -> bool {
        self.joint.flight.word().watch() && self.semaphore.as_ref().is_none_or(CpuConcurrencySemaphore::has_room)
    }

    fn leave(&self) {
        if let Some(before) = self.joint.leave() {
            self.ended(before);
        }
    }

    fn abandoned(&self) {
        self.joint.flight.abandoned();
    }
}

impl<M: Memo> Drop for Build<M> {
    fn drop(&mut self) {
        let work = self.work.with_mut(|slot| {
            // SAFETY: `self` is borrowed exclusively.
            unsafe { (*slot).take() }
        });
        drop_contained(work);
        drop_contained(self.context.take());
    }
}
