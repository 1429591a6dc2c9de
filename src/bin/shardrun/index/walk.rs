//! Walks a directory for files.
//! It does not know what becomes of them.
#![forbid(unsafe_code)]

use crate::cli::IndexArgs;
use crate::console::Console;
use ignore::{DirEntry, WalkBuilder};
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Calls `file` with the path of every regular file below the directory, sorted by name within each directory, and says what
/// cannot be read. Symbolic links are not followed unless asked for; one that leads back is said. False if there is no such
/// directory.
pub(crate) fn walk(args: &IndexArgs, console: &mut Console, mut file: impl FnMut(PathBuf, &mut Console)) -> bool {
    let root = args.dir.as_path();
    match fs::metadata(root) {
        Ok(data) if data.is_dir() => {}
        Ok(_) => {
            console.complain(root, "not a directory");
            return false;
        }
        Err(error) => {
            console.complain(root, error);
            return false;
        }
    }
    let outputs: Vec<PathBuf> = args.outputs().filter_map(|path| path.canonicalize().ok()).collect();
    let walk = WalkBuilder::new(root)
        .standard_filters(!args.no_ignore)
        .hidden(!args.hidden)
        .follow_links(args.follow)
        .sort_by_file_name(|one, other| one.cmp(other))
        .filter_entry(|entry| !(entry.depth() > 0 && entry.file_name() == ".git"))
        .build();
    for entry in walk {
        match entry {
            Err(error) => said(&error, root, console),
            Ok(entry) => {
                let Some(kind) = entry.file_type() else { continue };
                if kind.is_symlink() {
                    link(&entry, console);
                } else if kind.is_file() && !is_output(entry.path(), &outputs) {
                    file(entry.into_path(), console);
                }
            }
        }
    }
    true
}

/// Whether the file is one that this very run writes.
fn is_output(path: &Path, outputs: &[PathBuf]) -> bool {
    let named = |output: &&PathBuf| output.file_name() == path.file_name();
    outputs.iter().find(named).is_some_and(|output| path.canonicalize().is_ok_and(|path| path == *output))
}

/// Says if a link that is not followed leads to itself, or to a directory that it lies in.
fn link(entry: &DirEntry, console: &mut Console) {
    let path = entry.path();
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => console.complain(path, error),
        Ok(data) if data.is_dir() => {
            let home = path.parent().and_then(|parent| parent.canonicalize().ok());
            if let (Some(home), Ok(target)) = (home, path.canonicalize())
                && home.starts_with(&target)
            {
                console.complain(path, "symbolic link leads back to a directory above it; not followed");
            }
        }
        Ok(_) => {}
    }
}

/// Says an error of the walk with the path that it is about.
fn said(error: &ignore::Error, root: &Path, console: &mut Console) {
    match plain(error, root) {
        (path, ignore::Error::Loop { ancestor, child }) => {
            let path = if child.as_os_str().is_empty() { path } else { child };
            console.complain(path, format_args!("symbolic link leads back to {}; not followed", ancestor.display()));
        }
        // The walker's own words about an I/O error repeat the path; what stands below is the system's word alone.
        (path, ignore::Error::Io(error)) => match error.source() {
            Some(system) => console.complain(path, system),
            None => console.complain(path, error),
        },
        (path, error) => console.complain(path, error),
    }
}

/// The innermost error, and the path that was named on the way to it.
fn plain<'e>(error: &'e ignore::Error, path: &'e Path) -> (&'e Path, &'e ignore::Error) {
    match error {
        ignore::Error::WithPath { path, err } => plain(err, path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => plain(err, path),
        ignore::Error::Partial(errors) if errors.len() == 1 => plain(&errors[0], path),
        _ => (path, error),
    }
}
