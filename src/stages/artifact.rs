//! The Artifacts of one revision: a cell for each profile asked for, the execution that is current in it, and those that are
//! ready to run. It does not know what a profile is, nor who runs what is ready.

use super::host::Host;
use super::origin::Origin;
use super::profiles::{self, Listed, Named, Place};
use super::ready_cells::{Queueable, Queued, ReadyCells};
use super::revision::{Revision, StageFlight};
use crate::flight::{First, Flight};
use crate::runtime::Priority;
use crate::sync::atomic::{AtomicPtr, Ordering, fence, fence_behind_exchange};
use crate::sync::epoch::{self, Guard};
use crate::sync::{Arc, Weak, mutant};
use smallvec::SmallVec;
use std::ptr;

/// One execution of one Artifact.
pub(crate) struct ArtifactFlight<H: Host> {
    pub(crate) flight: StageFlight<H::Artifact, H, First>,
    pub(crate) origin: Origin,
    pub(crate) revision: Weak<Revision<H>>,
    /// Incarnation and generation of its revision, and how often the execution has been replaced there; in this order a later
    /// one is newer.
    version: (u64, u64, u64),
    pub(crate) profile: Arc<Named<H::Profile>>,
}

/// The place of one profile in a revision. It is made once and stays as long as its revision does.
struct Cell<H: Host> {
    profile: Arc<Named<H::Profile>>,
    /// Holds one count of the execution that is current. Replaced by who asks again after it failed or was cancelled.
    current: AtomicPtr<ArtifactFlight<H>>,
    /// The older cell, set before this one is shown to anybody.
    older: *mut Cell<H>,
    /// How many are older.
    number: u32,
    queued: Queued<Cell<H>>,
    place: Place<Cell<H>>,
}

impl<H: Host> Listed for Cell<H> {
    fn hash(&self) -> u64 {
        self.profile.hash
    }

    fn older(&self) -> Option<&Self> {
        // SAFETY: cells are freed with the revision alone, which whoever has a reference to one borrows.
        unsafe { self.older.as_ref() }
    }

    fn number(&self) -> u32 {
        self.number
    }

    fn place(&self) -> &Place<Self> {
        &self.place
    }
}

impl<H: Host> Queueable for Cell<H> {
    fn queued(&self) -> &Queued<Self> {
        &self.queued
    }
}

/// The Artifacts of one revision.
pub(crate) struct Artifacts<H: Host> {
    cells: AtomicPtr<Cell<H>>,
}

/// Those of them that are ready to run.
pub(crate) struct ReadyArtifacts<H: Host>(ReadyCells<Cell<H>>);

// SAFETY: cells are shared by reference from the moment they are pushed, their plain fields are written before, and the counts
// they hold are of `ArtifactFlight`s, which are Send and Sync.
unsafe impl<H: Host> Send for Artifacts<H> {}
// SAFETY: as above.
unsafe impl<H: Host> Sync for Artifacts<H> {}
// SAFETY: as above.
unsafe impl<H: Host> Send for ReadyArtifacts<H> {}
// SAFETY: as above.
unsafe impl<H: Host> Sync for ReadyArtifacts<H> {}

/// Stands between making an execution known and looking whether its Analysis is done on the one side, and between finishing the
/// Analysis and looking for executions on the other, so that one of the two admits the execution.
pub(crate) fn known_or_done() {
    if mutant("known.no_fence") {
        return;
    }
    // ordering: store-load; its two callers pair with each other. If the wish passes first, the completion finds its cell; else
    // the wish finds Analysis done.
    fence(Ordering::SeqCst);
}

/// The same for who has finished the Analysis by an exchange, behind which it comes here.
pub(crate) fn done_behind_exchange() {
    if mutant("known.no_fence") {
        return;
    }
    // ordering: as above, the exchange being what it keeps ahead of the look.
    fence_behind_exchange();
}

impl<H: Host> Artifacts<H> {
    pub(crate) fn new() -> Self {
        Self { cells: AtomicPtr::new(ptr::null_mut()) }
    }

