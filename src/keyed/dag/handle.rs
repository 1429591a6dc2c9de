//! The claim on the report of a graph, and what can be told to the graph while it runs.
//! It does not know how the graph does what it is told.
#![forbid(unsafe_code)]

use super::growth::DagGrowth;
use super::ids::DagNode;
use super::report::DagReport;
use super::run::{Run, Waiter};
use super::urgency::Change;
use super::word::Cancel;
use crate::flight::{CancelOnDrop, Completion, Handle, Interrupt, Killed};
use crate::runtime::Priority;
use crate::sync::{Arc, Weak};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// The claim on a graph's report: await it, wait for it, or look whether it is there. Dropping it detaches: the graph goes on.
#[must_use = "dropping the handle detaches the graph and loses its report; say `detach()` if that is meant"]
pub struct DagHandle {
    handle: Handle<DagReport, Interrupt>,
    control: DagControl,
}

impl DagHandle {
    pub(super) fn new(run: Arc<Run>, waiter: Waiter) -> Self {
        let control = DagControl { run: Arc::downgrade(&run) };
        Self { handle: Handle::pending(waiter, run), control }
    }

    /// Waits until every node is over. Inside a job the thread runs nodes of the graph meanwhile that are ready and may run on it.
    ///
    /// # Errors
    /// If the graph was ended from outside, or waiting here could never end; in that case it is detached, and goes on.
    pub fn wait(self) -> Result<DagReport, Interrupt> {
        self.handle.wait()
    }

    /// As [`wait`](Self::wait), for at most `limit`; none if the graph is not over by then.
    pub fn wait_timeout(&mut self, limit: Duration) -> Option<Result<DagReport, Interrupt>> {
        self.handle.wait_timeout(limit)
    }

    /// The report, if the graph is over.
    pub fn try_get(&mut self) -> Option<Result<DagReport, Interrupt>> {
        self.handle.try_get()
    }

    /// Whether the graph is over, or its report has been taken from here.
    #[must_use]
    pub fn is_resolved(&self) -> bool {
        self.handle.is_resolved()
    }

    /// Withdraws: this handle's result is `Cancelled`, at once. If no other handle is left the graph is cancelled: what has not
    /// started does not, what runs is told ([`DagCx::is_cancelled`](super::DagCx::is_cancelled)).
    pub fn cancel(&self) {
        self.handle.cancel();
    }

    /// Lets the graph go on without this handle.
    pub fn detach(self) {
        self.handle.detach();
    }

    /// Makes dropping withdraw, as [`cancel`](Self::cancel) does.
    pub fn cancel_on_drop(self) -> CancelOnDrop<DagReport, Interrupt> {
        self.handle.cancel_on_drop()
    }

    /// What can be told to the graph, from anywhere and for as long as it lasts.
    #[must_use]
    pub fn control(&self) -> DagControl {
        self.control.clone()
    }
}

impl Future for DagHandle {
    type Output = Result<DagReport, Interrupt>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.handle).poll(cx)
    }
}

impl fmt::Debug for DagHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DagHandle").field("is_resolved", &self.is_resolved()).finish_non_exhaustive()
    }
}

/// What can be told to a graph while it runs. It keeps no graph alive; after the graph's end nothing happens.
#[derive(Clone)]
pub struct DagControl {
    run: Weak<Run>,
}

impl DagControl {
    /// One more claim on the report, which counts as one more who wants the graph. None if it is over.
    #[must_use]
    pub fn join(&self) -> Option<DagHandle> {
        let run = self.run.upgrade()?;
        let waiter = Completion::new();
        run.flight.join_anew(waiter.clone()).ok()?;
        Some(DagHandle::new(run, waiter))
    }

    /// Cancels the graph, whoever wants it: what has not started does not, what runs is told, and every handle is answered
    /// `Cancelled` at once.
    pub fn cancel(&self) {
        self.stop(Killed::Cancelled);
    }

    /// A newer graph takes this one's place: as [`cancel`](Self::cancel), and every handle is answered `Superseded`.
    pub fn supersede(&self) {
        self.stop(Killed::Superseded);
    }

    /// Cancels one node, unless it is over: if it has not started it does not run, if it runs it is told, and what its job answers
    /// then is dropped. What comes after it is cancelled with it, and what comes after that: behind conditional gates always,
    /// behind sequential ones if everything that it comes after was cancelled and it is not [kept](super::DagNodeEntry::keep).
    ///
    /// # Panics
    /// If the node is not of this graph.
    pub fn cancel_node(&self, node: DagNode) -> DagCancel {
        let run = self.run.upgrade();
        assert!(run.as_ref().is_none_or(|run| run.has(node.0)), "{node} is not of this graph");
        match run.map(|run| run.cancel(node.0)) {
            Some(Cancel::Won { started: false }) => DagCancel::Cancelled,
            Some(Cancel::Won { started: true }) => DagCancel::Told,
            Some(Cancel::Late) | None => DagCancel::Late,
        }
    }

    /// Makes a node as urgent as `priority` for its own sake, or less; what it comes after is at least as urgent. Does nothing to what
    /// is over.
    ///
    /// # Panics
    /// If the node is not of this graph.
    pub fn set_priority(&self, node: DagNode, priority: Priority) {
        if let Some(run) = self.run.upgrade() {
            assert!(run.has(node.0), "{node} is not of this graph");
            run.change(Change::Own(node.0, priority));
        }
    }

    /// Collects what a running node adds to the graph, for other threads than that which runs it. Linking is refused once the node is
    /// over.
    ///
    /// # Panics
    /// If the node is not of this graph.
    pub fn growth(&self, node: DagNode) -> DagGrowth {
        assert!(self.run.upgrade().is_none_or(|run| run.has(node.0)), "{node} is not of this graph");
        DagGrowth::new(self.run.clone(), node.0)
    }

    fn stop(&self, how: Killed) {
        if let Some(run) = self.run.upgrade() {
            run.stop(how);
        }
    }
}

/// What became of the cancel of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DagCancel {
    /// Its job had not begun, and will not.
    Cancelled,
    /// Its job runs, or what it waits for does: it was told, and its outcome is that it was cancelled.
    Told,
    /// It was over, or had been cancelled before.
    Late,
}

impl fmt::Debug for DagControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DagControl")
    }
}
