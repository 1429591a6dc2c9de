//! Runs of hosts that mean ill: policies that lie, panics in every destructor, shutdowns at every point, runs within runs.
//! Every run ends all the same, with one outcome for each task, and no process is aborted.

use shardrun::{
    Answer, Axis, Covers, Driver, Ended, Freed, Interrupt, Plan, Policy, PolicyWaker, Refusal, Run, RunError,
    RunHandle, RunObserver, Running, Runtime, TaskCx, TaskId, TaskOutcome, TaskStatus, Usage, Wake, policy_fn,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// What has not ended after this long never will.
const SOON: Duration = Duration::from_secs(300);

/// Panics when it is dropped, unless that is a panic's doing already.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a destructor");
    }
}

fn ladder(rungs: usize, concurrency: u32) -> Arc<Plan> {
    let mut plan = Plan::builder();
    plan.concurrency(concurrency);
    let mut before: Vec<TaskId> = Vec::new();
    for rung in 0..rungs {
        let next = (0..2).map(|side| plan.task(&format!("{rung}.{side}")).after_all(before.iter().copied()).id());
        before = next.collect::<Vec<_>>();
    }
    Arc::new(plan.build().unwrap())
}

fn runtimes() -> Vec<Runtime> {
    let threads = |workers| Runtime::builder().workers(workers).build().unwrap();
    let driven = |driver| Runtime::builder().driver(driver).build().unwrap();
    vec![driven(Driver::Inline), driven(Driver::Seeded { seed: 7 }), threads(1), threads(4)]
}

/// Waits for a run; of a runtime without threads, by driving it.
fn wait<X: Send + Sync + 'static>(runtime: &Runtime, mut run: RunHandle<X>) -> shardrun::RunReport<X> {
    let until = Instant::now() + SOON;
    loop {
        runtime.drive_all();
        if let Some(result) = run.try_get() {
            return result.unwrap();
        }
        assert!(Instant::now() < until, "the run never ends");
        std::thread::yield_now();
    }
}

