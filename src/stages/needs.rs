//! The word at the head of a slot as long as its file has no revision: how many need the slot all the same, and that nobody does any
//! more. It does not know who they are, nor what becomes of a slot that nobody needs.
//!
//! | transition | who | excludes |
//! |---|---|---|
//! | `need` | who looks a file up, or names it, before he relies on the slot | a burial, as long as he does |
//! | `unneed` | the same, once; the last of them buries | two who bury; a burial of what is needed |
//! | `create` | who makes the first revision, and needs the slot | a burial, for ever: the slot is its file's, until that is removed |
//!
//! All change the one word. So nobody who has been promised a slot finds it buried, and who meets a buried one looks again.
#![forbid(unsafe_code)]

use super::versions::{Version, Versions};
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::mutant;
use std::ptr;

/// Marks a word that is no revision.
const VACANT: usize = 1;
/// One who needs the slot. Below it there is the mark, and room for the one of burial.
const ONE: usize = 1 << 2;
const BURIED: usize = VACANT | 1 << 1;

/// The word of a slot that its maker alone needs.
pub(super) fn first<R>() -> *mut R {
    ptr::without_provenance_mut(VACANT + ONE)
}

/// Whether a head is no revision.
#[inline]
pub(super) fn is_vacant<R>(head: *mut R) -> bool {
    head.addr() & VACANT != 0
}

/// Whether a first revision may take the place of a head.
pub(super) fn is_free<R>(head: *mut R) -> bool {
    is_vacant(head) && (head.addr() != BURIED || mutant("needs.create_over_burial"))
}

/// The load that begins an exchange; under loom an exchange too, see [`load_for_cas`](crate::sync::atomic::load_for_cas).
fn load_for_cas<R>(head: &AtomicPtr<R>) -> *mut R {
    if cfg!(shardrun_loom) {
        let null = ptr::null_mut();
        return head.compare_exchange(null, null, Ordering::AcqRel, Ordering::Acquire).unwrap_or_else(|now| now);
    }
    head.load(Ordering::Acquire)
}

impl<R: Version> Versions<R> {
    /// Has the slot stay until [`unneed`](Self::unneed). False if it is buried: the caller looks for another.
    #[inline]
    #[must_use]
    pub(crate) fn need(&self) -> bool {
        let mut head = load_for_cas(&self.head);
        // A slot with a revision stays whoever needs it.
        while is_vacant(head) {
            if head.addr() == BURIED {
                return mutant("needs.of_the_buried");
            }
            // ordering: AcqRel, as all of them: the word's order decides who comes first, and nothing else is read through it.
            let more = ptr::without_provenance_mut(head.addr() + ONE);
            match self.head.compare_exchange_weak(head, more, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
        true
    }

    /// Takes back what [`need`](Self::need) said, or the slot's maker. True if nobody needs it any more and it is buried now: the
    /// caller takes it out of the table.
    #[inline]
    #[must_use]
    pub(crate) fn unneed(&self) -> bool {
        let mut head = load_for_cas(&self.head);
        while is_vacant(head) {
            debug_assert!(head.addr() != BURIED, "it is buried by the last who needs it");
            let is_last = head == first() || mutant("needs.bury_beside_others");
            let less = ptr::without_provenance_mut(if is_last { BURIED } else { head.addr() - ONE });
            // ordering: as in `need`.
            match self.head.compare_exchange_weak(head, less, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return is_last,
                Err(now) => head = now,
            }
        }
        false
    }

    /// Whether it was buried: it has had no revision, and never will.
    pub(crate) fn is_buried(&self) -> bool {
        // ordering: once it stands here it stays. Who reads an older value is told by the exchange that he relies on.
        self.head.load(Ordering::Acquire).addr() == BURIED
    }
}
