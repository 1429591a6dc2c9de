//! How many bodies of one caller may run at once: a permit is taken by the worker that comes to a task, and given back right after
//! its body. It does not know what the bodies do.
//!
//! A worker that finds no permit does not wait: the task stands in line, and is queued again, with its permit, once it is its turn.
//! Who waits inside a body for a task of the same semaphore runs that over the cap, if need be: its own body does not run meanwhile.
#![forbid(unsafe_code)]

use crate::flight::{Asleep, Completion, Entered, trampoline};
use crate::runtime::{Acquire, Job, Permits, Place, Spawner, Waiting};
use crate::sync::atomic::{Ordering, fence};
use crate::sync::{Arc, OnceLock};
use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;

crate::sync::local! {
    /// The semaphores whose permits bodies on this thread's stack hold, by address.
    static HELD: RefCell<Vec<usize>> = RefCell::new(Vec::new());
}

/// Lets at most so many bodies run at once. Clones share it; it is fair: who has waited longest is next.
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
    /// or a graph do better to carry the semaphore, and cost no thread.
    pub fn acquire(&self) -> CpuPermit {
        if let Some(permit) = self.try_acquire() {
            return permit;
        }
        let grant: Arc<Completion<(), Infallible>> = Completion::new();
        let told = grant.clone();
        let job = Job::new(move || {
            told.resolve(Ok(()));
        });
        if let Acquire::Queued(_) = self.permits.acquire_or_queue(1, job) {
            grant.wait_here(None);
        }
        self.permit()
    }

    fn permit(&self) -> CpuPermit {
        CpuPermit { permits: Some(self.permits.clone()) }
    }

    /// Whether a permit could be had now.
    pub(crate) fn has_room(&self) -> bool {
        self.is_lent_here() || (self.available() > 0 && self.waiting() == 0)
    }

    /// A permit for who waits for the task itself: a free one, or none if a body down this stack holds one and waits.
    pub(crate) fn for_helper(&self) -> Option<CpuPermit> {
        self.try_acquire().or_else(|| self.is_lent_here().then_some(CpuPermit { permits: None }))
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.permits).addr()
    }

    fn is_lent_here(&self) -> bool {
        let address = self.address();
        HELD.try_with(|held| held.borrow().contains(&address)).unwrap_or(false)
    }

    /// Notes that a body on this thread holds one of its permits, until the scope is dropped.
    pub(crate) fn holding(&self) -> Holding {
        let address = self.address();
        let _ = HELD.try_with(|held| held.borrow_mut().push(address));
        Holding(PhantomData)
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
    /// `None` if it is on loan.
    permits: Option<Arc<Permits>>,
}

impl Drop for CpuPermit {
    fn drop(&mut self) {
        if let Some(permits) = self.permits.take() {
            permits.release(1);
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

/// While it lives a body on this thread holds a permit.
#[must_use]
pub(crate) struct Holding(PhantomData<*const ()>);

impl Drop for Holding {
    fn drop(&mut self) {
        let _ = HELD.try_with(|held| held.borrow_mut().pop());
    }
}
