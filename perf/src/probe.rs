//! Noise: how much CPU others take, and how long a cache line takes from one CPU to another.
//! It does not know what is measured meanwhile.

use crate::place;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Above this share of the machine's CPU time, others disturb too much for a verdict.
pub const OTHERS_AT_MOST: f64 = 0.05;

/// If the hand-off time changes by more than this factor, the CPUs have moved: no verdict.
pub const HAND_OFF_AT_MOST: f64 = 1.5;

/// Nanoseconds for one cache line to go from one CPU to another; `None` where only one CPU may be used.
pub fn hand_off() -> Option<f64> {
    let cpus = place::allowed();
    let (&here, &there) = (cpus.first()?, cpus.get(1)?);
    const TRIPS: u64 = 20_000;
    let word = AtomicU64::new(0);
    let one_pass = || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                place::pin(&[there]);
                for trip in 0..TRIPS {
                    await_value(&word, 2 * trip + 1);
                    word.store(2 * trip + 2, Ordering::Release);
                }
            });
            let timed = scope.spawn(|| {
                place::pin(&[here]);
                word.store(0, Ordering::Release);
                let begun = Instant::now();
                for trip in 0..TRIPS {
                    word.store(2 * trip + 1, Ordering::Release);
                    await_value(&word, 2 * trip + 2);
                }
                begun.elapsed().as_nanos() as f64 / (2 * TRIPS) as f64
            });
            timed.join().expect("the probe does not panic")
        })
    };
    // The least of a few: a preempted pass says nothing about the line.
    (0..5).map(|_| one_pass()).reduce(f64::min)
}

fn await_value(word: &AtomicU64, value: u64) {
    let mut spins = 0u32;
    while word.load(Ordering::Acquire) != value {
        std::hint::spin_loop();
        spins += 1;
        // The other side may have been preempted, or not yet pinned.
        if spins.is_multiple_of(1 << 16) {
            std::thread::yield_now();
        }
    }
}

/// A watch over one group, from its beginning to its end.
pub struct Watch {
    begun: Instant,
    machine: Duration,
    own: Duration,
    hand_off: Option<f64>,
}

/// What the watch has seen.
#[derive(Clone, Debug)]
pub struct Noise {
    /// The share of the machine's CPU time that other processes, or the hypervisor, took.
    pub others: f64,
    /// Nanoseconds per line hand-off before and after.
    pub hand_off: Option<(f64, f64)>,
}

fn own() -> Duration {
    place::cpu_of_process() + place::cpu_of_children()
}

impl Watch {
    /// Begins to watch.
    pub fn begin() -> Self {
        let hand_off = hand_off();
        Self { begun: Instant::now(), machine: place::cpu_of_machine(), own: own(), hand_off }
    }

    /// Ends the watch. Children must have been waited for.
    pub fn end(self) -> Noise {
        let wall = self.begun.elapsed().as_secs_f64();
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get()) as f64;
        let machine = (place::cpu_of_machine() - self.machine).as_secs_f64();
        let mine = (own() - self.own).as_secs_f64();
        let others = ((machine - mine) / (wall * cpus)).max(0.0);
        Noise { others, hand_off: self.hand_off.zip(hand_off()) }
    }
}

impl Noise {
    /// Why no verdict may be given, if so.
    pub fn objection(&self) -> Option<String> {
        if self.others > OTHERS_AT_MOST {
            return Some(format!("others took {:.0} % of the machine", self.others * 100.0));
        }
        let (before, after) = self.hand_off?;
        (before.max(after) > HAND_OFF_AT_MOST * before.min(after))
            .then(|| format!("a line hand-off went from {before:.0} to {after:.0} ns"))
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let hand_off = self.hand_off.map_or("one CPU only".to_string(), |(before, after)| {
            format!("line hand-off {before:.0} ns before, {after:.0} ns after")
        });
        format!("others' share {:.1} %; {hand_off}", self.others * 100.0)
    }

    /// The same for machines.
    pub fn json(&self) -> Value {
        json!({ "others": self.others, "hand_off_nanos": self.hand_off.map(|(a, b)| vec![a, b]), "objection": self.objection() })
    }
}
