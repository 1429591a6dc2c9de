//! Where a graph's cost would break: a million tasks, thousands of tasks that are ready and may not start, very small tasks.
//! It does not know why a figure is what it is; each stands beside the same at another size, or beside the plain algorithm.

use crate::Effort;
use crate::execute::per_task;
use crate::graph::{TASKS, counted, on_worker};
use crate::pools::{Place, Pools};
use serde_json::Value;
use shardrun::{Answer, Plan, Policy, ResourceBudget, Run, Runtime, Wake, policy_fn};
use shardrun_perf::graphs::{Shape, admitting, limited};
use shardrun_perf::latch::Latch;
use shardrun_perf::series::{NS, Sample, Series, median};
use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a growth may be at most to count as flat.
const FLAT: f64 = 1.3;

/// Runs a plan with all that a decided run can do, from a worker to its end there.
fn decided(
    runtime: &Runtime,
    latch: &'static Latch,
    plan: &Arc<Plan>,
    policy: Option<Box<dyn Policy>>,
    body: fn(),
) -> f64 {
    let (plan, inside) = (Arc::clone(plan), runtime.clone());
    on_worker(runtime, latch, async move {
        let run = Run::<()>::new(plan);
        let run = policy.into_iter().fold(run, Run::policy).start(&inside, move |_| body());
        assert!(run.await.expect("nobody gives the run up").is_success());
    })
}

const BY_KAHN: &str = "÷ Kahn";

/// 1,000 to 1,000,000 tasks: plan, ranks and run together, divided by Kahn's algorithm on the same lists of dependencies.
pub fn growth(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let latch = Latch::leaked();
    let sizes = [1_000, 10_000, 100_000, effort.of(1_000_000)];
    let mut all = Vec::new();
    for (name, by_counters) in [("CountedRun", true), ("Run", false)] {
        let what = format!("tasks after 3 others drawn at random: plan, ranks and {name}");
        let mut series = Series::new(what, &place.says);
        for tasks in sizes {
            let (shape, runtime) = (Arc::new(Shape::random(tasks)), &pools.shardrun);
            series.peer(format!("{tasks} tasks"), move || grown(runtime, latch, &shape, by_counters));
        }
        let largest = format!("{} tasks", sizes[3]);
        series.at_most(&largest, BY_KAHN, 1.5, &["1000 tasks"]);
        all.push(series.run(effort.rounds));
    }
    all.extend(bytes(place, sizes[3]));
    all
}

fn grown(runtime: &Runtime, latch: &'static Latch, shape: &Arc<Shape>, by_counters: bool) -> Sample {
    let (mut ours, mut kahn) = (Vec::new(), Vec::new());
    for _ in 0..(100_000 / shape.tasks()).clamp(1, 50) {
        let (of_ours, inside) = (Arc::clone(shape), runtime.clone());
        ours.push(on_worker(runtime, latch, async move {
            let plan = of_ours.plan();
            if by_counters {
                let run = shardrun::CountedRun::new(plan).expect("the plan says nothing more");
                assert!(run.start(&inside, |task| _ = black_box(task)).await.expect("it ends").is_success());
            } else {
                let run = Run::<()>::new(plan).start(&inside, |cx| _ = black_box(cx.task()));
                assert!(run.await.expect("it ends").is_success());
            }
        }));
        let of_kahn = Arc::clone(shape);
        kahn.push(on_worker(runtime, latch, async move {
            of_kahn.turned().kahn(|task| _ = black_box(task));
        }));
    }
    let per = |walls: &[f64]| median(walls) / shape.tasks() as f64;
    let (ours, kahn) = (per(&ours), per(&kahn));
    vec![(NS, ours), ("Kahn ns", kahn), (BY_KAHN, ours / kahn)]
}

const BYTES: &str = "bytes a task";

/// Live bytes a task at the highest, by `heap`, which counts them: it stands beside this binary.
fn bytes(place: &Place, tasks: usize) -> Option<Value> {
    let heap = std::env::current_exe().expect("this binary has a path").with_file_name("heap");
    let output = Command::new(&heap).args(["graph", &tasks.to_string()]).output();
    let Some(printed) = output.ok().and_then(|output| serde_json::from_slice::<Value>(&output.stdout).ok()) else {
        eprintln!("{} is missing: cargo build --release --workspace", heap.display());
        return None;
    };
    let mut series = Series::new(format!("{tasks} tasks with 3 dependencies: live bytes at the highest"), &place.says);
    for peer in ["plan and CountedRun", "plan and Run"] {
        let figure = printed[peer].as_f64().unwrap_or(f64::NAN);
        series.peer(peer, move || vec![(BYTES, figure)]);
        series.limit(peer, BYTES, 200.0);
    }
    Some(series.run(1))
}

