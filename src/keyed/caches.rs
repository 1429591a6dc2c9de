//! The caches of one runtime, by their ids: each is opened with its types, and opened again with the same ones.
//! It does not know what they hold.
#![forbid(unsafe_code)]

use super::cache::Cache;
use super::core::{Core, Order};
use super::error::TypeMismatch;
use super::memo::{CacheKey, Typed};
use super::retain::Retain;
use super::single::SingleFlight;
use super::yard::Shared;
use crate::admission::Budget;
use crate::runtime::{Runtime, Spawner};
use crate::sync::Arc;
use crate::sync::map::HashMap;
use ahash::RandomState;
use std::any::{Any, type_name};
use std::convert::Infallible;
use std::fmt;

/// The number of a cache among those of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheId(pub u64);

impl From<u64> for CacheId {
    fn from(id: u64) -> Self {
        Self(id)
    }
}

impl fmt::Display for CacheId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cache {}", self.0)
    }
}

/// Caches of memoised computations that run on one runtime. Clones are the same.
///
/// What is computed counts against the [budget](CachesBuilder::budget), if there is one: the one that a
/// [`Stages`](crate::Stages) scheduler has, say, so that both together are bounded. Waits inside computations are seen by the wait
/// graph of the process, as all others are.
#[derive(Clone)]
pub struct Caches {
    inner: Arc<Inner>,
}

struct Inner {
    spawner: Spawner,
    budget: Option<Budget>,
    seed: Option<u64>,
    opened: HashMap<CacheId, Opened, RandomState>,
}

/// A cache whose types are known.
type OpenedAs<K, V, E> = Arc<Core<Typed<K, V, E>>>;

/// A cache, and the names of its types.
#[derive(Clone)]
struct Opened {
    core: Arc<dyn Any + Send + Sync>,
    types: &'static str,
    order: Order,
}

/// Options of caches to be built.
#[must_use = "a builder does nothing until `build` is called"]
pub struct CachesBuilder {
    spawner: Spawner,
    budget: Option<Budget>,
    seed: Option<u64>,
}

impl CachesBuilder {
    pub(crate) fn of(spawner: Spawner, budget: Option<Budget>) -> Self {
        Self { spawner, budget, seed: None }
    }

    /// Bounds how many computations may be begun and not over, one unit each; joins and hits cost nothing.
    ///
    /// A budget made [for the runtime](Budget::for_runtime) never makes a worker of that runtime wait.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Fixes how keys are hashed, so that a run on a seeded runtime can be repeated exactly.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Builds them: none is open yet.
    #[must_use]
    pub fn build(self) -> Caches {
        let Self { spawner, budget, seed } = self;
        Caches { inner: Arc::new(Inner { spawner, budget, seed, opened: HashMap::with_hasher(RandomState::new()) }) }
    }
}

impl fmt::Debug for CachesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachesBuilder").field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl Caches {
    /// Caches whose builders run on `runtime`, without a budget.
    #[must_use]
    pub fn new(runtime: &Runtime) -> Self {
        Self::builder(runtime).build()
    }

    /// Options of caches whose builders run on `runtime`.
    pub fn builder(runtime: &Runtime) -> CachesBuilder {
        CachesBuilder::of(runtime.spawner().clone(), None)
    }

    /// Opens a cache whose builders cannot fail, or finds it if it is open: then what it keeps stays as it was opened first.
    ///
    /// # Errors
    /// If it is open with other types.
    pub fn cache<K: CacheKey, V: Send + Sync + 'static>(
        &self,
        id: impl Into<CacheId>,
        retain: Retain<K, V>,
    ) -> Result<Cache<K, V>, TypeMismatch> {
        self.fallible::<K, V, Infallible>(id, retain)
    }

    /// As [`cache`](Self::cache), for builders that fail with an `E`.
    ///
    /// # Errors
    /// If it is open with other types.
    pub fn fallible<K: CacheKey, V: Send + Sync + 'static, E: Send + Sync + 'static>(
        &self,
        id: impl Into<CacheId>,
        retain: Retain<K, V>,
    ) -> Result<Cache<K, V, E>, TypeMismatch> {
        self.open(id.into(), retain, Order::EachView).map(Cache::of)
    }

    /// Opens a [`SingleFlight`] of values by key and generation, or finds it if it is open. It counts as a cache of this id, and is no
    /// [`cache`](Self::cache) else.
    ///
    /// # Errors
    /// If it is open with other types, or as a cache.
    pub fn single_flight<K: CacheKey, V: Send + Sync + 'static, E: Send + Sync + 'static>(
        &self,
        id: impl Into<CacheId>,
        retain: Retain<K, V>,
    ) -> Result<SingleFlight<K, V, E>, TypeMismatch> {
        self.open(id.into(), retain, Order::Newest).map(SingleFlight::of)
    }

    fn open<K: CacheKey, V: Send + Sync + 'static, E: Send + Sync + 'static>(
        &self,
        id: CacheId,
        retain: Retain<K, V>,
        order: Order,
    ) -> Result<OpenedAs<K, V, E>, TypeMismatch> {
        let inner = &*self.inner;
        let types = match order {
            Order::EachView => type_name::<(K, V, E)>(),
            Order::Newest => type_name::<SingleFlight<K, V, E>>(),
        };
        let found = inner.opened.get(&id, &inner.opened.guard()).cloned();
        let opened = found.unwrap_or_else(|| {
            let shared = Shared::new(id, inner.spawner.clone(), inner.budget.clone());
            let hasher = inner.seed.map_or_else(RandomState::new, |seed| RandomState::with_seeds(seed, !seed, id.0, 2));
            let core = Core::<Typed<K, V, E>>::new(shared, retain, hasher, order);
            // Who was faster has opened it.
            inner.opened.get_or_insert(id, Opened { core, types, order }, &inner.opened.guard()).clone()
        });
        let mismatch = TypeMismatch { cache: id, opened_with: opened.types, asked_for: types };
        if opened.order == order { opened.core.downcast().map_err(|_| mismatch) } else { Err(mismatch) }
    }
}

impl fmt::Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caches").field("open", &self.inner.opened.len()).finish_non_exhaustive()
    }
}
