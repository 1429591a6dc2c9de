//! Random timelines of caches, single flights and graphs of both on seeded runtimes: gates, growth, urgency, tokens, deadlines, permits,
//! cancels, evictions, generations, panics, shutdowns, budgets. What every timeline must keep is judged, not one order of events.
//!
//! `SHARDRUN_SEEDS` says how many seeds are run, `SHARDRUN_SEED` runs one of them alone.

#[path = "seeded/keyed_world.rs"]
mod keyed_world;
#[path = "seeded/random.rs"]
mod random;
#[path = "seeded/seeds.rs"]
mod seeds;

use keyed_world::{Claim, KEYS, Outcome, Scene, Waits, World};
use random::Random;
use shardrun::{
    Admission, Budget, CacheRequest, Caches, CancellationToken, CpuConcurrencySemaphore, Dag, DagCancel, DagCx,
    DagFailure, DagGate, DagGrowthRefused, DagHandle, DagNode, DagReport, Dags, Disposition, Driver, Interrupt,
    KeyedView, Priority, Retain, Runtime, TaskKind, WorkAmounts, WorkBudget,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const GATES: [DagGate; 3] = [DagGate::Sequential, DagGate::OnSuccess, DagGate::OnAdmission];

/// What is known of a node.
#[derive(Debug)]
struct Known {
    /// Which computation it is, if it is one.
    keyed: Option<(u64, u64)>,
    /// How its own job ends; by a panic if there is none.
    plan: Option<Disposition>,
    kept: bool,
    ran: bool,
    over: bool,
    cancelled: Option<DagCancel>,
    tokens: Vec<CancellationToken>,
    before: Vec<(usize, DagGate)>,
}

#[derive(Default)]
struct Nodes {
    all: Vec<Known>,
    stopped: bool,
}

type Shared = Arc<Mutex<Nodes>>;

/// A graph under way.
struct Graph {
    handle: DagHandle,
    shared: Shared,
    ended: Option<Interrupt>,
}

impl Nodes {
    fn add(&mut self, random: &mut Random, keyed: Option<(u64, u64)>) -> usize {
        let plan = match random.below(10) {
            0 => None,
            1 => Some(Disposition::Failed),
            2 | 3 => Some(Disposition::ReturnOnly),
            _ => Some(Disposition::Cacheable),
        };
        self.all.push(Known {
            keyed,
            plan,
            kept: false,
            ran: false,
            over: false,
            cancelled: None,
            tokens: Vec::new(),
            before: Vec::new(),
        });
        self.all.len() - 1
    }
}

/// The job of a node that is no computation of a cache: looks whether it may run, perhaps grows the graph, and ends as planned.
fn run(cx: &DagCx<'_>, id: usize, (scene, shared): (&Scene, &Shared), mut random: Random, depth: u32) -> Disposition {
    let seed = scene.seed;
    {
        let mut nodes = shared.lock().unwrap();
        assert!(!nodes.stopped && !scene.world().shut, "seed {seed}: #{id} starts in a graph that was ended");
        let all = &nodes.all;
        assert!(!all[id].ran, "seed {seed}: #{id} runs twice");
        assert_ne!(all[id].cancelled, Some(DagCancel::Cancelled), "seed {seed}: #{id} runs though cancelled");
        let tokens = &all[id].tokens;
        let unwanted = !tokens.is_empty() && tokens.iter().all(CancellationToken::is_cancelled);
        assert!(!unwanted, "seed {seed}: #{id} runs though its tokens are cancelled");
        for (before, _) in &all[id].before {
            assert!(all[*before].over || !all[*before].ran, "seed {seed}: #{id} before the end of #{before}");
        }
        nodes.all[id].ran = true;
    }
    if depth > 0 && random.chance(30) {
        grow(cx, id, (scene, shared), &mut random, depth);
    }
    if random.chance(10) {
        scene.meddle(&mut random);
    }
    let mut nodes = shared.lock().unwrap();
    nodes.all[id].over = true;
    let plan = nodes.all[id].plan;
    drop(nodes);
    plan.unwrap_or_else(|| panic!("as planned"))
}

/// A computation for a node: a key in the current view or the one before.
fn wanted(scene: &Scene, random: &mut Random) -> (u64, u64) {
    let epoch = scene.world().epoch.saturating_sub(random.below(5) as u64 / 4);
    (random.below(KEYS) as u64, epoch)
}

fn request(scene: &Scene, random: &mut Random, (key, epoch): (u64, u64)) -> CacheRequest<u64> {
    let mut request = CacheRequest::key(key).view(KeyedView::epoch(epoch)).priority(Priority::ALL[random.below(4)]);
    if random.chance(30) {
        request = request.kind(TaskKind::ALL[random.below(5)]);
    }
    if random.chance(30) { request.semaphore(scene.semaphore.clone()) } else { request }
}

fn grow(cx: &DagCx<'_>, id: usize, (scene, shared): (&Scene, &Shared), random: &mut Random, depth: u32) {
    let mut nodes = shared.lock().unwrap();
    let first = nodes.all.len();
    let mut growth = cx.growth();
    let mut new = Vec::new();
    for _ in 0..random.below(4) {
        let keyed = random.chance(50).then(|| wanted(scene, random));
        let at = nodes.add(random, keyed);
        let node = match keyed {
            Some((key, epoch)) => {
                let request = request(scene, random, (key, epoch));
                let builder = scene.builder(random, (false, key, epoch));
                growth.keyed(TaskKind::CacheNode, scene.cache.node(request, builder))
            }
            None => {
                let (scene, inner, seed) = (scene.clone(), shared.clone(), Random(random.next()));
                growth.node(TaskKind::ALL[random.below(5)], move |cx: &DagCx<'_>| {
                    run(cx, at, (&scene, &inner), seed, depth - 1)
                })
            }
        };
        growth.priority(node, Priority::ALL[random.below(4)]);
        if random.chance(25) {
            let token = token(scene, random);
            growth.token(node, &token);
            nodes.all[at].tokens.push(token);
        }
        if random.chance(10) {
            growth.keep(node);
            nodes.all[at].kept = true;
        }
        if keyed.is_none() && random.chance(20) {
            growth.semaphore(node, &scene.semaphore);
        }
        if random.chance(60) {
            let gate = GATES[random.below(3)];
            growth.edge(cx.node(), node, gate);
            nodes.all[at].before.push((id, gate));
        }
        for (before, known) in new.iter().copied() {
            if random.chance(40) {
                let gate = GATES[random.below(3)];
                growth.edge(known, node, gate);
                nodes.all[at].before.push((before, gate));
            }
        }
        new.push((at, node));
    }
    let mut late = None;
    if random.chance(60) && id + 1 < first {
        let (to, gate) = (id + 1 + random.below(first - id - 1), GATES[random.below(3)]);
        growth.edge(cx.node(), DagNode::nth(to as u32), gate);
        late = Some((to, gate));
    }
    match growth.link() {
        Ok(grown) => {
            for (at, node) in &new {
                assert_eq!(grown.node(*node).index(), *at);
            }
            if let Some((to, gate)) = late {
                assert!(!nodes.all[to].ran, "seed {}: a gate before what runs", scene.seed);
                nodes.all[to].before.push((id, gate));
            }
        }
        Err(DagGrowthRefused::Started { .. } | DagGrowthRefused::Cycle { .. }) => nodes.all.truncate(first),
        Err(other) => panic!("{other:?}"),
    }
}

