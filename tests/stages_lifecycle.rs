//! Files that are removed, re-homed and asked for again; a scheduler that is reset, stopped and restarted.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, Gate, driven, threads};
use shardrun::{Budget, Driver, Interrupt, Moved, Removed, Request, Runtime, Stage, StageError, StageValue, Stages};
use std::time::Duration;

fn a() -> String {
    "a".to_owned()
}

/// Stages of `stage` of the file `a` stop at the gate.
fn gated(host: &Files, stage: Stage) -> Gate {
    let gate = Gate::default();
    host.hook({
        let gate = gate.clone();
        move |_, at| {
            if at.stage == stage && at.file == "a" {
                gate.pass();
            }
            Act::Go
        }
    });
    gate
}

#[test]
fn s27_of_a_batch_the_member_whose_file_is_removed_ends_shut_down_and_the_others_are_ready() {
    let host = Files::with([("a", "text"), ("b", "text"), ("c", "text")]);
    let (runtime, stages) = driven(&host);
    for edits in [false, true] {
        let requests = ["a", "b", "c"].map(|file| {
            let request = Request::analysis(file.to_owned());
            if edits { request.text("edited".into()) } else { request }
        });
        let mut batch = stages.submit_batch_atomic(requests);
        assert_eq!(stages.remove(&"b".into()), Removed::Gone);
        runtime.drive_all();
        let results = batch.wait();
        assert!(matches!(results[0], Ok(StageValue::Analysis(_))) && matches!(results[2], Ok(StageValue::Analysis(_))));
        assert!(matches!(results[1], Err(StageError::Shutdown)), "{:?}", results[1]);
        assert!(!stages.has_file(&"b".into()));
    }
}

#[test]
fn s34_what_a_worker_makes_of_a_removed_file_is_not_published() {
    for stage in [Stage::Source, Stage::Analysis, Stage::Artifact] {
        let host = Files::with([("a", "text")]);
        let (runtime, gate) = (threads(1), gated(&host, stage));
        let stages = Stages::new(&runtime, host.clone());
        let handle = stages.submit_request(Request::artifact(a(), 1));
        gate.arrived(1);
        assert_eq!(stages.remove(&a()), Removed::Gone);
        assert!(matches!(handle.wait(), Err(StageError::Shutdown)), "answered while the stage still runs");
        gate.open();
        // The worker is free for this one only when it is through with the other.
        host.store("next", "text");
        assert!(stages.submit_request(Request::source("next".into())).wait().is_ok());
        assert!(!stages.has_file(&a()) && stages.generation(&a()).is_none() && stages.overlay(&a()).is_none());
        assert!(stages.try_get_source(&a()).is_none() && stages.try_get_analysis(&a()).is_none());
        assert!(stages.try_get_artifact(&a(), &1).is_none() && stages.try_get_last_good_artifact(&a(), &1).is_none());
        assert_eq!((stages.len(), stages.counters().stale_refusals), (1, 1));
    }
}

#[test]
fn s35_after_a_reset_results_come_only_from_new_work() {
    let host = Files::with([("a", "old")]);
    let (runtime, gate) = (threads(2), gated(&host, Stage::Source));
    let stages = Stages::new(&runtime, host.clone());
    assert_eq!(stages.invalidate(&a()), Moved::Unknown);
    let old = stages.submit_request(Request::analysis(a()).text("edited".into()));
    gate.arrived(1);
    assert_eq!(stages.reset(), 1);
    assert!(matches!(old.wait(), Err(StageError::Shutdown)));
    assert!(stages.is_empty() && !stages.has_file(&a()));
    assert_eq!(stages.restart(), 0);
    let new = stages.submit_request(Request::analysis(a()));
    gate.open();
    assert_eq!(*new.wait().unwrap(), "analysis(old)", "the edit's text has gone with the file");
    assert_eq!((stages.generation(&a()), stages.len()), (Some(1), 1));
    assert_eq!(stages.counters().overlaid, 0);
}

