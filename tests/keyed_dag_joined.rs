//! Computations of caches as nodes of graphs, and permits for bodies: one execution for all who want it, and no thread that waits.

use shardrun::{
    Cache, CacheRequest, Caches, CpuConcurrencySemaphore, Dag, DagCancel, DagError, DagFailure, DagGate, Dags,
    Disposition, Driver, Interrupt, KeyedView, Retain, Runtime, TaskKind, WorkAmounts, WorkBudget,
};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What has not come after this long never will.
const SOON: Duration = Duration::from_secs(300);

fn inline() -> Runtime {
    Runtime::builder().driver(Driver::Inline).build().unwrap()
}

fn small(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).io_threads(1).build().unwrap()
}

type Numbers = Cache<u64, u64, io::Error>;

fn numbers(runtime: &Runtime) -> Numbers {
    Caches::new(runtime).fallible(1, Retain::count(100)).unwrap()
}

/// A builder that says that it runs, and ends when it is told to.
fn held(entered: Sender<()>, open: Receiver<()>) -> impl FnOnce(&shardrun::BuildCx<'_, u64>) -> io::Result<u64> + Send {
    let open = Mutex::new(open);
    move |cx| {
        entered.send(()).unwrap();
        let _ = open.lock().unwrap().recv();
        Ok(cx.key() * 2)
    }
}

#[test]
fn s101_two_graphs_and_a_request_share_one_execution_and_hold_no_thread_meanwhile() {
    let runtime = small(2);
    let (cache, dags) = (numbers(&runtime), Dags::new(&runtime));
    let ((entered, inside), (open, gate)) = (channel(), channel());
    let first = cache.get_or_build(7, held(entered, gate));
    inside.recv_timeout(SOON).unwrap();
    let graph = || {
        let mut dag = Dag::builder();
        let node = dag.keyed(TaskKind::CacheNode, cache.node(7, |_| unreachable!("it is under way"))).id();
        let seen = cache.clone();
        let last =
            dag.node(TaskKind::Parse, move |_| assert_eq!(seen.with(&7, |value| *value), Some(14))).after(node).id();
        // As many as there are workers, and one: each would wait for a thread if the ones before held one.
        let beside = dag.node(TaskKind::Parse, |_| {}).id();
        ([node, last, beside], dags.submit_dag(dag.build().unwrap()).unwrap())
    };
    let graphs = [graph(), graph(), graph()];
    let mut free = runtime.spawn(|| ());
    assert!(free.wait_timeout(SOON).is_some(), "no worker waits for the computation");
    drop(open);
    for (nodes, mut handle) in graphs {
        let report = handle.wait_timeout(SOON).unwrap().unwrap();
        assert!(report.is_success() && report.len() == 3, "{:?}", report.failures().collect::<Vec<_>>());
        assert!(nodes.iter().all(|node| report.disposition(*node) == Disposition::Cacheable));
    }
    assert_eq!(*first.wait().unwrap(), 14);
    assert_eq!(cache.counters().completed, 1);
}

#[test]
fn duplicates_inside_a_graph_are_one_node_and_different_jobs_a_fault() {
    let runtime = inline();
    let cache = numbers(&runtime);
    let ran = Arc::new(AtomicUsize::new(0));
    let node = |key, view| {
        let ran = ran.clone();
        cache.node(CacheRequest::key(key).view(KeyedView::epoch(view)), move |cx| {
            ran.fetch_add(1, Ordering::Relaxed);
            Ok(*cx.key())
        })
    };
    let mut dag = Dag::builder();
    let one = dag.keyed(TaskKind::CacheNode, node(1, 0)).id();
    let two = dag.keyed(TaskKind::CacheNode, node(2, 0)).id();
    let again = dag.keyed(TaskKind::CacheNode, node(1, 0)).after(two).id();
    let other = dag.keyed(TaskKind::CacheNode, node(1, 1)).id();
    assert!(one == again && other != one && dag.len() == 3);
    let dag = dag.build().unwrap();
    assert_eq!((dag.len(), dag.edges()), (3, 1));
    assert!(Dags::new(&runtime).submit_dag(dag).unwrap().wait().unwrap().is_success());
    assert_eq!(ran.load(Ordering::Relaxed), 3);

    let mut dag = Dag::builder();
    let first = dag.keyed(TaskKind::CacheNode, node(1, 0)).id();
    dag.keyed(TaskKind::CacheNode, cache.node(1, |_| Ok(9)));
    assert_eq!(dag.build().unwrap_err(), DagError::Conflict { node: first });
    let mut dag = Dag::builder();
    dag.keyed(TaskKind::CacheNode, node(1, 0));
    dag.keyed(TaskKind::Load, node(1, 0));
    assert_eq!(dag.build().unwrap_err(), DagError::Conflict { node: first });
    assert_eq!(ran.load(Ordering::Relaxed), 3);
}

