//! Random timelines of one executor against a small sequential model of an actor's order rules: after each step the same jobs run,
//! the same are queued, and the same are answered.
//!
//! `SHARDRUN_SEEDS` says how many seeds are run, `SHARDRUN_SEED` runs one of them alone.

#[path = "support/lanes.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod support;

use shardrun::{
    ActorOptions, CancelOutcome, Driver, Handle, LaneError, LaneHandle, LaneKind, LaneOrder, Lanes, LanesConfig,
    Runtime,
};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use support::{Gate, Log};

const STEPS: usize = 25;
const READ_CAP: usize = 2;
const ACTOR_CAP: usize = 3;
const PROMOTE: u64 = 6_000;
const STUCK: u64 = 6_000;
/// What the test may take.
const LIMIT: Duration = Duration::from_secs(20);

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Fenced,
    Queued,
    /// Taken out, and still lying in its lane.
    Dead,
    Running,
    Done,
    Cancelled,
}

#[derive(Clone, Debug)]
struct Job {
    lane: LaneKind,
    later: bool,
    at: u64,
    arrival: u64,
    started: u64,
    fence: Option<usize>,
    is: Where,
}

/// One actor, with nothing process-wide in its way.
struct Model {
    jobs: Vec<Job>,
    arrivals: u64,
    order: LaneOrder,
    now: u64,
    flood: bool,
    reads_left: usize,
}

impl Model {
    fn new(order: LaneOrder) -> Self {
        Self { jobs: Vec::new(), arrivals: 0, order, now: 0, flood: false, reads_left: 0 }
    }

    fn is_over(&self, job: usize) -> bool {
        matches!(self.jobs[job].is, Where::Done | Where::Cancelled | Where::Dead)
    }

    fn enter(&mut self, job: usize) {
        self.arrivals += 1;
        self.jobs[job].arrival = self.arrivals;
        self.jobs[job].is = Where::Queued;
    }

    fn submit(&mut self, lane: LaneKind, later: bool, fence: Option<usize>) {
        let (at, is) = (self.now, Where::Fenced);
        self.jobs.push(Job { lane, later, at, arrival: 0, started: 0, fence, is });
        let job = self.jobs.len() - 1;
        if fence.is_none_or(|fence| self.is_over(fence)) {
            self.enter(job);
        }
    }

    fn running(&self, lane: LaneKind) -> usize {
        self.jobs.iter().filter(|job| job.is == Where::Running && job.lane == lane).count()
    }

    fn shares(lane: LaneKind) -> bool {
        !matches!(lane, LaneKind::Mutating | LaneKind::HeavyInit)
    }

    fn has_readers(&self) -> bool {
        self.jobs.iter().any(|job| job.is == Where::Running && Self::shares(job.lane))
    }

    fn is_free(&self, lane: LaneKind) -> bool {
        let inside = self.running(LaneKind::PureRead) + self.running(LaneKind::SerialLspStatus);
        self.running(LaneKind::Mutating) == 0
            && match lane {
                LaneKind::PureRead => self.running(lane) < READ_CAP && inside < ACTOR_CAP,
                LaneKind::SerialLspStatus => self.running(lane) == 0 && inside < ACTOR_CAP,
                LaneKind::MaintenanceCommit => self.running(lane) == 0,
                LaneKind::Mutating => !self.has_readers(),
                LaneKind::HeavyInit => true,
            }
    }

    /// What lies in a lane, by arrival.
    fn lane(&self, lane: LaneKind, later: bool) -> Vec<usize> {
        let lies = |job: &Job| matches!(job.is, Where::Queued | Where::Dead) && (job.lane, job.later) == (lane, later);
        let mut found: Vec<usize> = (0..self.jobs.len()).filter(|job| lies(&self.jobs[*job])).collect();
        found.sort_by_key(|job| self.jobs[*job].arrival);
        found
    }

    fn head(&self, lane: LaneKind, later: bool) -> Option<usize> {
        self.lane(lane, later).first().copied()
    }

    /// Throws away what is dead at the heads, and lets in whose fence is over.
    fn tidy(&mut self) {
        for job in 0..self.jobs.len() {
            let fence = self.jobs[job].fence;
            if self.jobs[job].is == Where::Fenced && fence.is_some_and(|fence| self.is_over(fence)) {
                self.enter(job);
            }
        }
        for later in [false, true] {
            for lane in LaneKind::ALL {
                for job in self.lane(lane, later) {
                    if self.jobs[job].is != Where::Dead {
                        break;
                    }
                    self.jobs[job].is = Where::Cancelled;
                }
            }
        }
    }

    fn waits(&self, job: usize) -> u64 {
        self.now - self.jobs[job].at
    }

