//! Where graphs are submitted: a runtime, the host's table of graphs under way, and a budget, asked in this order.
//! It does not know how a graph runs.
#![forbid(unsafe_code)]

use super::builder::Dag;
use super::handle::DagHandle;
use super::run::Run;
use crate::admission::{Admission, DedupeHook, Lacking, Reservation, WorkBudget, WorkRefused, probe};
use crate::flight::PanicReport;
use crate::runtime::{Runtime, Spawner};
use crate::sync::Arc;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A place to submit graphs of computations to. Clones share it. It does not keep its runtime running.
///
/// Every submission asks the [hook](Self::dedupe) first, then the [budget](Self::budget); a graph that is not let in is given back as it
/// was, and nothing of it has been started.
///
/// ```
/// use shardrun::{Admission, Dag, Dags, Runtime, TaskKind, WorkAmounts, WorkBudget};
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let budget = WorkBudget::for_runtime(WorkAmounts { nodes: 2, edges: 8, cpu: 2, io: 2 }, &runtime)?;
/// let dags = Dags::new(&runtime).budget(budget.clone());
///
/// let pair = |say: &'static str| {
///     let mut dag = Dag::builder();
///     let first = dag.node(TaskKind::Load, |_| ()).id();
///     dag.node(TaskKind::Parse, move |_| println!("{say}")).after(first);
///     dag.build()
/// };
/// match dags.try_submit_dag(pair("now or never")?)? {
///     Admission::Admitted(handle) => assert!(handle.wait()?.is_success()),
///     Admission::Backpressured(declined) => println!("{}", declined.refused),
///     _ => unreachable!("there is no hook"),
/// }
/// assert!(dags.submit_dag(pair("as soon as there is room")?)?.wait()?.is_success());
/// assert_eq!(budget.available(), budget.capacity());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Dags {
    spawner: Spawner,
    budget: Option<WorkBudget>,
    hook: Option<Arc<dyn DedupeHook<Dag, DagHandle>>>,
}

impl Dags {
    /// Graphs whose nodes run on `runtime`, as many as come.
    #[must_use]
    pub fn new(runtime: &Runtime) -> Self {
        Self::of(runtime.spawner().clone())
    }

    pub(crate) fn of(spawner: Spawner) -> Self {
        Self { spawner, budget: None, hook: None }
    }

    /// Bounds what may be admitted and not over. A graph holds what it asks for from its admission until its last node is over, however
    /// it ends, and what it grows by while it runs; who is told of its end finds it given back.
    #[must_use]
    pub fn budget(mut self, budget: WorkBudget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Asks `hook` with every graph before it is admitted. What it answers is the submission's handle.
    #[must_use]
    pub fn dedupe(mut self, hook: impl DedupeHook<Dag, DagHandle> + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Submits a graph: its nodes run as soon as what they come after is over, the more urgent first. Waits until the budget has room
    /// for it, holding nothing meanwhile; inside a job it does not wait but goes beyond the capacity.
    ///
    /// # Errors
    /// [`DagRefusal::TooLarge`] at once if there never is room, [`DagRefusal::HookPanicked`], and
    /// [`DagRefusal::Stalled`] on a runtime without threads when nothing is left that could make room.
    pub fn submit_dag(&self, dag: Dag) -> Result<DagHandle, DagRejected> {
        self.submit_waiting(dag, None)
    }

    /// As [`submit_dag`](Self::submit_dag), waiting for `limit` at most.
    ///
    /// # Errors
    /// As there, and [`DagRefusal::TimedOut`].
    pub fn submit_dag_timeout(&self, dag: Dag, limit: Duration) -> Result<DagHandle, DagRejected> {
        self.submit_waiting(dag, Some(limit))
    }

    fn submit_waiting(&self, dag: Dag, limit: Option<Duration>) -> Result<DagHandle, DagRejected> {
        if let Some(joined) = self.probe(&dag) {
            return joined.map_err(|because| DagRejected::new(because, dag));
        }
        match self.budget.as_ref().map(|budget| budget.reserve(dag.amounts(), limit)).transpose() {
            Ok(reservation) => Ok(self.begin(dag, reservation)),
            Err(lacking) => Err(DagRejected::new(lacking.into(), dag)),
        }
    }

    /// Submits a graph if there is room for it. Never waits, and if it declines has changed nothing, in a time that does not grow
    /// with the graph.
    ///
    /// # Errors
    /// [`DagRefusal::TooLarge`] if there never is room, and [`DagRefusal::HookPanicked`].
    pub fn try_submit_dag(&self, dag: Dag) -> Result<Admission<DagHandle, DagDeclined>, DagRejected> {
        match self.probe(&dag) {
            Some(Ok(joined)) => return Ok(Admission::DedupeJoined(joined)),
            Some(Err(because)) => return Err(DagRejected::new(because, dag)),
            None => {}
        }
        let Some(budget) = &self.budget else { return Ok(Admission::Admitted(self.begin(dag, None))) };
        match budget.try_reserve(dag.amounts()) {
            Ok(reservation) => Ok(Admission::Admitted(self.begin(dag, Some(reservation)))),
            Err(refused) if budget.too_large(dag.amounts()).is_some() => {
                Err(DagRejected::new(DagRefusal::TooLarge(refused), dag))
            }
            Err(refused) => Ok(Admission::Backpressured(DagDeclined { refused, dag: Box::new(dag) })),
        }
    }

    /// As [`submit_dag`](Self::submit_dag), as a future: it asks the hook now, stands in line from its first poll on, and gives up its
    /// place when it is dropped.
    pub fn submit_dag_async(&self, dag: Dag) -> DagSubmitting {
        let (dags, joined) = (self.clone(), self.probe(&dag));
        DagSubmitting(Box::pin(async move {
            if let Some(joined) = joined {
                return joined.map_err(|because| DagRejected::new(because, dag));
            }
            let Some(budget) = dags.budget.clone() else { return Ok(dags.begin(dag, None)) };
            match budget.reserve_async(dag.amounts()).await {
                Ok(reservation) => Ok(dags.begin(dag, Some(reservation))),
                Err(lacking) => Err(DagRejected::new(lacking.into(), dag)),
            }
        }))
    }

    fn probe(&self, dag: &Dag) -> Option<Result<DagHandle, DagRefusal>> {
        let hook = self.hook.as_ref()?;
        probe(&**hook, dag).map_err(DagRefusal::HookPanicked).transpose()
    }

    fn begin(&self, dag: Dag, reservation: Option<Reservation>) -> DagHandle {
        let (run, waiter) = Run::new(self.spawner.clone(), dag, reservation);
        run.begin();
        DagHandle::new(run, waiter)
    }
}

impl fmt::Debug for Dags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dags").field("budget", &self.budget).field("hook", &self.hook.is_some()).finish()
    }
}

