//! Lanes: reads, writes, heavy builds and maintenance of many independent actors, fairly, each job answered once.
//! They know admission, flights and the runtime, and nothing of what the jobs do.

mod actor;
mod ages;
mod answer;
mod barrier;
mod cancel;
mod cell;
mod config;
mod context;
mod current;
mod executor;
mod future;
mod heavy;
mod held;
mod job;
mod keys;
mod kind;
#[expect(clippy::module_inception, reason = "the part is named after the executor that it is about")]
mod lanes;
mod mailbox;
mod order;
mod pool;
mod queue;
mod registry;
mod room;
mod runner;
mod slots;
mod snapshot;
mod submit;
mod turn;
mod word;
mod work;

pub use answer::{LaneBackpressure, LaneError, QueueScope};
pub use cancel::{CancelOutcome, JobStatus, LaneTicket};
pub use config::{LanesConfig, LanesConfigError};
pub use context::LaneCx;
pub use kind::{ActorOptions, CoalesceKey, LaneClass, LaneKind, LaneOrder, Latency, Quantum};
pub use lanes::{ActorRef, Lanes};
pub use snapshot::{ActorCounts, Blocker, ClassLiveness, LanesLiveness, RunningJob};
pub use submit::{LaneHandle, LaneRejected};
pub use work::LaneJob;

/// What the models under `tests/models` reach into.
#[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
pub(crate) mod modelled {
    pub(crate) use super::cell::{Cancelled, JobState};
    pub(crate) use super::keys::Keys;
    pub(crate) use super::mailbox::{Mailbox, Posted};
    pub(crate) use super::pool::PoolWord;
    pub(crate) use super::word::{LaneWord, NoRoom, Owes, Seen};
}
