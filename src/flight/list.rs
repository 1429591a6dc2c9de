//! The sealable list: push an entry or learn that the list is sealed; seal it once and get everything, oldest first.
//! It does not know what an entry waits for: only whether it is still alive.
//!
//! # Protocol
//!
//! The head is a pointer, or the mark SEALED. `push` compares-and-swaps the head and never looks behind it, so it needs no pin.
//! `seal` swaps the mark in; who gets the chain delivers it, oldest first. The head entry is never unlinked, so an address
//! cannot come back to the head while somebody compares it (no ABA).
//!
//! Dead entries are unlinked in place, behind the head, by one *tidier* at a time, which nobody ever waits for: for a dead `n`
//! after `p`, `p.next` is set to `n.next`, and `n` is retired. A sealer and a tidier may meet at an entry; the entry's own
//! `retired` swap decides who releases it. A tidier pins; a sealer that sees a tidier at work releases its entries through the
//! epoch, and one that sees none releases them itself, since any later tidier finds the mark. The two see each other without a
//! fence: the tidier sets BUSY and then *exchanges* the head for itself, so that its exchange and the sealer's have one order.
//! Nothing (demand, owners, counts) is ever derived from walking the list.
//!
//! What is handed to the epoch is the list's reference to a dead or delivered entry. Such entries hold nothing of the host's:
//! who abandoned them has dropped it.

use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use crate::sync::{Arc, epoch, mutant};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::ptr;

/// Dead entries that are left in peace, whatever the length.
const DEAD_MIN: u32 = 16;
const BUSY: u32 = 1 << 31;

/// What an entry carries so that it can hang in a list.
#[derive(Debug)]
pub(crate) struct Link<N> {
    next: AtomicPtr<N>,
    /// The list's reference has been taken: by the sealer or by a tidier.
    retired: AtomicBool,
}

impl<N> Link<N> {
    pub(crate) fn new() -> Self {
        Self { next: AtomicPtr::new(ptr::null_mut()), retired: AtomicBool::new(false) }
    }

    #[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// True for the one caller that takes the list's reference.
    fn retire(&self) -> bool {
        // ordering: AcqRel among the sealer and the tidiers that meet here; who gets false leaves the entry alone.
        !self.retired.swap(true, Ordering::AcqRel) || mutant("list.double_retire")
    }
}

/// An entry of a list. It hangs in at most one list, once.
pub(crate) trait Linked: Send + Sync + Sized + 'static {
    /// The entry's link.
    fn link(&self) -> &Link<Self>;
    /// Whether nobody waits on it any more, for good.
    fn is_dead(&self) -> bool;
    /// The list's reference to it is given back: once.
    #[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
    fn given_back(&self) {}
}

/// A list of shared entries that can be sealed once.
#[derive(Debug)]
pub(crate) struct SealableList<N: Linked> {
    head: AtomicPtr<N>,
    /// Dead entries that may still hang in it, as a signed number: see `note_dead`.
    dead: AtomicU32,
    /// BUSY while a tidier is at work, and the number of dead that calls for the next one.
    tidy: AtomicU32,
    entries: PhantomData<Arc<N>>,
}

fn sealed<N>() -> *mut N {
    ptr::without_provenance_mut(1)
}

impl<N: Linked> SealableList<N> {
    pub(crate) fn new() -> Self {
        Self::tidied_at(DEAD_MIN)
    }

    /// A list in which `entry` hangs from the beginning.
    pub(crate) fn with(entry: Arc<N>) -> Self {
        let mut list = Self::new();
        list.head = AtomicPtr::new(Arc::into_raw(entry).cast_mut());
        list
    }

