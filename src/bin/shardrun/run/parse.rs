//! Reads a task file into its shape, value by value, and gathers what is wrong with each.
//! It does not know whether the tasks fit together.
#![forbid(unsafe_code)]

use super::document::Document;
use super::faults::Faults;
use super::shape::{Command, GRACE, Headroom, MODES, Package, Retries, Sharing, Task, TaskFile, Variable};
use super::values::{Field, Named, Section};
use shardrun::{ContinueMode, Memory};
use std::time::Duration;

const FILE_KEYS: [&str; 13] = [
    "concurrency",
    "continue",
    "default",
    "drain_after",
    "environment",
    "grace",
    "headroom",
    "jobserver",
    "memory",
    "packages",
    "pools",
    "resources",
    "tasks",
];
const TASK_KEYS: [&str; 15] = [
    "command",
    "dependencies",
    "description",
    "directory",
    "environment",
    "exclusive",
    "grace",
    "memory",
    "mutex",
    "persistent",
    "pool",
    "ready",
    "resources",
    "retries",
    "timeout",
];
/// Keys that are read with or without a command; the others mean something for a command only.
const COMMON_KEYS: [&str; 3] = ["command", "dependencies", "description"];
const RETRIES_MAX: u32 = 1000;

/// Reads a file. What is wrong is in `faults`; what is returned then is incomplete.
pub(super) fn parse<'f>(document: &'f Document<'f>, faults: &'f Faults<'f>) -> TaskFile<'f> {
    let mut file = TaskFile::default();
    if faults.are_none() {
        read(Section::root(document, faults), faults, &mut file);
    }
    file
}

fn read<'f>(mut top: Section<'f>, faults: &'f Faults<'f>, file: &mut TaskFile<'f>) {
    file.concurrency = top.take("concurrency").and_then(|field| field.count(1));
    file.drain_after = top.take("drain_after").and_then(|field| field.count(1));
    file.mode = top.take("continue").and_then(|field| mode(&field));
    file.jobserver = top.take("jobserver").and_then(|field| sharing(&field));
    file.headroom = top.take("headroom").and_then(|field| headroom(&field));
    file.default = top.take("default").and_then(|field| field.strings());
    let grace = top.take("grace").and_then(|field| field.duration()).unwrap_or(GRACE);
    file.environment = top.take("environment").map(|field| environment(&field)).unwrap_or_default();
    for field in fields(top.take("pools")) {
        file.pools.extend(field.count(1).map(|capacity| (field.key, capacity)));
    }
    for field in fields(top.take("resources")) {
        file.resources.extend(field.amount().map(|amount| (field.key, amount)));
    }
    file.memory = top.take("memory").and_then(|field| memory(&field));
    for field in fields(top.take("packages")) {
        let package = |on| Package { name: field.key, on };
        file.packages.extend(field.strings().map(package));
    }
    match top.take("tasks") {
        Some(tasks) => {
            for field in fields(Some(tasks)) {
                file.tasks.extend(task(&field, faults, grace));
            }
        }
        None => faults.add(0, None, "there are no tasks: write them as [tasks.NAME]"),
    }
    top.finish(&FILE_KEYS);
}

fn fields<'f>(table: Option<Field<'f>>) -> impl Iterator<Item = Field<'f>> {
    table.and_then(|table| table.section()).into_iter().flat_map(Section::all)
}

/// How much memory there is: what is said, or what the system says.
fn memory(field: &Field<'_>) -> Option<u64> {
    if !field.is_true() {
        return field.amount_or("must be true, for all that there is, or a size such as \"512MiB\" or \"2GB\"");
    }
    let memory = Memory::now().map(|memory| memory.total);
    memory.or_else(|| field.wrong("is true, but the system does not say how much there is: say it here"))
}

fn sharing(field: &Field<'_>) -> Option<Sharing> {
    if field.is_string() {
        return match field.string()?.name {
            "fifo" => Some(Sharing::Fifo),
            _ => field.wrong("must be true, false or \"fifo\""),
        };
    }
    field.bool().map(|wanted| if wanted { Sharing::Pipe } else { Sharing::No })
}

fn headroom(field: &Field<'_>) -> Option<Headroom> {
    let percent = || field.as_text()?.strip_suffix('%')?.trim().parse().ok().filter(|percent| *percent <= 100);
    match percent() {
        Some(percent) => Some(Headroom::Percent(percent)),
        None => field.amount_or("must be a size such as \"2GB\", or a share such as \"10%\"").map(Headroom::Bytes),
    }
}

fn mode(field: &Field<'_>) -> Option<ContinueMode> {
    let word = field.string()?.name;
    let found = MODES.iter().find(|(name, _)| *name == word).map(|(_, mode)| *mode);
    found.or_else(|| field.wrong("must be one of never, deps-ok, always, kill"))
}

