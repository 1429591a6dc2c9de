//! The index of a root as one value, and how it is brought up to date with what has changed.
//! It does not know who changes anything, nor when.
#![forbid(unsafe_code)]

use super::super::index::file::FileRef;
use super::super::index::host::Indexer;
use super::super::index::results::{Analysed, Text};
use super::super::index::watch::look::Seen;
use super::super::index::watch::model::{Marks, Model};
use crate::work;
use crate::work::read::Buffer;
use crate::work::resolve::{Tree, manifests};
use shardrun::{Request, StageValue, Stages};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Files that are asked for at once.
const CHUNK_FILES: usize = 512;

/// All that is known of a root at one moment.
#[derive(Clone)]
pub(super) struct Index {
    pub(super) model: Model,
    /// What was typed and not saved, by the place of its file.
    pub(super) overlays: BTreeMap<u32, Arc<[u8]>>,
    /// Counts the changes.
    pub(super) version: u64,
}

/// What a change came to, in files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changed {
    pub(super) come: usize,
    pub(super) gone: usize,
    /// Those that were analysed again.
    pub(super) again: usize,
    /// Those whose fingerprints were made again.
    pub(super) reached: usize,
}

/// Why a file is analysed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Text,
    Imports,
}

impl Index {
    /// Of files that are all there, in the order of the walk. `go_on` is asked now and then, with how many are done.
    pub(super) fn of_all(
        stages: &Stages<Indexer>,
        root: &std::path::Path,
        files: &[FileRef],
        go_on: impl Fn(usize) -> bool,
    ) -> Option<Self> {
        let tree = Arc::new(tree(files, &BTreeMap::new()));
        stages.host().set_tree(tree.clone());
        let mut index = Index { model: Model::new(root, files, tree), overlays: BTreeMap::new(), version: 0 };
        let places: Vec<u32> = files.iter().map(FileRef::place).collect();
        for (number, chunk) in places.chunks(CHUNK_FILES).enumerate() {
            if !go_on(number * CHUNK_FILES) {
                return None;
            }
            index.analyse(stages, chunk.iter().map(|&place| (place, Why::Text)));
        }
        index.model.make_fingerprints(&places);
        Some(index)
    }

    /// The file with this path below the root.
    pub(super) fn find(&self, path: &str) -> Option<u32> {
        let number = self.model.tree().number(path, 0)?;
        self.model.order().get(number as usize).copied()
    }

    /// Takes in what has changed. What is typed over counts as touched only if it is so said here.
    pub(super) fn bring_up(&mut self, stages: &Stages<Indexer>, seen: Seen) -> Changed {
        // A change that broke off may have left another one there.
        stages.host().set_tree(self.model.tree().clone());
        let mut changed = Changed { come: seen.come.len(), gone: seen.gone.len(), ..Changed::default() };
        let membership = changed.come + changed.gone > 0;
        let is_manifest = |place: &u32| manifests::is_manifest(self.model.node(*place).file.path());
        let named = seen.touched.iter().any(is_manifest);
        let mut work: BTreeMap<u32, Why> = seen.touched.into_iter().map(|place| (place, Why::Text)).collect();
        for place in seen.gone {
            let node = self.model.remove(place);
            stages.remove(&node.file);
            self.overlays.remove(&place);
            work.remove(&place);
            for importer in node.importers {
                work.entry(importer).or_insert(Why::Imports);
            }
        }
        work.retain(|&place, _| self.model.has(place));
        for path in seen.come {
            work.insert(self.model.add(path), Why::Text);
        }
        if membership || named {
            let tree = Arc::new(tree(&self.model.names(), &self.overlays_by_path()));
            self.model.set_tree(tree.clone());
            stages.host().set_tree(tree);
            for place in self.led_elsewhere() {
                work.entry(place).or_insert(Why::Imports);
            }
        }
        changed.again = work.len();
        let (differ, moved) = self.analyse(stages, work.into_iter());
        let reached = self.model.reaching(&differ);
        self.model.make_fingerprints(&reached);
        changed.reached = reached.len();
        self.version += u64::from(moved || membership);
        changed
    }

    fn overlays_by_path(&self) -> BTreeMap<&str, &[u8]> {
        self.overlays.iter().map(|(&place, text)| (self.model.node(place).file.path(), &**text)).collect()
    }

    /// The places of files whose imports lead elsewhere in the tree as it is now.
    fn led_elsewhere(&self) -> Vec<u32> {
        let tree = self.model.tree();
        let differs = |&(number, &place): &(u32, &u32)| {
            let node = self.model.node(place);
            let source = node.source.as_ref().filter(|source| source.source.facts.imports.len() > 0);
            let (Some(source), Some(marks)) = (source, node.marks) else { return false };
            work::analyse(tree, number, &source.source).signature(tree) != marks.signature
        };
        (0..).zip(self.model.order()).filter(differs).map(|(_, &place)| place).collect()
    }

    fn text(&self, place: u32, why: Why) -> Text {
        match (why, &self.model.node(place).source, self.overlays.get(&place)) {
            (Why::Imports, Some(source), _) => Text::Resolved(source.clone()),
            (_, _, Some(text)) => Text::Given(text.clone()),
            _ => Text::OnDisk,
        }
    }

    /// Analyses files, on all workers. The places of those whose fingerprints differ, and whether anything at all does.
    fn analyse(&mut self, stages: &Stages<Indexer>, work: impl Iterator<Item = (u32, Why)>) -> (Vec<u32>, bool) {
        let work: Vec<(u32, Why)> = work.collect();
        let (mut differ, mut moved) = (Vec::new(), false);
        for chunk in work.chunks(CHUNK_FILES) {
            let request = |&(place, why): &(u32, Why)| {
                let file = self.model.node(place).file.clone();
                Request::analysis(file).text(self.text(place, why)).any()
            };
            let answers = stages.submit_batch_atomic(chunk.iter().map(request)).wait();
            for (&(place, _), answer) in chunk.iter().zip(answers) {
                let analysed = match answer {
                    Ok(StageValue::Analysis(analysed)) => Some(analysed),
                    _ => None,
                };
                let before = self.model.node(place).marks;
                if self.take(stages, place, analysed.as_deref()) {
                    differ.push(place);
                }
                moved |= before != self.model.node(place).marks;
            }
        }
        (differ, moved)
    }

    /// Takes what an analysis says of a file; nothing if it could not be read. Whether that differs from what was known.
    fn take(&mut self, stages: &Stages<Indexer>, place: u32, analysed: Option<&Analysed>) -> bool {
        let marks =
            |analysed: &Analysed| Marks { content: analysed.hash, signature: analysed.signature.unwrap_or_default() };
        let imports = analysed.map_or(&[][..], |analysed| &analysed.analysis.edges);
        let differs = self.model.update(place, analysed.map(marks), imports);
        let file = &self.model.node(place).file;
        let source = analysed.and_then(|_| stages.try_get_source(file)?.found());
        self.model.set_source(place, source);
        differs
    }
}

/// The tree of these files. Manifests are read for the names that they give, typed ones as they were typed.
fn tree(files: &[FileRef], typed: &BTreeMap<&str, &[u8]>) -> Tree {
    let mut buffer = Buffer::new();
    Tree::new(files.iter().map(|file| file.path().into()).collect(), |number| {
        let file = &files[number as usize];
        if let Some(text) = typed.get(file.path()) {
            return Some(String::from_utf8_lossy(text).into_owned());
        }
        buffer.load(file.on_disk(), manifests::MANIFEST_BYTES_MAX as u64).ok()?;
        Some(String::from_utf8_lossy(buffer.text()).into_owned())
    })
}
