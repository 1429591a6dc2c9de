//! What a running node adds to its graph: nodes, and edges from itself and from them, to them and to nodes that come later.
//! It does not know how the graph goes on. All of a growth is linked, or nothing.
#![forbid(unsafe_code)]

use super::super::joint::KeyedJob;
use super::super::kind::TaskKind;
use super::super::semaphore::CpuConcurrencySemaphore;
use super::body::Body;
use super::builder::{Extra, Job, NONE, Spec};
use super::check::Edges;
use super::cx::DagCx;
use super::error::{DagEnd, DagError, show_path};
use super::ids::{DagGate, DagNode, Link};
use super::links::{Added, More};
use super::node::Node;
use super::run::Run;
use super::urgency::Change;
use super::walk::Walk;
use super::word::{GROWERS_MAX, Seen, Word};
use crate::admission::{RequestContext, WorkAmounts};
use crate::flight::{CancellationToken, drop_contained};
use crate::runtime::{Place, Pool, Priority};
use crate::sync::{Arc, Weak};
use std::error::Error;
use std::fmt;

/// A node that is to be added; [`DagGrown::node`] says which it has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DagNewNode(u32);

/// Where an edge of a growth begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DagGrowthEnd {
    /// A node of the graph.
    Old(DagNode),
    /// One that is to be added.
    New(DagNewNode),
}

impl From<DagNode> for DagGrowthEnd {
    fn from(node: DagNode) -> Self {
        Self::Old(node)
    }
}

impl From<DagNewNode> for DagGrowthEnd {
    fn from(node: DagNewNode) -> Self {
        Self::New(node)
    }
}

/// Collects what a running node adds to its graph. Nothing happens before it is [linked](Self::link).
///
/// ```
/// use shardrun::{Dag, DagGate, Dags, Runtime, TaskKind};
///
/// let mut dag = Dag::builder();
/// let parse = dag.node(TaskKind::Parse, |cx| {
///     let mut growth = cx.growth();
///     let import = growth.node(TaskKind::Load, |_| println!("an import that nobody knew of"));
///     growth.edge(cx.node(), import, DagGate::OnSuccess);
///     growth.edge(import, shardrun::DagNode::nth(1), DagGate::OnSuccess);
///     growth.link().map(drop)
/// });
/// let parse = parse.id();
/// let link = dag.node(TaskKind::Artifact, |_| println!("after the import too")).after(parse).id();
/// assert_eq!(link, shardrun::DagNode::nth(1));
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let report = Dags::new(&runtime).submit_dag(dag.build()?)?.wait()?;
/// assert!(report.is_success() && report.len() == 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a growth does nothing before it is linked"]
pub struct DagGrowth {
    run: Weak<Run>,
    by: u32,
    specs: Vec<(Spec, Extra)>,
    pairs: Vec<(DagGrowthEnd, DagGrowthEnd, DagGate)>,
}

/// What a growth has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DagGrown {
    first: u32,
    count: u32,
}

impl DagGrown {
    /// The node that a new one has become.
    ///
    /// # Panics
    /// If it is of another growth, with more nodes.
    #[must_use]
    pub fn node(&self, new: DagNewNode) -> DagNode {
        assert!(new.0 < self.count, "it is not of this growth");
        DagNode(self.first + new.0)
    }
}

impl DagGrowth {
    pub(super) fn new(run: Weak<Run>, by: u32) -> Self {
        Self { run, by, specs: Vec::new(), pairs: Vec::new() }
    }

