//! Sharing cores with other processes, and memory as the system sees it: real pipes, a real make, real figures.

use shardrun::{Ended, JobClient, JobServer, JobServerError, Memory, MemoryPressure, Plan, Run, Runtime, TaskFailure};
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("shardrun-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn plan(tasks: usize) -> Arc<Plan> {
    let mut plan = Plan::builder();
    plan.concurrency(8);
    for at in 0..tasks {
        plan.task(&format!("t{at}"));
    }
    Arc::new(plan.build().unwrap())
}

/// Tokens that lie in a server's pipe: taken out, counted, and put back.
fn tokens(server: &JobServer) -> usize {
    const O_NONBLOCK: i32 = 0o4000;
    let flags = server.makeflags();
    let value = flags.split("--jobserver-auth=").nth(1).unwrap();
    let (read, write) = match value.strip_prefix("fifo:") {
        Some(path) => (path.to_owned(), path.to_owned()),
        None => {
            let (read, write) = value.split_once(',').unwrap();
            (format!("/proc/self/fd/{read}"), format!("/proc/self/fd/{write}"))
        }
    };
    let mut pipe = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(read).unwrap();
    let mut tokens = Vec::new();
    _ = pipe.read_to_end(&mut tokens);
    OpenOptions::new().write(true).open(write).unwrap().write_all(&tokens).unwrap();
    tokens.len()
}

#[test]
fn a_run_takes_a_token_for_each_task_beyond_the_first_and_gives_all_back() {
    let folder = Folder::new("jobs");
    for server in [JobServer::fifo(3, &folder.0).unwrap(), JobServer::pipe(3).unwrap()] {
        let runtime = Runtime::builder().workers(4).build().unwrap();
        for _ in 0..5 {
            let (now, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (count, most) = (now.clone(), peak.clone());
            let run = Run::<()>::new(plan(200)).policy(Box::new(server.client().unwrap()));
            let report = run
                .start(&runtime, move |cx| {
                    most.fetch_max(count.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    count.fetch_sub(1, Ordering::SeqCst);
                    assert!(cx.task().index() % 7 != 3, "asked for");
                    if cx.task().index() % 7 == 4 { Err(TaskFailure::user("no")) } else { Ok(Ended::success()) }
                })
                .wait()
                .unwrap();
            assert_eq!(report.outcomes().len(), 200);
            assert!(peak.load(Ordering::SeqCst) <= 3, "{} at a time", peak.load(Ordering::SeqCst));
        }
        assert_eq!(tokens(&server), 2, "all tokens are back, and none twice");
    }
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "the pipe is removed");
}

#[test]
fn a_real_make_shares_its_jobs_with_the_run_that_started_it() {
    if Command::new("make").arg("--version").output().is_err() {
        println!("no make here: not tried");
        return;
    }
    let folder = Folder::new("make");
    let log = folder.0.join("log");
    // The first of them end only once two have begun, as there is room for; they do not wait for ever.
    let meet = "i=0; until [ $$(grep -c + log) -ge 2 ] || [ $$i = 6000 ]; do i=$$((i+1)); sleep 0.01; done";
    let recipe = format!("\t@echo + >> log; {meet}; echo - >> log\n");
    let names: Vec<String> = (0..8).map(|at| format!("t{at}")).collect();
    let rules: String = names.iter().map(|name| format!("{name}:\n{recipe}")).collect();
    fs::write(folder.0.join("Makefile"), format!("all: {}\n{rules}", names.join(" "))).unwrap();
    let server = JobServer::pipe(3).unwrap();
    let (flags, place) = (server.makeflags(), folder.0.clone());
    let runtime = Runtime::builder().workers(3).build().unwrap();
    let run = Run::<()>::new(plan(2)).policy(Box::new(server.client().unwrap()));
    let report = run
        .start(&runtime, move |_| {
            let made = Command::new("make").arg("all").current_dir(&place).env("MAKEFLAGS", &flags).output()?;
            let said = String::from_utf8_lossy(&made.stderr).into_owned();
            if made.status.success() && said.is_empty() { Ok(Ended::success()) } else { Err(TaskFailure::user(said)) }
        })
        .wait()
        .unwrap();
    assert!(report.is_success(), "{:?}", report.outcomes().map(|outcome| outcome.message()).collect::<Vec<_>>());
    let (mut now, mut peak) = (0_i32, 0);
    for line in fs::read_to_string(log).unwrap().lines() {
        now += if line == "+" { 1 } else { -1 };
        peak = peak.max(now);
    }
    assert_eq!(now, 0);
    assert!((2..=3).contains(&peak), "two makes of 8 jobs each had {peak} at a time");
    assert_eq!(tokens(&server), 2);
}

#[test]
fn a_token_that_another_process_gives_back_is_found() {
    let server = JobServer::pipe(2).unwrap();
    let flags = server.makeflags();
    let write = flags.rsplit(',').next().unwrap().to_owned();
    let read = flags.rsplit("auth=").next().unwrap().split(',').next().unwrap().to_owned();
    // Another process has the token.
    let mut token = [0];
    fs::File::open(format!("/proc/self/fd/{read}")).unwrap().read_exact(&mut token).unwrap();
    let (both, runtime) = (Arc::new(AtomicUsize::new(0)), Runtime::builder().workers(2).build().unwrap());
    let count = both.clone();
    let run = Run::<()>::new(plan(2)).policy(Box::new(server.client().unwrap())).start(&runtime, move |_| {
        // The first waits for the second, which can start only with the token.
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            let mut pipe = OpenOptions::new().write(true).open(format!("/proc/self/fd/{write}")).unwrap();
            pipe.write_all(&token).unwrap();
            while count.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
        }
    });
    assert!(run.wait().unwrap().is_success());
    assert_eq!(tokens(&server), 1);
}

