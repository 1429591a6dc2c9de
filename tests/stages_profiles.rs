//! Hundreds of Artifacts of one file that are ready at once: each is made once, in the order of the requests, more urgent ones
//! sooner, and whatever ends them meanwhile answers all.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, Gate, driven, threads};
use shardrun::{Host, Pool, Priority, Request, Stage, StageCx, StageError, StageHandleOf, Stages, ToArtifact};
use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const WATCHDOG: Duration = Duration::from_secs(300);
const PROFILES: u32 = 800;

fn a() -> String {
    "a".into()
}

fn ask(stages: &Stages<Files>) -> Vec<StageHandleOf<Files, ToArtifact<u32>>> {
    (0..PROFILES).map(|profile| stages.submit_request(Request::artifact(a(), profile))).collect()
}

/// The profiles that were made, in order, by what the Artifacts say.
fn made(handles: Vec<StageHandleOf<Files, ToArtifact<u32>>>) -> usize {
    let expected = |(profile, handle): (usize, StageHandleOf<Files, ToArtifact<u32>>)| {
        assert_eq!(*handle.wait().unwrap(), format!("{profile}:analysis(text)"));
    };
    handles.into_iter().enumerate().map(expected).count()
}

#[test]
fn each_profile_is_made_once_whether_analysis_was_there_or_came_later() {
    let host = Files::with([("a", "text")]);
    for workers in [0, 1, 2] {
        let runtime = if workers == 0 { host::inline() } else { threads(workers) };
        for analysed in [false, true] {
            for limited in [false, true] {
                host.forget();
                let builder = Stages::builder(&runtime, host.clone());
                let stages = if limited { builder.limit(Pool::Workers, 1).unwrap().build() } else { builder.build() };
                if analysed {
                    stages.submit_request(Request::analysis(a())).wait().unwrap();
                }
                assert_eq!(made(ask(&stages)), PROFILES as usize);
                assert_eq!(host.ran(Stage::Artifact, "a"), PROFILES as usize);
                assert_eq!(host.ran(Stage::Analysis, "a"), 1);
            }
        }
    }
}

#[test]
fn profiles_are_made_in_the_order_of_the_requests_and_strangers_come_in_between() {
    // Where it is there already each is made ready by its own request; else all of them by the end of Analysis.
    for analysed in [true, false] {
        let host = Files::with([("a", "text"), ("b", "text")]);
        let (runtime, stages) = driven(&host);
        if analysed {
            stages.submit_request(Request::analysis(a())).wait().unwrap();
        }
        let mut handles = ask(&stages);
        let stranger = stages.submit_request(Request::source("b".into()));
        assert!(stranger.wait().is_ok());
        assert!(host.ran(Stage::Artifact, "a") < 20, "a stranger waits for a few at most");
        let mut before = 0;
        while runtime.drive_one() {
            let done = handles.iter().take_while(|handle| handle.is_resolved()).count();
            let rest = &handles[done..];
            assert!(done >= before && rest.iter().all(|handle| !handle.is_resolved()), "out of order at {done}");
            before = done;
        }
        assert!(handles.iter_mut().all(|handle| handle.try_get().unwrap().is_ok()));
    }
}

#[test]
fn a_profile_that_becomes_more_urgent_overtakes_those_that_are_queued_together() {
    let host = Files::with([("a", "text")]);
    let (runtime, stages) = driven(&host);
    stages.submit_request(Request::analysis(a())).wait().unwrap();
    let handles = ask(&stages);
    for _ in 0..3 {
        assert!(runtime.drive_one());
    }
    let urgent = stages.submit_request(Request::artifact(a(), PROFILES - 1).priority(Priority::Critical));
    urgent.wait().unwrap();
    assert!(host.ran(Stage::Artifact, "a") < 40, "{} came before", host.ran(Stage::Artifact, "a"));
    assert_eq!(made(handles), PROFILES as usize);
    assert_eq!(host.ran(Stage::Artifact, "a"), PROFILES as usize, "none is made twice");
}

#[test]
fn urgent_profiles_do_not_wait_with_the_others_that_a_less_urgent_ticket_finds() {
    let host = Files::with([("a", "text")]);
    let (runtime, stages) = driven(&host);
    stages.submit_request(Request::analysis(a())).wait().unwrap();
    let ask = |first: u32, priority: Priority| -> Vec<_> {
        let ask = |profile| stages.submit_request(Request::artifact(a(), first + profile).priority(priority));
        (0..300).map(ask).collect()
    };
    let (slow, urgent) = (ask(0, Priority::Background), ask(1_000, Priority::Interactive));
    while host.ran(Stage::Artifact, "a") < 300 {
        assert!(runtime.drive_one());
    }
    let over = |handles: &[StageHandleOf<Files, ToArtifact<u32>>]| handles.iter().filter(|it| it.is_resolved()).count();
    assert!(over(&urgent) >= 150, "{} urgent ones of the first {}", over(&urgent), over(&urgent) + over(&slow));
}

