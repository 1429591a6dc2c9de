//! What a table has under one hash: a slot, or several whose names share it; and how a slot comes in, takes the place of one that
//! has ended, and goes. It does not know how a hash leads to its place, nor what a slot holds.
//!
//! An entry never changes: whoever adds or takes out a slot puts another entry in its place by one exchange, and what was there
//! outlives the pins of that time. So a reader that is pinned may use what it has found without counting references, and whoever
//! takes a slot out takes out that one and never its successor.

use crate::sync::epoch::Guard;
use crate::sync::{Arc, mutant};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;

/// Marks a pointer to a list of several slots.
const SEVERAL: usize = 1;

/// One slot or several: a pointer that owns a count of each. It is copied freely; who owns it is said where it is freed.
pub(crate) struct Entry<S>(*const (), PhantomData<Arc<S>>);

// SAFETY: an entry gives out shared references and counts of its slots, as an `Arc` of them would.
unsafe impl<S: Send + Sync> Send for Entry<S> {}
// SAFETY: as above.
unsafe impl<S: Send + Sync> Sync for Entry<S> {}

impl<S> Clone for Entry<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Entry<S> {}

impl<S> PartialEq for Entry<S> {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.0, other.0)
    }
}

impl<S> Entry<S> {
    fn one(slot: Arc<S>) -> Self {
        Self(Arc::into_raw(slot).cast(), PhantomData)
    }

    fn several(slots: Vec<Arc<S>>) -> Self {
        let list: *const Vec<Arc<S>> = Box::into_raw(Box::new(slots));
        Self(list.cast::<()>().map_addr(|address| address | SEVERAL), PhantomData)
    }

    /// The pointer to the list, if it is one.
    fn list(self) -> Option<*const Vec<Arc<S>>> {
        let is_list = self.0.addr() & SEVERAL != 0;
        is_list.then(|| self.0.map_addr(|address| address & !SEVERAL).cast())
    }

    /// The slot at a place in it, without a count of its own.
    ///
    /// # Safety
    /// The entry is alive: it stands in its place, or stood there when a pin began that has not ended; and so is what is returned
    /// only as long as that.
    #[inline]
    unsafe fn at(self, at: usize) -> Option<ManuallyDrop<Arc<S>>> {
        match self.list() {
            // SAFETY: made by `one` from an `Arc`, whose count the entry holds.
            None if at == 0 => Some(ManuallyDrop::new(unsafe { Arc::from_raw(self.0.cast()) })),
            None => None,
            // SAFETY: made by `several`, and never changed; the copy of the reference is not dropped.
            Some(list) => unsafe {
                let list: &Vec<Arc<S>> = &*list;
                list.get(at).map(|slot| ManuallyDrop::new(ptr::read(slot)))
            },
        }
    }

    /// Every slot in it.
    pub(crate) fn slots(self, pinned: &Guard) -> impl Iterator<Item = ManuallyDrop<Arc<S>>> {
        (0..).map_while(move |at| self.get(at, pinned))
    }

    /// The slot at a place in it, if there is one.
    #[inline]
    pub(crate) fn get(self, at: usize, _pinned: &Guard) -> Option<ManuallyDrop<Arc<S>>> {
        // SAFETY: an entry is found in its place under a pin, and freed once no pin of that time is left: see `Taken`.
        unsafe { self.at(at) }
    }

    /// The first slot in it. Most have no other.
    #[inline]
    pub(crate) fn first(self, pinned: &Guard) -> ManuallyDrop<Arc<S>> {
        if self.list().is_some() {
            return self.first_of_several(pinned);
        }
        // SAFETY: as in `get`; made by `one` from an `Arc`, whose count the entry holds.
        ManuallyDrop::new(unsafe { Arc::from_raw(self.0.cast()) })
    }

    #[cold]
    fn first_of_several(self, pinned: &Guard) -> ManuallyDrop<Arc<S>> {
        self.get(0, pinned).expect("an entry holds a slot")
    }

    /// Frees it, and with it a count of each of its slots.
    ///
    /// # Safety
    /// It is the caller's: it has been shown to nobody, or has been taken out and nobody pinned can have seen it.
    unsafe fn free(self) {
        match self.list() {
            // SAFETY: the count that the entry holds.
            None => drop(unsafe { Arc::from_raw(self.0.cast::<S>()) }),
            // SAFETY: made by `Box::into_raw`.
            Some(list) => drop(unsafe { Box::from_raw(list.cast_mut()) }),
        }
    }
}

