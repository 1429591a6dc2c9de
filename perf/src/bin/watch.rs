//! What `shardrun index --watch` takes from an event to its answer in a tree of 10,000 files, for edits that reach few and many of them,
//! and for files that come and go.
//! It does not know how the tool works: it takes the times that the tool prints, and its own beside them.
//!
//! `cargo build --release --features cli && cargo run --release -p shardrun-perf --bin watch`

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::Instant;

const FILES: usize = 10_000;
const EDITS: usize = 200;
const DEBOUNCE_MS: f64 = 10.0;

/// Each header includes three that are up to 30 further on, so that a header of number n is reached by almost all below it.
fn text(number: usize, salt: usize) -> String {
    let others = [1, 7, 30].map(|step| number + step).into_iter().filter(|&other| other < FILES);
    let includes: String = others.map(|other| format!("#include \"../{}\"\n", name(other))).collect();
    format!("{includes}/* {salt} */\n{}", "static int x;\n".repeat(100))
}

fn name(number: usize) -> String {
    format!("d{:02}/f{number}.h", number % 100)
}

/// Puts a file in its place in one step.
fn put(root: &Path, number: usize, salt: usize) {
    let beside = root.with_extension("beside");
    fs::write(&beside, text(number, salt)).expect("the temporary folder can be written");
    fs::rename(beside, root.join(name(number))).expect("the temporary folder can be written");
}

/// The next line, and when it was there.
fn line(lines: &mut std::io::Lines<BufReader<ChildStdout>>) -> (Value, Instant) {
    let line = lines.next().expect("the tool goes on").expect("the tool prints text");
    let came = Instant::now();
    (serde_json::from_str(&line).expect("the tool prints JSON"), came)
}

fn main() {
    let built = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    let root = std::env::temp_dir().join(format!("shardrun-perf-watch-{}", std::process::id()));
    for directory in 0..100 {
        fs::create_dir_all(root.join(format!("d{directory:02}"))).expect("the temporary folder can be written");
    }
    (0..FILES).for_each(|number| put(&root, number, 0));
    let mut child = Command::new(built.join("release/shardrun"))
        .args(["index", "--watch", "--json", "--no-progress", "--debounce", &DEBOUNCE_MS.to_string()])
        .arg(&root)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the tool is built: cargo build --release --features cli");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    while line(&mut lines).0.get("watching").is_none() {}
    println!(
        "| a burst in a tree of {FILES} files | reached | beyond the debounce, ms: p50 | p99 | seen from outside, ms: p50 | p99 |"
    );
    println!("|---|---|---|---|---|---|");
    for (what, number) in [("an edit", 9), ("an edit", 99), ("an edit", 999), ("an edit", FILES - 1)] {
        measure(what, &mut lines, |edit| put(&root, number, edit + 1));
    }
    let gone = root.join(name(FILES / 2));
    measure("a file goes or comes", &mut lines, |edit| match edit % 2 {
        0 => fs::remove_file(&gone).expect("it was there"),
        _ => put(&root, FILES / 2, 0),
    });
    child.kill().expect("it runs");
    let _ = child.wait();
    let _ = fs::remove_dir_all(root);
}

fn measure(what: &str, lines: &mut std::io::Lines<BufReader<ChildStdout>>, mut change: impl FnMut(usize)) {
    let (mut inside, mut outside, mut reached) = (Vec::new(), Vec::new(), 0);
    for edit in 0..EDITS {
        change(edit);
        let changed = Instant::now();
        let (burst, came) = line(lines);
        outside.push((came - changed).as_secs_f64() * 1e3 - DEBOUNCE_MS);
        inside.push(burst["beyond_debounce_ms"].as_f64().expect("a number"));
        reached = burst["reached"].as_object().expect("an object").len();
    }
    let at = |times: &mut Vec<f64>, share: usize| {
        times.sort_by(f64::total_cmp);
        times[(times.len() - 1) * share / 100]
    };
    let [i50, i99, o50, o99] = [at(&mut inside, 50), at(&mut inside, 99), at(&mut outside, 50), at(&mut outside, 99)];
    println!("| {what} | {reached} | {i50:.2} | {i99:.2} | {o50:.2} | {o99:.2} |");
}
