//! Clients that come back at the worst moment: while waiters are being told, while an execution ends, from inside destructors.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, driven, threads};
use shardrun::{
    Budget, Dependencies, FailureCause, Handle, Host, Moved, Pool, Request, RequestContext, Runtime, Stage, StageCx,
    StageError, Stages,
};
use std::cell::Cell;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

fn a() -> String {
    "a".to_owned()
}

/// A waker that does something once.
struct Once(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for Once {
    fn wake(self: Arc<Self>) {
        let action = self.0.lock().unwrap().take();
        if let Some(action) = action {
            action();
        }
    }
}

fn when_told<T: Send, E: Send + From<shardrun::Interrupt>>(
    handle: &mut Handle<T, E>,
    action: impl FnOnce() + Send + 'static,
) {
    let waker = Waker::from(Arc::new(Once(Mutex::new(Some(Box::new(action))))));
    assert!(Pin::new(handle).poll(&mut Context::from_waker(&waker)).is_pending());
}

#[test]
fn who_is_yet_to_be_told_of_a_failure_is_not_superseded_by_a_retry() {
    for stage in [Stage::Source, Stage::Analysis] {
        let host = Files::with([("a", "text")]);
        host.hook(move |_, at| if at.stage == stage { Act::Fail("asked for") } else { Act::Go });
        let (runtime, stages) = driven(&host);
        let mut analysis = stages.submit_request(Request::analysis(a()));
        let mut artifacts: Vec<_> = (0..3).map(|p| stages.submit_request(Request::artifact(a(), p))).collect();
        let mut last = artifacts.pop().unwrap();
        let (tell, told) = mpsc::channel();
        let again = stages.clone();
        let retry = move || {
            // Tries again while others are still to be told, and looks at one of them.
            again.submit_request(Request::analysis(a())).detach();
            tell.send(last.try_get().or_else(|| last.wait_timeout(Duration::ZERO))).unwrap();
        };
        match stage {
            Stage::Source => when_told(&mut analysis, retry),
            _ => when_told(&mut artifacts[0], retry),
        }
        runtime.drive_all();
        match told.try_recv().expect("the first waiter was told") {
            None | Some(Err(StageError::Failed(_))) => {}
            Some(other) => panic!("nobody has moved the file on, but a waiter was told {other:?}"),
        }
        for handle in artifacts {
            assert!(matches!(handle.wait(), Err(StageError::Failed(_))));
        }
    }
}

const WATCHDOG: Duration = Duration::from_secs(300);

fn seconds() -> u64 {
    std::env::var("SHARDRUN_STRESS_SECONDS").ok().and_then(|value| value.parse().ok()).unwrap_or(2)
}

/// Artifacts of which one profile is slow and the others fail now and then.
struct Profiles {
    analyses: AtomicU64,
    random: AtomicU64,
}

#[derive(Debug)]
struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("refused on purpose")
    }
}

impl std::error::Error for Refused {}

impl Host for Profiles {
    type File = u64;
    type Text = ();
    type Source = ();
    type Analysis = ();
    type Artifact = u8;
    type Profile = u8;
    type Error = Refused;

    fn load(&self, _: &u64) -> Result<Option<()>, Refused> {
        Ok(Some(()))
    }

    fn source(&self, _: &StageCx<'_, Self>, (): ()) -> Result<(), Refused> {
        Ok(())
    }

