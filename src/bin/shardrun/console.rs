//! Standard error: one line for each thing that went wrong, and the progress of the work.
//! It does not know what the work is.
#![forbid(unsafe_code)]

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::{self, Display, Write as _};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
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
}

impl Console {
    /// With a bar if standard error is a terminal, with a line now and then if not, or with no progress at all.
    pub(crate) fn new(silent: bool) -> Self {
        let progress = match silent {
            true => Progress::Silent,
            false if io::stderr().is_terminal() => Progress::Bar(bar()),
            false => Progress::Lines { next: Instant::now() + LINE_EVERY },
        };
        Console { progress, complaints: 0 }
    }

    /// Says nothing, and counts what it would complain about.
    pub(crate) fn mute() -> Self {
        Console { progress: Progress::Mute, complaints: 0 }
    }

    /// Says what went wrong with a file, in one line; the program's exit status will tell that there was something.
    pub(crate) fn complain(&mut self, path: &Path, what: impl Display) {
        self.complain_of(&path.to_string_lossy(), what);
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
    #[test]
    fn names_stay_on_their_line() {
        assert_eq!(super::OneLine("a\nb\x1b[2J é").to_string(), "a\\nb\\u{1b}[2J é");
    }
}
