//! The jobs of a run that was begun inside a job. Who waits for the run there may run them: perhaps nobody else is left to do so.
//! It does not know what they do, nor who waits.
//!
//! Each job lies here, and a ticket for it in the runtime's queues. A ticket takes what has lain here longest, if something is left:
//! there are never fewer tickets than jobs, so none is left behind.
#![forbid(unsafe_code)]

use crate::runtime::Job;
use crate::sync::queue::{Injector, take};
use crate::sync::{Arc, mutant};

pub(crate) struct Nested(Injector<Job>);

impl Nested {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Injector::new()))
    }

    /// Lays a job here. What is returned has to be queued.
    pub(crate) fn ticket(self: &Arc<Self>, job: Job) -> Job {
        self.0.push(job);
        let ticket = Ticket(Some(self.clone()));
        Job::new(move || ticket.run())
    }

    /// Runs a job that lies here. True if there was one.
    pub(crate) fn run_one(&self) -> bool {
        let job = take(&self.0);
        let found = job.is_some();
        if let Some(job) = job {
            job.run();
        }
        found
    }

    /// Whether a job lies here. Who asks stands among those who wait already: so either he sees it, or he is nudged by the thread that
    /// has laid it here and blocks.
    pub(crate) fn has_one(&self) -> bool {
        !self.0.is_empty()
    }
}

/// Stands in the runtime's queues for a job. Dropped there, as by a shutdown, it drops one.
struct Ticket(Option<Arc<Nested>>);

impl Ticket {
    fn run(mut self) {
        if let Some(nested) = self.0.take() {
            nested.run_one();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(nested) = self.0.take()
            && !mutant("nested.ticket_keeps_its_job")
        {
            drop(take(&nested.0));
        }
    }
}
