//! Sharing the cores with other processes by the protocol of GNU make: as a client of somebody's job server, or as the server.
//! It does not know what the jobs of the other processes are.
//!
//! A token is a byte in a pipe. Every process may run one job without one; for each job more it takes a byte out, and puts
//! the same byte back when fewer run.

mod server;
mod sys;

pub use server::JobServer;

use super::ids::TaskId;
use super::policy::{Answer, Freed, Policy, Running, Usage, Wake};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::time::Duration;

/// How soon it looks again when there was no token.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A client of a job server, as an admission policy: a local task beyond the first starts only with a token.
///
/// Add it after other policies: a token that it took and another policy's refusal made useless is given back only when a
/// task ends. While none is to be had it looks every 5 ms, and whenever a task of the run ends. All tokens are given back when
/// it is dropped, to the pipe from which they came: a pipe with a name may be removed or replaced while it is in use. If the
/// server is gone, so that no token comes any more, the run goes on with one task at a time.
#[derive(Debug)]
pub struct JobClient {
    read: File,
    write: File,
    /// The tokens that are taken, each of which must be given back as it is.
    held: Vec<u8>,
    running: usize,
    trouble: Option<String>,
}

/// Why a job server cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum JobServerError {
    /// What `MAKEFLAGS` says of the server cannot be understood.
    Malformed {
        /// The word.
        word: String,
    },
    /// The pipe cannot be opened. Make closes it to recipes that are not marked as makes by a `+`; one with a name is gone when
    /// its make has ended.
    Pipe {
        /// Which.
        pipe: String,
        /// Why.
        error: io::Error,
    },
    /// It is no pipe.
    NoPipe {
        /// What it is to be.
        pipe: String,
    },
    /// More tokens than a pipe holds, or none.
    Tokens {
        /// How many jobs at a time were asked for.
        jobs: u32,
    },
}

impl fmt::Display for JobServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobServerError::Malformed { word } => write!(f, "cannot understand {word} in MAKEFLAGS"),
            JobServerError::Pipe { pipe, .. } => {
                let hint = if sys::has_name(Path::new(pipe)) {
                    "has its make ended"
                } else {
                    "is the recipe marked with a `+`"
                };
                write!(f, "cannot open the job server's pipe {pipe}; {hint}?")
            }
            JobServerError::NoPipe { pipe } => write!(f, "the job server's {pipe} is no pipe"),
            JobServerError::Tokens { jobs } => {
                write!(f, "a job server can have 1 to 57,344 jobs at a time, not {jobs}")
            }
        }
    }
}

impl std::error::Error for JobServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            JobServerError::Pipe { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl JobClient {
    /// The client of the server that `MAKEFLAGS` in this process's environment speaks of; none if it speaks of none.
    ///
    /// # Errors
    /// If the server that it speaks of cannot be used.
    pub fn from_env() -> Result<Option<Self>, JobServerError> {
        std::env::var("MAKEFLAGS").map_or(Ok(None), |flags| Self::from_makeflags(&flags))
    }

    /// The same, of the given flags. Of several words about a server the last counts, as with make.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn from_makeflags(flags: &str) -> Result<Option<Self>, JobServerError> {
        let of_server = |word: &str| word.starts_with("--jobserver-auth=") || word.starts_with("--jobserver-fds=");
        let Some(word) = flags.split_whitespace().rfind(|word| of_server(word)) else { return Ok(None) };
        let value = word.split_once('=').map_or("", |(_, value)| value);
        if let Some(path) = value.strip_prefix("fifo:") {
            // Opened once: the name may lead to another pipe the next time, and tokens must go back to where they came from.
            let read = open(Path::new(path), true)?;
            let write = read.try_clone().map_err(|error| JobServerError::Pipe { pipe: path.to_owned(), error })?;
            return Ok(Some(Self::of(read, write)));
        }
        let malformed = || JobServerError::Malformed { word: word.to_owned() };
        let (read, write) = value.split_once(',').ok_or_else(malformed)?;
        let (read, write): (i32, i32) = read.parse().ok().zip(write.parse().ok()).ok_or_else(malformed)?;
        if read < 0 || write < 0 {
            return Ok(None);
        }
        // Opened anew, so that our not waiting is ours alone: the descriptors are shared with all of make's children.
        let path = |fd: i32| format!("/proc/self/fd/{fd}");
        let (read, write) = (open(Path::new(&path(read)), true)?, open(Path::new(&path(write)), false)?);
        Ok(Some(Self::of(read, write)))
    }

    /// By these two ends, neither of which waits.
    fn of(read: File, write: File) -> Self {
        Self { read, write, held: Vec::new(), running: 0, trouble: None }
    }

    /// The tokens that it has taken and not given back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    fn take(&mut self) -> bool {
        let mut token = [0];
        loop {
            match self.read.read(&mut token) {
                Ok(1) => {
                    self.held.push(token[0]);
                    return true;
                }
                Ok(_) => {
                    self.trouble = Some("the job server is gone".to_owned());
                    return false;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) => {
                    self.trouble = Some(format!("the job server cannot be read: {error}"));
                    return false;
                }
            }
        }
    }

    /// Gives back what is more than the running tasks need.
    fn give_back(&mut self) {
        while self.held.len() > self.running.saturating_sub(1) {
            let Some(token) = self.held.pop() else { return };
            if let Err(error) = self.write.write_all(&[token]) {
                self.trouble = Some(format!("a token could not be given back to the job server: {error}"));
            }
        }
    }
}

fn open(path: &Path, read: bool) -> Result<File, JobServerError> {
    let pipe = path.display().to_string();
    let file = sys::open(path, read).map_err(|error| JobServerError::Pipe { pipe: pipe.clone(), error })?;
    if sys::is_pipe(&file) { Ok(file) } else { Err(JobServerError::NoPipe { pipe }) }
}

impl Drop for JobClient {
    fn drop(&mut self) {
        self.running = 0;
        self.give_back();
    }
}

impl Policy for JobClient {
    fn name(&self) -> &str {
        "job server"
    }

    fn ask(&mut self, _: TaskId, _: &Running<'_>) -> Answer {
        if self.held.len() >= self.running || self.take() {
            Answer::Admit
        } else {
            Answer::close_until(Wake::After(LOOK_AGAIN))
        }
    }

    fn started(&mut self, _: TaskId) {
        self.running += 1;
    }

    fn finished(&mut self, _: TaskId, _: Usage, _: &mut Freed) {
        self.running -= 1;
        self.give_back();
    }

    fn end(&mut self) -> Vec<String> {
        self.running = 0;
        self.give_back();
        self.trouble.take().into_iter().collect()
    }
}
