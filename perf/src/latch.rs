//! A counter that tells when the last of many tasks has run, and when that was.
//! It does not know what the tasks are; every rival and Shardrun count on the same latch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::Thread;
use std::time::Instant;

/// Keeps what it holds on cache lines of its own (two, since processors fetch them in pairs).
#[repr(align(128))]
struct Apart<T>(T);

/// Counts tasks down; the last one notes the time and wakes who waits.
pub struct Latch {
    left: Apart<AtomicU64>,
    began: Apart<AtomicU64>,
    ended: AtomicU64,
    waiter: Mutex<Option<Thread>>,
}

/// Nanoseconds since the first call in this process.
pub fn now() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

impl Latch {
    /// A latch that lives as long as the process, so that tasks can capture it as one word.
    pub fn leaked() -> &'static Latch {
        Box::leak(Box::new(Latch {
            left: Apart(AtomicU64::new(0)),
            began: Apart(AtomicU64::new(0)),
            ended: AtomicU64::new(0),
            waiter: Mutex::new(None),
        }))
    }

    /// Expects `tasks` calls of [`Latch::count_down`]; the calling thread is the one that will wait.
    pub fn arm(&self, tasks: u64) {
        *self.waiter.lock().unwrap() = Some(std::thread::current());
        self.left.0.store(tasks, Ordering::SeqCst);
        self.begin();
    }

    /// Notes that the work begins now.
    pub fn begin(&self) {
        self.began.0.store(now(), Ordering::Relaxed);
    }

    /// One task has run.
    #[inline]
    pub fn count_down(&self) {
        if self.left.0.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.last();
        }
    }

    #[cold]
    fn last(&self) {
        self.ended.store(now(), Ordering::Release);
        let waiter = self.waiter.lock().unwrap().take();
        if let Some(waiter) = waiter {
            waiter.unpark();
        }
    }

    /// Parks until the last task has run, and returns the nanoseconds from the beginning to that moment.
    pub fn wait(&self) -> f64 {
        while self.left.0.load(Ordering::Acquire) != 0 {
            std::thread::park();
        }
        // The last task notes the time after the count has reached zero.
        loop {
            let ended = self.ended.swap(0, Ordering::AcqRel);
            if ended != 0 {
                return (ended - self.began.0.load(Ordering::Relaxed)) as f64;
            }
            std::hint::spin_loop();
        }
    }
}