    /// The job that begins next, if any may.
    fn next(&mut self) -> Option<usize> {
        self.tidy();
        if self.running(LaneKind::Mutating) > 0 {
            return None;
        }
        let interactive = match self.order {
            LaneOrder::ReadsFirst => self.reads_first(),
            LaneOrder::Arrival => self.by_arrival(),
        };
        if let Some(job) = interactive {
            let reads = self.lane(LaneKind::PureRead, false).len();
            match self.jobs[job].lane {
                LaneKind::PureRead => self.reads_left = self.reads_left.saturating_sub(1),
                LaneKind::Mutating if reads > 0 => {
                    (self.flood, self.reads_left) = (true, reads.min(4 * READ_CAP));
                }
                _ => {}
            }
            return Some(job);
        }
        if self.head(LaneKind::Mutating, false).is_some() {
            return None;
        }
        let heads = LaneKind::ALL.into_iter().filter_map(|lane| self.head(lane, true));
        let oldest = heads.min_by_key(|job| self.jobs[*job].arrival)?;
        self.is_free(self.jobs[oldest].lane).then_some(oldest)
    }

    fn reads_first(&mut self) -> Option<usize> {
        let writer = self.head(LaneKind::Mutating, false);
        let reads = self.lane(LaneKind::PureRead, false).len();
        if writer.is_none() || reads == 0 {
            self.flood = false;
        }
        let old = writer.is_some_and(|writer| self.waits(writer) >= PROMOTE);
        let due = if self.flood { self.reads_left == 0 && writer.is_some() } else { old };
        let stuck = self
            .jobs
            .iter()
            .any(|job| job.is == Where::Running && Self::shares(job.lane) && self.now - job.started >= STUCK);
        let keeps_out = due && self.has_readers() && !stuck;
        let may = |lane: &LaneKind| self.is_free(*lane) && !(keeps_out && Self::shares(*lane));
        let heads: Vec<usize> =
            LaneKind::ALL.into_iter().filter(may).filter_map(|lane| self.head(lane, false)).collect();
        let first = heads.iter().filter(|job| match self.jobs[**job].lane {
            LaneKind::PureRead => false,
            LaneKind::Mutating => due,
            _ => self.waits(**job) >= PROMOTE,
        });
        let oldest = first.copied().min_by_key(|job| self.jobs[*job].arrival);
        let read = heads.iter().copied().find(|job| self.jobs[*job].lane == LaneKind::PureRead);
        oldest.or(read).or_else(|| heads.iter().copied().min_by_key(|job| self.jobs[*job].arrival))
    }

    fn by_arrival(&self) -> Option<usize> {
        let mut heads: Vec<usize> = LaneKind::ALL.into_iter().filter_map(|lane| self.head(lane, false)).collect();
        heads.sort_by_key(|job| self.jobs[*job].arrival);
        for (place, job) in heads.into_iter().enumerate() {
            let lane = self.jobs[job].lane;
            if lane == LaneKind::Mutating {
                return (place == 0 && self.is_free(lane)).then_some(job);
            }
            if self.is_free(lane) {
                return Some(job);
            }
        }
        None
    }

    fn settle(&mut self) {
        while let Some(job) = self.next() {
            self.jobs[job].is = Where::Running;
            self.jobs[job].started = self.now;
        }
    }

    fn all(&self, is: Where) -> BTreeSet<usize> {
        (0..self.jobs.len()).filter(|job| self.jobs[*job].is == is).collect()
    }
}

/// A drain and the jobs that it waits for.
struct Drain {
    handle: Handle<(), LaneError>,
    before: BTreeSet<usize>,
}

struct Timeline {
    runtime: Runtime,
    lanes: Lanes<u32, Log>,
    model: Model,
    gates: Vec<Gate>,
    handles: Vec<LaneHandle<usize>>,
    drains: Vec<Drain>,
}

impl Timeline {
    fn new(seed: u64, order: LaneOrder) -> Self {
        let runtime = Runtime::builder().driver(Driver::Seeded { seed }).build().unwrap();
        let mut config = LanesConfig::wide(64);
        (config.read_cap, config.actor_cap) = (READ_CAP, ACTOR_CAP);
        (config.interactive_reserve, config.maintenance_cap) = (0, 64);
        (config.heavy_permits, config.heavy_reserve) = (63, 0);
        config.maintenance_age = Duration::from_secs(1_000_000);
        let lanes = Lanes::new(&runtime, config).unwrap();
        assert!(lanes.register_with(0, Log::default(), ActorOptions::new().order(order)).is_ok());
        let model = Model::new(order);
        Self { runtime, lanes, model, gates: Vec::new(), handles: Vec::new(), drains: Vec::new() }
    }

    fn submit(&mut self, random: &mut Random) {
        let (lane, later) = (LaneKind::ALL[random.below(5)], random.below(4) == 0);
        let number = self.handles.len();
        let fence = (number > 0 && random.below(5) == 0).then(|| random.below(number));
        let gate = Gate::default();
        let at = gate.clone();
        let mut job = self.lanes.future(lane, move |_| async move {
            at.await;
            number
        });
        if later {
            job = job.maintenance();
        }
        if let Some(fence) = fence {
            job = job.after(self.handles[fence].ticket().unwrap().clone());
        }
        self.handles.push(self.lanes.submit(&0, job));
        self.gates.push(gate);
        self.model.submit(lane, later, fence);
    }

