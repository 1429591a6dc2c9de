//! Starts a command: its words, its surroundings, a process group of its own, and one pipe for all that it prints.
//! It does not know what becomes of it.
#![forbid(unsafe_code)]

use super::shape::{Command, Task};
use rustix::process::Pid;
use shardrun::TaskFailure;
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader};
use std::os::unix::process::CommandExt;
use std::path::{self, Path, PathBuf};
use std::process::Stdio;

/// A command that was started, and has to be reaped.
pub(super) struct Started {
    /// Of the process, and of the group that it leads.
    pub(super) pid: Pid,
    /// None once it was closed.
    pub(super) output: Option<PipeReader>,
}

/// What all commands of a run have in common.
pub(super) struct Spawner {
    makeflags: Option<String>,
}

impl Spawner {
    /// Commands get this in `MAKEFLAGS`. They inherit standard input, so it is closed to this process too.
    pub(super) fn new(makeflags: Option<String>) -> io::Result<Self> {
        // One descriptor for all instead of one for each.
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        Ok(Self { makeflags })
    }

    pub(super) fn start(&self, task: &Task, command: &Command) -> Result<Started, TaskFailure> {
        let directory = task.directory.as_deref().map(Path::new);
        let (program, mut words) = match command {
            Command::Shell(text) => {
                let mut words = std::process::Command::new("/bin/sh");
                words.arg("-c").arg(text);
                (PathBuf::from("/bin/sh"), words)
            }
            Command::Direct(words) => {
                let program = program(&words[0], directory);
                let mut command = std::process::Command::new(&program);
                command.args(&words[1..]);
                (program, command)
            }
        };
        if let Some(directory) = directory {
            words.current_dir(directory);
        }
        if let Some(flags) = &self.makeflags {
            words.env("MAKEFLAGS", flags);
        }
        for (name, value) in &task.environment {
            match value {
                Some(value) => words.env(name, value),
                None => words.env_remove(name),
            };
        }
        let (output, input) = io::pipe()?;
        words.stdin(Stdio::inherit()).stdout(input.try_clone()?).stderr(input).process_group(0);
        let child = words.spawn().map_err(|error| failure(error, &program, directory))?;
        // With `words` this process's last hold of the pipe's other end goes.
        Ok(Started { pid: Pid::from_child(&child), output: Some(output) })
    }
}

/// A program with a slash in its name is found from the task's directory, all others on `PATH`.
fn program(word: &str, directory: Option<&Path>) -> PathBuf {
    match directory {
        // Whole, since a relative one would be looked for in two ways: before and after the change of directory.
        Some(directory) if word.contains('/') => path::absolute(directory.join(word)).unwrap_or_else(|_| word.into()),
        _ => PathBuf::from(word),
    }
}

fn failure(error: io::Error, program: &Path, directory: Option<&Path>) -> TaskFailure {
    if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
        return TaskFailure::user(format!("there is no directory {}", directory.display()));
    }
    match error.kind() {
        ErrorKind::NotFound => TaskFailure::user(format!("command not found: {}", program.display())),
        ErrorKind::PermissionDenied => TaskFailure::user(format!("cannot be executed: {}", program.display())),
        ErrorKind::ArgumentListTooLong => {
            TaskFailure::user("the command and its environment are too long for the system")
        }
        _ => TaskFailure::from(error),
    }
}
