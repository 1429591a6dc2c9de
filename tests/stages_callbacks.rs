//! Every call of the host's code, one after the other, does something to the scheduler that has called it, or panics: names, texts
//! and profiles that are copied, compared, hashed and dropped, and every function of the host. Whatever it does, all requests
//! are answered, no panic comes out, nothing is left behind, and the scheduler still does what it is for.

use shardrun::{Budget, Dependencies, Driver, Host, Pool, Request, Runtime, StageCx, StageError, StageHandle, Stages};
use std::cell::Cell;
use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// Where the host is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    NameCopied,
    NameCompared,
    NameHashed,
    NameDropped,
    TextCopied,
    TextDropped,
    ProfileCopied,
    ProfileCompared,
    ProfileHashed,
    ProfileDropped,
    Load,
    Source,
    Dependencies,
    Analysis,
    Artifact,
    Joined,
}

const PLACES: [Place; 16] = [
    Place::NameCopied,
    Place::NameCompared,
    Place::NameHashed,
    Place::NameDropped,
    Place::TextCopied,
    Place::TextDropped,
    Place::ProfileCopied,
    Place::ProfileCompared,
    Place::ProfileHashed,
    Place::ProfileDropped,
    Place::Load,
    Place::Source,
    Place::Dependencies,
    Place::Analysis,
    Place::Artifact,
    Place::Joined,
];

type Deed = fn(&Stages<World>);

thread_local! {
    /// The scheduler, where the deed is done, at which call it is, and what it is; nothing while one is done.
    static PLAN: Cell<Option<Plan>> = const { Cell::new(None) };
}

struct Plan {
    stages: Stages<World>,
    place: Place,
    left: u32,
    deed: Deed,
}

/// The host is called.
fn called(place: Place) {
    let Some(mut plan) = PLAN.try_with(Cell::take).ok().flatten() else { return };
    if plan.place != place || plan.left > 0 {
        plan.left -= u32::from(plan.place == place);
        return PLAN.set(Some(plan));
    }
    // Once, and nothing that it leads to.
    let Plan { stages, deed, .. } = plan;
    deed(&stages);
}

#[derive(Debug)]
struct Name(u32);
#[derive(Debug)]
struct Text(u32);
#[derive(Debug)]
struct Profile(u32);

impl Clone for Name {
    fn clone(&self) -> Self {
        called(Place::NameCopied);
        Self(self.0)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        called(Place::NameCompared);
        self.0 == other.0
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        called(Place::NameHashed);
        // Some share a hash.
        (self.0 % 2).hash(state);
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        called(Place::NameDropped);
    }
}

impl Clone for Text {
    fn clone(&self) -> Self {
        called(Place::TextCopied);
        Self(self.0)
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        called(Place::TextDropped);
    }
}

impl Clone for Profile {
    fn clone(&self) -> Self {
        called(Place::ProfileCopied);
        Self(self.0)
    }
}

impl PartialEq for Profile {
    fn eq(&self, other: &Self) -> bool {
        called(Place::ProfileCompared);
        self.0 == other.0
    }
}

impl Eq for Profile {}

impl Hash for Profile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        called(Place::ProfileHashed);
        // Some share a hash.
        (self.0 % 2).hash(state);
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        called(Place::ProfileDropped);
    }
}

struct World;

impl Host for World {
    type File = Name;
    type Text = Text;
    type Source = u32;
    type Analysis = u32;
    type Artifact = u32;
    type Profile = Profile;
    type Error = Infallible;

    fn load(&self, file: &Name) -> Result<Option<Text>, Infallible> {
        called(Place::Load);
        Ok(Some(Text(file.0)))
    }

    fn source(&self, _: &StageCx<'_, Self>, text: Text) -> Result<u32, Infallible> {
        called(Place::Source);
        Ok(text.0)
    }

    fn dependencies(&self, cx: &StageCx<'_, Self>, _: &u32) -> Dependencies<Name> {
        called(Place::Dependencies);
        match cx.file().0 {
            0 => Dependencies::none().with_blockers([Name(1)]),
            _ => Dependencies::none(),
        }
    }

    fn analysis(&self, _: &StageCx<'_, Self>, source: &u32) -> Result<u32, Infallible> {
        called(Place::Analysis);
        Ok(*source)
    }

