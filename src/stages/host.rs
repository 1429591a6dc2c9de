//! What the host provides: the types of a file's stages, the functions that compute them, and the context that they run in.
//! It does not know when, where or how often they run.
#![forbid(unsafe_code)]

use super::edges::Dependencies;
use super::revision::Revision;
use super::scheduler::Stages;
use super::slot::Slot;
use crate::flight::{Interrupt, StateWord, interrupt};
use crate::runtime::Pool;
use crate::sync::Arc;
use std::error::Error;
use std::fmt;
use std::hash::Hash;

/// The program that embeds the scheduler: what its files, texts and stages are, and how they are computed.
///
/// The functions run on the runtime's threads, many at once, never under a lock or guard of the engine's. One that panics fails
/// its stage, typed, and nothing else. Long ones ask [`StageCx::check`] now and then, and stop when nobody wants them any more.
pub trait Host: Send + Sync + Sized + 'static {
    /// What names a file, in one spelling each: two values are the same file if and only if they are equal.
    type File: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static;
    /// A file's content. Copied for each execution if it was given with an edit; make it cheap to copy.
    type Text: Clone + Send + Sync + 'static;
    /// What the first stage makes of the text.
    type Source: Send + Sync + 'static;
    /// What the second stage makes of Source.
    type Analysis: Send + Sync + 'static;
    /// What the third stage makes of both, once for each profile asked for.
    type Artifact: Send + Sync + 'static;
    /// Which Artifact. Of many profiles of one file each is found by its hash.
    type Profile: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static;
    /// Why a stage failed.
    type Error: Error + Send + Sync + 'static;

    /// The content of `file` where it is stored; `None` if there is no such file. Not asked while an edit's text stands.
    ///
    /// # Errors
    /// What the store says; Source then fails with it.
    fn load(&self, file: &Self::File) -> Result<Option<Self::Text>, Self::Error>;

    /// Makes Source of `text`. Runs on [`source_pool`](Self::source_pool).
    ///
    /// # Errors
    /// Fails Source and every stage after it, until the file is edited or asked for again.
    fn source(&self, cx: &StageCx<'_, Self>, text: Self::Text) -> Result<Self::Source, Self::Error>;

    /// What the file depends on, as far as `source` shows it: for [`Stages::dependents`], and for its Artifacts, which wait for the
    /// Analysis of each blocker. Nothing, if the host does not say otherwise. Runs right after `source`, on the same thread; Source
    /// is not seen by anybody before what is named here counts.
    ///
    /// A file that is not known yet is loaded once an Artifact waits for it. Rings of blockers are harmless, since Analysis waits
    /// for no other file.
    ///
    /// An Artifact that is there is *not* made anew by itself when a file changes that it was made from: only the host knows whether
    /// that concerns it. After an edit it [invalidates](Stages::invalidate) those of the [dependents](Stages::dependents) that it
    /// does; [`decide_invalidation`](crate::decide_invalidation) helps to find them.
    fn dependencies(&self, cx: &StageCx<'_, Self>, source: &Self::Source) -> Dependencies<Self::File> {
        let _ = (cx, source);
        Dependencies::none()
    }

    /// Makes Analysis of `source`. Runs on the workers, only if somebody wants it.
    ///
    /// # Errors
    /// Fails Analysis and every Artifact, until the file is edited or asked for again.
    fn analysis(&self, cx: &StageCx<'_, Self>, source: &Self::Source) -> Result<Self::Analysis, Self::Error>;

    /// Makes the Artifact of `profile`. Runs on the workers, after the Analysis of every [blocker](Self::dependencies) is there: it
    /// reads them with [`try_get_analysis`](Stages::try_get_analysis) of [`cx.scheduler()`](StageCx::scheduler), which is there as long as
    /// anybody holds the scheduler.
    ///
    /// # Errors
    /// Fails this profile, until the file is edited or the profile is asked for again.
    fn artifact(
        &self,
        cx: &StageCx<'_, Self>,
        profile: &Self::Profile,
        source: &Self::Source,
        analysis: &Self::Analysis,
    ) -> Result<Self::Artifact, Self::Error>;

    /// Which threads load files and make Source: the I/O threads, unless the host says that its files lie in memory.
    fn source_pool(&self) -> Pool {
        Pool::Io
    }
}

/// A stage of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// The first: loaded and parsed.
    Source,
    /// The second.
    Analysis,
    /// The third, one for each profile.
    Artifact,
}

impl Stage {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Analysis => "analysis",
            Self::Artifact => "artifact",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a function of the host knows of the execution that it is part of.
pub struct StageCx<'a, H: Host> {
    pub(crate) slot: &'a Arc<Slot<H>>,
    pub(crate) revision: &'a Revision<H>,
    pub(crate) stage: Stage,
    pub(crate) word: &'a StateWord,
}

impl<H: Host> StageCx<'_, H> {
    /// The file.
    pub fn file(&self) -> &H::File {
        self.slot.file()
    }

    /// The stage that is being computed.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The generation of the file that is being computed.
    pub fn generation(&self) -> u64 {
        self.revision.generation
    }

    /// Says whether the result is still wanted. A good place to call it is a loop's head: `cx.check()?` in a function of a host
    /// whose [`Error`](Host::Error) is `From<Interrupt>`. A host that never fails (`Infallible`) cannot stop early.
    ///
    /// # Errors
    /// Nobody wants the result any more, the file has moved on, or the scheduler has shut down. Whatever the function returns
    /// then is dropped, so it may return any error.
    pub fn check(&self) -> Result<(), Interrupt> {
        interrupt(self.word.phase()).map_or(Ok(()), Err)
    }

    /// Whether [`check`](Self::check) would say that nobody wants the result any more.
    pub fn is_cancelled(&self) -> bool {
        self.check().is_err()
    }

    /// The scheduler, for requests of other files' stages from inside a stage; `None` once its last handle has been dropped.
    pub fn scheduler(&self) -> Option<Stages<H>> {
        self.slot.shared().scheduler()
    }
}

impl<H: Host> fmt::Debug for StageCx<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageCx")
            .field("file", self.file())
            .field("stage", &self.stage)
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}
