//! The trie under one thread and under several. It does not know slots.

use super::*;
use crate::stages::entry;
use crate::sync::epoch;
use crate::sync::stat::{AtomicUsize, Ordering};
use std::collections::HashSet;

struct Item(u64);

impl Hashed for Item {
    fn hash(&self) -> u64 {
        self.0
    }
}

fn at<'a>(trie: &'a Trie<Item>, hash: u64, pinned: &'a Guard) -> At<'a, Item> {
    At { trie, hash, pinned }
}

fn add(trie: &Trie<Item>, hash: u64) -> bool {
    let pinned = epoch::pin();
    entry::add(&at(trie, hash, &pinned), &Arc::new(Item(hash)), |_| true, |_| false, &pinned).is_ok()
}

fn take(trie: &Trie<Item>, hash: u64) -> bool {
    let pinned = epoch::pin();
    let Some(found) = trie.load(hash, &pinned).and_then(|entry| entry.slots(&pinned).next()) else { return false };
    let taken = entry::take_out(&at(trie, hash, &pinned), &*found, &pinned);
    let any = !taken.is_nothing();
    // SAFETY: it can be reached no more; only who is pinned now may look at it still.
    unsafe { pinned.defer_unchecked(move || drop(taken)) };
    any
}

/// Numbers that agree in ever longer beginnings, as hashes of few names never do.
fn crowded(random: &mut u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let (deep, number) = ((*random >> 33) % 16, *random >> 60);
    number << (4 * deep) >> 2
}

#[test]
fn what_was_added_and_not_taken_is_found_and_no_node_is_left_for_less_than_two() {
    let seed = 0x5eed_u64;
    let (mut random, mut model) = (seed, HashSet::new());
    let trie = Trie::<Item>::new(0);
    for step in 0..20_000 {
        let hash = crowded(&mut random);
        if random >> 40 & 1 == 0 {
            assert_eq!(add(&trie, hash), model.insert(hash), "seed {seed}, step {step}");
        } else {
            assert_eq!(take(&trie, hash), model.remove(&hash), "seed {seed}, step {step}");
        }
        if step % 1_000 == 0 {
            let pinned = epoch::pin();
            assert_eq!(trie.all(&pinned).len(), model.len());
            assert!(model.iter().all(|&hash| trie.load(hash, &pinned).is_some()));
        }
    }
    for hash in model {
        assert!(take(&trie, hash));
    }
    assert_eq!(trie.nodes(&epoch::pin()), 0);
}

#[test]
fn threads_that_add_and_take_in_one_corner_lose_nothing_and_leave_no_node() {
    const THREADS: u64 = 4;
    let trie = Trie::<Item>::new(0);
    crate::sync::thread::scope(|scope| {
        for thread in 0..THREADS {
            let trie = &trie;
            scope.spawn(move || {
                let mine = move |number: u64| number * THREADS + thread;
                for round in 0..2_000 {
                    let (first, second) = (mine(round % 8), mine(8 + round % 5));
                    assert!(add(trie, first) && add(trie, second));
                    assert!(trie.load(first, &epoch::pin()).is_some());
                    assert!(take(trie, first) && trie.load(first, &epoch::pin()).is_none());
                    assert!(trie.load(second, &epoch::pin()).is_some() && take(trie, second));
                }
            });
        }
    });
    assert_eq!((trie.all(&epoch::pin()).len(), trie.nodes(&epoch::pin())), (0, 0));
}

/// As a scheduler does: counted part by part.
struct Counted {
    trie: Trie<Item>,
    parts: [usize; PARTS],
}

impl Counted {
    fn add(&mut self, hash: u64) {
        assert!(add(&self.trie, hash));
        self.parts[Trie::<Item>::part(hash)] += 1;
        self.fit(hash);
    }

    fn take(&mut self, hash: u64) {
        assert!(take(&self.trie, hash));
        self.parts[Trie::<Item>::part(hash)] -= 1;
        self.fit(hash);
    }

