//! Budgets for whole graphs: four amounts that are taken together or not at all, each of them a budget like any other.
//! It does not know what a node or an edge is.
//!
//! Who waits stands in one line for all four. The first in the line holds nothing of them: it waits for the one that it lacks,
//! takes the others with it once it has that, and if one of those is lacking gives everything back and waits for that instead. So nobody
//! sits on one amount while it waits for another. While anybody stands in the line no one passes.
#![forbid(unsafe_code)]

use super::answer::BudgetError;
use super::budget::{Budget, BudgetGuard};
use crate::runtime::Runtime;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::mutant;
use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

/// What a graph of work takes, or what there is for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WorkAmounts {
    /// Pieces of work.
    pub nodes: u32,
    /// Edges between them.
    pub edges: u32,
    /// Pieces that run on the workers.
    pub cpu: u32,
    /// Pieces that run on the I/O threads.
    pub io: u32,
}

impl WorkAmounts {
    fn each(self) -> [u32; 4] {
        [self.nodes, self.edges, self.cpu, self.io]
    }

    fn of(mut amount: impl FnMut(usize) -> u32) -> Self {
        Self { nodes: amount(0), edges: amount(1), cpu: amount(2), io: amount(3) }
    }
}

impl fmt::Display for WorkAmounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, edges, cpu, io } = self;
        write!(f, "{nodes} nodes, {edges} edges, {cpu} for workers, {io} for I/O")
    }
}

/// A budget for graphs declined: what was asked for, what was free, and what there is at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkRefused {
    /// Asked for.
    pub requested: WorkAmounts,
    /// Free when it was declined. May be enough if others wait in line. Exact while nobody takes or gives.
    pub available: WorkAmounts,
    /// What there is at all. If that is less than was asked for, asking again is of no use.
    pub capacity: WorkAmounts,
}

impl fmt::Display for WorkRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the budget declined {}: free were {}; of {}", self.requested, self.available, self.capacity)
    }
}

impl Error for WorkRefused {}

/// An amount of nothing: no graph could ever be admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroBudget;

impl fmt::Display for ZeroBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a budget of nothing would let nothing in")
    }
}

impl Error for ZeroBudget {}

/// Why amounts could not be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lacking {
    TooLarge(WorkRefused),
    TimedOut(WorkRefused),
    Stalled(WorkRefused),
}

struct Inner {
    parts: [Budget; 4],
    /// One unit: whoever is the first in the line of those who wait has it.
    line: Budget,
}

/// How much of four amounts may be admitted and not over at the same time. Clones share it.
///
/// ```
/// use shardrun::{WorkAmounts, WorkBudget};
///
/// let budget = WorkBudget::new(WorkAmounts { nodes: 64, edges: 256, cpu: 64, io: 16 })?;
/// assert_eq!(budget.available(), budget.capacity());
/// # Ok::<(), shardrun::ZeroBudget>(())
/// ```
#[derive(Clone)]
pub struct WorkBudget {
    inner: Arc<Inner>,
}

impl WorkBudget {
    /// A budget of so much, for threads of any kind.
    ///
    /// # Errors
    /// If any of the amounts is zero.
    pub fn new(capacity: WorkAmounts) -> Result<Self, ZeroBudget> {
        Self::with(capacity, Budget::new)
    }

    /// A budget for work that `runtime` executes: its workers are never made to wait for it, and if it has no threads, whoever
    /// waits drives it.
    ///
    /// # Errors
    /// If any of the amounts is zero.
    pub fn for_runtime(capacity: WorkAmounts, runtime: &Runtime) -> Result<Self, ZeroBudget> {
        Self::with(capacity, |units| Budget::for_runtime(units, runtime))
    }

    fn with(capacity: WorkAmounts, budget: impl Fn(u32) -> Budget) -> Result<Self, ZeroBudget> {
        if capacity.each().contains(&0) {
            return Err(ZeroBudget);
        }
        Ok(Self::of(capacity.each().map(&budget), budget(1)))
    }

    pub(crate) fn of(parts: [Budget; 4], line: Budget) -> Self {
        Self { inner: Arc::new(Inner { parts, line }) }
    }

    /// The same with its nodes counted by another budget, which requests to a [`Stages`](crate::Stages) or other graphs may share: a
    /// node is one unit of it, as a request is.
    ///
    /// # Errors
    /// If that budget has no units at all.
    pub fn nodes_from(self, nodes: Budget) -> Result<Self, ZeroBudget> {
        if nodes.capacity() == 0 {
            return Err(ZeroBudget);
        }
        let [_, edges, cpu, io] = self.inner.parts.clone();
        Ok(Self::of([nodes, edges, cpu, io], self.inner.line.clone()))
    }

    /// What there is at all.
    #[must_use]
    pub fn capacity(&self) -> WorkAmounts {
        WorkAmounts::of(|at| self.inner.parts[at].capacity())
    }

    /// What is free. Exact while nobody takes or gives.
    #[must_use]
    pub fn available(&self) -> WorkAmounts {
        let free = |part: &Budget| u64::from(part.capacity()).saturating_sub(part.in_use()) as u32;
        WorkAmounts::of(|at| free(&self.inner.parts[at]))
    }

