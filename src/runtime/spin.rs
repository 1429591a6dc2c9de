//! How long a worker looks around before it sleeps: longer while that pays, not at all while it does not.
//! It does not know what is looked for.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::time::Duration;

/// The spinning time of one worker. It doubles when work came soon after the last ran out, whether the worker still spun or
/// slept already, and halves down to nothing when work was long in coming.
#[derive(Debug)]
pub(crate) struct Spin {
    limit: u64,
    now: Cell<u64>,
}

impl Spin {
    /// At most `limit`; zero for never.
    pub(crate) fn new(limit: Duration) -> Self {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Self { limit, now: Cell::new(limit / 4) }
    }

    /// How long to spin now, in nanoseconds.
    pub(crate) fn budget(&self) -> u64 {
        self.now.get()
    }

    /// Work came `gap` after the worker ran out of it.
    pub(crate) fn learn(&self, gap: Duration) {
        if cfg!(any(shardrun_loom, shardrun_shuttle)) {
            return; // The model checkers know no time.
        }
        let soon = gap.as_nanos() <= u128::from(self.limit) * 2;
        self.now.set(if soon {
            (self.now.get() * 2).max(self.limit / 8).min(self.limit)
        } else if self.now.get() <= self.limit / 32 {
            0
        } else {
            self.now.get() / 2
        });
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::Spin;
    use std::time::Duration;

    #[test]
    fn b95_spinning_grows_while_it_pays_and_ends_when_it_does_not() {
        let spin = Spin::new(Duration::from_micros(64));
        for _ in 0..8 {
            spin.learn(Duration::from_millis(5));
        }
        assert_eq!(spin.budget(), 0);
        for _ in 0..8 {
            spin.learn(Duration::from_micros(10));
        }
        assert_eq!(spin.budget(), 64_000);
        let never = Spin::new(Duration::ZERO);
        never.learn(Duration::ZERO);
        assert_eq!(never.budget(), 0);
    }
}
