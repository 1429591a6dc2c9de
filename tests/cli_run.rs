//! `shardrun run` over real commands: order, limits, what commands are given, what is printed and written.
//! These tests do not know how commands are minded.
#![cfg(all(feature = "cli", target_os = "linux"))]

mod cli;

use cli::tasks::Tasks;
use serde_json::Value;
use std::fs;

/// The most that were between their `+` and their `-` at once, by a log of such lines.
fn peak(log: &str) -> i32 {
    let (mut now, mut peak) = (0, 0);
    for line in log.lines() {
        now += if line.starts_with('+') { 1 } else { -1 };
        assert!(now >= 0, "{log}");
        peak = peak.max(now);
    }
    assert_eq!(now, 0, "{log}");
    peak
}

/// Waits until so many have begun, which as many at once do; not for ever, if they never will.
fn met(count: i32) -> String {
    format!("i=0; until [ $(grep -c + log) -ge {count} ] || [ $i = 6000 ]; do i=$((i+1)); sleep 0.01; done")
}

/// Tells of its begin and its end. The first of them end only once `most` have begun.
fn logged(most: i32) -> String {
    format!("command = \"echo + >> log; {}; for i in 1 2 3; do /bin/true; done; echo - >> log\"\n", met(most))
}

#[test]
fn tasks_run_after_their_dependencies_and_once() {
    let diamond = "
[tasks.all]
dependencies = ['d', 'c']
[tasks.d]
command = 'echo d >> log'
dependencies = ['b', 'c', 'b', 'b']
[tasks.c]
command = 'echo c >> log'
dependencies = ['a']
[tasks.b]
command = 'echo b >> log'
dependencies = ['a', 'c']
[tasks.a]
command = 'echo a >> log'
";
    let tasks = Tasks::new(diamond);
    let ran = tasks.run(&["-j", "4"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{ran:?}");
    assert_eq!(tasks.read("log"), "a\nc\nb\nd\n");
    assert_eq!(ran.ends(), [("ok", "a"), ("ok", "c"), ("ok", "b"), ("ok", "d")]);
    assert!(ran.stdout.lines().last().unwrap().starts_with("5 ok, in "), "{ran:?}");
}

#[test]
fn only_what_is_wanted_runs() {
    let tasks = Tasks::new(
        "default = ['b']\n[tasks.a]\ncommand = 'true'\n[tasks.b]\ncommand = 'true'\ndependencies = ['a']\n[tasks.c]\ncommand = 'true'\n",
    );
    assert_eq!(tasks.run(&[]).named("ok"), ["a", "b"]);
    assert_eq!(tasks.run(&["c", "a"]).named("ok"), ["a", "c"]);
    let below = tasks.path("deep/er");
    fs::create_dir_all(&below).unwrap();
    let ran = cli::run(tasks.command(&["c"]).current_dir(below));
    assert_eq!(ran.named("ok"), ["c"], "the file is found from below: {ran:?}");
}

#[test]
fn a_dependency_on_packages_means_their_tasks_of_that_name() {
    let tasks = Tasks::new(
        "
[packages]
app = ['web', 'core']
web = ['glue']
glue = ['core']
core = []
[tasks.'app:build']
command = 'echo app >> log'
dependencies = ['^build']
[tasks.'web:build']
command = 'echo web >> log'
dependencies = ['^build']
[tasks.'core:build']
command = 'echo core >> log'
dependencies = ['^build']
",
    );
    // glue builds nothing, so web waits for what glue is built on.
    assert_eq!(tasks.run(&["app:build"]).status, 0);
    assert_eq!(tasks.read("log"), "core\nweb\napp\n");
}

#[test]
fn commands_get_their_environment_directory_and_words() {
    let tasks = Tasks::new(
        r#"
[environment]
BOTH = "file"
FILE = "file"
HOME = false
[tasks.shell]
command = "echo \"$BOTH $FILE $TASK ${HOME-none}\"; pwd; cat; echo $0"
directory = "sub dir"
environment = { BOTH = "task", TASK = "a b" }
[tasks.direct]
command = ["./tool", "a b", "$FILE", ""]
directory = "sub dir"
[tasks.path]
command = ["printf", "%s|", "a", "*"]
"#,
    );
    tasks.write("sub dir/tool", "#!/bin/sh\nprintf '%s,' \"$@\"\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(tasks.path("sub dir/tool"), mode).unwrap();
    // From elsewhere: paths in the file are from the file's folder.
    let file = tasks.path("shardrun.toml");
    let ran = cli::run(tasks.command(&["-j1", "-f", file.to_str().unwrap()]).current_dir("/"));
    assert_eq!(ran.status, 0, "{ran:?}");
    let place = fs::canonicalize(tasks.path("sub dir")).unwrap();
    assert!(ran.stdout.contains(&format!("task file a b none\n{}\n/bin/sh\n", place.display())), "{ran:?}");
    assert!(ran.stdout.contains("\na b,$FILE,,\n") && ran.stdout.contains("\na|*|\n"), "{ran:?}");
}

#[test]
fn commands_are_found_on_their_own_path_and_hear_all_signals() {
    let tasks = Tasks::new(
        r#"
[tasks.found]
command = ["tool", "x"]
environment = { PATH = "none:plain:tools:/bin" }
[tasks.plain]
command = ["tool"]
environment = { PATH = "none:plain" }
[tasks.lost]
command = ["tool"]
environment = { PATH = "" }
[tasks.nothing]
command = ["true"]
environment = { PATH = false }
[tasks.text]
command = ["tools/text"]
[tasks.signals]
command = ["cat", "/proc/self/status"]
"#,
    );
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    for (name, text, bits) in [
        ("tools/tool", "#!/bin/sh\necho tool $1\n", 0o755),
        ("plain/tool", "no", 0o644),
        ("tools/text", "echo no", 0o755),
    ] {
        tasks.write(name, text);
        fs::set_permissions(tasks.path(name), mode(bits)).unwrap();
    }
    let ran = tasks.run(&["-j1"]);
    assert_eq!((ran.status, ran.named("ok")), (1, vec!["found", "nothing", "signals"]), "{ran:?}");
    assert!(ran.stdout.contains("\ntool x\n"), "{ran:?}");
    for complaint in [
        "shardrun: plain: cannot be executed: tool",
        "shardrun: lost: command not found: tool",
        "shardrun: text: is no program, or a script without a line `#!`: tools/text",
    ] {
        assert!(ran.stderr.lines().any(|line| line == complaint), "{complaint}: {ran:?}");
    }
    for what in ["SigBlk", "SigIgn", "SigCgt"] {
        let line = ran.stdout.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(":\t")).unwrap();
        // The system's library keeps two for itself, and has them ignored in what it starts.
        let signals = u64::from_str_radix(line, 16).unwrap() & !(0b11 << 31);
        assert_eq!(signals, 0, "{what}: {ran:?}");
    }
}

#[test]
fn concurrency_pools_resources_and_mutexes_hold() {
    for (file, words, most) in [
        ("concurrency = 3\n", &[][..], 3),
        ("concurrency = 3\n", &["-j", "2"], 2),
        ("[pools]\np = 2\n", &["-j", "1"], 2),
        ("[resources]\ngpu = 4\n", &["-j", "8"], 2),
        ("", &["-j", "8"], 1),
        ("#", &["-j", "8"], 1),
    ] {
        let own = match file.get(..2) {
            Some("[p") => "pool = 'p'\n",
            Some("[r") => "resources = { gpu = 2 }\n",
            Some("co") => "",
            None if file.is_empty() => "mutex = ['m', 'n']\n",
            _ => "exclusive = true\n",
        };
        let all: String = (0..12).map(|at| format!("[tasks.t{at}]\n{}{own}", logged(most))).collect();
        let tasks = Tasks::new(&format!("{file}\n{all}"));
        let ran = tasks.run(words);
        assert_eq!((ran.status, ran.named("ok").len()), (0, 12), "{ran:?}");
        assert_eq!(peak(&tasks.read("log")), most, "{file}{own}");
    }
}

#[test]
fn a_task_that_wants_more_than_there_is_runs_alone_and_is_warned_of() {
    let tasks = Tasks::new("[resources]\ngpu = 1\n[tasks.a]\ncommand = 'true'\nresources = { gpu = 2 }\n");
    let ran = tasks.run(&[]);
    assert_eq!(
        (ran.status, ran.stderr.as_str()),
        (0, "shardrun: a wants 2 of resource gpu, of which there is 1: it runs alone\n")
    );
}

#[test]
fn output_comes_as_one_block_and_failures_last() {
    let talk = |name: &str, end: &str| {
        format!(
            "[tasks.{name}]\ncommand = 'for i in 1 2 3 4 5 6 7 8 9; do echo {name} $i; echo {name} $i >&2; /bin/true; done; {end}'\n"
        )
    };
    let tasks =
        Tasks::new(&[talk("a", "exit 1"), talk("b", "exit 0"), talk("c", "exit 7"), talk("d", "true")].concat());
    let ran = tasks.run(&["-j", "4"]);
    assert_eq!(ran.status, 1);
    let block = |name: &str| (1..10).map(|at| format!("{name} {at}\n{name} {at}\n")).collect::<String>();
    for name in ["a", "b", "c", "d"] {
        assert!(ran.stdout.contains(&block(name)), "{ran:?}");
    }
    let place = |text: &str| ran.stdout.find(text).unwrap_or_else(|| panic!("no {text:?} in {ran:?}"));
    let good = place(&block("b")).max(place(&block("d"))).max(place("FAILED  c: failed with exit status 7"));
    for bad in ["a", "c"] {
        assert!(place(&format!("---- {bad}\n{}", block(bad))) > good, "{ran:?}");
    }
    let quiet = tasks.run(&["-j", "4", "--quiet"]);
    assert!(quiet.stdout.contains(&block("a")) && !quiet.stdout.contains("b 1"), "{quiet:?}");
}

#[test]
fn a_dry_run_and_a_list_run_nothing() {
    let tasks = Tasks::new(
        "[tasks.leaf]\ncommand = ['touch', 'ran']\ndescription = 'what it is for'\n[tasks.root]\ncommand = 'touch ran'\n[tasks.mid]\ncommand = 'touch ran'\ndependencies = ['root']\n[tasks.all]\ndependencies = ['mid', 'leaf']\n",
    );
    assert_eq!(tasks.run(&["-n"]).stdout, "root  touch ran\nleaf  touch ran\nmid   touch ran\n");
    assert_eq!(tasks.run(&["-n", "-j4"]).stdout, tasks.run(&["-n"]).stdout);
    assert_eq!(tasks.run(&["-n", "leaf"]).stdout, "leaf  touch ran\n");
    let list = "leaf  what it is for\nroot  touch ran\nmid   touch ran\nall   all of mid, leaf\n";
    assert_eq!(tasks.run(&["--list"]).stdout, list);
    assert!(!tasks.path("ran").exists() && !tasks.path(".shardrun").exists());
    // What they show stays on its line, and cannot drive the terminal.
    let tasks = Tasks::new("[tasks.a]\ncommand = ['echo', \"x\\ry\"]\ndescription = \"one\\n\\u001B[2J\"\n");
    assert_eq!(tasks.run(&["--list"]).stdout, "a  one\\n\\u{1b}[2J\n");
    assert_eq!(tasks.run(&["-n"]).stdout, "a  echo x\\ry\n");
}

#[test]
fn graph_trace_and_summary_are_written() {
    let tasks = Tasks::new(
        "[tasks.a]\ncommand = 'true'\n[tasks.b]\ncommand = 'exit 1'\ndependencies = ['a']\n[tasks.c]\ndependencies = ['a']\n",
    );
    let ran = tasks.run(&["--graph", "g.dot", "--trace", "t.json", "--summary"]);
    assert_eq!(ran.status, 1);
    let dot = tasks.read("g.dot");
    for line in ["\"a\" -> \"b\";", "\"a\" -> \"c\";", "\"c\" [\"shape\"=\"ellipse\""] {
        assert!(dot.contains(line), "{dot}");
    }
    let trace: Value = serde_json::from_str(&tasks.read("t.json")).unwrap();
    let spans: Vec<&Value> =
        trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(spans.iter().map(|span| &span["name"]).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((&spans[1]["cat"], &spans[1]["args"]["status"]), (&"failed".into(), &"failed".into()));
    assert!(ran.stdout.contains("\ncritical path\n"), "{ran:?}");
    for option in ["--graph", "--trace"] {
        let ran = tasks.run(&[option, "/dev/full"]);
        assert_eq!(ran.status, 1);
        assert!(ran.stderr.starts_with("shardrun: /dev/full: "), "{ran:?}");
        let ran = tasks.run(&[option, "no/such/place", "a"]);
        assert_eq!((ran.status, ran.named("ok")), (1, vec!["a"]), "{ran:?}");
        assert!(ran.stderr.contains("no/such/place: "), "{ran:?}");
    }
}

#[test]
fn a_task_is_explained() {
    let tasks = Tasks::new(
        "
[tasks.quick]
command = 'true'
[tasks.slow]
command = 'true'
[tasks.both]
command = 'true'
dependencies = ['quick', 'slow']
[tasks.bad]
command = 'false'
[tasks.behind]
command = 'true'
dependencies = ['bad']
",
    );
    let words: Vec<&str> = ["quick", "slow", "both", "behind"].iter().flat_map(|task| ["--explain", task]).collect();
    // One after the other, in this order.
    let ran = tasks.run(&[&["-j", "1"], &words[..]].concat());
    let part = |task: &str| {
        let from = ran.stdout.find(&format!("\n\n{task}: ")).unwrap_or_else(|| panic!("no {task} in {ran:?}")) + 2;
        ran.stdout[from..].split("\n\n").next().unwrap()
    };
    assert!(
        part("quick").contains("  held up     nothing: all of its 1 dependents waited longer for others"),
        "{ran:?}"
    );
    assert!(part("slow").contains("  held up     both\n"), "{ran:?}");
    assert!(part("slow").contains("  ready       at the start: it depends on nothing\n"), "{ran:?}");
    assert!(part("both").contains(", when slow had ended, the last of 2 dependencies\n"), "{ran:?}");
    assert!(part("both").contains("  critical    is on it: slow -> both"), "{ran:?}");
    assert!(part("behind").starts_with("behind: skipped\n"), "{ran:?}");
    assert!(part("behind").contains("  not run     because of bad\n"), "{ran:?}");
}

#[test]
fn earlier_runs_decide_what_starts_first() {
    let tasks = Tasks::new("[tasks.short]\ncommand = 'true'\n[tasks.long]\ncommand = 'sleep 0.2'\n");
    assert_eq!(tasks.run(&["-j1", "--no-history"]).ends(), [("ok", "short"), ("ok", "long")]);
    assert!(!tasks.path(".shardrun").exists());
    tasks.run(&["-j1"]);
    // How long the two lasted is the machine's affair, which may have held up the short one: what was kept of it decides.
    let history = tasks.read(".shardrun/history");
    let lasted = |name| -> u64 {
        let line = history.lines().find(|line| line.ends_with(name)).unwrap_or_else(|| panic!("{history}"));
        line.split(' ').nth(2).unwrap().parse().unwrap()
    };
    let order = if lasted(" long") > lasted(" short") { ["long", "short"] } else { ["short", "long"] };
    assert_eq!(tasks.run(&["-j1"]).ends(), order.map(|name| ("ok", name)), "{history}");
    assert_eq!(tasks.read(".shardrun/.gitignore"), "*\n");
    fs::write(tasks.path(".shardrun/history"), "nonsense").unwrap();
    let ran = tasks.run(&["-j1"]);
    assert_eq!((ran.status, ran.ends()[0]), (0, ("ok", "short")));
    assert!(ran.stderr.starts_with("shardrun: history "), "{ran:?}");
    // A place where nothing can be kept is no failure.
    fs::remove_dir_all(tasks.path(".shardrun")).unwrap();
    fs::write(tasks.path(".shardrun"), "a file").unwrap();
    let ran = tasks.run(&[]);
    assert_eq!((ran.status, ran.stderr.lines().count()), (0, 2), "{ran:?}");
}

#[test]
fn commands_share_the_jobs_of_the_run_as_makes_do() {
    let Some(knows_names) = make() else {
        println!("no make here: not tried");
        return;
    };
    shares_jobs("true");
    run_inside_make(&[]);
    if knows_names {
        shares_jobs("'fifo'");
        run_inside_make(&["--jobserver-style=fifo"]);
        run_inside_make(&["--jobserver-style=pipe"]);
    } else {
        println!("make knows no pipes with names, which came with 4.4: those are not tried");
    }
}

/// Whether there is a make, and whether it knows pipes with names.
fn make() -> Option<bool> {
    let said = std::process::Command::new("make").arg("--version").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let version = said.lines().next()?.strip_prefix("GNU Make ")?.to_owned();
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    Some((parts.next()?, parts.next().unwrap_or(0)) >= (4, 4))
}

#[track_caller]
fn shares_jobs(form: &str) {
    let tasks = Tasks::new(&format!(
        "concurrency = 2\njobserver = {form}\n[tasks.a]\ncommand = 'make -s all'\n[tasks.b]\ncommand = ['make', '-s', 'all']\n[tasks.c]\ncommand = 'make -s all'\n",
    ));
    let meet = met(2).replace('$', "$$");
    let rules: String = (0..6).map(|at| format!("t{at}:\n\t@echo + >> log; {meet}; echo - >> log\n")).collect();
    tasks.write("Makefile", &format!("all: t0 t1 t2 t3 t4 t5\n{rules}"));
    let ran = tasks.run(&[]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{ran:?}");
    assert!(!ran.stdout.contains("jobserver"), "make complains of nothing: {ran:?}");
    assert_eq!(peak(&tasks.read("log")), 2, "{form}");
}

/// The other way round: as a recipe of make the run takes make's jobs.
#[track_caller]
fn run_inside_make(words: &[&str]) {
    let all: String = (0..6).map(|at| format!("[tasks.t{at}]\n{}", logged(2))).collect();
    let tasks = Tasks::new(&format!("concurrency = 6\n{all}"));
    tasks.write("Makefile", &format!("all:\n\t+{} run\n", env!("CARGO_BIN_EXE_shardrun")));
    let mut make = std::process::Command::new("make");
    let made =
        make.args(["-s", "-j2"]).args(words).current_dir(tasks.path("")).env_remove("MAKEFLAGS").output().unwrap();
    assert!(made.status.success(), "{made:?}");
    assert!(!String::from_utf8_lossy(&made.stderr).contains("job server"), "{made:?}");
    assert_eq!(peak(&tasks.read("log")), 2, "{words:?}");
}

/// Holds so many MiB, all written to.
fn holding(mib: u32) -> String {
    format!("head -c {mib}M /dev/zero | tail -c {mib}M | wc -c")
}

#[test]
fn the_memory_that_commands_held_is_kept_and_reserved_the_next_time() {
    let big = holding(200);
    let file = |head: &str, more: &str| {
        let task = |name: &str| {
            format!("[tasks.{name}]\ncommand = '{big} && echo + >> log && sleep 0.1 && echo - >> log'\n{more}")
        };
        format!("{head}concurrency = 4\n{}{}{}", task("a"), task("b"), task("c"))
    };
    let tasks = Tasks::new(&file("", ""));
    let ran = tasks.run(&["--summary"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let most = ran.stdout.split_once("\nmost memory\n").expect("a list of it").1;
    assert_eq!(
        most.lines().filter(|line| line.ends_with(" MiB  a") || line.ends_with(" MiB  b")).count(),
        2,
        "{ran:?}"
    );
    for line in tasks.read(".shardrun/history").lines().filter(|line| line.ends_with([' ', 'a', 'b', 'c'])) {
        let peak: u64 = line.split(' ').nth(3).unwrap().parse().unwrap();
        assert!((200 << 20..260 << 20).contains(&peak), "{line}");
    }
    // 256 MiB is reserved for each, so two do not go beside each other in 400.
    tasks.write("log", "");
    tasks.write("shardrun.toml", &file("memory = '400MiB'\n", ""));
    let ran = tasks.run(&[]);
    assert_eq!((ran.status, tasks.read("log").as_str()), (0, "+\n-\n+\n-\n+\n-\n"), "{ran:?}");
    // What a task says of itself goes before what was learned.
    tasks.write("shardrun.toml", &file("memory = '400MiB'\n", "memory = 0\n"));
    assert_eq!(tasks.run(&[]).status, 0);
    tasks.write("shardrun.toml", &file("memory = '400MiB'\n", "memory = '1GiB'\n"));
    let ran = tasks.run(&["a"]);
    assert!(ran.status == 0 && ran.stderr.contains("a wants 1073741824 of memory"), "{ran:?}");
    tasks.write("shardrun.toml", &file("memory = true\n", ""));
    assert_eq!(tasks.run(&[]).status, 0);
}
