//! A node whose body needs a permit: it stands in line for one without a thread, and goes on with it in its turn.
//! It does not know who else wants permits.
#![forbid(unsafe_code)]

use super::super::semaphore::{CpuConcurrencySemaphore, CpuPermit};
use super::run::Run;
use super::walk::Walk;
use crate::flight::Killed;
use crate::runtime::Place;
use crate::sync::Arc;

/// The right to go on with a node that stands in line.
pub(super) struct InLine(());

/// A node that stands in line.
struct Waits {
    run: Option<Arc<Run>>,
    node: u32,
    place: Place,
}

/// Has the node wait in line: its holder has put it down.
pub(super) fn wait(run: Arc<Run>, node: u32, place: Place, semaphore: &CpuConcurrencySemaphore) {
    let waits = Waits { run: Some(run.clone()), node, place };
    if let Some(line) = semaphore.dispatch(&run.spawner, place, move |permit| waits.run(permit)) {
        run.stand(node, &line);
    }
}

impl Waits {
    fn run(mut self, permit: CpuPermit) {
        let Some(run) = self.run.take() else { return };
        let held = run.node(self.node).unpark_in_line(InLine(()));
        Walk::with(&run, self.place, |walk| walk.go_with(self.node, held, permit));
    }
}

impl Drop for Waits {
    /// Thrown away: since nobody wants the node any more, or by a shutdown. Perhaps inside a call of somebody else's.
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        if !run.node(self.node).load().is_cancelled() {
            run.stop(Killed::Shutdown);
        }
        let held = run.node(self.node).unpark_in_line(InLine(()));
        Walk::elsewhere(&run).go(self.node, held);
    }
}
