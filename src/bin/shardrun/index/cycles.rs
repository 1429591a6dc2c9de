//! A directed graph: what reaches a node, and its strongly connected components, by Tarjan's algorithm without recursion.
//! It does not know what the nodes are.
#![forbid(unsafe_code)]

/// A directed graph of numbered nodes, which are added in order with their edges.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    ends: Vec<u32>,
    targets: Vec<u32>,
}

impl Graph {
    /// Adds the next node, with edges to `targets`.
    pub(crate) fn push(&mut self, targets: &[u32]) {
        self.targets.extend_from_slice(targets);
        self.ends.push(self.targets.len() as u32);
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.ends.len()
    }

    /// How many edges there are.
    pub(crate) fn edges(&self) -> usize {
        self.targets.len()
    }

    /// Where the edges of a node lead.
    pub(crate) fn targets(&self, node: usize) -> &[u32] {
        let start = if node == 0 { 0 } else { self.ends[node - 1] as usize };
        &self.targets[start..self.ends[node] as usize]
    }

    /// How many edges lead to each node.
    pub(crate) fn in_degrees(&self) -> Vec<u32> {
        let mut degrees = vec![0; self.nodes()];
        for &target in &self.targets {
            degrees[target as usize] += 1;
        }
        degrees
    }

    /// The strongly connected components, each after those that its nodes lead to.
    pub(crate) fn components(&self) -> Components {
        let mut search = Search::new(self.nodes());
        for node in 0..self.nodes() {
            if search.order[node] == UNSEEN {
                search.from(self, node);
            }
        }
        search.components
    }

    /// All strongly connected components of more than one node: the nodes of each sorted, the largest component first.
    pub(crate) fn cycles(&self) -> Vec<Vec<u32>> {
        let components = self.components();
        let mut cycles: Vec<Vec<u32>> =
            components.iter().filter(|members| members.len() > 1).map(<[u32]>::to_vec).collect();
        cycles.iter_mut().for_each(|cycle| cycle.sort_unstable());
        cycles.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        cycles
    }

    /// Whether each node is one of `starts` or leads to one of them.
    pub(crate) fn reaching(&self, starts: &[u32]) -> Vec<bool> {
        let mut ends = self.in_degrees();
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        let mut sources = vec![0; self.edges()];
        let mut free = ends.clone();
        for node in 0..self.nodes() {
            for &target in self.targets(node) {
                free[target as usize] -= 1;
                sources[free[target as usize] as usize] = node as u32;
            }
        }
        let mut reaching = vec![false; self.nodes()];
        let mut todo = starts.to_vec();
        while let Some(node) = todo.pop() {
            if !std::mem::replace(&mut reaching[node as usize], true) {
                todo.extend(&sources[free[node as usize] as usize..ends[node as usize] as usize]);
            }
        }
        reaching
    }
}

/// The strongly connected components of a graph, by number; each leads only to such of smaller numbers.
#[derive(Debug, Default)]
pub(crate) struct Components {
    ends: Vec<u32>,
    members: Vec<u32>,
}

impl Components {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The nodes of a component.
    pub(crate) fn members(&self, component: usize) -> &[u32] {
        let start = if component == 0 { 0 } else { self.ends[component - 1] as usize };
        &self.members[start..self.ends[component] as usize]
    }

    /// The nodes of each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.len()).map(|component| self.members(component))
    }
}

const UNSEEN: u32 = u32::MAX;

struct Search {
    /// When each node was first seen.
    order: Vec<u32>,
    /// The earliest node on the stack that each can reach.
    low: Vec<u32>,
    on_stack: Vec<bool>,
    stack: Vec<u32>,
    seen: u32,
    components: Components,
}

impl Search {
    fn new(nodes: usize) -> Self {
        Search {
            order: vec![UNSEEN; nodes],
            low: vec![UNSEEN; nodes],
            on_stack: vec![false; nodes],
            stack: Vec::new(),
            seen: 0,
            components: Components::default(),
        }
    }

    fn enter(&mut self, node: usize) {
        (self.order[node], self.low[node]) = (self.seen, self.seen);
        self.seen += 1;
        self.stack.push(node as u32);
        self.on_stack[node] = true;
    }

