//! The face of a cache: borrow what is kept, ask for a value and have it computed once, evict, count.
//! It does not know how a computation runs, nor which values make room.
#![forbid(unsafe_code)]

use super::asking::{Asked, Asking};
use super::awaited::CacheAsking;
use super::bucket::Entry;
use super::caches::CacheId;
use super::charge::{Lack, Unit};
use super::core::Core;
use super::counters::{CacheCounters, Tally};
use super::cx::BuildCx;
use super::error::CacheError;
use super::joint::{self, KeyedJob};
use super::memo::{CacheKey, Typed};
use super::request::{CacheRequest, KeyedView};
use crate::admission::Admission;
use crate::flight::{Handle, catch};
use crate::sync::Arc;
use std::borrow::Borrow;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::hash::Hash;

/// The handle of one computation's value.
pub type CacheHandle<V, E> = Handle<Arc<V>, CacheError<E>>;

/// Memoised computations of one kind: values by key, each computed once for all who ask for it at the same time, and kept as far as
/// the cache was opened to keep them. Clones are the same cache.
///
/// * **One builder per identity in flight.** Who asks while it runs joins it, and all get the same value. An identity is a key in a
///   [view](KeyedView).
/// * **Withdrawing** one handle ends nobody else's wait. Once all who asked have withdrawn, the builder's token is cancelled and its
///   value dropped; who asks after that begins anew.
/// * **Failures are not kept**: all who had joined get the same error, and the next who asks begins anew.
/// * **A builder may wait for other values**, of this cache too: its thread computes them meanwhile. How deep such waits may stand on
///   one another is bounded by the stack ([`Interrupt::TooDeep`](crate::Interrupt::TooDeep)); long chains are better a
///   [`Dag`](crate::Dag), or built from below.
/// * **A hit costs no reference count** when it is [borrowed](Self::with), and takes no lock ever.
///
/// ```
/// use shardrun::{Caches, Retain, Runtime};
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let caches = Caches::new(&runtime);
/// let squares = caches.cache::<u64, u64>(1, Retain::count(1_000))?;
/// let nine = squares.get_or_build(3, |cx| Ok(cx.key() * cx.key())).wait()?;
/// assert_eq!(*nine, 9);
/// assert_eq!(squares.with(&3, |square| square + 1), Some(10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cache<K: CacheKey, V: Send + Sync + 'static, E: Send + Sync + 'static = Infallible> {
    core: Arc<Core<Typed<K, V, E>>>,
}

impl<K: CacheKey, V: Send + Sync + 'static, E: Send + Sync + 'static> Clone for Cache<K, V, E> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone() }
    }
}

impl<K: CacheKey, V: Send + Sync + 'static, E: Send + Sync + 'static> fmt::Debug for Cache<K, V, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("id", &self.id()).field("counters", &self.counters()).finish()
    }
}

impl<K: CacheKey, V: Send + Sync + 'static, E: Send + Sync + 'static> Cache<K, V, E> {
    pub(crate) fn of(core: Arc<Core<Typed<K, V, E>>>) -> Self {
        Self { core }
    }

    /// Which cache it is.
    #[must_use]
    pub fn id(&self) -> CacheId {
        self.core.shared.id
    }

    /// Calls `f` with the kept value of `key`, if there is one, without counting a reference: for many threads that read one value.
    ///
    /// As long as `f` runs nothing is freed that has been evicted from this cache meanwhile. So let it be short, and let it not wait. It
    /// may use the cache. If it panics, so does this call; a panic of the key's `Hash` or `Eq` finds nothing.
    #[inline]
    pub fn with<Q, R>(&self, key: &Q, f: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.with_in(KeyedView::default(), key, f)
    }

    /// As [`with`](Self::with), in a view.
    #[inline]
    pub fn with_in<Q, R>(&self, view: KeyedView, key: &Q, f: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.kept(view, key, |value| f(value))
    }

    fn kept<Q, R>(&self, view: KeyedView, key: &Q, f: impl FnOnce(&Arc<V>) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let core = &*self.core;
        let guard = core.table.guard();
        let look = || {
            let hash = core.hash(view, key);
            core.table.find(hash, |node| node.view == view && node.key().borrow() == key, &guard)
        };
        // Hashing and comparing is the host's code.
        let Entry::Kept(node) = catch(look).ok().flatten()? else { return None };
        let value = node.value()?;
        node.mark.used();
        core.shared.tallies.one(Tally::Hit);
        Some(f(value))
    }

