//! The budget: how many units of work may be admitted and not over. Exact, with three ways to ask: now, blocking, async.
//! It does not know what a unit is.
//!
//! # How it counts
//!
//! The free units lie in one common place (with a fair line of waiters) and in reserves, one a thread. Work is admitted from the
//! thread's reserve, which is filled from the common place a batch at a time, and ended work goes back into the reserve of the
//! thread that ended it; so no word is written for each piece of work by every thread. When a reserve is empty and the common
//! place too, the asker brings in all reserves before it gives up: a unit that is free is always found. A small budget has no
//! reserves.
//!
//! While somebody waits in line nothing stays in a reserve: who puts units into one looks for waiters afterwards, and who
//! begins to wait brings the reserves in afterwards; a full fence on both sides sees to it that one of the two does.
//!
//! A worker of the budget's runtime, and whoever is inside a job, is never made to wait: it would wait for units that only it
//! and its like can free. Beyond the capacity it goes into debt, which ended work pays back first.

#![forbid(unsafe_code)]

use super::answer::{BudgetError, Refused};
use super::stripes::Stripes;
use crate::flight::{self, CancellationToken, Completion, Until, waker_here};
use crate::runtime::{self, Acquire, Job, Permits, Runtime, Spawner, Waiting};
use crate::sync::atomic::{AtomicU64, Ordering, fence, fence_behind_exchange, load_for_cas};
use crate::sync::{Arc, hint, mutant};
use std::fmt;
use std::time::{Duration, Instant};

/// Units that a thread's reserve is filled with at once, at most.
const BATCH_MAX: u32 = 64;
/// Looks at units that are on their way before an asker takes them for taken.
const LOOKS_MAX: u32 = 1_000;

/// Units on their way from one place to another: how many moves are going on, and above that how many have ended.
const MOVE: u64 = 1;
const MOVED: u64 = 1 << 16;

pub(crate) type Grant = Completion<(), std::convert::Infallible>;

pub(super) struct Inner {
    permits: Permits,
    stripes: Stripes,
    moves: AtomicU64,
    debt: AtomicU64,
    batch: u32,
    spawner: Option<Spawner>,
}

/// A number of units of work that may be admitted and not over at the same time. Clones share it.
///
/// ```
/// use shardrun::Budget;
///
/// let budget = Budget::new(2);
/// let (one, two) = (budget.try_acquire(1).unwrap(), budget.acquire(1).unwrap());
/// assert_eq!(budget.try_acquire(1).unwrap_err().free, 0);
/// drop(one);
/// assert_eq!(budget.in_use(), 1);
/// # drop(two);
/// ```
#[derive(Clone)]
pub struct Budget {
    inner: Arc<Inner>,
}

