//! What is told of a run: its graph, its trace, where the time went, and what became of one task.
//! It does not know how the tasks were run.
#![forbid(unsafe_code)]

use super::super::console::OneLine;
use super::graph::Chosen;
use super::screen::time;
use super::shape::Task;
use shardrun::{DotWriter, Plan, RunReport, RunTimes, TaskId, TaskStatus, TraceWriter};
use std::cmp::Reverse;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::time::Duration;

/// Tasks that a list of the most of something shows.
const SHOWN: usize = 5;

/// Writes the graph of what was chosen.
pub(super) fn graph(path: &Path, chosen: &Chosen, tasks: &[Task<'_>]) -> io::Result<()> {
    let mut dot = DotWriter::new(BufWriter::new(File::create(path)?), "tasks")?;
    dot.attribute("rankdir", "LR")?;
    for (task, place) in chosen.plan.tasks().zip(&chosen.places) {
        let shape = match &tasks[*place] {
            task if task.command.is_none() => "ellipse",
            task if task.persistent => "cds",
            _ => "box",
        };
        let command = tasks[*place].command.as_ref().map(|command| command.shown()).unwrap_or_default();
        dot.node(chosen.plan.name(task), &[("shape", shape), ("tooltip", &command)])?;
    }
    for task in chosen.plan.tasks() {
        for dependency in chosen.plan.dependencies(task) {
            dot.edge(chosen.plan.name(dependency), chosen.plan.name(task), &[])?;
        }
    }
    dot.finish().map(drop)
}

/// Writes a span for each task that ran, on as few tracks as there were tasks at a time.
pub(super) fn trace(file: File, report: &RunReport) -> io::Result<()> {
    let mut trace = TraceWriter::new(BufWriter::new(file))?;
    trace.process_name("shardrun run")?;
    let mut spans: Vec<_> = report.outcomes().filter(|outcome| outcome.ran()).collect();
    spans.sort_by_key(|outcome| (outcome.began(), outcome.task()));
    // When each track is free again.
    let mut tracks: Vec<Duration> = Vec::new();
    for outcome in spans {
        let (began, ended) = (outcome.began(), outcome.began() + outcome.duration());
        let track = match tracks.iter().position(|free| *free <= began) {
            Some(track) => track,
            None => {
                trace.track_name(tracks.len() as u32, &format!("slot {}", tracks.len()))?;
                tracks.push(Duration::ZERO);
                tracks.len() - 1
            }
        };
        tracks[track] = ended;
        let (name, status) = (report.plan().name(outcome.task()), word(outcome.status()));
        let (attempts, wait) = (outcome.attempts().to_string(), time(outcome.slot_wait()));
        let arguments = [("status", status), ("attempts", &attempts), ("waited for a slot", &wait)];
        trace.span(track as u32, name, status, began, outcome.duration(), &arguments)?;
    }
    trace.finish().map(drop)
}

fn word(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Failed => "failed",
        TaskStatus::Skipped => "skipped",
        TaskStatus::Aborted => "aborted",
        _ => "ok",
    }
}

/// Where the time went.
pub(super) fn summary(report: &RunReport) -> String {
    let (plan, times) = (report.plan(), RunTimes::new(report));
    let work: Duration = report.outcomes().map(|outcome| outcome.duration()).sum();
    let elapsed = report.elapsed();
    let mut text = String::new();
    let share = work.as_secs_f64() / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    _ = writeln!(text, "\n{} of commands in {}: {share:.1} at a time", time(work), time(elapsed));
    _ = writeln!(text, "critical path");
    for task in times.critical_path() {
        let outcome = report.outcome(*task);
        if outcome.ran() {
            _ = writeln!(text, "  {:>12}  {}", time(outcome.duration()), plan.name(*task));
        }
    }
    most(&mut text, report, "longest", |task| report.outcome(task).duration());
    most(&mut text, report, "longest waits for a slot", |task| report.outcome(task).slot_wait());
    most(&mut text, report, "longest waits for resources", |task| report.outcome(task).held().unwrap_or_default());
    let mut peaks: Vec<(u64, TaskId)> =
        report.outcomes().filter_map(|outcome| Some((outcome.peak_memory()?, outcome.task()))).collect();
    peaks.sort_by_key(|(peak, task)| (Reverse(*peak), *task));
    if !peaks.is_empty() {
        _ = writeln!(text, "most memory");
    }
    for (peak, task) in peaks.into_iter().take(SHOWN) {
        _ = writeln!(text, "  {:>12}  {}", memory(peak), plan.name(task));
    }
    text
}

