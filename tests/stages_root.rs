//! Source roots: what they show, that it never changes, and how much is kept for them.

#[path = "support/stages_host.rs"]
mod host;

use host::{Act, Files, Gate, driven, inline, threads};
use shardrun::{Removed, Request, SourceLookup, SourceRoot, Stage, Stages};
use std::sync::Arc;

fn edit(stages: &Stages<Files>, file: &str, text: &str) {
    stages.submit_request(Request::source(file.into()).text(text.into())).wait().unwrap();
}

/// What a root shows, in short.
fn shown(root: &SourceRoot<Files>, file: &str) -> String {
    match root.lookup(&file.into()) {
        SourceLookup::Unknown => "?".into(),
        SourceLookup::Absent => "-".into(),
        SourceLookup::Present(source, _) => source.to_string(),
    }
}

/// Versions that are kept for roots.
fn kept(stages: &Stages<Files>) -> u64 {
    stages.counters().retained_versions
}

#[test]
fn s109_a_root_shows_for_ever_what_was_published_when_it_was_captured() {
    let host = Files::with([("a", "one"), ("b", "stored")]);
    let (_runtime, stages) = driven(&host);
    let empty = stages.capture_source_root();
    stages.submit_request(Request::analysis("a".into())).wait().unwrap();
    let first = stages.capture_source_root();
    edit(&stages, "a", "two");
    let second = stages.capture_source_root();
    stages.invalidate(&"a".into());
    let third = stages.capture_source_root();
    stages.submit_request(Request::source("a".into())).wait().unwrap();
    let roots = [&empty, &first, &second, &third];
    for _ in 0..2 {
        assert_eq!(roots.map(|root| shown(root, "a")), ["?", "one", "two", "-"]);
        assert_eq!(roots.map(|root| shown(root, "b")), ["?", "?", "?", "?"]);
        edit(&stages, "a", "three");
        edit(&stages, "b", "three");
    }
    assert!(empty.epoch() < first.epoch() && first.epoch() < second.epoch());
    let generations = roots.map(|root| root.lookup(&"a".into()).version().map(|version| version.generation));
    assert_eq!(generations, [None, Some(1), Some(2), None]);
    assert!(first.lookup(&"a".into()).version() < second.lookup(&"a".into()).version());
}

#[test]
fn s109_a_root_shows_all_of_a_batch_or_nothing() {
    let host = Files::default();
    let (_runtime, stages) = driven(&host);
    let batch = |text: &str| {
        let edits = ["a", "b", "c"].map(|file| Request::source(file.into()).text(text.into()));
        stages.submit_batch_atomic(edits).wait();
    };
    let all = |root: &SourceRoot<Files>| ["a", "b", "c"].map(|file| shown(root, file));
    batch("one");
    let first = stages.capture_source_root();
    batch("two");
    let second = stages.capture_source_root();
    batch("three");
    assert_eq!((all(&first), all(&second)), (["one"; 3].map(String::from), ["two"; 3].map(String::from)));
    assert_eq!(kept(&stages), 6);
    drop(first);
    assert_eq!(kept(&stages), 3);
}

#[test]
fn what_was_never_published_is_unknown_and_what_is_gone_is_absent() {
    let host = Files::with([("a", "one"), ("b", "one")]);
    host.hook(|_, at| if at.file == "b" { Act::Fail("no") } else { Act::Go });
    let (runtime, stages) = driven(&host);
    assert!(stages.submit_request(Request::source("b".into())).wait().is_err());
    let pending = stages.submit_request(Request::source("a".into()));
    let root = stages.capture_source_root();
    assert_eq!((shown(&root, "a"), shown(&root, "b"), shown(&root, "c")), ("?".into(), "?".into(), "?".into()));
    runtime.drive_all();
    assert!(pending.is_resolved());
    assert_eq!(shown(&root, "a"), "?", "it was published after the capture");
    assert!(!stages.has_file(&"c".into()), "a look makes nothing");
    let edited = stages.submit_request(Request::source("d".into()).text("text".into()));
    let root = stages.capture_source_root();
    assert_eq!(shown(&root, "d"), "-", "an edit says that the file is there, and its source is not");
    edited.wait().unwrap();
    assert_eq!(shown(&root, "d"), "-");
    assert_eq!(shown(&stages.capture_source_root(), "d"), "text");
}

