//! What all files come to: sums by language, verdicts on imports, the graph of edges, the time of each stage.
//! It does not know where results come from, nor how the sums are shown.
#![forbid(unsafe_code)]

use super::cycles::Graph;
use super::results::{Indexed, Span};
use crate::work::lang::Language;
use crate::work::resolve::Verdict;
use std::time::Duration;

/// Sums over the files of one language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) code: u64,
    pub(crate) comment: u64,
    pub(crate) blank: u64,
    pub(crate) definitions: u64,
    /// Imports that lead into the tree, out of it, to nothing, and to several files.
    pub(crate) found: u64,
    pub(crate) external: u64,
    pub(crate) missing: u64,
    pub(crate) ambiguous: u64,
}

impl Sums {
    pub(crate) fn lines(&self) -> u64 {
        self.code + self.comment + self.blank
    }

    pub(crate) fn unresolved(&self) -> u64 {
        self.missing + self.ambiguous
    }

    pub(crate) fn imports(&self) -> u64 {
        self.found + self.external + self.unresolved()
    }

    fn add(&mut self, other: &Sums) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.code += other.code;
        self.comment += other.comment;
        self.blank += other.blank;
        self.definitions += other.definitions;
        self.found += other.found;
        self.external += other.external;
        self.missing += other.missing;
        self.ambiguous += other.ambiguous;
    }
}

/// What one stage did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StageSum {
    pub(crate) done: u64,
    pub(crate) time: Duration,
}

impl StageSum {
    pub(crate) fn add(&mut self, span: Span) {
        self.done += 1;
        self.time += span.length();
    }
}

/// Everything that is summed up.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    languages: [Sums; Language::COUNT],
    /// One node per file, in the order of their numbers.
    pub(crate) graph: Graph,
    /// Source, Analysis, Artifact.
    pub(crate) stages: [StageSum; 3],
}

impl Totals {
    /// Adds the next file.
    pub(crate) fn add(&mut self, indexed: &Indexed) {
        let analysis = &indexed.analysis;
        let sums = Sums {
            files: 1,
            bytes: indexed.bytes,
            code: u64::from(analysis.lines.code),
            comment: u64::from(analysis.lines.comment),
            blank: u64::from(analysis.lines.blank),
            definitions: u64::from(analysis.definitions),
            found: analysis.count(Verdict::Found),
            external: analysis.count(Verdict::External),
            missing: analysis.count(Verdict::Missing),
            ambiguous: analysis.count(Verdict::Ambiguous),
        };
        self.languages[indexed.language as usize].add(&sums);
        self.graph.push(&analysis.edges);
        self.stages[0].add(indexed.source_span);
        self.stages[1].add(indexed.span);
    }

    /// Adds the next file, of which nothing is known.
    pub(crate) fn add_failed(&mut self) {
        self.graph.push(&[]);
    }

    /// The languages that occur, the one with most code first.
    pub(crate) fn by_language(&self) -> Vec<(Language, Sums)> {
        let all = Language::all().zip(self.languages);
        let mut rows: Vec<_> = all.filter(|(_, sums)| sums.files > 0).collect();
        rows.sort_by_key(|&(language, sums)| (std::cmp::Reverse(sums.code), language));
        rows
    }

    /// Over all languages.
    pub(crate) fn whole(&self) -> Sums {
        let mut whole = Sums::default();
        self.languages.iter().for_each(|sums| whole.add(sums));
        whole
    }

    /// The `most` most imported files and how many files import each, the most imported first; equals in order of number.
    pub(crate) fn most_imported(&self, most: usize) -> Vec<(u32, u32)> {
        let degrees = self.graph.in_degrees();
        let mut files: Vec<(u32, u32)> = (0..).zip(degrees).filter(|&(_, degree)| degree > 0).collect();
        files.sort_by_key(|&(file, degree)| (std::cmp::Reverse(degree), file));
        files.truncate(most);
        files
    }
}
