//! Faults that software of this kind has had: stale results, mixed-up generations, growth without bound, abandoned work.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, Gate, driven, threads};
use shardrun::{Budget, Moved, Pool, Priority, Request, Runtime, Stage, StageCx, StageError, Stages};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn a() -> String {
    "a".to_owned()
}

#[test]
fn b16_superseded_background_work_frees_its_worker_at_the_next_checkpoint() {
    let host = Files::with([("a", "text"), ("urgent", "text")]);
    let running = Arc::new(AtomicI64::new(0));
    let most = Arc::new(AtomicI64::new(0));
    let entered = Gate::default();
    entered.open();
    host.hook({
        let (running, most, entered) = (running.clone(), most.clone(), entered.clone());
        move |cx, at| {
            if at.file == "a" {
                entered.pass();
                let live = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(live, Ordering::SeqCst);
                while !cx.is_cancelled() {
                    std::thread::yield_now();
                }
                running.fetch_sub(1, Ordering::SeqCst);
            }
            Act::Go
        }
    });
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host.clone());
    let ask = || Request::source(a()).priority(Priority::Background).text("v".into());
    let background: Vec<_> = (0..6).map(|_| stages.submit_request(ask())).collect();
    let urgent = stages.submit_request(Request::source("urgent".into()));
    assert!(urgent.wait().is_ok(), "it did not wait for the background work to end");
    entered.arrived(1);
    let (last, older) = background.split_last().unwrap();
    assert!(older.iter().all(|handle| handle.is_resolved()), "superseded requests are answered at once");
    last.cancel();
    let begun = Instant::now();
    while running.load(Ordering::SeqCst) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(300), "a superseded stage kept its worker");
        std::thread::yield_now();
    }
    assert!(most.load(Ordering::SeqCst) <= 2);
}

#[test]
fn b44_what_was_read_before_an_invalidation_is_not_published_after_it() {
    for stage in [Stage::Source, Stage::Analysis, Stage::Artifact] {
        let host = Files::with([("a", "v1")]);
        let gate = Gate::default();
        host.hook({
            let gate = gate.clone();
            move |_, at| {
                if at.stage == stage && at.generation == 1 {
                    gate.pass();
                }
                Act::Go
            }
        });
        let runtime = threads(1);
        let stages = Stages::new(&runtime, host.clone());
        let old = stages.submit_request(Request::artifact(a(), 1));
        gate.arrived(1);
        host.store("a", "v2");
        assert_eq!(stages.invalidate(&a()), Moved::On);
        assert!(stages.try_get_source(&a()).is_none());
        let new = stages.submit_request(Request::artifact(a(), 1));
        gate.open();
        assert!(matches!(old.wait(), Err(StageError::Superseded)));
        assert_eq!(*new.wait().unwrap(), "1:analysis(v2)");
        assert_eq!(stages.try_get_source(&a()).as_deref().map(String::as_str), Some("v2"));
        assert_eq!(stages.counters().stale_refusals, 1, "the stale result of {stage} was refused once");
    }
}

#[test]
fn a_clean_run_refuses_nothing() {
    let host = Files::with([("a", "v1")]);
    let (_runtime, stages) = driven(&host);
    assert!(stages.submit_request(Request::artifact(a(), 1)).wait().is_ok());
    stages.invalidate(&a());
    assert!(stages.submit_request(Request::artifact(a(), 1)).wait().is_ok());
    let counters = stages.counters();
    assert_eq!((counters.stale_refusals, counters.cancelled_results), (0, 0));
    assert_eq!((counters.sources, counters.analyses, counters.artifacts), (2, 2, 2));
}

