//! The words of a lane job: what it may overlap with, whose class it is, and how an actor is to be served.
//! It does not know how any of that is decided.

#![forbid(unsafe_code)]

use std::fmt;
use std::time::Duration;

/// What a job of an actor may overlap with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LaneKind {
    /// Only reads. Up to the read cap of one actor run at once; none beside a writer.
    PureRead = 0,
    /// One at a time; beside reads, never beside a writer.
    SerialLspStatus = 1,
    /// A long build under a process-wide permit. It overlaps everything, but does not start while a writer runs. What it
    /// builds is installed in a short exclusive step of its own, see [`Lanes::heavy`](crate::Lanes::heavy).
    HeavyInit = 2,
    /// Exclusive: nothing of the actor but heavy builds runs beside it.
    Mutating = 3,
    /// A change of something that guards itself: one at a time, beside reads, never beside a writer.
    MaintenanceCommit = 4,
}

impl LaneKind {
    /// The five kinds.
    pub const ALL: [Self; LANES] =
        [Self::PureRead, Self::SerialLspStatus, Self::HeavyInit, Self::Mutating, Self::MaintenanceCommit];

    /// Whether it runs in the shadow of the actor's state: beside it no writer of the actor may run.
    pub(crate) fn is_shared(self) -> bool {
        matches!(self, Self::PureRead | Self::SerialLspStatus | Self::MaintenanceCommit)
    }

    /// The kind of a number that `as u8` gave.
    pub(super) fn of(number: u8) -> Self {
        Self::ALL[usize::from(number) % LANES]
    }
}

impl fmt::Display for LaneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PureRead => "PureRead",
            Self::SerialLspStatus => "SerialLspStatus",
            Self::HeavyInit => "HeavyInit",
            Self::Mutating => "Mutating",
            Self::MaintenanceCommit => "MaintenanceCommit",
        })
    }
}

/// How many kinds of lane there are.
pub(super) const LANES: usize = 5;

/// Whether somebody waits for a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LaneClass {
    /// A person or a program waits for it: it goes first wherever it could run.
    #[default]
    Interactive = 0,
    /// Nobody does. It never takes the last slots, and yields to interactive work until it has waited its age.
    Maintenance = 1,
}

impl LaneClass {
    /// Both classes.
    pub const ALL: [Self; 2] = [Self::Interactive, Self::Maintenance];
}

impl fmt::Display for LaneClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interactive => "interactive",
            Self::Maintenance => "maintenance",
        })
    }
}

/// In which order the jobs of one actor are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LaneOrder {
    /// Reads go before writers, until a writer has waited long enough.
    #[default]
    ReadsFirst,
    /// As they came: a writer is a barrier that what came later does not pass.
    Arrival,
}

/// How soon an actor is served, compared with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Latency {
    /// In turn with the others.
    #[default]
    Normal,
    /// Before those, three times in a row at most while they wait.
    Prompt,
}

/// How much an actor may do in one turn, per unit of its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantum {
    /// So many jobs, whatever each costs.
    Jobs(u32),
    /// Jobs that took so long together, measured on the runtime's clock; each counts as a thousandth of that at least.
    Time(Duration),
}

/// What makes maintenance jobs of one actor interchangeable while they are queued: a number below 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CoalesceKey(u8);

impl CoalesceKey {
    /// Draining what a file watcher has seen.
    pub const WATCHER_DRAIN: Self = Self(0);
    /// Draining what a language server has sent.
    pub const LSP_DRAIN: Self = Self(1);
    /// A standing pass over everything.
    pub const STANDING_PASS: Self = Self(2);

    /// A key of the host's own. `None` if `number` is not below 64.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number < 64 { Some(Self(number)) } else { None }
    }

    /// Its bit in a word.
    pub(super) fn bit(self) -> u64 {
        1 << self.0
    }
}

/// Options of one actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "options do nothing until an actor is registered with them"]
pub struct ActorOptions {
    pub(super) weight: u32,
    pub(super) latency: Latency,
    pub(super) order: LaneOrder,
}

impl Default for ActorOptions {
    fn default() -> Self {
        Self { weight: 1, latency: Latency::Normal, order: LaneOrder::ReadsFirst }
    }
}

impl ActorOptions {
    /// Weight 1, normal latency, reads first.
    pub fn new() -> Self {
        Self::default()
    }

    /// Its share of the slots beside other busy actors: 1 to 1,000; what is outside is taken as the nearest.
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight.clamp(1, 1_000);
        self
    }

    /// How soon it is served.
    pub fn latency(mut self, latency: Latency) -> Self {
        self.latency = latency;
        self
    }

    /// In which order its jobs are taken.
    pub fn order(mut self, order: LaneOrder) -> Self {
        self.order = order;
        self
    }
}
