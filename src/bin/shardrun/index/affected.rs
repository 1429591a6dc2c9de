//! Which files reach given ones through their imports, and so are affected by a change of these.
//! It does not know how imports are resolved.
#![forbid(unsafe_code)]

use super::cycles::Graph;
use crate::console::Console;
use crate::work::resolve::Tree;
use std::path::{self, Path, PathBuf};

/// The numbers of the files of these names, each a path below `dir` or one on disk. Names that are not in the tree are said, and
/// then there is no answer.
pub(crate) fn named(names: &[PathBuf], dir: &Path, tree: &Tree, console: &mut Console) -> Option<Vec<u32>> {
    let mut all = true;
    let numbers = names.iter().filter_map(|name| {
        let number = find(name, dir, tree);
        if number.is_none() {
            console.complain(name, format_args!("not in the tree that {} holds", dir.display()));
            all = false;
        }
        number
    });
    let numbers = numbers.collect();
    all.then_some(numbers)
}

fn find(name: &Path, dir: &Path, tree: &Tree) -> Option<u32> {
    let on_disk = || Some(path::absolute(name).ok()?.strip_prefix(path::absolute(dir).ok()?).ok()?.to_path_buf());
    let real = || Some(name.canonicalize().ok()?.strip_prefix(dir.canonicalize().ok()?).ok()?.to_path_buf());
    number(name, tree).or_else(|| number(&on_disk()?, tree)).or_else(|| number(&real()?, tree))
}

fn number(below: &Path, tree: &Tree) -> Option<u32> {
    let parts = below.components().filter(|part| !matches!(part, path::Component::CurDir));
    let parts: Vec<_> = parts.map(|part| part.as_os_str().to_string_lossy()).collect();
    tree.number(&parts.join("/"), 0)
}

/// The paths of the files that reach one of `changed`, these themselves among them, sorted.
pub(crate) fn of(changed: &[u32], graph: &Graph, tree: &Tree) -> Vec<String> {
    let reaching = graph.reaching(changed);
    let reaching = (0..).zip(reaching).filter(|&(_, reaches)| reaches);
    let mut paths: Vec<String> = reaching.map(|(number, _)| tree.path(number).to_owned()).collect();
    paths.sort_unstable();
    paths
}
