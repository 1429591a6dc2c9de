//! The limits of an executor: the preset with its clamps, wider pools beside it, and the check of what a host sets itself.
//! It does not know who keeps to them.

#![forbid(unsafe_code)]

use super::kind::Quantum;
use crate::runtime::machine;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The most worker slots of one executor.
const POOL_MAX: usize = 1_000;
/// The most jobs of one class that one actor may have queued.
const QUEUE_MAX: u32 = 60_000;

/// The limits of an executor. All fields are effective: what is built keeps to them as they stand.
///
/// [`preset`](Self::preset) clamps four wishes as a small interactive daemon wants them, [`for_parallelism`](Self::for_parallelism)
/// derives the wishes too, and [`wide`](Self::wide) scales to any machine.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanesConfig {
    /// Worker slots: how many jobs run at once, 2 to 1,000. They are the executor's own; the runtime may have more threads, or fewer.
    pub pool: usize,
    /// Reads and status jobs of one actor that run at once: 1 to below the pool. Writers count too; heavy builds and
    /// maintenance commits do not.
    pub actor_cap: usize,
    /// Reads of one actor that run at once: 1 to `actor_cap`.
    pub read_cap: usize,
    /// Heavy builds that run at once, of all actors: 1 to below the pool.
    pub heavy_permits: usize,
    /// Of those, how many maintenance leaves free for interactive builds: below `heavy_permits`.
    pub heavy_reserve: usize,
    /// Slots that maintenance leaves idle: below the pool.
    pub interactive_reserve: usize,
    /// Maintenance jobs that run at once: 1 to the pool.
    pub maintenance_cap: usize,
    /// What one turn of an actor is worth.
    pub quantum: Quantum,
    /// A queued job that is this old goes before reads; a writer then keeps new reads out until it has run.
    pub promote_after: Duration,
    /// Maintenance that has waited this long gets one slot, whatever else waits.
    pub maintenance_age: Duration,
    /// A reader that has run for this long is stuck: no writer keeps other readers waiting for its sake.
    pub stuck_after: Duration,
    /// Interactive jobs that one actor may have queued: 1 to 60,000.
    pub interactive_queue: u32,
    /// Interactive jobs that may be queued in all.
    pub interactive_queue_total: u32,
    /// Maintenance jobs that one actor may have queued: 1 to 60,000.
    pub maintenance_queue: u32,
    /// Maintenance jobs that may be queued in all.
    pub maintenance_queue_total: u32,
}

impl Default for LanesConfig {
    /// [`for_parallelism`](Self::for_parallelism) of the threads that this process can run at once.
    fn default() -> Self {
        Self::for_parallelism(machine().parallel)
    }
}

impl LanesConfig {
    /// The preset of a small daemon: four wishes, clamped. The pool to 2..8, `actor_cap` and `heavy_permits` below it, `read_cap`
    /// to `actor_cap` and 4, `heavy_permits` to 3.
    ///
    /// ```
    /// let config = shardrun::LanesConfig::preset(100, 100, 100, 100);
    /// assert_eq!((config.pool, config.read_cap, config.actor_cap, config.heavy_permits), (8, 4, 7, 3));
    /// assert_eq!((config.interactive_reserve, config.maintenance_cap), (2, 6));
    /// ```
    #[must_use]
    pub fn preset(pool: usize, read_cap: usize, actor_cap: usize, heavy_permits: usize) -> Self {
        let pool = pool.clamp(2, 8);
        let actor_cap = actor_cap.clamp(1, pool - 1);
        let read_cap = read_cap.clamp(1, actor_cap.min(4));
        let heavy_permits = heavy_permits.clamp(1, (pool - 1).min(3));
        let interactive_reserve = if pool >= 4 { 2 } else { 1 };
        Self {
            pool,
            actor_cap,
            read_cap,
            heavy_permits,
            heavy_reserve: usize::from(heavy_permits > 1),
            interactive_reserve,
            maintenance_cap: (pool - interactive_reserve).max(1),
            quantum: Quantum::Jobs(1),
            promote_after: Duration::from_secs(6),
            maintenance_age: Duration::from_secs(10),
            stuck_after: Duration::from_secs(6),
            interactive_queue: 1_024,
            interactive_queue_total: 16_384,
            maintenance_queue: 512,
            maintenance_queue_total: 8_192,
        }
    }

    /// The preset with wishes that follow from how many threads can run at once.
    #[must_use]
    pub fn for_parallelism(threads: usize) -> Self {
        let pool = threads.saturating_sub(1).clamp(2, 8);
        let caps = (pool - 1).clamp(1, 4);
        Self::preset(pool, caps, caps, (pool - 1).clamp(2, 3))
    }

    /// A pool of any size from 2 to 1,000: one actor may use all but one slot, an eighth (at least as the preset) stays free of
    /// maintenance, and a quarter may build.
    #[must_use]
    pub fn wide(pool: usize) -> Self {
        let pool = pool.clamp(2, POOL_MAX);
        let preset = Self::preset(pool, 4, 4, 3);
        let interactive_reserve = preset.interactive_reserve.max(pool / 8);
        let heavy_permits = preset.heavy_permits.max(pool / 4);
        Self {
            pool,
            actor_cap: pool - 1,
            read_cap: pool - 1,
            heavy_permits,
            heavy_reserve: (heavy_permits / 4).max(preset.heavy_reserve),
            interactive_reserve,
            maintenance_cap: (pool - interactive_reserve).max(1),
            ..preset
        }
    }

    /// Finds an option that cannot be.
    pub(super) fn check(&self) -> Result<(), LanesConfigError> {
        let within = |option, value: usize, least: usize, most: usize| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(LanesConfigError { option, problem: format!("{value} is not within {least} to {most}") })
            }
        };
        within("pool", self.pool, 2, POOL_MAX)?;
        within("actor_cap", self.actor_cap, 1, self.pool - 1)?;
        within("read_cap", self.read_cap, 1, self.actor_cap)?;
        within("heavy_permits", self.heavy_permits, 1, self.pool - 1)?;
        within("heavy_reserve", self.heavy_reserve, 0, self.heavy_permits - 1)?;
        within("interactive_reserve", self.interactive_reserve, 0, self.pool - 1)?;
        within("maintenance_cap", self.maintenance_cap, 1, self.pool)?;
        let queue_max = QUEUE_MAX as usize;
        within("interactive_queue", self.interactive_queue as usize, 1, queue_max)?;
        within("maintenance_queue", self.maintenance_queue as usize, 1, queue_max)?;
        within("interactive_queue_total", self.interactive_queue_total as usize, 1, u32::MAX as usize)?;
        within("maintenance_queue_total", self.maintenance_queue_total as usize, 1, u32::MAX as usize)?;
        match self.quantum {
            Quantum::Jobs(jobs) => within("quantum", jobs as usize, 1, 1_000_000),
            Quantum::Time(time) => {
                within("quantum", time.as_nanos().min(u128::from(u32::MAX)) as usize, 1_000, u32::MAX as usize)
            }
        }
    }
}

/// An option of an executor that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanesConfigError {
    /// The field of [`LanesConfig`] that says it.
    pub option: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for LanesConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "option {}: {}", self.option, self.problem)
    }
}

impl Error for LanesConfigError {}
