//! Random graphs on seeded runtimes against a sequential model: gates, growth, urgency, cancels, generations, panics, shutdowns, budgets.
//!
//! `SHARDRUN_SEEDS` says how many seeds are run, `SHARDRUN_SEED` runs one of them alone.

#[path = "seeded/random.rs"]
mod random;
#[path = "seeded/seeds.rs"]
mod seeds;

use random::Random;
use shardrun::{
    Admission, Dag, DagCancel, DagCx, DagFailure, DagGate, DagGrowthRefused, DagHandle, DagNode, DagReport, Dags,
    Disposition, Driver, Interrupt, Priority, Runtime, TaskKind, WorkAmounts, WorkBudget,
};
use std::sync::{Arc, Mutex};

const GATES: [DagGate; 3] = [DagGate::Sequential, DagGate::OnSuccess, DagGate::OnAdmission];

/// What a job is to do.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Plan {
    Ends(Disposition),
    Panics,
}

/// What the model knows of a node.
#[derive(Clone, Debug)]
struct Known {
    plan: Plan,
    kept: bool,
    ran: bool,
    over: bool,
    /// A cancel of it won, and found it running or not.
    cancelled: Option<DagCancel>,
    before: Vec<(usize, DagGate)>,
}

#[derive(Default)]
struct World {
    nodes: Vec<Known>,
    /// Nothing may start any more.
    stopped: bool,
}

type Shared = Arc<Mutex<World>>;

/// Counts the jobs that are alive.
struct Alive(Arc<()>);

impl World {
    fn add(&mut self, random: &mut Random, kept: bool) -> usize {
        let plan = match random.below(10) {
            0 => Plan::Panics,
            1 => Plan::Ends(Disposition::Failed),
            2 | 3 => Plan::Ends(Disposition::ReturnOnly),
            _ => Plan::Ends(Disposition::Cacheable),
        };
        self.nodes.push(Known { plan, kept, ran: false, over: false, cancelled: None, before: Vec::new() });
        self.nodes.len() - 1
    }

    /// How a node ended, by what is known of it and of all before it; and whether it was interrupted.
    fn end(&self, ends: &[(Disposition, bool)], node: &Known) -> (bool, Disposition, bool) {
        let shut: Vec<_> = node.before.iter().filter(|(before, gate)| !gate.opens(ends[*before].0)).collect();
        let orphan = !node.before.is_empty() && !node.kept && node.before.iter().all(|(before, _)| ends[*before].1);
        let runs = shut.is_empty() && !orphan && node.cancelled != Some(DagCancel::Cancelled);
        if node.cancelled.is_some() {
            return (runs, Disposition::Failed, true);
        }
        if !runs {
            let interrupted = shut.iter().all(|(before, _)| ends[*before].1);
            return (false, Disposition::Failed, interrupted);
        }
        match node.plan {
            Plan::Panics => (true, Disposition::Failed, false),
            Plan::Ends(end) => (true, end, false),
        }
    }
}

/// The body of a node: looks whether it may run, perhaps grows the graph, and ends as planned.
fn run(cx: &DagCx<'_>, id: usize, shared: &Shared, mut random: Random, depth: u32) -> Disposition {
    {
        let mut world = shared.lock().unwrap();
        assert!(!world.stopped, "#{id} starts in a graph that was ended");
        assert!(!world.nodes[id].ran, "#{id} runs twice");
        assert_ne!(world.nodes[id].cancelled, Some(DagCancel::Cancelled), "#{id} runs although it was cancelled");
        let before = world.nodes[id].before.clone();
        assert!(
            before.iter().all(|(before, _)| world.nodes[*before].over || !world.nodes[*before].ran),
            "#{id} too early"
        );
        world.nodes[id].ran = true;
    }
    if depth > 0 && random.chance(25) {
        grow(cx, id, shared, &mut random, depth);
    }
    let mut world = shared.lock().unwrap();
    world.nodes[id].over = true;
    match world.nodes[id].plan {
        Plan::Ends(end) => end,
        Plan::Panics => {
            drop(world);
            panic!("as planned");
        }
    }
}

