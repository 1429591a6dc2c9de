//! How a request for a stage can end without its value, with the file and the stage named where something failed.
//! It does not know what a file or a failure is: the host's types say so.
#![forbid(unsafe_code)]

use super::host::{Host, Stage};
use crate::flight::{Interrupt, PanicReport, catch};
use crate::sync::Arc;
use std::error::Error;
use std::fmt;

/// Why a request for a stage gave no value.
///
/// Cheap to copy: everybody who waits for one execution gets the same.
#[non_exhaustive]
pub enum StageError<H: Host> {
    /// A function of the host failed or panicked, or there is no such file.
    Failed(Arc<StageFailure<H>>),
    /// A file whose Analysis this file's Artifacts wait for has failed, or there is no such file. The Artifact's function was not
    /// called. The file's own Source and Analysis are none the worse.
    DependencyFailed(Arc<DependencyFailure<H>>),
    /// This request withdrew, or nobody wanted the work any more.
    Cancelled,
    /// The file moved on to a newer generation before the work ended.
    Superseded,
    /// The scheduler or its runtime went away before the work ended.
    Shutdown,
    /// The request's deadline passed. The work goes on if somebody else wants it.
    DeadlinePassed,
    /// The file's generation is at its maximum: the edit was refused and changed nothing.
    GenerationExhausted,
    /// The wait was given up, or the work ended, for another reason: see there. A wait that could never end is
    /// [`Interrupt::WouldDeadlock`].
    Interrupted(Arc<Interrupt>),
}

impl<H: Host> StageError<H> {
    pub(crate) fn failed(failure: StageFailure<H>) -> Self {
        Self::Failed(Arc::new(failure))
    }

    pub(crate) fn dependency_failed(file: H::File, cause: Self) -> Self {
        Self::DependencyFailed(Arc::new(DependencyFailure { file, cause }))
    }

    /// Which dependency failed, and why, if one did.
    pub fn dependency(&self) -> Option<&DependencyFailure<H>> {
        match self {
            Self::DependencyFailed(failure) => Some(failure),
            _ => None,
        }
    }

    /// What failed of the file that was asked for, where and why, if something failed.
    pub fn failure(&self) -> Option<&StageFailure<H>> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Whether there is no such file.
    pub fn is_not_found(&self) -> bool {
        self.failure().is_some_and(|failure| matches!(failure.cause, FailureCause::NotFound))
    }
}

impl<H: Host> From<Interrupt> for StageError<H> {
    fn from(interrupt: Interrupt) -> Self {
        match interrupt {
            Interrupt::Cancelled => Self::Cancelled,
            Interrupt::Superseded => Self::Superseded,
            Interrupt::Shutdown => Self::Shutdown,
            Interrupt::DeadlinePassed => Self::DeadlinePassed,
            other => Self::Interrupted(Arc::new(other)),
        }
    }
}

impl<H: Host> Clone for StageError<H> {
    fn clone(&self) -> Self {
        match self {
            Self::Failed(failure) => Self::Failed(failure.clone()),
            Self::DependencyFailed(failure) => Self::DependencyFailed(failure.clone()),
            Self::Cancelled => Self::Cancelled,
            Self::Superseded => Self::Superseded,
            Self::Shutdown => Self::Shutdown,
            Self::DeadlinePassed => Self::DeadlinePassed,
            Self::GenerationExhausted => Self::GenerationExhausted,
            Self::Interrupted(interrupt) => Self::Interrupted(interrupt.clone()),
        }
    }
}

impl<H: Host> fmt::Debug for StageError<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) => f.debug_tuple("Failed").field(failure).finish(),
            Self::DependencyFailed(failure) => f.debug_tuple("DependencyFailed").field(failure).finish(),
            Self::Cancelled => f.write_str("Cancelled"),
            Self::Superseded => f.write_str("Superseded"),
            Self::Shutdown => f.write_str("Shutdown"),
            Self::DeadlinePassed => f.write_str("DeadlinePassed"),
            Self::GenerationExhausted => f.write_str("GenerationExhausted"),
            Self::Interrupted(interrupt) => f.debug_tuple("Interrupted").field(interrupt).finish(),
        }
    }
}

impl<H: Host> fmt::Display for StageError<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) => failure.fmt(f),
            Self::DependencyFailed(failure) => failure.fmt(f),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Superseded => f.write_str("superseded by a newer generation of the file"),
            Self::DeadlinePassed => f.write_str("the deadline of the request passed"),
            Self::Shutdown => f.write_str("the scheduler or its runtime shut down before the stage ended"),
            Self::GenerationExhausted => f.write_str("the file's generation is at its maximum: the edit was refused"),
            Self::Interrupted(interrupt) => interrupt.fmt(f),
        }
    }
}

