//! What every run of a graph has: where its tasks run, since when, who awaits its report, and what may abort it.
//! It does not know how a run is decided, nor what its report says.
#![forbid(unsafe_code)]

use super::nested::Nested;
use super::run::RunError;
use crate::flight::{CancelRegistration, CancellationToken, Completion, FlightId, FlightRef, Handle, Phase, contained};
use crate::runtime::{Job, Place, Spawner, current_pool};
use crate::sync::{Arc, OnceLock};
use std::time::Duration;

/// From a run's begin to its end.
pub(crate) struct Course<R: Send + 'static> {
    pub(crate) spawner: Spawner,
    pub(crate) place: Place,
    /// On the runtime's clock.
    pub(crate) began: Duration,
    /// Only of a run that was begun inside a job of the same runtime.
    nested: Option<Arc<Nested>>,
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
            nested: current_pool(&spawner).map(|_| Nested::new()),
            spawner,
            place,
            completion: Completion::new(),
            over: OnceLock::new(),
            signal: OnceLock::new(),
        }
    }

    /// Queues a job of the run. Refused after a shutdown it is dropped, which says so.
    pub(crate) fn push(&self, job: Job) {
        drop(self.spawner.push(self.place, self.ticket(job)));
    }

    /// As [`push`](Self::push), to be run next where that is fair.
    pub(crate) fn push_hot(&self, job: Job) {
        drop(self.spawner.push_hot(self.place, self.ticket(job)));
    }

    /// As [`push_hot`](Self::push_hot), for a job of the run that is about to end.
    pub(crate) fn push_next(&self, job: Job) {
        if self.nested.is_some() {
            // Who runs that job may be one who waits inside another, and does not return to the worker yet.
            return self.push_hot(job);
        }
        drop(self.spawner.push_next(self.place, job));
    }

    fn ticket(&self, job: Job) -> Job {
        match &self.nested {
            Some(nested) => nested.ticket(job),
            None => job,
        }
    }

    /// The jobs that this thread may run while it waits for the run inside another job.
    fn nested_here(&self) -> Option<&Nested> {
        let nested = self.nested.as_deref()?;
        let here = current_pool(&self.spawner);
        let may_run = self.spawner.is_driven() || here.is_some_and(|here| self.spawner.runs_at(here, self.place.pool));
        may_run.then_some(nested)
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
        let mut ran = false;
        if let Some(nested) = self.course().nested_here() {
            contained(|| ran = nested.run_one());
        }
        ran
    }

    fn watch(&self) -> bool {
        self.course().nested_here().is_some_and(Nested::has_one)
    }

    /// Its only owner withdraws: the run is aborted.
    fn leave(&self) {
        self.abort();
    }
}