#[test]
fn b46_the_end_of_a_cancelled_run_does_not_touch_the_run_after_it() {
    for fails in [false, true] {
        let host = Files::with([("a", "text")]);
        let (first, second) = (Gate::default(), Gate::default());
        let runs = Arc::new(AtomicUsize::new(0));
        host.hook({
            let (first, second, runs) = (first.clone(), second.clone(), runs.clone());
            move |_, _| match runs.fetch_add(1, Ordering::SeqCst) {
                0 => {
                    first.pass();
                    if fails { Act::Fail("late") } else { Act::Go }
                }
                _ => {
                    second.pass();
                    Act::Go
                }
            }
        });
        let runtime = threads(2);
        let stages = Stages::new(&runtime, host.clone());
        let run_1 = stages.submit_request(Request::source(a()));
        first.arrived(1);
        run_1.cancel();
        let run_2 = stages.submit_request(Request::source(a()));
        second.arrived(1);
        first.open();
        while stages.counters().cancelled_results == 0 {
            std::thread::yield_now();
        }
        assert!(!run_2.is_resolved() && stages.try_get_source(&a()).is_none(), "run 1 decided run 2");
        let third = stages.submit_request(Request::source(a()));
        second.open();
        let (second, third) = (run_2.wait().unwrap(), third.wait().unwrap());
        assert!(Arc::ptr_eq(&second, &third), "the third request joined run 2");
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn b48_an_invalidation_at_any_step_leaves_the_newest_generation_published() {
    for steps in 1..=3_u32 {
        for at_step in 0..8 {
            let host = Files::with([("a", "text")]);
            let (runtime, stages) = driven(&host);
            let first = stages.submit_request(Request::artifact(a(), 1));
            for _ in 0..at_step {
                runtime.drive_one();
            }
            for _ in 0..steps {
                assert_eq!(stages.invalidate(&a()), Moved::On);
            }
            let last = stages.submit_request(Request::artifact(a(), 1));
            runtime.drive_all();
            assert!(first.is_resolved());
            assert!(last.wait().is_ok());
            assert_eq!(stages.generation(&a()), Some(1 + u64::from(steps)));
            assert!(stages.try_get_artifact(&a(), &1).is_some());
            assert_eq!(runtime.counters().queued, [0; 4]);
        }
    }
}

#[test]
fn b48_an_invalidation_from_inside_each_stage_is_not_lost() {
    for stage in [Stage::Source, Stage::Analysis, Stage::Artifact] {
        let host = Files::with([("a", "text")]);
        host.hook(move |cx, at| {
            if at.stage == stage && at.generation < 4 {
                assert_eq!(cx.scheduler().unwrap().invalidate(cx.file()), Moved::On);
                assert!(cx.is_cancelled());
            }
            Act::Go
        });
        let (_runtime, stages) = driven(&host);
        let mut answers = 0;
        loop {
            answers += 1;
            match stages.submit_request(Request::artifact(a(), 1)).wait() {
                Ok(_) => break,
                Err(StageError::Superseded) => {}
                Err(other) => panic!("an unexpected answer: {other}"),
            }
        }
        assert_eq!((answers, stages.generation(&a())), (4, Some(4)));
    }
}

#[test]
fn b49_an_edit_while_a_stage_reads_is_computed_again_from_the_new_text() {
    let host = Files::default();
    let gate = Gate::default();
    host.hook({
        let gate = gate.clone();
        move |_, at| {
            if at.generation == 1 {
                gate.pass();
            }
            Act::Go
        }
    });
    let runtime = threads(1);
    let stages = Stages::new(&runtime, host.clone());
    let s1 = stages.submit_request(Request::analysis(a()).text("s1".into()));
    gate.arrived(1);
    let s2 = stages.submit_request(Request::analysis(a()).text("s2".into()));
    gate.open();
    assert!(matches!(s1.wait(), Err(StageError::Superseded)));
    assert_eq!(*s2.wait().unwrap(), "analysis(s2)");
    assert_eq!(stages.try_get_source(&a()).as_deref().map(String::as_str), Some("s2"));
}

#[test]
fn b50_generations_that_end_in_reverse_order_publish_the_newest_alone() {
    let host = Files::default();
    let gates: Vec<_> = (0..5).map(|_| Gate::default()).collect();
    host.hook({
        let gates = gates.clone();
        move |_, at| {
            gates[at.generation as usize - 1].pass();
            Act::Go
        }
    });
    let runtime = threads(5);
    let stages = Stages::new(&runtime, host.clone());
    let mut handles = Vec::new();
    for generation in 1..=5 {
        handles.push(stages.submit_request(Request::source(a()).text(format!("v{generation}"))));
        gates[generation - 1].arrived(1);
    }
    for generation in (1..=5).rev() {
        gates[generation - 1].open();
        if generation == 5 {
            assert_eq!(*handles.pop().unwrap().wait().unwrap(), "v5");
        }
    }
    assert!(handles.into_iter().all(|handle| matches!(handle.wait(), Err(StageError::Superseded))));
    while stages.counters().stale_refusals < 4 {
        std::thread::yield_now();
    }
    assert_eq!(stages.try_get_source(&a()).as_deref().map(String::as_str), Some("v5"));
}

#[test]
fn b78_work_that_did_not_end_well_is_never_taken_for_a_success() {
    for ending in ["fails", "panics", "is cancelled", "shuts down"] {
        for stage in [Stage::Source, Stage::Analysis, Stage::Artifact] {
            let host = Files::with([("a", "text")]);
            let gate = Gate::default();
            host.hook({
                let gate = gate.clone();
                move |_, at| {
                    if at.stage != stage {
                        return Act::Go;
                    }
                    gate.pass();
                    match ending {
                        "fails" => Act::Fail("asked for"),
                        "panics" => panic!("asked for"),
                        _ => Act::Go,
                    }
                }
            });
            let runtime = threads(1);
            let stages = Stages::new(&runtime, host.clone());
            let later = stages.submit_request(Request::artifact(a(), 1));
            gate.arrived(1);
            match ending {
                "is cancelled" => later.cancel(),
                "shuts down" => {
                    drop(stages);
                    gate.open();
                    assert!(matches!(later.wait(), Err(StageError::Shutdown)));
                    continue;
                }
                _ => {}
            }
            gate.open();
            let error = later.wait().expect_err("it did not end well");
            let said = error.to_string();
            assert_eq!(said.contains("asked for"), matches!(ending, "fails" | "panics"), "{ending}: {said}");
            assert!(std::error::Error::source(&error).is_none(), "what is shown is not told again: {said}");
            runtime.call(|| ()).unwrap();
            assert!(stages.try_get_artifact(&a(), &1).is_none());
            assert!(stages.try_get_last_good_artifact(&a(), &1).is_none());
            assert_eq!(stages.try_get_source(&a()).is_some(), stage != Stage::Source);
            host.unhook();
            assert!(stages.submit_request(Request::artifact(a(), 1)).wait().is_ok());
        }
    }
}

/// How many payloads of a host are alive.
static ALIVE: AtomicI64 = AtomicI64::new(0);

/// A payload that is counted.
struct Counted(u64);

impl Counted {
    fn new(value: u64) -> Self {
        ALIVE.fetch_add(1, Ordering::SeqCst);
        Self(value)
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Self::new(self.0)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Counting;

impl shardrun::Host for Counting {
    type File = u32;
    type Text = Counted;
    type Source = Counted;
    type Analysis = Counted;
    type Artifact = Counted;
    type Profile = u8;
    type Error = std::io::Error;

    fn load(&self, _: &u32) -> Result<Option<Counted>, std::io::Error> {
        Ok(Some(Counted::new(0)))
    }

    fn source(&self, _: &StageCx<'_, Self>, text: Counted) -> Result<Counted, std::io::Error> {
        Ok(text)
    }

    fn analysis(&self, _: &StageCx<'_, Self>, source: &Counted) -> Result<Counted, std::io::Error> {
        Ok(Counted::new(source.0))
    }

    fn artifact(&self, _: &StageCx<'_, Self>, _: &u8, _: &Counted, it: &Counted) -> Result<Counted, std::io::Error> {
        Ok(Counted::new(it.0))
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

#[test]
fn b97_b99_b100_superseded_generations_are_bounded_while_it_goes_on_and_gone_at_the_end() {
    let runtime = host::inline();
    let stages = Stages::new(&runtime, Counting);
    let rounds = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
    let (mut most_alive, mut most_queued) = (0, 0);
    for round in 0..rounds {
        let edit = stages.submit_request(Request::analysis(7).text(Counted::new(round)));
        let query = stages.submit_request(Request::artifact(7, 1).priority(Priority::Background));
        if round % 10 == 0 {
            runtime.drive_all();
        }
        drop((edit, query));
        most_alive = most_alive.max(ALIVE.load(Ordering::SeqCst));
        most_queued = most_queued.max(runtime.counters().queued.iter().sum::<usize>());
    }
    assert!(most_queued <= 4, "{most_queued} tickets of one file were out");
    // One limbo keeps fewer than 16 loose generations, and a few bags of 16 until the epoch has moved on twice.
    assert!(most_alive <= 4 * 16 * 8, "{most_alive} payloads were alive");
    runtime.drive_all();
    drop(stages);
    assert_eq!(ALIVE.load(Ordering::SeqCst), 0, "every payload is dropped with the scheduler");
}

/// A name whose comparisons, hashes, copies and destructors come back to the scheduler, all of one hash.
#[derive(Debug)]
struct Hostile(u32);

type Callback = Arc<dyn Fn(&'static str) + Send + Sync>;

static ON_NAME: Mutex<Option<Callback>> = Mutex::new(None);

thread_local! {
    static INSIDE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Says at its end, also by a panic, that no call back is under way any more.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

/// Calls back once, not from within a call back.
fn call_back(what: &'static str) {
    let callback = ON_NAME.lock().unwrap().clone();
    if let Some(callback) = callback
        && !INSIDE.replace(true)
    {
        let leave = Leave;
        callback(what);
        drop(leave);
    }
}

impl Clone for Hostile {
    fn clone(&self) -> Self {
        call_back("clone");
        Self(self.0)
    }
}

impl PartialEq for Hostile {
    fn eq(&self, other: &Self) -> bool {
        call_back("eq");
        self.0 == other.0
    }
}

impl Eq for Hostile {}

impl std::hash::Hash for Hostile {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        call_back("hash");
        state.write_u8(1);
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        call_back("drop");
    }
}

struct HostileHost;

impl shardrun::Host for HostileHost {
    type File = Hostile;
    type Text = ();
    type Source = Hostile;
    type Analysis = Hostile;
    type Artifact = Hostile;
    type Profile = Profile;
    type Error = std::io::Error;

    fn load(&self, file: &Hostile) -> Result<Option<()>, std::io::Error> {
        Ok((file.0 < 1_000).then_some(()))
    }

    fn source(&self, cx: &StageCx<'_, Self>, (): ()) -> Result<Hostile, std::io::Error> {
        Ok(Hostile(cx.file().0))
    }

    fn analysis(&self, cx: &StageCx<'_, Self>, _: &Hostile) -> Result<Hostile, std::io::Error> {
        Ok(Hostile(cx.file().0))
    }

    fn artifact(
        &self,
        cx: &StageCx<'_, Self>,
        _: &Profile,
        _: &Hostile,
        _: &Hostile,
    ) -> Result<Hostile, std::io::Error> {
        Ok(Hostile(cx.file().0))
    }
}

#[derive(Debug)]
struct Profile(u8);

impl Clone for Profile {
    fn clone(&self) -> Self {
        call_back("clone profile");
        Self(self.0)
    }
}

impl PartialEq for Profile {
    fn eq(&self, other: &Self) -> bool {
        call_back("eq profile");
        self.0 == other.0
    }
}

impl Eq for Profile {}

impl std::hash::Hash for Profile {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        call_back("hash profile");
        self.0.hash(state);
    }
}

fn use_everything(stages: &Stages<HostileHost>, file: u32) {
    let name = || Hostile(file);
    let _ = stages.submit_request(Request::source(name())).wait();
    let _ = stages.submit_request(Request::artifact(name(), Profile(1)).text(())).wait();
    stages.invalidate(&name());
    stages.close_file(&name());
    stages.try_get_source(&name());
    stages.try_get_artifact(&name(), &Profile(2));
    stages.try_get_last_good_artifact(&name(), &Profile(1));
    let mut batch =
        stages.submit_batch_atomic([Request::analysis(name()).text(()), Request::analysis(Hostile(file + 1))]);
    batch.wait();
    assert!(stages.submit_request(Request::source(Hostile(file + 1_000))).wait().is_err());
}

/// The hostile names share one callback, so what uses them runs in one test.
#[test]
fn b26_b27_b31_names_that_come_back_to_the_scheduler_or_panic_do_no_harm() {
    let runtime = threads(2);
    let stages = Stages::new(&runtime, HostileHost);
    let inner = stages.clone();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    *ON_NAME.lock().unwrap() = Some(Arc::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        inner.submit_request(Request::source(Hostile(900))).detach();
        inner.try_get_source(&Hostile(901));
        inner.invalidate(&Hostile(900));
        inner.set_text(Hostile(902), ());
    }));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let stages = &stages;
            scope.spawn(move || (0..10).for_each(|n| use_everything(stages, thread * 100 + n)));
        }
    });
    assert!(calls.load(Ordering::Relaxed) > 100);
    for panicking in ["hash", "eq", "clone", "eq profile", "hash profile", "clone profile", "drop"] {
        *ON_NAME.lock().unwrap() = Some(Arc::new(move |what| assert!(what != panicking, "asked for: {what}")));
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let first = stages.submit_request(Request::artifact(Hostile(5), Profile(1))).wait();
            let second = stages.submit_request(Request::artifact(Hostile(5), Profile(9))).wait();
            stages.invalidate(&Hostile(5));
            (first.is_ok(), second.is_ok())
        }));
        *ON_NAME.lock().unwrap() = None;
        let _ = answer;
        let fine = stages.submit_request(Request::artifact(Hostile(5), Profile(1))).wait();
        assert!(fine.is_ok(), "after a panic in {panicking}: {fine:?}");
    }
    drop(stages);
    drop(runtime);
}

