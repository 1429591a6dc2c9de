//! Interleaved rounds of peers, their medians, and the goals that compare them.
//! It does not know what a peer does in its round, nor how its threads are placed.

use serde_json::{Value, json};
use std::time::Duration;

/// Figures of one round of one peer: a metric's name and its value.
pub type Sample = Vec<(&'static str, f64)>;

/// Time per operation, the metric of most rounds.
pub const NS: &str = "ns";

/// CPU time of the whole process per operation.
pub const CPU: &str = "cpu ns";

/// Context switches of the whole process per operation.
pub const SWITCHES: &str = "switches";

/// Fewer rounds than this make no median.
pub const LEAST_ROUNDS: usize = 9;

struct Peer<'a> {
    name: String,
    round: Box<dyn FnMut() -> Sample + 'a>,
    samples: Vec<Sample>,
}

/// What a figure of ours must reach.
struct Goal {
    says: String,
    ours: (String, &'static str),
    /// The better of these; empty for a limit in plain units.
    rivals: Vec<(String, &'static str)>,
    at_most: f64,
}

/// Peers that do the same work, measured in turn.
pub struct Series<'a> {
    workload: String,
    placement: String,
    peers: Vec<Peer<'a>>,
    goals: Vec<Goal>,
}

/// The middle value; the mean of the two middle ones where their number is even.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which the share `at` of `values` lies, interpolated.
pub fn quantile(values: &[f64], at: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = at * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}

impl<'a> Series<'a> {
    /// Peers of one workload in one placement, both told in words.
    pub fn new(workload: impl Into<String>, placement: impl Into<String>) -> Self {
        Self { workload: workload.into(), placement: placement.into(), peers: Vec::new(), goals: Vec::new() }
    }

    /// Adds a peer; `round` does one round of work and returns its figures.
    pub fn peer(&mut self, name: impl Into<String>, round: impl FnMut() -> Sample + 'a) -> &mut Self {
        self.peers.push(Peer { name: name.into(), round: Box::new(round), samples: Vec::new() });
        self
    }

    /// Asks that `ours` be at most `at_most` times the better of `rivals`, by the same metric.
    pub fn at_most(&mut self, ours: &str, metric: &'static str, at_most: f64, rivals: &[&str]) -> &mut Self {
        let rivals: Vec<_> = rivals.iter().map(|name| (name.to_string(), metric)).collect();
        self.goal((ours, metric), at_most, rivals)
    }

    /// Asks that `ours` by its metric be at most `at_most` times `rival` by another metric.
    pub fn at_most_of(&mut self, ours: (&str, &'static str), at_most: f64, rival: (&str, &'static str)) -> &mut Self {
        self.goal(ours, at_most, vec![(rival.0.to_string(), rival.1)])
    }

    /// Asks that `ours` be at most `limit` in the metric's own unit.
    pub fn limit(&mut self, ours: &str, metric: &'static str, limit: f64) -> &mut Self {
        self.goal((ours, metric), limit, Vec::new())
    }

    fn goal(&mut self, ours: (&str, &'static str), at_most: f64, rivals: Vec<(String, &'static str)>) -> &mut Self {
        let names: Vec<_> = rivals.iter().map(|(name, _)| name.as_str()).collect();
        let says = match names.as_slice() {
            [] => format!("{} {} ≤ {at_most}", ours.0, ours.1),
            [one] => format!("{} {} ≤ {at_most} × {one}", ours.0, ours.1),
            many => format!("{} {} ≤ {at_most} × the better of {}", ours.0, ours.1, many.join(" and ")),
        };
        self.goals.push(Goal { says, ours: (ours.0.to_string(), ours.1), rivals, at_most });
        self
    }

    /// Runs `rounds` rounds (and one that is thrown away), the peers in turn within each, and reports.
    pub fn run(mut self, rounds: usize) -> Value {
        let count = self.peers.len();
        for round in 0..=rounds {
            for turn in 0..count {
                let peer = &mut self.peers[(round + turn) % count];
                // The former peer's threads go to sleep before this one begins.
                std::thread::sleep(Duration::from_millis(3));
                let sample = (peer.round)();
                if round > 0 {
                    peer.samples.push(sample);
                }
            }
        }
        self.report(rounds)
    }

    fn values(&self, name: &str, metric: &str) -> Option<Vec<f64>> {
        let peer = self.peers.iter().find(|peer| peer.name == name)?;
        let of = |sample: &Sample| sample.iter().find(|(named, _)| *named == metric).map(|(_, value)| *value);
        peer.samples.iter().map(of).collect()
    }

    fn report(&self, rounds: usize) -> Value {
        let peers: Vec<Value> = self
            .peers
            .iter()
            .map(|peer| {
                let metrics = peer.samples.first().into_iter().flatten().map(|(metric, _)| {
                    let values = self.values(&peer.name, metric).unwrap_or_default();
                    let figures = json!({
                        "median": median(&values), "low": quantile(&values, 0.1), "high": quantile(&values, 0.9),
                        "least": quantile(&values, 0.0), "rounds": values.len(),
                    });
                    (metric.to_string(), figures)
                });
                json!({ "peer": peer.name, "metrics": metrics.collect::<serde_json::Map<_, _>>() })
            })
            .collect();
        let goals: Vec<Value> = self.goals.iter().filter_map(|goal| self.weigh(goal)).collect();
        json!({
            "workload": self.workload, "placement": self.placement, "rounds": rounds, "peers": peers, "goals": goals,
        })
    }

    /// The median over the rounds of ours divided by the better rival, which is the one with the least median: to choose anew in
    /// each round would compare with the luck of several.
    fn weigh(&self, goal: &Goal) -> Option<Value> {
        let ours = self.values(&goal.ours.0, goal.ours.1)?;
        let rivals: Vec<Vec<f64>> = goal.rivals.iter().filter_map(|(name, metric)| self.values(name, metric)).collect();
        if rivals.len() < goal.rivals.len() {
            return None;
        }
        let better = rivals.iter().min_by(|a, b| median(a).total_cmp(&median(b)));
        let reached = match better {
            Some(rival) => median(&ours.iter().zip(rival).map(|(own, rival)| own / rival).collect::<Vec<_>>()),
            None => median(&ours),
        };
        Some(json!({
            "goal": goal.says, "at_most": goal.at_most, "reached": reached, "met": reached <= goal.at_most,
            "ours": median(&ours), "rival": better.map(|rival| median(rival)), "metric": goal.ours.1,
        }))
    }
}
