//! Options of a runtime, checked before anything starts.
//! It does not know what the threads do.
#![forbid(unsafe_code)]

use super::affinity::{self, PINNED, Pinning, Plan};
use super::clock::{Clock, TimeSource, VirtualClock};
use super::driven::Driven;
use super::engine::{Config, Engine, Hook, Sizes, Watch};
use super::fork;
use super::handle::Runtime;
use super::place::Pool;
use super::start;
use super::threads::Threads;
use crate::observe::{Observer, WorkerId};
use crate::sync::Arc;
use std::fmt;
use std::io;
use std::time::Duration;

/// The most threads of one kind.
const THREADS_MAX: usize = 16_384;
/// The smallest and the largest stack of a thread.
const STACK_BYTES: (usize, usize) = (64 << 10, 1 << 30);
/// The longest that a worker may be told to spin.
const SPIN_MAX: Duration = Duration::from_millis(10);

/// Who runs the jobs of a runtime.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// Worker threads.
    #[default]
    Threads,
    /// Nobody but who calls `drive_one` or `drive_all`: jobs run by priority, and first come, first served within one. A queued job
    /// that owns a `Runtime` keeps it alive until somebody drives it or calls `shutdown`.
    Inline,
    /// As `Inline`, in an order that depends on the seed alone as long as one thread drives at a time: for tests.
    Seeded {
        /// Chooses the order.
        seed: u64,
    },
}

/// Why a runtime was not built.
#[non_exhaustive]
#[derive(Debug)]
pub enum BuildError {
    /// An option cannot be.
    Option {
        /// The builder's method that set it.
        option: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A thread could not be started; those that were have been stopped.
    Thread {
        /// How many threads had been started before.
        started: usize,
        /// What the operating system says.
        source: io::Error,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option { option, problem } => write!(f, "option {option}: {problem}"),
            Self::Thread { started, .. } => write!(f, "thread {} of the runtime could not be started", started + 1),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Option { .. } => None,
            Self::Thread { source, .. } => Some(source),
        }
    }
}

/// Options of a [`Runtime`]. Each has a default; each is checked by [`build`](Self::build).
#[must_use = "nothing is started before `build`"]
#[derive(Clone)]
pub struct RuntimeBuilder {
    workers: Option<usize>,
    io_threads: Option<usize>,
    pinning: Pinning,
    thread_name: String,
    stack_size: usize,
    on_start: Option<Hook>,
    on_stop: Option<Hook>,
    max_spares: usize,
    spin: Duration,
    observer: Option<Arc<dyn Observer>>,
    driver: Driver,
    clock: Option<Arc<dyn Clock>>,
    fail_after: Option<usize>,
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder")
            .field("workers", &self.workers)
            .field("io_threads", &self.io_threads)
            .field("pinning", &self.pinning)
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}

impl Default for RuntimeBuilder {
    fn default() -> Self {
        Self {
            workers: None,
            io_threads: None,
            pinning: Pinning::Auto,
            thread_name: "shardrun".to_owned(),
            stack_size: 8 << 20,
            on_start: None,
            on_stop: None,
            max_spares: 16,
            spin: Duration::from_micros(50),
            observer: None,
            driver: Driver::Threads,
            clock: None,
            fail_after: None,
        }
    }
}

impl RuntimeBuilder {
    /// How many workers: 1 to 16,384. Default: as many as threads of this process can run at once, its affinity mask and its
    /// CPU quota counted in.
    pub fn workers(mut self, count: usize) -> Self {
        self.workers = Some(count);
        self
    }

    /// How many I/O threads: 0 to 16,384. Default: as many as workers, but 2 to 4. With 0, work for [`Pool::Io`] runs on the
    /// workers.
    pub fn io_threads(mut self, count: usize) -> Self {
        self.io_threads = Some(count);
        self
    }

    /// Where the workers run. Default: [`Pinning::Auto`].
    pub fn pinning(mut self, pinning: Pinning) -> Self {
        self.pinning = pinning;
        self
    }

