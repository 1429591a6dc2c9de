//! What the end of an Analysis costs for each Artifact of another file that waits for it, and nothing of how they came to wait.
//! It does not know the edges: it takes the time between what the host is called for before and after.

use crate::Effort;
use crate::pools::{Place, Pools};
use serde_json::Value;
use shardrun::{Dependencies, Host, Pool, Registered, Request, Runtime, StageCx, Stages};
use shardrun_perf::latch::now;
use shardrun_perf::series::{Sample, Series, median};
use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const EDGE: &str = "edge ns";
/// What a growth may be at most to count as linear.
const LINEAR: f64 = 1.3;
/// Files from here on are waited for, the ones below wait.
const BLOCKERS: u64 = 1 << 20;
const REPEATS: usize = 8;

/// A host that notes when blockers' Analyses end, when the next one begins, and when the first Artifact after them does.
#[derive(Default)]
struct Clocked {
    /// Blockers go on to their Analysis.
    open: AtomicBool,
    /// When the last Analysis of a blocker returned.
    returned: AtomicU64,
    /// Between what returned and what began next, in all.
    between: AtomicU64,
}

impl Clocked {
    /// Something begins on the only worker.
    fn begin(&self) {
        let returned = self.returned.swap(0, Ordering::Relaxed);
        if returned > 0 {
            self.between.fetch_add(now() - returned, Ordering::Relaxed);
        }
    }
}

impl Host for Clocked {
    type File = u64;
    type Text = ();
    type Source = ();
    type Analysis = ();
    type Artifact = ();
    type Profile = u32;
    type Error = Infallible;

    fn load(&self, _: &u64) -> Result<Option<()>, Infallible> {
        Ok(Some(()))
    }

    fn source(&self, _: &StageCx<'_, Self>, (): ()) -> Result<(), Infallible> {
        Ok(())
    }

    fn analysis(&self, cx: &StageCx<'_, Self>, (): &()) -> Result<(), Infallible> {
        if *cx.file() >= BLOCKERS {
            self.begin();
            while !self.open.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            self.returned.store(now(), Ordering::Relaxed);
        }
        Ok(())
    }

