//! A forked child finds a runtime without threads, is told so, and does not wait for them.
#![cfg(unix)]

use shardrun::{Handle, JobError, RefusedBecause, Runtime};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// What the child finds; zero if all is as it should be.
fn child(runtime: &Runtime, mut late: Handle<()>, queued: &Arc<()>) -> i32 {
    for _ in 0..2 {
        let polled = Pin::new(&mut late).poll(&mut Context::from_waker(Waker::noop()));
        if polled != Poll::Ready(Err(JobError::Shutdown)) {
            return 14;
        }
    }
    if late.wait() != Err(JobError::Shutdown) {
        return 11;
    }
    let (dropped, drops) = channel::<()>();
    let armed = runtime.after(Duration::ZERO, move || drop(dropped));
    let refused = armed.is_err_and(|rejected| rejected.because == RefusedBecause::Forked);
    if !refused || drops.recv_timeout(Duration::ZERO) != Err(RecvTimeoutError::Disconnected) {
        return 12;
    }
    if Arc::strong_count(queued) != 2 {
        return 13;
    }
    let refused = runtime.execute(|| {}).is_err_and(|rejected| rejected.because == RefusedBecause::Forked);
    if !refused {
        return 1;
    }
    if runtime.execute_batch(shardrun::Place::default(), [|| {}]).is_ok() {
        return 2;
    }
    let end = runtime.shutdown();
    if end.running != 0 {
        return 3;
    }
    drop(runtime.clone());
    let fresh = match Runtime::builder().workers(1).io_threads(0).build() {
        Ok(fresh) => fresh,
        Err(_) => return 4,
    };
    let (sender, receiver) = channel();
    let sent = fresh.execute(move || sender.send(()).unwrap()).is_ok();
    if !sent || receiver.recv_timeout(Duration::from_secs(200)).is_err() {
        return 5;
    }
    fresh.shutdown();
    0
}

#[test]
fn b106_a_forked_child_is_refused_and_waits_for_nobody() {
    let runtime = Runtime::builder().workers(2).io_threads(1).build().unwrap();
    let (sender, receiver) = channel();
    runtime.execute(move || sender.send(()).unwrap()).unwrap();
    receiver.recv().unwrap();
    // Work that is under way, and work that waits, when the child begins its life.
    let (go, gone) = channel::<()>();
    let (entered, inside) = channel();
    let late = runtime.spawn(move || {
        entered.send(()).unwrap();
        gone.recv().unwrap();
    });
    inside.recv().unwrap();
    let queued = Arc::new(());
    let theirs = queued.clone();
    let waits = runtime.after(Duration::from_secs(3600), move || drop(theirs)).unwrap();
    // SAFETY: the child runs nothing but `child` and leaves without unwinding into the test's threads, which it lacks.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let found =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| child(&runtime, late, &queued))).unwrap_or(99);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(found) };
    }
    assert!(pid > 0);
    let (mut status, begun) = (0, Instant::now());
    // SAFETY: asks for the state of a child of ours.
    while unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == 0 {
        if begun.elapsed() > Duration::from_secs(300) {
            // SAFETY: ends a child of ours.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::yield_now();
    }
    assert!(libc::WIFEXITED(status));
    assert_eq!(libc::WEXITSTATUS(status), 0, "the child's finding");
    // The parent's runtime works on.
    assert!(waits.cancel());
    go.send(()).unwrap();
    assert_eq!(late.wait(), Ok(()));
    let (sender, receiver) = channel();
    runtime.execute(move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(Duration::from_secs(300)).expect("the parent works on");
}
