//! Jobs that wait for another to be over: what they keep of it, who wakes them, and how they join equal ones.

#[path = "support/lanes.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod support;

use shardrun::{
    CancelOutcome, CoalesceKey, Driver, JobStatus, LaneClass, LaneHandle, LaneKind, LaneTicket, Lanes, LanesConfig,
    RequestContext, Runtime,
};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use support::{Bench, Gate};

const READ: LaneKind = LaneKind::PureRead;
const HEAVY: LaneKind = LaneKind::HeavyInit;
const WRITE: LaneKind = LaneKind::Mutating;
const COMMIT: LaneKind = LaneKind::MaintenanceCommit;
const DRAIN: CoalesceKey = CoalesceKey::LSP_DRAIN;
const SOON: Duration = Duration::from_secs(300);
const LONG: usize = 3_000;

/// Writes each of which waits for the one before. What each was submitted with is there as long as the job is.
struct Writes {
    runtime: Runtime,
    lanes: Lanes<u32, ()>,
    there: Arc<()>,
    last: Option<LaneTicket>,
}

impl Writes {
    fn new() -> Self {
        let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
        let lanes = Lanes::new(&runtime, LanesConfig::preset(2, 2, 1, 1)).unwrap();
        assert!(lanes.register(0, ()));
        Self { runtime, lanes, there: Arc::new(()), last: None }
    }

    fn write(&mut self) -> LaneHandle<()> {
        let mut job = self.lanes.job(WRITE, |_| ());
        if let Some(last) = self.last.take() {
            job = job.after(last);
        }
        let handle = RequestContext::new(self.there.clone()).scope(|| self.lanes.submit(&0, job));
        self.last = handle.ticket().cloned();
        handle
    }

    /// Jobs that are somewhere still.
    fn jobs(&self) -> usize {
        Arc::strong_count(&self.there) - 1
    }
}

#[test]
fn of_writes_each_after_the_one_before_only_the_last_is_kept() {
    let mut writes = Writes::new();
    for _ in 0..LONG {
        let handle = writes.write();
        writes.runtime.drive_all();
        handle.wait().unwrap();
    }
    assert_eq!(writes.jobs(), 1, "its ticket keeps the last");
    // The next is submitted before the last is over.
    let mut open = writes.write();
    for _ in 0..LONG {
        let next = writes.write();
        while !open.is_resolved() {
            assert!(writes.runtime.drive_one());
        }
        std::mem::replace(&mut open, next).wait().unwrap();
    }
    writes.runtime.drive_all();
    open.wait().unwrap();
    assert_eq!(writes.jobs(), 1);
    // Of those that are taken out none keeps another either.
    let held: Vec<_> = (0..50).map(|_| writes.write()).collect();
    assert!(writes.lanes.remove(&0));
    writes.runtime.drive_all();
    held.into_iter().for_each(|held| assert!(held.wait().is_err()));
    assert_eq!(writes.jobs(), 1);
    writes.last = None;
    assert_eq!(writes.jobs(), 0);
    writes.lanes.shutdown();
}

type Door = Arc<(Sender<()>, Mutex<Receiver<()>>)>;

/// A result whose first copy says that it is made, and waits.
struct Slow(Door, Arc<AtomicBool>);

impl Clone for Slow {
    fn clone(&self) -> Self {
        if !self.1.swap(true, Ordering::SeqCst) {
            self.0.0.send(()).unwrap();
            let _ = self.0.1.lock().unwrap().recv_timeout(SOON);
        }
        Self(self.0.clone(), self.1.clone())
    }
}

/// A world of threads whose actor is held by a write until the sender is dropped.
fn held() -> (Runtime, Lanes<u32, ()>, Sender<()>) {
    let runtime = Runtime::builder().workers(4).build().unwrap();
    let mut config = LanesConfig::preset(4, 2, 3, 1);
    // No timer has the actor looked at.
    config.maintenance_age = Duration::from_secs(3_600);
    let lanes: Lanes<u32, ()> = Lanes::new(&runtime, config).unwrap();
    assert!(lanes.register(0, ()));
    let (open, gate) = channel::<()>();
    let ((begun, begins), gate) = (channel(), Mutex::new(gate));
    let write = lanes.job(WRITE, move |_| {
        begun.send(()).unwrap();
        let _ = gate.lock().unwrap().recv_timeout(SOON);
    });
    lanes.submit(&0, write).detach();
    begins.recv_timeout(SOON).unwrap();
    (runtime, lanes, open)
}

