//! One source root that is kept indexed: built, edited, brought up to date with the disk, and read.
//! It does not know which lane a caller runs in, but relies on what the lanes promise: no change runs beside another.
#![forbid(unsafe_code)]

use super::super::index::file::FileRef;
use super::super::index::host::{Indexer, Keep};
use super::super::index::walk::{Found, walk};
use super::super::index::watch::eyes::{Eyes, Told};
use super::super::index::watch::look::{Look, Seen};
use super::rpc::{Failure, NO_FILE, NO_ROOT, UNREADABLE};
use super::update::{Changed, Index};
use crate::cli::IndexArgs;
use crate::console::Console;
use shardrun::{LaneTicket, Runtime, Stages};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The context of a root's actor.
pub(super) struct Root {
    args: IndexArgs,
    stages: Stages<Indexer>,
    /// What readers see. Nothing before the first build, and while an edit, beside which nobody reads, has it in hand.
    current: Mutex<Option<Arc<Index>>>,
    eyes: Mutex<Eyes>,
    /// How many directories are watched: whoever asks must not wait for a walk, which has the eyes in hand.
    watched: AtomicUsize,
    /// Why the root is not watched, if it should be.
    unwatched: Mutex<Option<String>>,
    /// The build that was asked for last, until it is over: another need not begin before. Its ticket keeps the root.
    pub(super) opening: Mutex<Option<LaneTicket>>,
    phase: AtomicUsize,
    found: AtomicUsize,
    done: AtomicUsize,
    drains: AtomicU64,
}

