//! Caches, single flights and graphs on real threads, with builders that fail, wait in rings and hold permits, beside cancels, evictions,
//! growth and shutdowns: everybody is answered, and all that was held comes back. `SHARDRUN_SEEDS` (20 if unset) says how many rounds
//! are run, `SHARDRUN_SEED` with which the first is.

#[path = "seeded/random.rs"]
mod random;

use random::Random;
use shardrun::{
    Budget, BuildCx, Cache, CacheHandle, CacheRequest, Caches, CancellationToken, CpuConcurrencySemaphore, Dag,
    DagControl, DagCx, DagFailure, DagGate, DagNode, Dags, Priority, Retain, Runtime, SingleFlight, TaskKind,
    WorkAmounts, WorkBudget,
};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{scope, yield_now};
use std::time::{Duration, Instant};

/// What has not come after this long never will.
const SOON: Duration = Duration::from_secs(300);
const GATES: [DagGate; 3] = [DagGate::Sequential, DagGate::OnSuccess, DagGate::OnAdmission];

/// Something that must not be left over.
#[derive(Clone)]
struct Live(Arc<()>);

type Values = Cache<u64, Live, io::Error>;

fn seeds() -> impl Iterator<Item = u64> {
    let setting = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let first = setting("SHARDRUN_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 16);
    let count = if setting("SHARDRUN_SEED").is_some() { 1 } else { setting("SHARDRUN_SEEDS").unwrap_or(20) };
    (first..first + count).inspect(|seed| println!("SHARDRUN_SEED={seed}"))
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let limit = Instant::now() + SOON;
    while !done() {
        assert!(Instant::now() < limit, "{what}");
        yield_now();
    }
}

fn priority(random: &mut Random) -> Priority {
    Priority::ALL[random.below(4)]
}

/// Computes for a while, as long as anybody wants it.
fn linger(is_cancelled: impl Fn() -> bool) {
    for _ in 0..50 {
        if is_cancelled() {
            break;
        }
        yield_now();
    }
}

/// A builder that may panic, fail, linger, evict what it builds, or wait for another value, perhaps in a ring.
fn builder(
    random: &mut Random,
    (cache, key): (&Values, u64),
    live: &Live,
    depth: usize,
) -> impl FnOnce(&BuildCx<'_, u64>) -> io::Result<Live> + Send + 'static {
    let (what, other, seed) = (random.below(10), random.next() % 12, random.next());
    let (cache, live) = (cache.clone(), live.clone());
    move |cx| {
        match what {
            0 => panic!("planned"),
            1 => return Err(io::Error::other("planned")),
            2 => cx.return_only(),
            3 => linger(|| cx.check().is_err()),
            4 | 5 if depth < 4 => {
                let inner = builder(&mut Random(seed), (&cache, other), &live, depth + 1);
                // That it could never end is an answer too.
                drop(cache.get_or_build(other, inner).wait());
            }
            6 => drop(cache.evict(&key)),
            7 => drop(cache.with(&key, |_| cache.evict(&key))),
            _ => {}
        }
        Ok(live)
    }
}

struct Asker<'a> {
    random: Random,
    cache: &'a Values,
    single: &'a SingleFlight<u64, Live, io::Error>,
    semaphore: &'a CpuConcurrencySemaphore,
    live: &'a Live,
    handles: Vec<CacheHandle<Live, io::Error>>,
}

impl Asker<'_> {
    fn ask(&mut self, key: u64) {
        let token = CancellationToken::new();
        let mut request = CacheRequest::key(key).priority(priority(&mut self.random)).token(token.clone());
        if self.random.chance(40) {
            request = request.semaphore(self.semaphore.clone());
        }
        if self.random.chance(20) {
            request = request.kind(TaskKind::Load);
        }
        let work = builder(&mut self.random, (self.cache, key), self.live, 0);
        self.handles.push(self.cache.get_or_build(request, work));
        if self.random.chance(20) {
            token.cancel();
        }
    }

    fn step(&mut self, generation: u64) {
        let (key, random) = (self.random.next() % 12, &mut self.random);
        match random.below(12) {
            0 => drop(self.cache.evict(&key)),
            1 => drop(self.cache.with(&key, |live| Arc::strong_count(&live.0))),
            2 => drop(self.cache.clear()),
            3 if !self.handles.is_empty() => self.handles[random.below(self.handles.len())].cancel(),
            4 if !self.handles.is_empty() => {
                let handle = self.handles.swap_remove(random.below(self.handles.len()));
                if random.chance(50) { drop(handle.cancel_on_drop()) } else { handle.detach() }
            }
            5 | 6 => {
                let work = builder(random, (self.cache, key), self.live, 3);
                self.handles.push(self.single.get(key % 3, generation, work));
            }
            _ => self.ask(key),
        }
    }

    fn wait(&mut self) {
        for mut handle in self.handles.drain(..) {
            assert!(handle.wait_timeout(SOON).is_some(), "somebody waits for ever");
        }
    }
}

