//! What a cache keeps: bounds by number and by weight, second chances, evictions, also under many threads.
//! It does not know what the values are.

use shardrun::{Cache, Caches, Driver, Retain, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::scope;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(300);

fn small(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).io_threads(1).build().expect("a small runtime starts")
}

fn inline() -> Runtime {
    Runtime::builder().driver(Driver::Inline).build().expect("an inline runtime is built")
}

fn cache(runtime: &Runtime, retain: Retain<u64, u64>) -> Cache<u64, u64> {
    Caches::new(runtime).cache(1, retain).expect("nobody has opened it with other types")
}

fn ask(cache: &Cache<u64, u64>, key: u64) -> u64 {
    *cache.get_or_build(key, |cx| Ok(cx.key() * 2)).wait().expect("the builder does not fail")
}

#[test]
fn no_more_values_are_kept_than_the_bound_and_evictions_are_counted() {
    let runtime = inline();
    for bound in [0, 1, 10, 5_000] {
        let cache = cache(&runtime, Retain::count(bound as usize));
        for key in 0..6_000 {
            assert_eq!(ask(&cache, key), key * 2);
            assert!(cache.counters().kept <= bound);
        }
        let counters = cache.counters();
        assert_eq!(counters.kept, bound);
        assert_eq!(counters.evictions, if bound == 0 { 0 } else { 6_000 - bound });
        assert_eq!((counters.misses, counters.completed, counters.hits), (6_000, 6_000, 0));
    }
}

#[test]
fn a_value_that_is_used_has_a_second_chance() {
    let runtime = inline();
    let cache = cache(&runtime, Retain::count(10));
    (0..10).for_each(|key| _ = ask(&cache, key));
    for key in 10..1_000 {
        assert_eq!(cache.with(&3, |value| *value), Some(6), "before {key}");
        ask(&cache, key);
    }
    assert_eq!(cache.with(&4, |value| *value), None);
    assert_eq!(cache.counters().kept, 10);
}

#[test]
fn a_newcomer_makes_room_even_if_every_value_is_used() {
    let runtime = inline();
    let cache = cache(&runtime, Retain::count(100));
    for key in 0..1_000 {
        ask(&cache, key);
        (0..=key).for_each(|key| _ = cache.with(&key, |value| *value));
        assert!(cache.counters().kept <= 100);
    }
}

#[test]
fn values_are_bounded_by_their_weight_and_one_too_heavy_is_not_kept() {
    let runtime = inline();
    let cache = cache(&runtime, Retain::count(1_000).weight(100, |key, _| *key));
    for key in 1..=100 {
        ask(&cache, key);
        let counters = cache.counters();
        assert!(counters.weight <= 100, "{counters:?}");
        assert!(cache.with(&key, |_| ()).is_some() || counters.weight + key > 100);
    }
    ask(&cache, 101);
    assert!(cache.get(&101).is_none());
    let panics = self::cache(&runtime, Retain::all().weight(100, |_, _| panic!("on purpose")));
    assert_eq!(ask(&panics, 1), 2, "its value is there all the same");
    assert_eq!(panics.counters().kept, 0);
}

#[test]
fn an_evicted_value_is_dropped_and_what_is_under_way_is_not_kept() {
    let runtime = small(1);
    let caches = Caches::new(&runtime);
    let cache = caches.cache::<u64, Arc<()>>(1, Retain::all()).unwrap();
    let value = Arc::new(());
    let inside = value.clone();
    drop(cache.get_or_build(1, move |_| Ok(inside)).wait());
    assert!(cache.evict(&1) && !cache.evict(&1));
    let (begun, entered) = channel();
    let (open, gate) = channel::<()>();
    let under_way = cache.get_or_build(2, move |_| {
        begun.send(()).unwrap();
        let _ = gate.recv();
        Ok(Arc::new(()))
    });
    entered.recv_timeout(SOON).unwrap();
    assert!(cache.evict(&2), "it will not be kept");
    drop(open);
    assert!(under_way.wait().is_ok(), "who has asked gets it");
    assert!(cache.get(&2).is_none());
    assert_eq!(cache.counters().kept, 0);
}

#[test]
fn threads_that_ask_and_evict_leave_exact_counts() {
    let runtime = small(2);
    let cache = cache(&runtime, Retain::count(64));
    let evicted = AtomicUsize::new(0);
    scope(|scope| {
        for thread in 0..4 {
            let (cache, evicted) = (&cache, &evicted);
            scope.spawn(move || {
                for step in 0..2_000_u64 {
                    let key = (step * 31 + thread * 7) % 200;
                    match step % 8 {
                        0 => _ = evicted.fetch_add(usize::from(cache.evict(&key)), Ordering::SeqCst),
                        1..=3 => _ = cache.with(&key, |value| assert_eq!(*value, key * 2)),
                        _ => assert_eq!(ask(cache, key), key * 2),
                    }
                }
            });
        }
    });
    let counters = cache.counters();
    assert!(counters.kept <= 64, "{counters:?}");
    let kept = (0..200).filter(|key| cache.get(key).is_some()).count();
    assert_eq!(kept as u64, counters.kept, "what is counted is there");
    assert_eq!(counters.completed, counters.misses);
    assert!(counters.evictions <= counters.completed - counters.kept);
    assert_eq!(cache.clear(), kept);
    assert_eq!((cache.counters().kept, cache.counters().weight), (0, 0));
}

#[test]
fn weights_as_large_as_words_keep_their_bound_and_a_bound_of_nothing_keeps_nothing() {
    let runtime = inline();
    let heaviest = u64::MAX >> 3;
    let kept = |retain: Retain<u64, u64>| {
        let cache = cache(&runtime, retain);
        (0..40).for_each(|key| assert_eq!(ask(&cache, key), key * 2));
        (cache.counters().kept, cache.counters().weight)
    };
    assert_eq!(kept(Retain::all().weight(u64::MAX - 1, move |_, _| heaviest)), (1, heaviest));
    assert_eq!(kept(Retain::all().weight(u64::MAX - 1, |_, _| u64::MAX)), (0, 0));
    assert_eq!(kept(Retain::all().weight(u64::MAX, |_, _| 1)), (40, 40));
    assert_eq!(kept(Retain::all().weight(0, |key, _| *key)), (1, 0), "what weighs nothing may stay");
    assert_eq!(kept(Retain::count(0)), (0, 0));
    assert_eq!(kept(Retain::count(usize::MAX)), (40, 0));
    assert_eq!(kept(Retain::none().weight(u64::MAX, |_, _| 1)), (0, 0), "nothing stays nothing");
}
