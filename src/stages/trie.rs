//! A hash trie: from the hash of a name to the entry of the slots whose names have it, for any number of threads, of which none ever
//! waits for another. It does not know what a slot holds, nor when one comes or goes.
//!
//! The upper bits of a hash choose a cell of the root, which lies in parts that are made when they are needed and stay; the next few
//! bits choose a cell of the node to which that points, and so on. The wide root keeps the way short: each step waits for memory. A cell is
//! empty, or holds an entry, or points to a node. Where two hashes meet in a cell both get a node in its place. A node that holds no
//! more than one entry gives way to that: first its cells are frozen, one by one, so that nobody changes them any more, then one
//! exchange puts what they hold into the node's place. Whoever is to change something and meets a frozen cell does all of that
//! himself. Readers read frozen cells like others.
//!
//! | a cell | who | excludes |
//! |---|---|---|
//! | nothing or an entry → another or nothing | `exchange` | two who change the entry of one hash at once |
//! | an entry → a node that holds it and another | `exchange` | an entry that is lost since another hash needs its cell |
//! | anything → the same, frozen | who replaces the node around it | a change of what is about to be out of reach |
//! | a node → what its frozen cells hold | the same, once | a node with too little in it, for ever |
//!
//! A node that was replaced outlives the pins of that time, and so does an entry: see [`Taken`].

use super::entry::{Entry, Place, Taken};
use crate::sync::atomic::{AtomicPtr, Ordering, fence};
use crate::sync::epoch::Guard;
use crate::sync::{Arc, mutant};
use std::array;
use std::marker::PhantomData;
use std::ptr;

/// Bits of a hash that choose a cell of a node.
const BITS: u32 = if cfg!(shardrun_loom) { 2 } else { 3 };
/// Bits that choose a part of the root.
const PART_BITS: u32 = if cfg!(shardrun_loom) { 1 } else { 6 };
/// Bits that choose a cell of the smallest part, and of the largest.
const CELL_BITS: std::ops::RangeInclusive<u32> = if cfg!(shardrun_loom) { 1..=1 } else { 6..=16 };

/// Marks a pointer to a node. Below it there is the mark of an entry of several slots.
const NODE: usize = 1 << 1;
/// Marks a cell that never changes any more.
const FROZEN: usize = 1 << 2;

/// What stands in a cell: a pointer and the marks.
type Word = *mut ();
type Cell = AtomicPtr<()>;

/// Something that has a hash, which never changes.
pub(crate) trait Hashed {
    /// The hash of its name.
    fn hash(&self) -> u64;
}

struct Node([Cell; 1 << BITS]);

/// The entries of all hashes.
pub(crate) struct Trie<S: Hashed> {
    /// Each null, or the first of as many cells as there are in a part.
    root: [AtomicPtr<Cell>; 1 << PART_BITS],
    /// Bits that choose a cell of a part.
    bits: u32,
    slots: PhantomData<Arc<S>>,
}

/// The cell of a hash, where no node stands, and the node that it lies in, with the cell that points there.
struct Found<'g> {
    cell: &'g Cell,
    word: Word,
    /// Bits of the hash that have led here.
    used: u32,
    around: Option<(&'g Cell, &'g Node)>,
}

fn is_frozen(word: Word) -> bool {
    word.addr() & FROZEN != 0
}

fn thawed(word: Word) -> Word {
    word.map_addr(|address| address & !FROZEN)
}

fn unmarked(word: Word) -> Word {
    word.map_addr(|address| address & !(NODE | FROZEN))
}

/// The node that a word points to.
///
/// # Safety
/// The word was read under a pin that has not ended, or nobody shares the trie.
#[inline]
unsafe fn node<'g>(word: Word) -> Option<&'g Node> {
    // SAFETY: marked by `Node::word` alone; and a node outlives the pins of the time when it could be reached.
    (word.addr() & NODE != 0).then(|| unsafe { &*unmarked(word).cast() })
}

/// The entry that a word without a node holds.
#[inline]
fn entry<S>(word: Word) -> Option<Entry<S>> {
    Entry::of_raw(thawed(word))
}