/// A token: one that others have too, or one that is cancelled already, or a fresh one.
fn token(scene: &Scene, random: &mut Random) -> CancellationToken {
    let world = scene.world();
    let known: Vec<_> = world.pending.iter().filter_map(|waits| waits.token.clone()).collect();
    if known.is_empty() || random.chance(50) {
        CancellationToken::new()
    } else {
        known[random.below(known.len())].clone()
    }
}

fn build(random: &mut Random, scene: &Scene, shared: &Shared) -> Dag {
    let mut dag = Dag::builder();
    for _ in 0..random.below(14) {
        let keyed = random.chance(50).then(|| wanted(scene, random));
        let (at, mut entry) = match keyed {
            Some((key, epoch)) => {
                let request = request(scene, random, (key, epoch));
                let builder = scene.builder(random, (false, key, epoch));
                let entry = dag.keyed(TaskKind::CacheNode, scene.cache.node(request, builder));
                let mut nodes = shared.lock().unwrap();
                // What the graph has already is that node.
                let known = entry.id().index() < nodes.all.len();
                (if known { entry.id().index() } else { nodes.add(random, keyed) }, entry)
            }
            None => {
                let at = shared.lock().unwrap().add(random, None);
                let (scene, inner, seed) = (scene.clone(), shared.clone(), Random(random.next()));
                let job = move |cx: &DagCx<'_>| run(cx, at, (&scene, &inner), seed, 2);
                (at, dag.node(TaskKind::ALL[random.below(5)], job))
            }
        };
        assert_eq!(entry.id().index(), at, "seed {}", scene.seed);
        entry = entry.priority(Priority::ALL[random.below(4)]);
        let token = random.chance(15).then(|| token(scene, random));
        let known = &mut shared.lock().unwrap().all[at];
        if let Some(token) = token {
            entry = entry.token(&token);
            known.tokens.push(token);
        }
        if random.chance(10) {
            entry = entry.keep();
            known.kept = true;
        }
        if keyed.is_none() && random.chance(20) {
            entry = entry.semaphore(&scene.semaphore);
        }
        for _ in 0..random.below(4).min(at) {
            let (before, gate) = (random.below(at), GATES[random.below(3)]);
            entry = entry.after_at(DagNode::nth(before as u32), gate);
            known.before.push((before, gate));
        }
    }
    dag.build().unwrap()
}