    fn fit(&self, hash: u64) {
        self.trie.fit(hash, self.parts[Trie::<Item>::part(hash)], &epoch::pin());
    }
}

#[test]
fn the_root_is_as_wide_as_what_is_in_it_asks_for() {
    const MANY: usize = 40_000;
    let mut random = 0x5eed_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let hashes: HashSet<u64> = std::iter::repeat_with(&mut next).take(MANY).collect();
    let mut counted = Counted { trie: Trie::new(0), parts: [0; PARTS] };
    let (mut wide, least) = (0, PARTS * 64);
    for (at, &hash) in hashes.iter().enumerate() {
        counted.add(hash);
        if at == least / 2 {
            wide = counted.trie.width(&epoch::pin());
        }
    }
    assert_eq!(wide, least, "few need no wider root");
    let pinned = epoch::pin();
    assert!(hashes.iter().all(|&hash| counted.trie.load(hash, &pinned).is_some()));
    let (width, nodes) = (counted.trie.width(&pinned), counted.trie.nodes(&pinned));
    assert!((MANY..=8 * MANY).contains(&width), "{width} cells");
    assert!(nodes < MANY / 8, "{nodes} nodes");
    drop(pinned);
    for &hash in &hashes {
        counted.take(hash);
    }
    let pinned = epoch::pin();
    let left = (counted.trie.all(&pinned).len(), counted.trie.nodes(&pinned), counted.trie.width(&pinned));
    assert_eq!(left, (0, 0, least), "nothing is kept for files that have gone");
}

#[test]
fn a_root_of_the_width_that_was_asked_for_stays_so_and_may_still_grow() {
    let mut counted = Counted { trie: Trie::new(1 << 14), parts: [0; PARTS] };
    let first = |number: u64| number << 40;
    (0..256).for_each(|number| counted.add(first(number)));
    assert_eq!(counted.trie.width(&epoch::pin()), 1 << 8, "one of 64 parts");
    (256..300).for_each(|number| counted.add(first(number)));
    assert!(counted.trie.width(&epoch::pin()) >= 1 << 11);
    (0..300).for_each(|number| counted.take(first(number)));
    assert_eq!(counted.trie.width(&epoch::pin()), 1 << 8, "and no narrower");
}

#[test]
fn threads_that_add_and_take_lose_nothing_while_others_make_the_root_anew() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 1_000;
    let trie = Trie::<Item>::new(0);
    let stays = (THREADS..9 * THREADS).step_by(THREADS as usize).map(|number| number << 44 | 1);
    stays.clone().for_each(|hash| assert!(add(&trie, hash)));
    let going = AtomicUsize::new(THREADS as usize);
    crate::sync::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (trie, stays, going) = (&trie, stays.clone(), &going);
            scope.spawn(move || {
                let mine = move |number: u64| (number * THREADS + thread) << 44;
                for round in 0..ROUNDS {
                    let (first, second) = (mine(round % 64), mine(64 + round % 5));
                    assert!(add(trie, first) && add(trie, second));
                    assert!(stays.clone().all(|hash| trie.load(hash, &epoch::pin()).is_some()));
                    assert!(take(trie, first) && trie.load(first, &epoch::pin()).is_none());
                    assert!(trie.load(second, &epoch::pin()).is_some() && take(trie, second));
                }
                going.fetch_sub(1, Ordering::Relaxed);
            });
        }
        for slots in [usize::MAX / 4, 0] {
            let (trie, going) = (&trie, &going);
            scope.spawn(move || {
                while going.load(Ordering::Relaxed) > 0 {
                    trie.fit(0, slots, &epoch::pin());
                }
            });
        }
    });
    assert_eq!(trie.all(&epoch::pin()).len(), stays.clone().count());
    stays.for_each(|hash| assert!(take(&trie, hash)));
    assert_eq!((trie.all(&epoch::pin()).len(), trie.nodes(&epoch::pin())), (0, 0));
}
