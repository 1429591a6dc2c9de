//! What is wrong with a task file: each fault with its line, and the task concerned.
//! It does not know what a file should say.
#![forbid(unsafe_code)]

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt::Display;

/// Words that are compared with other words for what may have been meant; a file of a program's can have as many faults as tasks.
const COMPARED_MAX: usize = 100_000;
/// Longer words are no slips.
const WORD_BYTES_MAX: usize = 100;

/// The faults of one file. They are gathered, so that all are told at once.
pub(super) struct Faults<'t> {
    path: String,
    text: &'t str,
    /// Where each line begins. Most files have no fault.
    starts: OnceCell<Vec<usize>>,
    found: RefCell<Vec<(usize, String)>>,
    /// How many words may still be compared.
    compared: Cell<usize>,
}

impl<'t> Faults<'t> {
    /// None yet, of the file with this name and text.
    pub(super) fn new(path: &str, text: &'t str) -> Self {
        let (starts, found, compared) = (OnceCell::new(), RefCell::default(), Cell::new(COMPARED_MAX));
        Self { path: path.to_owned(), text, starts, found, compared }
    }

    /// The line in which a byte stands, from 1.
    fn line(&self, at: usize) -> usize {
        let starts = || std::iter::once(0).chain(self.text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        self.starts.get_or_init(starts).partition_point(|start| *start <= at)
    }

    /// Something is wrong at this byte, in the words on this task if it is one's.
    pub(super) fn add(&self, at: usize, task: Option<&str>, what: impl Display) {
        let task = task.map(|task| format!("task {task}: ")).unwrap_or_default();
        let text = format!("{}:{}: {task}{what}", self.path, self.line(at));
        self.found.borrow_mut().push((at, text));
    }

    pub(super) fn are_none(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// All of them in the order of their lines, each once.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut found = self.found.borrow().clone();
        found.sort_by_key(|(at, _)| *at);
        found.dedup_by(|(_, one), (_, before)| one == before);
        found.into_iter().map(|(_, text)| text).collect()
    }

    /// `; did you mean …?`, if one of the names is much like the word.
    pub(super) fn suggestion<'n>(&self, word: &str, names: impl IntoIterator<Item = &'n str>) -> String {
        let slips = 1.max(word.chars().count() / 3);
        let mut best: Option<(usize, &str)> = None;
        let alike = |name: &&str| word.len() <= WORD_BYTES_MAX && name.len().abs_diff(word.len()) <= slips * 4;
        for name in names.into_iter().filter(alike) {
            let Some(left) = self.compared.get().checked_sub(1) else { break };
            self.compared.set(left);
            let distance = strsim::osa_distance(word, name);
            if distance <= slips && best.is_none_or(|best| (distance, name) < best) {
                best = Some((distance, name));
            }
        }
        best.map_or_else(String::new, |(_, name)| format!("; did you mean {name}?"))
    }
}
