//! What can be said of nodes that a running node adds: all that can be said of a graph's first nodes.

use shardrun::{
    Caches, CancellationToken, CpuConcurrencySemaphore, Dag, DagCx, DagFailure, DagGate, DagGrowthRefused, DagNode,
    Dags, Disposition, Driver, Interrupt, Retain, Runtime, TaskKind, contained_panics,
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

type Ran = Arc<Mutex<Vec<&'static str>>>;

fn job(ran: &Ran, name: &'static str) -> impl FnOnce(&DagCx<'_>) + Send + use<> {
    let ran = ran.clone();
    move |_| ran.lock().unwrap().push(name)
}

#[test]
fn tokens_of_new_nodes_are_heard_before_they_are_linked_before_they_run_and_while_they_do() {
    let (runtime, ran) = (inline(), Ran::default());
    let [early, before, other, inside] = [(); 4].map(|()| CancellationToken::new());
    early.cancel();
    let (grows, tokens) = (ran.clone(), [&early, &before, &other, &inside].map(Clone::clone));
    let mut dag = Dag::builder();
    dag.node(TaskKind::Parse, move |cx| {
        let [early, before, other, inside] = tokens;
        let mut growth = cx.growth();
        let linked = growth.node(TaskKind::Parse, job(&grows, "cancelled before it was linked"));
        let waits = growth.node(TaskKind::Parse, job(&grows, "cancelled before it ran"));
        let behind = growth.node(TaskKind::Parse, job(&grows, "behind that"));
        let wanted = growth.node(TaskKind::Parse, job(&grows, "one of two is not enough"));
        let (cancels, says) = (inside.clone(), grows.clone());
        let runs = growth.node(TaskKind::Parse, move |cx: &DagCx<'_>| {
            let token = cx.token();
            cancels.cancel();
            assert!(token.is_cancelled() && cx.check() == Err(Interrupt::Cancelled));
            says.lock().unwrap().push("told while it ran");
        });
        growth.token(linked, &early).token(waits, &before).token(runs, &inside);
        growth.token(wanted, &early).token(wanted, &other);
        for new in [waits, wanted, runs] {
            growth.edge(cx.node(), new, DagGate::OnSuccess);
        }
        growth.edge(waits, behind, DagGate::Sequential);
        growth.link().map(drop)
    });
    let mut handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    assert!(runtime.drive_one());
    before.cancel();
    runtime.drive_all();
    let report = handle.try_get().unwrap().unwrap();
    assert_eq!(*ran.lock().unwrap(), ["one of two is not enough", "told while it ran"]);
    let interrupted = |node| matches!(report.failure(node), Some(DagFailure::Interrupted(Interrupt::Cancelled)));
    let ends: Vec<bool> = (0..6).map(|node| interrupted(DagNode::nth(node))).collect();
    assert_eq!(ends, [false, true, true, true, false, true], "{:?}", report.failures().collect::<Vec<_>>());
    // Nothing of the graph hangs at the tokens afterwards.
    drop((report, handle));
    other.cancel();
}

#[test]
fn a_token_that_is_cancelled_while_new_nodes_are_linked_and_run_is_heard_or_late() {
    for round in 0..200 {
        let runtime = small(2);
        let (token, ran) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        let (entered, inside) = channel();
        let (node_token, counts) = (token.clone(), ran.clone());
        let mut dag = Dag::builder();
        dag.node(TaskKind::Parse, move |cx| {
            entered.send(()).unwrap();
            let mut growth = cx.growth();
            for _ in 0..4 {
                let counts = counts.clone();
                let new = growth.node(TaskKind::Parse, move |_| _ = counts.fetch_add(1, Ordering::SeqCst));
                growth.token(new, &node_token);
            }
            growth.link().map(drop)
        });
        let mut handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
        inside.recv_timeout(SOON).unwrap();
        for _ in 0..round * 10 {
            std::hint::spin_loop();
        }
        token.cancel();
        let report = handle.wait_timeout(SOON).expect("it ends").unwrap();
        assert_eq!(report.len(), 5);
        let ended = report.failures().filter(|(_, failure)| failure.is_interrupted()).count();
        let ran = ran.load(Ordering::SeqCst);
        assert!(ran + ended >= 4, "each has run or was cancelled: {ran}, {ended}");
        assert_eq!(report.failures().count(), ended);
    }
}