#[test]
fn a_retry_changes_no_root() {
    let host = Files::with([("a", "one")]);
    let (_runtime, stages) = driven(&host);
    host.hook(|_, at| if at.stage == Stage::Analysis { Act::Fail("no") } else { Act::Go });
    edit(&stages, "a", "zero");
    let zero = stages.capture_source_root();
    edit(&stages, "a", "one");
    let before = stages.capture_source_root();
    for _ in 0..3 {
        assert!(stages.submit_request(Request::analysis("a".into())).wait().is_err());
        assert_eq!((shown(&zero, "a"), shown(&before, "a")), ("zero".into(), "one".into()));
    }
    host.unhook();
    stages.submit_request(Request::analysis("a".into())).wait().unwrap();
    let after = stages.capture_source_root();
    edit(&stages, "a", "two");
    let now = [&zero, &before, &after].map(|root| shown(root, "a"));
    assert_eq!(now, ["zero", "one", "one"]);
    assert_eq!(kept(&stages), 2);
    drop((zero, before, after));
    assert_eq!(kept(&stages), 0);
}

#[test]
fn a_version_is_kept_exactly_as_long_as_a_root_shows_it() {
    const ROOTS: usize = 64;
    let host = Files::default();
    let (_runtime, stages) = driven(&host);
    let sources: Vec<_> = (0..ROOTS)
        .map(|n| {
            // Only the last of three edits is shown by a root.
            ["x", "y", ""].into_iter().for_each(|more| edit(&stages, "a", &format!("{n}{more}")));
            let root = stages.capture_source_root();
            let source = Arc::downgrade(&stages.try_get_source(&"a".into()).unwrap());
            (root, source)
        })
        .collect();
    assert_eq!((stages.counters().live_roots, kept(&stages)), (ROOTS as u64, ROOTS as u64 - 1));
    edit(&stages, "a", "end");
    let mut sources: Vec<_> = sources.into_iter().map(|(root, source)| (Some(root), source)).collect();
    let mut left = ROOTS;
    // In an order that is neither that of the captures nor its reverse.
    for at in (0..ROOTS).map(|at| at * 29 % ROOTS) {
        assert_eq!(shown(sources[at].0.as_ref().unwrap(), "a"), at.to_string());
        sources[at].0 = None;
        left -= 1;
        assert_eq!(kept(&stages), left as u64);
        // The others have theirs still, through all that is cut out between.
        let alive = sources.iter().enumerate().filter_map(|(at, (root, _))| Some((at, root.as_ref()?)));
        alive.for_each(|(at, root)| assert_eq!(shown(root, "a"), at.to_string()));
    }
    assert_eq!(stages.counters().live_roots, 0);
    // What was cut out waits for readers' pins in bags: after as many more, it is gone.
    for n in 0..2_000 {
        edit(&stages, "a", &n.to_string());
    }
    let alive = sources.iter().filter(|(_, source)| source.strong_count() > 0).count();
    assert_eq!(alive, 0, "a version is alive that no root shows");
}

#[test]
fn one_old_root_keeps_one_version_of_a_file_and_none_of_what_has_not_moved() {
    let host = Files::default();
    let (_runtime, stages) = driven(&host);
    for file in 0..100 {
        edit(&stages, &file.to_string(), "text");
    }
    let old = stages.capture_source_root();
    assert_eq!(kept(&stages), 0);
    for n in 0..1_000 {
        edit(&stages, "7", &n.to_string());
        drop(stages.capture_source_root());
    }
    assert_eq!(kept(&stages), 1);
    assert_eq!(shown(&old, "7"), "text");
    drop(old);
    assert_eq!((kept(&stages), stages.counters().live_roots), (0, 0));
}

#[test]
fn one_transition_is_one_epoch_and_what_moves_nothing_is_none() {
    let host = Files::with([("a", "one")]);
    let (runtime, stages) = driven(&host);
    let epochs = || stages.counters().epochs;
    assert_eq!(epochs(), 0);
    stages.submit_request(Request::analysis("a".into())).wait().unwrap();
    assert_eq!(epochs(), 1, "one source was published");
    let edits = (0..50).map(|n| Request::analysis(n.to_string()).text("text".into()));
    let mut batch = stages.submit_batch_atomic(edits);
    assert_eq!(epochs(), 2, "fifty files in one transition");
    batch.wait();
    assert_eq!(epochs(), 52);
    let mut nothing = stages.submit_batch_atomic(Vec::<Request<Files>>::new());
    assert!(nothing.wait().is_empty());
    stages.invalidate(&"unknown".into());
    drop(stages.capture_source_root());
    assert_eq!(epochs(), 52);
    stages.close_file(&"1".into());
    assert_eq!(epochs(), 53);
    runtime.drive_all();
}

