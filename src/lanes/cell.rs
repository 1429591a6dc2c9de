//! The six-state cell of a job: who runs it, who takes it out, and whether its commit or a cancel wins.
//! It does not know where the job stands in a queue, nor who is told.
//!
//! | call | edge | who may | if another comes first |
//! |---|---|---|---|
//! | `claim` | Queued → Claimed | who has the actor's turn | it was taken out: the shell is thrown away |
//! | `unclaim` | Claimed → Queued | the same, whose admission failed | it was cancelled: as above |
//! | `start` | Claimed → Started | who runs it, right before its body | it was cancelled: the body never runs |
//! | `seal` | Started → Sealed | the job itself, past its point of no return | a cancel: false, for ever |
//! | `requeue` | Started or Sealed → Queued | who ran a heavy build: its install is queued | a cancel: the install never runs |
//! | `cancel` | Queued or Claimed → Cancelled; Started: signalled | whoever holds the ticket | see [`Cancelled`] |
//! | `cancel_queued` | as `cancel`, but not of Started | who cancels all that is queued | as above; it runs: nothing is changed |
//! | `take_out` | Queued → Cancelled | close | somebody runs it, or has taken it out |
//! | `take_out_late` | the same, but not of an install | deadline | as above; its build has begun: nothing is changed |
//! | `follow` | Queued → Following | who has the turn, before it hangs the job on an equal one that is queued | it was taken out |
//! | `unfollow` | Following → Queued | the same, who found that the equal one is over | a cancel: the room is still its own to give back |
//! | `adopt` | Following → Finished | who ends the equal one, and answers this one too | a cancel or a deadline has answered it |
//! | `let_go` | Following → Cancelled | a deadline, a cancel | it was answered with the other's result |
//! | `finish` | Started, Sealed or Cancelled → Finished | who ran it | – |
//!
//! Who alone can reach a job, with every other reference let go of, claims, starts and finishes it by a look and a store
//! (`claim_alone` and so on): nobody is left who could come first.
//!
//! Who leads the cell out of Queued owns the job's unit of queue room; a job that follows has none. Who leads it out of Following
//! answers it. Who leads it out of Queued or Claimed into Cancelled
//! answers it; else who finishes it does. So each job is answered once, and a job that was taken out never runs.

#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU32, Ordering, fence};
use crate::sync::mutant;

const STATE: u32 = 0b111;
const QUEUED: u32 = 0;
const CLAIMED: u32 = 1;
const STARTED: u32 = 2;
const SEALED: u32 = 3;
const CANCELLED: u32 = 4;
const FINISHED: u32 = 5;
const FOLLOWING: u32 = 6;

/// A cancel has won, for good.
const SIGNALLED: u32 = 1 << 3;
/// The job has sealed its commit.
const COMMITTED: u32 = 1 << 4;
/// The body has been begun.
const RAN: u32 = 1 << 5;
/// A slot was lent while a job waits for it.
const LENT: u32 = 1 << 6;

/// What a cancel found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// It was queued: the caller has taken it out, owns its room and answers it.
    TakenOut,
    /// Its build is over and its install was queued: the caller has taken that out, owns its room and answers it.
    InstallTakenOut,
    /// It waited for the result of an equal one: the caller answers it.
    LetGo,
    /// It was claimed and not begun: the caller answers it, who claimed it gives its slot back.
    BeforeStart,
    /// It runs, and will see the signal.
    Signalled,
    /// It has sealed its commit, and sees nothing of this.
    TooLate,
    /// It is over.
    Finished,
    /// An earlier cancel has won.
    Already,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobPhase {
    Queued,
    Claimed,
    Started,
    Sealed,
    /// It waits for the result of an equal one that is queued or runs.
    Following,
    /// Cancelled; it may still run if it was begun.
    Cancelled,
    Finished,
}

/// The cell.
#[derive(Debug)]
pub(crate) struct JobState(AtomicU32);

