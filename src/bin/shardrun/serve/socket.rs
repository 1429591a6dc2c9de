//! The daemon's place in the file system: a socket of the owner's alone, which never takes the place of anything that is not stale.
//! It does not know what is said on it.
#![forbid(unsafe_code)]

use rustix::fs::Mode;
use rustix::process::{getuid, umask};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A bound socket. It is removed when this goes, unless something else stands there by then.
pub(super) struct Socket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    identity: (u64, u64),
    /// Held as long as the socket is: two daemons that start at once must not both find a stale one.
    _lock: File,
}

impl Socket {
    /// Binds the socket at `path`. Whoever calls this has no other thread that creates files.
    ///
    /// # Errors
    /// In words, if something stands there that is not a stale socket of this user.
    pub(super) fn bind(path: &Path) -> Result<Self, String> {
        let lock = lock(path)?;
        vacate(path)?;
        // Others could connect between the making of the socket and a later change of its rights.
        let before = umask(Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path);
        umask(before);
        let listener = bound.map_err(|error| error.to_string())?;
        let prepared = listener.set_nonblocking(true).and_then(|()| fs::symlink_metadata(path));
        let data = prepared.map_err(|error| error.to_string())?;
        if !is_own_socket(&data) || data.permissions().mode() & 0o177 != 0 {
            return Err("what was made there is not a socket of the owner's alone".into());
        }
        Ok(Socket { listener, path: path.into(), identity: (data.dev(), data.ino()), _lock: lock })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let own = |data: &fs::Metadata| (data.dev(), data.ino()) == self.identity;
        if fs::symlink_metadata(&self.path).is_ok_and(|data| own(&data)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Takes the lock beside the socket.
fn lock(path: &Path) -> Result<File, String> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let said = |error: io::Error| format!("{}: {error}", name.to_string_lossy());
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(&name);
    let file = file.map_err(said)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err("another daemon serves there".into()),
        Err(TryLockError::Error(error)) => Err(said(error)),
    }
}

fn is_own_socket(data: &fs::Metadata) -> bool {
    data.file_type().is_socket() && data.uid() == getuid().as_raw()
}

/// Removes a socket on which nobody answers.
fn vacate(path: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.to_string()),
        Ok(data) if data.file_type().is_symlink() => return Err("a symbolic link stands there".into()),
        Ok(data) if !data.file_type().is_socket() => return Err("something that is not a socket stands there".into()),
        Ok(data) if !is_own_socket(&data) => return Err("a socket of another user stands there".into()),
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Err("somebody answers on the socket that stands there".into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    }
}
