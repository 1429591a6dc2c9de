//! Single flight by key and generation: one build for all who ask, newer generations serve older wishes, failures take nothing away.
//! It does not know what is built.

use shardrun::{CacheError, CacheHandle, Caches, Driver, Retain, Runtime, SingleFlight};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::scope;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(300);

type Trees = SingleFlight<u64, String, String>;

fn small(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).io_threads(1).build().expect("a small runtime starts")
}

fn trees(runtime: &Runtime) -> Trees {
    Caches::new(runtime).single_flight(1, Retain::count(100)).expect("nobody has opened it with other types")
}

/// A build that says that it has begun, and ends as it is told.
fn held(trees: &Trees, generation: u64) -> (CacheHandle<String, String>, Sender<Result<String, String>>) {
    let (begun, inside) = channel();
    let (end, told) = channel();
    let handle = trees.get(1, generation, move |_| {
        begun.send(()).unwrap();
        told.recv().unwrap()
    });
    inside.recv_timeout(SOON).expect("the builder begins");
    (handle, end)
}

#[test]
fn t121_sixteen_that_ask_for_one_key_and_generation_share_one_build() {
    let runtime = small(2);
    let trees = trees(&runtime);
    let (calls, start, asked) = (Arc::new(AtomicUsize::new(0)), Barrier::new(16), Arc::new(Barrier::new(17)));
    let values: Vec<Arc<String>> = scope(|scope| {
        let racers: Vec<_> = (0..16)
            .map(|_| {
                let (calls, all) = (calls.clone(), asked.clone());
                let (trees, start, asked) = (&trees, &start, &asked);
                scope.spawn(move || {
                    start.wait();
                    let handle = trees.get(1, 3, move |_| {
                        calls.fetch_add(1, Ordering::SeqCst);
                        all.wait();
                        Ok("built".to_owned())
                    });
                    asked.wait();
                    handle.wait().unwrap()
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert!(values.iter().all(|value| Arc::ptr_eq(value, &values[0])));
    assert_eq!(trees.ready(&1).map(|(generation, _)| generation), Some(3));
}

#[test]
fn t122_an_error_and_a_panic_are_told_and_the_key_is_built_anew() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let trees = trees(&runtime);
    let failed = [(); 2].map(|()| trees.get(1, 1, |_| Err("no tree".to_owned())));
    for handle in failed {
        assert_eq!(handle.wait().unwrap_err().failure().map(String::as_str), Some("no tree"));
    }
    let panicked = [(); 2].map(|()| trees.get(1, 1, |_| panic!("on purpose")));
    for handle in panicked {
        assert!(matches!(handle.wait(), Err(CacheError::Panicked(_))));
    }
    assert_eq!(*trees.get(1, 1, |_| Ok("well".to_owned())).wait().unwrap(), "well");
}

#[test]
fn t123_who_asks_for_an_older_generation_is_served_by_the_newer_build() {
    let runtime = small(2);
    let trees = trees(&runtime);
    let (seven, end) = held(&trees, 7);
    let five = trees.get(1, 5, |_| unreachable!("7 is under way"));
    end.send(Ok("seven".to_owned())).unwrap();
    assert_eq!(*five.wait().unwrap(), "seven");
    assert_eq!(*seven.wait().unwrap(), "seven");
    assert_eq!(*trees.get(1, 6, |_| unreachable!("7 is there")).wait().unwrap(), "seven");
}

#[test]
fn t124_an_older_build_gives_the_newer_value_and_overwrites_nothing() {
    let runtime = small(2);
    let trees = trees(&runtime);
    let (five, end_five) = held(&trees, 5);
    let (seven, end_seven) = held(&trees, 7);
    // The older one ends first, and waits for the newer.
    end_five.send(Ok("five".to_owned())).unwrap();
    end_seven.send(Ok("seven".to_owned())).unwrap();
    assert_eq!((&**five.wait().unwrap(), &**seven.wait().unwrap()), ("seven", "seven"));
    assert_eq!(
        trees.ready(&1).map(|(generation, value)| (generation, String::clone(&value))),
        Some((7, "seven".into()))
    );
    // The newer one ends first.
    let (eight, end_eight) = held(&trees, 8);
    let (nine, end_nine) = held(&trees, 9);
    end_nine.send(Ok("nine".to_owned())).unwrap();
    assert_eq!(*nine.wait().unwrap(), "nine");
    end_eight.send(Ok("eight".to_owned())).unwrap();
    assert_eq!(*eight.wait().unwrap(), "nine");
    assert_eq!(trees.ready(&1).map(|(generation, _)| generation), Some(9));
    assert_eq!(trees.counters().kept, 1, "one value a key");
}

#[test]
fn what_is_there_serves_while_a_newer_one_is_built_and_a_failure_takes_nothing_away() {
    let runtime = small(2);
    let trees = trees(&runtime);
    assert_eq!(*trees.get(1, 1, |_| Ok("one".to_owned())).wait().unwrap(), "one");
    let (two, end_two) = held(&trees, 2);
    assert_eq!(*trees.get(1, 1, |_| unreachable!("it is there")).wait().unwrap(), "one");
    end_two.send(Err("no".to_owned())).unwrap();
    assert!(two.wait().is_err());
    assert_eq!(trees.ready(&1).map(|(generation, _)| generation), Some(1));
    // Superseded by one that fails: its own value stands, and is kept.
    let (three, end_three) = held(&trees, 3);
    let (four, end_four) = held(&trees, 4);
    end_three.send(Ok("three".to_owned())).unwrap();
    end_four.send(Err("no".to_owned())).unwrap();
    assert!(four.wait().is_err());
    assert_eq!(*three.wait().unwrap(), "three");
    assert_eq!(trees.ready(&1).map(|(generation, _)| generation), Some(3));
    assert!(trees.evict(&1) && !trees.evict(&1));
}

#[test]
fn t128_many_keys_are_bounded_and_each_wakes_its_own_waiters_alone() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let trees = trees(&runtime);
    let mut waits = trees.get(u64::MAX, 1, |_| Ok("waits".to_owned()));
    for key in 0..10_000 {
        drop(trees.get(key, 1, |cx| Ok(cx.key().to_string())));
    }
    assert!(waits.try_get().is_none());
    runtime.drive_all();
    assert_eq!(waits.try_get().map(|value| value.unwrap().to_string()), Some("waits".to_owned()));
    let counters = trees.counters();
    assert_eq!((counters.kept, counters.completed, counters.evictions), (100, 10_001, 9_901));
}

#[test]
fn who_asks_for_the_same_from_inside_is_told_and_for_a_newer_one_is_served() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let trees = trees(&runtime);
    let inner = trees.clone();
    let outer = trees.get(1, 1, move |_| {
        let same = inner.get(1, 1, |_| unreachable!("it is re-entrant")).wait();
        assert!(matches!(same, Err(CacheError::Reentrant(_))));
        Ok(format!("after {}", inner.get(1, 2, |_| Ok("two".to_owned())).wait().unwrap()))
    });
    assert_eq!(*outer.wait().unwrap(), "two", "the newer one");
}

#[test]
fn a_newer_value_that_is_not_to_be_kept_is_not_kept_under_an_older_generation_either() {
    let runtime = small(2);
    let trees = trees(&runtime);
    let (five, end_five) = held(&trees, 5);
    let (begun, inside) = channel();
    let (end_seven, told) = channel::<()>();
    let seven = trees.get(1, 7, move |cx| {
        begun.send(()).unwrap();
        told.recv().unwrap();
        cx.return_only();
        Ok("seven".to_owned())
    });
    inside.recv_timeout(SOON).expect("the newer builder begins");
    end_five.send(Ok("five".to_owned())).unwrap();
    end_seven.send(()).unwrap();
    // By the order of the two ends the older one has seen the newer or not; it has never kept it.
    let given = five.wait().unwrap();
    assert_eq!(*seven.wait().unwrap(), "seven");
    let ready = trees.ready(&1).map(|(generation, value)| (generation, String::clone(&value)));
    match given.as_str() {
        "seven" => assert_eq!(ready, None),
        _ => assert_eq!(ready, Some((5, "five".to_owned()))),
    }
}

#[test]
fn an_older_build_that_nobody_wants_any_more_is_no_reason_to_build_the_newer() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let trees = trees(&runtime);
    let handles: Arc<Mutex<Vec<CacheHandle<String, String>>>> = Arc::default();
    let (inner, (send, said)) = (handles.clone(), channel());
    let older = trees.get(1, 1, |_| Ok("older".to_owned()));
    // The older one, once it is built, waits for this one, and runs it.
    let newer = trees.get(1, 2, move |cx| {
        for handle in inner.lock().unwrap().iter() {
            send.send(cx.token().is_cancelled()).unwrap();
            handle.cancel();
        }
        send.send(cx.token().is_cancelled()).unwrap();
        Ok("newer".to_owned())
    });
    handles.lock().unwrap().extend([older, newer]);
    assert!(runtime.drive_one());
    assert_eq!(said.try_iter().collect::<Vec<_>>(), [false, false, true]);
    for handle in handles.lock().unwrap().drain(..) {
        assert!(matches!(handle.wait(), Err(CacheError::Cancelled)));
    }
}
