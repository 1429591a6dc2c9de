//! Allocations per operation: what promises to allocate nothing is held to it.
//! It does not measure time, and counts the calling thread alone, so that other threads cannot disturb it.

#[path = "support/memory_host.rs"]
mod host;
#[path = "support/plain_host.rs"]
mod plain_host;

use host::Memory;
use plain_host::Plain;
use shardrun::{
    Admission, CountedRun, Dag, DagNode, Dags, Dependencies, Driver, Host, Moved, Plan, Pool, Removed, Request,
    Runtime, StageCx, Stages, TaskId, TaskKind, WorkAmounts, WorkBudget,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn counted() {
    // A thread that is ending may allocate after its locals are gone; nobody asks for its count any more.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call is handed to the system's allocator unchanged; counting touches only a thread-local without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        counted();
        // SAFETY: the caller keeps GlobalAlloc's contract, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        counted();
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of the calling thread during `work`.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = CALLS.with(Cell::get);
    work();
    CALLS.with(Cell::get) - before
}

/// The first of ten tries that is no more than `bound`, or the last: now and then a thread frees what the threads of other tests have
/// let go of, and that may allocate.
fn at_best(bound: u64, mut measure: impl FnMut() -> u64) -> u64 {
    let mut last = measure();
    for _ in 1..10 {
        if last <= bound {
            break;
        }
        last = measure();
    }
    last
}

/// A runtime of one worker.
fn one() -> Runtime {
    Runtime::builder().workers(1).build().expect("the runtime starts")
}

/// Runs `job` on the only worker of `runtime` and hands its answer back. What the job has queued may not have run by then.
fn on_worker<R: Send + 'static>(runtime: &Runtime, job: impl FnOnce(Runtime) -> R + Send + 'static) -> R {
    let (answer, answered) = channel();
    let inside = runtime.clone();
    let taken = runtime.execute(move || answer.send(job(inside)).expect("the test waits"));
    assert!(taken.is_ok(), "the runtime takes work");
    answered.recv().expect("the job does not panic")
}

/// Allocations of each of a few pushes of a closure that captures `N` bytes, on a worker.
fn of_execute<const N: usize>() -> Vec<u64> {
    on_worker(&one(), |runtime| {
        let push = |_| {
            let load = [1_u8; N];
            allocations(|| {
                let taken = runtime.execute(move || {
                    black_box(load);
                });
                assert!(taken.is_ok(), "the runtime takes work");
            })
        };
        // Few enough for the queue not to grow: its growth is not what a push costs.
        (0..32).map(push).collect()
    })
}

#[test]
fn execute_on_a_worker_allocates_nothing_for_captures_up_to_48_bytes() {
    assert_eq!(of_execute::<0>(), [0; 32]);
    assert_eq!(of_execute::<8>(), [0; 32]);
    assert_eq!(of_execute::<48>(), [0; 32]);
}

#[test]
fn execute_on_a_worker_allocates_once_for_larger_captures() {
    assert_eq!(of_execute::<49>(), [1; 32]);
    assert_eq!(of_execute::<1024>(), [1; 32]);
}

#[test]
fn running_a_small_job_allocates_nothing() {
    // It ends after the second mark: a shutdown drops what is queued.
    let runtime = one();
    let counted = on_worker(&runtime, |runtime| {
        let (told, tell) = channel();
        // Jobs of one worker run in order, so between these two marks stand 32 jobs, run from the worker's own queue.
        let mark = move |told: Sender<u64>| move || told.send(CALLS.with(Cell::get)).expect("the test waits");
        let accept = |taken: bool| assert!(taken, "the runtime takes work");
        accept(runtime.execute(mark(told.clone())).is_ok());
        (0..32_u64).for_each(|task| {
            accept(runtime.execute(move || assert_ne!(black_box([task; 6])[0], u64::MAX)).is_ok());
        });
        accept(runtime.execute(mark(told)).is_ok());
        tell
    });
    let (before, after) = (counted.recv().expect("the first mark"), counted.recv().expect("the second mark"));
    // The first mark's own message may allocate after it has looked.
    assert!(after - before <= 1, "{} allocations for 32 jobs", after - before);
}