fn grow(cx: &DagCx<'_>, id: usize, shared: &Shared, random: &mut Random, depth: u32) {
    let mut world = shared.lock().unwrap();
    let first = world.nodes.len();
    let mut growth = cx.growth();
    let mut new = Vec::new();
    for _ in 0..random.below(4) {
        let at = world.add(random, false);
        let (inner, seed) = (shared.clone(), Random(random.next()));
        let node =
            growth.node(TaskKind::ALL[random.below(5)], move |cx: &DagCx<'_>| run(cx, at, &inner, seed, depth - 1));
        growth.priority(node, Priority::ALL[random.below(4)]);
        if random.chance(60) {
            let gate = GATES[random.below(3)];
            growth.edge(cx.node(), node, gate);
            world.nodes[at].before.push((id, gate));
        }
        for (before, known) in new.iter().copied() {
            if random.chance(40) {
                let gate = GATES[random.below(3)];
                growth.edge(known, node, gate);
                world.nodes[at].before.push((before, gate));
            }
        }
        new.push((at, node));
    }
    // To something that may come later, or may not.
    let mut late = Vec::new();
    if random.chance(60) && id + 1 < first {
        let to = id + 1 + random.below(first - id - 1);
        let gate = GATES[random.below(3)];
        let from = if new.is_empty() || random.chance(50) { None } else { Some(new[random.below(new.len())]) };
        match from {
            Some((_, node)) => growth.edge(node, DagNode::nth(to as u32), gate),
            None => growth.edge(cx.node(), DagNode::nth(to as u32), gate),
        };
        late.push((to, (from.map_or(id, |from| from.0), gate)));
    }
    match growth.link() {
        Ok(grown) => {
            for (at, node) in &new {
                assert_eq!(grown.node(*node).index(), *at);
            }
            for (to, edge) in late {
                assert!(!world.nodes[to].ran, "a gate before what runs");
                world.nodes[to].before.push(edge);
            }
        }
        Err(DagGrowthRefused::Started { .. } | DagGrowthRefused::Cycle { .. }) => world.nodes.truncate(first),
        Err(other) => panic!("{other:?}"),
    }
}

fn build(random: &mut Random, shared: &Shared, alive: &Arc<()>) -> Dag {
    let mut dag = Dag::builder();
    let nodes = random.below(24);
    for at in 0..nodes {
        let kept = random.chance(10);
        assert_eq!(shared.lock().unwrap().add(random, kept), at);
        let (inner, seed, alive) = (shared.clone(), Random(random.next()), Alive(alive.clone()));
        let mut entry = dag.node(TaskKind::ALL[random.below(5)], move |cx: &DagCx<'_>| {
            assert!(Arc::strong_count(&alive.0) > 1);
            run(cx, at, &inner, seed, 2)
        });
        entry = entry.priority(Priority::ALL[random.below(4)]);
        if kept {
            entry = entry.keep();
        }
        for _ in 0..random.below(4).min(at) {
            let (before, gate) = (random.below(at), GATES[random.below(3)]);
            entry = entry.after_at(DagNode::nth(before as u32), gate);
            shared.lock().unwrap().nodes[at].before.push((before, gate));
        }
    }
    dag.build().unwrap()
}

/// Whether the report says of every node what the model says.
fn compare(seed: u64, report: &DagReport, shared: &Shared) {
    let world = shared.lock().unwrap();
    assert_eq!(report.len(), world.nodes.len(), "seed {seed}");
    // Nodes of a growth may come before ones with smaller numbers, so until nothing changes.
    let mut ends = vec![(Disposition::Cacheable, false); world.nodes.len()];
    for _ in 0..=world.nodes.len() {
        let before = ends.clone();
        for (at, node) in world.nodes.iter().enumerate() {
            let (_, end, interrupted) = world.end(&ends, node);
            ends[at] = (end, interrupted);
        }
        if ends == before {
            break;
        }
    }
    for (at, node) in world.nodes.iter().enumerate() {
        let id = DagNode::nth(at as u32);
        let (runs, end, interrupted) = world.end(&ends, node);
        assert_eq!(
            (node.ran, report.disposition(id)),
            (runs, end),
            "seed {seed}: {id} {node:?} {:?}",
            report.failure(id)
        );
        assert_eq!(report.failure(id).is_some(), end == Disposition::Failed, "seed {seed}: {id}");
        if !runs || node.cancelled.is_some() {
            let told = report.failure(id).is_some_and(DagFailure::is_interrupted);
            assert_eq!(told, interrupted, "seed {seed}: {id} {node:?} {:?}", report.failure(id));
        }
    }
}

