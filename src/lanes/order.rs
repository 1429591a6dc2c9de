//! The order rules of one actor as plain data: which lanes come into question, and in which order they are tried.
//! It does not know the jobs, the queues, nor what is process-wide.
//!
//! Within what the rules allow the next lane is tried when the first cannot run. Reads go before writers until a writer has
//! waited for the promotion age; then it keeps new readers out and runs as soon as those inside are done, unless one of them is
//! stuck. While reads and writers both keep coming they take turns from then on: a writer, then the reads that were queued
//! meanwhile (within a bound), then the next writer. The other lanes go before reads once they are that old.

#![forbid(unsafe_code)]

use super::kind::{LANES, LaneKind, LaneOrder};
use super::word::{RUNNING_MAX, Seen};
use smallvec::SmallVec;

/// Reads that one writer lets by, per read that may run at once, while both flood.
const READS_A_ROUND: usize = 4;

/// The head of a lane: its number in the order of arrival, and since when it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) arrival: u64,
    pub(super) at: u64,
}

/// Where an actor stands while reads and writers both flood it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flood {
    /// Writers and reads take turns.
    on: bool,
    /// Reads that may still start before the next writer.
    reads: usize,
}

/// Limits that the rules know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) read_cap: usize,
    pub(super) actor_cap: usize,
    pub(super) promote_after: u64,
    pub(super) maintenance_age: u64,
    pub(super) stuck_after: u64,
}

/// What an actor looks like at the moment at which it is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) limits: Limits,
    pub(super) order: LaneOrder,
    pub(super) seen: Seen,
    pub(super) now: u64,
    pub(super) interactive: [Option<Head>; LANES],
    pub(super) maintenance: [Option<Head>; LANES],
    /// Reads that are queued.
    pub(super) reads: usize,
    /// Since when the oldest reader inside runs, if the rules have to know.
    pub(super) oldest_reader: Option<u64>,
}

/// The lanes to be tried, the first first.
pub(super) type Tries = SmallVec<[LaneKind; LANES]>;

/// What the rules say of the interactive jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Interactive {
    pub(super) tries: Tries,
    /// Readers are kept out for a writer; looked at again at this time, when a reader inside would count as stuck.
    pub(super) until: Option<u64>,
}

impl Flood {
    /// Nothing but reads is queued: no turns are taken.
    pub(super) fn is_over(&mut self) {
        self.on = false;
    }
}

/// Whether a read could run beside what runs.
#[inline]
pub(super) fn lets_read(limits: &Limits, seen: Seen) -> bool {
    let (reads, status) = (seen.running(LaneKind::PureRead), seen.running(LaneKind::SerialLspStatus));
    seen.running(LaneKind::Mutating) == 0 && reads < limits.read_cap && reads + status < limits.actor_cap
}

impl View {
    /// Whether a job of a lane could run beside what runs, apart from what is process-wide.
    pub(super) fn is_free(&self, lane: LaneKind) -> bool {
        let running = |lane| self.seen.running(lane);
        if running(LaneKind::Mutating) > 0 {
            return false;
        }
        let (reads, status) = (running(LaneKind::PureRead), running(LaneKind::SerialLspStatus));
        let capacity = reads + status < self.limits.actor_cap;
        match lane {
            LaneKind::PureRead => lets_read(&self.limits, self.seen),
            LaneKind::SerialLspStatus => status == 0 && capacity,
            // Builds beside the actor are counted among them.
            LaneKind::HeavyInit => running(LaneKind::HeavyInit) < RUNNING_MAX,
            LaneKind::Mutating => !self.has_readers(),
            LaneKind::MaintenanceCommit => running(LaneKind::MaintenanceCommit) == 0,
        }
    }

    /// Whether anything runs beside which no writer may.
    pub(super) fn has_readers(&self) -> bool {
        LaneKind::ALL.into_iter().filter(|lane| lane.is_shared()).any(|lane| self.seen.running(lane) > 0)
    }

    fn is_old(&self, head: Option<Head>, age: u64) -> bool {
        head.is_some_and(|head| self.now.saturating_sub(head.at) >= age)
    }

    /// Whether the oldest maintenance job has waited its age.
    pub(super) fn maintenance_is_aged(&self) -> bool {
        self.is_old(self.next_maintenance().map(|(_, head)| head), self.limits.maintenance_age)
    }

    /// The one maintenance job that comes into question: the oldest.
    pub(super) fn next_maintenance(&self) -> Option<(LaneKind, Head)> {
        let heads = LaneKind::ALL.into_iter().zip(self.maintenance);
        heads.filter_map(|(lane, head)| Some((lane, head?))).min_by_key(|(_, head)| head.arrival)
    }

    /// Whether maintenance that has not waited its age may run at all: no interactive writer is queued.
    pub(super) fn lets_maintenance(&self) -> bool {
        self.interactive[LaneKind::Mutating as usize].is_none()
    }

    /// A writer is due and waits for readers inside: until when new ones are kept out for it. None: they are not, since one of
    /// those inside is stuck.
    fn hold(&self) -> Option<u64> {
        let until = self.oldest_reader.map_or(self.now, |started| started) + self.limits.stuck_after;
        (until > self.now).then_some(until)
    }

