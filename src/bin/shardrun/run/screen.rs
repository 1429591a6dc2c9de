//! What is shown while tasks run: a line and a block of output for each, failures once more at the end, and a bar on a terminal.
//! It does not know how tasks are run.
#![forbid(unsafe_code)]

use super::capture::Capture;
use super::minder::told;
use super::process::End;
use super::stream::{Patience, write, write_all};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shardrun::{Plan, Tally, TaskId, TaskOutcome, TaskStatus};
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Output of failed tasks that is kept for the end; what is over it is shown at once.
const HELD_BYTES_MAX: usize = 64 << 20;
/// Lines that come sooner after one another are written together, at the latest then.
const TOGETHER: Duration = Duration::from_millis(50);
/// As much is written at once whenever it comes.
const WRITE_BYTES: usize = 4096;
/// Names of running tasks on the bar.
const NAMES_SHOWN: usize = 4;

/// How a task's commands ended, and what they printed.
pub(super) struct Printed {
    pub(super) end: End,
    pub(super) attempts: u32,
    pub(super) output: Capture,
}

/// What people see.
pub(super) struct Screen {
    plan: Arc<Plan>,
    quiet: bool,
    color: bool,
    bar: Option<ProgressBar>,
    running: Vec<(TaskId, Instant)>,
    done: usize,
    /// To be written to standard output.
    out: Vec<u8>,
    /// When something was written there last.
    written: Option<Instant>,
    broken: bool,
    /// How long output waits for its reader.
    pub(super) patience: Patience,
    /// Blocks of failed tasks.
    held: Vec<u8>,
    /// Whether anything went wrong that is no task's failure.
    pub(super) troubled: bool,
}

impl Screen {
    pub(super) fn new(plan: Arc<Plan>, quiet: bool, progress: bool) -> Self {
        let color = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let bar = (progress && !quiet && io::stderr().is_terminal()).then(|| bar(plan.len()));
        let (running, out, held) = (Vec::new(), Vec::new(), Vec::new());
        let patience = Patience::of_stdout();
        Self {
            plan,
            quiet,
            color,
            bar,
            running,
            done: 0,
            out,
            written: None,
            broken: false,
            patience,
            held,
            troubled: false,
        }
    }

    /// Whether something on the screen changes by time alone.
    pub(super) fn is_live(&self) -> bool {
        self.bar.is_some()
    }

    pub(super) fn started(&mut self, task: TaskId) {
        if self.bar.is_some() && self.running.iter().all(|(running, _)| *running != task) {
            self.running.push((task, Instant::now()));
        }
    }

    /// A task has its outcome.
    pub(super) fn finished(&mut self, outcome: &TaskOutcome, printed: Option<Printed>) {
        let task = outcome.task();
        self.running.retain(|(running, _)| *running != task);
        self.done += 1;
        let failed = outcome.status() == TaskStatus::Failed;
        if self.quiet && !failed {
            return;
        }
        if !outcome.ran() && outcome.status() == TaskStatus::Success {
            // A group: it has done nothing.
            return;
        }
        self.header(outcome, printed.as_ref());
        let output = printed.map(|printed| printed.output).filter(|output| !output.is_empty());
        match output {
            Some(output) if failed && self.held.len() + output.len() <= HELD_BYTES_MAX => {
                _ = writeln!(self.held, "\n---- {}", self.plan.name(task));
                output.write(&mut self.held);
            }
            Some(output) => output.write(&mut self.out),
            None => {}
        }
    }