impl Budget {
    /// A budget of `capacity` units, for threads of any kind.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        Self::with(capacity, None, runtime::stripes())
    }

    /// A budget of `capacity` units of work that `runtime` executes: its workers are never made to wait for it, and if it has
    /// no threads, whoever waits drives it.
    #[must_use]
    pub fn for_runtime(capacity: u32, runtime: &Runtime) -> Self {
        Self::with(capacity, Some(runtime.spawner().clone()), runtime::stripes())
    }

    pub(crate) fn with(capacity: u32, spawner: Option<Spawner>, stripes: usize) -> Self {
        let batch = (capacity / (4 * stripes.max(1) as u32)).min(BATCH_MAX);
        let inner = Inner {
            permits: Permits::new(capacity, Job::run),
            stripes: Stripes::new(stripes),
            moves: AtomicU64::new(0),
            debt: AtomicU64::new(0),
            batch,
            spawner,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Units that there are at all.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.inner.permits.capacity()
    }

    /// Units in use. Exact while nobody takes or gives; more than the capacity while jobs have gone into debt.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        let free = u64::from(self.inner.free());
        (u64::from(self.capacity()) + self.inner.debt.load(Ordering::Relaxed)).saturating_sub(free)
    }

    /// How many stand in line.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.inner.permits.waiting()
    }

    fn guard(&self, units: u32) -> BudgetGuard {
        BudgetGuard { inner: self.inner.clone(), units }
    }

    /// Takes `units`, if they are free and nobody waits in line. Never waits.
    ///
    /// # Errors
    /// What was asked for and what was free; nothing was changed.
    pub fn try_acquire(&self, units: u32) -> Result<BudgetGuard, Refused> {
        if self.take(units) { Ok(self.guard(units)) } else { Err(self.inner.refused(units)) }
    }

    /// Takes `units`, and waits in line if they are not free. Inside a job, and on the workers of the budget's runtime, it
    /// does not wait but goes beyond the capacity.
    ///
    /// # Errors
    /// [`BudgetError::TooMany`] if there never are as many; [`BudgetError::Stalled`] on a runtime without threads when nothing
    /// is left that could free any.
    pub fn acquire(&self, units: u32) -> Result<BudgetGuard, BudgetError> {
        self.take_waiting(units, None).map(|()| self.guard(units))
    }

    /// As [`acquire`](Self::acquire), waiting for `limit` at most.
    ///
    /// # Errors
    /// As `acquire`, and [`BudgetError::TimedOut`].
    pub fn acquire_timeout(&self, units: u32, limit: Duration) -> Result<BudgetGuard, BudgetError> {
        self.take_waiting(units, Some(limit)).map(|()| self.guard(units))
    }

    /// Takes `units` as a future, which stands in line from its first poll on. Dropping the future gives up its place.
    pub fn acquire_async(&self, units: u32) -> super::Acquiring {
        super::Acquiring::new(self.clone(), units)
    }

    /// As `try_acquire`, without a guard: the caller gives the units back by [`release`](Self::release).
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    #[inline]
    pub(crate) fn take(&self, units: u32) -> bool {
        self.inner.take(units)
    }

    /// As `acquire`, without a guard.
    pub(crate) fn take_waiting(&self, units: u32, limit: Option<Duration>) -> Result<(), BudgetError> {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        self.take_or(units, &over, |grant| grant.wait_here(limit))
    }

    /// As `take_waiting`, until `token` is cancelled or the clock of `spawner` has come to `deadline`: then they are not there in time.
    pub(crate) fn take_until(
        &self,
        units: u32,
        spawner: &Spawner,
        token: Option<&CancellationToken>,
        deadline: Option<Duration>,
    ) -> Result<(), BudgetError> {
        let cancelled = || token.is_some_and(CancellationToken::is_cancelled);
        let over = || cancelled() || deadline.is_some_and(|deadline| deadline <= spawner.now());
        // No timer: its job would wait for a worker, and all of those may be busy.
        let step = || deadline.map(|deadline| spawner.sleep_towards(deadline));
        self.take_or(units, &over, |grant| {
            let _heard = token.map(|token| Until::wakes(&waker_here(), spawner, Some(token), None));
            grant.wait_here_until(&over, &step)
        })
    }

    fn take_or(
        &self,
        units: u32,
        over: &dyn Fn() -> bool,
        wait: impl FnOnce(&Grant) -> bool,
    ) -> Result<(), BudgetError> {
        let inner = &self.inner;
        if inner.take(units) {
            return Ok(());
        }
        if units > self.capacity() {
            return Err(BudgetError::TooMany(inner.refused(units)));
        }
        if inner.must_not_wait() {
            self.take_at_once(units);
            return Ok(());
        }
        if let Some(spawner) = inner.spawner.as_ref().filter(|spawner| spawner.is_driven()) {
            return self.drive(spawner, units, over);
        }
        let Some((grant, place)) = self.stand_in_line(units) else { return Ok(()) };
        if wait(&grant) || !self.leave_line(&grant, &place) {
            return Ok(());
        }
        Err(BudgetError::TimedOut(inner.refused(units)))
    }

    /// Whether the caller is never made to wait: it would wait for units that only it and its like can free.
    pub(crate) fn must_not_wait(&self) -> bool {
        self.inner.must_not_wait()
    }

    /// Takes `units`, beyond the capacity if they are not free.
    pub(crate) fn take_at_once(&self, units: u32) {
        if !self.inner.take(units) {
            self.inner.debt.fetch_add(u64::from(units), Ordering::Relaxed);
        }
    }

    /// Drives a runtime without threads until there are `units`, or it is `over`.
    fn drive(&self, spawner: &Spawner, units: u32, over: &dyn Fn() -> bool) -> Result<(), BudgetError> {
        loop {
            // What was driven here may have put calls off that free some.
            flight::trampoline::flush();
            let mark = spawner.mark();
            let moved = spawner.drive_one();
            if self.take(units) {
                return Ok(());
            }
            if over() {
                return Err(BudgetError::TimedOut(self.refused(units)));
            }
            if moved {
                continue;
            }
            if !spawner.others_drive(mark) {
                return Err(BudgetError::Stalled(self.refused(units)));
            }
            // Another thread is at a job, which may free some; it tells nobody.
            flight::doze();
        }
    }

    /// A place in line, and what is resolved when the units are the caller's. `None` if they are already. There are as many.
    pub(crate) fn stand_in_line(&self, units: u32) -> Option<(Arc<Grant>, Waiting)> {
        let grant = Grant::new();
        let job = {
            let (budget, grant) = (self.clone(), grant.clone());
            Job::new(move || {
                if !grant.resolve(Ok(())) {
                    budget.release(units);
                }
            })
        };
        match self.inner.permits.acquire_or_queue(units, job) {
            Acquire::Queued(place) => {
                if !mutant("budget.wait_without_bringing") {
                    // ordering: pairs with the fence in `release`. If its units came first, they are brought in here; else it
                    // sees somebody wait.
                    fence(Ordering::SeqCst);
                    self.inner.bring_all();
                }
                Some((grant, place))
            }
            Acquire::Now(_) | Acquire::TooMany(_) => None,
        }
    }

    /// Gives up a place in line. False if the units are the caller's already.
    pub(crate) fn leave_line(&self, grant: &Grant, place: &Waiting) -> bool {
        if self.inner.permits.abandon(place) {
            return true;
        }
        // They were granted. If the grant has not been told yet, who tells it finds it abandoned and gives them back.
        grant.abandon()
    }

    /// Gives `units` back.
    #[cfg_attr(shardrun_rtsan, sanitize(realtime = "nonblocking"))]
    #[inline]
    pub(crate) fn release(&self, units: u32) {
        self.inner.release(units);
    }

    /// What a refusal says.
    pub(crate) fn refused(&self, units: u32) -> Refused {
        self.inner.refused(units)
    }
}

