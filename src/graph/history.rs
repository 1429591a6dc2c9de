//! What earlier runs have seen of each task, in a small file: how long it took, how much memory it held, how it ended.
//! It does not know what the figures are used for.
//!
//! The file is text, a line per task after a first line that says the version. It is replaced whole by a rename, so that a
//! reader sees the old one or the new one. What cannot be read is passed over and said; it never stops a run.
#![forbid(unsafe_code)]

use super::outcome::RunReport;
use super::status::TaskStatus;
use ahash::AHashMap;
use smallvec::SmallVec;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// The first line of a file that this version can read.
const HEAD: &str = "shardrun-history 1";
/// Runs of a task that are remembered.
const SAMPLES_MAX: usize = 20;
/// Tasks that are remembered; beyond them those that ran longest ago are forgotten.
const TASKS_MAX: usize = 100_000;
/// Memory is estimated in steps of so many bytes.
const MEMORY_STEP: u64 = 64 << 20;

/// What earlier runs have seen of each task, by its name.
///
/// ```
/// use shardrun::{History, Plan, Run, Runtime};
///
/// let file = std::env::temp_dir().join(format!("shardrun-doc-{}.history", std::process::id()));
/// let (mut history, _warnings) = History::load(&file);
/// let mut plan = Plan::builder();
/// plan.task("compile");
/// plan.predict(|name| history.predicted(name));
/// let runtime = Runtime::builder().workers(1).build()?;
/// let report = Run::<()>::new(plan.build()?).start(&runtime, |_| ()).wait()?;
/// history.record(&report);
/// history.save(&file)?;
/// assert!(history.predicted("compile").is_some());
/// # std::fs::remove_file(file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    runs: u64,
    tasks: AHashMap<String, Record>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Record {
    /// The run in which it was last seen.
    run: u64,
    /// Whether it failed then.
    failed: bool,
    /// Microseconds of its latest successes, oldest first.
    durations: Vec<u64>,
    /// Peak memory of its latest runs that said so, oldest first.
    peaks: Vec<u64>,
}

impl History {
    /// A history of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a history. A file that is not there is one of nothing; of a damaged one what can be read, with a warning for what
    /// cannot.
    pub fn load(path: &Path) -> (Self, Vec<String>) {
        match read(path) {
            Ok(bytes) => {
                let text = String::from_utf8(bytes);
                let text = text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
                let (history, bad) = Self::parse(&text);
                let warning = bad.map(|bad| format!("history {}: {bad}", path.display()));
                (history, warning.into_iter().collect())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Self::new(), Vec::new()),
            Err(error) => (Self::new(), vec![format!("history {}: {error}", path.display())]),
        }
    }

    fn parse(text: &str) -> (Self, Option<String>) {
        let mut lines = text.lines();
        let head = lines.next().unwrap_or("");
        let Some(runs) = head.strip_prefix(HEAD).and_then(|rest| rest.strip_prefix(' ')?.parse().ok()) else {
            return (Self::new(), Some(format!("cannot read version {head:?}; it begins anew")));
        };
        let mut history = Self { runs, tasks: AHashMap::new() };
        let (mut damaged, mut whole) = (0, false);
        for line in lines {
            if line == "end" {
                whole = true;
                break;
            }
            match Record::parse(line) {
                Some((name, record)) => _ = history.tasks.insert(name, record),
                None => damaged += 1,
            }
        }
        let bad = match (damaged, whole) {
            (0, true) => None,
            (0, false) => Some("it has no end".to_owned()),
            (lines, _) => Some(format!("{lines} lines cannot be read")),
        };
        (history, bad)
    }

    /// Takes a run's outcomes in: of tasks that ran, how long the successes took, what memory they held, and whether they
    /// failed. What was aborted, skipped or taken from a cache says nothing, nor does a task without a name.
    pub fn record<X>(&mut self, report: &RunReport<X>) {
        self.runs = self.runs.saturating_add(1);
        for outcome in report.outcomes() {
            let name = report.plan().name(outcome.task());
            let tells = matches!(outcome.status(), TaskStatus::Success | TaskStatus::Failed);
            if name.is_empty() || !outcome.ran() || !tells {
                continue;
            }
            if !self.tasks.contains_key(name) {
                self.tasks.insert(name.to_owned(), Record::default());
            }
            let Some(record) = self.tasks.get_mut(name) else { continue };
            record.run = self.runs;
            record.failed = outcome.status() == TaskStatus::Failed;
            if !record.failed {
                push(&mut record.durations, u64::try_from(outcome.duration().as_micros()).unwrap_or(u64::MAX));
            }
            if let Some(peak) = outcome.peak_memory() {
                push(&mut record.peaks, peak);
            }
        }
    }

    /// The median of a task's latest successes.
    pub fn predicted(&self, name: &str) -> Option<Duration> {
        let mut durations: SmallVec<[u64; SAMPLES_MAX]> = SmallVec::from_slice(&self.tasks.get(name)?.durations);
        let middle = durations.len().checked_sub(1)? / 2;
        let (_, median, _) = durations.select_nth_unstable(middle);
        Some(Duration::from_micros(*median))
    }