/// Tokens that lie in a pipe which somebody holds open, taken out, counted, and put back.
fn tokens_in(mut pipe: &fs::File) -> usize {
    let mut tokens = Vec::new();
    _ = pipe.read_to_end(&mut tokens);
    pipe.write_all(&tokens).unwrap();
    tokens.len()
}

#[test]
fn a_pipe_that_is_removed_or_replaced_while_it_is_in_use_keeps_its_tokens() {
    const O_NONBLOCK: i32 = 0o4000;
    let folder = Folder::new("gone");
    for replaced in [false, true] {
        let server = JobServer::fifo(3, &folder.0).unwrap();
        let flags = server.makeflags();
        let path = PathBuf::from(flags.split("fifo:").nth(1).unwrap());
        let held = OpenOptions::new().read(true).write(true).custom_flags(O_NONBLOCK).open(&path).unwrap();
        let other = JobServer::fifo(5, &folder.0).unwrap();
        let stranger = PathBuf::from(other.makeflags().split("fifo:").nth(1).unwrap().to_owned());
        let (now, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (count, most, of, from) = (now.clone(), peak.clone(), path.clone(), stranger.clone());
        let runtime = Runtime::builder().workers(4).build().unwrap();
        let run = Run::<()>::new(plan(60)).policy(Box::new(JobClient::from_makeflags(&flags).unwrap().unwrap()));
        let run = run.start(&runtime, move |cx| {
            most.fetch_max(count.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            if cx.task().index() == 10 {
                // The third is in use by now: tokens are taken and given back before and after.
                if replaced { fs::rename(&from, &of).unwrap() } else { fs::remove_file(&of).unwrap() }
            }
            std::thread::yield_now();
            count.fetch_sub(1, Ordering::SeqCst);
        });
        let report = run.wait().unwrap();
        assert!(report.is_success() && report.warnings().is_empty(), "{:?}", report.warnings());
        assert!(peak.load(Ordering::SeqCst) <= 3, "{} at a time", peak.load(Ordering::SeqCst));
        assert_eq!(tokens_in(&held), 2, "they went back to where they came from");
        // Who comes later is told, or has the other pipe; the server's own client has the server's.
        match JobClient::from_makeflags(&flags) {
            Err(error) => {
                assert!(!replaced && matches!(error, JobServerError::Pipe { .. }), "{error}");
                assert!(error.to_string().contains("has its make ended?"), "{error}");
            }
            Ok(client) => assert!(replaced && client.is_some()),
        }
        let run = Run::<()>::new(plan(60)).policy(Box::new(server.client().unwrap())).start(&runtime, |_| ());
        assert!(run.wait().unwrap().is_success());
        assert_eq!(tokens_in(&held), 2);
        drop(server);
        assert_eq!(path.exists(), replaced, "what stands there by now is somebody else's");
        _ = fs::remove_file(path);
        drop(other);
    }
}

#[test]
fn the_most_jobs_that_a_server_can_have_come_and_go_in_any_number() {
    let server = JobServer::pipe(57_344).unwrap();
    let flags = server.makeflags();
    let (read, write) = flags.rsplit("auth=").next().unwrap().split_once(',').unwrap();
    let open = |fd: &str, write: bool| {
        let path = format!("/proc/self/fd/{}", fd.trim());
        OpenOptions::new().read(!write).write(write).custom_flags(0o4000).open(path).unwrap()
    };
    let (mut read, mut write) = (open(read, false), open(write, true));
    for count in [1, 2, 4_095, 3, 4_097, 9_000, 57_343, 5] {
        let mut tokens = vec![0; count];
        read.read_exact(&mut tokens).unwrap();
        for token in tokens {
            write.write_all(&[token]).expect("there is room for each that comes back");
        }
    }
    assert_eq!(tokens(&server), 57_343);
}

#[test]
fn what_makeflags_says_is_understood_or_refused_in_words() {
    assert!(JobClient::from_makeflags("").unwrap().is_none());
    assert!(JobClient::from_makeflags("kw -j8").unwrap().is_none());
    assert!(JobClient::from_makeflags("-j --jobserver-auth=-2,-2").unwrap().is_none());
    let malformed = JobClient::from_makeflags("--jobserver-auth=3").unwrap_err();
    assert!(
        matches!(malformed, JobServerError::Malformed { .. }) && malformed.to_string().contains("--jobserver-auth=3")
    );
    let closed = JobClient::from_makeflags(" -j4 --jobserver-fds=986,987").unwrap_err();
    assert!(matches!(closed, JobServerError::Pipe { .. }) && closed.to_string().contains('+'));
    let folder = Folder::new("file");
    let gone =
        JobClient::from_makeflags(&format!(" -j2 --jobserver-auth=fifo:{}/gone", folder.0.display())).unwrap_err();
    assert!(matches!(gone, JobServerError::Pipe { .. }) && gone.to_string().ends_with("has its make ended?"), "{gone}");
    let file = folder.0.join("plain");
    fs::write(&file, "++").unwrap();
    let plain = JobClient::from_makeflags(&format!("--jobserver-auth=fifo:{}", file.display())).unwrap_err();
    assert!(matches!(plain, JobServerError::NoPipe { .. }));
    for jobs in [0, 57_345] {
        assert!(matches!(JobServer::pipe(jobs).unwrap_err(), JobServerError::Tokens { .. }));
    }
    // The last word counts.
    let server = JobServer::fifo(2, &folder.0).unwrap();
    let flags = format!("--jobserver-auth=986,987{}", server.makeflags());
    assert!(JobClient::from_makeflags(&flags).unwrap().is_some());
}

#[test]
fn a_client_that_is_dropped_in_the_middle_gives_its_tokens_back() {
    let server = JobServer::pipe(4).unwrap();
    let runtime = Runtime::builder().driver(shardrun::Driver::Inline).build().unwrap();
    let run = Run::<()>::new(plan(4)).policy(Box::new(server.client().unwrap())).start(&runtime, |_| ());
    assert_eq!(tokens(&server), 0, "four have started");
    runtime.shutdown();
    drop(run);
    drop(runtime);
    assert_eq!(tokens(&server), 3);
}

// ---- memory ----

#[test]
fn memory_is_read_from_the_system() {
    let memory = Memory::now().expect("Linux says");
    assert!(memory.available > 0 && memory.available <= memory.total, "{memory:?}");
}

#[test]
fn the_tightest_of_the_machines_and_the_groups_limits_counts() {
    let folder = Folder::new("groups");
    let write = |path: &str, text: &str| {
        let path = folder.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("proc/meminfo", "MemTotal:  1000000 kB\nMemFree: 5 kB\nMemAvailable:  600000 kB\n");
    assert_eq!(Memory::read(&folder.0), Some(Memory { total: 1_024_000_000, available: 614_400_000 }));
    // Version 2: the outer group is the tighter one, and unused file cache counts as free.
    write("proc/self/cgroup", "0::/outer/inner\n");
    write("sys/fs/cgroup/cgroup.controllers", "memory\n");
    write("sys/fs/cgroup/outer/memory.max", "400000000\n");
    write("sys/fs/cgroup/outer/memory.current", "350000000\n");
    write("sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file 50000000\n");
    write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
    write("sys/fs/cgroup/outer/inner/memory.current", "350000000\n");
    assert_eq!(Memory::read(&folder.0), Some(Memory { total: 400_000_000, available: 100_000_000 }));
    // Version 1 beside it.
    write("proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/job\n");
    write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "90000000\n");
    write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "80000000\n");
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
    assert_eq!(Memory::read(&folder.0), Some(Memory { total: 90_000_000, available: 10_000_000 }));
    assert_eq!(Memory::read(&folder.0.join("nothing")), None);
}

#[test]
fn nothing_more_starts_while_memory_is_short_and_one_always_does() {
    let figures = Arc::new(AtomicUsize::new(0));
    let free = figures.clone();
    let pressure = MemoryPressure::keep_percent(10)
        .reading(move || Some(Memory { total: 1_000, available: free.load(Ordering::SeqCst) as u64 }));
    let (now, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, most, set, begun) = (now.clone(), peak.clone(), figures.clone(), AtomicUsize::new(0));
    let runtime = Runtime::builder().workers(4).build().unwrap();
    let run = Run::<()>::new(plan(40)).policy(Box::new(pressure)).start(&runtime, move |cx| {
        begun.fetch_add(1, Ordering::SeqCst);
        let running = count.fetch_add(1, Ordering::SeqCst) + 1;
        if set.load(Ordering::SeqCst) < 100 {
            most.fetch_max(running, Ordering::SeqCst);
        }
        if cx.task().index() == 20 {
            set.store(500, Ordering::SeqCst);
            // The next starts though nothing ends: the policy looks again.
            let before = begun.load(Ordering::SeqCst);
            while begun.load(Ordering::SeqCst) == before {
                std::thread::yield_now();
            }
        }
        count.fetch_sub(1, Ordering::SeqCst);
    });
    assert!(run.wait().unwrap().is_success());
    assert_eq!(peak.load(Ordering::SeqCst), 1);
}
