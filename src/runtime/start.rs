//! The life of each thread of a runtime: what it does before, between and after its work; spares; the timer's thread.
//! It does not know which jobs it runs.
#![forbid(unsafe_code)]

use super::affinity;
use super::barrier;
use super::crew::Crew;
use super::current;
use super::engine::Engine;
use super::place::{Place, Pool};
use super::threads::Threads;
use super::worker::{End, Worker};
use crate::observe::Event;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::sync::{mutant, stat, thread};
use std::cell::Cell;
use std::io;
use std::time::Duration;

/// The longest that who waits for a clock of the host's sleeps, which passes at a rate of its own.
pub(super) const HOSTED_CLOCK_STEP: Duration = Duration::from_millis(1);

/// Starts one worker of a pool.
///
/// # Errors
/// The operating system's.
pub(crate) fn worker(engine: &Arc<Engine>, pool: Pool, index: usize) -> io::Result<()> {
    let kind = match pool {
        _ if index >= engine.crew(pool).regular => "spare",
        Pool::Workers => "w",
        Pool::Io => "io",
    };
    let name = format!("{}-{kind}{index}", engine.config.thread_name);
    Threads::start(engine, name, engine.config.stack_size, move |engine| live(engine, pool, index))
}

/// The whole life of a worker's thread.
fn live(engine: Arc<Engine>, pool: Pool, index: usize) {
    let crew = engine.crew(pool);
    let regular = pool == Pool::Workers && index < crew.regular;
    match engine.config.plan.cpus.get(index) {
        Some(cpu) if regular && affinity::pin(*cpu) => {
            crew.slot(index).pinned.store(*cpu + 1, stat::Ordering::Relaxed);
        }
        // Its starter may be pinned, and a thread inherits its starter's mask.
        _ if !engine.config.plan.cpus.is_empty() => affinity::unpin(),
        _ => {}
    }
    let id = engine.crew(pool).id(index);
    let worker = Worker::new(engine.clone(), pool, index);
    current::enter(&worker, || {
        engine.hook(engine.config.on_start.as_ref(), id);
        while worker.work() == End::Rest && engine.crew(pool).rest(index) {}
        engine.hook(engine.config.on_stop.as_ref(), id);
    });
}

impl Crew {
    /// A spare rests until somebody needs it; false if the crew is closed instead.
    fn rest(&self, index: usize) -> bool {
        self.resting.insert(index);
        barrier::full(); // pairs with `close`, and with a `lend` that found nobody
        if self.is_closed() && !mutant("spare.rest_without_look") {
            self.resting.claim(index);
        } else if self.is_wanting() && !mutant("spare.rest_unwanted") && self.resting.claim(index) {
            // ordering: as in `take_surplus`.
            self.surplus.fetch_add(1, Ordering::AcqRel);
        }
        while self.resting.contains(index) {
            thread::park();
        }
        !self.is_closed()
    }

    /// One of the spares that are to rest, taken by one of them or by who needs one.
    pub(crate) fn take_surplus(&self) -> bool {
        let mut surplus = self.surplus.load(Ordering::Relaxed);
        while surplus.cast_signed() > 0 {
            // ordering: a count of wishes; what a spare works on comes through the queues.
            match self.surplus.compare_exchange(surplus, surplus - 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => surplus = now,
            }
        }
        false
    }

    /// Whether somebody blocks for whom there was no spare.
    pub(crate) fn is_wanting(&self) -> bool {
        self.surplus.load(Ordering::Relaxed).cast_signed() < 0
    }

    /// A slot for one spare more.
    fn take_slot(&self) -> Option<usize> {
        if let Some(vacant) = self.vacant.claim_any() {
            return Some(vacant);
        }
        let mut index = self.started.load(stat::Ordering::Acquire);
        while index < self.capacity() {
            // ordering: the slot's contents are published by the thread that opens it.
            match self.started.compare_exchange(index, index + 1, stat::Ordering::AcqRel, stat::Ordering::Acquire) {
                Ok(_) => return Some(index),
                Err(now) => index = now,
            }
        }
        None
    }

    /// No thread could be started for the slot.
    fn give_slot_back(&self, index: usize) {
        let last = self.started.compare_exchange(index + 1, index, stat::Ordering::AcqRel, stat::Ordering::Relaxed);
        if last.is_err() {
            // Others were taken meanwhile: it stays among those that have been started, and is the next that is taken.
            self.vacant.insert(index);
        }
    }

    /// One of the spares that rest is woken, to take the place of somebody who blocks.
    fn wake_resting(&self) -> Option<usize> {
        let spare = self.resting.claim_any()?;
        self.unpark(spare);
        Some(spare)
    }
}

/// Whether a wait has told that no spare can take its place: it may look again often, and tells so once.
#[derive(Default)]
pub(crate) struct Missing(Cell<bool>);

