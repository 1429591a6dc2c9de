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
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A file by its number; cheap to copy, compare and hash.
#[derive(Clone)]
pub(crate) struct FileRef(Arc<Name>);

struct Name {
    number: u32,
    spelling: Spelling,
}

enum Spelling {
    /// The path to open, and where in it the path below the directory that is indexed begins.
    Plain { whole: String, below: usize },
    /// A path that is not UTF-8, or not spelled with `/`: as it is on disk, and below the directory as it is shown.
    Odd(Box<(PathBuf, String)>),
}

impl FileRef {
    /// File `number` of the tree at `root`.
    pub(crate) fn new(number: u32, root: &Path, on_disk: PathBuf) -> Self {
        let spelling = match on_disk.into_os_string().into_string() {
            Ok(whole) if std::path::MAIN_SEPARATOR == '/' => {
                let rest = root.to_str().and_then(|root| whole.strip_prefix(root)).unwrap_or(&whole);
                let below = whole.len() - rest.trim_start_matches('/').len();
                Spelling::Plain { whole, below }
            }
            Ok(whole) => Spelling::odd(root, whole.into()),
            Err(whole) => Spelling::odd(root, whole.into()),
        };
        FileRef(Arc::new(Name { number, spelling }))
    }

    /// The path below the directory that is indexed, with `/`.
    pub(crate) fn path(&self) -> &str {
        match &self.0.spelling {
            Spelling::Plain { whole, below } => &whole[*below..],
            Spelling::Odd(odd) => &odd.1,
        }
    }

    /// The path to open.
    pub(crate) fn on_disk(&self) -> &Path {
        match &self.0.spelling {
            Spelling::Plain { whole, .. } => Path::new(whole),
            Spelling::Odd(odd) => &odd.0,
        }
    }
}

impl Spelling {
    fn odd(root: &Path, on_disk: PathBuf) -> Self {
        let shown = on_disk.strip_prefix(root).unwrap_or(&on_disk).to_string_lossy();
        let shown = shown.replace(std::path::MAIN_SEPARATOR, "/");
        Spelling::Odd(Box::new((on_disk, shown)))
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
    start_nanos: u64,
    nanos: u64,
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

/// A file's line of the outline, until it is taken to be written.
pub(crate) struct Outlined {
    line: Mutex<String>,
    pub(crate) span: Span,
}

impl Outlined {
    /// The line, once: the scheduler keeps the last Artifact of a file, and need not keep its text.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut self.line.lock().unwrap_or_else(PoisonError::into_inner))
    }
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
    /// Whether what only an outline shows is kept: the names of definitions, and where each single import leads.
    keep_details: bool,
    began: Instant,
}

impl Indexer {
    /// Of a tree that `tree` will hold when all its files are known; files of more than `bytes_max` bytes are refused. With
    /// `keep_details` outlines can be asked for.
    pub(crate) fn new(tree: Arc<OnceLock<Tree>>, bytes_max: u64, keep_details: bool, began: Instant) -> Self {
        Indexer { tree, bytes_max, keep_details, began }
    }

    fn timed<R>(&self, work: impl FnOnce() -> R) -> (R, Span) {
        let start_nanos = self.nanos();
        let result = work();
        (result, Span { track: TRACK.get(), start_nanos, nanos: self.nanos() - start_nanos })
    }

    /// Since the index began; more than 500 years have room.
    fn nanos(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
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
        if !self.keep_details {
            source.facts.definitions.forget();
        }
        Ok(Timed { source, span })
    }

    fn analysis(&self, cx: &StageCx<'_, Self>, source: &Timed) -> Result<Indexed, IndexError> {
        let tree = self.tree()?;
        let (mut analysis, span) = self.timed(|| work::analyse(tree, cx.file().0.number, &source.source));
        if !self.keep_details {
            analysis.forget();
        }
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
        Ok(Outlined { line: Mutex::new(line), span })
    }

    /// The workers: what is read is mostly in the page cache, and scanning follows in the same breath.
    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}
