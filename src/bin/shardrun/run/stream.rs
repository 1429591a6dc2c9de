//! Standard output and standard error, written so that a reader that takes nothing cannot keep an interrupt from being heard.
//! It does not know what is written.
#![forbid(unsafe_code)]

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};

/// What a pipe that has room takes without waiting.
const PIPE_BYTES: usize = 4096;
/// How long a reader may take nothing once the run was interrupted.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// When to give up a reader that takes nothing. Without an interrupt it is waited for.
#[derive(Default)]
pub(super) struct Patience {
    /// It is a file, which takes everything at once.
    never: bool,
    /// Readable once there is an interrupt that was not heard yet.
    pub(super) interrupt: Option<OwnedFd>,
    /// There was an interrupt.
    pub(super) interrupted: bool,
}

impl Patience {
    /// For standard output.
    pub(super) fn of_stdout() -> Self {
        let stdout = io::stdout().as_fd().try_clone_to_owned();
        let never = stdout.and_then(|to| File::from(to).metadata()).is_ok_and(|to| to.is_file());
        Self { never, ..Self::default() }
    }

    /// For standard error, as much of it as for standard output.
    pub(super) fn for_stderr(&self) -> Self {
        let interrupt = self.interrupt.as_ref().and_then(|interrupt| interrupt.try_clone().ok());
        Self { never: false, interrupt, interrupted: self.interrupted }
    }
}

/// Writes all, waiting for room where the other side is slow.
///
/// # Errors
/// If it cannot be written, or is given up.
pub(super) fn write_all(to: impl AsFd, bytes: &[u8], patience: &Patience) -> io::Result<()> {
    let written = write(&to, bytes, patience)?;
    // There is an interrupt that nobody hears before this is written.
    let rest = Patience { never: patience.never, interrupt: None, interrupted: true };
    write(to, &bytes[written..], &rest).map(drop)
}

/// The same until there is no room and an interrupt to be heard first. Says how many bytes were written.
///
/// # Errors
/// If it cannot be written, or is given up.
pub(super) fn write(to: impl AsFd, bytes: &[u8], patience: &Patience) -> io::Result<usize> {
    let to = to.as_fd();
    let mut written = 0;
    while written < bytes.len() {
        let left = &bytes[written..];
        if !patience.never && !wait_for_room(to, patience)? {
            break;
        }
        let piece = if patience.never { left } else { &left[..left.len().min(PIPE_BYTES)] };
        match rustix::io::write(to, piece) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => written += count,
            Err(Errno::INTR | Errno::AGAIN) => {}
            // Closed from the start: nobody wants it.
            Err(Errno::BADF) => return Ok(bytes.len()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(written)
}

/// False if there is an interrupt first.
fn wait_for_room(to: impl AsFd, patience: &Patience) -> io::Result<bool> {
    let given_up = || io::Error::new(ErrorKind::TimedOut, "nobody reads it, and the run was interrupted");
    let limit = patience.interrupted.then_some(&PATIENCE);
    loop {
        let room = PollFd::new(&to, PollFlags::OUT);
        let interrupt = patience.interrupt.as_ref().map(|interrupt| PollFd::new(interrupt, PollFlags::IN));
        let mut waits = [Some(room), interrupt].into_iter().flatten().collect::<Vec<_>>();
        match poll(&mut waits, limit) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(0) => return Err(given_up()),
            Ok(_) => return Ok(!waits[0].revents().is_empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::thread;

    #[test]
    fn an_interrupt_leaves_what_has_no_room_and_a_reader_that_takes_it_then_gets_all() {
        let text: Vec<u8> = (0..1 << 20).map(|at| (at % 251) as u8).collect();
        let (mut reader, writer) = io::pipe().unwrap();
        let (heard, mut tell) = io::pipe().unwrap();
        tell.write_all(b"x").unwrap();
        let mut patience = Patience { interrupt: Some(heard.into()), ..Patience::default() };
        let written = write(&writer, &text, &patience).unwrap();
        assert!(0 < written && written < text.len(), "{written}");
        assert_eq!(write(&writer, &text[written..], &patience).unwrap(), 0, "it is not heard yet");
        let mut read = vec![0; written];
        reader.read_exact(&mut read).unwrap();
        let reading = thread::spawn(move || reader.read_to_end(&mut read).map(|_| read));
        patience.interrupted = true;
        write_all(&writer, &text[written..], &patience).unwrap();
        drop(writer);
        assert!(reading.join().unwrap().unwrap() == text);
    }
}