#[test]
fn a_request_that_is_satisfied_and_a_read_allocate_nothing() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().expect("the runtime starts");
    let scheduler = Stages::new(&runtime, Memory);
    scheduler.submit_request(Request::artifact(1, 0)).wait().expect("the stages do not fail");
    let source = || drop(black_box(scheduler.submit_request(Request::source(1)).wait()).expect("it is done"));
    let analysis = || drop(black_box(scheduler.submit_request(Request::analysis(1)).wait()).expect("it is done"));
    let artifact = || drop(black_box(scheduler.submit_request(Request::artifact(1, 0)).wait()).expect("it is done"));
    let read = || drop(black_box(scheduler.try_get_source(&1)).expect("it is done"));
    // The first time a thread does something it may set up what it keeps.
    [&source as &dyn Fn(), &analysis, &artifact, &read].into_iter().for_each(|once| once());
    let of = |once: &dyn Fn()| at_best(0, || allocations(|| (0..100).for_each(|_| once())));
    let each = [&source as &dyn Fn(), &analysis, &artifact, &read].map(of);
    assert_eq!(each, [0; 4], "Source, Analysis, Artifact, read");
}

#[test]
fn a_borrowed_read_and_a_source_root_allocate_nothing() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().expect("the runtime starts");
    let stages = Stages::new(&runtime, Memory);
    for file in 0..64 {
        assert!(stages.submit_request(Request::source(file)).wait().is_ok());
    }
    // The first one of a thread may make what the next ones use again.
    drop(stages.capture_source_root());
    assert_eq!(at_best(0, || allocations(|| assert_eq!(stages.with_source(&7, |source| *source), Some(21)))), 0);
    let (mut captures, mut looks, mut drops) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..10 {
        let mut root = None;
        captures.push(allocations(|| root = Some(stages.capture_source_root())));
        let root = root.expect("it was captured");
        looks.push(allocations(|| assert!(root.lookup(&7).source().is_some())));
        drops.push(allocations(|| drop(root)));
    }
    let each = [captures, looks, drops].map(|tries| tries.into_iter().min());
    assert_eq!(each, [Some(0); 3], "a capture, a look, and its end");
}

/// A name that notes how often it is hashed and compared, on this thread.
#[derive(Clone, Copy, Debug)]
struct Name(u64);

thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        LOOKS.set(LOOKS.get() + 1);
        self.0 == other.0
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<S: Hasher>(&self, state: &mut S) {
        LOOKS.set(LOOKS.get() + 1);
        state.write_u64(self.0);
    }
}

/// Every file is there, and nothing is done for it.
type Named = Plain<Name>;

/// What the end of a generation allocates and how often it looks at names, beside `others` files with requests and edges that wait.
fn of_a_sweep(others: u64, end: impl Fn(&Stages<Named>, &Name)) -> (u64, u64) {
    let runtime = Runtime::builder().driver(Driver::Inline).build().expect("the runtime starts");
    let stages = Stages::builder(&runtime, Plain::new()).seed(1).expect_files(20_000).build();
    let wait_for = |file: u64| {
        let blocker = Dependencies::none().with_blockers([Name(file + 2)]);
        let _ = stages.register_resolved_deps(&Name(file), blocker);
        (stages.submit_request(Request::analysis(Name(file))), stages.submit_request(Request::artifact(Name(file), 1)))
    };
    let waiting: Vec<_> = (1..=others).map(|other| wait_for(2 * other)).collect();
    let swept = wait_for(1);
    let looks = LOOKS.get();
    let allocated = allocations(|| end(&stages, &Name(1)));
    let looks = LOOKS.get() - looks;
    assert!(swept.0.is_resolved() && swept.1.is_resolved(), "who waited for the file is told");
    assert!(waiting.iter().all(|(analysis, artifact)| !analysis.is_resolved() && !artifact.is_resolved()));
    drop(stages);
    (allocated, looks)
}

#[test]
fn s35_the_end_of_a_generation_looks_at_its_own_entries_whatever_else_waits() {
    let ends: [fn(&Stages<Named>, &Name); 3] = [
        |stages, name| assert_eq!(stages.invalidate(name), Moved::On),
        |stages, name| assert_eq!(stages.set_text(*name, ()), Moved::On),
        |stages, name| assert_eq!(stages.remove(name), Removed::Gone),
    ];
    for end in ends {
        let (few, many) = (of_a_sweep(3, end), of_a_sweep(10_000, end));
        assert_eq!(few.1, many.1, "looks at names");
        let mut first = Some(many.0);
        let many = at_best(few.0 + 3, || first.take().unwrap_or_else(|| of_a_sweep(10_000, end).0));
        // How deep the file stands in the map, and whether a bag of what is retired is full, depends on what was there before.
        assert!(many <= few.0 + 3, "{many} allocations, and {} beside few others", few.0);
    }
}

