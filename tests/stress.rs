//! The whole engine on real threads for some seconds: clients that request, edit, batch, cancel, drop, remove and panic at random,
//! and oracles that any schedule must satisfy. `SHARDRUN_STRESS_SECONDS` (3 if unset) and `SHARDRUN_STRESS_SEED` change the run.

use shardrun::{
    Budget, Dependencies, Handle, Host, Pool, Priority, Removed, Request, Runtime, Stage, StageCx, StageError,
    StageValue, Stages, contained_panics,
};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const CLIENTS: u64 = 6;
/// Files that a client edits alone: a later version is a larger number.
const OWN: u64 = 4;
/// Files that are edited only by whole batches, all to the same number.
const GROUP: u64 = 5;
/// Files that anybody edits, re-homes and removes.
const FLEETING: u64 = 6;
/// No answer for this long is a hang.
const WATCHDOG: Duration = Duration::from_secs(300);

type File = (u64, u64);

#[derive(Debug)]
struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refused on purpose")
    }
}

impl std::error::Error for Refused {}

/// A host that fails and panics at random, and counts how often a clean file's stage runs at one generation.
#[derive(Default)]
struct Unruly {
    runs: Mutex<HashMap<(File, u64, Stage, u8), u32>>,
    random: AtomicU64,
    /// Clients whose file 0 has been analysed.
    analysed: [AtomicBool; CLIENTS as usize],
    /// Artifacts that ran although their blocker had never been analysed.
    early: AtomicU64,
}

/// The file of the next client on which a client's own file is blocked. So all of a number stand in a ring.
fn blocker((owner, number): File) -> Option<File> {
    (owner < CLIENTS).then_some(((owner + 1) % CLIENTS, number))
}

impl Unruly {
    fn misbehave(&self, cx: &StageCx<'_, Self>, profile: u8) -> Result<(), Refused> {
        let (owner, number) = *cx.file();
        if owner == CLIENTS || (owner < CLIENTS && number == 0) {
            *self.runs.lock().unwrap().entry((*cx.file(), cx.generation(), cx.stage(), profile)).or_default() += 1;
            return Ok(());
        }
        match mix(self.random.fetch_add(1, Ordering::Relaxed)) % 100 {
            0 => panic!("asked for"),
            1 => Err(Refused),
            _ => cx.check().map_err(|_| Refused),
        }
    }
}

impl Host for Unruly {
    type File = File;
    type Text = u64;
    type Source = u64;
    type Analysis = u64;
    type Artifact = u64;
    type Profile = u8;
    type Error = Refused;

    fn load(&self, _: &File) -> Result<Option<u64>, Refused> {
        Ok(Some(0))
    }

    fn source(&self, cx: &StageCx<'_, Self>, text: u64) -> Result<u64, Refused> {
        self.misbehave(cx, 0).map(|()| text)
    }

    fn dependencies(&self, cx: &StageCx<'_, Self>, _: &u64) -> Dependencies<File> {
        Dependencies::none().with_blockers(blocker(*cx.file()))
    }

    fn analysis(&self, cx: &StageCx<'_, Self>, source: &u64) -> Result<u64, Refused> {
        if let (owner, 0) = *cx.file()
            && let Some(analysed) = self.analysed.get(owner as usize)
        {
            analysed.store(true, Ordering::Relaxed);
        }
        self.misbehave(cx, 0).map(|()| *source)
    }

    fn artifact(&self, cx: &StageCx<'_, Self>, profile: &u8, source: &u64, analysis: &u64) -> Result<u64, Refused> {
        if let Some((other, 0)) = blocker(*cx.file())
            && !self.analysed[other as usize].load(Ordering::Relaxed)
        {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(source, analysis, "an artifact is made of the Source that its Analysis was made of");
        self.misbehave(cx, *profile).map(|()| *analysis)
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0) % limit
    }
}

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// Waits with the watchdog; panics on a hang. What came, if it is a number.
fn answer(what: &str, mut handle: Handle<Arc<u64>, StageError<Unruly>>) -> Option<u64> {
    match handle.wait_timeout(WATCHDOG) {
        None => panic!("{what} was not answered within {WATCHDOG:?}"),
        Some(result) => result.ok().map(|value| *value),
    }
}

