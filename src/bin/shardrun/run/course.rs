//! The course of a run on one thread: drives the scheduler, minds the commands, shows what happens, hears signals.
//! It does not know how tasks are chosen, nor what is reported afterwards.
#![forbid(unsafe_code)]

use super::answer::promise;
use super::graph::Chosen;
use super::minder::{Minder, News, Order};
use super::process::End;
use super::screen::{Printed, Screen};
use super::shape::TaskFile;
use super::spawn::Spawner;
use crate::interrupts::Interrupts;
use shardrun::{
    CancellationToken, Clock, ContinueMode, Driver, Plan, Policy, Run, RunHandle, RunObserver, RunReport, Runtime,
    TaskCx, TaskId, TaskOutcome,
};
use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often a bar is drawn though nothing happens.
const TICK: Duration = Duration::from_secs(1);

/// What a run is to be like.
pub(super) struct Settings {
    pub(super) mode: ContinueMode,
    pub(super) policies: Vec<Box<dyn Policy>>,
    pub(super) makeflags: Option<String>,
    /// Bytes that are kept of a task's output.
    pub(super) output_max: usize,
}

/// How it went.
pub(super) struct Went {
    pub(super) report: RunReport,
    pub(super) interrupted: bool,
    /// A task that keeps running ended by itself, and badly.
    pub(super) died: bool,
}

/// What the scheduler's side leaves for ours.
#[derive(Clone, Default)]
struct Desk {
    orders: Arc<Mutex<Vec<Order>>>,
    told: Arc<Mutex<Vec<Told>>>,
    stop: Arc<OnceLock<CancellationToken>>,
}

enum Told {
    Finished(TaskOutcome),
    Line(String),
    Warning(String),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunObserver<()> for Desk {
    fn finished(&self, _: &Plan, outcome: &TaskOutcome) {
        lock(&self.told).push(Told::Finished(outcome.clone()));
    }

    fn error_line(&self, _: &Plan, _: TaskId, line: &str) {
        lock(&self.told).push(Told::Line(line.to_owned()));
    }

    fn warning(&self, text: &str) {
        lock(&self.told).push(Told::Warning(text.to_owned()));
    }
}

/// The system's clock, for a runtime that is driven.
struct Monotonic(Instant);

impl Clock for Monotonic {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

struct Course<'f, 's> {
    runtime: Runtime,
    run: RunHandle,
    desk: Desk,
    places: &'f [usize],
    minder: Minder<'f>,
    screen: &'s mut Screen,
    interrupts: Interrupts,
    signals: usize,
    /// What is known of tasks that have no outcome yet.
    printed: HashMap<TaskId, Printed>,
    died: bool,
}

/// Runs what was chosen.
pub(super) fn run(file: &TaskFile<'_>, chosen: &Chosen, settings: Settings, screen: &mut Screen) -> io::Result<Went> {
    let Settings { mode, policies, makeflags, output_max } = settings;
    let interrupts = Interrupts::new()?;
    screen.patience.interrupt = Some(interrupts.as_fd().try_clone_to_owned()?);
    let minder = Minder::new(&file.tasks, Spawner::new(makeflags, &file.environment)?, output_max);
    let clock = Arc::new(Monotonic(Instant::now()));
    let runtime = Runtime::builder().driver(Driver::Inline).clock(clock).build().map_err(io::Error::other)?;
    let desk = Desk::default();
    let mut run = Run::new(chosen.plan.clone()).mode(mode).timed(true).observer(desk.clone());
    for policy in policies {
        run = run.policy(policy);
    }
    if let Some(starts) = file.drain_after {
        run = run.drain_after(starts);
    }
    let orders = desk.clone();
    let run = run.start_async(&runtime, move |cx: TaskCx| {
        let (promise, promised) = promise();
        orders.stop.get_or_init(|| cx.stop_token().clone());
        lock(&orders.orders).push(Order { task: cx.task(), promise });
        promised
    });
    let (places, printed) = (&chosen.places[..], HashMap::new());
    let mut course =
        Course { runtime, run, desk, places, minder, screen, interrupts, signals: 0, printed, died: false };
    let report = course.until_over()?;
    course.servers(&chosen.named)?;
    Ok(Went { report, interrupted: course.signals > 0, died: course.died })
}

impl Course<'_, '_> {
    /// Until every task has its outcome.
    fn until_over(&mut self) -> io::Result<RunReport> {
        loop {
            self.runtime.drive_all();
            if self.desk.stop.get().is_some_and(CancellationToken::is_cancelled) {
                self.minder.stop_all(Instant::now());
            }
            let orders = std::mem::take(&mut *lock(&self.desk.orders));
            for order in orders {
                let place = self.places[order.task.index()];
                self.minder.take(order, place, Instant::now());
            }
            self.tell();
            // What could not be started has been answered, and what was told may have been decided upon.
            if self.runtime.drive_one() {
                continue;
            }
            if let Some(result) = self.run.try_get() {
                self.tell();
                return result.map_err(io::Error::other);
            }
            self.wait()?;
        }
    }