/// A graph that there is no room for now.
#[derive(Debug)]
pub struct DagDeclined {
    /// What it asks for, and what was free.
    pub refused: WorkRefused,
    /// The graph, to be submitted again.
    pub dag: Box<Dag>,
}

/// A graph that was not let in, and why.
#[derive(Debug)]
pub struct DagRejected {
    /// Why.
    pub because: DagRefusal,
    /// The graph, as it was.
    pub dag: Box<Dag>,
}

impl DagRejected {
    fn new(because: DagRefusal, dag: Dag) -> Self {
        Self { because, dag: Box::new(dag) }
    }
}

/// Why a graph was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DagRefusal {
    /// It asks for more than there will ever be.
    TooLarge(WorkRefused),
    /// There was no room in time.
    TimedOut(WorkRefused),
    /// On a runtime without threads nothing is left that could make room.
    Stalled(WorkRefused),
    /// The hook that looks for the same graph panicked.
    HookPanicked(PanicReport),
}

impl From<Lacking> for DagRefusal {
    fn from(lacking: Lacking) -> Self {
        match lacking {
            Lacking::TooLarge(refused) => Self::TooLarge(refused),
            Lacking::TimedOut(refused) => Self::TimedOut(refused),
            Lacking::Stalled(refused) => Self::Stalled(refused),
        }
    }
}

impl fmt::Display for DagRejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.because {
            DagRefusal::TooLarge(_) => "the graph is larger than the whole budget",
            DagRefusal::TimedOut(_) => "there was no room for the graph in time",
            DagRefusal::Stalled(_) => "nothing is left that could make room for the graph",
            DagRefusal::HookPanicked(_) => "the hook that looks for the same graph panicked",
        })
    }
}

impl Error for DagRejected {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.because {
            DagRefusal::TooLarge(refused) | DagRefusal::TimedOut(refused) | DagRefusal::Stalled(refused) => {
                Some(refused)
            }
            DagRefusal::HookPanicked(report) => Some(report),
        }
    }
}

/// A graph that waits for room: from [`Dags::submit_dag_async`].
#[must_use = "a future does nothing until it is polled"]
pub struct DagSubmitting(Pin<Box<dyn Future<Output = Result<DagHandle, DagRejected>> + Send>>);

impl Future for DagSubmitting {
    type Output = Result<DagHandle, DagRejected>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for DagSubmitting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DagSubmitting")
    }
}
