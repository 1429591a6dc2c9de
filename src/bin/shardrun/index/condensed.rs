//! The files of a graph with those that reach one another taken together, and their fingerprints, each made once, by whoever needs
//! it first.
//! It does not know where the graph comes from.
#![forbid(unsafe_code)]

use super::cycles::{Components, Graph};
use crate::work::fingerprint::{self, Group, Hash};
use std::sync::OnceLock;

const NONE: u32 = u32::MAX;

/// A file that takes part.
pub(crate) struct Member {
    /// Its place in the graph of the whole tree.
    pub(crate) place: u32,
    pub(crate) digest: Hash,
    /// The fingerprints of those files that it imports and that do not take part, since theirs stand.
    pub(crate) beyond: Vec<Hash>,
}

/// A graph without cycles, of components.
pub(crate) struct Condensed {
    /// The component of each place.
    component_at: Vec<u32>,
    /// The component of each member.
    component_of: Vec<u32>,
    members: Vec<Member>,
    graph: Graph,
    components: Components,
    fingerprints: Vec<OnceLock<Hash>>,
}

impl Condensed {
    /// Of `members`, whose imports of one another are the edges of `graph`, out of a tree with so many places.
    pub(crate) fn new(places: usize, members: Vec<Member>, graph: Graph) -> Self {
        let components = graph.components();
        let (mut component_at, mut component_of) = (vec![NONE; places], vec![NONE; members.len()]);
        for (number, nodes) in components.iter().enumerate() {
            for &node in nodes {
                component_of[node as usize] = number as u32;
                component_at[members[node as usize].place as usize] = number as u32;
            }
        }
        let fingerprints = std::iter::repeat_with(OnceLock::new).take(components.len()).collect();
        Condensed { component_at, component_of, members, graph, components, fingerprints }
    }

    /// The fingerprint of the file at a place, nothing if it does not take part. What it needs and nobody has made yet is made on the
    /// way, without recursion; `go_on` is asked before each step, and stops it with its error.
    pub(crate) fn fingerprint<E>(&self, place: u32, go_on: impl Fn() -> Result<(), E>) -> Result<Option<Hash>, E> {
        let Some(&component) = self.component_at.get(place as usize).filter(|&&component| component != NONE) else {
            return Ok(None);
        };
        let (mut path, mut group) = (vec![component], Group::default());
        while let Some(&at) = path.last() {
            go_on()?;
            if self.fingerprints[at as usize].get().is_none() {
                let length = path.len();
                path.extend(self.imported(at).filter(|&other| self.fingerprints[other as usize].get().is_none()));
                if path.len() > length {
                    continue;
                }
                self.fingerprints[at as usize].get_or_init(|| self.make(at, &mut group));
            }
            path.pop();
        }
        Ok(self.fingerprints[component as usize].get().copied())
    }

    /// Makes the fingerprint of every file that takes part, and calls `each` with its place and that. For one thread that wants all.
    pub(crate) fn all(&self, mut each: impl FnMut(u32, Hash)) {
        let mut group = Group::default();
        // Each component comes after those that it leads to.
        for (number, nodes) in self.components.iter().enumerate() {
            let hash = *self.fingerprints[number].get_or_init(|| self.make(number as u32, &mut group));
            nodes.iter().for_each(|&node| each(self.members[node as usize].place, hash));
        }
    }

    /// The components that a component leads to, some perhaps more than once.
    fn imported(&self, component: u32) -> impl Iterator<Item = u32> {
        let targets = |&node| self.graph.targets(node as usize);
        let reached = self.components.members(component as usize).iter().flat_map(targets);
        reached.map(|&node| self.component_of[node as usize]).filter(move |&other| other != component)
    }

    /// Of a component, when those of all that it leads to are there.
    fn make(&self, component: u32, group: &mut Group) -> Hash {
        let nodes = self.components.members(component as usize);
        group.members.clear();
        group.members.extend(nodes.iter().map(|&node| self.members[node as usize].digest));
        group.beyond.clear();
        group.beyond.extend(nodes.iter().flat_map(|&node| &self.members[node as usize].beyond));
        group.beyond.extend(self.imported(component).filter_map(|other| self.fingerprints[other as usize].get()));
        fingerprint::fingerprint(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn of(digests: &[u8], edges: &[&[u32]]) -> Vec<Hash> {
        let mut graph = Graph::default();
        edges.iter().for_each(|targets| graph.push(targets));
        let member =
            |(place, &digest): (usize, &u8)| Member { place: place as u32, digest: [digest; 32], beyond: vec![] };
        let condensed = Condensed::new(digests.len(), digests.iter().enumerate().map(member).collect(), graph);
        let one = |place| condensed.fingerprint(place, || Ok::<_, Infallible>(())).unwrap().unwrap();
        let one_by_one: Vec<Hash> = (0..digests.len() as u32).map(one).collect();
        let mut together = vec![[0; 32]; digests.len()];
        condensed.all(|place, hash| together[place as usize] = hash);
        assert_eq!(one_by_one, together);
        together
    }

    #[test]
    fn a_circle_shares_one_and_exactly_what_reaches_a_change_changes() {
        // 0 -> 1 <-> 2 -> 3, 4 -> 3, 5
        let edges: &[&[u32]] = &[&[1], &[2], &[1, 3], &[], &[3], &[]];
        let before = of(&[0, 1, 2, 3, 4, 5], edges);
        assert_eq!(before[1], before[2]);
        let changed = |digests| -> Vec<usize> {
            let after = of(digests, edges);
            (0..6).filter(|&node| before[node] != after[node]).collect()
        };
        assert_eq!(changed(&[0, 1, 2, 3, 4, 6]), [5]);
        assert_eq!(changed(&[0, 9, 2, 3, 4, 5]), [0, 1, 2]);
        assert_eq!(changed(&[0, 1, 2, 9, 4, 5]), [0, 1, 2, 3, 4]);
        assert_eq!(changed(&[9, 1, 2, 3, 4, 5]), [0]);
    }

    #[test]
    fn the_order_of_files_does_not_matter() {
        // The same graph as above, numbered from behind.
        let one = of(&[0, 1, 2, 3, 4, 5], &[&[1], &[2], &[1, 3], &[], &[3], &[]]);
        let mut other = of(&[5, 4, 3, 2, 1, 0], &[&[], &[2], &[], &[2, 4], &[3], &[4]]);
        other.reverse();
        assert_eq!(one, other);
    }

    #[test]
    fn a_long_chain_needs_no_stack_and_stops_when_it_is_told() {
        let mut graph = Graph::default();
        (1..100_000).for_each(|next| graph.push(&[next]));
        graph.push(&[]);
        let member = |place| Member { place, digest: [0; 32], beyond: vec![] };
        let condensed = Condensed::new(100_001, (0..100_000).map(member).collect(), graph);
        let steps = std::cell::Cell::new(0);
        let limited = || if steps.replace(steps.get() + 1) < 1000 { Ok(()) } else { Err(()) };
        assert_eq!(condensed.fingerprint(0, limited), Err(()));
        assert!(condensed.fingerprint(0, || Ok::<_, ()>(())).unwrap().is_some());
        assert_eq!(condensed.fingerprint(100_000, || Ok::<_, ()>(())), Ok(None));
    }
}
