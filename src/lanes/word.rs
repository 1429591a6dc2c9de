//! The admission word of an actor: what runs, what is queued, who has the turn and which tickets are out, with every transition.
//! It does not know the jobs, the order in which they are taken, nor what is process-wide.
//!
//! # The word
//!
//! | bits | field | meaning |
//! |---|---|---|
//! | 0..10 | readers | PureReads that run |
//! | 10..20 | heavy | heavy builds and detached builds that run |
//! | 20, 21, 22 | STATUS, COMMIT, WRITER | a job of that kind runs |
//! | 23, 24 | TICKET of each class | the actor stands in that class's run queue, once |
//! | 25 | TURN | somebody is inside, and alone may touch what lies there |
//! | 26 | NEWS | the mailbox or a queued job has changed since the turn last looked |
//! | 27, 28 | FATAL, CLOSED | nothing is admitted or accepted any more |
//! | 29, 30 | DRAIN, EPOCH | a drain counts jobs of the other epoch down |
//! | 31 | ROOM | somebody waits for room in a queue |
//! | 32..48, 48..64 | queued | jobs of each class that are reserved, posted or queued |
//!
//! # The transitions
//!
//! | call | who may | if another comes first |
//! |---|---|---|
//! | `reserve` | a submitter, before it posts | a close: it is refused, and posts nothing |
//! | `announce` | the submitter, after it has posted | a turn that looked before finds NEWS when it leaves, and looks again; a ticket that is out leads to a turn that looks |
//! | `begin_turn` | who popped a ticket, or closes | another has the turn: NEWS makes that one look again |
//! | `admit`, `leave` | who has the turn, on the word that it judged | a reservation: nothing, who reserves announces what it posts; any other change: it fails, and the turn judges again |
//! | `release` | who ran the job | the turn is held: its exchange fails; it is free: the ticket is ours to push |
//! | `release_and_turn` | who ran a read and would go on with the actor | as for `release`; another has the turn: we are not owed one |
//! | `leave_queue` | who took a queued job out | as for `release` |
//! | `close`, `close_if_idle` | remove, retire, reset, a panicking writer | an admission: the job runs to its end; else it is never admitted |
//!
//! An admission is one exchange of the word that was judged, but for what was reserved since, so a reader and a writer are never
//! admitted beside each other, and no cap is overshot. A job that is reserved keeps the actor from being idle, so nothing is retired under a submission.

#![forbid(unsafe_code)]

use super::barrier;
use super::kind::{LaneClass, LaneKind};
use crate::sync::atomic::{AtomicU64, Ordering, load_for_cas};
use crate::sync::mutant;

const READER: u64 = 1;
const COUNT: u64 = (1 << 10) - 1;
/// As many jobs of one kind can run at once.
pub(super) const RUNNING_MAX: usize = COUNT as usize;
const HEAVY_SHIFT: u32 = 10;
const HEAVY: u64 = 1 << HEAVY_SHIFT;
const STATUS: u64 = 1 << 20;
const COMMIT: u64 = 1 << 21;
const WRITER: u64 = 1 << 22;
const RUNNING: u64 = (1 << 23) - 1;
const TICKET: [u64; 2] = [1 << 23, 1 << 24];
const TURN: u64 = 1 << 25;
const NEWS: u64 = 1 << 26;
const FATAL: u64 = 1 << 27;
const CLOSED: u64 = 1 << 28;
const DRAIN: u64 = 1 << 29;
const EPOCH: u64 = 1 << 30;
const ROOM: u64 = 1 << 31;
const QUEUED_SHIFT: [u32; 2] = [32, 48];
const QUEUED_MAX: u64 = (1 << 16) - 1;
const QUEUED: u64 = !0 << QUEUED_SHIFT[0];

fn queued_unit(class: LaneClass) -> u64 {
    1 << QUEUED_SHIFT[class as usize]
}

