//! How a request is answered: from what is kept, by joining what is under way, or by beginning a computation.
//! It does not know how a computation runs.
#![forbid(unsafe_code)]

use super::aggregate::Over;
use super::bucket::Entry;
use super::build::{Answer, Build, Waiter, Work};
use super::charge::{Charge, Lack, Unit};
use super::core::Core;
use super::counters::Tally;
use super::cx::BuildCx;
use super::error::CacheError;
use super::kind::Disposition;
use super::memo::Memo;
use super::node::Node;
use super::request::{CacheRequest, KeyedView, Limits, Wish};
use crate::flight::{Contained, FlightRef, Handle, Interrupt, catch, drop_contained, is_active, self_wait};
use crate::sync::Arc;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It was answered at once.
    Answered,
    /// It joined a computation that was under way.
    Joined,
    /// It began one.
    Begun,
}

/// The handle of one who asked.
pub(crate) type Handled<M> = Handle<Arc<<M as Memo>::Value>, CacheError<<M as Memo>::Error>>;

/// One submission to a cache.
pub(crate) struct Asking<'a, M: Memo> {
    core: &'a Arc<Core<M>>,
    charge: Charge<'a>,
    limits: Limits,
}

/// A request that is not answered yet.
pub(crate) struct Open<M: Memo> {
    key: Key<M>,
    hash: u64,
    view: KeyedView,
    wish: Wish,
    work: Work<M>,
}

/// The key, until a node is made of it.
enum Key<M: Memo> {
    Bare(M::Key),
    Node(Arc<Node<M>>),
    Moving,
}

/// How a request was taken.
pub(crate) enum Begun<M: Memo> {
    /// It is answered; what may be done with a value.
    Answer(Answer<M>, Disposition),
    /// This one will be told of that flight.
    Flying(Arc<Waiter<M>>, Arc<Build<M>>),
}

/// How a request stands after one look.
enum Found<M: Memo> {
    /// The answer; what may be done with a value.
    Answer(Answer<M>, Disposition),
    /// It joined: this one will be told of that flight.
    Joined(Arc<Waiter<M>>, Arc<Build<M>>),
    /// Nothing that it could join.
    Nothing,
}

impl<M: Memo> Key<M> {
    fn key(&self) -> &M::Key {
        match self {
            Self::Bare(key) => key,
            Self::Node(node) => node.key(),
            Self::Moving => unreachable!("a key is moved in one step"),
        }
    }

    /// The node of it.
    fn node(&mut self, core: &Core<M>, view: KeyedView, hash: u64) -> Arc<Node<M>> {
        let node = match std::mem::replace(self, Self::Moving) {
            Self::Bare(key) => Arc::new(Node::new(core.shared.clone(), key, view, hash)),
            Self::Node(node) => node,
            Self::Moving => unreachable!("a key is moved in one step"),
        };
        *self = Self::Node(node.clone());
        node
    }
}

impl<'a, M: Memo> Asking<'a, M> {
    pub(crate) fn new(core: &'a Arc<Core<M>>, unit: Unit, limits: Limits) -> Self {
        Self { core, charge: Charge::new(core.shared.budget.as_ref(), unit), limits }
    }

