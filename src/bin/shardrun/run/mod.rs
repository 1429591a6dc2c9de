//! `shardrun run`: the tasks of a file, each after those that it depends on, several at a time.
//! It does not know how a run is decided; that is the library's.

mod answer;
mod args;
mod capture;
mod child;
mod course;
mod document;
mod faults;
mod graph;
mod minder;
mod parse;
mod plain;
mod process;
mod reap;
mod report;
mod screen;
mod shape;
mod spawn;
mod stream;
mod values;

pub(crate) use args::RunArgs;

use crate::output::written_twice;
use course::{Settings, Went};
use document::Document;
use faults::Faults;
use graph::{Chosen, Links};
use screen::Screen;
use shape::{Headroom, Sharing, TaskFile};
use shardrun::{
    ContinueMode, Driver, History, JobClient, JobServer, MemoryPressure, Policy, Run, RunReport, Runtime, TaskCx,
    TaskId,
};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

/// The file's name if none is given.
const FILE: &str = "shardrun.toml";
/// Where earlier runs are remembered, from the file's folder.
const HISTORY: &str = ".shardrun/history";
/// A larger task file is refused.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// The exit status of wrong usage and of a faulty file.
const USAGE: u8 = 2;
/// The exit status of a run that was interrupted.
const INTERRUPTED: u8 = 130;

/// Runs the command. Whatever went wrong has been said when it returns.
pub(crate) fn run(args: &RunArgs) -> ExitCode {
    let (path, text) = match read(args.file.as_deref()) {
        Ok(read) => read,
        Err(what) => return refuse(&[what]),
    };
    let faults = Faults::new(&path.display().to_string(), &text);
    let document = Document::read(&text, &faults);
    match prepare(args, &path, &document, &faults) {
        Ok(prepared) => prepared.run(args),
        Err(lines) => refuse(&lines),
    }
}

/// Reads the file that is named, or the one that is found.
fn read(named: Option<&Path>) -> Result<(PathBuf, String), String> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => find().ok_or_else(|| format!("there is no {FILE} here or in a directory above; see --file"))?,
    };
    let shown = path.display();
    let mut bytes = Vec::new();
    // A device may have no end.
    let read = File::open(&path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|error| format!("{shown}: {error}"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{shown}: larger than {} MiB", FILE_BYTES_MAX >> 20));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        format!("{shown}:{}: not UTF-8", 1 + before.iter().filter(|byte| **byte == b'\n').count())
    })?;
    Ok((path, text))
}

/// Says what is wrong, as far as it can be said anywhere.
fn refuse(lines: &[String]) -> ExitCode {
    let text: String = lines.iter().map(|line| format!("shardrun: {line}\n")).collect();
    _ = io::stderr().lock().write_all(text.as_bytes());
    ExitCode::from(USAGE)
}

/// A file that was read, and where it stands.
struct Prepared<'f> {
    file: TaskFile<'f>,
    faults: &'f Faults<'f>,
    folder: PathBuf,
    /// Where to write the trace, if anywhere.
    trace: Option<PathBuf>,
}

/// Refuses what is wrong before anything is run.
fn prepare<'f>(
    args: &RunArgs,
    path: &Path,
    document: &'f Document<'f>,
    faults: &'f Faults<'f>,
) -> Result<Prepared<'f>, Vec<String>> {
    let file = parse::parse(document, faults);
    if !faults.are_none() {
        return Err(faults.lines());
    }
    let one = |line: String| vec![line];
    if written_twice([&args.trace, &args.graph].into_iter().filter_map(Option::as_deref)).is_some() {
        return Err(one("--trace and --graph would overwrite each other: name a file for each".to_owned()));
    }
    let whole = |path: &Path| absolute(path).map_err(|error| one(format!("{}: {error}", path.display())));
    let folder = whole(path)?.parent().map(Path::to_owned).unwrap_or_default();
    let trace = args.trace.as_deref().map(whole).transpose()?;
    Ok(Prepared { file, faults, folder, trace })
}

