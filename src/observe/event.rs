//! The events that the engine reports, and the observer that hears them.
//! It does not know what an observer does with them, nor which part of the engine reports which.
#![forbid(unsafe_code)]

use std::fmt;
use std::time::Duration;

/// What kind of thread a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkerKind {
    /// A thread of the pool that computes.
    Worker,
    /// A thread of the pool that may block on input and output.
    Io,
}

/// Names one thread of a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId {
    /// The pool it belongs to.
    pub kind: WorkerKind,
    /// Its number within the pool, from 0; spares come after the regular threads.
    pub index: usize,
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            WorkerKind::Worker => "worker",
            WorkerKind::Io => "io",
        };
        write!(f, "{kind} {}", self.index)
    }
}

/// One thing that happened in the engine.
///
/// Times are offsets on the runtime's clock (see `Runtime::now`).
#[non_exhaustive]
#[derive(Clone, Debug)]
pub enum Event {
    /// A worker begins a job. Reported for every `Observer::every_nth_job`-th job only.
    JobStarted {
        /// Who runs it.
        worker: WorkerId,
        /// When it began.
        at: Duration,
    },
    /// A worker has ended a job whose start was reported.
    JobFinished {
        /// Who ran it.
        worker: WorkerId,
        /// When it ended.
        at: Duration,
        /// Whether it ended by a panic.
        panicked: bool,
    },
    /// A job, a hook or a destructor of the host panicked; the worker goes on.
    Panicked {
        /// On which worker, if it was on one.
        worker: Option<WorkerId>,
        /// The panic's message, as far as it is text.
        message: String,
    },
    /// A worker found nothing to do and sleeps.
    Parked {
        /// Who sleeps.
        worker: WorkerId,
        /// Since when.
        at: Duration,
    },
    /// A sleeping worker was woken.
    Unparked {
        /// Who was woken.
        worker: WorkerId,
        /// When it ran again.
        at: Duration,
    },
    /// A worker took jobs from another one's queues.
    Stole {
        /// Who took.
        worker: WorkerId,
        /// From whom.
        victim: WorkerId,
    },
    /// A spare thread takes the place of a worker that blocks.
    SpareStarted {
        /// The spare.
        worker: WorkerId,
    },
    /// A stage of a file has its value, or has failed, and who waited for it has been told.
    StageSealed {
        /// `source`, `analysis` or `artifact`.
        stage: &'static str,
        /// The number of the file's life, which no other life of any file of the scheduler has.
        life: u64,
        /// The file's generation.
        generation: u64,
        /// Whether it failed or panicked; what needs it has failed with it.
        failed: bool,
    },
    /// A generation of a file has been left behind: by an edit or an invalidation, or since the file was removed.
    Superseded {
        /// The number of the file's life.
        life: u64,
        /// The generation that is over.
        generation: u64,
    },
    /// A worker blocks and no spare could take its place: the limit is reached, or the thread could not be started.
    SpareMissing {
        /// The worker that blocks.
        worker: WorkerId,
    },
}

/// Hears what happens in an engine. One observer per runtime, set in its builder; unset it costs nothing.
///
/// The calls come from the engine's threads, between jobs and outside every section: keep them short, since the thread that
/// calls does nothing else meanwhile. A panic of the observer is caught and counted. What it does may itself cause events, which
/// it is told of inside that call: one that answers every event with another never comes to an end.
pub trait Observer: Send + Sync {
    /// Called for each event.
    fn event(&self, event: &Event);

    /// Every how many jobs of a worker `JobStarted` and `JobFinished` are reported: 1 reports each, 0 none.
    ///
    /// Asked once, when the runtime is built. Each reported job costs two reads of the clock.
    fn every_nth_job(&self) -> u32 {
        1
    }
}
