//! Random operations on seeded runtimes against a small sequential model: what may be answered, what may be read, what is left.
//!
//! `SHARDRUN_SEEDS` says how many seeds are run, `SHARDRUN_SEED` runs one of them alone.

#[path = "seeded/blocks.rs"]
mod blocks;

use blocks::Blocks;
use shardrun::{
    BatchHandle, Dependencies, Driver, Host, Moved, Pool, Priority, Registered, Removed, Request, Runtime, Stage,
    StageCx, StageError, StageHandle, StageValue, Stages,
};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

const FILES: usize = 4;
const OPERATIONS: usize = 60;

/// The numbers of one timeline.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A payload that says from which text it was made, and is counted while it is alive.
struct Made {
    text: u64,
    alive: Arc<AtomicI64>,
}

impl Made {
    fn of(text: u64, alive: &Arc<AtomicI64>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self { text, alive: alive.clone() }
    }
}

impl Clone for Made {
    fn clone(&self) -> Self {
        Self::of(self.text, &self.alive)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("refused")
    }
}

impl std::error::Error for Refused {}

#[derive(Default)]
struct State {
    stored: [u64; FILES],
    /// Files and generations of which some execution failed or panicked.
    failed: HashSet<(usize, u64)>,
    /// How often each stage of a generation was begun, by profile.
    begun: HashMap<(usize, u64, Stage, u8), usize>,
    blocks: Blocks,
}

/// The host: fails and panics as its own random numbers say.
struct Faulty {
    state: Arc<Mutex<State>>,
    random: Mutex<Random>,
    alive: Arc<AtomicI64>,
    faults: usize,
}

impl Faulty {
    fn enter(&self, cx: &StageCx<'_, Self>, profile: u8) -> Result<(), Refused> {
        let key = (*cx.file(), cx.generation());
        let dice = self.random.lock().unwrap().below(100);
        let mut state = self.state.lock().unwrap();
        if cx.stage() == Stage::Artifact {
            state.blocks.check(key);
        }
        *state.begun.entry((key.0, key.1, cx.stage(), profile)).or_default() += 1;
        if dice < self.faults {
            state.failed.insert(key);
            drop(state);
            assert!(dice.is_multiple_of(2), "asked for");
            return Err(Refused);
        }
        drop(state);
        // Now and then a stage moves its own file or asks for another one.
        if dice > 96
            && let Some(stages) = cx.scheduler()
        {
            stages.submit_request(Request::source((key.0 + 1) % FILES)).detach();
        }
        Ok(())
    }
}

impl Host for Faulty {
    type File = usize;
    type Text = Made;
    type Source = Made;
    type Analysis = Made;
    type Artifact = Made;
    type Profile = u8;
    type Error = Refused;

    fn load(&self, file: &usize) -> Result<Option<Made>, Refused> {
        let text = self.state.lock().unwrap().stored[*file];
        Ok((text > 0).then(|| Made::of(text, &self.alive)))
    }

    fn source(&self, cx: &StageCx<'_, Self>, text: Made) -> Result<Made, Refused> {
        self.enter(cx, 0)?;
        Ok(text)
    }

    fn dependencies(&self, cx: &StageCx<'_, Self>, _: &Made) -> Dependencies<usize> {
        let Some(stages) = cx.scheduler() else { return Dependencies::none() };
        let there = |file| stages.try_get_analysis(&file).is_some();
        let found = self.state.lock().unwrap().blocks.found((*cx.file(), cx.generation()), there);
        Dependencies::none().with(found.0).with_blockers(found.1)
    }

    fn analysis(&self, cx: &StageCx<'_, Self>, source: &Made) -> Result<Made, Refused> {
        self.enter(cx, 0)?;
        self.state.lock().unwrap().blocks.analysed(*cx.file());
        Ok(source.clone())
    }

    fn artifact(&self, cx: &StageCx<'_, Self>, profile: &u8, source: &Made, it: &Made) -> Result<Made, Refused> {
        self.enter(cx, *profile)?;
        assert_eq!(source.text, it.text, "an Artifact of two generations");
        Ok(it.clone())
    }

    fn source_pool(&self) -> Pool {
        if self.faults.is_multiple_of(2) { Pool::Workers } else { Pool::Io }
    }
}

/// What the model knows of a file.
#[derive(Clone, Default)]
struct File {
    /// The last generation of each life that has ended.
    ended: Vec<u64>,
    generation: u64,
    overlay: Option<u64>,
    /// The texts from which each generation of each life may have been made.
    texts: HashMap<(usize, u64), HashSet<u64>>,
}

impl File {
    /// Which life of the file in which generation stands.
    fn now(&self) -> (usize, u64) {
        (self.ended.len(), self.generation)
    }

    fn moves_on(&mut self, overlay: Option<u64>, stored: u64) {
        self.generation += 1;
        self.overlay = overlay;
        let (life, generation) = self.now();
        self.texts.insert((life, generation), HashSet::from([overlay.unwrap_or(stored)]));
        if generation == 1 && overlay.is_none() {
            let before = self.texts.remove(&(life, 0)).unwrap_or_default();
            self.texts.entry((life, 1)).or_default().extend(before);
        }
    }

