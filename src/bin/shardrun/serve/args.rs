//! The words of `serve` and `ask` on the command line.
//! It does not know what the daemon does.
#![forbid(unsafe_code)]

use crate::cli::{IndexArgs, at_least_one};
use clap::Args;
use std::env;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

const SERVE_HELP: &str = "\
The daemon speaks JSON-RPC 2.0, each message behind a Content-Length header as in the Language Server Protocol. docs/serve.md has
its methods. SIGTERM, SIGINT and SIGHUP answer or refuse everything that is asked, then end it.

Exit status: 0 if it was asked to end, 1 if it could not serve, 2 for wrong usage.";

/// Keeps source trees indexed and answers questions about them, on a Unix socket or on standard input and output.
#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct ServeArgs {
    /// The socket; $XDG_RUNTIME_DIR/shardrun.sock if not given, or one named after the user in the directory for temporary files
    #[arg(long, value_name = "PATH", conflicts_with = "stdio")]
    pub(crate) socket: Option<PathBuf>,

    /// Serves one client on standard input and output, and ends with it
    #[arg(long)]
    pub(crate) stdio: bool,

    /// How many workers; all the CPUs that this process may use if not given
    #[arg(short = 'j', long, value_name = "N", value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Refuses larger requests, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 16 << 10, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) max_request: u64,

    /// Drops a client when this much waits for it to be read, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 16 << 10, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) max_unread: u64,

    /// Requests that one client may have open; more are refused as busy
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) max_pending: u32,

    /// Requests of one client that may be queued or run in one root; the others wait in a line of the client's own
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(crate) window: u32,

    /// Clients at once; each has two threads
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub(crate) max_clients: u32,

    /// Roots at once
    #[arg(long, value_name = "N", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub(crate) max_roots: u32,

    /// How many seconds clients have to read their last answers when the daemon ends
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=3_600))]
    pub(crate) grace: u64,

    /// Does not watch the roots; `rescan` brings them up to date
    #[arg(long)]
    pub(crate) no_watch: bool,

    /// Refuses files larger than this, in MiB
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
}

impl ServeArgs {
    /// As `shardrun index` would be asked for the tree at `dir`.
    pub(super) fn index(&self, dir: &Path) -> IndexArgs {
        IndexArgs {
            dir: dir.into(),
            json: false,
            outline: None,
            trace: None,
            dot: None,
            fingerprints: None,
            affected: Vec::new(),
            watch: !self.no_watch,
            debounce: 0,
            threads: None,
            max_size: self.max_size,
            hidden: self.hidden,
            no_ignore: self.no_ignore,
            follow: self.follow,
            quiet: true,
            no_progress: true,
        }
    }
}

const ASK_HELP: &str = "\
Methods, each with its parameters:
  open root            indexes the tree and keeps it indexed; close root: forgets it
  files root           all files; outline root file: what is in one
  dependencies root file [transitive=true]     what a file imports
  dependants root file [transitive=true]       what imports it
  fingerprint root [file]                      a hash over a file and all that it reaches, or over the whole
  edit root file text  has a text stand for the file; revert root file: takes the file on disk again
  drain root, rescan root                      takes in what was told to have changed, or looks at all
  status root, progress root                   how it stands; roots, health: how the daemon does
  shutdown             ends the daemon

Examples:
  shardrun ask open root=.                                indexes a tree and keeps it indexed
  shardrun ask dependants root=. file=src/a.rs transitive=true
  shardrun ask --json outline root=. file=src/a.rs | jq .definitions
  shardrun ask edit root=. file=src/a.rs text=@/tmp/new.rs
  shardrun ask shutdown

A value is taken as JSON if it is that, and as text if not; @FILE stands for the text of a file, @- for standard input. A root
may be relative to the current directory; a file is a path below its root.

Exit status: 0 if the answer is a result, 1 if it is an error or there is none, 2 for wrong usage, a method or a parameter that
the daemon does not know included.";

/// Asks a daemon one question and prints the answer.
#[derive(Debug, Args)]
#[command(after_help = ASK_HELP)]
pub(crate) struct AskArgs {
    /// The method
    pub(crate) method: String,

    /// Parameters
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) params: Vec<String>,

    /// The daemon's socket, if it is not where `serve` puts it by itself
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,

    /// Prints the result as JSON on one line
    #[arg(long)]
    pub(crate) json: bool,

    /// Gives up after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
}

/// Where the socket is if nobody says.
pub(super) fn usual_socket() -> PathBuf {
    match env::var_os("XDG_RUNTIME_DIR").filter(|directory| !directory.is_empty()) {
        Some(directory) => Path::new(&directory).join("shardrun.sock"),
        None => env::temp_dir().join(format!("shardrun-{}.sock", rustix::process::getuid().as_raw())),
    }
}
