//! Standard error: one line for each thing that went wrong, and the progress of the work.
//! It does not know what the work is.
#![forbid(unsafe_code)]

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Write as _};
use std::io::{self, IsTerminal, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a line of progress is printed where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(2);

enum Progress {
    /// Not even complaints are said, only counted.
    Mute,
    Silent,
    Bar(ProgressBar),
    Lines {
        next: Instant,
    },
}

/// What is said to the person who started the program. What cannot be written there is dropped: there is no better place.
pub(crate) struct Console {
    progress: Progress,
    complaints: u64,
    /// What was said last of each file.
    said: BTreeMap<PathBuf, String>,
}

impl Console {
    /// With a bar if standard error is a terminal, with a line now and then if not, or with no progress at all.
    pub(crate) fn new(silent: bool) -> Self {
        let progress = match silent {
            true => Progress::Silent,
            false if io::stderr().is_terminal() => Progress::Bar(bar()),
            false => Progress::Lines { next: Instant::now() + LINE_EVERY },
        };
        Console { progress, complaints: 0, said: BTreeMap::new() }
    }

    /// Says nothing, and counts what it would complain about.
    pub(crate) fn mute() -> Self {
        Console { progress: Progress::Mute, complaints: 0, said: BTreeMap::new() }
    }

    /// Says what went wrong with a file, in one line, unless this is what was said of it last; the program's exit status will tell
    /// that there was something.
    pub(crate) fn complain(&mut self, path: &Path, what: impl Display) {
        let what = what.to_string();
        if self.said.get(path) != Some(&what) {
            self.complain_of(&path.to_string_lossy(), &what);
            // Who is mute looks at trees for ever, and would keep it for ever.
            if !matches!(self.progress, Progress::Mute) {
                self.said.insert(path.into(), what);
            }
        }
    }

    /// The same of something that is no file.
    pub(crate) fn complain_of(&mut self, subject: &str, what: impl Display) {
        self.complaints += 1;
        let line = format!("shardrun: {}: {what}\n", OneLine(subject));
        let write = || drop(io::stderr().lock().write_all(line.as_bytes()));
        match &self.progress {
            Progress::Mute => {}
            Progress::Bar(bar) => bar.suspend(write),
            _ => write(),
        }
    }

    /// A file or directory is not what it was: what was said of it, and of what is below it, may be said again.
    pub(crate) fn forget(&mut self, path: &Path) {
        let from = self.said.range::<Path, _>((Bound::Included(path), Bound::Unbounded));
        let below: Vec<PathBuf> =
            from.map(|(said, _)| said).take_while(|said| said.starts_with(path)).cloned().collect();
        below.iter().for_each(|said| drop(self.said.remove(said)));
    }

    /// How many complaints there were.
    pub(crate) fn complaints(&self) -> u64 {
        self.complaints
    }

    /// So many files have been found; more may come.
    pub(crate) fn found(&mut self, files: u64) {
        match &mut self.progress {
            Progress::Mute | Progress::Silent => {}
            Progress::Bar(bar) => bar.set_position(files),
            Progress::Lines { .. } => self.line(false, format_args!("{files} files found")),
        }
    }

    /// So many of all files have been indexed.
    pub(crate) fn done(&mut self, files: u64, all: u64) {
        match &mut self.progress {
            Progress::Mute | Progress::Silent => {}
            Progress::Bar(bar) => {
                if bar.length() != Some(all) {
                    bar.set_style(style("{bar:40} {pos} of {len} files indexed"));
                    bar.set_length(all);
                }
                bar.set_position(files);
            }
            Progress::Lines { .. } => self.line(files == all, format_args!("{files} of {all} files indexed")),
        }
    }

    fn line(&mut self, last: bool, what: fmt::Arguments<'_>) {
        let now = Instant::now();
        if let Progress::Lines { next } = &mut self.progress
            && (last || now >= *next)
        {
            *next = now + LINE_EVERY;
            let _ = io::stderr().lock().write_all(format!("{what}\n").as_bytes());
        }
    }

    /// Takes the bar off the screen.
    pub(crate) fn finish(&mut self) {
        if let Progress::Bar(bar) = std::mem::replace(&mut self.progress, Progress::Silent) {
            bar.finish_and_clear();
        }
    }
}

/// A spinner, until it is known how many files there are.
fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    bar.with_style(style("{spinner} {pos} files found"))
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Shows a name so that it stays on its line and cannot drive the terminal.
pub(crate) struct OneLine<'a>(pub(crate) &'a str);

impl Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { f.write_char(c)? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_said_once_until_its_file_is_another() {
        let mut console = Console::new(true);
        let mut said = |forget: &str, path: &str, what: &str| {
            console.forget(Path::new(forget));
            console.complain(Path::new(path), what);
            console.complaints()
        };
        assert_eq!([said("t/b", "t/a", "bad"), said("t/a/b", "t/a", "bad"), said("t/b", "t/a", "bad")], [1, 1, 1]);
        assert_eq!(said("t/b", "t/a", "worse"), 2);
        // It, or what it lies in, is not what it was.
        assert_eq!([said("t/a", "t/a", "worse"), said("t", "t/a", "worse")], [3, 4]);
    }

    #[test]
    fn names_stay_on_their_line() {
        assert_eq!(OneLine("a\nb\x1b[2J é").to_string(), "a\\nb\\u{1b}[2J é");
    }
}
