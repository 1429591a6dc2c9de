//! The nodes of a graph that wait for nothing: one ticket for all of a place, which queues itself again and hands out one at a time.
//! It does not know what comes after them.
#![forbid(unsafe_code)]

use super::run::Run;
use super::walk::Walk;
use crate::flight::Killed;
use crate::runtime::{Job, Place};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The nodes of one place.
struct Group {
    place: Place,
    nodes: Box<[u32]>,
    /// How many of them have been taken.
    taken: AtomicU64,
}

/// The nodes that wait for nothing, by place, the most urgent first.
pub(super) struct First(Box<[Group]>);

impl First {
    pub(super) fn new(nodes: impl Iterator<Item = (u32, Place)>) -> Self {
        let mut places: Vec<(Place, Vec<u32>)> = Vec::new();
        for (node, place) in nodes {
            match places.iter_mut().find(|(known, _)| *known == place) {
                Some((_, nodes)) => nodes.push(node),
                None => places.push((place, vec![node])),
            }
        }
        places.sort_by_key(|(place, _)| place.priority);
        let group = |(place, nodes): (Place, Vec<u32>)| Group { place, nodes: nodes.into(), taken: AtomicU64::new(0) };
        Self(places.into_iter().map(group).collect())
    }

    /// Sends a ticket off for each place.
    pub(super) fn begin(run: &Arc<Run>) {
        for at in 0..run.first.0.len() {
            Self::push(run.clone(), at as u32);
        }
    }

    fn push(run: Arc<Run>, at: u32) {
        let (spawner, place) = (run.spawner.clone(), run.first.0[at as usize].place);
        let ticket = FirstTicket { run: Some(run), at };
        // Refused after a shutdown: dropping the ticket ends the run.
        drop(spawner.push(place, Job::new(move || ticket.pop())));
    }
}

impl Group {
    fn is_empty(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.nodes.len() as u64
    }

    /// The next that nobody has taken.
    fn take(&self) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        // ordering: a claim of numbers; what they name was there before the first ticket went out.
        self.nodes.get(self.taken.fetch_add(1, Ordering::Relaxed) as usize).copied()
    }
}

struct FirstTicket {
    run: Option<Arc<Run>>,
    at: u32,
}

impl FirstTicket {
    fn pop(mut self) {
        let Some(run) = self.run.take() else { return };
        let group = &run.first.0[self.at as usize];
        let Some(first) = group.take() else { return };
        if !group.is_empty() {
            First::push(run.clone(), self.at);
        }
        Walk::with(&run, group.place, |walk| {
            let mut next = Some(first);
            while let Some(id) = next {
                let node = run.node(id);
                let seen = node.load();
                if seen.priority() > group.place.priority && run.stopped().is_none() && !seen.is_started() {
                    // It has become less urgent since.
                    run.push(id, Place { priority: seen.priority(), ..group.place }, false);
                } else if let Some(held) = node.claim() {
                    walk.go(id, held);
                }
                next = if walk.is_over() { None } else { group.take() };
            }
        });
    }
}

impl Drop for FirstTicket {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        run.stop(Killed::Shutdown);
        let group = &run.first.0[self.at as usize];
        Walk::with(&run, group.place, |walk| {
            while let Some(id) = group.take() {
                if let Some(held) = run.node(id).claim() {
                    walk.go(id, held);
                }
            }
        });
    }
}
