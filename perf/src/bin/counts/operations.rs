//! The operations, each a function that does it N times after a preparation that does not depend on N.
//! It does not count: callgrind does, from outside.
//!
//! What runs on workers has one, which never spins and is held until all is submitted; the rest stays on one thread.

use shardrun::{
    ActorRef, Admission, Cache, Caches, CountedRun, Dags, Dependencies, Driver, Handle, LaneKind, Lanes, LanesConfig,
    Place, Plan, Policy, Request, ResourceBudget, Retain, Run, Runtime, Stages, Target, WorkAmounts, WorkBudget,
};
use shardrun_perf::graphs::{Shape, admitting, limited};
use shardrun_perf::host::Memory;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Name, the N that is usual, and the operation.
pub type Operation = (&'static str, u64, fn(u64));

/// Operations of which one function alone is counted, with all that it calls, and that function's name among callgrind's.
pub const COUNTED: &[(&str, &str)] = &[
    ("bare-edge-of-64", "*count_down_bare*"),
    ("answer-edge-of-64", "*answer_consumers*"),
    ("answer-edge-of-512", "*answer_consumers*"),
    ("answer-blocker", "*answer_consumers*"),
];

/// All of them, in the order of the table.
pub const ALL: &[Operation] = &[
    ("papaya-get", 10_000, papaya_get),
    ("execute-on-worker", 8_192, execute_on_worker),
    ("execute-48-bytes", 8_192, execute_wide),
    ("submit-outside", 8_192, submit_outside),
    ("submit-outside-batch-64", 8_192, submit_batches),
    ("spawn-outside", 8_192, spawn_outside),
    ("spawn-and-wait-inside", 8_192, spawn_and_wait),
    ("call", 8_192, call),
    ("try-get-source", 8_192, try_get),
    ("with-source", 8_192, with_source),
    ("request-satisfied", 8_192, satisfied),
    ("request-fresh-source", 8_192, fresh),
    ("request-fresh-artifact", 8_192, chain),
    ("worker-fresh-source", 8_192, |n| on_worker(n, Request::source)),
    ("worker-fresh-artifact", 8_192, |n| on_worker(n, |file| Request::artifact(file, 0))),
    ("edit", 8_192, edit),
    ("batch-atomic-member", 8_000, batch),
    ("remove", 8_192, remove),
    ("remove-and-again", 8_192, remove_and_again),
    ("reset-and-again", 8_000, reset),
    ("capture-root", 8_192, capture),
    ("root-lookup", 8_192, root_lookup),
    ("blocker-edge-of-64", 8_192, |n| edges(n, 64)),
    ("blocker-edge-of-512", 8_192, |n| edges(n, 512)),
    ("bare-edge-of-64", 8_192, |n| bare_edges(n, 64)),
    ("answer-edge-of-64", 8_192, |n| answers(n, 64)),
    ("answer-edge-of-512", 8_192, |n| answers(n, 512)),
    ("answer-blocker", 8_192, blockers),
    ("graph-plan-task", 20_000, graph_plan),
    ("graph-counted-task", 20_000, graph_counted),
    ("graph-shared-task", 20_000, graph_shared),
    ("graph-decided-task", 20_000, graph_decided),
    ("graph-weighed-task", 20_000, graph_weighed),
    ("graph-limited-task", 20_000, graph_limited),
    ("graph-held-start", 24_000, graph_held),
    ("dag-node-built", 20_000, dag_built),
    ("dag-node", 20_000, dag_node),
    ("dag-declined", 2_000, dag_declined),
    ("cache-with", 10_000, cache_with),
    ("cache-hit", 10_000, cache_hit),
    ("cache-miss", 8_192, cache_miss),
    ("lane-job-own", 8_192, lane_own),
    ("lane-job-outside", 8_192, lane_outside),
];

/// Files, or keys, that exist before an operation on old ones begins.
const OLD: u64 = 1_000;
/// Files that exist before some are removed: twice the usual N.
const FILES: u64 = 16_384;

/// What a bare lookup costs, pinned each time: the yardstick for `try_get_source`.
fn papaya_get(n: u64) {
    let hasher = ahash::RandomState::with_seeds(1, 2, 3, 4);
    let map = papaya::HashMap::<u64, u64, ahash::RandomState>::with_hasher(hasher);
    for key in 0..OLD {
        map.pin().insert(key, key);
    }
    for key in 0..n {
        black_box(map.pin().get(&black_box(key % OLD)));
    }
}

/// A cache that keeps values of the old keys, on a runtime that is driven.
fn cache(keep: u64) -> (Runtime, Cache<u64, u64>) {
    let runtime = Runtime::builder().driver(Driver::Inline).build().expect("the runtime starts");
    let cache = accept(Caches::builder(&runtime).seed(1).build().cache(1, Retain::count(keep as usize)));
    (0..OLD).for_each(|key| _ = accept(cache.get_or_build(key, |cx| Ok(*cx.key())).wait()));
    (runtime, cache)
}

/// A borrowed hit.
fn cache_with(n: u64) {
    let (_runtime, cache) = cache(2 * OLD);
    for key in 0..n {
        black_box(cache.with(&black_box(key % OLD), |value| *value));
    }
}

/// A request whose value is kept.
fn cache_hit(n: u64) {
    let (_runtime, cache) = cache(2 * OLD);
    for key in 0..n {
        black_box(accept(cache.get_or_build(key % OLD, |_| unreachable!("it is kept")).wait()));
    }
}

/// A request that begins a computation, which makes room for its value.
fn cache_miss(n: u64) {
    let (_runtime, cache) = cache(OLD);
    for key in OLD..OLD + n {
        black_box(accept(cache.get_or_build(key, |cx| Ok(*cx.key())).wait()));
    }
}

fn accept<T, E>(outcome: Result<T, E>) -> T {
    outcome.unwrap_or_else(|_| panic!("the runtime takes work"))
}

/// One worker that sleeps at once when it has nothing to do.
fn one_worker() -> Runtime {
    Runtime::builder().workers(1).io_threads(0).spin(Duration::ZERO).build().expect("the runtime starts")
}

/// Holds the only worker until the sender is dropped; it is held when this returns.
fn held(runtime: &Runtime) -> Sender<()> {
    let ((open, gate), (is_held, holds)) = (channel::<()>(), channel::<()>());
    accept(runtime.execute(move || {
        drop(is_held);
        gate.recv().unwrap_or_default();
    }));
    assert!(holds.recv().is_err(), "the sender is dropped");
    open
}

/// Waits until all that was submitted before has run.
fn drained(runtime: &Runtime) {
    let (done, finished) = channel::<()>();
    accept(runtime.execute(move || drop(done)));
    assert!(finished.recv().is_err(), "the sender is dropped");
}

/// Bursts of 256 from a job on the worker: onto its own queue, off it, and run.
fn execute_on_worker(n: u64) {
    bursts(n, |task| move || consume(task));
}

fn execute_wide(n: u64) {
    bursts(n, |task| {
        let load = [task; 6];
        move || consume(load)
    });
}

fn bursts<F: FnOnce() + Send + 'static>(n: u64, make: impl Fn(u64) -> F + Copy + Send + 'static) {
    let runtime = one_worker();
    let (done, finished) = channel();
    let inside = runtime.clone();
    accept(runtime.execute(move || burst(inside, n, make, done)));
    assert!(finished.recv().is_err(), "the sender is dropped");
}

