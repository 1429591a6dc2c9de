//! Who asked first for an execution, while its owner withdraws before anybody has begun it.

use super::check;
use crate::flight::{Left, StateWord};
use crate::runtime::Priority;
use crate::stages::{Asked, Asker, Origin};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, thread};

/// An execution as far as its owners are concerned, and the units of the budget that were given back.
struct Execution {
    word: StateWord,
    origin: Origin,
    released: AtomicU64,
}

impl Execution {
    fn release(&self) {
        self.released.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether it was the last owner.
    fn withdraw(&self) -> bool {
        let seen = self.origin.seen();
        let last = matches!(self.word.withdraw(), Left::Unstarted);
        if last && self.origin.forget(seen).charged {
            self.release();
        }
        last
    }

    /// Whether it was the first. All are nameless, and each has a unit in hand.
    fn join(&self) -> bool {
        let nobody = Asker::default();
        let (asked, turn) = self.origin.ask(&nobody, true);
        let anew = self.word.join_anew(false).unwrap();
        let in_hand = asked != Asked::First;
        if anew && !in_hand && self.origin.seen() == turn {
            return true;
        }
        let taken = anew.then(|| self.origin.take_over(&nobody, in_hand, false)).flatten();
        if in_hand && !taken.as_ref().is_some_and(|taken| taken.charged) {
            self.release();
        }
        taken.is_some()
    }
}

/// Of two that ask while the only owner withdraws one is the first if that owner was the last, and none if it was not; one unit is
/// held for the execution in the end, and the others are given back.
#[test]
fn of_two_that_ask_beside_a_withdrawal_one_is_the_first_or_none() {
    check(|| {
        let execution = Arc::new(Execution {
            word: StateWord::admitted(Priority::Interactive),
            origin: Origin::first(&Asker::default(), true),
            released: AtomicU64::new(0),
        });
        let joiner = || {
            let execution = execution.clone();
            thread::spawn(move || execution.join())
        };
        let joiners = [joiner(), joiner()];
        let last = execution.withdraw();
        let firsts = joiners.map(|joiner| joiner.join().unwrap()).into_iter().filter(|first| *first).count();
        assert_eq!(firsts, usize::from(last));
        assert!(!execution.origin.is_free() && execution.origin.uncharge(), "somebody wants it, on one unit");
        assert_eq!(execution.released.load(Ordering::Acquire), 2);
    });
}
