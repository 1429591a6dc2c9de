//! Artifacts that are published from outside with a witness of the Source that they were made of, and their eviction.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, Gate, driven, threads};
use shardrun::{
    Budget, ForeignWitness, Moved, RefusedCommit, Removed, Request, SourceVersion, SourceWitness, Stage, StageError,
    Stages,
};
use std::sync::Arc;

const PROFILE: u32 = 7;

fn a() -> String {
    "a".into()
}

fn made(text: &str) -> Arc<String> {
    Arc::new(text.into())
}

/// Brings the file to Analysis, and gives a witness of its Source.
fn witnessed(stages: &Stages<Files>) -> SourceWitness<Files> {
    stages.submit_request(Request::analysis(a())).wait().unwrap();
    stages.try_get_witnessed_source(&a()).unwrap().1
}

fn read(stages: &Stages<Files>) -> Option<String> {
    stages.try_get_artifact(&a(), &PROFILE).map(|artifact| artifact.to_string())
}

fn because<T>(refused: Result<T, shardrun::CommitRefused<Files>>) -> RefusedCommit {
    refused.err().expect("it is refused").because
}

#[test]
fn a_witness_is_given_with_the_source_that_it_is_of() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    assert!(stages.try_get_witnessed_source(&a()).is_none(), "nothing is published yet");
    stages.submit_request(Request::source(a())).wait().unwrap();
    let (source, witness) = stages.try_get_witnessed_source(&a()).unwrap();
    assert_eq!((&**source, &**witness.file(), witness.version().generation), ("one", "a", 1));
    let again = stages.try_get_source_for_witness(&witness).unwrap().unwrap();
    assert!(Arc::ptr_eq(&source, &again));
    stages.submit_request(Request::source(a()).text("two".into())).wait().unwrap();
    assert!(stages.try_get_source_for_witness(&witness).unwrap().is_none(), "the file has moved on");
    let (_, newer) = stages.try_get_witnessed_source(&a()).unwrap();
    assert!(newer.version() > witness.version());
    let (incarnation, generation) = (witness.version().incarnation + 1, 0);
    assert!(SourceVersion { incarnation, generation } > newer.version(), "incarnation first");
}

#[test]
fn s79_a_commit_with_the_current_witness_wins_over_the_worker_and_answers_the_waiters() {
    let (host, gate) = (Files::with([("a", "one")]), Gate::default());
    let runtime = threads(1);
    let budget = Budget::for_runtime(8, &runtime);
    let stages = Stages::builder(&runtime, host.clone()).budget(budget.clone()).build();
    let witness = witnessed(&stages);
    let at = gate.clone();
    host.hook(move |_, _| {
        at.pass();
        Act::Go
    });
    let waiter = stages.submit_request(Request::artifact(a(), PROFILE));
    let joiner = stages.submit_request(Request::artifact(a(), PROFILE));
    gate.arrived(1);
    assert_eq!(budget.in_use(), 1);
    stages.commit_artifact(&witness, &PROFILE, made("outside")).unwrap();
    assert_eq!(budget.in_use(), 0, "the unit of the execution is free at once");
    assert_eq!(*waiter.wait().unwrap(), "outside");
    assert_eq!(*joiner.wait().unwrap(), "outside");
    gate.open();
    // The one worker has to come back from the refused execution first.
    assert_eq!(*stages.submit_request(Request::artifact(a(), 8)).wait().unwrap(), "8:analysis(one)");
    assert_eq!(read(&stages).as_deref(), Some("outside"), "the worker's result is refused");
    let good = stages.try_get_last_good_artifact(&a(), &PROFILE).unwrap();
    assert_eq!(&**good, "outside");
    let counters = stages.counters();
    assert_eq!((counters.stale_refusals, counters.external_commits), (1, 1));
}

#[test]
fn a_commit_takes_the_place_of_an_artifact_and_of_one_that_failed_or_was_cancelled() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    let witness = witnessed(&stages);
    stages.submit_request(Request::artifact(a(), PROFILE)).wait().unwrap();
    stages.commit_artifact(&witness, &PROFILE, made("outside")).unwrap();
    assert_eq!(read(&stages).as_deref(), Some("outside"));
    stages.commit_artifact(&witness, &PROFILE, made("again")).unwrap();
    assert_eq!(read(&stages).as_deref(), Some("again"));
    assert_eq!(&**stages.try_get_last_good_artifact(&a(), &PROFILE).unwrap(), "again");
    host.hook(|_, _| Act::Fail("no"));
    assert!(stages.submit_request(Request::artifact(a(), 8)).wait().is_err());
    stages.commit_artifact(&witness, &8, made("mended")).unwrap();
    let answer = stages.submit_request(Request::artifact(a(), 8));
    assert!(answer.is_resolved());
    assert_eq!(*answer.wait().unwrap(), "mended");
    stages.commit_artifact(&witness, &9, made("never asked for")).unwrap();
    assert_eq!(*stages.submit_request(Request::artifact(a(), 9)).wait().unwrap(), "never asked for");
}

