//! Imports of Java: a class is looked for by its path below any source root. A wild card is one edge, to the file that stands
//! for the package: `package-info.java`, else the first by name.
//! It does not know class paths: a package that is nowhere in the tree is external.
#![forbid(unsafe_code)]

use super::{Tree, Verdict, found, nearest, paths};

pub(super) fn resolve(tree: &Tree, from: u32, text: &str, member: bool, into: &mut Vec<u32>) -> Verdict {
    let mut path = text.replace('.', "/");
    if let Some(package) = path.strip_suffix("/*")
        && !member
    {
        let package = package.to_owned();
        return match self::package(tree, from, &package) {
            Some(Ok(file)) => found(Some(file), into, Verdict::Missing),
            Some(Err(verdict)) => verdict,
            // `import a.b.Outer.*` names a class.
            None => class(tree, from, &package, into).unwrap_or(Verdict::External),
        };
    }
    if member {
        path.truncate(paths::parent(&path).len());
    }
    // A nested class is in the file of the outermost one.
    let mut outer = path.as_str();
    while !outer.is_empty() {
        if let Some(verdict) = class(tree, from, outer, into) {
            return verdict;
        }
        let nested = paths::name(paths::parent(outer)).starts_with(|first: char| first.is_uppercase());
        if !nested {
            break;
        }
        outer = paths::parent(outer);
    }
    // The package is of this tree, its class is not.
    match package(tree, from, paths::parent(outer)) {
        Some(_) if outer.contains('/') => Verdict::Missing,
        _ => Verdict::External,
    }
}

fn class(tree: &Tree, from: u32, path: &str, into: &mut Vec<u32>) -> Option<Verdict> {
    let suffix = format!("{path}.java");
    match nearest(tree, from, tree.ending(&suffix).map(|(number, _)| number))? {
        Ok(file) => Some(found(Some(file), into, Verdict::Missing)),
        Err(verdict) => Some(verdict),
    }
}

fn package(tree: &Tree, from: u32, path: &str) -> Option<Result<u32, Verdict>> {
    let packages = tree.java.get(paths::name(path))?;
    let fits = packages.iter().filter(|package| {
        let directory = &*package.directory;
        directory.strip_suffix(path).is_some_and(|root| root.is_empty() || root.ends_with('/'))
    });
    nearest(tree, from, fits.map(|package| package.face))
}
