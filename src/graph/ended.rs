//! What a task's body answers: how it ended, what it still owes, and in which words it failed.
//! It does not know what the run makes of it.
#![forbid(unsafe_code)]

use super::status::TaskStatus;
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// How a body ended on its own terms.
#[must_use]
pub struct Ended<X = ()> {
    pub(crate) status: TaskStatus,
    pub(crate) exit_code: i32,
    pub(crate) attempts: u32,
    pub(crate) peak_memory: Option<u64>,
    pub(crate) value: Option<X>,
    pub(crate) owes: Option<Owed>,
}

/// Work that an outcome still owes.
pub(crate) type Owed = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<X> Ended<X> {
    fn of(status: TaskStatus, exit_code: i32) -> Self {
        Self { status, exit_code, attempts: 1, peak_memory: None, value: None, owes: None }
    }

    /// It ran and did what it was to do.
    pub fn success() -> Self {
        Self::of(TaskStatus::Success, 0)
    }

    /// Its result lay in a local cache.
    pub fn cache_hit() -> Self {
        Self::of(TaskStatus::CacheHit, 0)
    }

    /// Its result lay in a cache elsewhere.
    pub fn cache_hit_remote() -> Self {
        Self::of(TaskStatus::CacheHitRemote, 0)
    }

    /// It ran and failed.
    pub fn failed(exit_code: i32) -> Self {
        Self::of(TaskStatus::Failed, exit_code)
    }

    /// It was stopped before it was done. What depends on it treats it as failed; it does not count as a failure.
    pub fn aborted() -> Self {
        Self::of(TaskStatus::Aborted, 1)
    }

    /// The host's own value, which goes into the outcome untouched.
    pub fn value(mut self, value: X) -> Self {
        self.value = Some(value);
        self
    }

    /// How often it was tried.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// The most memory that it held, in bytes.
    pub fn peak_memory(mut self, bytes: u64) -> Self {
        self.peak_memory = Some(bytes);
        self
    }

    /// Work that is to be done before dependents may start, though the slot is free at once: a result to be stored, say. What
    /// comes of it does not matter, nor whether it panics; only its end is waited for.
    pub fn owes<F>(mut self, work: F) -> Self
    where
        F: Future + Send + 'static,
    {
        self.owes = Some(Box::pin(async move { drop(work.await) }));
        self
    }
}

impl<X> fmt::Debug for Ended<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended")
            .field("status", &self.status)
            .field("owes", &self.owes.is_some())
            .finish_non_exhaustive()
    }
}

/// How a body ended without an outcome of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TaskFailure {
    /// In an error that its user has made and can mend: the message is shown as it is, once per text.
    User(String),
    /// In any other error.
    Internal {
        /// What kind of error; empty for a plain one.
        name: String,
        /// What it says.
        message: String,
        /// What caused it, if that is known.
        cause: Option<String>,
    },
    /// A restore found nothing to restore: from now on the task is one like any other, and its body will be called again when
    /// its dependencies are over. From a task that is not a restore this is a failure.
    NothingToRestore,
}

impl TaskFailure {
    /// An error that its user can mend.
    pub fn user(message: impl Into<String>) -> Self {
        TaskFailure::User(message.into())
    }

    /// An error in the host.
    pub fn internal(message: impl Into<String>) -> Self {
        TaskFailure::Internal { name: String::new(), message: message.into(), cause: None }
    }

    /// What it says.
    pub(crate) fn message(&self) -> &str {
        match self {
            TaskFailure::User(message) | TaskFailure::Internal { message, .. } => message,
            TaskFailure::NothingToRestore => "found nothing to restore, and is not a restore",
        }
    }
}

/// Files that cannot be used and descriptors that ran out are the user's to mend; all else is internal.
impl<E: Error + 'static> From<E> for TaskFailure {
    fn from(error: E) -> Self {
        let any: &dyn Any = &error;
        if let Some(hint) = any.downcast_ref::<std::io::Error>().and_then(hint) {
            return TaskFailure::User(format!("{error}{hint}"));
        }
        let name = std::any::type_name::<E>().split('<').next().unwrap_or("");
        TaskFailure::Internal {
            name: name.rsplit("::").next().unwrap_or(name).to_owned(),
            message: error.to_string(),
            cause: error.source().map(ToString::to_string),
        }
    }
}

/// What a user can do about an error of the file system; none if it is not one to be shown as the user's.
fn hint(error: &std::io::Error) -> Option<&'static str> {
    use std::io::ErrorKind;
    const OUT_OF_FILES: [i32; 2] = [23, 24];
    if error.raw_os_error().is_some_and(|code| OUT_OF_FILES.contains(&code)) {
        return Some("; raise the limit of open files (ulimit -n) or run fewer tasks at a time");
    }
    match error.kind() {
        ErrorKind::PermissionDenied => Some("; check who owns the file"),
        ErrorKind::StorageFull => Some("; make room on the disk"),
        ErrorKind::ReadOnlyFilesystem => Some("; the file system is mounted read-only"),
        ErrorKind::NotFound => Some(""),
        _ => None,
    }
}

/// What a body may answer: nothing (it succeeded), an [`Ended`], or a `Result` of either with an error.
pub trait TaskEnd<X> {
    /// The answer in its full form.
    ///
    /// # Errors
    /// If the body ended without an outcome of its own.
    fn into_end(self) -> Result<Ended<X>, TaskFailure>;
}

impl<X> TaskEnd<X> for () {
    fn into_end(self) -> Result<Ended<X>, TaskFailure> {
        Ok(Ended::success())
    }
}

impl<X> TaskEnd<X> for Ended<X> {
    fn into_end(self) -> Result<Ended<X>, TaskFailure> {
        Ok(self)
    }
}

impl<X, T: TaskEnd<X>, E: Into<TaskFailure>> TaskEnd<X> for Result<T, E> {
    fn into_end(self) -> Result<Ended<X>, TaskFailure> {
        self.map_err(Into::into)?.into_end()
    }
}
