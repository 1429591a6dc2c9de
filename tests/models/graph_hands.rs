//! Models of how helpers of a counted run come and go: work that one cannot do alone does not stay with it.

#![cfg(shardrun_loom)]

use super::check;
use crate::graph::counted::hands::Hands;
use crate::graph::counted::seats::Seats;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::cell::UnsafeCell;
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

/// What is touched by who sits at the one seat, as the words of a run that only one may help are: plain data, so that loom
/// reports two at once, or one who does not see the other's, as a race.
struct Alone {
    hands: Hands,
    seats: Seats,
    count: UnsafeCell<u64>,
}

// SAFETY: the count is touched by who has the one seat.
unsafe impl Sync for Alone {}

/// Three who want the one seat: whoever joins finds it free in the end, and finds all that others did there.
#[test]
fn who_takes_a_seat_finds_what_its_last_owner_left() {
    check(|| {
        let run = Arc::new(Alone { hands: Hands::new(1), seats: Seats::new(1), count: UnsafeCell::new(0) });
        let sits = |run: &Alone| {
            if !run.hands.join() {
                return 0;
            }
            let seat = run.seats.take();
            // SAFETY: touched by who has the one seat.
            run.count.with_mut(|count| unsafe { *count += 1 });
            run.seats.give_up(seat);
            run.hands.leave();
            1
        };
        let other = || {
            let run = run.clone();
            spawn(move || sits(&run))
        };
        let others = [other(), other()];
        let sat = sits(&run) + others.into_iter().map(|other| other.join().unwrap()).sum::<u64>();
        // SAFETY: the others have ended.
        assert_eq!(run.count.with(|count| unsafe { *count }), sat, "what one did is lost");
    });
}
