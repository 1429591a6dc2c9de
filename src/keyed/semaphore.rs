//! How many bodies of one caller may run at once: a permit is taken by the worker that comes to a task, and given back right after
//! its body. It does not know what the bodies do.
//!
//! A worker that finds no permit does not wait: the task stands in line, and is queued again, with its permit, once it is its turn.
//! A body that waits does not run meanwhile: it runs on the same thread whatever it waits for, with its own permit, and while it sleeps
//! its permit is lent to who stands in line. It takes a permit back before it goes on.
#![forbid(unsafe_code)]

use crate::flight::{Asleep, Completion, Entered, HeldScope, Lends, holds, trampoline};
use crate::runtime::{Acquire, Job, Missing, Permits, Place, Spawner, Waiting, blocking_if_lent};
use crate::sync::atomic::{Ordering, fence};
use crate::sync::{Arc, OnceLock, mutant};
use std::cell::Cell;
use std::convert::Infallible;
use std::fmt;
use std::rc::Rc;

/// Lets at most so many bodies run at once. Clones share it; it is fair: who has waited longest is next.
///
/// A body that waits inside the engine lends its permit meanwhile, and stands in line for one again before it goes on; no limit of the
/// wait counts for that. So a body must not wait while it holds a lock of the host's that another body of the same semaphore takes: the
/// other one may have the permit and wait for the lock, and then neither ever goes on, nor is told.
///
/// ```
/// use shardrun::CpuConcurrencySemaphore;
///
/// let two = CpuConcurrencySemaphore::new(2);
/// let (one, other) = (two.acquire(), two.acquire());
/// assert!(two.try_acquire().is_none());
/// drop(one);
/// assert!(two.try_acquire().is_some());
/// # drop(other);
/// ```
#[derive(Clone)]
pub struct CpuConcurrencySemaphore {
    permits: Arc<Permits>,
}

impl CpuConcurrencySemaphore {
    /// A semaphore of `cap` permits.
    ///
    /// # Panics
    /// If there are none: nothing would ever run.
    #[must_use]
    pub fn new(cap: u32) -> Self {
        assert!(cap > 0, "a semaphore without permits would let nothing run");
        Self { permits: Arc::new(Permits::new(cap, Job::run)) }
    }

    /// How many permits there are.
    #[must_use]
    pub fn cap(&self) -> u32 {
        self.permits.capacity()
    }

    /// How many are free; a hint while others take and give.
    #[must_use]
    pub fn available(&self) -> u32 {
        self.permits.available()
    }

    /// How many stand in line.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.permits.waiting()
    }

    /// A permit, if one is free and nobody waits in line.
    #[must_use]
    pub fn try_acquire(&self) -> Option<CpuPermit> {
        self.permits.try_acquire(1).then(|| self.permit())
    }

    /// A permit; the calling thread waits in line for it. A worker that waits here is replaced by a spare meanwhile; tasks of a cache
    /// or a graph do better to carry the semaphore: they cost no thread, and a body of theirs that waits for another task lends its
    /// permit, which one that was taken by hand does not.
    pub fn acquire(&self) -> CpuPermit {
        if let Some(permit) = self.try_acquire() {
            return permit;
        }
        if let Some((grant, _)) = self.stand_in_line() {
            grant.wait_here(None);
        }
        self.permit()
    }

    /// A place in line for the calling thread; none if it has the permit already.
    fn stand_in_line(&self) -> Option<(Arc<Completion<(), Infallible>>, Waiting)> {
        let grant: Arc<Completion<(), Infallible>> = Completion::new();
        let told = grant.clone();
        let job = Job::new(move || {
            told.resolve(Ok(()));
        });
        match self.permits.acquire_or_queue(1, job) {
            Acquire::Queued(waiting) => Some((grant, waiting)),
            // There is a permit at least.
            Acquire::Now(_) | Acquire::TooMany(_) => None,
        }
    }

    /// A permit that is the caller's already.
    pub(crate) fn permit(&self) -> CpuPermit {
        CpuPermit { semaphore: self.clone(), own: true }
    }

    /// Whether a permit could be had now.
    pub(crate) fn has_room(&self) -> bool {
        self.is_lent_here() || (self.available() > 0 && self.waiting() == 0)
    }

    /// A permit for a task that runs on this thread now: the one of a body down this stack, which waits, or a free one. So a thread
    /// never holds two of one semaphore, and lends and takes back one.
    pub(crate) fn take_here(&self) -> Option<CpuPermit> {
        if self.is_lent_here() { Some(CpuPermit { semaphore: self.clone(), own: false }) } else { self.try_acquire() }
    }

    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.permits).addr()
    }

    fn is_lent_here(&self) -> bool {
        holds(self.address())
    }

    /// A permit for a body that has slept and goes on; `sleeps` calls what it is given, which waits, or says that it must not.
    /// None where only this thread could run who has the permits: rather one body too many than none at all.
    pub(crate) fn take_again(&self, sleeps: impl FnOnce(&dyn Fn()) -> bool) -> bool {
        if mutant("semaphore.goes_on_without") {
            return false;
        }
        if self.permits.try_acquire(1) {
            return true;
        }
        let Some((grant, waiting)) = self.stand_in_line() else { return true };
        let has_slept = sleeps(&|| _ = grant.wait_here(None));
        has_slept || !(self.permits.abandon(&waiting) || mutant("semaphore.gives_up_what_it_was_granted"))
    }

    /// For a worker that has come to a task: runs `body` here with a permit, or has it queued at `place` once there is one, and
    /// says where it stands until then. If the runtime shuts down first `body` is dropped unrun, whoever has the permits.
    pub(crate) fn dispatch(
        &self,
        spawner: &Spawner,
        place: Place,
        body: impl FnOnce(CpuPermit) + Send + 'static,
    ) -> Option<Arc<InLine>> {
        if let Some(permit) = self.try_acquire() {
            body(permit);
            return None;
        }
        let line = Arc::new(InLine { permits: self.permits.clone(), waiting: OnceLock::new() });
        let here: Arc<dyn Asleep> = line.clone();
        let entered = Entered::enter(spawner, Arc::downgrade(&here))?;
        let (queue, semaphore) = (spawner.clone(), self.clone());
        let granted = Job::new(move || {
            drop((entered, here));
            let permit = Granted(Some(semaphore.permit()));
            // A runtime that refuses it drops it.
            drop(queue.push(place, Job::new(move || body(permit.taken()))));
        });
        match self.permits.acquire_or_queue(1, granted) {
            Acquire::Queued(waiting) => {
                let _ = line.waiting.set(waiting);
                placed_or_closed();
                if spawner.is_closed() {
                    line.leave();
                }
                Some(line)
            }
            Acquire::Now(job) => {
                job.run();
                None
            }
            // There is a permit at least.
            Acquire::TooMany(_) => None,
        }
    }
}

