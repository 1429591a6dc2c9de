//! The long-lived place of one file: its name, the pointer to its current revision, and the tickets that are out for it.
//! It does not know what its revisions hold, nor how the scheduler finds it.
#![forbid(unsafe_code)]

use super::artifact::{ArtifactFlight, Artifacts};
use super::contained::Contained;
use super::counters::StripeCounters;
use super::host::{Host, Stage};
use super::limbo::Limbo;
use super::origin::Asker;
use super::revision::{Life, Revision};
use super::shared::Shared;
use super::stamp::Clock;
use super::table::SameHash;
use super::tickets::Tickets;
use super::versions::{Retired, Seen, Versions};
use crate::flight::catch;
use crate::runtime::{LEVELS, Priority};
use crate::sync::Arc;
use crate::sync::epoch::Guard;
use crate::sync::stat::{AtomicU64, Ordering};

/// What was taken out of a slot or a revision and may still be looked at by pinned readers.
pub(crate) enum Garbage<H: Host> {
    Revision(#[expect(dead_code, reason = "kept for its destructor")] Arc<Revision<H>>),
    Artifact(#[expect(dead_code, reason = "kept for its destructor")] Arc<ArtifactFlight<H>>),
    Asker(#[expect(dead_code, reason = "kept for its destructor")] Box<Asker>),
}

/// What the slots of one stripe share, so that no word is written by every request: a way to the scheduler, counters, a limbo.
pub(crate) struct Stripe<H: Host> {
    pub(crate) shared: Arc<Shared<H>>,
    pub(crate) counters: StripeCounters,
    pub(crate) limbo: Limbo<Garbage<H>>,
    /// Which stripe it is, of how many.
    pub(crate) place: (u64, u64),
    incarnations: AtomicU64,
}

impl<H: Host> Stripe<H> {
    pub(crate) fn new(shared: Arc<Shared<H>>, place: (u64, u64)) -> Self {
        Self {
            shared,
            counters: StripeCounters::default(),
            limbo: Limbo::new(),
            place,
            incarnations: AtomicU64::new(0),
        }
    }

    /// The numbers of a new life, which no other life of this scheduler has.
    pub(crate) fn new_life(&self) -> Life {
        let (stripe, stripes) = self.place;
        // ordering: only a number; each call gets its own.
        let incarnation = (self.incarnations.fetch_add(1, Ordering::Relaxed) + 1) * stripes + stripe;
        Life { incarnation, lifetime: incarnation }
    }

    /// Keeps a retired revision until no pinned reader can hold it. Outside every section and pin.
    pub(crate) fn retire(&self, Retired(revision): Retired<Revision<H>>) {
        self.limbo.put(Garbage::Revision(revision));
    }
}

/// The place of one file.
pub(crate) struct Slot<H: Host> {
    file: Contained<H::File>,
    pub(crate) hash: u64,
    pub(crate) stripe: Arc<Stripe<H>>,
    pub(crate) versions: Versions<Revision<H>>,
    pub(crate) tickets: Tickets,
    /// The next slot of the table whose name has the same hash.
    pub(crate) same_hash: SameHash<H>,
    /// The newest Artifact of each profile that was ever sealed.
    pub(crate) good: Artifacts<H>,
}

impl<H: Host> Slot<H> {
    pub(crate) fn new(
        file: Contained<H::File>,
        hash: u64,
        stripe: Arc<Stripe<H>>,
        versions: Versions<Revision<H>>,
        tickets: Tickets,
    ) -> Self {
        Self { file, hash, stripe, versions, tickets, same_hash: SameHash::new(), good: Artifacts::new() }
    }

    pub(crate) fn file(&self) -> &H::File {
        &self.file
    }

    pub(crate) fn shared(&self) -> &Shared<H> {
        &self.stripe.shared
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.stripe.shared.clock
    }

    /// Notes a sealed Artifact as the newest good one of its profile, unless a newer one is. Outside every section and pin.
    pub(crate) fn keep_good(&self, artifact: &Arc<ArtifactFlight<H>>) {
        // Comparing profiles is the host's code; if it panics here the older one stays.
        let put = catch(|| self.good.put(artifact)).ok().flatten();
        if let Some(older) = put {
            self.stripe.limbo.put(Garbage::Artifact(older));
        }
    }

    /// The visible revision, if the file has one.
    pub(crate) fn visible<'g>(&self, pinned: &'g Guard) -> Option<Seen<'g, Revision<H>>> {
        self.versions.visible(self.clock(), pinned)
    }
}

/// Which ticket of a slot: its stage and its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) stage: Stage,
    pub(crate) priority: Priority,
}

impl Kind {
    pub(crate) fn of(stage: Stage, priority: Priority) -> Self {
        Self { stage, priority }
    }

    /// The ticket's bit.
    pub(crate) fn bit(self) -> u32 {
        (self.stage as usize * LEVELS + self.priority as usize) as u32
    }
}
