//! Admission of graphs: four amounts that are taken together, declined exactly, waited for without holding anything, given back once.

#[path = "support/gate.rs"]
mod gate;

use gate::{SOON, small};
use shardrun::{
    Admission, Budget, Dag, DagHandle, DagRefusal, Dags, Driver, Interrupt, Runtime, TaskKind, WorkAmounts, WorkBudget,
    ZeroBudget,
};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

fn inline() -> Runtime {
    Runtime::builder().driver(Driver::Inline).build().unwrap()
}

fn amounts(nodes: u32, edges: u32, cpu: u32, io: u32) -> WorkAmounts {
    let mut amounts = WorkAmounts::default();
    (amounts.nodes, amounts.edges, amounts.cpu, amounts.io) = (nodes, edges, cpu, io);
    amounts
}

/// A chain of so many nodes, of which so many load.
fn chain(nodes: usize, loads: usize) -> Dag {
    let mut dag = Dag::builder();
    let mut last = None;
    for at in 0..nodes {
        let mut entry = dag.node(if at < loads { TaskKind::Load } else { TaskKind::Parse }, |_| {});
        if let Some(last) = last {
            entry = entry.after(last);
        }
        last = Some(entry.id());
    }
    dag.build().unwrap()
}

fn admitted(dags: &Dags, dag: Dag) -> DagHandle {
    match dags.try_submit_dag(dag).unwrap() {
        Admission::Admitted(handle) => handle,
        other => panic!("{other:?}"),
    }
}

#[test]
fn guard_2_64_nodes_are_admitted_the_65th_is_refused_with_exact_amounts_and_taken_after_a_release() {
    let runtime = inline();
    let budget = WorkBudget::for_runtime(amounts(64, 100, 60, 10), &runtime).unwrap();
    let dags = Dags::new(&runtime).budget(budget.clone());
    let mut handles: Vec<_> =
        (0..16).map(|_| admitted(&dags, chain(4, usize::from(budget.available().io > 0)))).collect();
    assert_eq!(budget.available(), amounts(0, 100 - 48, 60 - 54, 0));
    let Admission::Backpressured(declined) = dags.try_submit_dag(chain(1, 1)).unwrap() else { panic!("the 65th") };
    assert_eq!(declined.refused.requested, amounts(1, 0, 0, 1));
    assert_eq!(declined.refused.available, amounts(0, 52, 6, 0));
    assert_eq!(declined.refused.capacity, amounts(64, 100, 60, 10));
    assert_eq!(budget.available(), amounts(0, 52, 6, 0), "nothing was changed");
    let first = handles.remove(0);
    assert!(first.wait().unwrap().is_success());
    let handle = admitted(&dags, *declined.dag);
    assert!(handle.wait().unwrap().is_success());
    assert!(handles.into_iter().all(|handle| handle.wait().unwrap().is_success()));
    assert_eq!(budget.available(), budget.capacity());
}

#[test]
fn each_of_the_four_amounts_declines_alone_and_takes_nothing_of_the_others() {
    let runtime = inline();
    let largest = amounts(10, 10, 10, 10);
    let asked = [(chain(6, 3), amounts(5, 10, 10, 10)), (chain(6, 3), amounts(10, 4, 10, 10))];
    let asked = asked.into_iter().chain([(chain(6, 0), amounts(10, 10, 5, 10)), (chain(6, 6), amounts(10, 10, 10, 5))]);
    for (dag, capacity) in asked {
        // Larger than the whole budget: told at once, by every form.
        let budget = WorkBudget::for_runtime(capacity, &runtime).unwrap();
        let dags = Dags::new(&runtime).budget(budget.clone());
        let rejected = dags.try_submit_dag(dag).unwrap_err();
        assert!(matches!(rejected.because, DagRefusal::TooLarge(refused) if refused.capacity == capacity));
        let rejected = dags.submit_dag(*rejected.dag).unwrap_err();
        assert!(matches!(rejected.because, DagRefusal::TooLarge(_)));
        let submitting = dags.submit_dag_async(*rejected.dag);
        let Poll::Ready(Err(rejected)) = pin!(submitting).poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("it will never be admitted")
        };
        assert!(matches!(rejected.because, DagRefusal::TooLarge(_)) && budget.available() == capacity);
        assert!(std::error::Error::source(&rejected).unwrap().to_string().contains("6 nodes"));
        // Not there at the moment.
        let budget = WorkBudget::for_runtime(largest, &runtime).unwrap();
        let dags = Dags::new(&runtime).budget(budget.clone());
        let before = admitted(&dags, chain(6, 3));
        let left = budget.available();
        assert!(matches!(dags.try_submit_dag(*rejected.dag).unwrap(), Admission::Backpressured(_)));
        assert_eq!(budget.available(), left);
        drop(before);
        runtime.drive_all();
        assert_eq!(budget.available(), largest);
    }
    assert_eq!(WorkBudget::new(amounts(1, 1, 0, 1)).unwrap_err(), ZeroBudget);
    assert_eq!(WorkBudget::new(largest).unwrap().nodes_from(Budget::new(0)).unwrap_err(), ZeroBudget);
}

