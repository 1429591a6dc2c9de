//! The words of `shardrun run`.
//! It does not know what they bring about.
#![forbid(unsafe_code)]

use super::shape::MODES;
use crate::cli::at_least_one;
use clap::builder::PossibleValuesParser;
use clap::{Args, builder::TypedValueParser};
use shardrun::ContinueMode;
use std::num::NonZeroU32;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  shardrun run                     the file's default tasks, or all
  shardrun run test lint           these two, and what they depend on
  shardrun run --list              what there is
  shardrun run -n                  what would be run, in which order
  shardrun run --explain test      besides, what `test` waited for and what waited for it
  shardrun run --trace t.json      besides, a trace to open in https://ui.perfetto.dev
  shardrun run --graph g.dot -n && dot -Tsvg g.dot -o g.svg

The first SIGINT, SIGTERM, SIGHUP or SIGQUIT asks all commands to end (SIGTERM to the process group of each); the second kills them.

Exit status: 0 if all tasks ended well, 1 if one failed or an output could not be written, 2 for wrong usage or a faulty file, 130
if it was interrupted.";

fn mode() -> impl TypedValueParser<Value = ContinueMode> {
    PossibleValuesParser::new(MODES.map(|(name, _)| name)).map(|word| {
        let found = MODES.iter().find(|(name, _)| *name == word);
        found.map_or_else(ContinueMode::default, |(_, mode)| *mode)
    })
}

/// Runs the tasks of a shardrun.toml, several at a time, each after those that it depends on.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The tasks to run, with all that they depend on; without any, the file's default ones, or all
    #[arg(value_name = "TASK")]
    pub(super) tasks: Vec<String>,

    /// The task file; without it, the shardrun.toml of this directory or the nearest above
    #[arg(short, long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,

    /// How many commands run at a time; what the file says, or one per CPU, if not given
    #[arg(short = 'j', long, value_name = "N", value_parser = at_least_one::<NonZeroU32>)]
    pub(super) concurrency: Option<NonZeroU32>,

    /// How to go on after a failure: start nothing more; skip what depends on it; run all; or also end what runs
    #[arg(long = "continue", value_name = "MODE", value_parser = mode())]
    pub(super) mode: Option<ContinueMode>,

    /// Goes on until N tasks have failed, then starts nothing more
    #[arg(short, long, value_name = "N", value_parser = at_least_one::<NonZeroU32>, conflicts_with = "mode")]
    pub(super) keep_going: Option<NonZeroU32>,

    /// Runs nothing: prints the tasks in the order in which they would start
    #[arg(short = 'n', long)]
    pub(super) dry_run: bool,

    /// Prints what tasks there are
    #[arg(short, long)]
    pub(super) list: bool,

    /// Writes the graph of the tasks in DOT
    #[arg(long, value_name = "FILE")]
    pub(super) graph: Option<PathBuf>,

    /// Writes when which task ran, in Chrome's trace format
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,

    /// Prints where the time went: the critical path, the longest tasks and waits, the most memory
    #[arg(long)]
    pub(super) summary: bool,

    /// Prints of a task when it was ready, what it waited for, what it held up, and whether it is on the critical path
    #[arg(long, value_name = "TASK")]
    pub(super) explain: Vec<String>,

    /// Neither reads nor writes how long tasks took in earlier runs
    #[arg(long)]
    pub(super) no_history: bool,

    /// Prints failures only
    #[arg(short, long)]
    pub(super) quiet: bool,

    /// Prints no progress
    #[arg(long)]
    pub(super) no_progress: bool,

    /// Of a task's output the first and the last half of so much is kept, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) max_output: u32,
}
