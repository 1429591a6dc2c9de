//! The history file: what it remembers, and that no damage to it stops a run.

use shardrun::{Driver, Ended, History, Plan, Run, RunObserver, Runtime, TaskFailure};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A folder of its own, removed afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("shardrun-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
    fn file(&self) -> PathBuf {
        self.0.join("history")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

struct Quiet;
impl<X> RunObserver<X> for Quiet {
    fn error_line(&self, _: &Plan, _: shardrun::TaskId, _: &str) {}
}

/// Runs tasks one after the other on a virtual clock: names, milliseconds, peak memory; names with `!` fail, with `~` abort.
fn remember(history: &mut History, tasks: &[(&'static str, u64, Option<u64>)]) {
    let mut plan = Plan::builder();
    plan.concurrency(1);
    for (name, ..) in tasks {
        plan.task(name);
    }
    let runtime = Runtime::builder().driver(Driver::Inline).build().unwrap();
    let (clock, tasks) = (runtime.clone(), tasks.to_vec());
    let run = Run::<()>::new(plan.build().unwrap()).observer(Quiet);
    let mut run = run.start(&runtime, move |cx| {
        let (name, ms, peak) = tasks[cx.task().index()];
        clock.advance(Duration::from_millis(ms));
        let ended = if name.ends_with('~') { Ended::aborted() } else { Ended::success() };
        if name.ends_with('!') {
            Err(TaskFailure::user("no"))
        } else {
            Ok(peak.map_or(ended, |peak| Ended::success().peak_memory(peak)))
        }
    });
    runtime.drive_all();
    history.record(&run.try_get().unwrap().unwrap());
}

#[test]
fn it_predicts_the_median_of_successes_and_remembers_twenty() {
    let mut history = History::new();
    for ms in [500, 1, 2, 3] {
        remember(&mut history, &[("a", ms, None), ("bad!", 9, None), ("killed~", 9, None)]);
    }
    assert_eq!(history.predicted("a"), Some(Duration::from_millis(2)));
    assert_eq!((history.predicted("bad!"), history.failed_last("bad!")), (None, Some(true)));
    assert_eq!((history.failed_last("a"), history.failed_last("killed~")), (Some(false), None));
    for _ in 0..20 {
        remember(&mut history, &[("a", 7, None)]);
    }
    assert_eq!(history.predicted("a"), Some(Duration::from_millis(7)));
}

#[test]
fn it_estimates_memory_in_whole_steps_from_the_largest_peak() {
    const MIB: u64 = 1 << 20;
    let mut history = History::new();
    remember(
        &mut history,
        &[("large", 1, Some(100 * MIB)), ("small", 1, Some(50 * MIB)), ("exact", 1, Some(64 * MIB * 4 / 5))],
    );
    remember(&mut history, &[("large", 1, Some(10 * MIB))]);
    let estimates =
        ["large", "small", "exact", "unknown"].map(|name| history.memory_estimate(name).map(|bytes| bytes / MIB));
    // 51.2 MiB and a quarter is 64 MiB but for rounding, so one step at most.
    assert_eq!(estimates[..2], [Some(128), None]);
    assert!(matches!(estimates[2], None | Some(64)));
    assert_eq!(estimates[3], None);
}

#[test]
fn a_history_is_read_as_it_was_written_whatever_the_names() {
    let folder = Folder::new("round");
    let mut history = History::new();
    remember(
        &mut history,
        &[("a b", 1, Some(3)), ("line\nbreak", 2, None), ("ünï\\cøde#\u{1F600}", 3, None), ("bad!", 1, None)],
    );
    history.save(&folder.file()).unwrap();
    let (read, warnings) = History::load(&folder.file());
    assert_eq!((&read, warnings.len()), (&history, 0));
    assert_eq!(read.predicted("line\nbreak"), Some(Duration::from_millis(2)));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn what_is_no_file_is_neither_waited_for_nor_read_without_end() {
    for path in ["/dev/zero", "/tmp"] {
        let (history, warnings) = History::load(std::path::Path::new(path));
        assert!(history.is_empty());
        assert_eq!(warnings, [format!("history {path}: it is not a file")]);
    }
}

#[test]
fn a_missing_file_is_an_empty_history_and_a_failed_save_leaves_the_old_one() {
    let folder = Folder::new("missing");
    assert_eq!(History::load(&folder.file()), (History::new(), Vec::new()));
    let nowhere = folder.0.join("no/such/folder/history");
    assert!(History::new().save(&nowhere).is_err());
    let mut history = History::new();
    remember(&mut history, &[("a", 1, None)]);
    history.save(&folder.file()).unwrap();
    // A folder stands where the new file would be renamed to.
    let taken = folder.0.join("taken");
    fs::create_dir(&taken).unwrap();
    assert!(history.save(&taken).is_err());
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2, "nothing is left beside them");
    assert_eq!(History::load(&folder.file()).0, history);
}

#[test]
fn whatever_damage_a_file_has_what_can_be_read_is_kept() {
    let folder = Folder::new("damage");
    let mut history = History::new();
    remember(&mut history, &[("a", 1, None), ("b", 2, Some(7)), ("c", 3, None)]);
    history.save(&folder.file()).unwrap();
    let whole = fs::read(folder.file()).unwrap();
    // Cut off anywhere, and with any byte changed.
    for cut in 0..whole.len() {
        fs::write(folder.file(), &whole[..cut]).unwrap();
        let (read, warnings) = History::load(&folder.file());
        assert!(read.len() <= 3);
        assert_eq!(warnings.is_empty(), cut + 1 == whole.len(), "cut at {cut}: {warnings:?}");
    }
    for at in 0..whole.len() {
        for byte in [0, b'9', b' ', 0xFF] {
            let mut damaged = whole.clone();
            damaged[at] = byte;
            fs::write(folder.file(), &damaged).unwrap();
            let (read, _) = History::load(&folder.file());
            assert!(read.len() <= 4);
        }
    }
    fs::write(folder.file(), "shardrun-history 2 9\nwho knows\n").unwrap();
    let (read, warnings) = History::load(&folder.file());
    assert!(read.is_empty() && warnings[0].contains("version"));
}

#[test]
fn a_plan_takes_its_predictions_from_a_history() {
    let mut history = History::new();
    remember(&mut history, &[("slow", 90, None), ("quick", 1, None)]);
    let mut plan = Plan::builder();
    let quick = plan.task("quick").id();
    let slow = plan.task("slow").id();
    plan.task("");
    plan.predict(|name| history.predicted(name));
    let plan = Arc::new(plan.build().unwrap());
    assert_eq!(plan.remaining_path(slow), Some(Duration::from_millis(90)));
    assert_eq!(plan.remaining_path(quick), Some(Duration::from_millis(1)));
    // Without a history nothing is ranked by durations that nobody knows.
    let mut plan = Plan::builder();
    plan.task("a");
    plan.predict(|name| History::new().predicted(name));
    assert_eq!(plan.build().unwrap().tasks().len(), 1);
}

#[test]
fn figures_at_their_ends_are_read_and_grow_no_further() {
    let folder = Folder::new("history-ends");
    let most = u64::MAX;
    fs::write(folder.file(), format!("shardrun-history 1 {most}\n{most} 1 {most} {most} a\nend\n")).unwrap();
    let (mut history, warnings) = History::load(&folder.file());
    assert!(warnings.is_empty(), "{warnings:?}");
    remember(&mut history, &[("a", 5, Some(1)), ("b", 5, None)]);
    history.save(&folder.file()).unwrap();
    assert_eq!(History::load(&folder.file()), (history.clone(), Vec::new()));
    assert_eq!(history.predicted("a"), Some(Duration::from_millis(5)));
    assert!(history.memory_estimate("a").is_some());
}