fn timeline(seed: u64) {
    let mut random = Random(seed);
    let runtime = Runtime::builder().driver(Driver::Seeded { seed }).build().unwrap();
    let budget = WorkBudget::for_runtime(WorkAmounts { nodes: 40, edges: 99, cpu: 40, io: 40 }, &runtime).unwrap();
    let dags = Dags::new(&runtime).budget(budget.clone());
    let alive = Arc::new(());
    let mut graphs: Vec<(DagHandle, Shared, Option<Interrupt>)> = Vec::new();
    for _ in 0..1 + random.below(3) {
        let shared = Shared::default();
        let dag = build(&mut random, &shared, &alive);
        let (asked, free) = (dag.amounts(), budget.available());
        match dags.try_submit_dag(dag).unwrap() {
            Admission::Admitted(handle) => graphs.push((handle, shared, None)),
            Admission::Backpressured(declined) => {
                assert_eq!((declined.refused.requested, declined.refused.available), (asked, free), "seed {seed}");
                assert_eq!(budget.available(), free, "seed {seed}: a declined graph changes nothing");
                let handle = dags.submit_dag(*declined.dag).unwrap();
                graphs.push((handle, shared, None));
            }
            other => unreachable!("there is no hook: {other:?}"),
        }
        for _ in 0..random.below(30) {
            step(&mut random, &runtime, &mut graphs);
        }
    }
    for _ in 0..random.below(60) {
        step(&mut random, &runtime, &mut graphs);
    }
    if random.chance(10) {
        runtime.shutdown();
        for (_, shared, ended) in &mut graphs {
            shared.lock().unwrap().stopped = true;
            ended.get_or_insert(Interrupt::Shutdown);
        }
    }
    runtime.drive_all();
    for (mut handle, shared, ended) in graphs {
        match (handle.try_get().unwrap_or_else(|| panic!("seed {seed}: not answered")), ended) {
            (Ok(report), _) => compare(seed, &report, &shared),
            (Err(told), ended) => assert_eq!(Some(told), ended, "seed {seed}"),
        }
    }
    assert_eq!(budget.available(), budget.capacity(), "seed {seed}: something is held");
    assert_eq!(Arc::strong_count(&alive), 1, "seed {seed}: a job is left");
}

/// Drives, or does something to a graph.
fn step(random: &mut Random, runtime: &Runtime, graphs: &mut [(DagHandle, Shared, Option<Interrupt>)]) {
    if random.chance(80) {
        runtime.drive_one();
        return;
    }
    let at = random.below(graphs.len());
    let (handle, shared, ended) = &mut graphs[at];
    let control = handle.control();
    let nodes = shared.lock().unwrap().nodes.len();
    match random.below(8) {
        0 if random.chance(20) => {
            // A newer generation, or nobody wants it: nothing of it starts from now on.
            let how = if random.chance(50) { Interrupt::Superseded } else { Interrupt::Cancelled };
            let over = handle.is_resolved();
            if how == Interrupt::Superseded {
                control.supersede()
            } else {
                control.cancel()
            }
            if !over {
                ended.get_or_insert(how);
                shared.lock().unwrap().stopped = true;
            }
        }
        0..=3 if nodes > 0 => {
            let node = random.below(nodes);
            let cancel = control.cancel_node(DagNode::nth(node as u32));
            if cancel != DagCancel::Late {
                shared.lock().unwrap().nodes[node].cancelled = Some(cancel);
            }
        }
        4..=6 if nodes > 0 => {
            control.set_priority(DagNode::nth(random.below(nodes) as u32), Priority::ALL[random.below(4)]);
        }
        _ => {
            // One more who wants it, and goes.
            if let Some(joined) = control.join() {
                joined.cancel();
            }
        }
    }
}

#[test]
fn guard_7_random_graphs_end_as_the_model_says() {
    seeds::each(10_000, timeline);
}
