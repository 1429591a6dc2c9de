//! Why a graph is refused, and why a node of it gave nothing to build on.
//! It does not know how either is found out.
#![forbid(unsafe_code)]

use super::super::kind::Disposition;
use super::ids::{DagGate, DagNode};
use crate::flight::{Interrupt, PanicReport};
use crate::sync::Arc;
use std::error::Error;
use std::fmt;

/// Why a graph was refused. Nothing of it has been started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DagError {
    /// An edge names a node that the graph does not have.
    UnknownNode {
        /// Where the edge comes from.
        from: DagNode,
        /// Where it leads to.
        to: DagNode,
    },
    /// An edge leads from a node to itself.
    SelfEdge {
        /// The node.
        node: DagNode,
    },
    /// Nodes wait for one another in a ring.
    Cycle {
        /// The ring: an edge leads from each to the next, and the last is the first again.
        path: Vec<DagNode>,
    },
    /// Two computations of one identity that differ in their builders or kinds.
    Conflict {
        /// The one that was added first.
        node: DagNode,
    },
    /// More edges lead into a node than can be counted (2²⁴ − 1).
    TooManyEdges {
        /// The node.
        node: DagNode,
    },
    /// The graph has more than 2³⁰ − 1 nodes or 2³² − 1 edges.
    TooManyNodes,
}

impl fmt::Display for DagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownNode { from, to } => {
                write!(f, "an edge from {from} to {to}, one of which is not in the graph")
            }
            Self::SelfEdge { node } => write!(f, "an edge from {node} to itself"),
            Self::Cycle { path } => {
                f.write_str("nodes wait for one another in a ring: ")?;
                show_path(path, f)
            }
            Self::Conflict { node } => write!(f, "another job for the identity of {node}"),
            Self::TooManyEdges { node } => write!(f, "too many edges into {node}"),
            Self::TooManyNodes => f.write_str("the graph is too large to be numbered"),
        }
    }
}

impl Error for DagError {}

pub(super) fn show_path(path: &[DagNode], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, node) in path.iter().enumerate() {
        if at > 0 {
            f.write_str(" -> ")?;
        }
        write!(f, "{node}")?;
    }
    Ok(())
}

/// Why a node ended as [`Disposition::Failed`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum DagFailure {
    /// Its job answered with an error.
    Job(Arc<dyn Error + Send + Sync>),
    /// Its job answered [`Disposition::Failed`], and no more.
    Said,
    /// Its job panicked.
    Panicked(PanicReport),
    /// It was not run: a node that it comes after, perhaps far before it, failed.
    Upstream {
        /// The node that failed first on the way here.
        node: DagNode,
        /// Why that one failed.
        failure: Arc<DagFailure>,
    },
    /// It was not run: a gate asked for more than the node before it gave, which did not fail.
    GateShut {
        /// The node before.
        node: DagNode,
        /// The gate between the two.
        gate: DagGate,
        /// How that node ended.
        disposition: Disposition,
    },
    /// It was cancelled, alone or with what it comes after, or its graph was ended.
    Interrupted(Interrupt),
}

impl DagFailure {
    /// The failure at the root of this one: of the node that failed first, if that is another.
    #[must_use]
    pub fn root(&self) -> &Self {
        match self {
            Self::Upstream { failure, .. } => failure.root(),
            other => other,
        }
    }

    /// Whether it, or what it comes after, was cancelled or ended from outside.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        matches!(self.root(), Self::Interrupted(_))
    }
}

impl fmt::Display for DagFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(_) => f.write_str("the node's job failed"),
            Self::Said => f.write_str("the node's job said that it failed"),
            Self::Panicked(report) => write!(f, "the node's job {report}"),
            Self::Upstream { node, .. } => write!(f, "not run, since {node} failed"),
            Self::GateShut { node, gate, disposition } => {
                write!(f, "not run, since {node} ended {disposition:?} before a gate {gate:?}")
            }
            Self::Interrupted(_) => f.write_str("the node was interrupted"),
        }
    }
}

impl Error for DagFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Job(error) => Some(&**error),
            Self::Upstream { failure, .. } => Some(&**failure),
            Self::Interrupted(interrupt) => Some(interrupt),
            // The message of a panic is part of what is shown.
            _ => None,
        }
    }
}

impl From<Box<dyn Error + Send + Sync>> for DagFailure {
    /// A failure or an interrupt that a job hands on stays what it is.
    fn from(error: Box<dyn Error + Send + Sync>) -> Self {
        let error = match error.downcast::<Self>() {
            Ok(failure) => return *failure,
            Err(error) => error,
        };
        match error.downcast::<Interrupt>() {
            Ok(interrupt) => Self::Interrupted(*interrupt),
            Err(error) => Self::Job(error.into()),
        }
    }
}

/// What a job may answer: nothing (it ends [`Disposition::Cacheable`]), a [`Disposition`], or a `Result` of either.
pub trait DagEnd {
    /// How the job ended.
    ///
    /// # Errors
    /// Why it failed.
    fn end(self) -> Result<Disposition, DagFailure>;
}

impl DagEnd for () {
    fn end(self) -> Result<Disposition, DagFailure> {
        Ok(Disposition::Cacheable)
    }
}

impl DagEnd for Disposition {
    fn end(self) -> Result<Disposition, DagFailure> {
        if self == Disposition::Failed { Err(DagFailure::Said) } else { Ok(self) }
    }
}

impl<T: DagEnd, E: Into<Box<dyn Error + Send + Sync>>> DagEnd for Result<T, E> {
    fn end(self) -> Result<Disposition, DagFailure> {
        self.map_err(|error| DagFailure::from(error.into()))?.end()
    }
}
