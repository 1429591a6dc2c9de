//! Edges between files, word by word: a blocker is asked for while its Analysis ends, its file moves on, or the owner goes; and
//! what is registered before Source is taken in once.

use super::check;
use crate::flight::{Link, Linked, Outcome, SealableList, StateWord};
use crate::runtime::Priority;
use crate::stages::edges::{Boxed, Gate, Place, Target};
use crate::stages::{Demand, Touched, Wish, known_or_done};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, thread};

/// The owner's set.
struct Set {
    gate: Gate,
    opened: AtomicU64,
}

impl Set {
    /// A set that has been started and waits for `count` answers.
    fn waiting_for(count: usize) -> Arc<Self> {
        let set = Arc::new(Self { gate: Gate::new(), opened: AtomicU64::new(0) });
        assert!(set.gate.start());
        (1..count).for_each(|_| set.gate.add());
        set
    }

    fn answered(&self, failed: bool) {
        let last = if failed { self.gate.release_failed() } else { self.gate.release() };
        if last {
            self.opened.fetch_add(1, Ordering::AcqRel);
        }
    }
}

struct Edge {
    link: Link<Self>,
    target: Target<Set>,
}

impl Edge {
    fn to(set: &Arc<Set>) -> Arc<Self> {
        Arc::new(Self { link: Link::new(), target: Target::new(set.clone()) })
    }
}

impl Linked for Edge {
    fn link(&self) -> &Link<Self> {
        &self.link
    }

    fn is_dead(&self) -> bool {
        self.target.is_taken()
    }
}

/// A revision of the producer.
struct Revision {
    demand: Demand,
    analysis: StateWord,
    consumers: Boxed<SealableList<Edge>>,
    held: AtomicU64,
}

impl Revision {
    fn new() -> Self {
        let analysis = StateWord::new();
        analysis.admit(Priority::Interactive).unwrap();
        Self { demand: Demand::new(true), analysis, consumers: Boxed::new(), held: AtomicU64::new(0) }
    }

    /// As `hang` in the engine. False if the revision admits nothing any more.
    fn hang(&self, edge: &Arc<Edge>) -> bool {
        if self.analysis.join().is_err() {
            return false;
        }
        if self.consumers.get_or_make(SealableList::new).push(edge.clone()).is_err() {
            return false;
        }
        if self.demand.wish() == Wish::Retired {
            return false;
        }
        self.held.fetch_add(1, Ordering::AcqRel);
        if edge.target.hold() {
            known_or_done();
            self.tell();
        } else {
            self.held.fetch_sub(1, Ordering::AcqRel);
        }
        true
    }