    fn artifact(&self, _: &StageCx<'_, Self>, _: &u32, (): &(), (): &()) -> Result<(), Infallible> {
        self.begin();
        Ok(())
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

/// Nanoseconds per edge, as the median of a few rounds in each of which every owner waits for every blocker.
fn answered(stages: &Stages<Clocked>, owners: u64, blockers: u64) -> f64 {
    let clock = stages.host();
    for owner in 0..owners {
        black_box(stages.submit_request(Request::analysis(owner)).wait()).expect("nothing fails");
    }
    let round = |profile: usize| {
        clock.open.store(false, Ordering::Release);
        for blocker in BLOCKERS..BLOCKERS + blockers {
            stages.invalidate(&blocker);
            // So that nothing but Analyses is run once they go on.
            black_box(stages.submit_request(Request::source(blocker)).wait()).expect("nothing fails");
        }
        for owner in 0..owners {
            let named = Dependencies::none().with_blockers(BLOCKERS..BLOCKERS + blockers);
            assert_eq!(stages.register_resolved_deps(&owner, named), Registered::Now);
        }
        let asked = |owner| stages.submit_request(Request::artifact(owner, profile as u32));
        let handles: Vec<_> = (0..owners).map(asked).collect();
        clock.between.store(0, Ordering::Relaxed);
        clock.returned.store(0, Ordering::Relaxed);
        clock.open.store(true, Ordering::Release);
        handles.into_iter().for_each(|handle| drop(black_box(handle.wait()).expect("nothing fails")));
        clock.between.load(Ordering::Relaxed) as f64 / (owners * blockers) as f64
    };
    median(&(0..REPEATS).map(round).collect::<Vec<_>>())
}

/// The same bare: the dependents of each blocker are counted down, and those that are down to zero go into a deque. The client sets
/// the counts, and a worker counts down, as above.
fn bare(runtime: &Runtime, owners: u64, blockers: u64) -> f64 {
    let waits: Arc<Vec<_>> = Arc::new((0..owners).map(|_| Box::new(AtomicU64::new(0))).collect());
    let lists: Arc<Vec<Vec<u32>>> = Arc::new((0..blockers).map(|_| (0..owners as u32).collect()).collect());
    let round = |_| {
        waits.iter().for_each(|waits| waits.store(blockers, Ordering::Relaxed));
        let (waits, lists) = (waits.clone(), lists.clone());
        let counted = runtime.spawn(move || {
            let ready = crossbeam_deque::Worker::new_fifo();
            let begun = now();
            for list in &*lists {
                for &owner in list {
                    if waits[owner as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
                        ready.push(owner);
                    }
                }
            }
            (now() - begun, std::iter::from_fn(|| ready.pop()).count() as u64)
        });
        let (took, ready) = counted.wait().expect("nothing fails");
        assert_eq!(ready, owners);
        took as f64 / (owners * blockers) as f64
    };
    median(&(0..REPEATS).map(round).collect::<Vec<_>>())
}

/// An owner as an engine has it that is written by hand and keeps the same promises: it may move on and withdraw what it waits for, and
/// be cancelled while it becomes ready, so that one of the two ends it.
#[derive(Default)]
struct Owner {
    waits: AtomicU64,
    is_ready: AtomicBool,
}

/// One that waits: held by the list of who is waited for, and by the owner.
struct Waiting {
    is_over: AtomicBool,
    owner: Arc<Owner>,
}

/// As `bare`, with owners that may withdraw and be cancelled, and outlive whoever lets go of them: what is counted per edge is taken
/// first, an owner that is down to zero is claimed, and the deque and the lists hold counts.
fn by_hand(runtime: &Runtime, owners: u64, blockers: u64) -> f64 {
    let all: Vec<Arc<Owner>> = (0..owners).map(|_| Arc::default()).collect();
    let round = |_| {
        all.iter().for_each(|owner| {
            owner.waits.store(blockers, Ordering::Relaxed);
            owner.is_ready.store(false, Ordering::Relaxed);
        });
        let wait = |owner: &Arc<Owner>| Arc::new(Waiting { is_over: AtomicBool::new(false), owner: owner.clone() });
        let lists: Vec<Vec<Arc<Waiting>>> = (0..blockers).map(|_| all.iter().map(wait).collect()).collect();
        // The owner's own hold.
        let _held = lists.clone();
        let counted = runtime.spawn(move || {
            let ready = crossbeam_deque::Worker::new_fifo();
            let begun = now();
            for waiting in lists.into_iter().flatten() {
                let owner = &waiting.owner;
                if !waiting.is_over.swap(true, Ordering::AcqRel)
                    && owner.waits.fetch_sub(1, Ordering::AcqRel) == 1
                    && !owner.is_ready.swap(true, Ordering::AcqRel)
                {
                    ready.push(owner.clone());
                }
            }
            (now() - begun, std::iter::from_fn(|| ready.pop()).count() as u64)
        });
        let (took, ready) = counted.wait().expect("nothing fails");
        assert_eq!(ready, owners);
        took as f64 / (owners * blockers) as f64
    };
    median(&(0..REPEATS).map(round).collect::<Vec<_>>())
}

/// Many owners that wait for one blocker, and owners that wait for many.
pub fn edges(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let runtime = &pools.shardrun;
    let fresh = || Stages::new(runtime, Clocked::default());
    let sample = |nanos: f64| -> Sample { vec![(EDGE, nanos)] };
    let mut fan = Series::new("the end of an Analysis that owners wait for, per owner", &place.says);
    for owners in [64, effort.of(1_024) as u64] {
        fan.peer(format!("bare, {owners} owners"), move || sample(bare(runtime, owners, 1)));
        fan.peer(format!("shardrun, {owners} owners"), move || sample(answered(&fresh(), owners, 1)));
        fan.peer(format!("by hand, {owners} owners"), move || sample(by_hand(runtime, owners, 1)));
        let ours = format!("shardrun, {owners} owners");
        fan.at_most(&ours, EDGE, 2.0, &[&format!("by hand, {owners} owners")]);
        fan.at_most(&ours, EDGE, 2.0, &[&format!("bare, {owners} owners")]);
        fan.at_most(&ours, EDGE, LINEAR, &["shardrun, 64 owners"]);
    }
    let mut join = Series::new("the ends of Analyses that one more owner waits for, per Analysis", &place.says);
    for blockers in [100, effort.of(1_000) as u64] {
        join.peer(format!("bare, {blockers} blockers"), move || sample(bare(runtime, 1, blockers)));
        join.peer(format!("by hand, {blockers} blockers"), move || sample(by_hand(runtime, 1, blockers)));
        // The Analysis's own end, and the way to the next one, are in both.
        let more = move || {
            let of = |owners: u64| answered(&fresh(), owners, blockers) * owners as f64;
            sample((of(5) - of(1)) / 4.0)
        };
        join.peer(format!("shardrun, {blockers} blockers"), more);
        let ours = format!("shardrun, {blockers} blockers");
        join.at_most(&ours, EDGE, 2.0, &[&format!("by hand, {blockers} blockers")]);
        join.at_most(&ours, EDGE, 2.0, &[&format!("bare, {blockers} blockers")]);
        join.at_most(&ours, EDGE, LINEAR, &["shardrun, 100 blockers"]);
    }
    vec![fan.run(effort.rounds), join.run(effort.rounds)]
}
