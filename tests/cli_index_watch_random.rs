//! `shardrun index --watch` in trees of many files and under random changes: what it says at the end is what an index from scratch
//! says, and what ran again on the way is what had to.
//! These tests do not know how the index works. They wait for lines, never for time.
#![cfg(all(feature = "cli", target_os = "linux"))]

mod cli;
#[path = "cli/watching.rs"]
mod watching;

use cli::{Random, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use watching::{Burst, Fresh, Watching, differing, fresh, replace};

const DIRECTORIES: [&str; 6] = ["", "src", "src/a", "src/b", "lib", "lib/a/b"];
const NAMES: [&str; 30] = [
    "a.h",
    "b.h",
    "c.h",
    "a.c",
    "b.c",
    "lib.rs",
    "main.rs",
    "mod.rs",
    "a.rs",
    "b.rs",
    "__init__.py",
    "a.py",
    "b.py",
    "a.pyi",
    "index.js",
    "a.js",
    "b.js",
    "a.ts",
    "b.tsx",
    "c.json",
    "a.go",
    "doc.go",
    "b.go",
    "A.java",
    "B.java",
    "package-info.java",
    "Cargo.toml",
    "go.mod",
    "notes.txt",
    ".ignore",
];

/// Some lines that import, in the language of the file.
fn text(name: &str, random: &mut Random) -> String {
    let lines: &[&str] = match name.rsplit('.').next().unwrap() {
        "h" | "c" => &[
            "#include \"a.h\"",
            "#include \"b.h\"",
            "#include <c.h>",
            "#include \"a/b.h\"",
            "#include \"../a.h\"",
            "#include \"lib/c.h\"",
            "#include \"notes.txt\"",
            "#include \"src/a/a.h\"",
        ],
        "rs" => &[
            "mod a;",
            "mod b;",
            "use crate::a::X;",
            "use super::b::Y;",
            "use a::b::Z;",
            "use one::a;",
            "use two::b::c;",
            "use self::a;",
            "extern crate one;",
            "#[path = \"b.rs\"] mod other;",
            "use super::super::a;",
        ],
        "py" | "pyi" => &[
            "import a",
            "from . import b",
            "from .. import a",
            "import src.a.b",
            "from lib.a import b",
            "from a import x",
        ],
        "js" | "ts" | "tsx" => &[
            "import './a';",
            "import './b.js';",
            "import '../a';",
            "import './index';",
            "import '.';",
            "import './c.json';",
            "import '..';",
            "import './a/b';",
        ],
        "go" => &["import \"m/src\"", "import \"m/src/a\"", "import \"m\"", "import \"./b\"", "import \"n/a/b\""],
        "java" => &["import a.A;", "import a.*;", "import src.a.B;", "import static a.b.B.x;", "import b.A.Inner;"],
        "toml" => &[
            "[package]\nname = \"one\"",
            "[package]\nname = \"two\"\n[lib]\npath = \"a.rs\"",
            "[package]\nname = \"two\"",
        ],
        "mod" => &["module m", "module n", "module m/src"],
        "ignore" => &["a.h", "b.*", "/lib/", "a.rs", "# nothing"],
        _ => &["some words"],
    };
    let head = match name.rsplit('.').next().unwrap() {
        "go" => "package p\n",
        _ => "",
    };
    let mut text = head.to_owned();
    for _ in 0..1 + random.below(3) {
        text += lines[random.below(lines.len() as u64) as usize];
        text.push('\n');
    }
    text
}

fn any<'s>(all: &[&'s str], random: &mut Random) -> &'s str {
    all[random.below(all.len() as u64) as usize]
}

fn place(random: &mut Random) -> String {
    let (directory, name) = (any(&DIRECTORIES, random), any(&NAMES, random));
    if directory.is_empty() { name.into() } else { format!("{directory}/{name}") }
}

