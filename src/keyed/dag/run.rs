//! A graph under way: its nodes, what is left of it, how it is begun, stopped and ended.
//! It does not know in which order nodes run: edges and urgency decide that, one end at a time.
#![forbid(unsafe_code)]

use super::super::kind::Disposition;
use super::builder::{Dag, Extra, NONE};
use super::check::Edges;
use super::error::DagFailure;
use super::first::First;
use super::node::Node;
use super::report::DagReport;
use super::ticket::Ticket;
use super::word::{Cancel, Word};
use crate::admission::Reservation;
use crate::flight::{
    CancelRegistration, CancellationToken, Completion, Flight, FlightId, FlightRef, Interrupt, Killed, Left, Phase,
};
use crate::runtime::{Place, Priority, Spawner, current_pool};
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::{Arc, CachePadded, OnceLock, Weak};
use std::time::Duration;

pub(super) type Waiter = Arc<Completion<DagReport, Interrupt>>;

pub(crate) struct Run {
    me: Weak<Self>,
    pub(super) spawner: Spawner,
    pub(super) flight: Flight<DagReport, Interrupt>,
    pub(super) nodes: Box<[Node]>,
    pub(super) edges: Edges,
    pub(super) extras: Box<[Extra]>,
    pub(super) first: First,
    /// Why nothing more is to start.
    stopped: OnceLock<Killed>,
    /// The one that the tokens of its nodes descend from.
    token: OnceLock<CancellationToken>,
    /// The host's tokens that cancel it, or nodes of it.
    heard: OnceLock<Vec<CancelRegistration>>,
    reservation: Option<Reservation>,
    /// Nodes that are not over, less those that were not told of yet.
    left: CachePadded<AtomicU64>,
    began: Duration,
}