/// One client: edits its own files, and checks that no answer is older than what it asked for.
fn client(stages: &Stages<Unruly>, id: u64, seed: u64, stop: &AtomicBool, sent: &AtomicU64) {
    let mut random = Random(seed ^ mix(id));
    let mut version = vec![0_u64; OWN as usize];
    let mut seen_group = 0;
    while !stop.load(Ordering::Relaxed) {
        let number = random.below(OWN);
        let file = (id, number);
        let priority = [Priority::Critical, Priority::Interactive, Priority::Background][random.below(3) as usize];
        sent.fetch_add(1, Ordering::Relaxed);
        match random.below(10) {
            0..=2 => {
                version[number as usize] += 1;
                let text = version[number as usize];
                let handle = stages.submit_request(Request::source(file).text(text).priority(priority));
                if let Some(value) = answer("an edit", handle) {
                    assert_eq!(value, text, "client {id} alone edits {file:?}");
                }
            }
            3 => {
                version[number as usize] += 1;
                drop(stages.submit_request(Request::artifact(file, 1).text(version[number as usize])));
            }
            4 => {
                let handle = stages.submit_request(Request::analysis(file).priority(priority));
                if number == 0 { handle.detach() } else { handle.cancel() }
            }
            5 if number == OWN - 1 => {
                // It is blocked by two files for a while, or by none.
                let others = [(id + 1, number), (id + 2, number)].map(|(owner, number)| (owner % CLIENTS, number));
                let blockers = &others[..2 * (random.below(2) as usize)];
                stages.register_resolved_deps(&file, Dependencies::none().with_blockers(blockers.iter().copied()));
            }
            5 => {
                stages.invalidate(&(id, 1 + number % (OWN - 1)));
            }
            6 | 7 => {
                let before = seen_group;
                for member in 0..GROUP {
                    let handle = stages.submit_request(Request::source((CLIENTS, member)));
                    if let Some(value) = answer("a member of the group", handle) {
                        assert!(value >= before, "member {member} shows {value} after another showed {before}");
                        seen_group = seen_group.max(value);
                    }
                }
            }
            _ => {
                let profile = random.below(3) as u8;
                let handle = stages.submit_request(Request::artifact(file, profile).priority(priority));
                if let Some(value) = answer("an artifact", handle) {
                    assert_eq!(value, version[number as usize], "the newest text of {file:?}");
                }
            }
        }
    }
}

/// Moves the whole group from number to number, all members at once.
fn batches(stages: &Stages<Unruly>, stop: &AtomicBool, moves: &AtomicU64) {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        moves.fetch_add(1, Ordering::Relaxed);
        let requests = (0..GROUP).rev().map(|member| Request::source((CLIENTS, member)).text(number));
        let mut batch = stages.submit_batch_atomic(requests);
        for result in batch.wait() {
            match result {
                Ok(StageValue::Source(value)) => assert_eq!(*value, number, "this thread alone edits the group"),
                other => panic!("a member of a batch that nobody supersedes ended as {other:?}"),
            }
        }
    }
}

