//! Heavy permits: process-wide, some of them reserved for interactive builds, and handed to the actor that waits longest.
//! It does not know what is built, nor when an actor asks.
//!
//! An actor that lacks a permit stands in the line of each kind that it may use. Who gives a permit back hands it to the first
//! in that line: it is noted at the actor, which is looked at again. What an actor was handed and has no use for any more it
//! gives back the next time it is looked at.

#![forbid(unsafe_code)]

use super::actor::Actor;
use super::held::Permit;
use super::kind::LaneClass;
use crate::runtime::{Acquire, Job, Permits, Waiting};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::mutant;

/// The permits of an executor.
pub(super) struct Heavy {
    common: Permits,
    reserved: Permits,
}

/// The lines that an actor stands in.
#[derive(Default)]
pub(super) struct Lines {
    interactive: [Option<Waiting>; 2],
    maintenance: Option<Waiting>,
}

/// What an actor was handed and has not used: a bit for each line.
#[derive(Debug)]
pub(super) struct Grants(AtomicU32);

fn bit(class: LaneClass, permit: Permit) -> u32 {
    match (class, permit) {
        (LaneClass::Interactive, Permit::Common) => 1,
        (LaneClass::Interactive, Permit::Reserved) => 2,
        (LaneClass::Maintenance, _) => 4,
    }
}

impl Grants {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    fn has(&self, class: LaneClass, permit: Permit) -> bool {
        self.0.load(Ordering::Relaxed) & bit(class, permit) != 0
    }

    /// Notes one, for who hands it over and then has the actor looked at.
    fn note(&self, class: LaneClass, permit: Permit) {
        // ordering: pairs with `take`: what the last holder of the permit did is visible to the next.
        self.0.fetch_or(bit(class, permit), Ordering::AcqRel);
    }

    fn take(&self, class: LaneClass, permit: Permit) -> bool {
        let bit = bit(class, permit);
        self.has(class, permit) && self.0.fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }
}

impl Lines {
    fn place(&mut self, class: LaneClass, permit: Permit) -> &mut Option<Waiting> {
        match class {
            LaneClass::Interactive => &mut self.interactive[usize::from(permit == Permit::Reserved)],
            LaneClass::Maintenance => &mut self.maintenance,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.interactive.iter().all(Option::is_none) && self.maintenance.is_none()
    }
}

/// The kinds that a class may use, the scarcer first.
fn kinds(class: LaneClass) -> &'static [Permit] {
    match class {
        LaneClass::Interactive => &[Permit::Reserved, Permit::Common],
        LaneClass::Maintenance => &[Permit::Common],
    }
}

impl Heavy {
    pub(super) fn new(permits: usize, reserve: usize) -> Self {
        Self {
            common: Permits::new((permits - reserve) as u32, Job::run),
            reserved: Permits::new(reserve as u32, Job::run),
        }
    }

    fn of(&self, permit: Permit) -> &Permits {
        match permit {
            Permit::Common => &self.common,
            Permit::Reserved => &self.reserved,
        }
    }

    /// A permit for a build of `actor`, if there is one; else the actor stands in line. For who has its turn.
    pub(super) fn obtain<K, C>(&self, actor: &Arc<Actor<K, C>>, lines: &mut Lines, class: LaneClass) -> Option<Permit>
    where
        K: Send + Sync + 'static,
        C: Send + Sync + 'static,
    {
        for permit in kinds(class) {
            if actor.grants.take(class, *permit) {
                *lines.place(class, *permit) = None;
                return Some(*permit);
            }
        }
        for permit in kinds(class) {
            if lines.place(class, *permit).is_some() {
                continue;
            }
            let (granted, kind) = (actor.clone(), *permit);
            let job = Job::new(move || granted.granted(class, kind));
            match self.of(*permit).acquire_or_queue(1, job) {
                Acquire::Now(_) => return Some(*permit),
                Acquire::Queued(waiting) => *lines.place(class, *permit) = Some(waiting),
                Acquire::TooMany(_) => {}
            }
        }
        None
    }

    /// An actor without a heavy job of that class leaves the lines, and gives back what it was handed. For who has its turn.
    pub(super) fn let_go<K, C>(&self, actor: &Actor<K, C>, lines: &mut Lines, class: LaneClass) {
        for permit in kinds(class) {
            if actor.grants.take(class, *permit) {
                *lines.place(class, *permit) = None;
                self.give(*permit);
            }
            if let Some(waiting) = lines.place(class, *permit).take()
                && !self.of(*permit).abandon(&waiting)
            {
                // It was handed over just now: who does that notes it, and has the actor looked at.
                *lines.place(class, *permit) = Some(waiting);
            }
        }
    }

    /// Gives a permit back: to the first in line, if there is one.
    pub(super) fn give(&self, permit: Permit) {
        if !mutant("lanes.permit_kept") {
            self.of(permit).release(1);
        }
    }

    /// How many are free.
    pub(super) fn free(&self) -> u32 {
        self.common.available() + self.reserved.available()
    }
}

impl<K, C> Actor<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    /// Leaves the lines that nobody here needs: `builds` says of which classes builds are queued, `free` whether they could go beside what
    /// runs. For who has the turn.
    pub(super) fn leave_lines(&self, lines: &mut Lines, builds: [bool; 2], free: bool) {
        if lines.is_empty() && self.grants.is_empty() {
            return;
        }
        for class in LaneClass::ALL {
            if !builds[class as usize] {
                self.shared.heavy.let_go(self, lines, class);
            } else if !free {
                // The writer that runs may wait for a build of another actor, which stands in line behind those of this one.
                self.pass_on(lines, class);
            }
        }
    }

    /// Maintenance comes after others in this visit: unless it is overdue, whoever waits behind it may have its permit meanwhile. Only
    /// where it does, or two actors whose interactive jobs cannot go would hand one permit to and fro. For who has the turn.
    pub(super) fn maintenance_comes_after(&self, lines: &mut Lines, overdue: bool) {
        if !overdue {
            self.pass_on(lines, LaneClass::Maintenance);
        }
    }

    /// Passes on what was handed to builds of a class that cannot go in this visit. They stand in line again once they could. For who
    /// has the turn.
    pub(super) fn pass_on(&self, lines: &mut Lines, class: LaneClass) {
        if kinds(class).iter().any(|permit| self.grants.has(class, *permit)) {
            self.shared.heavy.let_go(self, lines, class);
        }
    }

    /// A permit has come to this actor.
    fn granted(self: &Arc<Self>, class: LaneClass, permit: Permit) {
        self.grants.note(class, permit);
        match class {
            LaneClass::Interactive => self.poke(class),
            // In line with other maintenance it would keep it from an interactive build, for as long as that line is not looked at.
            LaneClass::Maintenance => self.shared.queue_awaited(self),
        }
    }
}
