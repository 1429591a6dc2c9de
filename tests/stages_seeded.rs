//! Random operations on seeded runtimes against a sequential model: what may be answered, what may be read, what is left.
//!
//! `SHARDRUN_SEEDS` says how many seeds are run, `SHARDRUN_SEED` runs one of them alone. What fails is shrunk to the fewest
//! operations that still fail, and saved; `SHARDRUN_TIMELINE` runs such a file again and prints what its operations are.

#[path = "seeded/blocks.rs"]
mod blocks;
#[path = "seeded/host.rs"]
mod host;
#[path = "seeded/model.rs"]
mod model;
#[path = "seeded/outside.rs"]
mod outside;
#[path = "seeded/random.rs"]
mod random;
#[path = "seeded/replay.rs"]
mod replay;

use host::{Faulty, Made, State};
use model::File;
use outside::{Outside, Terms};
use random::Random;
use replay::{Part, tell};
use shardrun::{
    BatchHandle, Dependencies, Driver, Moved, Priority, Registered, Removed, Request, Runtime, StageError, StageHandle,
    StageValue, Stages,
};
use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const FILES: usize = 4;
const OPERATIONS: usize = 500;

/// A file and its generation.
type Key = (usize, u64);

/// A request that is under way.
struct Asked {
    handle: StageHandle<Faulty>,
    file: usize,
    life: usize,
    generation: u64,
    cancelled: bool,
    terms: Terms,
    /// It was over before it was submitted, and changed nothing.
    in_vain: bool,
}

/// One timeline.
struct Timeline {
    random: Random,
    runtime: Runtime,
    stages: Option<Stages<Faulty>>,
    state: Arc<Mutex<State>>,
    alive: Arc<AtomicI64>,
    files: [File; FILES],
    asked: Vec<Asked>,
    texts: u64,
    /// Files and generations of which something may run again: a request was cancelled, an Artifact evicted.
    cancelled: HashSet<Key>,
    outside: Outside,
    /// The host never changes its mind about dependencies, and nothing of them comes from outside.
    calm: bool,
    over: bool,
}