    /// Adds a node. Without edges to it it is ready as soon as the growth is linked.
    pub fn node<R: DagEnd>(
        &mut self,
        kind: TaskKind,
        job: impl FnOnce(&DagCx<'_>) -> R + Send + 'static,
    ) -> DagNewNode {
        self.add(kind, Job::Call(Body::new(job)))
    }

    /// Adds a node that is a computation of a cache, as [`DagBuilder::keyed`](super::DagBuilder::keyed) does. If the graph has the same
    /// computation already, the two nodes share one execution of it; neither is in the way of the other.
    pub fn keyed(&mut self, kind: TaskKind, job: KeyedJob) -> DagNewNode {
        let KeyedJob(joint) = job;
        self.add(kind, Job::Keyed(joint))
    }

    fn add(&mut self, kind: TaskKind, job: Job) -> DagNewNode {
        let new = DagNewNode(self.specs.len() as u32);
        let spec = Spec { job, kind, priority: Priority::default(), kept: false, extra: NONE };
        self.specs.push((spec, Extra::default()));
        new
    }

    fn extra(&mut self, new: DagNewNode) -> &mut Extra {
        let (spec, extra) = &mut self.specs[new.0 as usize];
        spec.extra = 0;
        extra
    }

    /// How urgent a new node is for its own sake.
    ///
    /// # Panics
    /// If it is of another growth.
    pub fn priority(&mut self, new: DagNewNode, priority: Priority) -> &mut Self {
        self.specs[new.0 as usize].0.priority = priority;
        self
    }

    /// On whose behalf the job of a new node runs.
    ///
    /// # Panics
    /// If it is of another growth.
    pub fn context(&mut self, new: DagNewNode, context: RequestContext) -> &mut Self {
        self.extra(new).context = Some(context);
        self
    }

    /// Cancels a new node when the token is cancelled, as [`DagControl::cancel_node`](super::DagControl::cancel_node) does, also if that
    /// was before the growth is linked. If this is said more than once, all of the tokens must be cancelled.
    ///
    /// # Panics
    /// If it is of another growth.
    pub fn token(&mut self, new: DagNewNode, token: &CancellationToken) -> &mut Self {
        self.extra(new).tokens.push(token.clone());
        self
    }

    /// A new node takes a permit before its body runs, and waits in line for it without a thread.
    ///
    /// # Panics
    /// If it is of another growth.
    pub fn semaphore(&mut self, new: DagNewNode, semaphore: &CpuConcurrencySemaphore) -> &mut Self {
        self.extra(new).semaphore = Some(semaphore.clone());
        self
    }

    /// Somebody wants a new node for its own sake: it goes on behind sequential gates also if everything that it comes after is
    /// cancelled.
    ///
    /// # Panics
    /// If it is of another growth.
    pub fn keep(&mut self, new: DagNewNode) -> &mut Self {
        self.specs[new.0 as usize].0.kept = true;
        self
    }

    /// Makes `to` come after `from`: an edge from the running node or a new one, to a new one or to a node of the graph that has
    /// something else to wait for still, as everything has that comes after the running node.
    pub fn edge(&mut self, from: impl Into<DagGrowthEnd>, to: impl Into<DagGrowthEnd>, gate: DagGate) -> &mut Self {
        self.pairs.push((from.into(), to.into(), gate));
        self
    }

    /// Adds all of it. Nothing that comes after the running node starts before this is done. What the graph holds of a budget grows by
    /// it, beyond the capacity if need be, since a running node must not wait for its own graph.
    ///
    /// # Errors
    /// [`DagGrowthRefused`]; then nothing was added.
    pub fn link(mut self) -> Result<DagGrown, DagGrowthRefused> {
        let by = self.by;
        let node = DagNode(by);
        let refused = |seen: Seen| match seen.is_under_way() {
            true => DagGrowthRefused::Busy { node },
            false => DagGrowthRefused::Over { node },
        };
        let run = self.run.upgrade().ok_or(DagGrowthRefused::Over { node });
        let run = match run.and_then(|run| run.node(by).grow().map(|()| run.clone()).map_err(refused)) {
            Ok(run) => run,
            Err(refused) => {
                drop_contained(self.specs);
                return Err(refused);
            }
        };
        let linked = self.link_into(&run);
        if let Some(seen) = run.node(by).ungrow() {
            // The node has ended meanwhile.
            Walk::elsewhere(&run).release_late(by, seen);
        }
        // Of a growth that was refused: the host's, now that nobody waits for it.
        drop_contained(self.specs);
        linked
    }

    /// The edges among the new nodes, by the node that they leave, and how many edges lead into each of them.
    fn check(&self, run: &Run) -> Result<(Edges, Vec<u32>, Vec<u32>), DagGrowthRefused> {
        let new = self.specs.len() as u32;
        let (mut inner, mut into_new) = (Vec::new(), Vec::new());
        for (from, to, gate) in self.pairs.iter().copied() {
            let unknown = |end: DagGrowthEnd| match end {
                DagGrowthEnd::Old(node) => !run.has(node.0),
                DagGrowthEnd::New(node) => node.0 >= new,
            };
            if unknown(from) || unknown(to) {
                return Err(DagGrowthRefused::UnknownNode { from, to });
            }
            if from == to {
                return Err(DagGrowthRefused::SelfEdge { node: from });
            }
            match (from, to) {
                (DagGrowthEnd::Old(node), _) if node.0 != self.by => {
                    return Err(DagGrowthRefused::NotFromHere { from: node, to });
                }
                (DagGrowthEnd::New(from), DagGrowthEnd::New(to)) => inner.push((from.0, Link::new(to.0, gate))),
                (_, DagGrowthEnd::New(to)) => into_new.push(to.0),
                _ => {}
            }
        }
        let counted = Edges::of_pairs(new as usize, &inner).map_err(DagGrowthRefused::of)?;
        let (edges, mut into) = counted;
        let order = edges.order(&into).map_err(DagGrowthRefused::of)?;
        for node in into_new {
            into[node as usize] += 1;
        }
        Ok((edges, into, order))
    }

    /// Every node of the graph to which edges lead waits for them from now on.
    fn gate(&self, run: &Run) -> Result<(), DagGrowthRefused> {
        for (at, (_, to, _)) in self.pairs.iter().enumerate() {
            let DagGrowthEnd::Old(to) = *to else { continue };
            if run.node(to.0).add_gate() {
                continue;
            }
            self.take_back(run, at);
            return Err(match run.path(to.0, self.by) {
                Some(path) => DagGrowthRefused::Cycle { path },
                None => DagGrowthRefused::Started { node: to },
            });
        }
        Ok(())
    }

    /// The first so many edges were not to be.
    fn take_back(&self, run: &Run, count: usize) {
        let mut walk = Walk::elsewhere(run);
        for (_, to, _) in &self.pairs[..count] {
            if let DagGrowthEnd::Old(to) = to {
                walk.take_back(to.0);
            }
        }
    }

    fn link_into(&mut self, run: &Arc<Run>) -> Result<DagGrown, DagGrowthRefused> {
        let (inner, into, order) = self.check(run)?;
        let count = self.specs.len() as u32;
        self.gate(run)?;
        let Some(first) = run.number(count) else {
            self.take_back(run, self.pairs.len());
            return Err(DagGrowthRefused::TooLarge);
        };
        let grown = DagGrown { first, count };
        let number = |end: DagGrowthEnd| match end {
            DagGrowthEnd::Old(node) => node.0,
            DagGrowthEnd::New(new) => first + new.0,
        };
        let io = self.specs.iter().filter(|(spec, _)| spec.kind.pool() == Pool::Io).count() as u32;
        let edges: Box<[(u32, u32)]> = self.pairs.iter().map(|pair| (number(pair.0), number(pair.1))).collect();
        run.take_more(WorkAmounts { nodes: count, edges: edges.len() as u32, cpu: count - io, io });
        let own: Box<[Priority]> = self.specs.iter().map(|(spec, _)| spec.priority).collect();
        let mut links: Vec<Vec<Link>> = vec![Vec::new(); count as usize + 1];
        for (from, to, gate) in &self.pairs {
            let list = if let DagGrowthEnd::New(from) = from { from.0 } else { count };
            links[list as usize].push(Link::new(number(*to), *gate));
        }
        let mine = links.pop().unwrap_or_default();
        let mut urgent = own.to_vec();
        for new in order.into_iter().rev() {
            let old =
                links[new as usize].iter().filter(|link| link.to() < first).map(|link| run.node(link.to()).load());
            let behind = inner.of(new).iter().map(|link| urgent[link.to() as usize]);
            urgent[new as usize] = old.map(|seen| seen.priority()).chain(behind).fold(urgent[new as usize], Ord::min);
        }
        let mut ready = Vec::new();
        for (new, ((spec, extra), links)) in std::mem::take(&mut self.specs).into_iter().zip(links).enumerate() {
            let word = Word::new(into[new], urgent[new], spec.kept);
            let node = Node::new(spec.job, spec.kind, spec.extra, word);
            if into[new] == 0 {
                ready.push((first + new as u32, Place { pool: spec.kind.pool(), priority: urgent[new] }));
            }
            run.put(first + new as u32, Added::new(node, links.into(), extra));
        }
        run.offers.put();
        More::append(&run.node(self.by).cold().more, mine.into());
        run.change(Change::Grown { first, own, edges });
        // Heard before anything of it starts.
        (first..first + count).for_each(|node| run.listen_to(node));
        for (node, place) in ready {
            run.push(node, place, false);
        }
        Ok(grown)
    }
}

impl fmt::Debug for DagGrowth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DagGrowth")
            .field("by", &DagNode(self.by))
            .field("nodes", &self.specs.len())
            .field("edges", &self.pairs.len())
            .finish_non_exhaustive()
    }
}