    /// What the threads' names begin with: not empty, no zero byte. Default: `shardrun`.
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.thread_name = name.into();
        self
    }

    /// The stack of each thread, in bytes: 64 KiB to 1 GiB. Default: 8 MiB, of which only what is touched is used.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// Called on each worker's thread, spares and I/O threads too, before its first job. A panic of it is caught and counted.
    pub fn on_start(mut self, hook: impl Fn(WorkerId) + Send + Sync + 'static) -> Self {
        self.on_start = Some(Arc::new(hook));
        self
    }

    /// Called on each worker's thread after its last job. A panic of it is caught and counted.
    pub fn on_stop(mut self, hook: impl Fn(WorkerId) + Send + Sync + 'static) -> Self {
        self.on_stop = Some(Arc::new(hook));
        self
    }

    /// How many spare threads each pool may start, at most 16,384, to take the place of threads that block in a wait of the
    /// engine. They start when first needed. Default: 16. With 0 a blocked thread is missing until it goes on.
    ///
    /// Who waits inside a job while no spare is left does not sleep: since nobody else may be there to run what it waits for, it looks for that
    /// again and again, which costs a CPU for as long as the wait lasts. Such a wait is counted once
    /// ([`Counters::spares_missing`](crate::Counters::spares_missing)), and told once to the observer.
    pub fn max_spares(mut self, count: usize) -> Self {
        self.max_spares = count;
        self
    }

    /// The longest that a worker spins before it sleeps, at most 10 ms. How long it really spins adapts to whether that
    /// pays; at most one worker of a pool spins. Default: 50 µs. Zero turns it off. In a process with one CPU it gives way to
    /// other threads instead of spinning.
    pub fn spin(mut self, limit: Duration) -> Self {
        self.spin = limit;
        self
    }

    /// Who hears what happens. Default: nobody.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Who runs the jobs. Default: [`Driver::Threads`].
    pub fn driver(mut self, driver: Driver) -> Self {
        self.driver = driver;
        self
    }

    /// Where the time comes from. Default: the system's monotonic clock; for a driven runtime a clock that stands still until
    /// `Runtime::advance`.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Makes the thread start after `after` good ones fail, and all later ones: for tests of what then happens.
    #[doc(hidden)]
    pub fn fail_thread_starts_after(mut self, after: usize) -> Self {
        self.fail_after = Some(after);
        self
    }

    /// Builds the runtime and starts its threads.
    ///
    /// # Errors
    /// An option that cannot be, named; or a thread that could not be started. Then nothing is left running.
    pub fn build(self) -> Result<Runtime, BuildError> {
        fork::watch();
        let machine = affinity::machine();
        let driven = match self.driver {
            Driver::Threads => None,
            Driver::Inline => Some(Driven::inline()),
            Driver::Seeded { seed } => Some(Driven::seeded(seed)),
        };
        let named = match &self.pinning {
            Pinning::Cores(cpus) => Some(cpus.len()),
            Pinning::Auto | Pinning::Off => None,
        };
        let workers = self.workers.or(named).unwrap_or(machine.parallel);
        let io_threads = self.io_threads.unwrap_or(workers.clamp(2, 4));
        self.check(workers, io_threads)?;
        let (sizes, plan) = if driven.is_some() {
            (Sizes { workers: 0, io_threads: 0, spares: 0 }, Plan::off(None))
        } else {
            let plan = Plan::new(&self.pinning, workers, machine, &PINNED)
                .map_err(|problem| BuildError::Option { option: "pinning", problem })?;
            (Sizes { workers, io_threads, spares: self.max_spares }, plan)
        };
        let clock = match (self.clock, driven.is_some()) {
            (Some(clock), _) => TimeSource::hosted(clock),
            (None, true) => TimeSource::hosted(Arc::new(VirtualClock::new())),
            (None, false) => TimeSource::system(),
        };
        let config = Config {
            thread_name: self.thread_name,
            stack_size: self.stack_size,
            on_start: self.on_start,
            on_stop: self.on_stop,
            spin: self.spin,
            plan,
        };
        let watch = self.observer.map(Watch::new);
        let threads = Threads::failing_after(self.fail_after);
        let engine = Arc::new(Engine::new(sizes, config, clock, driven, watch, threads));
        // From here on dropping the handle ends what was started.
        let runtime = Runtime::of(engine.clone());
        let all = (0..sizes.workers).map(|index| (Pool::Workers, index));
        let all = all.chain((0..sizes.io_threads).map(|index| (Pool::Io, index)));
        for (started, (pool, index)) in all.enumerate() {
            start::worker(&engine, pool, index).map_err(|source| BuildError::Thread { started, source })?;
        }
        Ok(runtime)
    }

    fn check(&self, workers: usize, io_threads: usize) -> Result<(), BuildError> {
        let fault = |option, problem: &str| Err(BuildError::Option { option, problem: problem.to_owned() });
        if workers == 0 {
            return fault("workers", "a runtime without workers would never run what it takes; see `driver`");
        }
        for (option, count) in [("workers", workers), ("io_threads", io_threads), ("max_spares", self.max_spares)] {
            if count > THREADS_MAX {
                return fault(option, &format!("{count} is more than {THREADS_MAX}"));
            }
        }
        if self.thread_name.is_empty() || self.thread_name.contains('\0') {
            return fault("thread_name", "must not be empty or contain a zero byte");
        }
        if !(STACK_BYTES.0..=STACK_BYTES.1).contains(&self.stack_size) {
            return fault(
                "stack_size",
                &format!("{} is not within {} to {} bytes", self.stack_size, STACK_BYTES.0, STACK_BYTES.1),
            );
        }
        if self.spin > SPIN_MAX {
            return fault("spin", &format!("{:?} is more than {SPIN_MAX:?}", self.spin));
        }
        Ok(())
    }
}
