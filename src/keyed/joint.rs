//! A computation of a cache as something else's step: begun or joined when it is that one's turn, told of by its end alone.
//! It does not know what the step is part of; the types of the cache are forgotten here, off the path of hits.
#![forbid(unsafe_code)]

use super::asking::{Asking, Begun};
use super::build::{Build, Waiter};
use super::core::Core;
use super::cx::BuildCx;
use super::dag::DagFailure;
use super::error::CacheError;
use super::kind::Disposition;
use super::memo::Memo;
use super::request::{CacheRequest, KeyedView, Wish};
use crate::flight::{FlightRef, Interrupt, catch, interrupt};
use crate::runtime::{Place, Priority};
use crate::sync::Arc;
use std::any::{Any, TypeId};
use std::error::Error;
use std::fmt;
use std::task::Waker;

/// A computation of a cache, to be a node of a graph: from [`Cache::node`](super::Cache::node).
#[must_use = "it computes nothing until it is part of a graph that is submitted"]
pub struct KeyedJob(pub(crate) Box<dyn Joint>);

impl fmt::Debug for KeyedJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedJob").field("identity", &self.0.identity()).finish_non_exhaustive()
    }
}

/// The cheap form of an identity. Two that differ are different; of two that are equal the keys decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    cache: usize,
    hash: u64,
    view: KeyedView,
}

/// How a computation ended.
pub(crate) type Ended = Result<Disposition, DagFailure>;

/// A computation that was not asked for yet.
pub(crate) trait Joint: Send {
    fn identity(&self) -> Identity;
    /// Whether the two are of one identity.
    fn is_same(&self, other: &dyn Joint) -> bool;
    fn key(&self) -> &dyn Any;
    /// Which builder it would be computed by.
    fn builder(&self) -> TypeId;
    /// Asks for it, at a place. A computation that this begins is queued; see [`Owner::help`].
    fn enter(self: Box<Self>, place: Place) -> Result<Ended, Arc<dyn Owner>>;
}

/// One who wants a computation that is under way.
pub(crate) trait Owner: Send + Sync {
    /// Runs it here, if it is free.
    fn help(&self);
    /// What a waiter waits for behind it.
    fn flight(&self) -> Arc<dyn FlightRef>;
    /// How it ended, once it is over.
    fn ended(&self) -> Option<Ended>;
    /// Has `told` woken at its end. True if it is over already. To be called once.
    fn tell(&self, told: &Waker) -> bool;
    /// It is wanted sooner.
    fn raise(&self, priority: Priority);
    /// Withdraws, unless it has been told or has withdrawn. If nobody else wants it, it is cancelled.
    fn leave(&self);
}

/// A request and its builder.
pub(crate) struct Asked<M: Memo, B> {
    core: Arc<Core<M>>,
    request: CacheRequest<M::Key>,
    hash: u64,
    builder: B,
}

impl<M: Memo, B> Asked<M, B> {
    /// A panic of the key's `Hash` counts as some hash.
    pub(crate) fn new(core: Arc<Core<M>>, request: CacheRequest<M::Key>, builder: B) -> Self {
        let hash = catch(|| core.hash(request.view, &request.key)).unwrap_or_default();
        Self { core, request, hash, builder }
    }
}

impl<M, B> Joint for Asked<M, B>
where
    M: Memo,
    M::Error: Error,
    B: FnOnce(&BuildCx<'_, M::Key>) -> Result<M::Value, M::Error> + Send + 'static,
{
    fn identity(&self) -> Identity {
        Identity { cache: Arc::as_ptr(&self.core).addr(), hash: self.hash, view: self.request.view }
    }

    fn is_same(&self, other: &dyn Joint) -> bool {
        let key = other.key().downcast_ref::<M::Key>();
        let same = key.is_some_and(|key| catch(|| self.request.key == *key).unwrap_or(false));
        same && self.identity() == other.identity()
    }

    fn key(&self) -> &dyn Any {
        &self.request.key
    }

    fn builder(&self) -> TypeId {
        TypeId::of::<B>()
    }

    fn enter(self: Box<Self>, place: Place) -> Result<Ended, Arc<dyn Owner>> {
        let Self { core, mut request, builder, .. } = *self;
        request.wish = Wish { priority: place.priority, ..request.wish };
        match Asking::look(&core, request.key, (request.view, request.wish), builder) {
            Begun::Answer(Ok(_), disposition) => Ok(Ok(disposition)),
            Begun::Answer(Err(error), _) => Ok(Err(failure(&error))),
            Begun::Flying(waiter, build) => Err(Arc::new(Flying { waiter, build })),
        }
    }
}

/// A computation that is under way.
struct Flying<M: Memo> {
    waiter: Arc<Waiter<M>>,
    build: Arc<Build<M>>,
}

impl<M: Memo> Owner for Flying<M>
where
    M::Error: Error,
{
    fn help(&self) {
        self.build.help();
    }

    fn flight(&self) -> Arc<dyn FlightRef> {
        self.build.clone()
    }

    fn ended(&self) -> Option<Ended> {
        let flight = &self.build.joint.flight;
        match flight.result() {
            Some(Ok(_)) => Some(Ok(self.build.disposition())),
            Some(Err(error)) => Some(Err(failure(error))),
            None => interrupt(flight.word().phase()).map(|why| Err(DagFailure::Interrupted(why))),
        }
    }

    fn tell(&self, told: &Waker) -> bool {
        self.waiter.register(told)
    }

    fn raise(&self, priority: Priority) {
        self.build.raise(priority);
    }

    fn leave(&self) {
        // Answered once: a node that is cancelled while its graph ends withdraws once all the same.
        if self.waiter.resolve(Err(Interrupt::Cancelled.into())) {
            self.build.abandoned();
            self.build.leave();
        }
    }
}

fn failure<E: Error + Send + Sync + 'static>(error: &CacheError<E>) -> DagFailure {
    match error {
        CacheError::Failed(error) => DagFailure::Job(error.clone()),
        CacheError::Panicked(report) => DagFailure::Panicked(report.clone()),
        CacheError::Cancelled => DagFailure::Interrupted(Interrupt::Cancelled),
        CacheError::Shutdown => DagFailure::Interrupted(Interrupt::Shutdown),
        CacheError::Reentrant(cycle) => DagFailure::Interrupted(Interrupt::WouldDeadlock(cycle.clone())),
        CacheError::Interrupted(why) => DagFailure::Interrupted(why.clone()),
    }
}
