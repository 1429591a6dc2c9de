//! What a task file says: tasks, pools, resources, packages, and what holds for all.
//! It does not know how a file is read, nor what is run.
#![forbid(unsafe_code)]

use super::values::Named;
use shardrun::ContinueMode;
use std::time::Duration;

/// How long a command may take to end after it was asked to, if nothing is said.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// A variable and its value; none removes it.
pub(super) type Variable<'f> = (&'f str, Option<&'f str>);

/// A task file, read and each of its values checked by itself.
#[derive(Default)]
pub(super) struct TaskFile<'f> {
    pub(super) tasks: Vec<Task<'f>>,
    /// For the commands of all tasks.
    pub(super) environment: Vec<Variable<'f>>,
    /// Names and capacities.
    pub(super) pools: Vec<(&'f str, u32)>,
    /// Names and how much there is.
    pub(super) resources: Vec<(&'f str, u64)>,
    /// Bytes that commands may take in all.
    pub(super) memory: Option<u64>,
    pub(super) packages: Vec<Package<'f>>,
    /// What is run if no task is named. Without a word it is all.
    pub(super) default: Option<Vec<Named<'f>>>,
    pub(super) concurrency: Option<u32>,
    /// A command that was passed over so often is started before others take of what it waits for.
    pub(super) drain_after: Option<u32>,
    pub(super) mode: Option<ContinueMode>,
    pub(super) jobserver: Option<Sharing>,
    pub(super) headroom: Option<Headroom>,
}

/// Whether and how commands share the run's jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    No,
    /// By descriptors that they inherit.
    Pipe,
    /// By a pipe with a name.
    Fifo,
}

/// The memory that has to be free for a command to start beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Headroom {
    Bytes(u64),
    Percent(u8),
}

/// A package: the part of a task's name before the first colon.
pub(super) struct Package<'f> {
    pub(super) name: &'f str,
    /// The packages that it is built on.
    pub(super) on: Vec<Named<'f>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command<'f> {
    /// Through `sh -c`.
    Shell(&'f str),
    /// A program and its arguments.
    Direct(Vec<&'f str>),
}

impl Command<'_> {
    /// As it is shown to people.
    pub(super) fn shown(&self) -> String {
        match self {
            Command::Shell(text) => text.trim().replace('\n', "; "),
            Command::Direct(words) => words.join(" "),
        }
    }
}

/// How often a failed task is tried again, and after which waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Retries {
    pub(super) times: u32,
    /// Before the first; each further wait is twice as long, up to the longest.
    pub(super) wait: Duration,
    pub(super) longest: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { times: 0, wait: Duration::from_secs(1), longest: Duration::from_secs(60) }
    }
}

impl Retries {
    /// How long to wait after so many attempts have failed; none if that is enough.
    pub(super) fn after(&self, attempts: u32) -> Option<Duration> {
        let doubled = || self.wait.saturating_mul(1_u32.checked_shl(attempts - 1).unwrap_or(u32::MAX));
        (attempts <= self.times).then(|| doubled().min(self.longest))
    }
}

/// One task.
pub(super) struct Task<'f> {
    pub(super) name: &'f str,
    /// Where its name stands in the file.
    pub(super) at: usize,
    pub(super) description: Option<&'f str>,
    /// None of a group, which stands for its dependencies.
    pub(super) command: Option<Command<'f>>,
    /// As they stand in the file: names of tasks, and `^name`.
    pub(super) dependencies: Vec<Named<'f>>,
    /// Its own, which goes before the file's.
    pub(super) environment: Vec<Variable<'f>>,
    /// From the file's folder.
    pub(super) directory: Option<&'f str>,
    pub(super) pool: Option<Named<'f>>,
    pub(super) resources: Vec<(Named<'f>, u64)>,
    /// Bytes that it is said to take, and where; without a word, what it took in earlier runs.
    pub(super) memory: Option<(u64, usize)>,
    pub(super) mutexes: Vec<&'f str>,
    pub(super) exclusive: bool,
    pub(super) retries: Retries,
    pub(super) timeout: Option<Duration>,
    pub(super) grace: Duration,
    pub(super) persistent: bool,
    /// What a persistent task prints when it is ready; without it, it is ready once started.
    pub(super) ready: Option<&'f str>,
}

impl<'f> Task<'f> {
    /// The package and the rest of the name.
    pub(super) fn package(&self) -> Option<(&'f str, &'f str)> {
        self.name.split_once(':')
    }

    /// Whether policies decide when it starts.
    pub(super) fn reserves(&self) -> bool {
        !self.resources.is_empty() || !self.mutexes.is_empty() || self.exclusive || self.memory.is_some()
    }
}

/// What a mode is called, in files and on the command line.
pub(super) const MODES: [(&str, ContinueMode); 4] = [
    ("never", ContinueMode::Never),
    ("deps-ok", ContinueMode::DepsOk),
    ("always", ContinueMode::Always),
    ("kill", ContinueMode::Kill),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let retries = Retries { times: 40, wait: Duration::from_millis(100), longest: Duration::from_secs(1) };
        let waits = [1, 2, 3, 4, 5, 40].map(|attempts| retries.after(attempts).map(|wait| wait.as_millis()));
        assert_eq!(waits, [100, 200, 400, 800, 1000, 1000].map(Some));
        assert_eq!((retries.after(41), Retries::default().after(1)), (None, None));
    }
}
