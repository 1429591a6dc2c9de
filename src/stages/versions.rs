//! The pointer to a file's current revision: created by compare-and-swap, swung by a retry, installed invisibly by a transition
//! and made visible by its one commit. It does not know what a revision holds, nor who waits in it.
//!
//! Whoever meets an installing revision goes through to its predecessor, readers, requests and completions alike; nothing of
//! the predecessor is ended before the commit. So nobody sees one member of a transition without the others.

use super::chain::Prev;
use super::needs;
use super::stamp::{Clock, Stamp};
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::epoch::{self, Guard};
use crate::sync::{Arc, mutant};
use std::ptr;

/// What the members of one transition share: one store to its stamp makes them all visible.
#[derive(Debug)]
pub(crate) struct Transition(Stamp);

impl Transition {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self(Stamp::installing()))
    }
}

/// What versioned publication needs of a revision: its stamp, the transition that brings it, and its predecessor.
/// What every look reads stands last, beside what a revision puts after it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Link<R> {
    /// Null for a transition of one member, whose stamp is the revision's own. Read only while the own stamp is 0.
    shared: AtomicPtr<Transition>,
    /// The predecessor while the revision is installing, and as long as a captured view can see it.
    pub(super) prev: Prev<R>,
    pub(super) stamp: Stamp,
}

impl<R> Link<R> {
    /// The link of a revision that a transition will install.
    pub(crate) fn installing() -> Self {
        Self::with(Stamp::installing())
    }

    /// The link of a transition of one member that becomes visible by being linked, outside the section.
    pub(crate) fn committing() -> Self {
        Self::with(Stamp::committing())
    }

    /// The link of a file's first revision, which is visible as soon as it is linked.
    pub(crate) fn first() -> Self {
        Self::with(Stamp::first())
    }

    fn with(stamp: Stamp) -> Self {
        Self { stamp, shared: AtomicPtr::new(ptr::null_mut()), prev: Prev::none() }
    }
}

/// A revision, as far as versioned publication is concerned.
pub(crate) trait Version: Sized {
    /// The link that the revision carries.
    fn link(&self) -> &Link<Self>;

    /// From which clock value on views can see anything in it, if they ever can.
    fn seen_from(&self, clock: &Clock) -> Option<u64> {
        Some(self.stamp(clock))
    }
}

/// A revision that has been taken out of its slot: pinned readers may still look at it, so it must outlive their pins.
#[must_use]
pub(crate) struct Retired<R>(pub(crate) Arc<R>);

/// A revision that nobody else holds yet.
#[derive(Debug)]
pub(crate) struct Unshared<R>(Arc<R>);

impl<R> Unshared<R> {
    pub(crate) fn new(revision: R) -> Self {
        Self(Arc::new(revision))
    }

    /// To be looked at.
    pub(crate) fn get(&self) -> &R {
        &self.0
    }

    /// To be completed, before it is shown to anybody.
    pub(crate) fn get_mut(&mut self) -> &mut R {
        // SAFETY: the one count of it is in here: it is given away only together with `self`.
        unsafe { &mut *Arc::as_ptr(&self.0).cast_mut() }
    }
}

/// A revision that was read under a pin, and stays alive as long as that.
pub(crate) struct Seen<'g, R>(pub(super) &'g R);

impl<R> Seen<'_, R> {
    /// A count of its own, with which it outlives the pin.
    pub(crate) fn share(&self) -> Arc<R> {
        let raw = ptr::from_ref(self.0);
        // SAFETY: what a slot's pointer shows lies in an `Arc`, whose count it holds or has left to a `Retired` that outlives
        // this pin.
        unsafe {
            Arc::increment_strong_count(raw);
            Arc::from_raw(raw)
        }
    }
}

impl<R> std::ops::Deref for Seen<'_, R> {
    type Target = R;

    fn deref(&self) -> &R {
        self.0
    }
}

/// The pointer to the current revision; holds one count of it. Of a slot without one, who [`needs`] it all the same.
#[derive(Debug)]
pub(crate) struct Versions<R: Version> {
    pub(super) head: AtomicPtr<R>,
    /// Sweeps of what hangs below the head that have been asked for and not been made.
    pub(super) sweeps: AtomicU64,
}

