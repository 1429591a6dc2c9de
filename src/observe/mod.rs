//! What a host may look at: counters that every worker keeps, and one observer that is told what happens.
//! It does not know who calls it: all parts do, and it calls none of them.
#![forbid(unsafe_code)]

mod counters;
mod event;

pub use counters::{Counters, WorkerReport};
pub(crate) use counters::{Tally, WorkerCounters};
pub use event::{Event, Observer, WorkerId, WorkerKind};
