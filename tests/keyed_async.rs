//! Values that are awaited: a future is an owner, stands in line for the budget without a thread, and withdraws when it is dropped.
//! Single flights with all that a request can say.

#[path = "support/gate.rs"]
mod gate;

use gate::{SOON, gate, small};
use shardrun::{
    Budget, Cache, CacheError, CacheRequest, Caches, CancellationToken, Clock, Driver, Interrupt, Priority,
    RequestContext, Retain, Runtime, SingleFlight, VirtualClock,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

fn inline() -> Runtime {
    Runtime::builder().driver(Driver::Inline).build().unwrap()
}

/// A cache of one runtime without threads, with a budget of so many units.
fn bounded(units: u32) -> (Runtime, Budget, Cache<u64, u64>) {
    let runtime = inline();
    let budget = Budget::for_runtime(units, &runtime);
    let cache = Caches::builder(&runtime).budget(budget.clone()).build().cache(1, Retain::all()).unwrap();
    (runtime, budget, cache)
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Woken {
    fn times(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn poll<F: Future + Unpin>(future: &mut F, woken: &Arc<Woken>) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&Waker::from(woken.clone())))
}

#[test]
fn a_future_asks_at_once_joins_hits_and_is_woken_once() {
    let (runtime, budget, cache) = bounded(1);
    let woken = Arc::new(Woken::default());
    let mut first = cache.get_or_build_async(1, |_| Ok(10));
    assert_eq!((budget.in_use(), cache.counters().misses), (1, 1), "it is under way before anybody polls");
    let mut second = cache.get_or_build_async(1, |_| unreachable!("it joins"));
    assert!(poll(&mut first, &woken).is_pending() && poll(&mut second, &woken).is_pending());
    runtime.drive_all();
    assert_eq!(woken.times(), 2, "each is told once");
    let (Poll::Ready(Ok(first)), Poll::Ready(Ok(second))) = (poll(&mut first, &woken), poll(&mut second, &woken))
    else {
        panic!("it is there")
    };
    assert!(Arc::ptr_eq(&first, &second) && *first == 10);
    let Poll::Ready(Ok(kept)) = poll(&mut cache.get_or_build_async(1, |_| unreachable!("it is kept")), &woken) else {
        panic!("a hit is there at once")
    };
    assert!(Arc::ptr_eq(&first, &kept));
    assert_eq!(budget.in_use(), 0);
}

#[test]
fn a_future_that_is_dropped_withdraws_and_the_last_one_ends_the_computation() {
    let (runtime, budget, cache) = bounded(4);
    let alive = Arc::new(());
    let inside = alive.clone();
    let first = cache.get_or_build_async(1, move |_| Ok(Arc::strong_count(&inside) as u64));
    let second = cache.get_or_build_async(1, |_| unreachable!("it joins"));
    drop(first);
    assert_eq!((budget.in_use(), cache.counters().cancelled), (1, 0), "somebody wants it still");
    drop(second);
    assert_eq!((budget.in_use(), cache.counters().cancelled), (0, 1));
    assert_eq!(Arc::strong_count(&alive), 1, "the builder is dropped at once");
    runtime.drive_all();
    assert!(cache.get(&1).is_none());
    // The same while the builder runs: its token is raised.
    let runtime = small(1);
    let cache = Caches::new(&runtime).cache::<u64, bool>(1, Retain::all()).unwrap();
    let (begun, gone) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (inside, left) = (begun.clone(), gone.clone());
    let seen = Arc::new(Mutex::new(None));
    let sees = seen.clone();
    let asking = cache.get_or_build_async(1, move |cx| {
        inside.wait();
        left.wait();
        *sees.lock().unwrap() = Some(cx.token().is_cancelled());
        Ok(true)
    });
    begun.wait();
    drop(asking);
    gone.wait();
    assert!(*cache.get_or_build(1, |_| Ok(true)).wait().unwrap(), "and who comes later begins anew");
    runtime.shutdown();
    assert_eq!(*seen.lock().unwrap(), Some(true));
}

#[test]
fn a_future_stands_in_line_for_the_budget_without_a_thread_and_makes_way_when_it_is_dropped() {
    let (runtime, budget, cache) = bounded(1);
    let woken: [Arc<Woken>; 3] = Default::default();
    let first = cache.get_or_build(1, |_| Ok(1));
    let builder = Arc::new(());
    let inside = builder.clone();
    let mut second = cache.get_or_build_async(2, move |_| Ok(Arc::strong_count(&inside) as u64));
    let mut third = cache.get_or_build_async(3, |_| Ok(3));
    let mut join = cache.get_or_build_async(1, |_| unreachable!("a join needs no unit"));
    assert_eq!(budget.waiting(), 0, "the line begins with the first poll");
    assert!(poll(&mut second, &woken[0]).is_pending() && poll(&mut third, &woken[1]).is_pending());
    assert_eq!((budget.waiting(), budget.in_use()), (2, 1), "who waits holds nothing");
    drop(second);
    assert_eq!((budget.waiting(), Arc::strong_count(&builder)), (1, 1));
    runtime.drive_all();
    assert_eq!(*first.wait().unwrap(), 1);
    assert!(matches!(poll(&mut join, &woken[2]), Poll::Ready(Ok(value)) if *value == 1));
    assert_eq!(woken.each_ref().map(|woken| woken.times()), [0, 1, 0], "the unit went to the next in line");
    assert!(poll(&mut third, &woken[1]).is_pending());
    runtime.drive_all();
    assert!(matches!(poll(&mut third, &woken[1]), Poll::Ready(Ok(value)) if *value == 3));
    assert_eq!((budget.in_use(), budget.waiting()), (0, 0));
    // A unit that was granted and not looked at goes on to the next.
    let held = cache.get_or_build(4, |_| Ok(4));
    let mut granted = cache.get_or_build_async(5, |_| Ok(5));
    assert!(poll(&mut granted, &woken[0]).is_pending());
    runtime.drive_all();
    assert_eq!((budget.in_use(), woken[0].times()), (1, 1));
    drop((granted, held));
    assert_eq!(budget.in_use(), 0);
}

#[test]
fn who_stands_in_line_joins_what_others_have_begun_meanwhile_and_gives_its_unit_back() {
    let (runtime, budget, cache) = bounded(2);
    let woken = Arc::new(Woken::default());
    let others = [1, 2].map(|key| cache.get_or_build(key, |cx| Ok(*cx.key())));
    let mut asking = cache.get_or_build_async(3, |_| unreachable!("somebody else was first"));
    assert!(poll(&mut asking, &woken).is_pending());
    runtime.drive_one();
    assert_eq!(woken.times(), 1, "it has its unit");
    // Beyond the line: inside a job nobody is made to wait.
    let inner = cache.clone();
    let job = runtime.spawn(move || *inner.get_or_build(3, |_| Ok(33)).wait().unwrap());
    assert_eq!(job.wait().unwrap(), 33);
    assert!(matches!(poll(&mut asking, &woken), Poll::Ready(Ok(value)) if *value == 33));
    drop(others);
    runtime.drive_all();
    assert_eq!(budget.in_use(), 0);
}

#[test]
fn a_token_and_a_deadline_end_a_wait_in_line_and_a_wait_for_the_value() {
    let (runtime, budget, cache) = bounded(1);
    let woken: [Arc<Woken>; 2] = Default::default();
    let first = cache.get_or_build(1, |_| Ok(1));
    let (token, soon) = (CancellationToken::new(), Duration::from_secs(5));
    let mut told = cache.get_or_build_async(CacheRequest::key(2).token(token.clone()), |_| unreachable!("cancelled"));
    let mut late = cache.get_or_build_async(CacheRequest::key(3).deadline(soon), |_| unreachable!("too late"));
    for _ in 0..2 {
        assert!(poll(&mut told, &woken[0]).is_pending() && poll(&mut late, &woken[1]).is_pending());
    }
    token.cancel();
    assert_eq!(woken[0].times(), 1);
    assert!(matches!(poll(&mut told, &woken[0]), Poll::Ready(Err(CacheError::Cancelled))));
    first.cancel();
    drop(first);
    // The unit is granted to the one that is left, whose time has come as well.
    runtime.advance(soon);
    runtime.drive_all();
    assert!(woken[1].times() >= 1);
    let Poll::Ready(Err(CacheError::Interrupted(why))) = poll(&mut late, &woken[1]) else {
        panic!("its time has come")
    };
    assert_eq!(why, Interrupt::DeadlinePassed);
    drop((told, late));
    assert_eq!((budget.in_use(), budget.waiting()), (0, 0));
    // Let in, they end the wait for the value, and the computation with it.
    let (token, later) = (CancellationToken::new(), runtime.now() + soon);
    let mut told = cache.get_or_build_async(CacheRequest::key(2).token(token.clone()), |_| unreachable!("cancelled"));
    assert!(poll(&mut told, &woken[0]).is_pending());
    token.cancel();
    assert!(matches!(poll(&mut told, &woken[0]), Poll::Ready(Err(CacheError::Cancelled))));
    let mut late = cache.get_or_build_async(CacheRequest::key(3).deadline(later), |_| unreachable!("too late"));
    runtime.advance(soon);
    runtime.drive_all();
    assert!(matches!(poll(&mut late, &woken[1]), Poll::Ready(Err(CacheError::Interrupted(Interrupt::DeadlinePassed)))));
    runtime.drive_all();
    // Over before it asks: nothing is begun.
    let misses = cache.counters().misses;
    let over = [CacheRequest::key(4).token(token), CacheRequest::key(4).deadline(later)];
    for request in over {
        assert!(cache.get_or_build(request, |_| unreachable!("it is over")).wait().is_err());
    }
    assert_eq!((cache.counters().misses, budget.in_use()), (misses, 0));
}

#[test]
fn a_deadline_bounds_the_wait_of_a_thread_for_the_budget_too() {
    let runtime = small(1);
    let budget = Budget::for_runtime(1, &runtime);
    let cache = Caches::builder(&runtime).budget(budget.clone()).build().cache::<u64, u64>(1, Retain::all()).unwrap();
    let open = gate(&runtime);
    let first = cache.get_or_build(1, |_| Ok(1));
    let request = CacheRequest::key(2).deadline(runtime.now() + Duration::from_millis(1));
    let late = cache.get_or_build(request, |_| unreachable!("there is no unit"));
    assert!(matches!(late.wait(), Err(CacheError::Interrupted(Interrupt::DeadlinePassed))));
    drop(open);
    assert_eq!(*first.wait().unwrap(), 1);
    runtime.shutdown();
    assert_eq!(budget.in_use(), 0);
}

/// By the clock that deadlines are on, and by no other; a token ends that wait too.
#[test]
fn a_deadline_and_a_token_end_a_threads_wait_for_the_budget_by_the_runtimes_clock() {
    let clock = Arc::new(VirtualClock::new());
    let runtime = Runtime::builder().workers(1).io_threads(0).clock(clock.clone()).build().unwrap();
    let budget = Budget::new(1);
    let cache = Caches::builder(&runtime).budget(budget.clone()).build().cache::<u64, u64>(1, Retain::all()).unwrap();
    let asks = |key: u64, limits: &dyn Fn(CacheRequest<u64>) -> CacheRequest<u64>| {
        let (request, cache, (send, told)) = (limits(CacheRequest::key(key)), cache.clone(), channel());
        std::thread::spawn(move || {
            send.send(cache.get_or_build(request, |_| Ok(7)).wait().map(|value| *value)).unwrap()
        });
        while budget.waiting() == 0 {
            assert!(told.try_recv().is_err(), "there is no unit, and no time has passed");
            std::thread::yield_now();
        }
        told
    };
    let next = |told: std::sync::mpsc::Receiver<_>| told.recv_timeout(SOON).expect("it ends");
    let held = budget.acquire(1).unwrap();
    let soon = asks(1, &|request| request.deadline(clock.now() + Duration::from_nanos(1)));
    drop(held);
    assert_eq!(next(soon).unwrap(), 7, "no time has passed");
    while budget.in_use() > 0 {
        std::thread::yield_now();
    }
    let held = budget.acquire(1).unwrap();
    let hour = Duration::from_secs(3_600);
    let late = asks(2, &|request| request.deadline(clock.now() + hour));
    clock.advance(hour);
    assert!(matches!(next(late), Err(CacheError::Interrupted(Interrupt::DeadlinePassed))));
    let token = CancellationToken::new();
    let cancelled = asks(3, &|request| request.token(token.clone()));
    token.cancel();
    let told = next(cancelled);
    assert!(matches!(told, Err(CacheError::Cancelled)), "{told:?}");
    assert_eq!(budget.waiting(), 0);
    drop(held);
}

/// Of a runtime without threads: a job that is driven moves the clock beyond the deadline, and frees nothing.
#[test]
fn a_deadline_that_comes_while_the_runtime_is_driven_is_told_as_such() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let budget = Budget::for_runtime(1, &runtime);
    let cache = Caches::builder(&runtime).budget(budget.clone()).build().cache::<u64, u64>(1, Retain::all()).unwrap();
    let _held = budget.acquire(1).unwrap();
    let mover = runtime.clone();
    runtime.execute(move || assert!(mover.advance(Duration::from_secs(2)))).unwrap();
    let request = CacheRequest::key(1).deadline(runtime.now() + Duration::from_secs(1));
    let told = cache.get_or_build(request, |_| unreachable!("there is no unit")).wait();
    assert!(matches!(told, Err(CacheError::Interrupted(Interrupt::DeadlinePassed))), "{told:?}");
    let request = CacheRequest::key(1).deadline(runtime.now() + Duration::from_secs(1));
    let told = cache.get_or_build(request, |_| unreachable!("there is no unit")).wait();
    assert!(matches!(told, Err(CacheError::Interrupted(Interrupt::Stalled))), "{told:?}");
}