fn files(root: &Path) -> Vec<PathBuf> {
    let mut todo = vec![root.to_path_buf()];
    let mut files = Vec::new();
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() { todo.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    files.sort();
    files
}

/// One random change.
fn change(tree: &Tree, random: &mut Random) {
    let root = tree.root();
    let all = files(&root);
    let one = |random: &mut Random| all.get(random.below(all.len().max(1) as u64) as usize).cloned();
    match random.below(20) {
        0..=7 => {
            let path = place(random);
            fs::create_dir_all(root.join(&path).parent().unwrap()).unwrap();
            let text = text(path.rsplit('/').next().unwrap(), random);
            replace(tree, &path, text);
        }
        8..=11 => {
            // In place, not by renaming.
            let Some(path) = one(random) else { return };
            let text = text(path.file_name().unwrap().to_str().unwrap(), random);
            fs::write(path, text).unwrap();
        }
        12..=14 => drop(one(random).map(|path| fs::remove_file(path).unwrap())),
        15..=16 => {
            let Some(path) = one(random) else { return };
            let to = root.join(place(random));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::rename(path, to).unwrap();
        }
        17 => {
            let directory = root.join(any(&DIRECTORIES[1..], random));
            if directory.exists() {
                fs::remove_dir_all(directory).unwrap();
            }
        }
        18 => {
            let (from, to) =
                (root.join(any(&DIRECTORIES[1..], random)), root.join(any(&["src", "lib/a", "x"], random)));
            if from.exists() && !to.exists() && !to.starts_with(&from) {
                fs::create_dir_all(to.parent().unwrap()).unwrap();
                fs::rename(from, to).unwrap();
            }
        }
        _ => drop(one(random).map(|path| fs::read(path).unwrap())),
    }
}

/// Takes bursts until the tool says what an index from scratch says.
fn settle(watching: &mut Watching, want: &Fresh, last: &mut (String, u64, u64), what: &str) -> Vec<Burst> {
    let mut bursts = Vec::new();
    while *last != (want.whole.clone(), want.files, want.edges) {
        assert!(bursts.len() < 50, "{what}: the tool comes to another end: {last:?}, and not {}", want.whole);
        let burst = watching.burst();
        let number = |key: &str| burst.0[key].as_u64().unwrap();
        *last = (burst.0["fingerprint"].as_str().unwrap().into(), number("files"), number("edges"));
        bursts.push(burst);
    }
    bursts
}

fn first(watching: &Watching, before: &Fresh) -> (String, u64, u64) {
    assert_eq!(watching.summary["files"], before.files);
    (before.whole.clone(), before.files, before.edges)
}

fn tree(random: &mut Random) -> Tree {
    let tree = Tree::new(&[]);
    for _ in 0..60 {
        let path = place(random);
        if !path.ends_with(".ignore") {
            tree.write(&path, text(path.rsplit('/').next().unwrap(), random));
        }
    }
    tree
}

#[test]
fn after_random_changes_all_is_as_from_scratch_and_only_what_had_to_ran_again() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let tree = tree(&mut random);
        let mut watching = Watching::new(&tree, &[]);
        let mut before = fresh(&tree);
        let mut last = first(&watching, &before);
        for step in 0..12 {
            watching.at_once(|| (0..1 + random.below(4)).for_each(|_| change(&tree, &mut random)));
            let after = fresh(&tree);
            let what = format!("seed {seed}, step {step}");
            let bursts = settle(&mut watching, &after, &mut last, &what);
            // A machine that stands still in the middle of a burst makes two of it, which see half of the changes each.
            if let [burst] = &bursts[..] {
                assert_eq!(burst.paths("again"), differing(&before.outlines, &after.outlines), "{what}");
                let reached: BTreeMap<_, _> = burst.reached();
                assert_eq!(
                    reached.keys().cloned().collect::<BTreeSet<_>>(),
                    differing(&before.fingerprints, &after.fingerprints),
                    "{what}"
                );
                assert!(reached.iter().all(|(path, hash)| after.fingerprints[path] == *hash), "{what}");
                assert_eq!(burst.paths("gone"), gone(&before, &after), "{what}");
                assert_eq!(burst.paths("come"), gone(&after, &before), "{what}");
            }
            before = after;
        }
    }
}