#[test]
fn s40_waiters_of_a_removed_file_are_shut_down_and_not_superseded() {
    let host = Files::with([("a", "text"), ("b", "text")]);
    let (runtime, stages) = driven(&host);
    // s41: those of an older generation have been superseded, and stay so; other files are unaffected.
    let older = stages.submit_request(Request::artifact(a(), 1));
    let newer = [0, 1].map(|profile| stages.submit_request(Request::artifact(a(), profile).text("v2".into())));
    let latest = stages.submit_request(Request::source(a()));
    let other = stages.submit_request(Request::source("b".into()));
    assert_eq!(stages.remove(&a()), Removed::Gone);
    assert!(matches!(older.wait(), Err(StageError::Superseded)));
    let [first, second] = newer;
    assert!(matches!(first.wait(), Err(StageError::Superseded)), "the second edit came after it");
    assert!(matches!(second.wait(), Err(StageError::Shutdown)));
    assert!(matches!(latest.wait(), Err(StageError::Shutdown)));
    // A new life is unaffected too.
    let again = stages.submit_request(Request::source(a()));
    runtime.drive_all();
    assert_eq!((other.wait().is_ok(), again.wait().is_ok()), (true, true));
}

#[test]
fn s44_a_rehome_ends_what_runs_and_keeps_the_life_of_the_file() {
    let host = Files::with([("a", "text")]);
    let (runtime, gate) = (threads(1), gated(&host, Stage::Source));
    let budget = Budget::new(8);
    let stages = Stages::builder(&runtime, host.clone()).budget(budget.clone()).build();
    assert_eq!(stages.rehome(&a()), Moved::Unknown);
    assert!(stages.is_empty(), "nothing was made");
    let old = stages.submit_request(Request::source(a()).text("edited".into()));
    gate.arrived(1);
    assert_eq!(stages.rehome(&a()), Moved::On);
    assert!(matches!(old.wait(), Err(StageError::Superseded)));
    assert_eq!((stages.generation(&a()), budget.in_use()), (Some(2), 0));
    let edited = stages.submit_request(Request::analysis(a()).rehome());
    let again = stages.submit_request(Request::analysis(a()).text("newest".into()).rehome());
    gate.open();
    assert!(matches!(edited.wait(), Err(StageError::Superseded)));
    assert_eq!(*again.wait().unwrap(), "analysis(newest)");
    assert_eq!((stages.generation(&a()), budget.in_use()), (Some(4), 0));
    let batch = stages.submit_batch_atomic([
        Request::source(a()).any().rehome(),
        Request::source(a()).any().text("together".into()),
        Request::source("b".into()).any().rehome(),
    ]);
    let results: Vec<_> = batch.into_handles().into_iter().map(|handle| handle.wait()).collect();
    assert!(matches!(&results[0], Ok(StageValue::Source(text)) if **text == "together"));
    assert!(matches!(&results[2], Err(error) if error.is_not_found()), "an unknown file comes to its first generation");
    assert_eq!((stages.generation(&a()), stages.generation(&"b".into())), (Some(5), Some(1)));
}

#[test]
fn s45_at_its_greatest_generation_a_file_is_not_moved_but_can_be_removed() {
    let host = Files::with([("a", "text")]);
    let runtime = host::inline();
    let stages = Stages::builder(&runtime, host).first_generation(u64::MAX).build();
    for life in 0..3 {
        assert!(stages.submit_request(Request::source(a())).wait().is_ok());
        for rehomes in [false, true] {
            let request = Request::analysis(a()).text("edited".into());
            let request = if rehomes { request.rehome() } else { request };
            assert!(matches!(stages.submit_request(request).wait(), Err(StageError::GenerationExhausted)));
        }
        let batch = stages.submit_batch_atomic([Request::source(a()).text("edited".into())]);
        assert!(batch.into_handles().remove(0).wait().is_err());
        let all =
            [stages.invalidate(&a()), stages.close_file(&a()), stages.rehome(&a()), stages.set_text(a(), "".into())];
        assert_eq!(all, [Moved::Exhausted; 4]);
        assert_eq!((stages.generation(&a()), stages.overlay(&a())), (Some(u64::MAX), None));
        assert_eq!(*stages.submit_request(Request::analysis(a())).wait().unwrap(), "analysis(text)");
        if life < 2 {
            assert_eq!(stages.remove(&a()), Removed::Gone);
        } else {
            assert_eq!(stages.reset(), 1);
        }
        assert_eq!(stages.generation(&a()), None);
    }
}

#[test]
fn s47_unknown_names_change_nothing() {
    let host = Files::with([("a", "text")]);
    let (_runtime, stages) = driven(&host);
    stages.submit_request(Request::source(a())).wait().unwrap();
    let before = stages.counters();
    for name in 0..256 {
        let name = name.to_string();
        assert_eq!(stages.remove(&name), Removed::Unknown);
        assert_eq!([stages.invalidate(&name), stages.close_file(&name), stages.rehome(&name)], [Moved::Unknown; 3]);
    }
    assert_eq!((stages.counters(), stages.len()), (before, 1));
    assert_eq!(stages.remove(&a()), Removed::Gone);
    assert_eq!(stages.remove(&a()), Removed::Unknown, "it is gone already");
    assert!(stages.is_empty());
}