#[test]
fn at_the_end_of_all_epochs_a_root_shows_nothing() {
    let host = Files::with([("a", "one")]);
    let runtime = inline();
    let stages = Stages::builder(&runtime, host).first_epoch(u64::MAX - (1 << 32) - 1).build();
    stages.submit_request(Request::source("a".into())).wait().unwrap();
    let last = stages.capture_source_root();
    assert!(!last.is_exhausted());
    assert_eq!(shown(&last, "a"), "one");
    for _ in 0..3 {
        let root = stages.capture_source_root();
        assert!(root.is_exhausted());
        assert_eq!(shown(&root, "a"), "?");
    }
    edit(&stages, "a", "two");
    assert_eq!(shown(&last, "a"), "one", "what was captured before is sealed still");
    assert_eq!(stages.counters().live_roots, 1);
    drop(last);
    assert_eq!(kept(&stages), 0);
    assert_eq!(**stages.try_get_source(&"a".into()).unwrap(), *"two");
}

#[test]
fn a_root_outlives_its_scheduler_and_does_not_keep_it_from_ending() {
    let host = Files::default();
    let (_runtime, stages) = driven(&host);
    edit(&stages, "a", "one");
    let root = stages.capture_source_root();
    let pending = stages.submit_request(Request::source("a".into()).text("two".into()));
    drop(stages);
    assert!(pending.is_resolved(), "the scheduler has ended");
    assert_eq!(shown(&root, "a"), "one");
}

#[test]
fn a_removed_file_is_shown_by_older_roots_and_gone_for_later_ones() {
    let host = Files::default();
    let (_runtime, stages) = driven(&host);
    edit(&stages, "a", "one");
    let before = stages.capture_source_root();
    assert_eq!(stages.remove(&"a".into()), Removed::Gone);
    let after = stages.capture_source_root();
    assert_eq!((shown(&before, "a"), shown(&after, "a")), ("one".into(), "-".into()));
    assert_eq!((stages.len(), kept(&stages)), (0, 1));
    // A new life beside what the roots show of the old one.
    edit(&stages, "a", "two");
    let life = stages.capture_source_root();
    assert_eq!(stages.len(), 1);
    assert_eq!([&before, &after, &life].map(|root| shown(root, "a")), ["one", "-", "two"]);
    assert!(life.lookup(&"a".into()).version() > before.lookup(&"a".into()).version());
    drop(before);
    assert_eq!(kept(&stages), 0);
    assert_eq!([&after, &life].map(|root| shown(root, "a")), ["-", "two"], "what is sealed stays so");
    assert_eq!(stages.remove(&"a".into()), Removed::Gone);
    let last = stages.capture_source_root();
    assert_eq!([&after, &life, &last].map(|root| shown(root, "a")), ["-", "two", "-"]);
    drop((after, life));
    // Nobody is older than the removal now: who comes from here on does not know the file, and the last root is told the same.
    assert_eq!(shown(&stages.capture_source_root(), "a"), "?");
    assert_eq!(shown(&last, "a"), "-");
    drop(last);
    assert_eq!((stages.len(), kept(&stages)), (0, 0));
    stages.remove(&"never".into());
    edit(&stages, "b", "one");
    stages.remove(&"b".into());
    assert_eq!(shown(&stages.capture_source_root(), "b"), "?", "nothing is kept for nobody");
}

#[test]
fn a_reset_is_one_epoch_and_older_roots_keep_their_files() {
    let host = Files::default();
    let (_runtime, stages) = driven(&host);
    let files: Vec<_> = (0..20).map(|n| n.to_string()).collect();
    files.iter().for_each(|file| edit(&stages, file, "one"));
    let old = stages.capture_source_root();
    files.iter().for_each(|file| edit(&stages, file, "two"));
    let newer = stages.capture_source_root();
    let epochs = stages.counters().epochs;
    assert_eq!(stages.reset(), 20);
    assert_eq!(stages.counters().epochs, epochs + 1);
    let empty = stages.capture_source_root();
    edit(&stages, "0", "three");
    let last = stages.capture_source_root();
    for file in &files {
        assert_eq!([&old, &newer, &empty].map(|root| shown(root, file)), ["one", "two", "?"]);
    }
    assert_eq!(shown(&last, "0"), "three");
    stages.reset();
    drop(newer);
    assert_eq!((shown(&old, "7"), shown(&last, "0"), shown(&last, "7")), ("one".into(), "three".into(), "?".into()));
    drop((old, empty, last));
    assert_eq!((stages.counters().live_roots, kept(&stages)), (0, 0));
}