    fn withdraw(&self, edge: &Edge) {
        if let Some(taken) = edge.target.take()
            && taken.held
        {
            self.held.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn finish(&self, outcome: Outcome) {
        if self.analysis.seal().is_ok() {
            self.analysis.finish(outcome);
            if outcome == Outcome::Failed {
                self.demand.retire();
            }
            known_or_done();
            self.tell();
        }
    }

    fn tell(&self) {
        let phase = self.analysis.phase();
        if phase.is_terminal()
            && let Some(consumers) = self.consumers.get()
        {
            consumers.seal().deliver(|edge| {
                if let Some(taken) = edge.target.take() {
                    taken.target.answered(phase == crate::flight::Phase::Failed);
                }
            });
        }
    }
}

/// An edge that is hung up while the Analysis ends is answered once: by the one or the other.
#[test]
fn an_edge_beside_the_end_of_the_analysis_is_answered_once() {
    check(|| {
        let (revision, set) = (Arc::new(Revision::new()), Set::waiting_for(1));
        let registrar = {
            let (revision, set) = (revision.clone(), set.clone());
            thread::spawn(move || {
                if !revision.hang(&Edge::to(&set)) {
                    // Refused: the verdict is there.
                    set.answered(false);
                }
            })
        };
        revision.finish(Outcome::Done);
        registrar.join().unwrap();
        assert!(set.gate.is_open(), "an edge was never answered");
        assert_eq!(set.opened.load(Ordering::Acquire), 1);
    });
}

/// A failure is seen by whoever finds the gate open.
#[test]
fn who_passes_the_gate_has_seen_the_failure() {
    check(|| {
        let set = Set::waiting_for(2);
        let good = {
            let set = set.clone();
            thread::spawn(move || set.answered(false))
        };
        let bad = {
            let set = set.clone();
            thread::spawn(move || set.answered(true))
        };
        if set.gate.is_open() {
            assert!(set.gate.has_failed(), "an Artifact has passed a failure");
        }
        good.join().unwrap();
        bad.join().unwrap();
        assert_eq!(set.opened.load(Ordering::Acquire), 1, "one opens");
    });
}

/// An edge whose owner goes while it is hung up leaves no demand behind, whoever of the two is last; nor is anybody told.
#[test]
fn an_owner_that_goes_while_it_registers_leaves_no_demand() {
    check(|| {
        let (revision, set) = (Arc::new(Revision::new()), Set::waiting_for(1));
        let edge = Edge::to(&set);
        let registrar = {
            let (revision, edge) = (revision.clone(), edge.clone());
            thread::spawn(move || assert!(revision.hang(&edge)))
        };
        revision.withdraw(&edge);
        registrar.join().unwrap();
        assert_eq!(revision.held.load(Ordering::Acquire), 0, "demand for nobody");
        revision.finish(Outcome::Done);
        assert!(!set.gate.is_open(), "an answer to who has withdrawn");
    });
}

/// An edge that goes over to the owner's new set while it is answered answers one of the two sets; if the old one, whoever moved it
/// is told and asks again.
#[test]
fn an_edge_that_goes_over_answers_one_set() {
    check(|| {
        let (revision, old, new) = (Arc::new(Revision::new()), Set::waiting_for(1), Set::waiting_for(1));
        let edge = Edge::to(&old);
        assert!(revision.hang(&edge));
        let completion = {
            let revision = revision.clone();
            thread::spawn(move || revision.finish(Outcome::Done))
        };
        let moved = edge.target.move_over(new.clone());
        completion.join().unwrap();
        assert_eq!(new.gate.is_open(), moved);
        assert_eq!(old.gate.is_open(), !moved);
    });
}

/// A file whose owner waits for Source: its generations, which of them is visible, and what was registered before.
struct Owner {
    visible: AtomicUsize,
    generations: [Demand; 2],
    deferred: Place<Arc<()>>,
    taken: AtomicU64,
}

impl Owner {
    fn new() -> Arc<Self> {
        let generations = [Demand::new(false), Demand::new(false)];
        Arc::new(Self { visible: AtomicUsize::new(0), generations, deferred: Place::new(), taken: AtomicU64::new(0) })
    }

    fn take(&self, generation: usize) {
        if let Some(deferred) = self.deferred.get()
            && self.deferred.exchange(Some(&deferred), None)
        {
            self.taken.fetch_add(1 << (8 * generation), Ordering::AcqRel);
        }
    }

    /// As `settle_deferred` in the engine.
    fn settle(&self) {
        while !self.deferred.is_empty() {
            let generation = self.visible.load(Ordering::Acquire);
            match self.generations[generation].touch() {
                Touched::SourceDone => return self.take(generation),
                Touched::Waiting => return,
                Touched::Retired if self.visible.load(Ordering::Acquire) == generation => return,
                Touched::Retired => {}
            }
        }
    }

    fn register(&self) {
        assert!(self.deferred.exchange(None, Some(Arc::new(Arc::new(())))));
        self.settle();
    }

    fn complete_source(&self, generation: usize) {
        self.generations[generation].source_done();
        self.settle();
    }

    fn move_on(&self) {
        self.visible.swap(1, Ordering::AcqRel);
        self.generations[0].retire();
        self.settle();
    }
}

/// What is registered while Source is completed counts for that generation.
#[test]
fn what_is_registered_beside_the_completion_of_source_is_taken_in_once() {
    check(|| {
        let owner = Owner::new();
        let completion = {
            let owner = owner.clone();
            thread::spawn(move || owner.complete_source(0))
        };
        owner.register();
        completion.join().unwrap();
        assert_eq!(owner.taken.load(Ordering::Acquire), 1, "nobody took it in");
    });
}

/// What is registered while the file moves on, and its new generation completes Source, counts for that one.
#[test]
fn what_is_registered_while_the_file_moves_on_is_taken_in_by_the_new_generation() {
    check(|| {
        let owner = Owner::new();
        let mover = {
            let owner = owner.clone();
            thread::spawn(move || owner.move_on())
        };
        let completion = {
            let owner = owner.clone();
            thread::spawn(move || {
                if owner.visible.load(Ordering::Acquire) == 1 {
                    owner.complete_source(1);
                    return true;
                }
                false
            })
        };
        owner.register();
        mover.join().unwrap();
        if !completion.join().unwrap() {
            owner.complete_source(1);
        }
        assert_eq!(owner.taken.load(Ordering::Acquire), 1 << 8, "nobody took it in");
    });
}

/// An edge that its producer had no room for is answered once, to its set or to the one that took it over, or is withdrawn.
#[test]
fn a_refused_edge_is_answered_by_one() {
    check(|| {
        let (set, next) = (Set::waiting_for(1), Set::waiting_for(2));
        let edge = Edge::to(&set);
        let registrar = {
            let edge = edge.clone();
            thread::spawn(move || {
                let Some(taken) = edge.target.refuse() else { return false };
                taken.target.answered(true);
                true
            })
        };
        // The set has been put out of its place, and its edge goes over; then the successor goes too.
        if edge.target.move_over(next.clone()) {
            next.answered(false);
        }
        let withdrawn = edge.target.take();
        let refused = registrar.join().unwrap();
        assert_eq!(withdrawn.map(|taken| taken.held), (!refused).then_some(false), "one of the two has it");
        let opened = |set: &Set| set.opened.load(Ordering::Acquire);
        assert_eq!(opened(&set) + opened(&next), u64::from(refused));
        assert_eq!(Arc::strong_count(&set), 1);
    });
}
