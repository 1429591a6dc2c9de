//! The answers about a root, as JSON, from its index as it is at one moment.
//! It does not know who asks.
#![forbid(unsafe_code)]

use super::root::{Root, place};
use super::rpc::Outcome;
use super::update::{Changed, Index};
use crate::work;
use crate::work::fingerprint::Hash;
use crate::work::json::hex;
use serde_json::{Value, json};

fn text(hash: &Hash) -> String {
    let mut out = String::new();
    hex(&mut out, hash);
    out
}

/// A file as a line of `shardrun index --outline`.
pub(super) fn outline(root: &Root, file: &str) -> Outcome {
    let index = root.index()?;
    let node = index.model.node(place(&index, file)?);
    let Some(source) = &node.source else { return Ok(json!({ "path": file, "unreadable": true }).to_string()) };
    let tree = index.model.tree();
    // Where the imports lead is not kept: it is found again, in the very tree that the answer speaks of.
    let number = tree.number(node.file.path(), 0).unwrap_or_default();
    let analysis = work::analyse(tree, number, &source.source);
    Ok(work::outline(tree, number, &source.source, &analysis))
}

/// Which way along the imports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To what a file imports.
    Down,
    /// To what imports it.
    Up,
}

/// The files that a file imports, or that import it: by one step, or by any number of them, then without itself.
pub(super) fn neighbours(root: &Root, file: &str, way: Way, transitive: bool) -> Outcome {
    let index = root.index()?;
    let start = place(&index, file)?;
    let next = |place: u32| match way {
        Way::Down => &index.model.node(place).targets,
        Way::Up => &index.model.node(place).importers,
    };
    let mut seen = vec![false; index.model.places()];
    seen[start as usize] = true;
    let mut todo = vec![start];
    let mut found = Vec::new();
    while let Some(place) = todo.pop() {
        for &other in next(place) {
            if !std::mem::replace(&mut seen[other as usize], true) {
                found.push(other);
                if transitive {
                    todo.push(other);
                }
            }
        }
    }
    let mut files: Vec<&str> = found.iter().map(|&place| index.model.node(place).file.path()).collect();
    files.sort_unstable();
    Ok(json!({ "file": file, "transitive": transitive, "version": index.version, "files": files }).to_string())
}

/// The fingerprint of a file, or of the whole root.
pub(super) fn fingerprint(root: &Root, file: Option<&str>) -> Outcome {
    let index = root.index()?;
    let Some(file) = file else {
        let whole = text(&index.model.fingerprint());
        return Ok(json!({ "version": index.version, "fingerprint": whole }).to_string());
    };
    let node = index.model.node(place(&index, file)?);
    let fingerprint = node.marks.map(|_| text(&node.fingerprint));
    Ok(json!({ "file": file, "version": index.version, "fingerprint": fingerprint }).to_string())
}

/// The paths of all files, in the order of the walk.
pub(super) fn files(root: &Root) -> Outcome {
    let index = root.index()?;
    let files: Vec<&str> = index.model.order().iter().map(|&place| index.model.node(place).file.path()).collect();
    Ok(json!({ "version": index.version, "files": files }).to_string())
}

/// Where a build stands.
pub(super) fn progress(root: &Root) -> Value {
    let (phase, found, done) = root.progress();
    json!({ "phase": phase, "found": found, "done": done })
}

/// How a root stands.
pub(super) fn status(root: &Root) -> String {
    let index = root.index().ok();
    let of = |number: fn(&Index) -> usize| index.as_deref().map(number);
    let typed: Option<Vec<&str>> =
        index.as_deref().map(|index| index.overlays.keys().map(|&place| index.model.node(place).file.path()).collect());
    let watching = root.watching();
    json!({
        "root": root.dir().to_string_lossy(),
        "ready": root.is_ready(),
        "files": of(|index| index.model.files()),
        "edges": of(|index| index.model.edges()),
        "edited": typed,
        "version": index.as_deref().map(|index| index.version),
        "drains": root.drains(),
        "watched_directories": watching.as_ref().ok(),
        "not_watched_because": watching.err(),
        "progress": progress(root),
    })
    .to_string()
}

/// What a change came to.
pub(super) fn changed(changed: Changed, version: u64) -> String {
    json!({
        "version": version,
        "come": changed.come,
        "gone": changed.gone,
        "again": changed.again,
        "reached": changed.reached,
    })
    .to_string()
}