/// What keeps tasks that are ready from starting, and the policy that does if it is one.
type Block = (&'static str, fn(&Plan) -> Option<Box<dyn Policy>>);

const BLOCKS: [Block; 3] = [
    ("a full pool", |_| None),
    ("a budget that admits one", |plan| {
        let mut budget = ResourceBudget::new();
        let axis = budget.axis("memory", 1);
        plan.tasks().for_each(|task| _ = budget.cost(task, axis, 1));
        Some(Box::new(budget))
    }),
    ("a policy that closes while one runs", |_| {
        Some(policy_fn("one", |_, running| match running.tasks() {
            [] => Answer::Admit,
            _ => Answer::close_until(Wake::Completion),
        }))
    }),
];
const READY: usize = 6_000;

/// 6,000 tasks that are all ready, of which one may run: per start, beside the same with 600.
pub fn blocked(place: &Place, effort: Effort) -> Vec<Value> {
    let pools = Pools::build(place);
    let latch = Latch::leaked();
    let mut all = Vec::new();
    for (at, (what, policy)) in BLOCKS.into_iter().enumerate() {
        let mut series = Series::new(format!("ready tasks behind {what}, per start"), &place.says);
        for ready in [READY / 10, READY] {
            let runtime = &pools.shardrun;
            let pooled = at == 0;
            let plan = Shape::loose(ready).plan_with(
                |plan| _ = plan.pool("one", 1u32).concurrency(8u32),
                |_, entry| if pooled { entry.pool("one") } else { entry },
            );
            let plan = Arc::new(plan);
            series.peer(format!("{ready} ready"), move || {
                per_task(ready, || decided(runtime, latch, &plan, policy(&plan), || ()))
            });
        }
        series.at_most(&format!("{READY} ready"), NS, FLAT, &[&format!("{} ready", READY / 10)]);
        all.push(series.run(effort.rounds));
    }
    all
}

/// Turns that a body spins.
static TURNS: AtomicU32 = AtomicU32::new(0);

/// A body that takes time: each turn waits for the one before.
fn spin() {
    let mut value = 1_u64;
    for _ in 0..TURNS.load(Ordering::Relaxed) {
        value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    black_box(value);
}

const AT_HALF: &str = "ns at 50 %";

/// The task size at which two workers do their tasks in the time in which one thread does them, one after the other.
fn at_half(workers: usize, from: u32, mut wall: impl FnMut() -> f64) -> Sample {
    let (mut turns, mut before) = (from, None);
    loop {
        TURNS.store(turns, Ordering::Relaxed);
        let begun = std::time::Instant::now();
        (0..TASKS).for_each(|_| black_box(spin as fn())());
        let size = begun.elapsed().as_nanos() as f64 / TASKS as f64;
        let walls: Vec<f64> = (0..5).map(|_| wall() / TASKS as f64).collect();
        let efficiency = size / (workers as f64 * median(&walls));
        let (small, low) = before.replace((size, efficiency)).unwrap_or((size, efficiency));
        if efficiency >= 0.5 {
            let share = if efficiency > low { (0.5 - low) / (efficiency - low) } else { 0.0 };
            return vec![(AT_HALF, small + share.clamp(0.0, 1.0) * (size - small))];
        }
        turns += turns.div_ceil(6);
    }
}

/// The size of a task at which half of the workers' time goes into tasks.
pub fn efficiency(place: &Place, effort: Effort) -> Vec<Value> {
    const COUNTED: &str = "shardrun CountedRun";
    const DECIDED: &str = "shardrun Run with weights, pools and a policy";
    let pools = Pools::build(place);
    let (latch, runtime) = (Latch::leaked(), &pools.shardrun);
    let plan = Arc::new(Shape::layers(TASKS).plan());
    let full = Arc::new(limited(TASKS));
    let workers = runtime.workers();
    let mut series =
        Series::new("100 × 100 layers, 3 dependencies: the size of a task for 50 % efficiency", &place.says);
    series.peer(COUNTED, || at_half(workers, 8, || counted(runtime, latch, &plan, |_| spin())));
    series.peer(DECIDED, || at_half(workers, 100, || decided(runtime, latch, &full, Some(admitting(&full)), spin)));
    series.limit(COUNTED, AT_HALF, 60.0);
    series.limit(DECIDED, AT_HALF, 1_000.0);
    vec![series.run(effort.rounds)]
}