impl Timeline {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let state = Arc::new(Mutex::new(State::default()));
        let alive = Arc::new(AtomicI64::new(0));
        let runtime = Runtime::builder().driver(Driver::Seeded { seed }).build().unwrap();
        let faults = if random.chance(50) { 0 } else { random.below(30) };
        let host = Faulty { state: state.clone(), random: Mutex::new(Random(!seed)), alive: alive.clone(), faults };
        let stages = Stages::builder(&runtime, host).seed(seed).build();
        let mut timeline = Self {
            random,
            runtime,
            stages: Some(stages),
            state,
            alive,
            files: Default::default(),
            asked: Vec::new(),
            texts: 0,
            cancelled: HashSet::new(),
            outside: Outside::default(),
            calm: seed.is_multiple_of(3),
            over: false,
        };
        (0..FILES - 1).for_each(|file| timeline.store(file));
        if timeline.random.chance(70) {
            (0..FILES).for_each(|file| timeline.answer(file));
        }
        timeline
    }

    /// Some of the files.
    fn some(&mut self, percent: usize) -> Vec<usize> {
        (0..FILES).filter(|_| self.random.chance(percent)).collect()
    }

    /// From now on the host names other dependencies of a file.
    fn answer(&mut self, file: usize) {
        let answer = (self.some(20), self.some(30));
        self.state.lock().unwrap().blocks.answers.insert(file, answer);
    }

    fn register(&mut self) {
        let (file, blockers) = (self.random.below(FILES), self.some(30));
        tell(|| format!("register {blockers:?} for {file}"));
        let named = Dependencies::none().with_blockers(blockers.iter().copied());
        let registered = self.stages().register_resolved_deps(&file, named);
        assert_ne!(registered, Registered::Refused);
        blockers.iter().chain([&file]).for_each(|&file| self.catch_up(file));
        let at = (file, self.files[file].generation);
        let stages = self.stages.clone().expect("it is there until the end");
        let there = |file| stages.try_get_analysis(&file).is_some();
        let now = registered == Registered::Now;
        assert_eq!(now, stages.try_get_source(&file).is_some(), "it counts once Source is there");
        self.state.lock().unwrap().blocks.registered(at, now, &blockers, there);
    }

    fn stages(&self) -> &Stages<Faulty> {
        self.stages.as_ref().expect("it is there until the end")
    }

    fn text(&mut self) -> u64 {
        self.texts += 1;
        self.texts
    }

    fn stored(&self, file: usize) -> u64 {
        self.state.lock().unwrap().stored[file]
    }

    fn store(&mut self, file: usize) {
        let text = self.text();
        self.state.lock().unwrap().stored[file] = text;
        let now = self.files[file].now();
        if self.files[file].overlay.is_none() {
            self.files[file].texts.entry(now).or_default().insert(text);
        }
    }

    /// A request, with or without an edit; the model moves on before it is submitted.
    fn request(&mut self, file: usize, edits: bool) -> (Request<Faulty>, Terms) {
        self.catch_up(file);
        let stored = self.stored(file);
        let text = edits.then(|| self.text());
        let rehomes = self.random.chance(8);
        let terms = self.terms();
        let in_vain = terms.cancelled() || terms.late(self.runtime.now());
        if !in_vain && (text.is_some() || rehomes) {
            let overlay = text.or(self.files[file].overlay);
            self.files[file].moves_on(overlay, stored);
        }
        let mut request = terms.put_on(self.dress(file, text));
        tell(|| {
            let limits = (terms.token.is_some(), terms.deadline);
            let more = if rehomes { ", re-homes it" } else { "" };
            let vain = if in_vain { ", in vain" } else { "" };
            format!("{request:?} with {text:?}{more}{vain}, token and deadline {limits:?}")
        });
        if self.random.chance(4) {
            let panics = self.random.chance(50);
            request = request.on_join(move |_| assert!(!panics, "asked for"));
        }
        (if rehomes { request.rehome() } else { request }, terms)
    }

    fn dress(&mut self, file: usize, text: Option<u64>) -> Request<Faulty> {
        let request: Request<Faulty> = match self.random.below(3) {
            0 => Request::source(file).into(),
            1 => Request::analysis(file).into(),
            _ => Request::artifact(file, self.random.below(2) as u8).into(),
        };
        let request = request.priority(Priority::ALL[self.random.below(4)]);
        match text {
            Some(text) => request.text(Made::of(text, &self.alive)),
            None => request,
        }
    }

    /// A first request brings a file to its first generation.
    fn first(&mut self, file: usize) {
        if self.files[file].generation == 0 {
            let stored = self.stored(file);
            self.files[file].moves_on(None, stored);
        }
    }

    /// Some stage may have been the first to ask for the file.
    fn catch_up(&mut self, file: usize) {
        if self.stages().has_file(&file) {
            self.first(file);
        }
    }

    fn note(&mut self, file: usize, terms: Terms, handle: StageHandle<Faulty>) {
        let (life, generation) = self.files[file].now();
        let in_vain = terms.cancelled() || terms.late(self.runtime.now());
        if terms.token.is_some() || terms.deadline.is_some() {
            self.outside.terms.push((terms.clone(), (file, generation)));
        }
        self.asked.push(Asked { handle, file, life, generation, cancelled: false, terms, in_vain });
    }

    fn note_batch(&mut self, files: Vec<(usize, Terms)>, batch: BatchHandle<Faulty>) {
        for ((file, terms), handle) in files.into_iter().zip(batch.into_handles()) {
            self.note(file, terms, handle);
        }
    }

    /// A first request brings its file to its first generation, unless it is over before it is submitted.
    fn first_unless(&mut self, file: usize, terms: &Terms) {
        if !terms.cancelled() && !terms.late(self.runtime.now()) {
            self.first(file);
        }
    }

    fn submit(&mut self, edits: bool) {
        let file = self.random.below(FILES);
        let (request, terms) = self.request(file, edits);
        self.first_unless(file, &terms);
        let batch = self.stages().submit_batch([request]);
        self.note_batch(vec![(file, terms)], batch);
    }

    fn submit_batch(&mut self) {
        let edits = self.random.chance(60);
        let mut files: Vec<usize> = (0..FILES).filter(|_| self.random.chance(60)).collect();
        let turns = self.random.below(FILES);
        if !files.is_empty() {
            let turns = turns % files.len();
            files.rotate_left(turns);
        }
        tell(|| format!("an atomic batch of {files:?}:"));
        let (requests, terms): (Vec<_>, Vec<_>) = files.iter().map(|&file| self.request(file, edits)).unzip();
        let files: Vec<_> = files.into_iter().zip(terms).collect();
        files.iter().for_each(|(file, terms)| self.first_unless(*file, terms));
        let batch = self.stages().submit_batch_atomic(requests);
        self.note_batch(files, batch);
    }

    fn remove(&mut self) {
        let file = self.random.below(FILES);
        self.catch_up(file);
        tell(|| format!("remove {file}"));
        let removed = self.stages().remove(&file);
        assert_eq!(removed == Removed::Gone, self.files[file].ends());
        if removed == Removed::Gone {
            self.state.lock().unwrap().blocks.gone(file);
        }
    }

    /// A reset, or a stop and a restart.
    fn reset(&mut self) {
        (0..FILES).for_each(|file| self.catch_up(file));
        let stops = self.random.chance(50);
        tell(|| if stops { "stop and restart".into() } else { "reset".into() });
        let many = if stops { self.stages().stop() } else { self.stages().reset() };
        assert_eq!(many, self.files.iter_mut().map(File::ends).filter(|lived| *lived).count());
        (0..FILES).for_each(|file| self.state.lock().unwrap().blocks.gone(file));
        if stops {
            let file = self.random.below(FILES);
            let edits = self.random.chance(50).then_some(1);
            let request = self.dress(file, edits);
            let refused = self.stages().submit_batch([request]).into_handles().remove(0);
            assert!(matches!(refused.wait(), Err(StageError::Shutdown)));
            assert_eq!(self.stages().restart(), 0);
        }
    }

    fn invalidate(&mut self, closes: bool) {
        let file = self.random.below(FILES);
        self.catch_up(file);
        let known = self.files[file].generation > 0;
        tell(|| format!("{} {file}", if closes { "close" } else { "invalidate or re-home" }));
        let moved = match closes {
            true => self.stages().close_file(&file),
            false if self.random.chance(30) => self.stages().rehome(&file),
            false => self.stages().invalidate(&file),
        };
        assert_eq!(moved, if known { Moved::On } else { Moved::Unknown });
        if known {
            let (overlay, stored) = (self.files[file].overlay.filter(|_| !closes), self.stored(file));
            self.files[file].moves_on(overlay, stored);
        }
    }

    fn cancel(&mut self) {
        if self.asked.is_empty() {
            return;
        }
        let at = self.random.below(self.asked.len());
        let resolved = self.asked[at].handle.is_resolved();
        tell(|| format!("cancel a request of {}", self.asked[at].file));
        self.asked[at].handle.cancel();
        self.cancelled.insert((self.asked[at].file, self.asked[at].generation));
        self.asked[at].cancelled |= !resolved;
        if self.random.chance(50) {
            self.asked.swap_remove(at);
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..25 => self.submit(false),
            25..36 => self.submit(true),
            36..45 => self.submit_batch(),
            45..50 => self.invalidate(false),
            50..53 => self.invalidate(true),
            53..57 => self.remove(),
            57..58 => self.reset(),
            58..61 => self.cancel(),
            61..63 if !self.asked.is_empty() => {
                let at = self.random.below(self.asked.len());
                tell(|| format!("drop a handle of {}", self.asked[at].file));
                drop(self.asked.swap_remove(at));
            }
            63..67 => {
                let file = self.random.below(FILES);
                self.store(file);
                tell(|| format!("store {} for {file}", self.stored(file)));
            }
            67..69 => self.withdraw(),
            69..72 => self.root(),
            72..75 if !self.calm => self.publish(),
            75 if !self.calm => {
                self.state.lock().unwrap().blocks.loose = true;
                let file = self.random.below(FILES);
                self.answer(file);
                tell(|| format!("other dependencies of {file}"));
            }
            76..78 if !self.calm => self.register(),
            78 if self.random.chance(20) => {
                tell(|| "quiesce".into());
                assert_eq!(self.stages().quiesce(), Ok(()));
                self.look();
                assert!(self.asked.is_empty(), "{} requests were not answered", self.asked.len());
            }
            _ => {
                tell(|| "drive".into());
                for _ in 0..=self.random.below(4) {
                    self.runtime.drive_one();
                }
                self.look();
            }
        }
    }

    /// Checks what can be read, and the answers that are there.
    fn look(&mut self) {
        for file in 0..FILES {
            self.catch_up(file);
            let generation = self.stages().generation(&file);
            assert_eq!(generation.unwrap_or(0), self.files[file].generation);
            let texts = self.files[file].texts.get(&self.files[file].now());
            let of = self.files[file].now();
            let fits = |made: Option<Arc<Made>>, outside: bool| {
                let fit = |made: Arc<Made>| {
                    texts.is_some_and(|texts| texts.contains(&made.text))
                        || outside && self.outside.made(file, of, made.text)
                };
                assert!(made.is_none_or(fit), "an old value was read");
            };
            fits(self.stages().try_get_source(&file), false);
            fits(self.stages().try_get_analysis(&file), false);
            fits(self.stages().try_get_artifact(&file, &1), true);
            let overlay = self.stages().overlay(&file).map(|text| text.text);
            assert_eq!(overlay, self.files[file].overlay);
            self.look_at_last_good(file);
            self.look_at_dependents(file);
        }
        self.look_outside();
        let asked = std::mem::take(&mut self.asked);
        self.asked = asked.into_iter().filter_map(|asked| self.check(asked)).collect();
    }

    /// Checks who is said to depend on a file.
    fn look_at_dependents(&self, file: usize) {
        let told = self.stages().dependents(&file);
        for owner in 0..FILES {
            let Some(generation) = self.stages().generation(&owner) else { continue };
            let (may, must) = self.state.lock().unwrap().blocks.depends((owner, generation), file);
            let must = must && self.stages().try_get_source(&owner).is_some();
            let told = told.contains(&owner);
            assert!(!told || may, "{owner} does not depend on {file}");
            assert!(told || !must, "{owner} depends on {file} at {generation}");
        }
    }

    /// Checks one answer, if it is there.
    fn check(&self, mut asked: Asked) -> Option<Asked> {
        let Some(answer) = asked.handle.try_get() else {
            assert!(!asked.in_vain, "it was over before it was submitted");
            assert!(!asked.terms.cancelled(), "its token was cancelled");
            return Some(asked);
        };
        let file = &self.files[asked.file];
        let key = (asked.file, asked.generation);
        let state = self.state.lock().unwrap();
        match answer {
            Ok(value) => {
                let of = (asked.life, asked.generation);
                let (StageValue::Source(made) | StageValue::Analysis(made) | StageValue::Artifact(made)) = &value;
                let outside = matches!(value, StageValue::Artifact(_)) && self.outside.made(key.0, of, made.text);
                assert!(outside || file.texts[&of].contains(&made.text), "a value of another generation or life");
                assert!(!asked.in_vain, "it was over before it was submitted");
            }
            Err(StageError::Superseded) => {
                assert!(file.newest(asked.life) > asked.generation, "nothing superseded it");
            }
            Err(StageError::Cancelled) => assert!(asked.cancelled || asked.terms.cancelled(), "nobody cancelled it"),
            Err(StageError::DeadlinePassed) => assert!(asked.terms.late(self.runtime.now()), "it was in time"),
            Err(StageError::Shutdown) => assert!(
                self.over || (asked.life < file.ended.len() && file.newest(asked.life) == asked.generation),
                "nothing was shut down"
            ),
            Err(error) if error.is_not_found() => assert_eq!(asked.file, FILES - 1),
            Err(StageError::DependencyFailed(failure)) => {
                let cause = failure.cause().failure().expect("only failures are passed on");
                let dependency = (*failure.file(), cause.generation());
                assert_eq!(cause.file(), failure.file());
                assert!(failure.cause().is_not_found() || state.failed.contains(&dependency), "nothing failed");
                assert!(state.blocks.may_fail(key.0, dependency.0), "it does not depend on that");
            }
            Err(StageError::Failed(failure)) => {
                assert_eq!((*failure.file(), failure.generation()), key, "a failure of something else");
                assert!(state.failed.contains(&key), "nothing failed");
            }
            Err(other) => panic!("an unexpected answer: {other}"),
        }
        None
    }

    fn end(mut self) {
        match self.random.below(3) {
            0 => {
                assert_eq!(self.stages().quiesce(), Ok(()));
                self.look();
                self.runtime.drive_all();
                assert!(self.asked.is_empty(), "{} requests were never answered", self.asked.len());
                assert_eq!(self.runtime.counters().queued, [0; 4]);
                let occupied = self.stages().dependency_occupancy();
                assert_eq!((occupied.edges, occupied.entries, occupied.demanded), (0, 0, 0), "{occupied:?}");
                self.outside.forget_roots();
                let counters = self.stages().counters();
                assert_eq!((counters.live_roots, counters.retained_versions), (0, 0), "roots have left something");
                self.nothing_ran_twice();
                self.stages = None;
            }
            1 => {
                self.over = true;
                self.stages = None;
            }
            _ => {
                self.over = true;
                self.runtime.shutdown();
            }
        }
        let asked = std::mem::take(&mut self.asked);
        let left = asked.into_iter().filter_map(|asked| self.check(asked)).count();
        assert_eq!(left, 0, "{left} requests outlived the scheduler");
        self.runtime.drive_all();
        self.stages = None;
        self.look_outside();
        self.outside.forget_roots();
        assert_eq!(self.alive.load(Ordering::Relaxed), 0, "payloads outlived the scheduler");
    }

    /// A stage runs once a generation of each life, unless it failed or was cancelled.
    fn nothing_ran_twice(&self) {
        let state = self.state.lock().unwrap();
        // An owner that withdraws may cancel what it alone has asked for; whoever asks next has it run again.
        for (&(file, generation, stage, profile), &times) in state.begun.iter().filter(|_| !state.blocks.loose) {
            let again = state.failed.contains(&(file, generation)) || self.cancelled.contains(&(file, generation));
            let lives = 1 + self.files[file].ended.len();
            assert!(times <= lives || again, "{stage} {profile} of {file} at {generation} ran {times} times");
        }
    }
}