    fn analysis(&self, _: &StageCx<'_, Self>, (): &()) -> Result<(), Refused> {
        self.analyses.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn artifact(&self, _: &StageCx<'_, Self>, profile: &u8, (): &(), (): &()) -> Result<u8, Refused> {
        if *profile == 0 && !self.random.fetch_add(1, Ordering::Relaxed).is_multiple_of(64) {
            return Err(Refused);
        }
        Ok(*profile)
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

#[test]
fn the_failure_of_one_profile_never_touches_another_nor_the_analysis() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let stages = Stages::new(&runtime, Profiles { analyses: AtomicU64::new(0), random: AtomicU64::new(0) });
    let stop = AtomicBool::new(false);
    let file = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let handle = stages.submit_request(Request::artifact(file.load(Ordering::Relaxed), 0));
                    let _ = { handle }.wait_timeout(WATCHDOG).expect("the failing profile was not answered");
                }
            });
        }
        let begun = Instant::now();
        let mut asked = 0;
        while begun.elapsed() < Duration::from_secs(seconds()) {
            asked += 1;
            file.store(asked, Ordering::Relaxed);
            for profile in 1..40 {
                let answer = stages.submit_request(Request::artifact(asked, profile)).wait_timeout(WATCHDOG);
                match answer {
                    Some(Ok(value)) => assert_eq!(*value, profile),
                    other => {
                        stop.store(true, Ordering::Relaxed);
                        panic!("profile {profile} of file {asked}, which cannot fail, was answered {other:?}");
                    }
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        println!("{asked} files");
    });
    let files = file.load(Ordering::Relaxed) + 1;
    let analyses = stages.host().analyses.load(Ordering::Relaxed);
    assert!(analyses <= files, "{analyses} analyses of {files} files, none of which failed or moved on");
}

#[test]
fn a_waker_may_submit_with_the_unit_of_the_execution_that_it_is_told_of() {
    let host = Files::with([("a", "text"), ("b", "text")]);
    let runtime = threads(1);
    let budget = Budget::for_runtime(1, &runtime);
    let stages = Stages::builder(&runtime, host.clone()).budget(budget.clone()).build();
    let gate = host::Gate::default();
    host.hook({
        let gate = gate.clone();
        move |_, at| {
            if at.file == "a" {
                gate.pass();
            }
            Act::Go
        }
    });
    let mut first = stages.submit_request(Request::source(a()));
    let (send, told) = mpsc::channel();
    let again = stages.clone();
    when_told(&mut first, move || {
        let answer = again.try_submit_request(Request::source("b".to_owned()));
        send.send(matches!(answer, shardrun::Admission::Admitted(_))).unwrap();
    });
    gate.open();
    assert!(told.recv_timeout(WATCHDOG).unwrap(), "the unit of what is over was not free yet");
}

/// A name whose destructor panics where a test says so.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Bomb(u32);

static ARMED: Mutex<Option<std::thread::ThreadId>> = Mutex::new(None);

impl Drop for Bomb {
    fn drop(&mut self) {
        if *ARMED.lock().unwrap() == Some(std::thread::current().id()) && !std::thread::panicking() {
            panic!("asked for: a name's destructor");
        }
    }
}

struct Bombs;

impl Host for Bombs {
    type File = Bomb;
    type Text = ();
    type Source = ();
    type Analysis = ();
    type Artifact = ();
    type Profile = Bomb;
    type Error = std::io::Error;

    fn load(&self, _: &Bomb) -> Result<Option<()>, std::io::Error> {
        Ok(Some(()))
    }

    fn source(&self, _: &StageCx<'_, Self>, (): ()) -> Result<(), std::io::Error> {
        Ok(())
    }

    fn analysis(&self, _: &StageCx<'_, Self>, (): &()) -> Result<(), std::io::Error> {
        Ok(())
    }

    fn artifact(&self, _: &StageCx<'_, Self>, _: &Bomb, (): &(), (): &()) -> Result<(), std::io::Error> {
        Ok(())
    }
}

