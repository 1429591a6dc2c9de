//! The predecessors of a file's visible revision that captured views can see, newest first, and how each is cut out when none can
//! see it any more. It does not know who captures views: whoever does says what is seen no more.
//!
//! The word that points from a revision to its predecessor has an owner. While it is *open* that is who commits the revision.
//! He closes it, or makes it a *kept* link, which belongs to whoever sweeps the file's chain: one thread at a time, and nobody
//! waits for it. A revision is marked *dead* in its own word; who marks it then sweeps, or leaves that to who sweeps already.

use super::needs;
use super::stamp::Clock;
use super::versions::{Retired, Seen, Version, VersionExt, Versions};
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::epoch::Guard;
use crate::sync::{Arc, hint, mutant};
use smallvec::SmallVec;
use std::ptr;

/// The link belongs to who sweeps.
const KEPT: usize = 1;
/// The revision that holds the word is to be cut out.
const DEAD: usize = 2;

/// The word that points to a predecessor.
#[derive(Debug)]
pub(crate) struct Prev<R>(AtomicPtr<R>);

/// What stood in such a word.
struct Word<R>(*mut R);

impl<R> Clone for Word<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Word<R> {}

impl<R> Word<R> {
    fn of(revision: *mut R, marks: usize) -> *mut R {
        revision.map_addr(|address| address | marks)
    }

    fn revision(self) -> *mut R {
        self.0.map_addr(|address| address & !(KEPT | DEAD))
    }

    fn has(self, mark: usize) -> bool {
        self.0.addr() & mark != 0
    }

    /// Whether it belongs to who commits the revision.
    fn is_open(self) -> bool {
        !self.revision().is_null() && !self.has(KEPT)
    }
}

impl<R> Prev<R> {
    pub(crate) fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Points to the predecessor, of a revision that nobody else has seen yet.
    pub(crate) fn open(&self, old: *mut R) {
        // ordering: the exchange that links the revision releases it.
        self.0.store(old, Ordering::Relaxed);
    }

    fn load(&self) -> Word<R> {
        // ordering: pairs with every change of the word: who reads a pointer sees the revision whole, who reads none comes after
        // the commit.
        Word(self.0.load(Ordering::Acquire))
    }

    /// The predecessor, whatever the marks.
    pub(crate) fn revision(&self) -> *mut R {
        self.load().revision()
    }

    /// Replaces the pointer and the link's mark, which are the caller's, from `old` on, and leaves the mark of the dead. True if
    /// that stands there.
    fn replace(&self, old: *mut R, new: *mut R) -> bool {
        let mut marks = 0;
        loop {
            let (from, to) = (Word::of(old, marks), Word::of(new, marks));
            // ordering: pairs with `load`. Only the mark of the dead may come between, and it comes once.
            match self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return marks & DEAD != 0 && !mutant("chain.finish_ignores_death"),
                Err(_) => marks = DEAD,
            }
        }
    }

    /// Marks the revision that holds the word.
    fn mark_dead(&self) {
        let mut seen = self.0.load(Ordering::Relaxed);
        // ordering: pairs with `replace` of its committer, who sweeps if he finds the mark; else the sweep that follows finds the
        // link closed or kept.
        while let Err(now) = self.0.compare_exchange(seen, Word::of(seen, DEAD), Ordering::AcqRel, Ordering::Relaxed) {
            seen = now;
        }
    }
}

/// What a committed revision has replaced: to be ended, and then either kept or let go.
#[must_use]
pub(crate) enum Replaced<R> {
    /// Nobody can see it any more. True if the chain is to be swept.
    Gone(Retired<R>, bool),
    /// It hangs in the chain. Views from the first clock value on and before the second can see it; if there is no such span, it is
    /// dead already. The chain is to be swept.
    Kept(Arc<R>, Option<(u64, u64)>),
}

impl<R> Replaced<R> {
    /// The revision, to be ended.
    pub(crate) fn revision(&self) -> &R {
        match self {
            Self::Gone(Retired(revision), _) | Self::Kept(revision, _) => revision,
        }
    }
}

/// Revisions that a sweep has cut out.
pub(crate) type Cut<R> = SmallVec<[Retired<R>; 1]>;

impl<R: Version> Versions<R> {
    /// Closes a committed revision's link to its predecessor, or keeps it. After the commit, outside the section; made once a
    /// member. `is_watched` says whether there is any view.
    pub(crate) fn finish(fresh: &R, clock: &Clock, is_watched: impl FnOnce() -> bool) -> Replaced<R> {
        // Before anybody is told of the transition it has its stamp, so that a view which is captured then shows it.
        let until = fresh.settle(clock);
        let prev = &fresh.link().prev;
        let raw = prev.revision();
        // SAFETY: the slot's count of the predecessor was left to this call by `install`.
        let old = unsafe { &*raw };
        let span = if is_watched() { old.seen_from(clock).filter(|&from| from < until) } else { None };
        let below = old.link().prev.load();
        if let Some(span) = span.map(|from| (from, until)) {
            prev.replace(raw, Word::of(raw, KEPT));
            return Replaced::Kept(Seen(old).share(), Some(span));
        }
        if below.0.is_null() {
            let is_dead = prev.replace(raw, ptr::null_mut());
            // SAFETY: the count that is left to this call, and the pointer is gone from the chain.
            return Replaced::Gone(Retired(unsafe { Arc::from_raw(raw) }), is_dead);
        }
        // Something hangs below it, or will: who sweeps joins the two ends.
        let shared = Seen(old).share();
        prev.replace(raw, Word::of(raw, KEPT));
        old.link().prev.mark_dead();
        Replaced::Kept(shared, None)
    }

