//! What is known of a watched tree between two bursts of changes: its files, where their imports lead, and their fingerprints.
//! It does not know how it is found out.
#![forbid(unsafe_code)]

use super::super::condensed::{Condensed, Member};
use super::super::cycles::Graph;
use super::super::file::FileRef;
use super::super::results::Timed;
use crate::work::fingerprint::{self, Hash};
use crate::work::resolve::Tree;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files that are more than one in so many of all are not sorted, but looked for in the order of all.
const SORTED_SHARE: usize = 8;

/// What an analysis says of a file; nothing of one that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) content: Hash,
    /// Of where the imports lead.
    pub(crate) signature: u64,
}

/// A file.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) file: FileRef,
    pub(crate) marks: Option<Marks>,
    /// What was found in it when it was read last; nothing if that failed.
    pub(crate) source: Option<Arc<Timed>>,
    /// The places of the files that it imports, sorted, and of those that import it.
    pub(crate) targets: Vec<u32>,
    pub(crate) importers: Vec<u32>,
    /// Nothing until it has been analysed for the first time.
    digest: Option<Hash>,
    pub(crate) fingerprint: Hash,
}

impl Node {
    fn new(file: FileRef) -> Self {
        let (targets, importers) = (Vec::new(), Vec::new());
        Node { file, marks: None, source: None, targets, importers, digest: None, fingerprint: [0; 32] }
    }
}

/// The files of a tree. A file keeps its place as long as it is there; then another may take it.
#[derive(Clone)]
pub(crate) struct Model {
    root: PathBuf,
    nodes: Vec<Option<Node>>,
    free: Vec<u32>,
    /// In the order of the walk, which is that of the components of paths.
    by_path: BTreeMap<PathBuf, u32>,
    /// How many files there have ever been.
    numbers: u32,
    tree: Arc<Tree>,
    /// The place of each file of the tree by its number there.
    order: Vec<u32>,
    /// The other way round.
    rank: Vec<u32>,
    edges: usize,
}

impl Model {
    /// Of files that are all there, in the order of the walk, and as `tree` has them.
    pub(crate) fn new(root: &Path, files: &[FileRef], tree: Arc<Tree>) -> Self {
        let node = |file: &FileRef| Some(Node::new(file.clone()));
        Model {
            root: root.into(),
            nodes: files.iter().map(node).collect(),
            free: Vec::new(),
            by_path: files.iter().map(|file| (file.on_disk().into(), file.place())).collect(),
            numbers: files.len() as u32,
            tree,
            order: (0..files.len() as u32).collect(),
            rank: (0..files.len() as u32).collect(),
            edges: 0,
        }
    }

    /// The file at a place, which has one.
    pub(crate) fn node(&self, place: u32) -> &Node {
        self.nodes[place as usize].as_ref().expect("a place that is spoken of has a file")
    }

    /// Whether there is a file at a place.
    pub(crate) fn has(&self, place: u32) -> bool {
        self.nodes[place as usize].is_some()
    }

    /// How many places there are, with and without a file.
    pub(crate) fn places(&self) -> usize {
        self.nodes.len()
    }

    fn node_mut(&mut self, place: u32) -> &mut Node {
        self.nodes[place as usize].as_mut().expect("a place that is spoken of has a file")
    }

    pub(crate) fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// Places by the number that their files have in the tree.
    pub(crate) fn order(&self) -> &[u32] {
        &self.order
    }

    pub(crate) fn files(&self) -> usize {
        self.by_path.len()
    }

    pub(crate) fn edges(&self) -> usize {
        self.edges
    }

    /// The place of the file with this path.
    pub(crate) fn at(&self, path: &Path) -> Option<u32> {
        self.by_path.get(path).copied()
    }

    /// The places of the files at a path and below it.
    pub(crate) fn below(&self, path: &Path) -> Vec<u32> {
        let from = self.by_path.range::<Path, _>((Bound::Included(path), Bound::Unbounded));
        from.take_while(|(other, _)| other.starts_with(path)).map(|(_, place)| *place).collect()
    }