/// Whether the report says of every node what follows from what it says of those before it.
fn compare(scene: &Scene, report: &DagReport, nodes: &Nodes) {
    let (seed, world) = (scene.seed, scene.world());
    assert_eq!(report.len(), nodes.all.len(), "seed {seed}");
    let nth = |at: usize| DagNode::nth(at as u32);
    let interrupted = |at: usize| report.failure(nth(at)).is_some_and(DagFailure::is_interrupted);
    for (at, node) in nodes.all.iter().enumerate() {
        let (end, failure) = (report.disposition(nth(at)), report.failure(nth(at)));
        assert_eq!(failure.is_some(), end == Disposition::Failed, "seed {seed}: #{at}");
        let said = format!("seed {seed}: #{at} {node:?} ended {end:?}: {failure:?}");
        if node.cancelled.is_some() {
            assert!(interrupted(at), "{said}");
            continue;
        }
        let tokens = &node.tokens;
        if interrupted(at) && !tokens.is_empty() && tokens.iter().all(CancellationToken::is_cancelled) {
            continue;
        }
        let gates = node.before.iter().map(|(before, gate)| (*before, gate.opens(report.disposition(nth(*before)))));
        let shut: Vec<usize> = gates.filter(|gate| !gate.1).map(|gate| gate.0).collect();
        let orphan =
            !node.before.is_empty() && !node.kept && node.before.iter().all(|(before, _)| interrupted(*before));
        if !shut.is_empty() || orphan {
            assert!(!node.ran && end == Disposition::Failed, "{said}");
            assert_eq!(interrupted(at), shut.iter().all(|before| interrupted(*before)), "{said}");
        } else if let Some(identity) = node.keyed {
            assert!(can_end(&world, identity, end), "{said}");
        } else {
            assert!(node.ran && end == node.plan.unwrap_or(Disposition::Failed), "{said}");
        }
    }
}

/// Whether some computation of that identity has ended so.
fn can_end(world: &World, identity: (u64, u64), end: Disposition) -> bool {
    let has = |is: fn(Outcome) -> bool| {
        let mut builds = world.builds.iter().filter(|built| !built.tree && (built.key, built.epoch) == identity);
        builds.any(|built| built.outcome.is_some_and(is))
    };
    match end {
        Disposition::Cacheable => has(|outcome| outcome == Outcome::Value),
        Disposition::ReturnOnly => has(|outcome| outcome == Outcome::Once),
        _ => has(|outcome| matches!(outcome, Outcome::Broke | Outcome::Panicked)),
    }
}