#[test]
fn destructors_of_names_that_panic_in_a_submission_leave_nothing_behind() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let budget = Budget::new(4);
    let stages = Stages::builder(&runtime, Bombs).budget(budget.clone()).build();
    type Ask = fn(&Stages<Bombs>) -> usize;
    let asks: [Ask; 6] = [
        |stages| stages.submit_request(Request::source(Bomb(1))).wait().is_ok().into(),
        |stages| stages.submit_request(Request::source(Bomb(1)).text(())).wait().is_ok().into(),
        |stages| stages.submit_request(Request::artifact(Bomb(1), Bomb(2))).wait().is_ok().into(),
        |stages| stages.submit_request(Request::artifact(Bomb(1), Bomb(2)).text(())).wait().is_ok().into(),
        |stages| {
            let requests = (0..3).map(|n| Request::artifact(Bomb(n % 2), Bomb(n)));
            stages.submit_batch_atomic(requests).wait().len()
        },
        |stages| {
            let requests = (0..3).map(|n| Request::artifact(Bomb(n % 2), Bomb(n)).text(()));
            stages.submit_batch_atomic(requests).wait().len()
        },
    ];
    for (at, ask) in asks.into_iter().enumerate() {
        for round in 0..3 {
            *ARMED.lock().unwrap() = Some(std::thread::current().id());
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ask(&stages)));
            *ARMED.lock().unwrap() = None;
            for file in 0..2 {
                for profile in 0..3 {
                    let mut fine = stages.submit_request(Request::artifact(Bomb(file), Bomb(profile)));
                    let answer = fine.wait_timeout(WATCHDOG).expect("an answer after a panic of a destructor");
                    assert!(answer.is_ok(), "{at} {round}: {answer:?}");
                }
            }
            let begun = Instant::now();
            while budget.in_use() > 0 {
                assert!(begun.elapsed() < WATCHDOG, "{} units were lost, case {at}", budget.in_use());
                std::thread::yield_now();
            }
        }
    }
}

/// A host whose own destructor panics.
struct Falling;

impl Drop for Falling {
    fn drop(&mut self) {
        panic!("asked for: a host's destructor");
    }
}

impl Host for Falling {
    type File = u32;
    type Text = ();
    type Source = ();
    type Analysis = ();
    type Artifact = ();
    type Profile = u32;
    type Error = std::io::Error;

    fn load(&self, _: &u32) -> Result<Option<()>, std::io::Error> {
        Ok(Some(()))
    }

    fn source(&self, _: &StageCx<'_, Self>, (): ()) -> Result<(), std::io::Error> {
        Ok(())
    }

    fn analysis(&self, _: &StageCx<'_, Self>, (): &()) -> Result<(), std::io::Error> {
        Ok(())
    }

    fn artifact(&self, _: &StageCx<'_, Self>, _: &u32, (): &(), (): &()) -> Result<(), std::io::Error> {
        Ok(())
    }
}

#[test]
fn b53_a_hosts_own_destructor_may_panic_whoever_lets_the_scheduler_go() {
    let runtime = Runtime::builder().driver(shardrun::Driver::Inline).build().unwrap();
    for with_root in [false, true] {
        let stages = Stages::new(&runtime, Falling);
        stages.submit_request(Request::artifact(1, 1)).wait().unwrap();
        let root = with_root.then(|| stages.capture_source_root());
        let caught = shardrun::contained_panics();
        drop(stages);
        drop(root);
        assert!(shardrun::contained_panics() > caught, "the host was dropped, and its panic went no further");
    }
}

thread_local! {
    /// What panics on this thread: comparing names, dropping texts.
    static FALLS: Cell<(bool, bool)> = const { Cell::new((false, false)) };
}

/// Calls `f` while what it is given panics.
fn while_falling<R>(comparisons: bool, f: impl FnOnce() -> R) -> R {
    FALLS.set((comparisons, true));
    let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    FALLS.set((false, false));
    answer.expect("no panic of the host's comes out of a submission")
}

#[derive(Clone, Debug, Eq)]
struct Name(u32);

/// A name that cannot be hashed.
const UNHASHED: u32 = 13;

impl Hash for Name {
    fn hash<S: Hasher>(&self, state: &mut S) {
        assert!(self.0 != UNHASHED, "asked for: a hash");
        self.0.hash(state);
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        assert!(!FALLS.get().0, "asked for: a comparison");
        self.0 == other.0
    }
}

#[derive(Clone)]
struct Text;

impl Drop for Text {
    fn drop(&mut self) {
        assert!(!FALLS.get().1, "asked for: a text's destructor");
    }
}

struct Texts;

impl Host for Texts {
    type File = Name;
    type Text = Text;
    type Source = ();
    type Analysis = ();
    type Artifact = ();
    type Profile = u32;
    type Error = std::io::Error;

    fn load(&self, _: &Name) -> Result<Option<Text>, std::io::Error> {
        Ok(Some(Text))
    }

