//! The pointer to a file's current revision: created by compare-and-swap, swung by a retry, installed invisibly by a transition
//! and made visible by its one commit. It does not know what a revision holds, nor who waits in it.
//!
//! Whoever meets an installing revision goes through to its predecessor, readers, requests and completions alike; nothing of
//! the predecessor is ended before the commit. So nobody sees one member of a transition without the others.

use super::stamp::{Clock, Stamp};
use crate::sync::atomic::{AtomicPtr, Ordering};
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
#[derive(Debug)]
pub(crate) struct Link<R> {
    stamp: Stamp,
    /// Null for a transition of one member, whose stamp is the revision's own. Read only while the own stamp is 0.
    shared: AtomicPtr<Transition>,
    /// The predecessor while the revision is installing, null before and after.
    prev: AtomicPtr<R>,
}

impl<R> Link<R> {
    /// The link of a revision that a transition will install.
    pub(crate) fn installing() -> Self {
        Self::with(Stamp::installing())
    }

    /// The link of a revision that is visible as soon as it is linked.
    pub(crate) fn committing() -> Self {
        Self::with(Stamp::committing())
    }

    fn with(stamp: Stamp) -> Self {
        Self { stamp, shared: AtomicPtr::new(ptr::null_mut()), prev: AtomicPtr::new(ptr::null_mut()) }
    }
}

/// A revision, as far as versioned publication is concerned.
pub(crate) trait Version: Sized {
    /// The link that the revision carries.
    fn link(&self) -> &Link<Self>;
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
pub(crate) struct Seen<'g, R>(&'g R);

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

/// The pointer to the current revision; holds one count of it.
#[derive(Debug)]
pub(crate) struct Versions<R> {
    head: AtomicPtr<R>,
}

impl<R: Version> Versions<R> {
    /// A slot that has no revision yet.
    pub(crate) fn empty() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// A slot that is made together with its first revision.
    pub(crate) fn with(first: Arc<R>) -> Self {
        Self { head: AtomicPtr::new(Arc::into_raw(first).cast_mut()) }
    }

    /// Whether the slot has never had a revision.
    pub(crate) fn is_empty(&self) -> bool {
        // ordering: a hint; `create` decides.
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// The visible revision, if there is one.
    pub(crate) fn visible<'g>(&self, clock: &Clock, _pinned: &'g Guard) -> Option<Seen<'g, R>> {
        loop {
            // ordering: pairs with `create`, `swing` and `install`. If the link came first, this sees the revision whole and its
            // stamp; else it sees the predecessor.
            let head = self.head.load(Ordering::Acquire);
            // SAFETY: what the pointer holds stays alive as long as a thread that was pinned when it read it stays pinned: it is
            // let go through `Retired`, whose holder waits for those pins.
            let revision = unsafe { head.as_ref() }?;
            if mutant("versions.join_installing") || revision.is_visible(clock) {
                return Some(Seen(revision));
            }
            // ordering: pairs with `unlink`. If the predecessor is already cut off, the commit came before: look again.
            let prev = revision.link().prev.load(Ordering::Acquire);
            // SAFETY: as above: the predecessor is retired only after the commit, which was not yet visible under this pin.
            match unsafe { prev.as_ref() } {
                Some(prev) => return Some(Seen(prev)),
                None if mutant("versions.nil_is_unknown") => return None,
                None => crate::sync::hint::spin_loop(),
            }
        }
    }

    /// Whether `revision`, which has been visible, still is.
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

    /// Makes `first` the first revision of a slot that has none. Fails if another thread was faster.
    pub(crate) fn create(&self, first: Arc<R>) -> Result<(), Arc<R>> {
        let raw = Arc::into_raw(first).cast_mut();
        // ordering: pairs with `visible` and `install`. If an install came first, its predecessor stands in for this one.
        match self.head.compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            // SAFETY: the count that `into_raw` gave up was not taken over.
            Err(_) => Err(unsafe { Arc::from_raw(raw) }),
        }
    }

    /// Puts `fresh` in the place of `ended`, at the same generation. Fails if the slot has moved on.
    pub(crate) fn swing(&self, ended: &R, fresh: Arc<R>, _pinned: &Guard) -> Result<Retired<R>, Arc<R>> {
        let raw = Arc::into_raw(fresh).cast_mut();
        let old = ptr::from_ref(ended).cast_mut();
        // ordering: as in `create`.
        match self.head.compare_exchange(old, raw, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: the slot's own count of the old revision, which nobody else takes: the swap has one winner.
            Ok(_) => Ok(Retired(unsafe { Arc::from_raw(old) })),
            // SAFETY: as in `create`.
            Err(_) => Err(unsafe { Arc::from_raw(raw) }),
        }
    }

    /// The head, inside the section, where no installing revision can stand.
    pub(crate) fn head<'g>(&self, _pinned: &'g Guard) -> Option<&'g R> {
        // SAFETY: as in `visible`.
        unsafe { self.head.load(Ordering::Acquire).as_ref() }
    }

    /// Links `fresh` over `old`, invisible. Inside the section. `Err` if a creation or a retry came between: look at the head
    /// again.
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
        link.prev.store(old, Ordering::Relaxed);
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

    /// Cuts a committed revision off from its predecessor, which the caller then ends. After the commit, outside the section.
    pub(crate) fn unlink(fresh: &R, clock: &Clock) -> Retired<R> {
        let link = fresh.link();
        // ordering: `shared` was written before the revision was linked, by the caller of `install`, who is this caller.
        let shared = link.shared.load(Ordering::Relaxed);
        // SAFETY: the transition lives until the one who committed it has unlinked every member, and longer for pinned readers.
        if let Some(shared) = unsafe { shared.as_ref() } {
            link.stamp.settle(shared.0.resolve(clock));
        }
        // ordering: pairs with `visible`. A reader that finds null comes after the commit, and looks at the stamp again; else it
        // finds the predecessor, which outlives its pin. A load and a store: `install` wrote it, and nobody else ever does.
        let old = link.prev.load(Ordering::Relaxed);
        link.prev.store(ptr::null_mut(), Ordering::Release);
        // SAFETY: the slot's count of the predecessor, which `install` left to this call; it is made once a member.
        Retired(unsafe { Arc::from_raw(old) })
    }
}

