//! Cache nodes: one builder for all who ask at once, aggregate cancellation, failures, re-entry, the budget, shutdown.
//! It does not know how a cache finds its keys.

use shardrun::{
    Admission, Budget, Cache, CacheError, CacheRequest, Caches, CancellationToken, Driver, KeyedView, Priority,
    RequestContext, Retain, Runtime, TaskKind,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::scope;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(300);

fn small(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).io_threads(1).build().expect("a small runtime starts")
}

type Words = Cache<u64, String, String>;

fn words(runtime: &Runtime, retain: Retain<u64, String>) -> Words {
    Caches::new(runtime).fallible(1, retain).expect("nobody has opened it with other types")
}

fn inline() -> Runtime {
    Runtime::builder().driver(Driver::Inline).build().expect("an inline runtime is built")
}

/// A builder that says that it has begun, and ends when it is let go.
fn held(cache: &Words, key: u64) -> (shardrun::CacheHandle<String, String>, Sender<()>, CancellationToken) {
    let (begun, inside) = channel();
    let (open, gate) = channel::<()>();
    let handle = cache.get_or_build(key, move |cx| {
        begun.send(cx.token().clone()).unwrap();
        let _ = gate.recv();
        Ok(format!("held {}", cx.key()))
    });
    let token = inside.recv_timeout(SOON).expect("the builder begins");
    (handle, open, token)
}

