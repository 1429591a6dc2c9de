//! `shardrun run` when commands fail, hang, are killed, print too much or cannot be started, and when its own output fails.
//! These tests do not know how commands are minded.
#![cfg(all(feature = "cli", target_os = "linux"))]

mod cli;

use cli::tasks::Tasks;
use cli::unread;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::process::Stdio;

/// SplitMix64, seeded by what is printed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        println!("seed {seed}");
        Random(seed)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

const CHAIN: &str = "
[tasks.bad]
command = 'exit 3'
[tasks.behind]
command = 'echo behind'
dependencies = ['bad']
[tasks.further]
command = 'echo further'
dependencies = ['behind']
[tasks.good]
command = 'echo good'
";

#[test]
fn modes_decide_what_goes_on_after_a_failure() {
    let tasks = Tasks::new(CHAIN);
    let told = |words: &[&str]| {
        let ran = tasks.run(&[&["-j1", "--no-history"], words].concat());
        assert_eq!(ran.status, 1, "{ran:?}");
        let mut ends: Vec<String> = ran.ends().into_iter().map(|(word, name)| format!("{word} {name}")).collect();
        ends.sort_unstable();
        ends.join(", ")
    };
    assert_eq!(told(&[]), "FAILED bad, ok good, skipped behind, skipped further");
    assert_eq!(told(&["--continue", "never"]), "FAILED bad, skipped behind, skipped further, skipped good");
    assert_eq!(told(&["--continue", "always"]), "FAILED bad, ok behind, ok further, ok good");
    assert_eq!(told(&["--keep-going", "1"]), told(&["--continue", "never"]));
    assert_eq!(told(&["--keep-going", "2"]), told(&[]));
    let ran = tasks.run(&["-j1", "--continue", "always"]);
    assert!(ran.stdout.contains("further: ") && ran.stdout.contains("behind a failure"), "{ran:?}");
    let ran = tasks.run(&[]);
    assert!(ran.stdout.contains("skipped further: because of bad\n"), "{ran:?}");
    tasks.write("shardrun.toml", &format!("continue = 'always'\n{CHAIN}"));
    assert_eq!(told(&[]), "FAILED bad, ok behind, ok further, ok good");
}

#[test]
fn kill_ends_what_runs() {
    let tasks = Tasks::new(
        "concurrency = 2\n[tasks.slow]\ncommand = 'echo up > gate; exec sleep 1000'\n[tasks.bad]\ncommand = 'read up < gate; exit 1'\n",
    );
    tasks.fifo("gate");
    let ran = tasks.run(&["--continue", "kill"]);
    assert_eq!((ran.status, ran.named("aborted"), ran.named("FAILED")), (1, vec!["slow"], vec!["bad"]), "{ran:?}");
}

#[test]
fn a_failed_task_is_tried_again_so_often_with_growing_waits() {
    let tasks = Tasks::new(
        "
[tasks.third]
command = 'echo x >> third; echo try; test $(wc -l < third) = 3'
retries = { times = 3, wait = '1ms' }
[tasks.never]
command = 'echo x >> never; exit 9'
retries = { times = 2, wait = '10ms', longest = '15ms' }
",
    );
    let ran = tasks.run(&[]);
    assert_eq!((ran.status, ran.named("ok"), ran.named("FAILED")), (1, vec!["third"], vec!["never"]), "{ran:?}");
    assert_eq!((tasks.read("third").lines().count(), tasks.read("never").lines().count()), (3, 3));
    assert!(ran.stdout.contains("third: 3 attempts, "), "{ran:?}");
    assert!(ran.stdout.contains("never: failed with exit status 9, 3 attempts, "), "{ran:?}");
    let notes = "shardrun: attempt 1 failed with exit status 9; the next in 10ms\nshardrun: attempt 2 failed with exit status 9; the next in 15ms\n";
    assert!(ran.stdout.contains(notes), "{ran:?}");
    assert!(ran.stdout.contains("try\nshardrun: attempt 1 "), "what each attempt printed is kept: {ran:?}");
}

