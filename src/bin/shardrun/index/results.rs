//! What the stages of the index make of a file, and what is handed on from one generation of a file to the next.
//! It does not know how it is computed.
#![forbid(unsafe_code)]

use crate::work;
use crate::work::fingerprint::Hash;
use crate::work::lang::Language;
use crate::work::read::Stamp;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// When and where a stage of a file ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The number of the worker.
    pub(crate) track: u32,
    pub(super) start_nanos: u64,
    pub(super) nanos: u64,
}

impl Span {
    /// When it began, since the index began.
    pub(crate) fn start(self) -> Duration {
        Duration::from_nanos(self.start_nanos)
    }

    /// How long it ran.
    pub(crate) fn length(self) -> Duration {
        Duration::from_nanos(self.nanos)
    }
}

/// What a generation of a file starts from. The bytes of a file are never in memory but where a worker scans them.
#[derive(Clone)]
pub(crate) enum Text {
    /// What is on disk.
    OnDisk,
    /// What somebody has typed, which takes the place of what is on disk.
    Given(Arc<[u8]>),
    /// The file is what it was, and its imports may lead elsewhere now.
    Resolved(Arc<Timed>),
    /// The file and its imports are what they were: what it reaches is not.
    Reaching(Arc<Timed>, Arc<Analysed>),
}

/// A Source and what it cost.
pub(crate) struct Timed {
    pub(crate) source: work::Source,
    pub(crate) span: Span,
    /// Of the file when it was read, if files are watched.
    pub(crate) stamp: Option<Stamp>,
}

impl Timed {
    /// The same without the names of definitions.
    pub(crate) fn without_definitions(&self) -> Self {
        let mut source = self.source.clone();
        source.facts.definitions.forget();
        Timed { source, span: self.span, stamp: self.stamp }
    }
}

/// The Source of a file: of its own generation, or of an older one that stands, perhaps with its Analysis.
pub(crate) struct Scanned {
    found: Mutex<Option<Arc<Timed>>>,
    pub(super) analysis: Option<Arc<Analysed>>,
}

impl Scanned {
    pub(super) fn new(found: Arc<Timed>, analysis: Option<Arc<Analysed>>) -> Self {
        Scanned { found: Mutex::new(Some(found)), analysis }
    }

    /// What was found; nothing once it has been taken.
    pub(crate) fn found(&self) -> Option<Arc<Timed>> {
        self.lock().clone()
    }

    /// What was found, for the last time: its memory goes with whoever takes it, and is at hand for the next file.
    pub(super) fn take(&self) -> Option<Arc<Timed>> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Timed>>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the index keeps of a file.
#[derive(Debug)]
pub(crate) struct Indexed {
    pub(crate) language: Language,
    pub(crate) bytes: u64,
    /// Of the content.
    pub(crate) hash: Hash,
    pub(crate) invalid_at: Option<u64>,
    pub(crate) analysis: work::Analysis,
    /// Of where the imports lead, if files are watched.
    pub(crate) signature: Option<u64>,
    pub(crate) source_span: Span,
    pub(crate) span: Span,
}

/// The Analysis of a file: of its own generation, or of an older one that stands.
pub(crate) enum Analysed {
    Own(Indexed),
    Kept(Arc<Analysed>),
}

impl Analysed {
    /// The one that was made in its own generation.
    pub(crate) fn origin(self: Arc<Self>) -> Arc<Self> {
        match &*self {
            Self::Kept(origin) => origin.clone(),
            Self::Own(_) => self,
        }
    }
}

impl Deref for Analysed {
    type Target = Indexed;

    fn deref(&self) -> &Indexed {
        match self {
            Self::Own(indexed) => indexed,
            Self::Kept(origin) => origin,
        }
    }
}

/// Which Artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Profile {
    /// What is in the file, as a line of JSON.
    Outline,
    /// A hash over the file and all that it reaches.
    Fingerprint,
}

/// An Artifact.
pub(crate) enum Made {
    Outline(Outlined),
    Fingerprint(Hash, Span),
}

/// A file's line of the outline, until it is taken to be written.
pub(crate) struct Outlined {
    pub(super) line: Mutex<String>,
    pub(crate) span: Span,
}

impl Outlined {
    /// The line, once: the scheduler keeps the last Artifact of a file, and need not keep its text.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut self.line.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