/// Why a growth was refused. Nothing of it was added.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DagGrowthRefused {
    /// The node that was to grow the graph is over, or has not started.
    Over {
        /// The node.
        node: DagNode,
    },
    /// 63 other threads add to the graph behind the node at this moment. Once one of them is done, there is room for the next.
    Busy {
        /// The node.
        node: DagNode,
    },
    /// An edge leads to a node that the running one comes after, which would close a ring.
    Cycle {
        /// The way from the one to the other, as it stands.
        path: Vec<DagNode>,
    },
    /// The new nodes wait for one another in a ring.
    Ring {
        /// Each leads to the next, and the last is the first again.
        path: Vec<DagNewNode>,
    },
    /// An edge leads to a node that waits for nothing any more, or has too many edges.
    Started {
        /// The node.
        node: DagNode,
    },
    /// An edge leaves a node of the graph that is not the running one.
    NotFromHere {
        /// That node.
        from: DagNode,
        /// Where the edge leads to.
        to: DagGrowthEnd,
    },
    /// An edge names a node that is in neither.
    UnknownNode {
        /// Where the edge comes from.
        from: DagGrowthEnd,
        /// Where it leads to.
        to: DagGrowthEnd,
    },
    /// An edge leads from a node to itself.
    SelfEdge {
        /// The node.
        node: DagGrowthEnd,
    },
    /// The graph would have more nodes or edges than can be numbered.
    TooLarge,
}

