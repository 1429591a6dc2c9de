//! The index as a host of `stages`: a file is a counted name, Source is read, hashed and scanned, Analysis resolves its imports
//! in the tree, the Artifact is a line of the outline.
//! It does not know in which order files are asked for.
#![forbid(unsafe_code)]

use crate::work::lang::Language;
use crate::work::read::ReadError;
use crate::work::resolve::Tree;
use crate::work::{self, Worker};
use shardrun::{Host, Pool, StageCx};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A file by its number; cheap to copy, compare and hash.
#[derive(Clone)]
pub(crate) struct FileRef(Arc<Name>);

struct Name {
    number: u32,
    on_disk: Box<Path>,
    /// Where the path below the directory that is indexed begins.
    below: usize,
    /// That path, if it is not simply the rest of the name on disk: not UTF-8, or not with `/`.
    spelled: Option<Box<str>>,
}

impl FileRef {
    /// File `number` of the tree at `root`.
    pub(crate) fn new(number: u32, root: &Path, on_disk: PathBuf) -> Self {
        let relative = on_disk.strip_prefix(root).unwrap_or(&on_disk);
        let below = on_disk.as_os_str().len() - relative.as_os_str().len();
        let spelled = match relative.to_str() {
            Some(plain)
                if std::path::MAIN_SEPARATOR == '/' && on_disk.to_str().is_some_and(|all| all.ends_with(plain)) =>
            {
                None
            }
            _ => Some(relative.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/").into()),
        };
        FileRef(Arc::new(Name { number, on_disk: on_disk.into(), below, spelled }))
    }

    /// The path below the directory that is indexed, with `/`.
    pub(crate) fn path(&self) -> &str {
        let name = &self.0;
        name.spelled.as_deref().or_else(|| name.on_disk.to_str()?.get(name.below..)).unwrap_or_default()
    }

    /// The path to open.
    pub(crate) fn on_disk(&self) -> &Path {
        &self.0.on_disk
    }
}

impl PartialEq for FileRef {
    fn eq(&self, other: &Self) -> bool {
        self.0.number == other.0.number
    }
}

impl Eq for FileRef {}

impl Hash for FileRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.0.number);
    }
}

impl fmt::Debug for FileRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().fmt(f)
    }
}

/// When and where a stage of a file ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The number of the worker.
    pub(crate) track: u32,
    /// Since the index began.
    pub(crate) start: Duration,
    pub(crate) length: Duration,
}

/// A Source and what it cost.
pub(crate) struct Timed {
    source: work::Source,
    span: Span,
}

/// What the index keeps of a file.
#[derive(Debug)]
pub(crate) struct Indexed {
    pub(crate) language: Language,
    pub(crate) bytes: u64,
    pub(crate) invalid_at: Option<u64>,
    pub(crate) analysis: work::Analysis,
    pub(crate) source_span: Span,
    pub(crate) span: Span,
}

/// A file's line of the outline.
pub(crate) struct Outlined {
    pub(crate) line: String,
    pub(crate) span: Span,
}

/// Which Artifact: there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    Outline,
}

/// The text of a file is where it always was. It is read where it is scanned, into room that each worker keeps.
#[derive(Clone, Copy)]
pub(crate) struct OnDisk;

/// Why a file was not indexed.
#[derive(Debug)]
pub(crate) enum IndexError {
    Read(ReadError),
    /// Imports can be resolved only when all files are known.
    TreeUnknown,
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::TreeUnknown => f.write_str("analysed before the tree was known"),
        }
    }
}

impl std::error::Error for IndexError {}

thread_local! {
    static WORKER: RefCell<Worker> = const { RefCell::new(Worker::new()) };
    static TRACK: Cell<u32> = const { Cell::new(0) };
}

/// Tells the calling thread which worker it is.
pub(crate) fn name_thread(track: u32) {
    TRACK.set(track);
}

/// The host.
pub(crate) struct Indexer {
    /// All files, once the walk has ended.
    tree: Arc<OnceLock<Tree>>,
    bytes_max: u64,
    /// Whether the names of definitions are kept, which only an outline shows.
    keep_names: bool,
    began: Instant,
}

impl Indexer {
    /// Of a tree that `tree` will hold when all its files are known; files of more than `bytes_max` bytes are refused. With
    /// `keep_names` outlines can be asked for.
    pub(crate) fn new(tree: Arc<OnceLock<Tree>>, bytes_max: u64, keep_names: bool, began: Instant) -> Self {
        Indexer { tree, bytes_max, keep_names, began }
    }

    fn timed<R>(&self, work: impl FnOnce() -> R) -> (R, Span) {
        let start = self.began.elapsed();
        let result = work();
        (result, Span { track: TRACK.get(), start, length: self.began.elapsed().saturating_sub(start) })
    }

    fn tree(&self) -> Result<&Tree, IndexError> {
        self.tree.get().ok_or(IndexError::TreeUnknown)
    }
}

impl Host for Indexer {
    type File = FileRef;
    type Text = OnDisk;
    type Source = Timed;
    type Analysis = Indexed;
    type Artifact = Outlined;
    type Profile = Profile;
    type Error = IndexError;

    fn load(&self, _file: &FileRef) -> Result<Option<OnDisk>, IndexError> {
        Ok(Some(OnDisk))
    }

    fn source(&self, cx: &StageCx<'_, Self>, OnDisk: OnDisk) -> Result<Timed, IndexError> {
        let file = cx.file();
        let read = || WORKER.with_borrow_mut(|worker| worker.source(file.on_disk(), file.path(), self.bytes_max));
        let (source, span) = self.timed(read);
        let mut source = source.map_err(IndexError::Read)?;
        if !self.keep_names {
            source.facts.definitions.forget();
        }
        Ok(Timed { source, span })
    }

    fn analysis(&self, cx: &StageCx<'_, Self>, source: &Timed) -> Result<Indexed, IndexError> {
        let tree = self.tree()?;
        let (analysis, span) = self.timed(|| work::analyse(tree, cx.file().0.number, &source.source));
        Ok(Indexed {
            language: source.source.language,
            bytes: source.source.bytes,
            invalid_at: source.source.invalid_at,
            analysis,
            source_span: source.span,
            span,
        })
    }

    fn artifact(
        &self,
        cx: &StageCx<'_, Self>,
        profile: &Profile,
        source: &Timed,
        analysis: &Indexed,
    ) -> Result<Outlined, IndexError> {
        let tree = self.tree()?;
        let Profile::Outline = profile;
        let (line, span) = self.timed(|| work::outline(tree, cx.file().0.number, &source.source, &analysis.analysis));
        Ok(Outlined { line, span })
    }

    /// The workers: what is read is mostly in the page cache, and scanning follows in the same breath.
    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}