#[test]
fn a_fresh_request_after_a_removal_loads_again() {
    let host = Files::with([("a", "v1")]);
    let (_runtime, stages) = driven(&host);
    for text in ["v1", "v2", "v3"] {
        host.store("a", text);
        let handle = stages.submit_request(Request::artifact(a(), 1));
        assert_eq!(*handle.wait().unwrap(), format!("1:analysis({text})"));
        assert!(stages.try_get_last_good_artifact(&a(), &1).is_some());
        stages.set_text(a(), "edited".into());
        assert_eq!((stages.generation(&a()), stages.counters().overlaid), (Some(2), 1));
        assert_eq!(stages.remove(&a()), Removed::Gone);
        assert_eq!(stages.counters().overlaid, 0);
        assert!(stages.try_get_last_good_artifact(&a(), &1).is_none(), "of another life");
    }
    host.unlink("a");
    assert!(stages.submit_request(Request::source(a())).wait().is_err_and(|error| error.is_not_found()));
    // By an edit too: the new life begins at the first generation.
    assert_eq!(stages.remove(&a()), Removed::Gone);
    assert_eq!(stages.set_text(a(), "edited".into()), Moved::On);
    assert_eq!((stages.generation(&a()), stages.len()), (Some(1), 1));
}

#[test]
fn a_stopped_scheduler_takes_nothing_in_until_it_is_restarted() {
    let host = Files::with([("a", "text")]);
    let (runtime, stages) = driven(&host);
    for round in 0..5 {
        let pending = stages.submit_request(Request::analysis(a()));
        assert_eq!((stages.stop(), stages.stop()), (1, 0));
        assert!(stages.is_stopped());
        assert!(matches!(pending.wait(), Err(StageError::Shutdown)));
        assert!(matches!(stages.submit_request(Request::source(a())).wait(), Err(StageError::Shutdown)));
        let edit = Request::source(a()).text("edited".into());
        assert!(matches!(stages.submit_request(edit).wait(), Err(StageError::Shutdown)));
        let batch = stages.submit_batch_atomic([Request::source(a())]);
        assert!(matches!(batch.into_handles().remove(0).wait(), Err(StageError::Shutdown)));
        assert_eq!((stages.set_text(a(), "edited".into()), stages.reset()), (Moved::Ended, 0));
        assert!(stages.is_stopped() && stages.is_empty(), "a reset alone does not open it");
        assert_eq!(stages.restart(), 0);
        assert!(!stages.is_stopped());
        let handle = stages.submit_request(Request::source(a()));
        runtime.drive_all();
        assert!(handle.wait().is_ok(), "round {round}");
        assert_eq!((stages.reset(), stages.len(), runtime.counters().queued), (1, 0, [0; 4]));
    }
}

#[test]
fn units_of_the_budget_taken_before_a_reset_come_back_once() {
    let removes = |stages: &Stages<Files>| usize::from(stages.remove(&a()) == Removed::Gone);
    for ends in [Stages::reset, Stages::stop, removes] {
        let host = Files::with([("a", "text"), ("b", "text"), ("c", "text")]);
        let (runtime, gate) = (threads(1), gated(&host, Stage::Source));
        let budget = Budget::new(4);
        let stages = Stages::builder(&runtime, host).budget(budget.clone()).build();
        let running = stages.submit_request(Request::artifact(a(), 1));
        gate.arrived(1);
        let waiting = ["b", "c"].map(|file| stages.submit_request(Request::analysis(file.into())));
        assert_eq!(budget.in_use(), 3);
        let all = ends(&stages) == 3;
        assert!(matches!(running.wait(), Err(StageError::Shutdown)));
        assert_eq!(budget.in_use(), if all { 0 } else { 2 });
        gate.open();
        assert!(waiting.into_iter().all(|handle| handle.wait().is_ok() != all));
        stages.restart();
        host_is_idle(&stages);
        assert_eq!(budget.in_use(), 0, "what still ran then gave nothing back again");
    }
}

/// Waits until the one worker has come to something that was asked for last.
fn host_is_idle(stages: &Stages<Files>) {
    assert!(stages.submit_request(Request::source("c".into())).wait().is_ok());
}

