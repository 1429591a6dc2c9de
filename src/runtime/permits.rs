//! Counted permits with a fair line of waiters: who is next gets them, whoever is further behind.
//! It does not know what a permit allows.
//!
//! The word says how many permits are there and how many wait. While somebody waits nobody takes permits past the line: only the
//! server of the line does. The line is a combining section: who comes leaves its news and raises a counter, and the one that
//! raised it from zero serves everybody. Nobody waits in a call, and no host code runs inside.
//!
//! Who has granted something lets the line go before it goes on, and delivers. So a grant is delivered after the round that it was
//! made in, however much news comes meanwhile. That news belongs to whoever raises the counter from zero next: somebody else,
//! or the one that delivered, which looks again.

use super::contain;
use super::job::Job;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, load_for_cas};
use crate::sync::cell::UnsafeCell;
use crate::sync::queue::{Injector, take};
use crate::sync::{Arc, mutant, stat};
use std::collections::VecDeque;
use std::fmt;

/// One waiter, in the word's upper half.
const WAITER: u64 = 1 << 32;
/// The permits that are there: the word's lower half.
const AVAILABLE: u64 = WAITER - 1;

const WAITING: u32 = 0;
const GRANTED: u32 = 1;
const ABANDONED: u32 = 2;

/// Abandoned waiters that may stand in the line beside as many living ones.
const DEAD_MIN: u64 = 64;

struct Waiter {
    /// Leaves WAITING once: who leads it away owns the job.
    state: AtomicU32,
    want: u32,
    job: UnsafeCell<Option<Job>>,
}

// SAFETY: jobs are `Send`, and the one who leads the state away from WAITING alone touches the cell.
unsafe impl Send for Waiter {}
// SAFETY: as above.
unsafe impl Sync for Waiter {}

impl Waiter {
    fn take(&self, to: u32) -> Option<Job> {
        // ordering: the cell was written before the waiter was shared, and is read by the one winner only.
        self.state.compare_exchange(WAITING, to, Ordering::AcqRel, Ordering::Acquire).ok()?;
        // SAFETY: the compare-and-swap has one winner.
        self.job.with_mut(|job| unsafe { (*job).take() })
    }

    fn is_waiting(&self) -> bool {
        self.state.load(Ordering::Acquire) == WAITING
    }
}

/// A place in the line.
pub(crate) struct Waiting(Arc<Waiter>);

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("want", &self.0.want).finish_non_exhaustive()
    }
}

/// What became of a wish for permits.
#[allow(dead_code, reason = "a job that was not queued is given back, whether or not the caller has a use for it")]
#[derive(Debug)]
pub(crate) enum Acquire {
    /// The permits are the caller's, who gets the job back to do with it what it likes.
    Now(Job),
    /// The job will be delivered once the permits are its own.
    Queued(Waiting),
    /// More than there will ever be.
    TooMany(Job),
}

/// Counted permits.
pub(crate) struct Permits {
    word: AtomicU64,
    capacity: u32,
    arrivals: Injector<Arc<Waiter>>,
    /// News for the server of the line. Who raises it from zero is the server until it has taken as much away.
    news: AtomicU64,
    /// The server's alone.
    line: UnsafeCell<VecDeque<Arc<Waiter>>>,
    /// Abandoned waiters that may still stand in the line.
    dead: stat::AtomicU64,
    /// How many grants had not been delivered when another round began.
    #[cfg(test)]
    late: stat::AtomicU64,
    deliver: Box<dyn Fn(Job) + Send + Sync>,
}

// SAFETY: the line is touched by the server alone, and `news` makes one thread the server at a time.
unsafe impl Sync for Permits {}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permits")
            .field("available", &self.available())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

impl Permits {
    /// `capacity` permits, all there. `deliver` is called with the job of each waiter that was granted its permits, outside
    /// the section, on the thread of whoever serves: it should queue the job.
    pub(crate) fn new(capacity: u32, deliver: impl Fn(Job) + Send + Sync + 'static) -> Self {
        Self {
            word: AtomicU64::new(u64::from(capacity)),
            capacity,
            arrivals: Injector::new(),
            news: AtomicU64::new(0),
            line: UnsafeCell::new(VecDeque::new()),
            dead: stat::AtomicU64::new(0),
            #[cfg(test)]
            late: stat::AtomicU64::new(0),
            deliver: Box::new(deliver),
        }
    }

    /// The permits that are there; a hint while others take and give.
    pub(crate) fn available(&self) -> u32 {
        (self.word.load(Ordering::Relaxed) & AVAILABLE) as u32
    }

