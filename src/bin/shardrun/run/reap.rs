//! Takes in how a process ended, and the most memory that it held.
//! It does not know whose process it is.

use rustix::process::Pid;
use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How a process ended.
pub(super) struct Reaped {
    pub(super) status: ExitStatus,
    /// The bytes that it held at its peak, or the one of those that it has waited for that held most. None if that is not more
    /// than this process has held: the system counts what a child holds from before its program was loaded, when it was ours.
    pub(super) peak: Option<u64>,
}

thread_local! {
    /// The most that this process has held, when last asked.
    static OWN: Cell<u64> = const { Cell::new(0) };
}

/// Waits for the end of a child of this process, and gives its number back to the system.
pub(super) fn reap(pid: Pid) -> io::Result<Reaped> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both places are ours and large enough, and the call keeps neither.
        if unsafe { libc::wait4(pid.as_raw_nonzero().get(), &raw mut status, 0, usage.as_mut_ptr()) } >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: zeroes are a value of it, and the call has succeeded.
    let peak = bytes(unsafe { usage.assume_init_ref() });
    if peak > OWN.get() {
        OWN.set(own());
    }
    Ok(Reaped { status: ExitStatus::from_raw(status), peak: (peak > OWN.get()).then_some(peak) })
}

fn bytes(usage: &libc::rusage) -> u64 {
    u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024)
}

/// The most that this process has held by now.
fn own() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the place is ours and large enough. Zeroes are a value of it, should the call fail.
    bytes(unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init_ref()
    })
}