fn unit(lane: LaneKind) -> u64 {
    match lane {
        LaneKind::PureRead => READER,
        LaneKind::SerialLspStatus => STATUS,
        LaneKind::HeavyInit => HEAVY,
        LaneKind::Mutating => WRITER,
        LaneKind::MaintenanceCommit => COMMIT,
    }
}

/// The word as somebody saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen(u64);

impl Seen {
    /// How many of a lane run.
    #[inline]
    pub(crate) fn running(self, lane: LaneKind) -> usize {
        let count = match lane {
            LaneKind::PureRead => self.0 & COUNT,
            LaneKind::HeavyInit => (self.0 >> HEAVY_SHIFT) & COUNT,
            LaneKind::SerialLspStatus => u64::from(self.0 & STATUS != 0),
            LaneKind::Mutating => u64::from(self.0 & WRITER != 0),
            LaneKind::MaintenanceCommit => u64::from(self.0 & COMMIT != 0),
        };
        count as usize
    }

    /// How many run in all.
    pub(crate) fn all_running(self) -> usize {
        LaneKind::ALL.into_iter().map(|lane| self.running(lane)).sum()
    }

    /// How many of a class are reserved, posted or queued.
    pub(crate) fn queued(self, class: LaneClass) -> usize {
        ((self.0 >> QUEUED_SHIFT[class as usize]) & QUEUED_MAX) as usize
    }

    #[inline]
    pub(crate) fn all_queued(self) -> usize {
        LaneClass::ALL.into_iter().map(|class| self.queued(class)).sum()
    }

    pub(crate) fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    pub(crate) fn is_fatal(self) -> bool {
        self.0 & FATAL != 0
    }

    pub(crate) fn is_idle(self) -> bool {
        self.0 & RUNNING == 0 && self.all_queued() == 0
    }

    fn is_over(self) -> bool {
        self.is_closed() && self.is_idle()
    }

    pub(crate) fn is_draining(self) -> bool {
        self.0 & DRAIN != 0
    }

    /// The class whose ticket a turn is owed, if anything is queued.
    pub(crate) fn owed(self) -> Option<LaneClass> {
        LaneClass::ALL.into_iter().find(|class| self.queued(*class) > 0)
    }

    /// The class of which another is queued beside one of `class`, for who knows that there is one.
    pub(crate) fn next_after(self, class: LaneClass) -> LaneClass {
        let interactive = self.queued(LaneClass::Interactive) > usize::from(class == LaneClass::Interactive);
        if interactive { LaneClass::Interactive } else { LaneClass::Maintenance }
    }

    fn epoch(self) -> bool {
        self.0 & EPOCH != 0
    }
}

/// Why nothing was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// The actor is closed.
    Closed,
    /// The actor is closed since a writer panicked.
    Fatal,
    /// So many are queued already.
    Full(u32),
}

/// What the one who changed the word has to do next.
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owes {
    /// A ticket of this class is to be pushed.
    pub(crate) ticket: Option<LaneClass>,
    /// Those who wait for room are to be told.
    pub(crate) room: bool,
    /// The job was one of those that a drain counts down.
    pub(crate) drained: bool,
    /// The actor is closed, and this was the last of its jobs.
    pub(crate) over: bool,
}

/// The admission word of one actor.
#[derive(Debug)]
pub(crate) struct LaneWord(AtomicU64);

impl LaneWord {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// A look, for those who do not have the turn.
    pub(crate) fn look(&self) -> Seen {
        // ordering: pairs with every edge, all of them AcqRel. If a close came first its reason is visible; else we act on what
        // was so a moment ago, which is all that a look promises.
        Seen(self.0.load(Ordering::Acquire))
    }

