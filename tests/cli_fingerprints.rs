//! `shardrun index --fingerprints` and `--affected`: which files a change reaches, and that it changes the fingerprints of exactly these.
//! These tests do not know how the index works.
#![cfg(feature = "cli")]

mod cli;

use cli::{Random, Tree, command, run};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A circle of two below a root, something that both roots reach, and one that nobody reaches.
fn small() -> Tree {
    Tree::new(&[
        ("top.c", "#include \"ring/a.h\"\n"),
        ("ring/a.h", "#include \"b.h\"\n#include \"../base.h\"\n"),
        ("ring/b.h", "#include \"a.h\"\n#include <stdio.h>\n"),
        ("other.c", "#include \"base.h\"\n"),
        ("base.h", "int base;\n"),
        ("alone.c", "int alone;\n"),
    ])
}

/// The fingerprints by path, as the file says them, which is looked at line by line; and that of the tree.
fn fingerprints(tree: &Tree, options: &[&str]) -> (BTreeMap<String, String>, String) {
    let out = tree.beside("fingerprints");
    let object = tree.json(&[options, &["--fingerprints", out.to_str().unwrap()]].concat());
    let text = fs::read_to_string(&out).unwrap();
    let rows: Vec<(String, String)> = text
        .lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            assert_eq!(row.as_object().unwrap().len(), 2, "{line}");
            (row["path"].as_str().unwrap().to_owned(), row["fingerprint"].as_str().unwrap().to_owned())
        })
        .collect();
    assert!(rows.is_sorted_by_key(|(path, _)| path), "{text}");
    assert!(rows.iter().all(|(_, hash)| hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit())));
    assert_eq!(rows.len() as u64, object["files"].as_u64().unwrap());
    (rows.into_iter().collect(), object["fingerprint"].as_str().unwrap().to_owned())
}

