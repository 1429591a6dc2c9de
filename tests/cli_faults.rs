//! `shardrun index` over bad input and onto bad outputs: one line that names the path, the rest goes on, exit status 1.
//! These tests do not know how the index works.
#![cfg(all(feature = "cli", unix))]

mod cli;

use cli::{Tree, command, run, unread};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

const GOOD: [(&str, &str); 2] = [("a.rs", "fn a() {}\n"), ("z/b.py", "x = 1\n")];

#[test]
fn a_missing_directory_and_one_that_is_none() {
    let tree = Tree::new(&GOOD);
    for name in ["gone", "tree/a.rs"] {
        let path = tree.beside(name);
        let ran = run(command().arg("index").arg(&path));
        ran.complains_once(path.to_str().unwrap());
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn a_dash_is_refused_where_a_file_is_to_be_written() {
    let tree = Tree::new(&GOOD);
    for option in ["--outline", "--trace", "--dot", "--fingerprints"] {
        let ran = run(command().current_dir(tree.root()).args(["index", option, "-", "."]));
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{option}");
        assert!(ran.stderr.contains(option) && ran.stderr.contains("name a file"), "{}", ran.stderr);
        assert!(!tree.root().join("-").exists());
    }
}

#[test]
fn an_unreadable_file_is_named_and_the_rest_goes_on() {
    let tree = Tree::new(&GOOD);
    // Reading the memory of a process at address 0 fails for everybody, also for root.
    symlink("/proc/self/mem", tree.root().join("m.c")).unwrap();
    let ran = tree.index(&["--json", "--follow"]);
    ran.complains_once("tree/m.c");
    assert_eq!(ran.json()["files"], 2);
}

#[test]
fn files_and_directories_without_permission_are_named() {
    let tree = Tree::new(&GOOD);
    tree.write("no.c", "int x;\n");
    tree.write("shut/in.c", "int x;\n");
    for path in ["no.c", "shut"] {
        fs::set_permissions(tree.root().join(path), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let all_may = fs::File::open(tree.root().join("no.c")).is_ok();
    let ran = tree.index(&["--json"]);
    fs::set_permissions(tree.root().join("shut"), fs::Permissions::from_mode(0o700)).unwrap();
    if all_may {
        // Root reads everything.
        return assert_eq!((ran.status, &ran.json()["files"]), (0, &4.into()));
    }
    assert_eq!((ran.status, ran.complaints().len(), &ran.json()["files"]), (1, 2, &2.into()), "{}", ran.stderr);
    assert!(ran.stderr.contains("tree/no.c: ") && ran.stderr.contains("tree/shut: "), "{}", ran.stderr);
}

#[test]
fn invalid_utf8_is_named_and_counted() {
    let tree = Tree::new(&GOOD);
    tree.write("latin.c", b"/* caf\xe9 */\nint caf\xe9(void) { }\n");
    let out = tree.beside("o");
    let ran = tree.index(&["--json", "--outline", out.to_str().unwrap()]);
    ran.complains_once("tree/latin.c: not UTF-8 from byte 6");
    assert_eq!(ran.json()["files"], 3);
    let outline = fs::read_to_string(out).unwrap();
    assert!(outline.contains("{\"name\":\"caf\u{fffd}\",\"kind\":\"function\",\"line\":2}"), "{outline}");
    // A file that is no text in any encoding is no fault.
    let tree = Tree::new(&GOOD);
    tree.write("paper.pdf", [&b"%PDF\n".repeat(4000)[..], b"\xff\0"].concat());
    assert_eq!(tree.json(&[])["languages"][2]["language"], "Binary");
}

#[test]
fn a_file_of_a_gibibyte_is_named_and_not_read() {
    let tree = Tree::new(&GOOD);
    fs::File::create(tree.root().join("huge.c")).unwrap().set_len(1 << 30).unwrap();
    let ran = tree.index(&["--json"]);
    ran.complains_once("tree/huge.c: 1073741824 bytes are more than the limit of 67108864");
    assert_eq!(ran.json()["files"], 2);
    let tree = Tree::new(&[("big.c", "int x;\n")]);
    tree.write("big.c", "int x;\n".repeat(300_000));
    tree.index(&["--max-size", "2"]).complains_once("tree/big.c");
    assert_eq!(tree.json(&["--max-size", "3"])["languages"][0]["code"], 300_000);
}

#[test]
fn symbolic_links_that_lead_back_are_named() {
    let tree = Tree::new(&GOOD);
    symlink("..", tree.root().join("z/up")).unwrap();
    symlink("b.py", tree.root().join("z/alias.py")).unwrap();
    symlink("nowhere", tree.root().join("dangling")).unwrap();
    let ran = tree.index(&["--json"]);
    ran.complains_once("tree/z/up: symbolic link leads back");
    assert_eq!(ran.json()["files"], 2, "links are not followed");
    fs::remove_file(tree.root().join("dangling")).unwrap();
    let ran = tree.index(&["--json", "--follow"]);
    ran.complains_once("tree/z/up: symbolic link leads back");
    assert_eq!(ran.json()["files"], 3, "links are followed");
    fs::remove_file(tree.root().join("z/up")).unwrap();
    symlink("self", tree.root().join("self")).unwrap();
    tree.index(&["--json"]).complains_once("tree/self: ");
    tree.index(&["--json", "--follow"]).complains_once("tree/self: ");
}

#[test]
fn a_root_that_is_a_link_upwards_is_followed_and_not_named() {
    let tree = Tree::new(&GOOD);
    fs::create_dir(tree.root().join("in")).unwrap();
    symlink("..", tree.root().join("in/top")).unwrap();
    let ran = run(command().args(["index", "--json", "--no-progress"]).arg(tree.root().join("in/top")));
    // The link is named where it lies in the tree.
    ran.complains_once("tree/in/top/in/top: symbolic link leads back");
    assert_eq!(ran.json()["files"], 2);
}

/// The walk finds the open directory itself among the process's descriptors; when the files are read it is closed.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_vanishes_after_the_walk_is_named() {
    let ran = run(command().args(["index", "--json", "-j", "1", "/proc/self/fdinfo"]));
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(!ran.complaints().is_empty());
    for line in ran.complaints() {
        assert!(line.starts_with("shardrun: /proc/self/fdinfo/") && line.contains("No such file"), "{line}");
    }
    assert!(ran.json()["files"].as_u64().unwrap() >= 3, "standard input, output and error are still there");
}

#[test]
fn a_pipe_in_the_tree_is_passed_by() {
    let tree = Tree::new(&GOOD);
    let path = tree.root().join("pipe.c");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    assert_eq!(tree.json(&[])["files"], 2);
}

#[test]
fn names_that_are_no_text_and_names_with_line_ends_stay_on_their_line() {
    let tree = Tree::new(&GOOD);
    tree.write(std::ffi::OsStr::from_bytes(b"odd\xff\n.rs"), b"// \xff\n");
    let ran = tree.index(&["--json"]);
    ran.complains_once("tree/odd\u{fffd}\\n.rs: ");
    assert_eq!((ran.stderr.lines().count(), &ran.json()["files"]), (2, &3.into()), "{}", ran.stderr);
}

#[test]
fn a_full_disk_is_named_and_the_rest_goes_on() {
    let tree = Tree::new(&GOOD);
    for option in ["--outline", "--trace", "--dot"] {
        let ran = tree.index(&["--json", option, "/dev/full"]);
        ran.complains_once("/dev/full: ");
        assert_eq!(ran.json()["files"], 2, "{option}");
    }
    let missing = tree.beside("no/such/place");
    tree.index(&["--outline", missing.to_str().unwrap()]).complains_once(missing.to_str().unwrap());
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for option in ["--json", "--no-progress"] {
        let ran = run(command().args(["index", option]).arg(tree.root()).stdout(full()));
        assert_eq!(ran.status, 1);
        assert!(ran.stderr.contains("shardrun: standard output: "), "{}", ran.stderr);
    }
    // With nowhere to complain the exit status still says so.
    let status = command().args(["index", "--quiet"]).arg(tree.beside("gone")).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn an_output_that_grows_beyond_its_limit_is_named_and_the_rest_goes_on() {
    let tree = Tree::new(&GOOD);
    let many: String = (0..2_000).map(|number| format!("fn a{number}() {{}}\n")).collect();
    tree.write("many.rs", &many);
    let mut shell = std::process::Command::new("/bin/bash");
    let line = format!("ulimit -f 8; exec {} index tree --json --outline o --dot d", env!("CARGO_BIN_EXE_shardrun"));
    let ran = run(shell.current_dir(tree.beside("")).args(["-c", &line]));
    ran.complains_once("shardrun: o: File too large");
    assert_eq!(ran.json()["files"], 3);
    assert!(fs::read_to_string(tree.beside("d")).unwrap().trim_end().ends_with('}'));
}

#[test]
fn a_closed_pipe_is_named_and_the_other_outputs_are_written() {
    let tree = Tree::new(&GOOD);
    let out = tree.beside("o");
    let mut index = command();
    index.args(["index", "--outline", out.to_str().unwrap()]).arg(tree.root());
    let output = index.stdout(unread()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("shardrun: standard output: "), "{stderr}");
    assert_eq!(fs::read_to_string(out).unwrap().lines().count(), 2);
}

#[test]
fn a_closed_standard_error_changes_nothing_else() {
    let tree = Tree::new(&GOOD);
    let output = command().args(["index", "--json"]).arg(tree.root()).stderr(unread()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains("\"files\":2"));
}