impl<R: Version> Versions<R> {
    /// A slot that has no revision yet, and is needed by its maker.
    pub(crate) fn empty() -> Self {
        Self { head: AtomicPtr::new(needs::first()), sweeps: AtomicU64::new(0) }
    }

    /// A slot that is made together with its first revision.
    #[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
    pub(crate) fn with(first: Arc<R>) -> Self {
        Self { head: AtomicPtr::new(Arc::into_raw(first).cast_mut()), sweeps: AtomicU64::new(0) }
    }

    /// Whether the slot has never had a revision.
    pub(crate) fn is_empty(&self) -> bool {
        // ordering: a hint; `create` decides.
        needs::is_vacant(self.head.load(Ordering::Relaxed))
    }

    /// The visible revision, if there is one.
    pub(crate) fn visible<'g>(&self, clock: &Clock, _pinned: &'g Guard) -> Option<Seen<'g, R>> {
        loop {
            // ordering: pairs with `create`, `swing` and `install`. If the link came first, this sees the revision whole and its
            // stamp; else it sees the predecessor.
            let head = self.head.load(Ordering::Acquire);
            if needs::is_vacant(head) {
                return None;
            }
            // SAFETY: what the pointer holds stays alive as long as a thread that was pinned when it read it stays pinned: it is
            // let go through `Retired`, whose holder waits for those pins.
            let revision = unsafe { &*head };
            if mutant("versions.join_installing") || revision.is_visible(clock) {
                return Some(Seen(revision));
            }
            // If the predecessor is already cut off, the commit came before: look again.
            let prev = revision.link().prev.revision();
            // SAFETY: as above: the predecessor is retired only after the commit, which was not yet visible under this pin.
            match unsafe { prev.as_ref() } {
                Some(prev) => {
                    // It was committed before its successor was linked, and perhaps nobody has helped it since: a view that is captured
                    // after this look shows it.
                    if !mutant("versions.predecessor_unhelped") {
                        prev.stamp(clock);
                    }
                    return Some(Seen(prev));
                }
                None if mutant("versions.nil_is_unknown") => return None,
                None => crate::sync::hint::spin_loop(),
            }
        }
    }

    /// Whether `revision`, which has been visible, still is.
    #[inline]
    pub(crate) fn is_current(&self, revision: &R, clock: &Clock) -> bool {
        // ordering: pairs with `install` and `swing`: as in `visible`. If the head is the revision itself this is the whole answer,
        // and nothing has to be pinned to compare addresses; else the head may be installing.
        if ptr::eq(self.head.load(Ordering::Acquire), revision) {
            return true;
        }
        let pinned = epoch::pin();
        self.visible(clock, &pinned).is_some_and(|visible| ptr::eq(visible.0, revision))
    }

    /// Whether a transition stands at the head that has not been committed.
    pub(crate) fn is_moving(&self, clock: &Clock) -> bool {
        let pinned = epoch::pin();
        self.head(&pinned).is_some_and(|head| !head.is_visible(clock))
    }

    /// Makes `first` the first revision of a slot that has none. Fails if another thread was faster, or the slot is buried: not so
    /// while the caller needs it.
    #[inline]
    pub(crate) fn create(&self, first: Arc<R>) -> Result<(), Arc<R>> {
        let raw = Arc::into_raw(first).cast_mut();
        // Most are needed by the one who creates.
        let mut free = needs::first();
        loop {
            // ordering: pairs with `visible` and `install`. If an install came first, its predecessor stands in for this one.
            match self.head.compare_exchange(free, raw, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(now) if needs::is_free(now) => free = now,
                // SAFETY: the count that `into_raw` gave up was not taken over.
                Err(_) => return Err(unsafe { Arc::from_raw(raw) }),
            }
        }
    }

    /// The head, which may be installing: but for inside the section, where no such revision can stand.
    #[inline]
    pub(crate) fn head<'g>(&self, _pinned: &'g Guard) -> Option<&'g R> {
        let head = self.head.load(Ordering::Acquire);
        // SAFETY: as in `visible`.
        (!needs::is_vacant(head)).then(|| unsafe { &*head })
    }

    /// Links `fresh` over `old`, invisible. Inside the section. `Err` if a creation or a retry came between: look at the head
    /// again.
    #[inline]
    pub(crate) fn install(
        &self,
        old: &R,
        Unshared(fresh): Unshared<R>,
        shared: Option<&Transition>,
    ) -> Result<Arc<R>, Unshared<R>> {
        let link = fresh.link();
        let shared = shared.map_or(ptr::null_mut(), |shared| ptr::from_ref(shared).cast_mut());
        let old = ptr::from_ref(old).cast_mut();
        // ordering: nobody sees the new revision before the exchange below releases both.
        link.shared.store(shared, Ordering::Relaxed);
        link.prev.open(old);
        let raw = Arc::into_raw(fresh.clone()).cast_mut();
        if mutant("versions.install_by_store") {
            self.head.swap(raw, Ordering::AcqRel);
            return Ok(fresh);
        }
        // ordering: as in `create`; an exchange, since creations and retries do not take the section.
        if self.head.compare_exchange(old, raw, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: the count that `into_raw` gave up was not taken over, so the one in `fresh` is the only one again.
            drop(unsafe { Arc::from_raw(raw) });
            return Err(Unshared(fresh));
        }
        Ok(fresh)
    }
}

