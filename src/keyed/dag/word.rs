//! The one word of a node: what it still waits for, how urgent it is, and how far it has come.
//! It does not know the node, its edges, nor who runs it.
//!
//! | bits | field | set by | meaning |
//! |---|---|---|---|
//! | 0..24 | gates | `open`, `pass`, `add_gate` | edges into the node that are not decided; never rises from zero |
//! | 24..48 | alive | `open` | edges into it that opened behind a node that was not cancelled |
//! | 48..50 | priority | `urge` | the most urgent of its own and of all that come after it |
//! | 50 | QUEUED | `queue` | a ticket of it is out |
//! | 51 | STARTED | `claim` | somebody has it: runs it, or ends it without |
//! | 52 | OVER | `end` | its outcome stands |
//! | 53 | CANCELLED | `cancel` | it was cancelled before it was over: that is its outcome |
//! | 54 | SHUT | `shut` | an edge into it did not open: it will not run |
//! | 55 | KEPT | | it goes on although all that it came after was cancelled |
//! | 56..58 | end | `end` | its disposition |
//! | 58..64 | growers | `grow`, `ungrow` | who adds to the graph behind it at the moment; it is not released before |
//!
//! Whoever takes the gates to zero owns the node, alone, until it has queued it; then whoever claims it does. An outcome
//! and a cancel are decided by which of the two came first in this word.
#![forbid(unsafe_code)]

use super::super::kind::Disposition;
use crate::runtime::Priority;
use crate::sync::atomic::{AtomicU64, Ordering, fence_behind_exchange, load_for_cas};
use crate::sync::mutant;

const GATE: u64 = 1;
const ALIVE: u64 = 1 << 24;
/// Edges that may lead into one node.
pub(crate) const GATES_MAX: u32 = (1 << 24) - 1;
const COUNT: u64 = GATES_MAX as u64;
/// Who may add to the graph behind one node at a moment.
pub(super) const GROWERS_MAX: u32 = (GROWERS >> 58) as u32;
const PRIORITY_SHIFT: u32 = 48;
const PRIORITY: u64 = 0b11 << PRIORITY_SHIFT;
const QUEUED: u64 = 1 << 50;
const STARTED: u64 = 1 << 51;
const OVER: u64 = 1 << 52;
const CANCELLED: u64 = 1 << 53;
const SHUT: u64 = 1 << 54;
const KEPT: u64 = 1 << 55;
const END_SHIFT: u32 = 56;
const END: u64 = 0b11 << END_SHIFT;
const GROWER: u64 = 1 << 58;
const GROWERS: u64 = 0b11_1111 << 58;

/// A node's word as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen(u64);

impl Seen {
    #[inline]
    pub(crate) fn priority(self) -> Priority {
        Priority::ALL[((self.0 & PRIORITY) >> PRIORITY_SHIFT) as usize]
    }

    pub(crate) fn is_queued(self) -> bool {
        self.0 & QUEUED != 0
    }

    /// Whether a ticket of it is out, and nobody has it.
    pub(crate) fn is_free(self) -> bool {
        self.0 & (QUEUED | STARTED) == QUEUED
    }

    pub(crate) fn is_started(self) -> bool {
        self.0 & STARTED != 0
    }

    pub(crate) fn is_over(self) -> bool {
        self.0 & OVER != 0
    }

    pub(crate) fn is_cancelled(self) -> bool {
        self.0 & CANCELLED != 0
    }

    pub(crate) fn is_kept(self) -> bool {
        self.0 & KEPT != 0
    }

    pub(crate) fn is_shut(self) -> bool {
        self.0 & SHUT != 0
    }

    /// Whether it runs, or has been taken to be ended.
    pub(crate) fn is_under_way(self) -> bool {
        self.0 & (STARTED | OVER) == STARTED
    }

    /// Of a node that is over: whether what comes after it may be released.
    #[inline]
    pub(crate) fn is_settled(self) -> bool {
        self.0 & GROWERS == 0
    }

    /// Of a ready node with edges into it: whether all that it came after was cancelled, and nobody else wants it.
    fn is_orphan(self) -> bool {
        (self.0 >> 24) & COUNT == 0 && self.0 & KEPT == 0
    }

    /// Of a ready node that `came_after` others: whether it may run.
    #[inline]
    pub(crate) fn may_run(self, came_after: bool) -> bool {
        let gone = self.is_cancelled() || self.is_shut();
        !(gone || came_after && self.is_orphan())
    }

    /// Of a ready node with edges into it: whether it may run, and is as urgent as those of that mark.
    #[inline]
    pub(crate) fn runs_at(self, mark: Mark) -> bool {
        self.0 & (CANCELLED | SHUT | PRIORITY) == mark.0 && !self.is_orphan()
    }