/// The words for where a build stands.
const PHASES: [&str; 4] = ["not built", "walking", "analysing", "ready"];
const NOT_BUILT: usize = 0;
const WALKING: usize = 1;
const ANALYSING: usize = 2;
const READY: usize = 3;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Root {
    /// A root without an index. `tell` is called when something has changed on disk.
    pub(super) fn new(runtime: &Runtime, args: IndexArgs, tell: impl Fn() + Send + 'static) -> Self {
        let keep = Keep { definitions: true, outcomes: false, marks: true };
        let host = Indexer::new(args.max_size << 20, keep, Instant::now());
        let eyes = if args.watch { Eyes::new(&args.dir, args.follow, tell) } else { Ok(Eyes::closed(&args.dir)) };
        let (eyes, unwatched) = match eyes {
            Ok(eyes) => (eyes, None),
            Err(why) => (Eyes::closed(&args.dir), Some(why)),
        };
        Root {
            stages: Stages::new(runtime, host),
            current: Mutex::new(None),
            eyes: Mutex::new(eyes),
            watched: AtomicUsize::new(0),
            unwatched: Mutex::new(unwatched),
            opening: Mutex::new(None),
            phase: AtomicUsize::new(NOT_BUILT),
            found: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            drains: AtomicU64::new(0),
            args,
        }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.args.dir
    }

    /// A build is over, whatever came of it.
    pub(super) fn opened(&self, ticket: &LaneTicket) {
        let over = lock(&self.opening).take_if(|opening| opening.id() == ticket.id());
        drop(over);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.phase.load(Ordering::Acquire) == READY
    }

    /// The index as it is.
    ///
    /// # Errors
    /// There is none yet.
    pub(super) fn index(&self) -> Result<Arc<Index>, Failure> {
        lock(&self.current).clone().ok_or_else(|| {
            let failure = Failure::new(NO_ROOT, "root_not_built", "the root is not indexed yet");
            let building = matches!(self.phase.load(Ordering::Acquire), WALKING | ANALYSING);
            if building { failure.retried() } else { failure }
        })
    }

    /// Where the build stands, how many files were found, and how many of them are analysed.
    pub(super) fn progress(&self) -> (&'static str, usize, usize) {
        let phase = PHASES[self.phase.load(Ordering::Acquire)];
        (phase, self.found.load(Ordering::Relaxed), self.done.load(Ordering::Relaxed))
    }

    /// How often what the disk has told was taken in.
    pub(super) fn drains(&self) -> u64 {
        self.drains.load(Ordering::Relaxed)
    }

    /// How many directories are watched, or why none are.
    pub(super) fn watching(&self) -> Result<usize, String> {
        match (&*lock(&self.unwatched), self.args.watch) {
            (Some(why), _) => Err(why.clone()),
            (None, true) => Ok(self.watched.load(Ordering::Relaxed)),
            (None, false) => Err("not asked for".into()),
        }
    }

    /// Whether what changes on disk is told of.
    pub(super) fn is_watched(&self) -> bool {
        !self.unwatched_now()
    }

    /// Indexes all of the tree. `go_on` says whether anybody still wants it.
    ///
    /// # Errors
    /// There is no such directory, or nobody wants it any more.
    pub(super) fn build(&self, go_on: impl Fn() -> bool) -> Result<Index, Failure> {
        self.done.store(0, Ordering::Relaxed);
        self.phase.store(WALKING, Ordering::Release);
        let built = self.walk_and_analyse(go_on);
        if built.is_err() {
            self.phase.store(NOT_BUILT, Ordering::Release);
        }
        built
    }

    fn walk_and_analyse(&self, go_on: impl Fn() -> bool) -> Result<Index, Failure> {
        let mut files: Vec<FileRef> = Vec::new();
        let mut unwatched = None;
        let mut eyes = lock(&self.eyes);
        let there = walk(&self.args, None, &mut Console::mute(), |found, _| match found {
            Found::File(path) => {
                let number = files.len() as u32;
                files.push(FileRef::new(number, number, self.dir(), &path));
                self.found.store(files.len(), Ordering::Relaxed);
            }
            Found::Directory(path) => {
                unwatched = eyes.watch(&path).err().or(unwatched.take());
                self.watched.store(eyes.directories(), Ordering::Relaxed);
            }
        });
        if let Some(why) = unwatched {
            self.close_eyes(&mut eyes, why);
        }
        drop(eyes);
        if !there {
            let message = format!("{} is not a directory that can be read", self.dir().display());
            return Err(Failure::new(UNREADABLE, "root_unreadable", message));
        }
        self.phase.store(ANALYSING, Ordering::Release);
        let step = |done| {
            self.done.store(done, Ordering::Relaxed);
            go_on()
        };
        let index = Index::of_all(&self.stages, self.dir(), &files, step).ok_or_else(Failure::cancelled)?;
        self.done.store(files.len(), Ordering::Relaxed);
        Ok(index)
    }

    fn close_eyes(&self, eyes: &mut Eyes, why: String) {
        *eyes = Eyes::closed(self.dir());
        self.watched.store(0, Ordering::Relaxed);
        *lock(&self.unwatched) = Some(why);
    }

    /// Nobody installs what was built.
    pub(super) fn give_up(&self) {
        self.phase.store(NOT_BUILT, Ordering::Release);
    }

    /// From now on readers see this index.
    pub(super) fn install(&self, index: Index) {
        lock(&self.eyes).miss();
        *lock(&self.current) = Some(Arc::new(index));
        self.phase.store(READY, Ordering::Release);
    }

    /// The text of a file is this from now on, or again what is on disk.
    ///
    /// # Errors
    /// There is no index or no such file.
    pub(super) fn edit(&self, file: &str, text: Option<Arc<[u8]>>) -> Result<(Changed, u64), Failure> {
        let place = self.index()?.find(file).ok_or_else(|| no_file(file))?;
        // Nothing is held while the scheduler works: a waiting worker runs other jobs. Should one of this root's be among them,
        // it finds no index.
        let mut index =
            lock(&self.current).take().ok_or_else(|| Failure::new(NO_ROOT, "root_not_built", "no index"))?;
        // Nobody reads beside an edit, so that this is no copy.
        let whole = Arc::make_mut(&mut index);
        match text {
            Some(text) => drop(whole.overlays.insert(place, text)),
            None => drop(whole.overlays.remove(&place)),
        }
        let seen = Seen { touched: [place].into(), ..Seen::default() };
        let changed = whole.bring_up(&self.stages, seen);
        let version = whole.version;
        *lock(&self.current) = Some(index);
        Ok((changed, version))
    }

    /// Takes in what has changed on disk: what was told, or whatever is found.
    ///
    /// # Errors
    /// There is no index.
    pub(super) fn drain(&self, all: bool, seal: impl FnOnce() -> bool) -> Result<(Changed, u64), Failure> {
        let before = self.index()?;
        let mut eyes = lock(&self.eyes);
        let mut told = eyes.take();
        told.missed |= all || self.unwatched_now();
        if let Some(why) = told.failed.take() {
            self.close_eyes(&mut eyes, why);
            told.missed = true;
        }
        let mut seen = match self.look(&before, told, &mut eyes) {
            Ok(seen) => seen,
            Err(why) => {
                self.close_eyes(&mut eyes, why);
                let told = Told { missed: true, ..Told::default() };
                self.look(&before, told, &mut eyes).unwrap_or_default()
            }
        };
        self.watched.store(eyes.directories(), Ordering::Relaxed);
        drop(eyes);
        self.drains.fetch_add(1, Ordering::Relaxed);
        // What is typed over is not what is on disk.
        seen.touched.retain(|place| !before.overlays.contains_key(place));
        if seen == Seen::default() {
            return Ok((Changed::default(), before.version));
        }
        if !seal() {
            // What was told has been taken: the next drain looks at all.
            lock(&self.eyes).miss();
            return Err(Failure::cancelled());
        }
        let mut index = (*before).clone();
        let changed = index.bring_up(&self.stages, seen);
        let version = index.version;
        *lock(&self.current) = Some(Arc::new(index));
        Ok((changed, version))
    }

    fn unwatched_now(&self) -> bool {
        lock(&self.unwatched).is_some() || !self.args.watch
    }

    fn look(&self, index: &Index, told: Told, eyes: &mut Eyes) -> Result<Seen, String> {
        Look { args: &self.args, model: &index.model }.at(told, eyes, &mut Console::mute())
    }
}

fn no_file(file: &str) -> Failure {
    Failure::new(
        NO_FILE,
        "no_such_file",
        format!("no file {file:?} in the root: its path is to be below that, as `files` shows it"),
    )
}

/// The place of a file in an index.
///
/// # Errors
/// There is no such file.
pub(super) fn place(index: &Index, file: &str) -> Result<u32, Failure> {
    index.find(file).ok_or_else(|| no_file(file))
}
