//! The name of a file, as the scheduler knows it.
//! It does not know what is in the file.
#![forbid(unsafe_code)]

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file by its number, which no other file ever has; cheap to copy, compare and hash. Only who asks for its path looks elsewhere.
#[derive(Clone)]
pub(crate) struct FileRef {
    number: u32,
    place: u32,
    spelling: Spelling,
}

#[derive(Clone)]
enum Spelling {
    /// The path to open, and where in it the path below the directory that is indexed begins.
    Plain { whole: Arc<str>, below: u32 },
    /// A path that is not UTF-8, or not spelled with `/`: as it is on disk, and below the directory as it is shown.
    Odd(Arc<(PathBuf, String)>),
}

impl FileRef {
    /// File `number`, at `place` of the graph, of the tree at `root`.
    pub(crate) fn new(number: u32, place: u32, root: &Path, on_disk: &Path) -> Self {
        let spelling = match on_disk.to_str() {
            Some(whole) if std::path::MAIN_SEPARATOR == '/' => {
                let rest = root.to_str().and_then(|root| whole.strip_prefix(root)).unwrap_or(whole);
                let below = whole.len() - rest.trim_start_matches('/').len();
                Spelling::Plain { whole: whole.into(), below: below as u32 }
            }
            _ => Spelling::odd(root, on_disk),
        };
        FileRef { number, place, spelling }
    }

    /// The number: its place among all files of the tree as it was first, if it was one of them.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Its place in the graph of imports, where a file that comes may take that of one that went.
    pub(crate) fn place(&self) -> u32 {
        self.place
    }

    /// The path below the directory that is indexed, with `/`.
    pub(crate) fn path(&self) -> &str {
        match &self.spelling {
            Spelling::Plain { whole, below } => &whole[*below as usize..],
            Spelling::Odd(odd) => &odd.1,
        }
    }

    /// The path to open.
    pub(crate) fn on_disk(&self) -> &Path {
        match &self.spelling {
            Spelling::Plain { whole, .. } => Path::new(&**whole),
            Spelling::Odd(odd) => &odd.0,
        }
    }
}

impl Spelling {
    fn odd(root: &Path, on_disk: &Path) -> Self {
        let shown = on_disk.strip_prefix(root).unwrap_or(on_disk).to_string_lossy();
        let shown = shown.replace(std::path::MAIN_SEPARATOR, "/");
        Spelling::Odd(Arc::new((on_disk.into(), shown)))
    }
}

impl PartialEq for FileRef {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for FileRef {}

impl Hash for FileRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.number);
    }
}

impl fmt::Debug for FileRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().fmt(f)
    }
}
