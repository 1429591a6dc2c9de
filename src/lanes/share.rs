//! An actor's share of the slots: what it is renewed by at each of its turns, and what jobs or their time cost of it.
//! It does not know the order in which actors are looked at.

#![forbid(unsafe_code)]

use super::actor::{Actor, Inside};
use super::executor::nanos;
use super::kind::Quantum;
use crate::sync::stat::Ordering;

/// How many times its share an actor may be in debt.
const DEBT_SHARES: i64 = 10_000;

/// A job costs such a part of a quantum of time at least: where the clock stands still a flood would keep its turn for ever.
const JOBS_MAX: u64 = 1_000;

/// What a job that took so many nanoseconds costs of a quantum of time; where jobs are counted, they cost at their admission.
pub(super) fn cost(quantum: Quantum, took: u64) -> u64 {
    match quantum {
        Quantum::Jobs(_) => 0,
        Quantum::Time(time) => took.max(nanos(time) / JOBS_MAX).max(1),
    }
}

impl<K, C> Actor<K, C> {
    /// What an admission costs at once.
    pub(super) fn price(&self) -> i64 {
        match self.shared.config.quantum {
            Quantum::Jobs(_) => 1,
            Quantum::Time(_) => 0,
        }
    }

    /// Renews the actor's share, and charges what has been used.
    pub(super) fn renew(&self, inside: &mut Inside<K, C>, renews: bool) {
        let share = match self.shared.config.quantum {
            Quantum::Jobs(jobs) => i64::from(jobs),
            Quantum::Time(time) => i64::try_from(time.as_nanos()).unwrap_or(i64::MAX / DEBT_SHARES),
        };
        let share = share.saturating_mul(i64::from(self.options.weight));
        if self.cost.load(Ordering::Relaxed) > 0 {
            let cost = i64::try_from(self.cost.swap(0, Ordering::Relaxed)).unwrap_or(i64::MAX);
            inside.credit = inside.credit.saturating_sub(cost).max(share.saturating_mul(-DEBT_SHARES));
        }
        if renews {
            inside.credit = inside.credit.saturating_add(share).min(share);
        }
    }
}
