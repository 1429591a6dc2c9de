#![doc = include_str!("../README.md")]
#![cfg_attr(shardrun_rtsan, feature(sanitize))]

mod admission;
mod compose;
mod flight;
mod graph;
mod keyed;
mod lanes;
mod observe;
mod report;
mod runtime;
mod stages;
mod sync;

pub use admission::{
    Acquiring, Admission, Budget, BudgetError, BudgetGuard, DedupeHook, Refused, RequestContext, WorkAmounts,
    WorkBudget, WorkRefused, ZeroBudget,
};
pub use flight::{
    CancelOnDrop, CancelRegistration, CancellationToken, Handle, Interrupt, JobError, PanicReport, WaitCycle,
    contained_panics,
};
pub use graph::{
    Answer, Axis, ContinueMode, CountedEnd, CountedReport, CountedRun, Covers, Ended, Freed, History, JobClient,
    JobServer, JobServerError, Limit, Memory, MemoryPressure, NotUniform, Plan, PlanBuilder, PlanError, Policy,
    PolicyWaker, PoolId, Refusal, ResourceBudget, Run, RunControl, RunError, RunHandle, RunObserver, RunReport,
    Running, Solo, Tally, TaskCx, TaskEnd, TaskEntry, TaskFailure, TaskId, TaskOutcome, TaskStatus, Upstream, Usage,
    Wake, policy_fn,
};
pub use keyed::{
    BuildCx, Cache, CacheAsking, CacheCounters, CacheError, CacheHandle, CacheId, CacheKey, CacheRequest, Caches,
    CachesBuilder, CpuConcurrencySemaphore, CpuPermit, Dag, DagBuilder, DagCancel, DagControl, DagCx, DagDeclined,
    DagEnd, DagError, DagFailure, DagGate, DagGrown, DagGrowth, DagGrowthEnd, DagGrowthRefused, DagHandle, DagNewNode,
    DagNode, DagNodeEntry, DagRefusal, DagRejected, DagReport, DagSubmitting, Dags, Disposition, KeyedJob, KeyedView,
    Retain, SingleFlight, TaskKind, TypeMismatch,
};
pub use lanes::{
    ActorCounts, ActorOptions, ActorRef, Blocker, CancelOutcome, ClassLiveness, CoalesceKey, JobStatus,
    LaneBackpressure, LaneClass, LaneCx, LaneError, LaneHandle, LaneJob, LaneKind, LaneOrder, LaneRejected, LaneTicket,
    Lanes, LanesConfig, LanesConfigError, LanesLiveness, Latency, PublicationHealth, PublishCx, PublishError,
    PublishPaths, PublishPhase, Publisher, Quantum, QueueScope, RegisterError, RunningJob, View,
};
pub use observe::{Counters, Event, Observer, WorkerId, WorkerKind, WorkerReport};
pub use report::{CounterSummary, DotWriter, RunTimes, TraceWriter};
pub use runtime::{
    BuildError, Clock, Driver, Pinning, Place, Pool, Priority, RefusedBecause, Rejected, Runtime, RuntimeBuilder,
    Shutdown, TimerHandle, VirtualClock,
};
pub use stages::{
    AnyTarget, BatchHandle, CommitRefused, Dependencies, DependencyFailure, DependencyOccupancy, FailureCause,
    ForeignWitness, Host, Import, Invalidation, Joined, Moved, PoolUse, RefusedCommit, Registered, Removed, Request,
    SequencerCounters, SourceLookup, SourceRoot, SourceVersion, SourceWitness, Stage, StageCx, StageError,
    StageFailure, StageHandle, StageHandleOf, StageResult, StageValue, Stages, StagesBuilder, StagesCounters,
    Submitting, Target, ToAnalysis, ToArtifact, ToSource, ZeroLimit, decide_invalidation,
};

#[cfg(shardrun_counting)]
pub use sync::counted_writes;

#[cfg(all(test, any(shardrun_loom, shardrun_shuttle)))]
#[path = "../tests/models/mod.rs"]
mod models;

#[cfg(all(test, shardrun_rtsan))]
#[path = "../tests/rtsan/mod.rs"]
mod rtsan;
