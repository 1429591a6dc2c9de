//! What the workers of a runtime did, as a few lines for people.
//! It does not know what the jobs were.
#![forbid(unsafe_code)]

use crate::observe::{Counters, WorkerReport};
use std::fmt;
use std::time::Duration;

/// Workers that have a line of their own.
const SHOWN: usize = 32;

/// Shows a snapshot of a runtime's counters: one line for each thread that ran a job or sleeps ready for one, with the share of
/// `wall` in which it was busy, then one line for each kind of trouble that occurred. Each line ends with a line end. Of more
/// than 32 threads the others share a line.
///
/// ```
/// use shardrun::{CounterSummary, Runtime};
///
/// let runtime = Runtime::builder().workers(1).io_threads(0).build()?;
/// let began = runtime.now();
/// runtime.spawn(|| 1 + 1).wait().unwrap();
/// let summary = CounterSummary::new(&runtime.counters(), runtime.now() - began).to_string();
/// assert!(summary.starts_with("worker 0 "));
/// # Ok::<(), shardrun::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CounterSummary<'a> {
    counters: &'a Counters,
    wall: Duration,
}

impl<'a> CounterSummary<'a> {
    /// Of `counters` that were gathered over `wall`.
    #[must_use]
    pub fn new(counters: &'a Counters, wall: Duration) -> Self {
        CounterSummary { counters, wall }
    }

    /// The threads that are shown: all but spares that never ran a job.
    pub fn workers(&self) -> impl Iterator<Item = &'a WorkerReport> + use<'a> {
        self.counters.workers.iter().filter(|report| !report.spare || report.executed > 0)
    }

    /// The share of the time in which a worker was busy, from 0 to 1; 0 if no time has passed.
    #[must_use]
    pub fn busy_share(&self, worker: &WorkerReport) -> f64 {
        let wall = self.wall.as_secs_f64();
        if wall > 0.0 { (worker.busy.as_secs_f64() / wall).min(1.0) } else { 0.0 }
    }
}

impl fmt::Display for CounterSummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for report in self.workers().take(SHOWN) {
            writeln!(
                f,
                "{:<10}  {:>5.1} % busy  {:>10} jobs  {:>8} steals  {:>8} sleeps",
                report.worker.to_string(),
                100.0 * self.busy_share(report),
                report.executed,
                report.steals,
                report.parks,
            )?;
        }
        let (mut more, mut busy, mut jobs) = (0_u32, 0.0, 0_u64);
        for report in self.workers().skip(SHOWN) {
            more += 1;
            busy += self.busy_share(report);
            jobs += report.executed;
        }
        if more > 0 {
            let busy = 100.0 * busy / f64::from(more);
            writeln!(f, "{more} more     {busy:>5.1} % busy on average, {jobs} jobs together")?;
        }
        let trouble = [
            (self.counters.panics(), "panics caught"),
            (self.counters.dropped, "jobs dropped unrun"),
            (self.counters.spares_missing, "blocked workers without a spare"),
        ];
        for (count, what) in trouble.into_iter().filter(|(count, _)| *count > 0) {
            writeln!(f, "{count} {what}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{WorkerId, WorkerKind};

    fn report(index: usize, spare: bool, executed: u64, busy_millis: u64) -> WorkerReport {
        WorkerReport {
            worker: WorkerId { kind: WorkerKind::Worker, index },
            spare,
            pinned: None,
            executed,
            panics: u64::from(index == 1),
            steals: 2,
            parks: 3,
            wakes: 0,
            spins: 0,
            busy: Duration::from_millis(busy_millis),
            dropped: 0,
            oldest_waiting: [None; 4],
        }
    }

    #[test]
    fn workers_and_troubles_are_shown_idle_spares_are_not() {
        let workers = vec![report(0, false, 0, 0), report(1, true, 5, 750), report(2, true, 0, 0)];
        let counters = Counters { workers, ..Counters::default() };
        let text = CounterSummary::new(&counters, Duration::from_secs(1)).to_string();
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "worker 0      0.0 % busy           0 jobs         2 steals         3 sleeps",
                "worker 1     75.0 % busy           5 jobs         2 steals         3 sleeps",
                "1 panics caught",
            ]
        );
    }

    #[test]
    fn of_many_workers_the_last_share_a_line() {
        let workers = (0..10_000).map(|index| report(index, false, 2, 500)).collect();
        let counters = Counters { workers, ..Counters::default() };
        let text = CounterSummary::new(&counters, Duration::from_secs(1)).to_string();
        assert_eq!(text.lines().count(), SHOWN + 2);
        let shared = "9968 more      50.0 % busy on average, 19936 jobs together";
        assert_eq!(text.lines().nth(SHOWN), Some(shared));
    }

    #[test]
    fn a_share_is_between_nothing_and_all() {
        let counters = Counters::default();
        let worker = report(0, false, 1, 1000);
        let share = |wall| CounterSummary::new(&counters, wall).busy_share(&worker);
        assert_eq!([Duration::ZERO, Duration::from_millis(10), Duration::from_secs(4)].map(share), [0.0, 1.0, 0.25]);
    }
}