    /// Puts `fresh` in the place of `ended`, at the same generation and with its stamp, so that views show it in its place. Fails
    /// if the slot has moved on. What is replaced hangs in the chain, dead, if something hangs below it.
    pub(crate) fn swing(
        &self,
        ended: &R,
        fresh: Arc<R>,
        clock: &Clock,
        _pinned: &Guard,
    ) -> Result<Option<Retired<R>>, Arc<R>> {
        let below = ended.link().prev.load();
        let old = ptr::from_ref(ended).cast_mut();
        fresh.link().stamp.settle(ended.stamp(clock));
        fresh.link().prev.open(if below.0.is_null() { ptr::null_mut() } else { Word::of(old, KEPT) });
        let raw = Arc::into_raw(fresh).cast_mut();
        // ordering: as in `create`.
        if self.head.compare_exchange(old, raw, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: the count that `into_raw` gave up was not taken over.
            return Err(unsafe { Arc::from_raw(raw) });
        }
        if below.0.is_null() {
            // SAFETY: the slot's own count of the old revision, which nobody else takes: the swap has one winner.
            return Ok(Some(Retired(unsafe { Arc::from_raw(old) })));
        }
        ended.link().prev.mark_dead();
        Ok(None)
    }

    /// Links `last` over `ended` as a transition of its own, which is visible at once, outside the section. Fails if the slot has
    /// moved on. The caller [finishes](Self::finish) it.
    pub(crate) fn put_over(&self, ended: &R, last: Arc<R>, _pinned: &Guard) -> Result<(), Arc<R>> {
        let old = ptr::from_ref(ended).cast_mut();
        last.link().prev.open(old);
        let raw = Arc::into_raw(last).cast_mut();
        // ordering: as in `create`.
        match self.head.compare_exchange(old, raw, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            // SAFETY: the count that `into_raw` gave up was not taken over.
            Err(_) => Err(unsafe { Arc::from_raw(raw) }),
        }
    }

    /// Says that no view can see `kept` any more. The caller sweeps.
    pub(crate) fn let_die(kept: &R) {
        kept.link().prev.mark_dead();
    }

    /// Cuts out what is dead, unless another thread is at it: then that does. What is cut out is to be retired outside the pin.
    pub(crate) fn sweep(&self, pinned: &Guard) -> Cut<R> {
        let mut cut = Cut::new();
        // ordering: AcqRel: who finds it zero sees every mark that was set before an earlier call; who does not leaves his marks to
        // the one that sweeps, whose last look comes after.
        if self.sweeps.fetch_add(1, Ordering::AcqRel) != 0 && !mutant("chain.two_sweepers") {
            return cut;
        }
        let mut served = 1;
        loop {
            self.cut_dead(pinned, &mut cut);
            let before = self.sweeps.fetch_sub(served, Ordering::AcqRel);
            if before <= served || mutant("chain.sweep_once") {
                return cut;
            }
            served = before - served;
        }
    }

    fn cut_dead(&self, pinned: &Guard, cut: &mut Cut<R>) {
        let mut at = self.head(pinned);
        while let Some(revision) = at {
            let link = &revision.link().prev;
            let word = link.load();
            // SAFETY: what hangs in the chain is let go by who sweeps alone.
            let Some(older) = (unsafe { word.revision().as_ref() }) else { return };
            let below = older.link().prev.load();
            if word.has(KEPT) && below.has(DEAD) && !below.is_open() {
                let older = word.revision();
                let below = below.revision();
                link.replace(Word::of(older, KEPT), if below.is_null() { below } else { Word::of(below, KEPT) });
                // SAFETY: the chain's own count, and the pointer is gone from it. Who is pinned may come through it still.
                cut.push(Retired(unsafe { Arc::from_raw(older) }));
            } else {
                at = Some(older);
            }
        }
    }

    /// The revision that a view which was captured at `at` shows.
    pub(crate) fn seen_at<'g>(&self, at: u64, clock: &Clock, _pinned: &'g Guard) -> Option<Seen<'g, R>> {
        'look: loop {
            let mut next = self.head.load(Ordering::Acquire);
            if needs::is_vacant(next) {
                return None;
            }
            loop {
                // SAFETY: as in `visible`: what hangs in the chain outlives the pins of the time when it did.
                let revision = unsafe { next.as_ref() }?;
                let stamp = revision.stamp(clock);
                if stamp != 0 && stamp <= at {
                    return Some(Seen(revision));
                }
                next = revision.link().prev.revision();
                if next.is_null() && stamp == 0 {
                    // It was committed between the two looks.
                    hint::spin_loop();
                    continue 'look;
                }
            }
        }
    }

    /// From which clock value on views can see anything of what hangs below the head.
    pub(crate) fn seen_since(&self, clock: &Clock, pinned: &Guard) -> Option<u64> {
        let below = |revision: &'_ R| {
            // SAFETY: as in `seen_at`, under the caller's pin.
            unsafe { revision.link().prev.revision().as_ref() }
        };
        let chain = std::iter::successors(self.head(pinned).and_then(below), |revision| below(revision));
        chain.filter_map(|revision| revision.seen_from(clock)).min()
    }

    /// Whether nothing hangs below the head.
    #[cfg(all(test, shardrun_loom))]
    pub(crate) fn is_bare(&self, pinned: &Guard) -> bool {
        self.head(pinned).is_none_or(|head| head.link().prev.revision().is_null())
    }
}