    /// How many stand in line.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.inner.line.waiting() + self.inner.line.in_use() as usize
    }

    fn refused(&self, requested: WorkAmounts) -> WorkRefused {
        WorkRefused { requested, available: self.available(), capacity: self.capacity() }
    }

    /// Whether it can never be: more of something is asked for than there is at all.
    pub(crate) fn too_large(&self, requested: WorkAmounts) -> Option<WorkRefused> {
        let asked = requested.each().into_iter().zip(&self.inner.parts);
        asked.into_iter().any(|(units, part)| units > part.capacity()).then(|| self.refused(requested))
    }

    /// Takes all of the amounts, but for the one that the caller has; or none, and says which is lacking.
    fn take(&self, amounts: WorkAmounts, has: Option<usize>) -> Result<(), usize> {
        let each = amounts.each();
        let wanted = |at: &usize| each[*at] > 0 && Some(*at) != has;
        for at in (0..4).filter(wanted) {
            if !self.inner.parts[at].take(each[at]) {
                for taken in (0..at).filter(wanted) {
                    self.inner.parts[taken].release(each[taken]);
                }
                return Err(at);
            }
        }
        Ok(())
    }

    /// Takes the amounts if they are free and nobody waits. Never waits.
    pub(crate) fn try_reserve(&self, amounts: WorkAmounts) -> Result<Reservation, WorkRefused> {
        if self.inner.line.in_use() == 0 && self.take(amounts, None).is_ok() {
            return Ok(Reservation::new(self, amounts));
        }
        Err(self.refused(amounts))
    }

    /// Takes the amounts, and waits in line if they are not free; for `limit` at most. Who must not wait goes beyond the capacity.
    pub(crate) fn reserve(&self, amounts: WorkAmounts, limit: Option<Duration>) -> Result<Reservation, Lacking> {
        if let Ok(reservation) = self.try_reserve(amounts) {
            return Ok(reservation);
        }
        if let Some(refused) = self.too_large(amounts) {
            return Err(Lacking::TooLarge(refused));
        }
        if self.inner.line.must_not_wait() {
            let reservation = Reservation::new(self, WorkAmounts::default());
            reservation.extend(amounts);
            return Ok(reservation);
        }
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let lacks = |error| self.lacks(error, amounts);
        let wait = |budget: &Budget, units| budget.take_waiting(units, left()).map_err(lacks);
        let _first = {
            wait(&self.inner.line, 1)?;
            BudgetGuard::of(&self.inner.line, 1)
        };
        let mut lacking = self.take(amounts, None);
        while let Err(at) = lacking {
            wait(&self.inner.parts[at], amounts.each()[at])?;
            lacking = self.take_with(at, amounts);
        }
        Ok(Reservation::new(self, amounts))
    }

    /// As `reserve`, as a future. It stands in line from its first poll on, and gives up its place when it is dropped.
    pub(crate) async fn reserve_async(self, amounts: WorkAmounts) -> Result<Reservation, Lacking> {
        if let Ok(reservation) = self.try_reserve(amounts) {
            return Ok(reservation);
        }
        if let Some(refused) = self.too_large(amounts) {
            return Err(Lacking::TooLarge(refused));
        }
        let lacks = |error| self.lacks(error, amounts);
        let _first = self.inner.line.acquire_async(1).await.map_err(lacks)?;
        let mut lacking = self.take(amounts, None);
        while let Err(at) = lacking {
            self.inner.parts[at].acquire_async(amounts.each()[at]).await.map_err(lacks)?.keep();
            lacking = self.take_with(at, amounts);
        }
        Ok(Reservation::new(&self, amounts))
    }

    /// The caller has one amount: takes the others, or gives that one back too.
    fn take_with(&self, has: usize, amounts: WorkAmounts) -> Result<(), usize> {
        self.take(amounts, Some(has)).inspect_err(|_| self.inner.parts[has].release(amounts.each()[has]))
    }

    fn lacks(&self, error: BudgetError, amounts: WorkAmounts) -> Lacking {
        let refused = self.refused(amounts);
        match error {
            BudgetError::TooMany(_) => Lacking::TooLarge(refused),
            BudgetError::TimedOut(_) => Lacking::TimedOut(refused),
            BudgetError::Stalled(_) => Lacking::Stalled(refused),
        }
    }
}

impl fmt::Debug for WorkBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkBudget")
            .field("capacity", &self.capacity())
            .field("available", &self.available())
            .field("waiting", &self.waiting())
            .finish()
    }
}

/// What one graph holds of a budget, given back once: when it is told to, or dropped.
pub(crate) struct Reservation {
    budget: WorkBudget,
    held: [AtomicU64; 4],
    over: AtomicBool,
}

impl Reservation {
    fn new(budget: &WorkBudget, amounts: WorkAmounts) -> Self {
        let held = amounts.each().map(|units| AtomicU64::new(u64::from(units)));
        Self { budget: budget.clone(), held, over: AtomicBool::new(false) }
    }

    /// Holds so much more, beyond the capacity if need be: of a graph that grows, which must not wait for itself. For who keeps it
    /// from being given back meanwhile.
    pub(crate) fn extend(&self, amounts: WorkAmounts) {
        for ((part, units), held) in self.budget.inner.parts.iter().zip(amounts.each()).zip(&self.held) {
            if units > 0 {
                part.take_at_once(units);
                // ordering: pairs with `give_back`, which comes after in whatever order ends the graph.
                held.fetch_add(u64::from(units), Ordering::AcqRel);
            }
        }
    }

    /// Gives everything back, the first time.
    pub(crate) fn give_back(&self) {
        // ordering: Acquire the last extension. The first of all who come here gives back, alone.
        let over = if mutant("reservation.give_back_by_look") {
            let over = self.over.load(Ordering::Acquire);
            self.over.swap(true, Ordering::AcqRel);
            over
        } else {
            self.over.swap(true, Ordering::AcqRel)
        };
        if over {
            return;
        }
        for (part, held) in self.budget.inner.parts.iter().zip(&self.held) {
            let mut units = held.load(Ordering::Acquire);
            while units > 0 {
                let some = u32::try_from(units).unwrap_or(u32::MAX);
                part.release(some);
                units -= u64::from(some);
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.give_back();
    }
}