#[inline]
fn hash_of<S: Hashed>(entry: Entry<S>, pinned: &Guard) -> Option<u64> {
    entry.slots(pinned).next().map(|slot| slot.hash())
}

/// The load that begins an exchange; under loom an exchange too, see [`load_for_cas`](crate::sync::atomic::load_for_cas).
fn load_for_cas(cell: &Cell) -> Word {
    if cfg!(shardrun_loom) {
        let null = ptr::null_mut();
        return cell.compare_exchange(null, null, Ordering::AcqRel, Ordering::Acquire).unwrap_or_else(|now| now);
    }
    cell.load(Ordering::Acquire)
}

/// Who has emptied a cell, before it looks at those beside it.
fn emptied_before_look() {
    if !mutant("trie.empty_no_fence") {
        // ordering: store-load; pairs with itself. Of two who empty the cells of one node, the one that passes last sees both empty.
        fence(Ordering::SeqCst);
    }
}

impl Node {
    fn of(words: [Word; 1 << BITS]) -> Self {
        Self(words.map(Cell::new))
    }

    /// A pointer to it, which owns it.
    fn word(self) -> Word {
        let raw: *mut Self = Box::into_raw(Box::new(self));
        raw.cast::<()>().map_addr(|address| address | NODE)
    }

    /// Which cell `hash` chooses, after so many bits of it.
    #[inline]
    fn at(hash: u64, used: u32) -> usize {
        ((hash << used) >> (u64::BITS - BITS)) as usize
    }

    /// One that holds both, which two hashes have that differ behind `used` bits.
    fn fork(used: u32, one: (u64, Word), other: (u64, Word)) -> Word {
        let (here, there) = (Self::at(one.0, used), Self::at(other.0, used));
        let mut words = [ptr::null_mut(); 1 << BITS];
        if here == there {
            words[here] = Self::fork(used + BITS, one, other);
        } else {
            (words[here], words[there]) = (one.1, other.1);
        }
        Self::of(words).word()
    }

    fn words(&self) -> [Word; 1 << BITS] {
        // ordering: pairs with every exchange of a cell, as in `load`.
        array::from_fn(|at| self.0[at].load(Ordering::Acquire))
    }

    /// Sees to it that no cell changes any more. What they hold.
    fn freeze(&self) -> [Word; 1 << BITS] {
        array::from_fn(|at| {
            let cell = &self.0[at];
            let mut word = load_for_cas(cell);
            while !is_frozen(word) && !mutant("trie.replace_without_freezing") {
                let frozen = word.map_addr(|address| address | FROZEN);
                // ordering: who changes the cell first is seen here; else its exchange fails, and it finds the mark.
                match cell.compare_exchange(word, frozen, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => break,
                    Err(now) => word = now,
                }
            }
            thawed(word)
        })
    }
}

/// Frees the nodes that a word points to, but no entry.
///
/// # Safety
/// Nobody else can reach them.
unsafe fn free_nodes(word: Word) {
    // SAFETY: promised by the caller.
    if let Some(node) = unsafe { node(word) } {
        node.words().into_iter().for_each(|word| {
            // SAFETY: as above.
            unsafe { free_nodes(word) };
        });
        // SAFETY: made by `Node::word`.
        drop(unsafe { Box::from_raw(ptr::from_ref(node).cast_mut()) });
    }
}

/// If the words are no more than one entry, that or nothing.
fn alone(words: &[Word]) -> Option<Word> {
    let mut there = words.iter().copied().filter(|word| !thawed(*word).is_null());
    let first = there.next().unwrap_or(ptr::null_mut());
    (there.next().is_none() && first.addr() & NODE == 0).then_some(first)
}

/// Puts what the cells of a node hold into its place, which is `up`. If another has done so, or that place is to be replaced too,
/// it does nothing.
fn replace(up: &Cell, node: &Node, pinned: &Guard) {
    let words = node.freeze();
    let next = alone(&words).unwrap_or_else(|| Node::of(words).word());
    let raw = ptr::from_ref(node).cast_mut();
    let old = raw.cast::<()>().map_addr(|address| address | NODE);
    // ordering: Release: who comes through the place finds what the cells held, and what those who filled them had written.
    match up.compare_exchange(old, next, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: the exchange has taken the node out of the one place where it stood; what it held stands elsewhere now. The closure
        // frees memory of ours alone.
        Ok(_) => unsafe { pinned.defer_unchecked(move || drop(Box::from_raw(raw))) },
        Err(_) if alone(&words).is_none() => {
            // SAFETY: a node that was made above and shown to nobody. What it holds belongs to who has replaced the old one.
            drop(unsafe { Box::from_raw(unmarked(next).cast::<Node>()) });
        }
        Err(_) => {}
    }
}