/// One of those who edit, ask for, re-home and remove the fleeting files, and see that the numbers of their lives rise.
fn mourner(stages: &Stages<Unruly>, id: u64, seed: u64, stop: &AtomicBool, removals: &AtomicU64) {
    let mut random = Random(seed ^ mix(id << 32));
    let mut text = id << 32;
    let mut seen = vec![None; FLEETING as usize];
    while !stop.load(Ordering::Relaxed) {
        let number = random.below(FLEETING);
        let file = (CLIENTS + 1, number);
        match random.below(10) {
            0..=2 => {
                text += 1;
                let request = Request::analysis(file).text(text);
                let request = if random.below(4) == 0 { request.rehome() } else { request };
                if let Some(value) = answer("an edit of a fleeting file", stages.submit_request(request)) {
                    assert_eq!(value, text, "an edit of {file:?} was answered from another text");
                }
            }
            3 | 4 => drop(answer("a fleeting file", stages.submit_request(Request::artifact(file, 1)))),
            5 => drop(stages.submit_request(Request::artifact(file, 2).text(0))),
            6 => _ = stages.rehome(&file),
            7 => _ = stages.try_get_last_good_artifact(&file, &1),
            _ => {
                let older = &mut seen[number as usize];
                let version = stages.try_get_witnessed_source(&file).map(|(_, witness)| witness.version());
                assert!(version.is_none() || version > *older, "a later life of {file:?} has a smaller number");
                removals.fetch_add(u64::from(stages.remove(&file) == Removed::Gone), Ordering::Relaxed);
                *older = version.or(*older);
            }
        }
    }
}

/// No edge is left, and no registration but of a file whose Source failed, was withdrawn or not asked for since; with that Source it counts.
fn at_rest(stages: &Stages<Unruly>) {
    let own = |number| (0..CLIENTS).map(move |owner| (owner, number));
    let without: Vec<_> = own(OWN - 1).filter(|file| stages.try_get_source(file).is_none()).collect();
    let occupied = stages.dependency_occupancy();
    println!("{} registrations without Source, {without:?} have none", occupied.deferred);
    assert!(occupied.deferred <= without.len(), "{occupied:?} although only {without:?} have no Source");
    for file in without {
        // It fails and panics at random, so seldom that a hundred in a row do not.
        let came = (0..100).any(|_| answer("a Source at rest", stages.submit_request(Request::source(file))).is_some());
        assert!(came, "{file:?} has no Source after a hundred requests");
    }
    stages.quiesce().expect("nothing waits for this thread");
    assert_eq!(stages.dependency_occupancy(), Default::default(), "no edge is left at rest");
}

#[test]
fn random_clients_on_real_threads_see_nothing_stale_torn_or_lost() {
    let seconds = setting("SHARDRUN_STRESS_SECONDS", 3);
    let seed = setting("SHARDRUN_STRESS_SEED", 0x5eed ^ u64::from(std::process::id()));
    println!("SHARDRUN_STRESS_SEED={seed}");
    std::panic::set_hook(Box::new(|info| {
        if info.payload().downcast_ref::<&str>() != Some(&"asked for") {
            eprintln!("{info}");
        }
    }));
    let contained = contained_panics();
    let runtime = Runtime::builder().workers(3).io_threads(1).build().expect("a runtime of three workers");
    let stages = Stages::new(&runtime, Unruly::default());
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let (moves, removals) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|id| {
                let (stages, stop, sent) = (&stages, &stop, &sent);
                scope.spawn(move || client(stages, id, seed, stop, sent))
            })
            .collect();
        let mover = scope.spawn(|| batches(&stages, &stop, &moves));
        let mourners: Vec<_> = (0..2)
            .map(|id| {
                let (stages, stop, removals) = (&stages, &stop, &removals);
                scope.spawn(move || mourner(stages, id, seed, stop, removals))
            })
            .collect();
        let begun = Instant::now();
        let enough = || {
            let done = |count: &AtomicU64, least| count.load(Ordering::Relaxed) > least * seconds;
            done(&sent, 100) && done(&moves, 10) && done(&removals, 10)
        };
        let over = |time: Duration| time >= Duration::from_secs(seconds) && (enough() || time > WATCHDOG);
        let failed = || clients.iter().any(|c| c.is_finished()) || mover.is_finished();
        while !over(begun.elapsed()) && !failed() && !mourners.iter().any(|mourner| mourner.is_finished()) {
            std::thread::park_timeout(Duration::from_millis(50));
        }
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().expect("no client failed");
        }
        mourners.into_iter().for_each(|mourner| mourner.join().expect("no mourner failed"));
        mover.join().expect("the mover did not fail");
    });
    let (moved, removed) = (moves.into_inner(), removals.into_inner());
    println!("{removed} removals");
    assert!(removed > 10 * seconds, "hardly anything was removed");
    let (sent, contained) = (sent.load(Ordering::Relaxed), contained_panics() - contained);
    println!("{sent} requests, {moved} batches, {contained} panics contained elsewhere than in stages");
    assert!(sent > 100 * seconds && moved > 10 * seconds, "the run did next to nothing");
    stages.quiesce().expect("nothing waits for this thread");
    at_rest(&stages);
    assert_eq!(stages.host().early.load(Ordering::Relaxed), 0, "an artifact went before its blocker");
    for ((file, generation, stage, _), runs) in stages.host().runs.lock().unwrap().iter() {
        assert!(*runs <= 1, "{stage} of the well-behaved {file:?} ran {runs} times at generation {generation}");
    }
    assert_eq!(stages.quiesce(), Ok(()));
    let known = stages.len();
    assert_eq!((stages.reset(), stages.len(), stages.counters().overlaid), (known, 0, 0));
    drop(stages);
    assert_eq!(runtime.shutdown_within(WATCHDOG).running, 0, "every thread ends in time");
}

