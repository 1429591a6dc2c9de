//! Workers, their queues and their sleep, deadlines, permits, and the drivers: whatever runs an erased closure.
//! It does not know flights, stages, or any other kind of work.

mod affinity;
mod barrier;
mod batch;
mod bits;
mod builder;
mod choice;
mod clock;
mod coarse;
mod contain;
mod crew;
mod current;
mod driven;
mod engine;
mod fifo;
mod fork;
mod handle;
mod hot;
mod job;
mod own;
mod permits;
mod place;
mod put_off;
mod search;
mod spawner;
mod spin;
mod start;
mod stripe;
mod threads;
mod timer;
mod waiting;
mod worker;

pub use affinity::Pinning;
pub use builder::{BuildError, Driver, RuntimeBuilder};
pub use clock::{Clock, VirtualClock};
pub use engine::RefusedBecause;
pub use handle::{Rejected, Runtime, Shutdown};
pub use place::{Place, Pool, Priority};
pub use spawner::TimerHandle;

pub(crate) use affinity::machine;
pub(crate) use bits::BitSet;
pub(crate) use choice::choose_at;
pub(crate) use contain::{call as contain, discard};
pub(crate) use engine::Attached;
pub(crate) use fork::is_forked;
pub(crate) use job::Job;
pub(crate) use permits::{Acquire, Permits, Waiting};
pub(crate) use place::LEVELS;
pub(crate) use put_off::puts_off;
pub(crate) use spawner::{Spawner, current_pool, yields};
pub(crate) use start::{Missing, blocking_if_lent, blocking_or, expose, helps_max, is_worker};
pub(crate) use stripe::{own_stripe, own_stripes, stripe, stripes};

/// What the models under `tests/models` reach into.
#[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
pub(crate) mod modelled {
    pub(crate) use super::affinity::Plan;
    pub(crate) use super::batch::Shares;
    pub(crate) use super::clock::TimeSource;
    pub(crate) use super::crew::Crew;
    pub(crate) use super::engine::{Config, Engine, Sizes};
    pub(crate) use super::fifo::Fifo;
    pub(crate) use super::hot::HotSlot;
    pub(crate) use super::search::Search;
    #[cfg(shardrun_shuttle)]
    pub(crate) use super::start::blocking;
    pub(crate) use super::threads::Threads;
    pub(crate) use super::timer::{Deadline, Timer};
    pub(crate) use super::worker::{End, Worker};
}
