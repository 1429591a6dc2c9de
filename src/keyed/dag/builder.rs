//! Collects a graph: nodes with their jobs, and the edges between them.
//! It does not know how a graph is run.
#![forbid(unsafe_code)]

use super::super::joint::{Identity, Joint, KeyedJob};
use super::super::kind::TaskKind;
use super::super::semaphore::CpuConcurrencySemaphore;
use super::body::Body;
use super::check::Edges;
use super::cx::DagCx;
use super::error::{DagEnd, DagError};
use super::ids::{DagGate, DagNode, Link, NODES_MAX};
use crate::admission::{RequestContext, WorkAmounts};
use crate::flight::{CancellationToken, drop_contained};
use crate::runtime::{Pool, Priority};
use std::collections::HashMap;
use std::fmt;

/// What a node is to do.
pub(crate) enum Job {
    /// A call, with its type forgotten.
    Call(Body),
    /// A computation of a cache.
    Keyed(Box<dyn Joint>),
}

/// Said of no node but a few.
#[derive(Default)]
pub(crate) struct Extra {
    /// All of them must be cancelled.
    pub(crate) tokens: Vec<CancellationToken>,
    pub(crate) context: Option<RequestContext>,
    pub(crate) semaphore: Option<CpuConcurrencySemaphore>,
}

/// What is known of a node before it runs.
pub(crate) struct Spec {
    pub(crate) job: Job,
    pub(crate) kind: TaskKind,
    pub(crate) priority: Priority,
    pub(crate) kept: bool,
    /// Its place among the extras, or [`NONE`].
    pub(crate) extra: u32,
}

/// No node, no extra.
pub(crate) const NONE: u32 = u32::MAX;

/// Collects the nodes of a [`Dag`].
///
/// ```
/// use shardrun::{Dag, DagGate, Dags, Disposition, Runtime, TaskKind};
///
/// let mut dag = Dag::builder();
/// let load = dag.node(TaskKind::Load, |_| println!("loaded")).id();
/// let parse = dag.node(TaskKind::Parse, |_| Disposition::ReturnOnly).after(load).id();
/// dag.node(TaskKind::Analysis, |_| println!("never")).after(parse);
/// let look = dag.node(TaskKind::Artifact, |_| println!("a value is enough")).id();
/// dag.edge(parse, look, DagGate::OnAdmission);
/// let dag = dag.build()?;
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let report = Dags::new(&runtime).submit_dag(dag)?.wait()?;
/// assert_eq!(report.disposition(look), Disposition::Cacheable);
/// assert_eq!(report.failures().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct DagBuilder {
    specs: Vec<Spec>,
    extras: Vec<Extra>,
    pairs: Vec<(u32, Link)>,
    /// Nodes that run on the I/O threads.
    io: u32,
    /// An edge leads to a node that was added before the one that it leaves.
    backward: bool,
    key: Option<u64>,
    token: Option<CancellationToken>,
    identities: HashMap<Identity, Vec<u32>>,
    fault: Option<DagError>,
}

/// The node that was just added to a [`DagBuilder`].
pub struct DagNodeEntry<'a> {
    dag: &'a mut DagBuilder,
    id: u32,
    /// It was there before.
    again: bool,
}

impl DagBuilder {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds a node of its own, whose job is called once all edges into it are decided, if they opened. A panic of the job is a
    /// failure of the node. Interactive if nothing else is said.
    pub fn node<R: DagEnd>(
        &mut self,
        kind: TaskKind,
        job: impl FnOnce(&DagCx<'_>) -> R + Send + 'static,
    ) -> DagNodeEntry<'_> {
        self.add(kind, Job::Call(Body::new(job)))
    }

    /// Adds a node that is a computation of a cache. If the graph has the same computation already, this is that node, which has the edges
    /// of both and is as urgent as the more urgent. Two that differ in their builders or kinds are a fault of the graph.
    pub fn keyed(&mut self, kind: TaskKind, job: KeyedJob) -> DagNodeEntry<'_> {
        let KeyedJob(joint) = job;
        let known = self.identities.entry(joint.identity()).or_default();
        for &id in known.iter() {
            let spec = &self.specs[id as usize];
            let Job::Keyed(other) = &spec.job else { continue };
            if !joint.is_same(&**other) {
                continue;
            }
            if joint.builder() != other.builder() || kind != spec.kind {
                self.fault.get_or_insert(DagError::Conflict { node: DagNode(id) });
            }
            drop_contained(joint);
            return DagNodeEntry { dag: self, id, again: true };
        }
        known.push(self.specs.len() as u32);
        self.add(kind, Job::Keyed(joint))
    }

    fn add(&mut self, kind: TaskKind, job: Job) -> DagNodeEntry<'_> {
        let id = self.specs.len().min(NODES_MAX) as u32;
        if self.specs.len() >= NODES_MAX {
            self.fault.get_or_insert(DagError::TooManyNodes);
        }
        self.io += u32::from(kind.pool() == Pool::Io);
        self.specs.push(Spec { job, kind, priority: Priority::default(), kept: false, extra: NONE });
        DagNodeEntry { dag: self, id, again: false }
    }

    /// Makes `to` come after `from`, both of which may be added later. An edge said twice counts twice, and the stricter gate holds.
    pub fn edge(&mut self, from: DagNode, to: DagNode, gate: DagGate) -> &mut Self {
        if from.0.max(to.0) as usize >= NODES_MAX {
            self.fault.get_or_insert(DagError::UnknownNode { from, to });
            return self;
        }
        self.backward |= from > to;
        self.pairs.push((from.0, Link::new(to.0, gate)));
        self
    }

    /// Names the graph for the host's [`DedupeHook`](crate::DedupeHook).
    pub fn key(&mut self, key: u64) -> &mut Self {
        self.key = Some(key);
        self
    }

    /// Cancels the graph when the token is cancelled, as [`DagControl::cancel`](super::DagControl::cancel) does.
    pub fn cancel_on(&mut self, token: &CancellationToken) -> &mut Self {
        self.token = Some(token.clone());
        self
    }

    /// Nodes so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// Whether there is no node so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// Checks the graph, in time linear in its nodes and edges.
    ///
    /// # Errors
    /// The first fault found; see [`DagError`]. Nothing has been started.
    pub fn build(self) -> Result<Dag, DagError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let nodes = self.specs.len();
        for (from, link) in &self.pairs {
            let (from, to) = (DagNode(*from), DagNode(link.to()));
            if from.index() >= nodes || to.index() >= nodes {
                return Err(DagError::UnknownNode { from, to });
            }
            if from == to {
                return Err(DagError::SelfEdge { node: from });
            }
        }
        let (edges, into) = Edges::of_pairs(nodes, &self.pairs)?;
        let order = if self.backward { Some(edges.order(&into)?) } else { None };
        let mut urgency: Vec<Priority> = Vec::new();
        let uniform = self.specs.iter().all(|spec| spec.priority == self.specs[0].priority);
        if !uniform {
            urgency.extend(self.specs.iter().map(|spec| spec.priority));
            edges.urge(order.as_deref(), &mut urgency);
        }
        let (pairs, io, key, token) = (self.pairs.len() as u32, self.io, self.key, self.token);
        Ok(Dag { specs: self.specs, extras: self.extras, edges, into, urgency, pairs, io, key, token })
    }
}

