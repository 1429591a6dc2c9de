//! Source roots: a view of every file's Source, captured in constant time, that never changes its answers.
//! It does not know how revisions are kept for it, nor how files move on.
#![forbid(unsafe_code)]

use super::host::Host;
use super::leases::Seat;
use super::retain::Retained;
use super::revision::Revision;
use super::scheduler::{Core, Stages};
use super::stamp::Clock;
use super::witness::SourceVersion;
use super::world::World;
use crate::flight::catch;
use crate::sync::Arc;
use crate::sync::epoch;
use std::fmt;

/// A view of every file's Source, as it was published at the moment of the capture: from [`Stages::capture_source_root`].
///
/// What happens later never changes an answer. Of files that moved on together, by one batch, it shows all before or all after.
/// A version that was superseded since is kept as long as some root shows it, and no longer; so hold a root no longer than it is
/// needed. It keeps what it shows when the scheduler ends, and does not keep the scheduler from ending.
pub struct SourceRoot<H: Host> {
    core: Arc<Core<H>>,
    world: Arc<World<H>>,
    /// Where it stands among the leases, and the clock value up to which it sees; `None` if the clock has come to its end.
    lease: Option<(Seat, u64)>,
}

/// What a [`SourceRoot`] shows of a file.
pub enum SourceLookup<H: Host> {
    /// Nothing of the file had been published.
    Unknown,
    /// It was edited, invalidated, closed or removed, and its new Source had not been published.
    Absent,
    /// Its Source, and which one it is.
    Present(Arc<H::Source>, SourceVersion),
}

impl<H: Host> SourceLookup<H> {
    /// The Source, if it is shown.
    pub fn source(&self) -> Option<&Arc<H::Source>> {
        if let Self::Present(source, _) = self { Some(source) } else { None }
    }

    /// Which Source it is, if it is shown.
    pub fn version(&self) -> Option<SourceVersion> {
        if let Self::Present(_, version) = self { Some(*version) } else { None }
    }
}

impl<H: Host> Clone for SourceLookup<H> {
    fn clone(&self) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::Absent => Self::Absent,
            Self::Present(source, version) => Self::Present(source.clone(), *version),
        }
    }
}

impl<H: Host> fmt::Debug for SourceLookup<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("Unknown"),
            Self::Absent => f.write_str("Absent"),
            Self::Present(_, version) => f.debug_tuple("Present").field(version).finish(),
        }
    }
}

impl<H: Host> Stages<H> {
    /// Captures a view of every file's Source, in constant time and without a lock, however many files and roots there are.
    pub fn capture_source_root(&self) -> SourceRoot<H> {
        let core = self.shared_core();
        let mut unseen = Vec::new();
        let (world, lease) = capture(&core, &mut unseen);
        Retained::cut_all(unseen);
        SourceRoot { core, world, lease }
    }
}

type Captured<H> = (Arc<World<H>>, Option<(Seat, u64)>);

fn capture<H: Host>(core: &Core<H>, unseen: &mut Vec<Retained<H>>) -> Captured<H> {
    let (worlds, roots, clock) = (&core.worlds, &core.shared.roots, &core.shared.clock);
    let pinned = epoch::pin();
    loop {
        let before = worlds.hold(&pinned);
        // Its stamp is not greater than the root's.
        before.born.resolve(clock);
        let Some((seat, at)) = roots.capture(clock, unseen) else { return (before, None) };
        let after = worlds.now(&pinned);
        if after.number == before.number || (after.born.resolve(clock) > at && after.number == before.number + 1) {
            return (before, Some((seat, at)));
        }
        // A reset came between: once more, in the world that it has made.
        roots.release(seat, unseen);
    }
}

impl<H: Host> SourceRoot<H> {
    /// What the root shows of `file`. A file whose name panics when it is hashed or compared is unknown.
    pub fn lookup(&self, file: &H::File) -> SourceLookup<H> {
        let Some((_, at)) = self.lease else { return SourceLookup::Unknown };
        let (core, clock) = (&*self.core, &self.core.shared.clock);
        // Before the pin, whose barrier keeps all that follows it waiting.
        let Ok(hash) = core.stripes.hash(file) else { return SourceLookup::Unknown };
        let pinned = epoch::pin();
        let look = || {
            self.world.table.look_back(hash, file, &pinned, |slot| {
                match slot.versions.seen_at(at, clock, &pinned)?.shown(at, clock) {
                    Shown::Nothing => None,
                    Shown::Gone => Some(SourceLookup::Absent),
                    Shown::Source(source, version) => Some(SourceLookup::Present(source.clone(), version)),
                }
            })
        };
        // Comparing is the host's code.
        catch(look).ok().flatten().unwrap_or(SourceLookup::Unknown)
    }

    /// Up to which moment the root sees: of two roots the later one is greater. Every transition that the root shows, a batch, an
    /// edit or a Source that was published, came before that moment, and no other did.
    pub fn epoch(&self) -> u64 {
        self.lease.map_or(u64::MAX, |(_, at)| at)
    }

    /// Whether the scheduler has no epochs left. Then every file is [`Unknown`](SourceLookup::Unknown) to the root.
    pub fn is_exhausted(&self) -> bool {
        self.lease.is_none()
    }
}

impl<H: Host> Drop for SourceRoot<H> {
    fn drop(&mut self) {
        if let Some((seat, _)) = self.lease {
            let mut unseen = Vec::new();
            self.core.shared.roots.release(seat, &mut unseen);
            Retained::cut_all(unseen);
        }
    }
}

impl<H: Host> fmt::Debug for SourceRoot<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceRoot").field("epoch", &self.lease.map(|(_, at)| at)).finish_non_exhaustive()
    }
}

/// What one revision shows to a view.
enum Shown<'a, H: Host> {
    Nothing,
    Gone,
    Source(&'a Arc<H::Source>, SourceVersion),
}

impl<H: Host> Revision<H> {
    #[inline]
    fn shown(&self, at: u64, clock: &Clock) -> Shown<'_, H> {
        match self.published(clock) {
            Some((source, stamp)) if stamp <= at => Shown::Source(source, self.version()),
            _ if self.known && self.forgotten(clock).is_none_or(|stamp| stamp > at) => Shown::Gone,
            _ => Shown::Nothing,
        }
    }
}
