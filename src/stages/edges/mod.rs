//! Dependencies between files: an Artifact waits for the Analysis of its file's blockers, whatever becomes of them meanwhile.
//! It does not know how stages run, nor how files move on.
//!
//! # The parts
//!
//! * A file's [`Node`], made when it first takes part: the set of its newest generation that has Source, the set that
//!   came before its generation had Source, and the files that depend on it.
//! * A [`DependencySet`](set::DependencySet) for each generation that depends on something: the files, and a gate that counts
//!   the blockers not yet answered. Whoever puts a set out of its place closes it, and its waiting edges go over to the successor.
//! * An [`Edge`](edge::Edge) for each blocker that is waited for: it hangs in the producer's revision, is one of the owners of its
//!   Analysis, and is answered by whatever ends that. One (producer's revision, owner) has one, however often the owner moves on.
//!
//! # The protocol
//!
//! *One unit of the gate's count is one obligation.* Who adds a unit asks the producer's visible revision: it is answered at once,
//! or handed to an edge that hangs there. Who takes an edge's target has the unit back in hand: it gives the answer, or asks the
//! producer's new revision. So an advance, a removal or a retry of the producer is an outcome like any other, and nothing is
//! ever searched for in a foreign table.
//!
//! An Artifact is admitted by whoever sees the last of three things: it is wanted, its Analysis is done, the gate is open. Each
//! of them is made known, then comes a fence, then a look at the others. The claim looks at the gate once more, so a set that
//! comes late counts for whatever has not been dispatched.
//!
//! Artifacts wait for Analysis, and Analysis waits for no other file. So no ring of blockers can close, and none is searched for.

mod boxed;
mod dependencies;
mod dispatch;
mod edge;
mod gate;
mod integrate;
mod node;
mod occupancy;
mod place;
mod register;
mod seek;
mod set;
mod target;

pub use dependencies::Dependencies;
pub use occupancy::DependencyOccupancy;
pub use register::Registered;

#[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
pub(crate) use {gate::Gate, target::Target};

pub(crate) use boxed::Boxed;
pub(crate) use dispatch::{Dispatch, ask, before_dispatch, gates, is_open, withdrawn};
pub(crate) use edge::Consumers;
pub(crate) use integrate::{found, install, installs, integrate};
pub(crate) use node::Node;
pub(crate) use place::Place;
pub(crate) use register::moved_on;
pub(crate) use seek::tell_consumers;
