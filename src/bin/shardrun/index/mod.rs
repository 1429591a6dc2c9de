//! `shardrun index`: walks a tree, brings its files through the stages, and shows what was found.
//! It does not know how a file is read, nor how a result is written.
#![forbid(unsafe_code)]

mod affected;
pub(crate) mod complaints;
mod condensed;
mod cycles;
pub(crate) mod file;
mod fingerprints;
pub(crate) mod host;
mod outputs;
pub(crate) mod results;
mod run;
mod summary;
mod totals;
pub(crate) mod walk;
pub(crate) mod watch;

use run::known_tree;
pub(crate) use run::{End, run};
