//! Where a run's time went: when tasks were ready, what they waited for, and the critical path, on a clock that the test moves.

use shardrun::{ContinueMode, Driver, Ended, Plan, Run, RunReport, RunTimes, Runtime, TaskCx, TaskId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Runs tasks named by how many milliseconds each lasts, each with those before it that it depends on.
fn run(concurrency: u32, tasks: &[(u64, &[usize])], failing: Option<usize>) -> (RunReport, RunTimes) {
    let mut plan = Plan::builder();
    plan.concurrency(concurrency);
    let mut ids: Vec<TaskId> = Vec::new();
    for (at, (_, on)) in tasks.iter().enumerate() {
        let entry = plan.task(&format!("t{at}"));
        ids.push(entry.id());
        entry.after_all(on.iter().map(|on| ids[*on]).collect::<Vec<_>>());
    }
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let lasts: Arc<HashMap<TaskId, u64>> = Arc::new(ids.iter().copied().zip(tasks.iter().map(|task| task.0)).collect());
    let clock = runtime.clone();
    let run = Run::<()>::new(plan.build().unwrap()).mode(ContinueMode::DepsOk);
    let mut run = run.start(&runtime, move |cx: &TaskCx| {
        clock.advance(Duration::from_millis(lasts[&cx.task()]));
        if failing == Some(cx.task().index()) { Ended::failed(1) } else { Ended::success() }
    });
    runtime.drive_all();
    let report = run.try_get().unwrap().unwrap();
    let times = RunTimes::new(&report);
    (report, times)
}

fn path(times: &RunTimes) -> Vec<usize> {
    times.critical_path().iter().map(|task| task.index()).collect()
}

#[test]
fn a_task_waits_for_the_dependency_that_ends_last() {
    // One after the other: t0 ends at 5, t1 at 7, t2 at 17, t3 at 18.
    let (report, times) = run(1, &[(5, &[]), (2, &[0]), (10, &[0]), (1, &[1, 2])], None);
    let ids: Vec<TaskId> = report.plan().tasks().collect();
    let millis = |time: Duration| time.as_millis();
    assert_eq!(ids.iter().map(|id| millis(times.ended(*id))).collect::<Vec<_>>(), [5, 7, 17, 18]);
    assert_eq!(ids.iter().map(|id| millis(times.ready(*id))).collect::<Vec<_>>(), [0, 5, 5, 17]);
    assert_eq!(times.waited_for(ids[3]), Some(ids[2]));
    assert_eq!(times.waited_for(ids[0]), None);
    assert_eq!(times.held_up(ids[0], report.plan()).collect::<Vec<_>>(), [ids[1], ids[2]]);
    assert_eq!(times.held_up(ids[1], report.plan()).count(), 0);
    assert_eq!(path(&times), [0, 2, 3]);
}

#[test]
fn what_did_not_run_ends_when_it_is_ready() {
    let (report, times) = run(1, &[(5, &[]), (3, &[0]), (7, &[1]), (4, &[])], Some(1));
    let skipped = report.plan().tasks().nth(2).unwrap();
    assert_eq!(times.ended(skipped), times.ready(skipped));
    let (_, none) = run(1, &[], None);
    assert_eq!(path(&none), []);
}
