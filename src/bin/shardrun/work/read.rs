//! Reads one file into a buffer that the calling thread keeps, never more than a stated number of bytes.
//! It does not know what is in the file.
#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// A buffer that grew beyond this for one file is given back after it.
const KEEP_BYTES_MAX: usize = 4 << 20;

/// Why a file was not read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The system said no: not there any more, not readable, not a directory on the way.
    Io(io::Error),
    /// The file is larger than the limit, in bytes.
    TooLarge { size: u64, limit: u64 },
    /// A directory, pipe, socket or device stands where a file was.
    NotAFile,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::TooLarge { size, limit } => {
                write!(f, "{size} bytes are more than the limit of {limit}; see --max-size")
            }
            Self::NotAFile => f.write_str("not a regular file"),
        }
    }
}

/// The text of one file at a time.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    filled: usize,
}

impl Buffer {
    pub(crate) const fn new() -> Self {
        Buffer { bytes: Vec::new(), filled: 0 }
    }

    /// What the last `load` read.
    pub(crate) fn text(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// Reads the file at `path`. At most `limit` bytes are taken; a file that is larger is refused before it is read, one that
    /// grows while it is read is taken as it was when it was opened. Four system calls for an ordinary file.
    pub(crate) fn load(&mut self, path: &Path, limit: u64) -> Result<(), ReadError> {
        self.filled = 0;
        if self.bytes.len() > KEEP_BYTES_MAX {
            self.bytes = Vec::new();
        }
        let mut file = open(path).map_err(ReadError::Io)?;
        let data = file.metadata().map_err(ReadError::Io)?;
        if !data.is_file() {
            return Err(ReadError::NotAFile);
        }
        let size = data.len();
        if size > limit {
            return Err(ReadError::TooLarge { size, limit });
        }
        // Some file systems say zero for files that have text; those are read to their end.
        if size == 0 { self.fill_to_end(&mut file, limit) } else { self.fill(&mut file, size as usize) }
    }

    fn fill(&mut self, file: &mut File, size: usize) -> Result<(), ReadError> {
        if self.bytes.len() < size {
            self.bytes.resize(size.next_power_of_two().max(64 << 10), 0);
        }
        while self.filled < size {
            match file.read(&mut self.bytes[self.filled..size]) {
                Ok(0) => break,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError::Io(error)),
            }
        }
        Ok(())
    }

    fn fill_to_end(&mut self, file: &mut File, limit: u64) -> Result<(), ReadError> {
        loop {
            let before = self.filled;
            self.fill(file, before + (64 << 10))?;
            if self.filled as u64 > limit {
                self.filled = 0;
                return Err(ReadError::TooLarge { size: limit + 1, limit });
            }
            if self.filled < before + (64 << 10) {
                return Ok(());
            }
        }
    }
}

/// Opens without waiting: a pipe that took the place of a file must not hold a worker.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}
