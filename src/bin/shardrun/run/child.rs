//! Makes a child process: in a group of its own, with all that it prints in one pipe, hearing all signals.
//! It does not know what tasks are, nor how the child is waited for.
//!
//! As `posix_spawn` does it, by a child that shares our memory until it has become the program, while we wait. But of signals it
//! resets those alone of which this program hears, instead of looking at each there is, and its stack is made once: for a short
//! command that is a fiftieth of all that it costs.

use rustix::process::Pid;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Of the child's stack, in units of 16 bytes: it needs a few KiB, and as much for the registers if a function is bound late.
const STACK_UNITS: usize = (64 << 10) / size_of::<u128>();
/// The signals that a set has room for.
const SIGNALS: c_int = 64;
/// The exit status of a child that became no program. Nobody sees it.
const NO_PROGRAM: c_int = 127;

/// Texts as the system takes them: pointers to each, and a null pointer.
pub(super) struct Texts<'a> {
    pointers: Vec<*const c_char>,
    _texts: std::marker::PhantomData<&'a CStr>,
}

impl<'a> FromIterator<&'a CStr> for Texts<'a> {
    fn from_iter<I: IntoIterator<Item = &'a CStr>>(texts: I) -> Self {
        let pointers = texts.into_iter().map(CStr::as_ptr).chain([ptr::null()]).collect();
        Self { pointers, _texts: std::marker::PhantomData }
    }
}

/// What a child is to become.
pub(super) struct Program<'a> {
    /// Where it may be. The first that is there is taken.
    pub(super) places: &'a Texts<'a>,
    pub(super) words: &'a Texts<'a>,
    pub(super) environment: &'a Texts<'a>,
    pub(super) directory: Option<&'a CStr>,
    /// Of what it prints, on both ways.
    pub(super) output: BorrowedFd<'a>,
}

/// Makes children.
pub(super) struct Nursery {
    stack: Box<[MaybeUninit<u128>]>,
    /// The signals that this program hears of, or ignores though those that started it did not.
    heard: Vec<c_int>,
}

/// What the child needs to know, and where it says why it failed.
struct Birth<'a> {
    program: &'a Program<'a>,
    heard: &'a [c_int],
    error: c_int,
}

impl Nursery {
    /// To be made once this program hears all signals that it will ever hear.
    pub(super) fn new() -> Self {
        let heard = |signal: &c_int| *signal == libc::SIGPIPE || is_heard(*signal);
        Self { stack: Box::new_uninit_slice(STACK_UNITS), heard: (1..=SIGNALS).filter(heard).collect() }
    }

    /// Makes a child. It has become the program, or there is none, when this returns.
    pub(super) fn start(&mut self, program: &Program<'_>) -> io::Result<Pid> {
        let mut birth = Birth { program, heard: &self.heard, error: 0 };
        let top = self.stack.as_mut_ptr_range().end.cast::<c_void>();
        let all = u64::MAX;
        let before = set_mask(all);
        // SAFETY: the stack is ours, large enough and of the right alignment, and grows down from its top. The child runs `become`,
        // which allocates nothing, takes no lock and cannot unwind, on memory that outlives it, since with CLONE_VFORK this thread
        // goes on only when the child has left our memory. No signal is handled in the child before that: all are blocked.
        let pid = unsafe {
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            libc::clone(become_program, top, flags, (&raw mut birth).cast())
        };
        let error = io::Error::last_os_error();
        set_mask(before);
        let Some(child) = Pid::from_raw(pid).filter(|_| pid > 0) else { return Err(error) };
        // SAFETY: `birth` is alive; the child wrote to it, if at all, before we went on.
        match unsafe { (&raw const birth.error).read_volatile() } {
            0 => Ok(child),
            error => {
                _ = super::reap::reap(child);
                Err(io::Error::from_raw_os_error(error))
            }
        }
    }
}

/// Sets which signals are blocked, as bits from the lowest for signal 1, also those that the C library keeps for itself.
fn set_mask(mask: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: both masks are ours and of the size that is said. It cannot fail.
    unsafe {
        let (set, old) = (&raw const mask, &raw mut before);
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, set, old, size_of::<u64>());
    }
    before
}

fn is_heard(signal: c_int) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the place is ours; zeroes are a value of it, should the call fail, and mean the default.
    let handler = unsafe {
        libc::sigaction(signal, ptr::null(), now.as_mut_ptr());
        now.assume_init().sa_sigaction
    };
    handler != libc::SIG_DFL && handler != libc::SIG_IGN
}

/// The child. It shares our memory, and never returns.
extern "C" fn become_program(birth: *mut c_void) -> c_int {
    // SAFETY: it is what `start` made, which waits for us. Only calls that are safe in a signal handler are made, with texts that
    // end in a zero, lists that end in a null pointer, and places of ours.
    unsafe {
        let birth = &mut *birth.cast::<Birth<'_>>();
        birth.error = try_become(birth);
        libc::_exit(NO_PROGRAM)
    }
}

/// Returns why it failed, if it returns.
///
/// # Safety
/// As of [`become_program`].
unsafe fn try_become(birth: &Birth<'_>) -> c_int {
    let Birth { program, heard, .. } = birth;
    // SAFETY: as the caller's.
    unsafe {
        let errno = || *libc::__errno_location();
        let default = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        for signal in *heard {
            libc::sigaction(*signal, &raw const default, ptr::null_mut());
        }
        let output = program.output.as_raw_fd();
        if libc::setpgid(0, 0) < 0 || libc::dup2(output, 1) < 0 || libc::dup2(output, 2) < 0 {
            return errno();
        }
        if let Some(directory) = program.directory
            && libc::chdir(directory.as_ptr()) < 0
        {
            return errno();
        }
        set_mask(0);
        let (words, environment) = (program.words.pointers.as_ptr(), program.environment.pointers.as_ptr());
        let (mut refused, mut last) = (false, libc::ENOENT);
        for place in &program.places.pointers {
            if place.is_null() {
                break;
            }
            libc::execve(*place, words, environment);
            last = errno();
            match last {
                libc::EACCES => refused = true,
                libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
                _ => return last,
            }
        }
        if refused { libc::EACCES } else { last }
    }
}
