//! What became of a graph: how each of its nodes ended, and why those that failed did.
//! It does not know how a graph is run.
#![forbid(unsafe_code)]

use super::super::kind::Disposition;
use super::error::DagFailure;
use super::ids::DagNode;
use crate::sync::Arc;
use std::fmt;
use std::time::Duration;

struct Ends {
    dispositions: Box<[Disposition]>,
    /// In order of the nodes.
    failures: Box<[(u32, Arc<DagFailure>)]>,
    elapsed: Duration,
}

/// How the nodes of a graph ended. Clones share it.
#[derive(Clone)]
pub struct DagReport {
    ends: Arc<Ends>,
}

impl DagReport {
    pub(super) fn new(
        dispositions: Box<[Disposition]>,
        failures: Box<[(u32, Arc<DagFailure>)]>,
        elapsed: Duration,
    ) -> Self {
        Self { ends: Arc::new(Ends { dispositions, failures, elapsed }) }
    }

    /// Nodes, those among them that were added while it ran.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.dispositions.len()
    }

    /// Whether there was no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether no node failed.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.ends.failures.is_empty()
    }

    /// How a node ended.
    ///
    /// # Panics
    /// If the node is not of this graph.
    #[must_use]
    pub fn disposition(&self, node: DagNode) -> Disposition {
        self.ends.dispositions[node.index()]
    }

    /// Why a node failed; none if it did not.
    #[must_use]
    pub fn failure(&self, node: DagNode) -> Option<&DagFailure> {
        let at = self.ends.failures.binary_search_by_key(&node.0, |failed| failed.0).ok()?;
        Some(&self.ends.failures[at].1)
    }

    /// The nodes that failed and why, in the order in which nodes were added.
    pub fn failures(&self) -> impl ExactSizeIterator<Item = (DagNode, &DagFailure)> {
        self.ends.failures.iter().map(|(node, failure)| (DagNode(*node), &**failure))
    }

    /// How long the graph took, on the runtime's clock.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.ends.elapsed
    }
}

impl fmt::Debug for DagReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DagReport")
            .field("nodes", &self.len())
            .field("failures", &self.ends.failures.len())
            .finish_non_exhaustive()
    }
}