/// Pushes 256 tasks and then the next burst, until none are left: the worker never sleeps between them.
fn burst<F: FnOnce() + Send + 'static>(
    runtime: Runtime,
    left: u64,
    make: impl Fn(u64) -> F + Copy + Send + 'static,
    done: Sender<()>,
) {
    if left == 0 {
        return drop(done);
    }
    (0..256).for_each(|task| accept(runtime.execute(make(task))));
    let inside = runtime.clone();
    accept(runtime.execute(move || burst(inside, left - 256, make, done)));
}

/// Into the shared queue, out of it, and run.
fn submit_outside(n: u64) {
    let runtime = one_worker();
    let open = held(&runtime);
    for task in 0..n {
        accept(runtime.execute(move || consume(task)));
    }
    drop(open);
    drained(&runtime);
}

fn submit_batches(n: u64) {
    let runtime = one_worker();
    let open = held(&runtime);
    for first in (0..n).step_by(64) {
        let batch = (first..first + 64).map(|task| move || consume(task));
        accept(runtime.execute_batch(Place::default(), batch));
    }
    drop(open);
    drained(&runtime);
}

/// As `submit-outside`, and besides: one allocation, claim, completion in one step, the handle's end.
fn spawn_outside(n: u64) {
    let runtime = one_worker();
    let open = held(&runtime);
    for task in 0..n {
        runtime.spawn(move || consume(task)).detach();
    }
    drop(open);
    drained(&runtime);
}