#[test]
fn what_takes_too_long_is_ended_with_all_its_group() {
    let tasks = Tasks::new(
        "
grace = '50ms'
[tasks.stubborn]
command = 'trap \"\" TERM; (trap \"\" TERM; sleep 1000) & sleep 1000'
timeout = '50ms'
[tasks.again]
command = 'echo x >> again; test $(wc -l < again) -ge 2 || exec sleep 1000'
timeout = '100ms'
retries = { times = 50, wait = '1ms' }
",
    );
    let ran = tasks.run(&["-j4"]);
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.stdout.contains("FAILED  stubborn: took too long, "), "{ran:?}");
    // The loaded machine may take longer than the timeout for a good attempt, too; it is tried again then.
    assert_eq!(ran.named("ok"), ["again"], "{ran:?}");
}

#[test]
fn what_takes_too_long_is_asked_to_end_first() {
    // A command that the machine holds up may not have come to set its trap: then it is given more time.
    for time in ["50ms", "1s", "20s", "400s"] {
        let command = "trap \"echo asked; exit 0\" TERM; touch set; sleep 1000 & wait";
        let tasks = Tasks::new(&format!("[tasks.asked]\ncommand = '{command}'\ntimeout = '{time}'\ngrace = '1h'\n"));
        let ran = tasks.run(&[]);
        assert!(ran.status == 1 && ran.stdout.contains("FAILED  asked: took too long, "), "{ran:?}");
        if tasks.path("set").exists() {
            assert!(ran.stdout.contains("---- asked\nasked\n"), "what it said is kept: {ran:?}");
            return;
        }
    }
    panic!("the command never comes to anything");
}

#[test]
fn what_a_command_leaves_behind_is_killed() {
    let tasks = Tasks::new(
        "
[tasks.quiet]
command = 'sleep 1000 >/dev/null 2>&1 & echo done'
[tasks.loud]
command = '(trap \"\" TERM HUP; sleep 1000) & echo done'
",
    );
    // `loud` leaves its output open: that is waited for a second, not for ever.
    let ran = tasks.run(&[]);
    assert_eq!((ran.status, ran.named("ok")), (0, vec!["loud", "quiet"]), "{ran:?}");
}

#[test]
fn what_cannot_be_started_is_told_and_the_rest_goes_on() {
    let tasks = Tasks::new(
        "
[tasks.gone]
command = ['no-such-command', 'x']
[tasks.behind]
command = 'true'
dependencies = ['gone']
[tasks.shell]
command = 'no-such-command'
[tasks.folder]
command = 'true'
directory = 'no/such/folder'
[tasks.plain]
command = ['./plain']
[tasks.good]
command = 'true'
",
    );
    tasks.write("plain", "no program");
    let long = format!("[tasks.long]\ncommand = ['true', '{}']\n", "x".repeat(3 << 20));
    tasks.write("shardrun.toml", &(tasks.read("shardrun.toml") + &long));
    let ran = tasks.run(&["-j1"]);
    assert_eq!((ran.status, ran.named("ok"), ran.named("skipped")), (1, vec!["good"], vec!["behind"]), "{ran:?}");
    let complaints = [
        "shardrun: gone: command not found: no-such-command",
        "shardrun: folder: there is no directory no/such/folder",
        "shardrun: plain: cannot be executed: ./plain",
        "shardrun: long: the command and its environment are too long for the system",
    ];
    for complaint in complaints {
        assert!(ran.stderr.lines().any(|line| line == complaint), "{complaint}: {ran:?}");
    }
    assert!(ran.stdout.contains("FAILED  shell: failed with exit status 127"), "{ran:?}");
}

#[test]
fn output_that_is_no_text_comes_as_it_is() {
    let tasks = Tasks::new("[tasks.a]\ncommand = ['printf', '\\377\\000\\n\\033[2J']\n");
    let output = tasks.command(&[]).output().unwrap();
    let bytes = b"\xff\0\n\x1b[2J\n";
    assert!(output.stdout.windows(bytes.len()).any(|window| window == bytes), "{output:?}");
}