#[test]
fn s11_a_panic_of_a_generation_that_is_over_gives_its_permit_back_and_leaves_the_newer_one_alone() {
    for stage in [Stage::Source, Stage::Analysis, Stage::Artifact] {
        let (host, gate) = (Files::with([("a", "old")]), Gate::default());
        let runtime = threads(2);
        let budget = Budget::for_runtime(4, &runtime);
        let stages = Stages::builder(&runtime, host.clone()).budget(budget.clone());
        let stages = stages.limit(Pool::Workers, 1).unwrap().build();
        let at = gate.clone();
        host.hook(move |_, it| {
            if it.generation == 1 && it.stage == stage {
                at.pass();
                panic!("asked for");
            }
            Act::Go
        });
        let old = stages.submit_request(Request::artifact("a".into(), 1));
        gate.arrived(1);
        let new = stages.submit_request(Request::artifact("a".into(), 1).text("new".into()));
        assert!(matches!(old.wait(), Err(StageError::Superseded)), "{stage}");
        gate.open();
        assert_eq!(*new.wait().unwrap(), "1:analysis(new)", "{stage}");
        assert_eq!(stages.quiesce(), Ok(()));
        let used = stages.pool_use(Pool::Workers).expect("it is limited");
        assert_eq!((used.in_flight, used.on_loan, used.waiting, budget.in_use()), (0, 0, 0, 0), "{stage}");
    }
}

