//! `shardrun index --watch`: a real process, real changes of files, and what it says about them.
//! These tests do not know how the index works. They wait for lines, never for time.
#![cfg(all(feature = "cli", target_os = "linux"))]

mod cli;
#[path = "cli/watching.rs"]
mod watching;

use cli::{Tree, command, unread};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use watching::{Burst, Watching, followed, fresh, replace};

fn small() -> Tree {
    Tree::new(&[
        ("main.c", "#include \"lib/a.h\"\nint main(void) { }\n"),
        ("lib/a.h", "#include \"b.h\"\n"),
        ("lib/b.h", "int b;\n"),
        ("alone.c", "int alone;\n"),
    ])
}

#[test]
fn an_edit_runs_the_file_again_and_makes_the_fingerprints_of_what_reaches_it() {
    let tree = small();
    let mut watching = Watching::with(&tree, &[]);
    assert_eq!(watching.begun, json!({"watching": 2, "files": 4, "debounce_ms": 50}));
    let before = fresh(&tree);
    let burst = watching.burst_of(|| replace(&tree, "lib/b.h", "int bb;\n"));
    burst.is(&["lib/b.h"], &[], &[]);
    burst.reaches(&["lib/a.h", "lib/b.h", "main.c"]);
    let after = fresh(&tree);
    assert_eq!(
        (&burst.0["fingerprint"], &burst.0["edges"], &burst.0["files"]),
        (&json!(after.whole), &json!(2), &json!(4))
    );
    for (path, fingerprint) in burst.reached() {
        assert_eq!(fingerprint, after.fingerprints[&path]);
        assert_ne!(fingerprint, before.fingerprints[&path]);
    }
    assert_eq!((&burst.0["burst"], &burst.0["superseded"], &burst.0["rescan"]), (&json!(1), &json!(0), &json!(false)));
    assert!(burst.0["event_to_done_ms"].as_f64() > Some(50.0) && burst.0["beyond_debounce_ms"].as_f64() >= Some(0.0));
    // Back again: so are the fingerprints.
    let burst = watching.burst_of(|| replace(&tree, "lib/b.h", "int b;\n"));
    assert_eq!((&burst.0["fingerprint"], &burst.0["burst"]), (&json!(before.whole), &json!(2)));
}

#[test]
fn files_that_come_and_go_change_where_imports_of_others_lead() {
    let tree = small();
    let mut watching = Watching::new(&tree, &[]);
    let burst = watching.burst_of(|| fs::remove_file(tree.root().join("lib/b.h")).unwrap());
    burst.is(&["lib/a.h"], &[], &["lib/b.h"]);
    burst.reaches(&["lib/a.h", "main.c"]);
    // The header of that name is elsewhere now, and only one fits.
    let burst = watching.burst_of(|| tree.write("far/off/b.h", "int c;\n"));
    burst.is(&["far/off/b.h", "lib/a.h"], &["far/off/b.h"], &[]);
    burst.reaches(&["far/off/b.h", "lib/a.h", "main.c"]);
    // A nearer one draws the import away.
    let burst = watching.burst_of(|| tree.write("lib/b.h", "int b;\n"));
    burst.is(&["lib/a.h", "lib/b.h"], &["lib/b.h"], &[]);
    burst.reaches(&["lib/a.h", "lib/b.h", "main.c"]);
    assert_eq!(burst.0["fingerprint"], fresh(&tree).whole);
}

#[test]
fn a_burst_of_many_changes_is_one_batch() {
    let tree = small();
    let mut watching = Watching::new(&tree, &[]);
    let burst = watching.burst_of(|| {
        fs::rename(tree.root().join("lib/b.h"), tree.root().join("lib/c.h")).unwrap();
        replace(&tree, "lib/a.h", "#include \"c.h\"\n");
        fs::remove_file(tree.root().join("alone.c")).unwrap();
        tree.write("new.c", "#include \"lib/c.h\"\n");
        tree.write("short.c", "");
        fs::remove_file(tree.root().join("short.c")).unwrap();
    });
    burst.is(&["lib/a.h", "lib/c.h", "new.c"], &["lib/c.h", "new.c"], &["alone.c", "lib/b.h"]);
    burst.reaches(&["lib/a.h", "lib/c.h", "main.c", "new.c"]);
    assert_eq!((&burst.0["fingerprint"], &burst.0["files"]), (&json!(fresh(&tree).whole), &json!(4)));
}

