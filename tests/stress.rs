//! The whole engine on real threads for some seconds: clients that request, edit, batch, cancel, drop and panic at random, and
//! oracles that any schedule must satisfy. `SHARDRUN_STRESS_SECONDS` (3 if unset) and `SHARDRUN_STRESS_SEED` change the run.

use shardrun::{
    Handle, Host, Pool, Priority, Request, Runtime, Stage, StageCx, StageError, StageValue, Stages, contained_panics,
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
/// No answer for this long is a hang.
const WATCHDOG: Duration = Duration::from_secs(20);

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
}

impl Unruly {
    fn misbehave(&self, cx: &StageCx<'_, Self>, profile: u8) -> Result<(), Refused> {
        let (owner, number) = *cx.file();
        if owner >= CLIENTS || number == 0 {
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

    fn analysis(&self, cx: &StageCx<'_, Self>, source: &u64) -> Result<u64, Refused> {
        self.misbehave(cx, 0).map(|()| *source)
    }

    fn artifact(&self, cx: &StageCx<'_, Self>, profile: &u8, source: &u64, analysis: &u64) -> Result<u64, Refused> {
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
fn batches(stages: &Stages<Unruly>, stop: &AtomicBool) -> u64 {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let requests = (0..GROUP).rev().map(|member| Request::source((CLIENTS, member)).text(number));
        let mut batch = stages.submit_batch_atomic(requests);
        for result in batch.wait() {
            match result {
                Ok(StageValue::Source(value)) => assert_eq!(*value, number, "this thread alone edits the group"),
                other => panic!("a member of a batch that nobody supersedes ended as {other:?}"),
            }
        }
    }
    number
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
    let moved = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|id| {
                let (stages, stop, sent) = (&stages, &stop, &sent);
                scope.spawn(move || client(stages, id, seed, stop, sent))
            })
            .collect();
        let mover = scope.spawn(|| batches(&stages, &stop));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(seconds) && !clients.iter().any(|c| c.is_finished()) {
            std::thread::park_timeout(Duration::from_millis(50));
        }
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().expect("no client failed");
        }
        mover.join().expect("the mover did not fail")
    });
    let (sent, contained) = (sent.load(Ordering::Relaxed), contained_panics() - contained);
    println!("{sent} requests, {moved} batches, {contained} panics contained elsewhere than in stages");
    assert!(sent > 100 * seconds && moved > 10 * seconds, "the run did next to nothing");
    for ((file, generation, stage, _), runs) in stages.host().runs.lock().unwrap().iter() {
        assert!(*runs <= 1, "{stage} of the well-behaved {file:?} ran {runs} times at generation {generation}");
    }
    drop(stages);
    assert_eq!(runtime.shutdown_within(Duration::from_secs(10)).running, 0, "every thread ends in time");
}
