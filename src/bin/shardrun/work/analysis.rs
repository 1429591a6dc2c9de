//! The Analysis of a file: its lines and definitions, and where its imports lead within the tree.
//! It does not know how an import is resolved, nor what other files say.
#![forbid(unsafe_code)]

use super::facts::Lines;
use super::resolve::{Tree, Verdict};
use super::source::Source;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What is known of a file within its tree.
#[derive(Clone, Debug)]
pub(crate) struct Analysis {
    pub(crate) lines: Lines,
    pub(crate) definitions: u32,
    /// How many imports have each verdict, in the order of the verdicts.
    counts: [u32; 4],
    /// For each import in the file's order its verdict, and where its files end in `targets`.
    outcomes: Box<[(Verdict, u32)]>,
    targets: Box<[u32]>,
    /// The files that this one imports, itself apart, sorted, each once.
    pub(crate) edges: Box<[u32]>,
}

impl Analysis {
    /// For each import its verdict and the files that it leads to.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (Verdict, &[u32])> {
        let mut start = 0;
        self.outcomes.iter().map(move |&(verdict, end)| {
            let files = &self.targets[start..end as usize];
            start = end as usize;
            (verdict, files)
        })
    }

    /// A hash over where each single import leads, by path: it differs if one of them leads elsewhere.
    pub(crate) fn signature(&self, tree: &Tree) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (verdict, files) in self.outcomes() {
            (verdict as u8, files.len()).hash(&mut hasher);
            files.iter().for_each(|&file| tree.path(file).hash(&mut hasher));
        }
        hasher.finish()
    }

    /// Gives back what only an outline shows: where each single import leads.
    pub(crate) fn forget(&mut self) {
        (self.outcomes, self.targets) = (Box::default(), Box::default());
    }

    /// How many imports have this verdict.
    pub(crate) fn count(&self, verdict: Verdict) -> u64 {
        u64::from(self.counts[verdict as usize])
    }
}

/// Resolves the imports of file `number` of the tree.
pub(crate) fn analyse(tree: &Tree, number: u32, source: &Source) -> Analysis {
    let facts = &source.facts;
    let mut outcomes = Vec::with_capacity(facts.imports.len());
    let mut targets = Vec::with_capacity(facts.imports.len());
    let mut counts = [0; 4];
    for (text, kind, _) in facts.imports.iter() {
        let verdict = tree.resolve(number, text, kind, &mut targets);
        counts[verdict as usize] += 1;
        outcomes.push((verdict, targets.len() as u32));
    }
    let mut edges: Vec<u32> = Vec::with_capacity(targets.len());
    edges.extend(targets.iter().filter(|&&target| target != number));
    edges.sort_unstable();
    edges.dedup();
    Analysis {
        lines: facts.lines,
        definitions: facts.definitions.len() as u32,
        counts,
        outcomes: outcomes.into(),
        targets: targets.into(),
        edges: edges.into(),
    }
}