#[test]
fn what_is_not_changed_does_not_run_again() {
    let tree = small();
    let mut watching = Watching::new(&tree, &[]);
    let burst = watching.burst_of(|| {
        // The same text: nothing of these is said.
        replace(&tree, "main.c", "#include \"lib/a.h\"\nint main(void) { }\n");
        fs::write(tree.root().join("lib/a.h"), "#include \"b.h\"\n").unwrap();
        fs::read(tree.root().join("alone.c")).unwrap();
        replace(&tree, "lib/b.h", "int bb;\n");
    });
    burst.is(&["lib/b.h"], &[], &[]);
    // Nor is there a line for it alone.
    watching.at_once(|| replace(&tree, "main.c", "#include \"lib/a.h\"\nint main(void) { }\n"));
    let burst = watching.burst_of(|| replace(&tree, "alone.c", "int other;\n"));
    assert_eq!(burst.paths("again"), ["alone.c".to_owned()].into());
    assert_eq!(burst.0["burst"], 2);
}

#[test]
fn names_in_manifests_change_where_imports_lead() {
    let tree = Tree::new(&[
        ("one/Cargo.toml", "[package]\nname = \"one\"\n"),
        ("one/src/lib.rs", "use two::x;\n"),
        ("two/Cargo.toml", "[package]\nname = \"other\"\n"),
        ("two/src/lib.rs", "pub mod x;\n"),
        ("two/src/x.rs", ""),
    ]);
    let mut watching = Watching::new(&tree, &[]);
    let burst = watching.burst_of(|| replace(&tree, "two/Cargo.toml", "[package]\nname = \"two\"\n"));
    burst.is(&["one/src/lib.rs", "two/Cargo.toml"], &[], &[]);
    assert_eq!(burst.0["fingerprint"], fresh(&tree).whole);
}

#[test]
fn folders_are_renamed_deleted_and_made_again() {
    let tree = small();
    let mut watching = Watching::new(&tree, &[]);
    let root = tree.root();
    let burst = watching.burst_of(|| fs::rename(root.join("lib"), root.join("moved")).unwrap());
    burst.is(&["main.c", "moved/a.h", "moved/b.h"], &["moved/a.h", "moved/b.h"], &["lib/a.h", "lib/b.h"]);
    let burst = watching.burst_of(|| replace(&tree, "moved/b.h", "int seen;\n"));
    burst.is(&["moved/b.h"], &[], &[]);
    let burst = watching.burst_of(|| {
        fs::remove_dir_all(root.join("moved")).unwrap();
        tree.write("moved/b.h", "int again;\n");
        tree.write("moved/deep/er/a.h", "#include \"../../b.h\"\n");
    });
    burst.is(&["moved/b.h", "moved/deep/er/a.h"], &["moved/deep/er/a.h"], &["moved/a.h"]);
    // What is in a folder that was made again is seen, also deep below.
    let burst = watching.burst_of(|| replace(&tree, "moved/deep/er/a.h", "#include \"../../b.h\"\nint x;\n"));
    burst.is(&["moved/deep/er/a.h"], &[], &[]);
    let burst = watching.burst_of(|| replace(&tree, "moved/b.h", "int more;\n"));
    burst.reaches(&["moved/b.h", "moved/deep/er/a.h"]);
    let burst = watching.burst_of(|| fs::remove_dir_all(root.join("moved")).unwrap());
    burst.is(&[], &[], &["moved/b.h", "moved/deep/er/a.h"]);
    assert_eq!(burst.0["fingerprint"], fresh(&tree).whole);
}

#[test]
fn a_folder_that_is_moved_in_with_other_files_of_the_same_names_is_read() {
    let tree = small();
    fs::create_dir(tree.beside("other")).unwrap();
    fs::write(tree.beside("other").join("a.h"), "#include \"b.h\"\n").unwrap();
    fs::write(tree.beside("other").join("b.h"), "int different;\n").unwrap();
    let mut watching = Watching::new(&tree, &[]);
    let burst = watching.burst_of(|| {
        fs::rename(tree.root().join("lib"), tree.beside("away")).unwrap();
        fs::rename(tree.beside("other"), tree.root().join("lib")).unwrap();
    });
    burst.is(&["lib/b.h"], &[], &[]);
    // The folder that went is not watched any more, the one that came is.
    let burst = watching.burst_of(|| {
        fs::write(tree.beside("away").join("b.h"), "int nobody;\n").unwrap();
        replace(&tree, "lib/b.h", "int last;\n");
    });
    burst.is(&["lib/b.h"], &[], &[]);
}

