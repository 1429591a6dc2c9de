//! Models of the words of a counted run: the last dependency that is over owns the task, alone, and sees what all others did.

#![cfg(shardrun_loom)]

use super::check;
use crate::graph::counted::word::{DOOMED, Word};
use crate::sync::Arc;
use crate::sync::cell::UnsafeCell;
use crate::sync::thread::spawn;

/// A task with three dependencies, and what each of those did: plain data, so that loom reports a last one that does not see
/// it as a race.
struct Run {
    word: Word,
    did: [UnsafeCell<u64>; 3],
}

// SAFETY: each cell is touched by its dependency before its release, and by the last after all of them.
unsafe impl Sync for Run {}

impl Run {
    /// Dependency number `at` does its work, perhaps badly, and is over; one does not look first.
    fn is_over(&self, at: usize, badly: bool) -> Option<u32> {
        // SAFETY: nobody else touches it before we release.
        self.did[at].with_mut(|did| unsafe { *did = 1 });
        if badly {
            self.word.doom();
        }
        let last = self.word.release::<false>(at != 2);
        if last.is_some() {
            for did in &self.did {
                // SAFETY: all have released, and none touches what it did again.
                assert_eq!(did.with(|did| unsafe { *did }), 1, "what a dependency did is not seen");
            }
        }
        last
    }
}

/// Three dependencies end at once, one of them badly: one is the last, and it knows.
#[test]
fn the_last_of_three_owns_the_task_and_sees_what_all_did() {
    check(|| {
        let run = Arc::new(Run { word: Word::new(3), did: std::array::from_fn(|_| UnsafeCell::new(0)) });
        let ends = |at: usize| {
            let run = run.clone();
            spawn(move || run.is_over(at, at == 0))
        };
        let others = [ends(0), ends(1)];
        let mut last = vec![run.is_over(2, false)];
        last.extend(others.into_iter().map(|other| other.join().unwrap()));
        let last: Vec<u32> = last.into_iter().flatten().collect();
        assert_eq!(last, [DOOMED], "one owns the task, and knows that it must not run");
    });
}