    fn newest(&self) -> Option<&Cell<H>> {
        // ordering: pairs with `cell`. If the push came first the cell is seen whole; else it is younger than this look.
        // SAFETY: cells are freed with the revision alone, which `self` borrows.
        unsafe { self.cells.load(Ordering::Acquire).as_ref() }
    }

    fn cells(&self) -> impl Iterator<Item = &Cell<H>> {
        std::iter::successors(self.newest(), |cell| cell.older())
    }

    fn look(&self, hash: u64, profile: &H::Profile) -> Option<&Cell<H>> {
        profiles::find(self.newest(), hash, |cell| **cell.profile == *profile)
    }

    /// The cell of an execution, if that is of one of these.
    fn cell_of(&self, artifact: &ArtifactFlight<H>) -> Option<&Cell<H>> {
        profiles::find(self.newest(), artifact.profile.hash, |cell| Arc::ptr_eq(&cell.profile, &artifact.profile))
    }

    /// The execution that is current for `profile`, if there ever was one. Hashes and compares profiles, which is the host's code.
    pub(crate) fn find(&self, profile: &H::Profile) -> Option<Arc<ArtifactFlight<H>>> {
        self.newest()?;
        self.look(profiles::hash(profile), profile).map(Cell::current)
    }

    /// The execution that is current for `profile`; makes a first one if there is none.
    pub(crate) fn find_or_add(&self, profile: &H::Profile, revision: &Arc<Revision<H>>) -> Arc<ArtifactFlight<H>> {
        let hash = profiles::hash(profile);
        let first = || {
            let version = (revision.life.incarnation, revision.generation, 0);
            let profile = Arc::new(Named::with(hash, profile.clone()));
            ArtifactFlight::with(Arc::downgrade(revision), version, profile, Flight::new())
        };
        let mut made = None;
        let cell = self.cell(hash, profile, || made.insert(first()).clone());
        // What was made may have been for nothing: another thread was faster.
        cell.map_or_else(|| made.expect("it was made for a new cell"), Cell::current)
    }

    /// The first execution that a revision has, which nobody else has seen yet.
    pub(crate) fn start_with(&self, first: &Arc<ArtifactFlight<H>>) {
        let cell = self.cell(first.profile.hash, &first.profile, || first.clone());
        debug_assert!(cell.is_none(), "nobody else has seen the revision");
    }

