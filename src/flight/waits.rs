//! Waiting for a flight on a thread: look, help, spin, sleep; and never for what could not end.
//! It does not know what the flight yields, nor how it is executed.
//!
//! | where | how |
//! |---|---|
//! | outside | spins for a moment, then sleeps; with [`Helping::Anyone`] it runs the flight itself if it is free |
//! | inside a job | runs the flight itself if it is free, and what gates it, and nothing else; a stranger's job could ask for a lock that this stack holds. Else it lends its place to a spare and sleeps, and is nudged when something of that becomes free |
//! | on a runtime without threads | outside a job it drives the runtime; inside one it helps as above |
//!
//! A wait inside a job stands in the wait graph while it sleeps. What a waiter runs may wait in turn, on the same stack, but not
//! without end: beyond a depth that the stack's size allows it sleeps, if a spare can take its place, or is told.

#![forbid(unsafe_code)]

use super::error::{Interrupt, WaitCycle};
use super::parker::Parker;
use super::phase::Phase;
use super::target::FlightRef;
use super::{active, graph, held, trampoline};
use crate::runtime::{self, Missing};
use crate::sync::{Arc, hint, thread};
use std::cell::Cell;
use std::collections::HashSet;
use std::task::Waker;
use std::time::{Duration, Instant};

/// Who may run the awaited flight on the waiting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Helping {
    /// Threads that are inside a job.
    Workers,
    /// Any thread.
    Anyone,
}

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum Waited {
    /// The result is there.
    Resolved,
    /// The limit came first.
    TimedOut,
    /// It could never end.
    GivenUp(Interrupt),
}

/// What is waited for.
#[derive(Clone, Copy)]
pub(crate) struct Awaited<'a> {
    pub(crate) flight: &'a dyn FlightRef,
    /// Another count of it, for who has to keep it.
    pub(crate) share: &'a dyn Fn() -> Arc<dyn FlightRef>,
}

/// What a wait asks of the one-shot that it waits for.
#[derive(Clone, Copy)]
pub(crate) struct Shot<'a> {
    /// Whether the result is there.
    pub(crate) done: &'a dyn Fn() -> bool,
    /// Leaves a waker; true if the result is there already.
    pub(crate) register: &'a dyn Fn(&Waker) -> bool,
}

/// Nudges every thread that waits inside a job: what it waits for may have become claimable.
#[cold]
pub(crate) fn nudge() {
    if let Some(graph) = graph::global() {
        graph.nudge();
    }
}

/// Nudges them since what this thread has queued may be for them to run: it is about to block, and nobody takes its place.
#[cold]
fn nudge_for_queued() {
    if let Some(graph) = graph::global() {
        graph.nudge_for_queued();
    }
}

/// The report of a wait for a flight that this thread executes further down.
pub(crate) fn self_wait(flight: &dyn FlightRef) -> WaitCycle {
    let between = active::waits_since(flight.id());
    WaitCycle::new(between.iter().map(|flight| flight.describe()).chain([flight.describe()]).collect())
}

/// Spins and sleeps until `shot` is done, at most for `limit`; helps nobody. True if it is.
pub(crate) fn sleep(shot: Shot<'_>, limit: Option<Duration>) -> bool {
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    sleep_steps(shot, &|| passed(deadline), &|| deadline)
}

/// As [`sleep`], until it is `over`, which is looked at whenever this thread is woken, and after each `step`.
pub(crate) fn sleep_until(shot: Shot<'_>, over: &dyn Fn() -> bool, step: &dyn Fn() -> Option<Duration>) -> bool {
    sleep_steps(shot, over, &|| step().and_then(|step| Instant::now().checked_add(step)))
}

fn passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

fn sleep_steps(shot: Shot<'_>, over: &dyn Fn() -> bool, step: &dyn Fn() -> Option<Instant>) -> bool {
    trampoline::flush();
    if spin(shot.done) {
        return true;
    }
    let parker = Parker::mine();
    let waker = parker.waker();
    let missing = Missing::default();
    while !(shot.register)(&waker) {
        if over() {
            return (shot.done)();
        }
        // A worker of some other runtime, perhaps, which is not inside a job: a spare takes its place all the same.
        runtime::blocking_or(&missing, nudge_for_queued, || parker.park_until(step()));
    }
    true
}

