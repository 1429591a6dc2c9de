//! Why a plan cannot be built, in types and in words that name the things concerned.
//! It does not know how the faults are found.
#![forbid(unsafe_code)]

use super::ids::Limit;
use std::fmt;

/// Why [`PlanBuilder::build`](crate::PlanBuilder::build) refused. Nothing has been started.
///
/// Of several faults the first is told, in this order: numbers, names, dependencies, self-dependencies, cycles.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum PlanError {
    /// Two tasks have one name.
    DuplicateTask {
        /// The name.
        name: String,
    },
    /// A task names a dependency that is not in the plan.
    UnknownDependency {
        /// The task that names it.
        task: String,
        /// What it names.
        dependency: String,
    },
    /// A task depends on itself.
    SelfDependency {
        /// The task.
        task: String,
    },
    /// Tasks depend on one another in a ring.
    Cycle {
        /// The ring: each depends on the next, and the last is the first again.
        path: Vec<String>,
    },
    /// A task is assigned to a pool that was not declared.
    UnknownPool {
        /// The task.
        task: String,
        /// The pool that it names.
        pool: String,
    },
    /// A pool was declared twice.
    DuplicatePool {
        /// Its name.
        pool: String,
    },
    /// A pool's capacity is not a whole number of at least one.
    PoolCapacity {
        /// The pool.
        pool: String,
        /// What was given.
        capacity: Limit,
    },
    /// The number of tasks at a time is not a whole number of at least one.
    Concurrency {
        /// What was given.
        concurrency: Limit,
    },
    /// A task's weight is infinite or not a number.
    Weight {
        /// The task.
        task: String,
        /// What was given.
        weight: f64,
    },
    /// The plan has more than 2³¹ − 1 tasks, 2³² − 1 dependencies, 2³² − 1 bytes of names or 2¹⁶ − 2 pools.
    TooLarge,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::DuplicateTask { name } => write!(f, "two tasks are named {name}"),
            PlanError::UnknownDependency { task, dependency } => {
                write!(f, "{task} depends on {dependency}, which is not in the plan")
            }
            PlanError::SelfDependency { task } => write!(f, "{task} depends on itself"),
            PlanError::Cycle { path } => write!(f, "tasks depend on one another in a ring: {}", path.join(" -> ")),
            PlanError::UnknownPool { task, pool } => write!(f, "{task} wants pool {pool}, which is not declared"),
            PlanError::DuplicatePool { pool } => write!(f, "pool {pool} is declared twice"),
            PlanError::PoolCapacity { pool, capacity } => {
                write!(f, "pool {pool} has capacity {capacity}; it must be a whole number of at least 1")
            }
            PlanError::Concurrency { concurrency } => {
                write!(f, "concurrency is {concurrency}; it must be a whole number of at least 1")
            }
            PlanError::Weight { task, weight } => write!(f, "{task} has weight {weight}; it must be finite"),
            PlanError::TooLarge => write!(f, "the plan is too large"),
        }
    }
}

impl std::error::Error for PlanError {}
