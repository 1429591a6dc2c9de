//! The dense numbers of a graph's nodes, and what an edge asks of the node that it comes from.
//! It does not know what the nodes do.
#![forbid(unsafe_code)]

use super::super::kind::Disposition;
use std::fmt;

/// A node of one graph: a dense number in the order in which nodes were added, the first is 0.
///
/// It means nothing outside the graph whose builder, or whose expansion, gave it out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DagNode(pub(crate) u32);

impl DagNode {
    /// The node that is added to a graph after so many others: for jobs that name nodes which are added after them.
    #[must_use]
    pub const fn nth(index: u32) -> Self {
        Self(index)
    }

    /// The node's place in the order of addition.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for DagNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for DagNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// What the outcome of a node must be for an edge that leaves it to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DagGate {
    /// Any: the edge says only what comes after what.
    Sequential = 0,
    /// [`Disposition::Cacheable`]. Anything else ends the node behind the edge without running it.
    #[default]
    OnSuccess = 1,
    /// [`Disposition::Cacheable`] or [`Disposition::ReturnOnly`]: there is a value. A failure ends the node behind the edge without
    /// running it.
    OnAdmission = 2,
}

impl DagGate {
    /// Whether the gate opens behind a node that ended so.
    #[must_use]
    #[inline]
    pub fn opens(self, disposition: Disposition) -> bool {
        match self {
            Self::Sequential => true,
            Self::OnSuccess => disposition == Disposition::Cacheable,
            Self::OnAdmission => disposition != Disposition::Failed,
        }
    }
}

/// Nodes that a graph may have: their numbers leave room for a gate in an edge's word.
pub(crate) const NODES_MAX: usize = (1 << 30) - 1;

/// An edge as the node that it leaves keeps it: whom it leads to, and its gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link(u32);

impl Link {
    pub(crate) fn new(to: u32, gate: DagGate) -> Self {
        Self(to | (gate as u32) << 30)
    }

    #[inline]
    pub(crate) fn to(self) -> u32 {
        self.0 & NODES_MAX as u32
    }

    #[inline]
    pub(crate) fn gate(self) -> DagGate {
        match self.0 >> 30 {
            0 => DagGate::Sequential,
            1 => DagGate::OnSuccess,
            _ => DagGate::OnAdmission,
        }
    }
}
