//! Who depends on a file, and what the dependencies between files occupy at the moment.
//! It does not know how they came about.
#![forbid(unsafe_code)]

use super::super::host::Host;
use super::super::scheduler::Stages;
use super::super::slot::Slot;
use super::dispatch::visible;
use crate::flight::{catch, waits_now};
use crate::sync::Arc;
use crate::sync::epoch;
use std::collections::HashSet;

/// What dependencies between files occupy, from [`Stages::dependency_occupancy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DependencyOccupancy {
    /// Edges: blockers that gate an owner now.
    pub edges: usize,
    /// Entries in the files' lists of those who wait for them: the edges, and withdrawn ones that have not been unlinked.
    pub entries: usize,
    /// Files whose Analysis others wait for.
    pub demanded: usize,
    /// Registrations that wait for their owner's Source.
    pub deferred: usize,
}

impl<H: Host> Stages<H> {
    /// The files whose current generation depends on `file`, by what the host has said of them; in no particular order.
    ///
    /// A generation counts from the moment in which its Source is there. Looks at the file's dependents alone.
    ///
    /// A file that is named need not be known; if it is not, it is forgotten with the last who names it. When a file is removed nobody
    /// depends on it any more, until its owners name it anew.
    pub fn dependents(&self, file: &H::File) -> Vec<H::File> {
        let Some(slot) = self.slot(file) else { return Vec::new() };
        let owners = slot.dependents();
        // Copying names is the host's code.
        owners.iter().filter_map(|owner| catch(|| owner.file().clone()).ok()).collect()
    }

    /// What the dependencies between files occupy. All is zero when nothing is under way, but for registrations of files that have no
    /// Source: it failed, was withdrawn, or nobody has asked for it since an edit.
    ///
    /// Looks at every file; what changes meanwhile may be counted or not.
    pub fn dependency_occupancy(&self) -> DependencyOccupancy {
        let (mut sum, mut demanded) = (DependencyOccupancy::default(), HashSet::new());
        let slots = self.core().worlds.now(&epoch::pin()).table.all();
        for slot in slots {
            let Some(node) = slot.node.get() else { continue };
            for set in [node.current.get(), node.deferred.get()].into_iter().flatten() {
                let waiting = set.waiting().map(|edge| demanded.insert(edge.producer.as_ptr()));
                sum.edges += waiting.count();
            }
            sum.deferred += usize::from(node.deferred.get().is_some());
            sum.entries +=
                visible(&slot).and_then(|revision| Some(revision.consumers.get()?.edges.dead())).unwrap_or(0);
        }
        sum.entries += sum.edges;
        sum.demanded = demanded.len();
        sum
    }

    /// How many threads wait inside a job for a flight at this moment, of all the runtimes in the process: zero at rest.
    pub fn wait_graph_occupancy(&self) -> usize {
        waits_now()
    }
}

impl<H: Host> Slot<H> {
    /// The files whose visible revision depends on this one, each once.
    fn dependents(self: &Arc<Self>) -> Vec<Arc<Slot<H>>> {
        let Some(node) = self.node.get() else { return Vec::new() };
        let mut owners = Vec::new();
        // Counts are taken under the list's pin and dropped after it: the last one of a slot runs the host's destructors.
        node.dependents.each(|dependent| owners.extend(dependent.owner.upgrade()));
        owners.sort_unstable_by_key(Arc::as_ptr);
        owners.dedup_by(|one, other| Arc::ptr_eq(one, other));
        owners.retain(|owner| owner.depends_on(self));
        owners
    }

    fn depends_on(&self, other: &Arc<Self>) -> bool {
        let Some(revision) = visible(self) else { return false };
        let set = self.node.get().and_then(|node| node.set_of(revision.tag()));
        set.is_some_and(|set| set.depends_on(other))
    }
}