#[test]
fn a_read_after_one_that_is_answered_with_anothers_result_begins() {
    let (_runtime, lanes, open) = held();
    let ((copies, copied), (go_on, waits)) = (channel(), channel::<()>());
    let door: Door = Arc::new((copies, Mutex::new(waits)));
    let drain = || {
        let (door, once) = (door.clone(), Arc::new(AtomicBool::new(false)));
        lanes.submit(&0, lanes.job(COMMIT, move |_| Slow(door, once)).joined(DRAIN))
    };
    let (leads, [first, second]) = (drain(), [(); 2].map(|()| drain()));
    let mut read = lanes.submit(&0, lanes.job(READ, |_| ()).after(second.ticket().unwrap().clone()));
    drop(open);
    // The result of the one that ran is copied for the first; the second is not answered yet.
    copied.recv_timeout(SOON).unwrap();
    assert!(!second.is_resolved());
    // It is looked whether the read may begin, and it may not.
    lanes.submit(&0, lanes.job(READ, |_| ())).wait().unwrap();
    while lanes.liveness().idle < 3 {
        std::thread::yield_now();
    }
    assert!(!read.is_resolved());
    drop(go_on);
    assert_eq!(read.wait_timeout(Duration::from_secs(20)), Some(Ok(())), "what it waited for is over");
    assert!([leads, first, second].into_iter().all(|drain| drain.wait().is_ok()));
    lanes.shutdown();
}

#[test]
fn a_read_after_one_that_follows_another_and_is_cancelled_begins() {
    for late in [false, true] {
        let bench = Bench::new((4, 2, 3, 1));
        let (write, gate) = (bench.write(0, "write"), Gate::default());
        let at = gate.clone();
        let leads = bench.lanes.submit(&0, bench.lanes.future(COMMIT, move |_| at).joined(DRAIN));
        let follows = bench.lanes.job(COMMIT, |_| panic!("it is not to run")).joined(DRAIN);
        let follows = bench.lanes.submit(&0, if late { follows.deadline(Duration::from_secs(1)) } else { follows });
        let mut after = bench.lanes.submit(&0, bench.lanes.job(READ, |_| ()).after(follows.ticket().unwrap().clone()));
        bench.open(&[&write]);
        assert_eq!(after.try_get(), None, "the one that it waits for is not answered");
        if late {
            bench.pass(Duration::from_secs(1));
        } else {
            follows.cancel();
            bench.settle();
        }
        assert_eq!(after.try_get(), Some(Ok(())));
        assert!(!leads.is_resolved() && follows.is_resolved());
        gate.open();
        bench.settle();
        assert!(leads.is_resolved());
    }
}

/// A job that joins equal ones, and counts how often one runs.
fn drains(bench: &Bench, ran: &Arc<AtomicU32>, after: &LaneTicket) -> LaneHandle<u32> {
    let ran = ran.clone();
    let job = bench.lanes.job(COMMIT, move |_| ran.fetch_add(1, Ordering::SeqCst) + 1);
    bench.lanes.submit(&0, job.joined(DRAIN).after(after.clone()))
}

#[test]
fn who_joins_and_waits_for_another_is_not_answered_before_that_is_over() {
    let bench = Bench::new((4, 2, 4, 1));
    let ran = Arc::default();
    let build = bench.gated(0, HEAVY, LaneClass::Interactive, "build");
    let commit = bench.commit(0, "commit");
    let leads = drains(&bench, &ran, &commit.ticket());
    bench.settle();
    let mut joins = drains(&bench, &ran, &build.ticket());
    bench.open(&[&commit]);
    assert!(leads.is_resolved());
    assert_eq!(joins.try_get(), None, "what it waits for is not over");
    bench.open(&[&build]);
    assert_eq!(joins.try_get(), Some(Ok(2)));
}