struct Watcher(#[allow(dead_code)] Bomb);

impl<X> RunObserver<X> for Watcher {
    fn started(&self, _: &Plan, _: TaskId) {
        panic!("started");
    }
    fn finished(&self, _: &Plan, _: &TaskOutcome<X>) {
        panic!("finished");
    }
    fn error_line(&self, _: &Plan, _: TaskId, _: &str) {
        panic!("error_line");
    }
    fn warning(&self, _: &str) {
        panic!("warning");
    }
}

/// A policy whose every method panics, its name too, and its destructor.
struct Panics(#[allow(dead_code)] Bomb);

impl Policy for Panics {
    fn name(&self) -> &str {
        panic!("name")
    }
    fn begin(&mut self, _: &Plan, _: &PolicyWaker) -> Vec<String> {
        panic!("begin")
    }
    fn ask(&mut self, _: TaskId, _: &Running<'_>) -> Answer {
        panic!("ask")
    }
    fn takes(&mut self, _: TaskId, _: Axis) -> bool {
        panic!("takes")
    }
    fn started(&mut self, _: TaskId) {
        panic!("started")
    }
    fn finished(&mut self, _: TaskId, _: Usage, _: &mut Freed) {
        panic!("finished")
    }
    fn end(&mut self) -> Vec<String> {
        panic!("end")
    }
}

/// A future that passes, with a destructor that panics.
struct Passes(#[allow(dead_code)] Bomb);

impl Future for Passes {
    type Output = Ended<Bomb>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ended::success().value(Bomb).owes(Owes(Bomb)))
    }
}

struct Owes(#[allow(dead_code)] Bomb);

impl Future for Owes {
    type Output = Bomb;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Bomb> {
        Poll::Ready(Bomb)
    }
}

/// Everything that a host can give to a run panics when it is called or dropped, and the report is dropped by the engine.
#[test]
fn panics_of_all_destructors_at_once_end_no_process() {
    for runtime in runtimes() {
        for _ in 0..20 {
            let held = Bomb;
            let plan = ladder(3, 2);
            let done = Arc::new(AtomicUsize::new(0));
            let seen = done.clone();
            let run = Run::<Bomb>::new(plan.clone()).policy(Box::new(Panics(Bomb))).policy(Box::new(Panics(Bomb)));
            let run = run.observer(Watcher(Bomb)).start_async(&runtime, move |_: TaskCx<Bomb>| {
                let _ = &held;
                seen.fetch_add(1, Ordering::SeqCst);
                Passes(Bomb)
            });
            run.detach();
            let until = Instant::now() + SOON;
            while done.load(Ordering::SeqCst) < plan.len() {
                runtime.drive_all();
                assert!(Instant::now() < until, "it never ends");
                std::thread::yield_now();
            }
            runtime.drive_all();
        }
        runtime.shutdown();
    }
}

/// What no policy should say, and what no time reaches.
const REFUSALS: [(Wake, Covers); 10] = [
    (Wake::After(Duration::MAX), Covers::All),
    (Wake::After(Duration::MAX), Covers::Task),
    (Wake::After(Duration::from_secs(u64::MAX / 2)), Covers::Class(u64::MAX)),
    (Wake::After(Duration::ZERO), Covers::All),
    (Wake::Axis(Axis(u16::MAX)), Covers::All),
    (Wake::Axis(Axis(u16::MAX)), Covers::Class(0)),
    (Wake::Idle, Covers::All),
    (Wake::Idle, Covers::Task),
    (Wake::Completion, Covers::Class(u64::MAX)),
    (Wake::Completion, Covers::All),
];

/// A policy that refuses everything whenever something runs, and in such words.
#[test]
fn whatever_a_policy_says_when_it_refuses_the_run_goes_on() {
    for runtime in runtimes() {
        for (wake, covers) in REFUSALS {
            println!("{wake:?} {covers:?}");
            let plan = ladder(5, 4);
            let policy = policy_fn("liar", move |_, running: &Running<'_>| match running.tasks().is_empty() {
                true => Answer::Admit,
                false => Answer::Refuse(Refusal { wake, covers, axis: Some(Axis(u16::MAX)) }),
            });
            let run = Run::<()>::new(plan.clone()).policy(policy).drain_after(1).start(&runtime, |_| ());
            assert!(wait(&runtime, run).is_success());
        }
    }
}

/// One that refuses for ever: it is overruled, unless it waits for a time or for a word from outside. Then an abort ends the run.
#[test]
fn a_policy_that_refuses_for_ever_keeps_no_run_from_ending() {
    for runtime in runtimes() {
        for (wake, covers) in REFUSALS.into_iter().chain([(Wake::Outside, Covers::All), (Wake::Outside, Covers::Task)])
        {
            println!("{wake:?} {covers:?}");
            let waits = matches!(wake, Wake::Outside | Wake::After(_));
            let refuse = Answer::Refuse(Refusal { wake, covers, axis: None });
            let policy = policy_fn("never", move |_, _: &Running<'_>| refuse);
            let run = Run::<()>::new(ladder(3, 4)).policy(policy).start(&runtime, |_| ());
            if waits {
                run.abort();
            }
            let report = wait(&runtime, run);
            assert_eq!((report.outcomes().len(), report.is_success()), (6, !waits));
        }
    }
}

/// As above, and a shutdown ends the run, of which nothing lies in any queue: before it, and after it.
#[test]
fn b34_a_shutdown_ends_a_run_that_waits_for_its_policies() {
    let waits = |(wake, _): &(Wake, Covers)| matches!(wake, Wake::Outside | Wake::After(_));
    let outside = [(Wake::Outside, Covers::All), (Wake::Outside, Covers::Task)];
    for runtime in [true, false].into_iter().flat_map(|before| runtimes().into_iter().map(move |one| (one, before))) {
        let (runtime, before) = runtime;
        let begin = |(wake, covers): (Wake, Covers)| {
            let refuse = Answer::Refuse(Refusal { wake, covers, axis: None });
            let policy = policy_fn("never", move |_, _: &Running<'_>| refuse);
            Run::<()>::new(ladder(3, 4)).policy(policy).start(&runtime, |_| ())
        };
        let refusals = REFUSALS.into_iter().filter(waits).chain(outside);
        let refusals = refusals.filter(|(wake, _)| *wake != Wake::After(Duration::ZERO));
        if before {
            runtime.shutdown();
        }
        let runs: Vec<_> = refusals.map(begin).collect();
        runtime.drive_all();
        runtime.shutdown();
        for mut run in runs {
            let report = run.try_get().expect("a shutdown ends it").unwrap();
            assert_eq!(report.tally().aborted, 6);
        }
    }
}

/// A shutdown after so many jobs, for every number of them.
#[test]
fn a_shutdown_at_any_point_of_a_run_leaves_each_task_one_outcome() {
    for asynchronous in [false, true] {
        for after in 0..200 {
            let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
            let run = Run::<()>::new(ladder(8, 2)).timed(true);
            let runs = Arc::new(AtomicUsize::new(0));
            let seen = runs.clone();
            let mut run = if asynchronous {
                run.start_async(&runtime, move |_: TaskCx| {
                    seen.fetch_add(1, Ordering::SeqCst);
                    async { Ended::success().owes(async {}) }
                })
            } else {
                run.start(&runtime, move |_: &TaskCx| _ = seen.fetch_add(1, Ordering::SeqCst))
            };
            let drove = (0..after).take_while(|_| runtime.drive_one()).count();
            runtime.shutdown();
            let report = run.try_get().expect("a shutdown ends it").unwrap();
            let passed = report.outcomes().filter(|outcome| outcome.status() == TaskStatus::Success).count();
            assert_eq!(report.outcomes().len(), 16);
            assert!(passed <= runs.load(Ordering::SeqCst), "{passed} have passed after {drove} jobs");
            if drove < after {
                assert_eq!(passed, 16);
                break;
            }
        }
    }
}

/// A shutdown beside a run on threads, at any time.
#[test]
fn a_shutdown_beside_a_run_on_threads_ends_it() {
    for workers in [1, 2, 4] {
        for round in 0..40_u32 {
            let runtime = Runtime::builder().workers(workers).build().unwrap();
            let begun = Arc::new(AtomicUsize::new(0));
            let seen = begun.clone();
            let mut run = Run::<()>::new(ladder(40, 4)).start_async(&runtime, move |_: TaskCx| {
                seen.fetch_add(1, Ordering::SeqCst);
                async { Ended::success().owes(async {}) }
            });
            while begun.load(Ordering::SeqCst) < round as usize {
                std::thread::yield_now();
            }
            runtime.shutdown();
            let report = run.wait_timeout(SOON).expect("a shutdown ends it").unwrap();
            assert_eq!(report.outcomes().len(), 80);
        }
    }
}

/// Each body runs a graph of its own on the same runtime and waits for it, three deep. Without threads nobody could run that one
/// meanwhile, and the wait says so.
#[test]
fn runs_within_runs_end() {
    fn nested(runtime: &Arc<Runtime>, depth: usize, count: &Arc<AtomicUsize>) -> RunHandle {
        let (inner, count) = (runtime.clone(), count.clone());
        Run::<()>::new(ladder(2, 2)).start(runtime, move |_: &TaskCx| {
            count.fetch_add(1, Ordering::SeqCst);
            if depth == 0 {
                return;
            }
            match nested(&inner, depth - 1, &count).wait() {
                Ok(report) => assert!(report.is_success()),
                Err(error) => assert_eq!(error, RunError::Interrupted(Interrupt::Stalled)),
            }
        })
    }
    for (runtime, threads) in runtimes().into_iter().zip([false, false, true, true]) {
        let (runtime, count) = (Arc::new(runtime), Arc::new(AtomicUsize::new(0)));
        let run = nested(&runtime, 2, &count);
        let report = wait(&runtime, run);
        assert!(report.is_success(), "{:?}", report.tally());
        if threads {
            assert_eq!(count.load(Ordering::SeqCst), 4 + 16 + 64);
        }
    }
}

/// A policy that is woken from outside by four threads while the run is decided.
#[test]
fn a_storm_of_wakes_from_outside_loses_nothing() {
    struct Stubborn {
        waker: Arc<std::sync::Mutex<Option<PolicyWaker>>>,
        asked: u64,
    }
    impl Policy for Stubborn {
        fn name(&self) -> &str {
            "stubborn"
        }
        fn begin(&mut self, _: &Plan, waker: &PolicyWaker) -> Vec<String> {
            // From inside, too.
            waker.wake();
            *self.waker.lock().unwrap() = Some(waker.clone());
            vec![String::new()]
        }
        fn ask(&mut self, _: TaskId, _: &Running<'_>) -> Answer {
            self.asked += 1;
            if self.asked.is_multiple_of(3) { Answer::Admit } else { Answer::close_until(Wake::Outside) }
        }
    }
    let runtime = Runtime::builder().workers(4).build().unwrap();
    for _ in 0..20 {
        let waker = Arc::new(std::sync::Mutex::new(None::<PolicyWaker>));
        let policy = Box::new(Stubborn { waker: waker.clone(), asked: 0 });
        let mut run = Run::<()>::new(ladder(20, 4)).policy(policy).start(&runtime, |_| ());
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !over.load(Ordering::SeqCst) {
                        if let Some(waker) = waker.lock().unwrap().clone() {
                            waker.wake();
                        }
                        std::thread::yield_now();
                    }
                });
            }
            let report = run.wait_timeout(SOON);
            over.store(true, Ordering::SeqCst);
            assert!(report.expect("it ends").unwrap().is_success());
        });
    }
}

