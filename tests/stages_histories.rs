//! Histories from real threads: each thread records what it did and saw, with stamps of a clock that all share; afterwards a
//! checker decides whether that may have been. `SHARDRUN_HISTORY_EVENTS` says how many events are recorded in all.

#[path = "histories/check.rs"]
mod check;

use check::{Execution, Seen, Span, Write, Writes};
use shardrun::{
    Budget, Dependencies, Host, Moved, Pool, Priority, Request, Runtime, SourceLookup, Stage, StageCx, StageError,
    StageValue, Stages,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Files that are edited only all at once.
const GROUP: std::ops::Range<usize> = 0..4;
/// Files that are edited one by one, whose stages fail and panic now and then.
const FAULTY: std::ops::Range<usize> = 4..8;
/// Files that are edited, closed and removed.
const FLEETING: std::ops::Range<usize> = 8..12;
const FILES: usize = 12;
const THREADS: u64 = 3;
/// Events that are recorded before they are checked.
const ROUND: usize = 250_000;
const LIMIT: u32 = 2;
const UNITS: u32 = 32;
const WATCHDOG: Duration = Duration::from_secs(300);

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }

    fn of(&mut self, range: std::ops::Range<usize>) -> usize {
        range.start + self.below(range.len() as u64) as usize
    }
}

#[derive(Debug)]
struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("refused on purpose")
    }
}

impl std::error::Error for Refused {}

/// A text that is counted while it is alive.
struct Made(u64, Arc<AtomicU64>);

impl Made {
    fn of(text: u64, alive: &Arc<AtomicU64>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(text, alive.clone())
    }
}