/// A spare takes the place of a worker of `pool` that is about to block. If none can, the next one that would rest does.
/// Whether one does.
fn lend(engine: &Arc<Engine>, pool: Pool, blocked: usize, missing: &Missing) -> bool {
    let crew = engine.crew(pool);
    // Nobody has to be woken for what the blocked worker leaves: it was announced when it was pushed.
    if crew.take_surplus() {
        return true;
    }
    if let Some(spare) = crew.wake_resting() {
        engine.event(&Event::SpareStarted { worker: crew.id(spare) });
        return true;
    }
    if let Some(index) = crew.take_slot() {
        if worker(engine, pool, index).is_ok() {
            engine.event(&Event::SpareStarted { worker: crew.id(index) });
            return true;
        }
        crew.give_slot_back(index);
    }
    // ordering: as in `take_surplus`.
    crew.surplus.fetch_sub(1, Ordering::AcqRel);
    barrier::full(); // pairs with `rest`: a spare on its way there sees that it is wanted, or we see that it rests
    if let Some(spare) = crew.wake_resting() {
        crew.surplus.fetch_add(1, Ordering::AcqRel);
        engine.event(&Event::SpareStarted { worker: crew.id(spare) });
        return true;
    }
    if !missing.0.replace(true) {
        engine.spares_missing.add_shared(1);
        engine.event(&Event::SpareMissing { worker: crew.id(blocked) });
    }
    false
}

/// Shows the calling worker's next continuation to thieves: it does something else first.
pub(crate) fn expose() {
    current::worker(|worker| {
        if let Some(worker) = worker {
            worker.expose();
        }
    });
}

/// Runs `f`, which is about to block the calling thread. On a worker a spare takes its place meanwhile, up to the limit of
/// spares; whatever the worker was to do next can be taken by others. Elsewhere it is a plain call.
pub(crate) fn blocking<R>(f: impl FnOnce() -> R) -> R {
    blocking_or(&Missing::default(), || (), f)
}

/// As [`blocking`], of a wait that may do so again, and calls `alone` first if no spare can take the calling worker's place.
pub(crate) fn blocking_or<R>(missing: &Missing, alone: impl FnOnce(), f: impl FnOnce() -> R) -> R {
    let (_lent, to_somebody) = Lent::now(missing);
    if !to_somebody {
        alone();
    }
    f()
}

/// As [`blocking`], of a wait that may do so again, but does nothing if the calling thread is a worker whose place no spare can take.
pub(crate) fn blocking_if_lent<R>(missing: &Missing, f: impl FnOnce() -> R) -> Option<R> {
    let (_lent, to_somebody) = Lent::now(missing);
    to_somebody.then(f)
}

/// Whether the calling thread is a worker, of whatever runtime.
pub(crate) fn is_worker() -> bool {
    current::worker(|worker| worker.is_some())
}

/// How many waits may stand on the calling thread's stack, each inside what another one runs while it waits: one for each 64 KiB
/// of a worker's stack, and 32 where the stack's size is not known.
pub(crate) fn helps_max() -> usize {
    current::worker(|worker| worker.map_or(32, |worker| (worker.engine().config.stack_size >> 16).max(2)))
}

/// A worker's place that is lent while it blocks; given back when this is dropped.
struct Lent(Option<(Arc<Engine>, Pool)>);

