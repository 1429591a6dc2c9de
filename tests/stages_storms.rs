//! Storms of everything that moves files, from several threads: rings of blockers that change, and what the sequencer counts.

#[path = "support/stages_host.rs"]
mod host;

use host::{Files, threads};
use shardrun::{Budget, Dependencies, Pool, Request, Stages};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WATCHDOG: Duration = Duration::from_secs(300);

/// Xorshift, whose seed is printed when a test fails.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn file(&mut self, files: u64) -> String {
        self.below(files).to_string()
    }
}

fn files(count: u64) -> Files {
    let host = Files::default();
    (0..count).for_each(|file| host.store(&file.to_string(), "text"));
    host
}

/// One operation. How often it takes the sequencer, and with how many members.
fn operation(stages: &Stages<Files>, random: &mut Random, files: u64) -> (u64, u64) {
    let (file, some) = (random.file(files), random.below(7));
    let answered = |answered: bool| assert!(answered, "a request is not answered");
    match random.below(10) {
        0 => answered(stages.submit_request(Request::source(file)).wait_timeout(WATCHDOG).is_some()),
        1 => answered(stages.submit_request(Request::artifact(file, 1)).wait_timeout(WATCHDOG).is_some()),
        2 => {
            let edit = Request::analysis(file).text("edit".into());
            answered(stages.submit_request(edit).wait_timeout(WATCHDOG).is_some());
            return (1, 1);
        }
        3 => {
            stages.set_text(file, "text".into());
            return (1, 1);
        }
        4 => {
            let first = random.below(files);
            let edits = (0..some).map(|n| Request::source(((first + n) % files).to_string()).text("batch".into()));
            assert_eq!(stages.submit_batch_atomic(edits).wait().len() as u64, some);
            return (u64::from(some > 0), some);
        }
        5 => {
            let first = random.below(files);
            let asks = (0..some).map(|n| Request::source(((first + n) % files).to_string()));
            assert_eq!(stages.submit_batch_atomic(asks).wait().len() as u64, some);
        }
        6 => {
            stages.reset();
            return (1, 1);
        }
        7 => drop(stages.capture_source_root()),
        8 => stages.submit_request(Request::artifact(file, 2)).cancel(),
        _ => {
            stages.register_resolved_deps(&file, Dependencies::none().with_blockers([random.file(files)]));
        }
    }
    (0, 0)
}

#[test]
fn the_sequencer_is_taken_once_for_each_batch_and_sweep_and_for_nothing_else() {
    const FILES: u64 = 20;
    let runtime = threads(2);
    let stages = Stages::new(&runtime, files(FILES));
    let (takings, members) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 1..5 {
            let (stages, takings, members) = (&stages, &takings, &members);
            scope.spawn(move || {
                let mut random = Random(seed);
                for _ in 0..1_000 {
                    let (taken, moved) = operation(stages, &mut random, FILES);
                    takings.fetch_add(taken, Ordering::Relaxed);
                    members.fetch_add(moved, Ordering::Relaxed);
                }
            });
        }
    });
    let counted = stages.counters().sequencer;
    assert_eq!((counted.takings, counted.members), (takings.into_inner(), members.into_inner()));
}

#[test]
fn rings_of_blockers_that_change_all_the_time_hold_nobody_up_for_ever() {
    const FILES: u64 = 6;
    for workers in [1, 2] {
        let host = files(FILES);
        let runtime = threads(workers);
        let budget = Budget::for_runtime(64, &runtime);
        let builder = Stages::builder(&runtime, host.clone()).budget(budget.clone());
        let stages = builder.limit(Pool::Workers, 1).unwrap().build();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for seed in [77, 78] {
                let (stages, host, stop) = (&stages, &host, &stop);
                scope.spawn(move || {
                    let mut random = Random(seed);
                    while !stop.load(Ordering::Relaxed) {
                        change(stages, host, &mut random, FILES);
                    }
                });
            }
            let begun = Instant::now();
            let mut round = 0;
            while begun.elapsed() < Duration::from_millis(500) {
                let ask = |file: u64| stages.submit_request(Request::artifact(file.to_string(), round % 3));
                let mut handles: Vec<_> = (0..FILES).map(ask).collect();
                if round % 3 == 0 {
                    handles.iter().step_by(2).for_each(|handle| handle.cancel());
                }
                let answered = handles.iter_mut().all(|handle| handle.wait_timeout(WATCHDOG).is_some());
                // The others end, whatever is wrong.
                stop.fetch_or(!answered, Ordering::Relaxed);
                assert!(answered, "{:?} {:?}", stages.dependency_occupancy(), stages.pool_use(Pool::Workers));
                round += 1;
            }
            stop.store(true, Ordering::Relaxed);
        });
        for file in 0..FILES {
            let mut last = stages.submit_request(Request::artifact(file.to_string(), 9));
            assert!(last.wait_timeout(WATCHDOG).expect("it is answered").is_ok());
        }
        assert_eq!(stages.quiesce_within(WATCHDOG), Ok(true));
        assert_eq!((stages.dependency_occupancy(), budget.in_use()), (Default::default(), 0));
    }
}

/// Changes what a file waits for, or the file.
fn change(stages: &Stages<Files>, host: &Files, random: &mut Random, files: u64) {
    let at = random.below(files);
    let others = [(at + 1) % files, (at + files - 1) % files, random.below(files)].map(|file| file.to_string());
    let (file, named) = (at.to_string(), Dependencies::none().with_blockers(others));
    match random.below(6) {
        0 => _ = stages.invalidate(&file),
        1 => _ = stages.remove(&file),
        2 => _ = stages.rehome(&file),
        3 => host.needs(&file, named),
        4 => _ = stages.register_resolved_deps(&file, named),
        _ => _ = stages.set_text(file, "text".into()),
    }
}
