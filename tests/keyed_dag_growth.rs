//! Growing a graph while it runs, and urgency that follows: what is linked before anything behind starts, and what is refused.

use shardrun::{
    CpuConcurrencySemaphore, Dag, DagFailure, DagGate, DagGrowthEnd, DagGrowthRefused, DagNode, Dags, Disposition,
    Driver, Priority, RequestContext, Runtime, TaskKind, WorkAmounts, WorkBudget,
};
use std::sync::mpsc::channel;
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

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn say(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    fn job(&self, name: &'static str) -> impl FnOnce(&shardrun::DagCx<'_>) + Send + use<> {
        let log = self.clone();
        move |_| log.say(name)
    }

    fn said(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[test]
fn what_comes_after_a_node_waits_for_what_the_node_has_added() {
    for runtime in [inline(), small(1), small(2)] {
        let log = Log::default();
        let mut dag = Dag::builder();
        let grows = log.clone();
        let link = DagNode::nth(1);
        let parse = dag.node(TaskKind::Parse, move |cx| {
            let mut growth = cx.growth();
            let load = growth.node(TaskKind::Load, grows.job("load"));
            let imported = growth.node(TaskKind::Parse, grows.job("imported"));
            let alone = growth.node(TaskKind::Parse, |_| {});
            growth.edge(cx.node(), load, DagGate::OnSuccess).edge(load, imported, DagGate::OnSuccess);
            growth.edge(imported, link, DagGate::OnSuccess).edge(alone, link, DagGate::Sequential);
            let grown = growth.link()?;
            assert_eq!(grown.node(imported), DagNode::nth(3));
            grows.say("linked");
            Ok::<_, DagGrowthRefused>(())
        });
        let parse = parse.id();
        assert_eq!(dag.node(TaskKind::Artifact, log.job("link")).after(parse).id(), link);
        let report = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap().wait().unwrap();
        assert!(report.is_success() && report.len() == 5, "{:?}", report.failures().collect::<Vec<_>>());
        assert_eq!(log.said(), ["linked", "load", "imported", "link"]);
    }
}

#[test]
fn a_growth_that_would_close_a_ring_is_refused_with_the_path_and_adds_nothing() {
    let (runtime, log) = (inline(), Log::default());
    let budget = WorkBudget::for_runtime(WorkAmounts { nodes: 9, edges: 9, cpu: 9, io: 9 }, &runtime).unwrap();
    let mut dag = Dag::builder();
    let first = dag.node(TaskKind::Parse, log.job("first")).id();
    let second = dag.node(TaskKind::Parse, log.job("second")).after(first).id();
    let other = dag.node(TaskKind::Parse, log.job("other")).priority(Priority::Critical).id();
    let (says, held) = (log.clone(), budget.clone());
    let third = dag.node(TaskKind::Parse, move |cx| {
        let me = cx.node();
        let refused = |from: DagGrowthEnd, to: DagGrowthEnd| {
            let mut growth = cx.growth();
            growth.node(TaskKind::Parse, |_| unreachable!("refused") as ());
            growth.edge(me, DagNode::nth(4), DagGate::Sequential);
            growth.edge(from, to, DagGate::Sequential);
            growth.link().unwrap_err()
        };
        assert_eq!(refused(me.into(), first.into()), DagGrowthRefused::Cycle { path: vec![first, second, me] });
        assert_eq!(refused(me.into(), me.into()), DagGrowthRefused::SelfEdge { node: me.into() });
        assert_eq!(refused(me.into(), other.into()), DagGrowthRefused::Started { node: other });
        let from = refused(first.into(), DagNode::nth(4).into());
        assert_eq!(from, DagGrowthRefused::NotFromHere { from: first, to: DagNode::nth(4).into() });
        assert!(matches!(refused(me.into(), DagNode::nth(99).into()), DagGrowthRefused::UnknownNode { .. }));
        let mut growth = cx.growth();
        let (one, two) = (growth.node(TaskKind::Parse, |_| {}), growth.node(TaskKind::Parse, |_| {}));
        growth.edge(one, two, DagGate::OnSuccess).edge(two, one, DagGate::OnSuccess);
        let Err(DagGrowthRefused::Ring { path }) = growth.link() else { panic!("a ring") };
        assert_eq!(path.len(), 3);
        assert_eq!(held.available().nodes, 4, "nothing was added");
        says.say("third");
    });
    let third = third.after(second).id();
    let last = dag.node(TaskKind::Parse, log.job("last")).after(third).id();
    assert_eq!(last, DagNode::nth(4));
    let handle = Dags::new(&runtime).budget(budget.clone()).submit_dag(dag.build().unwrap()).unwrap();
    let report = handle.wait().unwrap();
    assert!(report.is_success() && report.len() == 5, "{:?}", report.failures().collect::<Vec<_>>());
    assert_eq!(log.said(), ["other", "first", "second", "third", "last"]);
    assert_eq!(budget.available(), budget.capacity());
}

#[test]
fn a_growth_after_the_end_of_its_node_or_graph_is_refused() {
    let (runtime, log) = (inline(), Log::default());
    let mut dag = Dag::builder();
    let kept = Arc::new(Mutex::new(None));
    let keeps = kept.clone();
    let first = dag.node(TaskKind::Parse, move |cx| *keeps.lock().unwrap() = Some(cx.growth())).id();
    let second = dag.node(TaskKind::Parse, log.job("second")).after(first).id();
    let handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    let control = handle.control();
    let mut early = control.growth(first);
    early.node(TaskKind::Parse, |_| {});
    assert_eq!(early.link().unwrap_err(), DagGrowthRefused::Over { node: first }, "it has not started");
    assert!(runtime.drive_one());
    let mut late = kept.lock().unwrap().take().unwrap();
    let new = late.node(TaskKind::Parse, |_| {});
    late.edge(new, second, DagGate::Sequential);
    assert_eq!(late.link().unwrap_err(), DagGrowthRefused::Over { node: first });
    let report = handle.wait().unwrap();
    assert_eq!((report.len(), log.said()), (2, vec!["second"]));
    assert_eq!(control.growth(second).link().unwrap_err(), DagGrowthRefused::Over { node: second });
}

#[test]
fn another_thread_may_grow_the_graph_while_a_node_runs_and_what_is_behind_waits_for_it() {
    for round in 0..200 {
        let runtime = small(2);
        let (entered, inside) = channel();
        let mut dag = Dag::builder();
        let ran = Arc::new(Mutex::new(0));
        let node = dag
            .node(TaskKind::Parse, move |_| {
                entered.send(()).unwrap();
                for _ in 0..round * 20 {
                    std::hint::spin_loop();
                }
            })
            .id();
        let (counts, added) = (ran.clone(), Arc::new(Mutex::new(0)));
        let sees = added.clone();
        let last =
            dag.node(TaskKind::Parse, move |_| *counts.lock().unwrap() = 1 + *sees.lock().unwrap()).after(node).id();
        let mut handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
        let control = handle.control();
        inside.recv_timeout(SOON).unwrap();
        let mut linked = 0;
        for _ in 0..3 {
            let mut growth = control.growth(node);
            let added = added.clone();
            let new = growth.node(TaskKind::Parse, move |_| *added.lock().unwrap() += 1);
            growth.edge(node, new, DagGate::OnSuccess).edge(new, last, DagGate::OnSuccess);
            match growth.link() {
                Ok(_) => linked += 1,
                Err(refused) => assert_eq!(refused, DagGrowthRefused::Over { node }),
            }
        }
        let report = handle.wait_timeout(SOON).unwrap().unwrap();
        assert!(report.is_success() && report.len() == 2 + linked);
        assert_eq!(*ran.lock().unwrap(), 1 + linked, "what is behind has seen all that was linked");
    }
}

#[test]
fn what_a_graph_grows_by_it_holds_too_and_never_waits_for() {
    let runtime = inline();
    let budget = WorkBudget::for_runtime(WorkAmounts { nodes: 2, edges: 1, cpu: 2, io: 1 }, &runtime).unwrap();
    let inner = budget.clone();
    let mut dag = Dag::builder();
    dag.node(TaskKind::Parse, move |cx| {
        assert_eq!(inner.available(), WorkAmounts { nodes: 1, edges: 1, cpu: 1, io: 1 });
        let mut growth = cx.growth();
        for _ in 0..3 {
            let new = growth.node(TaskKind::Load, |_| {});
            growth.edge(cx.node(), new, DagGate::Sequential);
        }
        growth.link().map(|_| assert_eq!(inner.available(), WorkAmounts { nodes: 0, edges: 0, cpu: 1, io: 0 }))
    });
    let handle = Dags::new(&runtime).budget(budget.clone()).submit_dag(dag.build().unwrap()).unwrap();
    let report = handle.wait().unwrap();
    assert!(report.is_success() && report.len() == 4, "{:?}", report.failures().collect::<Vec<_>>());
    assert_eq!(budget.available(), budget.capacity());
}

#[test]
fn a_thousand_growths_one_behind_the_other_nest_nothing() {
    fn grow(cx: &shardrun::DagCx<'_>, left: u32) -> Result<(), DagGrowthRefused> {
        if left == 0 {
            return Ok(());
        }
        let mut growth = cx.growth();
        let new = growth.node(TaskKind::Parse, move |cx| grow(cx, left - 1));
        growth.edge(cx.node(), new, DagGate::OnSuccess);
        growth.link().map(drop)
    }
    for runtime in [inline(), small(2)] {
        let mut dag = Dag::builder();
        dag.node(TaskKind::Parse, |cx| grow(cx, 10_000));
        let report = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap().wait().unwrap();
        assert!(report.is_success() && report.len() == 10_001);
    }
}

#[test]
fn urgency_follows_wishes_cancels_and_new_nodes_transitively() {
    let (runtime, log) = (inline(), Log::default());
    let mut dag = Dag::builder();
    let mut node = |name, priority, before: &[DagNode]| {
        let mut entry = dag.node(TaskKind::Parse, log.job(name)).priority(priority);
        for before in before {
            entry = entry.after(*before);
        }
        entry.id()
    };
    let deep = node("deep", Priority::Maintenance, &[]);
    let middle = node("middle", Priority::Maintenance, &[deep]);
    let root = node("root", Priority::Maintenance, &[middle]);
    let other = node("other", Priority::Maintenance, &[]);
    let urgent = node("urgent", Priority::Critical, &[other]);
    let beside = node("beside", Priority::Background, &[]);
    let handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    let control = handle.control();
    // The one root goes, the other becomes urgent: what was queued long ago changes its place, over two edges.
    control.cancel_node(urgent);
    control.set_priority(root, Priority::Critical);
    // A ticket of what was urgent may still lie before it.
    assert!(runtime.drive_one() && runtime.drive_one());
    assert_eq!(log.said(), ["deep"]);
    control.set_priority(root, Priority::Maintenance);
    let report = handle.wait().unwrap();
    let said = log.said();
    assert_eq!(said[0], "beside", "{said:?}");
    assert_eq!(said.len(), 4);
    assert!(report.failure(urgent).is_some_and(DagFailure::is_interrupted));
    for node in [deep, middle, root, other, beside] {
        assert_eq!(report.disposition(node), Disposition::Cacheable);
    }
}

#[test]
fn an_urgent_new_node_is_as_urgent_as_what_it_leads_to() {
    let (runtime, log) = (inline(), Log::default());
    let mut dag = Dag::builder();
    let grows = log.clone();
    let first = dag.node(TaskKind::Parse, move |cx| {
        let mut growth = cx.growth();
        let new = growth.node(TaskKind::Parse, grows.job("new"));
        growth.priority(new, Priority::Maintenance);
        growth.edge(cx.node(), new, DagGate::OnSuccess).edge(new, DagNode::nth(1), DagGate::OnSuccess);
        growth.link().map(drop)
    });
    let first = first.priority(Priority::Critical).id();
    dag.node(TaskKind::Parse, log.job("urgent")).priority(Priority::Critical).after(first);
    for _ in 0..3 {
        dag.node(TaskKind::Parse, log.job("slow")).priority(Priority::Background).after(first);
    }
    let report = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap().wait().unwrap();
    assert!(report.is_success());
    assert_eq!(log.said()[..2], ["new", "urgent"]);
}

#[test]
fn a_new_node_with_a_context_needs_no_permit_of_another_node_s_semaphore() {
    let (runtime, semaphore) = (inline(), CpuConcurrencySemaphore::new(1));
    let (said, mut dag) = (Arc::new(Mutex::new(None)), Dag::builder());
    dag.node(TaskKind::Parse, |_| ()).semaphore(&semaphore);
    let tell = said.clone();
    dag.node(TaskKind::Parse, move |cx| {
        let mut growth = cx.growth();
        let new = growth.node(TaskKind::Parse, move |_| *tell.lock().unwrap() = RequestContext::current());
        growth.context(new, RequestContext::new(7_u64));
        growth.link().map(drop)
    });
    let permit = semaphore.acquire();
    let handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    runtime.drive_all();
    assert_eq!(said.lock().unwrap().as_ref().and_then(|context| context.get::<u64>()), Some(&7));
    drop(permit);
    assert!(handle.wait().unwrap().is_success());
}

#[test]
fn a_growth_that_is_refused_drops_its_jobs_and_their_panics_keep_no_graph_open() {
    struct Bomb(Arc<Mutex<u32>>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
            assert!(std::thread::panicking(), "on purpose");
        }
    }
    let (runtime, dropped) = (inline(), Arc::new(Mutex::new(0)));
    let mut dag = Dag::builder();
    let first = dag.node(TaskKind::Parse, |_| ()).id();
    let bomb = {
        let dropped = dropped.clone();
        move || Bomb(dropped.clone())
    };
    let (send, late) = channel();
    let grows = dag.node(TaskKind::Parse, move |cx| {
        let refused = [first, DagNode::nth(77)].map(|to| {
            let (mut growth, bomb) = (cx.growth(), bomb());
            let new = growth.node(TaskKind::Parse, move |_| drop(bomb));
            growth.edge(new, to, DagGate::OnSuccess);
            growth.link().unwrap_err()
        });
        assert!(matches!(refused[0], DagGrowthRefused::Cycle { .. }), "{refused:?}");
        assert!(matches!(refused[1], DagGrowthRefused::UnknownNode { .. }), "{refused:?}");
        let (mut growth, bomb) = (cx.growth(), bomb());
        growth.node(TaskKind::Parse, move |_| drop(bomb));
        send.send(growth).unwrap();
    });
    let grows = grows.after(first).id();
    let last = dag.node(TaskKind::Parse, |_| ()).after(grows).id();
    let handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    runtime.drive_all();
    let report = handle.wait().unwrap();
    assert!(report.failure(grows).is_none() && report.failure(last).is_none(), "{report:?}");
    assert!(matches!(late.recv().unwrap().link(), Err(DagGrowthRefused::Over { .. })));
    assert_eq!(*dropped.lock().unwrap(), 3);
}