    /// A file has come. It takes part once the tree is known again.
    pub(crate) fn add(&mut self, path: PathBuf) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            self.nodes.len() as u32 - 1
        });
        let file = FileRef::new(self.numbers, place, &self.root, &path);
        self.numbers = self.numbers.checked_add(1).expect("fewer than 2^32 files come in the life of a process");
        self.nodes[place as usize] = Some(Node::new(file));
        self.by_path.insert(path, place);
        place
    }

    /// A file has gone. Who imports it does so until it is analysed again.
    pub(crate) fn remove(&mut self, place: u32) -> Node {
        self.link(place, Vec::new());
        let node = self.nodes[place as usize].take().expect("a file goes once");
        for &importer in &node.importers {
            let targets = &mut self.node_mut(importer).targets;
            targets.retain(|&target| target != place);
            self.edges -= 1;
        }
        self.by_path.remove(node.file.on_disk());
        self.free.push(place);
        node
    }

    /// The names of all files, in the order of the walk.
    pub(crate) fn names(&self) -> Vec<FileRef> {
        self.by_path.values().map(|&place| self.node(place).file.clone()).collect()
    }

    /// All files are as `tree` has them, in the order of their names.
    pub(crate) fn set_tree(&mut self, tree: Arc<Tree>) {
        self.tree = tree;
        self.order = self.by_path.values().copied().collect();
        self.rank.resize(self.nodes.len(), 0);
        for (number, &place) in (0..).zip(&self.order) {
            self.rank[place as usize] = number;
        }
    }

    /// Takes what an analysis says of a file, with the numbers of the files that it imports. Whether it was otherwise before.
    pub(crate) fn update(&mut self, place: u32, marks: Option<Marks>, imports: &[u32]) -> bool {
        let node = self.node(place);
        if node.marks == marks && node.digest.is_some() && node.targets.len() == imports.len() {
            return false;
        }
        self.node_mut(place).marks = marks;
        let mut targets: Vec<u32> = imports.iter().map(|&number| self.order[number as usize]).collect();
        targets.sort_unstable();
        self.link(place, targets);
        let node = self.node(place);
        let mut paths: Vec<&str> = node.targets.iter().map(|&target| self.node(target).file.path()).collect();
        let content = marks.as_ref().map(|marks| &marks.content);
        let digest = fingerprint::digest(node.file.path(), content, &mut paths);
        self.node_mut(place).digest.replace(digest) != Some(digest)
    }

    /// Lets a file import these and no others.
    fn link(&mut self, place: u32, targets: Vec<u32>) {
        let old = std::mem::take(&mut self.node_mut(place).targets);
        for gone in old.iter().filter(|target| targets.binary_search(target).is_err()) {
            let importers = &mut self.node_mut(*gone).importers;
            if let Some(at) = importers.iter().position(|&importer| importer == place) {
                importers.swap_remove(at);
            }
        }
        for new in targets.iter().filter(|target| old.binary_search(target).is_err()) {
            self.node_mut(*new).importers.push(place);
        }
        self.edges = self.edges + targets.len() - old.len();
        self.node_mut(place).targets = targets;
    }

    pub(crate) fn set_source(&mut self, place: u32, source: Option<Arc<Timed>>) {
        self.node_mut(place).source = source;
    }

    pub(crate) fn set_fingerprint(&mut self, place: u32, fingerprint: Hash) {
        self.node_mut(place).fingerprint = fingerprint;
    }

    /// The places of these files and of all that reach one of them, in the order of the walk.
    pub(crate) fn reaching(&self, starts: &[u32]) -> Vec<u32> {
        let mut seen = vec![false; self.nodes.len()];
        let mut todo = starts.to_vec();
        let mut reaching = Vec::new();
        while let Some(place) = todo.pop() {
            if !std::mem::replace(&mut seen[place as usize], true) {
                reaching.push(place);
                todo.extend(&self.node(place).importers);
            }
        }
        if reaching.len() * SORTED_SHARE > self.order.len() {
            // Most of the walk takes part: it is in order already.
            return self.order.iter().copied().filter(|&place| seen[place as usize]).collect();
        }
        reaching.sort_unstable_by_key(|&place| self.rank[place as usize]);
        reaching
    }

    /// Makes the fingerprints of these files anew, beyond which all fingerprints stand.
    pub(crate) fn make_fingerprints(&mut self, places: &[u32]) {
        let condensed = self.condensed(places);
        condensed.all(|place, fingerprint| self.node_mut(place).fingerprint = fingerprint);
    }

    fn condensed(&self, places: &[u32]) -> Condensed {
        let mut local = vec![u32::MAX; self.nodes.len()];
        places.iter().enumerate().for_each(|(at, &place)| local[place as usize] = at as u32);
        let mut graph = Graph::default();
        let mut inside = Vec::new();
        let mut members = Vec::with_capacity(places.len());
        for &place in places {
            let node = self.node(place);
            inside.clear();
            let mut beyond = Vec::new();
            for &target in &node.targets {
                match local[target as usize] {
                    u32::MAX => beyond.push(self.node(target).fingerprint),
                    at => inside.push(at),
                }
            }
            graph.push(&inside);
            members.push(Member { place, digest: node.digest.unwrap_or_default(), beyond });
        }
        Condensed::new(self.nodes.len(), members, graph)
    }

    /// Of the tree as a whole.
    pub(crate) fn fingerprint(&self) -> Hash {
        let nodes = self.order.iter().map(|&place| self.node(place)).filter(|node| node.marks.is_some());
        fingerprint::tree(nodes.map(|node| (node.file.path(), &node.fingerprint)))
    }
}