    /// Of a node that is over: whether every edge behind it opens, at once: it has a value to keep, was not cancelled, and nobody adds
    /// to the graph behind it.
    #[inline]
    pub(crate) fn opens_all(self) -> bool {
        self.0 & (GROWERS | CANCELLED | END) == 0
    }

    /// How it ended, once it is over.
    pub(crate) fn disposition(self) -> Disposition {
        match (self.0 & END) >> END_SHIFT {
            _ if self.is_cancelled() => Disposition::Failed,
            0 => Disposition::Cacheable,
            1 => Disposition::ReturnOnly,
            _ => Disposition::Failed,
        }
    }
}

/// What the words of nodes of one priority that may run have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u64);

impl Mark {
    pub(crate) fn of(priority: Priority) -> Self {
        Self((priority as u64) << PRIORITY_SHIFT)
    }

    /// Of no node.
    pub(crate) fn none() -> Self {
        Self(u64::MAX)
    }
}

/// What became of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// It came first. Whether somebody has the node at the moment, and hears of it.
    Won { started: bool },
    /// The node was over, or cancelled before.
    Late,
}

/// The state of one node.
#[derive(Debug)]
pub(crate) struct Word(AtomicU64);

impl Word {
    /// A node that waits for so many edges, at most [`GATES_MAX`]; of one that waits for none a ticket is about to go out.
    pub(crate) fn new(gates: u32, priority: Priority, kept: bool) -> Self {
        debug_assert!(gates <= GATES_MAX);
        let (kept, queued) = (if kept { KEPT } else { 0 }, if gates == 0 { QUEUED } else { 0 });
        Self(AtomicU64::new(u64::from(gates) | (priority as u64) << PRIORITY_SHIFT | kept | queued))
    }

    #[inline]
    pub(crate) fn load(&self) -> Seen {
        // ordering: pairs with the read-modify-writes below. If an end came first, what it wrote is visible; else it is not over.
        Seen(self.0.load(Ordering::Acquire))
    }

