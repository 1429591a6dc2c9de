//! The one-shot: one result, one reader, and the waker that the reader leaves behind.
//! It does not know who executes, nor whether the reader is a thread or a task.
//!
//! # The word
//!
//! CLAIMED: somebody has the right to write the result. DONE: it is there. WAKER: the slot holds a waker for the resolver.
//! ABANDONED: the reader has gone. MARKED: beside DONE, all that a result without content says. Bits are only ever added, but for WAKER, which the reader takes back to replace the waker.
//!
//! The slot belongs to the reader while WAKER is clear and to the resolver once it has set DONE over a set WAKER. The result
//! belongs to the resolver until DONE, then to the reader, or to whoever finds that the other has gone.

use super::contain::contained;
use super::trampoline;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::cell::UnsafeCell;
use crate::sync::mutant;
use std::task::Waker;

const CLAIMED: u32 = 1;
const DONE: u32 = 1 << 1;
const WAKER: u32 = 1 << 2;
const ABANDONED: u32 = 1 << 3;
const MARKED: u32 = 1 << 4;

/// A place for one result and for the waker of the one who waits for it.
///
/// `register`, `take` and `abandon` are the reader's: one at a time, never two together. `resolve` and `nudge` are anybody's.
pub(crate) struct OneShot<R> {
    word: AtomicU32,
    waker: UnsafeCell<Option<Waker>>,
    result: UnsafeCell<Option<R>>,
}

// SAFETY: the word says who may touch the waker and the result, and hands them over with release and acquire. The result moves
// from the resolver's thread to the reader's or the dropper's, so it must be Send; nobody ever shares it.
unsafe impl<R: Send> Sync for OneShot<R> {}

