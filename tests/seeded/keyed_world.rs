//! What is known of the computations of a random timeline, and the builders that look whether they may run.

use crate::random::Random;
use shardrun::{
    BuildCx, Cache, CacheAsking, CacheError, CacheHandle, CacheRequest, CancellationToken, CpuConcurrencySemaphore,
    KeyedView, SingleFlight,
};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// A value: which computation has made it, of what. Counts those that are alive.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) key: u64,
    pub(crate) epoch: u64,
    pub(crate) build: usize,
    _alive: Arc<()>,
}

/// The error of a computation, which says by which.
#[derive(Debug)]
pub(crate) struct Broke(pub(crate) usize);

impl fmt::Display for Broke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "build {} broke", self.0)
    }
}

impl std::error::Error for Broke {}

/// How a builder ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Value,
    Once,
    Broke,
    Panicked,
}

/// What is known of one computation that was offered; it may never be called.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) tree: bool,
    pub(crate) key: u64,
    pub(crate) epoch: u64,
    pub(crate) outcome: Option<Outcome>,
    /// Of one that was called.
    token: Option<CancellationToken>,
    /// When it was evicted: who asks after that must not get it.
    pub(crate) stale_at: Option<u64>,
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) builds: Vec<Built>,
    running: Vec<usize>,
    pub(crate) pending: Vec<Waits>,
    /// The view that is current.
    pub(crate) epoch: u64,
    /// Counts what is done from outside.
    pub(crate) time: u64,
    pub(crate) shut: bool,
}

/// One who waits.
pub(crate) struct Waits {
    pub(crate) claim: Claim,
    pub(crate) key: u64,
    pub(crate) epoch: u64,
    pub(crate) since: u64,
    pub(crate) token: Option<CancellationToken>,
    pub(crate) deadline: Option<Duration>,
}

pub(crate) enum Claim {
    Cache(CacheHandle<Made, Broke>),
    Awaited(CacheAsking<Made, Broke>),
    Tree(CacheHandle<Made, Broke>),
    TreeAwaited(CacheAsking<Made, Broke>),
}

impl Waits {
    pub(crate) fn is_tree(&self) -> bool {
        matches!(self.claim, Claim::Tree(_) | Claim::TreeAwaited(_))
    }
}

/// Everything that builders and clients of one timeline share.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) seed: u64,
    pub(crate) world: Arc<Mutex<World>>,
    pub(crate) cache: Cache<u64, Made, Broke>,
    pub(crate) trees: SingleFlight<u64, Made, Broke>,
    pub(crate) semaphore: CpuConcurrencySemaphore,
    pub(crate) alive: Arc<()>,
}

pub(crate) const KEYS: usize = 6;

impl Scene {
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// A builder of a key in a view.
    pub(crate) fn builder(
        &self,
        random: &mut Random,
        (tree, key, epoch): (bool, u64, u64),
    ) -> impl FnOnce(&BuildCx<'_, u64>) -> Result<Made, Broke> + Send + use<> {
        let mut world = self.world();
        let build = world.builds.len();
        world.builds.push(Built { tree, key, epoch, outcome: None, token: None, stale_at: None });
        let (scene, mut random) = (self.clone(), Random(random.next()));
        move |cx| scene.run(cx, build, &mut random)
    }

    fn run(&self, cx: &BuildCx<'_, u64>, build: usize, random: &mut Random) -> Result<Made, Broke> {
        let (tree, key, epoch) = self.begins(cx, build);
        let mut broken = false;
        if key > 0 && random.chance(30) {
            // Of a smaller key, so that there are no rings.
            let smaller = random.below(key as usize) as u64;
            let builder = self.builder(random, (false, smaller, epoch));
            let request = CacheRequest::key(smaller).view(KeyedView::epoch(epoch));
            match self.cache.get_or_build(request, builder).wait() {
                Ok(made) => assert_eq!((made.key, made.epoch), (smaller, epoch), "seed {}", self.seed),
                Err(CacheError::Cancelled) => panic!("seed {}: somebody else's wait was cancelled", self.seed),
                Err(_) => broken = true,
            }
        }
        if random.chance(15) {
            self.meddle(random);
        }
        let outcome = match random.below(10) {
            _ if broken => Outcome::Broke,
            0 => Outcome::Panicked,
            1 => Outcome::Broke,
            2 | 3 => Outcome::Once,
            _ => Outcome::Value,
        };
        let mut world = self.world();
        world.running.retain(|running| *running != build);
        world.builds[build].outcome = Some(outcome);
        drop(world);
        match outcome {
            Outcome::Panicked => panic!("as planned"),
            Outcome::Broke => return Err(Broke(build)),
            Outcome::Once => cx.return_only(),
            Outcome::Value => {}
        }
        let _ = tree;
        Ok(Made { key, epoch, build, _alive: self.alive.clone() })
    }

