//! Many Artifacts of one revision that are ready at once: one ticket for all that a popper leaves, so that none is looked at more than
//! once however many profiles there are, and however few may run at once. It does not know how one is run.
#![forbid(unsafe_code)]

use super::artifact::ArtifactFlight;
use super::capacity::{self, InLine};
use super::claim::claim;
use super::host::Host;
use super::many::{self, Many, Pieces};
use super::run::{self, After};
use super::shared::Shared;
use super::slot::{Kind, Slot};
use crate::flight::Killed;
use crate::runtime::{Job, Place};
use crate::sync::Arc;

/// Artifacts that were taken off the list of what is ready.
pub(crate) struct Members<H: Host> {
    slot: Arc<Slot<H>>,
    artifacts: Vec<Arc<ArtifactFlight<H>>>,
    kind: Kind,
}

/// Queues one ticket for all of `artifacts`, which are of one revision and ready.
pub(crate) fn push<H: Host>(slot: &Arc<Slot<H>>, artifacts: Vec<Arc<ArtifactFlight<H>>>, kind: Kind) {
    let members = Members { slot: slot.clone(), artifacts, kind };
    if slot.shared().capacity.is_free(slot.shared().place(kind).pool) {
        many::push(members);
    } else {
        Rest { many: Some(Many::of(members)), granted: false }.push();
    }
}

impl<H: Host> Pieces for Members<H> {
    fn queue(&self, ticket: Job) {
        self.slot.shared().queue(self.kind, ticket);
    }

    fn len(&self) -> usize {
        self.artifacts.len()
    }

    fn run(&self, at: usize, after: After) {
        let artifact = &self.artifacts[at];
        // What is superseded has no revision any more, or cannot be claimed.
        let Some(revision) = artifact.revision.upgrade() else { return };
        if claim(&self.slot, artifact.flight.word()) {
            run::artifact(&self.slot, &revision, artifact, after);
        }
    }

    fn end(&self, _: usize) {
        self.slot.end(Killed::Shutdown);
    }
}

/// Their ticket where each needs a permit: it stands in line for the next of them, so that a permit is asked for once for each. At most
/// one is out.
pub(crate) struct Rest<H: Host> {
    many: Option<Arc<Many<Members<H>>>>,
    /// A permit goes with it.
    granted: bool,
}

impl<H: Host> Rest<H> {
    /// Runs one of them, with the caller's permit; the others are queued before, so that whoever has a permit finds them.
    pub(crate) fn work(mut self) {
        let Some(many) = self.many.take() else { return };
        let Some(at) = many.take(1) else { return };
        if at + 1 < many.pieces().len() {
            Self { many: Some(many.clone()), granted: false }.push();
        }
        many.pieces().run(at, After::Return);
    }

    fn members(&self) -> &Members<H> {
        self.many.as_ref().expect("they are taken when the ticket runs").pieces()
    }

    /// Where it is queued.
    pub(crate) fn way(&self) -> (Arc<Shared<H>>, Place) {
        let Members { slot, kind, .. } = self.members();
        (slot.stripe.shared.clone(), slot.shared().place(*kind))
    }

    pub(crate) fn is_granted(&self) -> bool {
        self.granted
    }

    pub(crate) fn with_permit(mut self, granted: bool) -> Self {
        self.granted = granted;
        self
    }

    /// Queues it. A runtime that refuses it drops it.
    pub(crate) fn push(self) {
        let (shared, place) = self.way();
        drop(shared.spawner.push(place, Job::new(move || InLine::Rest(self).enter())));
    }
}

impl<H: Host> Drop for Rest<H> {
    /// The runtime has thrown the ticket away: nobody will run what it stood for.
    fn drop(&mut self) {
        if let Some(many) = self.many.take() {
            let Members { slot, kind, .. } = many.pieces();
            if let Some(first) = many.take(many.pieces().len()) {
                many.pieces().end(first);
            }
            if self.granted {
                capacity::pass_on(&slot.stripe.shared, slot.shared().place(*kind).pool);
            }
        }
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use crate::runtime::{Driver, Pool, Runtime};
    use crate::stages::plain_host::Plain;
    use crate::stages::ready_cells::looked;
    use crate::stages::{Request, Stages};

    #[test]
    fn what_is_ready_is_looked_at_once_though_one_alone_may_run() {
        let looks = |profiles: u8| {
            let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
            let stages = Stages::builder(&runtime, Plain::<u8>::new()).limit(Pool::Workers, 1).unwrap().build();
            let handles: Vec<_> = (0..profiles).map(|n| stages.submit_request(Request::artifact(1, n))).collect();
            let before = looked();
            runtime.drive_all();
            assert!(handles.into_iter().all(|handle| handle.wait().is_ok()));
            let use_of = stages.pool_use(Pool::Workers).expect("it has a limit");
            assert_eq!((use_of.in_flight, use_of.waiting), (0, 0));
            looked() - before
        };
        for profiles in [50, 200] {
            let looks = looks(profiles);
            assert!(looks <= 2 * u64::from(profiles), "{looks} looks at {profiles} profiles");
        }
    }
}
