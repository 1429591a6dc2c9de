//! Memoised computations: caches of values by key, each computed once for all who ask at the same time; and graphs of computations.
//! They do not know what is computed, nor the parts beside them.

pub(crate) mod aggregate;
mod asking;
mod awaited;
mod bucket;
mod build;
mod cache;
mod caches;
mod charge;
mod core;
mod counters;
mod cx;
mod dag;
mod error;
mod joint;
mod kind;
mod memo;
mod node;
mod request;
mod retain;
mod semaphore;
pub(crate) mod shelf;
mod single;
mod table;
mod yard;

pub use awaited::CacheAsking;
pub use cache::{Cache, CacheHandle};
pub use caches::{CacheId, Caches, CachesBuilder};
pub use counters::CacheCounters;
pub use cx::BuildCx;
pub use dag::{
    Dag, DagBuilder, DagCancel, DagControl, DagCx, DagDeclined, DagEnd, DagError, DagFailure, DagGate, DagGrown,
    DagGrowth, DagGrowthEnd, DagGrowthRefused, DagHandle, DagNewNode, DagNode, DagNodeEntry, DagRefusal, DagRejected,
    DagReport, DagSubmitting, Dags,
};
pub use error::{CacheError, TypeMismatch};
pub use joint::KeyedJob;
pub use kind::{Disposition, TaskKind};
pub use memo::CacheKey;
pub use request::{CacheRequest, KeyedView};
pub use retain::Retain;
pub use semaphore::{CpuConcurrencySemaphore, CpuPermit};
pub use single::SingleFlight;

// What only the models reach into.
#[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
pub(crate) use dag::{joined, offers, word};
