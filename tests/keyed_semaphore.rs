//! The semaphore of bodies: how many run at once, who is next, and that no worker waits for a permit.
//! It does not know what the bodies do.

use shardrun::{CacheError, CacheRequest, Caches, CpuConcurrencySemaphore, Driver, Retain, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(300);

fn small(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).io_threads(1).build().expect("a small runtime starts")
}

#[test]
fn s106_a_cap_of_four_with_eight_tasks_peaks_at_exactly_four() {
    let runtime = small(8);
    let caches = Caches::new(&runtime);
    let cache = caches.cache::<u64, ()>(1, Retain::none()).unwrap();
    let semaphore = CpuConcurrencySemaphore::new(4);
    let (running, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (begun, entered) = channel();
    let mut gates = Vec::new();
    let handles: Vec<_> = (0..8)
        .map(|key| {
            let (open, gate) = channel::<()>();
            gates.push(Some(open));
            let (running, peak, begun) = (running.clone(), peak.clone(), begun.clone());
            cache.get_or_build(CacheRequest::key(key).semaphore(semaphore.clone()), move |cx| {
                peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                begun.send(*cx.key()).unwrap();
                let _ = gate.recv();
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            })
        })
        .collect();
    // Four are inside, and none of them ends before it is let go.
    let inside: Vec<_> = (0..4).map(|_| entered.recv_timeout(SOON).expect("four run at once")).collect();
    assert_eq!((running.load(Ordering::SeqCst), semaphore.available()), (4, 0));
    for key in inside {
        gates[key as usize] = None;
        let next = entered.recv_timeout(SOON).expect("each that ends makes way for one more");
        gates[next as usize] = None;
    }
    handles.into_iter().for_each(|handle| handle.wait().map(drop).unwrap());
    assert_eq!(peak.load(Ordering::SeqCst), 4);
    assert_eq!((semaphore.available(), semaphore.waiting()), (4, 0), "all are back");
}

#[test]
fn s106_no_worker_waits_for_a_permit() {
    let runtime = small(1);
    let caches = Caches::new(&runtime);
    let cache = caches.cache::<u64, u64>(1, Retain::none()).unwrap();
    let semaphore = CpuConcurrencySemaphore::new(1);
    let permit = semaphore.acquire();
    let waits = cache.get_or_build(CacheRequest::key(1).semaphore(semaphore.clone()), |_| Ok(1));
    assert_eq!(*cache.get_or_build(2, |_| Ok(2)).wait().unwrap(), 2, "the one worker goes on");
    assert_eq!(semaphore.waiting(), 1);
    drop(permit);
    assert_eq!(*waits.wait().unwrap(), 1);
}

#[test]
#[should_panic(expected = "without permits")]
fn s106_a_semaphore_of_nothing_is_refused() {
    let _ = CpuConcurrencySemaphore::new(0);
}

#[test]
fn s106_a_permit_is_back_after_a_panic_and_a_cancelled_task_in_line_costs_none() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let caches = Caches::new(&runtime);
    let cache = caches.cache::<u64, u64>(1, Retain::none()).unwrap();
    let semaphore = CpuConcurrencySemaphore::new(1);
    let ask = |key| CacheRequest::key(key).semaphore(semaphore.clone());
    assert!(cache.get_or_build(ask(1), |_| panic!("on purpose")).wait().is_err());
    let permit = semaphore.try_acquire().expect("it is back");
    assert!(semaphore.try_acquire().is_none(), "at its cap it refuses");
    let gone = cache.get_or_build(ask(2), |_| unreachable!("it is cancelled"));
    let next = cache.get_or_build(ask(3), |_| Ok(3));
    runtime.drive_all();
    assert_eq!(semaphore.waiting(), 2);
    gone.cancel();
    drop(permit);
    assert_eq!(*next.wait().unwrap(), 3);
    assert_eq!((semaphore.available(), semaphore.waiting()), (1, 0));
    drop(gone);
}

#[test]
fn a_long_line_is_answered_by_a_shutdown() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let caches = Caches::new(&runtime);
    let cache = caches.cache::<u64, u64>(1, Retain::none()).unwrap();
    let semaphore = CpuConcurrencySemaphore::new(1);
    let permit = semaphore.acquire();
    let ask = |key| cache.get_or_build(CacheRequest::key(key).semaphore(semaphore.clone()), |_| Ok(1));
    let handles: Vec<_> = (0..20_000).map(ask).collect();
    runtime.drive_all();
    assert_eq!(semaphore.waiting(), 20_000);
    runtime.shutdown();
    drop(permit);
    assert!(handles.into_iter().all(|handle| handle.wait().is_err()));
    assert_eq!((semaphore.available(), semaphore.waiting()), (1, 0));
}

#[test]
fn who_waits_inside_a_body_for_a_task_of_the_same_semaphore_runs_it() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let caches = Caches::new(&runtime);
    let cache = caches.cache::<u64, u64>(1, Retain::none()).unwrap();
    let semaphore = CpuConcurrencySemaphore::new(1);
    let (inner, same) = (cache.clone(), semaphore.clone());
    let outer = cache.get_or_build(CacheRequest::key(1).semaphore(semaphore), move |_| {
        let needed = inner.get_or_build(CacheRequest::key(2).semaphore(same), |_| Ok(2));
        Ok(*needed.wait().unwrap() + 1)
    });
    assert_eq!(*outer.wait().unwrap(), 3);
}