/// A job spawns a job and waits for it, which runs it in place; its ticket then finds nothing to do.
fn spawn_and_wait(n: u64) {
    let runtime = one_worker();
    let (done, finished) = channel();
    let inside = runtime.clone();
    accept(runtime.execute(move || spawn_some(inside, n, done)));
    assert!(finished.recv().is_err(), "the sender is dropped");
}

/// In portions of 32, so that the queue of spent tickets does not grow.
fn spawn_some(runtime: Runtime, left: u64, done: Sender<()>) {
    if left == 0 {
        return drop(done);
    }
    for task in 0..32 {
        accept(runtime.spawn(move || black_box(task)).wait());
    }
    let inside = runtime.clone();
    accept(runtime.execute(move || spawn_some(inside, left - 32, done)));
}

/// A job on the calling thread, with nothing queued.
fn call(n: u64) {
    let runtime = one_worker();
    for task in 0..n {
        accept(runtime.call(move || black_box(task)));
    }
}

/// A scheduler on the inline driver, so on one thread, with the hasher's seed fixed.
fn scheduler() -> (Runtime, Stages<Memory>) {
    let runtime = Runtime::builder().driver(Driver::Inline).build().expect("the runtime starts");
    let scheduler = Stages::builder(&runtime, Memory).seed(1).build();
    (runtime, scheduler)
}

/// The same, with Source of the old files done.
fn filled() -> (Runtime, Stages<Memory>) {
    let (runtime, scheduler) = scheduler();
    for file in 0..OLD {
        accept(scheduler.submit_request(Request::source(file)).wait());
    }
    (runtime, scheduler)
}

fn try_get(n: u64) {
    let (_runtime, scheduler) = filled();
    for file in 0..n {
        black_box(scheduler.try_get_source(&black_box(file % OLD)));
    }
}

/// The same without a count of the `Arc`.
fn with_source(n: u64) {
    let (_runtime, scheduler) = filled();
    for file in 0..n {
        black_box(scheduler.with_source(&black_box(file % OLD), |source| black_box(*source)));
    }
}

fn satisfied(n: u64) {
    let (_runtime, scheduler) = filled();
    for file in 0..n {
        accept(scheduler.submit_request(Request::source(file % OLD)).wait());
    }
}

/// Slot, revision, ticket, claim, seal, publication, and the map's growth.
fn fresh(n: u64) {
    let (runtime, scheduler) = scheduler();
    for file in 0..n {
        accept(scheduler.submit_request(Request::source(file)).wait());
    }
    // What it costs to throw the files away is not asked here.
    std::mem::forget((runtime, scheduler));
}

fn chain(n: u64) {
    let (runtime, scheduler) = scheduler();
    for file in 0..n {
        accept(scheduler.submit_request(Request::artifact(file, 0)).wait());
    }
    // What it costs to throw the files away is not asked here.
    std::mem::forget((runtime, scheduler));
}

