//! Graphs of computations: order, gates, dispositions, failures with their causes, and what is refused before anything starts.

#[path = "support/gate.rs"]
mod gate;

use gate::{SOON, small};
use shardrun::{
    Dag, DagError, DagFailure, DagGate, DagNode, Dags, Disposition, Driver, Interrupt, Priority, Runtime, TaskKind,
};
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn inline() -> Runtime {
    Runtime::builder().driver(Driver::Inline).build().unwrap()
}

/// What ran, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn job(&self, name: &'static str) -> impl FnOnce(&shardrun::DagCx<'_>) + Send + use<> {
        let log = self.clone();
        move |_| log.0.lock().unwrap().push(name)
    }

    fn ends(
        &self,
        name: &'static str,
        end: Disposition,
    ) -> impl FnOnce(&shardrun::DagCx<'_>) -> Disposition + Send + use<> {
        let log = self.clone();
        move |_| {
            log.0.lock().unwrap().push(name);
            end
        }
    }

    fn said(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[test]
fn a_node_runs_after_all_that_it_waits_for_and_sees_what_they_did() {
    for runtime in [inline(), small(1), small(2)] {
        let mut dag = Dag::builder();
        let cells: Arc<Vec<AtomicUsize>> = Arc::new((0..400).map(|_| AtomicUsize::new(0)).collect());
        let mut nodes: Vec<DagNode> = Vec::new();
        for at in 0..400_usize {
            let before: Vec<usize> = (1..=3).filter_map(|step| at.checked_sub(step * step)).collect();
            let (cells, wanted) = (cells.clone(), before.clone());
            let mut entry = dag.node(TaskKind::ALL[at % 5], move |_| {
                assert!(wanted.iter().all(|at| cells[*at].load(Ordering::Relaxed) == 1), "too early");
                cells[at].fetch_add(1, Ordering::Relaxed);
            });
            for before in before {
                entry = entry.after(nodes[before]);
            }
            let id = entry.id();
            nodes.push(id);
        }
        let report = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap().wait().unwrap();
        assert!(report.is_success() && report.len() == 400);
        assert!(cells.iter().all(|cell| cell.load(Ordering::Relaxed) == 1), "each once");
    }
}

#[test]
fn gates_open_by_the_disposition_of_the_node_before() {
    let ends = [Disposition::Cacheable, Disposition::ReturnOnly, Disposition::Failed];
    let gates = [DagGate::Sequential, DagGate::OnSuccess, DagGate::OnAdmission];
    for end in ends {
        for gate in gates {
            let (runtime, log) = (inline(), Log::default());
            let mut dag = Dag::builder();
            let first = dag.node(TaskKind::Parse, log.ends("first", end)).id();
            let behind = dag.node(TaskKind::Parse, log.job("behind")).after_at(first, gate).id();
            let far = dag.node(TaskKind::Parse, log.job("far")).after(behind).id();
            let report = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap().wait().unwrap();
            let opens = gate.opens(end);
            assert_eq!(
                log.said(),
                if opens { vec!["first", "behind", "far"] } else { vec!["first"] },
                "{end:?} {gate:?}"
            );
            assert_eq!(report.disposition(first), end);
            assert_eq!(report.disposition(far) == Disposition::Cacheable, opens);
            match (opens, end) {
                (true, _) => assert!(report.failure(behind).is_none()),
                (false, Disposition::ReturnOnly) => {
                    let Some(DagFailure::GateShut { node, .. }) = report.failure(behind) else { panic!("{report:?}") };
                    assert_eq!(*node, first);
                }
                (false, _) => {
                    let Some(DagFailure::Upstream { node, failure }) = report.failure(far) else {
                        panic!("{report:?}")
                    };
                    assert!(*node == first && matches!(**failure, DagFailure::Said));
                }
            }
        }
    }
}

#[test]
fn a_failure_reaches_everything_behind_conditional_gates_with_its_cause() {
    let (runtime, log) = (small(2), Log::default());
    let mut dag = Dag::builder();
    let bad = dag.node(TaskKind::Load, |_| Err::<(), _>(std::io::Error::other("disk on fire"))).id();
    let good = dag.node(TaskKind::Load, |_| {}).id();
    let mut last = dag.node(TaskKind::Parse, log.job("never")).after(bad).after(good).id();
    let never = |_: &shardrun::DagCx<'_>| -> () { unreachable!("behind a failure") };
    // A long chain: nothing recurs.
    for _ in 0..100_000 {
        last = dag.node(TaskKind::Analysis, never).after_at(last, DagGate::OnAdmission).id();
    }
    let cleans = dag.node(TaskKind::CacheNode, log.job("cleans")).after_at(last, DagGate::Sequential).id();
    let other = dag.node(TaskKind::CacheNode, log.job("other")).after(good).id();
    let report = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap().wait().unwrap();
    let mut said = log.said();
    said.sort_unstable();
    assert_eq!(said, ["cleans", "other"]);
    assert_eq!(report.failures().count(), 100_002);
    let failure = report.failure(last).unwrap();
    let DagFailure::Upstream { node, .. } = failure else { panic!("{failure:?}") };
    assert_eq!(*node, bad);
    let DagFailure::Job(error) = failure.root() else { panic!("{failure:?}") };
    assert_eq!(error.to_string(), "disk on fire");
    assert_eq!(failure.source().unwrap().source().unwrap().to_string(), "disk on fire");
    assert!(report.disposition(cleans) == Disposition::Cacheable && report.failure(other).is_none());
}

#[test]
fn a_panic_is_a_failure_of_its_node_alone() {
    for runtime in [inline(), small(2)] {
        let mut dag = Dag::builder();
        let bad = dag.node(TaskKind::Parse, |_| -> () { panic!("broken") }).id();
        let behind = dag.node(TaskKind::Parse, |_| {}).after(bad).id();
        let beside = dag.node(TaskKind::Parse, |_| {}).id();
        let report = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap().wait().unwrap();
        let Some(DagFailure::Panicked(said)) = report.failure(bad) else { panic!("{report:?}") };
        assert_eq!(said.message(), "broken");
        assert!(matches!(report.failure(behind), Some(DagFailure::Upstream { .. })));
        assert!(report.failure(beside).is_none());
    }
}

#[test]
fn faults_of_a_graph_are_told_before_anything_starts() {
    let log = Log::default();
    let mut dag = Dag::builder();
    let nodes: Vec<_> = (0..5).map(|_| dag.node(TaskKind::Parse, log.job("never")).id()).collect();
    dag.edge(nodes[4], nodes[1], DagGate::Sequential);
    for pair in nodes.windows(2) {
        dag.edge(pair[0], pair[1], DagGate::OnSuccess);
    }
    let Err(DagError::Cycle { path }) = dag.build() else { panic!("a ring") };
    assert_eq!(path.iter().map(|node| node.index()).collect::<Vec<_>>(), [1, 2, 3, 4, 1]);
    assert_eq!(
        DagError::Cycle { path }.to_string(),
        "nodes wait for one another in a ring: #1 -> #2 -> #3 -> #4 -> #1"
    );

    let mut dag = Dag::builder();
    let node = dag.node(TaskKind::Parse, log.job("never")).id();
    dag.edge(node, node, DagGate::Sequential);
    assert_eq!(dag.build().unwrap_err(), DagError::SelfEdge { node });

    let mut dag = Dag::builder();
    dag.node(TaskKind::Parse, log.job("never")).after(nodes[3]);
    let unknown = DagError::UnknownNode { from: nodes[3], to: nodes[0] };
    assert_eq!(dag.build().unwrap_err(), unknown);
    assert!(log.said().is_empty());
}

#[test]
fn an_empty_graph_is_over_at_once() {
    let report = Dags::new(&inline()).submit_dag(Dag::builder().build().unwrap()).unwrap().try_get().unwrap().unwrap();
    assert!(report.is_empty() && report.is_success());
}

#[test]
fn what_is_urgent_makes_what_it_waits_for_urgent() {
    let (runtime, log) = (inline(), Log::default());
    let mut dag = Dag::builder();
    let slow = dag.node(TaskKind::Parse, log.job("slow")).priority(Priority::Maintenance).id();
    let deep = dag.node(TaskKind::Parse, log.job("deep")).priority(Priority::Maintenance).id();
    let middle = dag.node(TaskKind::Parse, log.job("middle")).priority(Priority::Background).after(deep).id();
    dag.node(TaskKind::Parse, log.job("urgent")).priority(Priority::Critical).after(middle);
    dag.node(TaskKind::Parse, log.job("last")).priority(Priority::Maintenance).after(slow);
    let mut handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    assert!(runtime.drive_one());
    assert_eq!(log.said(), ["deep"]);
    while runtime.drive_one() {}
    assert!(handle.try_get().unwrap().unwrap().is_success());
    assert_eq!(log.said(), ["middle", "urgent", "slow", "last"]);
}

#[test]
fn a_graph_whose_last_handle_withdraws_starts_nothing_more() {
    let (runtime, log) = (inline(), Log::default());
    let mut dag = Dag::builder();
    let first = dag.node(TaskKind::Parse, log.job("first")).id();
    dag.node(TaskKind::Parse, log.job("second")).after_at(first, DagGate::Sequential);
    let mut handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    let mut other = handle.control().join().unwrap();
    assert!(runtime.drive_one());
    handle.cancel();
    assert_eq!(handle.try_get().unwrap().unwrap_err(), Interrupt::Cancelled);
    other.cancel();
    assert_eq!(other.try_get().unwrap().unwrap_err(), Interrupt::Cancelled);
    while runtime.drive_one() {}
    assert_eq!(log.said(), ["first"]);
    assert!(handle.control().join().is_none());
}

#[test]
fn a_shutdown_answers_every_handle_once_and_drops_every_job() {
    let alive = Arc::new(());
    for driven in [true, false] {
        let runtime = if driven { inline() } else { small(1) };
        let held = (!driven).then(|| gate::gate(&runtime));
        let mut handles = Vec::new();
        for _ in 0..3 {
            let mut dag = Dag::builder();
            let mut last = dag.node(TaskKind::Parse, |_| {}).id();
            for _ in 0..1_000 {
                let alive = alive.clone();
                last = dag.node(TaskKind::Parse, move |_| drop(alive)).after_at(last, DagGate::Sequential).id();
            }
            handles.push(Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap());
        }
        let stops = std::thread::spawn({
            let runtime = runtime.clone();
            move || runtime.shutdown()
        });
        if driven {
            stops.join().unwrap();
            for mut handle in handles {
                assert_eq!(handle.try_get().unwrap().unwrap_err(), Interrupt::Shutdown);
            }
        } else {
            while runtime.execute(|| {}).is_ok() {
                std::thread::yield_now();
            }
            drop(held);
            stops.join().unwrap();
            for mut handle in handles {
                assert_eq!(handle.wait_timeout(SOON).unwrap().unwrap_err(), Interrupt::Shutdown);
            }
        }
        let late = Dags::new(&runtime).submit_dag({
            let mut dag = Dag::builder();
            dag.node(TaskKind::Parse, |_| {});
            dag.build().unwrap()
        });
        assert_eq!(late.unwrap().wait().unwrap_err(), Interrupt::Shutdown);
        drop(runtime);
        assert_eq!(Arc::strong_count(&alive), 1, "no job is left");
    }
}

#[test]
fn a_node_that_waits_for_its_own_graph_is_told() {
    let runtime = small(1);
    let (send, receive) = std::sync::mpsc::channel::<shardrun::DagHandle>();
    let receive = Mutex::new(receive);
    let mut dag = Dag::builder();
    dag.node(TaskKind::Parse, move |_| {
        let own = receive.lock().unwrap().recv().unwrap();
        assert!(matches!(own.wait(), Err(Interrupt::WouldDeadlock(_))));
    });
    let mut handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    send.send(handle.control().join().unwrap()).unwrap();
    assert!(handle.wait_timeout(SOON).unwrap().unwrap().is_success());
}

#[test]
fn s_load_runs_on_io_threads_and_everything_else_on_workers() {
    let runtime = small(2);
    let mut dag = Dag::builder();
    for kind in TaskKind::ALL {
        dag.node(kind, move |cx| {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            assert_eq!(cx.kind(), kind);
            assert_eq!(name.contains("io"), kind == TaskKind::Load, "{kind:?} ran on {name}");
        });
    }
    let report = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap().wait().unwrap();
    assert!(report.is_success(), "{:?}", report.failures().collect::<Vec<_>>());
}
