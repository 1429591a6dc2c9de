//! Starts a command: its words, its surroundings, a process group of its own, and one pipe for all that it prints.
//! It does not know what becomes of it.
#![forbid(unsafe_code)]

use super::child::{Nursery, Program};
use super::shape::{Command, Task, Variable};
use rustix::io::Errno;
use rustix::process::Pid;
use shardrun::TaskFailure;
use smallvec::SmallVec;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};

const SHELL: &CStr = c"/bin/sh";
/// As the system's library has it if there is no `PATH`.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// A command that was started, and has to be reaped.
pub(super) struct Started {
    /// Of the process, and of the group that it leads.
    pub(super) pid: Pid,
    /// None once it was closed.
    pub(super) output: Option<PipeReader>,
}

/// Why a command was not started.
pub(super) enum Unstarted {
    /// It cannot be.
    Never(TaskFailure),
    /// There are too many open files or processes, or there is too little memory, for one more now.
    NotNow(io::Error),
}

impl From<io::Error> for Unstarted {
    fn from(error: io::Error) -> Self {
        let scarce = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM];
        match Errno::from_io_error(&error).is_some_and(|error| scarce.contains(&error)) {
            true => Unstarted::NotNow(error),
            false => Unstarted::Never(error.into()),
        }
    }
}

/// What all commands of a run have in common.
pub(super) struct Spawner {
    nursery: Nursery,
    /// `NAME=value` of each variable, and how long the name is.
    environment: Vec<(CString, usize)>,
}

impl Spawner {
    /// Commands get this in `MAKEFLAGS`, and these variables. They inherit standard input, so it is closed to this process too.
    pub(super) fn new(makeflags: Option<String>, environment: &[Variable<'_>]) -> io::Result<Self> {
        // One descriptor for all instead of one for each.
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        let mut all = Vec::new();
        std::env::vars_os().for_each(|(name, value)| set(&mut all, name.as_bytes(), Some(value.as_bytes())));
        if let Some(flags) = &makeflags {
            set(&mut all, b"MAKEFLAGS", Some(flags.as_bytes()));
        }
        environment.iter().for_each(|(name, value)| set(&mut all, name.as_bytes(), value.map(str::as_bytes)));
        Ok(Self { nursery: Nursery::new(), environment: all })
    }

    pub(super) fn start(&mut self, task: &Task<'_>, command: &Command<'_>) -> Result<Started, Unstarted> {
        let own;
        let environment = match &task.environment[..] {
            [] => &self.environment,
            changes => {
                let mut all = self.environment.clone();
                changes.iter().for_each(|(name, value)| set(&mut all, name.as_bytes(), value.map(str::as_bytes)));
                own = all;
                &own
            }
        };
        let words: SmallVec<[CString; 3]> = match command {
            Command::Shell(text) => [SHELL, c"-c"].into_iter().map(CStr::to_owned).chain([text_of(text)?]).collect(),
            Command::Direct(words) => words.iter().map(|word| text_of(word)).collect::<io::Result<_>>()?,
        };
        let path = task.directory.map(Path::new);
        let (program, places) = match command {
            Command::Shell(_) => (PathBuf::from(OsStr::from_bytes(SHELL.to_bytes())), vec![SHELL.to_owned()]),
            Command::Direct(words) => {
                let program = program(words[0], path);
                let places = places(&program, environment)?;
                (program, places)
            }
        };
        let directory = task.directory.map(text_of).transpose()?;
        let (output, input) = io::pipe()?;
        let child = Program {
            places: &places.iter().map(CString::as_c_str).collect(),
            words: &words.iter().map(CString::as_c_str).collect(),
            environment: &environment.iter().map(|(variable, _)| variable.as_c_str()).collect(),
            directory: directory.as_deref(),
            output: input.as_fd(),
        };
        // With `input` this process's only hold of the pipe's other end goes.
        let pid = self.nursery.start(&child).map_err(|error| failure(error, &program, path))?;
        Ok(Started { pid, output: Some(output) })
    }
}

fn text_of(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(Into::into)
}

/// Sets a variable, or removes it.
fn set(all: &mut Vec<(CString, usize)>, name: &[u8], value: Option<&[u8]>) {
    let is_it = |(variable, length): &(CString, usize)| variable.to_bytes()[..*length] == *name;
    let at = all.iter().position(is_it);
    let new = value.and_then(|value| CString::new([name, b"=", value].concat()).ok()).map(|text| (text, name.len()));
    match (at, new) {
        (Some(at), Some(new)) => all[at] = new,
        (Some(at), None) => _ = all.swap_remove(at),
        (None, new) => all.extend(new),
    }
}

/// Where a program may be: there, if it has a slash in its name, else in the folders of `PATH`.
fn places(program: &Path, environment: &[(CString, usize)]) -> io::Result<Vec<CString>> {
    let name = program.as_os_str().as_bytes();
    if name.contains(&b'/') {
        return Ok(vec![CString::new(name)?]);
    }
    let path = environment.iter().find_map(|(variable, _)| variable.to_bytes().strip_prefix(b"PATH="));
    let place = |folder: &[u8]| match folder {
        [] => CString::new(name),
        folder => CString::new([folder, b"/", name].concat()),
    };
    Ok(path.unwrap_or(DEFAULT_PATH).split(|byte| *byte == b':').map(place).collect::<Result<_, _>>()?)
}

/// A program with a slash in its name is found from the task's directory, all others on `PATH`.
fn program(word: &str, directory: Option<&Path>) -> PathBuf {
    match directory {
        // Whole, since a relative one would be looked for in two ways: before and after the change of directory.
        Some(directory) if word.contains('/') => path::absolute(directory.join(word)).unwrap_or_else(|_| word.into()),
        _ => PathBuf::from(word),
    }
}

fn failure(error: io::Error, program: &Path, directory: Option<&Path>) -> Unstarted {
    let what = match error.kind() {
        _ if directory.is_some_and(|directory| !directory.is_dir()) => {
            format!("there is no directory {}", directory.unwrap_or(program).display())
        }
        ErrorKind::NotFound => format!("command not found: {}", program.display()),
        ErrorKind::PermissionDenied => format!("cannot be executed: {}", program.display()),
        _ if Errno::from_io_error(&error) == Some(Errno::NOEXEC) => {
            format!("is no program, or a script without a line `#!`: {}", program.display())
        }
        ErrorKind::ArgumentListTooLong => "the command and its environment are too long for the system".to_owned(),
        _ => return error.into(),
    };
    Unstarted::Never(TaskFailure::user(what))
}
