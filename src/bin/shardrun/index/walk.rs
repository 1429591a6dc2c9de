//! Walks a directory for files, all of it or what lies on the way to certain places.
//! It does not know what becomes of them.
#![forbid(unsafe_code)]

use crate::cli::IndexArgs;
use crate::console::Console;
use ignore::{DirEntry, WalkBuilder};
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// What a walk comes by.
pub(crate) enum Found {
    /// A regular file.
    File(PathBuf),
    /// A directory that is searched, the one where the walk begins among them.
    Directory(PathBuf),
}

/// Places in a tree: of a walk that is bound to them, only what lies in them and on the way to them.
pub(crate) type Places = BTreeSet<PathBuf>;

/// Calls `found` with every regular file and directory below the directory, sorted by name within each directory, and says what
/// cannot be read. Symbolic links are not followed unless asked for; one that leads back is said. False if there is no such
/// directory.
pub(crate) fn walk(
    args: &IndexArgs,
    places: Option<Places>,
    console: &mut Console,
    mut found: impl FnMut(Found, &mut Console),
) -> bool {
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
        .filter_entry(move |entry| {
            let git = entry.depth() > 0 && entry.file_name() == ".git";
            !git && places.as_ref().is_none_or(|places| is_on_the_way(entry.path(), places))
        })
        .build();
    for entry in walk {
        match entry {
            Err(error) => said(&error, root, console),
            Ok(entry) => {
                let Some(kind) = entry.file_type() else { continue };
                if entry.depth() == 0 {
                    // It is walked into also where it is a link.
                    found(Found::Directory(entry.into_path()), console);
                } else if kind.is_symlink() {
                    link(&entry, console);
                } else if kind.is_dir() {
                    found(Found::Directory(entry.into_path()), console);
                } else if kind.is_file() && !is_output(entry.path(), &outputs) {
                    found(Found::File(entry.into_path()), console);
                }
            }
        }
    }
    true
}

/// Whether the path lies in one of the places or one of these lies below it.
fn is_on_the_way(path: &Path, places: &Places) -> bool {
    path.ancestors().any(|above| places.contains(above))
        || places
            .range::<Path, _>((Bound::Included(path), Bound::Unbounded))
            .next()
            .is_some_and(|place| place.starts_with(path))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_walk_sees_what_lies_in_its_places_and_on_the_way() {
        let places = ["t/a/b", "t/c.rs"].map(PathBuf::from).into();
        for on in ["t", "t/a", "t/a/b", "t/a/b/c/d", "t/c.rs"] {
            assert!(is_on_the_way(Path::new(on), &places), "{on}");
        }
        for off in ["t/a/bc", "t/a/a", "t/b", "t/c", "t/c.rsx"] {
            assert!(!is_on_the_way(Path::new(off), &places), "{off}");
        }
    }
}
