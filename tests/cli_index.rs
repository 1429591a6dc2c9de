//! `shardrun index` over small trees: exact counts, the shapes of its outputs, the same answers however many workers.
//! These tests do not know how the index works.
#![cfg(feature = "cli")]

mod cli;

use cli::{Tree, command, run};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

/// A tree with a bit of everything.
fn mixed() -> Tree {
    Tree::new(&[
        ("Cargo.toml", "[package]\nname = \"demo\"\n"),
        ("src/lib.rs", "//! Doc.\nmod a;\nmod b;\n\nuse std::fmt;\n"),
        ("src/a.rs", "use crate::b::B;\n\n/* c */\npub struct A(B);\n"),
        ("src/b.rs", "use super::a::A;\npub enum B {\n    X(Box<A>),\n}\nuse crate::missing::*;\n"),
        (
            "c/main.c",
            "#include <stdio.h>\n#include \"util.h\"\n#include \"gone.h\"\n\nint main(void)\n{\n\treturn 0;\n}\n",
        ),
        ("c/util.h", "#define UTIL 1\n"),
        ("web/app.ts", "import { x } from './x';\nimport React from 'react';\nexport class App {}\n"),
        ("web/x.js", "// nothing\n"),
        ("py/p/__init__.py", ""),
        ("py/p/q.py", "\"\"\"Doc.\"\"\"\nfrom . import r\nimport os\ndef f():\n    pass\n"),
        ("py/p/r.py", "from .q import f\n"),
        ("notes.txt", "one\n\ntwo"),
        ("data.bin", "\0\u{1}\u{2}"),
    ])
}

fn language<'v>(object: &'v Value, name: &str) -> &'v Value {
    let languages = object["languages"].as_array().unwrap();
    languages.iter().find(|row| row["language"] == name).unwrap_or_else(|| panic!("no row for {name}"))
}

#[test]
fn the_json_object_has_exactly_its_keys_and_exact_counts() {
    let tree = mixed();
    let object = tree.json(&[]);
    let keys: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    let want = ["bytes", "cycles", "edges", "files", "languages", "seconds", "stages", "unresolved", "workers"];
    assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), want.into());
    assert_eq!(object["files"], 13);
    let bytes: u64 = walk_bytes(&tree.root());
    assert_eq!(object["bytes"], bytes);
    let rust = json!({
        "language": "Rust", "files": 3, "bytes": 37 + 53 + 81, "lines": 14, "code": 10, "comment": 2, "blank": 2,
        "definitions": 2, "imports": 6, "external": 1, "missing": 0, "ambiguous": 0,
    });
    let mut got = language(&object, "Rust").clone();
    got["bytes"] = rust["bytes"].clone();
    assert_eq!(got, rust);
    let c = language(&object, "C");
    assert_eq!((&c["files"], &c["code"], &c["blank"]), (&json!(2), &json!(8), &json!(1)));
    assert_eq!((&c["imports"], &c["external"], &c["missing"]), (&json!(3), &json!(1), &json!(1)));
    assert_eq!(language(&object, "Python")["comment"], 1);
    assert_eq!(language(&object, "Other")["lines"], 3);
    assert_eq!((&language(&object, "Binary")["files"], &language(&object, "Binary")["lines"]), (&json!(1), &json!(0)));
    assert_eq!(object["unresolved"], 1);
    // lib -> a, b; a -> b; b -> a, lib (crate::missing names something in the root); main -> util; app -> x; q -> r; r -> q
    assert_eq!(object["edges"], 9);
    assert_eq!(object["cycles"], json!([["src/a.rs", "src/b.rs", "src/lib.rs"], ["py/p/q.py", "py/p/r.py"]]));
    let stages = object["stages"].as_array().unwrap();
    assert_eq!(
        stages.iter().map(|stage| (&stage["stage"], &stage["done"])).collect::<Vec<_>>(),
        [(&json!("source"), &json!(13)), (&json!("analysis"), &json!(13)),]
    );
    assert!(object["seconds"].as_f64().unwrap() > 0.0);
    for worker in object["workers"].as_array().unwrap() {
        let busy = worker["busy"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&busy), "a share: {worker}");
        assert!(worker["worker"].is_string() && worker["jobs"].is_u64());
    }
}

fn walk_bytes(directory: &std::path::Path) -> u64 {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.file_type().unwrap().is_dir() {
            true => walk_bytes(&entry.path()),
            false => entry.metadata().unwrap().len(),
        })
        .sum()
}