#[test]
fn those_who_wait_for_the_same_job_and_are_equal_run_once() {
    let bench = Bench::new((4, 2, 4, 1));
    let ran = Arc::default();
    let write = bench.write(0, "write");
    let mut all: Vec<_> = (0..5).map(|_| drains(&bench, &ran, &write.ticket())).collect();
    bench.settle();
    bench.open(&[&write]);
    assert!(all.iter_mut().all(|one| one.try_get() == Some(Ok(1))));
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

/// Calls a function when it is dropped.
struct Leaves<F: Fn()>(F);

impl<F: Fn()> Drop for Leaves<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn what_swept_jobs_waited_for_is_let_go_of_outside_the_turn() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let lanes: Arc<Lanes<u32, ()>> = Arc::new(Lanes::new(&runtime, LanesConfig::preset(4, 3, 3, 1)).unwrap());
    assert!(lanes.register(0, ()));
    let (says, told) = channel();
    let there = Arc::downgrade(&lanes);
    let leaves = Leaves(move || {
        let read = there.upgrade().map(|lanes| lanes.submit(&0, lanes.job(READ, |_| 7)).wait_timeout(SOON));
        let _ = says.send(read);
    });
    let (queued, all_queued) = channel::<Vec<LaneHandle<()>>>();
    let job = lanes.job(READ, move |_| {
        for handle in all_queued.recv().unwrap_or_default() {
            handle.cancel();
        }
    });
    let first = RequestContext::new(leaves).scope(|| lanes.submit(&0, job));
    let ticket = first.ticket().cloned().unwrap();
    first.detach();
    // So many that the next visit sweeps them, rather than look whether what they waited for is over.
    let waiting = (0..100).map(|_| lanes.submit(&0, lanes.job(READ, |_| ()).after(ticket.clone()))).collect();
    drop(ticket);
    queued.send(waiting).unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(Some(Some(Ok(7)))), "a turn that is held lets no read in");
}

/// Notes when it is called.
struct Notes(Sender<&'static str>);

impl Wake for Notes {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send("answered");
    }
}

#[test]
fn a_job_is_answered_before_what_it_waited_for_is_let_go_of() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let lanes: Lanes<u32, ()> = Lanes::new(&runtime, LanesConfig::preset(2, 2, 1, 1)).unwrap();
    assert!(lanes.register(0, ()));
    let (says, told) = channel();
    let waker = Waker::from(Arc::new(Notes(says.clone())));
    let leaves = Leaves(move || {
        let _ = says.send("let go");
    });
    let first = RequestContext::new(leaves).scope(|| lanes.submit(&0, lanes.job(WRITE, |_| ())));
    let after = lanes.job(WRITE, |_| ()).after(first.ticket().cloned().unwrap());
    first.detach();
    let mut second = lanes.submit(&0, after);
    assert!(Pin::new(&mut second).poll(&mut Context::from_waker(&waker)).is_pending());
    runtime.drive_all();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), ["answered", "let go"]);
}

#[test]
fn what_is_thrown_away_is_dropped_where_no_job_is_admitted_and_not_begun() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let lanes: Lanes<u32, ()> = Lanes::new(&runtime, LanesConfig::preset(2, 2, 1, 1)).unwrap();
    assert!(lanes.register(0, ()));
    let (says, told) = channel();
    let next = Arc::new(OnceLock::<LaneTicket>::new());
    let asked = next.clone();
    let leaves = Leaves(move || {
        let _ = says.send(asked.get().map(LaneTicket::status));
    });
    let there = lanes.clone();
    let first = lanes.submit(
        &0,
        lanes.job(WRITE, move |_| {
            let read = RequestContext::new(leaves).scope(|| there.submit(&0, there.job(READ, |_| ())));
            let second = there.submit(&0, there.job(WRITE, |_| ()));
            assert!(next.set(second.ticket().cloned().unwrap()).is_ok());
            second.detach();
            read.ticket().unwrap().cancel()
        }),
    );
    runtime.drive_all();
    assert_eq!(first.wait(), Ok(CancelOutcome::QueuedRemoved));
    let seen = told.try_recv().unwrap();
    assert!(matches!(seen, Some(JobStatus::Queued | JobStatus::Finished)), "{seen:?}");
}
