//! A forked child finds a scheduler whose threads it lacks: it is told so, may read what is there, and waits for nobody.
#![cfg(unix)]

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, Gate};
use shardrun::{
    Budget, Interrupt, Pool, Request, Runtime, SourceLookup, Stage, StageError, StageHandleOf, Stages, ToArtifact,
};
use std::time::{Duration, Instant};

type Late = StageHandleOf<Files, ToArtifact<u32>>;

/// What the child finds; zero if all is as it should be.
fn child(stages: Stages<Files>, late: Late) -> i32 {
    let shut_down = |answer: Result<_, StageError<Files>>| matches!(answer, Err(StageError::Shutdown));
    if !shut_down(stages.submit_request(Request::artifact("b".into(), 1)).wait().map(|_| ())) {
        return 1;
    }
    if !shut_down(stages.submit_request(Request::source("c".into()).text("edit".into())).wait().map(|_| ())) {
        return 2;
    }
    let batch = stages.submit_batch_atomic(["c", "d"].map(|file| Request::analysis(file.into()).text("edit".into())));
    if !{ batch }.wait().into_iter().all(|answer| shut_down(answer.map(|_| ()))) {
        return 3;
    }
    if !shut_down(late.wait().map(|_| ())) {
        return 4;
    }
    if stages.try_get_source(&"a".into()).as_deref().map(String::as_str) != Some("one") {
        return 5;
    }
    let root = stages.capture_source_root();
    if !matches!(root.lookup(&"a".into()), SourceLookup::Present(..)) {
        return 6;
    }
    if stages.quiesce() != Err(Interrupt::Shutdown) {
        return 7;
    }
    stages.invalidate(&"a".into());
    stages.remove(&"b".into());
    stages.reset();
    drop(root);
    drop(stages);
    0
}

#[test]
fn b106_a_forked_child_may_read_is_refused_what_needs_threads_and_waits_for_nobody() {
    let (host, gate) = (Files::with([("a", "one"), ("b", "two"), ("c", "three")]), Gate::default());
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let stages = Stages::builder(&runtime, host.clone()).budget(Budget::for_runtime(16, &runtime));
    let stages = stages.limit(Pool::Workers, 1).unwrap().build();
    stages.submit_request(Request::source("a".into())).wait().unwrap();
    let at = gate.clone();
    host.hook(move |_, it| {
        if it.stage == Stage::Analysis {
            at.pass();
        }
        Act::Go
    });
    let mine = stages.submit_request(Request::artifact("a".into(), 1));
    gate.arrived(1);
    let late = stages.submit_request(Request::artifact("b".into(), 1));
    // SAFETY: the child runs nothing but `child` and leaves without unwinding into the test's threads, which it lacks.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| child(stages, late))).unwrap_or(99);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(found) };
    }
    assert!(pid > 0);
    let (mut status, begun) = (0, Instant::now());
    // SAFETY: asks for the state of a child of ours.
    while unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == 0 {
        if begun.elapsed() > Duration::from_secs(300) {
            // SAFETY: ends a child of ours.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::yield_now();
    }
    gate.open();
    assert!(libc::WIFEXITED(status));
    assert_eq!(libc::WEXITSTATUS(status), 0, "what the child found");
    assert!(mine.wait().is_ok() && late.wait().is_ok(), "the parent goes on");
}
