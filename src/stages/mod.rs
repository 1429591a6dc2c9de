//! The per-file pipeline: the newest Source, Analysis and Artifacts of every file, correct under constant edits.
//! It does not know what a file is, nor what its stages compute: the host does.

mod advance;
mod artifact;
mod batch;
mod capacity;
mod chain;
mod claim;
mod counters;
mod demand;
mod early;
pub(crate) mod edges;
mod edit;
mod entry;
mod error;
mod host;
mod invalidation;
mod leases;
mod lifecycle;
mod limbo;
mod line;
mod look;
mod many;
mod needed;
mod needs;
mod origin;
#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
#[path = "../../tests/support/plain_host.rs"]
mod plain_host;
pub(crate) mod profiles;
mod publish;
mod quiesce;
mod read;
mod ready;
pub(crate) mod ready_cells;
mod refs;
mod request;
mod retain;
mod revision;
mod root;
mod run;
mod scheduler;
mod sequencer;
mod shared;
mod slot;
mod stamp;
mod stripe;
mod submit;
mod submitting;
mod table;
mod target;
mod ticket;
mod tickets;
mod together;
mod trie;
mod versions;
mod wish;
mod witness;
mod world;

pub use batch::{BatchHandle, StageResult};
pub use capacity::{PoolUse, ZeroLimit};
pub use counters::StagesCounters;
pub use edges::{Dependencies, DependencyOccupancy, Registered};
pub use edit::Moved;
pub use error::{DependencyFailure, FailureCause, StageError, StageFailure};
pub use host::{Host, Stage, StageCx};
pub use invalidation::{Import, Invalidation, decide_invalidation};
pub use lifecycle::Removed;
pub use publish::{CommitRefused, RefusedCommit};
pub use request::{Joined, Request, StageHandle, StageValue};
pub use root::{SourceLookup, SourceRoot};
pub use scheduler::{StageHandleOf, Stages, StagesBuilder};
pub use sequencer::SequencerCounters;
pub use submitting::Submitting;
pub use target::{AnyTarget, Target, ToAnalysis, ToArtifact, ToSource};
pub use witness::{ForeignWitness, SourceVersion, SourceWitness};

#[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
pub(crate) use {
    advance::*, artifact::known_or_done, chain::*, claim::claim_counted, counters::Counters, demand::*, entry::*,
    leases::*, lifecycle::close, line::*, many::*, origin::*, run::After, sequencer::*, stamp::*, tickets::*, trie::*,
    versions::*, world::Worlds,
};
#[cfg(all(test, shardrun_rtsan))]
pub(crate) use {demand::*, tickets::*};