impl Run {
    /// Makes a run of a graph, and the first claim on its report.
    pub(super) fn new(spawner: Spawner, dag: Dag, reservation: Option<Reservation>) -> (Arc<Self>, Waiter) {
        let Dag { specs, extras, edges, into, urgency, token, .. } = dag;
        let urgent = |node: usize, own: Priority| urgency.get(node).copied().unwrap_or(own);
        let first = First::new(specs.iter().enumerate().filter(|(node, _)| into[*node] == 0).map(|(node, spec)| {
            (node as u32, Place { pool: spec.kind.pool(), priority: urgent(node, spec.priority) })
        }));
        let nodes = specs.into_iter().enumerate().map(|(node, spec)| {
            let word = Word::new(into[node], urgent(node, spec.priority), spec.kept);
            Node::new(spec.job, spec.kind, spec.extra, word)
        });
        let nodes: Box<[Node]> = nodes.collect();
        let waiter = Completion::new();
        let flight = Flight::admitted(Priority::Interactive, Some(waiter.clone()));
        // Nobody but a run executes its flight.
        flight.word().claim().unwrap_or_else(|_| unreachable!("nobody else knows it yet"));
        let run = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            began: spawner.now(),
            spawner,
            flight,
            left: CachePadded::new(AtomicU64::new(nodes.len() as u64)),
            nodes,
            edges,
            extras: extras.into(),
            first,
            stopped: OnceLock::new(),
            token: OnceLock::new(),
            heard: OnceLock::new(),
            reservation,
        });
        run.listen(token);
        (run, waiter)
    }

    /// Has the host's tokens tell the run. Nothing has been started.
    fn listen(&self, token: Option<CancellationToken>) {
        let mut heard: Vec<CancelRegistration> = Vec::new();
        let me = &self.me;
        heard.extend(token.map(|token| {
            let run = me.clone();
            token.on_cancel(move || {
                if let Some(run) = run.upgrade() {
                    run.stop(Killed::Cancelled);
                }
            })
        }));
        if self.extras.iter().any(|extra| extra.token.is_some()) {
            for (id, node) in self.nodes.iter().enumerate() {
                let Some(token) = self.extra(node).and_then(|extra| extra.token.as_ref()) else { continue };
                let run = me.clone();
                heard.push(token.on_cancel(move || {
                    if let Some(run) = run.upgrade() {
                        run.cancel(id as u32);
                    }
                }));
            }
        }
        let _ = self.heard.set(heard);
    }

    pub(super) fn begin(self: &Arc<Self>) {
        if self.nodes.is_empty() {
            return self.finish();
        }
        First::begin(self);
    }

    pub(super) fn node(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    pub(super) fn extra(&self, node: &Node) -> Option<&Extra> {
        if node.extra == NONE { None } else { self.extras.get(node.extra as usize) }
    }

    /// Why nothing more is to start, if so.
    #[inline]
    pub(super) fn stopped(&self) -> Option<Killed> {
        self.stopped.get().copied()
    }

    /// Nothing more is to start: what waits ends so. Whoever waits for the run is told at once.
    pub(super) fn stop(&self, how: Killed) {
        if self.stopped.set(how).is_ok() {
            let _ = self.flight.kill(how);
            told_or_seen();
            if let Some(token) = self.token.get() {
                token.cancel();
            }
        }
    }

    /// Cancels a node, unless it is over.
    pub(super) fn cancel(&self, node: u32) -> Cancel {
        let node = self.node(node);
        let cancel = node.cancel();
        if let Cancel::Won { started: true } = cancel {
            told_or_seen();
            if let Some(token) = node.token.get() {
                token.cancel();
            }
        }
        cancel
    }

    /// A token that is cancelled with the node, which runs.
    pub(super) fn token(&self, node: &Node) -> CancellationToken {
        let root = || self.token.get_or_init(CancellationToken::new);
        let token = node.token.get_or_init(|| root().child());
        told_or_seen();
        if self.stopped().is_some() || node.load().is_cancelled() {
            token.cancel();
        }
        token.clone()
    }

    /// Sends a ticket of a node off.
    pub(super) fn push(&self, node: u32, place: Place, next: bool) {
        let Some(run) = self.me.upgrade() else { unreachable!("whoever runs a node holds the run") };
        let job = Ticket::of(run, node, place.priority);
        // Refused after a shutdown: dropping the ticket ends the run.
        drop(if next { self.spawner.push_next(place, job) } else { self.spawner.push(place, job) });
    }

    /// Nodes are over. Whoever tells of the last one ends the run.
    pub(super) fn tell(&self, done: u64) {
        // ordering: AcqRel gathers what all jobs did for whoever gets the report.
        if done > 0 && self.left.fetch_sub(done, Ordering::AcqRel) == done {
            self.finish();
        }
    }

    fn finish(&self) {
        let mut failures = Vec::new();
        let mut look = |node: u32| {
            let disposition = self.node(node).load().disposition();
            if disposition == Disposition::Failed {
                failures.extend(self.node(node).failure().map(|failure| (node, failure)));
            }
            disposition
        };
        let dispositions = (0..self.nodes.len() as u32).map(&mut look).collect();
        let report = DagReport::new(dispositions, failures.into(), self.spawner.now().saturating_sub(self.began));
        // Given back first: who is told may submit the next.
        if let Some(reservation) = &self.reservation {
            reservation.give_back();
        }
        // Ended before, its waiters have been told.
        let _ = self.flight.publish(Ok(report));
        self.flight.deliver();
    }

    /// Why a node is not to run that is ready: its graph has stopped, it was cancelled, or an edge into it stayed shut.
    pub(super) fn failure(&self, node: &Node) -> DagFailure {
        if let Some(how) = self.stopped() {
            return DagFailure::Interrupted(how.into());
        }
        let by = node.shut_by();
        if !node.load().is_shut() || by == NONE {
            return DagFailure::Interrupted(Interrupt::Cancelled);
        }
        super::walk::behind(by, self.node(by))
    }
}

/// Between a cancel and the look for a token to cancel; and between the making of a token and the look for a cancel.
fn told_or_seen() {
    // ordering: if the cancel came first, who makes the token sees it; else the canceller sees the token. Perhaps both do.
    fence(Ordering::SeqCst);
}

impl FlightRef for Run {
    fn id(&self) -> FlightId {
        FlightId::of(self, 0)
    }

    fn describe(&self) -> String {
        format!("graph of {} computations", self.nodes.len())
    }

    fn spawner(&self) -> Spawner {
        self.spawner.clone()
    }

    fn place(&self) -> Place {
        Place::workers(Priority::Interactive)
    }

    fn phase(&self) -> Phase {
        match self.flight.word().phase() {
            // Its nodes wait for the thread that asks, and which waits in a job of the same runtime without threads.
            Phase::Claimed if self.spawner.is_driven() && current_pool(&self.spawner).is_some() => Phase::Suspended,
            phase => phase,
        }
    }

    fn help(&self) -> bool {
        false
    }

    fn watch(&self) -> bool {
        false
    }

    fn leave(&self) {
        if let Left::Last(_) = self.flight.withdraw() {
            self.stop(Killed::Cancelled);
        }
    }

    fn abandoned(&self) {
        self.flight.abandoned();
    }
}
