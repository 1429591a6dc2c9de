//! Lanes: reads, writes, heavy builds and maintenance of many independent actors, fairly, each job answered once.
//! They know admission, flights and the runtime, and nothing of what the jobs do.
//!
//! A job's way, and who may take each step:
//!
//! | step | who | if something else comes first | where |
//! |---|---|---|---|
//! | reserve room, post, announce | the submitter | a close: it is refused, or its post comes back and it is answered | `submit`, `word`, `mailbox` |
//! | stand in a run queue | who set the ticket's bit | the bit is set: it stands there already | `executor`, `word` |
//! | take the turn, take in what was posted | who popped the ticket, with a slot | another has the turn: it is left a note | `turn`, `word` |
//! | choose by the order rules | who has the turn | nothing: what lies inside is its own | `order`, `queue` |
//! | claim the job, admit it | who has the turn | a cancel: the shell is thrown away; any change of the word: judge again | `cell`, `word` |
//! | start, run, end | the runner, or the runtime that polls a future | a cancel before the start: the slot goes back | `runner`, `future` |
//! | give back, then answer | who ended it | nothing: it is the only one | `runner`, `job` |
//! | cancel, expire, refuse | anybody | it has begun: it is signalled, or let be | `cancel`, `cell` |
//!
//! The words themselves and all their edges stand in `word.rs` (the actor), `cell.rs` (the job) and `pool.rs` (the slots).

mod actor;
mod ages;
mod answer;
mod awaited;
mod barrier;
mod blocks;
mod cancel;
mod cell;
mod config;
mod context;
mod counted;
mod current;
mod executor;
mod fence;
mod first;
mod future;
mod heavy;
mod held;
mod intake;
mod job;
mod keys;
mod kind;
#[expect(clippy::module_inception, reason = "the part is named after the executor that it is about")]
mod lanes;
mod lender;
mod lent;
mod mailbox;
mod meta;
mod nested;
mod order;
mod outside;
mod pool;
mod queue;
mod reads;
mod registry;
mod room;
mod runner;
mod share;
mod slots;
mod snapshot;
mod submit;
mod turn;
mod view;
mod word;
mod work;

pub use answer::{LaneBackpressure, LaneError, QueueScope};
pub use cancel::{CancelOutcome, JobStatus, LaneTicket};
pub use config::{LanesConfig, LanesConfigError};
pub use context::LaneCx;
pub use kind::{ActorOptions, CoalesceKey, LaneClass, LaneKind, LaneOrder, Latency, Quantum};
pub use lanes::{ActorRef, Lanes};
pub use registry::RegisterError;
pub use snapshot::{ActorCounts, Blocker, ClassLiveness, LanesLiveness, RunningJob};
pub use submit::{LaneHandle, LaneRejected};
pub use view::{PublicationHealth, PublishCx, PublishError, PublishPaths, PublishPhase, Publisher, View};
pub use work::LaneJob;

/// What the models under `tests/models` reach into.
#[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
pub(crate) mod modelled {
    pub(crate) use super::cell::{Cancelled, JobState};
    pub(crate) use super::fence::Fence;
    pub(crate) use super::first::First;
    pub(crate) use super::held::Place;
    pub(crate) use super::keys::Keys;
    pub(crate) use super::lender::Lender;
    pub(crate) use super::mailbox::{Mailbox, Posted};
    pub(crate) use super::pool::PoolWord;
    pub(crate) use super::word::{LaneWord, NoRoom, Owes, Seen};
}
