//! The course of a daemon: what it serves on, whom it lets in, and its end.
//! It does not know what clients ask.
#![forbid(unsafe_code)]

use super::args::{ServeArgs, usual_socket};
use super::client::Client;
use super::daemon::Daemon;
use super::socket::Socket;
use crate::console::Console;
use crate::interrupts::Interrupts;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The exit status where a second signal ends the program.
const INTERRUPTED: i32 = 130;
/// How long the workers have to end once everything is answered.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// How long the daemon waits where the system is out of what a connection needs.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Runs `shardrun serve`.
pub(crate) fn run(args: ServeArgs) -> ExitCode {
    let mut console = Console::new(true);
    match serve(args) {
        Ok(()) => return ExitCode::SUCCESS,
        Err((subject, why)) => console.complain_of(&subject, why),
    }
    ExitCode::FAILURE
}

/// What could not be had, and why.
type Failed = (String, String);

fn failed(subject: &str) -> impl Fn(io::Error) -> Failed {
    move |error| (subject.into(), error.to_string())
}

fn serve(args: ServeArgs) -> Result<(), Failed> {
    // From here on a signal ends the daemon in order; the socket is made before there are threads.
    let interrupts = Interrupts::new().map_err(failed("signals"))?;
    let socket = match args.stdio {
        true => None,
        false => {
            let path = args.socket.clone().unwrap_or_else(usual_socket);
            let socket = Socket::bind(&path).map_err(|why| (path.display().to_string(), why))?;
            eprintln!("shardrun: serving on {}", path.display());
            Some(socket)
        }
    };
    let (daemon, woken) = Daemon::new(args).map_err(|why| ("runtime".to_owned(), why))?;
    match &socket {
        Some(socket) => let_in(&daemon, socket, &interrupts, &woken),
        None => {
            Client::on_stdio(&daemon).map_err(failed("threads"))?;
            wait_any(&[interrupts.as_fd(), woken.as_fd()]);
        }
    }
    // Nobody is to find a daemon that ends.
    drop(socket);
    heed_another(interrupts);
    daemon.end();
    daemon.runtime.shutdown_within(LAST_WAIT);
    // Taking apart what is known of each file would take longer than the system takes for the whole.
    std::mem::forget(daemon);
    Ok(())
}

/// Lets clients in until a signal comes, or somebody asks for the end.
fn let_in(daemon: &Arc<Daemon>, socket: &Socket, interrupts: &Interrupts, woken: &UnixStream) {
    loop {
        let ready = wait_any(&[interrupts.as_fd(), woken.as_fd(), socket.listener.as_fd()]);
        if ready[0] || ready[1] {
            return;
        }
        let connected = match socket.listener.accept() {
            Ok((stream, _)) => Client::connect(daemon, stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
            Err(error) => Err(error),
        };
        if connected.is_err() {
            // No file descriptor or no thread is left: others give theirs back, and signals are heard meanwhile.
            let _ = poll(&mut [PollFd::new(interrupts, PollFlags::IN)], Some(&PAUSE));
        }
    }
}

/// Waits until one of these can be read, and says which.
fn wait_any(fds: &[std::os::fd::BorrowedFd<'_>]) -> Vec<bool> {
    let mut waits: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    loop {
        match poll(&mut waits, None) {
            Err(Errno::INTR) => {}
            Ok(_) => return waits.iter().map(|wait| !wait.revents().is_empty()).collect(),
            // Then nothing can be waited for any more.
            Err(_) => return vec![true; waits.len()],
        }
    }
}

/// A signal while the daemon ends, ends it where it stands.
fn heed_another(mut interrupts: Interrupts) {
    interrupts.count();
    let heed = move || {
        while interrupts.wait() {
            if interrupts.count() > 1 {
                std::process::exit(INTERRUPTED);
            }
        }
    };
    // Without the thread it ends in order all the same.
    let _ = thread::Builder::new().name("signals".into()).spawn(heed);
}
