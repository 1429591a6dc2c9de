//! Prints measured groups as markdown, and keeps them in `perf/out`.
//! It does not know how anything was measured.

use serde_json::{Map, Value, json};
use shardrun_perf::ALLOCATOR;
use std::path::PathBuf;
use std::process::Command;

fn kept_in(allocator: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("out");
    folder.join(format!("ratios.{}.json", allocator.split(' ').next().unwrap_or(allocator)))
}

fn kept(allocator: &str) -> Value {
    let bytes = std::fs::read(kept_in(allocator)).ok();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_else(|| json!({}))
}

fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_string()
}

/// The machine in one line: processor, CPUs, kernel, compiler.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    let guest = if info.contains("hypervisor") { "a virtual machine" } else { "bare metal" };
    let kernel = first_line("uname", &["-sr"]);
    let model = model.trim_start_matches(['\t', ' ', ':']);
    format!("{model}, {cpus} CPUs, {guest}, {kernel}, {}", first_line("rustc", &["-V"]))
}

/// Says where and with what the figures are made.
pub fn print_head() {
    println!("Machine: {}. Allocator: {ALLOCATOR}.", machine());
}

/// Adds the group to `perf/out`, replacing its former figures in the same placement.
pub fn keep(group: &str, placement: &str, measured: &Value) {
    let mut all = kept(ALLOCATOR);
    all["machine"] = json!(machine());
    all["allocator"] = json!(ALLOCATOR);
    all["groups"][format!("{group} {placement}")] = measured.clone();
    let path = kept_in(ALLOCATOR);
    let folder = path.parent().expect("the file stands in a folder");
    let text = serde_json::to_string_pretty(&all).expect("JSON can be written");
    if let Err(error) = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text)) {
        eprintln!("{}: {error}", path.display());
    }
}

/// Prints all that has been kept.
pub fn print_kept() {
    let all = kept(ALLOCATOR);
    println!("Machine: {}. Allocator: {}.", text(&all["machine"]), text(&all["allocator"]));
    for measured in all["groups"].as_object().unwrap_or(&Map::new()).values() {
        print_group(measured);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn figure(value: &Value) -> String {
    let value = value.as_f64().unwrap_or(f64::NAN);
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Prints one group: a table of medians (and the middle 80 % of rounds), then its goals.
pub fn print_group(measured: &Value) {
    println!("\n### {}: {}\n", text(&measured["group"]), text(&measured["about"]));
    if let Some(status) = measured.get("failed") {
        println!("failed: {}", text(status));
        return;
    }
    println!("{}.", text(&measured["noise_line"]));
    let objection = measured["objection"].as_str();
    for series in measured["series"].as_array().into_iter().flatten() {
        println!("\n**{}** ({}; {} rounds)\n", text(&series["workload"]), text(&series["placement"]), series["rounds"]);
        print_peers(series);
        for goal in series["goals"].as_array().into_iter().flatten() {
            let verdict = match (objection, goal["met"].as_bool()) {
                (Some(why), _) => format!("no verdict: {why}"),
                (None, Some(true)) => "reached".to_string(),
                (None, _) => "MISSED".to_string(),
            };
            println!("- {}: {} ({verdict})", text(&goal["goal"]), figure(&goal["reached"]));
        }
    }
}

fn print_peers(series: &Value) {
    println!("| peer | metric | median | middle 80 % |\n|---|---|---|---|");
    for peer in series["peers"].as_array().into_iter().flatten() {
        for (metric, figures) in peer["metrics"].as_object().into_iter().flatten() {
            let (low, high) = (figure(&figures["low"]), figure(&figures["high"]));
            println!("| {} | {metric} | {} | {low} to {high} |", text(&peer["peer"]), figure(&figures["median"]));
        }
    }
    println!();
}

/// One row of the table of goals: where it was measured, what is asked, and the figures per allocator.
#[derive(Default)]
struct Row {
    command: String,
    placement: String,
    goal: String,
    figures: [String; 2],
}

/// Prints the goals of all that has been kept with either allocator, one row each.
pub fn print_goals() {
    let both = ["system malloc", "mimalloc"].map(kept);
    let machine = both.iter().find_map(|all| all["machine"].as_str()).unwrap_or("nothing has been measured");
    println!("Machine: {machine}.\n");
    println!("| group | placement | asked | system malloc | mimalloc |\n|---|---|---|---|---|");
    let mut rows: Vec<Row> = Vec::new();
    for (column, all) in both.iter().enumerate() {
        for measured in all["groups"].as_object().into_iter().flatten().map(|(_, measured)| measured) {
            each_goal(measured, |command, placement, goal, figures| {
                let at = rows
                    .iter()
                    .position(|row| row.goal == goal && row.placement == placement && row.command == command);
                let at = at.unwrap_or_else(|| {
                    let (command, placement, goal) = (command.into(), placement.into(), goal.into());
                    rows.push(Row { command, placement, goal, ..Row::default() });
                    rows.len() - 1
                });
                rows[at].figures[column] = figures;
            });
        }
    }
    for Row { command, placement, goal, figures: [system, mimalloc] } in rows {
        println!("| `{command}` | {placement} | {goal} | {system} | {mimalloc} |");
    }
}

/// Calls `row` with the group, the placement, the goal and its figures, for every goal of the group.
fn each_goal(measured: &Value, mut row: impl FnMut(&str, &str, &str, String)) {
    for series in measured["series"].as_array().into_iter().flatten() {
        for goal in series["goals"].as_array().into_iter().flatten() {
            let mark = match (measured["objection"].is_string(), goal["met"].as_bool()) {
                (true, _) => "noisy, no verdict",
                (false, Some(true)) => "reached",
                (false, _) => "**missed**",
            };
            let (ours, reached) = (figure(&goal["ours"]), figure(&goal["reached"]));
            let figures = match goal["rival"].as_f64() {
                Some(_) => format!("{reached} ({ours} / {}) {mark}", figure(&goal["rival"])),
                None => format!("{ours} {mark}"),
            };
            let asked = format!("{}: {}", text(&series["workload"]), text(&goal["goal"]));
            row(text(&measured["group"]), text(&series["placement"]), &asked, figures);
        }
    }
}