impl<S: Hashed> Trie<S> {
    /// With a root for so many slots.
    pub(crate) fn new(slots: usize) -> Self {
        const { assert!(align_of::<S>() > FROZEN, "the marks stand in the lowest bits of an address") };
        let bits = slots.next_power_of_two().ilog2().saturating_sub(PART_BITS);
        let root = array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        Self { root, bits: bits.clamp(*CELL_BITS.start(), *CELL_BITS.end()), slots: PhantomData }
    }

    /// The cell of the root that a hash chooses, if its part is there.
    #[inline]
    fn first(&self, hash: u64) -> Option<&Cell> {
        // ordering: pairs with `make_part`. Whichever part is found is seen whole.
        let part = self.root[(hash >> (u64::BITS - PART_BITS)) as usize].load(Ordering::Acquire);
        let at = (hash << PART_BITS) >> (u64::BITS - self.bits);
        // SAFETY: it holds as many cells as the bits can choose, and stays as long as the trie.
        (!part.is_null()).then(|| unsafe { &*part.add(at as usize) })
    }

    /// The same; its part is made if it is not there.
    fn first_or_made(&self, hash: u64) -> &Cell {
        loop {
            match self.first(hash) {
                Some(cell) => return cell,
                None => self.make_part(&self.root[(hash >> (u64::BITS - PART_BITS)) as usize]),
            }
        }
    }

    #[cold]
    fn make_part(&self, place: &AtomicPtr<Cell>) {
        let part: Box<[Cell]> = (0..1usize << self.bits).map(|_| Cell::new(ptr::null_mut())).collect();
        let raw = Box::into_raw(part).cast::<Cell>();
        // ordering: Release shows the cells with the part. If another thread was faster, its part is used.
        if place.compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: made above, and shown to nobody.
            drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(raw, 1 << self.bits)) });
        }
    }

    /// Every cell of the root that there is.
    fn firsts(&self) -> impl Iterator<Item = &Cell> {
        // ordering: as in `first`.
        let parts = self.root.iter().map(|part| part.load(Ordering::Acquire)).filter(|part| !part.is_null());
        // SAFETY: as in `first`.
        parts.flat_map(|part| unsafe { std::slice::from_raw_parts(part, 1 << self.bits) })
    }

    /// Bits of a hash that choose a cell of the root.
    fn used(&self) -> u32 {
        PART_BITS + self.bits
    }

    /// The entry of a hash.
    #[inline]
    pub(crate) fn load(&self, hash: u64, pinned: &Guard) -> Option<Entry<S>> {
        let (mut cell, mut rest) = (self.first(hash)?, hash << self.used());
        loop {
            // ordering: pairs with every exchange of a cell. Whatever is found is seen whole.
            let word = cell.load(Ordering::Acquire);
            // SAFETY: read under the caller's pin.
            let Some(node) = (unsafe { node(word) }) else {
                return entry(word).filter(|entry| hash_of(*entry, pinned) == Some(hash));
            };
            cell = &node.0[Node::at(rest, 0)];
            rest <<= BITS;
        }
    }

    /// Finds the cell of a hash, for who is to change it. `None` if a node was in the way that is to be replaced: look again.
    fn seek<'g>(&'g self, hash: u64, pinned: &'g Guard) -> Option<Found<'g>> {
        let mut found =
            Found { cell: self.first_or_made(hash), word: ptr::null_mut(), used: self.used(), around: None };
        loop {
            found.word = load_for_cas(found.cell);
            if is_frozen(found.word) {
                let (up, node) = found.around.expect("the root's cells are never frozen");
                replace(up, node, pinned);
                return None;
            }
            // SAFETY: read under the caller's pin.
            let Some(node) = (unsafe { node::<'g>(found.word) }) else { return Some(found) };
            found.around = Some((found.cell, node));
            found.cell = &node.0[Node::at(hash, found.used)];
            found.used += BITS;
        }
    }

    fn exchange(&self, hash: u64, old: Option<Entry<S>>, new: Option<Entry<S>>, pinned: &Guard) -> bool {
        loop {
            let Some(Found { cell, word, used, .. }) = self.seek(hash, pinned) else { continue };
            let seen = entry(word);
            let there = seen.and_then(|entry: Entry<S>| hash_of(entry, pinned));
            if (if there == Some(hash) { seen } else { None }) != old {
                return false;
            }
            let next = Entry::raw(new);
            let next = match there {
                Some(other) if other != hash => Node::fork(used, (other, word), (hash, next)),
                _ => next,
            };
            // ordering: AcqRel, see `load`.
            if cell.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                if new.is_none() {
                    self.tidy(hash, pinned);
                }
                return true;
            }
            // SAFETY: made above, and shown to nobody. An entry that is no node is left alone.
            unsafe { free_nodes(next) };
        }
    }

    /// Replaces the nodes on the way to a hash that hold too little.
    fn tidy(&self, hash: u64, pinned: &Guard) {
        emptied_before_look();
        loop {
            let Some(found) = self.seek(hash, pinned) else { continue };
            match found.around {
                Some((up, node)) if alone(&node.words()).is_some() => replace(up, node, pinned),
                _ => return,
            }
        }
    }

    /// Every entry that stood there at one moment of the call, and those that came and went as they may.
    pub(crate) fn all(&self, _pinned: &Guard) -> Vec<Entry<S>> {
        let mut all = Vec::new();
        // ordering: as in `load`.
        self.firsts().for_each(|cell| gather(cell.load(Ordering::Acquire), &mut all));
        all
    }

    /// How many nodes there are.
    #[cfg(test)]
    pub(crate) fn nodes(&self, _pinned: &Guard) -> usize {
        fn below(word: Word) -> usize {
            // SAFETY: under the caller's pin.
            unsafe { node(word) }.map_or(0, |node| 1 + node.words().into_iter().map(below).sum::<usize>())
        }
        self.firsts().map(|cell| below(cell.load(Ordering::Acquire))).sum()
    }
}