fn changed(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let other = |path: &&String| before.get(*path) != after.get(*path);
    before.keys().chain(after.keys()).filter(other).cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

fn affected(tree: &Tree, files: &[&str]) -> Vec<String> {
    let ran = run(command().args(["index", "-q"]).arg(tree.root()).arg("--affected").args(files));
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    ran.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn files_that_reach_one_another_share_a_fingerprint() {
    let (all, _) = fingerprints(&small(), &[]);
    assert_eq!(all["ring/a.h"], all["ring/b.h"]);
    assert_eq!(all.values().collect::<BTreeSet<_>>().len(), 5, "no others do: {all:?}");
}

#[test]
fn an_edit_changes_the_fingerprints_of_exactly_what_reaches_the_file() {
    let tree = small();
    let (before, whole) = fingerprints(&tree, &[]);
    for (path, want) in [
        ("base.h", &["base.h", "other.c", "ring/a.h", "ring/b.h", "top.c"][..]),
        ("ring/b.h", &["ring/a.h", "ring/b.h", "top.c"]),
        ("top.c", &["top.c"]),
        ("alone.c", &["alone.c"]),
    ] {
        let text = fs::read_to_string(tree.root().join(path)).unwrap();
        tree.write(path, text.clone() + "// more\n");
        let (after, other) = fingerprints(&tree, &[]);
        assert_eq!(changed(&before, &after), want, "an edit of {path}");
        assert_eq!(affected(&tree, &[path]), want, "{path}");
        assert_ne!(whole, other);
        tree.write(path, text);
        assert_eq!(fingerprints(&tree, &[]), (before.clone(), whole.clone()), "back again");
    }
}

#[test]
fn a_file_that_comes_changes_what_now_leads_to_it() {
    let tree = small();
    let (before, _) = fingerprints(&tree, &[]);
    // Beside the including file it is nearer than the one above.
    tree.write("ring/stdio.h", "\n");
    assert_eq!(
        changed(&before, &fingerprints(&tree, &[]).0),
        ["ring/stdio.h"],
        "an angled include is not looked for here"
    );
    tree.write("ring/b.h", "#include \"a.h\"\n#include \"gone.h\"\n");
    let (before, _) = fingerprints(&tree, &[]);
    tree.write("ring/gone.h", "\n");
    assert_eq!(changed(&before, &fingerprints(&tree, &[]).0), ["ring/a.h", "ring/b.h", "ring/gone.h", "top.c"]);
}

#[test]
fn two_files_that_change_places_are_a_change() {
    let tree = Tree::new(&[("m.c", "#include \"a.h\"\n#include \"b.h\"\n"), ("a.h", "int a;\n"), ("b.h", "int b;\n")]);
    let (before, _) = fingerprints(&tree, &[]);
    tree.write("a.h", "int b;\n");
    tree.write("b.h", "int a;\n");
    assert_eq!(changed(&before, &fingerprints(&tree, &[]).0), ["a.h", "b.h", "m.c"]);
}

#[test]
fn fingerprints_depend_neither_on_workers_nor_on_the_place_nor_on_other_outputs() {
    let (one, other) = (random(7, 400), random(7, 400));
    let want = fingerprints(&one, &["-j", "1"]);
    assert_eq!(want.0.len(), 400);
    for workers in ["2", "5"] {
        assert_eq!(fingerprints(&other, &["-j", workers]), want);
    }
    let (outline, alone, trace) = (one.beside("outline"), one.beside("alone"), one.beside("trace"));
    let [outline, alone, trace] = [&outline, &alone, &trace].map(|path| path.to_str().unwrap());
    assert_eq!(fingerprints(&one, &["--outline", outline, "--trace", trace]), want);
    one.json(&["--outline", alone]);
    assert_eq!(fs::read(outline).unwrap(), fs::read(alone).unwrap());
    let events: Value = serde_json::from_str(&fs::read_to_string(trace).unwrap()).unwrap();
    let artifacts = events["traceEvents"].as_array().unwrap().iter().filter(|event| event["cat"] == "artifact");
    assert_eq!(artifacts.count(), 2 * 400, "an outline and a fingerprint of each file");
}

/// C files in a few directories that include one another at random, circles among them.
fn random(seed: u64, files: u64) -> Tree {
    let tree = Tree::new(&[]);
    let mut random = Random::new(seed);
    for number in 0..files {
        let mut text = format!("int f{number};\n");
        for _ in 0..random.below(3) {
            // Mostly towards greater numbers, so that not all is one circle.
            let other = if random.below(20) == 0 { random.below(files) } else { number + random.below(files - number) };
            text += &format!("#include \"f{other}.h\"\n");
        }
        tree.write(format!("d{}/f{number}.h", number % 7), text);
    }
    tree
}

#[test]
fn in_random_trees_what_an_edit_changes_is_what_is_affected() {
    for seed in 0..6 {
        let tree = random(seed, 60);
        let mut random = Random::new(!seed);
        let (before, _) = fingerprints(&tree, &[]);
        let edited: BTreeSet<String> = (0..1 + random.below(3))
            .map(|_| random.below(60))
            .map(|number| format!("d{}/f{number}.h", number % 7))
            .collect();
        for path in &edited {
            let text = fs::read_to_string(tree.root().join(path)).unwrap();
            tree.write(path, text + "int more;\n");
        }
        let edited: Vec<&str> = edited.iter().map(String::as_str).collect();
        let (after, _) = fingerprints(&tree, &[]);
        assert_eq!(changed(&before, &after), affected(&tree, &edited), "seed {seed}: {edited:?}");
    }
}

#[test]
fn affected_takes_paths_below_the_tree_and_paths_on_disk_and_prints_json_if_asked() {
    let tree = small();
    let want = ["ring/a.h", "ring/b.h", "top.c"];
    assert_eq!(affected(&tree, &["./ring/b.h"]), want);
    assert_eq!(affected(&tree, &[tree.root().join("ring/b.h").to_str().unwrap()]), want);
    let ran = run(command().current_dir(tree.root()).args(["index", "..", "-q", "--affected", "ring/../ring/b.h"]));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout, "tree/ring/a.h\ntree/ring/b.h\ntree/top.c\n");
    let object = tree.json(&["--affected=ring/b.h", "--affected=alone.c"]);
    assert_eq!(
        (&object["affected"], &object["files"]),
        (&json!(["alone.c", "ring/a.h", "ring/b.h", "top.c"]), &json!(6))
    );
    assert_eq!(object.get("fingerprint"), None);
}

#[test]
fn a_file_that_is_not_in_the_tree_is_named_and_wrong_usage() {
    let tree = small();
    tree.write(".hidden.c", "\n");
    let ran =
        run(command().args(["index", "--json"]).arg(tree.root()).args(["--affected", "base.h", "no.c", ".hidden.c"]));
    assert_eq!((ran.status, ran.stdout.as_str(), ran.complaints().len()), (2, "", 2), "{}", ran.stderr);
    assert!(ran.stderr.contains("no.c: not in the tree") && ran.stderr.contains(".hidden.c: "), "{}", ran.stderr);
    assert_eq!(run(command().args(["index", "--affected", "a"])).status, 2, "the directory is missing");
}

/// Reading the memory of a process at address 0 fails for everybody.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_read_has_no_fingerprint_and_those_that_reach_it_have() {
    let tree = small();
    std::os::unix::fs::symlink("/proc/self/mem", tree.root().join("bad.h")).unwrap();
    tree.write("top.c", "#include \"bad.h\"\n");
    let out = tree.beside("out");
    let ran = tree.index(&["--follow", "--json", "--fingerprints", out.to_str().unwrap()]);
    ran.complains_once("bad.h");
    let text = fs::read_to_string(out).unwrap();
    assert_eq!((text.lines().count(), text.contains("bad.h"), text.contains("top.c")), (6, false, true), "{text}");
    tree.index(&["--fingerprints", "/dev/full"]).complains_once("/dev/full");
}