    /// Visits all that can be reached from `root`. The path holds each node with the number of its next edge.
    fn from(&mut self, graph: &Graph, root: usize) {
        let mut path = vec![(root, 0)];
        self.enter(root);
        while let Some((node, edge)) = path.last_mut() {
            let node = *node;
            if let Some(&target) = graph.targets(node).get(*edge) {
                *edge += 1;
                let target = target as usize;
                if self.order[target] == UNSEEN {
                    self.enter(target);
                    path.push((target, 0));
                } else if self.on_stack[target] {
                    self.low[node] = self.low[node].min(self.order[target]);
                }
                continue;
            }
            path.pop();
            if let Some(&(above, _)) = path.last() {
                self.low[above] = self.low[above].min(self.low[node]);
            }
            if self.low[node] == self.order[node] {
                self.leave(node);
            }
        }
    }

    /// Takes the component whose first node is `node` off the stack.
    fn leave(&mut self, node: usize) {
        let start = self.stack.iter().rposition(|&other| other as usize == node).unwrap_or(0);
        for member in self.stack.drain(start..) {
            self.on_stack[member as usize] = false;
            self.components.members.push(member);
        }
        self.components.ends.push(self.components.members.len() as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::Graph;

    fn graph(edges: &[&[u32]]) -> Graph {
        let mut graph = Graph::default();
        edges.iter().for_each(|targets| graph.push(targets));
        graph
    }

    #[test]
    fn components_of_more_than_one_node_are_cycles() {
        let graph = graph(&[&[1], &[2], &[0, 3], &[4], &[3], &[5, 0], &[]]);
        assert_eq!(graph.cycles(), [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(graph.in_degrees(), [2, 1, 1, 2, 1, 1, 0]);
        assert_eq!((graph.nodes(), graph.edges()), (7, 8));
    }

    #[test]
    fn a_graph_without_cycles_has_none() {
        assert!(graph(&[&[1, 2], &[2], &[]]).cycles().is_empty());
        assert!(graph(&[]).cycles().is_empty());
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let mut graph = Graph::default();
        for node in 1..200_000 {
            graph.push(&[node]);
        }
        graph.push(&[0]);
        assert_eq!(graph.cycles()[0].len(), 200_000);
    }

    #[test]
    fn what_reaches_a_node_is_found_over_any_way() {
        let graph = graph(&[&[1], &[2, 3], &[0], &[4], &[], &[4], &[]]);
        let reaching = |starts: &[u32]| -> Vec<usize> {
            graph.reaching(starts).into_iter().enumerate().filter(|&(_, yes)| yes).map(|(node, _)| node).collect()
        };
        assert_eq!(reaching(&[4]), [0, 1, 2, 3, 4, 5]);
        assert_eq!((reaching(&[1]), reaching(&[5, 6]), reaching(&[])), (vec![0, 1, 2], vec![5, 6], vec![]));
    }

    /// Reachability both ways, the definition itself.
    fn naive(graph: &Graph) -> Vec<Vec<u32>> {
        let nodes = graph.nodes();
        let mut reach = vec![vec![false; nodes]; nodes];
        for (node, row) in reach.iter_mut().enumerate() {
            let mut todo = vec![node as u32];
            while let Some(at) = todo.pop() {
                for &target in graph.targets(at as usize) {
                    if !std::mem::replace(&mut row[target as usize], true) {
                        todo.push(target);
                    }
                }
            }
        }
        let mut cycles: Vec<Vec<u32>> = Vec::new();
        for (node, from) in reach.iter().enumerate() {
            let together = |&other: &usize| other == node || (from[other] && reach[other][node]);
            cycles.push((0..nodes).filter(together).map(|member| member as u32).collect());
        }
        cycles.retain(|members| members.len() > 1);
        cycles.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        cycles.dedup();
        cycles
    }

    #[test]
    fn random_graphs_have_the_cycles_of_the_definition() {
        for seed in 0..300_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut next = |bound: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % bound
            };
            let nodes = 1 + next(12);
            let mut graph = Graph::default();
            for _ in 0..nodes {
                let targets: Vec<u32> = (0..next(4)).map(|_| next(nodes) as u32).collect();
                graph.push(&targets);
            }
            assert_eq!(graph.cycles(), naive(&graph), "seed {seed}: {graph:?}");
            let components = graph.components();
            assert_eq!(components.iter().map(<[u32]>::len).sum::<usize>(), graph.nodes(), "seed {seed}");
            let mut of = vec![0; graph.nodes()];
            for (number, members) in components.iter().enumerate() {
                members.iter().for_each(|&member| of[member as usize] = number);
            }
            for node in 0..graph.nodes() {
                let later = graph.targets(node).iter().any(|&target| of[target as usize] > of[node]);
                assert!(!later, "seed {seed}: a component comes before one that it leads to");
            }
        }
    }
}
