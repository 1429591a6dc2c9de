//! The index as a host of `stages`: a file is a counted name, Source is read, hashed and scanned, Analysis resolves its imports
//! in the tree, the Artifacts are a line of the outline, and a fingerprint.
//! It does not know in which order files are asked for.
#![forbid(unsafe_code)]

use super::condensed::Condensed;
use super::file::FileRef;
use super::results::{Analysed, Indexed, Made, Outlined, Profile, Scanned, Span, Text, Timed};
use crate::work::read::ReadError;
use crate::work::resolve::Tree;
use crate::work::{self, Worker};
use shardrun::{Host, Interrupt, Pool, StageCx};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

/// Why a file was not indexed.
#[derive(Debug)]
pub(crate) enum IndexError {
    Read(ReadError),
    /// Imports can be resolved only when all files are known.
    TreeUnknown,
    /// What was found in the file was given to the Analysis that was made of it, and nobody was to ask again.
    SourceGone,
    /// Fingerprints can be made only when all imports are resolved.
    GraphUnknown,
    /// Nobody wants the result any more.
    Interrupted(Interrupt),
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::TreeUnknown => f.write_str("analysed before the tree was known"),
            Self::SourceGone => f.write_str("analysed before, and what was found in it is not kept"),
            Self::GraphUnknown => f.write_str("no place in the graph of imports"),
            Self::Interrupted(interrupt) => interrupt.fmt(f),
        }
    }
}

impl std::error::Error for IndexError {}

impl From<Interrupt> for IndexError {
    fn from(interrupt: Interrupt) -> Self {
        Self::Interrupted(interrupt)
    }
}

thread_local! {
    static WORKER: RefCell<Worker> = const { RefCell::new(Worker::new()) };
    static TRACK: Cell<u32> = const { Cell::new(0) };
    /// The tree that this thread saw last, of whatever host, and which one it was: all workers ask for it for every file.
    static TREE: RefCell<(u64, Option<Arc<Tree>>)> = const { RefCell::new((0, None)) };
}

/// Numbers all trees of the process, so that a thread that serves several hosts never takes the tree of one for another's.
static TREES: AtomicU64 = AtomicU64::new(0);

/// Tells the calling thread which worker it is.
pub(crate) fn name_thread(track: u32) {
    TRACK.set(track);
}

/// The host.
pub(crate) struct Indexer {
    /// All files, once the walk has ended, and again whenever files have come or gone.
    tree: Mutex<Option<Arc<Tree>>>,
    /// The number of that tree; 0 before the first.
    newest: AtomicU64,
    /// The graph of those files whose fingerprints are to be made.
    condensed: Mutex<Option<Arc<Condensed>>>,
    bytes_max: u64,
    keep: Keep,
    began: Instant,
}

/// What is kept of a file that only some of the outputs need.
#[derive(Clone, Copy)]
pub(crate) struct Keep {
    /// What was found in it, the names of definitions too, which only an outline shows.
    pub(crate) definitions: bool,
    /// Where each single import leads, which only an outline shows.
    pub(crate) outcomes: bool,
    /// What tells whether a file, or where its imports lead, has changed, and its imports, which may lead elsewhere.
    pub(crate) marks: bool,
}

impl Keep {
    /// Whether what was found in a file is asked for after its Analysis.
    fn sources(self) -> bool {
        self.definitions || self.marks
    }
}

impl Indexer {
    /// Files of more than `bytes_max` bytes are refused.
    pub(crate) fn new(bytes_max: u64, keep: Keep, began: Instant) -> Self {
        let (tree, condensed) = (Mutex::new(None), Mutex::new(None));
        Indexer { tree, newest: AtomicU64::new(0), condensed, bytes_max, keep, began }
    }