#[test]
fn s37_an_artifact_that_is_due_is_not_begun_once_its_generation_is_over() {
    let host = Files::with([("a", "old")]);
    let (runtime, stages) = driven(&host);
    host.hook(|cx, it| {
        if it.stage == Stage::Analysis && it.generation == 1 {
            cx.scheduler().expect("it is there").invalidate(&it.file);
        }
        Act::Go
    });
    let handles: Vec<_> = (0..4).map(|profile| stages.submit_request(Request::artifact("a".into(), profile))).collect();
    runtime.drive_all();
    for handle in handles {
        assert!(matches!(handle.wait(), Err(StageError::Superseded)));
    }
    assert_eq!(host.ran(Stage::Artifact, "a"), 0);
    assert_eq!(stages.counters().stale_refusals, 1);
}

/// Drops what may panic.
fn drop_quietly<T>(value: T) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(value)));
}

#[test]
fn destructors_of_every_payload_may_panic() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a destructor of the host's");
        }
    }
    struct Bombs;
    impl shardrun::Host for Bombs {
        type File = u8;
        type Text = Arc<Bomb>;
        type Source = Bomb;
        type Analysis = Bomb;
        type Artifact = Bomb;
        type Profile = u8;
        type Error = std::io::Error;
        fn load(&self, _: &u8) -> Result<Option<Arc<Bomb>>, std::io::Error> {
            Ok(Some(Arc::new(Bomb)))
        }
        fn source(&self, _: &StageCx<'_, Self>, text: Arc<Bomb>) -> Result<Bomb, std::io::Error> {
            drop_quietly(text);
            Ok(Bomb)
        }
        fn analysis(&self, _: &StageCx<'_, Self>, _: &Bomb) -> Result<Bomb, std::io::Error> {
            Ok(Bomb)
        }
        fn artifact(&self, _: &StageCx<'_, Self>, _: &u8, _: &Bomb, _: &Bomb) -> Result<Bomb, std::io::Error> {
            Ok(Bomb)
        }
    }
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let stages = Stages::new(&runtime, Bombs);
    for round in 0..40 {
        drop_quietly(stages.submit_request(Request::artifact(1, 1).text(Arc::new(Bomb))).wait());
        if round % 3 == 0 {
            stages.close_file(&1);
        }
        drop(stages.submit_request(Request::artifact(1, 2)));
    }
    drop(stages);
    assert_eq!(runtime.call(|| 5).unwrap(), 5, "the worker lives");
}