#[test]
fn of_an_enormous_output_both_ends_are_kept() {
    let tasks = Tasks::new("[tasks.a]\ncommand = 'echo first; head -c 60000000 /dev/zero; echo; echo last'\n");
    let ran = tasks.run(&["--max-output", "1"]);
    assert_eq!(ran.status, 0);
    assert!(ran.stdout.len() < 1_100_000, "{} bytes", ran.stdout.len());
    assert!(ran.stdout.contains("first\n\0") && ran.stdout.contains("\0\nlast\n"));
    let left_out = 60_000_000 + "first\n\nlast\n".len() - (1 << 20);
    assert!(ran.stdout.contains(&format!("shardrun: {left_out} bytes of output are left out here\n")));
}

#[test]
fn a_closed_pipe_and_a_full_disk_are_told_once_and_the_rest_goes_on() {
    let all: String = (0..20).map(|at| format!("[tasks.t{at}]\ncommand = 'echo x >> log'\n")).collect();
    let tasks = Tasks::new(&all);
    let output = tasks.command(&[]).stdout(unread()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.starts_with("shardrun: standard output: Broken pipe"), "{stderr}");
    assert_eq!(tasks.read("log").lines().count(), 20);
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = tasks.command(&[]).stdout(full()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && stderr.starts_with("shardrun: standard output: No space left"),
        "{stderr}"
    );
    assert_eq!(tasks.read("log").lines().count(), 40);
    // With nowhere to complain the exit status still says so.
    let status = tasks.command(&[]).stdout(full()).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_server_runs_until_the_rest_is_done() {
    let server = "
[tasks.server]
command = 'echo x >> starts; echo warming; echo ready > gate; read go < go; echo $$ > pid; echo listening on 80; exec sleep 1000'
persistent = true
ready = 'listening'
[tasks.opener]
command = 'read up < gate; test -e asked && echo early; echo go > go'
[tasks.client]
command = 'kill -0 $(cat pid) && touch asked'
dependencies = ['server']
";
    let tasks = Tasks::new(&format!("concurrency = 2\n{server}"));
    tasks.fifo("gate");
    tasks.fifo("go");
    let ran = tasks.run(&["client", "opener"]);
    assert_eq!((ran.status, ran.named("ok")), (0, vec!["client", "opener", "server"]), "{ran:?}");
    assert!(tasks.path("asked").exists());
    assert!(ran.stdout.contains("server | warming\n") && ran.stdout.contains("server | listening on 80\n"), "{ran:?}");
    assert!(!ran.stdout.contains("early"));
}

#[test]
fn a_server_that_ends_before_or_after_it_is_ready_is_told() {
    let file = |server: &str, rest: &str| {
        format!(
            "concurrency = 2\n[tasks.server]\ncommand = '{server}'\npersistent = true\n{rest}[tasks.client]\ncommand = 'echo up > gate; read gone < gone'\ndependencies = ['server']\n[tasks.later]\ncommand = 'true'\ndependencies = ['client', 'server']\n"
        )
    };
    let tasks = Tasks::new(&file("echo no; exit 0", "ready = 'yes'\n"));
    let ran = tasks.run(&[]);
    assert_eq!(
        (ran.status, ran.named("FAILED"), ran.named("skipped")),
        (1, vec!["server"], vec!["client", "later"]),
        "{ran:?}"
    );
    let tasks = Tasks::new(&file("sleep 1000", "ready = 'yes'\ntimeout = '50ms'\n"));
    let ran = tasks.run(&["server"]);
    assert!(ran.status == 1 && ran.stdout.contains("FAILED  server: took too long"), "{ran:?}");
    // It dies while the client runs: what depends on it and has not started is skipped.
    let tasks = Tasks::new(&file("read up < gate; exit 4", ""));
    tasks.fifo("gate");
    tasks.fifo("gone");
    let mut begun = tasks.begin(&[]);
    begun.until("left    server: failed with exit status 4");
    fs::write(tasks.path("gone"), "gone\n").unwrap();
    let ran = begun.end();
    assert_eq!((ran.status, ran.named("skipped")), (1, vec!["later"]), "{ran:?}");
    assert!(ran.stdout.contains("skipped later: because of server"), "{ran:?}");
}

#[test]
fn b89_servers_do_not_take_the_slots_of_others() {
    let tasks = Tasks::new(
        "
concurrency = 1
[tasks.one]
command = 'exec sleep 1000'
persistent = true
[tasks.two]
command = 'exec sleep 1000'
persistent = true
[tasks.test]
command = 'true'
dependencies = ['one', 'two']
",
    );
    let ran = tasks.run(&["test"]);
    assert_eq!((ran.status, ran.named("ok")), (0, vec!["one", "test", "two"]), "{ran:?}");
}

#[test]
fn b78_a_command_that_is_killed_is_no_success_and_nothing_builds_on_it() {
    let tasks = Tasks::new(
        "[tasks.killed]\ncommand = 'kill -9 $$'\n[tasks.behind]\ncommand = 'touch built'\ndependencies = ['killed']\n",
    );
    let ran = tasks.run(&[]);
    assert_eq!((ran.status, ran.named("skipped")), (1, vec!["behind"]), "{ran:?}");
    assert!(ran.stdout.contains("FAILED  killed: was killed by signal 9, "), "{ran:?}");
    assert!(!tasks.path("built").exists());
}

#[test]
fn b73_the_bound_holds_after_a_failure() {
    for words in [&["--continue", "always"][..], &["--continue", "deps-ok"], &["--continue", "never"]] {
        let mut file = "concurrency = 2\n".to_owned();
        for at in 0..60 {
            _ = writeln!(file, "[tasks.t{at:02}]\ncommand = 'echo + >> log; /bin/true; echo - >> log; test {at} != 5'");
        }
        let tasks = Tasks::new(&file);
        let ran = tasks.run(words);
        assert_eq!((ran.status, ran.named("FAILED")), (1, vec!["t05"]), "{ran:?}");
        let (mut now, mut peak) = (0, 0);
        for line in tasks.read("log").lines() {
            now += if line == "+" { 1 } else { -1 };
            peak = peak.max(now);
        }
        assert!(now == 0 && peak <= 2, "{peak} at a time");
        let failed = ran.ends().iter().position(|(word, _)| *word == "FAILED").unwrap();
        let ran_after = ran.ends()[failed..].iter().filter(|(word, _)| *word == "ok").count();
        assert_eq!(ran_after <= 1, words[1] == "never", "only what ran already: {ran:?}");
    }
}

#[test]
fn b81_failing_tasks_in_a_pool_of_one_are_all_tried() {
    let ways = ["exit 1", "kill -9 $$", "exec sleep 1000", "no-such-command"];
    let mut file = "[pools]\nnet = 1\n".to_owned();
    for (at, way) in ways.iter().enumerate() {
        let timeout = if way.contains("sleep") { "timeout = '300ms'\n" } else { "" };
        _ = writeln!(file, "[tasks.t{at}]\ncommand = 'echo {at} >> log; {way}'\npool = 'net'\n{timeout}");
    }
    file += "[tasks.direct]\ncommand = ['no-such-command']\npool = 'net'\n";
    let tasks = Tasks::new(&file);
    let ran = tasks.run(&["-j8"]);
    assert_eq!((ran.status, ran.named("FAILED").len()), (1, 5), "{ran:?}");
    // What takes too long may not have come to write its line.
    let log = tasks.read("log");
    let mut tried: Vec<&str> = log.lines().filter(|at| *at != "2").collect();
    tried.sort_unstable();
    assert_eq!(tried, ["0", "1", "3"], "{log}");
}

#[test]
fn b80_a_pool_keeps_its_bound_whatever_becomes_of_its_tasks() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let mut file = "[pools]\nnet = 2\n".to_owned();
        for at in 0..60_usize {
            let ends = ["true", "true", "true", "exit 1", "kill -9 $$", "echo - >> log; exec sleep 1000", "true"];
            let end = ends[random.below(ends.len())];
            let out = if end.starts_with("echo") { "" } else { "echo - >> log; " };
            _ = writeln!(file, "[tasks.t{at}]\ncommand = 'echo + >> log; {out}{end}'\ntimeout = '100ms'\npool = 'net'");
            let count = random.below(3).min(at);
            let on: Vec<String> = (0..count).map(|_| format!("'t{}'", random.below(at))).collect();
            _ = writeln!(file, "dependencies = [{}]", on.join(", "));
        }
        let tasks = Tasks::new(&file);
        let mode = ["deps-ok", "always", "never"][random.below(3)];
        let ran = tasks.run(&["-j8", "--continue", mode]);
        assert_eq!(ran.ends().len(), 60, "seed {seed}: {ran:?}");
        let (mut now, mut peak) = (0, 0);
        for line in tasks.read("log").lines() {
            now += if line == "+" { 1 } else { -1 };
            peak = peak.max(now);
            assert!(now >= 0, "seed {seed}");
        }
        // What ran into its timeout may not have come to write its second line.
        assert!(peak <= 2 + ran.named("FAILED").len() as i32, "seed {seed}: {peak} at a time");
        let strict = !ran.stdout.contains("took too long");
        assert!(!strict || (now == 0 && peak <= 2), "seed {seed}: {peak} at a time, {now} left");
    }
}

