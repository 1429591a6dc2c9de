//! The long-lived place of one file: its name, the pointer to its current revision, and the tickets that are out for it.
//! It does not know what its revisions hold, nor how the scheduler finds it.
#![forbid(unsafe_code)]

use super::artifact::{ArtifactFlight, Artifacts};
use super::edges::{Boxed, Node};
use super::host::{Host, Stage};
use super::revision::Revision;
use super::shared::Shared;
use super::stamp::Clock;
use super::stripe::{Garbage, Stripe};
use super::tickets::Tickets;
use super::trie::Hashed;
use super::versions::{Seen, Versions};
use crate::flight::{Contained, catch};
use crate::runtime::{LEVELS, Priority};
use crate::sync::Arc;
use crate::sync::epoch::Guard;

/// The place of one file. What every look at the file reads stands first, on one cache line more often than not.
#[repr(C)]
pub(crate) struct Slot<H: Host> {
    pub(crate) hash: u64,
    pub(crate) versions: Versions<Revision<H>>,
    file: Contained<H::File>,
    pub(crate) stripe: Arc<Stripe<H>>,
    /// Which are out, and the number of the world that the slot was made for.
    pub(crate) tickets: Tickets,
    /// The newest Artifact of each profile that was ever sealed.
    pub(crate) good: Artifacts<H>,
    /// What it has to do with other files, if it has.
    pub(crate) node: Boxed<Node<H>>,
}

impl<H: Host> Slot<H> {
    pub(crate) fn new((file, hash): (Contained<H::File>, u64), stripe: Arc<Stripe<H>>, tickets: Tickets) -> Self {
        let versions = Versions::empty();
        Self { file, hash, stripe, versions, tickets, good: Artifacts::new(), node: Boxed::new() }
    }

    pub(crate) fn file(&self) -> &H::File {
        &self.file
    }

    /// Its place among the other files.
    pub(crate) fn node(&self) -> &Node<H> {
        self.node.get_or_make(Node::new)
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

    /// Whether its file was removed, or was but named and nobody names it any more: nothing lives here, and nothing ever will.
    pub(crate) fn has_ended(&self, pinned: &Guard) -> bool {
        self.visible(pinned).map_or_else(|| self.versions.is_buried(), |seen| seen.absent)
    }

    /// The number of the world that it was made for.
    pub(crate) fn world(&self) -> u64 {
        self.tickets.number()
    }

    /// Whether its world was left behind by a reset: what lives here is about to end, if it has not yet.
    pub(crate) fn is_over(&self) -> bool {
        self.world() < self.shared().world.get()
    }

    /// Source of the visible revision, if it is there.
    #[inline]
    pub(crate) fn source<'g>(&self, clock: &Clock, pinned: &'g Guard) -> Option<&'g Arc<H::Source>> {
        // Most stand as they were published, and then nothing else of the revision is read.
        match self.versions.head(pinned)?.settled_source() {
            Some(source) => Some(source),
            None => self.source_of_visible(clock, pinned),
        }
    }

    /// Apart, since few are on their way.
    #[inline(never)]
    fn source_of_visible<'g>(&self, clock: &Clock, pinned: &'g Guard) -> Option<&'g Arc<H::Source>> {
        self.versions.visible(clock, pinned)?.0.published(clock).map(|(source, _)| source)
    }

    /// The visible revision, if the file has one.
    pub(crate) fn visible<'g>(&self, pinned: &'g Guard) -> Option<Seen<'g, Revision<H>>> {
        self.versions.visible(self.clock(), pinned)
    }
}

impl<H: Host> Hashed for Slot<H> {
    #[inline]
    fn hash(&self) -> u64 {
        self.hash
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