    /// From now on imports are resolved in this tree.
    pub(crate) fn set_tree(&self, tree: Arc<Tree>) {
        let mut current = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Some(tree);
        self.newest.store(TREES.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// From now on fingerprints are made of this graph.
    pub(crate) fn set_condensed(&self, condensed: Option<Arc<Condensed>>) {
        *self.condensed.lock().unwrap_or_else(PoisonError::into_inner) = condensed;
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

    /// Runs `work` with the tree and the file's number in it.
    fn in_tree<R>(&self, file: &FileRef, work: impl FnOnce(&Tree, u32) -> R) -> Result<R, IndexError> {
        let newest = self.newest.load(Ordering::Acquire);
        TREE.with_borrow_mut(|(seen, tree)| {
            if *seen != newest {
                *tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner).clone();
                *seen = newest;
            }
            let tree = tree.as_deref().ok_or(IndexError::TreeUnknown)?;
            let number = tree.number(file.path(), file.number()).ok_or(IndexError::TreeUnknown)?;
            Ok(work(tree, number))
        })
    }

    /// Scans a text, or what is on disk.
    fn read(&self, cx: &StageCx<'_, Self>, given: Option<&[u8]>) -> Result<Scanned, IndexError> {
        let file = cx.file();
        cx.check()?;
        let read = || {
            WORKER.with_borrow_mut(|worker| {
                if let Some(text) = given {
                    return Ok((worker.scan_text(file.path(), text), None));
                }
                let before = self.keep.marks.then(SystemTime::now);
                worker.load(file.on_disk(), self.bytes_max).map_err(IndexError::Read)?;
                cx.check()?;
                let stamp = before.map(|before| worker.stamp(before));
                Ok::<_, IndexError>((worker.scan(file.path()), stamp))
            })
        };
        let (source, span) = self.timed(read);
        let (mut source, stamp) = source?;
        if !self.keep.definitions {
            source.facts.definitions.forget();
        }
        Ok(Scanned::new(Arc::new(Timed { source, span, stamp }), None))
    }
}

impl Host for Indexer {
    type File = FileRef;
    type Text = Text;
    type Source = Scanned;
    type Analysis = Analysed;
    type Artifact = Made;
    type Profile = Profile;
    type Error = IndexError;

    fn load(&self, _file: &FileRef) -> Result<Option<Text>, IndexError> {
        Ok(Some(Text::OnDisk))
    }

    fn source(&self, cx: &StageCx<'_, Self>, text: Text) -> Result<Scanned, IndexError> {
        match text {
            Text::OnDisk => self.read(cx, None),
            Text::Given(text) => self.read(cx, Some(&text)),
            Text::Resolved(found) => Ok(Scanned::new(found, None)),
            Text::Reaching(found, analysis) => Ok(Scanned::new(found, Some(analysis))),
        }
    }

    fn analysis(&self, cx: &StageCx<'_, Self>, source: &Scanned) -> Result<Analysed, IndexError> {
        if let Some(analysis) = &source.analysis {
            return Ok(Analysed::Kept(analysis.clone()));
        }
        cx.check()?;
        let timed = if self.keep.sources() { source.found() } else { source.take() };
        let timed = timed.ok_or(IndexError::SourceGone)?;
        let found = &timed.source;
        let ((mut analysis, signature), span) = self.in_tree(cx.file(), |tree, number| {
            self.timed(|| {
                let analysis = work::analyse(tree, number, found);
                let signature = self.keep.marks.then(|| analysis.signature(tree));
                (analysis, signature)
            })
        })?;
        if !self.keep.outcomes {
            analysis.forget();
        }
        Ok(Analysed::Own(Indexed {
            language: found.language,
            bytes: found.bytes,
            hash: found.hash,
            invalid_at: found.invalid_at,
            analysis,
            signature,
            source_span: timed.span,
            span,
        }))
    }

    fn artifact(
        &self,
        cx: &StageCx<'_, Self>,
        profile: &Profile,
        source: &Scanned,
        analysis: &Analysed,
    ) -> Result<Made, IndexError> {
        match profile {
            Profile::Outline => {
                let found = source.found().ok_or(IndexError::SourceGone)?;
                self.in_tree(cx.file(), |tree, number| {
                    let (line, span) = self.timed(|| work::outline(tree, number, &found.source, &analysis.analysis));
                    Made::Outline(Outlined { line: Mutex::new(line), span })
                })
            }
            Profile::Fingerprint => {
                let condensed = self.condensed.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let condensed = condensed.ok_or(IndexError::GraphUnknown)?;
                let (hash, span) = self.timed(|| condensed.fingerprint(cx.file().place(), || cx.check()));
                Ok(Made::Fingerprint(hash?.ok_or(IndexError::GraphUnknown)?, span))
            }
        }
    }

    /// The workers: what is read is mostly in the page cache, and scanning follows in the same breath.
    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}