/// The file of this directory, or of the nearest above that has one.
fn find() -> Option<PathBuf> {
    if Path::new(FILE).is_file() {
        return Some(FILE.into());
    }
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|folder| folder.join(FILE)).find(|path| path.is_file())
}

impl Prepared<'_> {
    fn run(self, args: &RunArgs) -> ExitCode {
        let links = Links::new(&self.file, self.faults);
        if !self.faults.are_none() {
            return refuse(&self.faults.lines());
        }
        let history = self.folder.join(HISTORY);
        let seen = Seen::of(&history);
        let (mut past, warnings) = if args.no_history { Default::default() } else { History::load(&history) };
        let cpus = || std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        let wanted = args.concurrency.map(u32::from).or(self.file.concurrency);
        let concurrency = if args.dry_run { 1 } else { wanted.unwrap_or_else(cpus) };
        let chosen = match links.choose(&args.tasks, &past, concurrency, self.faults) {
            Ok(Some(chosen)) => chosen,
            Ok(None) => return refuse(&self.faults.lines()),
            Err(what) => return refuse(&[what]),
        };
        let explained: Result<Vec<TaskId>, String> = args
            .explain
            .iter()
            .map(|name| {
                chosen.plan.find(name).ok_or_else(|| format!("--explain: {name} is not among the tasks to run"))
            })
            .collect();
        let explained = match explained {
            Ok(explained) => explained,
            Err(what) => return refuse(&[what]),
        };
        let mut screen = Screen::new(chosen.plan.clone(), args.quiet, !args.no_progress);
        warnings.iter().for_each(|warning| screen.say(&format!("shardrun: {warning}")));
        if let Some(path) = &args.graph
            && let Err(error) = report::graph(path, &chosen, &self.file.tasks)
        {
            screen.complain(&format!("{}: {error}", path.display()));
        }
        if args.list {
            screen.show(&report::list(&self.file.tasks));
        } else if args.dry_run {
            screen.show(&report::order(&chosen.plan, &order(&chosen), &chosen.places, &self.file.tasks));
        } else {
            return self.go(args, chosen, explained, (&mut past, seen), &mut screen);
        }
        ExitCode::from(u8::from(screen.troubled))
    }

    fn go(
        &self,
        args: &RunArgs,
        mut chosen: Chosen,
        explained: Vec<TaskId>,
        (past, seen): (&mut History, Seen),
        screen: &mut Screen,
    ) -> ExitCode {
        // Created before the run, so that a place where nothing can be written is told at once.
        let trace = self.trace.as_deref().and_then(|path| {
            let complain = |error| screen.complain(&format!("{}: {error}", path.display()));
            File::create(path).map_err(complain).ok().map(|file| (path, file))
        });
        if let Err(error) = std::env::set_current_dir(&self.folder) {
            screen.complain(&format!("{}: {error}", self.folder.display()));
            return ExitCode::FAILURE;
        }
        let jobs = chosen.plan.concurrency().unwrap_or(1);
        let mut policies: Vec<Box<dyn Policy>> = Vec::new();
        policies.extend(chosen.budget.take().map(|budget| Box::new(budget) as Box<dyn Policy>));
        policies.extend(self.file.headroom.map(|headroom| match headroom {
            Headroom::Bytes(bytes) => Box::new(MemoryPressure::keep_bytes(bytes)) as Box<dyn Policy>,
            Headroom::Percent(percent) => Box::new(MemoryPressure::keep_percent(percent)),
        }));
        let server = jobserver(self.file.jobserver, jobs, &mut policies, screen);
        let keep_going = args.keep_going.map(ContinueMode::StopAfter);
        let settings = Settings {
            mode: keep_going.or(args.mode).or(self.file.mode).unwrap_or_default(),
            policies,
            makeflags: server.as_ref().map(JobServer::makeflags),
            output_max: args.max_output as usize * (1 << 20),
        };
        let went = match course::run(&self.file, &chosen, settings, screen) {
            Ok(went) => went,
            Err(error) => {
                screen.complain(&error.to_string());
                return ExitCode::FAILURE;
            }
        };
        drop(server);
        self.afterwards(args, &went.report, &explained, trace, screen);
        if !args.no_history
            && let Err(error) = remember(past, &seen, &went.report, &self.folder.join(HISTORY))
        {
            screen.say(&format!("shardrun: the times of this run cannot be kept in {HISTORY}: {error}"));
        }
        code(&went, screen)
    }

    fn afterwards(
        &self,
        args: &RunArgs,
        report: &RunReport,
        explained: &[TaskId],
        trace: Option<(&Path, File)>,
        screen: &mut Screen,
    ) {
        screen.finish(report.tally(), report.elapsed());
        if args.summary {
            screen.show(&report::summary(report));
        }
        for task in explained {
            screen.show(&report::explain(report, *task));
        }
        if let Some((path, file)) = trace
            && let Err(error) = report::trace(file, report)
        {
            screen.complain(&format!("{}: {error}", path.display()));
        }
    }
}