#[test]
fn b77_a_run_after_a_failed_one_is_like_any_other() {
    let tasks = Tasks::new(CHAIN);
    for _ in 0..3 {
        tasks.write("shardrun.toml", CHAIN);
        assert_eq!(tasks.run(&[]).status, 1);
        tasks.write("shardrun.toml", &CHAIN.replace("exit 3", "true"));
        let ran = tasks.run(&[]);
        assert_eq!((ran.status, ran.named("ok").len()), (0, 4), "{ran:?}");
    }
}

#[test]
fn b113_a_chain_of_twenty_thousand_is_planned_and_shown() {
    let mut file = String::new();
    for at in 0..20_000 {
        _ = writeln!(file, "[tasks.t{at}]\ncommand = 'true'");
        if at > 0 {
            _ = writeln!(file, "dependencies = ['t{}']", at - 1);
        }
    }
    let tasks = Tasks::new(&file);
    let ran = tasks.run(&["--dry-run"]);
    assert_eq!((ran.status, ran.stdout.lines().count()), (0, 20_000));
    assert!(ran.stdout.lines().last().unwrap().starts_with("t19999 "));
}

/// What is to become of each of the tasks, of which each may depend on earlier ones.
fn thousand(random: &mut Random) -> (String, BTreeMap<String, &'static str>) {
    let mut file = "concurrency = 8\ngrace = '20ms'\n".to_owned();
    let mut expected = BTreeMap::new();
    for at in 0..1000_usize {
        let (command, end) = match random.below(40) {
            0 => ("exit 7", "FAILED"),
            1 => ("kill -9 $$", "FAILED"),
            2 if at % 4 == 0 => ("trap \"\" TERM; sleep 1000 & sleep 1000", "FAILED"),
            3 => ("sleep 1000 >/dev/null 2>&1 & exit 0", "ok"),
            4 => ("no-such-command", "FAILED"),
            _ => (":", "ok"),
        };
        let timeout = if command.starts_with("trap") { "timeout = '20ms'\n" } else { "" };
        let on: Vec<usize> = (0..random.below(3).min(at)).map(|_| at - 1 - random.below(at.min(100))).collect();
        let bad = on.iter().any(|on| expected[&format!("t{on:03}")] != "ok");
        expected.insert(format!("t{at:03}"), if bad { "skipped" } else { end });
        let on: Vec<String> = on.iter().map(|on| format!("'t{on:03}'")).collect();
        _ = writeln!(file, "[tasks.t{at:03}]\ncommand = '{command}'\n{timeout}dependencies = [{}]", on.join(", "));
    }
    (file, expected)
}

