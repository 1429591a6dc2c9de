//! A graph under way: its nodes, what is left of it, how it is begun, stopped and ended.
//! It does not know in which order nodes run: edges and urgency decide that, one end at a time.
#![forbid(unsafe_code)]

use super::super::kind::Disposition;
use super::super::semaphore::{CpuConcurrencySemaphore, InLine};
use super::builder::{Dag, Extra, NONE};
use super::check::Edges;
use super::error::DagFailure;
use super::first::First;
use super::ids::{DagNode, Link, NODES_MAX};
use super::joined::{Joined, Parked};
use super::links::{Added, Grown, More};
use super::node::Node;
use super::offers::Offers;
use super::report::DagReport;
use super::ticket::Ticket;
use super::urgency::{Change, Urgency};
use super::word::{Cancel, Word};
use crate::admission::{RequestContext, Reservation, WorkAmounts};
use crate::flight::combine::{self, ROUNDS_MAX, Section};
use crate::flight::{
    CancelRegistration, CancellationToken, Completion, Flight, FlightId, FlightRef, Interrupt, Killed, Left, Phase,
};
use crate::runtime::{Place, Priority, Spawner, current_pool};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::sync::{Arc, CachePadded, OnceLock, Weak};
use std::collections::HashMap;
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
    grown: Grown,
    urgency: Section<Change, Urgency>,
    /// Why nothing more is to start.
    stopped: OnceLock<Killed>,
    /// The one that the tokens of its nodes descend from.
    token: OnceLock<CancellationToken>,
    /// The host's tokens that cancel it, or nodes of it.
    heard: OnceLock<Vec<CancelRegistration>>,
    reservation: Option<Reservation>,
    /// Some node waits, or has waited, for a computation of a cache or for a permit.
    waits: AtomicBool,
    pub(super) parked: Parked,
    /// The nodes that who waits for it inside a job may run.
    pub(super) offers: Offers,
    /// Nodes that are not over, less those that were not told of yet.
    left: CachePadded<AtomicU64>,
    began: Duration,
}

impl Run {
    /// Makes a run of a graph, and the first claim on its report.
    pub(super) fn new(spawner: Spawner, dag: Dag, reservation: Option<Reservation>) -> (Arc<Self>, Waiter) {
        let Dag { specs, extras, edges, into, urgency, token, .. } = dag;
        let urgent = |node: usize, own: Priority| urgency.get(node).copied().unwrap_or(own);
        let own: Vec<Priority> = specs.iter().map(|spec| spec.priority).collect();
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
            grown: Grown::new(),
            urgency: Section::new(Urgency::new(own)),
            stopped: OnceLock::new(),
            token: OnceLock::new(),
            heard: OnceLock::new(),
            reservation,
            waits: AtomicBool::new(false),
            parked: Parked::new(),
            offers: Offers::new(),
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
        if self.extras.iter().any(|extra| !extra.tokens.is_empty()) {
            for (id, node) in self.nodes.iter().enumerate() {
                if let Some(extra) = self.extra(id as u32, node) {
                    self.hear(id as u32, extra, &mut heard);
                }
            }
        }
        let _ = self.heard.set(heard);
    }

    /// The same for a node that was just added, and that nothing has made ready yet.
    pub(super) fn listen_to(&self, node: u32) {
        let Some(added) = self.added(node).filter(|added| !added.extra.tokens.is_empty()) else { return };
        let mut heard = Vec::new();
        self.hear(node, &added.extra, &mut heard);
        let _ = added.heard.set(heard);
    }

    /// Has a node's tokens tell the run.
    fn hear(&self, node: u32, extra: &Extra, heard: &mut Vec<CancelRegistration>) {
        heard.extend(extra.tokens.iter().map(|token| {
            let run = self.me.clone();
            token.on_cancel(move || {
                if let Some(run) = run.upgrade() {
                    run.heard(node);
                }
            })
        }));
    }

    /// One of a node's tokens is cancelled.
    fn heard(&self, node: u32) {
        let extra = self.extra(node, self.node(node));
        if extra.is_some_and(|extra| extra.tokens.iter().all(CancellationToken::is_cancelled)) {
            self.cancel(node);
        }
    }

    pub(super) fn weak(&self) -> Weak<Self> {
        self.me.clone()
    }

