//! Requests that join a revision while it is being made, before anybody else sees it: no exchange is needed for that.
//! It does not know how the revision comes to be seen.
#![forbid(unsafe_code)]

use super::artifact::ArtifactFlight;
use super::demand::Demand;
use super::host::{Host, Stage};
use super::origin::{Origin, Origins};
use super::profiles::Named;
use super::request::{Ask, StageHandle};
use super::revision::{Revision, StageFlight};
use super::run::{AnalysisRef, SourceRef};
use super::slot::Kind;
use super::target::AnyTarget;
use super::wish::Waiter;
use crate::flight::{Completion, First, FirstWaiter, Flight, Handle};
use crate::sync::Arc;

/// What a revision starts with.
pub(crate) struct Start<H: Host> {
    pub(crate) demand: Demand,
    pub(crate) source: StageFlight<H::Source, H, First>,
    pub(crate) analysis: StageFlight<H::Analysis, H, ()>,
    pub(crate) origins: Origins,
}

/// A waiter that has joined a revision in the making. Without a block of its own it has its place in the flight.
pub(crate) enum Early<H: Host> {
    Source(Option<Waiter<H::Source, H>>),
    Analysis(Waiter<H::Analysis, H>),
    Artifact(Option<Waiter<H::Artifact, H>>, Arc<ArtifactFlight<H>>),
}

/// A place for who asks, in the flight, unless something may end the wait before its time.
fn place<T: Send + Sync + 'static, H: Host>(ask: &Ask<H>) -> (First, Option<Waiter<T, H>>) {
    if ask.token.is_none() && ask.deadline.is_none() {
        (First::waits(), None)
    } else {
        (First::nobody(), Some(Completion::new()))
    }
}

impl<H: Host> Start<H> {
    /// With nothing asked for.
    pub(crate) fn idle() -> Self {
        Self { demand: Demand::new(false), source: Flight::new(), analysis: Flight::new(), origins: Origins::new() }
    }

    /// With Source done already.
    pub(crate) fn with_source(source: Arc<H::Source>) -> Self {
        Self {
            demand: Demand::new(true),
            source: Flight::done(source),
            analysis: Flight::new(),
            origins: Origins::new(),
        }
    }

    /// With a request that has joined, if it asks for what every revision has. Its unit of the budget goes with it.
    #[inline]
    pub(crate) fn asked(target: &AnyTarget<H>, ask: &mut Ask<H>) -> (Self, Option<Early<H>>) {
        let mut charged = std::mem::take(&mut ask.charged);
        let mut origin = |wanted: bool| Origin::first(&ask.asker, wanted && std::mem::take(&mut charged));
        match target {
            AnyTarget::Source => {
                let (first, waiter) = place(ask);
                let start = Self {
                    demand: Demand::new(false),
                    source: Flight::admitted(ask.priority, waiter.clone()).with_first(first),
                    analysis: Flight::new(),
                    origins: Origins { source: origin(true), analysis: Origin::new() },
                };
                (start, Some(Early::Source(waiter)))
            }
            AnyTarget::Analysis => {
                let waiter = Completion::new();
                let start = Self {
                    demand: Demand::wished(),
                    source: Flight::admitted(ask.priority, None),
                    analysis: Flight::wanted(ask.priority, Some(waiter.clone())),
                    origins: Origins { source: origin(false), analysis: origin(true) },
                };
                (start, Some(Early::Analysis(waiter)))
            }
            AnyTarget::Artifact(_) => {
                ask.charged = charged;
                (Self::idle(), None)
            }
        }
    }

    /// With what an Artifact needs: for one that is asked for next, by [`Early::artifact`].
    pub(crate) fn before_artifact(ask: &Ask<H>) -> Self {
        let origin = || Origin::first(&ask.asker, false);
        Self {
            demand: Demand::wished(),
            source: Flight::admitted(ask.priority, None),
            analysis: Flight::wanted(ask.priority, None),
            origins: Origins { source: origin(), analysis: origin() },
        }
    }
}

impl<H: Host> Early<H> {
    /// Joins the Artifact of a revision that starts with what it needs, and that nobody else has seen yet. The request's unit of
    /// the budget goes with it.
    pub(crate) fn artifact(revision: &Arc<Revision<H>>, profile: Named<H::Profile>, ask: &mut Ask<H>) -> Self {
        let (first, waiter) = place(ask);
        let origin = Origin::first(&ask.asker, std::mem::take(&mut ask.charged));
        let flight = Flight::wanted(ask.priority, waiter.clone()).with_first(first);
        Self::Artifact(waiter, ArtifactFlight::asked(revision, profile, origin, flight))
    }

    /// The request's handle.
    pub(crate) fn handle(self, revision: Arc<Revision<H>>) -> StageHandle<H> {
        match self {
            Self::Source(None) => StageHandle::Source(Handle::first(SourceRef::<H>::of(revision))),
            Self::Source(Some(waiter)) => StageHandle::Source(Handle::pending(waiter, SourceRef::<H>::of(revision))),
            Self::Analysis(waiter) => StageHandle::Analysis(Handle::pending(waiter, AnalysisRef::<H>::of(revision))),
            Self::Artifact(None, artifact) => StageHandle::Artifact(Handle::first(artifact)),
            Self::Artifact(Some(waiter), artifact) => StageHandle::Artifact(Handle::pending(waiter, artifact)),
        }
    }

    /// The ticket that it calls for.
    pub(crate) fn ticket(ask: &Ask<H>) -> Kind {
        Kind::of(Stage::Source, ask.priority)
    }
}