#[test]
fn the_table_shows_languages_imports_cycles_stages_and_workers() {
    let ran = mixed().index(&["--threads", "2"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("language"), "{}", ran.stdout);
    for start in [
        "Rust ",
        "total ",
        "9 edges between files; of 14 imports",
        "most imported",
        "2 cycles of 5 files",
        "source ",
        "worker 0 ",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(start)), "{start:?} in {}", ran.stdout);
    }
    assert!(lines.iter().any(|line| line.ends_with("2  src/a.rs")), "{}", ran.stdout);
    assert!(lines.contains(&"stage          done  time, all workers"), "{}", ran.stdout);
    assert!(lines.iter().all(|line| line.len() < 120), "a cycle has a line for each file: {}", ran.stdout);
    assert!(ran.stderr.contains("13 of 13 files indexed"), "plain progress where there is no terminal: {}", ran.stderr);
}

#[test]
fn the_outline_is_one_object_a_line_in_order_of_paths() {
    let tree = mixed();
    let out = tree.beside("outline.jsonl");
    let ran = tree.index(&["-q", "--outline", out.to_str().unwrap()]);
    assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));
    let text = fs::read_to_string(&out).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let paths: Vec<&str> = rows.iter().map(|row| row["path"].as_str().unwrap()).collect();
    assert_eq!(paths.len(), 13);
    assert!(paths.is_sorted(), "{paths:?}");
    let row = rows.iter().find(|row| row["path"] == "py/p/q.py").unwrap();
    let source = fs::read(tree.root().join("py/p/q.py")).unwrap();
    assert_eq!(
        *row,
        json!({
            "path": "py/p/q.py", "language": "Python", "bytes": source.len(), "hash": blake3::hash(&source).to_hex().as_str(),
            "lines": {"code": 4, "comment": 1, "blank": 0},
            "definitions": [{"name": "f", "kind": "function", "line": 4}],
            "imports": [
                {"text": ".:r", "kind": "from", "line": 2, "verdict": "found", "files": ["py/p/r.py"]},
                {"text": "os", "kind": "import", "line": 3, "verdict": "external", "files": []},
            ],
        })
    );
}