/// The same from outside on a runtime with a thread, all submitted before the first runs: without the inline driver's queue and clock,
/// with a worker's instead.
fn on_worker<T: Target<Memory>>(n: u64, request: impl Fn(u64) -> Request<Memory, T>) {
    let runtime = one_worker();
    let scheduler = Stages::builder(&runtime, Memory).seed(1).build();
    let open = held(&runtime);
    let handles: Vec<_> = (0..n).map(|file| scheduler.submit_request(request(file))).collect();
    drop(open);
    while !handles.iter().all(Handle::is_resolved) {
        drained(&runtime);
    }
    handles.into_iter().for_each(|handle| _ = accept(handle.wait()));
    std::mem::forget((runtime, scheduler));
}

fn edit(n: u64) {
    let (_runtime, scheduler) = filled();
    for file in 0..n {
        accept(scheduler.submit_request(Request::source(file % OLD).text(file)).wait());
    }
}

/// Batches of a thousand edits; the figure is per member.
fn batch(n: u64) {
    let (_runtime, scheduler) = filled();
    for turn in 0..n / OLD {
        let requests = (0..OLD).map(|file| Request::source(file).text(file + turn));
        for result in scheduler.wait_batch(scheduler.submit_batch_atomic(requests)) {
            accept(result);
        }
    }
}

/// Removals of files that have Source. To make them is not asked here: all were there before the first goes.
fn remove(n: u64) {
    let (_runtime, scheduler) = scheduler();
    for file in 0..FILES {
        accept(scheduler.submit_request(Request::source(file)).wait());
    }
    assert!(n <= FILES, "no file is removed twice");
    for file in 0..n {
        black_box(scheduler.remove(&file));
    }
}

/// A removal, and a fresh request that begins the next life of the file.
fn remove_and_again(n: u64) {
    let (_runtime, scheduler) = filled();
    for file in 0..n {
        black_box(scheduler.remove(&(file % OLD)));
        accept(scheduler.submit_request(Request::source(file % OLD)).wait());
    }
}

/// A reset of a thousand files, which are then asked for again; the figure is per file, and holds what the request costs.
fn reset(n: u64) {
    let (_runtime, scheduler) = filled();
    for _ in 0..n / OLD {
        assert_eq!(scheduler.reset() as u64, OLD);
        for file in 0..OLD {
            accept(scheduler.submit_request(Request::source(file)).wait());
        }
    }
}

/// A root that is captured and given back.
fn capture(n: u64) {
    let (_runtime, scheduler) = filled();
    for _ in 0..n {
        black_box(scheduler.capture_source_root());
    }
}

fn root_lookup(n: u64) {
    let (_runtime, scheduler) = filled();
    let root = scheduler.capture_source_root();
    for file in 0..n {
        black_box(root.lookup(&black_box(file % OLD)));
    }
}

/// Owners that register one blocker and are answered by its Analysis, so many at once; the figure is per edge, and holds a share
/// of moving the blocker on and analysing it.
fn edges(n: u64, owners: u64) {
    let (runtime, scheduler) = filled();
    let blocker = OLD - 1;
    for _ in 0..n / owners {
        scheduler.invalidate(&blocker);
        for owner in 0..owners {
            black_box(scheduler.register_resolved_deps(&owner, Dependencies::none().with_blockers([blocker])));
        }
        runtime.drive_all();
    }
}

/// Artifacts that wait for the Analysis of one file, so many at once; counted is what its end does for them, per Artifact.
fn answers(n: u64, owners: u64) {
    let (runtime, scheduler) = filled();
    let blocker = OLD - 1;
    for _ in 0..n / owners {
        // All that waits, and so drives, before anything is registered.
        for owner in 0..owners {
            scheduler.invalidate(&owner);
            accept(scheduler.submit_request(Request::analysis(owner)).wait());
        }
        scheduler.invalidate(&blocker);
        for owner in 0..owners {
            scheduler.register_resolved_deps(&owner, Dependencies::none().with_blockers([blocker]));
            scheduler.submit_request(Request::artifact(owner, 0)).detach();
        }
        runtime.drive_all();
    }
}

