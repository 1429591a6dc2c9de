//! How a request is answered: from what is kept, by joining what is under way, or by beginning a computation.
//! It does not know how a computation runs.
#![forbid(unsafe_code)]

use super::aggregate::Over;
use super::bucket::Entry;
use super::build::{Answer, Build, Waiter, Work};
use super::core::Core;
use super::counters::Tally;
use super::cx::BuildCx;
use super::error::CacheError;
use super::memo::Memo;
use super::node::Node;
use super::request::{CacheRequest, KeyedView, Wish};
use crate::admission::Refused;
use crate::flight::{
    CancellationToken, FlightRef, Handle, Interrupt, PanicReport, catch, drop_contained, is_active, self_wait,
};
use crate::sync::Arc;
use std::time::Duration;

/// How the unit of the budget is had, if a computation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Waits for it.
    Wait,
    /// Declines if there is none.
    Try,
    /// Needs none: somebody else answers for it, or has it.
    None,
    /// Has one in hand.
    Held,
}

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

type Handled<M> = Handle<Arc<<M as Memo>::Value>, CacheError<<M as Memo>::Error>>;

/// One submission to a cache.
pub(crate) struct Asking<'a, M: Memo> {
    pub(crate) core: &'a Arc<Core<M>>,
    pub(crate) unit: Unit,
}

/// A request that is not answered yet.
struct Open<M: Memo> {
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
    /// It is answered.
    Answer(Answer<M>),
    /// This one will be told of that flight.
    Flying(Arc<Waiter<M>>, Arc<Build<M>>),
}