#[test]
fn a_commit_is_refused_without_analysis_and_once_the_file_has_moved_on() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    stages.submit_request(Request::source(a())).wait().unwrap();
    let (_, witness) = stages.try_get_witnessed_source(&a()).unwrap();
    let refused = stages.commit_artifact(&witness, &PROFILE, made("early")).unwrap_err();
    assert_eq!(refused.because, RefusedCommit::NotAnalysed);
    assert_eq!(&**refused.artifact, "early", "what is refused is given back");
    stages.submit_request(Request::analysis(a())).wait().unwrap();
    stages.invalidate(&a());
    assert_eq!(because(stages.commit_artifact(&witness, &PROFILE, made("late"))), RefusedCommit::Stale);
    // The same text again, at a newer generation.
    stages.submit_request(Request::analysis(a())).wait().unwrap();
    assert_eq!(because(stages.commit_artifact(&witness, &PROFILE, made("late"))), RefusedCommit::Stale);
    assert!(read(&stages).is_none() && stages.try_get_last_good_artifact(&a(), &PROFILE).is_none());
}

#[test]
fn a_witness_outlives_a_retry_at_its_generation() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    stages.submit_request(Request::source(a())).wait().unwrap();
    let (_, witness) = stages.try_get_witnessed_source(&a()).unwrap();
    host.hook(|_, at| if at.stage == Stage::Analysis { Act::Fail("no") } else { Act::Go });
    assert!(stages.submit_request(Request::analysis(a())).wait().is_err());
    assert_eq!(because(stages.commit_artifact(&witness, &PROFILE, made("early"))), RefusedCommit::NotAnalysed);
    host.unhook();
    stages.submit_request(Request::analysis(a())).wait().unwrap();
    stages.commit_artifact(&witness, &PROFILE, made("outside")).unwrap();
    assert_eq!(read(&stages).as_deref(), Some("outside"));
}

#[test]
fn a_witness_of_a_life_that_is_over_is_refused_though_text_and_generation_are_the_same() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    let ends: [&dyn Fn(); 3] =
        [&|| assert_eq!(stages.remove(&a()), Removed::Gone), &|| assert_eq!(stages.reset(), 1), &|| {
            assert_eq!(stages.rehome(&a()), Moved::On)
        }];
    for end in ends {
        let old = witnessed(&stages);
        stages.commit_artifact(&old, &PROFILE, made("old")).unwrap();
        end();
        assert_eq!(because(stages.commit_artifact(&old, &PROFILE, made("late"))), RefusedCommit::Stale);
        let new = witnessed(&stages);
        assert_ne!(old.version(), new.version());
        assert_eq!(because(stages.commit_artifact(&old, &PROFILE, made("late"))), RefusedCommit::Stale);
        assert_eq!(stages.try_get_source_for_witness(&old), Ok(None));
        assert!(read(&stages).is_none());
        stages.commit_artifact(&new, &PROFILE, made("new")).unwrap();
        assert_eq!(stages.remove_artifact_not_newer_than(&old, &PROFILE), Ok(false));
        assert_eq!(read(&stages).as_deref(), Some("new"));
    }
}

#[test]
fn a_witness_of_another_scheduler_is_refused_and_one_of_a_scheduler_that_is_gone_keeps_nothing() {
    let host = Files::with([("a", "one")]);
    let (_first, stages) = driven(&host);
    let (_second, other) = driven(&host);
    let (foreign, _) = (witnessed(&other), witnessed(&stages));
    assert_eq!(because(stages.commit_artifact(&foreign, &PROFILE, made("no"))), RefusedCommit::Foreign);
    assert_eq!(stages.try_get_source_for_witness(&foreign), Err(ForeignWitness));
    assert_eq!(stages.remove_artifact_not_newer_than(&foreign, &PROFILE), Err(ForeignWitness));
    let (source, _) = other.try_get_witnessed_source(&a()).unwrap();
    drop(other);
    assert_eq!(Arc::strong_count(&source), 1, "the witness keeps nothing alive");
    assert_eq!(stages.try_get_source_for_witness(&foreign.clone()), Err(ForeignWitness));
}