    /// Then until those that keep running have ended: by themselves if they were asked for by name, else because they are told.
    fn servers(&mut self, named: &[bool]) -> io::Result<()> {
        while self.signals == 0 && self.minder.any(|task| named[task.index()]) {
            self.wait()?;
            self.tell();
        }
        self.minder.stop_all(Instant::now());
        self.tell();
        while self.minder.count() > 0 {
            self.wait()?;
            self.tell();
        }
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        self.screen.tick();
        let screen = self.screen.flush_in_time();
        let ours = self.minder.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let theirs = self.runtime.next_deadline().map(|at| at.saturating_sub(self.runtime.now()));
        let tick = self.screen.is_live().then_some(TICK);
        let limit = [ours, theirs, tick, screen].into_iter().flatten().min();
        if self.minder.wait(&self.interrupts, limit)? {
            self.interrupted();
        }
        Ok(())
    }

    fn interrupted(&mut self) {
        let (before, now) = (self.signals, self.interrupts.count());
        self.signals = now;
        self.screen.patience.interrupted |= now > 0;
        if before == 0 && now > 0 {
            self.run.abort();
            self.minder.stop_all(Instant::now());
            self.screen.say_first("shardrun: interrupted: asking what runs to end; again to kill it");
        }
        if now > 1 {
            self.minder.kill_all(Instant::now());
        }
    }

    /// Shows what has happened.
    fn tell(&mut self) {
        while !self.minder.news.is_empty() || !lock(&self.desk.told).is_empty() {
            self.tell_some();
        }
    }

    fn tell_some(&mut self) {
        for news in std::mem::take(&mut self.minder.news) {
            match news {
                News::Started(task) => self.screen.started(task),
                News::Over { task, end, attempts, output } => {
                    self.printed.insert(task, Printed { end, attempts, output });
                }
                News::Line(task, line) => self.screen.line(task, &line),
                News::Full(error) => {
                    let what =
                        "more commands start as others end; `ulimit -n` and `ulimit -u` say how many there can be";
                    self.screen.say(&format!("shardrun: {error}: {what}"));
                }
                News::Left(task, end) => {
                    self.screen.left(task, end);
                    self.died |= end != End::Passed;
                    match end {
                        End::Passed => self.run.control().server_exited(task),
                        _ => self.run.control().server_died(task),
                    }
                }
            }
        }
        for told in std::mem::take(&mut *lock(&self.desk.told)) {
            match told {
                Told::Finished(outcome) => self.screen.finished(&outcome, self.printed.remove(&outcome.task())),
                Told::Line(line) => self.screen.say(&line),
                Told::Warning(text) => self.screen.say(&format!("shardrun: {text}")),
            }
        }
    }
}
