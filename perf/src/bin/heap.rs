//! Heap per idle file of the staged scheduler, for several numbers of workers, heap per task of a graph at its highest, and
//! allocations per operation, by a counting allocator. It does not count what the allocator itself keeps beside the blocks,
//! nor the host's data: a file is a number, a task has no name.
//!
//! `cargo run --release -p shardrun-perf --bin heap [FILES]`, or `heap graph TASKS` for the graph's figures as JSON

use serde_json::json;
use shardrun::{CountedRun, Driver, Request, Run, Runtime, Stages};
use shardrun_perf::counting::{Counting, most_bytes, snapshot};
use shardrun_perf::graphs::Shape;
use shardrun_perf::host::Memory;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a file may cost with Source only.
const AT_MOST: f64 = 400.0;

/// What a graph's task may cost, plan and run together, at the highest.
const TASK_AT_MOST: f64 = 200.0;

fn main() -> std::process::ExitCode {
    let mut words = std::env::args().skip(1);
    if words.next().is_some_and(|word| word == "graph") {
        let tasks = words.next().and_then(|word| word.parse().ok()).unwrap_or(1_000_000);
        let [counted, decided] = graph(tasks);
        println!("{}", json!({ "plan and CountedRun": counted, "plan and Run": decided }));
        return std::process::ExitCode::SUCCESS;
    }
    let files: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(100_000);
    println!("| workers | stages done | bytes per file | blocks per file |\n|---|---|---|---|");
    let bare = bare_map(files);
    println!("| – | a bare papaya map, number to `Arc<()>` | {:.1} | {:.2} |", bare.0, bare.1);
    let mut worst = 0.0f64;
    let mut rows = Vec::new();
    for workers in [1, 2, 16, 64] {
        for chain in [false, true] {
            let (bytes, blocks) = per_file(files, workers, chain);
            let stages = if chain { "Source, Analysis, one Artifact" } else { "Source" };
            println!("| {workers} | {stages} | {bytes:.1} | {blocks:.2} |");
            rows.push(json!({ "workers": workers, "stages": stages, "bytes": bytes, "blocks": blocks }));
            if !chain {
                worst = worst.max(bytes);
            }
        }
    }
    println!("\n| tasks with 3 dependencies | what | bytes per task at the highest |\n|---|---|---|");
    let tasks = 10 * files;
    let of_graph = graph(tasks as usize);
    for (what, bytes) in ["plan and CountedRun", "plan and Run"].iter().zip(of_graph) {
        println!("| {tasks} | {what} | {bytes:.1} |");
    }
    println!("\n| operation | allocations | bytes asked for |\n|---|---|---|");
    allocations_per_operation();
    let verdict = |met: bool| if met { "reached" } else { "MISSED" };
    let of_file = verdict(worst <= AT_MOST);
    println!("\nheap per idle file with Source only, worst over the workers: {worst:.1} ≤ {AT_MOST}: {of_file}");
    let most = of_graph[0].max(of_graph[1]);
    println!("heap per task, plan and run: {most:.1} ≤ {TASK_AT_MOST}: {}", verdict(most <= TASK_AT_MOST));
    let out = concat!(env!("CARGO_MANIFEST_DIR"), "/out");
    let text = json!({ "files": files, "bare_papaya": bare.0, "rows": rows, "graph": of_graph }).to_string();
    if let Err(error) = std::fs::create_dir_all(out).and_then(|()| std::fs::write(format!("{out}/heap.json"), text)) {
        eprintln!("{out}: {error}");
    }
    let met = worst <= AT_MOST && most <= TASK_AT_MOST;
    if met { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}

/// Live bytes per task at the highest, from the first word of the plan to the end of a run by counters, and of a decided one.
fn graph(tasks: usize) -> [f64; 2] {
    let shape = Shape::random(tasks);
    let runtime = Runtime::builder().driver(Driver::Inline).build().expect("the runtime starts");
    let of = |run: &dyn Fn()| {
        let before = snapshot().live_bytes;
        most_bytes();
        run();
        (most_bytes() - before) as f64 / tasks as f64
    };
    let counted = of(&|| {
        let run = CountedRun::new(shape.plan()).expect("the plan says nothing more").start(&runtime, |_| ());
        runtime.drive_all();
        drop(run);
    });
    let decided = of(&|| {
        let run = Run::<()>::new(shape.plan()).start(&runtime, |_| ());
        runtime.drive_all();
        drop(run);
    });
    [counted, decided]
}

/// Calls of the allocator per operation, on the inline driver, so on one thread. The host's own block per value is among them.
fn allocations_per_operation() {
    const N: u64 = 10_000;
    let runtime = Runtime::builder().driver(Driver::Inline).build().expect("the runtime starts");
    let scheduler = Stages::new(&runtime, Memory);
    let row = |name: &str, work: &mut dyn FnMut()| {
        let before = snapshot();
        work();
        let after = snapshot();
        let per = |count: u64| count as f64 / N as f64;
        println!("| {name} | {:.2} | {:.0} |", per(after.calls - before.calls), per(after.bytes - before.bytes));
    };
    row("spawn and wait", &mut || (0..N).for_each(|n| drop(runtime.spawn(move || n).wait())));
    row("call", &mut || (0..N).for_each(|n| drop(runtime.call(move || n))));
    row("fresh Source", &mut || ask(&scheduler, 0..N, false));
    row("Analysis and Artifact of a Source that is there", &mut || ask(&scheduler, 0..N, true));
    row("satisfied Source", &mut || ask(&scheduler, 0..N, false));
    row("read", &mut || (0..N).for_each(|file| drop(scheduler.try_get_source(&file))));
    row("edit and Source again", &mut || {
        (0..N).for_each(|file| drop(scheduler.submit_request(Request::source(file).text(file)).wait()));
    });
    row("member of an atomic batch of 1,000 edits", &mut || {
        for first in (0..N).step_by(1_000) {
            let edits = (first..first + 1_000).map(|file| Request::source(file).text(file));
            drop(scheduler.wait_batch(scheduler.submit_batch_atomic(edits)));
        }
    });
}

fn bare_map(files: u64) -> (f64, f64) {
    let before = snapshot();
    let map = papaya::HashMap::<u64, Arc<()>, ahash::RandomState>::with_hasher(ahash::RandomState::new());
    (0..files).for_each(|file| {
        map.pin().insert(file, Arc::new(()));
    });
    let after = snapshot();
    let per = |bytes: i64| bytes as f64 / files as f64;
    (per(after.live_bytes - before.live_bytes), per(after.live_blocks - before.live_blocks))
}

/// Live bytes and blocks per file once all is done and the handles are gone, less what the empty scheduler had.
fn per_file(files: u64, workers: usize, chain: bool) -> (f64, f64) {
    let runtime = Runtime::builder().workers(workers).build().expect("the runtime starts");
    let scheduler = Stages::new(&runtime, Memory);
    ask(&scheduler, 0..1, chain);
    let before = snapshot();
    ask(&scheduler, 1..files + 1, chain);
    // Garbage that waits for an epoch is not what a file costs: a little more work moves the epoch on.
    (0..200).for_each(|_| ask(&scheduler, 0..1, chain));
    let after = snapshot();
    let per = |bytes: i64| bytes as f64 / files as f64;
    (per(after.live_bytes - before.live_bytes), per(after.live_blocks - before.live_blocks))
}

fn ask(scheduler: &Stages<Memory>, files: std::ops::Range<u64>, chain: bool) {
    for file in files {
        if chain {
            scheduler.submit_request(Request::artifact(file, 0)).wait().expect("the stage does not fail");
        } else {
            scheduler.submit_request(Request::source(file)).wait().expect("the stage does not fail");
        }
    }
}