    /// The cell of `profile`, or `None` if it was made now, with what `first` made.
    fn cell(
        &self,
        hash: u64,
        profile: &H::Profile,
        first: impl FnOnce() -> Arc<ArtifactFlight<H>>,
    ) -> Option<&Cell<H>> {
        let mut looked = self.cells.load(Ordering::Acquire);
        let find = || self.look(hash, profile);
        if let Some(found) = find() {
            return Some(found);
        }
        let first = first();
        let mut cell = Box::new(Cell {
            profile: first.profile.clone(),
            current: AtomicPtr::new(Arc::into_raw(first).cast_mut()),
            older: looked,
            number: 0,
            queued: Queued::new(),
            place: Place::new(),
        });
        loop {
            cell.older = looked;
            cell.number = cell.older().map_or(0, |older| older.number + 1);
            let raw = Box::into_raw(cell);
            // ordering: pairs with `newest`, see there.
            match self.cells.compare_exchange(looked, raw, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    // SAFETY: as in `newest`.
                    profiles::enter(unsafe { &*raw });
                    return None;
                }
                Err(now) => looked = now,
            }
            // SAFETY: the exchange has not shown it to anybody.
            cell = unsafe { Box::from_raw(raw) };
            // Somebody was faster: it may have been for the same profile.
            if let Some(found) = find() {
                return Some(found);
            }
        }
    }

    /// Puts `fresh` in the place of `ended`. `None` if another thread was faster. What is put out waits for readers' pins to end,
    /// so the caller hands it to the limbo.
    pub(crate) fn replace(
        &self,
        ended: &Arc<ArtifactFlight<H>>,
        fresh: Arc<ArtifactFlight<H>>,
    ) -> Option<Arc<ArtifactFlight<H>>> {
        let cell = self.cell_of(ended)?;
        let (old, raw) = (Arc::as_ptr(ended).cast_mut(), Arc::into_raw(fresh).cast_mut());
        // ordering: pairs with `Cell::current`. If this came first, that finds the fresh one; else the ended one, and asks again.
        match cell.current.compare_exchange(old, raw, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: the cell's own count of the ended one, taken by the one exchange that succeeded.
            Ok(_) => Some(unsafe { Arc::from_raw(old) }),
            Err(_) => {
                // SAFETY: the count that `into_raw` gave up was not taken over.
                drop(unsafe { Arc::from_raw(raw) });
                None
            }
        }
    }

    /// Makes `artifact` the current one of its profile, unless that is of a newer generation. What it replaces waits for readers'
    /// pins to end, so the caller hands it to the limbo.
    pub(crate) fn put(&self, artifact: &Arc<ArtifactFlight<H>>) -> Option<Arc<ArtifactFlight<H>>> {
        let cell = self.cell(artifact.profile.hash, &artifact.profile, || artifact.clone())?;
        loop {
            let current = cell.current();
            // What was put there in the place of an evicted one is not over yet: it makes way for the next of its number.
            let stays = current.version == artifact.version && current.flight.word().phase().is_terminal();
            if current.version > artifact.version || stays || Arc::ptr_eq(&current, artifact) {
                return None;
            }
            let (old, raw) = (Arc::as_ptr(&current).cast_mut(), Arc::into_raw(artifact.clone()).cast_mut());
            // ordering: as in `replace`.
            match cell.current.compare_exchange(old, raw, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: the cell's own count of the replaced one, taken by the one exchange that succeeded.
                Ok(_) => return Some(unsafe { Arc::from_raw(old) }),
                // SAFETY: the count that `into_raw` gave up was not taken over.
                Err(_) => drop(unsafe { Arc::from_raw(raw) }),
            }
        }
    }

    /// Every execution that is current.
    pub(crate) fn each(&self, mut f: impl FnMut(&Arc<ArtifactFlight<H>>)) {
        for cell in self.cells() {
            f(&cell.current());
        }
    }

    /// Every execution that is current, under a pin: `f` is short and no host code.
    pub(crate) fn each_pinned(&self, mut f: impl FnMut(&ArtifactFlight<H>)) {
        let mut cells = self.cells().peekable();
        let _pinned: Option<Guard> = cells.peek().map(|_| epoch::pin());
        for cell in cells {
            // SAFETY: as in `Cell::current`; the pin lasts as long as the reference.
            // ordering: as there.
            f(unsafe { &*cell.current.load(Ordering::Acquire) });
        }
    }
}

impl<H: Host> ReadyArtifacts<H> {
    pub(crate) fn none() -> Self {
        Self(ReadyCells::none())
    }

    /// Calls `is_ready` with every execution of `all` that is current, and says of each of which it answers yes that it is ready to
    /// run, the oldest first: short and no host code, under the caller's pin.
    pub(crate) fn push_each(
        &self,
        all: &Artifacts<H>,
        _pinned: &Guard,
        mut is_ready: impl FnMut(&ArtifactFlight<H>) -> bool,
    ) {
        let is_ready = |cell: &&Cell<H>| {
            // SAFETY: as in `Cell::current`; the pin lasts longer than the reference.
            // ordering: as there.
            is_ready(unsafe { &*cell.current.load(Ordering::Acquire) })
        };
        self.0.push_all(all.cells().filter(is_ready));
    }

    /// Says that the current execution of the profile of `artifact`, one of `all`, is ready to run.
    pub(crate) fn push(&self, all: &Artifacts<H>, artifact: &ArtifactFlight<H>) {
        if let Some(cell) = all.cell_of(artifact) {
            self.0.push(cell);
        }
    }

