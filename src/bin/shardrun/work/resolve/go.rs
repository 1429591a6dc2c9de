//! Import paths of Go: module paths of the tree's `go.mod` files, then `vendor`. A package is one edge, to the file that stands
//! for it: `doc.go`, else the one named like the directory, else the first by name.
//! It does not know build tags, `replace`, or workspaces.
#![forbid(unsafe_code)]

use super::{Tree, Verdict, found, paths};

pub(super) fn resolve(tree: &Tree, from: u32, text: &str, into: &mut Vec<u32>) -> Verdict {
    for (module, directory) in &tree.modules {
        let Some(rest) = text.strip_prefix(module.as_str()) else { continue };
        if rest.is_empty() || rest.starts_with('/') {
            let package = paths::join(directory, rest);
            let face = package.and_then(|package| tree.go.get(package.as_str()).copied());
            return found(face, into, Verdict::Missing);
        }
    }
    if text.starts_with('.') {
        let package = paths::join(paths::parent(tree.path(from)), text);
        return found(package.and_then(|package| tree.go.get(package.as_str()).copied()), into, Verdict::Missing);
    }
    let vendored = paths::ancestors(paths::parent(tree.path(from))).find_map(|directory| {
        let package = paths::join(directory, "vendor").and_then(|vendor| paths::join(&vendor, text))?;
        tree.go.get(package.as_str()).copied()
    });
    found(vendored, into, Verdict::External)
}