fn run(part: &Part) {
    let mut timeline = Timeline::new(part.seed);
    let number = |at: usize| Random(part.seed ^ Random(at as u64).next());
    for &at in &part.operations {
        timeline.random = number(at);
        timeline.step();
    }
    timeline.random = number(OPERATIONS);
    timeline.end();
}

fn fails(part: &Part) -> bool {
    std::panic::catch_unwind(|| run(part)).is_err()
}

/// The lowest of the seeds that fails. Two threads share them.
fn first_failing(seeds: u64) -> Option<u64> {
    let (next, failing) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.min(failing.load(Ordering::Relaxed)) {
                        return;
                    }
                    if fails(&Part::all(seed, OPERATIONS)) {
                        failing.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    Some(failing.into_inner()).filter(|&seed| seed < u64::MAX)
}

#[test]
fn random_timelines_agree_with_the_model() {
    let variable = |name: &str| std::env::var(name).ok();
    let number = |name: &str| variable(name).and_then(|value| value.parse::<u64>().ok());
    if let Some(file) = variable("SHARDRUN_TIMELINE") {
        let part = Part::read(file.as_ref());
        replay::told(|| run(&part)).iter().for_each(|line| println!("{line}"));
        return;
    }
    if let Some(seed) = number("SHARDRUN_SEED") {
        return run(&Part::all(seed, OPERATIONS));
    }
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let seeds = number("SHARDRUN_SEEDS").unwrap_or(if cfg!(debug_assertions) { 60 } else { 10_000 });
    let saved = first_failing(seeds).map(|seed| {
        let least = Part::all(seed, OPERATIONS).shrink(fails);
        let told = replay::told(|| _ = fails(&least));
        (least.save(&told), least)
    });
    std::panic::set_hook(quiet);
    if let Some((file, part)) = saved {
        let file = file.display();
        println!("run it again: SHARDRUN_TIMELINE={file} cargo test --release --test stages_seeded random_timelines");
        run(&part);
        panic!("seed {} has failed and does not fail again: {file}", part.seed);
    }
}