#[test]
fn whoever_asks_is_answered_and_all_that_is_held_comes_back() {
    for seed in seeds() {
        let live = Live(Arc::new(()));
        let runtime = Runtime::builder().workers(2).io_threads(1).max_spares(4).build().unwrap();
        let budget = Budget::for_runtime(8, &runtime);
        let caches = Caches::builder(&runtime).budget(budget.clone()).build();
        let retain = if seed % 2 == 0 { Retain::count(4) } else { Retain::none() };
        let (cache, semaphore) = (caches.fallible(1, retain).unwrap(), CpuConcurrencySemaphore::new(1));
        let single = caches.single_flight(2, Retain::count(2)).unwrap();
        scope(|scope| {
            for thread in 0..3 {
                let (random, handles) = (Random(seed * 3 + thread), Vec::new());
                let (cache, single, semaphore, live) = (&cache, &single, &semaphore, &live);
                let mut asker = Asker { random, cache, single, semaphore, live, handles };
                let runtime = &runtime;
                scope.spawn(move || {
                    for step in 0..300 {
                        asker.step(step / 10);
                        if asker.handles.len() > 20 {
                            asker.wait();
                        }
                        if (seed % 5, thread, step) == (4, 0, 250) {
                            runtime.shutdown();
                        }
                    }
                    asker.wait();
                });
            }
        });
        until("a computation, a unit or a permit is left", || {
            let counters = cache.counters();
            let over = counters.completed + counters.cancelled == counters.misses;
            over && (budget.in_use(), semaphore.available(), semaphore.waiting()) == (0, 1, 0)
        });
        cache.clear();
        assert_eq!((cache.counters().kept, cache.counters().weight), (0, 0));
        runtime.shutdown();
        drop((cache, single, caches, runtime));
        until("a builder or a value is left", || Arc::strong_count(&live.0) == 1);
    }
}

struct Grapher<'a> {
    random: Random,
    dags: &'a Dags,
    cache: &'a Values,
    semaphore: &'a CpuConcurrencySemaphore,
    live: &'a Live,
}

impl Grapher<'_> {
    /// What a node does: it may panic, linger, grow its graph, run another one, or cancel itself.
    fn job(
        &mut self,
        kind: TaskKind,
        count: usize,
    ) -> impl FnOnce(&DagCx<'_>) -> Result<(), DagFailure> + Send + 'static {
        let (live, dags, what, seed) = (self.live.clone(), self.dags.clone(), self.random.below(8), self.random.next());
        move |cx| {
            match what {
                0 => panic!("planned"),
                1 => linger(|| cx.is_cancelled()),
                2 | 3 => grow(cx, kind, count, &live, Random(seed)),
                4 => {
                    let mut dag = Dag::builder();
                    let first = dag.node(TaskKind::Load, |_| ()).id();
                    dag.node(TaskKind::Parse, move |_| drop(live)).after(first);
                    drop(dags.submit_dag(dag.build().unwrap()).unwrap().wait());
                }
                5 => cx.token().cancel(),
                _ => {}
            }
            Ok(())
        }
    }

    fn graph(&mut self) -> Dag {
        let (mut dag, count) = (Dag::builder(), 1 + self.random.below(25));
        for node in 0..count {
            let kind = TaskKind::ALL[self.random.below(5)];
            let before: Vec<_> = (0..self.random.below(3)).map(|_| self.random.below(node.max(1))).collect();
            let (gate, job, key) = (GATES[self.random.below(3)], self.job(kind, count), self.random.next() % 5);
            let mut entry = if self.random.chance(20) {
                let work = builder(&mut self.random, (self.cache, key), self.live, 3);
                // Each key with one kind and one builder: else it is a fault of the graph.
                dag.keyed(TaskKind::CacheNode, self.cache.node(key, work))
            } else {
                dag.node(kind, job)
            };
            if self.random.chance(25) {
                entry = entry.priority(priority(&mut self.random)).semaphore(self.semaphore);
            }
            if self.random.chance(20) {
                entry = entry.keep();
            }
            let id = entry.id();
            for before in before.into_iter().map(|before| DagNode::nth(before as u32)).filter(|before| *before < id) {
                dag.edge(before, id, gate);
            }
        }
        dag.build().unwrap()
    }
}

