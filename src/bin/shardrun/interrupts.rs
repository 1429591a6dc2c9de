//! Signals that ask this program to end, counted.
//! It does not know what is done about them.
#![forbid(unsafe_code)]

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Counts SIGINT, SIGTERM, SIGHUP and SIGQUIT from its making on.
pub(crate) struct Interrupts {
    /// A byte for each signal.
    heard: UnixStream,
    count: usize,
}

impl Interrupts {
    /// Hears the signals from now on. Those that were ignored when the program started, as `nohup` has it, still are.
    pub(crate) fn new() -> io::Result<Self> {
        let ignored = ignored();
        let (heard, tell) = UnixStream::pair()?;
        heard.set_nonblocking(true)?;
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT].into_iter().filter(|signal| !ignored(*signal)) {
            signal_hook::low_level::pipe::register(signal, tell.try_clone()?)?;
        }
        if ignored(SIGCHLD) {
            // Else the system would forget how children end.
            signal_hook::flag::register(SIGCHLD, Arc::default())?;
        }
        Ok(Self { heard, count: 0 })
    }

    /// Waits for the next one; false if it cannot.
    pub(crate) fn wait(&self) -> bool {
        loop {
            match poll(&mut [PollFd::new(&self.heard, PollFlags::IN)], None) {
                Ok(_) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// How many there were by now.
    pub(crate) fn count(&mut self) -> usize {
        let mut bytes = [0; 64];
        while let Ok(count @ 1..) = self.heard.read(&mut bytes) {
            self.count += count;
        }
        self.count
    }
}

impl AsFd for Interrupts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.heard.as_fd()
    }
}

/// From now on a file that has become too large for its user's limit cannot be written, which is said like any other failure,
/// instead of ending this program without a word and leaving its children behind.
pub(crate) fn hear_of_full_files() {
    // If that cannot be, it is as it was.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Which signals this process ignores.
fn ignored() -> impl Fn(i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    move |signal| mask >> (signal - 1) & 1 == 1
}
