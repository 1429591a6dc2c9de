//! What a node's job can ask while it runs.
//! It does not know how the graph goes on.
#![forbid(unsafe_code)]

use super::super::kind::TaskKind;
use super::growth::DagGrowth;
use super::ids::DagNode;
use super::run::Run;
use crate::flight::{CancellationToken, Interrupt};
use std::fmt;

/// A node's view of its graph while its job runs.
pub struct DagCx<'a> {
    run: &'a Run,
    node: u32,
}

impl<'a> DagCx<'a> {
    pub(super) fn new(run: &'a Run, node: u32) -> Self {
        Self { run, node }
    }

    /// The node.
    #[must_use]
    pub fn node(&self) -> DagNode {
        DagNode(self.node)
    }

    /// What kind of node it is.
    #[must_use]
    pub fn kind(&self) -> TaskKind {
        self.run.node(self.node).kind
    }

    /// Collects what the node adds to its graph while it runs.
    pub fn growth(&self) -> DagGrowth {
        DagGrowth::new(self.run.weak(), self.node)
    }

    /// A token that is cancelled when nobody wants the outcome any more, to be handed on.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.run.token(self.run.node(self.node))
    }

    /// Whether nobody wants the outcome any more: the node was cancelled, or its graph was ended.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.check().is_err()
    }

    /// For a job to give up with, at its next step: `cx.check()?`.
    ///
    /// # Errors
    /// Why nobody wants the outcome any more.
    pub fn check(&self) -> Result<(), Interrupt> {
        if let Some(how) = self.run.stopped() {
            return Err(how.into());
        }
        if self.run.node(self.node).load().is_cancelled() { Err(Interrupt::Cancelled) } else { Ok(()) }
    }
}

impl fmt::Debug for DagCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DagCx").field("node", &self.node()).finish_non_exhaustive()
    }
}