#[test]
fn new_nodes_take_permits_and_are_kept_and_have_contexts() {
    let runtime = small(4);
    let semaphore = CpuConcurrencySemaphore::new(2);
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (permits, counts) = (semaphore.clone(), (now.clone(), most.clone()));
    let kept = Arc::new(AtomicUsize::new(0));
    let keeps = kept.clone();
    let mut dag = Dag::builder();
    dag.node(TaskKind::Parse, move |cx| {
        let mut growth = cx.growth();
        for at in 0..16 {
            let (now, most) = counts.clone();
            let new = growth.node(TaskKind::Parse, move |_: &DagCx<'_>| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
                assert_ne!(at, 7, "a permit comes back from a panic too");
            });
            growth.semaphore(new, &permits);
        }
        let gone = CancellationToken::new();
        gone.cancel();
        let first = growth.node(TaskKind::Parse, |_| unreachable!("cancelled") as ());
        growth.token(first, &gone);
        for (keep, adds) in [(true, 1), (false, 10)] {
            let keeps = keeps.clone();
            let new = growth.node(TaskKind::Parse, move |_| _ = keeps.fetch_add(adds, Ordering::SeqCst));
            growth.edge(first, new, DagGate::Sequential);
            if keep {
                growth.keep(new);
            }
        }
        growth.link().map(drop)
    });
    let mut handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    let report = handle.wait_timeout(SOON).expect("it ends").unwrap();
    assert_eq!(report.failures().count(), 3, "one panics, one is cancelled, and one goes with it");
    assert!(most.load(Ordering::SeqCst) <= 2 && kept.load(Ordering::SeqCst) == 1);
    assert_eq!((semaphore.available(), semaphore.waiting()), (2, 0));
}

#[test]
fn computations_of_caches_are_added_and_shared_and_withdrawn_from() {
    let runtime = inline();
    let cache = Caches::new(&runtime).cache::<u64, u64>(1, Retain::all()).unwrap();
    let asked = cache.get_or_build(7, |_| Ok(70));
    let inner = cache.clone();
    let token = CancellationToken::new();
    let node_token = token.clone();
    let mut dag = Dag::builder();
    dag.node(TaskKind::Parse, move |cx| {
        let mut growth = cx.growth();
        let joins = growth.keyed(TaskKind::CacheNode, inner.node(7, |_| unreachable!("it is under way")));
        let begins = growth.keyed(TaskKind::CacheNode, inner.node(8, |cx| Ok(cx.key() * 10)));
        let again = growth.keyed(TaskKind::CacheNode, inner.node(8, |_| unreachable!("it is there or under way")));
        let once = growth.keyed(
            TaskKind::CacheNode,
            inner.node(9, |cx| {
                cx.return_only();
                Ok(90)
            }),
        );
        let gone = growth.keyed(TaskKind::CacheNode, inner.node(10, |_| unreachable!("nobody wants it")));
        growth.token(gone, &node_token);
        growth.edge(cx.node(), gone, DagGate::OnSuccess);
        growth.edge(joins, begins, DagGate::OnSuccess).edge(begins, again, DagGate::OnSuccess);
        growth.edge(again, once, DagGate::OnSuccess);
        growth.link().map(drop)
    });
    let mut handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    token.cancel();
    runtime.drive_all();
    let report = handle.try_get().unwrap().unwrap();
    let ends: Vec<_> = (0..6).map(|node| report.disposition(DagNode::nth(node))).collect();
    let (good, once, failed) = (Disposition::Cacheable, Disposition::ReturnOnly, Disposition::Failed);
    assert_eq!(ends, [good, good, good, good, once, failed], "{:?}", report.failures().collect::<Vec<_>>());
    assert_eq!(*asked.wait().unwrap(), 70);
    assert_eq!((cache.with(&8, |value| *value), cache.get(&9).is_none()), (Some(80), true));
    assert_eq!(cache.counters().misses, 3);
}

#[test]
fn a_refused_growth_drops_what_it_had_and_its_panics_hold_nothing_up() {
    struct Bad(Arc<AtomicUsize>);
    impl Drop for Bad {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("as planned");
        }
    }
    let (runtime, dropped) = (inline(), Arc::new(AtomicUsize::new(0)));
    let before = contained_panics();
    let counts = dropped.clone();
    let mut dag = Dag::builder();
    let first = dag.node(TaskKind::Parse, |_| {}).id();
    let grows = dag.node(TaskKind::Parse, move |cx: &DagCx<'_>| {
        let mut growth = cx.growth();
        let bad = Bad(counts);
        growth.node(TaskKind::Parse, move |_| drop(bad));
        growth.edge(cx.node(), DagNode::nth(0), DagGate::Sequential);
        assert!(matches!(growth.link(), Err(DagGrowthRefused::Cycle { .. })));
    });
    let grows = grows.after(first).id();
    dag.node(TaskKind::Parse, |_| {}).after(grows);
    let mut handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    runtime.drive_all();
    assert!(handle.try_get().expect("what is behind is released").unwrap().is_success());
    assert_eq!((dropped.load(Ordering::SeqCst), contained_panics() - before), (1, 1));
}
