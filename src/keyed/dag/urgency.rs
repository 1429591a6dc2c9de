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
    /// How urgent each node is for its own sake; none of a node that has not been told of yet.
    own: Vec<Option<Priority>>,
    /// How urgent all of them are, as long as that is the same.
    uniform: Option<Priority>,
    /// Cancelled while all were equally urgent.
    noted: Vec<u32>,
    /// Nodes that were cancelled, or will be since those before them were.
    dead: Vec<bool>,
    /// Whom each node comes after: made when somebody asks, but for edges that were added.
    before: Option<Vec<Vec<u32>>>,
    added: HashMap<u32, Vec<u32>>,
    /// How many priorities were compared with that of all.
    #[cfg(test)]
    looks: usize,
}

impl Urgency {
    pub(super) fn new(own: Vec<Priority>) -> Self {
        let uniform = own.first().copied().filter(|first| own.iter().all(|priority| priority == first));
        let own = own.into_iter().map(Some).collect();
        Self {
            own,
            uniform,
            noted: Vec::new(),
            dead: Vec::new(),
            before: None,
            added: HashMap::new(),
            #[cfg(test)]
            looks: 0,
        }
    }

    /// Works a change in.
    pub(super) fn serve(&mut self, run: &Run, change: Change, urged: &mut Vec<Urged>) {
        match change {
            Change::Cancelled(node) if self.uniform.is_some() => self.noted.push(node),
            Change::Cancelled(node) => self.kill(run, node, urged),
            Change::Own(node, priority) => {
                self.make_room(node as usize + 1);
                self.own[node as usize] = Some(priority);
                self.look(run, &[priority], urged);
                self.settle(run, vec![node], urged);
            }
            Change::Grown { first, own, edges } => {
                let to = first as usize + own.len();
                self.make_room(to);
                for (from, to) in edges {
                    self.added.entry(to).or_default().push(from);
                }
                let mut open: Vec<u32> = (first..to as u32).collect();
                for (node, own) in (first..).zip(&own) {
                    match &mut self.own[node as usize] {
                        none @ None => *none = Some(*own),
                        // Somebody wanted it at another priority before it was told of; those before it have not heard.
                        Some(_) => open.extend(self.before(run, node)),
                    }
                }
                self.look(run, &own, urged);
                self.settle(run, open, urged);
            }
        }
    }

    /// Room for so many nodes: those in between are about to be told of.
    fn make_room(&mut self, nodes: usize) {
        if self.own.len() < nodes {
            self.own.resize(nodes, None);
        }
    }

    /// If not all are equally urgent any more, since these have come, what was only noted is worked in.
    fn look(&mut self, run: &Run, news: &[Priority], urged: &mut Vec<Urged>) {
        #[cfg(test)]
        {
            self.looks += if self.uniform.is_some() { news.len() } else { 0 };
        }
        if self.uniform.is_some_and(|all| news.iter().any(|priority| *priority != all)) {
            self.uniform = None;
            for node in std::mem::take(&mut self.noted) {
                self.kill(run, node, urged);
            }
        }
    }

    fn own_of(&self, node: u32) -> Priority {
        self.own.get(node as usize).copied().flatten().unwrap_or(Priority::Maintenance)
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
            let wanted = behind.map(|to| run.node(to).load().priority()).fold(self.own_of(node), Ord::min);
            let Some(before) = run.node(node).urge(wanted) else { continue };
            if wanted < before.priority() && (before.is_queued() || before.is_started()) {
                urged.push((node, wanted));
            }
            open.extend(self.before(run, node));
        }
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::super::body::Body;
    use super::super::builder::{Dag, Extra, Job, NONE};
    use super::super::cx::DagCx;
    use super::super::ids::Link;
    use super::super::links::{Added, More};
    use super::super::node::Node;
    use super::super::word::Word;
    use super::*;
    use crate::keyed::TaskKind;
    use crate::runtime::{Driver, Runtime};
    use crate::sync::Arc;

    /// A run of one node, on a runtime that runs nothing.
    fn run(runtime: &Runtime) -> Arc<Run> {
        let mut dag = Dag::builder();
        dag.node(TaskKind::Parse, |_| ()).priority(Priority::Background);
        Run::new(runtime.spawner().clone(), dag.build().unwrap(), None).0
    }

    /// A node that was added, of which the run has not been told yet.
    fn put(run: &Run, priority: Priority) -> u32 {
        let node = run.number(1).unwrap();
        let job = Job::Call(Body::new(|_: &DagCx<'_>| ()));
        let added = Node::new(job, TaskKind::Parse, NONE, Word::new(1, priority, false));
        run.put(node, Added::new(added, Box::default(), Extra::default()));
        node
    }

    fn grown(run: &Run, node: u32, own: Priority, edges: &[(u32, u32)]) {
        run.change(Change::Grown { first: node, own: Box::new([own]), edges: edges.into() });
    }

    #[test]
    fn a_wish_that_comes_before_its_node_is_told_of_is_kept_and_handed_on() {
        let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
        let (run, caught) = (run(&runtime), crate::flight::contained_panics());
        let [first, second, third] = [(); 3].map(|()| put(&run, Priority::Background));
        let told = |node: u32| run.node(node).load().priority();
        run.change(Change::Own(second, Priority::Critical));
        run.change(Change::Own(third, Priority::Interactive));
        grown(&run, first, Priority::Background, &[(0, first)]);
        More::append(&run.node(first).cold().more, Box::new([Link::new(second, DagGate::OnSuccess)]));
        grown(&run, third, Priority::Background, &[(0, third)]);
        grown(&run, second, Priority::Background, &[(first, second)]);
        assert_eq!([first, second, third].map(told), [Priority::Critical, Priority::Critical, Priority::Interactive]);
        assert_eq!(crate::flight::contained_panics(), caught);
        runtime.shutdown();
    }

    #[test]
    fn a_growth_looks_at_no_more_nodes_than_it_has() {
        let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
        let run = run(&runtime);
        let mut urgency = Urgency::new(vec![Priority::Background]);
        for _ in 0..100 {
            let node = put(&run, Priority::Background);
            let own = Box::new([Priority::Background]);
            urgency.serve(&run, Change::Grown { first: node, own, edges: Box::new([(0, node)]) }, &mut Vec::new());
        }
        assert_eq!((urgency.looks, urgency.uniform), (100, Some(Priority::Background)));
        urgency.serve(&run, Change::Own(3, Priority::Interactive), &mut Vec::new());
        assert_eq!((urgency.looks, urgency.uniform), (101, None));
        runtime.shutdown();
    }
}