/// Adds a few nodes in a row, behind the one that runs and before any, if that is allowed.
fn grow(cx: &DagCx<'_>, kind: TaskKind, count: usize, live: &Live, mut random: Random) {
    let (mut growth, mut last) = (cx.growth(), None);
    for _ in 0..random.below(4) {
        let live = live.clone();
        let new = growth.node(kind, move |_| drop(live));
        growth.edge(cx.node(), new, DagGate::OnSuccess);
        growth.edge(new, DagNode::nth(random.below(count) as u32), DagGate::Sequential);
        if let Some(last) = last {
            growth.edge(last, new, DagGate::OnAdmission);
        }
        last = Some(new);
    }
    drop(growth.link());
}

/// One who submits graphs is done, or has failed.
struct Over<'a>(&'a AtomicUsize);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Tells graphs whatever can be told, from outside, until `over`.
fn disturb(random: &mut Random, controls: &Mutex<Vec<DagControl>>, over: impl Fn() -> bool) {
    let node = DagNode::nth(0);
    while !over() {
        let control = {
            let mut controls = controls.lock().unwrap();
            let old = controls.len().saturating_sub(8);
            controls.drain(..old);
            controls.get(random.below(8)).cloned()
        };
        let Some(control) = control else { continue };
        match random.below(16) {
            0 | 1 => drop(control.cancel_node(node)),
            2 if random.chance(50) => control.cancel(),
            3 if random.chance(50) => control.supersede(),
            4 | 5 => control.set_priority(node, priority(random)),
            6 | 7 => {
                let mut growth = control.growth(node);
                let new = growth.node(TaskKind::Parse, |_| ());
                growth.edge(node, new, DagGate::Sequential);
                if let Ok(grown) = growth.link() {
                    control.cancel_node(grown.node(new));
                }
            }
            8 | 9 => drop(control.join().map(|handle| handle.cancel_on_drop())),
            _ => yield_now(),
        }
    }
}

#[test]
fn graphs_that_are_disturbed_from_everywhere_end_and_all_that_they_held_comes_back() {
    for seed in seeds() {
        let live = Live(Arc::new(()));
        let runtime = Runtime::builder().workers(2).io_threads(1).max_spares(3).build().unwrap();
        let most = WorkAmounts { nodes: 60, edges: 200, cpu: 60, io: 60 };
        let budget = WorkBudget::for_runtime(most, &runtime).unwrap();
        let cache: Values = Caches::new(&runtime).fallible(1, Retain::count(4)).unwrap();
        let (dags, semaphore) = (Dags::new(&runtime).budget(budget.clone()), CpuConcurrencySemaphore::new(1));
        let (controls, over) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
        scope(|scope| {
            for thread in 0..2 {
                let random = Random(seed * 3 + thread);
                let (dags, cache, semaphore, live) = (&dags, &cache, &semaphore, &live);
                let mut grapher = Grapher { random, dags, cache, semaphore, live };
                let (controls, over, runtime) = (&controls, &over, &runtime);
                scope.spawn(move || {
                    let _over = Over(over);
                    for round in 0..25 {
                        let mut handle = grapher.dags.submit_dag(grapher.graph()).unwrap();
                        controls.lock().unwrap().push(handle.control());
                        if grapher.random.chance(20) {
                            handle.cancel();
                        }
                        assert!(handle.wait_timeout(SOON).is_some(), "a graph does not end");
                        if (seed % 5, thread, round) == (4, 0, 20) {
                            runtime.shutdown();
                        }
                    }
                });
            }
            disturb(&mut Random(seed * 3 + 2), &controls, || over.load(Ordering::SeqCst) == 2);
        });
        until("a unit or a permit is left", || {
            budget.available() == budget.capacity() && (semaphore.available(), semaphore.waiting()) == (1, 0)
        });
        drop(controls);
        runtime.shutdown();
        cache.clear();
        drop((cache, dags, runtime));
        until("a job or a value is left", || Arc::strong_count(&live.0) == 1);
    }
}