#[test]
fn the_trace_has_complete_events_with_numeric_ids() {
    let tree = mixed();
    let (trace, outline) = (tree.beside("t.json"), tree.beside("o.jsonl"));
    let ran =
        tree.index(&["-q", "--trace", trace.to_str().unwrap(), "--outline", outline.to_str().unwrap(), "-j", "2"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let object: Value = serde_json::from_str(&fs::read_to_string(&trace).unwrap()).unwrap();
    let events = object["traceEvents"].as_array().unwrap();
    let spans: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(spans.len(), 3 * 13, "three stages of each file");
    for span in &spans {
        assert!(span["pid"].is_u64() && span["ts"].is_number() && span["dur"].is_number(), "{span}");
        assert!(span["tid"].as_u64().unwrap() < 2, "{span}");
        assert!(["source", "analysis", "artifact"].contains(&span["cat"].as_str().unwrap()), "{span}");
    }
    let of = |stage: &str| spans.iter().find(|span| span["cat"] == stage && span["name"] == "src/a.rs").unwrap();
    assert!(of("source")["ts"].as_f64() <= of("analysis")["ts"].as_f64(), "Source comes first");
    assert_eq!(events.iter().filter(|event| event["name"] == "thread_name").count(), 2);
}

#[test]
fn the_dot_file_holds_each_edge() {
    let tree = mixed();
    tree.write("od\"d\\.rs", "");
    let out = tree.beside("g.dot");
    assert_eq!(tree.index(&["-q", "--dot", out.to_str().unwrap()]).status, 0);
    let text = fs::read_to_string(&out).unwrap();
    assert!(text.starts_with("digraph \"imports\" {\n") && text.ends_with("}\n"));
    assert!(text.contains("  \"src/lib.rs\" -> \"src/a.rs\";\n"), "{text}");
    assert!(text.contains("  \"od\\\"d\\\\.rs\";\n"), "{text}");
    assert_eq!(text.matches(" -> ").count(), 9);
}

#[test]
fn the_answers_are_the_same_however_many_workers() {
    let tree = Tree::new(&[]);
    for number in 0..1500 {
        let next = (number * 7 + 1) % 1500;
        tree.write(
            format!("d{}/f{number}.c", number % 40),
            format!("#include \"f{next}.h\"\n/* x */\nint f{number}(void) {{ }}\n"),
        );
        tree.write(format!("d{}/f{number}.h", number % 40), format!("#include \"f{}.h\"\n", (number + 40) % 1500));
    }
    let answers: Vec<(Value, String)> = ["1", "2", "5"]
        .iter()
        .map(|threads| {
            let out = tree.beside(threads);
            let mut object = tree.json(&["-j", threads, "--outline", out.to_str().unwrap()]);
            for key in ["seconds", "stages", "workers"] {
                object.as_object_mut().unwrap().remove(key);
            }
            (object, fs::read_to_string(out).unwrap())
        })
        .collect();
    assert_eq!(answers[0].0["files"], 3000);
    assert!(answers[0].0["edges"].as_u64().unwrap() > 1500);
    assert!(answers.iter().all(|answer| *answer == answers[0]));
}

#[test]
fn ignored_hidden_and_own_files_are_left_out() {
    let tree = Tree::new(&[
        ("a.rs", "fn a() {}\n"),
        (".ignore", "skip/\n"),
        ("skip/b.rs", "\n"),
        (".hid/c.rs", "\n"),
        (".git/d.rs", ""),
    ]);
    assert_eq!(tree.json(&[])["files"], 1);
    assert_eq!(tree.json(&["--hidden"])["files"], 3, "a.rs, .ignore, .hid/c.rs");
    assert_eq!(tree.json(&["--no-ignore"])["files"], 2, "a.rs, skip/b.rs");
    let out = tree.root().join("out.jsonl");
    assert_eq!(tree.json(&["--outline", out.to_str().unwrap()])["files"], 1, "what it writes itself is not indexed");
}

/// Whatever is between a path and its file.
#[cfg(unix)]
#[test]
fn two_outputs_in_one_file_are_refused_however_they_are_spelled() {
    let tree = Tree::new(&[("a.rs", "fn a() {}\n")]);
    fs::create_dir(tree.beside("sub")).unwrap();
    std::os::unix::fs::symlink("new", tree.beside("to-new")).unwrap();
    let index = |one: &str, other: &str| {
        let here = tree.beside("");
        run(command().current_dir(here).args(["index", "-q", "tree", "--outline", one, "--dot", other]))
    };
    let whole = tree.beside("new");
    for other in ["new", "./new", "sub/../new", whole.to_str().unwrap(), "to-new"] {
        let ran = index("new", other);
        assert_eq!((ran.status, whole.exists()), (2, false), "{other}: {ran:?}");
        assert!(ran.stderr.contains("two outputs would overwrite each other"), "{ran:?}");
    }
    fs::write(tree.beside("old"), "kept").unwrap();
    fs::hard_link(tree.beside("old"), tree.beside("hard")).unwrap();
    std::os::unix::fs::symlink(tree.beside("old"), tree.beside("soft")).unwrap();
    for other in ["old", "./old", "hard", "soft"] {
        let ran = index("old", other);
        assert_eq!((ran.status, fs::read(tree.beside("old")).unwrap()), (2, b"kept".to_vec()), "{other}: {ran:?}");
    }
    // Two files may have one name, and a device takes all.
    assert_eq!(index("new", "sub/new").status, 0);
    assert_eq!(index("/dev/null", "/dev/null").status, 0);
}

#[test]
fn a_run_that_cannot_begin_leaves_outputs_as_they_are() {
    let tree = Tree::new(&[("a.rs", "fn a() {}\n")]);
    let outputs = ["--outline", "--trace", "--dot", "--fingerprints"].map(|option| (option, tree.beside(&option[2..])));
    outputs.iter().for_each(|(_, path)| fs::write(path, "kept").unwrap());
    for (dir, affected, status) in [(tree.beside("gone"), None, 1), (tree.root(), Some("nosuch.rs"), 2)] {
        let mut command = command();
        command.args(["index", "-q"]).arg(dir).args(affected.map(|name| format!("--affected={name}")));
        let ran = run(command.args(outputs.iter().flat_map(|(option, path)| [option.as_ref(), path.as_os_str()])));
        assert_eq!((ran.status, ran.complaints().len()), (status, 1), "{ran:?}");
        assert!(outputs.iter().all(|(_, path)| fs::read(path).unwrap() == b"kept"), "{status}");
    }
}

#[test]
fn an_empty_directory_is_no_error() {
    let tree = Tree::new(&[]);
    let object = tree.json(&[]);
    assert_eq!((&object["files"], &object["cycles"], &object["languages"]), (&json!(0), &json!([]), &json!([])));
    assert_eq!(tree.index(&["-q"]).status, 0);
}

#[test]
fn help_version_and_wrong_usage() {
    let version = run(command().arg("--version"));
    assert_eq!((version.status, version.stdout.as_str()), (0, concat!("shardrun ", env!("CARGO_PKG_VERSION"), "\n")));
    let help = run(command().args(["index", "--help"]));
    assert_eq!(help.status, 0);
    for word in ["Examples:", "--outline", "--trace", "--threads", "Exit status"] {
        assert!(help.stdout.contains(word), "{word} in {}", help.stdout);
    }
    for wrong in [
        &["index"][..],
        &[],
        &["indx", "."],
        &["index", "--nope", "."],
        &["index", "-j", "0", "."],
        &["index", ".", "."],
        &["index", "--dot", "no/such/file", "--trace", "no/such/file", "."],
    ] {
        let ran = run(command().args(wrong));
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{wrong:?}");
        assert!(!ran.stderr.is_empty());
    }
}
