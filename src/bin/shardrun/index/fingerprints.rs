//! Fingerprints of all files of a tree, by way of the scheduler.
//! It does not know what a fingerprint is made of, nor who wants to see it.
#![forbid(unsafe_code)]

use super::condensed::{Condensed, Member};
use super::cycles::Graph;
use super::file::FileRef;
use super::host::Indexer;
use super::results::{Made, Profile, Span};
use crate::work::fingerprint::{self, Hash};
use shardrun::{Request, StageHandle, StageValue, Stages};
use std::sync::Arc;

/// Files whose fingerprints are asked for at once.
const CHUNK_FILES: usize = 1024;

/// The fingerprint of each file whose content is known, given the hash of it and the graph of imports. `each` is told of every one
/// that was made, in order.
pub(crate) fn of_all(
    stages: &Stages<Indexer>,
    files: &[FileRef],
    contents: &[Option<Hash>],
    graph: Graph,
    mut each: impl FnMut(&FileRef, Span),
) -> Vec<Option<Hash>> {
    let member = |(number, file): (usize, &FileRef)| Member {
        place: file.place(),
        digest: digest(files, number, contents[number].as_ref(), graph.targets(number)),
        beyond: Vec::new(),
    };
    let members = files.iter().enumerate().map(member).collect();
    stages.host().set_condensed(Some(Arc::new(Condensed::new(files.len(), members, graph))));
    let mut fingerprints = vec![None; files.len()];
    let readable: Vec<usize> = (0..files.len()).filter(|&number| contents[number].is_some()).collect();
    let batches: Vec<_> = readable
        .chunks(CHUNK_FILES)
        .map(|chunk| {
            let request = |&number: &usize| Request::artifact(files[number].clone(), Profile::Fingerprint).any();
            (chunk, stages.submit_batch_atomic(chunk.iter().map(request)))
        })
        .collect();
    for (chunk, batch) in batches {
        for (&number, handle) in chunk.iter().zip(batch.into_handles()) {
            if let Some((hash, span)) = fingerprint(handle) {
                fingerprints[number] = Some(hash);
                each(&files[number], span);
            }
        }
    }
    stages.host().set_condensed(None);
    fingerprints
}

fn fingerprint(handle: StageHandle<Indexer>) -> Option<(Hash, Span)> {
    let StageValue::Artifact(made) = handle.wait().ok()? else { return None };
    match &*made {
        Made::Fingerprint(hash, span) => Some((*hash, *span)),
        Made::Outline(_) => None,
    }
}

fn digest(files: &[FileRef], number: usize, content: Option<&Hash>, targets: &[u32]) -> Hash {
    let mut imports: Vec<&str> = targets.iter().map(|&target| files[target as usize].path()).collect();
    fingerprint::digest(files[number].path(), content, &mut imports)
}

/// Of the tree as a whole: of its files, in the order of the walk, that have one.
pub(crate) fn of_tree<'a>(files: impl Iterator<Item = (&'a FileRef, Option<&'a Hash>)>) -> Hash {
    fingerprint::tree(files.filter_map(|(file, hash)| Some((file.path(), hash?))))
}
