//! Graphs of computations: nodes, gated edges between them, and runs in which whoever ends a node releases what comes after it.
//! They know flights and the runtime, and nothing of where a computation's value goes.

mod body;
mod builder;
mod check;
mod cx;
mod dags;
mod error;
mod first;
mod growth;
mod handle;
mod help;
mod ids;
pub(crate) mod joined;
mod limited;
mod links;
mod node;
pub(crate) mod offers;
mod report;
mod run;
mod ticket;
mod urgency;
mod walk;
pub(crate) mod word;

pub use builder::{Dag, DagBuilder, DagNodeEntry};
pub use cx::DagCx;
pub use dags::{DagDeclined, DagRefusal, DagRejected, DagSubmitting, Dags};
pub use error::{DagEnd, DagError, DagFailure};
pub use growth::{DagGrown, DagGrowth, DagGrowthEnd, DagGrowthRefused, DagNewNode};
pub use handle::{DagCancel, DagControl, DagHandle};
pub use ids::{DagGate, DagNode};
pub use report::DagReport;