/// Waits until `shot` is done, at most for `limit`.
pub(crate) fn wait(awaited: Awaited<'_>, shot: Shot<'_>, limit: Option<Duration>, helping: Helping) -> Waited {
    trampoline::flush();
    let mut waited = Waited::Resolved;
    awaited.flight.poke_and_ask(&mut |spawner| waited = wait_with(spawner, awaited, shot, limit, helping));
    waited
}

fn wait_with(
    spawner: &runtime::Spawner,
    awaited: Awaited<'_>,
    shot: Shot<'_>,
    limit: Option<Duration>,
    helping: Helping,
) -> Waited {
    let flight = awaited.flight;
    if (shot.done)() {
        return Waited::Resolved;
    }
    let inside = !active::is_empty();
    if inside && active::contains(flight.id()) {
        // It may have resolved meanwhile: the real result goes before the synthetic one.
        if (shot.done)() {
            return Waited::Resolved;
        }
        return Waited::GivenUp(Interrupt::WouldDeadlock(self_wait(flight)));
    }
    if spawner.is_forked() {
        // Who executes it is in the parent.
        return Waited::GivenUp(Interrupt::Shutdown);
    }
    let worker = runtime::current_pool(spawner);
    let inside = inside || worker.is_some();
    let helps = inside || helping == Helping::Anyone;
    if spawner.is_driven() {
        return drive(awaited, shot, spawner, limit, inside);
    }
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let cross = worker.is_some_and(|pool| pool != flight.place().pool);
    let foreign = helping != Helping::Anyone && worker.is_none() && runtime::is_worker();
    let wait = Wait { awaited, spawner, shot, deadline, helps, cross, foreign, missing: Missing::default() };
    if inside { wait.inside() } else { wait.outside() }
}

struct Wait<'a> {
    awaited: Awaited<'a>,
    spawner: &'a runtime::Spawner,
    shot: Shot<'a>,
    deadline: Option<Instant>,
    helps: bool,
    /// A thread of one pool waits for a flight of the other: if it helps, a spare takes its place meanwhile.
    cross: bool,
    /// A worker of another runtime waits: it leaves the flight to the threads that it is meant for, as long as there are any, and
    /// a spare takes its own place.
    foreign: bool,
    missing: Missing,
}

impl Wait<'_> {
    fn done(&self) -> bool {
        (self.shot.done)()
    }

    fn timed_out(&self) -> bool {
        passed(self.deadline)
    }

    fn help(&self) -> bool {
        if !self.helps {
            false
        } else if self.cross {
            watch(self.awaited.flight) && runtime::blocking_or(&self.missing, || (), || help(self.awaited))
        } else {
            help(self.awaited)
        }
    }

    /// Helps as long as there is something to help with. True if that was all.
    fn help_out(&self) -> bool {
        while self.help() {
            if self.done() {
                return true;
            }
        }
        false
    }

    fn outside(self) -> Waited {
        if self.help_out() {
            return Waited::Resolved;
        }
        if sleep_steps(self.shot, &|| self.timed_out(), &|| self.deadline) {
            Waited::Resolved
        } else {
            Waited::TimedOut
        }
    }

    fn inside(self) -> Waited {
        let mut leaves = self.foreign;
        let mut known = None;
        loop {
            if !leaves && self.help_out() {
                return Waited::Resolved;
            }
            // What was run here may have put calls off that this waits for.
            trampoline::flush();
            if spin(self.shot.done) {
                return Waited::Resolved;
            }
            if self.timed_out() {
                return Waited::TimedOut;
            }
            // Most of what a job waits for is run here, and nobody needs to know who waits.
            let (path, parker, waker) = known.get_or_insert_with(|| {
                let parker = Parker::mine();
                let waker = parker.waker();
                (active::path(), parker, waker)
            });
            let graph = graph::global();
            let entry = graph.map(|graph| graph.enter(path.clone(), (self.awaited.share)(), waker.clone()));
            // Registered before it is asked for: whoever opens a gate from now on nudges us.
            let free = watch(self.awaited.flight);
            if let Some(cycle) = entry.as_ref().and_then(|entry| entry.cycle(path, (self.awaited.share)())) {
                drop(entry);
                return if self.done() { Waited::Resolved } else { deadlock(&cycle) };
            }
            if let Some(why) = self.awaited.flight.slept_for() {
                drop(entry);
                return if self.done() { Waited::Resolved } else { Waited::GivenUp(why) };
            }
            if leaves && free && self.spawner.is_short(self.awaited.flight.place().pool) {
                leaves = false;
                continue;
            }
            let deep = is_deep();
            if free && !deep && !leaves {
                continue;
            }
            if (self.shot.register)(waker) {
                return Waited::Resolved;
            }
            // What was waited for may need what the jobs here hold.
            let _lent = held::lend();
            // Only another thread can run now what this one may not: without a spare there may be none, and none may ever come.
            let park = || parker.park_until(self.deadline);
            if leaves {
                // Where no spare takes its place, its own runtime may be who is needed: it helps then.
                leaves = runtime::blocking_if_lent(&self.missing, park).is_some();
            } else if !(free && deep) {
                runtime::blocking_or(&self.missing, nudge_for_queued, park);
            } else if runtime::blocking_if_lent(&self.missing, park).is_none() {
                return if self.done() { Waited::Resolved } else { Waited::GivenUp(Interrupt::TooDeep) };
            }
            if self.done() {
                return Waited::Resolved;
            }
        }
    }
}

