//! Quiescence: whoever is told that nothing runs is told the truth, also of what runs for nobody any more.

#![cfg(any(shardrun_loom, shardrun_shuttle))]

use super::check;
use crate::flight::{Killed, StateWord};
use crate::runtime::Priority;
use crate::stages::{Counters, claim_counted};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread::spawn;
use std::convert::Infallible;

/// A file with one execution, which somebody wants.
struct File {
    counters: Counters,
    word: StateWord,
    /// How many executions are over.
    over: AtomicU64,
}

impl File {
    fn wanted() -> Arc<Self> {
        let word = StateWord::new();
        word.join().unwrap();
        word.admit(Priority::Interactive).unwrap();
        Arc::new(Self { counters: Counters::of(0, 1), word, over: AtomicU64::new(0) })
    }

    /// A popper of a ticket. Whether it ran something.
    fn pop(&self) -> bool {
        let claimed = claim_counted(&self.counters, &self.word);
        if claimed {
            // It is over, and perhaps nobody wanted it any more.
            let _ = self.word.kill(Killed::Cancelled);
            self.over.fetch_add(1, Ordering::AcqRel);
            self.counters.here().one(|counts| &counts.ended);
        }
        claimed
    }
}

/// Two tickets of an execution are popped while its file moves on, and somebody looks whether all is still: if he finds it so, the
/// execution is over by then, or never runs.
#[test]
fn what_is_still_has_nothing_that_runs() {
    check(|| {
        let file = File::wanted();
        let pops = || {
            let file = file.clone();
            spawn(move || file.pop())
        };
        let poppers = [pops(), pops()];
        let moves = {
            let file = file.clone();
            spawn(move || _ = file.word.kill(Killed::Superseded))
        };
        let still = file.counters.is_still(|| Ok::<_, Infallible>(!file.word.is_awaited()));
        let over = file.over.load(Ordering::Acquire);
        let ran = poppers.into_iter().map(|popper| u64::from(popper.join().unwrap())).sum::<u64>();
        moves.join().unwrap();
        assert!(ran <= 1, "it is claimed once");
        if still == Ok(true) {
            assert_eq!(over, ran, "it runs on, for nobody");
        }
        assert!(!file.counters.is_busy(), "all that was begun has ended");
    });
}