#[test]
fn s81_an_eviction_takes_what_is_not_newer_than_its_witness() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    let old = witnessed(&stages);
    assert_eq!(stages.remove_artifact_not_newer_than(&old, &PROFILE), Ok(false), "there is none");
    stages.submit_request(Request::artifact(a(), PROFILE).text("two".into())).wait().unwrap();
    let (_, current) = stages.try_get_witnessed_source(&a()).unwrap();
    assert_eq!(stages.remove_artifact_not_newer_than(&old, &PROFILE), Ok(false), "it is newer");
    assert_eq!(read(&stages).as_deref(), Some("7:analysis(two)"));
    assert_eq!(stages.remove_artifact_not_newer_than(&current, &PROFILE), Ok(true));
    assert_eq!(stages.remove_artifact_not_newer_than(&current, &PROFILE), Ok(false));
    assert!(read(&stages).is_none() && stages.try_get_last_good_artifact(&a(), &PROFILE).is_none());
    let before = host.ran(Stage::Artifact, "a");
    stages.submit_request(Request::artifact(a(), PROFILE)).wait().unwrap();
    assert_eq!(host.ran(Stage::Artifact, "a"), before + 1, "it is made anew");
    assert!(stages.try_get_last_good_artifact(&a(), &PROFILE).is_some());
    stages.invalidate(&a());
    assert_eq!(stages.remove_artifact_not_newer_than(&old, &PROFILE), Ok(false));
    assert_eq!(
        stages.remove_artifact_not_newer_than(&current, &PROFILE),
        Ok(true),
        "the last good one of its generation"
    );
    assert!(stages.try_get_last_good_artifact(&a(), &PROFILE).is_none());
}

#[test]
fn s15_the_last_good_artifact_is_read_after_an_invalidation_and_the_current_is_not() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    let witness = witnessed(&stages);
    stages.submit_request(Request::artifact(a(), PROFILE)).wait().unwrap();
    stages.invalidate(&a());
    assert!(read(&stages).is_none());
    assert_eq!(&**stages.try_get_last_good_artifact(&a(), &PROFILE).unwrap(), "7:analysis(one)");
    // What is committed at an older generation comes too late for it too.
    assert!(stages.commit_artifact(&witness, &PROFILE, made("late")).is_err());
    assert_eq!(&**stages.try_get_last_good_artifact(&a(), &PROFILE).unwrap(), "7:analysis(one)");
}

#[test]
fn an_edit_that_waits_behind_a_commit_supersedes_only_later_requests() {
    let host = Files::with([("a", "one")]);
    let (runtime, stages) = driven(&host);
    let witness = witnessed(&stages);
    let waiter = stages.submit_request(Request::artifact(a(), PROFILE));
    stages.commit_artifact(&witness, &PROFILE, made("outside")).unwrap();
    let edited = stages.submit_request(Request::artifact(a(), PROFILE).text("two".into()));
    assert_eq!(*waiter.wait().unwrap(), "outside", "it was answered before the edit");
    assert!(stages.commit_artifact(&witness, &PROFILE, made("late")).is_err());
    runtime.drive_all();
    assert_eq!(*edited.wait().unwrap(), "7:analysis(two)");
    let pending = stages.submit_request(Request::artifact(a(), 8));
    stages.invalidate(&a());
    assert!(matches!(pending.wait(), Err(StageError::Superseded)));
}

/// A host whose profiles panic when they are compared, if a test says so.
mod fragile {
    use shardrun::{Driver, Host, RefusedCommit, Request, Runtime, StageCx, Stages};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[derive(Clone, Debug)]
    struct Profile(Arc<AtomicBool>);

    impl PartialEq for Profile {
        fn eq(&self, _: &Self) -> bool {
            assert!(!self.0.load(Ordering::Relaxed), "compared");
            true
        }
    }

    impl Eq for Profile {}

    impl std::hash::Hash for Profile {
        fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
    }

    struct Plain;

    impl Host for Plain {
        type File = u8;
        type Text = ();
        type Source = ();
        type Analysis = ();
        type Artifact = u8;
        type Profile = Profile;
        type Error = std::io::Error;

        fn load(&self, _: &u8) -> Result<Option<()>, std::io::Error> {
            Ok(Some(()))
        }

        fn source(&self, _: &StageCx<'_, Self>, _: ()) -> Result<(), std::io::Error> {
            Ok(())
        }

        fn analysis(&self, _: &StageCx<'_, Self>, _: &()) -> Result<(), std::io::Error> {
            Ok(())
        }

        fn artifact(&self, _: &StageCx<'_, Self>, _: &Profile, _: &(), _: &()) -> Result<u8, std::io::Error> {
            Ok(1)
        }
    }

    #[test]
    fn b31_profiles_that_panic_when_they_are_compared_are_contained() {
        let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
        let stages = Stages::new(&runtime, Plain);
        let panics = Arc::new(AtomicBool::new(false));
        let profile = Profile(panics.clone());
        stages.submit_request(Request::artifact(0, profile.clone())).wait().unwrap();
        let (_, witness) = stages.try_get_witnessed_source(&0).unwrap();
        panics.store(true, Ordering::Relaxed);
        let refused = stages.commit_artifact(&witness, &profile, Arc::new(2)).unwrap_err();
        assert!(matches!(refused.because, RefusedCommit::Panicked(_)));
        assert_eq!(stages.remove_artifact_not_newer_than(&witness, &profile), Ok(false));
        panics.store(false, Ordering::Relaxed);
        assert_eq!(stages.try_get_artifact(&0, &profile).as_deref(), Some(&1));
        stages.commit_artifact(&witness, &profile, Arc::new(2)).unwrap();
        assert_eq!(stages.try_get_artifact(&0, &profile).as_deref(), Some(&2));
    }
}
