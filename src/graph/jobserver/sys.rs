//! Pipes as make's job server needs them: opened without waiting, made with a name, or left open for children.
//! It does not know what goes through them.

use std::ffi::CString;
use std::fs::{File, Metadata, OpenOptions, symlink_metadata};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens a pipe for reading or for writing, so that neither opening nor reading waits.
///
/// A pipe with a name is opened for both, or opening would wait for the other side.
pub(super) fn open(path: &Path, read: bool) -> io::Result<File> {
    let named = has_name(path);
    OpenOptions::new().read(read || named).write(!read || named).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Whether it is a pipe's own name, not that of a descriptor.
pub(super) fn has_name(path: &Path) -> bool {
    !path.starts_with("/proc/self/fd")
}

pub(super) fn is_pipe(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Whether this file is what stands at the path.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let place = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let there = symlink_metadata(path).map(place);
    file.metadata().map(place).is_ok_and(|file| there.is_ok_and(|there| there == file))
}

/// Makes a pipe with a name, for the user alone.
pub(super) fn make_fifo(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a string that ends in a zero.
    if unsafe { libc::mkfifo(path.as_ptr(), 0o600) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets children that this process starts have the descriptor too.
pub(super) fn leave_open(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is open, and only its close-on-exec flag changes.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
