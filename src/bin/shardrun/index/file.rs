//! The name of a file, as the scheduler knows it.
//! It does not know what is in the file.
#![forbid(unsafe_code)]

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file by its number, which no other file ever has; cheap to copy, compare and hash.
#[derive(Clone)]
pub(crate) struct FileRef(Arc<Name>);

struct Name {
    number: u32,
    place: u32,
    spelling: Spelling,
}

enum Spelling {
    /// The path to open, and where in it the path below the directory that is indexed begins.
    Plain { whole: String, below: usize },
    /// A path that is not UTF-8, or not spelled with `/`: as it is on disk, and below the directory as it is shown.
    Odd(Box<(PathBuf, String)>),
}

impl FileRef {
    /// File `number`, at `place` of the graph, of the tree at `root`.
    pub(crate) fn new(number: u32, place: u32, root: &Path, on_disk: PathBuf) -> Self {
        let spelling = match on_disk.into_os_string().into_string() {
            Ok(whole) if std::path::MAIN_SEPARATOR == '/' => {
                let rest = root.to_str().and_then(|root| whole.strip_prefix(root)).unwrap_or(&whole);
                let below = whole.len() - rest.trim_start_matches('/').len();
                Spelling::Plain { whole, below }
            }
            Ok(whole) => Spelling::odd(root, whole.into()),
            Err(whole) => Spelling::odd(root, whole.into()),
        };
        FileRef(Arc::new(Name { number, place, spelling }))
    }

    /// The number: its place among all files of the tree as it was first, if it was one of them.
    pub(crate) fn number(&self) -> u32 {
        self.0.number
    }

    /// Its place in the graph of imports, where a file that comes may take that of one that went.
    pub(crate) fn place(&self) -> u32 {
        self.0.place
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
