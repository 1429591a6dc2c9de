//! A node whose computation is a cache's: run here if it is free, else the node waits for its end without a thread.
//! It does not know what is computed, nor who else wants it.
//!
//! Whoever began it parks the node, and whoever learns of the end tells: the second of the two ends the node. Who cancels the node
//! or its graph withdraws from the computation, and tells in place of it.
#![forbid(unsafe_code)]

use super::super::joint::{Ended, Owner};
use super::error::DagFailure;
use super::run::Run;
use super::walk::Walk;
use crate::flight::{Asleep, Entered, FlightRef, Interrupt, Killed, Link, Linked, SealableList};
use crate::runtime::{Job, Place, Priority};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Arc, OnceLock, Weak, mutant};
use std::task::{Wake, Waker};

const PARKED: u32 = 1;
const TOLD: u32 = 1 << 1;

/// Which of the two came second, once.
#[derive(Debug)]
pub(crate) struct Meeting(AtomicU32);

impl Meeting {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    fn come(&self, mine: u32, other: u32) -> bool {
        if mutant("dag.joined.by_look") {
            let before = self.0.load(Ordering::Acquire);
            self.0.fetch_or(mine, Ordering::AcqRel);
            return before & mine == 0 && before & other != 0;
        }
        // ordering: AcqRel. If the other came first, what it did is visible, and we go on with the node; else it does.
        let before = self.0.fetch_or(mine, Ordering::AcqRel);
        before & mine == 0 && before & other != 0
    }

    /// The node is parked. True if the end was told before: then the caller has it again.
    pub(crate) fn park(&self) -> bool {
        self.come(PARKED, TOLD)
    }

    /// The end is told, perhaps not for the first time. True if the caller has the node now.
    pub(crate) fn tell(&self) -> bool {
        self.come(TOLD, PARKED)
    }
}

/// A node's place among those of its graph that are parked. It keeps nothing alive, and is over with what it leads to.
struct Entry {
    link: Link<Self>,
    joined: Weak<Joined>,
}

impl Linked for Entry {
    fn link(&self) -> &Link<Self> {
        &self.link
    }

    fn is_dead(&self) -> bool {
        self.joined.strong_count() == 0
    }
}

/// The parked nodes of a graph, so that who waits for it need not look at all of its nodes.
pub(super) struct Parked(SealableList<Entry>);

impl Parked {
    pub(super) fn new() -> Self {
        Self(SealableList::new())
    }

    /// What they wait for.
    pub(super) fn flights(&self) -> Vec<Arc<dyn FlightRef>> {
        let mut parked = Vec::new();
        self.0.each(|entry| parked.push(entry.joined.clone()));
        parked.into_iter().filter_map(|joined| Some(joined.upgrade()?.flight())).collect()
    }

    fn enter(&self, joined: &Arc<Joined>) {
        // Nobody seals it.
        let _ = self.0.push(Arc::new(Entry { link: Link::new(), joined: Arc::downgrade(joined) }));
    }
}

/// The right to go on with a parked node.
pub(super) struct Turn(());

pub(super) struct Joined {
    run: Arc<Run>,
    node: u32,
    place: Place,
    owner: Arc<dyn Owner>,
    meeting: Meeting,
    /// Until the node goes on, if a shutdown of the run's runtime would not end what it waits for.
    entered: OnceLock<Entered>,
    is_parked: OnceLock<()>,
}

impl Joined {
    pub(super) fn new(run: Arc<Run>, node: u32, place: Place, owner: Arc<dyn Owner>) -> Arc<Self> {
        Arc::new(Self {
            run,
            node,
            place,
            owner,
            meeting: Meeting::new(),
            entered: OnceLock::new(),
            is_parked: OnceLock::new(),
        })
    }

    /// Runs the computation here, if it is free. How it ended, if it is over then.
    pub(super) fn help(&self) -> Option<Ended> {
        self.owner.help();
        self.owner.ended()
    }

    /// The node waits for the end, which will go on with it. True if that was told before.
    pub(super) fn park(self: &Arc<Self>) -> Option<Turn> {
        self.enter();
        self.run.parked.enter(self);
        let _ = self.is_parked.set(());
        if self.owner.tell(&Waker::from(self.clone())) {
            self.meeting.tell();
        }
        self.meeting.park().then_some(Turn(()))
    }

    /// Sees to it that a shutdown of the run's runtime ends the run, although the computation is another runtime's.
    fn enter(self: &Arc<Self>) {
        if self.owner.flight().spawner().is_of(&self.run.spawner) {
            return;
        }
        let me: Arc<dyn Asleep> = self.clone();
        match Entered::enter(&self.run.spawner, Arc::downgrade(&me)) {
            Some(entered) => drop(self.entered.set(entered)),
            None => self.closed(),
        }
    }

    /// What the node waits for.
    pub(super) fn flight(&self) -> Arc<dyn FlightRef> {
        self.owner.flight()
    }

    /// How it ended for this node.
    pub(super) fn ended(&self) -> Ended {
        self.owner.ended().unwrap_or(Err(DagFailure::Interrupted(Interrupt::Cancelled)))
    }

    /// The node is cancelled, or its graph has ended: withdraws from the computation.
    pub(super) fn leave(self: &Arc<Self>) {
        self.owner.leave();
        self.told();
    }

    /// The node has become more urgent.
    pub(super) fn raise(&self, priority: Priority) {
        self.owner.raise(priority);
    }

    fn told(self: &Arc<Self>) {
        if self.meeting.tell() {
            let on = GoOn(Some((self.clone(), Turn(()))));
            // Refused after a shutdown: dropping it ends the run.
            drop(self.run.spawner.push(self.place, Job::new(move || on.run())));
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if self.is_parked.get().is_some() {
            self.run.parked.0.note_dead();
        }
    }
}

impl Asleep for Joined {
    fn closed(&self) {
        self.run.stop(Killed::Shutdown);
    }
}

impl Wake for Joined {
    fn wake(self: Arc<Self>) {
        self.told();
    }
}

/// What stands in a queue for a node whose computation is over.
struct GoOn(Option<(Arc<Joined>, Turn)>);

impl GoOn {
    fn run(mut self) {
        let Some((joined, turn)) = self.0.take() else { return };
        go_on(&joined, turn);
    }
}

impl Drop for GoOn {
    fn drop(&mut self) {
        let Some((joined, turn)) = self.0.take() else { return };
        joined.run.stop(Killed::Shutdown);
        go_on(&joined, turn);
    }
}

fn go_on(joined: &Joined, turn: Turn) {
    let held = joined.run.node(joined.node).unpark(turn);
    Walk::with(&joined.run, joined.place, |walk| walk.go_on(joined.node, held, joined.ended()));
}
