//! `shardrun index` on a big tree, beside the same functions per file under a plain rayon loop; both are processes of their own.
//! It does not know how either works: it takes their wall and CPU time, and asks that both find the same.

use crate::Effort;
use crate::pools::Place;
use serde_json::Value;
use shardrun_perf::place;
use shardrun_perf::series::{Sample, Series};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const WALL: &str = "wall ms";
const CPU: &str = "cpu ms";

/// The tree: `SHARDRUN_TREE`, or what `perf/tree` has unpacked.
fn tree() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let unpacked = || Some(cache()?.join("shardrun/linux-source-6.1"));
    set("SHARDRUN_TREE").or_else(unpacked).filter(|folder| folder.is_dir())
}

/// Runs the command to its end: its time, and the figures that it prints as JSON.
fn run(program: &Path, arguments: &[&std::ffi::OsStr]) -> (Sample, Value) {
    let before = place::cpu_of_children();
    let begun = Instant::now();
    let output = Command::new(program).args(arguments).stderr(Stdio::null()).output();
    let wall = begun.elapsed().as_secs_f64() * 1e3;
    let cpu = (place::cpu_of_children() - before).as_secs_f64() * 1e3;
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let printed = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (vec![(WALL, wall), (CPU, cpu)], printed)
}

/// Both in turn; the page cache is warm after the first round, which is thrown away.
pub fn index(place: &Place, effort: Effort) -> Vec<Value> {
    // The tool and its rival use the system's allocator, whatever this binary uses: they stand in the plain target folder.
    let built = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    let [ours, rival] = ["shardrun", "rayon_index"].map(|name| built.join("release").join(name));
    let Some(tree) = tree() else {
        eprintln!("no tree: run perf/tree, or set SHARDRUN_TREE");
        return Vec::new();
    };
    if let Some(missing) = [&ours, &rival].into_iter().find(|program| !program.exists()) {
        eprintln!("{} is missing: cargo build --release --workspace --features cli", missing.display());
        return Vec::new();
    }
    let (theirs, mine) = (run(&rival, &[tree.as_os_str()]).1, run(&ours, &arguments(&tree)).1);
    for figure in ["files", "bytes", "edges"] {
        assert_eq!(mine[figure], theirs[figure], "both find the same {figure}");
    }
    let what =
        format!("index of {} files, {} MB, warm cache", mine["files"], mine["bytes"].as_u64().unwrap_or(0) >> 20);
    let mut series = Series::new(what, format!("{}; each process free to use both", place.says));
    series.peer("rayon loop", || run(&rival, &[tree.as_os_str()]).0);
    series.peer("shardrun index", || run(&ours, &arguments(&tree)).0);
    series.at_most("shardrun index", WALL, 1.05, &["rayon loop"]);
    series.at_most("shardrun index", CPU, 1.05, &["rayon loop"]);
    vec![series.run(effort.rounds)]
}

fn arguments(tree: &Path) -> [&std::ffi::OsStr; 4] {
    ["index".as_ref(), "--json".as_ref(), "--no-progress".as_ref(), tree.as_os_str()]
}