    #[inline]
    fn update<R>(&self, mut step: impl FnMut(u64) -> Result<(u64, R), R>) -> R {
        // ordering: each edge publishes what was done before it (AcqRel), and sees what the last edge published (Acquire).
        let mut seen = load_for_cas(&self.0, Ordering::Acquire);
        loop {
            let (next, result) = match step(seen) {
                Ok(found) => found,
                Err(result) => return result,
            };
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return result,
                Err(now) => seen = now,
            }
        }
    }

    /// Counts one more queued job, if fewer than `cap` are. `Ok` holds the epoch that it belongs to.
    #[inline]
    pub(crate) fn reserve(&self, class: LaneClass, cap: u32) -> Result<bool, NoRoom> {
        self.update(|word| {
            let seen = Seen(word);
            let depth = seen.queued(class) as u32;
            if seen.is_fatal() {
                Err(Err(NoRoom::Fatal))
            } else if seen.is_closed() {
                Err(Err(NoRoom::Closed))
            } else if depth >= cap {
                Err(Err(NoRoom::Full(depth)))
            } else {
                Ok((word + queued_unit(class), Ok(seen.epoch())))
            }
        })
    }

    /// Says that something has changed that a turn is to look at. True if the caller must push a ticket of that class.
    pub(crate) fn announce(&self, class: LaneClass) -> bool {
        barrier::full(); // pairs with `turned`
        self.announce_unless_out(class)
    }

    /// As [`announce`](Self::announce), for who has changed it by a read-modify-write just now: says that a job was posted.
    #[inline]
    pub(crate) fn announce_posted(&self, class: LaneClass) -> bool {
        if !mutant("lanes.announce_without_barrier") {
            barrier::behind_exchange(); // pairs with `turned`
        }
        self.announce_unless_out(class)
    }

    #[inline]
    fn announce_unless_out(&self, class: LaneClass) -> bool {
        let ticket = TICKET[class as usize];
        // ordering: Relaxed behind the caller's barrier, see `turned`: if the ticket is out, the turn that it leads to, or the
        // one that it asks to look again, sees what was posted. So nothing is written here while the actor stands in line.
        if self.0.load(Ordering::Relaxed) & ticket != 0 {
            return false;
        }
        // ordering: pairs with `begin_turn` and `refresh`. If our NEWS comes first, the turn that clears it looks at the mailbox
        // after it and finds the post; else the turn's exchange fails on it, and the turn looks again.
        let before = self.0.fetch_or(ticket | NEWS, Ordering::AcqRel);
        before & ticket == 0
    }

    /// Behind each exchange that gives a ticket up, or clears NEWS, and before the look at what was posted.
    fn turned<R>(result: R) -> R {
        if !mutant("lanes.turn_without_barrier") {
            // Pairs with the barrier in `announce`. If that passes first, the look at the mailbox finds the post; else who has
            // posted finds no ticket, or another one that was set after this exchange.
            barrier::behind_exchange();
        }
        result
    }

    /// Takes the turn, and gives the ticket up that led here. `None` if another has it: that one will look again.
    pub(crate) fn begin_turn(&self, ticket: Option<LaneClass>) -> Option<Seen> {
        let ticket = ticket.map_or(0, |class| TICKET[class as usize]);
        Self::turned(self.update(|word| {
            if word & TURN != 0 && !mutant("lanes.two_turns") {
                return Ok(((word & !ticket) | NEWS, None));
            }
            let next = (word & !ticket & !NEWS) | TURN;
            Ok((next, Some(Seen(next))))
        }))
    }

    /// Takes the turn if nobody has it, without asking who has it to look again.
    pub(crate) fn try_turn(&self) -> Option<Seen> {
        Self::turned(self.update(|word| {
            if word & TURN != 0 {
                return Err(None);
            }
            let next = (word & !NEWS) | TURN;
            Ok((next, Some(Seen(next))))
        }))
    }

    /// Looks again, for who has the turn and is about to look at the mailbox.
    pub(crate) fn refresh(&self) -> Seen {
        // ordering: as in `announce`.
        Self::turned(Seen(self.0.fetch_and(!NEWS, Ordering::AcqRel) & !NEWS))
    }

    fn exchange(&self, seen: Seen, next: u64) -> bool {
        // ordering: pairs with `release`: what the last job of the actor did is visible to the one admitted here.
        self.0.compare_exchange(seen.0, next, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// As [`exchange`](Self::exchange), by `next`, and over what was reserved meanwhile: who reserves announces what it posts, which
    /// changes more of the word or finds a ticket out, that leads to another turn. Who takes a job out sets NEWS.
    #[inline]
    fn exchange_over_reserved(&self, seen: Seen, next: impl Fn(u64) -> u64) -> bool {
        let mut word = seen.0;
        let matters = if mutant("lanes.exchange_over_news") { !(QUEUED | NEWS) } else { !QUEUED };
        loop {
            // ordering: as in `exchange`.
            match self.0.compare_exchange(word, next(word), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) if (now ^ word) & matters == 0 => word = now,
                Err(_) => return false,
            }
        }
    }

    /// Admits a queued job and leaves the turn, if the word still is what was judged. `again` asks for another turn. `None` if
    /// anything has changed but what is reserved: the turn goes on.
    #[inline]
    pub(crate) fn admit(&self, seen: Seen, lane: LaneKind, class: LaneClass, again: Option<LaneClass>) -> Option<Owes> {
        if seen.queued(class) == 0 {
            // It was reserved and posted since the word was looked at, which has changed, then.
            return None;
        }
        let ticket = again.map_or(0, |class| TICKET[class as usize]);
        let next = |word: u64| ((word - queued_unit(class) + unit(lane)) | ticket) & !TURN & !ROOM;
        let owes = Owes { ticket: again.filter(|_| seen.0 & ticket == 0), room: seen.0 & ROOM != 0, ..Owes::default() };
        self.exchange_over_reserved(seen, next).then_some(owes)
    }

    /// Leaves the turn, if the word still is what was judged, but for what was reserved since.
    pub(crate) fn leave(&self, seen: Seen, again: Option<LaneClass>) -> Option<Owes> {
        let ticket = again.map_or(0, |class| TICKET[class as usize]);
        if mutant("lanes.leave_without_judging") {
            self.0.fetch_and(!TURN, Ordering::AcqRel);
            return Some(Owes::default());
        }
        let owes = Owes { ticket: again.filter(|_| seen.0 & ticket == 0), ..Owes::default() };
        self.exchange_over_reserved(seen, |word| (word | ticket) & !TURN).then_some(owes)
    }

    /// A job that ran is over. `fatal`: nothing of the actor may start any more, in the same step. `epoch` is the job's.
    pub(crate) fn release(&self, lane: LaneKind, fatal: bool, epoch: bool) -> Owes {
        if mutant("lanes.fatal_after_release") && fatal {
            let owes = self.release(lane, false, epoch);
            let _ = self.close(true);
            return owes;
        }
        self.update(|word| {
            let mut next = word - unit(lane);
            if fatal {
                next |= FATAL | CLOSED;
            }
            let (next, mut owes) = with_ticket(next);
            if mutant("lanes.release_without_ticket") {
                owes.ticket = None;
            }
            owes.drained = word & DRAIN != 0 && Seen(word).epoch() != epoch;
            owes.over = Seen(next).is_over();
            Ok((next, owes))
        })
    }

    /// As [`release`](Self::release), for a read that has not panicked, whose runner would go on with the actor: if interactive jobs
    /// are queued and nobody has the turn, it is taken in the same step, and no ticket is owed.
    #[inline]
    pub(crate) fn release_and_turn(&self, lane: LaneKind, epoch: bool) -> (Owes, Option<Seen>) {
        let turn = if mutant("lanes.turn_over_turn") { 0 } else { TURN };
        Self::turned(self.update(|word| {
            let next = word - unit(lane);
            let goes_on = next & (turn | CLOSED) == 0 && Seen(next).queued(LaneClass::Interactive) > 0;
            let (next, mut owes) = if goes_on { ((next & !NEWS) | TURN, Owes::default()) } else { with_ticket(next) };
            owes.drained = word & DRAIN != 0 && Seen(word).epoch() != epoch;
            owes.over = Seen(next).is_over();
            Ok((next, (owes, goes_on.then_some(Seen(next)))))
        }))
    }

    /// A heavy build is over, and its install is queued in the same step.
    pub(crate) fn requeue(&self, class: LaneClass) {
        self.update(|word| Ok((word - HEAVY + queued_unit(class), ())));
    }

    /// A queued job is not queued any more: somebody took it out without running it.
    pub(crate) fn leave_queue(&self, class: LaneClass, epoch: bool) -> Owes {
        self.update(|word| {
            // The ticket comes even if nothing is left: what is dead is to be swept.
            let next = ((word - queued_unit(class)) | NEWS) & !ROOM;
            let wanted = Seen(next).owed().unwrap_or(class);
            let ticket = TICKET[wanted as usize];
            let owes = Owes {
                ticket: (next & ticket == 0).then_some(wanted),
                room: word & ROOM != 0,
                drained: word & DRAIN != 0 && Seen(word).epoch() != epoch,
                over: Seen(next).is_over(),
            };
            Ok((next | ticket, owes))
        })
    }

    /// Somebody builds beside the actor, which is not idle until `release`. Holds the epoch.
    pub(crate) fn begin_detached(&self) -> Result<bool, NoRoom> {
        self.update(|word| {
            let seen = Seen(word);
            if seen.is_fatal() {
                Err(Err(NoRoom::Fatal))
            } else if seen.is_closed() {
                Err(Err(NoRoom::Closed))
            } else if seen.running(LaneKind::HeavyInit) == RUNNING_MAX {
                Err(Err(NoRoom::Full(RUNNING_MAX as u32)))
            } else {
                Ok((word + HEAVY, Ok(seen.epoch())))
            }
        })
    }

    /// Closes the actor. True for the first.
    pub(crate) fn close(&self, fatal: bool) -> bool {
        let bits = if fatal { FATAL | CLOSED } else { CLOSED };
        // ordering: pairs with `admit`: if the close comes first, no admission follows it; else that job runs to its end.
        self.0.fetch_or(bits, Ordering::AcqRel) & CLOSED == 0
    }

    /// Closes the actor if nothing of it runs, is queued, or is being posted.
    pub(crate) fn close_if_idle(&self) -> bool {
        if mutant("lanes.retire_looks_first") {
            return self.look().is_idle() && self.close(false);
        }
        self.update(|word| {
            let seen = Seen(word);
            if seen.is_idle() && !seen.is_closed() { Ok((word | CLOSED, true)) } else { Err(false) }
        })
    }

    /// Begins to drain: what runs and is queued in `seen` is counted down, jobs reserved from now on belong to the other epoch.
    /// False if anything has changed.
    pub(crate) fn begin_drain(&self, seen: Seen) -> bool {
        self.exchange(seen, (seen.0 ^ EPOCH) | DRAIN)
    }

    /// The drain is over.
    pub(crate) fn end_drain(&self) {
        self.0.fetch_and(!DRAIN, Ordering::AcqRel);
    }

    /// Asks to be told of room. True if there is room already.
    pub(crate) fn want_room(&self, class: LaneClass, cap: u32) -> bool {
        // ordering: pairs with `admit` and `leave_queue`: if those come first we see the room; else they see that we wait.
        let before = Seen(self.0.fetch_or(ROOM, Ordering::AcqRel));
        before.is_closed() || (before.queued(class) as u32) < cap
    }
}

/// Adds the ticket that is owed for what is queued, or for a drain.
fn with_ticket(next: u64) -> (u64, Owes) {
    let owed = Seen(next).owed().or((next & DRAIN != 0).then_some(LaneClass::Interactive));
    let Some(class) = owed.filter(|_| next & CLOSED == 0) else { return (next, Owes::default()) };
    let ticket = TICKET[class as usize];
    (next | ticket, Owes { ticket: (next & ticket == 0).then_some(class), ..Owes::default() })
}
