//! Waiting until a scheduler has nothing to do. It does not know what there is to do, nor who asked for it.
//!
//! Nobody tells who waits here: that would cost every execution something, and this is rare. It looks, leaves the threads that work
//! in peace for a moment, and looks again; each time only at the file that was busy last. On a runtime without threads it drives.
#![forbid(unsafe_code)]

use super::claim::runs_here;
use super::host::Host;
use super::revision::Revision;
use super::scheduler::{Core, Stages};
use crate::flight::{Interrupt, WaitCycle, doze, inside_a_job, trampoline};
use crate::runtime::{self, Missing, Spawner};
use crate::sync::epoch;
use std::time::{Duration, Instant};

impl<H: Host> Stages<H> {
    /// Waits until, for a moment, nothing of this scheduler ran and nothing that anybody wanted was left to run: also stages whose
    /// file was edited, removed or reset meanwhile have returned. What others submit meanwhile is waited for too.
    ///
    /// On a runtime without threads it drives that runtime. It learns of the end by looking every millisecond.
    ///
    /// # Errors
    /// [`Interrupt::WouldDeadlock`] inside a stage of this scheduler; [`Interrupt::Stalled`] on a runtime without threads on which
    /// nothing is left that could move; [`Interrupt::Shutdown`] in a forked child.
    pub fn quiesce(&self) -> Result<(), Interrupt> {
        Quiesce::of(self.core(), None).wait().map(|_| ())
    }

    /// As [`quiesce`](Self::quiesce), but not longer than `limit`, which on a runtime without threads is counted by its own clock.
    /// False if there was something to do all the time.
    ///
    /// # Errors
    /// As `quiesce`, but never [`Interrupt::Stalled`].
    pub fn quiesce_within(&self, limit: Duration) -> Result<bool, Interrupt> {
        Quiesce::of(self.core(), Some(limit)).wait()
    }
}

struct Quiesce<'a, H: Host> {
    core: &'a Core<H>,
    spawner: &'a Spawner,
    /// This thread is inside a job, so it runs no stranger's job.
    inside: bool,
    limited: bool,
    deadline: Option<Deadline>,
    missing: Missing,
}

/// On the runtime's own clock, or on the machine's.
enum Deadline {
    Virtual(Duration),
    Real(Instant),
}

/// Why a wait is over before its time.
enum Stop {
    OutOfTime,
    Never(Interrupt),
}

impl<'a, H: Host> Quiesce<'a, H> {
    fn of(core: &'a Core<H>, limit: Option<Duration>) -> Self {
        let spawner = &core.shared.spawner;
        let inside = inside_a_job() || runtime::current_pool(spawner).is_some();
        let deadline = limit.and_then(|limit| {
            if spawner.is_driven() {
                spawner.now().checked_add(limit).map(Deadline::Virtual)
            } else {
                Instant::now().checked_add(limit).map(Deadline::Real)
            }
        });
        Self { core, spawner, inside, limited: limit.is_some(), deadline, missing: Missing::default() }
    }

    fn wait(&self) -> Result<bool, Interrupt> {
        if runs_here(self.core.shared.id) {
            let here = "the quiescence of the scheduler whose stage waits for it".to_owned();
            return Err(Interrupt::WouldDeadlock(WaitCycle::new(vec![here])));
        }
        if self.spawner.is_forked() {
            return Err(Interrupt::Shutdown);
        }
        trampoline::flush();
        loop {
            match self.pass() {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(Stop::OutOfTime) => return Ok(false),
                Err(Stop::Never(why)) => return Err(why),
            }
        }
    }

    /// Looks at every file, and waits for each that is busy. True if nothing was, and nothing ran all the while.
    fn pass(&self) -> Result<bool, Stop> {
        let counters = &self.core.shared.counters;
        if counters.is_still(|| self.look())? {
            return Ok(true);
        }
        // What runs for nobody any more.
        while counters.is_busy() {
            self.step()?;
        }
        Ok(false)
    }

    /// Waits for each file that is busy. True if none was.
    fn look(&self) -> Result<bool, Stop> {
        let mut quiet = true;
        let slots = self.core.worlds.now(&epoch::pin()).table.all();
        for slot in slots {
            while slot.visible(&epoch::pin()).is_some_and(|seen| seen.is_busy()) {
                quiet = false;
                self.step()?;
            }
        }
        Ok(quiet)
    }

    /// Lets the work go on for a moment.
    fn step(&self) -> Result<(), Stop> {
        let late = match &self.deadline {
            None => false,
            Some(Deadline::Virtual(deadline)) => self.spawner.now() >= *deadline,
            Some(Deadline::Real(deadline)) => Instant::now() >= *deadline,
        };
        if late {
            return Err(Stop::OutOfTime);
        }
        if !self.spawner.is_driven() {
            runtime::blocking_or(&self.missing, || (), doze);
            return Ok(());
        }
        let mark = self.spawner.mark();
        if !self.inside && self.spawner.drive_one() {
            return Ok(());
        }
        if self.spawner.others_drive(mark) {
            self.spawner.aside(doze);
            Ok(())
        } else {
            Err(if self.limited { Stop::OutOfTime } else { Stop::Never(Interrupt::Stalled) })
        }
    }
}

impl<H: Host> Revision<H> {
    /// Whether anybody wants something of it that is not over. Under a pin.
    fn is_busy(&self) -> bool {
        let mut busy = self.source.word().is_awaited() || self.analysis.word().is_awaited();
        self.artifacts.each_pinned(|artifact| busy |= artifact.flight.word().is_awaited());
        busy
    }
}