#[test]
fn a_reset_of_sixty_busy_files_answers_everybody_at_once() {
    let host = Files::default();
    let gate = Gate::default();
    (0..60).for_each(|n| host.store(&n.to_string(), "text"));
    host.hook({
        let gate = gate.clone();
        move |_, _| {
            gate.pass();
            Act::Go
        }
    });
    let runtime = threads(4);
    let stages = Stages::new(&runtime, host);
    let handles: Vec<_> = (0..60).map(|n| stages.submit_request(Request::artifact(n.to_string(), 1))).collect();
    gate.arrived(4);
    assert_eq!(stages.reset(), 60);
    for handle in handles {
        assert!(matches!(handle.wait(), Err(StageError::Shutdown)), "before the gate opens, whatever runs");
    }
    gate.open();
}

#[test]
fn a_scheduler_that_is_dropped_after_removals_and_resets_leaves_nobody_waiting() {
    let host = Files::with([("a", "text"), ("b", "text")]);
    let (runtime, stages) = driven(&host);
    let removed = stages.submit_request(Request::artifact(a(), 1));
    stages.remove(&a());
    let reset = stages.submit_request(Request::artifact(a(), 1));
    stages.reset();
    let pending = stages.submit_request(Request::artifact(a(), 1));
    let other = stages.submit_request(Request::source("b".into()));
    drop(stages);
    for handle in [removed, reset, pending] {
        assert!(matches!(handle.wait(), Err(StageError::Shutdown)));
    }
    assert!(matches!(other.wait(), Err(StageError::Shutdown)));
    runtime.drive_all();
    assert!(host.log().is_empty(), "nobody wanted anything any more");
}

#[test]
fn a_stage_that_removes_its_own_file_or_resets_its_scheduler_is_dropped_and_nothing_hangs() {
    for resets in [false, true] {
        let host = Files::with([("a", "text")]);
        host.hook(move |cx, at| {
            if at.generation == 1 && at.stage == Stage::Analysis {
                let stages = cx.scheduler().unwrap();
                if resets {
                    assert_eq!(stages.reset(), 1);
                } else {
                    assert_eq!(stages.remove(cx.file()), Removed::Gone);
                }
                assert!(cx.is_cancelled());
                stages.submit_request(Request::source("b".into()).text("made inside".into())).detach();
            }
            Act::Go
        });
        let (runtime, stages) = driven(&host);
        let handle = stages.submit_request(Request::artifact(a(), 1));
        assert!(matches!(handle.wait(), Err(StageError::Shutdown)));
        runtime.drive_all();
        assert_eq!(stages.try_get_source(&"b".into()).as_deref().map(String::as_str), Some("made inside"));
        assert_eq!((stages.len(), stages.counters().stale_refusals), (1, 1));
    }
}

#[test]
fn quiescence_is_when_nothing_runs_and_nothing_wanted_is_left() {
    let host = Files::with([("a", "text"), ("b", "text")]);
    let (runtime, gate) = (threads(2), gated(&host, Stage::Source));
    let stages = Stages::new(&runtime, host.clone());
    assert_eq!(stages.quiesce(), Ok(()), "nothing was asked for");
    for ends in 0..3 {
        stages.submit_request(Request::artifact(a(), 1)).detach();
        gate.arrived(ends + 1);
        match ends {
            0 => {}
            1 => assert_eq!(stages.remove(&a()), Removed::Gone),
            _ => assert_eq!(stages.reset(), 2),
        }
        stages.submit_request(Request::artifact("b".into(), ends as u32)).detach();
        assert_eq!(stages.quiesce_within(Duration::from_millis(5)), Ok(false), "a stage runs");
        gate.open();
        assert_eq!(stages.quiesce(), Ok(()));
        let counters = stages.counters();
        assert!(stages.try_get_artifact(&"b".into(), &(ends as u32)).is_some(), "{counters:?}");
        if ends == 0 {
            assert!(stages.try_get_artifact(&a(), &1).is_some());
            stages.remove(&a());
        }
        gate.close();
    }
}