/// Clients of a scheduler that is reset, stopped and restarted all the time: each is answered, and no edit from another text.
#[test]
fn s48_clients_of_a_scheduler_that_is_reset_all_the_time_are_answered() {
    let seconds = setting("SHARDRUN_STRESS_SECONDS", 3).div_ceil(2);
    let seed = setting("SHARDRUN_STRESS_SEED", 0x5eed ^ u64::from(std::process::id()));
    println!("SHARDRUN_STRESS_SEED={seed}");
    let runtime = Runtime::builder().workers(2).io_threads(1).build().expect("a runtime of two workers");
    let budget = Budget::for_runtime(64, &runtime);
    let stages = Stages::builder(&runtime, Unruly::default()).budget(budget.clone()).build();
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let resets = std::thread::scope(|scope| {
        for id in 0..4_u64 {
            let (stages, stop, sent) = (&stages, &stop, &sent);
            scope.spawn(move || {
                let mut random = Random(seed ^ mix(id));
                let mut text = id << 32;
                while !stop.load(Ordering::Relaxed) {
                    let file = (CLIENTS + 1, random.below(FLEETING));
                    sent.fetch_add(1, Ordering::Relaxed);
                    text += 1;
                    match random.below(8) {
                        0 => _ = stages.remove(&file),
                        1 => _ = stages.invalidate(&file),
                        2 => _ = stages.try_get_source(&file),
                        3 => drop(answer("a request", stages.submit_request(Request::artifact(file, 1)))),
                        4 => stages.submit_request(Request::artifact(file, 2)).cancel(),
                        _ => {
                            let batch =
                                [0, 1].map(|n| Request::source((CLIENTS + 1, (file.1 + n) % FLEETING)).text(text));
                            for result in stages.submit_batch_atomic(batch).wait() {
                                match result {
                                    Ok(StageValue::Source(value)) => assert_eq!(*value, text),
                                    Ok(_) => panic!("another stage than was asked for"),
                                    Err(_) => {}
                                }
                            }
                        }
                    }
                }
            });
        }
        let resetter = scope.spawn(|| {
            let mut resets = 0;
            while !stop.load(Ordering::Relaxed) {
                resets += 1;
                match resets % 3 {
                    0 => {
                        stages.stop();
                        stages.restart();
                    }
                    _ => _ = stages.reset(),
                }
                std::thread::yield_now();
            }
            resets
        });
        std::thread::park_timeout(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
        resetter.join().expect("the resetter did not fail")
    });
    println!("{} requests, {resets} resets", sent.load(Ordering::Relaxed));
    assert_eq!(stages.quiesce(), Ok(()));
    assert_eq!(budget.in_use(), 0, "units came back once each");
    let known = stages.len();
    assert_eq!((stages.reset(), stages.counters().overlaid, stages.is_empty()), (known, 0, true));
    drop(stages);
    assert_eq!(runtime.shutdown_within(WATCHDOG).running, 0, "every thread ends in time");
}
