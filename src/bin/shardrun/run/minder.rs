//! Minds the commands of a run on one thread: starts them, takes in what they print, keeps their times, tries them again.
//! It does not know when a task may start, nor how anything is shown.
#![forbid(unsafe_code)]

use super::answer::Promise;
use super::capture::{Capture, Lines, Needle};
use super::process::{End, Process, Why};
use super::shape::Task;
use super::spawn::{Spawner, Unstarted};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::time::Timespec;
use shardrun::{Ended, TaskFailure, TaskId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

/// Read at once.
const READ_BYTES: usize = 64 << 10;

/// A body has begun and waits for its command.
pub(super) struct Order {
    pub(super) task: TaskId,
    pub(super) promise: Promise,
}

/// What is heard of a process.
#[derive(Clone, Copy)]
enum Heard {
    Output,
    /// Its output is closed, and empty.
    Closed,
    End,
}

/// What there is to be told.
pub(super) enum News {
    /// A command was started, for the first time or again.
    Started(TaskId),
    /// A task of commands is over. Its outcome comes by the run.
    Over { task: TaskId, end: End, attempts: u32, output: Capture },
    /// A line of a task that keeps running.
    Line(TaskId, Vec<u8>),
    /// A task that was ready has ended without being asked to.
    Left(TaskId, End),
    /// For the first time the system has no room for another command, in these words.
    Full(String),
}

/// A task whose command runs, or will again.
struct Minded {
    task: TaskId,
    place: usize,
    /// None once the answer was given: then it is a task that keeps running.
    promise: Option<Promise>,
    attempts: u32,
    /// The most bytes that an attempt held, if that is known.
    peak: Option<u64>,
    output: Capture,
    process: Option<Process>,
    needle: Option<Needle>,
    lines: Lines,
    /// When to try again.
    again: Option<Instant>,
    /// The timer that counts; others of this place are stale.
    timer: u64,
}

pub(super) struct Minder<'f> {
    tasks: &'f [Task<'f>],
    spawner: Spawner,
    output_max: usize,
    minded: Vec<Option<Minded>>,
    free: Vec<usize>,
    count: usize,
    timers: BinaryHeap<Reverse<(Instant, usize, u64)>>,
    timer: u64,
    buffer: Vec<u8>,
    pub(super) news: Vec<News>,
    stopping: bool,
    /// The places of those that wait for room, and their timers; stale if those have changed.
    crowd: VecDeque<(usize, u64)>,
    /// There was no room at some time.
    crowded: bool,
    /// Something has ended since the crowd was last tried.
    roomier: bool,
}