#[test]
fn tasks_that_await_values_within_a_small_budget_all_end_and_hold_no_thread() {
    let runtime = small(2);
    let budget = Budget::for_runtime(2, &runtime);
    let cache =
        Caches::builder(&runtime).budget(budget.clone()).build().cache::<u64, u64>(1, Retain::count(8)).unwrap();
    let open = gate(&runtime);
    let mut tasks: Vec<_> = (0..64)
        .map(|task| {
            let cache = cache.clone();
            runtime.spawn_future(async move {
                let mut sum = 0;
                for step in 0..8_u64 {
                    let key = (task * 7 + step) % 24;
                    let nested = cache.clone();
                    // A builder that needs another value, which it may not wait for a unit for.
                    let value = cache.get_or_build_async(key, move |cx| match cx.key() {
                        0..8 => Ok(*cx.key()),
                        key => Ok(*nested.get_or_build(key - 8, |cx| Ok(*cx.key())).wait().unwrap() + 8),
                    });
                    if step == 3 {
                        drop(value);
                        continue;
                    }
                    assert_eq!(*value.await.unwrap() % 8, key % 8);
                    sum += 1;
                }
                sum
            })
        })
        .collect();
    drop(open);
    for task in &mut tasks {
        assert_eq!(task.wait_timeout(SOON).expect("it ends").unwrap(), 7);
    }
    drop(tasks);
    runtime.shutdown();
    let counters = cache.counters();
    assert_eq!((budget.in_use(), budget.waiting()), (0, 0));
    assert_eq!(counters.misses, counters.completed + counters.cancelled, "each that was begun has ended once");
}

