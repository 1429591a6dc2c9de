//! `shardrun index`: walks a tree, brings its files through the stages, and shows what was found.
//! It does not know how a file is read, nor how a result is written.
#![forbid(unsafe_code)]

mod affected;
mod complaints;
mod condensed;
mod cycles;
mod file;
mod fingerprints;
mod host;
mod outputs;
mod results;
mod run;
mod summary;
mod totals;
mod walk;
mod watch;

use run::known_tree;
pub(crate) use run::{End, run};
