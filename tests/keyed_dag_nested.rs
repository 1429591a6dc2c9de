//! Graphs inside the nodes of graphs: who waits for one inside a job comes to an end with it, or is told that it cannot.
//! It does not know what the nodes do.

use shardrun::{
    CpuConcurrencySemaphore, Dag, DagCx, DagFailure, Dags, Driver, Interrupt, Runtime, RuntimeBuilder, TaskKind,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// What has not come after this long never will.
const SOON: Duration = Duration::from_secs(300);

/// A graph whose second node runs such a graph in turn and waits for it, so many deep. How deep it came, or why no further.
fn nest(dags: &Dags, left: usize) -> Result<usize, Interrupt> {
    if left == 0 {
        return Ok(0);
    }
    let (inner, (send, said), mut dag) = (dags.clone(), channel(), Dag::builder());
    let load = dag.node(TaskKind::Load, |_| ()).id();
    dag.node(TaskKind::Parse, move |_| send.send(nest(&inner, left - 1)).unwrap()).after(load);
    let report = dags.submit_dag(dag.build().unwrap()).unwrap().wait()?;
    assert!(report.is_success());
    said.recv().unwrap().map(|depth| depth + 1)
}

/// Runs it on a thread of its own, and gives up if it never ends.
fn nested(runtime: RuntimeBuilder, depth: usize) -> Result<usize, Interrupt> {
    let (send, said) = channel();
    let run = move || {
        let runtime = runtime.build().unwrap();
        send.send(nest(&Dags::new(&runtime), depth)).unwrap();
    };
    let runs = std::thread::spawn(run);
    let said = said.recv_timeout(SOON).expect("it ends");
    runs.join().unwrap();
    said
}

#[test]
fn graphs_in_graphs_end_on_one_thread_with_and_without_spares_and_on_none() {
    for spares in [0, 1, 16] {
        for workers in [1, 2] {
            let runtime = || Runtime::builder().workers(workers).max_spares(spares);
            assert_eq!(nested(runtime().io_threads(0), 20), Ok(20), "{workers} workers, {spares} spares");
            assert_eq!(nested(runtime().io_threads(1), 20), Ok(20), "{workers} workers, {spares} spares");
        }
    }
    assert_eq!(nested(Runtime::builder().driver(Driver::Inline), 20), Ok(20));
    for seed in 0..20 {
        assert_eq!(nested(Runtime::builder().driver(Driver::Seeded { seed }), 20), Ok(20), "seed {seed}");
    }
}

#[test]
fn graphs_that_are_nested_deeper_than_a_stack_are_told_so() {
    for runtime in [
        Runtime::builder().workers(1).io_threads(0).max_spares(0),
        Runtime::builder().workers(1).io_threads(0).max_spares(2),
    ] {
        assert_eq!(nested(runtime, 10_000), Err(Interrupt::TooDeep));
    }
}

#[test]
fn who_waits_for_a_graph_inside_a_job_runs_its_nodes_and_nothing_else() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let (dags, strangers) = (Dags::new(&runtime), Arc::new(AtomicUsize::new(0)));
    let (ran, seen) = (Arc::new(AtomicUsize::new(0)), strangers.clone());
    let (runs, counts) = (ran.clone(), dags.clone());
    let waits = runtime.spawn(move || {
        let mut dag = Dag::builder();
        let first = dag.node(TaskKind::Parse, |_| ()).id();
        for _ in 0..100 {
            let runs = runs.clone();
            dag.node(TaskKind::Load, move |_| _ = runs.fetch_add(1, Ordering::SeqCst)).after(first);
        }
        counts.submit_dag(dag.build().unwrap()).unwrap().wait().map(|report| report.is_success())
    });
    let stranger = runtime.spawn(move || seen.fetch_add(1, Ordering::SeqCst));
    assert!(runtime.drive_one());
    assert_eq!((ran.load(Ordering::SeqCst), strangers.load(Ordering::SeqCst)), (100, 0));
    assert_eq!(waits.wait(), Ok(Ok(true)));
    assert_eq!(stranger.wait(), Ok(0));
}

/// A graph of nodes that need permits, some of which run such a graph in turn and wait for it.
fn limited(dags: &Dags, semaphores: &[CpuConcurrencySemaphore; 2], depth: usize) -> bool {
    let mut dag = Dag::builder();
    for node in 0..4 {
        let (inner, both) = (dags.clone(), semaphores.clone());
        let runs = move |_: &DagCx<'_>| {
            let ends = depth == 0 || node % 2 == 0 || limited(&inner, &both, depth - 1);
            if ends { Ok(()) } else { Err(DagFailure::Said) }
        };
        let entry = dag.node(TaskKind::Parse, runs).semaphore(&semaphores[node / 2]).id();
        if node % 2 == 1 {
            dag.node(TaskKind::Load, |_| ()).after(entry);
        }
    }
    dags.submit_dag(dag.build().unwrap()).unwrap().wait().is_ok_and(|report| report.is_success())
}

#[test]
fn b58_graphs_inside_bodies_that_hold_permits_which_their_nodes_need_end() {
    let (send, said) = channel();
    std::thread::spawn(move || {
        let semaphores = || [CpuConcurrencySemaphore::new(1), CpuConcurrencySemaphore::new(1)];
        for driver in (0..50).map(|seed| Driver::Seeded { seed }).chain([Driver::Inline]) {
            let runtime = Runtime::builder().driver(driver).build().unwrap();
            send.send((limited(&Dags::new(&runtime), &semaphores(), 2), format!("{driver:?}"))).unwrap();
        }
        let runtime = Runtime::builder().workers(2).io_threads(1).build().unwrap();
        let both = semaphores();
        for round in 0..200 {
            send.send((limited(&Dags::new(&runtime), &both, 2), format!("round {round}"))).unwrap();
        }
        let free = both.iter().all(|semaphore| (semaphore.available(), semaphore.waiting()) == (1, 0));
        send.send((free, "all permits are there".to_owned())).unwrap();
    });
    for _ in 0..252 {
        let (ends, which) = said.recv_timeout(SOON).expect("it ends");
        assert!(ends, "{which}");
    }
}
