//! Keys and values that panic: nothing is poisoned, nobody waits for ever, and the engine's own state stays whole.
//! It does not know what a good key is.

use shardrun::{Admission, Budget, Cache, CacheError, Caches, Driver, Retain, Runtime};
use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(300);

/// A key that may panic where the host's code is called, and whose hash says nothing.
#[derive(Debug)]
struct Bad {
    number: u64,
    at: At,
    dropped: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Nowhere,
    Hash,
    Eq,
    Drop,
}

impl PartialEq for Bad {
    fn eq(&self, other: &Self) -> bool {
        assert!(self.at != At::Eq && other.at != At::Eq, "on purpose, comparing");
        self.number == other.number
    }
}

impl Eq for Bad {}

impl Hash for Bad {
    fn hash<H: Hasher>(&self, _: &mut H) {
        assert!(self.at != At::Hash, "on purpose, hashing");
    }
}

impl Drop for Bad {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
        assert!(self.at != At::Drop || std::thread::panicking(), "on purpose, dropping");
    }
}

#[test]
fn keys_that_all_have_one_hash_are_merely_slow_and_those_that_panic_harm_nobody() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let caches = Caches::new(&runtime);
    let cache = caches.cache::<Bad, u64>(1, Retain::count(100)).unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let key = |number, at| Bad { number, at, dropped: dropped.clone() };
    for number in 0..20 {
        let at = if number % 3 == 0 { At::Drop } else { At::Nowhere };
        assert_eq!(*cache.get_or_build(key(number, at), |cx| Ok(cx.key().number)).wait().unwrap(), number);
    }
    for at in [At::Hash, At::Eq] {
        let refused = cache.get_or_build(key(7, at), |_| unreachable!("nothing is begun")).wait();
        assert!(matches!(refused, Err(CacheError::Panicked(_))), "{at:?}: {refused:?}");
        assert_eq!(cache.with(&key(7, at), |value| *value), None);
        assert!(!cache.evict(&key(7, at)));
    }
    for number in 0..20 {
        assert_eq!(cache.with(&key(number, At::Nowhere), |value| *value), Some(number));
    }
    assert_eq!(cache.counters().kept, 20);
    assert_eq!(cache.clear(), 20);
    assert_eq!(cache.counters().kept, 0);
    // A panic of a destructor is contained, and keeps no other key.
    drop((cache, caches));
    runtime.drive_all();
    assert_eq!(dropped.load(Ordering::SeqCst), 20 + 6 + 20);
}

/// A value whose destructor uses the cache, and panics.
struct Back(Arc<dyn Fn() + Send + Sync>);

impl Drop for Back {
    fn drop(&mut self) {
        (self.0)();
        assert!(std::thread::panicking(), "on purpose");
    }
}

#[test]
fn a_values_destructor_may_use_the_cache_and_panic() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let caches = Caches::new(&runtime);
    let cache = caches.cache::<u64, Back>(1, Retain::count(2)).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    for key in 0..100 {
        let (inner, calls) = (cache.clone(), calls.clone());
        let back = move || {
            calls.fetch_add(1, Ordering::SeqCst);
            inner.with(&(key + 1), |_| ());
            inner.evict(&(key + 1));
        };
        drop(cache.get_or_build(key, move |_| Ok(Back(Arc::new(back)))));
        runtime.drive_all();
    }
    cache.clear();
    for _ in 0..100 {
        // What the map has let go of is freed by and by.
        cache.evict(&0);
    }
    assert!(cache.counters().kept <= 2);
    assert!(calls.load(Ordering::SeqCst) > 50, "most are gone by now");
}

#[test]
fn a_builder_that_is_never_called_is_dropped_with_its_panic_contained() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "on purpose");
        }
    }
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let caches = Caches::new(&runtime);
    let cache = caches.cache::<u64, u64>(1, Retain::all()).unwrap();
    let bomb = || {
        let bomb = Bomb;
        move |_: &shardrun::BuildCx<'_, u64>| {
            std::mem::forget(bomb);
            Ok(1)
        }
    };
    let first = cache.get_or_build(1, bomb());
    let joined = cache.get_or_build(1, bomb());
    assert_eq!((*first.wait().unwrap(), *joined.wait().unwrap()), (1, 1));
    assert_eq!(*cache.get_or_build(1, bomb()).wait().unwrap(), 1);
    let cancelled = cache.get_or_build(2, bomb());
    cancelled.cancel();
    assert!(matches!(cancelled.wait(), Err(CacheError::Cancelled)));
    let bounded = Caches::builder(&runtime).budget(Budget::for_runtime(1, &runtime)).build();
    let cache = bounded.cache::<u64, u64>(1, Retain::all()).unwrap();
    let holds = cache.get_or_build(1, bomb());
    assert!(matches!(cache.try_get_or_build(2, bomb()), Admission::Backpressured(_)));
    assert_eq!(*holds.wait().unwrap(), 1);
    let single = bounded.single_flight::<u64, u64, Infallible>(2, Retain::all()).unwrap();
    let (first, joined) = (single.get(1, 1, bomb()), single.get(1, 1, bomb()));
    assert_eq!((*first.wait().unwrap(), *joined.wait().unwrap()), (1, 1));
    assert_eq!(*single.get(1, 1, bomb()).wait().unwrap(), 1);
}

#[test]
fn a_weighing_that_asks_for_its_own_value_is_told_and_one_that_panics_when_it_goes_harms_nobody() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "on purpose");
        }
    }
    let runtime = Runtime::builder().workers(2).io_threads(1).build().unwrap();
    let caches = Caches::new(&runtime);
    let itself: Arc<Mutex<Option<Cache<u64, u64>>>> = Arc::default();
    let (inner, (send, said)) = (itself.clone(), channel());
    let retain = move || {
        let (bomb, inner, send) = (Bomb, inner.clone(), send.clone());
        Retain::all().weight(10, move |key: &u64, _: &u64| {
            let _ = &bomb;
            let cache = inner.lock().unwrap().clone().unwrap();
            send.send(cache.get_or_build(*key, |_| Ok(5)).wait_timeout(SOON)).unwrap();
            1
        })
    };
    let cache = caches.cache::<u64, u64>(1, retain()).unwrap();
    assert!(caches.cache::<u64, u64>(1, retain()).is_ok(), "it is open, and this weighing is dropped");
    *itself.lock().unwrap() = Some(cache.clone());
    assert_eq!(*cache.get_or_build(1, |_| Ok(1)).wait().unwrap(), 1);
    let said = said.recv_timeout(SOON).unwrap();
    assert!(matches!(said, Some(Err(CacheError::Reentrant(_)))), "{said:?}");
    itself.lock().unwrap().take();
}
