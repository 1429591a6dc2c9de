//! Superseded revisions that are kept for source roots, and how they are cut out when no root sees them any more.
//! It does not know which roots there are.
#![forbid(unsafe_code)]

use super::chain::{Cut, Replaced};
use super::host::Host;
use super::leases::Held;
use super::revision::Revision;
use super::slot::Slot;
use super::versions::{VersionExt, Versions};
use crate::sync::Arc;
use crate::sync::epoch::{self, Guard};

/// What is kept for roots.
pub(crate) struct Retained<H: Host> {
    slot: Arc<Slot<H>>,
    span: (u64, u64),
    what: What<H>,
}

enum What<H: Host> {
    /// A superseded revision.
    Version(Arc<Revision<H>>),
    /// The slot of a file that was removed, for the roots that are older than the removal.
    Grave,
    /// The same, forgotten by every later root, for those that remember it.
    Forgotten,
}

impl<H: Host> Held for Retained<H> {
    fn span(&self) -> (u64, u64) {
        self.span
    }

    fn counts(&self) -> bool {
        matches!(self.what, What::Version(_))
    }
}

impl<H: Host> Retained<H> {
    /// Lets what nobody sees any more go. Outside every section and pin.
    pub(crate) fn cut_all(unseen: Vec<Self>) {
        for Self { slot, what, .. } in unseen {
            match what {
                What::Version(revision) => {
                    Versions::let_die(&*revision);
                    slot.sweep();
                }
                What::Grave => slot.forget(),
                What::Forgotten => slot.take_out(),
            }
        }
    }
}

impl<H: Host> Slot<H> {
    /// Puts a superseded revision, which has been ended, where it belongs. Outside every section and pin.
    pub(crate) fn put_away(self: &Arc<Self>, old: Replaced<Revision<H>>) {
        let mut gone = Cut::new();
        self.put_aside(old, &mut gone);
        gone.into_iter().for_each(|gone| self.stripe.retire(gone));
    }

    /// The same, but what nobody can see any more is given to the caller, who retires it.
    pub(crate) fn put_aside(self: &Arc<Self>, old: Replaced<Revision<H>>, nowhere: &mut Cut<Revision<H>>) {
        match old {
            Replaced::Gone(gone, is_dead) => {
                nowhere.push(gone);
                if is_dead {
                    self.sweep();
                }
            }
            Replaced::Kept(revision, span) => {
                if let Some(span) = span {
                    self.retain(revision, span);
                }
                self.sweep();
            }
        }
    }

    /// Keeps a superseded revision for the roots that see it, if there are any, or cuts it out.
    fn retain(self: &Arc<Self>, revision: Arc<Revision<H>>, span: (u64, u64)) {
        self.hold(span, What::Version(revision));
    }

    fn hold(self: &Arc<Self>, span: (u64, u64), what: What<H>) {
        let mut unseen = Vec::new();
        self.shared().roots.hold(Retained { slot: self.clone(), span, what }, &mut unseen);
        Retained::cut_all(unseen);
    }

    /// Sees to it that the slot of a removed file is taken out of the table, once no root shows anything of it. As long as one lives
    /// that is older than the removal, later ones show that the file is gone; then they do not know it any more.
    pub(crate) fn bury(self: &Arc<Self>) {
        let clock = self.clock();
        let (since, removed) = self.at_end(|last, pinned| (self.versions.seen_since(clock, pinned), last.stamp(clock)));
        match since {
            Some(since) if self.shared().roots.is_seen(since, removed) => self.hold((since, removed), What::Grave),
            _ => self.forget(),
        }
    }

    fn forget(self: &Arc<Self>) {
        let (removed, forgotten) = self.at_end(|last, _| (last.stamp(self.clock()), last.forget(self.clock())));
        if self.shared().roots.is_seen(removed, forgotten) {
            self.hold((removed, forgotten), What::Forgotten);
        } else {
            self.take_out();
        }
    }

    fn take_out(&self) {
        // Without a scheduler there is nothing to keep small: the table goes with the last root.
        if let Some(stages) = self.shared().scheduler() {
            stages.core().take_out(self);
        }
    }

    /// Looks at the mark of the removal, over which nothing is ever put.
    fn at_end<R>(&self, f: impl FnOnce(&Revision<H>, &Guard) -> R) -> R {
        let pinned = epoch::pin();
        let last = self.visible(&pinned).filter(|last| last.absent).expect("the file was removed");
        f(&last, &pinned)
    }

    /// Cuts out of the file's chain what is dead in it. Outside every section and pin.
    pub(crate) fn sweep(&self) {
        let pinned = epoch::pin();
        let cut = self.versions.sweep(&pinned);
        drop(pinned);
        cut.into_iter().for_each(|gone| self.stripe.retire(gone));
    }
}
