//! One started command until it is over: which signals its group gets and when, and when nothing more of it can come.
//! It does not know who waits for it, nor how time is measured out.
//!
//! A command is over when its process has ended and its output is closed. The process is reaped last, after its group was
//! killed: until then its number, which is the group's, cannot be given to anybody else.
//!
//! Most commands close their output by ending. So it is enough to hear of that, and then to look whether the process has ended, too.
//! Only for one that lasts, or closes its output before, a descriptor is made that tells of its end: it would cost a short
//! command half of what all else costs.
#![forbid(unsafe_code)]

use super::reap::{Reaped, reap};
use super::shape::Task;
use super::spawn::Started;
use rustix::process::{PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

/// How long an output may stay open once the process has ended.
const LINGER: Duration = Duration::from_secs(1);
/// A command that lasts as long is watched.
const WATCH_AFTER: Duration = Duration::from_millis(20);
/// The exit code of what took too long, as the command `timeout` has it.
const TIMED_OUT: i32 = 124;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Running,
    /// Its group was asked to end.
    Asked,
    Killed,
}

/// Why a group was asked to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    TimedOut,
    Stopped,
}

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Passed,
    Failed(i32),
    Signal(i32),
    TimedOut,
    Stopped,
    /// Nobody knows: its end was told to somebody else.
    Lost,
}

impl End {
    /// The code as shells have it.
    pub(super) fn code(self) -> i32 {
        match self {
            End::Passed => 0,
            End::Failed(code) => code,
            End::Signal(number) => 128 + number,
            End::TimedOut => TIMED_OUT,
            End::Stopped | End::Lost => 1,
        }
    }
}

pub(super) struct Process {
    started: Option<Started>,
    phase: Phase,
    why: Option<Why>,
    grace: Duration,
    exited: bool,
    closed: bool,
    deadline: Option<Instant>,
    watch: Watch,
}

/// How the end of the process will be heard of.
enum Watch {
    /// By its output, and by a look at this time.
    At(Instant),
    /// By this descriptor, which is readable then.
    By(OwnedFd),
}

impl Process {
    pub(super) fn new(started: Started, task: &Task<'_>, now: Instant) -> Self {
        let deadline = task.timeout.and_then(|timeout| now.checked_add(timeout));
        let (started, grace, watch) = (Some(started), task.grace, Watch::At(now + WATCH_AFTER));
        Self { started, phase: Phase::Running, why: None, grace, exited: false, closed: false, deadline, watch }
    }