impl Inner {
    fn free(&self) -> u32 {
        self.permits.available().saturating_add(self.stripes.free())
    }

    fn refused(&self, units: u32) -> Refused {
        Refused { asked: units, free: self.free(), capacity: self.permits.capacity() }
    }

    fn must_not_wait(&self) -> bool {
        flight::is_inside_job() || self.spawner.as_ref().is_some_and(|spawner| runtime::current_pool(spawner).is_some())
    }

    #[inline]
    fn take(&self, units: u32) -> bool {
        if self.batch == 0 {
            return self.permits.try_acquire(units);
        }
        if self.permits.waiting() > 0 {
            return false;
        }
        let mine = self.stripes.mine();
        self.stripes.take(mine, units) || self.refill(mine, units) || self.settle(units)
    }

    /// Takes from the common place, and while there is plenty a batch for the reserve with it.
    fn refill(&self, mine: usize, units: u32) -> bool {
        let plenty = self.permits.available() / 2 > units.saturating_add(self.batch);
        if !plenty {
            return self.permits.try_acquire(units);
        }
        self.moving(|| {
            let got = self.permits.try_acquire(units + self.batch);
            if got {
                self.put(mine, self.batch);
            }
            got
        })
    }

    /// Puts units into a reserve, unless somebody waits for them. Returns how many it holds.
    #[inline]
    fn put(&self, stripe: usize, units: u32) -> u32 {
        let held = self.stripes.put(stripe, units);
        if !mutant("budget.put_without_fence") {
            // ordering: pairs with the fence in `stand_in_line`, see there.
            fence_behind_exchange();
        }
        if self.permits.waiting() > 0 && !mutant("budget.put_without_look") {
            self.moving(|| self.bring(stripe));
            return 0;
        }
        held
    }