    fn source(&self, _: &StageCx<'_, Self>, _: Text) -> Result<(), std::io::Error> {
        Ok(())
    }

    fn dependencies(&self, cx: &StageCx<'_, Self>, (): &()) -> Dependencies<Name> {
        let named = (cx.file().0 == 7).then_some(Name(UNHASHED));
        Dependencies::none().with_blockers(named)
    }

    fn analysis(&self, _: &StageCx<'_, Self>, (): &()) -> Result<(), std::io::Error> {
        Ok(())
    }

    fn artifact(&self, _: &StageCx<'_, Self>, _: &u32, (): &(), (): &()) -> Result<(), std::io::Error> {
        Ok(())
    }
}

#[test]
fn a_dependency_whose_name_panics_fails_source_of_who_named_it() {
    let runtime = Runtime::builder().driver(shardrun::Driver::Inline).build().unwrap();
    let stages = Stages::new(&runtime, Texts);
    let Err(StageError::Failed(failure)) = stages.submit_request(Request::artifact(Name(7), 1)).wait() else {
        panic!("it named what cannot be hashed")
    };
    assert_eq!((failure.file().0, failure.stage(), failure.generation()), (7, Stage::Source, 1));
    assert!(matches!(failure.cause(), FailureCause::Panicked(_)));
}

#[test]
fn a_text_that_no_revision_takes_is_dropped_contained_and_its_unit_comes_back() {
    let runtime = Runtime::builder().driver(shardrun::Driver::Inline).build().unwrap();
    let budget = Budget::new(4);
    let stages = Stages::builder(&runtime, Texts).budget(budget.clone()).build();
    let edit = || Request::source(Name(1)).text(Text);
    assert!(stages.submit_request(edit()).wait().is_ok());

    let mut two = while_falling(false, || stages.submit_batch_atomic([edit(), edit()]));
    assert!(two.wait().into_iter().all(|answer| answer.is_ok()), "the newer text stands for both");
    assert_eq!(budget.in_use(), 0, "after a batch in which one text stands for two");

    let answer = while_falling(true, || stages.submit_request(edit())).wait();
    assert!(matches!(answer, Err(StageError::Failed(_))), "{answer:?}");
    assert_eq!(budget.in_use(), 0, "after a panic of a comparison");
    assert_eq!(while_falling(true, || stages.set_text(Name(1), Text)), Moved::Unknown);

    stages.stop();
    let answer = while_falling(false, || stages.submit_request(edit())).wait();
    assert!(matches!(answer, Err(StageError::Shutdown)), "{answer:?}");
    assert_eq!(budget.in_use(), 0, "after a request of a scheduler that is stopped");
    assert_eq!(while_falling(false, || stages.set_text(Name(1), Text)), Moved::Ended);
    let mut two = while_falling(false, || stages.submit_batch_atomic([edit(), edit()]));
    assert!(two.wait().into_iter().all(|answer| matches!(answer, Err(StageError::Shutdown))));
    assert_eq!(budget.in_use(), 0, "after a batch of a scheduler that is stopped");
}

/// Its destructor panics also where another panics already.
struct Blast;

impl Drop for Blast {
    fn drop(&mut self) {
        panic!("asked for: a destructor of what a request brings");
    }
}

#[test]
fn a_requests_context_and_its_callback_may_both_panic_when_they_are_dropped() {
    let runtime = Runtime::builder().driver(shardrun::Driver::Inline).build().unwrap();
    let stages = Stages::new(&runtime, Falling);
    let blasting = || {
        let callback = Blast;
        let asks = Request::source(1).context(RequestContext::new(Blast));
        asks.on_join(move |_| drop(callback))
    };
    stages.submit_request(Request::source(1)).wait().unwrap();
    let caught = shardrun::contained_panics();
    assert!(stages.submit_request(blasting()).wait().is_ok(), "its value was there");
    assert!(stages.submit_batch_atomic([blasting()]).wait().remove(0).is_ok());
    stages.stop();
    assert!(matches!(stages.submit_request(blasting()).wait(), Err(StageError::Shutdown)));
    drop(blasting());
    assert!(shardrun::contained_panics() >= caught + 8, "each of both is contained by itself");
}
