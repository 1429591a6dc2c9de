//! A file that is written along the way: created at once, dropped at its first failure, which is said.
//! It does not know what is written.
#![forbid(unsafe_code)]

use super::console::Console;
use super::work::read;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Symbolic links in a row that the system follows.
const LINKS_MAX: usize = 40;

/// The output as writers of documents take it.
pub(crate) type Sink = BufWriter<File>;

/// A document of type `D` that is being written to a file.
pub(crate) struct Output<D> {
    path: PathBuf,
    document: Option<D>,
}

impl<D> Output<D> {
    /// Creates the file and begins the document. If that fails it is said, and all later writes are nothing.
    pub(crate) fn create(path: &Path, console: &mut Console, begin: impl FnOnce(Sink) -> io::Result<D>) -> Self {
        let document = File::create(path).and_then(|file| begin(BufWriter::with_capacity(256 << 10, file)));
        let document = document.map_err(|error| console.complain(path, error)).ok();
        Output { path: path.into(), document }
    }

    /// Writes more of the document, unless it has failed before.
    pub(crate) fn write(&mut self, console: &mut Console, write: impl FnOnce(&mut D) -> io::Result<()>) {
        if let Some(document) = &mut self.document
            && let Err(error) = write(document)
        {
            console.complain(&self.path, error);
            self.document = None;
        }
    }

    /// Ends the document.
    pub(crate) fn finish(mut self, console: &mut Console, finish: impl FnOnce(D) -> io::Result<()>) {
        if let Some(document) = self.document.take()
            && let Err(error) = finish(document)
        {
            console.complain(&self.path, error);
        }
    }
}

/// A path whose file another one of these would be written to as well, however they are spelled. Devices and pipes may be.
pub(crate) fn written_twice<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Option<&'p Path> {
    let mut targets = Vec::new();
    paths.into_iter().find(|path| {
        let Some(target) = Target::of(path) else { return false };
        let twice = targets.contains(&target);
        targets.push(target);
        twice
    })
}

/// The file that a path leads to.
#[derive(PartialEq)]
enum Target {
    /// One that is there, by what the system knows it by.
    Old((u64, u64)),
    New(PathBuf),
}

impl Target {
    /// Nothing of what is no regular file.
    fn of(path: &Path) -> Option<Self> {
        if let Ok(data) = fs::metadata(path) {
            return data.is_file().then(|| Target::Old(read::identity(&data)));
        }
        let mut path = std::path::absolute(path).ok()?;
        for _ in 0..LINKS_MAX {
            let Ok(to) = path.read_link() else { break };
            path = path.parent()?.join(to);
        }
        let (home, name) = (path.parent()?, path.file_name()?);
        Some(Target::New(home.canonicalize().unwrap_or_else(|_| home.into()).join(name)))
    }
}

/// Prints to standard output. A full disk or a reader that has gone is said like any other failure. Whether it was printed.
pub(crate) fn print(text: &str, console: &mut Console) -> bool {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        console.complain_of("standard output", error);
        return false;
    }
    true
}