    pub(super) fn begin(self: &Arc<Self>) {
        if self.nodes.is_empty() {
            return self.finish();
        }
        First::begin(self);
    }

    /// The edges that a node came with.
    #[inline]
    pub(super) fn first_links(&self, node: u32) -> &[Link] {
        self.edges.get(node).unwrap_or_else(|| self.at(node).1)
    }

    /// A node and the edges that it came with.
    #[inline]
    pub(super) fn at(&self, node: u32) -> (&Node, &[Link]) {
        match self.nodes.get(node as usize) {
            Some(here) => (here, self.edges.of(node)),
            None => {
                let added = self.added(node).expect("the node is of this graph");
                (&added.node, &added.links)
            }
        }
    }

    #[cold]
    fn added(&self, node: u32) -> Option<&Added> {
        self.grown.get(u64::from(node).checked_sub(self.nodes.len() as u64)?)
    }

    #[inline]
    pub(super) fn node(&self, node: u32) -> &Node {
        self.nodes.get(node as usize).unwrap_or_else(|| self.at(node).0)
    }

    /// Whether the graph has such a node.
    pub(super) fn has(&self, node: u32) -> bool {
        (node as usize) < self.nodes.len() || self.added(node).is_some()
    }

    /// How many nodes there are, those among them that are about to be added.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() + self.grown.len()
    }

    /// All edges that leave a node.
    pub(super) fn links(&self, node: u32) -> impl Iterator<Item = Link> {
        let (node, links) = self.at(node);
        let more = node.has_cold().into_iter().flat_map(|cold| More::all(&cold.more));
        links.iter().copied().chain(more)
    }

    /// What is said of a node, if anything is.
    #[inline]
    fn extra(&self, id: u32, node: &Node) -> Option<&Extra> {
        if node.extra == NONE { None } else { self.some_extra(id, node) }
    }

    #[cold]
    fn some_extra(&self, id: u32, node: &Node) -> Option<&Extra> {
        match self.added(id) {
            Some(added) => Some(&added.extra),
            None => self.extras.get(node.extra as usize),
        }
    }

    /// On whose behalf a node runs.
    #[inline]
    pub(super) fn context(&self, id: u32, node: &Node) -> Option<RequestContext> {
        self.extra(id, node)?.context.clone()
    }

    /// What a node needs a permit of.
    #[inline]
    pub(super) fn semaphore(&self, id: u32, node: &Node) -> Option<&CpuConcurrencySemaphore> {
        self.extra(id, node)?.semaphore.as_ref()
    }

    pub(super) fn arc(&self) -> Arc<Self> {
        self.me.upgrade().unwrap_or_else(|| unreachable!("whoever runs a node holds the run"))
    }

    /// Numbers for so many nodes that are added while a node runs: the first.
    pub(super) fn number(&self, count: u32) -> Option<u32> {
        let first = self.grown.take(u64::from(count), (NODES_MAX - self.nodes.len()) as u64)?;
        // ordering: the node that grows the graph is not over, so somebody tells of the last one after this.
        self.left.fetch_add(u64::from(count), Ordering::AcqRel);
        Some(self.nodes.len() as u32 + first as u32)
    }

    /// Puts an added node where its number says.
    pub(super) fn put(&self, node: u32, added: Added) {
        self.grown.put(u64::from(node) - self.nodes.len() as u64, added);
    }

    /// The graph holds so much more of its budget.
    pub(super) fn take_more(&self, amounts: WorkAmounts) {
        if let Some(reservation) = &self.reservation {
            reservation.extend(amounts);
        }
    }

    /// A way from one node to another, if there is one.
    pub(super) fn path(&self, from: u32, to: u32) -> Option<Vec<DagNode>> {
        let (mut open, mut by) = (vec![from], HashMap::from([(from, from)]));
        while let Some(node) = open.pop() {
            if node == to {
                let mut path: Vec<DagNode> =
                    std::iter::successors(Some(to), |node| by.get(node).copied().filter(|before| before != node))
                        .map(DagNode)
                        .collect();
                path.reverse();
                return Some(path);
            }
            for link in self.links(node) {
                by.entry(link.to()).or_insert_with(|| {
                    open.push(link.to());
                    node
                });
            }
        }
        None
    }

    /// Something has changed how urgent nodes are: works that in, or leaves it to who does so at the moment.
    pub(super) fn change(&self, change: Change) {
        let mut urged = Vec::new();
        let mut left =
            self.urgency.bring(change, ROUNDS_MAX, |urgency, change| urgency.serve(self, change, &mut urged));
        while left == combine::Left::Serve {
            left = self.urgency.serve(ROUNDS_MAX, |urgency, change| urgency.serve(self, change, &mut urged));
        }
        for (id, priority) in urged {
            let node = self.node(id);
            if !node.load().is_started() {
                self.push(id, Place { pool: node.kind.pool(), priority }, false);
            } else if let Some(joined) = self.joined(id) {
                joined.raise(priority);
            }
        }
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
            if self.waits.load(Ordering::Relaxed) {
                for node in 0..self.len() as u32 {
                    self.leave(node);
                }
            }
        }
    }

    /// A node that waits for a computation or a permit withdraws from it. Whether it waited for a permit, and has not run.
    fn leave(&self, node: u32) -> bool {
        if !self.has(node) {
            return false;
        }
        if let Some(joined) = self.joined(node) {
            joined.leave();
        }
        let line = self.node(node).has_cold().and_then(|cold| cold.line.get()?.upgrade());
        line.is_some_and(|line| line.leave())
    }

    fn joined(&self, node: u32) -> Option<Arc<Joined>> {
        self.node(node).has_cold()?.joined.get()?.upgrade()
    }

    /// Whether a node that has just noted what it waits for is to end: whoever said so before the note could not find it.
    fn is_told_to_end(&self, node: u32) -> bool {
        told_or_seen();
        self.stopped().is_some() || self.node(node).load().is_cancelled()
    }

    /// A node has asked for a computation, and is about to wait for it.
    pub(super) fn join(&self, node: u32, joined: &Arc<Joined>) {
        self.waits.store(true, Ordering::Relaxed);
        let _ = self.node(node).cold().joined.set(Arc::downgrade(joined));
        if self.is_told_to_end(node) {
            joined.leave();
        }
    }

    /// A node stands in line for a permit.
    pub(super) fn stand(&self, node: u32, line: &Arc<InLine>) {
        self.waits.store(true, Ordering::Relaxed);
        let _ = self.node(node).cold().line.set(Arc::downgrade(line));
        if self.is_told_to_end(node) {
            line.leave();
        }
    }

    /// Cancels a node, unless it is over.
    pub(super) fn cancel(&self, id: u32) -> Cancel {
        let node = self.node(id);
        let cancel = node.cancel();
        if let Cancel::Won { started } = cancel {
            self.change(Change::Cancelled(id));
            told_or_seen();
            if started && let Some(token) = node.has_cold().and_then(|cold| cold.token.get()) {
                token.cancel();
            }
            if started && self.leave(id) {
                return Cancel::Won { started: false };
            }
        }
        cancel
    }

    /// A token that is cancelled with the node, which runs.
    pub(super) fn token(&self, node: &Node) -> CancellationToken {
        let root = || self.token.get_or_init(CancellationToken::new);
        let token = node.cold().token.get_or_init(|| root().child());
        told_or_seen();
        if self.stopped().is_some() || node.load().is_cancelled() {
            token.cancel();
        }
        token.clone()
    }

    /// Sends a ticket of a node off, which is queued.
    pub(super) fn push(&self, node: u32, place: Place, next: bool) {
        self.offers.offer(node, place.pool);
        let job = Ticket::of(self.arc(), node, place.priority);
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
        let dispositions = (0..self.len() as u32).map(&mut look).collect();
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
        match node.shut_by() {
            Some(by) if !node.load().is_cancelled() => super::walk::behind(by, self.node(by)),
            _ => DagFailure::Interrupted(Interrupt::Cancelled),
        }
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
        format!("graph of {} computations", self.len())
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
        self.help_here()
    }

    fn watch(&self) -> bool {
        self.has_queued_here()
    }

    fn leave(&self) {
        if let Left::Last(_) = self.flight.withdraw() {
            self.stop(Killed::Cancelled);
        }
    }

    fn abandoned(&self) {
        self.flight.abandoned();
    }

    /// The computations that its nodes wait for without a thread.
    fn gates(&self, out: &mut Vec<Arc<dyn FlightRef>>) {
        if self.waits.load(Ordering::Relaxed) {
            out.extend(self.parked.flights());
        }
    }
}
