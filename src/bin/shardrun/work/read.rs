//! Reads one file into a buffer that the calling thread keeps, never more than a stated number of bytes.
//! It does not know what is in the file.
#![forbid(unsafe_code)]

use std::fs::{File, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, SystemTime};

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

/// How young a change may be for a file's clock not to tell it from the next one.
const YOUNG: Duration = Duration::from_millis(100);

/// Tells, without its text, whether a file is still what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(u64);

impl Stamp {
    /// Of a file that had just been changed: it may have changed once more within the same tick of its clock.
    const YOUNG: Stamp = Stamp(0);

    /// By what the system says of a file now.
    pub(crate) fn of(data: &Metadata) -> Self {
        Self::of_at(data, SystemTime::now())
    }

    fn of_at(data: &Metadata, now: SystemTime) -> Self {
        let changed = changed(data);
        // The system's clock may have been set back since: what was changed later than now tells as little as what is young.
        let told = |at| now.duration_since(at).is_ok_and(|age| age >= YOUNG);
        if !changed.is_some_and(told) {
            return Self::YOUNG;
        }
        let mut hasher = DefaultHasher::new();
        (changed, data.modified().ok(), data.len(), identity(data)).hash(&mut hasher);
        Stamp(hasher.finish() | 1)
    }

    /// Whether a file with the stamp `now` is surely what it was with this one.
    pub(crate) fn stands(self, now: Stamp) -> bool {
        self == now && self != Self::YOUNG
    }
}

/// When anything about the file was changed last.
#[cfg(unix)]
fn changed(data: &Metadata) -> Option<SystemTime> {
    use std::os::unix::fs::MetadataExt;
    let seconds = Duration::from_secs(u64::try_from(data.ctime()).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(seconds + Duration::from_nanos(u64::try_from(data.ctime_nsec()).ok()?))
}

#[cfg(not(unix))]
fn changed(data: &Metadata) -> Option<SystemTime> {
    data.modified().ok()
}

/// Tells one file from another that has taken its name.
#[cfg(unix)]
pub(crate) fn identity(data: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (data.dev(), data.ino())
}

#[cfg(not(unix))]
pub(crate) fn identity(_data: &Metadata) -> (u64, u64) {
    (0, 0)
}

/// The text of one file at a time.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    filled: usize,
    data: Option<Metadata>,
}

impl Buffer {
    pub(crate) const fn new() -> Self {
        Buffer { bytes: Vec::new(), filled: 0, data: None }
    }

    /// The stamp of the file that was read last, as it was before it was read, which was after `before`. By then a change was
    /// young or not: a file that takes long to read may be changed again in the same tick meanwhile.
    pub(crate) fn stamp(&self, before: SystemTime) -> Stamp {
        self.data.as_ref().map_or(Stamp::YOUNG, |data| Stamp::of_at(data, before))
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
        self.data = Some(data);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_takes_long_to_read_is_as_young_as_it_was_before() {
        let path = std::env::temp_dir().join(format!("shardrun-young-{}", std::process::id()));
        std::fs::write(&path, "text").unwrap();
        let mut buffer = Buffer::new();
        buffer.load(&path, 100).unwrap();
        let at = changed(&std::fs::metadata(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let stands = |before| buffer.stamp(before).stands(buffer.stamp(before));
        assert!(!stands(at) && stands(at + YOUNG));
    }

    #[test]
    fn what_was_changed_a_moment_ago_or_later_than_now_is_never_taken_for_unchanged() {
        let data = std::fs::metadata(file!()).or_else(|_| std::fs::metadata("/")).unwrap();
        let at = changed(&data).unwrap();
        let stands = |now| Stamp::of_at(&data, now).stands(Stamp::of_at(&data, now));
        assert!(stands(at + Duration::from_secs(60)));
        assert!(!stands(at + YOUNG / 2));
        // The system's clock was set back.
        assert!(!stands(at - Duration::from_secs(3_600)));
        assert!(!stands(SystemTime::UNIX_EPOCH));
    }
}
