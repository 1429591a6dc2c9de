//! Caches of memoised computations beside a bare map: hits, borrowed and counted, by one thread and by many, on one key and on keys
//! apart. It does not know what is memoised: a number, so that the engine is what is measured.

use crate::Effort;
use crate::pools::{Place, Pools};
use crate::stages::per_operation;
use crate::views::in_threads;
use serde_json::Value;
use shardrun::{Cache, Caches, Retain};
use shardrun_perf::series::{CPU, NS, Series};
use std::hint::black_box;
use std::sync::Arc;

const KEYS: u64 = 1_000;
const LOOKS: usize = 100_000;
/// What a growth may be at most to count as flat.
const FLAT: f64 = 1.3;

const GET: &str = "papaya get";
const GET_CLONE: &str = "papaya get and Arc clone";
const WITH: &str = "shardrun with";
const ASK: &str = "shardrun get_or_build, kept";

fn filled(pools: &Pools) -> Cache<u64, u64> {
    let caches = Caches::new(&pools.shardrun);
    let cache = caches.cache(1, Retain::count(2 * KEYS as usize)).expect("nobody has opened it with other types");
    for key in 0..KEYS {
        cache.get_or_build(key, |cx| Ok(*cx.key())).wait().expect("the builder does not fail");
    }
    cache
}

/// Hits of kept values by one thread.
pub fn hits(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let cache = filled(&pools);
    let plain = papaya::HashMap::<u64, u64, ahash::RandomState>::with_hasher(ahash::RandomState::new());
    let shared = papaya::HashMap::<u64, Arc<u64>, ahash::RandomState>::with_hasher(ahash::RandomState::new());
    for key in 0..KEYS {
        plain.pin().insert(key, key);
        shared.pin().insert(key, Arc::new(key));
    }
    let looks = effort.of(LOOKS);
    let each = |look: &dyn Fn(u64)| per_operation(looks, || (), |()| (0..looks as u64).for_each(|at| look(at % KEYS)));
    let mut series = Series::new("a hit of a kept value", &place.says);
    series.peer(GET, || each(&|key| _ = black_box(plain.pin().get(&key))));
    series.peer(GET_CLONE, || each(&|key| _ = black_box(shared.pin().get(&key).map(Arc::clone))));
    series.peer(WITH, || each(&|key| _ = black_box(cache.with(&key, |value| *value))));
    series.peer(ASK, || each(&|key| _ = black_box(cache.get_or_build(key, |_| unreachable!("it is kept")).wait())));
    series.at_most(WITH, NS, 2.0, &[GET]);
    series.at_most(ASK, NS, 3.0, &[GET_CLONE]);
    vec![series.run(effort.rounds)]
}

/// Borrowed hits by more and more threads: CPU per hit, of one key and of keys apart; and eight that look into a bare map.
pub fn hits_by_threads(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let cache = filled(&pools);
    let looks = effort.of(LOOKS);
    let plain = papaya::HashMap::<u64, u64, ahash::RandomState>::with_hasher(ahash::RandomState::new());
    (0..KEYS).for_each(|key| _ = plain.pin().insert(key, key));
    let mut series = Series::new("borrowed hits by several threads", &place.says);
    for threads in [1, 2, 4, 8] {
        let (cache, share) = (&cache, looks / threads);
        series.peer(format!("{WITH}, one key, {threads} threads"), move || {
            let read = || (0..share).for_each(|_| _ = black_box(cache.with(&7, |value| *value)));
            per_operation(share * threads, || (), |()| in_threads(threads, read))
        });
        series.peer(format!("{WITH}, keys apart, {threads} threads"), move || {
            let read = || (0..share as u64).for_each(|at| _ = black_box(cache.with(&(at % KEYS), |value| *value)));
            per_operation(share * threads, || (), |()| in_threads(threads, read))
        });
    }
    for (keys, apart) in [("one key", 1), ("keys apart", KEYS)] {
        let (plain, share) = (&plain, looks / 8);
        let bare = format!("{GET}, {keys}, 8 threads");
        series.peer(&bare, move || {
            let read = || (0..share as u64).for_each(|at| _ = black_box(plain.pin().get(&(at % apart))));
            per_operation(share * 8, || (), |()| in_threads(8, read))
        });
        series.at_most(&format!("{WITH}, {keys}, 8 threads"), CPU, 2.0, &[&bare]);
    }
    for keys in ["one key", "keys apart"] {
        for threads in [2, 4, 8] {
            let ours = format!("{WITH}, {keys}, {threads} threads");
            series.at_most(&ours, CPU, FLAT, &[&format!("{WITH}, {keys}, 1 threads")]);
        }
    }
    vec![series.run(effort.rounds)]
}