impl DagGrowthRefused {
    /// A fault among the new nodes.
    fn of(error: DagError) -> Self {
        match error {
            DagError::Cycle { path } => Self::Ring { path: path.into_iter().map(|node| DagNewNode(node.0)).collect() },
            _ => Self::TooLarge,
        }
    }
}

impl fmt::Display for DagGrowthRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Over { node } => write!(f, "{node} does not run, so it adds nothing"),
            Self::Busy { node } => write!(f, "{GROWERS_MAX} others add to the graph behind {node} at this moment"),
            Self::Cycle { path } => {
                f.write_str("an edge back would close a ring: ")?;
                show_path(path, f)
            }
            Self::Ring { path } => {
                write!(f, "{} new nodes wait for one another in a ring", path.len().saturating_sub(1))
            }
            Self::Started { node } => write!(f, "{node} waits for nothing any more"),
            Self::NotFromHere { from, .. } => write!(f, "an edge leaves {from}, which is not the running node"),
            Self::UnknownNode { from, to } => write!(f, "an edge from {from:?} to {to:?}, one of which is unknown"),
            Self::SelfEdge { node } => write!(f, "an edge from {node:?} to itself"),
            Self::TooLarge => f.write_str("the graph would be too large to be numbered"),
        }
    }
}

impl Error for DagGrowthRefused {}
