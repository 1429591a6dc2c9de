//! Single flight by key and generation: who asks for a generation is served by what is there or under way of that one or a newer one.
//! It does not know what is built, nor where generations come from.
//!
//! It is a cache that orders what it has of a key by generation. At most one value of a key is kept, the newest; and at most one
//! computation can be joined, the newest. An older one goes on for those who had asked for it, and once it is over gives them the
//! newer value if one is there or comes, and its own if not.
#![forbid(unsafe_code)]

use super::aggregate::Over;
use super::asking::{Handled, pending};
use super::awaited::CacheAsking;
use super::bucket::Entry;
use super::build::{Build, Waiter, Work};
use super::cache::CacheHandle;
use super::charge::{Charge, Lack, Unit};
use super::core::Core;
use super::counters::{CacheCounters, Tally};
use super::cx::BuildCx;
use super::error::CacheError;
use super::memo::{CacheKey, Memo, Typed};
use super::node::Node;
use super::request::{CacheRequest, KeyedView, Limits, Wish};
use crate::flight::{
    CancellationToken, Contained, FlightRef, Handle, Interrupt, catch, drop_contained, is_active, self_wait,
};
use crate::sync::{Arc, Weak};
use std::convert::Infallible;
use std::fmt;

/// Values by key, each built at most once for a generation; whoever asks for a generation is content with a newer one. Clones are the
/// same.
///
/// * The value that is there serves all who ask for its generation or an older one, also while a newer one is built.
/// * Who asks while the same or a newer generation is built joins that. Several builds of one key run at once only for rising
///   generations, and an older one never overwrites a newer.
/// * A failure is told to all who had joined, and takes nothing away that was there.
///
/// ```
/// use shardrun::{Caches, Retain, Runtime};
/// use std::convert::Infallible;
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let trees = Caches::new(&runtime).single_flight::<&str, u64, Infallible>(1, Retain::count(100))?;
/// assert_eq!(*trees.get("main", 7, |_| Ok(70)).wait()?, 70);
/// assert_eq!(*trees.get("main", 5, |_| unreachable!("7 is newer")).wait()?, 70);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SingleFlight<K: CacheKey, V: Send + Sync + 'static, E: Send + Sync + 'static = Infallible> {
    core: Arc<Core<Typed<K, V, E>>>,
}

impl<K: CacheKey, V: Send + Sync + 'static, E: Send + Sync + 'static> Clone for SingleFlight<K, V, E> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone() }
    }
}

impl<K: CacheKey, V: Send + Sync + 'static, E: Send + Sync + 'static> fmt::Debug for SingleFlight<K, V, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleFlight").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

/// What stands of one key: the places of the kept value and of the computation that can be joined.
struct Stands {
    kept: Option<usize>,
    flying: Option<usize>,
}

impl Stands {
    /// Compares keys, which is the host's code.
    fn of<M: Memo>(seen: &[Entry<M>], key: &M::Key) -> Self {
        let at = |is: fn(&Entry<M>) -> bool| seen.iter().position(|entry| is(entry) && entry.node().key() == key);
        Self {
            kept: at(|entry| matches!(entry, Entry::Kept(_))),
            flying: at(|entry| matches!(entry, Entry::Flying(_))),
        }
    }
}

impl<K: CacheKey, V: Send + Sync + 'static, E: Send + Sync + 'static> SingleFlight<K, V, E> {
    pub(crate) fn of(core: Arc<Core<Typed<K, V, E>>>) -> Self {
        Self { core }
    }