    /// When `due` wants to be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.watch {
            Watch::At(at) if !self.exited => Some(self.deadline.map_or(at, |deadline| deadline.min(at))),
            _ => self.deadline,
        }
    }

    /// What there is to be waited for: more output, and its end.
    pub(super) fn waits_for(&self) -> [Option<BorrowedFd<'_>>; 2] {
        let output = self.started.as_ref().and_then(|started| started.output.as_ref()).map(AsFd::as_fd);
        match &self.watch {
            Watch::By(descriptor) if !self.exited => [output, Some(descriptor.as_fd())],
            _ => [output, None],
        }
    }

    /// Looks whether the process has ended. If not, it will be watched.
    pub(super) fn look(&mut self, now: Instant) {
        let Some(pid) = self.started.as_ref().filter(|_| !self.exited).map(|started| started.pid) else { return };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error says that somebody else was told.
        if !matches!(waitid(WaitId::Pid(pid), options), Ok(None)) {
            self.exited(now);
        } else if matches!(self.watch, Watch::At(_)) {
            // If too many files are open it is looked at from time to time.
            let descriptor = pidfd_open(pid, PidfdFlags::empty());
            self.watch = descriptor.map_or(Watch::At(now + WATCH_AFTER), Watch::By);
        }
    }

    /// Reads what there is of its output, once. None if it has just been closed.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let output = self.started.as_mut()?.output.as_mut()?;
        loop {
            match output.read(buffer) {
                Ok(count) if count > 0 => return Some(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => break,
            }
        }
        self.close();
        None
    }

    /// Nothing more is read of its output.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.started.as_mut().map(|started| started.output.take());
    }

    /// The process has ended; perhaps what it left behind still prints.
    pub(super) fn exited(&mut self, now: Instant) {
        self.exited = true;
        self.deadline = now.checked_add(LINGER);
    }

    /// It lives for as long as it likes from now on.
    pub(super) fn no_timeout(&mut self) {
        if self.phase == Phase::Running && !self.exited {
            self.deadline = None;
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.exited && self.closed
    }

    /// Asks the group to end, if nobody has yet; after the grace it will be killed.
    pub(super) fn ask(&mut self, why: Why, now: Instant) {
        if self.phase != Phase::Running || self.exited {
            return;
        }
        self.why = Some(why);
        self.phase = Phase::Asked;
        self.signal(Signal::TERM);
        // A stopped group would not hear it.
        self.signal(Signal::CONT);
        self.deadline = now.checked_add(self.grace);
    }

    /// Kills the group, if nobody has yet. If only what it left behind still prints, nothing more is read, and it is over.
    pub(super) fn kill(&mut self) {
        if self.exited {
            self.close();
        } else if self.phase != Phase::Killed {
            self.phase = Phase::Killed;
            self.why = self.why.or(Some(Why::Stopped));
            self.deadline = None;
            self.signal(Signal::KILL);
        }
    }

    /// Whether it is time to look.
    pub(super) fn is_to_be_looked_at(&self, now: Instant) -> bool {
        matches!(self.watch, Watch::At(at) if at <= now)
    }

    /// A deadline has come, its own or that for a look.
    pub(super) fn due(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        self.deadline = None;
        match self.phase {
            _ if self.exited => self.close(),
            Phase::Running => self.ask(Why::TimedOut, now),
            Phase::Asked => self.kill(),
            Phase::Killed => {}
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(started) = &self.started {
            // It fails only if nothing of the group is left.
            _ = kill_process_group(started.pid, signal);
        }
    }

    /// It is over: kills what is left of its group, and says how it ended, and how much memory it held at its peak.
    pub(super) fn finish(mut self) -> (End, Option<u64>) {
        let reaped = self.reap();
        let peak = reaped.as_ref().ok().and_then(|reaped| reaped.peak);
        let end = match (self.why, reaped.map(|reaped| reaped.status)) {
            (Some(Why::Stopped), _) => End::Stopped,
            (Some(Why::TimedOut), _) => End::TimedOut,
            (None, Err(_)) => End::Lost,
            (None, Ok(status)) => match (status.code(), status.signal()) {
                (Some(0), _) => End::Passed,
                (Some(code), _) => End::Failed(code),
                (None, signal) => End::Signal(signal.unwrap_or(0)),
            },
        };
        (end, peak)
    }

    fn reap(&mut self) -> io::Result<Reaped> {
        self.signal(Signal::KILL);
        let Some(started) = self.started.take() else { return Err(ErrorKind::NotFound.into()) };
        reap(started.pid)
    }
}

/// Whatever happens to this program, it leaves nobody behind.
impl Drop for Process {
    fn drop(&mut self) {
        if self.started.is_some() {
            _ = self.reap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::Pid;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn a_command_whose_children_hold_its_output_open_is_over_when_it_is_killed() {
        let (output, theirs) = io::pipe().unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 1000 & exit 0"]).stdout(theirs).process_group(0);
        let pid = Pid::from_child(&command.spawn().unwrap());
        // Else this process would hold it open, too.
        drop(command);
        let started = Started { pid, output: Some(output) };
        let mut process = Process {
            started: Some(started),
            phase: Phase::Running,
            why: None,
            grace: Duration::ZERO,
            exited: false,
            closed: false,
            deadline: None,
            watch: Watch::At(Instant::now()),
        };
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        process.look(Instant::now());
        assert!(!process.is_over(), "its child may still print");
        process.kill();
        assert!(process.is_over());
        assert_eq!(process.finish().0, End::Passed);
    }
}
