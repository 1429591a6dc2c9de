//! Publication from outside against the worker, an edit and an eviction.

use super::check;
use super::stages_whole::{spawn, world};
use crate::stages::{Request, StageError};
use crate::sync::Arc;

/// A commit from outside, the worker's own result and an edit: who waits gets one answer; once the edit was seen no commit is
/// accepted; and an accepted commit is what is read until the edit.
#[test]
fn a_commit_beside_a_worker_and_an_edit() {
    check(|| {
        let (runtime, stages) = world();
        stages.submit_request(Request::analysis(0).text(1)).wait().unwrap();
        let (_, witness) = stages.try_get_witnessed_source(&0).unwrap();
        let worker = spawn(&stages, &runtime, |stages, runtime| {
            let handle = stages.submit_request(Request::artifact(0, 1));
            runtime.drive_all();
            handle
        });
        let committers = [10, 11].map(|made| {
            let witness = witness.clone();
            spawn(&stages, &runtime, move |stages, _| {
                let late = stages.generation(&0) == Some(2);
                let accepted = stages.commit_artifact(&witness, &1, Arc::new(made)).is_ok();
                assert!(!late || !accepted, "a commit was accepted after the file had moved on");
                accepted
            })
        });
        let editor = spawn(&stages, &runtime, |stages, _| stages.set_text(0, 2));
        let accepted = committers.map(|committer| committer.join().unwrap());
        editor.join().unwrap();
        let handle = worker.join().unwrap();
        runtime.drive_all();
        let good = stages.try_get_last_good_artifact(&0, &1);
        match handle.wait() {
            Ok(value) if *value == 1 || *value == 2 => {}
            Ok(value) => {
                assert!(accepted[(*value - 10) as usize], "an answer from a refused commit");
            }
            Err(StageError::Superseded) => {}
            Err(other) => panic!("an unexpected answer: {other}"),
        }
        if accepted.iter().any(|&accepted| accepted) {
            let good = *good.expect("an accepted commit is kept");
            assert!(good == 2 || good >= 10, "a worker's result came after an accepted commit");
        }
        drop(stages);
    });
}

/// An eviction that is over is not undone by a worker that notes its result late.
#[test]
fn an_eviction_beside_a_worker() {
    check(|| {
        let (runtime, stages) = world();
        stages.submit_request(Request::analysis(0).text(1)).wait().unwrap();
        let (_, witness) = stages.try_get_witnessed_source(&0).unwrap();
        let worker = spawn(&stages, &runtime, |stages, runtime| {
            let handle = stages.submit_request(Request::artifact(0, 1));
            runtime.drive_all();
            handle
        });
        let evicted = [(); 2].map(|()| {
            let witness = witness.clone();
            spawn(&stages, &runtime, move |stages, _| stages.remove_artifact_not_newer_than(&witness, &1) == Ok(true))
        });
        let handle = worker.join().unwrap();
        let evicted = evicted.map(|thread| thread.join().unwrap());
        runtime.drive_all();
        assert_eq!(*handle.wait().unwrap(), 1);
        assert!(!(evicted[0] && evicted[1]), "one Artifact was evicted twice");
        let (current, good) = (stages.try_get_artifact(&0, &1), stages.try_get_last_good_artifact(&0, &1));
        assert_eq!(current.is_some(), good.is_some(), "what was evicted is read as good");
        drop(stages);
    });
}