    fn artifact(&self, _: &StageCx<'_, Self>, _: &Profile, _: &u32, analysis: &u32) -> Result<u32, Infallible> {
        called(Place::Artifact);
        Ok(*analysis)
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

const DEEDS: [(&str, Deed); 16] = [
    ("panic", |_| panic!("asked for")),
    ("remove", |stages| _ = stages.remove(&Name(0))),
    ("remove the blocker", |stages| _ = stages.remove(&Name(1))),
    ("reset", |stages| _ = stages.reset()),
    ("stop", |stages| _ = stages.stop()),
    ("re-home", |stages| _ = stages.rehome(&Name(0))),
    ("invalidate", |stages| _ = stages.invalidate(&Name(0))),
    ("close", |stages| _ = stages.close_file(&Name(0))),
    ("edit both", |stages| drop(stages.submit_batch_atomic([0, 1].map(|n| Request::source(Name(n)).text(Text(7)))))),
    ("register", |stages| {
        stages.register_resolved_deps(&Name(0), Dependencies::none().with_blockers([Name(1), Name(2), Name(0)]));
    }),
    ("register nothing", |stages| _ = stages.register_resolved_deps(&Name(0), Dependencies::none())),
    ("commit and evict", |stages| {
        let Some((_, witness)) = stages.try_get_witnessed_source(&Name(0)) else { return };
        let _ = stages.commit_artifact(&witness, &Profile(1), Arc::new(9));
        let _ = stages.remove_artifact_not_newer_than(&witness, &Profile(1));
    }),
    ("ask", |stages| drop(stages.submit_request(Request::artifact(Name(0), Profile(1))))),
    ("ask and cancel", |stages| stages.submit_request(Request::artifact(Name(0), Profile(1))).cancel()),
    ("wait", |stages| {
        for profile in 1..3 {
            let mut handle = stages.submit_request(Request::artifact(Name(0), Profile(profile)));
            let _ = handle.wait_timeout(Duration::ZERO);
        }
    }),
    ("look around", |stages| {
        stages.capture_source_root().lookup(&Name(0));
        let _ = (stages.dependents(&Name(1)), stages.dependency_occupancy(), stages.try_get_source(&Name(0)));
        let _ = stages.quiesce_within(Duration::ZERO);
    }),
];

/// Names and profiles of the clients' own, which nobody drops.
static NAMES: [Name; 4] = [Name(0), Name(1), Name(2), Name(3)];
static PROFILES: [Profile; 4] = [Profile(0), Profile(1), Profile(2), Profile(3)];

fn name(number: usize) -> &'static Name {
    &NAMES[number]
}

fn profile(number: usize) -> &'static Profile {
    &PROFILES[number]
}

/// Drops what is the client's own, so that nothing is done in its destructors.
fn drop_quietly<T>(own: T) {
    let plan = PLAN.take();
    drop(own);
    PLAN.set(plan);
}

/// What clients do; all their handles.
fn clients(stages: &Stages<World>, runtime: &Runtime) -> Vec<StageHandle<World>> {
    let artifact = |number| Request::artifact(Name(0), Profile(number));
    let mut handles = vec![StageHandle::Artifact(stages.submit_request(artifact(1)))];
    handles.push(StageHandle::Artifact(stages.submit_request(artifact(1).on_join(|_| called(Place::Joined)))));
    runtime.drive_one();
    let registered = Dependencies::none().with_blockers([Name(1), Name(2)]);
    stages.register_resolved_deps(name(0), registered);
    runtime.drive_all();
    let root = stages.capture_source_root();
    handles.push(StageHandle::Analysis(stages.submit_request(Request::analysis(Name(0)).text(Text(1)))));
    runtime.drive_one();
    let batch = [artifact(2).text(Text(2)).any(), Request::source(Name(1)).any(), artifact(1).any()];
    handles.extend(stages.submit_batch_atomic(batch).into_handles());
    runtime.drive_all();
    if let Some((_, witness)) = stages.try_get_witnessed_source(name(0)) {
        let _ = stages.commit_artifact(&witness, profile(3), Arc::new(5));
        let _ = stages.remove_artifact_not_newer_than(&witness, profile(3));
        drop_quietly(witness);
    }
    let _ = (stages.try_get_artifact(name(0), profile(1)), stages.try_get_last_good_artifact(name(0), profile(2)));
    stages.set_text(Name(0), Text(3));
    root.lookup(name(0));
    stages.remove(name(1));
    handles.push(StageHandle::Source(stages.submit_request(Request::source(Name(3)))));
    stages.invalidate(name(0));
    drop_quietly(stages.dependents(name(1)));
    handles.push(StageHandle::Artifact(stages.submit_request(artifact(1))));
    runtime.drive_all();
    handles
}

/// One run. Whether the deed was done.
fn run(place: Place, at: u32, deed: Deed) -> bool {
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let budget = Budget::for_runtime(64, &runtime);
    let stages = Stages::builder(&runtime, World).budget(budget.clone()).build();
    PLAN.set(Some(Plan { stages: stages.clone(), place, left: at, deed }));
    let handles = clients(&stages, &runtime);
    let done = PLAN.take().is_none();
    runtime.drive_all();
    for mut handle in handles {
        let answer = handle.try_get().unwrap_or_else(|| panic!("{handle:?} is not answered"));
        let fine = !matches!(answer, Err(StageError::Cancelled | StageError::GenerationExhausted));
        assert!(fine, "{answer:?}");
    }
    stages.restart();
    for file in 0..3 {
        let answer = stages.submit_request(Request::artifact(Name(file), Profile(1))).wait();
        assert!(answer.is_ok(), "{file}: {answer:?}");
    }
    assert_eq!(stages.quiesce_within(Duration::ZERO), Ok(true));
    assert_eq!(stages.dependency_occupancy(), Default::default());
    let counters = stages.counters();
    assert_eq!((budget.in_use(), counters.live_roots, counters.retained_versions), (0, 0, 0));
    done
}

#[test]
fn every_call_of_the_hosts_code_may_do_anything_once() {
    let mut deeds = 0;
    for place in PLACES {
        for (name, deed) in DEEDS {
            let mut at = 0;
            let did = |at| {
                std::panic::catch_unwind(|| run(place, at, deed))
                    .unwrap_or_else(|_| panic!("{name} at call {at} of {place:?}"))
            };
            while at < 60 && did(at) {
                // The first ones all, then some.
                at += 1 + at / 8;
                deeds += 1;
            }
            assert!(at > 0, "{place:?} is never called");
        }
    }
    println!("{deeds} deeds");
}
