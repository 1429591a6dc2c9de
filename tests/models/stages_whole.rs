//! The pipeline as a whole: clients that ask, edit, batch, cancel and drive, in any order of their steps.

use super::check;
use crate::stages::{Host, Request, Stage, StageCx, StageError, StageHandle, StageValue, Stages};
use crate::sync::epoch::pin;
use crate::sync::stat::{AtomicU64, Ordering};
use crate::sync::{Arc, thread};
use crate::{Driver, Pool, Runtime};

/// Text, Source, Analysis and Artifact are the number that the text had.
pub(super) struct Numbers {
    /// How often each stage was begun.
    begun: [AtomicU64; 3],
}

impl Numbers {
    fn begin(&self, cx: &StageCx<'_, Self>) {
        let stage = match cx.stage() {
            Stage::Source => 0,
            Stage::Analysis => 1,
            Stage::Artifact => 2,
        };
        self.begun[stage].fetch_add(1, Ordering::Relaxed);
        // Gives the others a chance to move the file meanwhile.
        thread::yield_now();
    }
}

impl Host for Numbers {
    type File = usize;
    type Text = u64;
    type Source = u64;
    type Analysis = u64;
    type Artifact = u64;
    type Profile = u8;
    type Error = std::io::Error;

    fn load(&self, _: &usize) -> Result<Option<u64>, std::io::Error> {
        Ok(Some(0))
    }

    fn source(&self, cx: &StageCx<'_, Self>, text: u64) -> Result<u64, std::io::Error> {
        self.begin(cx);
        Ok(text)
    }

    fn analysis(&self, cx: &StageCx<'_, Self>, source: &u64) -> Result<u64, std::io::Error> {
        self.begin(cx);
        Ok(*source)
    }

