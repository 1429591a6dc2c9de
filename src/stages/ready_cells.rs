//! Which cells of a list are ready to be looked at: all that were pushed, and the oldest cell, which is looked at always.
//! It does not know what stands in a cell, nor who looks.
//!
//! Who makes something ready does that first, then pushes its cell, then sees to a ticket; who pops a ticket takes what was pushed, and
//! looks. Most lists have one cell, the oldest: that is never pushed, since who pops the ticket comes by in any case.

use super::profiles::{Listed, oldest};
use crate::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::sync::mutant;
use smallvec::SmallVec;
use std::ptr;

/// A cell's place among those that are ready, where it stands at most once.
pub(crate) struct Queued<C> {
    is_in: AtomicBool,
    older: AtomicPtr<C>,
}

impl<C> Queued<C> {
    pub(crate) fn new() -> Self {
        Self { is_in: AtomicBool::new(false), older: AtomicPtr::new(ptr::null_mut()) }
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
crate::sync::local! {
    /// Looks of this thread at cells that were pushed.
    static LOOKED: std::cell::Cell<u64> = std::cell::Cell::new(0);
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
pub(crate) fn looked() -> u64 {
    LOOKED.with(std::cell::Cell::get)
}

/// A cell of a list that can be pushed. It lives as long as its list.
pub(crate) trait Queueable: Listed {
    fn queued(&self) -> &Queued<Self>;
}

/// Cells of one list that were pushed, newest first.
pub(crate) struct ReadyCells<C> {
    newest: AtomicPtr<C>,
}

impl<C: Queueable> ReadyCells<C> {
    pub(crate) fn none() -> Self {
        Self { newest: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Has `cell` looked at by who takes next. What is ready in it has been made so before.
    #[inline]
    pub(crate) fn push(&self, cell: &C) {
        if cell.number() > 0 {
            self.push_younger(cell);
        }
    }

    /// As [`push`](Self::push) with each of `cells`, which come newest first: who takes has them oldest first.
    #[inline]
    pub(crate) fn push_all<'c>(&self, cells: impl Iterator<Item = &'c C>)
    where
        C: 'c,
    {
        let mut younger = SmallVec::<[&C; 8]>::new();
        for cell in cells {
            if cell.number() > 0 {
                younger.push(cell);
            }
        }
        for cell in younger.iter().rev() {
            self.push_younger(cell);
        }
    }

    fn push_younger(&self, cell: &C) {
        // ordering: pairs with `take`, which clears the flag before it looks at the cell. If that came first, this pushes
        // again; else its look finds what was made ready before this.
        if cell.queued().is_in.swap(true, Ordering::AcqRel) {
            return;
        }
        let raw = ptr::from_ref(cell).cast_mut();
        let mut head = self.newest.load(Ordering::Relaxed);
        loop {
            cell.queued().older.store(head, Ordering::Relaxed);
            // ordering: Release hands the link to who takes the chain.
            match self.newest.compare_exchange_weak(head, raw, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes what was pushed and calls `look` with it, the oldest cell of the list first, whether it was made ready or not; puts back
    /// what `look` says is to be kept. For who has popped a ticket. `newest` is that of the list.
    pub(crate) fn take(&self, newest: Option<&C>, mut look: impl FnMut(&C) -> bool) {
        let mut cells = SmallVec::<[&C; 8]>::new();
        // ordering: the ticket makes visible what was pushed before it was called for; what comes later has a ticket of its own.
        if !self.newest.load(Ordering::Relaxed).is_null() {
            // ordering: Acquire; pairs with the Release of the push.
            let mut at = self.newest.swap(ptr::null_mut(), Ordering::AcqRel);
            // SAFETY: a cell lives as long as its list, which the caller borrows.
            while let Some(cell) = unsafe { at.as_ref() } {
                at = cell.queued().older.load(Ordering::Relaxed);
                cells.push(cell);
            }
        }
        let forgets = mutant("ready.forgets_the_oldest") && !cells.is_empty();
        if let Some(oldest) = newest.map(oldest).filter(|_| !forgets) {
            // It is kept by staying where it is.
            look(oldest);
        }
        for cell in cells.into_iter().rev() {
            #[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
            LOOKED.with(|looked| looked.set(looked.get() + 1));
            let late = mutant("ready.clears_late");
            // ordering: see `push_younger`.
            if !late {
                cell.queued().is_in.swap(false, Ordering::AcqRel);
            }
            let keeps = look(cell);
            if late {
                cell.queued().is_in.swap(false, Ordering::AcqRel);
            }
            if keeps {
                self.push(cell);
            }
        }
    }
}
