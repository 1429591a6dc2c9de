//! Modules and `use` paths of Rust: `mod` by the file layout, paths from the crate's root, from the module itself, from the
//! modules above, from a module below, and from the libraries of the tree.
//! It does not know re-exports: a path leads to the last module on it that is a file.
#![forbid(unsafe_code)]

use super::super::facts::ImportKind;
use super::{Tree, Verdict, found, paths};

pub(super) fn resolve(tree: &Tree, from: u32, text: &str, kind: ImportKind, into: &mut Vec<u32>) -> Verdict {
    match kind {
        ImportKind::Module => found(child(tree, from, &text.replace("::", "/")), into, Verdict::Missing),
        ImportKind::ModulePath => {
            let beside = paths::join(paths::parent(tree.path(from)), text).and_then(|path| tree.find(&path));
            found(beside, into, Verdict::Missing)
        }
        ImportKind::ExternCrate => found(tree.crates.get(text).copied(), into, Verdict::External),
        _ => path(tree, from, text, into),
    }
}

/// A `use` path.
fn path(tree: &Tree, from: u32, text: &str, into: &mut Vec<u32>) -> Verdict {
    let global = text.starts_with("::");
    let mut segments = text.split("::").skip(usize::from(global));
    let first = segments.next().unwrap_or("");
    let here = tree.path(from);
    match first {
        "crate" => {
            let Some(root) = root(tree, from) else { return Verdict::Missing };
            let directory = paths::parent(tree.path(root)).to_owned();
            found(Some(descend(tree, directory, segments).unwrap_or(root)), into, Verdict::Missing)
        }
        "self" => {
            let file = own_directories(here).find_map(|directory| descend(tree, directory, segments.clone()));
            found(Some(file.unwrap_or(from)), into, Verdict::Missing)
        }
        "super" => above(tree, from, segments, into),
        "std" | "core" | "alloc" | "proc_macro" | "test" => Verdict::External,
        _ => {
            let local = || {
                let all = text.split("::");
                own_directories(here).find_map(|directory| descend(tree, directory, all.clone()))
            };
            if let Some(file) = if global { None } else { local() } {
                return found(Some(file), into, Verdict::Missing);
            }
            match tree.crates.get(first) {
                Some(&root) => {
                    let directory = paths::parent(tree.path(root)).to_owned();
                    found(Some(descend(tree, directory, segments).unwrap_or(root)), into, Verdict::Missing)
                }
                // `use Kind::*`: an item in scope, in this very file or imported by it.
                None if first.starts_with(|first: char| first.is_uppercase()) => Verdict::Found,
                None => Verdict::External,
            }
        }
    }
}

/// `super::…`.
fn above<'t>(tree: &Tree, from: u32, segments: impl Iterator<Item = &'t str> + Clone, into: &mut Vec<u32>) -> Verdict {
    let here = tree.path(from);
    let mut directory = match own_directories(here).next() {
        Some(own) if !is_root(here) => paths::parent(&own).to_owned(),
        _ => return Verdict::Missing,
    };
    let mut rest = segments;
    let mut ahead = rest.clone();
    while ahead.next() == Some("super") {
        rest = ahead.clone();
        directory.truncate(paths::parent(&directory).len());
    }
    let file = descend(tree, directory.clone(), rest).or_else(|| module_file(tree, &directory));
    found(file, into, Verdict::Missing)
}

/// Whether the file is the root of a crate by its name or its place.
fn is_root(path: &str) -> bool {
    matches!(paths::name(path), "lib.rs" | "main.rs" | "build.rs") || is_target(path)
}

/// Whether the file is a target of its own by its place: `src/bin/a.rs`, `tests/a.rs`, `examples/a.rs`, `benches/a.rs`.
fn is_target(path: &str) -> bool {
    let directory = paths::parent(path);
    paths::name(path) != "mod.rs"
        && match paths::name(directory) {
            "bin" => paths::name(paths::parent(directory)) == "src",
            "tests" | "examples" | "benches" => !directory.split('/').any(|part| part == "src"),
            _ => false,
        }
}

/// The root file of the crate that a file belongs to: by the directories above it, or, of a file that lies beside them and is
/// included from them, the library of its package.
fn root(tree: &Tree, from: u32) -> Option<u32> {
    let here = tree.path(from);
    if is_root(here) {
        return Some(from);
    }
    let above = || paths::ancestors(paths::parent(here));
    let in_layout = above()
        .find_map(|directory| ["lib.rs", "main.rs"].iter().find_map(|name| tree.find(&paths::join(directory, name)?)));
    in_layout.or_else(|| above().find_map(|directory| tree.crate_roots.get(directory).copied()))
}

/// The directories in which the modules of a file lie, the likelier first.
fn own_directories(path: &str) -> impl Iterator<Item = String> {
    let directory = paths::parent(path).to_owned();
    let mut below = directory.clone();
    paths::push(&mut below, paths::stem(path));
    let (first, second) = match is_root(path) || paths::name(path) == "mod.rs" {
        true => (Some(directory), is_target(path).then_some(below)),
        false => (Some(below), None),
    };
    first.into_iter().chain(second)
}

fn child(tree: &Tree, from: u32, relative: &str) -> Option<u32> {
    own_directories(tree.path(from)).find_map(|directory| {
        let path = paths::join(&directory, relative)?;
        tree.find(&format!("{path}.rs")).or_else(|| tree.find(&format!("{path}/mod.rs")))
    })
}

/// The file of the module whose submodules lie in `directory`.
fn module_file(tree: &Tree, directory: &str) -> Option<u32> {
    let inside = |name: &str| paths::join(directory, name).and_then(|path| tree.find(&path));
    inside("mod.rs")
        .or_else(|| tree.find(&format!("{directory}.rs")))
        .or_else(|| inside("lib.rs"))
        .or_else(|| inside("main.rs"))
}

/// The last module on the way down from `directory` that is a file.
fn descend<'t>(tree: &Tree, mut directory: String, segments: impl Iterator<Item = &'t str>) -> Option<u32> {
    let mut last = None;
    for segment in segments {
        paths::push(&mut directory, segment);
        let length = directory.len();
        directory.push_str(".rs");
        let mut file = tree.find(&directory);
        directory.truncate(length);
        if file.is_none() {
            directory.push_str("/mod.rs");
            file = tree.find(&directory);
            directory.truncate(length);
        }
        match file {
            Some(file) => last = Some(file),
            None => break,
        }
    }
    last
}
