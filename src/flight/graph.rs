//! The wait graph, one per process over all runtimes: which thread waits inside which flights for which other flight.
//! It does not know how anybody waits, nor how a cycle is reported.
//!
//! Only threads that wait inside a flight are in it; a thread outside holds up nobody. A thread registers *before* it searches,
//! so of the threads that close a cycle the last one to register finds it, if none did before. The search itself holds the lock only for single
//! look-ups; the cycle that it finds is then confirmed under the lock in one look: a wait that still stands with the number it
//! had stood all the while, and while its flights wait they cannot end and cannot open a gate.

#![forbid(unsafe_code)]

use super::active::Path;
use super::target::{FlightId, FlightRef};
use crate::sync::atomic::{AtomicUsize, Ordering, fence};
use crate::sync::{Arc, Mutex, mutant};
use std::collections::HashSet;
use std::task::Waker;

/// One waiting thread.
struct Wait {
    number: u64,
    path: Path,
    target: Arc<dyn FlightRef>,
    /// Tells it to look again.
    nudge: Waker,
}

#[derive(Default)]
struct State {
    numbers: u64,
    waits: Vec<Wait>,
}

/// Who waits for whom.
#[derive(Default)]
pub(crate) struct WaitGraph {
    /// How many wait, so that a nudge that nobody needs costs a load.
    waiting: AtomicUsize,
    state: Mutex<State>,
}

/// The cycle's members: each waits for the next, the last for the first.
pub(crate) type Cycle = Vec<Arc<dyn FlightRef>>;

impl WaitGraph {
    /// Registers a wait until the entry is dropped. What is queued by then, and may be run by who waits, he looks for after this.
    pub(crate) fn enter(&self, path: Path, target: Arc<dyn FlightRef>, nudge: Waker) -> Entry<'_> {
        // ordering: who makes something claimable after our `watch` sees this count, since `watch` and its own step change one
        // word, in that order.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.numbers += 1;
        let number = state.numbers;
        state.waits.push(Wait { number, path, target, nudge });
        drop(state);
        if !mutant("graph.enter_no_fence") {
            stands_then_looks();
        }
        Entry { graph: self, number }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Has every waiting thread look again.
    #[cold]
    pub(crate) fn nudge(&self) {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let wakers: Vec<Waker> = self.state.lock().waits.iter().map(|wait| wait.nudge.clone()).collect();
        for waker in wakers {
            waker.wake();
        }
    }

    /// As [`nudge`](Self::nudge), for a thread that is about to block, and whose place nobody takes: what it has queued may be for
    /// those who wait to run.
    #[cold]
    pub(crate) fn nudge_for_queued(&self) {
        if !mutant("graph.block_no_fence") {
            queued_then_looks();
        }
        self.nudge();
    }

    /// The wait that a flight on some thread's stack is held up by.
    fn held_up(&self, id: FlightId) -> Option<(u64, Arc<dyn FlightRef>)> {
        let state = self.state.lock();
        // The innermost wait of a thread is the one it stands in; a thread registers only while it stands.
        state.waits.iter().find(|wait| wait.path.contains(&id)).map(|wait| (wait.number, wait.target.clone()))
    }

    /// Whether the waits of these numbers and the wait `mine` all stand: then `mine` is taken out in the same look, so that one of
    /// a cycle gives up and the others get their answers.
    fn gives_up(&self, mine: u64, numbers: &[u64]) -> bool {
        let mut state = self.state.lock();
        let stands = |number: u64| state.waits.iter().position(|wait| wait.number == number);
        let all = numbers.iter().all(|number| stands(*number).is_some());
        let Some(at) = stands(mine).filter(|_| all) else { return false };
        if !mutant("graph.gives_up_standing") {
            let gone = state.waits.swap_remove(at);
            // Dropped when the lock is free: it may be the last reference to the flight.
            drop(state);
            drop(gone);
        }
        true
    }
}

/// Between the entry of a thread that waits and its look for what is queued.
fn stands_then_looks() {
    // ordering: pairs with `queued_then_looks`. If this is first, who blocks sees that somebody waits, and has him look again; else
    // who waits sees what was queued.
    fence(Ordering::SeqCst);
}

/// Between what a thread has queued and its look for those who wait, before it blocks.
fn queued_then_looks() {
    // ordering: pairs with `stands_then_looks`, see there.
    fence(Ordering::SeqCst);
}

/// A wait in the graph; dropping it takes it out.
pub(crate) struct Entry<'a> {
    graph: &'a WaitGraph,
    number: u64,
}

impl Entry<'_> {
    /// Whether this wait for `target` inside the flights of `path` could never end and is the one to give up: of the threads
    /// that close a cycle the first to find it, at the latest the last one to register.
    pub(crate) fn cycle(&self, path: &Path, target: Arc<dyn FlightRef>) -> Option<Cycle> {
        let mut search = Search { graph: self.graph, mine: self.number, path, seen: HashSet::new(), trail: Vec::new() };
        search.run(target)
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let gone = {
            let mut state = self.graph.state.lock();
            let at = state.waits.iter().position(|wait| wait.number == self.number);
            at.map(|at| state.waits.swap_remove(at))
        };
        self.graph.waiting.fetch_sub(1, Ordering::Relaxed);
        // Dropped when the lock is free: it may be the last reference to the flight.
        drop(gone);
    }
}

/// One step of the trail: a flight, and by which wait (if by one, not by a gate) it was reached.
struct Step {
    flight: Arc<dyn FlightRef>,
    wait: Option<u64>,
}

struct Search<'a> {
    graph: &'a WaitGraph,
    mine: u64,
    path: &'a Path,
    seen: HashSet<FlightId>,
    trail: Vec<Step>,
}

/// What is left to be looked at: a flight, by which wait it was reached, and how long the trail to it is.
type Open = (Arc<dyn FlightRef>, Option<u64>, usize);

impl Search<'_> {
    /// Depth first, without recursion: chains of gates may be long.
    fn run(&mut self, target: Arc<dyn FlightRef>) -> Option<Cycle> {
        let mut open: Vec<Open> = vec![(target, None, 0)];
        let mut gates = Vec::new();
        while let Some((flight, wait, depth)) = open.pop() {
            let id = flight.id();
            self.trail.truncate(depth);
            self.trail.push(Step { flight: flight.clone(), wait });
            if self.path.contains(&id) {
                if let Some(cycle) = self.confirmed() {
                    return Some(cycle);
                }
                continue;
            }
            if flight.phase().is_terminal() || !self.seen.insert(id) {
                continue;
            }
            if let Some((number, next)) = self.graph.held_up(id) {
                open.push((next, Some(number), depth + 1));
            }
            flight.gates(&mut gates);
            open.extend(gates.drain(..).map(|gate| (gate, None, depth + 1)));
        }
        None
    }

    fn confirmed(&self) -> Option<Cycle> {
        let numbers: Vec<u64> = self.trail.iter().filter_map(|step| step.wait).collect();
        let gives_up = self.graph.gives_up(self.mine, &numbers);
        gives_up.then(|| self.trail.iter().map(|step| step.flight.clone()).collect())
    }
}

/// The process's graph. The model checkers have none: what it rests on, the nudge through the state word, is modelled there.
pub(crate) fn global() -> Option<&'static WaitGraph> {
    #[cfg(not(any(shardrun_loom, shardrun_shuttle)))]
    {
        static GRAPH: crate::sync::OnceLock<WaitGraph> = crate::sync::OnceLock::new();
        Some(GRAPH.get_or_init(WaitGraph::default))
    }
    #[cfg(any(shardrun_loom, shardrun_shuttle))]
    {
        None
    }
}
