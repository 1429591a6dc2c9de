//! What a host says of a file's dependencies. It does not know how they are found, nor what becomes of them.
#![forbid(unsafe_code)]

/// What a file depends on: which other files, and which of them are *blockers*, whose Analysis this file's Artifacts wait for.
///
/// A blocker is a dependency too. A file that is named twice counts once, and one that names itself waits for nothing more than
/// it does anyway.
///
/// ```
/// use shardrun::Dependencies;
///
/// let found = Dependencies::none().with(["util.rs", "log.rs"]).with_blockers(["macros.rs"]);
/// assert!(!found.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependencies<F> {
    pub(crate) forward: Vec<F>,
    pub(crate) blockers: Vec<F>,
}

impl<F> Dependencies<F> {
    /// None at all. Allocates nothing.
    pub const fn none() -> Self {
        Self { forward: Vec::new(), blockers: Vec::new() }
    }

    /// These files too, which block nothing.
    pub fn with(mut self, files: impl IntoIterator<Item = F>) -> Self {
        self.forward.extend(files);
        self
    }

    /// These files too, each a blocker.
    pub fn with_blockers(mut self, files: impl IntoIterator<Item = F>) -> Self {
        self.blockers.extend(files);
        self
    }

    /// Whether no file is named.
    pub fn is_empty(&self) -> bool {
        self.forward.is_empty() && self.blockers.is_empty()
    }
}

impl<F> Default for Dependencies<F> {
    fn default() -> Self {
        Self::none()
    }
}