/// The answer to a wait that would close `cycle`.
fn deadlock(cycle: &graph::Cycle) -> Waited {
    let members = cycle.iter().map(|member| member.describe()).collect();
    Waited::GivenUp(Interrupt::WouldDeadlock(WaitCycle::new(members)))
}

/// Waits on a runtime without threads.
fn drive(
    awaited: Awaited<'_>,
    shot: Shot<'_>,
    spawner: &runtime::Spawner,
    limit: Option<Duration>,
    inside: bool,
) -> Waited {
    let flight = awaited.flight;
    let deadline = limit.and_then(|limit| spawner.now().checked_add(limit));
    loop {
        // What was driven here may have put calls off that this waits for.
        trampoline::flush();
        if (shot.done)() {
            return Waited::Resolved;
        }
        if deadline.is_some_and(|deadline| spawner.now() >= deadline) {
            return Waited::TimedOut;
        }
        let mark = spawner.mark();
        let moved = if inside { help(awaited) } else { spawner.drive_one() };
        if moved || (shot.done)() {
            continue;
        }
        let (parker, path) = (Parker::mine(), active::path());
        let graph = if inside { graph::global() } else { None };
        let entry = graph.map(|graph| graph.enter(path.clone(), (awaited.share)(), parker.waker()));
        if let Some(cycle) = entry.as_ref().and_then(|entry| entry.cycle(&path, (awaited.share)())) {
            drop(entry);
            return if (shot.done)() { Waited::Resolved } else { deadlock(&cycle) };
        }
        // Over and not yet told: another thread is about to tell.
        if flight.phase().is_terminal() || runs_elsewhere(flight) || spawner.others_drive(mark) {
            // Another thread drives this runtime too and is at it. What it makes free nobody tells us, so look now and then.
            if !(shot.register)(&parker.waker()) {
                spawner.aside(|| parker.doze());
            }
        } else if inside && is_deep() {
            return Waited::GivenUp(Interrupt::TooDeep);
        } else if limit.is_some() {
            return Waited::TimedOut;
        } else {
            return Waited::GivenUp(Interrupt::Stalled);
        }
    }
}

/// Goes through the flight, what gates it and, if `soft`, what it awaits, each once, until `found` says that it has. Without
/// recursion: chains may be long.
fn search(flight: &dyn FlightRef, soft: bool, mut found: impl FnMut(&dyn FlightRef) -> bool) -> bool {
    // Most have nothing behind them.
    if found(flight) {
        return true;
    }
    let mut open = Vec::new();
    flight.gates(&mut open);
    if soft {
        flight.awaits(&mut open);
    }
    let mut seen = HashSet::from([flight.id()]);
    while let Some(flight) = open.pop() {
        if !seen.insert(flight.id()) || flight.phase().is_terminal() || active::contains(flight.id()) {
            continue;
        }
        if found(&*flight) {
            return true;
        }
        flight.gates(&mut open);
        if soft {
            flight.awaits(&mut open);
        }
    }
    false
}

