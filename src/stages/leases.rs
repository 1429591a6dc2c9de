//! The leases of captured views: who has captured when, and what is kept for whom.
//! It does not know what is kept, nor how it is let go.
//!
//! | transition of a lease's word | who | excludes |
//! |---|---|---|
//! | free → open | a capture, before it moves the clock | something let go that the view will see |
//! | open → clock value | the same, after it | something kept for a view that cannot see it |
//! | clock value → free | the drop of the view | something kept for nobody |
//!
//! Something that stamps of the span `from..until` bound is hung up at a lease that sees it; then the word is looked at again, and if
//! it has changed, what hangs there is taken back and judged anew. Every change of the word is followed by a look at what
//! hangs there; both sides read and write the one word, so one of the two sees the other.
//!
//! Who judges has read the stamp `until`, and so every announcement of a view that was captured before it: the capture announces,
//! then moves the clock; the stamp was read from the clock after that.

use super::stamp::Clock;
use crate::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::sync::mutant;
use crate::sync::stat;
use std::ptr;

const FREE: u64 = 0;
/// The capture has begun: it may see anything.
const OPEN: u64 = 1;

/// Leases of the first segment; each further one doubles the whole.
const FIRST: usize = if cfg!(shardrun_loom) { 2 } else { 32 };
/// Segments, more than there can be views.
const SEGMENTS: usize = if cfg!(shardrun_loom) { 2 } else { 40 };

/// What is kept for views.
pub(crate) trait Held {
    /// The clock values between which a view that was captured then sees it: from the first on, and before the second.
    fn span(&self) -> (u64, u64);

    /// Whether it counts among what is kept.
    fn counts(&self) -> bool {
        true
    }
}

struct Lease<E> {
    word: AtomicU64,
    /// What is kept for this view: a list without an order, each entry owned by it.
    held: AtomicPtr<Node<E>>,
}

struct Node<E> {
    entry: E,
    next: *mut Node<E>,
}

/// The place of a view among the leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat(usize);

/// The leases of one scheduler.
pub(crate) struct Leases<E> {
    /// Views that there are, counted before their leases are taken and after they are given back.
    live: AtomicUsize,
    /// Where the last view was captured: most look there first.
    latest: AtomicUsize,
    capacity: AtomicUsize,
    segments: [AtomicPtr<Lease<E>>; SEGMENTS],
    kept: stat::AtomicUsize,
}

// SAFETY: entries are moved in by one thread and out by another, and shared by none.
unsafe impl<E: Send> Send for Leases<E> {}
// SAFETY: as above.
unsafe impl<E: Send> Sync for Leases<E> {}

impl<E: Held> Leases<E> {
    pub(crate) fn new() -> Self {
        Self {
            live: AtomicUsize::new(0),
            latest: AtomicUsize::new(0),
            capacity: AtomicUsize::new(0),
            segments: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            kept: stat::AtomicUsize::new(0),
        }
    }

    /// How many views there are.
    pub(crate) fn live(&self) -> usize {
        // ordering: who must see a view has seen its announcement before: by the stamp `until`, or under a pin of its own.
        self.live.load(Ordering::Relaxed)
    }

    /// How much is kept.
    pub(crate) fn kept(&self) -> usize {
        self.kept.load(stat::Ordering::Relaxed)
    }

    /// Captures a view: its place, and the clock value up to which it sees. What is pushed into `unseen` is kept for nobody any
    /// more. `None` if the clock has come to its end.
    pub(crate) fn capture(&self, clock: &Clock, unseen: &mut Vec<E>) -> Option<(Seat, u64)> {
        let at = self.announce(clock.now());
        let lease = self.lease(at);
        let Some(seen) = clock.capture() else {
            self.release(Seat(at), unseen);
            return None;
        };
        // ordering: AcqRel with the look of `hold`: see above.
        lease.word.swap(seen, Ordering::AcqRel);
        self.latest.store(at, Ordering::Relaxed);
        if !lease.held.load(Ordering::Relaxed).is_null() {
            self.judge(lease.take(), unseen);
        }
        Some((Seat(at), seen))
    }

    /// Gives a view back. What is pushed into `unseen` is kept for nobody any more.
    pub(crate) fn release(&self, Seat(at): Seat, unseen: &mut Vec<E>) {
        let lease = self.lease(at);
        // ordering: AcqRel with the look of `hold`: see above. So a look tells whether anything hangs there.
        lease.word.swap(FREE, Ordering::AcqRel);
        if !lease.held.load(Ordering::Relaxed).is_null() {
            self.judge(lease.take(), unseen);
        }
        self.live.fetch_sub(1, Ordering::AcqRel);
    }

    /// Keeps `entry` for a view that sees it. What is pushed into `unseen` is kept for nobody: it may be the entry itself.
    pub(crate) fn hold(&self, entry: E, unseen: &mut Vec<E>) {
        self.kept.fetch_add(usize::from(entry.counts()), stat::Ordering::Relaxed);
        self.judge(Node::list(entry), unseen);
    }

    /// Whether any view sees something of the span. One that is captured from now on does not count, as long as `until` is a stamp
    /// that the caller has read, or the clock's present value.
    pub(crate) fn is_seen(&self, from: u64, until: u64) -> bool {
        from < until && self.live() > 0 && self.find(from, until).is_some()
    }

