//! A slot that stays in the table because somebody needs it, though its file may have no revision; and the end of one that nobody
//! needs any more. It does not know why it is needed.
//!
//! A file that is only named as a dependency has such a slot. It is needed by each set of dependencies that names it, until that is
//! closed, and for a moment by whoever looks the file up to ask for it, to edit it or to name it.
#![forbid(unsafe_code)]

use super::host::Host;
use super::slot::Slot;
use crate::sync::Arc;
use std::ops::Deref;

/// A slot, kept from burial.
pub(crate) struct Needed<H: Host>(Option<Arc<Slot<H>>>);

impl<H: Host> Needed<H> {
    /// Keeps `slot`. `None` if it is buried.
    pub(crate) fn of(slot: Arc<Slot<H>>) -> Option<Self> {
        // Made for a promise alone: what was not promised must not be given back as it drops.
        if slot.versions.need() { Some(Self(Some(slot))) } else { None }
    }

    /// A slot that needs no more to stay: the caller has just made it, or has seen a revision in it.
    #[inline]
    pub(crate) fn already(slot: Arc<Slot<H>>) -> Self {
        Self(Some(slot))
    }

    /// The slot, that is needed no more.
    #[inline]
    pub(crate) fn into_slot(mut self) -> Arc<Slot<H>> {
        let slot = self.0.take().expect("it is taken once");
        slot.unneed();
        slot
    }
}

impl<H: Host> Deref for Needed<H> {
    type Target = Arc<Slot<H>>;

    #[inline]
    fn deref(&self) -> &Arc<Slot<H>> {
        self.0.as_ref().expect("it is there until it is taken")
    }
}

impl<H: Host> Drop for Needed<H> {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.unneed();
        }
    }
}

impl<H: Host> Slot<H> {
    /// Somebody needs it no more. If it was the last and there is no file, it is taken out of the table. Outside every section and
    /// pin.
    #[inline]
    pub(crate) fn unneed(&self) {
        if self.versions.unneed() {
            self.leave_table();
        }
    }

    #[cold]
    fn leave_table(&self) {
        // Without a scheduler there is nothing to keep small: the table goes with the last root.
        if let Some(stages) = self.shared().scheduler() {
            stages.core().note_end(self);
            stages.core().take_out(self);
        }
    }
}