/// Figures at their ends, in what bodies say and in what plans predict.
#[test]
fn figures_at_their_ends_overflow_nothing() {
    for runtime in runtimes() {
        let mut plan = Plan::builder();
        plan.concurrency(u32::MAX);
        let mut last = None;
        for at in 0..6 {
            let weight = [f64::MAX, f64::MIN, f64::MIN_POSITIVE, -0.0, 0.0, 1e300][at];
            let entry = plan.task(&format!("t{at}")).weight(weight);
            let id = entry.id();
            if let Some(last) = last {
                plan.depend(id, last);
            }
            last = Some(id);
        }
        plan.predict(|_| Some(Duration::MAX));
        let mut budget = shardrun::ResourceBudget::new();
        let axes = ["a", "b"].map(|name| budget.axis(name, u64::MAX));
        let plan = Arc::new(plan.build().unwrap());
        for task in plan.tasks() {
            for axis in axes {
                budget.cost(task, axis, u64::MAX).measure_memory(axis);
            }
        }
        let run = Run::<()>::new(plan).policy(Box::new(budget)).drain_after(0).timed(true);
        let run = run.start(&runtime, |_: &TaskCx| Ended::success().attempts(u32::MAX).peak_memory(u64::MAX));
        let report = wait(&runtime, run);
        assert!(report.is_success());
        let mut history = shardrun::History::new();
        history.record(&report);
        assert_eq!(history.memory_estimate("t0"), Some(u64::MAX));
    }
}