#[test]
fn who_waits_for_room_holds_nothing_and_gets_it_in_turn() {
    let runtime = small(1);
    let budget = WorkBudget::for_runtime(amounts(8, 8, 8, 8), &runtime).unwrap();
    let dags = Dags::new(&runtime).budget(budget.clone());
    let open = gate::gate(&runtime);
    let first = dags.submit_dag(chain(6, 0)).unwrap();
    let (sender, receiver) = channel();
    let waits = std::thread::spawn({
        let dags = dags.clone();
        move || {
            let handle = dags.submit_dag(chain(8, 2)).unwrap();
            sender.send(()).unwrap();
            handle.wait().unwrap().is_success()
        }
    });
    while budget.waiting() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(budget.available(), amounts(2, 3, 2, 8), "who waits holds nothing");
    assert!(receiver.try_recv().is_err());
    // Nobody passes the line, and a second who waits stands behind.
    assert!(matches!(dags.try_submit_dag(chain(1, 0)).unwrap(), Admission::Backpressured(_)));
    let mut submitting = pin!(dags.submit_dag_async(chain(2, 0)));
    assert!(submitting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let late = dags.submit_dag_timeout(chain(2, 0), std::time::Duration::from_millis(1)).unwrap_err();
    assert!(matches!(late.because, DagRefusal::TimedOut(_)));
    drop(open);
    assert!(first.wait().unwrap().is_success());
    assert!(waits.join().unwrap());
    receiver.recv_timeout(SOON).unwrap();
    let handle = loop {
        match submitting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(handle) => break handle.unwrap(),
            Poll::Pending => std::thread::yield_now(),
        }
    };
    assert!(handle.wait().unwrap().is_success());
    assert_eq!((budget.available(), budget.waiting()), (budget.capacity(), 0));
}

#[test]
fn a_future_that_is_dropped_in_line_makes_way() {
    let runtime = inline();
    let budget = WorkBudget::for_runtime(amounts(4, 4, 4, 4), &runtime).unwrap();
    let dags = Dags::new(&runtime).budget(budget.clone());
    let first = admitted(&dags, chain(3, 0));
    {
        let mut head = pin!(dags.submit_dag_async(chain(4, 0)));
        assert!(head.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(budget.waiting(), 1);
    }
    assert_eq!(budget.waiting(), 0);
    let second = admitted(&dags, chain(1, 0));
    assert!(first.wait().unwrap().is_success() && second.wait().unwrap().is_success());
    assert_eq!(budget.available(), budget.capacity());
}

#[test]
fn a_job_that_submits_never_waits_for_room() {
    let runtime = small(1);
    let budget = WorkBudget::for_runtime(amounts(2, 2, 2, 2), &runtime).unwrap();
    let dags = Dags::new(&runtime).budget(budget.clone());
    let (inside, inner) = (dags.clone(), budget.clone());
    let mut dag = Dag::builder();
    let first = dag.node(TaskKind::Parse, |_| {}).id();
    let submits = move |_: &shardrun::DagCx<'_>| {
        assert_eq!(inner.available().nodes, 0);
        inside.submit_dag(chain(2, 0)).unwrap().wait().unwrap().is_success().then_some(()).ok_or("it failed")
    };
    dag.node(TaskKind::Parse, submits).after(first);
    let mut handle = dags.submit_dag(dag.build().unwrap()).unwrap();
    assert!(handle.wait_timeout(SOON).unwrap().unwrap().is_success());
    assert_eq!(budget.available(), budget.capacity());
}