#[test]
fn the_same_files_are_left_out_as_by_the_walk() {
    let tree = small();
    tree.write(".ignore", "*.tmp\n/out/\n");
    tree.write("out/kept.c", "\n");
    let mut watching = Watching::new(&tree, &[]);
    assert_eq!(watching.begun["watching"], 2, "no directory that is left out is watched");
    let burst = watching.burst_of(|| {
        tree.write("a.tmp", "\n");
        tree.write("out/b.c", "\n");
        tree.write(".hidden/c.c", "\n");
        tree.write(".git/d.c", "\n");
        tree.write("seen/e.c", "\n");
    });
    burst.is(&["seen/e.c"], &["seen/e.c"], &[]);
    let burst = watching.burst_of(|| replace(&tree, ".ignore", "/out/\nalone.c\n"));
    burst.is(&["a.tmp"], &["a.tmp"], &["alone.c"]);
    let burst = watching.burst_of(|| fs::remove_file(tree.root().join(".ignore")).unwrap());
    assert_eq!(burst.paths("come"), ["alone.c", "out/b.c", "out/kept.c"].map(str::to_owned).into());
    let burst = watching.burst_of(|| replace(&tree, "out/kept.c", "int now;\n"));
    burst.is(&["out/kept.c"], &[], &[]);
}