    /// Brings one reserve in.
    fn bring(&self, stripe: usize) -> u32 {
        let brought = self.stripes.empty(stripe);
        if brought > 0 {
            self.permits.release(brought);
        }
        brought
    }

    fn bring_all(&self) -> u32 {
        if self.batch == 0 {
            return 0;
        }
        self.moving(|| (0..self.stripes.len()).map(|stripe| self.bring(stripe)).sum())
    }

    /// Marks units as on their way while `f` moves them, so that nobody takes them for taken.
    fn moving<R>(&self, f: impl FnOnce() -> R) -> R {
        // ordering: AcqRel, so that who sees the move ended sees the units where they went.
        self.moves.fetch_add(MOVE, Ordering::AcqRel);
        let result = f();
        self.moves.fetch_add(MOVED - MOVE, Ordering::AcqRel);
        result
    }

    /// Brings all reserves in and takes from what is there then. Gives up when at one moment nothing was free: two looks found
    /// nothing, and nothing was put anywhere between them.
    #[cold]
    fn settle(&self, units: u32) -> bool {
        for _ in 0..LOOKS_MAX {
            let before = (self.moves.load(Ordering::Acquire), self.stripes.mark());
            let brought = if self.stripes.free() > 0 { self.bring_all() } else { 0 };
            if self.permits.try_acquire(units) {
                return true;
            }
            let after = (self.moves.load(Ordering::Acquire), self.stripes.mark());
            let still = before == after && before.0 & (MOVED - 1) == 0;
            if self.permits.waiting() > 0 || (brought == 0 && still) {
                return false;
            }
            hint::spin_loop();
        }
        false
    }

    #[inline]
    fn release(&self, units: u32) {
        let units = if self.debt.load(Ordering::Relaxed) > 0 { self.pay(units) } else { units };
        if units == 0 {
            return;
        }
        if self.batch == 0 {
            self.permits.release(units);
            return;
        }
        let mine = self.stripes.mine();
        let held = self.put(mine, units);
        if held > self.batch.saturating_mul(2) {
            self.moving(|| {
                if self.stripes.take(mine, held - self.batch) {
                    self.permits.release(held - self.batch);
                }
            });
        }
    }

    /// Pays debt from what is given back. Returns what is left.
    #[cold]
    fn pay(&self, units: u32) -> u32 {
        let mut debt = load_for_cas(&self.debt, Ordering::Relaxed);
        loop {
            let paid = debt.min(u64::from(units));
            // ordering: a number on its own; nothing else hangs on it.
            match self.debt.compare_exchange_weak(debt, debt - paid, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return units - paid as u32,
                Err(now) => debt = now,
            }
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("capacity", &self.capacity())
            .field("in_use", &self.in_use())
            .field("waiting", &self.waiting())
            .finish()
    }
}

/// Units that are in use until it is dropped.
#[must_use = "the units are given back when the guard is dropped"]
pub struct BudgetGuard {
    inner: Arc<Inner>,
    units: u32,
}

impl BudgetGuard {
    /// How many units it stands for.
    #[must_use]
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Gives the units to the caller, who releases them.
    pub(crate) fn keep(mut self) {
        self.units = 0;
    }

    pub(super) fn of(budget: &Budget, units: u32) -> Self {
        budget.guard(units)
    }
}

impl Drop for BudgetGuard {
    fn drop(&mut self) {
        self.inner.release(self.units);
    }
}

impl fmt::Debug for BudgetGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetGuard").field("units", &self.units).finish_non_exhaustive()
    }
}