#[test]
fn what_a_graph_holds_is_given_back_once_however_it_ends() {
    type End = fn(&Runtime, DagHandle);
    let ends: [(&str, End); 6] = [
        ("completed", |runtime, handle| {
            runtime.drive_all();
            assert!(!handle.wait().unwrap().is_success(), "one node panics");
        }),
        ("cancelled", |runtime, handle| {
            runtime.drive_one();
            handle.control().cancel();
            assert_eq!(handle.wait().unwrap_err(), Interrupt::Cancelled);
            runtime.drive_all();
        }),
        ("dropped and cancelled", |runtime, handle| {
            runtime.drive_one();
            drop(handle.cancel_on_drop());
            runtime.drive_all();
        }),
        ("dropped", |runtime, handle| {
            drop(handle);
            runtime.drive_all();
        }),
        ("superseded", |runtime, handle| {
            handle.control().supersede();
            assert_eq!(handle.wait().unwrap_err(), Interrupt::Superseded);
            runtime.drive_all();
        }),
        ("shut down", |runtime, handle| {
            runtime.shutdown();
            assert_eq!(handle.wait().unwrap_err(), Interrupt::Shutdown);
        }),
    ];
    for (name, end) in ends {
        let runtime = inline();
        let nodes = Budget::new(100);
        let budget = WorkBudget::for_runtime(amounts(9, 9, 9, 9), &runtime).unwrap().nodes_from(nodes.clone()).unwrap();
        let mut dag = Dag::builder();
        let first = dag.node(TaskKind::Load, |_| {}).id();
        let bad = dag.node(TaskKind::Parse, |_| -> () { panic!("broken") }).after(first).id();
        dag.node(TaskKind::Parse, |_| {}).after(bad);
        let handle = Dags::new(&runtime).budget(budget.clone()).submit_dag(dag.build().unwrap()).unwrap();
        assert_eq!(nodes.in_use(), 3);
        end(&runtime, handle);
        assert_eq!(budget.available(), budget.capacity(), "{name}");
        assert_eq!(nodes.in_use(), 0, "{name}");
    }
}

#[test]
fn the_hook_is_asked_before_admission_by_every_form_and_its_panic_is_an_answer() {
    let runtime = inline();
    let budget = WorkBudget::for_runtime(amounts(1, 1, 1, 1), &runtime).unwrap();
    let (probes, known) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(None::<shardrun::DagControl>)));
    let hook = {
        let (probes, known) = (probes.clone(), known.clone());
        move |dag: &Dag| {
            probes.fetch_add(1, Ordering::Relaxed);
            assert_ne!(dag.key(), Some(13), "unlucky");
            known.lock().unwrap().as_ref().filter(|_| dag.key() == Some(7)).and_then(|known| known.join())
        }
    };
    let dags = Dags::new(&runtime).budget(budget.clone()).dedupe(hook);
    let keyed = |key| {
        let mut dag = Dag::builder();
        dag.node(TaskKind::Parse, |_| {});
        dag.key(key);
        dag.build().unwrap()
    };
    let first = dags.submit_dag(keyed(7)).unwrap();
    *known.lock().unwrap() = Some(first.control());
    // The budget is spent: only a joiner gets in.
    let second = dags.submit_dag(keyed(7)).unwrap();
    let Admission::DedupeJoined(third) = dags.try_submit_dag(keyed(7)).unwrap() else { panic!("it joins") };
    let Poll::Ready(fourth) = pin!(dags.submit_dag_async(keyed(7))).poll(&mut Context::from_waker(Waker::noop()))
    else {
        panic!("it joins")
    };
    let limit = std::time::Duration::from_millis(1);
    let fifth = dags.submit_dag_timeout(keyed(7), limit).unwrap();
    assert!(matches!(dags.try_submit_dag(keyed(8)).unwrap(), Admission::Backpressured(_)));
    assert_eq!(probes.load(Ordering::Relaxed), 6);
    let Poll::Ready(Err(unlucky)) =
        pin!(dags.submit_dag_async(keyed(13))).poll(&mut Context::from_waker(Waker::noop()))
    else {
        panic!("told at once")
    };
    let unlucky = [unlucky, dags.submit_dag_timeout(keyed(13), limit).unwrap_err()].into_iter();
    let unlucky = unlucky.chain([dags.submit_dag(keyed(13)).unwrap_err(), dags.try_submit_dag(keyed(13)).unwrap_err()]);
    for rejected in unlucky {
        let DagRefusal::HookPanicked(report) = rejected.because else { panic!("{:?}", rejected.because) };
        assert!(report.message().contains("unlucky"));
        assert_eq!(rejected.dag.key(), Some(13));
    }
    assert_eq!(budget.available().nodes, 0, "joiners cost nothing");
    runtime.drive_all();
    for handle in [first, second, third, fourth.unwrap(), fifth] {
        assert!(handle.wait().unwrap().is_success());
    }
    assert_eq!(budget.available(), budget.capacity());
}