#[test]
fn whatever_ends_profiles_that_are_queued_together_answers_all_of_them() {
    type End = fn(&Stages<Files>, &shardrun::Runtime);
    type Says = fn(&StageError<Files>) -> bool;
    let shut_down: Says = |error| matches!(error, StageError::Shutdown);
    let ends: [(&str, End, Says); 5] = [
        (
            "an edit",
            |stages, _| _ = stages.set_text(a(), "new".into()),
            |error| matches!(error, StageError::Superseded),
        ),
        ("a removal", |stages, _| _ = stages.remove(&a()), shut_down),
        ("a reset", |stages, _| _ = stages.reset(), shut_down),
        ("a stop", |stages, _| _ = stages.stop(), shut_down),
        ("the end of the runtime", |_, runtime| _ = runtime.shutdown_within(Duration::ZERO), shut_down),
    ];
    for (what, end, says) in ends {
        let (host, gate) = (Files::with([("a", "text")]), Gate::default());
        let runtime = threads(1);
        let stages = Stages::new(&runtime, host.clone());
        stages.submit_request(Request::analysis(a())).wait().unwrap();
        let inside = gate.clone();
        host.hook(move |_, at| {
            if at.stage == Stage::Artifact {
                inside.pass();
            }
            Act::Go
        });
        let first = stages.submit_request(Request::artifact(a(), PROFILES));
        gate.arrived(1);
        let mut handles = ask(&stages);
        gate.open();
        // Some are made, perhaps, before the end.
        let _ = first.wait();
        end(&stages, &runtime);
        for (profile, handle) in handles.iter_mut().enumerate() {
            let answer = handle.wait_timeout(WATCHDOG).unwrap_or_else(|| panic!("{what}: {profile} is not answered"));
            assert!(answer.as_ref().err().is_none_or(says), "{what}: {profile}: {answer:?}");
        }
        drop(stages);
        runtime.shutdown();
    }
}

/// A profile that counts how often it is compared, and of which some share a hash.
#[derive(Clone, Debug)]
struct Compared {
    name: u32,
    hash: u32,
    times: Arc<AtomicUsize>,
}

impl PartialEq for Compared {
    fn eq(&self, other: &Self) -> bool {
        self.times.fetch_add(1, Ordering::Relaxed);
        self.name == other.name
    }
}

impl Eq for Compared {}

impl Hash for Compared {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

struct Names;

impl Host for Names {
    type File = u8;
    type Text = ();
    type Source = ();
    type Analysis = ();
    type Artifact = u32;
    type Profile = Compared;
    type Error = Infallible;

    fn load(&self, _: &u8) -> Result<Option<()>, Infallible> {
        Ok(Some(()))
    }

    fn source(&self, _: &StageCx<'_, Self>, (): ()) -> Result<(), Infallible> {
        Ok(())
    }

    fn analysis(&self, _: &StageCx<'_, Self>, (): &()) -> Result<(), Infallible> {
        Ok(())
    }

    fn artifact(&self, _: &StageCx<'_, Self>, profile: &Compared, (): &(), (): &()) -> Result<u32, Infallible> {
        Ok(profile.name)
    }
}

#[test]
fn a_profile_is_compared_with_those_of_its_hash_alone_however_many_there_are() {
    for hashes in [u32::MAX, 100, 1] {
        let runtime = host::inline();
        let stages = Stages::new(&runtime, Names);
        let times = Arc::new(AtomicUsize::new(0));
        let profile = |name| Compared { name, hash: name % hashes, times: times.clone() };
        for name in 0..PROFILES {
            assert_eq!(*stages.submit_request(Request::artifact(0, profile(name))).wait().unwrap(), name);
        }
        times.store(0, Ordering::Relaxed);
        for name in 0..PROFILES {
            assert_eq!(stages.try_get_artifact(&0, &profile(name)).as_deref(), Some(&name));
            assert_eq!(stages.try_get_last_good_artifact(&0, &profile(name)).as_deref(), Some(&name));
        }
        assert!(stages.try_get_artifact(&0, &profile(PROFILES)).is_none());
        let most = (2 * PROFILES + 1) * PROFILES.div_ceil(hashes);
        let compared = times.load(Ordering::Relaxed);
        assert!(compared <= most as usize, "{compared} comparisons where {hashes} hashes ask for {most}");
    }
}

#[test]
fn threads_that_ask_for_many_profiles_of_one_file_make_each_once() {
    let host = Files::with([("a", "text")]);
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host.clone());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let stages = &stages;
            scope.spawn(move || {
                for profile in (0..200).map(|at| (at * 7 + thread * 50) % 200) {
                    let made = stages.submit_request(Request::artifact(a(), profile)).wait().unwrap();
                    assert_eq!(*made, format!("{profile}:analysis(text)"));
                    assert!(stages.try_get_artifact(&a(), &profile).is_some());
                }
            });
        }
    });
    assert_eq!(host.ran(Stage::Artifact, "a"), 200);
}
