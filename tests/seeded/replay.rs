//! Timelines as data: which of a seed's operations are left, the smallest part of them that fails, and the file that keeps it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

/// Some of the operations of a seed, by number. Each draws its own random numbers, so any part of them can be run alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) seed: u64,
    pub(crate) operations: Vec<usize>,
}

thread_local! {
    /// What the operations of this thread's timeline were, if somebody wants to read it.
    static TOLD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Notes what an operation does.
pub(crate) fn tell(what: impl FnOnce() -> String) {
    TOLD.with_borrow_mut(|told| {
        if let Some(told) = told {
            told.push(what());
        }
    });
}

/// What the operations of `run` were.
pub(crate) fn told(run: impl FnOnce()) -> Vec<String> {
    TOLD.set(Some(Vec::new()));
    run();
    TOLD.take().unwrap_or_default()
}

impl Part {
    pub(crate) fn all(seed: u64, operations: usize) -> Self {
        Self { seed, operations: (0..operations).collect() }
    }

    /// The smallest failing part that is found by leaving out ever shorter runs of operations.
    pub(crate) fn shrink(self, fails: impl Fn(&Self) -> bool) -> Self {
        let mut least = self;
        let mut length = least.operations.len().div_ceil(2);
        let mut tries = 5_000;
        while length > 0 && tries > 0 {
            let mut at = 0;
            let before = least.operations.len();
            while at < least.operations.len() && tries > 0 {
                let mut less = least.clone();
                less.operations.drain(at..(at + length).min(less.operations.len()));
                tries -= 1;
                if fails(&less) {
                    least = less;
                } else {
                    at += length;
                }
            }
            // The shortest runs are tried as long as that helps.
            length = if length == 1 && least.operations.len() < before { 1 } else { length / 2 };
        }
        least
    }

    /// Writes it to a file of the target folder, with what its operations were. Where it is.
    pub(crate) fn save(&self, told: &[String]) -> PathBuf {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("timeline-{}.txt", self.seed));
        let numbers: Vec<_> = self.operations.iter().map(usize::to_string).collect();
        let mut text = format!("seed {}\noperations {}\n", self.seed, numbers.join(" "));
        told.iter().for_each(|line| text.push_str(&format!("# {line}\n")));
        std::fs::write(&file, text).expect("the target folder can be written");
        file
    }

    /// Reads what [`save`](Self::save) has written.
    pub(crate) fn read(file: &Path) -> Self {
        let text = std::fs::read_to_string(file).expect("a saved timeline");
        let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).expect("a saved timeline");
        let number = |word: &str| word.parse::<u64>().expect("a number");
        let operations = line("operations").split_whitespace().map(|word| number(word) as usize).collect();
        Self { seed: number(line("seed").trim()), operations }
    }
}

#[test]
fn a_failing_timeline_is_shrunk_saved_and_read_again() {
    let fails = |part: &Part| [3, 170, 400].iter().all(|needed| part.operations.contains(needed));
    let least = Part::all(7, 500).shrink(fails);
    assert_eq!(least.operations, [3, 170, 400]);
    let least = Part { seed: u64::MAX, ..least };
    let file = least.save(&["edit of 1".into()]);
    assert_eq!(Part::read(&file), least);
    std::fs::remove_file(file).expect("it was written");
}