    /// The most memory that a task held in its latest runs.
    pub fn peak_memory(&self, name: &str) -> Option<u64> {
        self.tasks.get(name)?.peaks.iter().copied().max()
    }

    /// What to reserve for a task: its peak and a quarter more, in whole steps of 64 MiB. None for a task of which nothing is
    /// known, or that needs less than one step.
    pub fn memory_estimate(&self, name: &str) -> Option<u64> {
        let wanted = self.peak_memory(name)?;
        let wanted = wanted.saturating_add(wanted / 4);
        (wanted >= MEMORY_STEP).then(|| wanted.div_ceil(MEMORY_STEP).saturating_mul(MEMORY_STEP))
    }

    /// Whether a task failed when it last ran.
    pub fn failed_last(&self, name: &str) -> Option<bool> {
        self.tasks.get(name).map(|record| record.failed)
    }

    /// The number of tasks that are remembered.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Writes the history: first beside the file, then over it.
    ///
    /// # Errors
    /// If the file cannot be written. The old one is then as it was.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}.new", std::process::id()));
        let beside = Path::new(&beside);
        let written = File::create(beside).and_then(|mut file| {
            file.write_all(&self.text())?;
            file.sync_all()
        });
        let result = written.and_then(|()| fs::rename(beside, path));
        if result.is_err() {
            _ = fs::remove_file(beside);
        }
        result
    }

    fn text(&self) -> Vec<u8> {
        let mut tasks: Vec<(&String, &Record)> = self.tasks.iter().collect();
        if tasks.len() > TASKS_MAX {
            tasks.sort_unstable_by_key(|(_, record)| std::cmp::Reverse(record.run));
            tasks.truncate(TASKS_MAX);
        }
        tasks.sort_unstable_by_key(|(name, _)| *name);
        let mut text = format!("{HEAD} {}\n", self.runs).into_bytes();
        for (name, record) in tasks {
            record.write(name, &mut text);
        }
        text.extend_from_slice(b"end\n");
        text
    }
}

/// Reads a file that can be one: a pipe would be waited for, and a device may have no end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    fs::read(path)
}

fn push(samples: &mut Vec<u64>, sample: u64) {
    if samples.len() == SAMPLES_MAX {
        samples.remove(0);
    }
    samples.push(sample);
}

impl Record {
    /// `run failed durations peaks name`, lists with commas, `-` for none; the name is last and escaped.
    fn write(&self, name: &str, into: &mut Vec<u8>) {
        push_number(self.run, into);
        into.extend_from_slice(if self.failed { b" 1 " } else { b" 0 " });
        write_list(&self.durations, into);
        write_list(&self.peaks, into);
        if name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'\'' | b'"')) {
            into.extend_from_slice(name.as_bytes());
            into.push(b'\n');
        } else {
            _ = writeln!(into, "{}", name.escape_default());
        }
    }

    fn parse(line: &str) -> Option<(String, Self)> {
        let mut fields = line.splitn(5, ' ');
        let mut next = || fields.next();
        let run = next()?.parse().ok()?;
        let failed = match next()? {
            "0" => false,
            "1" => true,
            _ => return None,
        };
        let (durations, peaks) = (parse_list(next()?)?, parse_list(next()?)?);
        let name = unescape(next()?)?;
        let fits = durations.len() <= SAMPLES_MAX && peaks.len() <= SAMPLES_MAX && !name.is_empty();
        fits.then_some((name, Self { run, failed, durations, peaks }))
    }
}

fn write_list(samples: &[u64], into: &mut Vec<u8>) {
    if samples.is_empty() {
        into.push(b'-');
    }
    for (at, sample) in samples.iter().enumerate() {
        if at > 0 {
            into.push(b',');
        }
        push_number(*sample, into);
    }
    into.push(b' ');
}

/// A file has many numbers: this is several times as fast as formatting.
fn push_number(mut number: u64, into: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    into.extend_from_slice(&digits[at..]);
}

fn parse_list(field: &str) -> Option<Vec<u64>> {
    if field == "-" {
        return Some(Vec::new());
    }
    let mut samples = Vec::with_capacity(SAMPLES_MAX);
    let mut sample = None;
    for byte in field.bytes().chain([b',']) {
        match byte {
            b'0'..=b'9' => {
                let digit = u64::from(byte - b'0');
                sample = Some(sample.unwrap_or(0_u64).checked_mul(10)?.checked_add(digit)?);
            }
            b',' => samples.push(sample.take()?),
            _ => return None,
        }
    }
    Some(samples)
}

/// Undoes `escape_default`.
fn unescape(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.to_owned());
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            out.push(char);
            continue;
        }
        out.push(match chars.next()? {
            't' => '\t',
            'r' => '\r',
            'n' => '\n',
            'u' => {
                let hex = chars.as_str().strip_prefix('{')?;
                let (hex, rest) = hex.split_once('}')?;
                chars = rest.chars();
                char::from_u32(u32::from_str_radix(hex, 16).ok()?)?
            }
            other => other,
        });
    }
    Some(out)
}