impl<R> Drop for Versions<R> {
    fn drop(&mut self) {
        let head = self.head.swap(ptr::null_mut(), Ordering::AcqRel);
        if !head.is_null() {
            // SAFETY: the slot's own count; nobody shares the slot.
            drop(unsafe { Arc::from_raw(head) });
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
    /// Whether the revision's transition has committed.
    fn is_visible(&self, clock: &Clock) -> bool {
        let link = self.link();
        if link.stamp.resolve(clock) != 0 {
            return true;
        }
        // ordering: written before the revision was linked, and the acquire that found the revision covers it.
        let shared = link.shared.load(Ordering::Relaxed);
        // SAFETY: the own stamp was 0 under the caller's pin, so the transition has not been let go before that pin.
        unsafe { shared.as_ref() }.is_some_and(|shared| shared.0.resolve(clock) != 0)
    }
}

impl<R: Version> VersionExt for R {}

/// Walking back in time, for the model of captured views.
#[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
pub(crate) mod back {
    use super::{AtomicPtr, Clock, Guard, Ordering, Version};

    /// The stamp of `revision`, its own or its transition's.
    pub(crate) fn stamp<R: Version>(revision: &R, clock: &Clock) -> u64 {
        let link = revision.link();
        let own = link.stamp.resolve(clock);
        // SAFETY: the model never lets a transition go.
        let shared = unsafe { link.shared.load(Ordering::Relaxed).as_ref() };
        own.max(shared.map_or(0, |shared| shared.0.resolve(clock)))
    }

    /// The predecessor, which the model never cuts off.
    pub(crate) fn prev<'g, R: Version>(revision: &R, _pinned: &'g Guard) -> Option<&'g R> {
        let prev: &AtomicPtr<R> = &revision.link().prev;
        // SAFETY: the model never lets a revision go.
        unsafe { prev.load(Ordering::Acquire).as_ref() }
    }
}

/// Whether the result of `revision` may still be sealed: the look that precedes the one compare-and-swap of a seal.
pub(crate) fn may_seal<R: Version>(slot: &Versions<R>, revision: &R, clock: &Clock) -> bool {
    mutant("seal.no_look") || slot.is_current(revision, clock)
}

/// Whether the successor of `revision` is visible, so that whoever polls it helps to end it.
pub(crate) fn has_moved_on<R: Version>(slot: &Versions<R>, revision: &R, clock: &Clock) -> bool {
    !mutant("poll.no_help") && !slot.is_current(revision, clock)
}
