//! What is wrong with a task file: each fault with its line, and the task concerned.
//! It does not know what a file should say.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::fmt::Display;

/// The faults of one file. They are gathered, so that all are told at once.
pub(super) struct Faults {
    path: String,
    /// Where each line begins.
    starts: Vec<usize>,
    found: RefCell<Vec<(usize, String)>>,
}

impl Faults {
    /// None yet, of the file with this name and text.
    pub(super) fn new(path: &str, text: &str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { path: path.to_owned(), starts, found: RefCell::default() }
    }

    /// The line in which a byte stands, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at)
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

    /// All of them in the order of their lines.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut found = self.found.borrow().clone();
        found.sort_by_key(|(at, _)| *at);
        found.into_iter().map(|(_, text)| text).collect()
    }
}

/// `; did you mean …?`, if one of the names is much like the word.
pub(super) fn suggestion<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let near = |name: &&str| strsim::osa_distance(word, name);
    match names.into_iter().min_by_key(near).filter(|name| near(name) <= 1.max(word.chars().count() / 3)) {
        Some(name) => format!("; did you mean {name}?"),
        None => String::new(),
    }
}
