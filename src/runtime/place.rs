//! Where a job runs and how urgent it is.
//! It does not know the queues that these words choose among.
#![forbid(unsafe_code)]

/// How urgent a job is. Under load the four levels share a worker 8 : 4 : 2 : 1, and none waits for ever: a level that has
/// work is served within 2, 4, 8 or 15 selections of each worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Priority {
    /// Somebody is stopped until this is done.
    Critical = 0,
    /// Somebody waits for it.
    #[default]
    Interactive = 1,
    /// Wanted soon.
    Background = 2,
    /// Wanted some time.
    Maintenance = 3,
}

impl Priority {
    /// The four levels, the most urgent first.
    pub const ALL: [Self; LEVELS] = [Self::Critical, Self::Interactive, Self::Background, Self::Maintenance];

    #[inline(always)]
    pub(crate) fn level(self) -> usize {
        self as usize
    }
}

/// How many priorities there are.
pub(crate) const LEVELS: usize = 4;

/// Which threads run a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pool {
    /// The workers: one thread per CPU, for work that computes.
    #[default]
    Workers,
    /// The I/O threads, for work that blocks on files or the network. A runtime built with none runs such work on the workers.
    Io,
}

/// A pool and a priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Which threads run the job.
    pub pool: Pool,
    /// How urgent it is.
    pub priority: Priority,
}

impl Place {
    /// A place on the workers.
    #[must_use]
    pub const fn workers(priority: Priority) -> Self {
        Self { pool: Pool::Workers, priority }
    }

    /// A place on the I/O threads.
    #[must_use]
    pub const fn io(priority: Priority) -> Self {
        Self { pool: Pool::Io, priority }
    }
}

impl From<Priority> for Place {
    fn from(priority: Priority) -> Self {
        Self::workers(priority)
    }
}
