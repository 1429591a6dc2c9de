//! The per-file pipeline: the newest Source, Analysis and Artifacts of every file, correct under constant edits.
//! It does not know what a file is, nor what its stages compute: the host does.

mod advance;
mod demand;
mod sequencer;
mod stamp;
mod tickets;
mod versions;

pub use sequencer::SequencerCounters;

#[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
pub(crate) use {advance::*, demand::*, sequencer::*, stamp::*, tickets::*, versions::*};
