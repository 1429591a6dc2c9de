//! Work-stealing queues of the world that is built.
//! It does not know what is queued, nor in which order the queues are asked.
#![forbid(unsafe_code)]

#[cfg(not(shardrun_loom))]
pub(crate) use crossbeam_deque::{Injector, Steal, Stealer, Worker};

#[cfg(shardrun_loom)]
pub(crate) use super::standin::{Injector, Stealer, Worker};
#[cfg(shardrun_loom)]
pub(crate) use crossbeam_deque::Steal;