/// Adds the entries that can be reached through a word, which was read under a pin.
fn gather<S>(word: Word, all: &mut Vec<Entry<S>>) {
    // SAFETY: says the caller.
    match unsafe { node(word) } {
        Some(node) => node.words().into_iter().for_each(|word| gather(word, all)),
        None => all.extend(entry(word)),
    }
}

impl<S: Hashed> Drop for Trie<S> {
    fn drop(&mut self) {
        let mut all = Vec::new();
        for cell in self.firsts() {
            let word = cell.load(Ordering::Acquire);
            gather(word, &mut all);
            // SAFETY: nobody shares the trie any more.
            unsafe { free_nodes(word) };
        }
        for part in &self.root {
            let raw = part.load(Ordering::Acquire);
            if !raw.is_null() {
                // SAFETY: made by `make_part`, and nobody shares the trie any more.
                drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(raw, 1 << self.bits)) });
            }
        }
        // SAFETY: as above, and each entry stood in it once.
        all.into_iter().for_each(|entry: Entry<S>| drop(unsafe { Taken::unreachable(entry) }));
    }
}

/// The place of one hash in a trie, for who is pinned.
pub(crate) struct At<'a, S: Hashed> {
    /// Where.
    pub(crate) trie: &'a Trie<S>,
    /// Of which hash.
    pub(crate) hash: u64,
    /// The pin.
    pub(crate) pinned: &'a Guard,
}

impl<S: Hashed> Place<S> for At<'_, S> {
    #[inline]
    fn load(&self) -> Option<Entry<S>> {
        self.trie.load(self.hash, self.pinned)
    }

    fn exchange(&self, old: Option<Entry<S>>, new: Option<Entry<S>>) -> bool {
        self.trie.exchange(self.hash, old, new, self.pinned)
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::*;
    use crate::stages::entry;
    use crate::sync::epoch;
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
}
