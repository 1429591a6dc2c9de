//! The section in which transitions of files are put in order, and what it costs: how often it was taken, by how many members,
//! for how long. It does not know what is done inside; nothing of the host's is.
#![forbid(unsafe_code)]

use crate::sync::stat::{AtomicU64, Ordering};
use crate::sync::{Mutex, mutant};
use std::time::Instant;

/// Transitions of one member are timed once in so many takings, since two looks at the clock cost as much as the section.
const SAMPLED: u64 = 32;

/// The sequencer: a short spin, then the thread parks.
///
/// Batches, edits, invalidate and close take it; a request without text, the first request of a file, joins, claims,
/// completions and reads never do.
#[derive(Debug)]
pub(crate) struct Sequencer {
    section: Mutex<()>,
    takings: AtomicU64,
    transitions: AtomicU64,
    members: AtomicU64,
    timed_members: AtomicU64,
    timed_nanos: AtomicU64,
}

/// How often the sequencer was taken and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequencerCounters {
    /// How often the section was taken.
    pub takings: u64,
    /// Transitions: takings in which a file was moved on.
    pub transitions: u64,
    /// Members of all transitions: files that a batch or an edit moved on.
    pub members: u64,
    /// Members of those takings that were timed.
    pub timed_members: u64,
    /// Nanoseconds for which the section was held in those takings.
    pub timed_nanos: u64,
}

impl SequencerCounters {
    /// Nanoseconds for which the section is held per member, over the takings that were timed.
    pub fn nanos_per_member(&self) -> f64 {
        if self.timed_members == 0 { 0.0 } else { self.timed_nanos as f64 / self.timed_members as f64 }
    }
}

impl Sequencer {
    pub(crate) fn new() -> Self {
        Self {
            section: Mutex::new(()),
            takings: AtomicU64::new(0),
            transitions: AtomicU64::new(0),
            members: AtomicU64::new(0),
            timed_members: AtomicU64::new(0),
            timed_nanos: AtomicU64::new(0),
        }
    }

    /// Runs `section` alone, which also says whether it has moved anything. The caller has prepared everything, and has pinned,
    /// before it comes.
    pub(crate) fn run<R>(&self, members: u64, section: impl FnOnce() -> (R, bool)) -> R {
        if mutant("sequencer.open") {
            return section().0;
        }
        let guard = self.section.lock();
        let takings = self.takings.load(Ordering::Relaxed);
        let timed = (members > 1 || takings.is_multiple_of(SAMPLED)).then(Instant::now);
        let (result, moved) = section();
        // ordering: the figures are written under the lock alone; readers may see a taking half counted.
        self.takings.store(takings + 1, Ordering::Relaxed);
        self.transitions.store(self.transitions.load(Ordering::Relaxed) + u64::from(moved), Ordering::Relaxed);
        self.members.store(self.members.load(Ordering::Relaxed) + members, Ordering::Relaxed);
        if let Some(begun) = timed {
            let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.timed_members.store(self.timed_members.load(Ordering::Relaxed) + members, Ordering::Relaxed);
            self.timed_nanos.store(self.timed_nanos.load(Ordering::Relaxed).saturating_add(nanos), Ordering::Relaxed);
        }
        drop(guard);
        result
    }

    /// What the section has cost so far.
    pub(crate) fn counters(&self) -> SequencerCounters {
        SequencerCounters {
            takings: self.takings.load(Ordering::Relaxed),
            transitions: self.transitions.load(Ordering::Relaxed),
            members: self.members.load(Ordering::Relaxed),
            timed_members: self.timed_members.load(Ordering::Relaxed),
            timed_nanos: self.timed_nanos.load(Ordering::Relaxed),
        }
    }
}