    /// A list whose first tidying is called for by `dead` entries.
    pub(crate) fn tidied_at(dead: u32) -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
            dead: AtomicU32::new(0),
            tidy: AtomicU32::new(dead),
            entries: PhantomData,
        }
    }

    /// Whether the list has been sealed.
    #[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
    pub(crate) fn is_sealed(&self) -> bool {
        // ordering: pairs with `seal`. If that came first, what its caller published before is visible.
        self.head.load(Ordering::Acquire) == sealed()
    }

    /// What can be reached, newest first, once nobody else is at work.
    #[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
    pub(crate) fn names<R>(&self, name: impl Fn(&N) -> R) -> Vec<R> {
        let mut names = Vec::new();
        let mut at = self.head.load(Ordering::Acquire);
        while !at.is_null() && at != sealed() {
            // SAFETY: nobody else is at work, says the caller, and under loom nothing is ever freed by the epoch.
            let entry = unsafe { &*at };
            names.push(name(entry));
            at = entry.link().next.load(Ordering::Acquire);
        }
        names
    }

    /// How many dead entries still hang in it: none once it is sealed.
    pub(crate) fn dead(&self) -> usize {
        // ordering: a figure that no protocol rests on.
        let sealed = self.head.load(Ordering::Relaxed) == sealed();
        if sealed { 0 } else { self.dead.load(Ordering::Relaxed).cast_signed().max(0) as usize }
    }

    /// Calls `f` with each living entry, newest first, under a pin: `f` is short, no host code, and drops nothing of the host's.
    /// Only for a list that is sealed by nothing but its own drop: a sealer does not wait for who walks.
    pub(crate) fn each(&self, mut f: impl FnMut(&N)) {
        let pinned = epoch::pin();
        // ordering: pairs with `push`. If that came first the entry is seen whole; else it is younger than this look.
        let mut at = self.head.load(Ordering::Acquire);
        while !at.is_null() && at != sealed() {
            // SAFETY: reached from the head or a link while pinned; a tidier releases what it unlinks through the epoch, and there
            // is no sealer, says the caller.
            let entry = unsafe { &*at };
            if !entry.is_dead() {
                f(entry);
            }
            // ordering: pairs with the Release in `unlink_dead`: what is unlinked is passed or gone past, and stays readable.
            at = entry.link().next.load(Ordering::Acquire);
        }
        drop(pinned);
    }

    /// Hangs `entry` in, or gives it back if the list is sealed: then whatever the sealer published before is visible.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    pub(crate) fn push(&self, entry: Arc<N>) -> Result<(), Arc<N>> {
        let entry = Arc::into_raw(entry).cast_mut();
        let mut head = self.head_for_cas();
        loop {
            if head == sealed() {
                // SAFETY: `entry` came from `Arc::into_raw` above and nobody else has seen it.
                return Err(unsafe { Arc::from_raw(entry) });
            }
            // SAFETY: `entry` is alive: its reference is ours until the exchange below succeeds.
            // ordering: Relaxed; the exchange below publishes it.
            unsafe { (*entry).link().next.store(head, Ordering::Relaxed) };
            // ordering: Release publishes the entry to whoever takes or walks the chain; Acquire on failure, so that who
            // finds the mark sees what the sealer published before it.
            match self.head.compare_exchange_weak(head, entry, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(now) => head = now,
            }
        }
    }

    fn head_for_cas(&self) -> *mut N {
        // Under loom a load would hide races with other pushers' loads (trap T1): begin with the exchange itself.
        if cfg!(shardrun_loom) { ptr::null_mut() } else { self.head.load(Ordering::Acquire) }
    }

    /// Seals the list. The first caller gets every entry, oldest first; all others get none.
    pub(crate) fn seal(&self) -> Sealed<N> {
        let looked = mutant("list.sealer_looks_first").then(|| self.tidier_may_walk());
        // ordering: Release, so that a push that finds the mark sees what was published before; Acquire, so that the
        // entries' contents are visible here, and a tidier whose exchange came before: see `tidier_may_walk`.
        let mut at = self.head.swap(sealed(), Ordering::AcqRel);
        let mut taken = Sealed { entries: SmallVec::new(), shared: false };
        if at.is_null() || at == sealed() {
            return taken;
        }
        taken.shared = looked.unwrap_or_else(|| self.tidier_may_walk());
        let _pin = taken.shared.then(epoch::pin);
        while !at.is_null() {
            // SAFETY: `at` was reached from the chain that we took. Entries that a tidier unlinked are kept by the epoch, and
            // it pinned before it could; those we have not yet handed out hold their reference.
            let entry = unsafe { &*at };
            // ordering: Acquire pairs with the Release in `unlink_dead`: if the unlinking came first we go past the entry; else
            // we meet it, and `retire` decides.
            let next = entry.link().next.load(Ordering::Acquire);
            // Where no tidier is at work none will ever be, and what earlier ones retired they have unlinked.
            if !taken.shared || entry.link().retire() {
                // SAFETY: the list's reference, made by `Arc::into_raw` in `push`, is ours: nobody else takes entries now, or
                // `retire` gave it to us.
                taken.entries.push(unsafe { Arc::from_raw(at) });
            }
            at = next;
        }
        taken
    }

    /// Whether a tidier may be walking the chain that was just taken.
    fn tidier_may_walk(&self) -> bool {
        // ordering: pairs with `begin_walking`. If the tidier's exchange of the head came before our mark, the mark's swap has
        // acquired its BUSY, or the end of its work with all that it unlinked; else the tidier finds the mark and walks nothing.
        self.tidy.load(Ordering::Acquire) & BUSY != 0
    }

    /// To be called once for each entry that died while it may hang in here. Now and then it tidies up.
    pub(crate) fn note_dead(&self) {
        // A tidier may have unlinked the entry, and counted it off, before it is counted here: the count dips below zero then.
        let dead = self.dead.fetch_add(1, Ordering::AcqRel).wrapping_add(1).cast_signed();
        let calls_for = self.tidy.load(Ordering::Relaxed);
        let busy = calls_for & BUSY != 0 && !mutant("list.two_tidiers");
        if !busy && dead >= (calls_for & !BUSY).cast_signed() {
            self.tidy_up();
        }
    }

    /// Unlinks the dead, unless somebody does so already.
    #[cold]
    fn tidy_up(&self) {
        loop {
            let Some(pin) = self.begin_tidying() else { return };
            let (unlinked, alive) = self.unlink_dead(&pin);
            self.dead.fetch_sub(unlinked, Ordering::AcqRel);
            // A tidier retires many entries for one pin, and the epoch frees a few per hundred pins: help it, or they pile up.
            pin.flush();
            let calls_for = (DEAD_MIN + alive / 2).min(BUSY - 1);
            // ordering: Release hands the chain to the next tidier, whose exchange acquires. A swap, not a store (trap T2).
            self.tidy.swap(calls_for, Ordering::AcqRel);
            // Those that died while we were busy have left it to us.
            if unlinked == 0 || self.dead.load(Ordering::Acquire).cast_signed() < calls_for.cast_signed() {
                return;
            }
        }
    }

    /// Makes the caller the one tidier.
    fn begin_tidying(&self) -> Option<epoch::Guard> {
        let pin = epoch::pin();
        // ordering: Acquire takes the chain over from the tidier before.
        let busy = self.tidy.fetch_or(BUSY, Ordering::AcqRel) & BUSY != 0;
        if busy && !mutant("list.two_tidiers") { None } else { Some(pin) }
    }

    /// The head, where the tidier begins; the mark if the list has been sealed.
    fn begin_walking(&self) -> *mut N {
        if mutant("list.tidier_only_looks") {
            return self.head.load(Ordering::Acquire);
        }
        let mut head = self.head_for_cas();
        while head != sealed() {
            // ordering: pairs with `tidier_may_walk`, both cases there: an exchange that changes nothing, since a mere load would
            // have no order with the sealer's swap. Acquire makes the contents of the entries visible.
            match self.head.compare_exchange_weak(head, head, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        head
    }

    /// Unlinks dead entries behind the head. Returns how many, and how many stay.
    fn unlink_dead(&self, pin: &epoch::Guard) -> (u32, u32) {
        let (mut unlinked, mut alive) = (0, 0);
        let mut before = self.begin_walking();
        if before.is_null() || before == sealed() {
            return (0, 0);
        }
        loop {
            // SAFETY: reached from the head or a link while pinned; whoever releases an entry while a tidier is at work does so
            // through the epoch.
            let place = unsafe { &*before };
            // ordering: Acquire as for the head. Only this tidier writes links of entries that hang in the list.
            let at = place.link().next.load(Ordering::Acquire);
            if at.is_null() {
                return (unlinked, alive + 1);
            }
            // SAFETY: as above.
            let entry = unsafe { &*at };
            if entry.is_dead() {
                let next = entry.link().next.load(Ordering::Acquire);
                // ordering: Release pairs with the Acquire in `seal`, see there.
                place.link().next.store(next, Ordering::Release);
                if entry.link().retire() {
                    release_later(pin, at);
                }
                unlinked += 1;
            } else {
                alive += 1;
                before = at;
            }
        }
    }
}

/// Gives the list's reference to `entry` back once no tidier can be at it.
fn release_later<N: Linked>(pin: &epoch::Guard, entry: *mut N) {
    #[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
    {
        // SAFETY: the caller holds the reference that it gives back here.
        unsafe { &*entry }.given_back();
    }
    let entry = SendPtr(entry);
    // SAFETY: the caller won `retire`, so the reference made in `push` is its to give back, and nobody who pins from now on can
    // reach the entry. `N` is Send and 'static, so the reference may be dropped on any thread at any time.
    unsafe {
        pin.defer_unchecked(move || {
            let entry = entry;
            drop(Arc::from_raw(entry.0));
        });
    }
}

struct SendPtr<N>(*mut N);
// SAFETY: it carries one reference of an `Arc<N>` whose `N` is Send and Sync (bound of `Linked`).
unsafe impl<N: Linked> Send for SendPtr<N> {}

impl<N: Linked> Drop for SealableList<N> {
    #[inline]
    fn drop(&mut self) {
        // ordering: nobody shares the list any more. Under loom, which knows nothing of that, the load would be any old one.
        let head = if cfg!(shardrun_loom) { sealed() } else { self.head.load(Ordering::Relaxed) };
        if cfg!(shardrun_loom) || !(head.is_null() || head == sealed()) {
            drop(self.seal());
        }
    }
}

/// The entries of a sealed list, oldest first. Dropping it releases those that were not asked for.
#[derive(Debug)]
pub(crate) struct Sealed<N: Linked> {
    /// Newest first, as they hung.
    entries: SmallVec<[Arc<N>; 4]>,
    /// A tidier may be walking among them.
    shared: bool,
}

impl<N: Linked> Sealed<N> {
    /// Whether the sealer saw a tidier at work, so that the entries are released through the epoch.
    #[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Hands each entry to `deliver`, oldest first, by reference: the list's own reference is given back afterwards.
    pub(crate) fn deliver(mut self, mut deliver: impl FnMut(&Arc<N>)) {
        while let Some(entry) = self.entries.pop() {
            let entry = Release { entry: Some(entry), shared: self.shared };
            deliver(entry.entry.as_ref().expect("it is there until it is released"));
        }
    }
}

impl<N: Linked> Drop for Sealed<N> {
    fn drop(&mut self) {
        while let Some(entry) = self.entries.pop() {
            drop(Release { entry: Some(entry), shared: self.shared });
        }
    }
}

/// Gives the list's reference back, also when the delivery panics.
struct Release<N: Linked> {
    entry: Option<Arc<N>>,
    shared: bool,
}

impl<N: Linked> Drop for Release<N> {
    fn drop(&mut self) {
        let Some(entry) = self.entry.take() else { return };
        #[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
        if !self.shared {
            entry.given_back();
        }
        if self.shared {
            release_later(&epoch::pin(), Arc::into_raw(entry).cast_mut());
        }
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::*;
    use crate::sync::stat;

    /// An entry that counts how many live and how often it was told.
    struct Entry {
        link: Link<Self>,
        dead: AtomicBool,
        told: stat::AtomicUsize,
        alive: Arc<stat::AtomicUsize>,
    }

    impl Entry {
        fn new(alive: &Arc<stat::AtomicUsize>) -> Arc<Self> {
            alive.fetch_add(1, stat::Ordering::SeqCst);
            let (dead, told) = (AtomicBool::new(false), stat::AtomicUsize::new(0));
            Arc::new(Self { link: Link::new(), dead, told, alive: alive.clone() })
        }
    }

    impl Drop for Entry {
        fn drop(&mut self) {
            self.alive.fetch_sub(1, stat::Ordering::SeqCst);
        }
    }

    impl Linked for Entry {
        fn link(&self) -> &Link<Self> {
            &self.link
        }
        fn is_dead(&self) -> bool {
            self.dead.load(Ordering::Acquire)
        }
    }

    /// For the address sanitizer: everybody at once, on the real epoch.
    #[test]
    fn b107_an_entry_may_be_counted_off_before_it_is_counted() {
        let alive = Arc::new(stat::AtomicUsize::new(0));
        let list = SealableList::tidied_at(1);
        let [early, late, head] = std::array::from_fn(|_| Entry::new(&alive));
        for entry in [&early, &late, &head] {
            assert!(list.push(entry.clone()).is_ok());
        }
        // Both are dead, and the tidier that the first one calls for unlinks both before the second is counted.
        early.dead.store(true, Ordering::Release);
        late.dead.store(true, Ordering::Release);
        list.note_dead();
        assert_eq!(list.dead.load(Ordering::Acquire), u32::MAX);
        list.note_dead();
        assert_eq!(list.dead.load(Ordering::Acquire), 0);
    }

    #[test]
    fn b110_pushers_tidiers_and_a_sealer_leave_no_entry_alive_and_touch_none_that_is_gone() {
        let alive = Arc::new(stat::AtomicUsize::new(0));
        for _ in 0..300 {
            let list = SealableList::tidied_at(1);
            let (started, ended) = (stat::AtomicUsize::new(0), stat::AtomicUsize::new(0));
            let meet = |at: &stat::AtomicUsize| {
                at.fetch_add(1, stat::Ordering::SeqCst);
                while at.load(stat::Ordering::SeqCst) < 4 {
                    crate::sync::thread::yield_now();
                }
            };
            crate::sync::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        meet(&started);
                        let mut kept = Vec::new();
                        for number in 0..200 {
                            let entry = Entry::new(&alive);
                            if list.push(entry.clone()).is_err() {
                                break;
                            }
                            if number % 4 == 3 {
                                kept.push(entry);
                            } else {
                                entry.dead.store(true, Ordering::Release);
                                list.note_dead();
                            }
                        }
                        meet(&ended);
                        for entry in kept {
                            assert_eq!(entry.told.load(stat::Ordering::SeqCst), 1, "the living are told once");
                        }
                    });
                }
                scope.spawn(|| {
                    meet(&started);
                    for _ in 0..50 {
                        crate::sync::thread::yield_now();
                    }
                    list.seal().deliver(|entry| {
                        entry.told.fetch_add(1, stat::Ordering::SeqCst);
                    });
                    meet(&ended);
                });
            });
        }
        // The epoch moves on once the other threads of this process have left theirs.
        let begun = std::time::Instant::now();
        while alive.load(stat::Ordering::SeqCst) > 0 && begun.elapsed().as_secs() < 60 {
            epoch::pin().flush();
            crate::sync::thread::yield_now();
        }
        assert_eq!(alive.load(stat::Ordering::SeqCst), 0, "entries that nobody gave back");
    }
}
