//! Who goes first: weights given by hand, then the longest path of predicted durations that remains, then how much waits.
//! It knows the graph and what was said of the tasks; it does not know when they become ready, which decides ties.
//!
//! A restore may start before its dependencies, but releases its dependents only after them. So what gates is counted
//! *through* restores, and their own durations are not.
#![forbid(unsafe_code)]

use super::builder::Facts;
use super::edges::Lists;
use super::plan::Kind;
use std::time::Duration;

/// Tasks up to which distinct dependents are counted exactly.
pub(crate) const EXACT_TASKS_MAX: usize = 4_096;
/// Tasks times edges up to which they are.
const EXACT_WORK_MAX: usize = 1 << 33;
/// Dependents that are counted in one pass over the edges, times 64.
const WORDS: usize = 8;

/// The places of all tasks.
#[derive(Debug, Default)]
pub(crate) struct Ranks {
    /// The smaller goes first; equals are tied.
    pub(crate) classes: Box<[u32]>,
    /// How many tasks wait for each, directly or not, each once; or, in a large plan, how many the longest chain has.
    pub(crate) waiting: Box<[u32]>,
    /// The longest path of predicted durations from the start of each task, in microseconds. Empty if none was predicted.
    pub(crate) remaining: Box<[u64]>,
}

pub(crate) fn rank(deps: &Lists, dependents: &Lists, order: &[u32], facts: &Facts) -> Ranks {
    let exact = deps.len() <= EXACT_TASKS_MAX && deps.len().saturating_mul(deps.edges()) <= EXACT_WORK_MAX;
    let waiting = if exact { distinct(dependents, order, facts) } else { chain(dependents, order, facts) };
    let remaining = remaining(dependents, order, facts);
    let classes = if facts.weights.is_empty() && remaining.is_empty() {
        waiting.iter().map(|waiting| u32::MAX - waiting).collect()
    } else {
        sorted(&waiting, &remaining, facts)
    };
    Ranks { classes, waiting: waiting.into(), remaining: remaining.into() }
}

/// Distinct tasks behind each, restores not counted: a set of bits per task, 512 dependents at a time.
fn distinct(dependents: &Lists, order: &[u32], facts: &Facts) -> Vec<u32> {
    let count = order.len();
    let mut counts = vec![0u32; count];
    let mut sets = vec![[0u64; WORDS]; count];
    for first in (0..count).step_by(WORDS * 64) {
        for &task in order.iter().rev() {
            let mut set = [0u64; WORDS];
            for &dependent in dependents.of(task) {
                for (word, of) in set.iter_mut().zip(&sets[dependent as usize]) {
                    *word |= of;
                }
                let bit = (dependent as usize).wrapping_sub(first);
                if bit < WORDS * 64 && facts.kinds[dependent as usize] != Kind::Restore {
                    set[bit / 64] |= 1 << (bit % 64);
                }
            }
            counts[task as usize] += set.iter().map(|word| word.count_ones()).sum::<u32>();
            sets[task as usize] = set;
        }
    }
    counts
}

/// The number of tasks on the longest chain behind each, restores not counted.
fn chain(dependents: &Lists, order: &[u32], facts: &Facts) -> Vec<u32> {
    let mut behind = vec![0u32; order.len()];
    for &task in order.iter().rev() {
        let longest = dependents.of(task).iter().map(|dependent| {
            let own = u32::from(facts.kinds[*dependent as usize] != Kind::Restore);
            behind[*dependent as usize] + own
        });
        behind[task as usize] = longest.max().unwrap_or(0);
    }
    behind
}

/// The longest path of predicted durations from the start of each task to the end of the run, in microseconds.
fn remaining(dependents: &Lists, order: &[u32], facts: &Facts) -> Vec<u64> {
    if facts.predicted.is_empty() {
        return Vec::new();
    }
    let own = durations(order.len(), facts);
    let mut tail = vec![0u64; order.len()];
    for &task in order.iter().rev() {
        let longest = dependents.of(task).iter().map(|dependent| {
            let at = *dependent as usize;
            tail[at].saturating_add(if facts.kinds[at] == Kind::Restore { 0 } else { own[at] })
        });
        tail[task as usize] = longest.max().unwrap_or(0);
    }
    tail.iter().zip(&own).map(|(tail, own)| tail.saturating_add(*own)).collect()
}

/// Each task's predicted duration in microseconds, the median of those that are known where none is; groups take none.
fn durations(count: usize, facts: &Facts) -> Vec<u64> {
    let micros = |duration: &Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let mut known: Vec<u64> = facts.predicted.iter().map(|(_, duration)| micros(duration)).collect();
    let middle = known.len() / 2;
    let median = *known.select_nth_unstable(middle).1;
    let mut own = vec![median; count];
    for (own, kind) in own.iter_mut().zip(&facts.kinds) {
        if *kind == Kind::Group {
            *own = 0;
        }
    }
    for (task, duration) in &facts.predicted {
        own[*task as usize] = micros(duration);
    }
    own
}

/// Classes by (weight, remaining path, waiting), the largest first; equal triples share a class.
fn sorted(waiting: &[u32], remaining: &[u64], facts: &Facts) -> Box<[u32]> {
    let mut weights = Vec::new();
    if !facts.weights.is_empty() {
        weights = vec![weight_key(0.0); waiting.len()];
        for (task, weight) in &facts.weights {
            weights[*task as usize] = weight_key(*weight);
        }
    }
    let at = |list: &[u64], task: usize| list.get(task).copied().unwrap_or(0);
    let key = |task: usize| (at(&weights, task), at(remaining, task), waiting[task]);
    let mut tasks: Vec<(u64, u64, u32, u32)> = (0..waiting.len())
        .map(|task| {
            let (weight, path, waiting) = key(task);
            (!weight, !path, !waiting, task as u32)
        })
        .collect();
    tasks.sort_unstable();
    let mut classes = vec![0u32; waiting.len()].into_boxed_slice();
    let mut class = 0;
    for pair in 0..tasks.len() {
        let (weight, path, waiting, task) = tasks[pair];
        if pair > 0 && (weight, path, waiting) != (tasks[pair - 1].0, tasks[pair - 1].1, tasks[pair - 1].2) {
            class += 1;
        }
        classes[task as usize] = class;
    }
    classes
}

/// A number that orders finite weights as they are ordered; the two zeroes are one.
fn weight_key(weight: f64) -> u64 {
    let bits = (weight + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}
