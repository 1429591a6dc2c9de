//! Heap of a cache: what a kept value costs beside itself, what is left of keys that came and went.
//! It does not count what the allocator keeps beside its blocks. One test alone stands here, since it counts all threads.

use shardrun::{Cache, Caches, Driver, Retain, Runtime};
use std::sync::atomic::Ordering;

#[path = "support/live_bytes.rs"]
mod live_bytes;

use live_bytes::LIVE;

/// Two counts, which stand beside each shared value.
const ARC: f64 = 16.0;

fn ask(cache: &Cache<u64, ()>, runtime: &Runtime, keys: std::ops::Range<u64>) {
    for key in keys {
        drop(cache.get_or_build(key, |_| Ok(())));
        runtime.drive_all();
    }
}

#[test]
fn a_kept_value_costs_at_most_160_bytes_a_former_key_20_and_a_million_that_come_and_go_nothing() {
    const KEYS: u64 = 1_000_000;
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let caches = Caches::new(&runtime);
    let live = || LIVE.load(Ordering::SeqCst);

    let few = caches.cache::<u64, ()>(1, Retain::count(1_000)).unwrap();
    ask(&few, &runtime, 0..10_000);
    let before = live();
    ask(&few, &runtime, 10_000..KEYS);
    let grown = live() - before;
    println!("a million keys that came and went, of which 1,000 stay: {grown} bytes more");
    assert!(grown < 100_000, "{grown}");

    let many = caches.cache::<u64, ()>(2, Retain::count(2 * KEYS as usize)).unwrap();
    let before = live();
    ask(&many, &runtime, 0..KEYS);
    assert_eq!(many.counters().kept, KEYS);
    let kept = (live() - before) as f64 / KEYS as f64;
    assert_eq!(many.clear() as u64, KEYS);
    (0..200).for_each(|_| _ = many.evict(&0));
    let left = (live() - before) as f64 / KEYS as f64;
    println!(
        "bytes per kept value, itself and its {ARC} bytes of counts apart: {:.1}; left of each: {left:.1}",
        kept - ARC
    );
    assert!((80.0..=160.0).contains(&(kept - ARC)), "{kept}");
    assert!(left <= 20.0, "{left}");
}
