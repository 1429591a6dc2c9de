//! What stays of files that were only named as dependencies: nothing that grows, however many names came and went.
//! One test alone stands here, since it counts the bytes of all threads.

use shardrun::{
    Dependencies, Driver, Host, Moved, Pool, Registered, Removed, Request, Runtime, SourceLookup, StageCx, Stages,
};
use std::convert::Infallible;
use std::sync::atomic::Ordering;

#[path = "support/live_bytes.rs"]
mod live_bytes;

use live_bytes::LIVE;

/// A name; all those of `crowd` have one hash.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    number: u64,
    crowd: bool,
}

impl std::hash::Hash for Name {
    fn hash<S: std::hash::Hasher>(&self, state: &mut S) {
        state.write_u64(if self.crowd { 0 } else { self.number });
    }
}

fn name(number: u64) -> Name {
    Name { number, crowd: number.is_multiple_of(8) }
}

/// Its files name others by what their text is: three names that no other text gives.
struct Memory;

const NAMED: u64 = 3;

fn named(text: u64) -> impl Iterator<Item = Name> {
    (0..if text == 0 { 0 } else { NAMED }).map(move |at| name(1 << 40 | (text * NAMED + at)))
}

impl Host for Memory {
    type File = Name;
    type Text = u64;
    type Source = u64;
    type Analysis = ();
    type Artifact = ();
    type Profile = u8;
    type Error = Infallible;

    fn load(&self, _: &Name) -> Result<Option<u64>, Infallible> {
        Ok(Some(0))
    }

    fn source(&self, _: &StageCx<'_, Self>, text: u64) -> Result<u64, Infallible> {
        Ok(text)
    }

    fn dependencies(&self, _: &StageCx<'_, Self>, source: &u64) -> Dependencies<Name> {
        Dependencies::none().with(named(*source))
    }

    fn analysis(&self, _: &StageCx<'_, Self>, _: &u64) -> Result<(), Infallible> {
        Ok(())
    }

    fn artifact(&self, _: &StageCx<'_, Self>, _: &u8, _: &u64, (): &()) -> Result<(), Infallible> {
        Ok(())
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

fn edit(stages: &Stages<Memory>, owner: &Name, text: u64) {
    stages.submit_request(Request::source(owner.clone()).text(text)).wait().expect("the stage does not fail");
}

fn owner() -> Name {
    name(1)
}

/// Each edit of the owner names other files than the one before.
fn by_edits(stages: &Stages<Memory>, round: u64) {
    edit(stages, &owner(), round);
    assert_eq!(stages.dependents(&named(round).next().unwrap()), [owner()]);
}

/// Names are registered before the owner has Source, and replaced by others, and cleared.
fn by_registrations(stages: &Stages<Memory>, round: u64) {
    assert_eq!(stages.set_text(owner(), 0), Moved::On);
    for text in [round * 2, round * 2 + 1] {
        let registered = stages.register_resolved_deps(&owner(), Dependencies::none().with(named(text)));
        assert_eq!(registered, Registered::Deferred);
    }
    if round.is_multiple_of(2) {
        assert_eq!(stages.register_resolved_deps(&owner(), Dependencies::none()), Registered::Deferred);
    }
    stages.submit_request(Request::source(owner())).wait().unwrap();
}

/// An owner names files, registers more, and is removed.
fn by_owners(stages: &Stages<Memory>, round: u64) {
    let owner = name(round);
    edit(stages, &owner, round * 2);
    let registered = stages.register_resolved_deps(&owner, Dependencies::none().with(named(round * 2 + 1)));
    assert_eq!(registered, Registered::Now);
    assert_eq!(stages.len() as u64, 1 + 2 * NAMED);
    assert_eq!(stages.remove(&owner), Removed::Gone);
    assert!(stages.is_empty());
}

/// A file that is named is asked for and removed while it is named.
fn by_lives(stages: &Stages<Memory>, round: u64) {
    edit(stages, &owner(), round);
    let named = named(round).next().unwrap();
    stages.submit_request(Request::source(named.clone())).wait().unwrap();
    assert_eq!(stages.remove(&named), Removed::Gone);
}

/// Requests that look a name up and find that they ask for nothing new, and names that nobody knows.
fn by_questions(stages: &Stages<Memory>, round: u64) {
    edit(stages, &owner(), round);
    let named = named(round).next().unwrap();
    assert!(!stages.has_file(&named));
    assert_eq!(stages.remove(&named), Removed::Unknown);
    assert_eq!(stages.invalidate(&named), Moved::Unknown);
    assert!(matches!(stages.capture_source_root().lookup(&named), SourceLookup::Unknown));
}

#[test]
fn names_that_come_and_go_leave_less_than_a_bound() {
    const BOUND: i64 = 64 << 10;
    const ROUNDS: u64 = if cfg!(debug_assertions) { 5_000 } else { 100_000 };
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let stages = Stages::new(&runtime, Memory);
    type Round = fn(&Stages<Memory>, u64);
    let ways: [(&str, Round); 5] = [
        ("edits", by_edits),
        ("registrations", by_registrations),
        ("owners", by_owners),
        ("lives", by_lives),
        ("questions", by_questions),
    ];
    for (what, round) in ways {
        (1..1_000).for_each(|at| round(&stages, at));
        let (before, mut most, mut longest) = (LIVE.load(Ordering::SeqCst), 0, 0);
        for at in 1_000..1_000 + ROUNDS {
            round(&stages, at);
            longest = longest.max(stages.len());
            if at % 500 == 0 {
                most = most.max(LIVE.load(Ordering::SeqCst) - before);
                runtime.drive_all();
            }
        }
        println!("{what}: at most {most} bytes beyond those of the first rounds, {longest} files at once");
        assert!(most < BOUND, "{what}: {most} bytes");
        assert!(longest as u64 <= 1 + 2 * NAMED, "{what}: {longest} files at once");
        let _ = stages.remove(&owner());
        assert!(stages.is_empty(), "{what}: {} files", stages.len());
    }
}