/// Bytes for people.
fn memory(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

fn most(text: &mut String, report: &RunReport, what: &str, of: impl Fn(TaskId) -> Duration) {
    let mut tasks: Vec<(Duration, TaskId)> = report.plan().tasks().map(|task| (of(task), task)).collect();
    tasks.retain(|(time, _)| *time >= Duration::from_millis(1));
    tasks.sort_by_key(|(time, task)| (Reverse(*time), *task));
    if !tasks.is_empty() {
        _ = writeln!(text, "{what}");
    }
    for (of, task) in tasks.into_iter().take(SHOWN) {
        _ = writeln!(text, "  {:>12}  {}", time(of), report.plan().name(task));
    }
}

/// What became of one task, and why then.
pub(super) fn explain(report: &RunReport, task: TaskId) -> String {
    let (plan, times, outcome) = (report.plan(), RunTimes::new(report), report.outcome(task));
    let mut text = String::new();
    _ = writeln!(text, "\n{}: {}", plan.name(task), word(outcome.status()));
    match times.waited_for(task) {
        None => _ = writeln!(text, "  ready       at the start: it depends on nothing"),
        Some(last) => {
            let others = plan.dependencies(task).len() - 1;
            let rest = if others == 0 { String::new() } else { format!(", the last of {} dependencies", others + 1) };
            _ = writeln!(
                text,
                "  ready       at {}, when {} had ended{rest}",
                time(times.ready(task)),
                plan.name(last)
            );
        }
    }
    if let Some(root) = outcome.blocked_by() {
        _ = writeln!(text, "  not run     because of {}", plan.name(root));
    } else if !outcome.ran() {
        _ = writeln!(text, "  not run");
    } else {
        let wait = outcome.slot_wait();
        let slot = if wait < Duration::from_millis(1) { String::new() } else { format!(", {} for a slot", time(wait)) };
        let held = outcome.held().map(|held| format!(", {} for resources", time(held))).unwrap_or_default();
        let gap = time(outcome.began().saturating_sub(times.ready(task)));
        _ = writeln!(text, "  started     at {}: it waited {gap}{slot}{held}", time(outcome.began()));
        let attempts =
            if outcome.attempts() > 1 { format!(", in {} attempts", outcome.attempts()) } else { String::new() };
        _ = writeln!(text, "  took        {}{attempts}", time(outcome.duration()));
    }
    let held_up: Vec<&str> = times.held_up(task, plan).map(|task| plan.name(task)).collect();
    let dependents = plan.dependents(task).len();
    match held_up.len() {
        0 if dependents == 0 => _ = writeln!(text, "  held up     nothing: nothing depends on it"),
        0 => _ = writeln!(text, "  held up     nothing: all of its {dependents} dependents waited longer for others"),
        _ => _ = writeln!(text, "  held up     {}", held_up.join(", ")),
    }
    let path = times.critical_path();
    let critical = if path.contains(&task) { "is on it" } else { "is not on it" };
    let path = path.iter().map(|task| plan.name(*task)).collect::<Vec<_>>().join(" -> ");
    _ = writeln!(text, "  critical    {critical}: {path}");
    text
}

/// The tasks of a file, a line each.
pub(super) fn list(tasks: &[Task<'_>]) -> String {
    let width = tasks.iter().map(|task| task.name.chars().count()).max().unwrap_or(0).min(40);
    let mut text = String::new();
    for task in tasks {
        let what = match (&task.description, &task.command) {
            (Some(description), _) => (*description).to_owned(),
            (None, Some(command)) => command.shown(),
            (None, None) => {
                let names = task.dependencies.iter().map(|dependency| dependency.name);
                format!("all of {}", names.collect::<Vec<_>>().join(", "))
            }
        };
        _ = writeln!(text, "{:<width$}  {}", task.name, OneLine(&what));
    }
    text
}

/// The tasks in the order in which they would start one at a time.
pub(super) fn order(plan: &Plan, order: &[TaskId], places: &[usize], tasks: &[Task<'_>]) -> String {
    let width = order.iter().map(|task| plan.name(*task).chars().count()).max().unwrap_or(0).min(40);
    let mut text = String::new();
    for task in order {
        let command = tasks[places[task.index()]].command.as_ref().map(|command| command.shown()).unwrap_or_default();
        _ = writeln!(text, "{:<width$}  {}", plan.name(*task), OneLine(&command));
    }
    text
}