#[test]
fn a_shutdown_answers_those_in_line() {
    let (runtime, budget, cache) = bounded(1);
    let woken = Arc::new(Woken::default());
    let first = cache.get_or_build(1, |_| unreachable!("nobody drives"));
    let mut second = cache.get_or_build_async(2, |_| unreachable!("nobody drives"));
    assert!(poll(&mut second, &woken).is_pending());
    runtime.shutdown();
    assert!(matches!(first.wait(), Err(CacheError::Shutdown)));
    assert_eq!(woken.times(), 1);
    assert!(matches!(poll(&mut second, &woken), Poll::Ready(Err(CacheError::Shutdown))));
    assert_eq!(budget.in_use(), 0);
}

#[test]
fn a_budget_of_nothing_is_an_answer_in_every_form() {
    let (runtime, _budget, cache) = bounded(0);
    let woken = Arc::new(Woken::default());
    let refused = cache.try_get_or_build(1, |_| Ok(1)).into_result().unwrap_err();
    assert_eq!((refused.asked, refused.free, refused.capacity), (1, 0, 0));
    let waits = cache.get_or_build(1, |_| Ok(1)).wait();
    assert!(matches!(waits, Err(CacheError::Interrupted(Interrupt::Stalled))), "{waits:?}");
    let Poll::Ready(Err(CacheError::Interrupted(why))) = poll(&mut cache.get_or_build_async(1, |_| Ok(1)), &woken)
    else {
        panic!("it would wait for ever")
    };
    assert_eq!(why, Interrupt::Stalled);
    drop(runtime);
}

