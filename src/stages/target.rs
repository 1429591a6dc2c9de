//! The stage that a request asks for: known as a type, or only at run time. It does not know what else a request says.
#![forbid(unsafe_code)]

use super::error::StageError;
use super::host::{Host, Stage};
use super::request::{StageHandle, StageValue};
use crate::flight::Handle;
use crate::sync::Arc;
use std::fmt;

/// A target stage: [`ToSource`], [`ToAnalysis`] or [`ToArtifact`].
pub trait Target<H: Host>: sealed::Sealed + Sized {
    /// What the stage makes.
    type Output: Send + Sync + 'static;

    #[doc(hidden)]
    const STAGE: Stage;

    #[doc(hidden)]
    fn any(self) -> AnyTarget<H>;

    #[doc(hidden)]
    fn of(value: StageValue<H>) -> Option<Arc<Self::Output>>;

    #[doc(hidden)]
    fn pick(handle: StageHandle<H>) -> Option<Handle<Arc<Self::Output>, StageError<H>>>;
}

mod sealed {
    pub trait Sealed {}
}

/// Asks for Source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToSource;

/// Asks for Analysis, and so for Source before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToAnalysis;

/// Asks for the Artifact of a profile, and so for Source and Analysis before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToArtifact<P>(pub P);

impl sealed::Sealed for ToSource {}
impl sealed::Sealed for ToAnalysis {}
impl<P> sealed::Sealed for ToArtifact<P> {}

impl<H: Host> Target<H> for ToSource {
    type Output = H::Source;
    const STAGE: Stage = Stage::Source;

    fn any(self) -> AnyTarget<H> {
        AnyTarget::Source
    }

    fn of(value: StageValue<H>) -> Option<Arc<H::Source>> {
        if let StageValue::Source(value) = value { Some(value) } else { None }
    }

    fn pick(handle: StageHandle<H>) -> Option<Handle<Arc<H::Source>, StageError<H>>> {
        if let StageHandle::Source(handle) = handle { Some(handle) } else { None }
    }
}

impl<H: Host> Target<H> for ToAnalysis {
    type Output = H::Analysis;
    const STAGE: Stage = Stage::Analysis;

    fn any(self) -> AnyTarget<H> {
        AnyTarget::Analysis
    }

    fn of(value: StageValue<H>) -> Option<Arc<H::Analysis>> {
        if let StageValue::Analysis(value) = value { Some(value) } else { None }
    }

    fn pick(handle: StageHandle<H>) -> Option<Handle<Arc<H::Analysis>, StageError<H>>> {
        if let StageHandle::Analysis(handle) = handle { Some(handle) } else { None }
    }
}

impl<H: Host> Target<H> for ToArtifact<H::Profile> {
    type Output = H::Artifact;
    const STAGE: Stage = Stage::Artifact;

    fn any(self) -> AnyTarget<H> {
        AnyTarget::Artifact(self.0)
    }

    fn of(value: StageValue<H>) -> Option<Arc<H::Artifact>> {
        if let StageValue::Artifact(value) = value { Some(value) } else { None }
    }

    fn pick(handle: StageHandle<H>) -> Option<Handle<Arc<H::Artifact>, StageError<H>>> {
        if let StageHandle::Artifact(handle) = handle { Some(handle) } else { None }
    }
}

/// A target that is known only at run time: what a batch's members ask for.
pub enum AnyTarget<H: Host> {
    /// Source.
    Source,
    /// Analysis.
    Analysis,
    /// The Artifact of a profile.
    Artifact(H::Profile),
}

impl<H: Host> AnyTarget<H> {
    /// The stage that is asked for.
    pub fn stage(&self) -> Stage {
        match self {
            Self::Source => Stage::Source,
            Self::Analysis => Stage::Analysis,
            Self::Artifact(_) => Stage::Artifact,
        }
    }
}

impl<H: Host> fmt::Debug for AnyTarget<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source => f.write_str("Source"),
            Self::Analysis => f.write_str("Analysis"),
            Self::Artifact(profile) => f.debug_tuple("Artifact").field(profile).finish(),
        }
    }
}