impl<H: Host> Error for StageError<H> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // What is shown is the failure, or the interrupt, itself: below it stands what stands below that.
            Self::Failed(failure) => failure.source(),
            Self::DependencyFailed(failure) => failure.source(),
            Self::Interrupted(interrupt) => interrupt.source(),
            _ => None,
        }
    }
}

/// The failure of a file that another one depends on.
pub struct DependencyFailure<H: Host> {
    file: H::File,
    cause: StageError<H>,
}

impl<H: Host> DependencyFailure<H> {
    /// The file that failed.
    pub fn file(&self) -> &H::File {
        &self.file
    }

    /// What a request for its Analysis is answered with: unchanged.
    pub fn cause(&self) -> &StageError<H> {
        &self.cause
    }
}

impl<H: Host> fmt::Debug for DependencyFailure<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DependencyFailure").field("file", &self.file).field("cause", &self.cause).finish()
    }
}

impl<H: Host> fmt::Display for DependencyFailure<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the dependency {:?} failed: {}", self.file, self.cause)
    }
}

impl<H: Host> Error for DependencyFailure<H> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // The cause is shown already: below it stands what stands below that.
        self.cause.source()
    }
}

/// What failed, of which file, at which generation, and why.
pub struct StageFailure<H: Host> {
    file: H::File,
    stage: Stage,
    profile: Option<H::Profile>,
    generation: u64,
    cause: FailureCause<H>,
}

impl<H: Host> StageFailure<H> {
    pub(crate) fn new(
        file: H::File,
        (stage, profile): (Stage, Option<H::Profile>),
        generation: u64,
        cause: FailureCause<H>,
    ) -> Self {
        Self { file, stage, profile, generation, cause }
    }

    /// The file whose stage failed.
    pub fn file(&self) -> &H::File {
        &self.file
    }

    /// The stage that failed. A request for a later stage names the earlier one that stopped it.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The profile, if the stage was an Artifact.
    pub fn profile(&self) -> Option<&H::Profile> {
        self.profile.as_ref()
    }

    /// The file's generation at which it failed; 0 if it failed before the file was looked up.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Why it failed.
    pub fn cause(&self) -> &FailureCause<H> {
        &self.cause
    }
}

impl<H: Host> fmt::Debug for StageFailure<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageFailure")
            .field("file", &self.file)
            .field("stage", &self.stage)
            .field("profile", &self.profile)
            .field("generation", &self.generation)
            .field("cause", &self.cause)
            .finish()
    }
}

impl<H: Host> fmt::Display for StageFailure<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?}", self.stage, self.file)?;
        if let Some(profile) = &self.profile {
            write!(f, " for {profile:?}")?;
        }
        match &self.cause {
            FailureCause::NotFound => f.write_str(": no such file"),
            FailureCause::Host(error) => write!(f, ": {error}"),
            FailureCause::Panicked(report) => write!(f, " {report}"),
        }
    }
}

impl<H: Host> Error for StageFailure<H> {
    /// What stands below the cause, which itself is shown with the failure: see [`cause`](StageFailure::cause).
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            FailureCause::Host(error) => error.source(),
            FailureCause::NotFound | FailureCause::Panicked(_) => None,
        }
    }
}

/// Why a stage failed.
#[non_exhaustive]
pub enum FailureCause<H: Host> {
    /// [`Host::load`] says that there is no such file, and no text was given for it.
    NotFound,
    /// The host's function said so.
    Host(H::Error),
    /// The host's function panicked.
    Panicked(PanicReport),
}

impl<H: Host> fmt::Debug for FailureCause<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("NotFound"),
            Self::Host(error) => f.debug_tuple("Host").field(error).finish(),
            Self::Panicked(report) => f.debug_tuple("Panicked").field(report).finish(),
        }
    }
}

/// The failure of a stage whose file or profile panicked when it was looked up.
pub(crate) fn panicked<H: Host>(file: &H::File, stage: Stage, generation: u64, report: PanicReport) -> StageError<H> {
    let failure =
        catch(|| StageFailure::new(file.clone(), (stage, None), generation, FailureCause::Panicked(report.clone())));
    failure.map_or_else(|_| Interrupt::Panicked(report).into(), StageError::failed)
}
