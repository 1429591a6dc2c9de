//! `shardrun index`: walks a tree, brings its files through the stages, and shows what was found.
//! It does not know how a file is read, nor how a result is written.
#![forbid(unsafe_code)]

mod cycles;
mod host;
mod run;
mod summary;
mod totals;
mod walk;

pub(crate) use run::run;
