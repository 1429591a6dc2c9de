//! The hash trie: entries come, go and stay while nodes are made in their way and replaced, and the root is made anew.

use super::check;
use crate::stages::{At, Hashed, Trie, add, take_out};
use crate::sync::epoch::{Guard, pin};
use crate::sync::{Arc, thread};

/// Hashes that meet in the root; the second and the third part in the node there, the last stays with the first for one node more.
const FIRST: u64 = 0;
const SECOND: u64 = 0b01 << 60;
const THIRD: u64 = 0b10 << 60;
const LAST: u64 = 0b01 << 58;

struct Item(u64);

impl Hashed for Item {
    fn hash(&self) -> u64 {
        self.0
    }
}

fn at<'a>(trie: &'a Trie<Item>, hash: u64, pinned: &'a Guard) -> At<'a, Item> {
    At { trie, hash, pinned }
}

fn put(trie: &Trie<Item>, hash: u64) {
    let pinned = pin();
    let added = add(&at(trie, hash, &pinned), &Arc::new(Item(hash)), |_| true, |_| false, &pinned);
    assert!(added.is_ok_and(|taken| taken.is_nothing()));
}

fn has(trie: &Trie<Item>, hash: u64) -> bool {
    let pinned = pin();
    trie.load(hash, &pinned).is_some_and(|entry| entry.slots(&pinned).all(|slot| slot.0 == hash))
}

fn take(trie: &Trie<Item>, hash: u64) {
    let pinned = pin();
    let slot = trie.load(hash, &pinned).and_then(|entry| entry.slots(&pinned).next()).expect("it was put there");
    let taken = take_out(&at(trie, hash, &pinned), &*slot, &pinned);
    assert!(!taken.is_nothing());
    // Who is pinned may look at it still: the model keeps it, the engine waits for their pins.
    std::mem::forget(taken);
}

fn with(hashes: &[u64]) -> Arc<Trie<Item>> {
    let trie = Arc::new(Trie::new(0));
    hashes.iter().for_each(|&hash| put(&trie, hash));
    trie
}

/// What stays is found at every moment, and in the end what was added and not taken, and nothing else.
#[test]
fn what_is_added_beside_a_removal_is_found_and_what_stays_always_is() {
    check(|| {
        let trie = with(&[FIRST, SECOND]);
        let adder = thread::spawn({
            let trie = trie.clone();
            move || put(&trie, LAST)
        });
        let remover = thread::spawn({
            let trie = trie.clone();
            move || take(&trie, SECOND)
        });
        assert!(has(&trie, FIRST));
        adder.join().unwrap();
        remover.join().unwrap();
        assert_eq!([FIRST, SECOND, LAST].map(|hash| has(&trie, hash)), [true, false, true]);
    });
}

/// Two that add where one entry stood all stand there then.
#[test]
fn two_that_add_in_one_cell_both_stand_there() {
    check(|| {
        let trie = with(&[FIRST]);
        let adders = [SECOND, LAST].map(|hash| {
            let trie = trie.clone();
            thread::spawn(move || put(&trie, hash))
        });
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        assert!([FIRST, SECOND, LAST].iter().all(|&hash| has(&trie, hash)));
    });
}

/// Two that add to an empty trie make its root together.
#[test]
fn two_that_add_to_an_empty_trie_both_stand_there() {
    check(|| {
        let trie = with(&[]);
        let adders = [FIRST, SECOND].map(|hash| {
            let trie = trie.clone();
            thread::spawn(move || put(&trie, hash))
        });
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        assert!([FIRST, SECOND].iter().all(|&hash| has(&trie, hash)));
    });
}

/// Of two that take all but one out of a node, one puts that into its place.
#[test]
fn a_node_that_two_leave_with_one_goes() {
    check(|| {
        let trie = with(&[FIRST, SECOND, THIRD]);
        assert_eq!(trie.nodes(&pin()), 1);
        let removers = [FIRST, SECOND].map(|hash| {
            let trie = trie.clone();
            thread::spawn(move || take(&trie, hash))
        });
        removers.into_iter().for_each(|remover| remover.join().unwrap());
        assert!(has(&trie, THIRD));
        assert_eq!((trie.all(&pin()).len(), trie.nodes(&pin())), (1, 0));
    });
}

/// As if there were far more than there are.
fn widen(trie: &Trie<Item>) {
    trie.fit(FIRST, 1_000, &pin());
}

/// What stays is found at every moment, and what is added to a part that is made anew stands in the new one.
#[test]
fn what_is_added_beside_a_root_that_widens_is_found_and_what_stays_always_is() {
    check(|| {
        let trie = with(&[FIRST, SECOND]);
        let adder = thread::spawn({
            let trie = trie.clone();
            move || put(&trie, LAST)
        });
        let widener = thread::spawn({
            let trie = trie.clone();
            move || widen(&trie)
        });
        assert!(has(&trie, FIRST));
        adder.join().unwrap();
        widener.join().unwrap();
        assert_eq!([FIRST, SECOND, LAST].map(|hash| has(&trie, hash)), [true; 3]);
        assert_eq!(trie.all(&pin()).len(), 3);
    });
}

/// What is taken out is gone, whichever part it stood in, and who takes it meets a node that is to go meanwhile.
#[test]
fn what_is_taken_beside_a_root_that_widens_is_gone() {
    check(|| {
        let trie = with(&[FIRST, SECOND]);
        let remover = thread::spawn({
            let trie = trie.clone();
            move || take(&trie, SECOND)
        });
        let widener = thread::spawn({
            let trie = trie.clone();
            move || widen(&trie)
        });
        assert!(has(&trie, FIRST));
        remover.join().unwrap();
        widener.join().unwrap();
        assert_eq!([FIRST, SECOND].map(|hash| has(&trie, hash)), [true, false]);
        assert_eq!((trie.all(&pin()).len(), trie.nodes(&pin())), (1, 0));
    });
}

/// Two that make a part anew make it once.
#[test]
fn two_that_widen_the_root_beside_an_addition_keep_all() {
    check(|| {
        let trie = with(&[FIRST, LAST]);
        let wideners = [(); 2].map(|()| {
            let trie = trie.clone();
            thread::spawn(move || widen(&trie))
        });
        put(&trie, THIRD);
        wideners.into_iter().for_each(|widener| widener.join().unwrap());
        assert_eq!([FIRST, THIRD, LAST].map(|hash| has(&trie, hash)), [true; 3]);
    });
}