/// One Artifact that waits for the Analyses of 64 files; counted is what the end of each does for it.
fn blockers(n: u64) {
    let (runtime, scheduler) = filled();
    let owner = OLD - 1;
    for _ in 0..n / 64 {
        (0..64).for_each(|blocker| _ = scheduler.invalidate(&blocker));
        scheduler.invalidate(&owner);
        accept(scheduler.submit_request(Request::analysis(owner)).wait());
        scheduler.register_resolved_deps(&owner, Dependencies::none().with_blockers(0..64));
        scheduler.submit_request(Request::artifact(owner, 0)).detach();
        runtime.drive_all();
    }
}

/// The yardstick for both: a list of dependents that are counted down, those that are down to zero go into a deque.
fn bare_edges(n: u64, owners: u64) {
    let waits: Vec<_> = (0..owners).map(|_| Box::new(AtomicU64::new(0))).collect();
    let list: Vec<u32> = (0..owners as u32).collect();
    let ready = crossbeam_deque::Worker::new_fifo();
    for _ in 0..n / owners {
        waits.iter().for_each(|waits| waits.store(1, Ordering::Relaxed));
        count_down_bare(&list, &waits, &ready);
        while ready.pop().is_some() {}
    }
}

#[inline(never)]
fn count_down_bare(list: &[u32], waits: &[Box<AtomicU64>], ready: &crossbeam_deque::Worker<u32>) {
    for &owner in list {
        if waits[owner as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
            ready.push(owner);
        }
    }
}

/// Collecting, checking and ranking; beyond the size up to which dependents are counted exactly.
fn graph_plan(n: u64) {
    black_box(Shape::layers(n as usize).plan());
}

/// One plan, run as often as makes N tasks.
fn graph_runs(n: u64, plan: Plan, run: impl Fn(&Arc<Plan>, &Runtime)) {
    let plan = Arc::new(plan);
    let runtime = Runtime::builder().driver(Driver::Inline).build().expect("the runtime starts");
    for _ in 0..n / plan.len() as u64 {
        run(&plan, &runtime);
    }
}

fn graph_counted(n: u64) {
    graph_runs(n, Shape::layers(10_000).plan(), |plan, runtime| {
        let mut run = accept(CountedRun::new(plan.clone())).start(runtime, consume);
        runtime.drive_all();
        assert!(run.try_get().is_some(), "the run is over");
    });
}

/// The same with the words shared: two may help, of whom one is held elsewhere.
fn graph_shared(n: u64) {
    let runtime = Runtime::builder().workers(2).io_threads(0).spin(Duration::ZERO).build().expect("the runtime starts");
    let open = held(&runtime);
    let plan = Arc::new(Shape::layers(10_000).plan());
    for _ in 0..n / 10_000 {
        let run = accept(CountedRun::new(plan.clone())).start(&runtime, consume);
        assert!(accept(run.wait()).is_success());
    }
    drop(open);
}

fn graph_decided(n: u64) {
    decided(n, Shape::layers(10_000).plan(), |_| None);
}

/// Weights that make every layer's tasks differ.
fn graph_weighed(n: u64) {
    let plan = Shape::layers(10_000).plan_with(|_| {}, |task, entry| entry.weight(f64::from(task % 7)));
    decided(n, plan, |_| None);
}

/// Weights, two pools, and a budget that is asked for each task that is in neither.
fn graph_limited(n: u64) {
    decided(n, limited(10_000), |plan| Some(admitting(plan)));
}

/// Six thousand tasks that are ready at once, of which a budget admits one at a time.
fn graph_held(n: u64) {
    decided(n, Shape::loose(6_000).plan_with(|plan| _ = plan.concurrency(8u32), |_, entry| entry), |plan| {
        let mut budget = ResourceBudget::new();
        let axis = budget.axis("memory", 1);
        plan.tasks().for_each(|task| _ = budget.cost(task, axis, 1));
        Some(Box::new(budget))
    });
}