impl<R: 'static> OneShot<R> {
    pub(crate) fn new() -> Self {
        Self::with(0)
    }

    fn with(word: u32) -> Self {
        Self { word: AtomicU32::new(word), waker: UnsafeCell::new(None), result: UnsafeCell::new(None) }
    }

    /// One whose reader has gone before it came: whoever resolves it is refused.
    pub(crate) fn abandoned() -> Self {
        Self::with(ABANDONED)
    }

    fn load(&self) -> u32 {
        // ordering: pairs with `resolve`. If DONE came first the result is visible; else the reader registers or asks again.
        self.word.load(Ordering::Acquire)
    }

    /// Whether the result is there.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.load() & DONE != 0
    }

    /// Whether a waker was left here and not taken back.
    pub(crate) fn has_waker(&self) -> bool {
        self.load() & WAKER != 0
    }

    /// Whether a reader is there, and has left no waker: what comes is only put here.
    pub(crate) fn is_awaited(&self) -> bool {
        self.load() & (WAKER | ABANDONED) == 0
    }

    /// Whether nothing will be delivered here any more: it has been, or is about to be, or nobody waits.
    #[inline]
    pub(crate) fn is_dead(&self) -> bool {
        self.load() & (CLAIMED | ABANDONED) != 0
    }

    /// The first caller's result stands; others, and those who come after the reader has gone, get theirs back.
    /// `Ok` holds the waker to be woken, by the caller, once nothing of its own is half changed.
    pub(crate) fn resolve(&self, result: R) -> Result<Option<Waker>, R> {
        // ordering: Acquire only orders us after an abandoner; nothing is published yet.
        if self.word.fetch_or(CLAIMED, Ordering::AcqRel) & (CLAIMED | ABANDONED) != 0 {
            return Err(result);
        }
        // SAFETY: CLAIMED was ours to set.
        Ok(unsafe { self.write(result) })
    }

    /// Resolves for the one who alone ever may: another word has decided that. Saves the claim.
    ///
    /// # Safety
    /// Nobody else resolves this one-shot, and the caller does so once.
    pub(crate) unsafe fn resolve_alone(&self, result: R) -> Option<Waker> {
        // SAFETY: promised by the caller.
        unsafe { self.write(result) }
    }

    /// # Safety
    /// The caller alone has the right to write, once.
    unsafe fn write(&self, result: R) -> Option<Waker> {
        // SAFETY: promised by the caller.
        unsafe {
            self.put(result);
            self.resolve_put()
        }
    }

    /// Puts the result where the reader will look, in place of one that was put before, and tells nobody:
    /// [`resolve_put`](Self::resolve_put) does.
    ///
    /// # Safety
    /// The caller alone has the right to write, and has told nothing yet.
    pub(crate) unsafe fn put(&self, result: R) {
        // SAFETY: the caller alone writes, and nobody reads before DONE.
        let before = self.result.with_mut(|slot| unsafe { (*slot).replace(result) });
        if before.is_some() {
            trampoline::dispose(before);
        }
    }

    /// What was put here, for who has put it and not told it yet.
    ///
    /// # Safety
    /// The caller alone has the right to write, and does not resolve while it looks.
    pub(crate) unsafe fn look_at_put(&self) -> Option<&R> {
        // SAFETY: before DONE what lies here is the caller's alone.
        self.result.with(|slot| unsafe { (*slot).as_ref() })
    }

    /// Whether there is nothing to drop here, if `trivial` says so of the result.
    ///
    /// # Safety
    /// Nobody but the caller can reach it.
    #[inline]
    pub(crate) unsafe fn drops_nothing(&self, trivial: impl FnOnce(Option<&R>) -> bool) -> bool {
        // SAFETY: promised by the caller.
        let waker = self.waker.with(|slot| unsafe { (*slot).is_some() });
        // SAFETY: as above.
        !waker && self.result.with(|slot| trivial(unsafe { (*slot).as_ref() }))
    }

    /// Tells the reader of what was put here.
    ///
    /// # Safety
    /// The caller has put it, and does so once.
    pub(crate) unsafe fn resolve_put(&self) -> Option<Waker> {
        // ordering: Release publishes the result with DONE; Acquire takes the waker over if WAKER was set. If the reader's WAKER
        // came first we wake it; else it finds DONE when it sets WAKER.
        let before = self.word.fetch_or(CLAIMED | DONE, Ordering::AcqRel);
        if before & ABANDONED != 0 {
            // The reader went before we were done: the result is ours to drop.
            // SAFETY: the reader saw no DONE and has left the result to us.
            trampoline::dispose(unsafe { self.take_result() });
        }
        // SAFETY: DONE over a set WAKER hands the slot to us.
        if before & WAKER != 0 { unsafe { self.take_waker() } } else { None }
    }

    /// Leaves `waker` to be woken, in place of the one before. True if the result is there, and the waker of no use.
    ///
    /// A waker's `clone` and `drop` are host code: they run while nothing is half changed, and may panic or come back here.
    pub(crate) fn register(&self, waker: &Waker) -> bool {
        if self.is_done() {
            return true;
        }
        let Ok(mut old) = self.take_back() else { return true };
        let fresh = match &old {
            Some(same) if same.will_wake(waker) => old.take(),
            _ => Some(waker.clone()),
        };
        self.waker.with_mut(|slot| {
            // SAFETY: WAKER is clear and DONE was not set over it: the slot is the reader's.
            unsafe { *slot = fresh };
        });
        // ordering: Release hands the waker over; Acquire pairs with DONE in `resolve`, see there.
        let before = self.word.fetch_or(WAKER, Ordering::AcqRel);
        if let Some(old) = old {
            trampoline::dispose(old);
        }
        if before & DONE == 0 || mutant("oneshot.no_recheck") {
            return false;
        }
        // SAFETY: DONE was there, so the resolver did not see WAKER: the slot is still ours.
        trampoline::dispose(unsafe { self.take_waker() });
        true
    }

    /// Takes the slot back from the resolver. `Err` if the result came first: then the resolver has the waker.
    fn take_back(&self) -> Result<Option<Waker>, ()> {
        if self.load() & WAKER == 0 {
            return Ok(None);
        }
        // ordering: AcqRel; pairs with `resolve`. If our clearing came first, it sees no WAKER; else we see DONE and keep off.
        let before = self.word.fetch_and(!WAKER, Ordering::AcqRel);
        if before & DONE != 0 && !mutant("oneshot.replace_ignores_done") {
            return Err(());
        }
        // SAFETY: WAKER was set without DONE and we cleared it: the slot is the reader's.
        Ok(unsafe { self.take_waker() })
    }

    /// The result, if it is there and has not been taken. For the reader.
    pub(crate) fn take(&self) -> Option<R> {
        if !self.is_done() {
            return None;
        }
        // SAFETY: DONE is set and the reader, one at a time, has not gone: the result is its.
        unsafe { self.take_result() }
    }

    /// The reader goes. True if that was before anyone resolved: then nobody ever will. What lies here is dropped.
    pub(crate) fn abandon(&self) -> bool {
        let waker = self.take_back();
        // ordering: AcqRel. If CLAIMED without DONE came first the resolver sees ABANDONED with its DONE and drops the result;
        // if DONE came first it is ours to drop; else the resolver is refused.
        let before = self.word.fetch_or(ABANDONED, Ordering::AcqRel);
        if before & DONE != 0 {
            // SAFETY: DONE came before ABANDONED, so the resolver has left the result to the reader, which is us.
            trampoline::dispose(unsafe { self.take_result() });
        }
        if let Ok(Some(waker)) = waker {
            trampoline::dispose(waker);
        }
        before & CLAIMED == 0
    }

    /// # Safety
    /// The slot is the caller's.
    unsafe fn take_waker(&self) -> Option<Waker> {
        // SAFETY: promised by the caller.
        self.waker.with_mut(|slot| unsafe { (*slot).take() })
    }

    /// # Safety
    /// The result is the caller's.
    unsafe fn take_result(&self) -> Option<R> {
        // SAFETY: promised by the caller.
        self.result.with_mut(|slot| unsafe { (*slot).take() })
    }
}