impl<R: Version> Drop for Versions<R> {
    fn drop(&mut self) {
        // Nobody shares the slot, so no link is open: each revision that hangs here has one count.
        let mut at = self.head.swap(ptr::null_mut(), Ordering::AcqRel);
        if needs::is_vacant(at) {
            return;
        }
        while !at.is_null() {
            // SAFETY: the slot's own count.
            let revision = unsafe { Arc::from_raw(at) };
            at = revision.link().prev.revision();
        }
    }
}

/// Makes the members of a transition visible by one write: to `shared` if there is one, else to the only member's own stamp.
pub(crate) fn commit<'a, R: Version + 'a>(mut members: impl Iterator<Item = &'a R>, shared: Option<&Transition>) {
    match shared {
        Some(shared) => shared.0.commit(),
        None => {
            if let Some(member) = members.next() {
                member.link().stamp.commit();
            }
        }
    }
}

/// Frees what the members of a committed transition shared, once no pinned reader can ask it any more.
pub(crate) fn let_go(transition: Box<Transition>, pinned: &Guard) {
    // SAFETY: every member has been unlinked, and so bears the final stamp itself: who pins from now on asks the members alone.
    // The closure runs none of the host's code.
    unsafe { pinned.defer_unchecked(move || drop(transition)) };
}

/// What versioned publication tells about one revision.
pub(crate) trait VersionExt: Version {
    /// The revision's stamp, 0 if its transition has not committed.
    fn stamp(&self, clock: &Clock) -> u64 {
        let link = self.link();
        let own = link.stamp.resolve(clock);
        if own != 0 {
            return own;
        }
        // ordering: written before the revision was linked, and the acquire that found the revision covers it.
        let shared = link.shared.load(Ordering::Relaxed);
        // SAFETY: the own stamp was 0 under the caller's pin, so the transition has not been let go before that pin.
        unsafe { shared.as_ref() }.map_or(0, |shared| shared.0.resolve(clock))
    }

    /// Whether the revision's transition has committed.
    fn is_visible(&self, clock: &Clock) -> bool {
        self.stamp(clock) != 0
    }

    /// The stamp of a committed revision, which it bears itself from now on. To be called by who has committed it.
    fn settle(&self, clock: &Clock) -> u64 {
        let link = self.link();
        // SAFETY: what the members share is let go by who has committed it, after this.
        let Some(shared) = (unsafe { link.shared.load(Ordering::Relaxed).as_ref() }) else {
            return link.stamp.resolve_own(clock);
        };
        let stamp = shared.0.resolve_own(clock);
        link.stamp.settle(stamp);
        stamp
    }
}

impl<R: Version> VersionExt for R {}

/// Whether the result of `revision` may still be sealed: the look that precedes the one compare-and-swap of a seal.
pub(crate) fn may_seal<R: Version>(slot: &Versions<R>, revision: &R, clock: &Clock) -> bool {
    mutant("seal.no_look") || slot.is_current(revision, clock)
}

/// Whether the successor of `revision` is visible, so that whoever polls it helps to end it.
pub(crate) fn has_moved_on<R: Version>(slot: &Versions<R>, revision: &R, clock: &Clock) -> bool {
    !mutant("poll.no_help") && !slot.is_current(revision, clock)
}