    /// The kept value of `key`, if there is one.
    pub fn get<Q>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get_in(KeyedView::default(), key)
    }

    /// As [`get`](Self::get), in a view.
    pub fn get_in<Q>(&self, view: KeyedView, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.kept(view, key, Arc::clone)
    }

    /// Asks for a value. If it is kept the handle has it at once; if it is being computed this request joins; else `builder` computes
    /// it, as a job of the runtime. With a budget a new computation waits for a unit of it, as
    /// [`Budget::acquire`](crate::Budget::acquire) does.
    ///
    /// Asked from inside the computation of the same identity, on the same thread, the handle says [`CacheError::Reentrant`] at once,
    /// and nothing is submitted; by way of other threads, whoever would wait is told so.
    pub fn get_or_build(
        &self,
        request: impl Into<CacheRequest<K>>,
        builder: impl FnOnce(&BuildCx<'_, K>) -> Result<V, E> + Send + 'static,
    ) -> CacheHandle<V, E> {
        match Asking::ask(&self.core, Unit::Wait, request.into(), builder) {
            Ok((handle, _)) => handle,
            Err((lack, _)) => Handle::ready(Err(lack.why().into())),
        }
    }

    /// As [`get_or_build`](Self::get_or_build), but never waits for the budget. Declined, it has changed nothing.
    pub fn try_get_or_build(
        &self,
        request: impl Into<CacheRequest<K>>,
        builder: impl FnOnce(&BuildCx<'_, K>) -> Result<V, E> + Send + 'static,
    ) -> Admission<CacheHandle<V, E>> {
        match Asking::ask(&self.core, Unit::Try, request.into(), builder) {
            Ok((handle, Asked::Joined)) => Admission::DedupeJoined(handle),
            Ok((handle, _)) => Admission::Admitted(handle),
            Err((Lack::Declined(refused), _)) => Admission::Backpressured(refused),
            Err((Lack::Ended(why), _)) => Admission::Admitted(Handle::ready(Err(why.into()))),
        }
    }

    /// As [`get_or_build`](Self::get_or_build), for who must not block: a future that asks now, and if the budget is spent stands in line
    /// from its first poll on. From the moment that it is let in it is an owner of the computation, and dropping it withdraws.
    ///
    /// ```
    /// use shardrun::{CacheRequest, Caches, Retain, Runtime};
    ///
    /// let runtime = Runtime::builder().workers(2).build()?;
    /// let squares = Caches::new(&runtime).cache::<u64, u64>(1, Retain::count(1_000))?;
    /// let cache = squares.clone();
    /// let sum = runtime.spawn_future(async move {
    ///     let three = cache.get_or_build_async(3, |cx| Ok(cx.key() * cx.key())); // both are under way
    ///     let four = cache.get_or_build_async(CacheRequest::key(4), |cx| Ok(cx.key() * cx.key()));
    ///     Ok::<_, shardrun::CacheError<_>>(*three.await? + *four.await?)
    /// });
    /// assert_eq!(sum.wait()??, 25);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_or_build_async(
        &self,
        request: impl Into<CacheRequest<K>>,
        builder: impl FnOnce(&BuildCx<'_, K>) -> Result<V, E> + Send + 'static,
    ) -> CacheAsking<V, E> {
        match Asking::ask(&self.core, Unit::Try, request.into(), builder) {
            Ok((handle, _)) => CacheAsking::owner(handle),
            Err((Lack::Declined(_), waits)) => CacheAsking::in_line(waits.handle()),
            Err((Lack::Ended(why), _)) => CacheAsking::owner(Handle::ready(Err(why.into()))),
        }
    }

    /// A computation to be a node of a graph ([`DagBuilder::keyed`](super::DagBuilder::keyed)): it is asked for when it is the node's turn,
    /// joins what is under way then, from other graphs and requests too, and takes no unit of the budget, since its graph holds what it
    /// needs. The request's token and deadline count for nothing there; the node has its own.
    pub fn node(
        &self,
        request: impl Into<CacheRequest<K>>,
        builder: impl FnOnce(&BuildCx<'_, K>) -> Result<V, E> + Send + 'static,
    ) -> KeyedJob
    where
        E: Error,
    {
        KeyedJob(Box::new(joint::Asked::new(self.core.clone(), request.into(), builder)))
    }

    /// Evicts a value: what is kept is dropped once nobody reads it, and what is being computed goes to those alone who have asked for
    /// it. The next who asks begins anew. False if there is neither.
    pub fn evict<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.evict_in(KeyedView::default(), key)
    }

    /// As [`evict`](Self::evict), in a view.
    pub fn evict_in<Q>(&self, view: KeyedView, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let core = &*self.core;
        let found = catch(|| {
            let mut seen = core.table.seen(core.hash(view, key));
            let at = seen.iter().position(|entry| entry.node().view == view && entry.node().key().borrow() == key)?;
            Some(seen.swap_remove(at))
        });
        let evicted = found.ok().flatten().is_some_and(|entry| core.evict(&entry));
        core.freed();
        evicted
    }

    /// Evicts everything; how many there were. What is added meanwhile may stay.
    pub fn clear(&self) -> usize {
        let evicted = self.core.table.all().iter().filter(|entry| self.core.evict(entry)).count();
        self.core.freed();
        evicted
    }

    /// What the cache has counted.
    #[must_use]
    pub fn counters(&self) -> CacheCounters {
        self.core.counters()
    }
}