fn decided(n: u64, plan: Plan, policy: fn(&Plan) -> Option<Box<dyn Policy>>) {
    graph_runs(n, plan, |plan, runtime| {
        let run = policy(plan).into_iter().fold(Run::<()>::new(plan.clone()), Run::policy);
        let mut run = run.start(runtime, |cx| consume(cx.task()));
        runtime.drive_all();
        assert!(run.try_get().is_some(), "the run is over");
    });
}

/// A graph of computations, collected, checked and thrown away; the figure is per node.
fn dag_built(n: u64) {
    let shape = Shape::layers(10_000);
    (0..n / 10_000).for_each(|_| drop(black_box(shape.dag(consume))));
}

/// The same submitted and run.
fn dag_node(n: u64) {
    let (runtime, shape) = (one_worker(), Shape::layers(10_000));
    let dags = Dags::new(&runtime);
    for _ in 0..n / 10_000 {
        assert!(accept(accept(dags.submit_dag(shape.dag(consume))).wait()).is_success());
    }
}

/// A graph of a thousand nodes that a spent budget declines.
fn dag_declined(n: u64) {
    let runtime = one_worker();
    let amounts = WorkAmounts { nodes: 1_500, edges: 9_000, cpu: 1_500, io: 1 };
    let dags = Dags::new(&runtime).budget(accept(WorkBudget::for_runtime(amounts, &runtime)));
    let open = held(&runtime);
    let shape = Shape::layers(1_000);
    let first = accept(dags.submit_dag(shape.dag(consume)));
    let mut dag = Box::new(shape.dag(consume));
    for _ in 0..n {
        let Admission::Backpressured(declined) = accept(dags.try_submit_dag(*dag)) else { panic!("no room") };
        dag = declined.dag;
    }
    drop(open);
    assert!(accept(first.wait()).is_success());
}

/// The body of every task.
fn consume<T>(value: T) {
    black_box(value);
}

/// Lanes with one actor, whose queue holds more than any operation submits at once.
fn one_actor(runtime: &Runtime) -> (Lanes<u64, ()>, ActorRef<u64, ()>) {
    let mut config = LanesConfig::preset(4, 4, 3, 1);
    config.interactive_queue = 60_000;
    config.interactive_queue_total = 60_000;
    let lanes = Lanes::new(runtime, config).expect("the limits can be kept");
    assert!(lanes.register(0, ()));
    let actor = lanes.actor(&0).expect("it is registered");
    (lanes, actor)
}

/// Reads that do nothing, in bursts of 256 from a job on the worker.
fn lane_own(n: u64) {
    let runtime = one_worker();
    let (lanes, actor) = one_actor(&runtime);
    let (done, finished) = channel();
    let inside = runtime.clone();
    accept(runtime.execute(move || lane_burst(inside, lanes, actor, n, done)));
    assert!(finished.recv().is_err(), "the sender is dropped");
}

fn lane_burst(runtime: Runtime, lanes: Lanes<u64, ()>, actor: ActorRef<u64, ()>, left: u64, done: Sender<()>) {
    if left == 0 {
        return drop(done);
    }
    (0..255).for_each(|task| accept(actor.execute(lanes.job(LaneKind::PureRead, move |_| consume(task)))));
    let (inside, again, to) = (runtime.clone(), lanes.clone(), actor.clone());
    let last = lanes.job(LaneKind::PureRead, move |_| {
        let next = inside.clone();
        accept(inside.execute(move || lane_burst(next, again, to, left - 256, done)));
    });
    accept(actor.execute(last));
}

/// Reads that do nothing, all submitted before the first runs.
fn lane_outside(n: u64) {
    let runtime = one_worker();
    let (lanes, actor) = one_actor(&runtime);
    let open = held(&runtime);
    for task in 0..n {
        accept(actor.execute(lanes.job(LaneKind::PureRead, move |_| consume(task))));
    }
    drop(open);
    drained(&runtime);
    actor.drain().wait().expect("all runs");
}
