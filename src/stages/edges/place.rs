//! A place that holds one count of a shared value, read under a pin and changed by exchange alone, or closed for good.
//! It does not know what the value is, but that it holds nothing of the host's: what is put out is dropped by the epoch.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::epoch;
use std::ptr;

/// Empty, or one count of a value, or closed.
#[derive(Debug)]
pub(crate) struct Place<T>(AtomicPtr<T>);

// SAFETY: values are shared by counts and may be dropped by whoever lets go last, so they must be Send and Sync.
unsafe impl<T: Send + Sync> Send for Place<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Place<T> {}

fn closed<T>() -> *mut T {
    ptr::without_provenance_mut(1)
}

fn is_value<T>(raw: *mut T) -> bool {
    !raw.is_null() && raw != closed()
}

impl<T: Send + Sync + 'static> Place<T> {
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Whether it takes nothing in any more.
    pub(crate) fn is_closed(&self) -> bool {
        // ordering: once it stands here it stays; who reads an older value is told by the exchange.
        self.0.load(Ordering::Relaxed) == closed()
    }

    /// Whether nothing has been put here yet, or it has been taken out: not so once it is closed.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Acquire).is_null()
    }

    /// Looks at the value, if there is one, under a pin: `f` is no host code, and drops nothing of the host's.
    pub(crate) fn look<R>(&self, f: impl FnOnce(&T) -> R) -> Option<R> {
        let pinned = epoch::pin();
        // ordering: pairs with `exchange`. If that came first the value is seen whole; else the one before it.
        let raw = self.0.load(Ordering::Acquire);
        // SAFETY: the place's count keeps it alive, and a value that is put out of it outlives the pins of that time.
        let answer = is_value(raw).then(|| f(unsafe { &*raw }));
        drop(pinned);
        answer
    }

    /// Another count of the value, if there is one.
    pub(crate) fn get(&self) -> Option<Arc<T>> {
        // SAFETY: a value lies in an `Arc`, and is alive while it is looked at: see `look`.
        self.look(|value| unsafe {
            Arc::increment_strong_count(value);
            Arc::from_raw(value)
        })
    }

    /// Puts `fresh` in the place of `seen`. False if something else stands there, or it is closed.
    #[must_use]
    pub(crate) fn exchange(&self, seen: Option<&Arc<T>>, fresh: Option<Arc<T>>) -> bool {
        let old = seen.map_or(ptr::null_mut(), |seen| Arc::as_ptr(seen).cast_mut());
        let new = fresh.map_or(ptr::null_mut(), |fresh| Arc::into_raw(fresh).cast_mut());
        // ordering: AcqRel among those who exchange; Release shows the fresh one whole to who looks. The caller holds a count of
        // what it has seen, so that no other value can lie at its address.
        match self.0.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(old) => {
                // SAFETY: the place's own count, taken by the one exchange that succeeded.
                let old = is_value(old).then(|| unsafe { Arc::from_raw(old) });
                if let Some(old) = old {
                    let_go(old);
                }
                true
            }
            Err(_) => {
                // SAFETY: the count that `into_raw` gave up was not taken over.
                drop((!new.is_null()).then(|| unsafe { Arc::from_raw(new) }));
                false
            }
        }
    }

    /// Takes nothing in any more, and hands out what stood there: to the first who closes it.
    pub(crate) fn close(&self) -> Option<Arc<T>> {
        // ordering: as in `exchange`.
        let old = self.0.swap(closed(), Ordering::AcqRel);
        // SAFETY: the place's own count, taken out of it by the swap.
        let old = is_value(old).then(|| unsafe { Arc::from_raw(old) })?;
        let out = old.clone();
        let_go(old);
        Some(out)
    }
}

/// Drops a count once no reader that is pinned now can be at the value.
fn let_go<T: Send + Sync + 'static>(old: Arc<T>) {
    // SAFETY: the closure owns all that it touches, and the value holds nothing of the host's.
    unsafe { epoch::pin().defer_unchecked(move || drop(old)) };
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        let raw = self.0.load(Ordering::Acquire);
        if is_value(raw) {
            // SAFETY: the place's own count; nobody shares the place any more.
            drop(unsafe { Arc::from_raw(raw) });
        }
    }
}