    fn artifact(&self, cx: &StageCx<'_, Self>, _: &u8, source: &u64, analysis: &u64) -> Result<u64, std::io::Error> {
        self.begin(cx);
        assert_eq!(source, analysis, "an Artifact of two generations");
        Ok(*analysis)
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

pub(super) fn world() -> (Runtime, Stages<Numbers>) {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let stages = Stages::builder(&runtime, Numbers { begun: Default::default() }).seed(1).build();
    (runtime, stages)
}

fn value(answer: Result<StageValue<Numbers>, StageError<Numbers>>) -> Option<u64> {
    match answer {
        Ok(StageValue::Source(value) | StageValue::Analysis(value) | StageValue::Artifact(value)) => Some(*value),
        Err(StageError::Superseded) => None,
        Err(other) => panic!("an unexpected answer: {other}"),
    }
}

/// Takes the answers that are there; every one must be, once the runtime has nothing left to run.
fn answers(handles: Vec<StageHandle<Numbers>>) -> Vec<Option<u64>> {
    handles.into_iter().map(|mut handle| value(handle.try_get().expect("a request was never answered"))).collect()
}

pub(super) fn spawn<T: Send + 'static>(
    stages: &Stages<Numbers>,
    runtime: &Runtime,
    client: impl FnOnce(&Stages<Numbers>, &Runtime) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let (stages, runtime) = (stages.clone(), runtime.clone());
    thread::spawn(move || client(&stages, &runtime))
}

/// Of four clients that ask for late stages of two files, edit them, and drive, each gets one answer, never an older one than it
/// asked for, and what is read at the end is the newest.
#[test]
fn four_clients_ask_edit_and_drive() {
    check(|| {
        let (runtime, stages) = world();
        let clients: Vec<_> = (0..4_usize)
            .map(|client| {
                spawn(&stages, &runtime, move |stages, runtime| {
                    let file = client % 2;
                    let mut handles: Vec<StageHandle<Numbers>> = Vec::new();
                    handles.push(StageHandle::Artifact(stages.submit_request(Request::artifact(file, 1))));
                    runtime.drive_one();
                    let edit = Request::analysis(file).text(client as u64 + 1);
                    handles.push(StageHandle::Analysis(stages.submit_request(edit)));
                    runtime.drive_one();
                    handles.push(StageHandle::Artifact(stages.submit_request(Request::artifact(file, 1))));
                    runtime.drive_all();
                    handles
                })
            })
            .collect();
        let handles: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        runtime.drive_all();
        for (client, handles) in handles.into_iter().enumerate() {
            let (mine, other) = (client as u64 + 1, (client as u64 + 2) % 4 + 1);
            let answers = answers(handles);
            assert!(answers[1].is_none_or(|value| value == mine), "an edit was answered from another text");
            assert!(answers[2].is_none_or(|value| value == mine || value == other), "older than what was asked for");
        }
        for file in 0..2 {
            let newest = *stages.overlay(&file).unwrap();
            // A first request brings it to generation 1; if an edit came first that was the first. Two edits move it on.
            assert!(matches!(stages.generation(&file), Some(2 | 3)));
            let source = stages.try_get_source(&file);
            assert!(source.is_none_or(|source| *source == newest), "an older value was published");
        }
        drop(stages);
        runtime.shutdown();
    });
}

/// An edit that asks for an Artifact gets the one of its own text, or hears that a newer edit has superseded it: also if that one
/// comes between the edit and its wish.
#[test]
fn an_edit_is_answered_from_its_own_text_or_superseded() {
    check(|| {
        let (runtime, stages) = world();
        let clients: Vec<_> = (1..4_u64)
            .map(|text| {
                spawn(&stages, &runtime, move |stages, runtime| {
                    let edit = Request::artifact(0, 1).text(text);
                    let handle = match text {
                        1 => stages
                            .submit_batch_atomic([edit, Request::artifact(1, 1).text(text)])
                            .into_handles()
                            .remove(0),
                        _ => StageHandle::Artifact(stages.submit_request(edit)),
                    };
                    runtime.drive_all();
                    handle
                })
            })
            .collect();
        let handles: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        runtime.drive_all();
        let answers = answers(handles);
        for (text, answer) in (1..).zip(&answers) {
            assert!(answer.is_none_or(|answer| answer == text), "an edit was answered from another text: {answers:?}");
        }
        let newest = *stages.overlay(&0).unwrap();
        assert_eq!(answers[newest as usize - 1], Some(newest), "nothing has superseded it");
        drop(stages);
    });
}

/// A request that sees one file of an atomic batch at its new text sees the other there too, whatever the batch's own requests
/// and a cancel do meanwhile.
#[test]
fn batches_are_seen_whole_by_requests_readers_and_cancels() {
    check(|| {
        let (runtime, stages) = world();
        let mut first = stages.submit_batch_atomic([0, 1].map(|file| Request::source(file).text(1)));
        let writer = spawn(&stages, &runtime, |stages, runtime| {
            let batch = stages.submit_batch_atomic([1, 0].map(|file| Request::analysis(file).text(2)));
            runtime.drive_all();
            batch.into_handles()
        });
        let reader = spawn(&stages, &runtime, |stages, _| {
            let seen = [0, 1].map(|file| *stages.overlay(&file).unwrap());
            assert!(seen[0] <= seen[1], "half a batch was seen");
        });
        let asker = spawn(&stages, &runtime, |stages, runtime| {
            let handles = [1, 0].map(|file| stages.submit_request(Request::source(file)));
            runtime.drive_all();
            handles
        });
        let canceller = spawn(&stages, &runtime, |stages, runtime| {
            let handle = stages.submit_request(Request::artifact(0, 7));
            runtime.drive_one();
            handle.cancel();
            runtime.drive_one();
            matches!(handle.wait(), Err(StageError::Cancelled | StageError::Superseded) | Ok(_))
        });
        let edited = writer.join().unwrap();
        reader.join().unwrap();
        let asked = asker.join().unwrap();
        assert!(canceller.join().unwrap());
        runtime.drive_all();
        assert!(first.wait().into_iter().all(|answer| value(answer).is_none_or(|value| value == 1)));
        assert_eq!(answers(edited), [Some(2), Some(2)]);
        let asked = answers(asked.into_iter().map(StageHandle::Source).collect());
        assert!(asked[0] != Some(2) || asked[1] == Some(2), "a request saw half a batch");
        drop(stages);
    });
}

/// Requests that fail over to a retry, cancels of what has begun, and a shutdown: each is answered once, and nothing is left.
#[test]
fn cancels_retries_and_a_shutdown_leave_nobody_waiting() {
    check(|| {
        let (runtime, stages) = world();
        let clients: Vec<_> = (0..3)
            .map(|client| {
                spawn(&stages, &runtime, move |stages, runtime| {
                    let handle = stages.submit_request(Request::artifact(0, client % 2));
                    runtime.drive_one();
                    if client != 1 {
                        handle.cancel();
                    }
                    let again = stages.submit_request(Request::artifact(0, client % 2));
                    runtime.drive_one();
                    [handle, again]
                })
            })
            .collect();
        let closer = {
            let runtime = runtime.clone();
            thread::spawn(move || {
                runtime.drive_one();
                thread::yield_now();
                runtime.shutdown();
            })
        };
        let handles: Vec<_> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        closer.join().unwrap();
        runtime.drive_all();
        for mut handle in handles {
            let answer = handle.try_get().expect("a request outlived the runtime");
            assert!(matches!(answer, Ok(_) | Err(StageError::Cancelled | StageError::Shutdown)));
        }
        drop(stages);
    });
}

/// Requests and edits beside removals, re-homes and a reset: each is answered once, an edit from its own text or not at all, and
/// what is asked for after that begins anew.
#[test]
fn lives_end_and_begin_again_beside_requests_and_edits() {
    check(|| {
        let (runtime, stages) = world();
        let clients = [1, 2].map(|client| {
            spawn(&stages, &runtime, move |stages, runtime| {
                let first = stages.submit_request(Request::artifact(0, 1));
                runtime.drive_one();
                let batch = [0, 1].map(|file| Request::source(file).text(client));
                let edited = stages.submit_batch_atomic(batch).into_handles();
                runtime.drive_one();
                let last = stages.submit_request(Request::analysis(0).text(client + 10).rehome());
                runtime.drive_one();
                (StageHandle::Artifact(first), edited, StageHandle::Analysis(last))
            })
        });
        let remover = spawn(&stages, &runtime, |stages, runtime| {
            stages.remove(&0);
            runtime.drive_one();
            stages.rehome(&1);
            stages.remove(&0);
        });
        let resetter = spawn(&stages, &runtime, |stages, runtime| {
            runtime.drive_one();
            if stages.reset() == 0 {
                stages.stop();
                stages.restart();
            }
        });
        let handles = clients.map(|client| client.join().unwrap());
        remover.join().unwrap();
        resetter.join().unwrap();
        runtime.drive_all();
        let answer = |mut handle: StageHandle<Numbers>| match handle.try_get().expect("a request was never answered") {
            Ok(StageValue::Source(value) | StageValue::Analysis(value) | StageValue::Artifact(value)) => Some(*value),
            Err(StageError::Superseded | StageError::Shutdown) => None,
            Err(other) => panic!("an unexpected answer: {other}"),
        };
        for (client, (first, edited, last)) in handles.into_iter().enumerate() {
            let client = client as u64 + 1;
            let _ = answer(first);
            assert!(edited.into_iter().map(answer).all(|value| value.is_none_or(|value| value == client)));
            assert!(answer(last).is_none_or(|value| value == client + 10), "an edit was answered from another text");
        }
        assert!(stages.quiesce().is_ok());
        for file in 0..2 {
            stages.remove(&file);
            assert!(!stages.has_file(&file));
            let again = StageHandle::Analysis(stages.submit_request(Request::analysis(file)));
            runtime.drive_all();
            assert_eq!(answer(again), Some(0), "a life began with another's text");
            assert_eq!(stages.generation(&file), Some(1));
        }
        assert_eq!((stages.len(), stages.counters().overlaid), (2, 0));
        drop(stages);
    });
}

/// A later life of a file has a greater number than every life before, also where its slot was made long before it came in.
#[test]
fn a_later_life_has_a_greater_number() {
    check(|| {
        let (runtime, stages) = world();
        let number = |stages: &Stages<Numbers>| {
            let core = stages.core();
            let slot = core.live(core.stripes.hash(&0).ok()?, &0).ok()??;
            let pinned = pin();
            let seen = slot.visible(&pinned)?;
            (seen.generation > 0).then_some(seen.life.incarnation)
        };
        let slow = spawn(&stages, &runtime, |stages, _| stages.submit_request(Request::source(0)).detach());
        let mut older = None;
        for _ in 0..2 {
            stages.submit_request(Request::source(0)).detach();
            let now = number(&stages);
            assert!(now.is_none() || now > older, "a later life has a smaller number");
            // Whoever's life it was, it is over from now on.
            stages.remove(&0);
            older = now.or(older);
        }
        slow.join().unwrap();
        let now = number(&stages);
        assert!(now.is_none() || now > older, "a later life has a smaller number");
        drop(stages);
    });
}