    /// Whether an interactive writer goes before reads now.
    fn writer_is_due(&self, flood: &mut Flood) -> bool {
        let head = self.interactive[LaneKind::Mutating as usize];
        if head.is_none() || self.reads == 0 {
            flood.on = false;
        }
        self.is_old(head, self.limits.promote_after) && !(flood.on && flood.reads > 0)
            || (flood.on && flood.reads == 0 && head.is_some())
    }

    /// Whether the rules have to know since when the oldest reader inside runs.
    /// `nested`: reads are queued that readers have submitted.
    pub(super) fn asks_for_readers(&self, mut flood: Flood, nested: bool) -> bool {
        let writes = self.interactive[LaneKind::Mutating as usize].is_some();
        let bars = nested && writes && self.order == LaneOrder::Arrival;
        self.has_readers() && (bars || self.writer_is_due(&mut flood) || self.maintenance_is_aged())
    }

    /// Until when new readers are kept out for a writer that is `due`, or for one of maintenance that has waited its age.
    fn keeps_out(&self, due: bool) -> Option<u64> {
        let aged = || {
            let next = self.next_maintenance();
            self.maintenance_is_aged() && next.is_some_and(|(lane, _)| lane == LaneKind::Mutating)
        };
        if (due || aged()) && self.has_readers() { self.hold() } else { None }
    }

    /// Until when a read is kept out that a reader has submitted and does not wait for. Where no reader is left inside, the writer
    /// that is due goes in now.
    pub(super) fn keeps_nested_out(&self, mut flood: Flood, arrival: u64) -> Option<u64> {
        let due = match self.order {
            LaneOrder::ReadsFirst => self.writer_is_due(&mut flood),
            LaneOrder::Arrival => {
                self.interactive[LaneKind::Mutating as usize].is_some_and(|writer| writer.arrival < arrival)
            }
        };
        if due && !self.has_readers() { Some(self.now) } else { self.keeps_out(due) }
    }

    /// The interactive lanes that come into question, in order.
    pub(super) fn interactive(&self, flood: &mut Flood) -> Interactive {
        if self.seen.running(LaneKind::Mutating) > 0 {
            return Interactive::default();
        }
        if self.order == LaneOrder::Arrival {
            return self.in_order_of_arrival();
        }
        let mut found = Interactive::default();
        let due = self.writer_is_due(flood);
        found.until = self.keeps_out(due);
        let keeps_out = found.until.is_some();
        let mut lanes: SmallVec<[(LaneKind, Head); LANES]> =
            LaneKind::ALL.into_iter().zip(self.interactive).filter_map(|(lane, head)| Some((lane, head?))).collect();
        lanes.retain(|(lane, _)| self.is_free(*lane) && !(keeps_out && lane.is_shared()));
        lanes.sort_by_key(|(lane, head)| {
            let goes_first = match lane {
                LaneKind::Mutating => due,
                LaneKind::PureRead => false,
                _ => self.is_old(Some(*head), self.limits.promote_after),
            };
            (!goes_first, *lane != LaneKind::PureRead, head.arrival)
        });
        found.tries = lanes.into_iter().map(|(lane, _)| lane).collect();
        found
    }

    /// Whether a lane whose turn it is comes after reads all the same.
    pub(super) fn comes_after_reads(&self, lane: LaneKind, mut flood: Flood) -> bool {
        let goes_first = match lane {
            LaneKind::PureRead => true,
            LaneKind::Mutating => self.writer_is_due(&mut flood),
            _ => self.is_old(self.interactive[lane as usize], self.limits.promote_after),
        };
        self.order == LaneOrder::ReadsFirst && !goes_first
    }

    /// As they came: a writer waits until it is the oldest, and nothing passes it.
    fn in_order_of_arrival(&self) -> Interactive {
        let mut lanes: SmallVec<[(LaneKind, Head); LANES]> =
            LaneKind::ALL.into_iter().zip(self.interactive).filter_map(|(lane, head)| Some((lane, head?))).collect();
        lanes.sort_by_key(|(_, head)| head.arrival);
        let mut found = Interactive { until: self.keeps_out(false), ..Interactive::default() };
        for (place, (lane, _)) in lanes.into_iter().enumerate() {
            if found.until.is_some() && lane.is_shared() {
                continue;
            }
            if lane == LaneKind::Mutating {
                if place == 0 && self.is_free(lane) {
                    found.tries.push(lane);
                }
                break;
            }
            if self.is_free(lane) {
                found.tries.push(lane);
            }
        }
        found
    }

    /// An interactive job of a lane was admitted.
    pub(super) fn admitted(&self, lane: LaneKind, flood: &mut Flood) {
        match lane {
            LaneKind::PureRead => flood.reads = flood.reads.saturating_sub(1),
            LaneKind::Mutating if self.reads > 0 => {
                // It went before reads, so both come faster than they are done.
                flood.on = true;
                flood.reads = self.reads.min(self.limits.read_cap * READS_A_ROUND);
            }
            _ => {}
        }
    }

    /// When the actor is to be looked at again although nothing of it changes: maintenance reaches its age.
    pub(super) fn wakes_at(&self) -> Option<u64> {
        let (_, head) = self.next_maintenance()?;
        let at = head.at.saturating_add(self.limits.maintenance_age);
        (at > self.now).then_some(at)
    }
}
