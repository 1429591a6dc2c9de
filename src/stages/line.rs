//! Permits of one class of work, and the tickets that wait for one, the more urgent ones more often served.
//! It does not know what a ticket stands for, nor who runs it.
//!
//! Who finds no permit pushes its ticket first and is counted after that; so whoever gives a permit back and finds somebody counted
//! finds a ticket too, and hands the permit on with it. Nobody waits in a call, and a permit never lies beside a ticket that waits.
#![forbid(unsafe_code)]

use crate::runtime::{LEVELS, choose_at};
use crate::sync::atomic::{AtomicU64, Ordering, load_for_cas};
use crate::sync::queue::{Injector, Steal};
use crate::sync::{hint, mutant, stat};

/// One ticket that waits, in the word's upper half.
const WAITING: u64 = 1 << 32;
/// The permits that are free: the word's lower half.
const FREE: u64 = WAITING - 1;

/// Permits and the tickets that wait for one.
///
/// | transition | who | excludes |
/// |---|---|---|
/// | free − 1 | who takes one; nobody waits then | more permits than there are |
/// | waiting + 1 | who has pushed its ticket and found none free | a ticket that nobody would find |
/// | waiting − 1 | who gives one back, to a ticket | a free permit beside a waiting ticket |
/// | free + 1 | who gives one back; nobody waits then | the same |
pub(crate) struct Line<T> {
    limit: u32,
    word: AtomicU64,
    tickets: [Injector<T>; LEVELS],
    /// Tickets that were chosen so far.
    turn: stat::AtomicU64,
}

impl<T> Line<T> {
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            limit,
            word: AtomicU64::new(u64::from(limit)),
            tickets: std::array::from_fn(|_| Injector::new()),
            turn: stat::AtomicU64::new(0),
        }
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// How many permits are taken, and how many tickets wait; exact while nobody takes or gives.
    pub(crate) fn in_use(&self) -> (u32, u32) {
        let word = self.word.load(Ordering::Relaxed);
        (self.limit - (word & FREE) as u32, (word >> 32) as u32)
    }

    /// Takes a permit if one is free.
    pub(crate) fn try_take(&self) -> bool {
        let mut word = load_for_cas(&self.word, Ordering::Relaxed);
        while word & FREE > 0 {
            // ordering: acquire what the last holder of the permit did.
            match self.word.compare_exchange(word, word - 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Puts a ticket into the line. If a permit is free it is taken, with a ticket of the line: this one or another.
    pub(crate) fn wait(&self, level: usize, ticket: T) -> Option<T> {
        self.tickets[level].push(ticket);
        let mut word = load_for_cas(&self.word, Ordering::Relaxed);
        loop {
            let free = word & FREE > 0 && !mutant("line.wait_without_look");
            let next = if free { word - 1 } else { word + WAITING };
            // ordering: Release: who finds this one counted finds its ticket.
            match self.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return free.then(|| self.next()),
                Err(now) => word = now,
            }
        }
    }

    /// Gives a permit back, or hands it on with the ticket that is next.
    pub(crate) fn give_back(&self) -> Option<T> {
        let mut word = load_for_cas(&self.word, Ordering::Relaxed);
        loop {
            let wanted = word >= WAITING && !mutant("line.give_past_the_line");
            let next = if wanted { word - WAITING } else { word + 1 };
            // ordering: Acquire, pairs with `wait`; Release, pairs with `try_take`.
            match self.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return wanted.then(|| self.next()),
                Err(now) => word = now,
            }
        }
    }

    /// The ticket that is next. The caller has taken one off the count, so there is one for it.
    fn next(&self) -> T {
        loop {
            let ready =
                (0..LEVELS).filter(|&level| !self.tickets[level].is_empty()).fold(0, |set, level| set | 1 << level);
            if ready != 0 {
                let level = choose_at(self.turn.load(stat::Ordering::Relaxed), ready);
                if let Steal::Success(ticket) = self.tickets[level].steal() {
                    self.turn.fetch_add(1, stat::Ordering::Relaxed);
                    return ticket;
                }
            }
            // Somebody else has taken it, and left another where this one has looked already.
            hint::spin_loop();
        }
    }
}
