//! What the system tells of changes in a tree: which paths were touched, gathered until somebody takes them.
//! It does not know what has become of these paths, nor which of them matter.
#![forbid(unsafe_code)]

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Config, ErrorKind, Event, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::io;
use std::ops::Bound;
use std::path::{self, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Paths that are gathered at most; beyond them all is looked at afresh.
const TOUCHED_MAX: usize = 1 << 16;

/// Where the system is asked directory by directory, so that nothing is told of those that are left out. Elsewhere a watch of each
/// directory is dear, and one watch of the whole tree is taken.
const BY_DIRECTORY: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// What was told since it was taken last.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) touched: BTreeSet<PathBuf>,
    /// Something may have been missed.
    pub(crate) missed: bool,
    /// It was not told, so that a directory may have been removed, its watch with it, and made again.
    pub(crate) lost: bool,
    /// Why nothing more will be told.
    pub(crate) failed: Option<String>,
    /// When the first and the last of it came.
    pub(crate) times: Option<(Instant, Instant)>,
}

/// Watches the directories of a tree.
pub(crate) struct Eyes {
    /// Nothing if nothing is to be told, and directories are only remembered.
    watcher: Option<RecommendedWatcher>,
    told: Arc<Mutex<Told>>,
    /// The directory that is indexed, as the walk spells it and as the system does.
    root: PathBuf,
    absolute: PathBuf,
    watched: BTreeSet<PathBuf>,
}

impl Eyes {
    /// Calls `tell` when there is something to take.
    pub(crate) fn new(root: &Path, follow: bool, tell: impl Fn() + Send + 'static) -> Result<Self, String> {
        let told = Arc::new(Mutex::new(Told::default()));
        let hears = told.clone();
        let hear = move |event| {
            let mut told = lock(&hears);
            let silent = told.times.is_none();
            told.hear(event);
            if silent && told.times.is_some() {
                // The lock is not held while somebody else's code runs.
                drop(told);
                tell();
            }
        };
        let config = Config::default().with_follow_symlinks(follow);
        let watcher = RecommendedWatcher::new(hear, config).map_err(|error| said(&error))?;
        let absolute = path::absolute(root).map_err(|error| error.to_string())?;
        Ok(Eyes { watcher: Some(watcher), told, root: root.into(), absolute, watched: BTreeSet::new() })
    }

    /// Sees nothing: whoever wants to know what has changed looks at all.
    pub(crate) fn closed(root: &Path) -> Self {
        let told = Arc::new(Mutex::new(Told::default()));
        Eyes { watcher: None, told, root: root.into(), absolute: root.into(), watched: BTreeSet::new() }
    }

    /// Watches a directory from now on. True if it was not watched before.
    pub(crate) fn watch(&mut self, directory: &Path) -> Result<bool, String> {
        if self.watched.contains(directory) {
            return Ok(false);
        }
        let absolute = self.absolute_of(directory);
        if let Some(watcher) = &mut self.watcher
            && (BY_DIRECTORY || directory == self.root)
        {
            let mode = if BY_DIRECTORY { RecursiveMode::NonRecursive } else { RecursiveMode::Recursive };
            match watcher.watch(&absolute, mode) {
                Ok(()) => {}
                Err(error) if is_gone(&error) => return Ok(false),
                Err(error) => return Err(said(&error)),
            }
        }
        self.watched.insert(directory.into());
        Ok(true)
    }

    /// Forgets that a directory is watched, with all below it: it has come, gone, or been renamed. Whether it was.
    pub(crate) fn forget(&mut self, directory: &Path) -> bool {
        let below: Vec<PathBuf> = self
            .watched
            .range::<Path, _>((Bound::Included(directory), Bound::Unbounded))
            .take_while(|path| path.starts_with(directory))
            .cloned()
            .collect();
        for path in &below {
            self.watched.remove(path);
        }
        !below.is_empty()
    }

    /// How many directories are watched.
    pub(crate) fn directories(&self) -> usize {
        self.watched.len()
    }

    /// When the first and the last came of what has not been taken.
    pub(crate) fn times(&self) -> Option<(Instant, Instant)> {
        lock(&self.told).times
    }

