//! Dependencies in the whole engine: owners, blockers, edits, registrations, failures and removals in any order of their steps.

use super::check;
use crate::stages::{Dependencies, Host, Registered, Request, Stage, StageCx, StageError, Stages};
use crate::sync::stat::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, thread};
use crate::{Driver, Pool, Runtime};

const FILES: usize = 3;

/// File 0 is blocked by file 1, and file 1 by file 0; file 2 is registered late.
#[derive(Default)]
struct Ring {
    begun: [[AtomicU64; 3]; FILES],
    /// Whose Analysis has been made at least once.
    analysed: [AtomicBool; FILES],
    /// How often the Analysis of file 1 fails yet.
    failures: AtomicU64,
}

#[derive(Debug)]
struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("refused")
    }
}

impl std::error::Error for Refused {}

impl Ring {
    fn begin(&self, cx: &StageCx<'_, Self>) {
        let stage = match cx.stage() {
            Stage::Source => 0,
            Stage::Analysis => 1,
            Stage::Artifact => 2,
        };
        self.begun[*cx.file()][stage].fetch_add(1, Ordering::Relaxed);
        thread::yield_now();
    }

    fn begun(&self, file: usize, stage: usize) -> u64 {
        self.begun[file][stage].load(Ordering::Relaxed)
    }
}

impl Host for Ring {
    type File = usize;
    type Text = u64;
    type Source = u64;
    type Analysis = u64;
    type Artifact = u64;
    type Profile = u8;
    type Error = Refused;

    fn load(&self, _: &usize) -> Result<Option<u64>, Refused> {
        Ok(Some(0))
    }

    fn source(&self, cx: &StageCx<'_, Self>, text: u64) -> Result<u64, Refused> {
        self.begin(cx);
        Ok(text)
    }

    fn dependencies(&self, cx: &StageCx<'_, Self>, _: &u64) -> Dependencies<usize> {
        match *cx.file() {
            2 => Dependencies::none(),
            file => Dependencies::none().with_blockers([1 - file]),
        }
    }

    fn analysis(&self, cx: &StageCx<'_, Self>, source: &u64) -> Result<u64, Refused> {
        self.begin(cx);
        let fails = *cx.file() == 1
            && self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if fails {
            return Err(Refused);
        }
        self.analysed[*cx.file()].store(true, Ordering::Relaxed);
        Ok(*source)
    }

