//! Acceptance guards of graphs that ask for a whole runtime: nobody blocks on a pool, nobody is starved, pools are apart.

#[path = "support/gate.rs"]
mod gate;

use gate::{SOON, gate, small};
use shardrun::{
    Admission, Dag, DagGate, DagNode, Dags, Driver, Place, Priority, Runtime, TaskKind, WorkAmounts, WorkBudget,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

/// How much a thread has computed, in ticks of the kernel's clock, and whether it sleeps.
#[cfg(target_os = "linux")]
fn computed(task: &std::path::Path) -> (u64, bool) {
    let stat = std::fs::read_to_string(std::path::Path::new("/proc").join(task).join("stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap(), fields[0] == "S")
}

#[cfg(target_os = "linux")]
#[test]
fn guard_3_a_submission_sleeps_in_line_and_holds_nothing_that_others_need() {
    let runtime = small(1);
    let budget = WorkBudget::for_runtime(WorkAmounts { nodes: 2, edges: 2, cpu: 2, io: 2 }, &runtime).unwrap();
    let dags = Dags::new(&runtime).budget(budget.clone());
    let (open, closed) = channel::<()>();
    let mut dag = Dag::builder();
    let (entered, inside) = channel();
    let load = move |_: &shardrun::DagCx<'_>| {
        entered.send(()).unwrap();
        let _ = closed.recv();
    };
    let first = dag.node(TaskKind::Load, load).id();
    let second = dag.node(TaskKind::Parse, |_| {}).after(first).id();
    let mut holds = dags.submit_dag(dag.build().unwrap()).unwrap();
    inside.recv_timeout(SOON).unwrap();
    let one = || {
        let mut dag = Dag::builder();
        dag.node(TaskKind::Parse, |_| {});
        dag.build().unwrap()
    };
    let (says, task) = channel();
    let waits = std::thread::spawn({
        let (dags, dag) = (dags.clone(), one());
        move || {
            says.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
            dags.submit_dag(dag).unwrap().wait().unwrap().is_success()
        }
    });
    let task = task.recv_timeout(SOON).unwrap();
    while budget.waiting() == 0 || !computed(&task).1 {
        std::thread::yield_now();
    }
    let before = computed(&task).0;
    // Meanwhile everything goes on: other graphs, and the one that holds the room is told things and grows.
    for _ in 0..200 {
        assert!(Dags::new(&runtime).submit_dag(one()).unwrap().wait().unwrap().is_success());
        assert!(matches!(dags.try_submit_dag(one()).unwrap(), Admission::Backpressured(_)));
        holds.control().set_priority(second, Priority::Critical);
        let mut growth = holds.control().growth(first);
        let new = growth.node(TaskKind::Parse, |_| {});
        growth.edge(first, new, DagGate::OnSuccess);
        growth.link().unwrap();
    }
    assert!(computed(&task).0 <= before + 1 && budget.waiting() == 1, "it sleeps");
    drop(open);
    assert!(holds.wait_timeout(SOON).unwrap().unwrap().is_success());
    assert!(waits.join().unwrap());
    assert_eq!((budget.available(), budget.waiting()), (budget.capacity(), 0));
}

#[test]
fn guard_4_who_releases_work_of_a_busy_pool_never_blocks_on_it() {
    let runtime = small(1);
    let (open, closed) = channel::<()>();
    let (entered, inside) = channel();
    let blocks = move || {
        entered.send(()).unwrap();
        let _ = closed.recv();
    };
    runtime.execute_on(Place::io(Priority::Interactive), blocks).unwrap();
    inside.recv_timeout(SOON).unwrap();
    let (computed, loaded) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (done, all) = channel();
    let mut dag = Dag::builder();
    for _ in 0..100 {
        let (counts, done) = (computed.clone(), done.clone());
        let parse = dag.node(TaskKind::Parse, move |_| {
            if counts.fetch_add(1, Ordering::SeqCst) == 99 {
                done.send(()).unwrap();
            }
        });
        let parse = parse.id();
        let counts = loaded.clone();
        dag.node(TaskKind::Load, move |_| _ = counts.fetch_add(1, Ordering::SeqCst)).after(parse);
    }
    let mut handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    all.recv_timeout(SOON).expect("the worker goes on although the I/O thread does not");
    assert_eq!(loaded.load(Ordering::SeqCst), 0);
    drop(open);
    assert!(handle.wait_timeout(SOON).unwrap().unwrap().is_success());
    assert_eq!(loaded.load(Ordering::SeqCst), 100);
}

#[test]
fn guard_5_what_a_graph_needs_is_reserved_before_its_first_node_is_queued() {
    let runtime = small(2);
    for _ in 0..100 {
        let budget = WorkBudget::for_runtime(WorkAmounts { nodes: 9, edges: 9, cpu: 9, io: 9 }, &runtime).unwrap();
        let (inner, mut dag) = (budget.clone(), Dag::builder());
        let first = dag.node(TaskKind::Parse, move |_| {
            let free = inner.available();
            assert_eq!(free, WorkAmounts { nodes: 7, edges: 8, cpu: 8, io: 8 });
        });
        let first = first.id();
        dag.node(TaskKind::Load, |_| {}).after(first);
        let report =
            Dags::new(&runtime).budget(budget.clone()).submit_dag(dag.build().unwrap()).unwrap().wait().unwrap();
        assert!(report.is_success(), "{:?}", report.failures().collect::<Vec<_>>());
        assert_eq!(budget.available(), budget.capacity());
    }
}

#[test]
fn guard_6_what_is_queued_runs_in_the_end_and_what_is_critical_soon() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let (ran, order) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let dags = Dags::new(&runtime);
    let mut flood = Dag::builder();
    for _ in 0..5_000 {
        let counts = ran.clone();
        let job = move |_: &shardrun::DagCx<'_>| _ = counts.fetch_add(1, Ordering::Relaxed);
        flood.node(TaskKind::Parse, job).priority(Priority::Critical);
    }
    let mut slow = Dag::builder();
    let (says, counts) = (order.clone(), ran.clone());
    slow.node(TaskKind::Parse, move |_| says.lock().unwrap().push(("slow", counts.load(Ordering::Relaxed))))
        .priority(Priority::Maintenance);
    let handles = [dags.submit_dag(flood.build().unwrap()).unwrap(), dags.submit_dag(slow.build().unwrap()).unwrap()];
    for _ in 0..1_000 {
        runtime.drive_one();
    }
    let before = ran.load(Ordering::Relaxed);
    let mut urgent = Dag::builder();
    let (says, counts) = (order.clone(), ran.clone());
    urgent
        .node(TaskKind::Parse, move |_| says.lock().unwrap().push(("urgent", counts.load(Ordering::Relaxed))))
        .priority(Priority::Critical);
    let urgent = dags.submit_dag(urgent.build().unwrap()).unwrap();
    assert!(urgent.wait().unwrap().is_success());
    for handle in handles {
        assert!(handle.wait().unwrap().is_success());
    }
    let order = order.lock().unwrap();
    let at = |name| order.iter().find(|said| said.0 == name).unwrap().1;
    assert!(at("slow") < 100, "the least urgent has its turn too: after {}", at("slow"));
    assert!(at("urgent") - before < 10, "a graph of many nodes is one in the queue: after {}", at("urgent") - before);
    assert_eq!(ran.load(Ordering::Relaxed), 5_000);
}

#[test]
fn guard_8_a_saturated_runtime_starves_no_other_and_a_node_has_the_stack_that_was_asked_for() {
    fn deep(left: usize) -> usize {
        let room = std::hint::black_box([left as u8; 1024]);
        if left == 0 { 0 } else { deep(left - 1) + usize::from(room[left % 1024] == left as u8) }
    }
    let coordinator = small(1);
    let _open = gate(&coordinator);
    let runtime = Runtime::builder().workers(1).io_threads(1).stack_size(8 << 20).build().unwrap();
    let mut dag = Dag::builder();
    let load = dag.node(TaskKind::Load, |_| assert_eq!(deep(2_000), 2_000)).id();
    assert_eq!(load, DagNode::nth(0));
    dag.node(TaskKind::Parse, |_| assert_eq!(deep(2_000), 2_000)).after(load);
    let mut handle = Dags::new(&runtime).submit_dag(dag.build().unwrap()).unwrap();
    assert!(handle.wait_timeout(SOON).unwrap().unwrap().is_success());
}

#[test]
fn s107_what_an_overfull_pool_declines_is_neither_lost_nor_run_twice() {
    const CLIENTS: usize = 4;
    const EACH: usize = 200;
    let runtime = small(2);
    let budget = WorkBudget::for_runtime(WorkAmounts { nodes: 3, edges: 9, cpu: 3, io: 1 }, &runtime).unwrap();
    let dags = Dags::new(&runtime).budget(budget.clone());
    let gates = [gate(&runtime), gate(&runtime)];
    let ran: Arc<Vec<AtomicUsize>> = Arc::new((0..CLIENTS * EACH).map(|_| AtomicUsize::new(0)).collect());
    let declined = Arc::new(AtomicUsize::new(0));
    let full = {
        let mut most = Dag::builder();
        (0..3).for_each(|_| _ = most.node(TaskKind::Parse, |_| {}));
        dags.submit_dag(most.build().unwrap()).unwrap()
    };
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (dags, ran, declined) = (dags.clone(), ran.clone(), declined.clone());
            std::thread::spawn(move || {
                let mut handles = Vec::new();
                for command in client * EACH..(client + 1) * EACH {
                    let ran = ran.clone();
                    let mut dag = Dag::builder();
                    dag.node(TaskKind::Parse, move |_| _ = ran[command].fetch_add(1, Ordering::SeqCst));
                    let mut dag = dag.build().unwrap();
                    loop {
                        match dags.try_submit_dag(dag).unwrap() {
                            Admission::Admitted(handle) => break handles.push(handle),
                            Admission::Backpressured(back) => {
                                declined.fetch_add(1, Ordering::SeqCst);
                                dag = *back.dag;
                                std::thread::yield_now();
                            }
                            other => unreachable!("there is no hook: {other:?}"),
                        }
                    }
                }
                assert!(handles.into_iter().all(|handle| handle.wait().unwrap().is_success()));
            })
        })
        .collect();
    // The workers are held up, so there is no room until then.
    while declined.load(Ordering::SeqCst) < CLIENTS {
        std::thread::yield_now();
    }
    drop(gates);
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert!(full.wait().unwrap().is_success());
    assert_eq!(budget.available(), budget.capacity());
    assert!(ran.iter().all(|ran| ran.load(Ordering::SeqCst) == 1), "each once");
}
