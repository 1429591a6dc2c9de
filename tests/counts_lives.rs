//! What stays of files that were removed: nothing that grows, however many there were, under one name or under as many names.
//! One test alone stands here, since it counts the bytes of all threads.

use shardrun::{Driver, Host, Moved, Pool, Removed, Request, Runtime, StageCx, Stages};
use std::convert::Infallible;
use std::sync::atomic::Ordering;

#[path = "support/live_bytes.rs"]
mod live_bytes;

use live_bytes::LIVE;

/// A name; if it is `shared` all such names have one hash.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    number: u64,
    shared: bool,
}

impl std::hash::Hash for Name {
    fn hash<S: std::hash::Hasher>(&self, state: &mut S) {
        state.write_u64(if self.shared { 0 } else { self.number });
    }
}

struct Memory;

impl Host for Memory {
    type File = Name;
    type Text = u64;
    type Source = u64;
    type Analysis = u64;
    type Artifact = u64;
    type Profile = u8;
    type Error = Infallible;

    fn load(&self, file: &Name) -> Result<Option<u64>, Infallible> {
        Ok(Some(file.number))
    }

    fn source(&self, _: &StageCx<'_, Self>, text: u64) -> Result<u64, Infallible> {
        Ok(text)
    }

    fn analysis(&self, _: &StageCx<'_, Self>, source: &u64) -> Result<u64, Infallible> {
        Ok(*source)
    }

    fn artifact(&self, _: &StageCx<'_, Self>, _: &u8, _: &u64, analysis: &u64) -> Result<u64, Infallible> {
        Ok(*analysis)
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

/// A life of a file: a request, an edit, or an Artifact, and then its end.
fn live(stages: &Stages<Memory>, life: u64, name: Name) {
    match life % 16 {
        0 => assert!(stages.submit_request(Request::artifact(name.clone(), 1)).wait().is_ok()),
        1..8 => assert_eq!(stages.set_text(name.clone(), life), Moved::On),
        8 => drop(stages.submit_request(Request::analysis(name.clone()).text(life))),
        _ => assert!(stages.submit_request(Request::source(name.clone())).wait().is_ok()),
    }
    assert_eq!(stages.remove(&name), Removed::Gone);
}

#[test]
fn a_million_lives_of_one_file_and_of_a_million_files_leave_less_than_a_bound() {
    const BOUND: i64 = 64 << 10;
    const ROUNDS: u64 = if cfg!(debug_assertions) { 50_000 } else { 1_000_000 };
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let stages = Stages::new(&runtime, Memory);
    let name = |number, shared| Name { number, shared };
    let kinds: [(&str, &dyn Fn(u64) -> Name); 4] = [
        ("one name", &|_| name(1, false)),
        ("as many names", &|life| name(life, false)),
        ("few names of one hash", &|life| name(life % 5, true)),
        ("as many names of one hash", &|life| name(life, true)),
    ];
    for (what, name) in kinds {
        (0..2_000).for_each(|life| live(&stages, life, name(life)));
        let before = LIVE.load(Ordering::SeqCst);
        let mut most = 0;
        for life in 0..ROUNDS {
            live(&stages, life, name(life));
            if life % 1_000 == 0 {
                most = most.max(LIVE.load(Ordering::SeqCst) - before);
                runtime.drive_all();
            }
        }
        println!("{what}: at most {most} bytes beyond those of the first lives");
        assert!(most < BOUND, "{what}: {most} bytes");
        assert!(stages.is_empty());
    }
    // Unknown names leave nothing at all.
    let before = LIVE.load(Ordering::SeqCst);
    for number in 0..256 {
        let unknown = name(1 << 40 | number, false);
        assert_eq!(stages.remove(&unknown), Removed::Unknown);
        let moved = [stages.invalidate(&unknown), stages.close_file(&unknown), stages.rehome(&unknown)];
        assert_eq!(moved, [Moved::Unknown; 3]);
    }
    assert!(LIVE.load(Ordering::SeqCst) <= before, "unknown names leave nothing");
    // Resets with work pending, stops and restarts.
    let before = LIVE.load(Ordering::SeqCst);
    for round in 0..50 {
        (0..1_000).for_each(|number| drop(stages.submit_request(Request::artifact(name(number, number < 20), 1))));
        (0..round * 10).for_each(|_| _ = runtime.drive_one());
        assert_eq!(if round % 2 == 0 { stages.reset() } else { stages.stop() }, 1_000);
        stages.restart();
        runtime.drive_all();
    }
    (0..2_000).for_each(|life| live(&stages, life, name(life, false)));
    let left = LIVE.load(Ordering::SeqCst) - before;
    println!("after resets: {left} bytes");
    assert!(left < BOUND && stages.is_empty());
}