/// How a request stands after one look.
pub(crate) enum Found<M: Memo> {
    /// The answer.
    Answer(Answer<M>),
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

impl<M: Memo> Asking<'_, M> {
    /// Answers a request. Declined, nothing has been changed.
    pub(crate) fn ask(
        self,
        request: CacheRequest<M::Key>,
        builder: impl FnOnce(&BuildCx<'_, M::Key>) -> Result<M::Value, M::Error> + Send + 'static,
    ) -> Result<(Handled<M>, Asked), Refused> {
        let CacheRequest { key, view, wish, token, deadline } = request;
        let (begun, asked) = self.look(key, view, wish, builder)?;
        let handle = match begun {
            Begun::Answer(answer) => Handle::ready(answer),
            Begun::Flying(waiter, build) => pending(waiter, build, (token, deadline)),
        };
        Ok((handle, asked))
    }

    /// The same for who needs no handle.
    pub(crate) fn look(
        self,
        key: M::Key,
        view: KeyedView,
        wish: Wish,
        builder: impl FnOnce(&BuildCx<'_, M::Key>) -> Result<M::Value, M::Error> + Send + 'static,
    ) -> Result<(Begun<M>, Asked), Refused> {
        let look = || {
            let hash = self.core.hash(view, &key);
            (hash, self.kept(view, &key, hash))
        };
        let hash = match catch(look) {
            Ok((hash, None)) => hash,
            Ok((_, Some(value))) => return Ok(self.spared((key, builder), Ok(value))),
            Err(report) => return Ok(self.spared((key, builder), Err(CacheError::Panicked(report)))),
        };
        let open = Open { key: Key::Bare(key), hash, view, wish, work: Box::new(builder) };
        self.begin(open)
    }

    /// The answer of a request whose key and builder are not needed.
    fn spared(&self, rest: impl Sized, answer: Answer<M>) -> (Begun<M>, Asked) {
        drop_contained(rest);
        (Begun::Answer(answer), Asked::Answered)
    }

    /// The kept value, which nearly every request of a warm cache finds. Compares keys under the guard, as a borrowed read does.
    fn kept(&self, view: KeyedView, key: &M::Key, hash: u64) -> Option<Arc<M::Value>> {
        let guard = self.core.table.guard();
        let found = self.core.table.find(hash, |node| node.view == view && node.key() == key, &guard)?;
        let Entry::Kept(node) = found else { return None };
        let value = node.value()?.clone();
        self.hit(node);
        Some(value)
    }

    fn hit(&self, node: &Node<M>) {
        node.mark.used();
        self.core.shared.tallies.one(Tally::Hit);
    }

    fn begin(mut self, mut open: Open<M>) -> Result<(Begun<M>, Asked), Refused> {
        let core = self.core;
        loop {
            let seen = core.table.seen(open.hash);
            let key = open.key.key();
            let at =
                catch(|| seen.iter().position(|entry| entry.node().view == open.view && entry.node().key() == key));
            let at = match at {
                Ok(at) => at,
                Err(report) => return Ok(self.panicked(open, report)),
            };
            match at.map_or(Found::Nothing, |at| self.join(&seen[at], &open.wish)) {
                Found::Answer(answer) => {
                    self.give_back();
                    return Ok(self.spared(open, answer));
                }
                Found::Joined(waiter, build) => {
                    self.give_back();
                    drop_contained(open);
                    return Ok((Begun::Flying(waiter, build), Asked::Joined));
                }
                Found::Nothing => {}
            }
            if !self.has_unit()? {
                return Ok(self.spared(open, Err(Interrupt::Stalled.into())));
            }
            let node = open.key.node(core, open.view, open.hash);
            let waiter = Waiter::<M>::new();
            let charged = self.unit == Unit::Held;
            let build = Build::new((core, &node), &open.wish, open.work, waiter.clone(), charged);
            match core.begin(&seen, at, &build) {
                Ok(()) => return Ok((Begun::Flying(waiter, build), Asked::Begun)),
                // Somebody was faster.
                Err(work) => open.work = work,
            }
        }
    }

    fn panicked(mut self, open: Open<M>, report: PanicReport) -> (Begun<M>, Asked) {
        self.give_back();
        self.spared(open, Err(CacheError::Panicked(report)))
    }

    /// Joins what stands under the identity, as far as it can be joined.
    fn join(&self, entry: &Entry<M>, wish: &Wish) -> Found<M> {
        let build = match entry {
            Entry::Kept(node) => {
                self.hit(node);
                return node.value().map_or(Found::Nothing, |value| Found::Answer(Ok(value.clone())));
            }
            Entry::Flying(build) => build,
        };
        if is_active(build.id()) {
            return Found::Answer(Err(CacheError::Reentrant(self_wait(&**build))));
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
                Found::Answer(Ok(value))
            }
            Err(Over::Nothing) => Found::Nothing,
            Err(Over::Full) => Found::Answer(Err(Interrupt::TooManyWaiters.into())),
        }
    }

    /// Sees to it that a unit of the budget is in hand, if one is needed; false if it could never be had by waiting.
    fn has_unit(&mut self) -> Result<bool, Refused> {
        let Some(budget) = &self.core.shared.budget else { return Ok(true) };
        match self.unit {
            Unit::None | Unit::Held => return Ok(true),
            Unit::Try if budget.take(1) => {}
            Unit::Try => return Err(budget.refused(1)),
            Unit::Wait if budget.take_waiting(1, None).is_ok() => {}
            Unit::Wait => return Ok(false),
        }
        self.unit = Unit::Held;
        Ok(true)
    }

    /// Gives back the unit that is in hand and not needed.
    fn give_back(&mut self) {
        if let (Unit::Held, Some(budget)) = (self.unit, &self.core.shared.budget) {
            budget.release(1);
            self.unit = Unit::None;
        }
    }
}

/// The handle of who waits for a computation.
fn pending<M: Memo>(
    waiter: Arc<Waiter<M>>,
    build: Arc<Build<M>>,
    (token, deadline): (Option<CancellationToken>, Option<Duration>),
) -> Handled<M> {
    let spawner = build.spawner();
    let handle = Handle::pending(waiter, build as Arc<dyn FlightRef>);
    if token.is_none() && deadline.is_none() { handle } else { handle.until(&spawner, token.as_ref(), deadline) }
}