impl JobState {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(QUEUED))
    }

    fn load(&self) -> u32 {
        // ordering: pairs with the edges. If one came first, what its maker did before is visible; else it is as if we had asked
        // before it.
        self.0.load(Ordering::Acquire)
    }

    fn update<R>(&self, mut step: impl FnMut(u32) -> Result<(u32, R), R>) -> R {
        // Under loom the loop begins with a read-modify-write (trap T1).
        let mut seen = if cfg!(shardrun_loom) { self.0.fetch_add(0, Ordering::AcqRel) } else { self.load() };
        loop {
            let (next, result) = match step(seen) {
                Ok(found) => found,
                Err(result) => return result,
            };
            // ordering: AcqRel, each edge publishes what came before it and sees what the last one published; Acquire on
            // failure, since who learns here that another has won acts on what that one did.
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return result,
                Err(now) => seen = now,
            }
        }
    }

    fn go(word: u32, to: u32) -> u32 {
        (word & !STATE) | to
    }

    /// Where it stands.
    pub(crate) fn phase(&self) -> JobPhase {
        match self.load() & STATE {
            QUEUED => JobPhase::Queued,
            CLAIMED => JobPhase::Claimed,
            STARTED => JobPhase::Started,
            SEALED => JobPhase::Sealed,
            CANCELLED => JobPhase::Cancelled,
            FOLLOWING => JobPhase::Following,
            _ => JobPhase::Finished,
        }
    }

    /// Whether it is over, or was taken out, so that nobody waits for it any more.
    pub(crate) fn is_over(&self) -> bool {
        let word = self.load();
        word & STATE == FINISHED || (word & STATE == CANCELLED && word & RAN == 0)
    }

    /// Whether a cancel has won.
    pub(crate) fn is_signalled(&self) -> bool {
        self.load() & SIGNALLED != 0
    }

    /// Queued → Claimed.
    pub(crate) fn claim(&self) -> bool {
        self.update(|word| if word & STATE == QUEUED { Ok((Self::go(word, CLAIMED), true)) } else { Err(false) })
    }

    /// As [`claim`](Self::claim), for who alone can reach the job.
    #[inline]
    pub(crate) fn claim_alone(&self) -> bool {
        self.lead_alone(QUEUED, CLAIMED)
    }

    /// Claimed → Queued. False if it was cancelled meanwhile: the room is the claimer's still.
    pub(crate) fn unclaim(&self) -> bool {
        self.update(|word| if word & STATE == CLAIMED { Ok((Self::go(word, QUEUED), true)) } else { Err(false) })
    }

    /// Claimed → Started.
    pub(crate) fn start(&self) -> bool {
        if mutant("lanes.start_without_claim") {
            self.0.swap(STARTED | RAN, Ordering::AcqRel);
            return true;
        }
        self.update(|word| if word & STATE == CLAIMED { Ok((Self::go(word, STARTED) | RAN, true)) } else { Err(false) })
    }

    /// As [`start`](Self::start), for who alone can reach the job.
    #[inline]
    pub(crate) fn start_alone(&self) -> bool {
        self.lead_alone(CLAIMED, STARTED | RAN)
    }

    /// Started → Sealed. True also if it had sealed before; false for ever once a cancel has won, and for what has not begun.
    pub(crate) fn seal(&self) -> bool {
        if mutant("lanes.seal_by_store") && self.load() & STATE == STARTED {
            self.0.swap(SEALED | COMMITTED | RAN, Ordering::AcqRel);
            return true;
        }
        self.update(|word| match word & STATE {
            STARTED => Ok((Self::go(word, SEALED) | COMMITTED, true)),
            _ => Err(word & COMMITTED != 0),
        })
    }

    /// Started or Sealed → Queued, for the install of a build. False if a cancel has won.
    pub(crate) fn requeue(&self) -> bool {
        self.update(|word| match word & STATE {
            STARTED | SEALED => Ok((Self::go(word, QUEUED), true)),
            _ => Err(false),
        })
    }

    /// Asks it to end.
    pub(crate) fn cancel(&self) -> Cancelled {
        self.update(Self::cancelled)
    }

    /// As [`cancel`](Self::cancel), unless it runs or is over: then nothing is changed, and `None` is returned.
    pub(crate) fn cancel_queued(&self) -> Option<Cancelled> {
        let signals = mutant("lanes.cancel_signals_begun");
        self.update(|word| {
            let waits = matches!(word & STATE, QUEUED | CLAIMED | FOLLOWING);
            if !waits && !signals {
                return Err(None);
            }
            Self::cancelled(word).map(|(next, found)| (next, Some(found))).map_err(Some)
        })
    }

    /// What a cancel makes of a word.
    fn cancelled(word: u32) -> Result<(u32, Cancelled), Cancelled> {
        match word & STATE {
            QUEUED if word & COMMITTED != 0 => Err(Cancelled::TooLate),
            QUEUED if word & RAN != 0 => {
                Ok(((Self::go(word, CANCELLED) | SIGNALLED) & !RAN, Cancelled::InstallTakenOut))
            }
            QUEUED => Ok((Self::go(word, CANCELLED) | SIGNALLED, Cancelled::TakenOut)),
            CLAIMED if word & RAN == 0 => Ok((Self::go(word, CANCELLED) | SIGNALLED, Cancelled::BeforeStart)),
            CLAIMED if word & COMMITTED != 0 => Err(Cancelled::TooLate),
            CLAIMED => Ok(((Self::go(word, CANCELLED) | SIGNALLED) & !RAN, Cancelled::BeforeStart)),
            STARTED => Ok((Self::go(word, CANCELLED) | SIGNALLED, Cancelled::Signalled)),
            SEALED => Err(Cancelled::TooLate),
            FOLLOWING => Ok((Self::go(word, CANCELLED) | SIGNALLED, Cancelled::LetGo)),
            FINISHED if word & SIGNALLED == 0 => Err(Cancelled::Finished),
            _ => Err(Cancelled::Already),
        }
    }

    /// As [`cancel`](Self::cancel), but only if its body has not begun: else nothing is changed, and `None` is returned.
    pub(crate) fn cancel_before_start(&self) -> Option<Cancelled> {
        self.update(|word| match word & STATE {
            QUEUED if word & RAN == 0 => Ok((Self::go(word, CANCELLED) | SIGNALLED, Some(Cancelled::TakenOut))),
            CLAIMED if word & RAN == 0 => Ok((Self::go(word, CANCELLED) | SIGNALLED, Some(Cancelled::BeforeStart))),
            FOLLOWING => Ok((Self::go(word, CANCELLED) | SIGNALLED, Some(Cancelled::LetGo))),
            _ => Err(None),
        })
    }

    /// Queued → Cancelled, for who answers it with another reason. True for the one who took it out.
    pub(crate) fn take_out(&self) -> bool {
        self.update(|word| match word & STATE {
            QUEUED => Ok((Self::go(word, CANCELLED) & !RAN, true)),
            _ => Err(false),
        })
    }

    /// As [`take_out`](Self::take_out), for whom it is late: not once its build has begun.
    pub(crate) fn take_out_late(&self) -> bool {
        self.update(|word| match word & STATE {
            QUEUED if word & RAN == 0 => Ok((Self::go(word, CANCELLED), true)),
            _ => Err(false),
        })
    }

    fn lead(&self, from: u32, to: u32) -> bool {
        self.update(|word| if word & STATE == from { Ok((Self::go(word, to), true)) } else { Err(false) })
    }

    /// The newest word, for who alone can reach the job.
    #[inline]
    fn look_alone(&self) -> u32 {
        // ordering: pairs with the Release by which the last other reference was let go of, and which the caller has seen: what its
        // holder did to the cell came before that, and is found here. Nobody can come later but who hears of the job from us.
        fence(Ordering::Acquire);
        // The count of references is none of loom's: only a read-modify-write finds what came before it there.
        if cfg!(shardrun_loom) { self.0.fetch_add(0, Ordering::AcqRel) } else { self.0.load(Ordering::Relaxed) }
    }

    /// As [`lead`](Self::lead), for who alone can reach the job.
    #[inline]
    fn lead_alone(&self, from: u32, to: u32) -> bool {
        let word = self.look_alone();
        if word & STATE != from && !mutant("lanes.alone_without_look") {
            return false;
        }
        // ordering: Release, as every edge.
        self.0.store(Self::go(word, to), Ordering::Release);
        true
    }

    /// Queued → Following.
    pub(crate) fn follow(&self) -> bool {
        self.lead(QUEUED, FOLLOWING)
    }

    /// Following → Queued. False if it was answered meanwhile.
    pub(crate) fn unfollow(&self) -> bool {
        self.lead(FOLLOWING, QUEUED)
    }

    /// Following → Finished. True for the one who answers it with the other's result.
    pub(crate) fn adopt(&self) -> bool {
        if mutant("lanes.adopt_without_look") {
            self.0.swap(FINISHED, Ordering::AcqRel);
            return true;
        }
        self.lead(FOLLOWING, FINISHED)
    }

    /// Following → Cancelled, for who answers it with another reason. True for that one.
    pub(crate) fn let_go(&self) -> bool {
        self.lead(FOLLOWING, CANCELLED)
    }

    /// It is over, says who ran it.
    pub(crate) fn finish(&self) {
        // ordering: as for the other edges.
        self.update(|word| Ok((Self::go(word, FINISHED), ())));
    }

    /// As [`finish`](Self::finish), for who alone can reach the job.
    #[inline]
    pub(crate) fn finish_alone(&self) {
        self.0.store(Self::go(self.look_alone(), FINISHED), Ordering::Release);
    }

    /// Notes that a slot is lent while a job waits for it. True for the first, as long as it is not over.
    pub(crate) fn lend(&self) -> bool {
        self.update(|word| {
            let over = word & STATE == FINISHED || word & STATE == CANCELLED;
            if over || word & LENT != 0 { Err(false) } else { Ok((word | LENT, true)) }
        })
    }

    /// Whether a slot is lent while a job waits for it.
    pub(crate) fn is_lent(&self) -> bool {
        self.load() & LENT != 0
    }

    /// Whether its body has not begun, and may still.
    pub(crate) fn is_to_begin(&self) -> bool {
        matches!(self.load() & STATE, QUEUED | CLAIMED | FOLLOWING)
    }

    /// Whether a slot was lent that is to be given back; once. For who answers it.
    pub(crate) fn unlend(&self) -> bool {
        self.load() & LENT != 0 && self.0.fetch_and(!LENT, Ordering::AcqRel) & LENT != 0
    }
}