#[test]
fn b97_a_million_removals_and_returns_leave_nothing_beside_an_old_root() {
    const ROUNDS: usize = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };
    let host = Files::default();
    let (_runtime, stages) = driven(&host);
    edit(&stages, "a", "first");
    let old = stages.capture_source_root();
    let mut alive = Vec::new();
    for n in 0..ROUNDS {
        edit(&stages, "a", "text");
        if n % (ROUNDS / 10) == 0 {
            alive.push(Arc::downgrade(&stages.try_get_source(&"a".into()).unwrap()));
        }
        stages.remove(&"a".into());
    }
    assert_eq!((shown(&old, "a"), kept(&stages), stages.len()), ("first".into(), 1, 0));
    let alive = alive.iter().filter(|source| source.strong_count() > 0).count();
    assert!(alive <= 1, "lives that no root shows are kept");
    drop(old);
    assert_eq!(kept(&stages), 0);
}

#[test]
fn a_thousand_roots_of_files_that_move() {
    const ROOTS: usize = 1_000;
    let host = Files::default();
    let (_runtime, stages) = driven(&host);
    let roots: Vec<_> = (0..ROOTS)
        .map(|n| {
            edit(&stages, &(n % 10).to_string(), &n.to_string());
            stages.capture_source_root()
        })
        .collect();
    assert_eq!(stages.counters().live_roots, ROOTS as u64);
    assert_eq!(kept(&stages), ROOTS as u64 - 10);
    for (n, root) in roots.iter().enumerate() {
        for file in 0..10 {
            // The newest edit of that file up to the root's own.
            let newest = (0..=n).rev().find(|edit| edit % 10 == file).map_or("?".into(), |edit| edit.to_string());
            assert_eq!(shown(root, &file.to_string()), newest);
        }
    }
    // A quarter at a time.
    let mut roots: Vec<_> = roots.into_iter().map(Some).collect();
    for part in [2, 0, 3, 1] {
        roots.iter_mut().skip(part).step_by(4).for_each(|root| *root = None);
    }
    assert_eq!((stages.counters().live_roots, kept(&stages)), (0, 0));
}

#[test]
fn roots_are_captured_and_dropped_while_files_move() {
    const FILES: usize = 4;
    const ROUNDS: usize = 400;
    let host = Files::default();
    let runtime = threads(2);
    let stages = Stages::new(&runtime, host);
    let batch = |text: usize| {
        let edits = (0..FILES).map(|file| Request::source(file.to_string()).text(text.to_string()));
        stages.submit_batch_atomic(edits)
    };
    batch(0).wait();
    let gate = Gate::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                gate.pass();
                let mut old = None;
                for _ in 0..ROUNDS {
                    let root = stages.capture_source_root();
                    let all: Vec<_> = (0..FILES).map(|file| shown(&root, &file.to_string())).collect();
                    // Those of one batch that are there are of one text: none of two batches is shown beside another.
                    let texts: std::collections::HashSet<_> = all.iter().filter(|text| *text != "-").collect();
                    assert!(texts.len() <= 1, "two batches beside each other: {all:?}");
                    let again: Vec<_> = (0..FILES).map(|file| shown(&root, &file.to_string())).collect();
                    assert_eq!(all, again);
                    if let Some((root, all)) = old.replace((root, all)) {
                        let root: SourceRoot<Files> = root;
                        let again: Vec<_> = (0..FILES).map(|file| shown(&root, &file.to_string())).collect();
                        assert_eq!(again, all, "a root has changed");
                    }
                }
            });
        }
        scope.spawn(|| {
            gate.pass();
            (1..ROUNDS).for_each(|text| drop(batch(text)));
        });
        gate.arrived(3);
        gate.open();
    });
    batch(ROUNDS).wait();
    assert_eq!((stages.counters().live_roots, kept(&stages)), (0, 0));
    let root = stages.capture_source_root();
    (0..FILES).for_each(|file| assert_eq!(shown(&root, &file.to_string()), ROUNDS.to_string()));
}
