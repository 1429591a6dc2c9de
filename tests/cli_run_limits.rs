//! `shardrun run` at its limits: tasks, faults, commands at a time, runs of one folder, and a job server that goes.
//! These tests do not know how files are read, nor how commands are made.
#![cfg(all(feature = "cli", target_os = "linux"))]

mod cli;

use cli::tasks::Tasks;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

const O_NONBLOCK: i32 = 0o4000;

#[test]
fn more_commands_than_there_is_room_for_start_as_others_end() {
    let mut file = String::new();
    for at in 0..80 {
        _ = writeln!(file, "[tasks.t{at}]\ncommand = 'echo x >> log; sleep 0.3; test {at} != 7'\nretries = 1");
    }
    file = file.replace("retries = 1", "retries = { times = 1, wait = '1ms' }");
    let tasks = Tasks::new(&file);
    let mut shell = Command::new("/bin/bash");
    let line = format!("ulimit -n 24; exec {} run -j 100 --continue always", env!("CARGO_BIN_EXE_shardrun"));
    let output = shell.arg("-c").arg(line).current_dir(tasks.path("")).output().unwrap();
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{stdout}{stderr}");
    assert!(stdout.contains("79 ok, 1 failed, in "), "{stdout}{stderr}");
    assert_eq!(tasks.read("log").lines().count(), 81, "each was started once, and the one that failed twice");
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(lines.len() == 1 && lines[0].starts_with("shardrun: Too many open files"), "{stderr}");
}

#[test]
fn a_file_with_as_many_faults_as_tasks_is_told_of_soon() {
    let mut file = String::new();
    for at in 0..20_000 {
        _ = writeln!(file, "[tasks.t{at}]\ncommand = 'true'\ndependencies = ['x{at}']\npool = 'p{at}'");
    }
    let ran = Tasks::new(&file).run(&[]);
    assert_eq!((ran.status, ran.stderr.lines().count()), (2, 40_000));
    let first = ran.stderr.lines().find(|line| line.contains("depends on")).unwrap();
    assert!(first.ends_with("depends on `x0`, which is not in the file; did you mean t0?"), "{first}");
}

#[test]
fn of_a_long_ring_both_ends_are_told() {
    let mut file = String::new();
    for at in 0..50_000 {
        _ = writeln!(file, "[tasks.t{at}]\ncommand = 'true'\ndependencies = ['t{}']", (at + 1) % 50_000);
    }
    let ran = Tasks::new(&file).run(&[]);
    assert_eq!((ran.status, ran.stderr.lines().count()), (2, 1));
    assert!(ran.stderr.len() < 500 && ran.stderr.contains(" more) -> "), "{}", ran.stderr);
}

#[test]
fn a_file_without_end_is_refused() {
    let ran = Tasks::new("").run(&["--file", "/dev/zero"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (2, "shardrun: /dev/zero: larger than 256 MiB\n"));
}

#[test]
fn two_runs_of_one_folder_at_once_keep_the_times_of_both() {
    let tasks = Tasks::new("[tasks.a]\ncommand = 'echo up > gate; read go < go'\n[tasks.b]\ncommand = 'true'\n");
    tasks.fifo("gate");
    tasks.fifo("go");
    let begun = tasks.begin(&["a"]);
    tasks.hear("gate");
    assert!(tasks.command(&["b"]).output().unwrap().status.success());
    fs::write(tasks.path("go"), "go\n").unwrap();
    assert_eq!(begun.end().status, 0);
    let history = tasks.read(".shardrun/history");
    let names: Vec<&str> = history.lines().filter_map(|line| line.rsplit(' ').next()).collect();
    assert_eq!(names, ["2", "a", "b", "end"], "{history}");
}

#[test]
fn a_job_server_that_goes_while_it_is_in_use_gets_its_tokens_back() {
    let all: String = (0..12)
        .map(|at| format!("[tasks.t{at:02}]\ncommand = 'echo + >> log; test {at} != 3 || rm jobs; echo - >> log'\n"))
        .collect();
    let tasks = Tasks::new(&format!("concurrency = 8\n{all}"));
    let path = tasks.fifo("jobs");
    let open = || OpenOptions::new().read(true).write(true).custom_flags(O_NONBLOCK).open(&path);
    let mut pipe: File = open().unwrap();
    pipe.write_all(b"ab").unwrap();
    let flags = format!(" -j3 --jobserver-auth=fifo:{}", path.display());
    let run = || tasks.command(&["--no-history"]).env("MAKEFLAGS", &flags).output().unwrap();
    let output = run();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(peak(&tasks.read("log")) <= 3, "{}", tasks.read("log"));
    let mut tokens = Vec::new();
    _ = pipe.read_to_end(&mut tokens);
    tokens.sort_unstable();
    assert_eq!(tokens, b"ab");
    // Later it is not there: that is told, and the run goes on without.
    let output = run();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && stderr.contains("has its make ended?; going on without make's job server"),
        "{stderr}"
    );
}

