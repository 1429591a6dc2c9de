//! `shardrun run` with faulty task files: each fault is told with file, line and task, and nothing is run.
//! These tests do not know how a file is read.
#![cfg(all(feature = "cli", target_os = "linux"))]

mod cli;

use cli::run;
use cli::tasks::Tasks;

/// The faults of a file, whose lines are given from 1; nothing of it may run.
#[track_caller]
fn faults(file: &str, expected: &[&str]) {
    let tasks = Tasks::new(&format!("{file}\n[tasks.touch]\ncommand = \"touch ran\"\n"));
    let ran = tasks.run(&[]);
    let expected: Vec<String> = expected.iter().map(|fault| format!("shardrun: shardrun.toml:{fault}")).collect();
    assert_eq!(
        (ran.status, ran.stderr.lines().collect::<Vec<_>>()),
        (2, expected.iter().map(String::as_str).collect())
    );
    assert_eq!(ran.stdout, "");
    assert!(!tasks.path("ran").exists() && !tasks.path(".shardrun").exists());
}

#[test]
fn an_unknown_key_is_refused_with_the_one_that_was_meant() {
    faults("concurency = 2", &["1: unknown key `concurency`; did you mean concurrency?"]);
    faults(
        "[tasks.a]\ncommand = \"true\"\ndependancies = [\"b\"]\ncolour = 1",
        &["3: task a: unknown key `dependancies`; did you mean dependencies?", "4: task a: unknown key `colour`"],
    );
    faults(
        "[tasks.a]\ncommand = \"true\"\nretries = { times = 1, wiat = 2 }",
        &["3: task a: unknown key `wiat`; did you mean wait?"],
    );
}

#[test]
fn every_fault_is_told_at_once_in_the_order_of_lines() {
    faults(
        "concurrency = 0\ncontinue = \"maybe\"\n[tasks.a]\ncommand = 7\ntimeout = \"1 fortnight\"\n[tasks.b]\npool = \"x\"",
        &[
            "1: `concurrency` must be a whole number of at least 1",
            "2: `continue` must be one of never, deps-ok, always, kill",
            "4: task a: `command` must be a string or an array of strings",
            "5: task a: `timeout` must be a time: seconds as a number, or a text such as \"500ms\", \"30s\", \"2m\", \"1h\"",
            "6: task b: has neither a command nor dependencies",
            "7: task b: `pool` means nothing for a task without a command",
        ],
    );
}

#[test]
fn values_of_the_wrong_kind_are_refused() {
    let task = |line: &str| format!("[tasks.a]\ncommand = \"true\"\n{line}");
    for (line, what) in [
        ("memory = 'much'", "`memory` must be a whole number, or a size such as \"512MiB\" or \"2GB\""),
        ("memory = 1", "has `memory`, but the file does not say how much there is: `memory = true` or an amount"),
        ("retries = -1", "`retries` must be a whole number of at least 0"),
        ("retries = 1001", "`retries` must be at most 1000"),
        ("retries = { wait = 1 }", "`retries` must say how many `times`"),
        ("timeout = 0", "`timeout` must be longer than nothing"),
        ("persistent = \"yes\"", "`persistent` must be true or false"),
        ("dependencies = [1]", "`dependencies` must hold strings only"),
        ("environment = { A = 1 }", "`A` must be a string, or false to remove the variable"),
        ("environment = { \"A=B\" = \"1\" }", "`A=B` cannot be the name of a variable"),
        ("directory = \"a\\u0000b\"", "`directory` must not contain a zero byte"),
        ("resources = { m = 0.5 }", "`m` must be a whole number, or a size such as \"512MiB\" or \"2GB\""),
    ] {
        faults(&task(line), &[&format!("3: task a: {what}")]);
    }
    faults("[tasks.a]\ncommand = \" \"", &["2: task a: `command` is empty"]);
    faults("[tasks.a]\ncommand = []", &["2: task a: `command` is empty"]);
    faults("[tasks]\na = \"true\"", &["2: `a` must be a table with a command or dependencies"]);
    faults("[pools]\np = 0", &["2: `p` must be a whole number of at least 1"]);
}

#[test]
fn names_that_cannot_be_are_refused() {
    let what = "cannot be the name of a task: it must not begin with ^ or -";
    faults("[tasks.\"^a\"]\ncommand = \"true\"", &[&format!("1: `^a` {what}")]);
    faults("[tasks.-a]\ncommand = \"true\"", &[&format!("1: `-a` {what}")]);
    let what = "cannot be the name of a task: it is empty, or has a space at an end, or a control character";
    faults("[tasks.\"\"]\ncommand = \"true\"", &[&format!("1: `` {what}")]);
}

