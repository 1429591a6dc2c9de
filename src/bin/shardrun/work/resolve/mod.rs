//! The files of a tree, and to which of them an import leads. One submodule per language says how; an import is answered with
//! files, or told to be external, missing, or ambiguous.
//! It does not know file systems: it is given paths, and the text of the few manifests that name things.
#![forbid(unsafe_code)]

mod c;
mod go;
mod index;
mod java;
mod javascript;
pub(crate) mod manifests;
pub(crate) mod paths;
mod python;
mod rust;
#[cfg(test)]
mod tests;

use super::facts::ImportKind;
use index::Index;
use std::collections::HashMap;

/// What became of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It leads into the tree: to the files reported, or to something without a file of its own.
    Found,
    /// It is known, or by its form taken, to lead out of the tree: the standard library, a third party.
    External,
    /// It should lead into the tree, and there is nothing.
    Missing,
    /// Several files fit equally well; none is chosen.
    Ambiguous,
}

/// A package of Go or Java: a directory, and the file that stands for it.
struct Package {
    directory: Box<str>,
    face: u32,
}

/// All files of a tree, by number, and what is needed to look them up.
pub(crate) struct Tree {
    paths: Vec<Box<str>>,
    by_path: Index,
    by_name: Index,
    by_last_two: Index,
    /// Rust libraries of the tree: name in `use` → root file.
    crates: HashMap<String, u32>,
    /// The same by the directory of their manifest.
    crate_roots: HashMap<Box<str>, u32>,
    /// Go modules of the tree: module path, directory; longest module path first.
    modules: Vec<(String, Box<str>)>,
    go: HashMap<Box<str>, u32>,
    /// Java packages by the last component of their directory.
    java: HashMap<Box<str>, Vec<Package>>,
}

impl Tree {
    /// Of the files at `paths` (relative, with `/`; a file's number is its place). `read` gives the text of a manifest.
    pub(crate) fn new(paths: Vec<Box<str>>, mut read: impl FnMut(u32) -> Option<String>) -> Self {
        let mut tree = Tree {
            by_path: Index::new(&paths, paths::whole),
            by_name: Index::new(&paths, paths::name),
            by_last_two: Index::new(&paths, paths::last_two),
            paths,
            crates: HashMap::new(),
            crate_roots: HashMap::new(),
            modules: Vec::new(),
            go: HashMap::new(),
            java: HashMap::new(),
        };
        for number in 0..tree.paths.len() as u32 {
            match paths::name(tree.path(number)) {
                "Cargo.toml" => tree.cargo(number, read(number)),
                "go.mod" => tree.go_module(number, read(number)),
                name if name.ends_with(".go") && !name.ends_with("_test.go") => tree.go_file(number),
                name if name.ends_with(".java") => tree.java_file(number),
                _ => {}
            }
        }
        tree.modules.sort_by_key(|(module, _)| std::cmp::Reverse(module.len()));
        tree
    }

    fn cargo(&mut self, number: u32, text: Option<String>) {
        let Some((name, path)) = text.as_deref().and_then(manifests::cargo) else { return };
        let root = paths::join(paths::parent(self.path(number)), path.as_deref().unwrap_or("src/lib.rs"));
        if let Some(root) = root.and_then(|path| self.find(&path)) {
            self.crates.entry(name).or_insert(root);
            let directory = paths::parent(self.path(number)).into();
            self.crate_roots.insert(directory, root);
        }
    }

    fn go_module(&mut self, number: u32, text: Option<String>) {
        if let Some(module) = text.as_deref().and_then(manifests::go) {
            let directory = paths::parent(self.path(number)).into();
            self.modules.push((module, directory));
        }
    }