#[test]
fn a_thousand_processes_fail_hang_and_are_killed_and_none_is_left() {
    let mut random = Random::new(5);
    let (file, expected) = thousand(&mut random);
    let tasks = Tasks::new(&file);
    let ran = tasks.run(&[]);
    assert_eq!(ran.status, 1);
    let told: BTreeMap<String, &str> = ran.ends().into_iter().map(|(word, name)| (name.to_owned(), word)).collect();
    let count = |word: &str| expected.values().filter(|end| **end == word).count();
    println!("{} ok, {} failed, {} skipped", count("ok"), count("FAILED"), count("skipped"));
    assert_eq!(told, expected.iter().map(|(name, word)| (name.clone(), *word)).collect());
}

#[test]
fn a_thousand_processes_are_interrupted_and_none_is_left() {
    for (seed, after) in [(6, "t150"), (7, "t400"), (8, "t010")] {
        let (file, mut expected) = thousand(&mut Random::new(seed));
        // One goes on until then, so that the run does.
        let tasks = Tasks::new(&format!("{file}[tasks.held]\ncommand = 'read go < go'\n"));
        tasks.fifo("go");
        expected.insert("held".to_owned(), "aborted");
        let mut begun = tasks.begin(&[]);
        begun.until(after);
        begun.signal(rustix::process::Signal::INT);
        let ran = begun.end();
        tasks.nothing_is_left();
        assert_eq!(ran.status, 130, "{}", ran.stderr);
        let ends = ran.ends();
        assert_eq!(ends.len(), 1001, "each is told of once");
        assert!(ends.iter().any(|(word, _)| *word == "aborted"));
        for (word, name) in ends {
            assert!(word == "aborted" || word == expected[name], "{name}: {word} instead of {}", expected[name]);
        }
    }
}