impl fmt::Debug for DagBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DagBuilder").field("nodes", &self.specs.len()).field("edges", &self.pairs.len()).finish()
    }
}

impl DagNodeEntry<'_> {
    /// The node's number, to draw edges to it and to know it again.
    #[must_use]
    pub fn id(&self) -> DagNode {
        DagNode(self.id)
    }

    fn spec(&mut self) -> &mut Spec {
        &mut self.dag.specs[self.id as usize]
    }

    fn extra(&mut self) -> &mut Extra {
        let at = self.dag.extras.len() as u32;
        let place = &mut self.dag.specs[self.id as usize].extra;
        if *place == NONE {
            *place = at;
            self.dag.extras.push(Extra::default());
        }
        let place = *place as usize;
        &mut self.dag.extras[place]
    }

    /// Comes after a node, whose value it needs: [`DagGate::OnSuccess`].
    pub fn after(self, node: DagNode) -> Self {
        self.after_at(node, DagGate::OnSuccess)
    }

    /// Comes after a node, behind a gate.
    pub fn after_at(self, node: DagNode, gate: DagGate) -> Self {
        let to = DagNode(self.id);
        self.dag.edge(node, to, gate);
        self
    }

    /// How urgent it is. What it comes after is at least as urgent.
    pub fn priority(mut self, priority: Priority) -> Self {
        let again = self.again;
        let own = &mut self.spec().priority;
        *own = if again { priority.min(*own) } else { priority };
        self
    }

    /// Cancels the node when the token is cancelled, as [`DagControl::cancel_node`](super::DagControl::cancel_node) does. If this is said
    /// more than once, as of a computation that several want, all of the tokens must be cancelled.
    pub fn token(mut self, token: &CancellationToken) -> Self {
        self.extra().tokens.push(token.clone());
        self
    }

    /// On whose behalf its job runs: [`RequestContext::current`] while it does.
    pub fn context(mut self, context: RequestContext) -> Self {
        self.extra().context = Some(context);
        self
    }

    /// Takes a permit before its body runs and gives it back right after; meanwhile it waits in line without a thread. A computation of
    /// a cache says so in its request.
    pub fn semaphore(mut self, semaphore: &CpuConcurrencySemaphore) -> Self {
        self.extra().semaphore = Some(semaphore.clone());
        self
    }

    /// Somebody wants it for its own sake: it goes on behind sequential gates also if everything that it comes after is cancelled.
    pub fn keep(mut self) -> Self {
        self.spec().kept = true;
        self
    }
}

impl fmt::Debug for DagNodeEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DagNodeEntry").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// A graph of computations that was checked: without rings, with every edge between two of its nodes. It is run once.
#[must_use = "a graph does nothing before it is submitted"]
pub struct Dag {
    pub(crate) specs: Vec<Spec>,
    pub(crate) extras: Vec<Extra>,
    pub(crate) edges: Edges,
    /// How many edges lead into each node.
    pub(crate) into: Vec<u32>,
    /// How urgent each node is with all that comes after it; empty if all are equally urgent.
    pub(crate) urgency: Vec<Priority>,
    pub(crate) token: Option<CancellationToken>,
    pairs: u32,
    io: u32,
    key: Option<u64>,
}

impl Dag {
    /// Collects a graph.
    #[must_use]
    pub fn builder() -> DagBuilder {
        DagBuilder::new()
    }

    /// Nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// Edges.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.pairs as usize
    }

    /// What it was [named](DagBuilder::key).
    #[must_use]
    pub fn key(&self) -> Option<u64> {
        self.key
    }

    /// What it asks of a budget.
    #[must_use]
    pub fn amounts(&self) -> WorkAmounts {
        let nodes = self.specs.len() as u32;
        WorkAmounts { nodes, edges: self.pairs, cpu: nodes - self.io, io: self.io }
    }
}

impl fmt::Debug for Dag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dag").field("nodes", &self.len()).field("edges", &self.edges()).finish_non_exhaustive()
    }
}