/// A task that stands in line: it keeps itself there until it has its permit, or is thrown away.
pub(crate) struct InLine {
    permits: Arc<Permits>,
    waiting: OnceLock<Waiting>,
}

impl InLine {
    /// Throws the task away, unless it has its permit already or is not in line yet. Whether it did.
    pub(crate) fn leave(&self) -> bool {
        self.waiting.get().is_some_and(|waiting| self.permits.abandon(waiting))
    }
}

impl Asleep for InLine {
    fn closed(&self) {
        self.leave();
    }
}

/// Between the note of a task's place in line and the look whether the runtime is closed.
fn placed_or_closed() {
    // ordering: pairs with the barrier of the runtime's close. If the note came first, the close finds the place; else who notes it
    // sees that the runtime is closed. Perhaps both do.
    fence(Ordering::SeqCst);
}

impl fmt::Debug for CpuConcurrencySemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuConcurrencySemaphore")
            .field("cap", &self.cap())
            .field("available", &self.available())
            .finish_non_exhaustive()
    }
}

/// Leave for one body to run, given back when it is dropped, by a panic too.
#[must_use = "the permit is given back when it is dropped"]
pub struct CpuPermit {
    semaphore: CpuConcurrencySemaphore,
    /// Else it is on loan.
    own: bool,
}

impl CpuPermit {
    /// Has a body on this thread hold it until the scope is dropped.
    pub(crate) fn hold(mut self) -> Holding {
        let own = Cell::new(std::mem::take(&mut self.own));
        let held = Rc::new(Held { semaphore: self.semaphore.clone(), own });
        Holding { _scope: HeldScope::enter(held.clone()), held }
    }
}

impl Drop for CpuPermit {
    fn drop(&mut self) {
        if self.own {
            self.semaphore.permits.release(1);
        }
    }
}

impl fmt::Debug for CpuPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuPermit").finish_non_exhaustive()
    }
}

/// A permit on its way to the task that it was granted to.
struct Granted(Option<CpuPermit>);

impl Granted {
    fn taken(mut self) -> CpuPermit {
        self.0.take().expect("it is taken once")
    }
}

impl Drop for Granted {
    /// The task was thrown away: the permit goes to the next, which is thrown away too, and so on; hence from the trampoline.
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            trampoline::run(move || drop(permit));
        }
    }
}

/// The permit of a body that runs.
struct Held {
    semaphore: CpuConcurrencySemaphore,
    /// It is there to be given back, or lent.
    own: Cell<bool>,
}

impl Lends for Held {
    fn lend(&self) {
        if self.own.get() && !mutant("semaphore.keeps_it_asleep") {
            self.semaphore.permits.release(1);
        }
    }

    fn take_back(&self) {
        if self.own.get() && !mutant("semaphore.keeps_it_asleep") {
            let missing = Missing::default();
            self.own.set(self.semaphore.take_again(|wait| blocking_if_lent(&missing, wait).is_some()));
        }
    }

    fn source(&self) -> usize {
        self.semaphore.address()
    }
}

/// While it lives a body on this thread holds a permit, which goes back then.
#[must_use = "the permit is given back when it is dropped"]
pub(crate) struct Holding {
    _scope: HeldScope,
    held: Rc<Held>,
}

impl Drop for Holding {
    fn drop(&mut self) {
        if self.held.own.replace(false) {
            self.held.semaphore.permits.release(1);
        }
    }
}