    /// How many stand in the line.
    pub(crate) fn waiting(&self) -> usize {
        (self.word.load(Ordering::Relaxed) >> 32) as usize
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Takes `want` permits if they are there and nobody waits.
    pub(crate) fn try_acquire(&self, want: u32) -> bool {
        let mut word = load_for_cas(&self.word, Ordering::Relaxed);
        while word < WAITER && word >= u64::from(want) {
            // ordering: acquire what the last holders of the permits did.
            match self.word.compare_exchange(word, word - u64::from(want), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes `want` permits, or stands in the line for them.
    pub(crate) fn acquire_or_queue(&self, want: u32, job: Job) -> Acquire {
        if want > self.capacity {
            return Acquire::TooMany(job);
        }
        let mut word = load_for_cas(&self.word, Ordering::Relaxed);
        loop {
            let free = word < WAITER && word >= u64::from(want);
            let next = if free { word - u64::from(want) } else { word + WAITER };
            // ordering: pairs with `release`'s addition on the same word. If that is first, the line is served below with the
            // permits in sight; else the releaser sees somebody wait and serves.
            match self.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if free => return Acquire::Now(job),
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        let waiter = Arc::new(Waiter { state: AtomicU32::new(WAITING), want, job: UnsafeCell::new(Some(job)) });
        self.arrivals.push(waiter.clone());
        if !mutant("permits.queue_without_serving") {
            self.serve();
        }
        Acquire::Queued(Waiting(waiter))
    }

    /// How many grants had not been delivered when another round began, summed up.
    #[cfg(test)]
    pub(crate) fn late(&self) -> u64 {
        self.late.load(stat::Ordering::Relaxed)
    }

    /// Gives `count` permits back.
    pub(crate) fn release(&self, count: u32) {
        // ordering: pairs with the compare-and-swap of `acquire_or_queue`, see there.
        let before = self.word.fetch_add(u64::from(count), Ordering::AcqRel);
        debug_assert!((before & AVAILABLE) + u64::from(count) <= u64::from(self.capacity), "more given than taken");
        if before >= WAITER {
            self.serve();
        }
    }

    /// Leaves the line: true if the wish had not been granted; its job is dropped here. False if it had: then the permits are
    /// the job's. Whoever stood behind moves up.
    pub(crate) fn abandon(&self, waiting: &Waiting) -> bool {
        let Some(job) = waiting.0.take(ABANDONED) else { return false };
        self.word.fetch_sub(WAITER, Ordering::AcqRel);
        self.dead.fetch_add(1, stat::Ordering::Relaxed);
        if !mutant("permits.abandon_without_serving") {
            self.serve();
        }
        contain::dropping(job);
        true
    }

    /// Serves the line, or leaves it to who serves at the moment.
    fn serve(&self) {
        let mut granted = Vec::new();
        loop {
            // ordering: acquire what the last server did to the line, release what this thread pushed or gave. Pairs with `let_go`: if
            // that is first this thread serves; else the one that lets go sees that more has come.
            if self.news.fetch_add(1, Ordering::AcqRel) != 0 {
                return;
            }
            let more = self.rounds(&mut granted);
            for job in granted.drain(..) {
                if let Err(payload) = contain::call(|| (self.deliver)(job)) {
                    contain::discard(payload);
                }
            }
            if !more {
                return;
            }
        }
    }

    /// Serves for the one that raised the counter from zero: until something was granted, or no more news come. True if news has come
    /// that the caller must look after again, once it has delivered.
    fn rounds(&self, granted: &mut Vec<Job>) -> bool {
        let mut seen = 1;
        loop {
            #[cfg(test)]
            self.late.fetch_add(granted.len() as u64, stat::Ordering::Relaxed);
            // SAFETY: the counter was raised from zero by this thread, which has not taken it back to zero since.
            self.line.with_mut(|line| self.grant(unsafe { &mut *line }, granted));
            if mutant("permits.leave_without_look") {
                self.news.swap(0, Ordering::AcqRel);
                return false;
            }
            if !granted.is_empty() && !mutant("permits.deliver_at_the_end") {
                return self.let_go(seen);
            }
            // ordering: as in `serve`; news that came during the round keeps the counter up, and this thread serving.
            let before = self.news.fetch_sub(seen, Ordering::AcqRel);
            if before == seen {
                return false;
            }
            seen = before - seen;
        }
    }

    /// Lets the line go, whatever has come. True if there was more than `seen`.
    fn let_go(&self, seen: u64) -> bool {
        // ordering: pairs with the addition in `serve`, see there.
        let more = self.news.swap(0, Ordering::AcqRel) != seen;
        more && !mutant("permits.let_go_and_forget")
    }

    /// One round: takes arrivals in, forgets who left, grants from the front as far as the permits go.
    fn grant(&self, line: &mut VecDeque<Arc<Waiter>>, granted: &mut Vec<Job>) {
        line.extend(std::iter::from_fn(|| take(&self.arrivals)));
        let dead = self.dead.load(stat::Ordering::Relaxed);
        if dead > DEAD_MIN && dead as usize * 2 > line.len() {
            self.dead.store(0, stat::Ordering::Relaxed);
            line.retain(|waiter| waiter.is_waiting());
        }
        while let Some(first) = line.front() {
            if first.is_waiting() {
                // Acquire: the permits' last holders. While `first` waits only this thread takes permits, so they stay.
                if self.word.load(Ordering::Acquire) & AVAILABLE < u64::from(first.want) {
                    return;
                }
                if let Some(job) = first.take(GRANTED) {
                    self.word.fetch_sub(WAITER + u64::from(first.want), Ordering::AcqRel);
                    granted.push(job);
                }
            }
            line.pop_front();
        }
    }
}

impl Drop for Permits {
    fn drop(&mut self) {
        let mut line = self.line.with_mut(|line| {
            // SAFETY: nobody else has the permits any more.
            std::mem::take(unsafe { &mut *line })
        });
        while let Some(waiter) = take(&self.arrivals) {
            line.push_back(waiter);
        }
        for waiter in line {
            if let Some(job) = waiter.take(ABANDONED) {
                contain::dropping(job);
            }
        }
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::{Acquire, Job, Permits, Waiting};
    use crate::sync::stat::{AtomicUsize, Ordering};
    use crate::sync::{Arc, thread};

    /// Permits that run what they grant, and a maker of jobs that note their number.
    fn permits(capacity: u32) -> (Permits, Arc<AtomicUsize>) {
        (Permits::new(capacity, Job::run), Arc::new(AtomicUsize::new(0)))
    }

    fn queued(permits: &Permits, want: u32, ran: &Arc<AtomicUsize>, bit: usize) -> Waiting {
        let ran = ran.clone();
        let job = Job::new(move || {
            ran.fetch_or(1 << bit, Ordering::Relaxed);
        });
        match permits.acquire_or_queue(want, job) {
            Acquire::Queued(waiting) => waiting,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn b84_the_next_waiters_are_granted_when_the_head_gives_up() {
        let (permits, ran) = permits(5);
        assert!(permits.try_acquire(2));
        let head = queued(&permits, 5, &ran, 0);
        let (_one, _two) = (queued(&permits, 1, &ran, 1), queued(&permits, 2, &ran, 2));
        assert!(!permits.try_acquire(1), "nobody passes the line");
        assert_eq!(ran.load(Ordering::Relaxed), 0);
        assert!(permits.abandon(&head) && !permits.abandon(&head));
        assert_eq!(ran.load(Ordering::Relaxed), 0b110);
        assert_eq!((permits.available(), permits.waiting()), (0, 0));
    }

    #[test]
    fn b43_abandoned_waiters_are_passed_over_and_do_not_pile_up() {
        let (permits, ran) = permits(1);
        assert!(permits.try_acquire(1));
        let first = queued(&permits, 1, &ran, 0);
        for _ in 0..1_000 {
            assert!(permits.abandon(&queued(&permits, 1, &ran, 1)));
        }
        let last = queued(&permits, 1, &ran, 2);
        // SAFETY: this thread alone has the permits.
        let standing = permits.line.with(|line| unsafe { (*line).len() });
        assert!(standing < 200, "{standing} abandoned waiters stand in the line");
        assert!(permits.abandon(&first));
        permits.release(1);
        assert_eq!(ran.load(Ordering::Relaxed), 0b100);
        assert!(!permits.abandon(&last));
    }

    #[test]
    fn b88_a_wish_for_more_than_there_will_ever_be_is_refused_at_once() {
        let (permits, _) = permits(3);
        assert!(matches!(permits.acquire_or_queue(4, Job::new(|| {})), Acquire::TooMany(_)));
        assert!(matches!(permits.acquire_or_queue(3, Job::new(|| {})), Acquire::Now(_)));
        let (none, _) = self::permits(0);
        assert!(matches!(none.acquire_or_queue(1, Job::new(|| {})), Acquire::TooMany(_)));
    }

    #[test]
    fn b84_a_grant_is_delivered_however_many_keep_coming() {
        let (permits, ran) = permits(2);
        assert!(permits.try_acquire(2));
        let first = queued(&permits, 1, &ran, 0);
        let traffic = || {
            while ran.load(Ordering::Relaxed) & 1 == 0 {
                let later = Job::new(|| {});
                if let Acquire::Queued(waiting) = permits.acquire_or_queue(2, later) {
                    assert!(permits.abandon(&waiting), "one permit is out for good");
                }
            }
        };
        thread::scope(|scope| {
            (0..3).for_each(|_| drop(scope.spawn(traffic)));
            permits.release(1);
        });
        assert!(!permits.abandon(&first));
        assert_eq!((permits.late(), permits.available(), permits.waiting()), (0, 0, 0));
    }

    #[test]
    fn dropped_permits_drop_the_jobs_that_wait() {
        let (permits, ran) = permits(1);
        assert!(permits.try_acquire(1));
        let waiting = queued(&permits, 1, &ran, 0);
        drop(permits);
        assert_eq!(Arc::strong_count(&ran), 1);
        drop(waiting);
        assert_eq!(ran.load(Ordering::Relaxed), 0);
    }
}
