//! A host's own coordinator: a second runtime that fans batches out over a scheduler, and decides what a change concerns.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files};
use shardrun::{Import, Invalidation, Request, Runtime, Stages, decide_invalidation};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

#[test]
fn the_decision_about_a_change_follows_its_table() {
    use Invalidation::{Invalidate, Skip};
    let (runtime, none) = (Import::Runtime, Import::TypesOnly { consumed: &[] });
    let (a, both) = (Import::TypesOnly { consumed: &["a"] }, Import::TypesOnly { consumed: &["a", "b"] });
    type Row<'a> = (Option<&'a [&'static str]>, Option<&'a Import<'a, &'static str>>, Invalidation);
    let table: [Row<'_>; 15] = [
        (None, None, Invalidate),
        (None, Some(&runtime), Invalidate),
        (None, Some(&none), Invalidate),
        (None, Some(&a), Invalidate),
        (Some(&[]), None, Skip),
        (Some(&[]), Some(&runtime), Skip),
        (Some(&[]), Some(&a), Skip),
        (Some(&["a"]), None, Invalidate),
        (Some(&["a"]), Some(&runtime), Invalidate),
        (Some(&["a"]), Some(&none), Skip),
        (Some(&["a"]), Some(&a), Invalidate),
        (Some(&["b"]), Some(&a), Skip),
        (Some(&["c", "a"]), Some(&a), Invalidate),
        (Some(&["c", "d"]), Some(&both), Skip),
        (Some(&["d", "b"]), Some(&both), Invalidate),
    ];
    for (row, (changed, import, expected)) in table.into_iter().enumerate() {
        assert_eq!(decide_invalidation(changed, import), expected, "row {row}");
    }
}

#[test]
fn runtimes_without_spares_that_need_each_other_go_on() {
    let rounds = [(0, 0), (0, 4), (4, 0), (1, 1)].into_iter().cycle().take(100);
    for (spares, coordinator_spares) in rounds {
        let host = Files::with([("outer", "text"), ("inner", "text")]);
        let runtime = Runtime::builder().workers(1).max_spares(spares).build().unwrap();
        let coordinator = Runtime::builder().workers(1).io_threads(0).max_spares(coordinator_spares).build().unwrap();
        let stages = Stages::new(&runtime, host.clone());
        host.hook({
            let coordinator = coordinator.clone();
            move |cx, at| {
                if at.file == "outer" {
                    // A stage waits for a job of the coordinator, which waits for another stage.
                    let stages = cx.scheduler().unwrap();
                    let inner = move || stages.submit_request(Request::source("inner".into())).wait().is_ok();
                    assert_eq!(coordinator.spawn(inner).wait(), Ok(true));
                }
                Act::Go
            }
        });
        let asking = stages.clone();
        let asked = coordinator.spawn(move || asking.submit_request(Request::source("outer".into())).wait().is_ok());
        assert_eq!(asked.wait(), Ok(true), "with {spares} and {coordinator_spares} spares");
    }
}

fn thread() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

#[test]
fn s108_two_batches_of_a_coordinator_share_its_pool_and_no_stage_runs_there() {
    let host = Files::default();
    (0..64).for_each(|n| host.store(&n.to_string(), "text"));
    let stage_threads = Arc::new(Mutex::new(HashSet::new()));
    host.hook({
        let threads = stage_threads.clone();
        move |_, _| {
            threads.lock().unwrap().insert(thread());
            Act::Go
        }
    });
    let runtime = Runtime::builder().workers(2).thread_name("stage").build().unwrap();
    let coordinator = Runtime::builder().workers(2).io_threads(0).thread_name("coordinator").build().unwrap();
    let stages = Stages::new(&runtime, host.clone());
    let submits = stages.counters().submits;
    let coordinators = Arc::new(Mutex::new(HashSet::new()));
    let batches: Vec<_> = (0..2)
        .map(|batch| {
            let (stages, coordinators) = (stages.clone(), coordinators.clone());
            coordinator.spawn(move || {
                coordinators.lock().unwrap().insert(thread());
                // It waits for stages, one after the other and together, and runs none of them itself.
                let first = Request::artifact((batch * 32).to_string(), 1);
                assert!(stages.submit_request(first).wait().is_ok());
                let files = (batch * 32 + 1..batch * 32 + 32).map(|n: usize| Request::artifact(n.to_string(), 1));
                let answers = stages.submit_batch_atomic(files).wait();
                stages.account_batch_submission();
                answers.iter().filter(|answer| answer.is_ok()).count()
            })
        })
        .collect();
    for batch in batches {
        assert_eq!(batch.wait(), Ok(31));
    }
    assert_eq!(stages.counters().submits, submits + 2 * 3, "a request, a batch, and one that the host accounts for");
    let coordinators = coordinators.lock().unwrap();
    assert!(coordinators.iter().all(|name| name.starts_with("coordinator")) && !coordinators.is_empty());
    let stage_threads = stage_threads.lock().unwrap();
    assert!(stage_threads.iter().all(|name| name.starts_with("stage")), "a stage ran elsewhere: {stage_threads:?}");
}
