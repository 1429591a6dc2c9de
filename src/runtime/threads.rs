//! The threads of a runtime from start to join.
//! It does not know what they do.
#![forbid(unsafe_code)]

use crate::sync::stat::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::thread::{self, Builder, JoinHandle};
use crate::sync::{Arc, Condvar, Mutex, PoisonError};
use std::io;
use std::time::{Duration, Instant};

#[derive(Default)]
struct State {
    handles: Vec<JoinHandle<()>>,
    live: usize,
    closed: bool,
}

/// Starts threads, and waits for their end.
pub(crate) struct Threads {
    state: Mutex<State>,
    ended: Condvar,
    /// How many more starts succeed before one is made to fail, plus one; zero for no injected failure.
    fail_after: AtomicUsize,
}

impl Threads {
    /// With a start that is made to fail: the one after `after` good ones. For tests.
    pub(crate) fn failing_after(after: Option<usize>) -> Self {
        Self {
            state: Mutex::new(State::default()),
            ended: Condvar::new(),
            fail_after: AtomicUsize::new(after.map_or(0, |after| after + 1)),
        }
    }

    /// Starts a thread that runs `main` with what `owner` yields.
    ///
    /// # Errors
    /// The operating system's, or that the runtime is closed.
    pub(crate) fn start<T: AsRef<Self> + Send + Sync + 'static>(
        owner: &Arc<T>,
        name: String,
        stack: usize,
        main: impl FnOnce(Arc<T>) + Send + 'static,
    ) -> io::Result<()> {
        let me = (**owner).as_ref();
        Self::start_locked(owner, &mut me.state.lock(), (name, stack), main)
    }

    /// As [`start`](Self::start), unless `is_started` says that an earlier call has: of those that come at once one starts the
    /// thread, and each hears what became of it.
    ///
    /// # Errors
    /// As for `start`.
    pub(crate) fn start_once<T: AsRef<Self> + Send + Sync + 'static>(
        owner: &Arc<T>,
        is_started: &AtomicBool,
        (name, stack): (String, usize),
        main: impl FnOnce(Arc<T>) + Send + 'static,
    ) -> io::Result<()> {
        let mut state = (**owner).as_ref().state.lock();
        if !is_started.load(Ordering::Relaxed) {
            Self::start_locked(owner, &mut state, (name, stack), main)?;
            is_started.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn start_locked<T: AsRef<Self> + Send + Sync + 'static>(
        owner: &Arc<T>,
        state: &mut State,
        (name, stack): (String, usize),
        main: impl FnOnce(Arc<T>) + Send + 'static,
    ) -> io::Result<()> {
        struct Ended<T: AsRef<Threads>>(Arc<T>);
        impl<T: AsRef<Threads>> Drop for Ended<T> {
            fn drop(&mut self) {
                let threads = (*self.0).as_ref();
                threads.state.lock().live -= 1;
                threads.ended.notify_all();
            }
        }
        if state.closed {
            return Err(io::Error::other("the runtime is shut down"));
        }
        (**owner).as_ref().injected_failure()?;
        let theirs = owner.clone();
        let handle = Builder::new().name(name).stack_size(stack).spawn(move || {
            let ended = Ended(theirs.clone());
            main(theirs);
            drop(ended);
        })?;
        state.handles.push(handle);
        state.live += 1;
        Ok(())
    }

    fn injected_failure(&self) -> io::Result<()> {
        match self.fail_after.load(Ordering::Relaxed) {
            0 => Ok(()),
            1 => Err(io::Error::other("a thread start that a test made fail")),
            more => {
                self.fail_after.store(more - 1, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Ends the injected failures.
    #[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
    pub(crate) fn fail_no_more(&self) {
        self.fail_after.store(0, Ordering::Relaxed);
    }

    /// Starts nothing from now on.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
    }

    /// Waits until all threads have ended, at most for `limit`; how many have not. Without a limit it waits for the destructors of their
    /// thread-locals too, which may take any time; with one it leaves that to a later call. A thread of ours waits for nobody: it would
    /// wait for itself, also in the destructors of its thread-locals, when it has ended for us.
    pub(crate) fn join(&self, limit: Option<Duration>) -> usize {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.state.lock();
        let me = thread::current().id();
        if state.handles.iter().any(|handle| handle.thread().id() == me) {
            return state.live.max(1);
        }
        while state.live > 0 {
            state = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => self.ended.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return state.live,
                Some(left) => self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        if limit.is_some() {
            return 0;
        }
        let handles = std::mem::take(&mut state.handles);
        drop(state);
        for handle in handles {
            let _ = handle.join();
        }
        0
    }
}