fn code(went: &Went, screen: &Screen) -> ExitCode {
    let well = went.report.is_success() && !went.died && !screen.troubled;
    match (went.interrupted, well) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    }
}

/// As a task of make we share its jobs; else, if the file wants it, the commands share ours.
fn jobserver(
    wanted: Option<Sharing>,
    jobs: u32,
    policies: &mut Vec<Box<dyn Policy>>,
    screen: &mut Screen,
) -> Option<JobServer> {
    if wanted == Some(Sharing::No) {
        return None;
    }
    match JobClient::from_env() {
        Ok(Some(client)) => {
            policies.push(Box::new(client));
            return None;
        }
        Ok(None) => {}
        Err(error) => screen.say(&format!("shardrun: {error}; going on without make's job server")),
    }
    let server = match wanted? {
        Sharing::Fifo => JobServer::fifo(jobs, &std::env::temp_dir()),
        _ => JobServer::pipe(jobs),
    };
    let server = server.and_then(|server| server.client().map(|client| (server, client)));
    match server {
        Ok((server, client)) => {
            policies.push(Box::new(client));
            Some(server)
        }
        Err(error) => {
            screen.complain(&format!("no job server: {error}"));
            None
        }
    }
}

/// The order in which the tasks would start, one at a time.
fn order(chosen: &Chosen) -> Vec<TaskId> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let Ok(runtime) = Runtime::builder().driver(Driver::Inline).build() else { return Vec::new() };
    let seen = order.clone();
    let body = move |cx: &TaskCx| seen.lock().unwrap_or_else(PoisonError::into_inner).push(cx.task());
    let run = Run::<()>::new(chosen.plan.clone()).start(&runtime, body);
    runtime.drive_all();
    run.detach();
    let order = order.lock().unwrap_or_else(PoisonError::into_inner);
    order.clone()
}

/// Which file a history was read from: another run of the same folder may replace it meanwhile.
#[derive(PartialEq, Eq)]
struct Seen(Option<(u64, u64, i64, i64)>);

impl Seen {
    fn of(path: &Path) -> Self {
        let metadata = fs::metadata(path).ok();
        Self(metadata.map(|file| (file.ino(), file.len(), file.mtime(), file.mtime_nsec())))
    }
}

/// Keeps how long the tasks took.
fn remember(past: &mut History, seen: &Seen, report: &RunReport, path: &Path) -> io::Result<()> {
    if Seen::of(path) != *seen {
        *past = History::load(path).0;
    }
    past.record(report);
    if let Some(folder) = path.parent()
        && !folder.exists()
    {
        fs::create_dir_all(folder)?;
        // What is in it is nobody else's business.
        fs::write(folder.join(".gitignore"), "*\n")?;
    }
    past.save(path)
}