/// How many lines of `+` there were at most without their `-`.
fn peak(log: &str) -> i32 {
    let steps = log.lines().map(|line| if line == "+" { 1 } else { -1 });
    steps
        .scan(0, |now, step| {
            *now += step;
            Some(*now)
        })
        .max()
        .unwrap_or(0)
}

#[test]
fn commands_start_beside_others_only_while_there_is_headroom() {
    let all: String =
        (0..6).map(|at| format!("[tasks.t{at}]\ncommand = 'echo + >> log; /bin/true; echo - >> log'\n")).collect();
    for (headroom, most) in [("'100%'", 1), ("'16777215TiB'", 1), ("'0%'", 4), ("1", 4)] {
        let tasks = Tasks::new(&format!("concurrency = 4\nheadroom = {headroom}\n{all}"));
        let ran = tasks.run(&["--no-history"]);
        assert_eq!((ran.status, ran.named("ok").len(), ran.stderr.as_str()), (0, 6, ""), "{ran:?}");
        assert!(peak(&tasks.read("log")) <= most, "{headroom}: {}", tasks.read("log"));
    }
    for wrong in ["'101%'", "'-1%'", "'much'", "true", "1.5"] {
        let ran = Tasks::new(&format!("headroom = {wrong}\n{all}")).run(&[]);
        let what = "shardrun: shardrun.toml:1: `headroom` must be a size such as \"2GB\", or a share such as \"10%\"\n";
        assert_eq!((ran.status, ran.stderr.as_str()), (2, what), "{wrong}");
    }
}

#[test]
fn commands_may_share_the_jobs_by_a_pipe_with_a_name() {
    let tasks = Tasks::new(
        "concurrency = 3\njobserver = 'fifo'\n[tasks.a]\ncommand = 'p=${MAKEFLAGS##*fifo:}; test -p $p && echo $p > place; head -c 2 $p > tokens; cat tokens > $p'\n",
    );
    let ran = tasks.run(&[]);
    assert_eq!((ran.status, tasks.read("tokens").as_str(), ran.stderr.as_str()), (0, "++", ""), "{ran:?}");
    let place = tasks.read("place");
    assert!(!place.is_empty() && !std::path::Path::new(place.trim()).exists(), "it is removed at the end: {place}");
    let ran = Tasks::new("jobserver = 'pipe'\n[tasks.a]\ncommand = 'true'\n").run(&[]);
    assert!(ran.status == 2 && ran.stderr.contains("`jobserver` must be true, false or \"fifo\""), "{ran:?}");
}

#[test]
fn a_command_that_wants_much_is_drained_for_once_it_was_passed_over_so_often() {
    // The first holds a half of the room until four small ones have passed the large one, which needs all of it.
    let small = "echo s >> log; test $(wc -l < log) -ne 4 || echo go > go";
    let small: String =
        (0..12).map(|at| format!("[tasks.s{at:02}]\ncommand = '{small}'\nresources = {{ room = 1 }}\n")).collect();
    let file = |head: &str| {
        format!(
            "{head}concurrency = 2\n[resources]\nroom = 2\n\
             [tasks.a]\ncommand = 'read go < go; echo a >> log'\nresources = {{ room = 1 }}\n\
             [tasks.large]\ncommand = 'echo large >> log'\nresources = {{ room = 2 }}\n{small}"
        )
    };
    for (head, latest) in [("", 13), ("drain_after = 4\n", 5)] {
        let tasks = Tasks::new(&file(head));
        tasks.fifo("go");
        let ran = tasks.run(&["--no-history"]);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{ran:?}");
        let log = tasks.read("log");
        let at = log.lines().position(|line| line == "large").unwrap();
        assert!(at <= latest, "{head}{log}");
    }
    for wrong in ["0", "'often'"] {
        let ran = Tasks::new(&file(&format!("drain_after = {wrong}\n"))).run(&[]);
        assert!(ran.status == 2 && ran.stderr.contains("`drain_after` must be"), "{ran:?}");
    }
}
