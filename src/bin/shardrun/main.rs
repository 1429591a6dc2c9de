//! The command-line tool `shardrun`, a host of the library that uses its public face alone.
//! It does not know how the engine works.
#![forbid(unsafe_code)]

mod cli;
mod console;
mod index;
mod output;
mod work;

use clap::Parser;
use std::process::ExitCode;

/// Exit status 0 if all went well, 1 if anything was complained about, 2 for wrong usage (by clap).
fn main() -> ExitCode {
    let cli::Command::Index(args) = cli::Cli::parse().command;
    let mut console = console::Console::new(args.quiet || args.no_progress);
    index::run(&args, &mut console);
    console.finish();
    if console.complaints() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