/// An entry in an atomic pointer. But for [`SEVERAL`] the lowest bits of the address are free.
impl<S> Entry<S> {
    #[inline]
    pub(crate) fn raw(entry: Option<Self>) -> *mut () {
        entry.map_or(ptr::null_mut(), |entry| entry.0.cast_mut())
    }

    /// What `raw` made.
    #[inline]
    pub(crate) fn of_raw(raw: *mut ()) -> Option<Self> {
        (!raw.is_null()).then_some(Self(raw, PhantomData))
    }
}

/// What was taken out of its place. To be kept until no pin is left of the time when it stood there; dropping it may drop slots,
/// which runs the host's destructors.
#[must_use]
pub(crate) struct Taken<S>(Option<Entry<S>>);

impl<S> Taken<S> {
    /// An entry of a table that goes.
    ///
    /// # Safety
    /// Nobody can reach the table any more, and this is done once for each of its entries.
    pub(crate) unsafe fn unreachable(entry: Entry<S>) -> Self {
        Self(Some(entry))
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.0.is_none()
    }
}

impl<S> Drop for Taken<S> {
    fn drop(&mut self) {
        if let Some(entry) = self.0.take() {
            // SAFETY: the holder waited for the pins, or nobody can reach it.
            unsafe { entry.free() };
        }
    }
}

/// The place of one hash.
pub(crate) trait Place<S> {
    /// What stands there.
    fn load(&self) -> Option<Entry<S>>;
    /// Puts `new` in the place of `old`, or of nothing; false if something else stands there. Acquire and Release.
    fn exchange(&self, old: Option<Entry<S>>, new: Option<Entry<S>>) -> bool;
}

/// Puts `fresh` there, before one of the same name that has ended and not been taken out. `Err` has that slot if it lives.
///
/// `same` compares names, which is the host's code and may panic: nothing is half changed then.
pub(crate) fn add<S>(
    place: &impl Place<S>,
    fresh: &Arc<S>,
    same: impl Fn(&S) -> bool,
    ended: impl Fn(&S) -> bool,
    pinned: &Guard,
) -> Result<Taken<S>, Arc<S>> {
    let alone = Entry::one(fresh.clone());
    // Most come to an empty place.
    while !place.exchange(None, Some(alone)) {
        let Some(seen) = place.load() else { continue };
        // SAFETY: the exchange has shown it to nobody.
        unsafe { alone.free() };
        return add_beside(place, fresh, (same, ended), seen, pinned);
    }
    Ok(Taken(None))
}

fn add_beside<S>(
    place: &impl Place<S>,
    fresh: &Arc<S>,
    (same, ended): (impl Fn(&S) -> bool, impl Fn(&S) -> bool),
    seen: Entry<S>,
    pinned: &Guard,
) -> Result<Taken<S>, Arc<S>> {
    let mut seen = Some(seen);
    loop {
        let slots: Vec<_> = seen.map_or_else(Vec::new, |entry: Entry<S>| entry.slots(pinned).collect());
        if let Some(other) = slots.iter().find(|slot| same(slot))
            && !(ended(other) || mutant("entry.add_over_the_live"))
        {
            return Err(Arc::clone(other));
        }
        let others = slots.iter().map(|slot| Arc::clone(slot));
        let next = with(std::iter::once(fresh.clone()).chain(others)).expect("there is one at least");
        if place.exchange(seen, Some(next)) {
            return Ok(Taken(seen));
        }
        // SAFETY: the exchange has shown it to nobody.
        unsafe { next.free() };
        seen = place.load();
    }
}

/// Takes `gone` out, if it stands there still. Its successor, which may bear the same name, is left alone.
pub(crate) fn take_out<S>(place: &impl Place<S>, gone: &S, pinned: &Guard) -> Taken<S> {
    loop {
        let Some(seen) = place.load() else { return Taken(None) };
        let is_gone = |slot: &Arc<S>| ptr::eq(&**slot, gone) || mutant("entry.take_out_by_name");
        if !seen.slots(pinned).any(|slot| is_gone(&slot)) {
            return Taken(None);
        }
        let others = seen.slots(pinned).filter(|slot| !is_gone(slot));
        let next = with(others.map(|slot| Arc::clone(&slot)));
        if place.exchange(Some(seen), next) {
            return Taken(Some(seen));
        }
        if let Some(next) = next {
            // SAFETY: the exchange has shown it to nobody.
            unsafe { next.free() };
        }
    }
}

/// The entry of `slots`; none if there is no slot.
fn with<S>(mut slots: impl Iterator<Item = Arc<S>>) -> Option<Entry<S>> {
    let first = slots.next()?;
    let Some(second) = slots.next() else { return Some(Entry::one(first)) };
    Some(Entry::several([first, second].into_iter().chain(slots).collect()))
}
