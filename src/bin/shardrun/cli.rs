//! The words of the command line.
//! It does not know what the commands do.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
use crate::run::RunArgs;
#[cfg(target_os = "linux")]
use crate::serve::{AskArgs, ServeArgs};
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Shows the Shardrun scheduler at work.
#[derive(Debug, Parser)]
#[command(name = "shardrun", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Index(IndexArgs),
    #[cfg(target_os = "linux")]
    Run(RunArgs),
    #[cfg(target_os = "linux")]
    Serve(ServeArgs),
    #[cfg(target_os = "linux")]
    Ask(AskArgs),
}

const EXAMPLES: &str = "\
Examples:
  shardrun index .                              a table of the languages, and how the files hang together
  shardrun index --json src | jq .languages     the same as one JSON object
  shardrun index --outline out.jsonl .          besides, one JSON object per file, one file a line
  shardrun index --trace t.json .               besides, a trace to open in https://ui.perfetto.dev
  shardrun index --fingerprints f.jsonl .       besides, a hash for each file over it and all that it imports
  shardrun index . --affected src/a.rs          the files that reach this one through their imports, one a line
  shardrun index --watch .                      stays, and says of each burst of changes what ran again and what it reaches
  shardrun index --dot g.dot . && dot -Tsvg g.dot -o g.svg

A file that is gone, unreadable, too large, not UTF-8, or a link that leads back to itself gets one line on standard error,
and the rest goes on.

Exit status: 0 if all went well, 1 if anything got such a line, 2 for wrong usage, a file for --affected that is not there included.";

/// Indexes a source tree: lines, definitions, imports, and which file imports which.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct IndexArgs {
    /// The directory to index
    pub(crate) dir: PathBuf,

    /// Prints one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// Writes what is in each file as JSON, one file a line
    #[arg(long, value_name = "FILE", value_parser = output_file())]
    pub(crate) outline: Option<PathBuf>,

    /// Writes when which worker did what, in Chrome's trace format
    #[arg(long, value_name = "FILE", value_parser = output_file())]
    pub(crate) trace: Option<PathBuf>,

    /// Writes the graph of imports in DOT
    #[arg(long, value_name = "FILE", value_parser = output_file())]
    pub(crate) dot: Option<PathBuf>,

    /// Writes the fingerprint of each file: a hash over the file and all that it reaches through its imports
    #[arg(long, value_name = "FILE", value_parser = output_file())]
    pub(crate) fingerprints: Option<PathBuf>,

    /// Prints which files reach one of these through their imports, instead of the table; may be said more than once
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) affected: Vec<PathBuf>,

    /// Stays after the index, sees what changes in the tree, and says what each burst of changes reaches
    #[arg(long, conflicts_with = "affected")]
    pub(crate) watch: bool,

    /// A burst of changes has ended when nothing changed for so many milliseconds, or after ten times as many
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(..=60_000), requires = "watch")]
    pub(crate) debounce: u64,

    /// How many workers; all the CPUs that this process may use if not given
    #[arg(short = 'j', long, value_name = "N", value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Refuses files larger than this, in MiB; a worker holds one file at a time in memory
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=2048))]
    pub(crate) max_size: u64,

    /// Indexes hidden files too
    #[arg(long)]
    pub(crate) hidden: bool,

    /// Indexes what .ignore files, and in a git repository .gitignore files, leave out too
    #[arg(long)]
    pub(crate) no_ignore: bool,

    /// Follows symbolic links
    #[arg(long)]
    pub(crate) follow: bool,

    /// Prints neither table nor progress, only what went wrong, and what --json and --affected ask for
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Prints no progress
    #[arg(long)]
    pub(crate) no_progress: bool,
}

/// A path that can be written to. `-`, which elsewhere stands for standard output, is refused: the table goes there.
fn output_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let hint = "standard output is taken; name a file, or ./- for one of that name";
        if path == Path::new("-") { Err(hint) } else { Ok(path) }
    })
}

/// A number that is not zero.
pub(crate) fn at_least_one<N: FromStr>(text: &str) -> Result<N, &'static str> {
    text.parse().map_err(|_| "must be a whole number of at least 1")
}

impl IndexArgs {
    /// The files that are written besides what is printed.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &Path> {
        [&self.outline, &self.trace, &self.dot, &self.fingerprints].into_iter().filter_map(Option::as_deref)
    }
}
