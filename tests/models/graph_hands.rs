//! Models of how helpers of a counted run come and go: work that one cannot do alone does not stay with it.

#![cfg(shardrun_loom)]

use super::check;
use crate::graph::counted::hands::Hands;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread::spawn;

/// What helpers share: entries that were pushed, one relaxed counter each as a deque's emptiness is, and who was sent for.
struct Run {
    hands: Hands,
    entries: [AtomicU64; 2],
    sent: AtomicU64,
}

impl Run {
    fn has_work(&self) -> bool {
        self.entries.iter().any(|entries| entries.load(Ordering::Relaxed) > 0)
    }
}

/// Two helpers leave while two others push what they cannot do at once: whoever pushed sends for somebody, or who leaves
/// comes back, for each push that finds room.
#[test]
fn pushed_work_is_seen_by_who_leaves_or_its_pusher_sends_for_somebody() {
    check(|| {
        // Four may help, and four do: two push, two leave.
        let run = Arc::new(Run {
            hands: Hands::new(4),
            entries: [AtomicU64::new(0), AtomicU64::new(0)],
            sent: AtomicU64::new(0),
        });
        for _ in 0..4 {
            assert!(run.hands.join());
        }
        assert!(!run.hands.join(), "no more than there are seats");
        let leaves = |_: u64| {
            let run = run.clone();
            spawn(move || {
                run.hands.leave();
                run.has_work() && run.hands.join()
            })
        };
        let pushes = |run: &Run, at: usize| {
            run.entries[at].fetch_add(1, Ordering::Relaxed);
            if run.hands.wanted() && run.hands.join() {
                run.sent.fetch_add(1, Ordering::Relaxed);
            }
        };
        let pusher = {
            let run = run.clone();
            spawn(move || pushes(&run, 0))
        };
        let leavers = [leaves(0), leaves(1)];
        pushes(&run, 1);
        pusher.join().unwrap();
        let back = leavers.into_iter().map(|leaver| leaver.join().unwrap()).filter(|back| *back).count();
        let helped = back as u64 + run.sent.load(Ordering::Relaxed);
        assert_eq!(helped, 2, "two have left, and there is work for both");
    });
}
