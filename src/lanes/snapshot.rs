//! Looks at an executor from outside: what is queued and runs, since when, and why a writer has not begun.
//! It does not know how any of it came to be. Nothing here waits, and nothing looks through queues or actors.
//!
//! What is told is a moment ago: each number for itself. Running jobs are those that have a slot and have not given it back;
//! a job that is answered has. Ages of queued jobs are rounded up by a quarter of a second at most, and after one job has been
//! queued for half a minute, those that came meanwhile may be told older than they are.

#![forbid(unsafe_code)]

use super::cancel::{JobStatus, LaneTicket};
use super::kind::{LaneClass, LaneKind};
use super::lanes::{ActorRef, Lanes};
use super::slots::InSlot;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

/// How a class stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassLiveness {
    /// Jobs that are queued.
    pub queued: u64,
    /// Jobs that have a slot.
    pub running: usize,
    /// How long the oldest queued job has waited; none if nothing is queued.
    pub oldest: Option<Duration>,
}

/// How an executor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LanesLiveness {
    /// Interactive jobs.
    pub interactive: ClassLiveness,
    /// Maintenance jobs.
    pub maintenance: ClassLiveness,
    /// Slots that are not in use.
    pub idle: usize,
    /// Slots that are lent on top, while jobs wait inside the engine.
    pub lent: usize,
    /// Slots that maintenance leaves idle.
    pub interactive_reserve: usize,
    /// Maintenance jobs that may run at once.
    pub maintenance_cap: usize,
    /// Heavy permits that are free.
    pub heavy_free: u32,
    /// Jobs that had begun and were lost without an answer: always 0.
    pub phantoms: u64,
}

/// One job that runs.
pub struct RunningJob<K, C> {
    /// Its actor, if that is still registered.
    pub actor: Option<ActorRef<K, C>>,
    /// The registration that it belongs to.
    pub incarnation: u64,
    /// What it may overlap with.
    pub lane: LaneKind,
    /// Whether somebody waits for it.
    pub class: LaneClass,
    /// The number that it was submitted with.
    pub id: u64,
    /// The name that it was submitted with.
    pub label: &'static str,
    /// For how long it has had its slot.
    pub age: Duration,
}

impl<K, C> fmt::Debug for RunningJob<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} #{} of actor {} for {:?}", self.lane, self.label, self.id, self.incarnation, self.age)
    }
}

/// What keeps a queued writer from running.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Blocker {
    /// So many writers of the actor run or are queued, itself included.
    Writers(usize),
    /// Readers of the actor run: how many, and for how long the oldest does.
    Readers(usize, Duration),
    /// One of them has run for so long that it counts as stuck.
    StuckReaders(usize, Duration),
    /// A maintenance commit of the actor runs.
    Commit(Duration),
    /// Maintenance runs somewhere: so many jobs.
    Maintenance(usize),
    /// No slot is idle.
    NoIdleSlot,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Writers(count) => write!(f, "queued_behind_writers({count})"),
            Self::Readers(count, oldest) => write!(f, "waiting_on_readers({count}, oldest {oldest:?})"),
            Self::StuckReaders(count, oldest) => write!(f, "waiting_on_readers_stuck({count}, oldest {oldest:?})"),
            Self::Commit(age) => write!(f, "waiting_on_commit({age:?})"),
            Self::Maintenance(count) => write!(f, "queued_behind_maintenance({count})"),
            Self::NoIdleSlot => f.write_str("idle_slots==0"),
        }
    }
}

/// What of an actor runs and is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActorCounts {
    /// Reads that run.
    pub reads: usize,
    /// Status jobs that run.
    pub status: usize,
    /// Heavy builds and detached builds that run.
    pub heavy: usize,
    /// Writers that run.
    pub writers: usize,
    /// Maintenance commits that run.
    pub commits: usize,
    /// Interactive jobs that are queued.
    pub interactive_queued: usize,
    /// Maintenance jobs that are queued.
    pub maintenance_queued: usize,
}

impl<K, C> ActorRef<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    /// What runs and is queued, all at one moment.
    #[must_use]
    pub fn counts(&self) -> ActorCounts {
        let seen = self.actor.word.look();
        ActorCounts {
            reads: seen.running(LaneKind::PureRead),
            status: seen.running(LaneKind::SerialLspStatus),
            heavy: seen.running(LaneKind::HeavyInit),
            writers: seen.running(LaneKind::Mutating),
            commits: seen.running(LaneKind::MaintenanceCommit),
            interactive_queued: seen.queued(LaneClass::Interactive),
            maintenance_queued: seen.queued(LaneClass::Maintenance),
        }
    }
}

