//! The nodes and edges that a graph gains while it runs: a table that only grows, and lists that only get longer.
//! It does not know who adds them, nor whether they may.
#![forbid(unsafe_code)]

use super::builder::Extra;
use super::ids::Link;
use super::node::Node;
use crate::flight::CancelRegistration;
use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Nodes in the first segment; each segment has twice as many as the one before.
const FIRST: u64 = 64;
const SEGMENTS: usize = 25;

/// A node that was added, with the edges that it came with.
pub(super) struct Added {
    pub(super) node: Node,
    pub(super) links: Box<[Link]>,
    pub(super) extra: Extra,
    /// The host's tokens that cancel it.
    pub(super) heard: OnceLock<Vec<CancelRegistration>>,
}

impl Added {
    pub(super) fn new(node: Node, links: Box<[Link]>, extra: Extra) -> Self {
        Self { node, links, extra, heard: OnceLock::new() }
    }
}

type Segment = Box<[OnceLock<Added>]>;

/// Nodes that were added, by the order in which their numbers were taken.
pub(super) struct Grown {
    count: AtomicU64,
    segments: [OnceLock<Segment>; SEGMENTS],
}

/// The segment of a number, and the place in it.
fn place(number: u64) -> (usize, usize) {
    let at = number + FIRST;
    let segment = at.ilog2() - FIRST.ilog2();
    (segment as usize, (at - (FIRST << segment)) as usize)
}

impl Grown {
    pub(super) fn new() -> Self {
        Self { count: AtomicU64::new(0), segments: [const { OnceLock::new() }; SEGMENTS] }
    }

    /// How many numbers were taken.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire) as usize
    }

    /// Takes `count` numbers, if so many are left below `most`: the first.
    pub(super) fn take(&self, count: u64, most: u64) -> Option<u64> {
        let first = self.count.fetch_add(count, Ordering::AcqRel);
        if first + count > most {
            self.count.fetch_sub(count, Ordering::AcqRel);
            return None;
        }
        Some(first)
    }

    /// Puts a node where its number says. Nobody else has that number.
    pub(super) fn put(&self, number: u64, added: Added) {
        let (segment, at) = place(number);
        let segment = self.segments[segment].get_or_init(|| {
            let room = FIRST << segment;
            (0..room).map(|_| OnceLock::new()).collect()
        });
        let _ = segment[at].set(added);
    }

    pub(super) fn get(&self, number: u64) -> Option<&Added> {
        let (segment, at) = place(number);
        self.segments.get(segment)?.get()?[at].get()
    }
}

/// Edges that leave a node and were added while it ran.
pub(super) struct More {
    pub(super) links: Box<[Link]>,
    next: OnceLock<Box<More>>,
}

impl More {
    /// Appends edges to the list that begins at `first`.
    pub(super) fn append(first: &OnceLock<Box<More>>, links: Box<[Link]>) {
        let mut place = first;
        let mut more = Box::new(More { links, next: OnceLock::new() });
        while let Err(back) = place.set(more) {
            more = back;
            place = &place.get().expect("somebody has set it").next;
        }
    }

    /// The edges of the list that begins at `first`.
    pub(super) fn all(first: &OnceLock<Box<More>>) -> impl Iterator<Item = Link> {
        std::iter::successors(first.get(), |more| more.next.get()).flat_map(|more| more.links.iter().copied())
    }
}