impl Clone for Made {
    fn clone(&self) -> Self {
        Self::of(self.0, &self.1)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What was executed, by file, generation, stage and profile.
type Executions = HashMap<(usize, u64, Stage, u8), Vec<Execution>>;

/// The clock of a round, and what was executed in it.
#[derive(Default)]
struct Record {
    clock: AtomicU64,
    alive: Arc<AtomicU64>,
    random: AtomicU64,
    executions: Mutex<Executions>,
}

impl Record {
    /// The next moment.
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// When `f` began and ended.
    fn span<T>(&self, f: impl FnOnce() -> T) -> (T, Span) {
        let begin = self.now();
        let made = f();
        (made, Span { begin, end: self.now() })
    }
}

struct Recording(Arc<Record>);

impl Recording {
    fn run(&self, cx: &StageCx<'_, Self>, profile: u8) -> Result<(), Refused> {
        let (file, begin) = (*cx.file(), self.0.now());
        let mut dice = Random(self.0.random.fetch_add(1, Ordering::Relaxed));
        let dice = if FAULTY.contains(&file) { dice.below(40) } else { 2 };
        let span = Span { begin, end: self.0.now() };
        let mut executions = self.0.executions.lock().unwrap();
        let execution = Execution { span, failed: dice < 2 };
        executions.entry((file, cx.generation(), cx.stage(), profile)).or_default().push(execution);
        drop(executions);
        match dice {
            0 => std::panic::resume_unwind(Box::new("asked for")),
            1 => Err(Refused),
            _ => Ok(()),
        }
    }
}

impl Host for Recording {
    type File = usize;
    type Text = Made;
    type Source = Made;
    type Analysis = Made;
    type Artifact = Made;
    type Profile = u8;
    type Error = Refused;

    fn load(&self, _: &usize) -> Result<Option<Made>, Refused> {
        Ok(Some(Made::of(0, &self.0.alive)))
    }

    fn source(&self, cx: &StageCx<'_, Self>, text: Made) -> Result<Made, Refused> {
        self.run(cx, 0).map(|()| text)
    }

    fn dependencies(&self, cx: &StageCx<'_, Self>, _: &Made) -> Dependencies<usize> {
        // The files of each kind stand in a ring.
        let file = *cx.file();
        Dependencies::none().with_blockers([file / GROUP.end * GROUP.end + (file + 1) % GROUP.end])
    }

    fn analysis(&self, cx: &StageCx<'_, Self>, source: &Made) -> Result<Made, Refused> {
        self.run(cx, 0).map(|()| source.clone())
    }

    fn artifact(&self, cx: &StageCx<'_, Self>, profile: &u8, source: &Made, analysis: &Made) -> Result<Made, Refused> {
        assert_eq!(source.0, analysis.0, "an artifact of two texts");
        self.run(cx, *profile).map(|()| source.clone())
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

/// What one thread has recorded.
#[derive(Default)]
struct Log {
    writes: Vec<(usize, Write)>,
    seen: Vec<(usize, Seen)>,
    /// What the roots showed of the group.
    groups: Vec<[Option<u64>; GROUP.end]>,
    asked: u64,
    answered: u64,
}

impl Log {
    fn events(&self) -> usize {
        self.writes.len() + self.seen.len() + self.groups.len()
    }
}

struct Client<'a> {
    stages: &'a Stages<Recording>,
    record: &'a Record,
    random: Random,
    id: u64,
    text: u64,
    log: Log,
}

type Answer = Result<StageValue<Recording>, StageError<Recording>>;

impl Client<'_> {
    /// A text that nobody else has written.
    fn text(&mut self) -> (u64, Made) {
        self.text += 1;
        let text = (self.id << 40) | self.text;
        (text, Made::of(text, &self.record.alive))
    }

    /// Notes an answer; `mine` is the text of the request.
    fn answer(&mut self, file: usize, begin: u64, mine: Option<u64>, answer: Answer) {
        self.log.answered += 1;
        let end = self.record.now();
        match answer {
            Ok(StageValue::Source(made) | StageValue::Analysis(made) | StageValue::Artifact(made)) => {
                assert!(mine.is_none_or(|mine| mine == made.0), "an edit is answered from its own text");
                self.log.seen.push((file, Seen { span: Span { begin, end }, text: made.0 }));
            }
            Err(StageError::Superseded | StageError::Cancelled) => {}
            Err(StageError::Shutdown) => assert!(FLEETING.contains(&file), "{file} is never removed"),
            Err(StageError::Failed(failure)) => assert!(FAULTY.contains(failure.file())),
            Err(StageError::DependencyFailed(failure)) => assert!(FAULTY.contains(failure.file())),
            Err(other) => panic!("an unexpected answer: {other}"),
        }
    }

    /// Asks for something, with or without an edit.
    fn ask(&mut self, file: usize, edits: bool) {
        let request: Request<Recording> = match self.random.below(4) {
            0 | 1 => Request::source(file).into(),
            2 => Request::analysis(file).into(),
            _ => Request::artifact(file, self.random.below(2) as u8).into(),
        };
        let request = request.priority(Priority::ALL[self.random.below(4) as usize]);
        let (request, mine) = match edits.then(|| self.text()) {
            Some((text, made)) => (request.text(made), Some(text)),
            None => (request, None),
        };
        self.log.asked += 1;
        let (mut handle, span) = self.record.span(|| self.stages.submit_batch([request]).into_handles().remove(0));
        if let Some(text) = mine {
            self.log.writes.push((file, Write { span, text }));
        }
        if self.random.below(8) == 0 && !GROUP.contains(&file) && !FAULTY.contains(&file) {
            handle.cancel();
        }
        let answer = handle.wait_timeout(WATCHDOG).expect("an answer in time");
        self.answer(file, span.begin, mine, answer);
    }

    fn batch(&mut self) {
        self.text += 1;
        let text = (self.id << 40) | self.text;
        let mut files: Vec<usize> = GROUP.collect();
        files.rotate_left(self.random.below(4) as usize);
        let requests: Vec<_> =
            files.iter().map(|&file| Request::source(file).text(Made::of(text, &self.record.alive))).collect();
        self.log.asked += files.len() as u64;
        let (mut batch, span) = self.record.span(|| self.stages.submit_batch_atomic(requests));
        for (file, answer) in files.into_iter().zip(batch.wait()) {
            self.log.writes.push((file, Write { span, text }));
            self.answer(file, span.begin, Some(text), answer);
        }
    }

    fn read(&mut self) {
        let file = self.random.of(0..FILES);
        let kind = self.random.below(3);
        let (made, span) = self.record.span(|| match kind {
            0 => self.stages.try_get_source(&file),
            1 => self.stages.try_get_analysis(&file),
            _ => self.stages.try_get_artifact(&file, &1),
        });
        if let Some(made) = made {
            self.log.seen.push((file, Seen { span, text: made.0 }));
        }
    }

    fn root(&mut self) {
        let (root, span) = self.record.span(|| self.stages.capture_source_root());
        let texts: [Option<u64>; FILES] = std::array::from_fn(|file| match root.lookup(&file) {
            SourceLookup::Present(made, _) => Some(made.0),
            _ => None,
        });
        for (file, text) in texts.into_iter().enumerate() {
            self.log.seen.extend(text.map(|text| (file, Seen { span, text })));
        }
        let group = std::array::from_fn(|member| texts[member]);
        self.log.groups.push(group);
    }

    fn end(&mut self) {
        let file = self.random.of(FLEETING);
        let stages = self.stages;
        let ((), span) = match self.random.below(3) {
            0 => return assert_ne!(stages.invalidate(&file), Moved::Exhausted),
            1 => self.record.span(|| assert_ne!(stages.close_file(&file), Moved::Exhausted)),
            _ => self.record.span(|| _ = stages.remove(&file)),
        };
        // What is stored stands again.
        self.log.writes.push((file, Write { span, text: 0 }));
    }

    fn go(mut self, events: usize) -> Log {
        while self.log.events() < events {
            match self.random.below(32) {
                0..2 => {
                    let file = self.random.of(FAULTY.start..FLEETING.end);
                    self.ask(file, true);
                }
                2..6 => {
                    let file = self.random.of(0..FILES);
                    self.ask(file, false);
                }
                6 => self.batch(),
                7 => self.end(),
                8 => self.root(),
                _ => self.read(),
            }
        }
        self.log
    }
}

/// Checks a round that is over.
fn check(logs: &[Log], executions: &mut Executions) -> Result<(), String> {
    let (asked, answered) =
        logs.iter().fold((0, 0), |(asked, answered), log| (asked + log.asked, answered + log.answered));
    assert_eq!(asked, answered, "each request is answered once");
    for file in 0..FILES {
        let first = Write { span: Span { begin: 0, end: 0 }, text: 0 };
        let of = |log: &Log| log.writes.iter().filter(|(its, _)| *its == file).map(|(_, write)| *write).collect();
        let mut writes: Vec<Write> = logs.iter().flat_map(|log| -> Vec<Write> { of(log) }).collect();
        writes.push(first);
        let writes = Writes::new(&writes);
        for (_, seen) in logs.iter().flat_map(|log| &log.seen).filter(|(its, _)| *its == file) {
            writes.may_be(*seen).map_err(|what| format!("file {file}: {what}"))?;
        }
    }
    logs.iter().flat_map(|log| &log.groups).try_for_each(|group| check::whole(group))?;
    let most = check::most_at_once(executions.values().flatten().map(|execution| &execution.span));
    assert!(most <= LIMIT as usize, "{most} stages ran at once");
    for (key, executions) in executions {
        // Nobody withdraws from these. What others may withdraw from may run again.
        if GROUP.contains(&key.0) || (FAULTY.contains(&key.0) && key.2 == Stage::Artifact) {
            check::once(executions).map_err(|what| format!("{key:?}: {what}"))?;
        }
    }
    Ok(())
}

/// Records and checks one round.
fn round(seed: u64, events: usize) -> usize {
    let record = Arc::new(Record { random: AtomicU64::new(seed), ..Record::default() });
    let runtime = Runtime::builder().workers(3).build().expect("a runtime of three workers");
    let budget = Budget::for_runtime(UNITS, &runtime);
    let stages = Stages::builder(&runtime, Recording(record.clone())).budget(budget.clone());
    let stages = stages.limit(Pool::Workers, LIMIT).expect("a limit").build();
    let logs: Vec<Log> = std::thread::scope(|scope| {
        let clients: Vec<_> = (1..=THREADS)
            .map(|id| {
                let random = Random(seed ^ (id << 32));
                let client = Client { stages: &stages, record: &record, random, id, text: 0, log: Log::default() };
                scope.spawn(move || client.go(events / THREADS as usize))
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("no client failed")).collect()
    });
    stages.quiesce().expect("nothing waits for this thread");
    assert_eq!(stages.dependency_occupancy(), Default::default(), "no edge is left at rest");
    let used = stages.pool_use(Pool::Workers).expect("it is limited");
    assert_eq!((used.in_flight, used.on_loan, used.waiting), (0, 0, 0), "no permit is left at rest");
    assert_eq!(budget.in_use(), 0, "no unit of the budget is left at rest");
    let counters = stages.counters();
    assert_eq!((counters.live_roots, counters.retained_versions), (0, 0), "no root is left at rest");
    drop(stages);
    assert_eq!(runtime.shutdown_within(WATCHDOG).running, 0);
    assert_eq!(record.alive.load(Ordering::SeqCst), 0, "payloads outlived the scheduler");
    let mut executions = record.executions.lock().unwrap();
    check(&logs, &mut executions).unwrap_or_else(|what| panic!("{what}"));
    logs.iter().map(Log::events).sum::<usize>() + executions.values().map(Vec::len).sum::<usize>()
}

#[test]
fn histories_from_real_threads_may_have_been() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let events = setting("SHARDRUN_HISTORY_EVENTS").unwrap_or(if cfg!(debug_assertions) { 60_000 } else { 5_000_000 });
    let mut seed = setting("SHARDRUN_STRESS_SEED").unwrap_or(0x5eed ^ u64::from(std::process::id()) << 8);
    let mut left = usize::try_from(events).expect("a number of events");
    while left > 0 {
        println!("SHARDRUN_STRESS_SEED={seed}, {left} events left");
        left = left.saturating_sub(round(seed, left.clamp(3_000, ROUND)));
        seed += 1;
    }
}