fn gone(before: &Fresh, after: &Fresh) -> BTreeSet<String> {
    before.fingerprints.keys().filter(|path| !after.fingerprints.contains_key(*path)).cloned().collect()
}

#[test]
fn changes_that_come_while_it_works_are_taken_over() {
    let mut superseded = 0;
    for seed in 100..104 {
        let mut random = Random::new(seed);
        let tree = tree(&mut random);
        // Enough work for changes to meet it.
        tree.write("big.c", "int x; /* words */\n".repeat(60_000));
        let mut watching = Watching::new(&tree, &["--debounce", "0"]);
        let mut last = first(&watching, &fresh(&tree));
        for step in 0..6 {
            for round in 0..10 {
                change(&tree, &mut random);
                replace(&tree, "big.c", format!("int x{step}_{round};\n").repeat(60_000));
            }
            let what = format!("seed {seed}, step {step}");
            let bursts = settle(&mut watching, &fresh(&tree), &mut last, &what);
            superseded += bursts.iter().map(|burst| burst.0["superseded"].as_u64().unwrap()).sum::<u64>();
        }
    }
    println!("{superseded} rounds were taken over");
}

/// Looking at the tree takes longer than a burst lasts, so that each is over before the one before it can be answered. It changes until
/// some are answered.
#[test]
fn a_tree_that_changes_without_end_is_answered_all_the_same() {
    let tree = Tree::new(&[]);
    (0..3_000).for_each(|number| tree.write(format!("d{}/f{number}.c", number % 30), format!("int f{number};\n")));
    let mut watching = Watching::new(&tree, &["--debounce", "0"]);
    let (root, enough) = (tree.root(), Arc::new(AtomicBool::new(false)));
    let stop = enough.clone();
    let changing = thread::spawn(move || {
        for number in (0..1_000_000).take_while(|_| !stop.load(Ordering::Relaxed)) {
            let path = root.join(format!("new{}.c", number % 37));
            if fs::remove_file(&path).is_err() {
                fs::write(path, "int x;\n").unwrap();
            }
        }
        fs::write(root.join("last.c"), "int x;\n").unwrap();
    });
    let mut superseded = Vec::new();
    while {
        let burst = watching.burst();
        superseded.push(burst.0["superseded"].as_u64().unwrap());
        enough.store(superseded.len() > 4, Ordering::Relaxed);
        !burst.paths("come").contains("last.c")
    } {}
    changing.join().unwrap();
    println!("{superseded:?}");
    assert!(superseded.iter().all(|&superseded| superseded <= 4), "{superseded:?}");
}

/// A tree of 10,000 headers in 100 directories: each includes up to three of greater numbers, in steps that make long ways.
struct Wide {
    tree: Tree,
    includes: Vec<Vec<u64>>,
}

const FILES: u64 = 10_000;

impl Wide {
    fn new(seed: u64) -> Wide {
        let mut random = Random::new(seed);
        let (tree, mut includes) = (Tree::new(&[]), Vec::<Vec<u64>>::new());
        for number in 0..FILES {
            let others = (0..random.below(4)).map(|_| number + 1 + random.below(200)).filter(|&other| other < FILES);
            includes.push(others.collect::<BTreeSet<_>>().into_iter().collect());
            tree.write(Self::path(number), Self::text(number, &includes[number as usize], ""));
        }
        Wide { tree, includes }
    }

    fn path(number: u64) -> String {
        format!("d{:02}/f{number}.h", number % 100)
    }

    fn text(number: u64, includes: &[u64], more: &str) -> String {
        let lines: String = includes.iter().map(|other| format!("#include \"{}\"\n", Self::path(*other))).collect();
        format!("{lines}int f{number};\n{more}")
    }

    /// What reaches a file, by its definition.
    fn reaching(&self, number: u64) -> BTreeSet<String> {
        let mut reaches = vec![false; FILES as usize];
        reaches[number as usize] = true;
        for from in (0..number).rev() {
            reaches[from as usize] = self.includes[from as usize].iter().any(|&to| reaches[to as usize]);
        }
        (0..FILES).filter(|&from| reaches[from as usize]).map(Self::path).collect()
    }
}

