//! What the files of one stripe share, so that no word is written by every request, and how a name finds its stripe.
//! It does not know which files there are.
#![forbid(unsafe_code)]

use super::artifact::ArtifactFlight;
use super::chain::Cut;
use super::host::Host;
use super::limbo::Limbo;
use super::origin::Asker;
use super::revision::{Life, Revision};
use super::shared::Shared;
use super::versions::Retired;
use crate::flight::{PanicReport, catch};
use crate::sync::Arc;
use crate::sync::stat::{AtomicU64, Ordering};
use ahash::RandomState;

/// Stripes of files. A power of two.
const STRIPES: usize = 16;

/// What was taken out of a slot or a revision and may still be looked at by pinned readers.
pub(crate) enum Garbage<H: Host> {
    Revision(#[expect(dead_code, reason = "kept for its destructor")] Arc<Revision<H>>),
    Artifact(#[expect(dead_code, reason = "kept for its destructor")] Arc<ArtifactFlight<H>>),
    Asker(#[expect(dead_code, reason = "kept for its destructor")] Box<Asker>),
}

/// What the slots of one stripe share: a way to the scheduler, numbers of lives, a limbo.
pub(crate) struct Stripe<H: Host> {
    pub(crate) shared: Arc<Shared<H>>,
    pub(crate) limbo: Limbo<Garbage<H>>,
    /// Which stripe it is, of how many.
    place: (u64, u64),
    incarnations: AtomicU64,
}

impl<H: Host> Stripe<H> {
    fn new(shared: Arc<Shared<H>>, place: (u64, u64)) -> Self {
        Self { shared, limbo: Limbo::new(), place, incarnations: AtomicU64::new(0) }
    }

    /// The number of a new life, which no other life of this scheduler has.
    pub(crate) fn new_life(&self) -> Life {
        let (stripe, stripes) = self.place;
        // ordering: only a number; each call gets its own.
        let incarnation = (self.incarnations.fetch_add(1, Ordering::Relaxed) + 1) * stripes + stripe;
        Life { incarnation }
    }

    /// Keeps an asker that was forgotten until no pinned reader can hold it. Outside every section and pin.
    pub(crate) fn keep_asker(&self, asker: Option<Box<Asker>>) {
        if let Some(asker) = asker {
            self.limbo.put(Garbage::Asker(asker));
        }
    }

    /// Keeps retired revisions, of files of any stripe, until no pinned reader can hold them. Outside every section and pin.
    pub(crate) fn retire_all(&self, retired: Cut<Revision<H>>) {
        self.limbo.put_all(retired.into_iter().map(|Retired(revision)| Garbage::Revision(revision)));
    }

    /// Drops what no pinned reader can hold any more. Outside every section and pin.
    pub(crate) fn empty(&self) {
        self.limbo.empty_ripe();
    }

    /// Keeps a retired revision until no pinned reader can hold it. Outside every section and pin.
    pub(crate) fn retire(&self, Retired(revision): Retired<Revision<H>>) {
        self.limbo.put(Garbage::Revision(revision));
    }
}

/// The stripes of a scheduler.
pub(crate) struct Stripes<H: Host> {
    stripes: Box<[Arc<Stripe<H>>]>,
    hasher: RandomState,
}

impl<H: Host> Stripes<H> {
    pub(crate) fn new(shared: &Arc<Shared<H>>, hasher: RandomState) -> Self {
        let stripe = |at| Arc::new(Stripe::new(shared.clone(), (at as u64, STRIPES as u64)));
        Self { stripes: (0..STRIPES).map(stripe).collect(), hasher }
    }

    /// The hash of a name; it is the host's code that feeds it.
    #[inline]
    pub(crate) fn hash(&self, file: &H::File) -> Result<u64, PanicReport> {
        catch(|| self.hash_here(file))
    }

    /// The same for a caller who stops the host's panics himself.
    #[inline]
    pub(crate) fn hash_here(&self, file: &H::File) -> u64 {
        self.hasher.hash_one(file)
    }

    pub(crate) fn of(&self, hash: u64) -> &Arc<Stripe<H>> {
        &self.stripes[(hash >> 32) as usize % STRIPES]
    }
}