fn trees(runtime: &Runtime, budget: Option<Budget>) -> SingleFlight<u64, u64> {
    let caches = budget.into_iter().fold(Caches::builder(runtime), |caches, budget| caches.budget(budget));
    caches.build().single_flight(1, Retain::all()).unwrap()
}

#[test]
fn a_single_flight_takes_a_priority_a_context_a_token_and_a_deadline() {
    let runtime = inline();
    let trees = trees(&runtime, None);
    let order = Arc::new(Mutex::new(Vec::new()));
    let ask = |key: u64, priority| {
        let order = order.clone();
        let request = CacheRequest::key(key).priority(priority).context(RequestContext::new(priority));
        trees.get(request, 1, move |cx| {
            let context = RequestContext::current().and_then(|context| context.get::<Priority>().copied());
            order.lock().unwrap().push((*cx.key(), context));
            Ok(*cx.key())
        })
    };
    let handles = [ask(1, Priority::Maintenance), ask(2, Priority::Maintenance), ask(2, Priority::Critical)];
    runtime.drive_all();
    let said = Some(Priority::Maintenance);
    assert_eq!(*order.lock().unwrap(), [(2, said), (1, said)], "as urgent as the most urgent who asked");
    drop(handles);
    let (token, soon) = (CancellationToken::new(), Duration::from_secs(5));
    let told = trees.get(CacheRequest::key(3).token(token.clone()), 1, |_| Ok(3));
    let late = trees.get(CacheRequest::key(3).deadline(soon), 1, |_| unreachable!("it joins"));
    let stays = trees.get(3, 1, |_| unreachable!("it joins"));
    token.cancel();
    runtime.advance(soon);
    assert!(matches!(told.wait(), Err(CacheError::Cancelled)));
    assert!(matches!(late.wait(), Err(CacheError::Interrupted(Interrupt::DeadlinePassed))));
    assert_eq!(*stays.wait().unwrap(), 3, "the others are left alone");
    let misses = trees.counters().misses;
    let over = trees.get(CacheRequest::key(4).token(token.clone()), 1, |_| unreachable!("it is over"));
    assert!(matches!(over.wait(), Err(CacheError::Cancelled)));
    assert_eq!(trees.counters().misses, misses);
    let there = trees.get(CacheRequest::key(3).token(token), 1, |_| unreachable!("it is there"));
    assert_eq!(*there.wait().unwrap(), 3, "what is there costs nothing");
}