/// Asks for something.
fn ask(random: &mut Random, scene: &Scene, runtime: &Runtime) {
    let (key, epoch) = wanted(scene, random);
    let mut request = request(scene, random, (key, epoch));
    let token = random.chance(30).then(|| token(scene, random));
    let deadline = random.chance(15).then(|| runtime.now() + Duration::from_millis(random.below(8) as u64));
    if let Some(token) = &token {
        request = request.token(token.clone());
    }
    if let Some(deadline) = deadline {
        request = request.deadline(deadline);
    }
    let tree = random.chance(30);
    let builder = scene.builder(random, (tree, key, epoch));
    let since = scene.world().time;
    let claim = match (tree, random.chance(50)) {
        (false, false) => match scene.cache.try_get_or_build(request, builder) {
            Admission::Admitted(handle) | Admission::DedupeJoined(handle) => Claim::Cache(handle),
            _ => return,
        },
        (false, true) => Claim::Awaited(scene.cache.get_or_build_async(request, builder)),
        (true, true) => Claim::TreeAwaited(scene.trees.get_async(request, epoch, builder)),
        // Of what is under way or there; to wait here might be for ever.
        (true, false) if scene.trees.ready(&key).is_some_and(|there| there.0 >= epoch) => {
            Claim::Tree(scene.trees.get(request, epoch, builder))
        }
        (true, false) => return,
    };
    scene.world().pending.push(Waits { claim, key, epoch, since, token, deadline });
}

/// Looks at one who waits; who is answered is judged, and gone.
fn look(at: usize, scene: &Scene, runtime: &Runtime) -> bool {
    let mut waits = {
        let mut world = scene.world();
        if at >= world.pending.len() {
            return false;
        }
        world.pending.swap_remove(at)
    };
    let cx = &mut Context::from_waker(Waker::noop());
    let answer = match &mut waits.claim {
        Claim::Cache(handle) | Claim::Tree(handle) => handle.try_get(),
        Claim::Awaited(future) | Claim::TreeAwaited(future) => match Pin::new(future).poll(cx) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        },
    };
    match answer {
        Some(answer) => scene.judge(&waits, answer, runtime.now()),
        None => scene.world().pending.push(waits),
    }
    true
}

/// Does something to a graph.
fn handle(random: &mut Random, graph: &mut Graph) {
    let control = graph.handle.control();
    let mut nodes = graph.shared.lock().unwrap();
    let count = nodes.all.len();
    match random.below(8) {
        0 if random.chance(30) && !graph.handle.is_resolved() => {
            let superseded = random.chance(50);
            nodes.stopped = true;
            drop(nodes);
            if superseded {
                control.supersede()
            } else {
                control.cancel()
            }
            graph.ended.get_or_insert(if superseded { Interrupt::Superseded } else { Interrupt::Cancelled });
        }
        1..=3 if count > 0 => {
            let node = random.below(count);
            let cancel = control.cancel_node(DagNode::nth(node as u32));
            if cancel != DagCancel::Late {
                nodes.all[node].cancelled = Some(cancel);
            }
        }
        4..=6 if count > 0 => {
            control.set_priority(DagNode::nth(random.below(count) as u32), Priority::ALL[random.below(4)]);
        }
        _ => {
            if let Some(joined) = control.join() {
                joined.cancel();
            }
        }
    }
}

fn step(random: &mut Random, (scene, runtime, dags): (&Scene, &Runtime, &Dags), graphs: &mut Vec<Graph>) {
    match random.below(100) {
        0..60 => _ = runtime.drive_one(),
        60..75 => ask(random, scene, runtime),
        75..83 => {
            let count = scene.world().pending.len();
            if count > 0 {
                look(random.below(count), scene, runtime);
            }
        }
        83..88 => scene.meddle(random),
        88..90 => _ = runtime.advance(Duration::from_millis(1)),
        90..93 if graphs.len() < 3 => {
            let shared = Shared::default();
            let dag = build(random, scene, &shared);
            if let Some(handle) = dags.try_submit_dag(dag).unwrap().handle() {
                graphs.push(Graph { handle, shared, ended: None });
            }
        }
        _ if !graphs.is_empty() => {
            let at = random.below(graphs.len());
            handle(random, &mut graphs[at]);
        }
        _ => {}
    }
}

