//! Runs a task graph once, in order and within its limits.
//! It knows neither files nor caches nor processes: what a task does is the host's business.
#![forbid(unsafe_code)]

mod builder;
mod edges;
mod error;
mod ids;
mod names;
mod plan;
mod rank;

pub use builder::{PlanBuilder, TaskEntry};
pub use error::PlanError;
pub use ids::{Limit, PoolId, TaskId};
pub use plan::Plan;