    /// A builder begins: it is the only one of its identity that anybody can join.
    fn begins(&self, cx: &BuildCx<'_, u64>, build: usize) -> (bool, u64, u64) {
        let (mut world, seed) = (self.world(), self.seed);
        let Built { tree, key, epoch, .. } = world.builds[build];
        assert_eq!((*cx.key(), cx.view().epoch), (key, epoch), "seed {seed}: another's builder");
        assert!(!world.shut, "seed {seed}: build {build} begins after the shutdown");
        assert!(world.builds[build].token.is_none(), "seed {seed}: build {build} is called twice");
        assert!(!cx.token().is_cancelled(), "seed {seed}: build {build} begins although nobody wants it");
        let all = &world.builds;
        for other in world.running.iter().map(|running| &all[*running]) {
            let same = other.tree == tree && other.key == key && (tree || other.epoch == epoch);
            let token = other.token.as_ref().expect("it runs");
            let newer = |built: &Built| built.tree && built.key == key && built.epoch > other.epoch;
            let displaced = tree && (other.epoch < epoch || all.iter().any(newer));
            let apart = token.is_cancelled() || other.stale_at.is_some() || displaced;
            assert!(!same || apart, "seed {seed}: build {build} beside {other:?}");
        }
        world.builds[build].token = Some(cx.token().clone());
        world.running.push(build);
        (tree, key, epoch)
    }

    /// Does something that may harm a computation.
    pub(crate) fn meddle(&self, random: &mut Random) {
        match random.below(4) {
            0 => self.evict(random),
            1 => self.world().epoch += 1,
            2 => {
                // Somebody goes, and takes along what nobody else wants.
                let mut world = self.world();
                if world.pending.is_empty() {
                    return;
                }
                let at = random.below(world.pending.len());
                let gone = world.pending.swap_remove(at);
                drop(world);
                if let Claim::Cache(handle) | Claim::Tree(handle) = &gone.claim {
                    handle.cancel();
                }
                drop(gone);
            }
            _ => {
                let world = self.world();
                let tokens: Vec<_> = world.pending.iter().filter_map(|waits| waits.token.clone()).collect();
                drop(world);
                if !tokens.is_empty() {
                    tokens[random.below(tokens.len())].cancel();
                }
            }
        }
    }

    fn evict(&self, random: &mut Random) {
        let key = random.below(KEYS) as u64;
        let mut world = self.world();
        let epoch = world.epoch.saturating_sub(random.below(2) as u64);
        world.time += 1;
        let now = world.time;
        // What has been called is out from now on; what has not may be begun after this.
        let called = |built: &&mut Built| !built.tree && built.token.is_some() && built.stale_at.is_none();
        let same = |built: &&mut Built| built.key == key && built.epoch == epoch;
        world.builds.iter_mut().filter(called).filter(same).for_each(|built| built.stale_at = Some(now));
        world.time += 1;
        drop(world);
        self.cache.evict_in(KeyedView::epoch(epoch), &key);
        if random.chance(20) {
            self.trees.evict(&key);
        }
    }

    /// Whether one who waited was answered as he may be.
    pub(crate) fn judge(&self, waits: &Waits, answer: Result<Arc<Made>, CacheError<Broke>>, now: Duration) {
        let (world, seed) = (self.world(), self.seed);
        match answer {
            Ok(made) => {
                let built = &world.builds[made.build];
                let serves = if waits.is_tree() { made.epoch >= waits.epoch } else { made.epoch == waits.epoch };
                assert!(made.key == waits.key && serves, "seed {seed}: {made:?} for {}@{}", waits.key, waits.epoch);
                assert!(matches!(built.outcome, Some(Outcome::Value | Outcome::Once)), "seed {seed}: {built:?}");
                assert!(built.stale_at.is_none_or(|at| at > waits.since), "seed {seed}: stale {built:?}");
            }
            Err(CacheError::Failed(broke)) => {
                assert_eq!(world.builds[broke.0].outcome, Some(Outcome::Broke), "seed {seed}");
                assert_eq!(world.builds[broke.0].key, waits.key, "seed {seed}");
            }
            Err(CacheError::Panicked(report)) => assert_eq!(report.message(), "as planned", "seed {seed}"),
            Err(CacheError::Cancelled) => {
                let told = waits.token.as_ref().is_some_and(CancellationToken::is_cancelled);
                assert!(told, "seed {seed}: nobody has withdrawn {}@{}", waits.key, waits.epoch);
            }
            Err(CacheError::Shutdown) => assert!(world.shut, "seed {seed}"),
            Err(CacheError::Interrupted(why)) => {
                assert_eq!(why, shardrun::Interrupt::DeadlinePassed, "seed {seed}");
                let passed = waits.deadline.is_some_and(|at| at <= now || world.shut);
                assert!(passed, "seed {seed}: {:?} at {now:?}", waits.deadline);
            }
            Err(other) => panic!("seed {seed}: {other:?}"),
        }
    }
}
