//! Requests that are submitted together: seen whole or not at all, answered in order, one ticket for many.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, Gate, driven, threads};
use shardrun::{Moved, Request, Stage, StageError, StageValue, Stages};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("file {n}")).collect()
}

fn text(result: &Result<StageValue<Files>, StageError<Files>>) -> Option<String> {
    match result {
        Ok(StageValue::Source(value) | StageValue::Analysis(value) | StageValue::Artifact(value)) => {
            Some(value.as_str().to_owned())
        }
        Err(_) => None,
    }
}

#[test]
fn a_batch_counts_once_and_an_empty_one_not_at_all() {
    let host = Files::with([("a", "1"), ("b", "2"), ("c", "3")]);
    let (_runtime, stages) = driven(&host);
    let batch = stages.submit_batch_atomic(["a", "b", "c"].map(|file| Request::source(file.to_owned())));
    assert_eq!(batch.len(), 3);
    assert_eq!(stages.counters().submits, 1);
    let takings = stages.counters().sequencer.takings;
    let empty = stages.submit_batch_atomic(Vec::<Request<Files>>::new());
    assert!(empty.is_empty());
    assert!(stages.wait_batch(empty).is_empty());
    assert_eq!((stages.counters().submits, stages.counters().sequencer.takings), (1, takings));
    assert!(stages.wait_batch(batch).iter().all(Result::is_ok));
}

#[test]
fn results_come_in_the_order_of_the_requests_by_value_and_by_reference() {
    let host = Files::with([("a", "1"), ("b", "2"), ("c", "3")]);
    let gates: Vec<_> = (0..3).map(|_| Gate::default()).collect();
    host.hook({
        let gates = gates.clone();
        move |_, at| {
            gates[usize::from(at.file.as_bytes()[0] - b'a')].pass();
            Act::Go
        }
    });
    let runtime = threads(3);
    let stages = Stages::new(&runtime, host.clone());
    let mut batch = stages.submit_batch_atomic(["a", "b", "c"].map(|file| Request::source(file.to_owned())));
    // They end in the order 2, 0, 1.
    for at in [2, 0, 1] {
        gates[at].arrived(1);
        gates[at].open();
    }
    let by_reference: Vec<_> = stages.wait_batch(&mut batch).iter().map(text).collect();
    let by_value: Vec<_> = stages.wait_batch(batch).iter().map(text).collect();
    assert_eq!(by_reference, ["1", "2", "3"].map(|text| Some(text.to_owned())));
    assert_eq!(by_value, by_reference);
}

#[test]
fn a_mixed_batch_is_answered_by_stage_and_one_failure_stays_alone() {
    let host = Files::with([("a", "1"), ("b", "2")]);
    let (_runtime, stages) = driven(&host);
    let requests: Vec<Request<Files>> = vec![
        Request::artifact("a".into(), 9).into(),
        Request::source("missing".into()).into(),
        Request::analysis("b".into()).into(),
        Request::source("a".into()).text("edited".into()).into(),
    ];
    let mut batch = stages.submit_batch_atomic(requests);
    let results = batch.wait();
    assert_eq!(text(&results[0]).as_deref(), Some("9:analysis(edited)"), "a member sees the edits of its own batch");
    assert!(results[1].as_ref().unwrap_err().is_not_found());
    assert_eq!(text(&results[2]).as_deref(), Some("analysis(2)"));
    let stages: Vec<_> = results.iter().flatten().map(|value| value.stage()).collect();
    assert_eq!(stages, [Stage::Artifact, Stage::Analysis, Stage::Source], "a value tells its stage");
    assert_eq!(text(&results[3]).as_deref(), Some("edited"));
    let handles = batch.into_handles();
    assert_eq!(
        handles.iter().map(|handle| handle.stage()).collect::<Vec<_>>(),
        [Stage::Artifact, Stage::Source, Stage::Analysis, Stage::Source]
    );
    assert!(handles.into_iter().nth(2).unwrap().wait().is_ok());
}