#[test]
fn a_reader_that_is_slow_gets_everything() {
    let tasks = Tasks::new("[tasks.a]\ncommand = 'head -c 3000000 /dev/zero | tr \"\\0\" x'\n");
    let mut child = tasks.command(&[]).stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    let mut stdout = child.stdout.take().unwrap();
    let mut some = [0; 100];
    for _ in 0..100 {
        let count = stdout.read(&mut some).unwrap();
        text += std::str::from_utf8(&some[..count]).unwrap();
    }
    stdout.read_to_string(&mut text).unwrap();
    assert_eq!((child.wait().unwrap().code(), text.matches('x').count()), (Some(0), 3_000_000));
}

#[test]
fn what_is_wrong_is_not_said_anywhere_if_nothing_can_be_written_and_the_status_stands() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let tasks = Tasks::new("[tasks.a]\ncommand = 'true'\n");
    assert_eq!(tasks.command(&["no-such-task"]).stderr(full()).status().unwrap().code(), Some(2));
    tasks.write("shardrun.toml", "colour = 1");
    assert_eq!(tasks.command(&[]).stderr(full()).status().unwrap().code(), Some(2));
}

#[test]
fn more_mutexes_than_a_budget_has_axes_are_no_fault_of_the_file() {
    let mut file = String::new();
    for at in 0..70_000 {
        _ = writeln!(file, "[tasks.t{at}]\ncommand = 'true'\nmutex = 'm{at}'");
    }
    let tasks = Tasks::new(&file);
    let ran = tasks.run(&["-n"]);
    assert_eq!((ran.status, ran.stdout.lines().count()), (0, 70_000), "{}", ran.stderr);
    for (at, pair) in [(0, "t0"), (1, "t1")] {
        file = file.replacen(&format!("mutex = 'm{at}'"), "mutex = 'both'", 1);
        assert!(file.contains(pair));
    }
    tasks.write("shardrun.toml", &file);
    assert_eq!(tasks.run(&["t0", "t1"]).named("ok"), ["t0", "t1"]);
}

#[test]
fn an_output_that_grows_beyond_its_limit_is_told_and_nothing_is_left() {
    let tasks = Tasks::new("[tasks.a]\ncommand = 'head -c 100000 /dev/zero'\n[tasks.b]\ncommand = 'true'\n");
    let mut shell = std::process::Command::new("/bin/bash");
    shell.arg("-c").arg(format!("ulimit -f 1; exec {} run -j1 --no-history > out", env!("CARGO_BIN_EXE_shardrun")));
    let output = shell.current_dir(tasks.path("")).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("shardrun: standard output: File too large"), "{stderr}");
}
