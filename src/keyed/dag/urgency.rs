//! How urgent nodes are while a graph runs: as urgent as the most urgent that comes after them and was not cancelled.
//! It does not know how a node that has become more urgent gets to run earlier.
//!
//! It lives in a combining section: who brings a change while nobody serves works it in, up the edges as far as anything changes; nobody
//! waits. Where all nodes are equally urgent, cancels are only noted.
#![forbid(unsafe_code)]

use super::ids::DagGate;
use super::run::Run;
use crate::runtime::Priority;
use std::collections::HashMap;

/// What may change how urgent nodes are.
pub(super) enum Change {
    /// A node was cancelled.
    Cancelled(u32),
    /// Somebody wants a node at another priority.
    Own(u32, Priority),
    /// Nodes were added, the first of which has this number, and edges.
    Grown { first: u32, own: Box<[Priority]>, edges: Box<[(u32, u32)]> },
}

/// A node that has become more urgent.
pub(super) type Urged = (u32, Priority);

pub(super) struct Urgency {
    /// How urgent each node is for its own sake.
    own: Vec<Priority>,
    uniform: bool,
    /// Cancelled while all were equally urgent.
    noted: Vec<u32>,
    /// Nodes that were cancelled, or will be since those before them were.
    dead: Vec<bool>,
    /// Whom each node comes after: made when somebody asks, but for edges that were added.
    before: Option<Vec<Vec<u32>>>,
    added: HashMap<u32, Vec<u32>>,
}

impl Urgency {
    pub(super) fn new(own: Vec<Priority>) -> Self {
        let uniform = own.iter().all(|priority| *priority == own[0]);
        Self { own, uniform, noted: Vec::new(), dead: Vec::new(), before: None, added: HashMap::new() }
    }

    /// Works a change in.
    pub(super) fn serve(&mut self, run: &Run, change: Change, urged: &mut Vec<Urged>) {
        match change {
            Change::Cancelled(node) if self.uniform => self.noted.push(node),
            Change::Cancelled(node) => self.kill(run, node, urged),
            Change::Own(node, priority) => {
                self.own[node as usize] = priority;
                self.look(run, urged);
                self.settle(run, vec![node], urged);
            }
            Change::Grown { first, own, edges } => {
                let (from, to) = (first as usize, first as usize + own.len());
                if self.own.len() < to {
                    // Those in between are about to be told of.
                    self.own.resize(to, Priority::Maintenance);
                }
                self.own[from..to].copy_from_slice(&own);
                for (from, to) in edges {
                    self.added.entry(to).or_default().push(from);
                }
                self.look(run, urged);
                self.settle(run, (first..to as u32).collect(), urged);
            }
        }
    }

    /// If not all are equally urgent any more, what was only noted is worked in.
    fn look(&mut self, run: &Run, urged: &mut Vec<Urged>) {
        if self.uniform && self.own.iter().any(|priority| *priority != self.own[0]) {
            self.uniform = false;
            for node in std::mem::take(&mut self.noted) {
                self.kill(run, node, urged);
            }
        }
    }

    fn before(&mut self, run: &Run, node: u32) -> Vec<u32> {
        let before = self.before.get_or_insert_with(|| run.edges.reversed());
        let mut all = before.get(node as usize).cloned().unwrap_or_default();
        all.extend(self.added.get(&node).into_iter().flatten());
        all
    }

    fn is_dead(&self, node: u32) -> bool {
        self.dead.get(node as usize).copied().unwrap_or(false)
    }

    /// A node is gone, and what nobody else wants behind it.
    fn kill(&mut self, run: &Run, node: u32, urged: &mut Vec<Urged>) {
        let (mut open, mut touched) = (vec![node], Vec::new());
        while let Some(node) = open.pop() {
            if self.is_dead(node) {
                continue;
            }
            self.dead.resize(self.dead.len().max(run.len()), false);
            self.dead[node as usize] = true;
            touched.extend(self.before(run, node));
            for link in run.links(node) {
                let to = link.to();
                if link.gate() != DagGate::Sequential || self.is_orphan(run, to) {
                    open.push(to);
                }
            }
        }
        self.settle(run, touched, urged);
    }

    fn is_orphan(&mut self, run: &Run, node: u32) -> bool {
        !run.node(node).load().is_kept() && self.before(run, node).into_iter().all(|before| self.is_dead(before))
    }

    /// Looks how urgent nodes are now, and where that has changed at those before them.
    fn settle(&mut self, run: &Run, mut open: Vec<u32>, urged: &mut Vec<Urged>) {
        while let Some(node) = open.pop() {
            if self.is_dead(node) {
                continue;
            }
            let behind = run.links(node).map(|link| link.to()).filter(|to| !self.is_dead(*to));
            let wanted = behind.map(|to| run.node(to).load().priority()).fold(self.own[node as usize], Ord::min);
            let Some(before) = run.node(node).urge(wanted) else { continue };
            if wanted < before.priority() && (before.is_queued() || before.is_started()) {
                urged.push((node, wanted));
            }
            open.extend(self.before(run, node));
        }
    }
}