#[test]
fn a_computation_says_what_its_value_is_worth_and_why_it_failed() {
    for runtime in [inline(), small(2)] {
        let cache = numbers(&runtime);
        let mut dag = Dag::builder();
        let kept = dag.keyed(TaskKind::Load, cache.node(1, |_| Ok(1))).id();
        let returned = cache.node(2, |cx| {
            cx.return_only();
            Ok(2)
        });
        let returned = dag.keyed(TaskKind::CacheNode, returned).id();
        let failed = dag.keyed(TaskKind::CacheNode, cache.node(3, |_| Err(io::Error::other("no such thing")))).id();
        let broken = dag.keyed(TaskKind::CacheNode, cache.node(4, |_| panic!("broken"))).id();
        let behind = dag.node(TaskKind::Parse, |_| {}).after_at(returned, DagGate::OnAdmission).after(kept).id();
        let shut = dag.node(TaskKind::Parse, |_| {}).after(returned).id();
        let report = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap().wait().unwrap();
        assert_eq!(report.disposition(kept), Disposition::Cacheable);
        assert_eq!(report.disposition(returned), Disposition::ReturnOnly);
        assert_eq!(report.disposition(behind), Disposition::Cacheable);
        assert!(matches!(report.failure(shut), Some(DagFailure::GateShut { .. })));
        let Some(DagFailure::Job(error)) = report.failure(failed) else { panic!("{report:?}") };
        assert_eq!(error.downcast_ref::<io::Error>().unwrap().to_string(), "no such thing");
        assert!(matches!(report.failure(broken), Some(DagFailure::Panicked(said)) if said.message() == "broken"));
        assert!(cache.get(&1).is_some() && cache.get(&2).is_none());
    }
}

#[test]
fn s102_a_graph_that_is_cancelled_leaves_what_others_want_and_the_last_one_cancels_it() {
    let runtime = small(2);
    let (cache, dags) = (numbers(&runtime), Dags::new(&runtime));
    let ((entered, inside), (told, hears)) = (channel(), channel());
    let builder = move |cx: &shardrun::BuildCx<'_, u64>| {
        entered.send(cx.token().clone()).unwrap();
        while !cx.token().is_cancelled() {
            std::thread::yield_now();
        }
        told.send(()).unwrap();
        Ok(1)
    };
    let submit = |job| {
        let mut dag = Dag::builder();
        let node = dag.keyed(TaskKind::CacheNode, job).id();
        dag.node(TaskKind::Parse, |_| unreachable!("behind what was cancelled") as ()).after(node);
        (node, dags.submit_dag(dag.build().unwrap()).unwrap())
    };
    let (node, first) = submit(cache.node(5, builder));
    let token = inside.recv_timeout(SOON).unwrap();
    let (_, mut second) = submit(cache.node(5, |_| unreachable!("it is under way")));
    let (third_node, mut third) = submit(cache.node(5, |_| unreachable!("it is under way")));
    while cache.counters().joins < 2 {
        std::thread::yield_now();
    }
    second.cancel();
    assert_eq!(second.try_get().unwrap().unwrap_err(), Interrupt::Cancelled);
    assert_eq!(third.control().cancel_node(third_node), DagCancel::Told);
    let report = third.wait_timeout(SOON).unwrap().unwrap();
    assert!(report.failure(third_node).unwrap().is_interrupted());
    assert!(!token.is_cancelled() && hears.try_recv().is_err(), "the first wants it still");
    assert_eq!(first.control().cancel_node(node), DagCancel::Told);
    hears.recv_timeout(SOON).unwrap();
    let report = first.wait().unwrap();
    assert!(report.failures().all(|(_, failure)| failure.is_interrupted()));
    assert!(cache.get(&5).is_none(), "nothing was published");
}

