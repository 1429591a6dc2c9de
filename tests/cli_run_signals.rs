//! `shardrun run` when it is told to end: the first signal asks the commands, the second kills them, and none is left.
//! These tests do not know how commands are minded.
#![cfg(all(feature = "cli", target_os = "linux"))]

mod cli;

use cli::tasks::{SOON, Tasks};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Says that it is up, and notes when it is asked to end.
const POLITE: &str = "trap \"echo asked >> log; exit 0\" TERM; echo up > gate; while :; do sleep 1000 & wait; done";
/// Cannot be asked, nor can its child.
const STUBBORN: &str = "trap \"\" TERM; (trap \"\" TERM; sleep 1000) & echo up > gate; while :; do sleep 1000; done";

fn one(command: &str, more: &str) -> Tasks {
    let tasks = Tasks::new(&format!(
        "[tasks.a]\ncommand = '{command}'\n{more}\n[tasks.b]\ncommand = 'touch b'\ndependencies = ['a']\n"
    ));
    tasks.fifo("gate");
    tasks
}

#[test]
fn the_first_signal_asks_all_commands_to_end() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let tasks = one(POLITE, "");
        let begun = tasks.begin(&[]);
        tasks.hear("gate");
        begun.signal(signal);
        let ran = begun.end();
        tasks.nothing_is_left();
        // That it exits with 0 when asked does not make it a success.
        assert_eq!((ran.status, ran.named("aborted")), (130, vec!["a", "b"]), "{signal:?}: {ran:?}");
        assert_eq!(tasks.read("log"), "asked\n");
        assert!(!tasks.path("b").exists());
        assert!(ran.stderr.starts_with("shardrun: interrupted: "), "{ran:?}");
        assert!(ran.stdout.contains("2 aborted, in "), "{ran:?}");
    }
}

#[test]
fn the_second_signal_kills_what_does_not_end() {
    let tasks = one(STUBBORN, "grace = '1h'");
    let began = Instant::now();
    let begun = tasks.begin(&[]);
    tasks.hear("gate");
    begun.signal(Signal::INT);
    begun.signal(Signal::TERM);
    let ran = begun.end();
    tasks.nothing_is_left();
    assert_eq!((ran.status, ran.named("aborted")), (130, vec!["a", "b"]), "{ran:?}");
    assert!(began.elapsed() < Duration::from_secs(600));
}

#[test]
fn what_does_not_end_is_killed_after_its_grace() {
    let tasks = one(STUBBORN, "grace = '50ms'");
    let begun = tasks.begin(&[]);
    tasks.hear("gate");
    begun.signal(Signal::TERM);
    let ran = begun.end();
    tasks.nothing_is_left();
    assert_eq!((ran.status, ran.named("aborted")), (130, vec!["a", "b"]), "{ran:?}");
}

#[test]
fn a_stopped_command_is_woken_to_end() {
    let tasks = one("echo up > gate; kill -STOP 0; echo never", "grace = '1h'");
    let begun = tasks.begin(&[]);
    tasks.hear("gate");
    begun.signal(Signal::INT);
    let ran = begun.end();
    tasks.nothing_is_left();
    assert_eq!(ran.status, 130, "{ran:?}");
}

#[test]
fn an_interrupt_ends_the_wait_for_another_attempt() {
    let tasks = one("echo up > gate; exit 1", "retries = { times = 3, wait = '1h', longest = '1h' }");
    let begun = tasks.begin(&[]);
    tasks.hear("gate");
    begun.signal(Signal::INT);
    let ran = begun.end();
    assert_eq!((ran.status, ran.named("ok")), (130, vec![]), "{ran:?}");
}

#[test]
fn servers_that_were_asked_for_by_name_run_until_an_interrupt() {
    let tasks = one(POLITE, "persistent = true");
    let begun = tasks.begin(&["a"]);
    tasks.hear("gate");
    begun.signal(Signal::INT);
    let ran = begun.end();
    tasks.nothing_is_left();
    assert_eq!((ran.status, ran.named("ok"), tasks.read("log").as_str()), (130, vec!["a"], "asked\n"), "{ran:?}");
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let tasks = one("echo up > gate; read go < go", "");
    tasks.fifo("go");
    // A shell without job control starts what is in its background with SIGINT ignored.
    let mut shell = std::process::Command::new("/bin/sh");
    let line = format!("{} run & echo $!; wait $!", env!("CARGO_BIN_EXE_shardrun"));
    let child = shell.arg("-c").arg(line).current_dir(tasks.path("")).stdout(std::process::Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    let pid = rustix::process::Pid::from_raw(line.trim().parse().unwrap()).unwrap();
    tasks.hear("gate");
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    std::fs::write(tasks.path("go"), "go\n").unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{text}");
    assert!(text.contains("2 ok, in "), "{text}");
}

#[test]
fn a_reader_that_takes_nothing_cannot_keep_a_run_from_ending() {
    // More than a pipe holds is printed, and nobody reads it.
    let tasks = Tasks::new(
        "
concurrency = 2
[tasks.loud]
command = 'head -c 300000 /dev/zero'
[tasks.slow]
command = 'echo up > gate; exec sleep 1000'
dependencies = ['loud']
",
    );
    tasks.fifo("gate");
    let mut child = tasks.command(&[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    tasks.hear("gate");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let until = Instant::now() + SOON;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("it waits for its reader for ever");
        }
        std::thread::yield_now();
    };
    tasks.nothing_is_left();
    assert_eq!(status.code(), Some(130));
}

#[test]
fn a_reader_that_takes_nothing_until_an_interrupt_is_told_gets_all() {
    let tasks = Tasks::new(
        "
[tasks.loud]
command = 'head -c 300000 /dev/zero; echo; echo THE END'
[tasks.slow]
command = 'echo up > gate; exec sleep 1000'
dependencies = ['loud']
",
    );
    tasks.fifo("gate");
    let mut child = tasks.command(&[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // More than the pipe holds is printed before anything is heard.
    tasks.hear("gate");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("shardrun: interrupted: "), "{line}");
    let output = child.wait_with_output().unwrap();
    tasks.nothing_is_left();
    let text = String::from_utf8(output.stdout).unwrap().replace('\0', "");
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("\nTHE END\naborted slow"), "{text}");
    assert!(text.contains("\n1 ok, 1 aborted, in "), "{text}");
}
