//! The command-line tool `shardrun`, a host of the library that uses its public face alone.
//! It does not know how the engine works.

mod cli;
mod console;
mod index;
mod interrupts;
mod output;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod serve;
mod work;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use std::process::ExitCode;

/// Exit status 0 if all went well, 1 if anything was complained about, 2 for wrong usage.
fn main() -> ExitCode {
    interrupts::hear_of_full_files();
    match cli::Cli::parse().command {
        cli::Command::Index(args) => index(&args),
        #[cfg(target_os = "linux")]
        cli::Command::Run(args) => run::run(&args),
        #[cfg(target_os = "linux")]
        cli::Command::Serve(args) => serve::run(args),
        #[cfg(target_os = "linux")]
        cli::Command::Ask(args) => serve::ask(&args),
    }
}

fn index(args: &cli::IndexArgs) -> ExitCode {
    if let Some(path) = output::written_twice(args.outputs()) {
        let message = format!("two outputs would overwrite each other in {}: name a file for each", path.display());
        cli::Cli::command().error(ErrorKind::ArgumentConflict, message).exit();
    }
    let mut console = console::Console::new(args.quiet || args.no_progress);
    let end = index::run(args, &mut console);
    console.finish();
    if end == index::End::WrongUsage {
        return ExitCode::from(2);
    }
    if console.complaints() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
