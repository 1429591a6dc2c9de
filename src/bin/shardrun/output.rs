//! A file that is written along the way: created at once, dropped at its first failure, which is said.
//! It does not know what is written.
#![forbid(unsafe_code)]

use super::console::Console;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

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

/// Prints to standard output. A full disk or a reader that has gone is said like any other failure. Whether it was printed.
pub(crate) fn print(text: &str, console: &mut Console) -> bool {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        console.complain_of("standard output", error);
        return false;
    }
    true
}