    /// Writes the line that says how a task ended.
    fn header(&mut self, outcome: &TaskOutcome, printed: Option<&Printed>) {
        let (word, color) = match outcome.status() {
            TaskStatus::Failed => ("FAILED", 31),
            TaskStatus::Skipped => ("skipped", 33),
            TaskStatus::Aborted => ("aborted", 33),
            _ => ("ok", 32),
        };
        let (plan, out) = (&self.plan, &mut self.out);
        let name = plan.name(outcome.task());
        _ = match self.color {
            true => write!(out, "\x1b[{color}m{word:<8}\x1b[0m{name}"),
            false => write!(out, "{word:<8}{name}"),
        };
        let mut before = ": ";
        let mut detail = |detail: fmt::Arguments<'_>| {
            _ = write!(out, "{before}{detail}");
            before = ", ";
        };
        match printed {
            Some(printed) if outcome.status() == TaskStatus::Failed => detail(format_args!("{}", told(printed.end))),
            None if outcome.status() == TaskStatus::Failed && outcome.ran() => {
                detail(format_args!("could not be started"))
            }
            _ => {}
        }
        if let Some(root) = outcome.blocked_by() {
            detail(format_args!("because of {}", plan.name(root)));
        }
        if let Some(attempts) = printed.map(|printed| printed.attempts).filter(|attempts| *attempts > 1) {
            detail(format_args!("{attempts} attempts"));
        }
        if outcome.ran() && !outcome.duration().is_zero() {
            detail(format_args!("{}", Time(outcome.duration())));
        }
        if outcome.is_tainted() {
            detail(format_args!("behind a failure"));
        }
        out.push(b'\n');
    }

    /// A line of a task that keeps running.
    pub(super) fn line(&mut self, task: TaskId, line: &[u8]) {
        if !self.quiet {
            _ = write!(self.out, "{} | ", self.plan.name(task));
            self.out.extend_from_slice(line);
        }
    }

    /// A task that was ready has ended by itself.
    pub(super) fn left(&mut self, task: TaskId, end: End) {
        if end != End::Passed || !self.quiet {
            _ = writeln!(self.out, "{:<8}{}: {}", "left", self.plan.name(task), told(end));
        }
    }

    /// Says something on standard error. What cannot be written there is dropped: there is no better place.
    pub(super) fn say(&mut self, line: &str) {
        self.flush_all();
        self.say_first(line);
    }

    /// The same before what is to be written on standard output, whose reader may be slow.
    pub(super) fn say_first(&mut self, line: &str) {
        let patience = self.patience.for_stderr();
        let write = || drop(write_all(io::stderr(), format!("{line}\n").as_bytes(), &patience));
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// The same of something that went wrong and is no task's failure.
    pub(super) fn complain(&mut self, what: &str) {
        self.troubled = true;
        self.say(&format!("shardrun: {what}"));
    }

    /// Writes what is to be written, unless something was written just now. Says after how long it has to be called again.
    pub(super) fn flush_in_time(&mut self) -> Option<Duration> {
        let since = self.written.map(|written| written.elapsed());
        let left = since.and_then(|since| TOGETHER.checked_sub(since));
        if left.is_none() || self.out.len() >= WRITE_BYTES {
            self.flush();
        }
        left.filter(|_| !self.out.is_empty())
    }

    /// Writes what is to be written, or as much as there is room for if an interrupt is to be heard first.
    pub(super) fn flush(&mut self) {
        self.flush_by(|out, patience| write(io::stdout(), out, patience));
    }

    fn flush_all(&mut self) {
        self.flush_by(|out, patience| write_all(io::stdout(), out, patience).map(|()| out.len()));
    }

    fn flush_by(&mut self, write: impl FnOnce(&[u8], &Patience) -> io::Result<usize>) {
        if self.out.is_empty() {
            return;
        }
        self.written = Some(Instant::now());
        let mut out = std::mem::take(&mut self.out);
        if self.broken {
            return;
        }
        let write = || write(&out, &self.patience);
        let written = match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        };
        match written {
            Ok(written) => self.out = out.split_off(written),
            Err(error) => {
                self.broken = true;
                self.complain(&format!("standard output: {error}"));
            }
        }
    }

    /// Brings the bar up to date.
    pub(super) fn tick(&mut self) {
        let Some(bar) = &self.bar else { return };
        let name = |(task, since): &(TaskId, Instant)| format!("{} {}", self.plan.name(*task), time(since.elapsed()));
        let mut names: Vec<String> = self.running.iter().take(NAMES_SHOWN).map(name).collect();
        if self.running.len() > NAMES_SHOWN {
            names.push(format!("and {} more", self.running.len() - NAMES_SHOWN));
        }
        bar.set_message(names.join(", "));
        bar.set_position(self.done as u64);
    }

    /// Takes the bar off, and shows what failed, and how many went how.
    pub(super) fn finish(&mut self, tally: Tally, elapsed: Duration) {
        self.running.clear();
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        let held = std::mem::take(&mut self.held);
        self.out.extend_from_slice(&held);
        if !self.quiet {
            let counts = [
                (tally.succeeded + tally.cached, "ok"),
                (tally.failed, "failed"),
                (tally.skipped, "skipped"),
                (tally.aborted, "aborted"),
            ];
            let counts: Vec<String> =
                counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
            let counts = if counts.is_empty() { "nothing to do".to_owned() } else { counts.join(", ") };
            _ = writeln!(self.out, "{}{counts}, in {}", if held.is_empty() { "" } else { "\n" }, time(elapsed));
        }
        self.flush();
    }

    /// Shows a text that was asked for.
    pub(super) fn show(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
        self.flush_all();
    }
}

fn bar(tasks: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(tasks as u64), ProgressDrawTarget::stderr_with_hz(10));
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {wide_msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// A time for people.
pub(super) struct Time(pub(super) Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match seconds {
            0 => write!(f, "{} ms", self.0.subsec_millis()),
            1..10 => write!(f, "{:.2} s", self.0.as_secs_f64()),
            10..60 => write!(f, "{:.1} s", self.0.as_secs_f64()),
            _ => write!(f, "{} min {:02} s", seconds / 60, seconds % 60),
        }
    }
}

/// The same as a text of its own.
pub(super) fn time(time: Duration) -> String {
    Time(time).to_string()
}
