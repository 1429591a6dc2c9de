//! What every run of a graph has: where its tasks run, since when, who awaits its report, and what may abort it.
//! It does not know how a run is decided, nor what its report says.
#![forbid(unsafe_code)]

use super::run::RunError;
use crate::flight::{CancelRegistration, CancellationToken, Completion, FlightId, FlightRef, Handle, Phase};
use crate::runtime::{Place, Spawner, current_pool};
use crate::sync::{Arc, OnceLock};
use std::time::Duration;

/// From a run's begin to its end.
pub(crate) struct Course<R: Send + 'static> {
    pub(crate) spawner: Spawner,
    pub(crate) place: Place,
    /// On the runtime's clock.
    pub(crate) began: Duration,
    completion: Arc<Completion<R, RunError>>,
    over: OnceLock<()>,
    /// Takes the host's abort signal back when the run is gone.
    signal: OnceLock<CancelRegistration>,
}

impl<R: Send + 'static> Course<R> {
    /// The run begins now.
    pub(crate) fn new(spawner: Spawner, place: Place) -> Self {
        Self {
            began: spawner.now(),
            spawner,
            place,
            completion: Completion::new(),
            over: OnceLock::new(),
            signal: OnceLock::new(),
        }
    }

    /// The run is over: `report` makes its report, told how long it took.
    pub(crate) fn end(&self, report: impl FnOnce(Duration) -> R) {
        let report = report(self.spawner.now().saturating_sub(self.began));
        _ = self.over.set(());
        self.completion.resolve(Ok(report));
    }
}

/// A run.
pub(crate) trait OnCourse: Send + Sync + 'static {
    /// What is told of it at its end.
    type Report: Send + 'static;

    fn course(&self) -> &Course<Self::Report>;

    /// What people call it.
    fn describe(&self) -> String;

    /// Nothing more is to start.
    fn abort(&self);
}

/// Begins a run, which the host's signal may abort, and hands out the claim on its report.
pub(crate) fn launch<C: OnCourse>(
    run: Arc<C>,
    signal: Option<&CancellationToken>,
    begin: impl FnOnce(&C),
) -> Handle<C::Report, RunError> {
    if let Some(signal) = signal {
        let weak = Arc::downgrade(&run);
        let registration = signal.on_cancel(move || {
            if let Some(run) = weak.upgrade() {
                run.abort();
            }
        });
        _ = run.course().signal.set(registration);
    }
    begin(&run);
    Handle::pending(run.course().completion.clone(), run)
}

impl<C: OnCourse> FlightRef for C {
    fn id(&self) -> FlightId {
        FlightId::of(self, 0)
    }

    fn describe(&self) -> String {
        OnCourse::describe(self)
    }

    fn spawner(&self) -> Spawner {
        self.course().spawner.clone()
    }

    fn place(&self) -> Place {
        self.course().place
    }

    fn phase(&self) -> Phase {
        let spawner = &self.course().spawner;
        match self.course().over.get() {
            Some(()) => Phase::Done,
            // Its tasks wait for the thread that asks, and which waits in a job of the same runtime without threads.
            None if spawner.is_driven() && current_pool(spawner).is_some() => Phase::Suspended,
            None => Phase::Claimed,
        }
    }

    fn help(&self) -> bool {
        false
    }

    fn watch(&self) -> bool {
        false
    }

    /// Its only owner withdraws: the run is aborted.
    fn leave(&self) {
        self.abort();
    }
}