    /// Its life ends. Whether there was one.
    fn ends(&mut self) -> bool {
        let lived = self.generation > 0;
        if lived {
            self.ended.push(self.generation);
            (self.generation, self.overlay) = (0, None);
        }
        lived
    }

    /// The newest generation that a life had, or has.
    fn newest(&self, life: usize) -> u64 {
        self.ended.get(life).copied().unwrap_or(self.generation)
    }
}

/// A request that is under way.
struct Asked {
    handle: StageHandle<Faulty>,
    file: usize,
    life: usize,
    generation: u64,
    cancelled: bool,
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
    /// Files and generations of which some request was cancelled.
    cancelled: HashSet<(usize, u64)>,
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
    fn request(&mut self, file: usize, edits: bool) -> Request<Faulty> {
        self.catch_up(file);
        let stored = self.stored(file);
        let text = edits.then(|| self.text());
        let rehomes = self.random.chance(8);
        if text.is_some() || rehomes {
            let overlay = text.or(self.files[file].overlay);
            self.files[file].moves_on(overlay, stored);
        }
        let request = self.dress(file, text);
        if rehomes { request.rehome() } else { request }
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

    fn note(&mut self, file: usize, handle: StageHandle<Faulty>) {
        let (life, generation) = self.files[file].now();
        self.asked.push(Asked { handle, file, life, generation, cancelled: false });
    }

    fn note_batch(&mut self, files: Vec<usize>, batch: BatchHandle<Faulty>) {
        for (file, handle) in files.into_iter().zip(batch.into_handles()) {
            self.note(file, handle);
        }
    }

    fn submit(&mut self, edits: bool) {
        let file = self.random.below(FILES);
        let request = self.request(file, edits);
        self.first(file);
        let batch = self.stages().submit_batch([request]);
        self.note_batch(vec![file], batch);
    }

    fn submit_batch(&mut self) {
        let edits = self.random.chance(60);
        let mut files: Vec<usize> = (0..FILES).filter(|_| self.random.chance(60)).collect();
        let turns = self.random.below(FILES);
        if !files.is_empty() {
            let turns = turns % files.len();
            files.rotate_left(turns);
        }
        let requests: Vec<_> = files.iter().map(|&file| self.request(file, edits)).collect();
        files.iter().for_each(|&file| self.first(file));
        let batch = self.stages().submit_batch_atomic(requests);
        self.note_batch(files, batch);
    }

    fn remove(&mut self) {
        let file = self.random.below(FILES);
        self.catch_up(file);
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
            25..38 => self.submit(true),
            38..48 => self.submit_batch(),
            48..53 => self.invalidate(false),
            53..56 => self.invalidate(true),
            56..60 => self.remove(),
            60..61 => self.reset(),
            61..64 => self.cancel(),
            64..66 if !self.asked.is_empty() => {
                let at = self.random.below(self.asked.len());
                drop(self.asked.swap_remove(at));
            }
            66..71 => {
                let file = self.random.below(FILES);
                self.store(file);
            }
            71 => {
                self.state.lock().unwrap().blocks.loose = true;
                let file = self.random.below(FILES);
                self.answer(file);
            }
            72..74 => self.register(),
            _ => {
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
            let fits = |made: Option<Arc<Made>>| {
                assert!(made.is_none_or(|made| texts.unwrap().contains(&made.text)), "an old value was read");
            };
            fits(self.stages().try_get_source(&file));
            fits(self.stages().try_get_analysis(&file));
            fits(self.stages().try_get_artifact(&file, &1));
            let overlay = self.stages().overlay(&file).map(|text| text.text);
            assert_eq!(overlay, self.files[file].overlay);
            self.look_at_dependents(file);
        }
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
        let Some(answer) = asked.handle.try_get() else { return Some(asked) };
        let file = &self.files[asked.file];
        let key = (asked.file, asked.generation);
        let state = self.state.lock().unwrap();
        match answer {
            Ok(StageValue::Source(made) | StageValue::Analysis(made) | StageValue::Artifact(made)) => {
                let texts = &file.texts[&(asked.life, asked.generation)];
                assert!(texts.contains(&made.text), "a value of another generation or life");
            }
            Err(StageError::Superseded) => {
                assert!(file.newest(asked.life) > asked.generation, "nothing superseded it");
            }
            Err(StageError::Cancelled) => assert!(asked.cancelled, "nobody cancelled it"),
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

fn run(seed: u64) {
    let mut timeline = Timeline::new(seed);
    for _ in 0..OPERATIONS {
        timeline.step();
    }
    timeline.end();
}

#[test]
fn random_timelines_agree_with_the_model() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    if let Some(seed) = number("SHARDRUN_SEED") {
        return run(seed);
    }
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let seeds = number("SHARDRUN_SEEDS").unwrap_or(if cfg!(debug_assertions) { 500 } else { 10_000 });
    let failing = (0..seeds).find(|&seed| std::panic::catch_unwind(|| run(seed)).is_err());
    std::panic::set_hook(quiet);
    assert!(failing.is_none(), "run it again alone: SHARDRUN_SEED={}", failing.unwrap_or_default());
}