/// Whether so many waits stand on this thread's stack already that another one must not help.
fn is_deep() -> bool {
    active::helps() >= runtime::helps_max()
}

/// Runs the flight or something that stands before it, if any of that is free, and if the stack has room for it.
fn help(awaited: Awaited<'_>) -> bool {
    if is_deep() {
        return false;
    }
    let helped = active::helping((awaited.share)(), || search(awaited.flight, true, |flight| flight.help()));
    if helped {
        // What was run here has left its continuation to a worker that comes for it at once; this one goes on with its job.
        runtime::expose();
    }
    helped
}

/// Asks to be nudged when any of that becomes free. True if something is.
fn watch(flight: &dyn FlightRef) -> bool {
    let mut free = false;
    search(flight, true, |flight| {
        free |= flight.watch();
        false
    });
    free
}

/// Whether some other thread executes the flight or what gates it.
fn runs_elsewhere(flight: &dyn FlightRef) -> bool {
    search(flight, false, |flight| {
        matches!(flight.phase(), Phase::Claimed | Phase::Sealed) && !active::contains(flight.id())
    })
}

/// Looks again and again for a short while. The while grows where looking paid, and shrinks where it did not.
fn spin(done: &dyn Fn() -> bool) -> bool {
    const SPINS_MIN: u32 = 8;
    const SPINS_MAX: u32 = 2_000;
    crate::sync::local! {
        static SPINS: Cell<u32> = Cell::new(200);
    }
    if cfg!(any(shardrun_loom, shardrun_shuttle)) {
        return done();
    }
    if runtime::machine().parallel < 2 {
        return give_way(done);
    }
    let spins = SPINS.try_with(Cell::get).unwrap_or(SPINS_MIN);
    for _ in 0..spins {
        if done() {
            let _ = SPINS.try_with(|cell| cell.set((spins * 2).min(SPINS_MAX)));
            return true;
        }
        hint::spin_loop();
    }
    let _ = SPINS.try_with(|cell| cell.set((spins / 2).max(SPINS_MIN)));
    done()
}

/// With one CPU nothing happens while this thread looks: it lets others run, and looks again. To sleep at once would cost the
/// one who resolves it a wake, and the CPU a change of threads for each of many results that stand in one queue.
fn give_way(done: &dyn Fn() -> bool) -> bool {
    const TURNS_MAX: u32 = 16;
    crate::sync::local! {
        static TURNS: Cell<u32> = Cell::new(2);
    }
    let turns = TURNS.try_with(Cell::get).unwrap_or(1);
    for _ in 0..turns {
        if done() {
            let _ = TURNS.try_with(|cell| cell.set((turns * 2).min(TURNS_MAX)));
            return true;
        }
        thread::yield_now();
    }
    let _ = TURNS.try_with(|cell| cell.set((turns / 2).max(1)));
    done()
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use crate::runtime::{Job, Place, Runtime};
    use crate::sync::mpsc::channel;
    use std::time::Duration;

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn b10_the_continuation_of_what_a_waiter_ran_is_left_to_others() {
        let runtime = Runtime::builder().workers(2).io_threads(0).build().unwrap();
        let (open, gate) = channel::<()>();
        let (entered, inside) = channel();
        let (done, end) = channel();
        let inner = runtime.clone();
        let waits = move || {
            inside.recv_timeout(SOON).unwrap();
            let (sender, receiver) = channel();
            let spawner = inner.spawner().clone();
            let helped = inner.spawn(move || {
                let next = Job::new(move || sender.send(()).unwrap());
                assert!(spawner.push_next(Place::default(), next).is_ok());
            });
            assert_eq!(helped.wait(), Ok(()));
            drop(open);
            done.send(receiver.recv_timeout(SOON).is_ok()).unwrap();
        };
        runtime.execute(waits).unwrap();
        let busy = move || {
            entered.send(()).unwrap();
            let _ = gate.recv();
        };
        runtime.execute(busy).unwrap();
        assert_eq!(end.recv_timeout(SOON), Ok(true));
    }
}
