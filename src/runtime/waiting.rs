//! How long the oldest job of each queue has waited, told from looks at the queues: nobody who pushes or takes a job reads a clock.
//! It does not know what the queues are, nor who looks.
//!
//! A queue counts what leaves it. A look notes how many jobs had come by then, which is what had left and what waited, and when
//! that was. If fewer have left at a later look, one of those waits still, whatever order the queue is served in, and has waited
//! at least since. No age is told too old, but for jobs that are on the move at the moment of a look; an age is told too young by at
//! most the time between two looks, or an eighth of it where so many looks have been taken that not all are kept.
#![forbid(unsafe_code)]

use crate::sync::Mutex;
use std::collections::VecDeque;
use std::time::Duration;

/// Looks at one queue that are kept. When there are more, one is forgotten where they stand closest.
const KEPT: usize = 16;
/// After as many jobs an older look says nothing, since counts of what has left a queue may go round.
const FORGOTTEN_AFTER: u64 = 1 << 30;

/// A queue as a look finds it. What has left is read before what waits, so that no job is counted twice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    /// Jobs that have left it, ever; goes round. Rather too many than too few.
    pub(crate) left: u32,
    /// Jobs in it.
    pub(crate) waiting: usize,
}

/// An earlier look that found jobs in a queue.
struct Seen {
    came: u32,
    /// What had been executed by then, of whatever queue.
    executed: u64,
    at: Duration,
}

/// The looks at one queue that say something about what may wait there still, oldest first.
#[derive(Default)]
struct Looks(VecDeque<Seen>);

impl Looks {
    /// How long the oldest has waited, as far as is known; nothing if none waits.
    fn look(&mut self, line: Line, executed: u64, now: Duration) -> Option<Duration> {
        if line.waiting == 0 {
            self.0.clear();
            return None;
        }
        let is_over = |seen: &Seen| {
            seen.came.wrapping_sub(line.left) as i32 <= 0 || executed.wrapping_sub(seen.executed) >= FORGOTTEN_AFTER
        };
        while self.0.front().is_some_and(is_over) {
            self.0.pop_front();
        }
        let came = line.left.wrapping_add(line.waiting as u32);
        if self.0.back().is_none_or(|last| came.wrapping_sub(last.came) as i32 > 0) {
            self.0.push_back(Seen { came, executed, at: now });
        }
        if self.0.len() > KEPT {
            let gap = |between: &usize| self.0[between + 1].at.saturating_sub(self.0[between - 1].at);
            if let Some(between) = (1..KEPT).min_by_key(gap) {
                self.0.remove(between);
            }
        }
        Some(self.0.front().map_or(Duration::ZERO, |oldest| now.saturating_sub(oldest.at)))
    }
}

/// What looks at the queues of a runtime have seen.
#[derive(Default)]
pub(crate) struct Ages(Mutex<Vec<Looks>>);

impl Ages {
    /// How long the oldest of each queue has waited at `now`, which was read after `lines`; the queues always come in the same
    /// order. `executed` is what has been executed so far.
    pub(crate) fn look(&self, lines: &[Line], executed: u64, now: Duration) -> Vec<Option<Duration>> {
        let mut all = self.0.lock();
        if all.len() < lines.len() {
            all.resize_with(lines.len(), Looks::default);
        }
        lines.iter().zip(&mut *all).map(|(line, looks)| looks.look(*line, executed, now)).collect()
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A queue that is looked at.
    #[derive(Default)]
    struct Queue {
        line: Line,
        ages: Ages,
    }

    impl Queue {
        fn near_the_end() -> Self {
            Self { line: Line { left: u32::MAX - 3, waiting: 0 }, ages: Ages::default() }
        }

        fn come(&mut self, count: usize) {
            self.line.waiting += count;
        }

        fn leave(&mut self, count: usize) {
            self.line.waiting -= count;
            self.line.left = self.line.left.wrapping_add(count as u32);
        }

        fn seconds(&self, at: u32) -> Option<u64> {
            self.ages.look(&[self.line], 0, SECOND * at)[0].map(|age| age.as_secs())
        }
    }

    #[test]
    fn a_job_is_as_old_as_the_first_look_that_saw_it_until_it_has_left() {
        for mut queue in [Queue::default(), Queue::near_the_end()] {
            assert_eq!(queue.seconds(0), None);
            queue.come(4);
            assert_eq!((queue.seconds(10), queue.seconds(15)), (Some(0), Some(5)));
            queue.come(4);
            assert_eq!(queue.seconds(20), Some(10));
            queue.leave(3);
            assert_eq!(queue.seconds(30), Some(20), "one of the first four waits still");
            queue.leave(1);
            assert_eq!(queue.seconds(30), Some(10), "the others were seen first at 20 s");
            queue.come(1);
            queue.leave(4);
            assert_eq!(queue.seconds(40), Some(0), "the last one has not been seen before");
            queue.leave(1);
            assert_eq!(queue.seconds(50), None);
        }
    }

    #[test]
    fn many_looks_keep_few_and_the_oldest_among_them() {
        let mut queue = Queue::default();
        for at in 0..1_000 {
            queue.come(1);
            assert_eq!(queue.seconds(at), Some(u64::from(at)));
        }
        assert!(queue.ages.0.lock()[0].0.len() <= KEPT);
        for left in 1..=9_u64 {
            queue.leave(100);
            let (age, waited) = (queue.seconds(1_000).unwrap(), 1_000 - 100 * left);
            assert!((waited.saturating_sub(125)..=waited).contains(&age), "{age} s, of {waited}");
        }
    }

    #[test]
    fn after_very_many_jobs_an_old_look_says_nothing() {
        let (ages, line) = (Ages::default(), Line { left: 0, waiting: 1 });
        assert_eq!(ages.look(&[line], 0, SECOND), [Some(Duration::ZERO)]);
        assert_eq!(ages.look(&[line], FORGOTTEN_AFTER - 1, SECOND * 2), [Some(SECOND)]);
        assert_eq!(ages.look(&[line], FORGOTTEN_AFTER, SECOND * 3), [Some(Duration::ZERO)]);
    }
}