#[test]
fn a_file_named_twice_keeps_the_newest_text_and_runs_once() {
    let host = Files::default();
    let (_runtime, stages) = driven(&host);
    let edits = ["old", "newer", "newest"].map(|text| Request::source("a".into()).text(text.to_owned()));
    let results = stages.wait_batch(stages.submit_batch_atomic(edits));
    assert!(results.iter().all(|result| text(result).as_deref() == Some("newest")));
    assert_eq!(host.ran(Stage::Source, "a"), 1);
    assert_eq!(stages.generation(&"a".into()), Some(1));
}

#[test]
fn the_edits_of_a_batch_supersede_what_was_asked_before() {
    let host = Files::with([("a", "1"), ("b", "2")]);
    let (_runtime, stages) = driven(&host);
    let before = stages.submit_batch(["a", "b"].map(|file| Request::artifact(file.to_owned(), 1)));
    let edits = ["a", "b"].map(|file| Request::analysis(file.to_owned()).text("new".to_owned()));
    let after = stages.submit_batch_atomic(edits);
    assert!(stages.wait_batch(before).iter().all(|result| matches!(result, Err(StageError::Superseded))));
    assert!(stages.wait_batch(after).iter().all(|result| text(result).as_deref() == Some("analysis(new)")));
    assert_eq!(host.ran(Stage::Source, "a") + host.ran(Stage::Source, "b"), 2, "the older generation never ran");
}

#[test]
fn a_large_batch_is_one_ticket_that_lets_others_in_between() {
    let host = Files::default();
    let files = names(1_000);
    files.iter().for_each(|file| host.store(file, "text"));
    host.store("late", "text");
    let (runtime, stages) = driven(&host);
    let mut batch = stages.submit_batch_atomic(files.iter().map(|file| Request::source(file.clone())));
    assert_eq!(runtime.counters().queued.iter().sum::<usize>(), 1, "one ticket is out");
    let late = stages.submit_request(Request::source("late".into()));
    let mut steps = 0;
    while !late.is_resolved() {
        assert!(runtime.drive_one());
        steps += 1;
    }
    assert!(steps <= 3, "the batch held up a later request for {steps} steps");
    assert!(batch.wait().iter().all(Result::is_ok));
    assert!(files.iter().all(|file| host.ran(Stage::Source, file) == 1));
}

#[test]
fn a_batch_is_ended_by_a_shutdown_member_by_member() {
    let host = Files::default();
    let files = names(50);
    files.iter().for_each(|file| host.store(file, "text"));
    let (runtime, stages) = driven(&host);
    let mut batch = stages.submit_batch_atomic(files.iter().map(|file| Request::analysis(file.clone())));
    for _ in 0..3 {
        runtime.drive_one();
    }
    runtime.shutdown();
    let results = batch.wait();
    assert!(results.iter().all(|result| matches!(result, Ok(_) | Err(StageError::Shutdown))));
    assert!(results.iter().any(Result::is_err));
}

#[test]
fn joiners_of_a_batch_are_called_once_each_after_everything() {
    let host = Files::with([("a", "1"), ("b", "2")]);
    let (_runtime, stages) = driven(&host);
    let winner = stages.submit_request(Request::source("a".into()).name(5));
    let told = Arc::new(Mutex::new(Vec::new()));
    let member = |file: &str| {
        let (told, stages) = (told.clone(), stages.clone());
        Request::source(file.to_owned()).on_join(move |joined| {
            // All of the batch stands by now.
            assert!(stages.has_file(&"b".into()));
            told.lock().unwrap().push((joined.file, joined.winner));
        })
    };
    let batch = stages.submit_batch_atomic([member("a"), member("b"), member("b")]);
    assert_eq!(*told.lock().unwrap(), [("a".to_owned(), Some(5)), ("b".to_owned(), None)]);
    assert!(stages.wait_batch(batch).iter().all(Result::is_ok));
    assert!(winner.wait().is_ok());
    assert_eq!(told.lock().unwrap().len(), 2);
}