    #[inline]
    fn update(&self, mut step: impl FnMut(u64) -> Option<u64>) -> Result<Seen, Seen> {
        // ordering: AcqRel, and Acquire on failure: whoever wins or loses here sees what the one before has written.
        let mut seen = load_for_cas(&self.0, Ordering::Acquire);
        loop {
            let Some(next) = step(seen) else { return Err(Seen(seen)) };
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(Seen(seen)),
                Err(now) => seen = now,
            }
        }
    }

    /// An edge into the node opens. To the last, who owns the node now: the word as it is.
    #[inline]
    pub(crate) fn open(&self) -> Option<Seen> {
        let order = if mutant("dag.word.open_relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };
        // ordering: Release hands on what the node before did; Acquire, for the last, what all of them did.
        let before = self.0.fetch_add(ALIVE - GATE, order);
        (before & COUNT == 1).then_some(Seen(before.wrapping_add(ALIVE - GATE)))
    }

    /// As [`open`](Self::open), behind a node that was cancelled.
    pub(crate) fn pass(&self) -> Option<Seen> {
        let before = self.0.fetch_sub(GATE, Ordering::AcqRel);
        (before & COUNT == 1).then_some(Seen(before - GATE))
    }

    /// As [`open`](Self::open), for an edge that stays shut.
    pub(crate) fn shut(&self) -> Option<Seen> {
        if mutant("dag.word.shut_after") {
            let last = self.pass();
            self.0.fetch_or(SHUT, Ordering::Relaxed);
            return last;
        }
        // ordering: read by who is last, in this word, after our subtraction.
        self.0.fetch_or(SHUT, Ordering::Relaxed);
        self.pass()
    }

    /// One edge more leads into the node, unless it is ready or further, or as many lead into it as are counted, with those that are open.
    /// Whether it does.
    pub(crate) fn add_gate(&self) -> bool {
        let blind = mutant("dag.word.gate_ready");
        let room = |word: u64| (word & COUNT) + ((word >> 24) & COUNT) < COUNT;
        self.update(|word| ((word & COUNT > 0 || blind) && room(word)).then_some(word + GATE)).is_ok()
    }

    /// Its owner sends a ticket off, for the priority that stands here now. Who urges later sends another.
    #[inline]
    pub(crate) fn queue(&self) -> Seen {
        if mutant("dag.word.queue_by_look") {
            let seen = self.load();
            self.0.fetch_or(QUEUED, Ordering::AcqRel);
            return seen;
        }
        // ordering: AcqRel. Pairs with `urge` on the same word: if that came first, its priority is returned; else it sees QUEUED.
        let seen = Seen(self.0.fetch_or(QUEUED, Ordering::AcqRel));
        if !mutant("dag.word.queue_no_fence") {
            // ordering: pairs with `wanted_then_looks`: see there.
            fence_behind_exchange();
        }
        seen
    }

    /// Whoever has a ticket takes the node, if nobody has. To the one that has it now: the word before.
    #[inline]
    pub(crate) fn claim(&self) -> Option<Seen> {
        if mutant("dag.word.claim_by_look") {
            let seen = self.load();
            self.0.fetch_or(STARTED, Ordering::AcqRel);
            return (!seen.is_started()).then_some(seen);
        }
        // ordering: Acquire takes over from who queued it.
        let before = Seen(self.0.fetch_or(STARTED, Ordering::AcqRel));
        (!before.is_started()).then_some(before)
    }

    /// Its owner runs it at once, without a ticket.
    #[inline]
    pub(crate) fn start(&self) -> Seen {
        // The bit is not set yet, so to add it is to set it; and that is one instruction.
        Seen(self.0.fetch_add(STARTED, Ordering::AcqRel))
    }

    /// Who has the node writes its outcome, once. The word as it is now: if a cancel came first, that is the outcome; and if somebody
    /// adds to the graph behind it, the last of those releases what is behind.
    #[inline]
    pub(crate) fn end(&self, disposition: Disposition) -> Seen {
        // As in `start`; who has it has started it.
        let bits = OVER | (disposition as u64) << END_SHIFT;
        // ordering: Release publishes what the node left; Acquire takes what a canceller wrote. Pairs with `cancel`: one is first.
        Seen(self.0.fetch_add(bits, Ordering::AcqRel).wrapping_add(bits))
    }

    /// Cancels it, unless it is over.
    pub(crate) fn cancel(&self) -> Cancel {
        if mutant("dag.word.cancel_blind") {
            let before = Seen(self.0.fetch_or(CANCELLED, Ordering::AcqRel));
            return if before.is_cancelled() { Cancel::Late } else { Cancel::Won { started: before.is_started() } };
        }
        match self.update(|word| (word & (OVER | CANCELLED) == 0).then_some(word | CANCELLED)) {
            Ok(before) => Cancel::Won { started: before.is_started() },
            Err(_) => Cancel::Late,
        }
    }

    /// Makes it as urgent as `priority`, or less. The word before, if that is a change and the node is not over.
    pub(crate) fn urge(&self, priority: Priority) -> Option<Seen> {
        let bits = (priority as u64) << PRIORITY_SHIFT;
        self.update(|word| (word & OVER == 0 && word & PRIORITY != bits).then_some((word & !PRIORITY) | bits)).ok()
    }

    /// Somebody adds to the graph behind the node: from now on nothing behind it is released, until it is told of the last.
    ///
    /// # Errors
    /// The word, if the node is not under way, or [`GROWERS_MAX`] do so already.
    pub(crate) fn grow(&self) -> Result<(), Seen> {
        let may = |word: u64| Seen(word).is_under_way() && word & GROWERS < GROWERS;
        self.update(|word| may(word).then(|| word + GROWER)).map(drop)
    }

    /// One who added is done. To the last, if the node has come to its end meanwhile: the word, for who releases what is behind.
    pub(crate) fn ungrow(&self) -> Option<Seen> {
        // ordering: AcqRel. Pairs with `end`: if that came first, who is the last here releases, and sees the outcome; else `end`
        // sees nobody, or leaves it to who is the last.
        let before = self.0.fetch_sub(GROWER, Ordering::AcqRel);
        let last = before & GROWERS == GROWER || mutant("dag.word.each_grower_releases");
        (last && before & OVER != 0).then_some(Seen(before - GROWER))
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn edges_that_open_one_after_the_other_never_reach_the_priority() {
        let word = Word::new(1, Priority::Maintenance, false);
        let added = (0..=GATES_MAX).take_while(|_| word.add_gate() && word.open().is_none()).count();
        assert_eq!(added, GATES_MAX as usize - 1, "one stands");
        let seen = word.load();
        assert_eq!((seen.priority(), seen.is_queued(), seen.may_run(true)), (Priority::Maintenance, false, true));
        assert!(!word.add_gate());
        assert!(word.open().is_some_and(|seen| seen.priority() == Priority::Maintenance));
    }

    #[test]
    fn as_many_grow_the_graph_behind_a_node_as_are_counted_and_the_next_is_told_so() {
        let word = Word::new(0, Priority::Background, false);
        assert!(!word.grow().unwrap_err().is_under_way());
        word.claim().unwrap();
        assert!((0..GROWERS_MAX).all(|_| word.grow().is_ok()));
        assert!(word.grow().unwrap_err().is_under_way());
        assert_eq!((1..GROWERS_MAX).filter_map(|_| word.ungrow()).count(), 0);
        assert!(!word.end(Disposition::Cacheable).is_settled());
        assert!(word.ungrow().is_some_and(Seen::is_settled));
    }
}
