//! Runs a task graph once, in order and within its limits.
//! It knows neither files nor caches nor processes: what a task does is the host's business.

mod budget;
mod builder;
mod cohorts;
pub(crate) mod counted;
mod course;
mod edges;
mod ended;
mod engine;
mod error;
mod history;
mod ids;
mod jobserver;
mod machine;
mod names;
pub(crate) mod nested;
mod observer;
mod outcome;
mod plan;
mod policy;
mod pressure;
mod rank;
mod run;
mod status;
mod task;

pub use budget::{ResourceBudget, Solo};
pub use builder::{PlanBuilder, TaskEntry};
pub use counted::{CountedEnd, CountedReport, CountedRun, NotUniform};
pub use ended::{Ended, TaskEnd, TaskFailure};
pub use error::PlanError;
pub use history::History;
pub use ids::{Limit, PoolId, TaskId};
pub use jobserver::{JobClient, JobServer, JobServerError};
pub use observer::RunObserver;
pub use outcome::{RunReport, Tally, TaskOutcome};
pub use plan::Plan;
pub use policy::{Answer, Axis, Covers, Freed, Policy, PolicyWaker, Refusal, Running, Usage, Wake, policy_fn};
pub use pressure::{Memory, MemoryPressure};
pub use run::{Run, RunControl, RunError, RunHandle};
pub use status::{ContinueMode, TaskStatus};
pub use task::{TaskCx, Upstream};