#[test]
fn quiescence_is_driven_where_there_are_no_threads_and_refused_where_it_could_never_come() {
    let host = Files::with([("a", "text")]);
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    host.hook({
        let asked = asked.clone();
        move |cx, _| {
            let stages = cx.scheduler().unwrap();
            asked.lock().unwrap().push((stages.quiesce(), stages.quiesce_within(Duration::ZERO).is_err()));
            Act::Go
        }
    });
    for runtime in [host::inline(), Runtime::builder().driver(Driver::Seeded { seed: 7 }).build().unwrap()] {
        let stages = Stages::new(&runtime, host.clone());
        stages.submit_request(Request::artifact(a(), 1)).detach();
        let unwanted = stages.submit_request(Request::artifact(a(), 2));
        unwanted.cancel();
        assert_eq!(stages.quiesce(), Ok(()));
        assert!(stages.try_get_artifact(&a(), &1).is_some() && stages.try_get_artifact(&a(), &2).is_none());
        let asked_before = &asked;
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        assert_eq!(asked.len(), 3);
        assert!(asked.iter().all(|(asked, within)| matches!(asked, Err(Interrupt::WouldDeadlock(_))) && *within));
        // Inside another job of a runtime without threads nobody else could move it.
        stages.submit_request(Request::source("b".into()).text("text".into())).detach();
        let inner = stages.clone();
        let refused = runtime.call(move || (inner.quiesce(), inner.quiesce_within(Duration::from_secs(1)))).unwrap();
        assert_eq!(refused, (Err(Interrupt::Stalled), Ok(false)));
        assert_eq!(stages.quiesce_within(Duration::from_secs(1)), Ok(true));
        asked_before.lock().unwrap().clear();
    }
}

#[test]
fn b52_a_request_joins_the_run_of_its_own_life_and_never_that_of_the_life_before() {
    let host = Files::with([("a", "text")]);
    let (first, second) = (Gate::default(), Gate::default());
    host.hook({
        let (first, second, runs) = (first.clone(), second.clone(), std::sync::atomic::AtomicUsize::new(0));
        move |_, _| {
            match runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0 => first.pass(),
                _ => second.pass(),
            }
            Act::Go
        }
    });
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host.clone());
    let old = stages.submit_request(Request::source(a()));
    first.arrived(1);
    assert_eq!(stages.remove(&a()), Removed::Gone);
    let new = stages.submit_request(Request::source(a()));
    second.arrived(1);
    first.open();
    // The run of the old life is over before the third request comes.
    while stages.counters().stale_refusals == 0 {
        std::thread::yield_now();
    }
    let third = stages.submit_request(Request::source(a()));
    assert_eq!((stages.counters().joins, new.is_resolved() || third.is_resolved()), (1, false));
    second.open();
    assert!(matches!(old.wait(), Err(StageError::Shutdown)));
    assert!(new.wait().is_ok() && third.wait().is_ok());
    assert_eq!((host.ran(Stage::Source, "a"), stages.generation(&a())), (2, Some(1)));
}

#[test]
fn b37_all_who_wait_for_quiescence_return_when_it_has_come_and_not_before() {
    let host = Files::default();
    let gate = Gate::default();
    (0..100).for_each(|n| host.store(&n.to_string(), "text"));
    host.hook({
        let gate = gate.clone();
        move |_, _| {
            gate.pass();
            Act::Go
        }
    });
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host);
    let ask = |n: usize| stages.submit_request(Request::analysis(n.to_string())).detach();
    (0..90).for_each(ask);
    gate.arrived(2);
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..3).map(|_| scope.spawn(|| stages.quiesce())).collect();
        (90..100).for_each(ask);
        assert_eq!(stages.quiesce_within(Duration::from_millis(3)), Ok(false));
        assert!(!waiters.iter().any(|waiter| waiter.is_finished()));
        gate.open();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Ok(()));
        }
    });
    assert!((0..100).all(|n| stages.try_get_analysis(&n.to_string()).is_some()));
    assert_eq!(runtime.counters().queued, [0; 4]);
}

#[test]
fn each_removal_re_home_and_reset_takes_the_sequencer_once_and_nothing_else_does() {
    let host = Files::with([("a", "text"), ("b", "text")]);
    let (_runtime, stages) = driven(&host);
    let takings = || stages.counters().sequencer.takings;
    for round in 0..3 {
        let before = takings();
        for file in ["a", "b"] {
            stages.submit_request(Request::source(file.to_owned())).wait().unwrap();
        }
        assert_eq!(takings(), before, "requests take none");
        assert_eq!((stages.remove(&a()), stages.rehome(&"b".into())), (Removed::Gone, Moved::On));
        assert_eq!((stages.remove(&a()), stages.rehome(&a())), (Removed::Unknown, Moved::Unknown));
        assert_eq!(takings(), before + 2);
        if round % 2 == 0 {
            stages.reset()
        } else {
            stages.stop() + stages.restart()
        };
        assert_eq!(takings(), before + 3 + round % 2);
    }
}
