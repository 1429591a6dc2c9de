//! What a thread does that has a node: runs it, releases what comes after it, and goes on there, for a while.
//! It does not know where tickets come from. Nothing recurs: what ends without running is put on a list.
#![forbid(unsafe_code)]

use super::super::joint::{Ended, Joint};
use super::super::kind::Disposition;
use super::super::semaphore::CpuPermit;
use super::body::Body;
use super::builder::{Job, NONE};
use super::cx::DagCx;
use super::error::DagFailure;
use super::ids::{DagGate, DagNode, Link};
use super::joined::Joined;
use super::limited;
use super::links::More;
use super::node::{Held, Node, Ready};
use super::run::Run;
use super::word::{Mark, Seen};
use crate::admission::ContextScope;
use crate::flight::{FlightRef, catch, enter, nudge};
use crate::runtime::{Place, yields};

/// Nodes that a thread runs before it lets the runtime's other work have its turn.
const TURN: u32 = 16;

/// A thread's way through a run.
pub(super) struct Walk<'a> {
    run: &'a Run,
    /// Where it runs; its turn is over from the start if it is no place to run nodes at.
    place: Place,
    /// Of the words of nodes that may run there.
    mark: Mark,
    /// Of what it made ready, the node that it runs next.
    next: Option<(u32, Ready<'a>)>,
    /// What it made ready and what is not to run.
    doomed: Vec<(u32, Ready<'a>)>,
    /// Nodes that are over, and not told of yet.
    done: u64,
    ran: u32,
    turn: u32,
}

impl<'a> Walk<'a> {
    fn new(run: &'a Run, place: Place) -> Self {
        let turn = if run.spawner.is_driven() { 1 } else { TURN };
        Self { run, place, mark: Mark::of(place.priority), next: None, doomed: Vec::new(), done: 0, ran: 0, turn }
    }

    /// Of a thread that runs no nodes.
    pub(super) fn elsewhere(run: &'a Run) -> Self {
        Self {
            run,
            place: Place::default(),
            mark: Mark::none(),
            next: None,
            doomed: Vec::new(),
            done: 0,
            ran: 0,
            turn: 0,
        }
    }

    /// Whether the thread has run enough, or something else waits for it.
    pub(super) fn is_over(&self) -> bool {
        self.ran >= self.turn || yields(self.place)
    }

    /// Lets a thread work at the run, as one that is inside a job of it, and tells then of the nodes that are over.
    pub(super) fn with(run: &'a Run, place: Place, work: impl FnOnce(&mut Self)) {
        let mut walk = Self::new(run, place);
        let inside = (ContextScope::enter(None), enter(run.id()));
        work(&mut walk);
        // Whoever is told of the end, when the walk is dropped, is called outside.
        drop(inside);
    }

    /// Runs a node, or ends it if it is not to run, and goes on with what that makes ready, as long as it is the thread's turn.
    pub(super) fn go(&mut self, mut node: u32, mut held: Held<'a>) {
        loop {
            self.one(node, held);
            let Some((next, ready)) = self.next.take() else { return };
            if self.is_over() {
                return self.leave(next, ready);
            }
            (node, held) = (next, ready.start());
        }
    }

    fn go_next(&mut self) {
        match self.next.take() {
            None => {}
            Some((node, ready)) if self.is_over() => self.leave(node, ready),
            Some((node, ready)) => self.go(node, ready.start()),
        }
    }

    /// Leaves a node that it would have run next to the runtime.
    #[cold]
    fn leave(&self, node: u32, ready: Ready<'a>) {
        let place = Place { pool: ready.node().kind.pool(), priority: ready.seen.priority() };
        self.run.push(node, Place { priority: ready.queue(), ..place }, true);
    }

    #[inline(always)]
    fn one(&mut self, node: u32, mut held: Held<'a>) {
        // Whoever came here with a ticket may have been cancelled meanwhile.
        let runs = self.run.stopped().is_none() && held.seen.may_run(false);
        let plain = runs && held.node().extra == NONE;
        let result = match if plain { held.take_call() } else { None } {
            Some(job) => self.call(node, job),
            None => {
                let Some((back, result)) = self.special(node, held, runs) else { return };
                held = back;
                result
            }
        };
        self.end(node, held, result);
        if !self.doomed.is_empty() {
            self.end_doomed();
        }
    }

    /// As `one`, of a node of whose job something is said, that is a computation of a cache, or that is not to run. None if it waits
    /// now without a thread.
    #[inline(never)]
    fn special(&mut self, node: u32, mut held: Held<'a>, runs: bool) -> Option<(Held<'a>, Ended)> {
        let job = match if runs { held.take_job() } else { None } {
            Some(Job::Keyed(joint)) => return self.join(node, held, joint),
            Some(Job::Call(job)) => job,
            None => {
                let failure = self.run.failure(held.node());
                return Some((held, Err(failure)));
            }
        };
        let result = match self.run.semaphore(node, held.node()) {
            None => self.call_in(node, held.node(), job),
            Some(semaphore) => match semaphore.take_here() {
                Some(permit) => self.call_with((node, held.node()), job, permit),
                None => {
                    let place = place_of(held.node());
                    held.put_job(Job::Call(job));
                    held.put_down();
                    limited::wait(self.run.arc(), node, place, semaphore);
                    return None;
                }
            },
        };
        Some((held, result))
    }

    #[inline(always)]
    fn call(&mut self, node: u32, job: Body) -> Ended {
        self.ran += 1;
        let cx = DagCx::new(self.run, node);
        catch(|| job.call(&cx)).unwrap_or_else(|report| Err(DagFailure::Panicked(report)))
    }

    /// As `call`, on somebody's behalf.
    fn call_in(&mut self, node: u32, here: &Node, job: Body) -> Ended {
        // A thread that runs nodes has no context of its own.
        let _context = self.run.context(node, here).map(|context| ContextScope::enter(Some(context)));
        self.call(node, job)
    }

    /// As `call_in`, with a permit that is given back before anybody hears of the end.
    fn call_with(&mut self, (node, here): (u32, &Node), job: Body, permit: CpuPermit) -> Ended {
        let _holding = permit.hold();
        self.call_in(node, here, job)
    }

    /// Goes on with a node that has its permit now.
    pub(super) fn go_with(&mut self, node: u32, mut held: Held<'a>, permit: CpuPermit) {
        let runs = self.run.stopped().is_none() && held.seen.may_run(false);
        let result = match if runs { held.take_job() } else { None } {
            Some(Job::Call(job)) => self.call_with((node, held.node()), job, permit),
            _ => {
                drop(permit);
                Err(self.run.failure(held.node()))
            }
        };
        self.go_on(node, held, result);
    }

    /// A node is over that has waited without a thread.
    pub(super) fn go_on(&mut self, node: u32, held: Held<'a>, result: Ended) {
        self.end(node, held, result);
        self.end_doomed();
        self.go_next();
    }

    /// Asks for a computation, runs it here if it is free, and leaves the node to wait for its end if it is not.
    #[cold]
    fn join(&mut self, node: u32, held: Held<'a>, joint: Box<dyn Joint>) -> Option<(Held<'a>, Ended)> {
        self.ran += 1;
        let here = held.node();
        let place = place_of(here);
        let owner = match joint.enter(place) {
            Ok(ended) => return Some((held, ended)),
            Err(owner) => owner,
        };
        let joined = Joined::new(self.run.arc(), node, place, owner);
        self.run.join(node, &joined);
        if let Some(ended) = joined.help() {
            return Some((held, ended));
        }
        held.put_down();
        let Some(turn) = joined.park() else {
            // Who waits for the graph inside that computation has to learn that neither can go on.
            nudge();
            return None;
        };
        Some((here.unpark(turn), joined.ended()))
    }

    fn end_doomed(&mut self) {
        while let Some((node, ready)) = self.doomed.pop() {
            let held = ready.start();
            let failure = self.run.failure(held.node());
            self.end(node, held, Err(failure));
        }
    }

    /// What comes after a node that was over while others still added to the graph behind it.
    pub(super) fn release_late(&mut self, node: u32, seen: Seen) {
        let failure = self.run.node(node).failure();
        self.release(node, seen, failure.is_some_and(|failure| failure.is_interrupted()));
        self.end_doomed();
    }

    /// An edge to a node was not to be: it does not wait for that.
    pub(super) fn take_back(&mut self, node: u32) {
        if let Some(ready) = self.run.node(node).pass() {
            self.ready(node, self.run.node(node), ready);
        }
        self.end_doomed();
    }

    /// A node is over: tells those that come after it.
    #[inline(always)]
    fn end(&mut self, node: u32, held: Held<'a>, result: Ended) {
        let (here, interrupted) = (held.node(), result.as_ref().is_err_and(DagFailure::is_interrupted));
        let seen = held.end(result);
        if seen.opens_all() {
            self.open_all(node, here);
        } else if seen.is_settled() {
            self.release(node, seen, interrupted);
        }
    }

    /// A node has ended so that every edge behind it opens, whatever its gate.
    #[inline(always)]
    fn open_all(&mut self, id: u32, node: &'a Node) {
        self.done += 1;
        let run = self.run;
        for link in run.first_links(id) {
            let after = run.node(link.to());
            if let Some(ready) = after.open() {
                self.ready(link.to(), after, ready);
            }
        }
        if node.has_cold().is_some() {
            self.release_more(id, node, Disposition::Cacheable, false);
        }
    }

    fn release(&mut self, id: u32, seen: Seen, interrupted: bool) {
        let (disposition, cancelled) = (seen.disposition(), interrupted || seen.is_cancelled());
        self.done += 1;
        self.run.first_links(id).iter().for_each(|link| self.link(id, *link, disposition, cancelled));
        self.release_more(id, self.run.node(id), disposition, cancelled);
    }

    /// The edges behind it that were added while it ran.
    #[cold]
    fn release_more(&mut self, id: u32, node: &'a Node, disposition: Disposition, cancelled: bool) {
        if let Some(cold) = node.has_cold() {
            More::all(&cold.more).for_each(|link| self.link(id, link, disposition, cancelled));
        }
    }

    /// An edge behind a node that ended so is decided.
    fn link(&mut self, from: u32, link: Link, disposition: Disposition, cancelled: bool) {
        let after = self.run.node(link.to());
        let ready = match link.gate().opens(disposition) {
            true if cancelled => after.pass(),
            true => after.open(),
            false => after.shut(from, cancelled),
        };
        if let Some(ready) = ready {
            self.ready(link.to(), after, ready);
        }
    }

    /// A node is ready: it is run next here, or queued, or ended.
    #[inline(always)]
    fn ready(&mut self, id: u32, node: &'a Node, ready: Ready<'a>) {
        // Whether the graph was stopped meanwhile is looked at before it is run.
        if self.next.is_none() && ready.seen.runs_at(self.mark) && node.kind.pool() == self.place.pool {
            self.next = Some((id, ready));
        } else {
            self.ready_elsewhere(id, node, ready);
        }
    }

    #[inline(never)]
    fn ready_elsewhere(&mut self, id: u32, node: &'a Node, ready: Ready<'a>) {
        if !ready.seen.may_run(true) || self.run.stopped().is_some() {
            return self.doomed.push((id, ready));
        }
        let (pool, priority) = (node.kind.pool(), ready.queue());
        self.run.push(id, Place { pool, priority }, false);
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.run.tell(self.done);
    }
}

/// Where a node runs.
fn place_of(node: &Node) -> Place {
    Place { pool: node.kind.pool(), priority: node.load().priority() }
}

/// Why what comes after `node`, which is over, does not run.
pub(super) fn behind(id: u32, node: &Node) -> DagFailure {
    match node.failure() {
        None => {
            DagFailure::GateShut { node: DagNode(id), gate: DagGate::OnSuccess, disposition: node.load().disposition() }
        }
        Some(failure) => match &*failure {
            DagFailure::Upstream { .. } => DagFailure::clone(&failure),
            _ => DagFailure::Upstream { node: DagNode(id), failure },
        },
    }
}