    /// Ends a job that runs.
    fn end(&mut self, random: &mut Random) {
        let running: Vec<usize> = self.model.all(Where::Running).into_iter().collect();
        if running.is_empty() {
            return;
        }
        let job = running[random.below(running.len())];
        self.gates[job].open();
        self.model.jobs[job].is = Where::Done;
    }

    fn cancel(&mut self, random: &mut Random) {
        if self.handles.is_empty() {
            return;
        }
        let job = random.below(self.handles.len());
        let outcome = self.handles[job].cancel();
        let fenced = self.model.jobs[job].is == Where::Fenced;
        match self.model.jobs[job].is {
            Where::Queued | Where::Fenced => {
                assert_eq!(outcome, CancelOutcome::QueuedRemoved);
                // One that is fenced lies in no lane until its fence is over.
                self.model.jobs[job].is = if fenced { Where::Cancelled } else { Where::Dead };
            }
            Where::Running => {
                assert!(matches!(outcome, CancelOutcome::RunningSignalled | CancelOutcome::NotFound), "{outcome:?}");
            }
            Where::Done => assert!(matches!(outcome, CancelOutcome::Finished | CancelOutcome::NotFound), "{outcome:?}"),
            Where::Dead | Where::Cancelled => assert_eq!(outcome, CancelOutcome::NotFound),
        }
    }

    fn pass(&mut self, random: &mut Random) {
        // Fine steps, so that what time alone sets free begins at its time.
        for _ in 0..=random.below(8) {
            self.runtime.advance(Duration::from_millis(500));
            self.model.now += 500;
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.runtime.drive_all();
        self.model.settle();
    }

    fn step(&mut self, random: &mut Random) {
        match random.below(12) {
            0..=4 => self.submit(random),
            5..=7 => self.end(random),
            8 => self.cancel(random),
            9 => {
                let open = [Where::Queued, Where::Fenced, Where::Running].map(|is| self.model.all(is));
                let before = open.into_iter().flatten().collect();
                self.drains.push(Drain { handle: self.lanes.drain(&0), before });
            }
            _ => self.pass(random),
        }
        self.settle();
        self.check();
    }

    fn check(&mut self) {
        let begun = |handle: &LaneHandle<usize>| handle.ticket().unwrap().status();
        let running: BTreeSet<usize> =
            (0..self.handles.len()).filter(|job| begun(&self.handles[*job]) == shardrun::JobStatus::Running).collect();
        assert_eq!(running, self.model.all(Where::Running));
        for (job, handle) in self.handles.iter().enumerate() {
            let over = matches!(self.model.jobs[job].is, Where::Done | Where::Dead | Where::Cancelled);
            assert_eq!(handle.is_resolved(), over, "job {job} is {:?}", self.model.jobs[job].is);
        }
        let model = &self.model;
        self.drains.retain_mut(|drain| {
            let told = drain.handle.try_get().is_some();
            let over = drain.before.iter().all(|job| model.is_over(*job));
            // A drain that began while another went on may wait for a little more than it was asked for.
            assert!(over || !told, "a drain was told too soon");
            !told
        });
        let counts = self.lanes.actor(&0).unwrap().counts();
        let all = counts.reads + counts.status + counts.heavy + counts.writers + counts.commits;
        assert_eq!(all, running.len());
        let queued = self.model.all(Where::Queued).len() + self.model.all(Where::Fenced).len();
        assert_eq!(counts.interactive_queued + counts.maintenance_queued, queued);
    }

    fn end_all(mut self) {
        while let Some(job) = self.model.all(Where::Running).pop_first() {
            self.gates[job].open();
            self.model.jobs[job].is = Where::Done;
            self.settle();
        }
        self.check();
        assert!(self.drains.is_empty(), "a drain was never told");
        for (number, mut handle) in self.handles.drain(..).enumerate() {
            match handle.try_get().expect("each job is answered") {
                Ok(result) => assert_eq!(result, number),
                Err(error) => assert_eq!(error, LaneError::Cancelled),
            }
        }
        assert!(self.lanes.retire_idle(&0));
        let live = self.lanes.liveness();
        assert_eq!((live.idle, live.phantoms, live.heavy_free), (64, 0, 63));
    }
}

fn timeline(seed: u64) {
    let order = if seed.is_multiple_of(4) { LaneOrder::Arrival } else { LaneOrder::ReadsFirst };
    let mut random = Random(seed);
    let mut timeline = Timeline::new(seed, order);
    for _ in 0..STEPS {
        timeline.step(&mut random);
    }
    timeline.end_all();
}

#[test]
fn random_timelines_agree_with_the_model() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("SHARDRUN_SEED") {
        return timeline(seed);
    }
    let begun = Instant::now();
    for seed in 0..number("SHARDRUN_SEEDS").unwrap_or(10_000) {
        if begun.elapsed() > LIMIT {
            eprintln!("{seed} seeds were run in {LIMIT:?}");
            break;
        }
        if let Err(payload) = std::panic::catch_unwind(|| timeline(seed)) {
            eprintln!("SHARDRUN_SEED={seed}");
            std::panic::resume_unwind(payload);
        }
    }
}