    fn go_file(&mut self, number: u32) {
        let path = &self.paths[number as usize];
        let directory = paths::parent(path);
        let rank = |path: &str| match paths::stem(path) {
            "doc" => 0,
            stem if stem == paths::name(directory) => 1,
            _ => 2,
        };
        match self.go.get_mut(directory) {
            Some(face) if rank(&self.paths[*face as usize]) > rank(path) => *face = number,
            Some(_) => {}
            None => {
                self.go.insert(directory.into(), number);
            }
        }
    }

    fn java_file(&mut self, number: u32) {
        let path = &self.paths[number as usize];
        let directory = paths::parent(path);
        let packages = self.java.entry(paths::name(directory).into()).or_default();
        match packages.iter_mut().rev().find(|package| &*package.directory == directory) {
            Some(package) if paths::name(path) == "package-info.java" => package.face = number,
            Some(_) => {}
            None => packages.push(Package { directory: directory.into(), face: number }),
        }
    }

    /// The path of a file.
    pub(crate) fn path(&self, number: u32) -> &str {
        &self.paths[number as usize]
    }

    /// The number of the file at `path`, which is likely to be `guess`.
    pub(crate) fn number(&self, path: &str, guess: u32) -> Option<u32> {
        match self.paths.get(guess as usize) {
            Some(guessed) if **guessed == *path => Some(guess),
            _ => self.find(path),
        }
    }

    /// How many files there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    /// The file with exactly this path.
    fn find(&self, path: &str) -> Option<u32> {
        self.by_path.get(&self.paths, path).next()
    }

    /// The files whose path ends with the components of `suffix`, with the directory before it.
    fn ending<'t>(&'t self, suffix: &'t str) -> impl Iterator<Item = (u32, &'t str)> {
        let key = paths::last_two(suffix);
        let index = if key.contains('/') { &self.by_last_two } else { &self.by_name };
        index.get(&self.paths, key).filter_map(move |number| {
            let directory = self.path(number).strip_suffix(suffix)?;
            match directory.strip_suffix('/') {
                Some(directory) => Some((number, directory)),
                None => directory.is_empty().then_some((number, "")),
            }
        })
    }

    /// Where an import of the file `from` leads; the files are pushed to `into`.
    pub(crate) fn resolve(&self, from: u32, text: &[u8], kind: ImportKind, into: &mut Vec<u32>) -> Verdict {
        let Ok(text) = std::str::from_utf8(text) else { return Verdict::Missing };
        match kind {
            ImportKind::Module | ImportKind::ModulePath | ImportKind::Use | ImportKind::ExternCrate => {
                rust::resolve(self, from, text, kind, into)
            }
            ImportKind::Quoted => c::resolve(self, from, text, true, into),
            ImportKind::Angled => c::resolve(self, from, text, false, into),
            ImportKind::Import => python::import(self, from, text, into),
            ImportKind::From => python::from(self, from, text, into),
            ImportKind::Specifier => javascript::resolve(self, from, text, into),
            ImportKind::Package => go::resolve(self, from, text, into),
            ImportKind::Type | ImportKind::Static => java::resolve(self, from, text, kind == ImportKind::Static, into),
        }
    }
}

/// The verdict on one file that was looked for.
fn found(file: Option<u32>, into: &mut Vec<u32>, otherwise: Verdict) -> Verdict {
    match file {
        Some(file) => {
            into.push(file);
            Verdict::Found
        }
        None => otherwise,
    }
}

/// The one among `candidates` that shares the most directories with `from`; ambiguous if two share as many.
fn nearest<'t>(tree: &'t Tree, from: u32, candidates: impl Iterator<Item = u32> + 't) -> Option<Result<u32, Verdict>> {
    let path = tree.path(from);
    let mut best: Option<(usize, Result<u32, Verdict>)> = None;
    for candidate in candidates {
        let shared = paths::shared(path, tree.path(candidate));
        match best {
            Some((most, _)) if shared < most => {}
            Some((most, _)) if shared == most => best = Some((most, Err(Verdict::Ambiguous))),
            _ => best = Some((shared, Ok(candidate))),
        }
    }
    best.map(|(_, choice)| choice)
}