    /// Takes a free lease, and says so before the clock is moved.
    fn announce(&self, seed: u64) -> usize {
        let live = self.live.fetch_add(1, Ordering::AcqRel) + 1;
        // Half of them are free, so two or three looks find one, wherever they begin.
        let capacity = self.reserve(2 * live);
        let begin = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let mut at = begin as usize % capacity;
        loop {
            let word = &self.lease(at).word;
            // ordering: Release; passed on by the move of the clock that follows.
            if word.load(Ordering::Relaxed) == FREE
                && (mutant("leases.no_announce")
                    || word.compare_exchange(FREE, OPEN, Ordering::AcqRel, Ordering::Relaxed).is_ok())
            {
                return at;
            }
            at = (at + 1) % capacity;
        }
    }

    /// Makes room for so many leases, at least, if it is not there. How many there are then.
    fn reserve(&self, wanted: usize) -> usize {
        loop {
            let capacity = self.capacity.load(Ordering::Acquire);
            if capacity >= wanted.max(FIRST) {
                return capacity;
            }
            let next = if capacity == 0 { FIRST } else { capacity * 2 };
            let (segment, _) = locate(next - 1);
            let leases = (capacity..next).map(|_| Lease::free()).collect::<Box<[Lease<E>]>>();
            let raw = Box::into_raw(leases).cast::<Lease<E>>();
            // ordering: Release publishes the leases; `capacity` says that they are there.
            let place = &self.segments[segment];
            if place.compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: made above, and shown to nobody.
                drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(raw, next - capacity)) });
            }
            let _ = self.capacity.compare_exchange(capacity, next, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    fn lease(&self, at: usize) -> &Lease<E> {
        let (segment, offset) = locate(at);
        // ordering: pairs with `reserve`: who knows the number has seen the capacity, and so the segment.
        let leases = self.segments[segment].load(Ordering::Acquire);
        // SAFETY: the segment holds that many, and is freed with the whole.
        unsafe { &*leases.add(offset) }
    }

    /// A view that sees something of the span, and its word: better one that has its clock value than one that may get it.
    fn find(&self, from: u64, until: u64) -> Option<(usize, u64)> {
        let capacity = self.capacity.load(Ordering::Acquire);
        let mut open = None;
        let latest = self.latest.load(Ordering::Relaxed);
        for at in std::iter::once(latest).chain(0..capacity) {
            if at >= capacity {
                continue;
            }
            // ordering: a view that sees it has been announced before the caller read `until`; see above.
            let word = self.lease(at).word.load(Ordering::Acquire);
            if (from..until).contains(&word) && word > OPEN {
                return Some((at, word));
            }
            if word == OPEN && !mutant("leases.open_sees_nothing") {
                open = Some((at, word));
            }
        }
        open
    }

    /// Hangs each of a list up at a view that sees it, or gives it out.
    fn judge(&self, mut list: *mut Node<E>, unseen: &mut Vec<E>) {
        while !list.is_null() {
            // SAFETY: the list is the caller's, each node made by `Box::into_raw`.
            let mut node = unsafe { Box::from_raw(list) };
            list = node.next;
            let (from, until) = node.entry.span();
            let Some((at, word)) = self.find(from, until) else {
                self.kept.fetch_sub(usize::from(node.entry.counts()), stat::Ordering::Relaxed);
                unseen.push(node.entry);
                continue;
            };
            let lease = self.lease(at);
            node.next = ptr::null_mut();
            lease.push(Box::into_raw(node));
            // ordering: a read-modify-write that changes nothing. If it comes before the view's own change of the word, that finds
            // the node; else this sees the change.
            let now = lease.word.fetch_add(0, Ordering::AcqRel);
            if now != word && !mutant("leases.hold_without_look") {
                list = join(lease.take(), list);
            }
        }
    }
}

/// Which segment a lease lies in, and where.
fn locate(at: usize) -> (usize, usize) {
    if at < FIRST {
        return (0, at);
    }
    let doublings = (at / FIRST).ilog2();
    (doublings as usize + 1, at - (FIRST << doublings))
}

/// The two lists as one.
fn join<E>(first: *mut Node<E>, second: *mut Node<E>) -> *mut Node<E> {
    let mut last = first;
    if last.is_null() {
        return second;
    }
    // SAFETY: both lists are the caller's.
    unsafe {
        while !(*last).next.is_null() {
            last = (*last).next;
        }
        (*last).next = second;
    }
    first
}

impl<E> Node<E> {
    fn list(entry: E) -> *mut Self {
        Box::into_raw(Box::new(Self { entry, next: ptr::null_mut() }))
    }
}

impl<E> Lease<E> {
    fn free() -> Self {
        Self { word: AtomicU64::new(FREE), held: AtomicPtr::new(ptr::null_mut()) }
    }

    fn push(&self, node: *mut Node<E>) {
        let mut head = self.held.load(Ordering::Relaxed);
        loop {
            // SAFETY: the node is ours until the exchange succeeds.
            unsafe { (*node).next = head };
            // ordering: Release; pairs with `take`.
            match self.held.compare_exchange_weak(head, node, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Everything that hangs here.
    fn take(&self) -> *mut Node<E> {
        self.held.swap(ptr::null_mut(), Ordering::AcqRel)
    }
}

impl<E> Drop for Leases<E> {
    fn drop(&mut self) {
        let mut capacity = 0;
        for segment in &self.segments {
            let leases = segment.load(Ordering::Acquire);
            let next = if capacity == 0 { FIRST } else { capacity * 2 };
            if leases.is_null() {
                return;
            }
            // SAFETY: made by `reserve` with that many.
            let leases = unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(leases, next - capacity)) };
            for lease in &leases {
                let mut node = lease.take();
                while !node.is_null() {
                    // SAFETY: nobody shares the leases any more.
                    let owned = unsafe { Box::from_raw(node) };
                    node = owned.next;
                }
            }
            capacity = next;
        }
    }
}