    /// Takes everything of `all` that is ready, oldest first, claims the first that `pick` says yes to, and puts back what it keeps.
    /// Returns that, the others that are as ready, and the priorities of what was put back: each needs a ticket of its own, since
    /// whoever popped the one that was out may have looked while the cells were in our hands. `pick` may be asked about one that is
    /// not ready.
    pub(crate) fn take(
        &self,
        all: &Artifacts<H>,
        mut pick: impl FnMut(&Arc<ArtifactFlight<H>>, bool) -> Ready,
    ) -> Taken<H> {
        let mut taken = Taken { first: None, rest: Vec::new(), left: SmallVec::new() };
        self.0.take(all.newest(), |cell| {
            let current = cell.current();
            match pick(&current, taken.first.is_none()) {
                Ready::Run if taken.first.is_none() => taken.first = Some(current),
                Ready::Run => taken.rest.push(current),
                Ready::Keep => {
                    let priority = current.flight.word().priority();
                    if !taken.left.contains(&priority) {
                        taken.left.push(priority);
                    }
                    return true;
                }
                Ready::Drop => {}
            }
            false
        });
        taken
    }
}

/// What was taken off the list of what is ready.
pub(crate) struct Taken<H: Host> {
    /// Claimed: the caller runs it.
    pub(crate) first: Option<Arc<ArtifactFlight<H>>>,
    /// Not claimed, and in nobody's list any more: the caller queues them.
    pub(crate) rest: Vec<Arc<ArtifactFlight<H>>>,
    /// The priorities of what was put back.
    pub(crate) left: SmallVec<[Priority; 4]>,
}

/// What becomes of a ready cell that a ticket has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// The ticket is for it.
    Run,
    /// A later ticket sees to it.
    Keep,
    /// There is nothing to run.
    Drop,
}

impl<H: Host> Cell<H> {
    fn current(&self) -> Arc<ArtifactFlight<H>> {
        let pinned: Guard = epoch::pin();
        // ordering: pairs with `replace`, see there.
        let raw = self.current.load(Ordering::Acquire);
        // SAFETY: the cell's count keeps it alive, and one that is put out of the cell outlives the pins of that time.
        unsafe { Arc::increment_strong_count(raw) };
        drop(pinned);
        // SAFETY: the count was just added.
        unsafe { Arc::from_raw(raw) }
    }
}

impl<H: Host> Drop for Cell<H> {
    fn drop(&mut self) {
        let raw = self.current.load(Ordering::Acquire);
        // SAFETY: the cell's own count.
        drop(unsafe { Arc::from_raw(raw) });
    }
}

impl<H: Host> Drop for Artifacts<H> {
    fn drop(&mut self) {
        let mut at = self.cells.load(Ordering::Acquire);
        while !at.is_null() {
            // SAFETY: nobody shares the revision any more, and each cell was made by `Box::into_raw`.
            let cell = unsafe { Box::from_raw(at) };
            at = cell.older;
        }
    }
}

impl<H: Host> ArtifactFlight<H> {
    fn with(
        revision: Weak<Revision<H>>,
        version: (u64, u64, u64),
        profile: Arc<Named<H::Profile>>,
        flight: StageFlight<H::Artifact, H, First>,
    ) -> Arc<Self> {
        Arc::new(Self { flight, origin: Origin::new(), revision, version, profile })
    }

    /// One that is to take its place: idle, or done already with what was made elsewhere.
    pub(crate) fn after(&self, made: Option<Arc<H::Artifact>>) -> Arc<Self> {
        let (incarnation, generation, often) = self.version;
        let flight = made.map_or_else(Flight::new, Flight::done);
        Self::with(self.revision.clone(), (incarnation, generation, often + 1), self.profile.clone(), flight)
    }

    /// Incarnation and generation of the revision that it is of.
    pub(crate) fn of(&self) -> (u64, u64) {
        (self.version.0, self.version.1)
    }

    /// The first execution of a revision that nobody else has seen yet, with who asks for it.
    pub(crate) fn asked(
        revision: &Arc<Revision<H>>,
        profile: Named<H::Profile>,
        origin: Origin,
        flight: StageFlight<H::Artifact, H, First>,
    ) -> Arc<Self> {
        let version = (revision.life.incarnation, revision.generation, 0);
        let profile = Arc::new(profile);
        let artifact = Arc::new(Self { flight, origin, revision: Arc::downgrade(revision), version, profile });
        revision.artifacts.start_with(&artifact);
        artifact
    }
}