fn timeline(seed: u64) {
    let mut random = Random(seed);
    let runtime = Runtime::builder().driver(Driver::Seeded { seed }).build().unwrap();
    let budget = Budget::for_runtime(1 + random.below(4) as u32, &runtime);
    let caches = Caches::builder(&runtime).budget(budget.clone()).seed(seed).build();
    let bounds = [(); 2].map(|()| match random.below(4) {
        0 => Retain::none(),
        1 => Retain::count(2),
        2 => Retain::all().weight(9, |key, _| 1 + key % 3),
        _ => Retain::all(),
    });
    let [kept, ready] = bounds;
    let scene = Scene {
        seed,
        world: Arc::default(),
        cache: caches.fallible(1, kept).unwrap(),
        trees: caches.single_flight(2, ready).unwrap(),
        semaphore: CpuConcurrencySemaphore::new(1 + random.below(2) as u32),
        alive: Arc::new(()),
    };
    let room = WorkBudget::for_runtime(WorkAmounts { nodes: 30, edges: 60, cpu: 30, io: 20 }, &runtime).unwrap();
    let dags = Dags::new(&runtime).budget(room.clone());
    let mut graphs = Vec::new();
    for _ in 0..20 + random.below(150) {
        step(&mut random, (&scene, &runtime, &dags), &mut graphs);
    }
    if random.chance(15) {
        scene.world().shut = true;
        runtime.shutdown();
        graphs.iter_mut().for_each(|graph| _ = graph.ended.get_or_insert(Interrupt::Shutdown));
    }
    runtime.drive_all();
    for round in 0.. {
        // Who is let in from the line has to be polled before it begins.
        let count = scene.world().pending.len();
        (0..count).rev().for_each(|at| _ = look(at, &scene, &runtime));
        runtime.drive_all();
        if scene.world().pending.is_empty() {
            break;
        }
        assert!(round < 1_000, "seed {seed}: {} are never answered", scene.world().pending.len());
    }
    for Graph { mut handle, shared, ended } in graphs {
        match (handle.try_get().unwrap_or_else(|| panic!("seed {seed}: not answered")), ended) {
            (Ok(report), _) => compare(&scene, &report, &shared.lock().unwrap()),
            (Err(told), ended) => assert_eq!(Some(told), ended, "seed {seed}"),
        }
    }
    rest(&scene, &runtime, (&budget, &room));
}

/// Nothing is held in the end, and what was counted agrees.
fn rest(scene: &Scene, runtime: &Runtime, (budget, room): (&Budget, &WorkBudget)) {
    let seed = scene.seed;
    assert_eq!((budget.in_use(), budget.waiting()), (0, 0), "seed {seed}: the budget");
    assert_eq!(room.available(), room.capacity(), "seed {seed}: the room for graphs");
    assert_eq!((scene.semaphore.available(), scene.semaphore.waiting()), (scene.semaphore.cap(), 0), "seed {seed}");
    for counters in [scene.cache.counters(), scene.trees.counters()] {
        assert_eq!(counters.misses, counters.completed + counters.cancelled, "seed {seed}: {counters:?}");
    }
    for key in 0..KEYS as u64 {
        if let Some((generation, made)) = scene.trees.ready(&key) {
            assert_eq!((made.key, made.epoch), (key, generation), "seed {seed}");
        }
        scene.trees.evict(&key);
    }
    scene.cache.clear();
    let counters = scene.cache.counters();
    assert_eq!((counters.kept, scene.trees.counters().kept), (0, 0), "seed {seed}");
    runtime.drive_all();
    scene.world().builds.clear();
    assert_eq!(Arc::strong_count(&scene.alive), 1, "seed {seed}: a value or a job is left");
}

#[test]
fn guard_7_timelines_of_caches_and_graphs_keep_every_promise() {
    seeds::each(if cfg!(debug_assertions) { 1_000 } else { 10_000 }, timeline);
}