    /// Answers a request. Declined, nothing has been changed.
    #[expect(clippy::result_large_err, reason = "the request itself, which a caller that waits goes on with")]
    pub(crate) fn ask(
        core: &'a Arc<Core<M>>,
        unit: Unit,
        request: CacheRequest<M::Key>,
        builder: impl FnOnce(&BuildCx<'_, M::Key>) -> Result<M::Value, M::Error> + Send + 'static,
    ) -> Result<(Handled<M>, Asked), (Lack, Waits<M>)> {
        let CacheRequest { key, view, wish, limits } = request;
        match Self::first_look(core, view, &key) {
            Ok(hash) => {
                let open = Open { key: Key::Bare(key), hash, view, wish, work: Box::new(builder) };
                Self::ask_open(core, unit, open, limits)
            }
            Err(answer) => {
                drop_contained((key, builder));
                Ok((Handle::ready(answer), Asked::Answered))
            }
        }
    }

    #[inline(never)]
    #[expect(clippy::result_large_err, reason = "as above")]
    fn ask_open(
        core: &'a Arc<Core<M>>,
        unit: Unit,
        open: Open<M>,
        limits: Limits,
    ) -> Result<(Handled<M>, Asked), (Lack, Waits<M>)> {
        if let Some(why) = limits.over(&core.shared.spawner) {
            drop_contained(open);
            return Ok((Handle::ready(Err(why.into())), Asked::Answered));
        }
        let mut asking = Self::new(core, unit, limits);
        match asking.begin(open) {
            Ok((begun, asked)) => Ok((begun.handle(asking.limits), asked)),
            Err((lack, open)) => Err((lack, Waits::new(core, open, asking.limits))),
        }
    }

    /// The same for who needs no handle, nor a unit.
    pub(crate) fn look(
        core: &'a Arc<Core<M>>,
        key: M::Key,
        (view, wish): (KeyedView, Wish),
        builder: impl FnOnce(&BuildCx<'_, M::Key>) -> Result<M::Value, M::Error> + Send + 'static,
    ) -> Begun<M> {
        let hash = match Self::first_look(core, view, &key) {
            Ok(hash) => hash,
            Err(answer) => {
                drop_contained((key, builder));
                return Begun::Answer(answer, Disposition::Cacheable);
            }
        };
        let open = Open { key: Key::Bare(key), hash, view, wish, work: Box::new(builder) };
        match Self::new(core, Unit::Free, Limits::default()).begin(open) {
            Ok((begun, _)) => begun,
            Err((lack, open)) => {
                drop_contained(open);
                Begun::Answer(Err(lack.why().into()), Disposition::Failed)
            }
        }
    }

    /// The hash of an identity, or the answer: its value if that is kept, or that the host's code panicked.
    fn first_look(core: &Core<M>, view: KeyedView, key: &M::Key) -> Result<u64, Answer<M>> {
        let look = || {
            let hash = core.hash(view, key);
            (hash, Self::kept(core, view, key, hash))
        };
        match catch(look) {
            Ok((hash, None)) => Ok(hash),
            Ok((_, Some(value))) => Err(Ok(value)),
            Err(report) => Err(Err(CacheError::Panicked(report))),
        }
    }

    /// The answer of a request whose key and builder are not needed.
    fn spared(rest: impl Sized, answer: Answer<M>, disposition: Disposition) -> (Begun<M>, Asked) {
        drop_contained(rest);
        (Begun::Answer(answer, disposition), Asked::Answered)
    }

    /// The kept value, which nearly every request of a warm cache finds. Compares keys under the guard, as a borrowed read does.
    fn kept(core: &Core<M>, view: KeyedView, key: &M::Key, hash: u64) -> Option<Arc<M::Value>> {
        let guard = core.table.guard();
        let found = core.table.find(hash, |node| node.view == view && node.key() == key, &guard)?;
        let Entry::Kept(node) = found else { return None };
        let value = node.value()?.clone();
        Self::hit(core, node);
        Some(value)
    }

    fn hit(core: &Core<M>, node: &Node<M>) {
        node.mark.used();
        core.shared.tallies.one(Tally::Hit);
    }

    /// Joins, begins, or finds that it lacks a unit; then the request is given back.
    fn begin(&mut self, mut open: Open<M>) -> Result<(Begun<M>, Asked), (Lack, Open<M>)> {
        let core = self.core;
        loop {
            let seen = core.table.seen(open.hash);
            let key = open.key.key();
            let at =
                catch(|| seen.iter().position(|entry| entry.node().view == open.view && entry.node().key() == key));
            let at = match at {
                Ok(at) => at,
                Err(report) => {
                    return Ok(Self::spared(open, Err(CacheError::Panicked(report)), Disposition::Failed));
                }
            };
            match at.map_or(Found::Nothing, |at| self.join(&seen[at], &open.wish)) {
                Found::Answer(answer, disposition) => return Ok(Self::spared(open, answer, disposition)),
                Found::Joined(waiter, build) => {
                    drop_contained(open);
                    return Ok((Begun::Flying(waiter, build), Asked::Joined));
                }
                Found::Nothing => {}
            }
            if let Err(lack) = self.charge.take(&self.limits, &core.shared.spawner) {
                return Err((lack, open));
            }
            let node = open.key.node(core, open.view, open.hash);
            let waiter = Waiter::<M>::new();
            let build = Build::new((core, &node), &open.wish, open.work, waiter.clone(), self.charge.is_held());
            match core.begin(&seen, at, &build) {
                Ok(()) => {
                    self.charge.begun();
                    return Ok((Begun::Flying(waiter, build), Asked::Begun));
                }
                // Somebody was faster.
                Err(work) => open.work = work,
            }
        }
    }

    /// Joins what stands under the identity, as far as it can be joined.
    fn join(&self, entry: &Entry<M>, wish: &Wish) -> Found<M> {
        let build = match entry {
            Entry::Kept(node) => {
                Self::hit(self.core, node);
                return node
                    .value()
                    .map_or(Found::Nothing, |value| Found::Answer(Ok(value.clone()), Disposition::Cacheable));
            }
            Entry::Flying(build) => build,
        };
        if is_active(build.id()) {
            return Found::Answer(Err(CacheError::Reentrant(self_wait(&**build))), Disposition::Failed);
        }
        let waiter = Waiter::<M>::new();
        match build.joint.join(waiter.clone()) {
            Ok(()) => {
                self.core.shared.tallies.one(Tally::Join);
                build.raise(wish.priority);
                Found::Joined(waiter, build.clone())
            }
            Err(Over::Value(value)) => {
                self.core.shared.tallies.one(Tally::Join);
                Found::Answer(Ok(value), build.disposition())
            }
            Err(Over::Nothing) => Found::Nothing,
            Err(Over::Full) => Found::Answer(Err(Interrupt::TooManyWaiters.into()), Disposition::Failed),
        }
    }
}

impl<M: Memo> Begun<M> {
    fn handle(self, limits: Limits) -> Handled<M> {
        match self {
            Self::Answer(answer, _) => Handle::ready(answer),
            Self::Flying(waiter, build) => pending(waiter, build, &limits),
        }
    }
}

/// A request that lacks a unit of the budget.
pub(crate) struct Waits<M: Memo> {
    core: Arc<Core<M>>,
    open: Contained<Option<Open<M>>>,
    limits: Limits,
}

impl<M: Memo> Waits<M> {
    fn new(core: &Arc<Core<M>>, open: Open<M>, limits: Limits) -> Self {
        Self { core: core.clone(), open: Contained::new(Some(open)), limits }
    }

    /// Stands in line without a thread, and begins in its turn, or joins.
    pub(crate) async fn handle(mut self) -> Handled<M> {
        let shared = &self.core.shared;
        let mut charge = Charge::new(shared.budget.as_ref(), Unit::Wait);
        if let Err(lack) = charge.take_async(&self.limits, &shared.spawner).await {
            return Handle::ready(Err(lack.why().into()));
        }
        let open = self.open.take().expect("it is taken once");
        let mut asking = Asking { core: &self.core, charge, limits: std::mem::take(&mut self.limits) };
        match asking.begin(open) {
            Ok((begun, _)) => begun.handle(asking.limits),
            Err((lack, open)) => {
                drop_contained(open);
                Handle::ready(Err(lack.why().into()))
            }
        }
    }
}

/// The handle of who waits for a computation.
pub(crate) fn pending<M: Memo>(waiter: Arc<Waiter<M>>, build: Arc<Build<M>>, limits: &Limits) -> Handled<M> {
    let Limits { token, deadline } = limits;
    let spawner = build.spawner();
    let handle = Handle::pending(waiter, build as Arc<dyn FlightRef>);
    if token.is_none() && deadline.is_none() { handle } else { handle.until(&spawner, token.as_ref(), *deadline) }
}