fn environment<'f>(field: &Field<'f>) -> Vec<Variable<'f>> {
    let variable = |field: Field<'f>| {
        if field.key.is_empty() || field.key.contains(['=', '\0']) {
            return field.wrong("cannot be the name of a variable");
        }
        let value = if field.is_false() {
            None
        } else if field.is_string() {
            Some(field.string()?.name)
        } else {
            return field.wrong("must be a string, or false to remove the variable");
        };
        Some((field.key, value))
    };
    fields(Some(*field)).filter_map(variable).collect()
}

fn task<'f>(field: &Field<'f>, faults: &Faults<'_>, grace: Duration) -> Option<Task<'f>> {
    let name = field.key;
    check_name(field)?;
    if !field.is_table() {
        return field.wrong("must be a table with a command or dependencies");
    }
    let mut keys = field.section_of(name)?;
    let command = keys.take("command");
    if command.is_none() {
        for key in TASK_KEYS.into_iter().filter(|key| !COMMON_KEYS.contains(key)) {
            if let Some(field) = keys.take(key) {
                _ = field.wrong::<()>("means nothing for a task without a command");
            }
        }
    }
    let mut task = Task {
        name,
        at: field.key_at,
        description: keys.take("description").and_then(|field| field.string()).map(|text| text.name),
        dependencies: keys.take("dependencies").and_then(|field| field.strings()).unwrap_or_default(),
        environment: keys.take("environment").map(|field| environment(&field)).unwrap_or_default(),
        directory: keys.take("directory").and_then(|field| field.string()).map(|text| text.name),
        pool: keys.take("pool").and_then(|field| field.string()),
        resources: Vec::new(),
        memory: keys.take("memory").and_then(|field| Some((field.amount()?, field.at))),
        mutexes: Vec::new(),
        exclusive: keys.take("exclusive").and_then(|field| field.bool()).unwrap_or(false),
        retries: keys.take("retries").and_then(|field| retries(&field)).unwrap_or_default(),
        timeout: keys.take("timeout").and_then(|field| field.some_time()),
        grace: keys.take("grace").and_then(|field| field.duration()).unwrap_or(grace),
        persistent: keys.take("persistent").and_then(|field| field.bool()).unwrap_or(false),
        ready: keys.take("ready").and_then(|field| field.string()).map(|text| text.name),
        command: None,
    };
    if let Some(field) = command {
        task.command = self::command(&field);
    } else if task.dependencies.is_empty() {
        faults.add(task.at, Some(name), "has neither a command nor dependencies");
    }
    for field in fields(keys.take("resources")) {
        let axis = Named { name: field.key, at: field.key_at };
        task.resources.extend(field.amount().map(|amount| (axis, amount)));
    }
    let mutexes = keys.take("mutex").and_then(|field| field.strings()).unwrap_or_default();
    task.mutexes = mutexes.into_iter().map(|mutex| mutex.name).collect();
    keys.finish(&TASK_KEYS);
    check(&task, faults);
    Some(task)
}

fn check_name(field: &Field<'_>) -> Option<()> {
    let name = field.key;
    if name.is_empty() || name.trim() != name || name.contains(char::is_control) {
        return field
            .wrong("cannot be the name of a task: it is empty, or has a space at an end, or a control character");
    }
    if name.starts_with(['^', '-']) {
        return field.wrong("cannot be the name of a task: it must not begin with ^ or -");
    }
    Some(())
}

fn check(task: &Task<'_>, faults: &Faults<'_>) {
    let wrong = |what: &str| faults.add(task.at, Some(task.name), what);
    if task.pool.is_some() && task.reserves() {
        wrong(
            "is in a `pool`, so `resources`, `memory`, `mutex` and `exclusive` would not hold for it: they are for tasks outside pools",
        );
    }
    if task.ready.is_some() && !task.persistent {
        wrong("has `ready`, which is for tasks that are `persistent = true`");
    }
    if task.ready.is_some_and(str::is_empty) {
        wrong("has an empty text in `ready`");
    }
}

fn command<'f>(field: &Field<'f>) -> Option<Command<'f>> {
    if field.is_string() {
        let text = field.string()?.name;
        return if text.trim().is_empty() { field.wrong("is empty") } else { Some(Command::Shell(text)) };
    }
    let words: Vec<&str> = field.strings()?.into_iter().map(|word| word.name).collect();
    match words.first() {
        Some(program) if !program.is_empty() => Some(Command::Direct(words)),
        _ => field.wrong("is empty"),
    }
}

fn retries(field: &Field<'_>) -> Option<Retries> {
    let mut retries = Retries::default();
    let times = |field: &Field<'_>| {
        let times = field.count(0)?;
        if times <= RETRIES_MAX { Some(times) } else { field.wrong("must be at most 1000") }
    };
    if !field.is_table() {
        retries.times = times(field)?;
        return Some(retries);
    }
    let mut keys = field.section()?;
    match keys.take("times") {
        Some(field) => retries.times = times(&field)?,
        None => return field.wrong("must say how many `times`"),
    }
    if let Some(field) = keys.take("wait") {
        retries.wait = field.duration()?;
    }
    if let Some(field) = keys.take("longest") {
        retries.longest = field.duration()?;
    }
    keys.finish(&["times", "wait", "longest"]);
    Some(retries)
}