/// Reads the generations of `files` in order.
fn read(stages: &Stages<Files>, files: &[String]) -> Vec<u64> {
    files.iter().map(|file| stages.generation(file).unwrap_or(0)).collect()
}

#[test]
fn b119_readers_see_all_of_a_batch_or_nothing_and_batches_have_one_order() {
    let host = Files::default();
    let runtime = threads(1);
    let stages = Stages::new(&runtime, host);
    let files = names(6);
    stages.submit_batch_atomic(files.iter().map(|file| Request::source(file.clone()).text("0".into()))).wait();
    let stop = AtomicBool::new(false);
    let rounds = if cfg!(debug_assertions) { 150 } else { 1_500 };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (stages, files) = (&stages, &files);
                scope.spawn(move || {
                    for round in 0..rounds {
                        let mut order = files.clone();
                        order.rotate_left(round % files.len());
                        let edits =
                            order.iter().map(|file| Request::source(file.clone()).text(format!("{writer} {round}")));
                        drop(stages.submit_batch_atomic(edits));
                    }
                })
            })
            .collect();
        for backwards in [false, true] {
            let (stages, files, stop) = (&stages, &files, &stop);
            scope.spawn(move || {
                let mut order = files.clone();
                if backwards {
                    order.reverse();
                }
                while !stop.load(Ordering::Relaxed) {
                    let seen = read(stages, &order);
                    assert!(seen.windows(2).all(|pair| pair[0] <= pair[1]), "half a batch was seen: {seen:?}");
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop.store(true, Ordering::Relaxed);
    });
    let seen = read(&stages, &files);
    assert!(seen.iter().all(|&generation| generation == 1 + 2 * rounds as u64));
    let texts: Vec<_> = files.iter().map(|file| stages.overlay(file).unwrap()).collect();
    assert!(texts.iter().all(|text| *text == texts[0]), "the last batch is the last of every file");
}

#[test]
fn b121_batches_with_the_same_files_in_any_order_do_not_lock_up() {
    let host = Files::default();
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host);
    let files = names(40);
    let (threads, rounds) = (8, if cfg!(debug_assertions) { 10 } else { 100 });
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (stages, files, barrier) = (&stages, &files, &barrier);
            scope.spawn(move || {
                for round in 0..rounds {
                    let mut order = files.clone();
                    order.rotate_left((thread * 7 + round * 3) % files.len());
                    if thread % 2 == 0 {
                        order.reverse();
                    }
                    order.push(order[0].clone());
                    barrier.wait();
                    let edits =
                        order.iter().map(|file| Request::source(file.clone()).text(format!("{thread} {round}")));
                    for result in stages.submit_batch_atomic(edits).wait() {
                        assert!(matches!(result, Ok(_) | Err(StageError::Superseded)));
                    }
                }
            });
        }
    });
    let expected = (threads * rounds) as u64;
    assert!(files.iter().all(|file| stages.generation(file) == Some(expected)));
}

#[test]
fn plain_requests_and_edits_of_many_threads_leave_the_newest_generation_published() {
    let host = Files::default();
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host);
    let files = names(4);
    let edits = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let (stages, files, edits) = (&stages, &files, &edits);
            scope.spawn(move || {
                for round in 0..200_usize {
                    let file = &files[(thread + round) % files.len()];
                    if round % 3 == thread % 3 {
                        edits.fetch_add(1, Ordering::Relaxed);
                        assert_eq!(stages.set_text(file.clone(), format!("{thread} {round}")), Moved::On);
                    }
                    match stages.submit_request(Request::artifact(file.clone(), 1)).wait() {
                        Ok(_) | Err(StageError::Superseded) => {}
                        Err(error) if error.is_not_found() => {}
                        Err(other) => panic!("an unexpected answer: {other}"),
                    }
                }
            });
        }
    });
    for file in &files {
        let artifact = stages.submit_request(Request::artifact(file.clone(), 1)).wait().unwrap();
        assert_eq!(*artifact, format!("1:analysis({})", stages.overlay(file).unwrap()));
        assert_eq!(stages.try_get_artifact(file, &1), Some(artifact));
    }
}
