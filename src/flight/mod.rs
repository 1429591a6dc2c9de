//! Flights: one execution of one thing, with any number of waiters, handles to wait for it, and ways to end it.
//! They know the runtime that runs them, and nothing of what the parts above make of them.

mod active;
mod cancel;
pub(crate) mod combine;
mod completion;
mod contain;
mod error;
mod first;
#[expect(clippy::module_inception, reason = "the part is named after what it is about")]
mod flight;
mod future;
mod graph;
mod handle;
mod held;
mod list;
mod oneshot;
mod parker;
mod phase;
mod sleepers;
mod spawn;
mod state;
mod target;
mod task;
pub(crate) mod trampoline;
mod until;
mod waits;

pub use cancel::{CancelRegistration, CancellationToken};
pub use contain::{PanicReport, contained_panics};
pub use error::{Interrupt, JobError, WaitCycle};
pub use handle::{CancelOnDrop, Handle};

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
pub(crate) use active::broken;
pub(crate) use active::{ActiveScope, WholeScope, contains as is_active, enter, enter_whole};
pub(crate) use completion::Completion;
pub(crate) use contain::{Contained, OnUnwind, catch, contained, drop_contained, in_the_engine};
pub(crate) use first::{First, FirstFlight, FirstWaiter};
pub(crate) use flight::{Flight, JoinRefused, interrupt};
pub(crate) use handle::SoleFlight;
pub(crate) use held::{HeldScope, Lends, holds};
pub(crate) use list::{Link, Linked, SealableList};
pub(crate) use oneshot::OneShot;
pub(crate) use phase::{Killed, Left, Phase, Refused};
pub(crate) use sleepers::{Asleep, Entered};
pub(crate) use spawn::spawn_future_with;
pub(crate) use state::StateWord;
pub(crate) use target::{Facet, FlightId, FlightRef};
pub(crate) use task::{Ticket, Ticketed};
pub(crate) use until::Until;
pub(crate) use waits::{nudge, self_wait};

// What only the models reach into.
#[cfg(all(test, any(shardrun_loom, shardrun_shuttle, shardrun_rtsan)))]
pub(crate) use phase::{Admitted, Outcome, Suspended};
#[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
pub(crate) use {first::Told, graph::WaitGraph, held::lend, parker::Parker, target::Running};

/// Has this thread look again while it sleeps in a wait.
pub(crate) fn waker_here() -> std::task::Waker {
    parker::Parker::mine().waker()
}

/// Leaves another thread, which tells nobody when it is done, in peace for a moment.
pub(crate) fn doze() {
    trampoline::flush();
    parker::Parker::mine().doze();
}

/// Whether the calling thread executes a flight.
pub(crate) fn inside_a_job() -> bool {
    !active::is_empty()
}

/// How many threads wait inside a job at this moment, over all runtimes.
pub(crate) fn waits_now() -> usize {
    graph::global().map_or(0, graph::WaitGraph::len)
}

/// Whether the calling thread is inside a job.
pub(crate) fn is_inside_job() -> bool {
    !active::is_empty()
}