#[test]
fn in_a_tree_of_10_000_files_one_edit_runs_exactly_what_it_reaches() {
    let seed = 11;
    println!("seed {seed}");
    let wide = Wide::new(seed);
    let mut watching = Watching::new(&wide.tree, &[]);
    assert_eq!(watching.begun["files"], FILES);
    for number in [FILES - 1, 5_000, 300, 0] {
        let text = Wide::text(number, &wide.includes[number as usize], "int more;\n");
        let burst = watching.burst_of(|| replace(&wide.tree, &Wide::path(number), text));
        burst.is(&[&Wide::path(number)], &[], &[]);
        assert_eq!(burst.reached().into_keys().collect::<BTreeSet<_>>(), wide.reaching(number), "{number}");
    }
    assert!(wide.reaching(5_000).len() > 1_000, "the way is long");
}

#[test]
fn more_events_than_the_system_keeps_are_made_up_for() {
    let kept: u64 = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    if kept > 200_000 {
        return println!("this system keeps {kept} events: too many to overflow in a test");
    }
    let tree = Tree::new(&[
        ("main.c", "#include \"late.h\"\n"),
        ("late.h", "int a;\n"),
        ("old.c", "\n"),
        ("many/x", ""),
        ("sub/same.c", "\n"),
    ]);
    let mut watching = Watching::new(&tree, &[]);
    let burst = watching.burst_of(|| {
        // Created, opened, written, closed, deleted: at least three events each.
        for number in 0..kept / 3 + 100 {
            let path = tree.root().join(format!("many/{number}"));
            fs::write(&path, "").unwrap();
            fs::remove_file(path).unwrap();
        }
        fs::remove_file(tree.root().join("old.c")).unwrap();
        fs::write(tree.root().join("late.h"), "int b;\n").unwrap();
        tree.write("new/file.c", "\n");
        // The watch of this one goes with it, and nothing is told of that.
        fs::remove_dir_all(tree.root().join("sub")).unwrap();
        tree.write("sub/same.c", "\n");
    });
    assert_eq!(burst.0["rescan"], true);
    burst.is(&["late.h", "new/file.c"], &["new/file.c"], &["old.c"]);
    let burst = watching.burst_of(|| replace(&tree, "new/file.c", "int x;\n"));
    assert_eq!((&burst.0["rescan"], burst.paths("again")), (&false.into(), ["new/file.c".to_owned()].into()));
    let burst = watching.burst_of(|| replace(&tree, "sub/same.c", "int x;\n"));
    assert_eq!((&burst.0["rescan"], burst.paths("again")), (&false.into(), ["sub/same.c".to_owned()].into()));
}

/// Memory of the process that is in use, in KiB.
fn resident(watching: &Watching) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", watching.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

#[test]
fn files_that_come_and_go_leave_no_memory_behind() {
    let tree = Tree::new(&[("main.c", "int main(void) { }\n")]);
    // Few threads, since each keeps some memory of its own from its first job on, however late that comes.
    let mut watching = Watching::new(&tree, &["--debounce", "5", "-j", "2"]);
    let mut number = 0;
    let mut turns = |watching: &mut Watching, turns: usize| {
        for _ in 0..turns {
            let directory = tree.root().join(format!("once{number}"));
            watching.burst_of(|| {
                for _ in 0..300 {
                    number += 1;
                    let text = format!("#include \"f{}.h\"\n", number + 1);
                    tree.write(format!("{}/f{number}.h", directory.file_name().unwrap().to_str().unwrap()), text);
                }
            });
            let mut burst = watching.burst_of(|| fs::remove_dir_all(&directory).unwrap());
            while burst.0["files"] != 1 {
                burst = watching.burst();
            }
        }
        resident(watching)
    };
    let settled = turns(&mut watching, 10);
    let later = turns(&mut watching, 30);
    println!("{settled} KiB, and {later} KiB after another 9,000 files");
    assert!(later < settled + 4096, "{settled} KiB became {later} KiB: some 450 bytes a file stay");
}