    fn artifact(&self, cx: &StageCx<'_, Self>, _: &u8, _: &u64, analysis: &u64) -> Result<u64, Refused> {
        let file = *cx.file();
        if file < 2 {
            assert!(self.analysed[1 - file].load(Ordering::Relaxed), "an Artifact of {file} without its blocker");
        }
        self.begin(cx);
        Ok(*analysis)
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

fn world(failures: u64) -> (Runtime, Stages<Ring>) {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let host = Ring { failures: AtomicU64::new(failures), ..Ring::default() };
    let stages = Stages::builder(&runtime, host).seed(1).build();
    (runtime, stages)
}

fn spawn<T: Send + 'static>(
    (runtime, stages): (&Runtime, &Stages<Ring>),
    client: impl FnOnce(&Stages<Ring>, &Runtime) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let (stages, runtime) = (stages.clone(), runtime.clone());
    thread::spawn(move || client(&stages, &runtime))
}

fn nothing_waits(stages: &Stages<Ring>) {
    let occupied = stages.dependency_occupancy();
    assert_eq!((occupied.edges, occupied.demanded, occupied.deferred), (0, 0, 0), "{occupied:?}");
}

/// Owners that block each other, whose files move on meanwhile and who register more, are all answered, and no Artifact is made
/// before its blocker was analysed.
#[test]
fn owners_are_answered_and_none_runs_without_its_blocker() {
    check(|| {
        let (runtime, stages) = world(0);
        let at = (&runtime, &stages);
        let asks = [0, 1].map(|file| {
            spawn(at, move |stages, runtime| {
                let handle = stages.submit_request(Request::artifact(file, 1));
                runtime.drive_one();
                runtime.drive_one();
                let edit = stages.submit_request(Request::source(1 - file).text(file as u64 + 1));
                runtime.drive_one();
                (handle, edit)
            })
        });
        let registers = spawn(at, |stages, runtime| {
            runtime.drive_one();
            let registered = stages.register_resolved_deps(&0, Dependencies::none().with_blockers([1, 2]));
            runtime.drive_one();
            assert_ne!(registered, Registered::Refused);
        });
        let withdraws = spawn(at, |stages, runtime| {
            let handle = stages.submit_request(Request::artifact(0, 2));
            runtime.drive_one();
            handle.cancel();
        });
        let handles = asks.map(|client| client.join().unwrap());
        registers.join().unwrap();
        withdraws.join().unwrap();
        runtime.drive_all();
        for (mut artifact, mut source) in handles {
            let answer = artifact.try_get().expect("an owner was never answered");
            assert!(matches!(answer, Ok(_) | Err(StageError::Superseded)), "{answer:?}");
            assert!(source.try_get().is_some(), "an edit was never answered");
        }
        for file in 0..2 {
            let mut last = stages.submit_request(Request::artifact(file, 1));
            runtime.drive_all();
            assert!(last.try_get().expect("an owner was never answered").is_ok());
        }
        nothing_waits(&stages);
    });
}

/// A blocker that fails once fails those owners that meet it with the failure's own cause, and whoever asks for it again clears it.
#[test]
fn a_failure_reaches_who_meets_it_and_is_cleared_by_a_retry() {
    check(|| {
        let (runtime, stages) = world(1);
        let at = (&runtime, &stages);
        let owners = [1, 2].map(|profile| {
            spawn(at, move |stages, runtime| {
                let handle = stages.submit_request(Request::artifact(0, profile));
                runtime.drive_all();
                handle
            })
        });
        let direct = spawn(at, |stages, runtime| {
            runtime.drive_one();
            let first = stages.submit_request(Request::analysis(1));
            runtime.drive_all();
            let again = stages.submit_request(Request::analysis(1));
            runtime.drive_all();
            (first, again)
        });
        let owners = owners.map(|owner| owner.join().unwrap());
        let (mut first, mut again) = direct.join().unwrap();
        runtime.drive_all();
        for mut owner in owners {
            if let Err(error) = owner.try_get().expect("an owner was never answered") {
                let failure = error.dependency().expect("only the blocker fails");
                assert_eq!((*failure.file(), failure.cause().failure().unwrap().stage()), (1, Stage::Analysis));
            }
        }
        // Both may have joined the one execution that failed.
        assert!(first.try_get().is_some() && again.try_get().is_some());
        let mut retry = stages.submit_request(Request::analysis(1));
        runtime.drive_all();
        assert!(retry.try_get().unwrap().is_ok(), "a retry failed although nothing fails any more");
        let mut last = stages.submit_request(Request::artifact(0, 3));
        runtime.drive_all();
        assert!(last.try_get().expect("an owner was never answered").is_ok());
        nothing_waits(&stages);
    });
}

/// An owner that asks for its blocker in the moment in which the blocker's Analysis ends is answered.
#[test]
fn an_owner_that_asks_as_the_analysis_ends_is_answered() {
    check(|| {
        let (runtime, stages) = world(0);
        stages.submit_request(Request::analysis(0)).detach();
        stages.submit_request(Request::source(1)).detach();
        runtime.drive_all();
        stages.submit_request(Request::analysis(1)).detach();
        let ends = spawn((&runtime, &stages), |_, runtime| runtime.drive_one());
        let mut owner = stages.submit_request(Request::artifact(0, 1));
        ends.join().unwrap();
        runtime.drive_all();
        assert!(owner.try_get().expect("the owner was never answered").is_ok());
        nothing_waits(&stages);
    });
}

/// An owner that is removed while its blocker moves on leaves nothing behind: nothing runs for nobody.
#[test]
fn an_owner_that_goes_while_its_blocker_moves_on_leaves_no_demand() {
    check(|| {
        let (runtime, stages) = world(0);
        let owner = stages.submit_request(Request::artifact(0, 1));
        assert!(runtime.drive_one());
        assert_eq!(stages.dependency_occupancy().edges, 1);
        let mover = spawn((&runtime, &stages), |stages, _| {
            stages.set_text(1, 7);
            stages.invalidate(&1);
        });
        stages.remove(&0);
        mover.join().unwrap();
        runtime.drive_all();
        assert!(matches!(owner.wait(), Err(StageError::Shutdown)));
        assert_eq!(stages.host().begun(1, 0), 0, "the blocker ran for nobody");
        nothing_waits(&stages);
    });
}

/// Who asks for an Artifact as another withdraws from it, so that its generation is tried again, is answered: the blockers are asked for
/// by one of the two.
#[test]
fn an_owner_that_asks_as_the_last_other_withdraws_is_answered() {
    check(|| {
        let (runtime, stages) = world(0);
        let first = stages.submit_request(Request::artifact(0, 1));
        assert!(runtime.drive_one());
        assert_eq!(stages.dependency_occupancy().edges, 1);
        let driver = spawn((&runtime, &stages), |_, runtime| runtime.drive_one());
        let asks = spawn((&runtime, &stages), |stages, _| stages.submit_request(Request::artifact(0, 2)));
        first.cancel();
        driver.join().unwrap();
        let mut second = asks.join().unwrap();
        runtime.drive_all();
        assert!(second.try_get().expect("the owner was never answered").is_ok());
        nothing_waits(&stages);
    });
}

/// Who registers beside the removal of the owner asks for nothing on behalf of what has gone.
#[test]
fn a_registration_beside_the_removal_of_its_owner_asks_for_nothing() {
    for has_source in [false, true] {
        check(move || {
            let (runtime, stages) = world(0);
            match has_source {
                true => stages.submit_request(Request::source(2)).detach(),
                false => _ = stages.set_text(2, 1),
            }
            runtime.drive_all();
            let registers = spawn((&runtime, &stages), |stages, _| {
                stages.register_resolved_deps(&2, Dependencies::none().with_blockers([1]));
            });
            stages.remove(&2);
            registers.join().unwrap();
            // If it came after the removal it has begun a new life of its own.
            let lives = stages.has_file(&2);
            runtime.drive_all();
            if !lives {
                assert_eq!(stages.host().begun(1, 0), 0, "the blocker ran for nobody");
                nothing_waits(&stages);
            }
        });
    }
}

/// What is registered while Source is computed, or while the file moves on, is taken in by a generation that has Source.
#[test]
fn what_is_registered_beside_source_or_an_edit_is_taken_in() {
    check(|| registers_beside(|_, runtime| _ = runtime.drive_one()));
    check(|| registers_beside(|stages, _| _ = stages.set_text(2, 5)));
}

/// What is registered then is asked for, whether an Artifact is wanted or not.
#[test]
fn what_is_registered_beside_source_or_an_edit_is_asked_for_at_once() {
    let asked = |other| {
        let (runtime, stages) = registered_beside(other);
        runtime.drive_all();
        assert_eq!(stages.host().begun(1, 1), 1, "the blocker that was registered was not asked for");
        let occupied = stages.dependency_occupancy();
        assert_eq!((occupied.edges, occupied.demanded), (0, 0), "{occupied:?}");
    };
    check(move || asked(|_, runtime| _ = runtime.drive_one()));
    check(move || asked(|stages, _| _ = stages.set_text(2, 5)));
}

fn registered_beside(other: fn(&Stages<Ring>, &Runtime)) -> (Runtime, Stages<Ring>) {
    let (runtime, stages) = world(0);
    stages.submit_request(Request::source(2)).detach();
    let other = spawn((&runtime, &stages), other);
    let registered = stages.register_resolved_deps(&2, Dependencies::none().with_blockers([1]));
    assert_ne!(registered, Registered::Refused);
    other.join().unwrap();
    (runtime, stages)
}

fn registers_beside(other: fn(&Stages<Ring>, &Runtime)) {
    let (runtime, stages) = registered_beside(other);
    let mut owner = stages.submit_request(Request::artifact(2, 1));
    runtime.drive_all();
    assert!(owner.try_get().expect("the owner was never answered").is_ok());
    assert_eq!(stages.host().begun(1, 1), 1, "the blocker that was registered was not asked for");
    nothing_waits(&stages);
}

/// Of two that register for one owner while its blocker is waited for, one takes the edge over from the other in the end, and the owner
/// is answered.
#[test]
fn an_edge_that_two_registrations_take_over_answers_the_last() {
    check(|| {
        let (runtime, stages) = world(0);
        stages.submit_request(Request::analysis(2)).detach();
        runtime.drive_all();
        let register = |stages: &Stages<Ring>, _: &Runtime| {
            let registered = stages.register_resolved_deps(&2, Dependencies::none().with_blockers([1]));
            assert_ne!(registered, Registered::Refused);
        };
        register(&stages, &runtime);
        let mut owner = stages.submit_request(Request::artifact(2, 1));
        let clients = [
            spawn((&runtime, &stages), register),
            spawn((&runtime, &stages), register),
            spawn((&runtime, &stages), |stages, runtime| {
                stages.invalidate(&1);
                runtime.drive_one();
            }),
        ];
        clients.into_iter().for_each(|client| client.join().unwrap());
        runtime.drive_all();
        assert!(owner.try_get().expect("the owner was never answered").is_ok());
        nothing_waits(&stages);
    });
}