impl Lent {
    /// Also whether anybody has taken it, or there was nothing to lend.
    fn now(missing: &Missing) -> (Self, bool) {
        let (lent, to_somebody) = current::worker(|worker| {
            let Some(worker) = worker else { return (Self(None), true) };
            worker.expose();
            let (engine, pool) = (worker.engine(), worker.pool);
            let taken = lend(engine, pool, worker.index, missing);
            (Self(Some((engine.clone(), pool))), taken)
        });
        if let Some((engine, pool)) = &lent.0
            && engine.crew(*pool).is_closed()
        {
            // What was pushed here beside the end is not to wait for what this thread blocks for.
            engine.drain();
        }
        (lent, to_somebody)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some((engine, pool)) = &self.0 {
            // ordering: as in `take_surplus`.
            engine.crew(*pool).surplus.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Sees to it that deadlines fire: starts the timer's thread before the first one of a runtime with threads is taken.
///
/// # Errors
/// The operating system's, or that the runtime is closed. The next deadline tries again.
pub(crate) fn timer(engine: &Arc<Engine>) -> io::Result<()> {
    let started = &engine.timer.started;
    if engine.driven.is_some() || started.load(stat::Ordering::Acquire) {
        return Ok(());
    }
    let name = format!("{}-timer", engine.config.thread_name);
    Threads::start_once(engine, started, (name, engine.config.stack_size), turn_timer)
}

fn turn_timer(engine: Arc<Engine>) {
    affinity::unpin();
    let timer = &engine.timer;
    timer.adopt(thread::current());
    while engine.refusal().is_none() {
        let now = engine.now();
        let next = timer.turn(now, |place: Place, job| engine.submit(place, job));
        let until = next.map(|next| next.saturating_sub(now));
        if until != Some(Duration::ZERO) && timer.sleeps(next) && engine.refusal().is_none() {
            match until {
                None => thread::park(),
                Some(until) if engine.clock.is_system() => thread::park_timeout(until),
                Some(_) => thread::park_timeout(HOSTED_CLOCK_STEP),
            }
        }
        timer.woke();
    }
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::blocking;
    use crate::runtime::{Job, Place, Pool, Priority, RefusedBecause, Runtime};
    use crate::sync::mpsc::channel;
    use std::time::Duration;

    const SOON: Duration = Duration::from_secs(20);

    fn small(spares: usize) -> crate::runtime::RuntimeBuilder {
        Runtime::builder().workers(1).io_threads(1).max_spares(spares)
    }

    /// A job at `place` blocks for something that only another job there can bring; a second one nests in it.
    fn nests(runtime: &Runtime, place: Place, depth: usize) -> bool {
        let (sender, receiver) = channel();
        let inner = runtime.clone();
        let job = move || sender.send(depth == 0 || nests(&inner, place, depth - 1)).unwrap();
        runtime.execute_on(place, job).unwrap();
        blocking(|| receiver.recv_timeout(SOON)).unwrap_or(false)
    }

    #[test]
    fn b60_a_spare_takes_the_place_of_a_worker_that_blocks() {
        let runtime = small(4).build().unwrap();
        for pool in [Pool::Workers, Pool::Io] {
            for _ in 0..20 {
                assert!(nests(&runtime, Place { pool, priority: Priority::Interactive }, 4));
            }
        }
        // One may be missing for the moment in which a spare is on its way to its rest, and is kept from it: that is no lack.
        assert_eq!(runtime.counters().workers.len(), 10, "spares are used again");
        assert_eq!(runtime.shutdown().running, 0);
    }

    #[test]
    fn b60_one_worker_at_a_time_runs_jobs_once_the_blocked_one_is_back() {
        let runtime = small(4).build().unwrap();
        assert!(nests(&runtime, Place::default(), 1));
        // The spare rests before its next job: from now on two jobs that would run at once would run on one thread.
        for _ in 0..100 {
            let (sender, receiver) = channel();
            runtime.execute(move || sender.send(()).unwrap()).unwrap();
            receiver.recv_timeout(SOON).expect("it runs");
        }
        assert!(runtime.engine_for_tests().crew(Pool::Workers).surplus.load(super::Ordering::Relaxed) <= 1);
    }

    #[test]
    fn b91_a_spare_that_cannot_start_leaves_the_work_to_the_worker() {
        for builder in [small(0), small(4).fail_thread_starts_after(2)] {
            let runtime = builder.build().unwrap();
            let (sender, receiver) = channel();
            let (done, end) = channel();
            let inner = runtime.clone();
            runtime
                .execute(move || {
                    inner.execute(move || done.send(()).unwrap()).unwrap();
                    blocking(|| receiver.recv().unwrap());
                })
                .unwrap();
            while runtime.counters().spares_missing == 0 {
                crate::sync::thread::yield_now();
            }
            sender.send(()).unwrap();
            end.recv_timeout(SOON).expect("what was taken is run once the worker is back");
            assert_eq!(runtime.counters().spares_missing, 1);
        }
    }

    #[test]
    fn b91_a_deadline_is_refused_if_nobody_would_wait_for_it_and_taken_if_the_thread_starts_later() {
        let runtime = small(0).fail_thread_starts_after(2).build().unwrap();
        for _ in 0..3 {
            let refused = runtime.after(Duration::ZERO, || {}).expect_err("no thread can be started");
            assert_eq!(refused.because, RefusedBecause::NoTimerThread);
        }
        // What the engine itself needs comes early, but comes.
        let (sender, receiver) = channel();
        runtime.spawner().after(Duration::from_secs(3_600), Job::new(move || sender.send(()).unwrap()));
        receiver.recv_timeout(SOON).expect("it is not lost");
        runtime.engine_for_tests().threads.fail_no_more();
        let (sender, receiver) = channel();
        let taken = runtime.after(Duration::ZERO, move || sender.send(()).unwrap());
        assert!(taken.is_ok());
        receiver.recv_timeout(SOON).expect("it fires");
    }

    #[test]
    fn b91_slots_that_are_given_back_in_any_order_are_taken_again() {
        let runtime = small(3).build().unwrap();
        let crew = runtime.engine_for_tests().crew(Pool::Workers);
        for back in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
            let mut taken: Vec<_> = std::iter::from_fn(|| crew.take_slot()).collect();
            taken.sort_unstable();
            assert_eq!(taken, [1, 2, 3]);
            back.into_iter().for_each(|index| crew.give_slot_back(index));
        }
    }

    #[test]
    fn blocking_elsewhere_is_a_plain_call() {
        assert_eq!(blocking(|| 3), 3);
    }
}