impl<'f> Minder<'f> {
    /// Of tasks in the order of the file.
    pub(super) fn new(tasks: &'f [Task<'f>], spawner: Spawner, output_max: usize) -> Self {
        let (minded, free, timers) = (Vec::new(), Vec::new(), BinaryHeap::new());
        let (buffer, news) = (vec![0; READ_BYTES], Vec::new());
        let (crowd, crowded, roomier) = (VecDeque::new(), false, false);
        Self {
            tasks,
            spawner,
            output_max,
            minded,
            free,
            count: 0,
            timers,
            timer: 0,
            buffer,
            news,
            stopping: false,
            crowd,
            crowded,
            roomier,
        }
    }

    /// How many tasks it minds.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether a task of those that keep running is among them for which this holds.
    pub(super) fn any(&self, holds: impl Fn(TaskId) -> bool) -> bool {
        self.minded.iter().flatten().any(|minded| holds(minded.task))
    }

    /// Starts a task's command.
    pub(super) fn take(&mut self, order: Order, place: usize, now: Instant) {
        let Order { task, promise } = order;
        if self.stopping {
            return promise.keep(Ok(Ended::aborted()));
        }
        let minded = Minded {
            task,
            place,
            promise: Some(promise),
            attempts: 0,
            peak: None,
            output: Capture::default(),
            process: None,
            needle: None,
            lines: Lines::default(),
            again: None,
            timer: 0,
        };
        self.count += 1;
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.minded.push(None);
                self.minded.len() - 1
            }
        };
        self.attempt(at, minded, now);
    }

    /// Starts the command, once more perhaps.
    fn attempt(&mut self, at: usize, mut minded: Minded, now: Instant) {
        let task = &self.tasks[minded.place];
        let Some(command) = &task.command else {
            return self.give_up(at, minded, TaskFailure::internal("has no command"));
        };
        minded.attempts += 1;
        minded.again = None;
        match self.spawner.start(task, command) {
            Ok(started) => {
                minded.process = Some(Process::new(started, task, now));
                minded.needle = task.ready.map(Needle::new);
                self.news.push(News::Started(minded.task));
                if task.persistent && task.ready.is_none() {
                    minded.is_ready();
                }
                self.arm(at, &mut minded);
                self.minded[at] = Some(minded);
            }
            Err(Unstarted::NotNow(error)) if self.is_waited_for() => {
                if !std::mem::replace(&mut self.crowded, true) {
                    self.news.push(News::Full(error.to_string()));
                }
                minded.attempts -= 1;
                self.arm(at, &mut minded);
                self.crowd.push_back((at, minded.timer));
                self.minded[at] = Some(minded);
            }
            Err(Unstarted::NotNow(error)) => self.give_up(at, minded, error.into()),
            Err(Unstarted::Never(failure)) => self.give_up(at, minded, failure),
        }
    }

    /// Whether a command runs that will end, or be ready, by itself.
    fn is_waited_for(&self) -> bool {
        self.minded.iter().flatten().any(|minded| minded.process.is_some() && minded.promise.is_some())
    }

    /// Starts those that found no room, in their order, as far as there is room now.
    fn try_crowd(&mut self, now: Instant) {
        self.roomier = false;
        let mut crowd = std::mem::take(&mut self.crowd);
        while let Some((at, timer)) = crowd.pop_front() {
            let Some(minded) = self.minded[at].take_if(|minded| minded.timer == timer) else { continue };
            self.attempt(at, minded, now);
            if !self.crowd.is_empty() {
                self.crowd.append(&mut crowd);
            }
        }
    }

    /// The command cannot be started: trying again would not help.
    fn give_up(&mut self, at: usize, mut minded: Minded, failure: TaskFailure) {
        if let Some(promise) = minded.promise.take() {
            promise.keep(Err(failure));
        }
        self.forget(at);
    }

    fn forget(&mut self, at: usize) {
        self.count -= 1;
        self.free.push(at);
    }

    fn arm(&mut self, at: usize, minded: &mut Minded) {
        let deadline = minded.process.as_ref().map_or(minded.again, Process::deadline);
        self.timer += 1;
        minded.timer = self.timer;
        if let Some(deadline) = deadline {
            self.timers.push(Reverse((deadline, at, self.timer)));
        }
    }

    /// When `wait` has something to do though nothing happens.
    pub(super) fn next_deadline(&mut self) -> Option<Instant> {
        while let Some(Reverse((deadline, at, timer))) = self.timers.peek() {
            if self.minded[*at].as_ref().is_some_and(|minded| minded.timer == *timer) {
                return Some(*deadline);
            }
            self.timers.pop();
        }
        None
    }

    /// Waits until something happens, or for so long, and takes in what has happened. True if it was outside.
    ///
    /// It looks at all that run each time. They are as many as run at a time, and each costs far less than starting a command.
    pub(super) fn wait(&mut self, outside: impl AsFd, limit: Option<Duration>) -> io::Result<bool> {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let outside = (PollFd::from_borrowed_fd(outside.as_fd(), PollFlags::IN), None);
        let running =
            self.minded.iter().enumerate().filter_map(|(at, minded)| Some((at, minded.as_ref()?.process.as_ref()?)));
        let theirs = running.flat_map(|(at, process)| {
            let [output, end] = process.waits_for();
            let wait = |fd, end| (PollFd::from_borrowed_fd(fd, PollFlags::IN), Some((at, end)));
            output.map(|fd| wait(fd, false)).into_iter().chain(end.map(|fd| wait(fd, true)))
        });
        let (mut waits, places): (Vec<PollFd<'_>>, Vec<_>) = std::iter::once(outside).chain(theirs).unzip();
        match poll(&mut waits, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let happened = waits.iter().zip(places).filter(|(wait, _)| !wait.revents().is_empty());
        let heard = |end: bool, wait: &PollFd<'_>| match wait.revents() {
            _ if end => Heard::End,
            PollFlags::HUP => Heard::Closed,
            _ => Heard::Output,
        };
        let happened: Vec<Option<(usize, Heard)>> =
            happened.map(|(wait, place)| place.map(|(at, end)| (at, heard(end, wait)))).collect();
        let now = Instant::now();
        for (at, heard) in happened.iter().flatten() {
            self.happened(*at, *heard, now);
        }
        while self.next_deadline().is_some_and(|deadline| deadline <= now) {
            if let Some(Reverse((_, at, _))) = self.timers.pop() {
                self.due(at, now);
            }
        }
        while self.roomier {
            self.try_crowd(now);
        }
        Ok(happened.iter().any(Option::is_none))
    }

    fn happened(&mut self, at: usize, heard: Heard, now: Instant) {
        let Some(mut minded) = self.minded[at].take() else { return };
        let Some(process) = &mut minded.process else {
            self.minded[at] = Some(minded);
            return;
        };
        if let Heard::End = heard {
            process.exited(now);
        } else if let Heard::Closed = heard {
            process.close();
            process.look(now);
        } else if let Some(count) = process.read(&mut self.buffer) {
            let bytes = &self.buffer[..count];
            if self.tasks[minded.place].persistent {
                minded.said(bytes, &mut self.news);
                self.roomier |= minded.promise.is_none();
            } else {
                minded.output.push(bytes, self.output_max);
                self.minded[at] = Some(minded);
                return;
            }
        } else {
            process.look(now);
        }
        self.go_on(at, minded, now);
    }

    fn due(&mut self, at: usize, now: Instant) {
        let Some(mut minded) = self.minded[at].take() else { return };
        match &mut minded.process {
            Some(process) => {
                if process.is_to_be_looked_at(now) {
                    process.look(now);
                }
                process.due(now);
                self.go_on(at, minded, now);
            }
            None => self.attempt(at, minded, now),
        }
    }

    /// Goes on with a task whose process may be over.
    fn go_on(&mut self, at: usize, mut minded: Minded, now: Instant) {
        match minded.process.take() {
            Some(process) if process.is_over() => {
                let (end, peak) = process.finish();
                self.roomier = true;
                minded.peak = minded.peak.max(peak);
                self.over(at, minded, end, now);
            }
            process => {
                minded.process = process;
                self.arm(at, &mut minded);
                self.minded[at] = Some(minded);
            }
        }
    }

    fn over(&mut self, at: usize, mut minded: Minded, end: End, now: Instant) {
        let task = &self.tasks[minded.place];
        if task.persistent {
            let (news, id) = (&mut self.news, minded.task);
            minded.lines.finish(|line| news.push(News::Line(id, line.to_vec())));
        }
        let Some(promise) = minded.promise.take() else {
            if end != End::Stopped {
                self.news.push(News::Left(minded.task, end));
            }
            return self.forget(at);
        };
        // A task that keeps running has failed if it ends before it is ready.
        let passed = end == End::Passed && !task.persistent;
        let retry = task.retries.after(minded.attempts).filter(|_| !passed && end != End::Stopped && !self.stopping);
        if let Some(wait) = retry {
            let note = format!("shardrun: attempt {} {}; the next in {wait:?}\n", minded.attempts, told(end));
            minded.output.push(note.as_bytes(), self.output_max);
            minded.promise = Some(promise);
            minded.again = now.checked_add(wait);
            self.arm(at, &mut minded);
            self.minded[at] = Some(minded);
            return;
        }
        let ended = match end {
            _ if passed => Ended::success(),
            End::Stopped => Ended::aborted(),
            End::Passed => Ended::failed(1),
            _ => Ended::failed(end.code()),
        };
        let Minded { task, attempts, peak, output, .. } = minded;
        self.news.push(News::Over { task, end, attempts, output });
        let ended = ended.attempts(attempts);
        promise.keep(Ok(match peak {
            Some(bytes) => ended.peak_memory(bytes),
            None => ended,
        }));
        self.forget(at);
    }

    /// Asks everything to end that this holds for, and starts nothing of it any more.
    pub(super) fn stop(&mut self, holds: impl Fn(TaskId) -> bool, now: Instant) {
        for at in 0..self.minded.len() {
            let Some(mut minded) = self.minded[at].take_if(|minded| holds(minded.task)) else { continue };
            match &mut minded.process {
                Some(process) => process.ask(Why::Stopped, now),
                None => {
                    self.over(at, minded, End::Stopped, now);
                    continue;
                }
            }
            self.go_on(at, minded, now);
        }
    }

    /// As `stop` of all, and whoever orders from now on is told that it is too late.
    pub(super) fn stop_all(&mut self, now: Instant) {
        self.stopping = true;
        self.stop(|_| true, now);
    }

    /// Kills everything that was asked to end.
    pub(super) fn kill_all(&mut self, now: Instant) {
        self.stop_all(now);
        for at in 0..self.minded.len() {
            let Some(mut minded) = self.minded[at].take() else { continue };
            if let Some(process) = &mut minded.process {
                process.kill();
            }
            self.go_on(at, minded, now);
        }
    }
}

impl Minded {
    fn is_ready(&mut self) {
        self.needle = None;
        if let Some(process) = &mut self.process {
            process.no_timeout();
        }
        if let Some(promise) = self.promise.take() {
            promise.keep(Ok(Ended::success().attempts(self.attempts)));
        }
    }

    /// A task that keeps running has printed something.
    fn said(&mut self, bytes: &[u8], news: &mut Vec<News>) {
        let task = self.task;
        self.lines.push(bytes, |line| news.push(News::Line(task, line.to_vec())));
        if self.needle.as_mut().is_some_and(|needle| needle.found_in(bytes)) {
            self.is_ready();
        }
    }
}

/// An end in words.
pub(super) fn told(end: End) -> String {
    match end {
        End::Passed => "ended".to_owned(),
        End::Failed(code) => format!("failed with exit status {code}"),
        End::Signal(number) => format!("was killed by signal {number}"),
        End::TimedOut => "took too long".to_owned(),
        End::Stopped => "was stopped".to_owned(),
        End::Lost => "ended, nobody knows how: is SIGCHLD ignored?".to_owned(),
    }
}