#[test]
fn s101_eight_threads_that_ask_at_once_share_one_value_and_another_view_is_computed_apart() {
    let runtime = small(2);
    let cache = words(&runtime, Retain::none());
    for view in [KeyedView::default(), KeyedView::epoch(1), KeyedView::epoch(1).pinned(2)] {
        let calls = Arc::new(AtomicUsize::new(0));
        let start = Barrier::new(8);
        let asked = Arc::new(Barrier::new(9));
        let values: Vec<Arc<String>> = scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    let (calls, all) = (calls.clone(), asked.clone());
                    let (start, asked, cache) = (&start, &asked, &cache);
                    scope.spawn(move || {
                        start.wait();
                        let handle = cache.get_or_build(CacheRequest::key(7).view(view), move |cx| {
                            calls.fetch_add(1, Ordering::SeqCst);
                            // Until all have asked.
                            all.wait();
                            Ok(format!("{:?}", cx.view()))
                        });
                        asked.wait();
                        handle.wait().unwrap()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(calls.load(Ordering::SeqCst), 1, "one builder");
        assert!(values.iter().all(|value| Arc::ptr_eq(value, &values[0])), "one value");
        assert_eq!(*values[0], format!("{view:?}"));
    }
    let counters = cache.counters();
    assert_eq!((counters.misses, counters.joins, counters.completed), (3, 21, 3));
}

#[test]
fn s102_the_first_withdraws_and_a_sibling_gets_the_value() {
    let runtime = small(1);
    let cache = words(&runtime, Retain::none());
    let (first, open, token) = held(&cache, 1);
    let sibling = cache.get_or_build(1, |_| unreachable!("it joins"));
    first.cancel();
    assert!(matches!(first.wait(), Err(CacheError::Cancelled)), "at once");
    assert!(!token.is_cancelled(), "somebody wants it still");
    drop(open);
    assert_eq!(*sibling.wait().unwrap(), "held 1");
    assert!(!token.is_cancelled());
}

#[test]
fn s102_all_withdraw_and_nothing_is_published_and_a_late_owner_begins_anew() {
    let runtime = small(2);
    let cache = words(&runtime, Retain::count(10));
    let (first, open, token) = held(&cache, 1);
    let second = cache.get_or_build(1, |_| unreachable!("it joins"));
    first.cancel();
    assert!(!token.is_cancelled());
    second.cancel();
    assert!(token.is_cancelled(), "the last one out raises it");
    for gone in [first, second] {
        assert!(matches!(gone.wait(), Err(CacheError::Cancelled)));
    }
    // The old builder runs still. A late owner has a flight of its own, which the old one's end leaves alone.
    let (late, open_late, token_late) = held(&cache, 1);
    drop(open);
    let other = cache.get_or_build(1, |_| unreachable!("it joins the late one"));
    drop(open_late);
    assert_eq!(*late.wait().unwrap(), "held 1");
    assert_eq!(*other.wait().unwrap(), "held 1");
    assert!(token.is_cancelled() && !token_late.is_cancelled());
    assert_eq!(cache.with(&1, String::clone).as_deref(), Some("held 1"), "the successor's value is kept");
    let counters = cache.counters();
    assert_eq!((counters.completed, counters.cancelled, counters.kept), (1, 1, 1));
}

#[test]
fn the_token_of_a_builder_is_raised_if_and_only_if_all_owners_have_gone() {
    let runtime = inline();
    let cache = words(&runtime, Retain::none());
    let token = Arc::new(Mutex::new(None));
    let seen = token.clone();
    let first = cache.get_or_build(1, move |cx| {
        *seen.lock().unwrap() = Some(cx.token().clone());
        Ok(String::new())
    });
    let own = CancellationToken::new();
    let second = cache.get_or_build(CacheRequest::key(1).token(own.clone()), |_| unreachable!("it joins"));
    own.cancel();
    // Detached is no withdrawal.
    drop(first);
    runtime.drive_all();
    assert!(!token.lock().unwrap().take().expect("it ran").is_cancelled());
    assert!(matches!(second.wait(), Err(CacheError::Cancelled)));
}

#[test]
fn what_nobody_wants_any_more_is_not_begun() {
    let runtime = inline();
    let cache = words(&runtime, Retain::none());
    let alive = Arc::new(());
    let inside = alive.clone();
    let handle = cache.get_or_build(1, move |_| unreachable!("nobody wants it {inside:?}"));
    drop(handle.cancel_on_drop());
    assert_eq!(Arc::strong_count(&alive), 1, "the builder is dropped at once");
    runtime.drive_all();
    assert_eq!(cache.counters().cancelled, 1);
}

#[test]
fn i123_who_asks_for_its_own_value_is_told_and_nothing_is_submitted() {
    let runtime = small(1);
    let cache = words(&runtime, Retain::none());
    let inner = cache.clone();
    let answer = cache.get_or_build(1, move |_| {
        let mut again = inner.get_or_build(1, |_| unreachable!("it is re-entrant"));
        let Some(Err(CacheError::Reentrant(cycle))) = again.try_get() else { panic!("told at once") };
        Ok(cycle.to_string())
    });
    let said = answer.wait().unwrap();
    assert!(said.contains("cache 1 of 1"), "{said}");
    let counters = cache.counters();
    assert_eq!((counters.misses, counters.joins), (1, 0), "nothing was submitted");
}

#[test]
fn i123_a_ring_of_values_over_several_threads_is_told_to_one_of_them() {
    let runtime = small(2);
    let cache = words(&runtime, Retain::none());
    let both = Arc::new(Barrier::new(2));
    let ask = |mine: u64, other: u64| {
        let (inner, both) = (cache.clone(), both.clone());
        cache.get_or_build(mine, move |_| {
            both.wait();
            match inner.get_or_build(other, |_| unreachable!("it is under way")).wait() {
                Ok(value) => Ok(format!("after {value}")),
                Err(CacheError::Reentrant(cycle)) => Ok(format!("first, of {}", cycle.members().len())),
                Err(other) => Err(format!("{other}")),
            }
        })
    };
    let (one, two) = (ask(1, 2), ask(2, 1));
    let mut said = [one.wait().unwrap(), two.wait().unwrap()].map(|said| String::clone(&said));
    said.sort();
    assert_eq!(said, ["after first, of 2", "first, of 2"]);
}

#[test]
fn s104_a_panic_is_told_to_all_and_the_next_call_computes_anew() {
    let runtime = inline();
    let budget = Budget::for_runtime(1, &runtime);
    let caches = Caches::builder(&runtime).budget(budget.clone()).build();
    let cache = caches.fallible::<u64, String, String>(1, Retain::count(8)).unwrap();
    let handles: Vec<_> = (0..8).map(|_| cache.get_or_build(1, |_| panic!("on purpose"))).collect();
    assert_eq!(budget.in_use(), 1);
    runtime.drive_all();
    for handle in handles {
        let Err(CacheError::Panicked(report)) = handle.wait() else { panic!("all are told") };
        assert_eq!(report.message(), "on purpose");
    }
    assert_eq!(budget.in_use(), 0, "the unit is given back");
    assert_eq!(*cache.get_or_build(1, |_| Ok("well".to_owned())).wait().unwrap(), "well");
    let counters = cache.counters();
    assert_eq!((counters.completed, counters.cancelled), (1, 1));
}

#[test]
fn i126_a_typed_error_is_shared_and_not_kept() {
    let runtime = inline();
    let cache = words(&runtime, Retain::all());
    let handles = [(); 3].map(|()| cache.get_or_build(1, |_| Err("no such thing".to_owned())));
    runtime.drive_all();
    for handle in handles {
        let error = handle.wait().unwrap_err();
        assert_eq!(error.failure().map(String::as_str), Some("no such thing"));
    }
    let counters = cache.counters();
    assert_eq!((counters.completed, counters.cancelled, counters.kept), (0, 1, 0));
    assert_eq!(*cache.get_or_build(1, |_| Ok("now".to_owned())).wait().unwrap(), "now");
}

#[test]
fn i124_a_cache_is_opened_with_one_set_of_types() {
    let runtime = inline();
    let caches = Caches::new(&runtime);
    let first = caches.cache::<u64, u64>(5, Retain::all()).unwrap();
    assert_eq!(*first.get_or_build(1, |_| Ok(2)).wait().unwrap(), 2);
    let again = caches.cache::<u64, u64>(5, Retain::none()).unwrap();
    assert_eq!(again.with(&1, |value| *value), Some(2), "the same cache");
    let refused = caches.cache::<u64, String>(5, Retain::all()).unwrap_err();
    assert!(refused.to_string().starts_with("cache 5 holds (u64, u64, "), "{refused}");
    assert!(caches.cache::<u64, String>(6, Retain::all()).is_ok());
}

#[test]
fn a_value_for_those_who_wait_is_not_kept() {
    let runtime = inline();
    let cache = words(&runtime, Retain::all());
    let handles = [(); 2].map(|()| {
        cache.get_or_build(1, |cx| {
            cx.return_only();
            Ok("once".to_owned())
        })
    });
    assert!(handles.into_iter().all(|handle| *handle.wait().unwrap() == "once"));
    assert!(cache.get(&1).is_none());
    assert_eq!((cache.counters().completed, cache.counters().kept), (1, 0));
}

#[test]
fn a_shutdown_answers_all_who_wait() {
    let runtime = inline();
    let budget = Budget::for_runtime(4, &runtime);
    let caches = Caches::builder(&runtime).budget(budget.clone()).build();
    let cache = caches.cache::<u64, u64>(1, Retain::all()).unwrap();
    let handles = [1, 1, 2].map(|key| cache.get_or_build(key, |_| Ok(0)));
    assert_eq!(budget.in_use(), 2);
    runtime.shutdown();
    for handle in handles {
        assert!(matches!(handle.wait(), Err(CacheError::Shutdown)));
    }
    assert!(matches!(cache.get_or_build(3, |_| Ok(0)).wait(), Err(CacheError::Shutdown)), "and who comes later");
    assert_eq!((budget.in_use(), cache.counters().cancelled), (0, 3));
}

#[test]
fn a_spent_budget_declines_a_beginning_and_neither_a_join_nor_a_hit() {
    let runtime = inline();
    let budget = Budget::for_runtime(1, &runtime);
    let caches = Caches::builder(&runtime).budget(budget.clone()).build();
    let cache = caches.cache::<u64, u64>(1, Retain::all()).unwrap();
    let Admission::Admitted(first) = cache.try_get_or_build(1, |_| Ok(1)) else { panic!("there is a unit") };
    let Admission::DedupeJoined(join) = cache.try_get_or_build(1, |_| Ok(2)) else { panic!("a join costs none") };
    let Admission::Backpressured(refused) = cache.try_get_or_build(2, |_| Ok(2)) else { panic!("it is spent") };
    assert_eq!((refused.asked, refused.free, refused.capacity), (1, 0, 1));
    first.cancel();
    assert_eq!(budget.in_use(), 1, "the other wants it still");
    join.cancel();
    assert_eq!(budget.in_use(), 0, "given back at once");
    assert_eq!(*cache.get_or_build(2, |_| Ok(3)).wait().unwrap(), 3);
    assert!(matches!(cache.try_get_or_build(2, |_| Ok(4)), Admission::Admitted(_)));
    assert_eq!((budget.in_use(), cache.counters().hits), (0, 1));
    drop((first, join));
}

#[test]
fn the_first_who_asks_says_on_whose_behalf_and_the_most_urgent_how_soon() {
    let runtime = inline();
    let cache = words(&runtime, Retain::none());
    let order = Arc::new(Mutex::new(Vec::new()));
    let ask = |key: u64, priority| {
        let order = order.clone();
        let request = CacheRequest::key(key).priority(priority).context(RequestContext::new(priority));
        cache.get_or_build(request, move |cx| {
            let context = RequestContext::current().and_then(|context| context.get::<Priority>().copied());
            order.lock().unwrap().push((*cx.key(), context));
            Ok(String::new())
        })
    };
    let slow = [ask(1, Priority::Maintenance), ask(2, Priority::Maintenance), ask(2, Priority::Critical)];
    runtime.drive_all();
    let maintenance = Some(Priority::Maintenance);
    assert_eq!(*order.lock().unwrap(), [(2, maintenance), (1, maintenance)]);
    drop(slow);
}

#[test]
fn loads_run_on_the_io_threads_and_all_else_on_the_workers() {
    let runtime = Runtime::builder().workers(1).io_threads(1).thread_name("work").build().unwrap();
    let caches = Caches::new(&runtime);
    let cache = caches.cache::<u64, String>(1, Retain::none()).unwrap();
    let name = |kind| {
        let request = CacheRequest::key(1).kind(kind);
        let here = || std::thread::current().name().unwrap_or_default().to_owned();
        cache.get_or_build(request, move |_| Ok(here())).wait().unwrap()
    };
    let load = name(TaskKind::Load);
    for kind in [TaskKind::Parse, TaskKind::Analysis, TaskKind::Artifact, TaskKind::CacheNode] {
        assert_ne!(*name(kind), *load, "{kind:?}");
    }
}