#[test]
fn a_graph_that_waits_for_another_s_computation_gives_back_what_it_holds_when_it_is_ended() {
    let runtime = small(1);
    let budget = WorkBudget::for_runtime(WorkAmounts { nodes: 4, edges: 4, cpu: 4, io: 4 }, &runtime).unwrap();
    let (cache, dags) = (numbers(&runtime), Dags::new(&runtime).budget(budget.clone()));
    let ((entered, inside), (open, gate)) = (channel(), channel());
    // On the I/O thread, so that the worker is free to come to the graph's node.
    let first = cache.get_or_build(CacheRequest::key(7).kind(TaskKind::Load), held(entered, gate));
    inside.recv_timeout(SOON).unwrap();
    let mut dag = Dag::builder();
    dag.keyed(TaskKind::CacheNode, cache.node(7, |_| unreachable!("it is under way")));
    let handle = dags.submit_dag(dag.build().unwrap()).unwrap();
    while cache.counters().joins == 0 {
        std::thread::yield_now();
    }
    assert_eq!(budget.available().nodes, 3);
    handle.control().supersede();
    assert_eq!(handle.wait().unwrap_err(), Interrupt::Superseded);
    while budget.available() != budget.capacity() {
        std::thread::yield_now();
    }
    drop(open);
    assert_eq!(*first.wait().unwrap(), 14, "it was no business of the graph's");
}

#[test]
fn a_builder_that_waits_for_a_graph_that_waits_for_it_is_told() {
    for runtime in [inline(), small(2)] {
        let (cache, dags) = (numbers(&runtime), Dags::new(&runtime));
        let inner = cache.clone();
        let mut value = cache.get_or_build(9, move |_| {
            let mut dag = Dag::builder();
            dag.keyed(TaskKind::CacheNode, inner.node(9, |_| unreachable!("it is under way")));
            let graph = dags.submit_dag(dag.build().unwrap()).unwrap();
            let (control, told) = (graph.control(), graph.wait());
            control.cancel();
            // Who waits is told, or the node is, if it came to its turn on a thread that is inside the computation.
            let reentrant = |report: shardrun::DagReport| {
                let failure = report.failures().next().map(|(_, failure)| failure.clone());
                matches!(failure, Some(DagFailure::Interrupted(Interrupt::WouldDeadlock(_))))
            };
            assert!(told.map_or(true, reentrant), "it could never end");
            Ok(18)
        });
        assert_eq!(*value.wait_timeout(SOON).unwrap().unwrap(), 18);
    }
}

#[test]
fn s106_a_cap_of_four_with_eight_nodes_peaks_at_exactly_four_and_holds_no_worker() {
    let runtime = small(8);
    let semaphore = CpuConcurrencySemaphore::new(4);
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (open, gate) = channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let mut dag = Dag::builder();
    for at in 0..8 {
        let (now, most, gate) = (now.clone(), most.clone(), gate.clone());
        let job = move |_: &shardrun::DagCx<'_>| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let _ = gate.lock().unwrap().recv();
            now.fetch_sub(1, Ordering::SeqCst);
            assert_ne!(at, 3, "a permit comes back from a panic too");
        };
        dag.node(TaskKind::Parse, job).semaphore(&semaphore);
    }
    let mut handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    while semaphore.waiting() < 4 {
        std::thread::yield_now();
    }
    let mut free = runtime.spawn(|| ());
    assert!(free.wait_timeout(SOON).is_some(), "nobody waits for a permit on a worker");
    drop(open);
    let report = handle.wait_timeout(SOON).unwrap().unwrap();
    assert_eq!(report.failures().count(), 1);
    assert_eq!((most.load(Ordering::SeqCst), semaphore.available()), (4, 4));
}