#[test]
fn what_git_ignores_is_left_out_as_long_as_there_is_a_repository() {
    let tree = small();
    tree.write(".gitignore", "alone.c\n");
    assert_eq!(tree.json(&[])["files"], 4);
    let mut watching = Watching::new(&tree, &[]);
    watching.burst_of(|| fs::create_dir(tree.root().join(".git")).unwrap()).is(&[], &[], &["alone.c"]);
    assert_eq!(tree.json(&[])["files"], 3);
    let burst = watching.burst_of(|| fs::remove_dir(tree.root().join(".git")).unwrap());
    burst.is(&["alone.c"], &["alone.c"], &[]);
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_read_when_it_can_be() {
    let tree = small();
    let mut watching = Watching::new(&tree, &["--follow"]);
    let burst = watching.burst_of(|| symlink("/proc/self/mem", tree.root().join("lib/bad.h")).unwrap());
    burst.is(&[], &["lib/bad.h"], &[]);
    let burst = watching.burst_of(|| replace(&tree, "lib/b.h", "#include \"bad.h\"\n"));
    burst.reaches(&["lib/a.h", "lib/b.h", "main.c"]);
    let burst = watching.burst_of(|| replace(&tree, "lib/bad.h", "int good;\n"));
    burst.is(&["lib/bad.h"], &[], &[]);
    burst.reaches(&["lib/a.h", "lib/b.h", "lib/bad.h", "main.c"]);
    assert_eq!(burst.0["fingerprint"], fresh(&tree).whole);
    watching.signal("INT");
    let (status, stderr) = watching.end();
    assert_eq!((status, stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.contains("lib/bad.h: "), "{stderr}");
}

#[test]
fn a_root_that_is_a_link_is_watched_itself() {
    let tree = small();
    let link = tree.beside("link");
    symlink(tree.root(), &link).unwrap();
    let mut command = command();
    let mut watching =
        Watching::spawn(command.args(["index", "--watch", "--json", "--no-progress", "--debounce", "250"]).arg(&link));
    assert_eq!(watching.begun["watching"], 2);
    watching.burst_of(|| replace(&tree, "alone.c", "int edited;\n")).is(&["alone.c"], &[], &[]);
    watching.burst_of(|| tree.write("new.c", "\n")).is(&["new.c"], &["new.c"], &[]);
    watching.burst_of(|| replace(&tree, "lib/b.h", "int bb;\n")).is(&["lib/b.h"], &[], &[]);
}

/// In both orders of the names, since the system knows the one that was watched last.
#[test]
fn what_has_two_names_is_seen_under_both_and_when_one_of_them_has_gone() {
    for name in ["above", "zlink"] {
        let tree = Tree::new(&[("real/x.py", ""), ("real/sub/y.py", ""), ("file.py", "")]);
        let (x, y, alias) = (&format!("{name}/x.py"), &format!("{name}/sub/y.py"), "alias.py");
        symlink("real", tree.root().join(name)).unwrap();
        symlink("file.py", tree.root().join(alias)).unwrap();
        let mut watching = Watching::new(&tree, &["--follow"]);
        assert_eq!(watching.begun["files"], 6);
        let same = |burst: &Burst| assert_eq!(burst.0["fingerprint"], followed(&tree).whole, "{name}: {}", burst.0);
        let burst = watching.burst_of(|| replace(&tree, "real/x.py", "a = 1\n"));
        burst.is(&["real/x.py", x], &[], &[]);
        same(&burst);
        let burst = watching.burst_of(|| replace(&tree, y, "a = 2\n"));
        burst.is(&["real/sub/y.py", y], &[], &[]);
        same(&burst);
        let burst = watching.burst_of(|| tree.write("file.py", "a = 3\n"));
        burst.is(&["file.py", alias], &[], &[]);
        same(&burst);
        let burst = watching.burst_of(|| fs::remove_file(tree.root().join(name)).unwrap());
        burst.is(&[], &[], &[x, y]);
        same(&burst);
        let burst = watching.burst_of(|| replace(&tree, "real/x.py", "a = 4\n"));
        burst.is(&["real/x.py"], &[], &[]);
        let burst = watching.burst_of(|| tree.write("real/sub/new.py", ""));
        burst.is(&["real/sub/new.py"], &["real/sub/new.py"], &[]);
        same(&burst);
        watching.signal("INT");
        assert_eq!(watching.end(), (Some(0), String::new()));
    }
}

#[test]
fn what_is_wrong_is_said_once_however_often_all_is_looked_at() {
    let tree = small();
    tree.write("huge.c", "int x;\n".repeat(200_000));
    symlink("..", tree.root().join("lib/up")).unwrap();
    let mut watching = Watching::new(&tree, &["--max-size", "1"]);
    let burst = watching.burst_of(|| tree.write(".ignore", "alone.c\n"));
    burst.is(&[], &[], &["alone.c"]);
    let burst = watching.burst_of(|| {
        tree.write("new/in.c", "\n");
        symlink("..", tree.root().join("new/up")).unwrap();
    });
    burst.is(&["new/in.c"], &["new/in.c"], &[]);
    watching.burst_of(|| fs::remove_file(tree.root().join(".ignore")).unwrap());
    // What is another file is named again.
    let burst = watching.burst_of(|| {
        replace(&tree, "huge.c", "int y;\n".repeat(200_000));
        replace(&tree, "main.c", "int main(void) { }\n");
    });
    burst.is(&["main.c"], &[], &[]);
    watching.signal("INT");
    let (status, stderr) = watching.end();
    let named = ["huge.c", "lib/up", "new/up"].map(|name| stderr.lines().filter(|line| line.contains(name)).count());
    assert_eq!((status, named, stderr.lines().count()), (Some(1), [2, 1, 1], 4), "{stderr}");
}

#[test]
fn a_signal_ends_it_cleanly() {
    for signal in ["INT", "TERM", "HUP"] {
        let tree = small();
        let mut watching = Watching::new(&tree, &[]);
        watching.burst_of(|| replace(&tree, "alone.c", "int edited;\n"));
        watching.signal(signal);
        assert_eq!(watching.end(), (Some(0), String::new()), "{signal}");
    }
}

#[test]
fn a_root_that_vanishes_ends_it_with_one_line() {
    for away in ["gone", ""] {
        let tree = small();
        let watching = Watching::new(&tree, &[]);
        match away {
            "" => fs::remove_dir_all(tree.root()).unwrap(),
            away => fs::rename(tree.root(), tree.beside(away)).unwrap(),
        }
        let (status, stderr) = watching.end();
        assert_eq!((status, stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert!(stderr.contains("tree: the directory has gone"), "{stderr}");
    }
}

#[test]
fn another_directory_in_the_place_of_the_root_is_indexed_afresh() {
    let tree = small();
    let mut watching = Watching::new(&tree, &[]);
    let burst = watching.burst_of(|| {
        fs::rename(tree.root(), tree.beside("old")).unwrap();
        tree.write("alone.c", "int alone;\n");
        tree.write("lib/new.h", "\n");
    });
    burst.is(&["lib/new.h"], &["lib/new.h"], &["lib/a.h", "lib/b.h", "main.c"]);
    let burst = watching.burst_of(|| replace(&tree, "lib/new.h", "int x;\n"));
    burst.is(&["lib/new.h"], &[], &[]);
}

#[test]
fn a_reader_that_has_gone_ends_it() {
    let tree = small();
    let mut watch = command();
    watch.args(["index", "--watch", "--json", "--no-progress"]).arg(tree.root());
    let output = watch.stdout(unread()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("shardrun: standard output: "));
}

#[test]
fn quiet_leaves_what_json_asks_for() {
    let tree = small();
    let mut watching = Watching::new(&tree, &["--quiet"]);
    watching.burst_of(|| replace(&tree, "alone.c", "int edited;\n")).is(&["alone.c"], &[], &[]);
}

#[test]
fn people_are_told_which_files_ran_again_and_how_long_it_took() {
    let tree = small();
    let mut child = command()
        .args(["index", "--watch", "--no-progress", "--debounce", "20"])
        .arg(tree.root())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap())).map(Result::unwrap);
    lines
        .find(|line| line == "watching 2 directories with 4 files; a burst ends after 20 ms without a change")
        .unwrap();
    replace(&tree, "lib/b.h", "int bb;\n");
    let line = lines.next().unwrap();
    assert!(line.starts_with("burst 1: 1 files ran again, 0 came, 0 went, 3 reached; "), "{line}");
    assert!(line.ends_with(" ms beyond the debounce"), "{line}");
    assert_eq!(lines.next().unwrap(), "  lib/b.h");
    child.kill().unwrap();
    child.wait().unwrap();
}