#[test]
fn b34_a_shutdown_answers_who_stands_in_line_for_a_permit_that_somebody_outside_holds() {
    let runtime = small(2);
    let caches = Caches::new(&runtime);
    let cache = caches.cache::<u64, u64>(1, Retain::all()).unwrap();
    let semaphore = CpuConcurrencySemaphore::new(1);
    let permit = semaphore.acquire();
    let ask = |key| cache.get_or_build(CacheRequest::key(key).semaphore(semaphore.clone()), |_| Ok(1));
    let handles: Vec<_> = (0..100).map(ask).collect();
    // Some stand in line by now, others are queued still.
    while semaphore.waiting() == 0 {
        std::thread::yield_now();
    }
    runtime.shutdown();
    for mut handle in handles {
        assert!(matches!(handle.wait_timeout(SOON), Some(Err(CacheError::Shutdown))));
    }
    drop(permit);
    assert_eq!((semaphore.available(), semaphore.waiting()), (1, 0));
}

#[test]
fn b58_a_body_that_waits_by_way_of_another_thread_for_a_task_of_the_same_semaphore_lends_its_permit() {
    let runtime = small(2);
    let caches = Caches::new(&runtime);
    let cache = caches.cache::<u64, u64>(1, Retain::none()).unwrap();
    let semaphore = CpuConcurrencySemaphore::new(1);
    let ((begun, inside), (open, gate)) = (channel(), channel::<()>());
    let limited = |key| CacheRequest::key(key).semaphore(semaphore.clone());
    let (inner, last) = (cache.clone(), limited(3));
    let mut between = cache.get_or_build(2, move |_| {
        begun.send(()).unwrap();
        gate.recv().unwrap();
        Ok(*inner.get_or_build(last, |_| Ok(3)).wait().unwrap())
    });
    inside.recv_timeout(SOON).unwrap();
    let inner = cache.clone();
    let mut first = cache.get_or_build(limited(1), move |_| {
        let between = inner.get_or_build(2, |_| unreachable!("it is under way"));
        open.send(()).unwrap();
        Ok(*between.wait().unwrap())
    });
    assert_eq!(*first.wait_timeout(SOON).expect("it ends").unwrap(), 3);
    assert_eq!(*between.wait_timeout(SOON).unwrap().unwrap(), 3);
    assert_eq!((semaphore.available(), semaphore.waiting()), (1, 0));
}

#[test]
fn b58_a_body_that_has_lent_its_permit_takes_one_back_before_it_goes_on() {
    let runtime = small(3);
    let caches = Caches::new(&runtime);
    let cache = caches.cache::<u64, u64>(1, Retain::none()).unwrap();
    let semaphore = CpuConcurrencySemaphore::new(1);
    let limited = |key| CacheRequest::key(key).semaphore(semaphore.clone());
    let ((end_first, first_may_end), (end_other, other_may_end)) = (channel::<()>(), channel::<()>());
    let ((begun, first_inside), (entered, other_inside)) = (channel(), channel());
    let awaited = cache.get_or_build(9, move |_| {
        begun.send(()).unwrap();
        first_may_end.recv().unwrap();
        Ok(9)
    });
    first_inside.recv_timeout(SOON).unwrap();
    let (runs, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (other_runs, first_sees, inner) = (runs.clone(), seen.clone(), cache.clone());
    let (began, first_begun) = channel();
    let mut first = cache.get_or_build(limited(1), move |_| {
        began.send(()).unwrap();
        inner.get_or_build(9, |_| unreachable!("it is under way")).wait().unwrap();
        first_sees.store(runs.load(Ordering::SeqCst), Ordering::SeqCst);
        Ok(1)
    });
    first_begun.recv_timeout(SOON).unwrap();
    let mut other = cache.get_or_build(limited(2), move |_| {
        other_runs.store(true, Ordering::SeqCst);
        entered.send(()).unwrap();
        other_may_end.recv().unwrap();
        other_runs.store(false, Ordering::SeqCst);
        Ok(2)
    });
    other_inside.recv_timeout(SOON).expect("the first lends its permit");
    end_first.send(()).unwrap();
    awaited.wait().unwrap();
    assert!(!first.is_resolved(), "it has no permit");
    end_other.send(()).unwrap();
    assert_eq!(*other.wait_timeout(SOON).unwrap().unwrap(), 2);
    assert_eq!(*first.wait_timeout(SOON).unwrap().unwrap(), 1);
    assert!(!seen.load(Ordering::SeqCst), "never two bodies at once");
    assert_eq!(semaphore.available(), 1);
}

#[test]
fn b58_who_waits_without_a_spare_for_a_task_that_has_no_permit_runs_it_when_there_is_one() {
    let runtime = Runtime::builder().workers(1).io_threads(1).max_spares(0).build().unwrap();
    let caches = Caches::new(&runtime);
    let cache = caches.cache::<u64, u64>(1, Retain::none()).unwrap();
    let semaphore = CpuConcurrencySemaphore::new(1);
    let permit = semaphore.acquire();
    let task = CacheRequest::key(1).semaphore(semaphore.clone());
    let waits = runtime.spawn(move || cache.get_or_build(task, |_| Ok(1)).wait().map(|value| *value));
    // It says so when it sleeps without a spare.
    while runtime.counters().spares_missing == 0 {
        std::thread::yield_now();
    }
    drop(permit);
    assert!(matches!(waits.wait(), Ok(Ok(1))));
}