#[test]
fn a_shutdown_answers_graphs_that_wait_for_computations_and_permits() {
    let runtime = inline();
    let (cache, dags) = (numbers(&runtime), Dags::new(&runtime));
    let semaphore = CpuConcurrencySemaphore::new(1);
    let permit = semaphore.acquire();
    let alive = Arc::new(());
    let mut dag = Dag::builder();
    for _ in 0..1_000 {
        let alive = alive.clone();
        dag.node(TaskKind::Parse, move |_| drop(alive)).semaphore(&semaphore);
    }
    let kept = alive.clone();
    dag.keyed(TaskKind::CacheNode, cache.node(1, move |_| Ok(Arc::strong_count(&kept) as u64)));
    let mut handle = dags.submit_dag(dag.build().unwrap()).unwrap();
    for _ in 0..500 {
        runtime.drive_one();
    }
    runtime.shutdown();
    drop(permit);
    assert_eq!(handle.try_get().unwrap().unwrap_err(), Interrupt::Shutdown);
    assert_eq!(Arc::strong_count(&alive), 1, "no job is left");
    assert_eq!(semaphore.available(), 1);
}

#[test]
fn b34_a_shutdown_answers_a_graph_whose_nodes_wait_for_what_it_does_not_end() {
    let (here, there) = (small(2), small(2));
    let cache = numbers(&there);
    let ((begun, inside), (open, gate)) = (channel(), channel());
    let value = cache.get_or_build(1, held(begun, gate));
    inside.recv_timeout(SOON).unwrap();
    let semaphore = CpuConcurrencySemaphore::new(1);
    let permit = semaphore.acquire();
    let dags = Dags::new(&here);
    let mut dag = Dag::builder();
    dag.keyed(TaskKind::CacheNode, cache.node(1, |_| Ok(2)));
    let mut joined = dags.submit_dag(dag.build().unwrap()).unwrap();
    let mut dag = Dag::builder();
    dag.node(TaskKind::Parse, |_| ()).semaphore(&semaphore);
    let mut limited = dags.submit_dag(dag.build().unwrap()).unwrap();
    while cache.counters().joins == 0 || semaphore.waiting() == 0 {
        std::thread::yield_now();
    }
    here.shutdown();
    for handle in [&mut joined, &mut limited] {
        assert_eq!(handle.wait_timeout(SOON).expect("it is told").unwrap_err(), Interrupt::Shutdown);
    }
    drop(permit);
    assert_eq!((semaphore.available(), semaphore.waiting()), (1, 0));
    open.send(()).unwrap();
    assert_eq!(*value.wait().unwrap(), 2, "the other runtime goes on");
}

#[test]
fn a_node_that_is_cancelled_in_line_leaves_it_and_what_comes_after_it_goes_on() {
    let (runtime, semaphore) = (inline(), CpuConcurrencySemaphore::new(1));
    let permit = semaphore.acquire();
    let (alive, mut dag) = (Arc::new(()), Dag::builder());
    let job = alive.clone();
    let node = dag.node(TaskKind::Parse, move |_| drop(job)).semaphore(&semaphore).id();
    let after = dag.node(TaskKind::Parse, |_| ()).after_at(node, DagGate::Sequential).keep().id();
    let handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    runtime.drive_all();
    assert_eq!(semaphore.waiting(), 1);
    assert_eq!(handle.control().cancel_node(node), DagCancel::Cancelled);
    assert_eq!(handle.control().cancel_node(node), DagCancel::Late);
    assert_eq!((semaphore.waiting(), Arc::strong_count(&alive)), (0, 1));
    assert!(!handle.is_resolved(), "who cancels runs no node");
    let report = handle.wait().unwrap();
    assert!(matches!(report.failure(node), Some(DagFailure::Interrupted(Interrupt::Cancelled))));
    assert_eq!(report.disposition(after), Disposition::Cacheable);
    drop(permit);
    assert_eq!(semaphore.available(), 1);
}