#[test]
fn what_is_not_declared_is_refused_with_what_was_meant() {
    faults(
        "[tasks.build]\ncommand = \"true\"\n[tasks.test]\ncommand = \"true\"\ndependencies = [\n  \"biuld\",\n]",
        &["6: task test: depends on `biuld`, which is not in the file; did you mean build?"],
    );
    faults(
        "[pools]\nnet = 1\n[tasks.a]\ncommand = \"true\"\npool = \"nte\"",
        &["5: task a: pool `nte` is not declared; did you mean net?"],
    );
    faults(
        "[resources]\nmemory = \"1GiB\"\n[tasks.a]\ncommand = \"true\"\nresources = { memoyr = 1 }",
        &["5: task a: resource `memoyr` is not declared; did you mean memory?"],
    );
    faults("default = [\"x\"]", &["1: `default` names `x`, which is no task"]);
}

#[test]
fn what_would_not_hold_is_refused() {
    faults(
        "[pools]\np = 1\n[tasks.a]\ncommand = \"true\"\npool = \"p\"\nmutex = \"m\"",
        &[
            "3: task a: is in a `pool`, so `resources`, `memory`, `mutex` and `exclusive` would not hold for it: they are for tasks outside pools",
        ],
    );
    faults(
        "[tasks.a]\ncommand = \"true\"\nready = \"up\"",
        &["1: task a: has `ready`, which is for tasks that are `persistent = true`"],
    );
}

#[test]
fn b63_a_ring_is_refused_with_its_path_and_line() {
    faults(
        "[tasks.a]\ncommand = \"true\"\ndependencies = [\"touch\", \"b\"]\n[tasks.b]\ndependencies = [\"c\"]\n[tasks.c]\ndependencies = [\"a\"]",
        &["3: task a: depends on itself: a -> b -> c -> a"],
    );
}

#[test]
fn b65_a_task_that_depends_on_itself_is_refused_also_by_a_group() {
    faults("[tasks.a]\ndependencies = [\"a\"]", &["2: task a: depends on itself: a -> a"]);
    faults(
        "[packages]\nx = [\"y\"]\ny = [\"x\"]\n[tasks.\"x:b\"]\ncommand = \"true\"\ndependencies = [\"^b\"]",
        &["6: task x:b: `^b` leads back to the task itself: package x is built on itself"],
    );
    faults(
        "[tasks.a]\ncommand = \"true\"\ndependencies = [\"^a\"]",
        &["3: task a: `^a` is for tasks of a package, which are named `package:task`"],
    );
    faults(
        "[tasks.\"p:a\"]\ncommand = \"true\"\ndependencies = [\"^a\"]",
        &["3: task p:a: `^a` needs package p, which is not in [packages]"],
    );
    faults(
        "[packages]\nx = [\"yy\"]\nyyy = []",
        &["2: package x is built on `yy`, which is not in [packages]; did you mean yyy?"],
    );
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    let tasks = Tasks::new("[tasks.a]\ncommand = \"true\"\ntimeout = \n");
    let ran = tasks.run(&[]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.starts_with("shardrun: shardrun.toml:3: "), "{ran:?}");
    let tasks = Tasks::new("[tasks.a]\ncommand = \"true\"\n[tasks.a]\ncommand = \"true\"\n");
    let ran = tasks.run(&[]);
    assert!(ran.status == 2 && ran.stderr.starts_with("shardrun: shardrun.toml:3: "), "{ran:?}");
    let tasks = Tasks::new("x");
    std::fs::write(tasks.path("shardrun.toml"), b"# a\n# \xff\n").unwrap();
    assert_eq!(tasks.run(&[]).stderr, "shardrun: shardrun.toml:2: not UTF-8\n");
    tasks.write("shardrun.toml", "");
    assert_eq!(tasks.run(&[]).stderr, "shardrun: shardrun.toml:1: there are no tasks: write them as [tasks.NAME]\n");
}

#[test]
fn wrong_usage_is_told_with_exit_status_2() {
    let tasks = Tasks::new("[tasks.build]\ncommand = \"touch ran\"\n");
    let ran = tasks.run(&["biuld"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (2, "shardrun: there is no task biuld; did you mean build?\n"));
    for words in [
        &["--continue", "perhaps"][..],
        &["--concurrency", "0"],
        &["--keep-going", "0"],
        &["--keep-going", "2", "--continue", "always"],
        &["--explain", "other"],
        &["--graph", "x", "--trace", "x"],
        &["--graph", "x", "--trace", "./x"],
        &["--file", "gone.toml"],
    ] {
        let ran = tasks.run(words);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{words:?}: {ran:?}");
        assert!(!ran.stderr.is_empty());
    }
    assert!(!tasks.path("ran").exists());
    let nowhere = run(cli::command().arg("run").current_dir("/"));
    assert_eq!((nowhere.status, nowhere.stderr.lines().count()), (2, 1), "{nowhere:?}");
}

#[test]
fn what_is_wrong_many_times_on_a_line_is_told_once() {
    let ran = Tasks::new(&format!("deep = {}\n", "[".repeat(100_000))).run(&[]);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert!(lines.windows(2).all(|lines| lines[0] != lines[1]), "{} lines, the first is {}", lines.len(), lines[0]);
    assert_eq!(ran.status, 2);
}
