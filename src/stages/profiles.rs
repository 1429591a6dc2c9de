//! Finds one of many cells of a list that only grows, by its hash: a short list is walked, a long one has a tree beside it.
//! It does not know what a cell holds, nor who may put one at the head of the list.
//!
//! The list alone says what there is. Who has put a cell at its head enters it and every older one that is not in the tree, the oldest
//! first, and marks each as *whole* once it and all older ones stand there. Two who enter one cell take the same way and find it in
//! the place where it is. So who looks for a cell walks from the head to the first whole one, and leaves the rest to the tree.
//!
//! | a branch | who | excludes |
//! |---|---|---|
//! | nothing → a cell, for ever | who enters that | two places of one cell |

use super::edges::Boxed;
use crate::flight::Contained;
use crate::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::sync::mutant;
use smallvec::SmallVec;
use std::hash::Hash;
use std::ops::Deref;
use std::ptr;

/// Cells of a list that needs no tree.
const SHORT: u32 = if cfg!(shardrun_loom) { 1 } else { 8 };
/// Bits of a hash that choose a branch.
const BITS: u32 = 2;

/// A profile of the host's, with its hash.
pub(crate) struct Named<P> {
    pub(crate) hash: u64,
    profile: Contained<P>,
}

impl<P: Hash> Named<P> {
    /// Hashes it, which is the host's code.
    pub(crate) fn of(profile: P) -> Self {
        let profile = Contained::new(profile);
        Self { hash: hash(&*profile), profile }
    }

    /// With the hash that it was found to have.
    pub(crate) fn with(hash: u64, profile: P) -> Self {
        Self { hash, profile: Contained::new(profile) }
    }
}

impl<P> Deref for Named<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.profile
    }
}

/// The hash of a profile. Runs the host's code.
pub(crate) fn hash<P: Hash>(profile: &P) -> u64 {
    // Of one file, and most have few: to foresee it gains nobody more than a walk.
    ahash::RandomState::with_seeds(0x5eed, 0xf11e, 0x9a7e, 0x1dea).hash_one(profile)
}

/// A cell of the list. It lives as long as the list.
pub(crate) trait Listed: Sized {
    /// Its hash, which never changes.
    fn hash(&self) -> u64;
    /// The one before it, if there is one. Set before it is shown to anybody.
    fn older(&self) -> Option<&Self>;
    /// How many are older.
    fn number(&self) -> u32;
    /// Its place in the tree.
    fn place(&self) -> &Place<Self>;
}

/// What grows behind a cell in the tree: made when it is entered.
pub(crate) struct Place<C>(Boxed<Branches<C>>);

struct Branches<C> {
    /// The root of the tree, which is the oldest cell.
    root: *const C,
    /// Whether the cell and all older ones are entered.
    is_whole: AtomicBool,
    branches: [AtomicPtr<C>; 1 << BITS],
}

impl<C: Listed> Place<C> {
    pub(crate) fn new() -> Self {
        Self(Boxed::new())
    }

    fn enter(&self, root: &C) -> &Branches<C> {
        self.0.get_or_make(|| Branches {
            root,
            is_whole: AtomicBool::new(false),
            branches: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        })
    }

    /// The root of the tree, if the cell and all older ones are entered.
    fn root(&self) -> Option<*const C> {
        let branches = self.0.get()?;
        // ordering: pairs with `enter`. If that came first the branches that lead to all of them are seen; else they are walked.
        branches.is_whole.load(Ordering::Acquire).then_some(branches.root)
    }

    /// The branch that a hash chooses with its highest bits.
    fn branch(&self, hash: u64) -> Option<&AtomicPtr<C>> {
        Some(&self.0.get()?.branches[(hash >> (u64::BITS - BITS)) as usize])
    }
}

/// The cell of a hash of which `is` says yes, among `newest` and all older ones.
pub(crate) fn find<C: Listed>(newest: Option<&C>, hash: u64, is: impl Fn(&C) -> bool) -> Option<&C> {
    let mut next = newest;
    while let Some(cell) = next {
        if let Some(root) = cell.place().root() {
            // SAFETY: a cell of the list, which lives as long as `newest`.
            return descend(unsafe { &*root }, hash, is);
        }
        if cell.hash() == hash && is(cell) {
            return Some(cell);
        }
        next = cell.older();
    }
    None
}

fn descend<C: Listed>(root: &C, hash: u64, is: impl Fn(&C) -> bool) -> Option<&C> {
    let (mut cell, mut rest) = (root, hash);
    while cell.hash() != hash || !is(cell) {
        // ordering: pairs with `put`. Whichever cell is found is seen whole, with its place.
        let next = cell.place().branch(rest)?.load(Ordering::Acquire);
        // SAFETY: as in `find`.
        cell = unsafe { next.as_ref() }?;
        rest <<= BITS;
    }
    Some(cell)
}

/// The oldest of `newest` and all older ones.
pub(crate) fn oldest<C: Listed>(newest: &C) -> &C {
    let mut cell = newest;
    while let Some(older) = cell.older() {
        if let Some(root) = cell.place().root() {
            // SAFETY: as in `find`; the oldest cell is the root of the tree.
            return unsafe { &*root };
        }
        cell = older;
    }
    cell
}

/// Enters `newest`, which was put at the head of the list, and all older ones that are not in the tree, unless the list is short.
pub(crate) fn enter<C: Listed>(newest: &C) {
    if newest.number() < SHORT {
        return;
    }
    let (mut outside, mut root) = (SmallVec::<[&C; 16]>::new(), newest);
    let mut next = Some(newest);
    while let Some(cell) = next {
        if let Some(whole) = cell.place().root() {
            // SAFETY: as in `find`.
            root = unsafe { &*whole };
            break;
        }
        root = cell;
        outside.push(cell);
        next = cell.older().filter(|_| !mutant("profiles.enter_one_alone"));
    }
    for cell in outside.into_iter().rev() {
        let branches = cell.place().enter(root);
        put(root, cell);
        // ordering: Release, see `Place::root`.
        branches.is_whole.store(true, Ordering::Release);
    }
}

/// Puts a cell where the way of its hash ends, unless it stands on that way.
fn put<C: Listed>(root: &C, cell: &C) {
    let (mut at, mut rest) = (root, cell.hash());
    while !ptr::eq(at, cell) {
        let branch = at.place().branch(rest).expect("what stands in the tree has a place there");
        let fresh = ptr::from_ref(cell).cast_mut();
        // ordering: Release shows the cell with its place; Acquire sees that of the one which stands there.
        if let Err(there) = branch.compare_exchange(ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: as in `find`; and it is not null.
            at = unsafe { &*there };
            rest <<= BITS;
        } else {
            return;
        }
    }
}