/// One whose result is but whether it is marked: it is written together with DONE.
impl OneShot<()> {
    /// As [`resolve`](Self::resolve), in one step. `Err` if another was faster or the reader has gone.
    pub(crate) fn mark(&self, marked: bool) -> Result<Option<Waker>, ()> {
        let bits = CLAIMED | DONE | if marked { MARKED } else { 0 };
        // Under loom it begins with the exchange, so that no load hides races.
        let mut seen = if cfg!(shardrun_loom) { 0 } else { self.load() };
        loop {
            if seen & (CLAIMED | ABANDONED) != 0 && !mutant("oneshot.marks_twice") {
                return Err(());
            }
            // ordering: as in `write`: if the reader's WAKER came first we wake it; else it finds DONE when it sets WAKER.
            match self.word.compare_exchange_weak(seen, seen | bits, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: DONE over a set WAKER hands the slot to us.
                Ok(_) => return Ok(if seen & WAKER != 0 { unsafe { self.take_waker() } } else { None }),
                Err(now) => seen = now,
            }
        }
    }

    /// Whether it is marked, once it is resolved. For the reader.
    pub(crate) fn marked(&self) -> Option<bool> {
        let word = self.load();
        (word & DONE != 0).then_some(word & MARKED != 0)
    }
}

impl<R> Drop for OneShot<R> {
    /// What was never asked for, and the waker of a reader that went without a word, are the host's.
    fn drop(&mut self) {
        self.waker.with_mut(|slot| {
            // SAFETY: nobody else has it any more.
            let waker = unsafe { &mut *slot };
            if waker.is_some() {
                contained(|| *waker = None);
            }
        });
        self.result.with_mut(|slot| {
            // SAFETY: as above.
            let result = unsafe { &mut *slot };
            if result.is_some() {
                contained(|| *result = None);
            }
        });
    }
}
