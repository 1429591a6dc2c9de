//! A hash trie: from the hash of a name to the entry of the slots whose names have it, for any number of threads, of which none ever
//! waits for another. It does not know what a slot holds, nor when one comes or goes.
//!
//! The upper bits of a hash choose a cell of the root; the next few bits choose a cell of the node to which that points, and so
//! on. The root is as wide as what is in it asks for, which keeps the way short: each step waits for memory. A cell is
//! empty, or holds an entry, or points to a node. Where two hashes meet in a cell both get a node in its place. A node that holds no
//! more than one entry gives way to that: first its cells are frozen, one by one, so that nobody changes them any more, then one
//! exchange puts what they hold into the node's place. Whoever is to change something and meets a frozen cell does all of that
//! himself. Readers read frozen cells like others.
//!
//! | a cell | who | excludes |
//! |---|---|---|
//! | nothing or an entry → another or nothing | `exchange` | two who change the entry of one hash at once |
//! | an entry → a node that holds it and another | `exchange` | an entry that is lost since another hash needs its cell |
//! | anything → the same, frozen | who replaces the node around it, or the part of the root above | a change of what is about to be out of reach |
//! | a node → what its frozen cells hold | the same, once | a node with too little in it, for ever |
//! | a part of the root → another that holds the same | who finds it too narrow or too wide, once | a way that grows with the files |
//!
//! A node or a part that was replaced outlives the pins of that time, and so does an entry: see [`Taken`].

mod node;
mod root;

use super::entry::{Entry, Place, Taken};
use crate::sync::atomic::{Ordering, fence};
use crate::sync::epoch::{self, Guard};
use crate::sync::{Arc, mutant};
pub(crate) use node::Hashed;
use node::{
    BITS, Cell, FROZEN, Node, Word, alone, entry, free_nodes, gather, hash_of, is_frozen, load_for_cas, node, replace,
};
use root::{PART_BITS, Part, Root};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;

/// Parts of a root.
pub(crate) const PARTS: usize = 1 << PART_BITS;

/// The entries of all hashes.
pub(crate) struct Trie<S: Hashed> {
    root: Root,
    slots: PhantomData<Arc<S>>,
}

/// The cell of a hash, where no node stands, and what stands around it.
struct Found<'g> {
    cell: &'g Cell,
    word: Word,
    /// Bits of the hash that have led here.
    used: u32,
    part: Part<'g>,
    /// The node that the cell lies in, with the cell that points there.
    around: Option<(&'g Cell, &'g Node)>,
}

/// Who has emptied a cell, before it looks at those beside it.
fn emptied_before_look() {
    if !mutant("trie.empty_no_fence") {
        // ordering: store-load; pairs with itself. Of two who empty the cells of one node, the one that passes last sees both empty.
        fence(Ordering::SeqCst);
    }
}

impl<S: Hashed> Trie<S> {
    /// With a root for so many slots.
    pub(crate) fn new(slots: usize) -> Self {
        const { assert!(align_of::<S>() > FROZEN, "the marks stand in the lowest bits of an address") };
        Self { root: Root::new(slots), slots: PhantomData }
    }

    /// Which part of the root a hash chooses.
    #[inline]
    pub(crate) fn part(hash: u64) -> usize {
        Root::at(hash)
    }

    /// Says that so many slots stand in the part of a hash since one came or went: it is made wider or narrower if it has to be.
    #[inline]
    pub(crate) fn fit(&self, hash: u64, slots: usize, pinned: &Guard) {
        self.root.fit::<S>(hash, slots, pinned);
    }

    /// The entry of a hash.
    #[inline]
    pub(crate) fn load(&self, hash: u64, pinned: &Guard) -> Option<Entry<S>> {
        self.look(hash, pinned).map(|(entry, _)| entry)
    }

    /// The entry of a hash, and the first slot in it.
    #[inline]
    pub(crate) fn look(&self, hash: u64, pinned: &Guard) -> Option<(Entry<S>, ManuallyDrop<Arc<S>>)> {
        let (mut cell, used) = self.root.part(hash, pinned)?.cell(hash);
        let mut rest = hash << used;
        loop {
            // ordering: pairs with every exchange of a cell. Whatever is found is seen whole.
            let word = cell.load(Ordering::Acquire);
            // SAFETY: read under the caller's pin.
            let Some(node) = (unsafe { node(word) }) else {
                let entry: Entry<S> = entry(word)?;
                let first = entry.first(pinned);
                return if first.hash() == hash { Some((entry, first)) } else { None };
            };
            cell = &node.0[Node::at(rest, 0)];
            rest <<= BITS;
        }
    }

    /// Finds the cell of a hash, for who is to change it. `None` if something was in the way that is to be replaced: look again.
    fn seek<'g>(&'g self, hash: u64, pinned: &'g Guard) -> Option<Found<'g>> {
        let part = self.root.part_or_made(hash, pinned);
        let (cell, used) = part.cell(hash);
        let mut found = Found { cell, word: ptr::null_mut(), used, part, around: None };
        loop {
            found.word = load_for_cas(found.cell);
            if is_frozen(found.word) {
                match found.around {
                    // If that place is frozen too, the next look meets it first.
                    Some((up, node)) => replace(up, node, pinned),
                    None => self.root.remake::<S>(hash, found.part, pinned),
                }
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
            let there = seen.map(|entry: Entry<S>| hash_of(entry, pinned));
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
    pub(crate) fn all(&self, pinned: &Guard) -> Vec<Entry<S>> {
        let mut all = Vec::new();
        // ordering: as in `load`.
        self.root.cells(pinned).for_each(|cell| gather(cell.load(Ordering::Acquire), &mut all));
        all
    }

    /// How many nodes there are.
    #[cfg(test)]
    pub(crate) fn nodes(&self, pinned: &Guard) -> usize {
        fn below(word: Word) -> usize {
            // SAFETY: under the caller's pin.
            unsafe { node(word) }.map_or(0, |node| 1 + node.words().into_iter().map(below).sum::<usize>())
        }
        self.root.cells(pinned).map(|cell| below(cell.load(Ordering::Acquire))).sum()
    }

    /// How many cells the root has.
    #[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
    fn width(&self, pinned: &Guard) -> usize {
        self.root.cells(pinned).count()
    }
}

impl<S: Hashed> Drop for Trie<S> {
    fn drop(&mut self) {
        // The last count of a slot runs the host's destructors: not under the pin.
        let all = self.all(&epoch::pin());
        // SAFETY: nobody shares the trie any more, and each entry stood in it once. The root frees the nodes.
        all.into_iter().for_each(|entry| drop(unsafe { Taken::unreachable(entry) }));
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
mod tests;
