//! Turns the edges of a graph into lists, looks for rings, and hands urgency up the edges.
//! It does not know what the nodes do. Every walk is a loop over lists; nothing recurs.
#![forbid(unsafe_code)]

use super::error::DagError;
use super::ids::{DagNode, Link};
use super::word::GATES_MAX;
use crate::runtime::Priority;

/// The edges of a graph by the nodes that they leave.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    starts: Box<[u32]>,
    links: Box<[Link]>,
}

impl Edges {
    #[inline]
    pub(crate) fn of(&self, node: u32) -> &[Link] {
        &self.links[self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize]
    }

    /// The same, if it is one of the nodes.
    #[inline]
    pub(crate) fn get(&self, node: u32) -> Option<&[Link]> {
        let ends = self.starts.get(node as usize..node as usize + 2)?;
        Some(&self.links[ends[0] as usize..ends[1] as usize])
    }

    /// The nodes that lead to each node.
    pub(crate) fn reversed(&self) -> Vec<Vec<u32>> {
        let nodes = self.starts.len().saturating_sub(1);
        let mut before = vec![Vec::new(); nodes];
        for node in 0..nodes as u32 {
            self.of(node).iter().for_each(|link| before[link.to() as usize].push(node));
        }
        before
    }

    /// The lists of `nodes` nodes, and how many edges lead into each. The edges name no other nodes.
    pub(crate) fn of_pairs(nodes: usize, pairs: &[(u32, Link)]) -> Result<(Self, Vec<u32>), DagError> {
        if u32::try_from(pairs.len()).is_err() {
            return Err(DagError::TooManyNodes);
        }
        let (mut starts, mut into) = (vec![0_u32; nodes + 1], vec![0_u32; nodes]);
        for (from, link) in pairs {
            starts[*from as usize + 1] += 1;
            into[link.to() as usize] += 1;
        }
        if let Some(node) = into.iter().position(|into| *into > GATES_MAX) {
            return Err(DagError::TooManyEdges { node: DagNode(node as u32) });
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut links = vec![Link::default(); pairs.len()];
        for (from, link) in pairs {
            let place = &mut next[*from as usize];
            links[*place as usize] = *link;
            *place += 1;
        }
        Ok((Self { starts: starts.into(), links: links.into() }, into))
    }

    /// An order in which every node comes after those that it waits for.
    ///
    /// # Errors
    /// A ring, if there is none.
    pub(crate) fn order(&self, into: &[u32]) -> Result<Vec<u32>, DagError> {
        let mut left = into.to_vec();
        let mut order: Vec<u32> = (0..left.len() as u32).filter(|node| left[*node as usize] == 0).collect();
        let mut at = 0;
        while at < order.len() {
            for link in self.of(order[at]) {
                let left = &mut left[link.to() as usize];
                *left -= 1;
                if *left == 0 {
                    order.push(link.to());
                }
            }
            at += 1;
        }
        if order.len() == left.len() { Ok(order) } else { Err(DagError::Cycle { path: self.ring(&left) }) }
    }

    /// A ring among the nodes that have something left to wait for.
    fn ring(&self, left: &[u32]) -> Vec<DagNode> {
        // How far each list on the way was followed; the way's members are marked by their place on it.
        let mut place = vec![u32::MAX; left.len()];
        let mut done = vec![false; left.len()];
        for first in (0..left.len() as u32).filter(|node| left[*node as usize] > 0) {
            let mut way = vec![(first, 0_usize)];
            place[first as usize] = 0;
            while let Some((node, at)) = way.last_mut() {
                let Some(link) = self.of(*node).get(*at) else {
                    done[*node as usize] = true;
                    place[*node as usize] = u32::MAX;
                    way.pop();
                    continue;
                };
                *at += 1;
                let to = link.to();
                if place[to as usize] != u32::MAX {
                    let ring = way[place[to as usize] as usize..].iter().map(|(node, _)| DagNode(*node));
                    return ring.chain([DagNode(to)]).collect();
                }
                if !done[to as usize] && left[to as usize] > 0 {
                    place[to as usize] = way.len() as u32;
                    way.push((to, 0));
                }
            }
        }
        unreachable!("what waits for ever waits in a ring, or behind one")
    }

    /// Makes each node as urgent as the most urgent that comes after it; `order` is one of [`order`](Self::order), or none if the
    /// nodes' numbers are.
    pub(crate) fn urge(&self, order: Option<&[u32]>, priorities: &mut [Priority]) {
        for at in (0..priorities.len()).rev() {
            let node = order.map_or(at as u32, |order| order[at]);
            let after = self.of(node).iter().map(|link| priorities[link.to() as usize]).min();
            let own = &mut priorities[node as usize];
            *own = after.map_or(*own, |after| after.min(*own));
        }
    }
}