    /// The value of a key at `generation` or a newer one: the one that is there, the one that is being built, or the one that `builder`
    /// builds. The request says the key, or the key and how urgently, on whose behalf, and what withdraws it; its view counts for
    /// nothing, since the generation stands for that. With a budget a build waits for a unit of it.
    pub fn get(
        &self,
        request: impl Into<CacheRequest<K>>,
        generation: u64,
        builder: impl FnOnce(&BuildCx<'_, K>) -> Result<V, E> + Send + 'static,
    ) -> CacheHandle<V, E>
    where
        V: Clone,
    {
        match self.ask(Unit::Wait, request.into(), generation, builder) {
            Ok(handle) => handle,
            Err((lack, _)) => Handle::ready(Err(lack.why().into())),
        }
    }

    /// As [`get`](Self::get), for who must not block: a future that asks now, and if the budget is spent stands in line from its first
    /// poll on. From the moment that it is let in it is an owner of the build, and dropping it withdraws.
    pub fn get_async(
        &self,
        request: impl Into<CacheRequest<K>>,
        generation: u64,
        builder: impl FnOnce(&BuildCx<'_, K>) -> Result<V, E> + Send + 'static,
    ) -> CacheAsking<V, E>
    where
        V: Clone,
    {
        match self.ask(Unit::Try, request.into(), generation, builder) {
            Ok(handle) => CacheAsking::owner(handle),
            Err((Lack::Declined(_), wish)) => CacheAsking::in_line(in_line(self.core.clone(), wish)),
            Err((Lack::Ended(why), _)) => CacheAsking::owner(Handle::ready(Err(why.into()))),
        }
    }

    #[expect(clippy::type_complexity, reason = "the handle, or why there is none and the wish")]
    fn ask(
        &self,
        unit: Unit,
        request: CacheRequest<K>,
        generation: u64,
        builder: impl FnOnce(&BuildCx<'_, K>) -> Result<V, E> + Send + 'static,
    ) -> Result<CacheHandle<V, E>, (Lack, Contained<Wished<Typed<K, V, E>>>)>
    where
        V: Clone,
    {
        let CacheRequest { key, wish, limits, .. } = request;
        let hash = match catch(|| self.core.hash(KeyedView::default(), &key)) {
            Ok(hash) => hash,
            Err(report) => {
                drop_contained((key, builder));
                return Ok(Handle::ready(Err(CacheError::Panicked(report))));
            }
        };
        let core = Arc::downgrade(&self.core);
        let work: Work<Typed<K, V, E>> = Box::new(move |cx| {
            let own = builder(cx)?;
            let Some(newer) = newer(&core, (hash, cx.key(), generation), cx.token()) else { return Ok(own) };
            // It is kept, or not, as the newer generation's.
            cx.return_only();
            Ok(newer)
        });
        let node = Arc::new(Node::new(self.core.shared.clone(), key, KeyedView::epoch(generation), hash));
        let mut wished = Contained::new(Wished { node, work: Some(work), wish, limits });
        let mut charge = Charge::new(self.core.shared.budget.as_ref(), unit);
        match wished.answer(&self.core, &mut charge) {
            Ok(handle) => Ok(handle),
            Err(lack) => Err((lack, wished)),
        }
    }

    /// The value that is there, and its generation. Asks for nothing.
    pub fn ready(&self, key: &K) -> Option<(u64, Arc<V>)> {
        let found = catch(|| {
            let mut seen = self.core.table.seen(self.core.hash(KeyedView::default(), key));
            let at = Stands::of(&seen, key).kept?;
            Some(seen.swap_remove(at))
        });
        let Entry::Kept(node) = found.ok().flatten()? else { return None };
        Some((node.view.epoch, node.value()?.clone()))
    }

    /// Evicts the value that is there; one that is being built stays to be kept. False if there is none.
    pub fn evict(&self, key: &K) -> bool {
        let found = catch(|| {
            let mut seen = self.core.table.seen(self.core.hash(KeyedView::default(), key));
            let at = Stands::of(&seen, key).kept?;
            Some(seen.swap_remove(at))
        });
        let evicted = found.ok().flatten().is_some_and(|entry| self.core.evict(&entry));
        self.core.freed();
        evicted
    }

    /// What has been counted.
    #[must_use]
    pub fn counters(&self) -> CacheCounters {
        self.core.counters()
    }
}

/// What is wanted: a key at a generation, and what builds it if nothing else serves.
struct Wished<M: Memo> {
    node: Arc<Node<M>>,
    /// Until it is begun.
    work: Option<Work<M>>,
    wish: Wish,
    limits: Limits,
}

impl<M: Memo> Wished<M> {
    /// The answer, or that a unit is lacking to begin with.
    fn answer(&mut self, core: &Arc<Core<M>>, charge: &mut Charge<'_>) -> Result<Handled<M>, Lack> {
        loop {
            let seen = core.table.seen(self.node.hash);
            let stands = match catch(|| Stands::of(&seen, self.node.key())) {
                Ok(stands) => stands,
                Err(report) => return Ok(Handle::ready(Err(CacheError::Panicked(report)))),
            };
            if let Some(answer) = self.served(core, &seen, &stands) {
                return Ok(answer);
            }
            if let Some(why) = self.limits.over(&core.shared.spawner) {
                return Err(Lack::Ended(why));
            }
            charge.take(&self.limits, &core.shared.spawner)?;
            let waiter = Waiter::<M>::new();
            let work = self.work.take().expect("it is there until it is begun");
            let build = Build::new((core, &self.node), &self.wish, work, waiter.clone(), charge.is_held());
            match core.begin(&seen, stands.flying, &build) {
                Ok(()) => {
                    charge.begun();
                    return Ok(pending(waiter, build, &self.limits));
                }
                // Somebody was faster.
                Err(back) => self.work = Some(back),
            }
        }
    }

    /// The answer from what is there or under way, if that is new enough.
    fn served(&self, core: &Core<M>, seen: &[Entry<M>], stands: &Stands) -> Option<Handled<M>> {
        let generation = self.node.view.epoch;
        let fresh = |at: Option<usize>| Some(&seen[at?]).filter(|entry| entry.node().view.epoch >= generation);
        let tallies = &core.shared.tallies;
        if let Some(Entry::Kept(node)) = fresh(stands.kept) {
            node.mark.used();
            tallies.one(Tally::Hit);
            return Some(Handle::ready(Ok(node.value()?.clone())));
        }
        let Some(Entry::Flying(build)) = fresh(stands.flying) else { return None };
        if is_active(build.id()) {
            return Some(Handle::ready(Err(CacheError::Reentrant(self_wait(&**build)))));
        }
        let waiter = Waiter::<M>::new();
        let joined = match build.joint.join(waiter.clone()) {
            Ok(()) => {
                build.raise(self.wish.priority);
                pending(waiter, build.clone(), &self.limits)
            }
            Err(Over::Value(value)) => Handle::ready(Ok(value)),
            Err(Over::Full) => Handle::ready(Err(Interrupt::TooManyWaiters.into())),
            Err(Over::Nothing) => return None,
        };
        tallies.one(Tally::Join);
        Some(joined)
    }
}

/// Stands in line for a unit without a thread, and is served then.
async fn in_line<M: Memo>(core: Arc<Core<M>>, mut wished: Contained<Wished<M>>) -> Handled<M> {
    let mut charge = Charge::new(core.shared.budget.as_ref(), Unit::Wait);
    let answer = match charge.take_async(&wished.limits, &core.shared.spawner).await {
        Ok(()) => wished.answer(&core, &mut charge),
        Err(lack) => Err(lack),
    };
    answer.unwrap_or_else(|lack| Handle::ready(Err(lack.why().into())))
}

/// The value of a newer generation than the one that has just been built: the kept one, or the one that is under way, for which this
/// job waits as every wait inside a job does. None if there is none.
fn newer<M: Memo<Value: Clone>>(
    core: &Weak<Core<M>>,
    (hash, key, generation): (u64, &M::Key, u64),
    token: &CancellationToken,
) -> Option<M::Value> {
    let core = core.upgrade()?;
    let seen = core.table.seen(hash);
    let stands = Stands::of(&seen, key);
    let fresh = |at: Option<usize>| Some(&seen[at?]).filter(|entry| entry.node().view.epoch > generation);
    if let Some(Entry::Flying(build)) = fresh(stands.flying) {
        let waiter = Waiter::<M>::new();
        let value = match build.joint.join(waiter.clone()) {
            // Once nobody wants the older one any more it is no reason to build the newer.
            Ok(()) => {
                pending(waiter, build.clone(), &Limits { token: Some(token.clone()), deadline: None }).wait().ok()
            }
            Err(Over::Value(value)) => Some(value),
            Err(Over::Nothing | Over::Full) => None,
        };
        if let Some(value) = value {
            return Some(M::Value::clone(&value));
        }
    }
    let Some(Entry::Kept(node)) = fresh(stands.kept) else { return None };
    node.value().map(|value| M::Value::clone(value))
}