/// Layers of a hundred tasks, each task after three of the layer before.
fn layers(tasks: usize) -> Arc<Plan> {
    let mut plan = Plan::builder();
    let mut ids: Vec<TaskId> = Vec::new();
    for task in 0..tasks {
        let before = (task / 100).checked_sub(1).map(|layer| layer * 100);
        let deps = before.into_iter().flat_map(|first| [0, 1, 7].map(|step| first + (task + step) % 100));
        ids.push(plan.task("").after_all(deps.map(|task| ids[task])).id());
    }
    Arc::new(plan.build().expect("the plan has no fault"))
}

#[test]
fn a_task_of_a_counted_run_allocates_nothing() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().expect("the runtime starts");
    let of = |plan: &Arc<Plan>| {
        allocations(|| {
            let run = CountedRun::new(plan.clone()).expect("the plan says nothing more");
            let mut run = run.start(&runtime, |task| _ = black_box(task));
            runtime.drive_all();
            assert!(run.try_get().is_some(), "the run is over");
        })
    };
    let (few, many) = (layers(1_000), layers(20_000));
    // The first time a thread does something it may set up what it keeps.
    of(&few);
    let (of_few, of_many) = (of(&few), of(&many));
    // A run's slices stand in the driver's queue, which grows by blocks.
    assert!(of_many <= of_few + 2, "{of_few} allocations for 1,000 tasks, {of_many} for 20,000");
}

/// A graph of computations, in layers as above.
fn computations(nodes: usize) -> Dag {
    let mut dag = Dag::builder();
    for node in 0..nodes {
        let mut entry = dag.node(TaskKind::CacheNode, move |_| _ = black_box(node));
        if let Some(before) = (node / 100).checked_sub(1).map(|layer| layer * 100) {
            for step in [0, 1, 7] {
                entry = entry.after(DagNode::nth((before + (node + step) % 100) as u32));
            }
        }
    }
    dag.build().expect("the graph has no fault")
}

#[test]
fn a_node_of_a_graph_of_computations_allocates_nothing_when_it_runs() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().expect("the runtime starts");
    let dags = Dags::new(&runtime);
    let of = |nodes| {
        let dag = computations(nodes);
        allocations(|| {
            let mut handle = dags.submit_dag(dag).expect("there is no budget");
            runtime.drive_all();
            assert!(handle.try_get().expect("it is over").expect("nobody ends it").is_success());
        })
    };
    of(1_000);
    let (of_few, of_many) = (of(1_000), of(20_000));
    // Tickets stand in the driver's queue, which grows by blocks, and the first layer is a list.
    assert!(of_many <= of_few + 350, "{of_few} allocations for 1,000 nodes, {of_many} for 20,000");
}

#[test]
fn a_graph_that_a_spent_budget_declines_allocates_the_same_whatever_its_size() {
    let runtime = Runtime::builder().driver(Driver::Inline).build().expect("the runtime starts");
    let amounts = WorkAmounts { nodes: 20_000, edges: 60_000, cpu: 20_000, io: 1 };
    let budget = WorkBudget::for_runtime(amounts, &runtime).expect("it is a budget of something");
    let dags = Dags::new(&runtime).budget(budget);
    let mut all = dags.submit_dag(computations(20_000)).expect("there is room");
    for nodes in [1, 1_000, 20_000] {
        let count = at_best(1, || {
            let (dag, mut declined) = (computations(nodes), None);
            let count = allocations(|| declined = Some(dags.try_submit_dag(dag).expect("it is not too large")));
            assert!(matches!(declined, Some(Admission::Backpressured(_))));
            count
        });
        assert!(count <= 1, "{count} allocations for {nodes} nodes");
    }
    runtime.drive_all();
    assert!(all.try_get().is_some());
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(black_box(Box::new(1)))), 1);
}
