//! What a process costs while it has nothing to do.
//! It does not know why a pool would wake: it only reads the CPU clock of the process.

use crate::Effort;
use crate::pools::{Place, rayon_pool, shardrun_pool, tokio_pool};
use serde_json::Value;
use shardrun_perf::latch::Latch;
use shardrun_perf::place;
use shardrun_perf::series::{Sample, Series};
use std::time::Duration;

const SHARE: &str = "% of one CPU";

/// Lets the pool do a little work, then nothing, and returns the share of one CPU that nothing cost.
fn share(seconds: f64) -> Sample {
    // The last work's tail (spinning, going to sleep) is not idleness.
    std::thread::sleep(Duration::from_millis(100));
    let before = place::cpu_of_process();
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let used = (place::cpu_of_process() - before).as_secs_f64();
    vec![(SHARE, 100.0 * used / seconds)]
}

/// Each pool alone in the process in turn; the ten seconds are divided over the rounds.
pub fn idle(place: &Place, effort: Effort) -> Vec<Value> {
    let seconds = 10.0 / effort.rounds as f64 / effort.divide as f64;
    let latch = Latch::leaked();
    let mut series = Series::new("an idle process, 10 s in all", &place.says);
    series.peer("rayon", || {
        let pool = rayon_pool(place);
        latch.arm(1);
        pool.spawn(|| latch.count_down());
        latch.wait();
        share(seconds)
    });
    series.peer("tokio", || {
        let pool = tokio_pool(place);
        latch.arm(1);
        pool.spawn(async { latch.count_down() });
        latch.wait();
        share(seconds)
    });
    series.peer("shardrun", || {
        let pool = shardrun_pool(place);
        latch.arm(1);
        assert!(pool.execute(|| latch.count_down()).is_ok(), "the runtime takes work");
        latch.wait();
        share(seconds)
    });
    series.limit("shardrun", SHARE, 0.1);
    vec![series.run(effort.rounds)]
}
