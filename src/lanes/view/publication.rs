//! One publication: its number, its phase, since when, and whether a newer one has taken its place; and what its build sees of it.
//! It does not know what is built, nor how it is installed.

#![forbid(unsafe_code)]

use super::paths::PublishPhase;
use super::publisher::PublishError;
use crate::runtime::Spawner;
use crate::sync::Arc;
use crate::sync::stat::{AtomicU64, Ordering};
use std::fmt;
use std::time::Duration;

/// A publication that goes on. Numbers only, so that anybody may look.
pub(super) struct Publication {
    pub(super) number: u64,
    pub(super) incarnation: u64,
    /// Its number among those of its actor. It rises while the publication has not begun, and takes over what is asked for.
    generation: AtomicU64,
    pub(super) begun: u64,
    phase: AtomicU64,
    phase_begun: AtomicU64,
}

impl Publication {
    pub(super) fn new(number: u64, incarnation: u64, generation: u64, now: u64) -> Self {
        let (phase, phase_begun) = (AtomicU64::new(0), AtomicU64::new(now));
        Self { number, incarnation, generation: AtomicU64::new(generation), begun: now, phase, phase_begun }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// It has not begun, and stands for a newer one too, says who holds what the actor is owed.
    pub(super) fn takes_over(&self, generation: u64) {
        self.generation.store(generation, Ordering::Release);
    }

    pub(super) fn enter(&self, phase: PublishPhase, now: u64) {
        self.phase.store(phase as u64, Ordering::Relaxed);
        self.phase_begun.store(now, Ordering::Relaxed);
    }

    pub(super) fn health(&self, superseded: bool, now: u64) -> PublicationHealth {
        let since = |begun: u64| Duration::from_nanos(now.saturating_sub(begun));
        PublicationHealth {
            number: self.number,
            incarnation: self.incarnation,
            phase: PublishPhase::of(self.phase.load(Ordering::Relaxed)),
            elapsed: since(self.begun),
            phase_elapsed: since(self.phase_begun.load(Ordering::Relaxed)),
            superseded,
        }
    }
}

/// How a publication stands. It holds nobody up: only its install runs alone, as a writer that is seen as such.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublicationHealth {
    /// Its number, never used again.
    pub number: u64,
    /// The registration of its actor.
    pub incarnation: u64,
    /// Where it stands.
    pub phase: PublishPhase,
    /// For how long it has gone on.
    pub elapsed: Duration,
    /// For how long it has stood there.
    pub phase_elapsed: Duration,
    /// A newer one has taken its place: it ends at its next checkpoint.
    pub superseded: bool,
}

/// What a build sees of its actor and of itself.
pub struct PublishCx<C> {
    pub(super) context: Arc<C>,
    pub(super) publication: Arc<Publication>,
    /// The newest publication of the actor, or beyond all of them once it is closed.
    pub(super) newest: Arc<AtomicU64>,
    pub(super) spawner: Spawner,
}

impl<C> fmt::Debug for PublishCx<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublishCx").field("number", &self.publication.number).finish_non_exhaustive()
    }
}

impl<C> PublishCx<C> {
    /// The context of the actor.
    #[must_use]
    pub fn context(&self) -> &Arc<C> {
        &self.context
    }

    /// Whether a newer publication has taken its place.
    #[must_use]
    pub fn is_superseded(&self) -> bool {
        self.newest.load(Ordering::Acquire) != self.publication.generation()
    }

    /// Enters a phase.
    ///
    /// # Errors
    /// [`PublishError::Superseded`] if a newer publication has taken its place: the phase is not entered.
    pub fn enter(&self, phase: PublishPhase) -> Result<(), PublishError> {
        if self.is_superseded() {
            return Err(PublishError::Superseded);
        }
        self.publication.enter(phase, super::super::executor::nanos(self.spawner.now()));
        Ok(())
    }
}