    /// What was told, with paths as the walk spells them. If something was lost no directory counts as watched any more.
    pub(crate) fn take(&mut self) -> Told {
        let mut told = std::mem::take(&mut *lock(&self.told));
        if told.lost {
            self.watched.clear();
        }
        told.touched = told.touched.iter().filter_map(|path| self.relative(path)).collect();
        told
    }

    /// Something may have been missed.
    pub(crate) fn miss(&self) {
        lock(&self.told).missed = true;
    }

    fn absolute_of(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).map_or_else(|_| path.into(), |below| self.absolute.join(below))
    }

    fn relative(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.absolute).ok()?;
        Some(if below.as_os_str().is_empty() { self.root.clone() } else { self.root.join(below) })
    }
}

impl Told {
    fn hear(&mut self, event: notify::Result<Event>) {
        match event {
            Ok(event) if event.need_rescan() => self.lose(),
            // Reading a file is no change of it. Our own reads are told, too.
            Ok(Event { kind: EventKind::Access(kind), .. }) if kind != AccessKind::Close(AccessMode::Write) => return,
            Ok(event) => self.touched.extend(event.paths),
            Err(error) if matches!(error.kind, ErrorKind::MaxFilesWatch) => self.failed = Some(said(&error)),
            Err(_) => self.lose(),
        }
        if self.touched.len() > TOUCHED_MAX {
            self.lose();
        }
        let now = Instant::now();
        self.times = Some((self.times.map_or(now, |(first, _)| first), now));
    }

    fn lose(&mut self) {
        (self.missed, self.lost) = (true, true);
        self.touched.clear();
    }
}

fn lock(told: &Mutex<Told>) -> MutexGuard<'_, Told> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether what was to be watched is not there any more, or may not be looked into, which the walk says.
fn is_gone(error: &notify::Error) -> bool {
    match &error.kind {
        ErrorKind::PathNotFound => true,
        ErrorKind::Io(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied),
        _ => false,
    }
}

fn said(error: &notify::Error) -> String {
    match &error.kind {
        ErrorKind::MaxFilesWatch => {
            "more directories than the system lets one watch (fs.inotify.max_user_watches)".into()
        }
        ErrorKind::Io(error) => error.to_string(),
        ErrorKind::Generic(words) => words.clone(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{Flag, ModifyKind};

    #[test]
    fn reads_are_no_changes_and_an_overflow_drops_what_was_gathered() {
        let mut told = Told::default();
        let event = |kind| Ok(Event::new(kind).add_path("a".into()));
        told.hear(event(EventKind::Access(AccessKind::Open(AccessMode::Any))));
        told.hear(event(EventKind::Access(AccessKind::Close(AccessMode::Read))));
        assert!(told.times.is_none() && told.touched.is_empty());
        told.hear(event(EventKind::Modify(ModifyKind::Any)));
        assert!(told.times.is_some() && told.touched.len() == 1 && !told.missed);
        told.hear(Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan)));
        assert!(told.missed && told.touched.is_empty());
    }

    #[test]
    fn after_a_loss_every_directory_is_watched_anew() {
        let mut eyes = Eyes::closed(Path::new("t"));
        let sub = Path::new("t/sub");
        assert_eq!((eyes.watch(sub), eyes.watch(sub)), (Ok(true), Ok(false)));
        // Whoever only wants all to be looked at has lost nothing.
        eyes.miss();
        assert!(eyes.take().missed);
        assert_eq!(eyes.watch(sub), Ok(false));
        lock(&eyes.told).hear(Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan)));
        assert!(eyes.take().missed);
        assert_eq!(eyes.watch(sub), Ok(true), "it may have been removed and made again");
    }

    #[test]
    fn more_paths_than_are_gathered_count_as_an_overflow() {
        let mut told = Told::default();
        for number in 0..=TOUCHED_MAX {
            told.hear(Ok(Event::new(EventKind::Modify(ModifyKind::Any)).add_path(number.to_string().into())));
        }
        assert!(told.missed && told.touched.is_empty());
    }
}
