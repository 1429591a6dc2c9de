//! The server: a pipe full of tokens, and the words that tell children of it.
//! It does not know who takes them.
#![forbid(unsafe_code)]

use super::{JobClient, JobServerError, sys};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// What a pipe of 16 pages holds however its tokens lie: of the first page some may have been taken, and the last need not be full.
const JOBS_MAX: u32 = 14 * 4096;

/// A job server: whoever starts children with [`makeflags`](Self::makeflags) in `MAKEFLAGS` lets them share so many jobs at a
/// time with the run that has its [`client`](Self::client) as a policy.
#[derive(Debug)]
pub struct JobServer {
    jobs: u32,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// A pipe with a name, held open so that its tokens stay: make 4.4 and newer, and whoever can open a file.
    Fifo { path: PathBuf, open: File },
    /// A pipe whose two descriptors children inherit: every make.
    Pipe(OwnedFd, OwnedFd),
}

impl JobServer {
    /// A server by a pipe with a name in this folder, which is removed when the server is dropped, unless something else stands
    /// there by then. Who has opened it before it is removed goes on with it.
    ///
    /// # Errors
    /// If there can be no such pipe, or it cannot hold so many tokens.
    pub fn fifo(jobs: u32, folder: &Path) -> Result<Self, JobServerError> {
        check(jobs)?;
        let mut number = 0_u32;
        let path = loop {
            let path = folder.join(format!("shardrun-jobs-{}-{number}", std::process::id()));
            match sys::make_fifo(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(JobServerError::Pipe { pipe: path.display().to_string(), error }),
            }
        };
        let failed = |error| JobServerError::Pipe { pipe: path.display().to_string(), error };
        let mut file = sys::open(&path, true).map_err(failed)?;
        let filled = file.write_all(&vec![b'+'; jobs as usize - 1]).map_err(failed);
        let server = Self { jobs, form: Form::Fifo { path, open: file } };
        filled.map(|()| server)
    }

    /// A server by a pipe whose descriptors every child of this process inherits.
    ///
    /// # Errors
    /// As [`fifo`](Self::fifo).
    pub fn pipe(jobs: u32) -> Result<Self, JobServerError> {
        check(jobs)?;
        let failed = |error| JobServerError::Pipe { pipe: "of descriptors".to_owned(), error };
        let (read, write) = std::io::pipe().map_err(failed)?;
        let (read, write) = (OwnedFd::from(read), OwnedFd::from(write));
        // Filled without waiting: for a user with very many pipes the system makes smaller ones, which would never take them all.
        let mut fill = sys::open(Path::new(&format!("/proc/self/fd/{}", write.as_raw_fd())), false).map_err(failed)?;
        fill.write_all(&vec![b'+'; jobs as usize - 1]).map_err(failed)?;
        sys::leave_open(&read).and_then(|()| sys::leave_open(&write)).map_err(failed)?;
        Ok(Self { jobs, form: Form::Pipe(read, write) })
    }

    /// What a child's `MAKEFLAGS` has to say.
    pub fn makeflags(&self) -> String {
        match &self.form {
            Form::Fifo { path, .. } => format!(" -j{} --jobserver-auth=fifo:{}", self.jobs, path.display()),
            Form::Pipe(read, write) => {
                format!(" -j{} --jobserver-auth={},{}", self.jobs, read.as_raw_fd(), write.as_raw_fd())
            }
        }
    }

    /// A client of this server, in this process.
    ///
    /// # Errors
    /// If the pipe cannot be opened.
    pub fn client(&self) -> Result<JobClient, JobServerError> {
        let flags = self.makeflags();
        if let Form::Fifo { path, open } = &self.form {
            // Not by its name, at which something else may stand by now.
            let again =
                || open.try_clone().map_err(|error| JobServerError::Pipe { pipe: path.display().to_string(), error });
            return Ok(JobClient::of(again()?, again()?));
        }
        let client = JobClient::from_makeflags(&flags)?;
        client.ok_or(JobServerError::Malformed { word: flags })
    }
}

fn check(jobs: u32) -> Result<(), JobServerError> {
    if (1..=JOBS_MAX).contains(&jobs) { Ok(()) } else { Err(JobServerError::Tokens { jobs }) }
}

impl Drop for JobServer {
    fn drop(&mut self) {
        if let Form::Fifo { path, open } = &self.form
            && sys::is_at(open, path)
        {
            _ = std::fs::remove_file(path);
        }
    }
}
