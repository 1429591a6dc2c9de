//! What a million operations keep while they go on: edits of a file whose dependency never ends, withdrawn requests, joiners
//! that come and go. One test alone stands here, since it counts the bytes of all threads.

use shardrun::{CancellationToken, Dependencies, Host, Pool, Priority, Request, Runtime, StageCx, Stages};
use std::convert::Infallible;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[path = "support/live_bytes.rs"]
mod live_bytes;

use live_bytes::LIVE;

/// A value that is counted while it is alive.
struct Made(u64, Arc<AtomicI64>);

impl Made {
    fn of(text: u64, alive: &Arc<AtomicI64>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(text, alive.clone())
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

const OWNER: u64 = 1;
/// Its Analysis does not end until the test says so.
const ENDLESS: u64 = 2;
const OTHER: u64 = 3;

struct Memory {
    end: Mutex<Receiver<()>>,
    alive: Arc<AtomicI64>,
}

impl Host for Memory {
    type File = u64;
    type Text = u64;
    type Source = Made;
    type Analysis = Made;
    type Artifact = Made;
    type Profile = u8;
    type Error = Infallible;

    fn load(&self, file: &u64) -> Result<Option<u64>, Infallible> {
        Ok(Some(*file))
    }

    fn source(&self, _: &StageCx<'_, Self>, text: u64) -> Result<Made, Infallible> {
        Ok(Made::of(text, &self.alive))
    }

    fn dependencies(&self, cx: &StageCx<'_, Self>, _: &Made) -> Dependencies<u64> {
        Dependencies::none().with_blockers((*cx.file() == OWNER).then_some(ENDLESS))
    }

    fn analysis(&self, cx: &StageCx<'_, Self>, source: &Made) -> Result<Made, Infallible> {
        if *cx.file() == ENDLESS {
            // Until the test has dropped the other side.
            let _ = self.end.lock().unwrap().recv();
        }
        Ok(Made::of(source.0, &self.alive))
    }

    fn artifact(&self, _: &StageCx<'_, Self>, _: &u8, _: &Made, analysis: &Made) -> Result<Made, Infallible> {
        Ok(Made::of(analysis.0, &self.alive))
    }

    fn source_pool(&self) -> Pool {
        Pool::Workers
    }
}

/// What `measure` says, once that is below `limit` if it ever is. A thread that the machine holds up in the middle of something keeps
/// meanwhile what others have let go of; the reads move the epoch on.
fn settled(stages: &Stages<Memory>, limit: i64, measure: impl Fn() -> i64) -> i64 {
    let begun = Instant::now();
    while measure() >= limit && begun.elapsed() < Duration::from_secs(120) {
        (0..200).for_each(|_| drop(stages.try_get_source(&OTHER)));
        std::thread::yield_now();
    }
    measure()
}

#[test]
fn a_million_edits_cancels_and_joins_beside_what_never_ends_keep_less_than_a_bound() {
    // Deadlines that were taken back may lie in the timer for a while.
    const BYTES: i64 = 4 << 20;
    const OBJECTS: i64 = 4_096;
    const ROUNDS: u64 = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };
    let alive = Arc::new(AtomicI64::new(0));
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let (end, ended) = channel::<()>();
    let host = Memory { end: Mutex::new(ended), alive: alive.clone() };
    let stages = Stages::new(&runtime, host);
    let token = CancellationToken::new();
    let far = runtime.now() + Duration::from_secs(1_000_000);
    stages.submit_request(Request::source(OTHER)).wait().unwrap();
    let owner = stages.submit_request(Request::artifact(OWNER, 1));
    type Round<'a> = &'a dyn Fn(u64);
    let storms: [(&str, Round<'_>); 6] = [
        ("edits of an owner", &|n| {
            stages.submit_request(Request::artifact(OWNER, 1)).detach();
            let edit = stages.submit_request(Request::source(OWNER).text(n));
            if n % 16 == 0 {
                edit.wait().unwrap();
            }
        }),
        ("requests that are cancelled", &|n| {
            stages.submit_request(Request::artifact(OTHER, 1 + (n % 4) as u8)).cancel();
        }),
        ("requests that a token and a deadline might end", &|_| {
            stages.submit_request(Request::artifact(OWNER, 2).cancelled_by(&token).deadline(far)).cancel();
        }),
        ("joiners that withdraw", &|n| {
            let priority = Priority::ALL[(n % 4) as usize];
            stages.submit_request(Request::analysis(ENDLESS).priority(priority)).cancel();
        }),
        ("joiners that are dropped", &|_| drop(stages.submit_request(Request::analysis(ENDLESS)))),
        ("registrations", &|n| {
            let others = [ENDLESS, OTHER, ENDLESS + n % 3];
            stages.register_resolved_deps(&OWNER, Dependencies::none().with_blockers(others));
        }),
    ];
    for (what, round) in storms {
        (0..2_000).for_each(round);
        let before = LIVE.load(Ordering::SeqCst);
        let (mut most, mut objects) = (0, 0);
        for n in 0..ROUNDS {
            round(n);
            if n % 1_000 == 0 {
                most = most.max(settled(&stages, BYTES, || LIVE.load(Ordering::SeqCst) - before));
                objects = objects.max(settled(&stages, OBJECTS, || alive.load(Ordering::Relaxed)));
            }
        }
        println!("{what}: at most {most} bytes more, {objects} values");
        assert!(most < BYTES, "{what}: {most} bytes");
        assert!(objects < OBJECTS, "{what}: {objects} values are alive");
        let occupied = stages.dependency_occupancy();
        // Of the edits up to 16 are under way at a time, each with an entry until it is taken in.
        assert!(occupied.edges <= 4 && occupied.entries <= 8 + 16 && occupied.demanded <= 4, "{what}: {occupied:?}");
        assert!(runtime.counters().queued.iter().sum::<usize>() < 64, "{what}: tickets are left");
    }
    drop(owner);
    drop(end);
    assert!(stages.submit_request(Request::artifact(OWNER, 1)).wait().is_ok());
    assert_eq!(stages.quiesce(), Ok(()));
    assert_eq!(stages.dependency_occupancy(), Default::default());
    drop(stages);
    runtime.shutdown();
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}
