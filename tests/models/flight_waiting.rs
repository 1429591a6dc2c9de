//! Models of who goes to wait inside a job beside who queues what he may run, and blocks: no work is left where nobody comes by.

#![cfg(any(shardrun_loom, shardrun_shuttle))]

use super::check;
use crate::flight::{FlightRef, Parker, Running, WaitGraph};
use crate::graph::nested::Nested;
use crate::keyed::offers::Offers;
use crate::keyed::word::Word;
use crate::runtime::{Job, Pool, Priority};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread::spawn;

/// What one waits for: `queues` makes something free, `runs` runs it if it is; and how often it was run.
struct Work<Q, R> {
    queues: Q,
    runs: R,
    ran: Arc<AtomicU64>,
}

/// One thread queues something for who waits and blocks, and another goes to wait: it is run, by that other thread, once.
fn is_run_by_who_waits<T, Q, R>(work: Work<Q, R>)
where
    Q: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
    R: Fn() -> bool,
{
    let graph = Arc::new(WaitGraph::default());
    let blocks = {
        let (graph, queues) = (graph.clone(), work.queues);
        spawn(move || {
            let ticket = queues();
            graph.nudge_for_queued();
            ticket
        })
    };
    let (target, parker): (Arc<dyn FlightRef>, _) = (Arc::new(Running::new(0)), Parker::mine());
    let entry = graph.enter(Vec::new(), target, parker.waker());
    while !(work.runs)() {
        parker.park_until(None);
    }
    drop(entry);
    // Only now does anybody come to where the ticket lies.
    drop(blocks.join().unwrap());
    assert!(!(work.runs)());
    assert_eq!(work.ran.load(Ordering::Acquire), 1);
}

/// A job of a run that was begun inside a job is laid down by a thread that blocks then: who waits for the run runs it.
#[test]
fn a_job_of_a_run_is_run_by_who_waits_for_that() {
    check(|| {
        let (nested, ran) = (Nested::new(), Arc::new(AtomicU64::new(0)));
        let (lies, counts) = (nested.clone(), ran.clone());
        let job = Job::new(move || _ = counts.fetch_add(1, Ordering::AcqRel));
        is_run_by_who_waits(Work {
            queues: move || lies.ticket(job),
            runs: || nested.has_one() && nested.run_one(),
            ran,
        });
    });
}

/// A node of a graph of computations is queued by a thread that blocks then, while another goes to wait for the graph, perhaps the first
/// to do so: that one takes the node.
#[test]
fn a_node_that_is_queued_is_taken_by_who_waits_for_its_graph() {
    check(|| {
        let graph = Arc::new((Word::new(1, Priority::Interactive, false), Offers::new()));
        // Of a node that was started long ago. So the list is made before loom could miss who made it.
        graph.1.lay(1, Pool::Workers);
        let (queued, ran) = (graph.clone(), Arc::new(AtomicU64::new(0)));
        let queues = move || {
            let (word, offers) = &*queued;
            assert!(word.open().is_some(), "it waits for one edge");
            word.queue();
            offers.offer(0, Pool::Workers);
        };
        let counts = ran.clone();
        let runs = move || {
            let (word, offers) = &*graph;
            let pool_if_free = |node| (node == 0 && word.load().is_free()).then_some(Pool::Workers);
            let takes = offers.take(|| 1, pool_if_free, |_| true).is_some() && word.claim().is_some();
            takes && counts.fetch_add(1, Ordering::AcqRel) == 0
        };
        is_run_by_who_waits(Work { queues, runs, ran });
    });
}

/// The same of a node that is added and ready from the first.
#[test]
fn a_node_that_is_added_is_taken_by_who_waits_for_its_graph() {
    check(|| {
        let word = Word::new(0, Priority::Interactive, false);
        // Whether it is where nodes are looked for; as many as may be there are counted before.
        let graph = Arc::new((word, AtomicU64::new(0), Offers::new()));
        graph.2.lay(1, Pool::Workers);
        let (added, ran) = (graph.clone(), Arc::new(AtomicU64::new(0)));
        let queues = move || {
            let (_, there, offers) = &*added;
            there.swap(1, Ordering::Release);
            offers.put();
            offers.offer(0, Pool::Workers);
        };
        let counts = ran.clone();
        let runs = move || {
            let (word, there, offers) = &*graph;
            let pool_if_free = |node| {
                let there = node == 0 && there.load(Ordering::Acquire) == 1;
                (there && word.load().is_free()).then_some(Pool::Workers)
            };
            let takes = offers.take(|| 1, pool_if_free, |_| true).is_some() && word.claim().is_some();
            takes && counts.fetch_add(1, Ordering::AcqRel) == 0
        };
        is_run_by_who_waits(Work { queues, runs, ran });
    });
}

/// Three jobs of a run, a ticket that is popped, two that a shutdown drops, and one who waits: each job is run or dropped, once.
#[test]
fn each_job_of_a_run_is_run_or_dropped_once() {
    check(|| {
        let (nested, ran, alive) = (Nested::new(), Arc::new(AtomicU64::new(0)), Arc::new(()));
        let ticket = || {
            let (counts, alive) = (ran.clone(), alive.clone());
            nested.ticket(Job::new(move || {
                counts.fetch_add(1, Ordering::AcqRel);
                drop(alive);
            }))
        };
        let (popped, dropped) = (ticket(), [ticket(), ticket()]);
        let pops = spawn(move || popped.run());
        let drops = spawn(move || drop(dropped));
        let helped = u64::from(nested.run_one());
        pops.join().unwrap();
        drops.join().unwrap();
        assert!(!nested.has_one() && Arc::strong_count(&alive) == 1, "a job is left behind");
        let ran = ran.load(Ordering::Acquire);
        assert!((1.max(helped)..=2).contains(&ran), "{ran} ran");
    });
}
