//! The nodes of a trie and what stands in their cells: how a cell is frozen, and how a node that holds too little gives way.
//! It does not know where the first cell of a hash is, nor who changes the entry of one.

use crate::stages::entry::Entry;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::epoch::Guard;
use crate::sync::mutant;
use std::array;
use std::ptr;

/// Bits of a hash that choose a cell of a node.
pub(super) const BITS: u32 = if cfg!(shardrun_loom) { 2 } else { 3 };

/// Marks a pointer to a node. Below it there is the mark of an entry of several slots.
const NODE: usize = 1 << 1;
/// Marks a cell that never changes any more.
pub(super) const FROZEN: usize = 1 << 2;

/// What stands in a cell: a pointer and the marks.
pub(super) type Word = *mut ();
pub(super) type Cell = AtomicPtr<()>;

/// Something that has a hash, which never changes.
pub(crate) trait Hashed {
    /// The hash of its name.
    fn hash(&self) -> u64;
}

pub(super) struct Node(pub(super) [Cell; 1 << BITS]);

#[inline]
pub(super) fn is_frozen(word: Word) -> bool {
    word.addr() & FROZEN != 0
}

#[inline]
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
pub(super) unsafe fn node<'g>(word: Word) -> Option<&'g Node> {
    // SAFETY: marked by `Node::word` alone; and a node outlives the pins of the time when it could be reached.
    (word.addr() & NODE != 0).then(|| unsafe { &*unmarked(word).cast() })
}

/// The entry that a word without a node holds.
#[inline]
pub(super) fn entry<S>(word: Word) -> Option<Entry<S>> {
    if is_frozen(word) { frozen_entry(word) } else { Entry::of_raw(word) }
}

/// Apart, so that what follows the look at a cell need not wait for its mark to be taken off, which is rarely there.
#[cold]
#[inline(never)]
fn frozen_entry<S>(word: Word) -> Option<Entry<S>> {
    Entry::of_raw(thawed(word))
}

#[inline]
pub(super) fn hash_of<S: Hashed>(entry: Entry<S>, pinned: &Guard) -> u64 {
    entry.first(pinned).hash()
}

/// The load that begins an exchange; under loom an exchange too, see [`load_for_cas`](crate::sync::atomic::load_for_cas).
pub(super) fn load_for_cas(cell: &Cell) -> Word {
    if cfg!(shardrun_loom) {
        let null = ptr::null_mut();
        return cell.compare_exchange(null, null, Ordering::AcqRel, Ordering::Acquire).unwrap_or_else(|now| now);
    }
    cell.load(Ordering::Acquire)
}

/// Sees to it that a cell does not change any more. What it holds.
pub(super) fn freeze(cell: &Cell, but_for: &'static str) -> Word {
    let mut word = load_for_cas(cell);
    while !is_frozen(word) && !mutant(but_for) {
        let frozen = word.map_addr(|address| address | FROZEN);
        // ordering: who changes the cell first is seen here; else its exchange fails, and it finds the mark.
        match cell.compare_exchange(word, frozen, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => break,
            Err(now) => word = now,
        }
    }
    thawed(word)
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
    pub(super) fn at(hash: u64, used: u32) -> usize {
        ((hash << used) >> (u64::BITS - BITS)) as usize
    }

    /// One that holds both, which two hashes have that differ behind `used` bits.
    pub(super) fn fork(used: u32, one: (u64, Word), other: (u64, Word)) -> Word {
        let (here, there) = (Self::at(one.0, used), Self::at(other.0, used));
        let mut words = [ptr::null_mut(); 1 << BITS];
        if here == there {
            words[here] = Self::fork(used + BITS, one, other);
        } else {
            (words[here], words[there]) = (one.1, other.1);
        }
        Self::of(words).word()
    }

    pub(super) fn words(&self) -> [Word; 1 << BITS] {
        // ordering: pairs with every exchange of a cell, as in `Trie::load`.
        array::from_fn(|at| self.0[at].load(Ordering::Acquire))
    }
}

/// Frees the nodes that a word points to, but no entry.
///
/// # Safety
/// Nobody else can reach them.
pub(super) unsafe fn free_nodes(word: Word) {
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
pub(super) fn alone(words: &[Word]) -> Option<Word> {
    let mut there = words.iter().copied().filter(|word| !thawed(*word).is_null());
    let first = there.next().unwrap_or(ptr::null_mut());
    (there.next().is_none() && first.addr() & NODE == 0).then_some(first)
}

/// Puts what the cells of a node hold into its place, which is `up`. If another has done so, or that place is to be replaced too,
/// it does nothing.
pub(super) fn replace(up: &Cell, node: &Node, pinned: &Guard) {
    let words = array::from_fn(|at| freeze(&node.0[at], "trie.replace_without_freezing"));
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

/// Sees to it that nothing that can be reached through a cell changes any more: from the top down, so that who meets a frozen cell finds
/// one on the way from above too. Adds what entries there are.
pub(super) fn freeze_below(cell: &Cell, entries: &mut Vec<Word>) {
    let word = freeze(cell, "trie.widen_without_freezing");
    // SAFETY: read under the caller's pin.
    match unsafe { node(word) } {
        Some(node) => node.0.iter().for_each(|cell| freeze_below(cell, entries)),
        None if word.is_null() => {}
        None => entries.push(word),
    }
}

/// Adds the entries that can be reached through a word, which was read under a pin.
pub(super) fn gather<S>(word: Word, all: &mut Vec<Entry<S>>) {
    // SAFETY: says the caller.
    match unsafe { node(word) } {
        Some(node) => node.words().into_iter().for_each(|word| gather(word, all)),
        None => all.extend(entry(word)),
    }
}
