//! Cancelling nodes of a graph and graphs: what does not start, what is told, and what goes on.

use shardrun::{
    CancellationToken, Dag, DagCancel, DagFailure, DagGate, Dags, Disposition, Driver, Interrupt, Runtime, TaskKind,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What has not come after this long never will.
const SOON: Duration = Duration::from_secs(300);

fn small(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).io_threads(1).build().unwrap()
}

fn inline() -> Runtime {
    Runtime::builder().driver(Driver::Inline).build().unwrap()
}

#[test]
fn guard_1_a_cancelled_branch_does_not_stop_the_other() {
    let (runtime, ran) = (inline(), Arc::new(Mutex::new(Vec::new())));
    let mut dag = Dag::builder();
    let job = |name: &'static str| {
        let ran = ran.clone();
        move |_: &shardrun::DagCx<'_>| ran.lock().unwrap().push(name)
    };
    let a = dag.node(TaskKind::Parse, job("a")).id();
    let b = dag.node(TaskKind::Parse, job("b")).after(a).id();
    let c = dag.node(TaskKind::Parse, job("c")).id();
    let d = dag.node(TaskKind::Parse, job("d")).after(c).id();
    let handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    assert_eq!(handle.control().cancel_node(a), DagCancel::Cancelled);
    assert_eq!(handle.control().cancel_node(a), DagCancel::Late);
    let report = handle.wait().unwrap();
    assert_eq!(*ran.lock().unwrap(), ["c", "d"]);
    assert!(matches!(report.failure(a), Some(DagFailure::Interrupted(Interrupt::Cancelled))));
    assert!(report.failure(b).unwrap().is_interrupted() && report.failure(d).is_none());
}

#[test]
fn a_cancel_takes_along_what_nobody_else_wants_and_no_more() {
    let (runtime, ran) = (inline(), Arc::new(AtomicUsize::new(0)));
    let mut dag = Dag::builder();
    let job = || {
        let ran = ran.clone();
        move |_: &shardrun::DagCx<'_>| {
            ran.fetch_add(1, Ordering::Relaxed);
        }
    };
    let gone = dag.node(TaskKind::Parse, job()).id();
    let other = dag.node(TaskKind::Parse, job()).id();
    let behind = dag.node(TaskKind::Parse, job()).after(gone).after(other).id();
    let last = dag.node(TaskKind::Parse, job()).after_at(behind, DagGate::Sequential).id();
    let far = dag.node(TaskKind::Parse, job()).after_at(last, DagGate::Sequential).id();
    let shared =
        dag.node(TaskKind::Parse, job()).after_at(gone, DagGate::Sequential).after_at(other, DagGate::Sequential).id();
    let kept = dag.node(TaskKind::Parse, job()).after_at(gone, DagGate::Sequential).keep().id();
    let handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    handle.control().cancel_node(gone);
    let report = handle.wait().unwrap();
    for node in [gone, behind, last, far] {
        assert!(report.failure(node).is_some_and(DagFailure::is_interrupted), "{node}");
    }
    for node in [other, shared, kept] {
        assert_eq!(report.disposition(node), Disposition::Cacheable, "{node}");
    }
    assert_eq!(ran.load(Ordering::Relaxed), 3);
}

#[test]
fn a_node_that_runs_is_told_and_its_answer_is_dropped() {
    let runtime = small(2);
    let (entered, inside) = channel();
    let mut dag = Dag::builder();
    let node = dag
        .node(TaskKind::Analysis, move |cx| {
            let token = cx.token();
            assert!(!cx.is_cancelled() && !token.is_cancelled());
            entered.send(()).unwrap();
            while !token.is_cancelled() {
                std::thread::yield_now();
            }
            assert_eq!(cx.check(), Err(Interrupt::Cancelled));
            assert!(cx.token().is_cancelled());
        })
        .id();
    let behind = dag.node(TaskKind::Artifact, |_| -> () { unreachable!("behind what was cancelled") }).after(node).id();
    let handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    inside.recv_timeout(SOON).unwrap();
    assert_eq!(handle.control().cancel_node(node), DagCancel::Told);
    let report = handle.wait().unwrap();
    assert!(matches!(report.failure(node), Some(DagFailure::Interrupted(Interrupt::Cancelled))));
    assert!(report.failure(behind).unwrap().is_interrupted());
}

#[test]
fn tokens_of_nodes_and_graphs_are_heard_before_and_while_they_run() {
    let runtime = inline();
    let (of_node, of_graph, early) = (CancellationToken::new(), CancellationToken::new(), CancellationToken::new());
    early.cancel();
    let ran = Arc::new(AtomicUsize::new(0));
    let build = || {
        let job = || {
            let ran = ran.clone();
            move |_: &shardrun::DagCx<'_>| {
                ran.fetch_add(1, Ordering::Relaxed);
            }
        };
        let mut dag = Dag::builder();
        let first = dag.node(TaskKind::Parse, job()).token(&of_node).id();
        let second = dag.node(TaskKind::Parse, job()).token(&early).id();
        let third = dag.node(TaskKind::Parse, job()).id();
        dag.cancel_on(&of_graph);
        ([first, second, third], dag.build().unwrap())
    };
    let (nodes, dag) = build();
    let handle = Dags::new(&runtime).submit_dag(dag).unwrap();
    of_node.cancel();
    let report = handle.wait().unwrap();
    assert_eq!(nodes.map(|node| report.failure(node).is_none()), [false, false, true]);
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    let (_, dag) = build();
    let mut handle = Dags::new(&runtime).submit_dag(dag).unwrap();
    of_graph.cancel();
    assert_eq!(handle.try_get().unwrap().unwrap_err(), Interrupt::Cancelled);
    let (_, dag) = build();
    let late = Dags::new(&runtime).submit_dag(dag).unwrap();
    assert_eq!(late.wait().unwrap_err(), Interrupt::Cancelled);
    runtime.drive_all();
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}

#[test]
fn a_graph_that_is_cancelled_tells_what_runs_and_drops_what_does_not() {
    let runtime = small(2);
    let alive = Arc::new(());
    let (entered, inside) = channel();
    let mut dag = Dag::builder();
    let first = dag
        .node(TaskKind::Parse, move |cx| {
            entered.send(()).unwrap();
            while !cx.is_cancelled() {
                std::thread::yield_now();
            }
            cx.check()
        })
        .id();
    for _ in 0..100 {
        let alive = alive.clone();
        dag.node(TaskKind::Parse, move |_| drop(alive)).after(first);
    }
    let mut handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    inside.recv_timeout(SOON).unwrap();
    assert!(handle.try_get().is_none());
    handle.cancel();
    assert_eq!(handle.try_get().unwrap().unwrap_err(), Interrupt::Cancelled);
    drop(handle);
    while Arc::strong_count(&alive) > 1 {
        std::thread::yield_now();
    }
}
