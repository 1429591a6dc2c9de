//! Models of graphs of computations: the word of a node, and what a graph holds of a budget.

#![cfg(any(shardrun_loom, shardrun_shuttle))]

use super::check;
use crate::admission::{Budget, WorkAmounts, WorkBudget};
use crate::keyed::Disposition;
use crate::keyed::joined::Meeting;
use crate::keyed::word::{Cancel, Seen, Word};
use crate::runtime::Priority;
use crate::sync::Arc;
use crate::sync::cell::UnsafeCell;
use crate::sync::thread::spawn;

/// A node after three others, and what each of those did: plain data, so that loom reports who does not see it as a race.
struct After {
    word: Word,
    did: [UnsafeCell<u64>; 3],
}

// SAFETY: each cell is touched by its node before the release of its edge, and by the last after all of them.
unsafe impl Sync for After {}

impl After {
    fn new() -> Arc<Self> {
        let did = std::array::from_fn(|_| UnsafeCell::new(0));
        Arc::new(Self { word: Word::new(3, Priority::Interactive, false), did })
    }

    /// Node number `at` does its work and is over; the edge opens, or stays shut.
    fn is_over(&self, at: usize, opens: bool) -> Option<Seen> {
        // SAFETY: nobody else touches it before we release.
        self.did[at].with_mut(|did| unsafe { *did = 1 });
        let last = if opens { self.word.open() } else { self.word.shut() };
        if last.is_some() {
            for did in &self.did {
                // SAFETY: all have released, and none touches what it did again.
                assert_eq!(did.with(|did| unsafe { *did }), 1, "what a node before did is not seen");
            }
        }
        last
    }
}

/// Three nodes end at once, one of them badly: one owns the node behind them, sees what all did, and knows that it must not run.
#[test]
fn the_last_of_three_owns_the_node_and_knows_that_an_edge_stayed_shut() {
    check(|| {
        let after = After::new();
        let ends = |at: usize| {
            let after = after.clone();
            spawn(move || after.is_over(at, at != 0))
        };
        let others = [ends(0), ends(1)];
        let mut last: Vec<Seen> = after.is_over(2, true).into_iter().collect();
        last.extend(others.into_iter().filter_map(|other| other.join().unwrap()));
        assert_eq!(last.len(), 1, "one owns the node");
        assert!(last[0].is_shut() && !last[0].may_run(true));
    });
}

/// Two tickets of one node are out while it is cancelled: one thread has it, and the cancel and the outcome agree on which was first.
#[test]
fn one_ticket_has_the_node_and_its_end_and_a_cancel_agree() {
    check(|| {
        let word = Arc::new(Word::new(0, Priority::Interactive, false));
        let pops = || {
            let word = word.clone();
            spawn(move || {
                let seen = word.claim()?;
                Some((seen, word.end(Disposition::Cacheable)))
            })
        };
        let others = [pops(), pops()];
        let cancel = word.cancel();
        let had: Vec<_> = others.into_iter().filter_map(|other| other.join().unwrap()).collect();
        assert_eq!(had.len(), 1, "one has it");
        let (before, end) = had[0];
        let won = cancel != Cancel::Late;
        assert_eq!(end.is_cancelled(), won, "the outcome says whether the cancel was first");
        assert_eq!(word.load().disposition() == Disposition::Failed, won);
        assert!(!before.is_cancelled() || won);
    });
}

/// Two add to the graph behind a node that comes to its end, and gate a node behind it: what is behind is released once, and nothing
/// that one of them has gated is ready before that one is done.
#[test]
fn what_is_behind_is_released_once_and_after_all_that_was_added() {
    check(|| {
        let (node, after) = (Word::new(0, Priority::Interactive, false), Word::new(1, Priority::Interactive, false));
        assert!(node.claim().is_some());
        let pair = Arc::new((node, after));
        let grows = || {
            let pair = pair.clone();
            spawn(move || {
                let (node, after) = &*pair;
                if node.grow().is_err() {
                    return (0, 0);
                }
                assert!(after.add_gate(), "what is behind is not ready while somebody adds to it");
                let (released, ready) = (node.ungrow().is_some(), after.open().is_some());
                // Whoever releases what is behind opens the edge from the node too.
                let ready = u32::from(ready) + u32::from(released && after.open().is_some());
                (u32::from(released), ready)
            })
        };
        let others = [grows(), grows()];
        let ends = {
            let pair = pair.clone();
            spawn(move || {
                let released = pair.0.end(Disposition::Cacheable).is_settled();
                (u32::from(released), u32::from(released && pair.1.open().is_some()))
            })
        };
        let (mut releases, mut ready) = (0, 0);
        for other in others.into_iter().chain([ends]) {
            let (released, made_ready) = other.join().unwrap();
            releases += released;
            ready += made_ready;
        }
        assert_eq!((releases, ready), (1, 1), "released once, ready once");
        assert!(!pair.1.add_gate() && pair.0.grow().is_err(), "too late");
    });
}

/// One urges a node while another makes it ready and queues it: a ticket goes out at the urgent priority.
#[test]
fn what_is_urged_while_it_is_queued_has_a_ticket_for_that() {
    check(|| {
        let word = Arc::new(Word::new(2, Priority::Background, false));
        let opens = || {
            let word = word.clone();
            spawn(move || word.open().map(|_| word.queue().priority()))
        };
        let others = [opens(), opens()];
        let urged = word.urge(Priority::Critical).filter(|before| before.is_queued()).map(|_| Priority::Critical);
        let mut tickets: Vec<Priority> = others.into_iter().filter_map(|other| other.join().unwrap()).collect();
        assert_eq!(tickets.len(), 1, "one queues it");
        tickets.extend(urged);
        assert!(tickets.contains(&Priority::Critical), "nobody knows that it is urgent");
    });
}

/// A node is parked while the end of what it waits for is told twice, by its computation and by a cancel: one goes on with it.
#[test]
fn one_goes_on_with_a_node_that_waits() {
    check(|| {
        let meeting = Arc::new(Meeting::new());
        let tells = || {
            let meeting = meeting.clone();
            spawn(move || u32::from(meeting.tell()))
        };
        let others = [tells(), tells()];
        let parks = spawn({
            let meeting = meeting.clone();
            move || u32::from(meeting.park())
        });
        let on: u32 = others.into_iter().chain([parks]).map(|other| other.join().unwrap()).sum();
        assert_eq!(on, 1, "one goes on");
    });
}

/// Two ways to end a graph give back what it holds once, while another waits for that.
#[test]
fn what_a_graph_holds_is_given_back_once() {
    check(|| {
        let parts = || Budget::with(2, None, 1);
        let nodes = parts();
        let budget = WorkBudget::of([nodes.clone(), parts(), parts(), parts()], Budget::with(1, None, 1));
        let all = WorkAmounts { nodes: 2, edges: 0, cpu: 0, io: 0 };
        let held = Arc::new(budget.try_reserve(all).unwrap_or_else(|_| unreachable!("it is free")));
        let waits = nodes.stand_in_line(1);
        let ends = || {
            let held = held.clone();
            spawn(move || held.give_back())
        };
        let others = [ends(), ends()];
        for other in others {
            other.join().unwrap();
        }
        assert!(waits.is_none_or(|(grant, _)| grant.is_resolved()), "waits beside free units");
        assert_eq!(nodes.in_use(), 1, "given back once");
        assert!(budget.try_reserve(all).is_err());
        drop(held);
        assert_eq!(nodes.in_use(), 1);
    });
}