impl<K, C> Lanes<K, C>
where
    K: Hash + Eq + Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    /// How the executor stands. It never waits, and looks through no queue and no actor.
    ///
    /// It is a look, not a moment: each number is true for itself, at some time during the call. A job counts as queued from its
    /// submission until it has a slot, and as running until it has given that back, which is before it is answered. How long the
    /// oldest has waited is rounded up by a quarter of a second at most; after one has been queued for half a minute, those that
    /// came meanwhile may be told older than they are, never younger.
    #[must_use]
    pub fn liveness(&self) -> LanesLiveness {
        let shared = self.shared();
        let (now, running) = (shared.now(), shared.slots.running());
        let class = |class: LaneClass| ClassLiveness {
            queued: shared.budget(class).in_use(),
            running: running[class as usize],
            oldest: shared.ages.oldest(class, now).map(Duration::from_nanos),
        };
        let (used, lent, _) = shared.pool.look();
        LanesLiveness {
            interactive: class(LaneClass::Interactive),
            maintenance: class(LaneClass::Maintenance),
            idle: (shared.config.pool + lent).saturating_sub(used),
            lent,
            interactive_reserve: shared.config.interactive_reserve,
            maintenance_cap: shared.config.maintenance_cap,
            heavy_free: shared.heavy.free(),
            phantoms: shared.phantoms(),
        }
    }

    /// How many jobs have run to their end, panics included: interactive ones, and maintenance.
    #[must_use]
    pub fn completed(&self) -> (u64, u64) {
        let [interactive, maintenance] = self.shared().slots.completed();
        (interactive, maintenance)
    }

    fn seen_in_slots(&self, mut wanted: impl FnMut(usize, &InSlot, u64) -> bool) -> Vec<RunningJob<K, C>> {
        let shared = self.shared();
        let now = shared.now();
        let found: Vec<InSlot> = shared
            .slots
            .all()
            .filter(|(slot, job, number)| wanted(*slot, job, *number))
            .map(|(_, job, _)| job)
            .collect();
        let mut jobs: Vec<_> = found
            .into_iter()
            .map(|job| RunningJob {
                actor: shared.registry.by_incarnation(job.hash, job.incarnation).map(|actor| ActorRef { actor }),
                incarnation: job.incarnation,
                lane: job.lane,
                class: job.class,
                id: job.id,
                label: job.label,
                age: Duration::from_nanos(now.saturating_sub(job.started)),
            })
            .collect();
        jobs.sort_by_key(|job| (job.incarnation, job.id));
        jobs
    }

    /// All jobs that run, by actor and number.
    #[must_use]
    pub fn running(&self) -> Vec<RunningJob<K, C>> {
        self.seen_in_slots(|_, _, _| true)
    }

    /// The writers that run, by actor and number.
    #[must_use]
    pub fn running_writers(&self) -> Vec<RunningJob<K, C>> {
        self.seen_in_slots(|_, job, _| job.lane == LaneKind::Mutating)
    }

    /// Interactive jobs that have run for at least `age`, by actor and number: each once in its life, whoever asks.
    #[must_use]
    pub fn take_long_running(&self, age: Duration) -> Vec<RunningJob<K, C>> {
        let now = self.shared().now();
        let age = super::executor::nanos(age);
        self.seen_in_slots(|slot, job, number| {
            job.class == LaneClass::Interactive
                && now.saturating_sub(job.started) >= age
                && self.shared().slots.report(slot, number)
        })
    }

    /// Why a queued writer has not begun. Empty if it is not queued, or nothing stands in its way any more.
    #[must_use]
    pub fn blockers(&self, ticket: &LaneTicket) -> Vec<Blocker> {
        let mut found = Vec::new();
        if !matches!(ticket.status(), JobStatus::Queued | JobStatus::BlockedByOtherMutating) {
            return found;
        }
        let shared = self.shared();
        let now = shared.now();
        let age = |job: &InSlot| Duration::from_nanos(now.saturating_sub(job.started));
        let all: Vec<InSlot> = shared.slots.all().map(|(_, job, _)| job).collect();
        let mine = || all.iter().filter(|job| job.incarnation == ticket.incarnation());
        let writers = ticket.job().writers();
        if writers > 1 {
            found.push(Blocker::Writers(writers));
        }
        let is_reader = |job: &&InSlot| job.lane.is_shared() && job.lane != LaneKind::MaintenanceCommit;
        if let Some(oldest) = mine().filter(is_reader).map(age).max() {
            let count = mine().filter(is_reader).count();
            let stuck = oldest >= shared.config.stuck_after;
            found.push(if stuck { Blocker::StuckReaders(count, oldest) } else { Blocker::Readers(count, oldest) });
        }
        if let Some(commit) = mine().find(|job| job.lane == LaneKind::MaintenanceCommit) {
            found.push(Blocker::Commit(age(commit)));
        }
        let maintenance = all.iter().filter(|job| job.class == LaneClass::Maintenance).count();
        if maintenance > 0 {
            found.push(Blocker::Maintenance(maintenance));
        }
        let (used, lent, _) = shared.pool.look();
        if used >= shared.config.pool + lent {
            found.push(Blocker::NoIdleSlot);
        }
        found
    }
}
