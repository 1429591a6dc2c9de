//! Imports of Python: relative ones by packages, absolute ones from every directory above that is no package itself.
//! It does not know `sys.path`: an absolute name that is nowhere in the tree is external.
#![forbid(unsafe_code)]

use super::{Tree, Verdict, found, paths};

/// `import a.b.c`.
pub(super) fn import(tree: &Tree, from: u32, text: &str, into: &mut Vec<u32>) -> Verdict {
    match absolute(tree, from, text) {
        Some(path) => found(module(tree, &path), into, Verdict::External),
        None => Verdict::External,
    }
}

/// `module:a,b`: a name is a module of the package if there is such a file, else something inside the module itself.
pub(super) fn from(tree: &Tree, from: u32, text: &str, into: &mut Vec<u32>) -> Verdict {
    let (name, names) = text.split_once(':').unwrap_or((text, ""));
    let rest = name.trim_start_matches('.');
    let dots = name.len() - rest.len();
    let base = match dots {
        0 => match absolute(tree, from, rest) {
            Some(path) => path,
            None => return submodules_only(tree, from, rest, names, into),
        },
        _ => {
            let above = paths::ancestors(paths::parent(tree.path(from))).nth(dots - 1);
            match above.and_then(|package| paths::join(package, &rest.replace('.', "/"))) {
                Some(path) => path,
                None => return Verdict::Missing,
            }
        }
    };
    let own = module(tree, &base);
    let (mut missing, mut inside) = (false, false);
    for name in names.split(',').filter(|name| !name.is_empty()) {
        match submodule(tree, &base, name) {
            Some(file) => into.push(file),
            None if own.is_some() => inside = true,
            None => missing = true,
        }
    }
    if inside {
        into.extend(own);
    }
    if missing { Verdict::Missing } else { Verdict::Found }
}

/// `from a import b` where `a` is a directory without `__init__.py`.
fn submodules_only(tree: &Tree, from: u32, package: &str, names: &str, into: &mut Vec<u32>) -> Verdict {
    let mut verdict = Verdict::External;
    for name in names.split(',') {
        let full = if package.is_empty() { name.to_owned() } else { format!("{package}.{name}") };
        if let Some(path) = absolute(tree, from, &full) {
            verdict = found(module(tree, &path), into, verdict);
        }
    }
    verdict
}

/// The path, without extension, of an absolute module name.
fn absolute(tree: &Tree, from: u32, name: &str) -> Option<String> {
    let relative = name.replace('.', "/");
    let here = paths::parent(tree.path(from));
    paths::ancestors(here)
        .filter(|directory| !is_package(tree, directory))
        .chain(["src", "lib", "python"])
        .find_map(|directory| paths::join(directory, &relative).filter(|path| module(tree, path).is_some()))
}

fn is_package(tree: &Tree, directory: &str) -> bool {
    !directory.is_empty() && tree.find(&format!("{directory}/__init__.py")).is_some()
}

/// The file of a module, given its path without extension.
fn module(tree: &Tree, path: &str) -> Option<u32> {
    [".py", "/__init__.py", ".pyi", "/__init__.pyi"].iter().find_map(|tail| tree.find(&format!("{path}{tail}")))
}

fn submodule(tree: &Tree, package: &str, name: &str) -> Option<u32> {
    paths::join(package, name).and_then(|path| module(tree, &path))
}
