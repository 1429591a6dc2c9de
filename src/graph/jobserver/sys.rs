//! Pipes as make's job server needs them: opened without waiting, made with a name, or left open for children.
//! It does not know what goes through them.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a pipe for reading or for writing, so that neither opening nor reading waits.
///
/// A pipe with a name is opened for both, or opening would wait for the other side.
pub(super) fn open(path: &Path, read: bool) -> io::Result<File> {
    let named = !path.starts_with("/proc/self/fd");
    OpenOptions::new().read(read || named).write(!read || named).custom_flags(libc::O_NONBLOCK).open(path)
}

pub(super) fn is_pipe(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo())
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