#[test]
fn a_single_flight_that_is_awaited_is_an_owner_and_stands_in_line() {
    let runtime = inline();
    let budget = Budget::for_runtime(1, &runtime);
    let trees = trees(&runtime, Some(budget.clone()));
    let woken: [Arc<Woken>; 3] = Default::default();
    let alive = Arc::new(());
    let inside = alive.clone();
    let first = trees.get_async(1, 1, move |_| Ok(Arc::strong_count(&inside) as u64));
    let mut second = trees.get_async(2, 5, |_| Ok(25));
    let mut older = trees.get_async(2, 3, |_| unreachable!("a newer one serves"));
    let mut gone = trees.get_async(3, 1, |_| unreachable!("it is dropped in line"));
    assert!(poll(&mut second, &woken[0]).is_pending());
    assert!(poll(&mut older, &woken[1]).is_pending());
    assert!(poll(&mut gone, &woken[2]).is_pending());
    assert_eq!(budget.waiting(), 3);
    drop((first, gone));
    assert_eq!(Arc::strong_count(&alive), 1, "nobody wants the first any more");
    assert_eq!((woken[0].times(), budget.waiting(), budget.in_use()), (1, 1, 1));
    assert!(poll(&mut second, &woken[0]).is_pending());
    runtime.drive_all();
    assert!(matches!(poll(&mut second, &woken[0]), Poll::Ready(Ok(value)) if *value == 25));
    assert!(matches!(poll(&mut older, &woken[1]), Poll::Ready(Ok(value)) if *value == 25));
    assert_eq!((budget.in_use(), budget.waiting(), trees.counters().misses), (0, 0, 2));
}
