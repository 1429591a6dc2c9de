//! The scheduler: its builder, its handle, and how a request finds its file and is answered.
//! It does not know how stages run, nor how files move on.
#![forbid(unsafe_code)]

use super::batch::{BatchHandle, StageResult};
use super::capacity::{PoolUse, ZeroLimit};
use super::counters::StagesCounters;
use super::edit::{Change, Moved};
use super::error::StageError;
use super::host::Host;
use super::lifecycle::Gone;
use super::limbo::Limbo;
use super::look::Sought;
use super::needed::Needed;
use super::request::{Request, StageHandle, StageValue};
use super::shared::Shared;
use super::stripe::Stripes;
use super::submit::Submission;
use super::submitting::Submitting;
use super::target::Target;
use super::world::{World, Worlds};
use crate::admission::{Admission, Budget};
use crate::flight::{Handle, Interrupt, Killed};
use crate::runtime::{Pool, Runtime, Spawner};
use crate::sync::{Arc, Weak, epoch};
use ahash::RandomState;
use std::fmt;

/// A scheduler of per-file work: keeps the newest Source, Analysis and Artifacts of every file, under constant edits.
///
/// Clones are handles of the same scheduler. When the last one is dropped every pending request ends with
/// [`StageError::Shutdown`]; stages that run at that moment go on to their next [`StageCx::check`](super::StageCx::check), and
/// their results are dropped. The scheduler does not keep its runtime running.
///
/// * Each file has a *generation*, which an edit, an invalidation or a closing raises. What was asked of an older generation
///   ends superseded, and its results are never published.
/// * Equal requests share one execution. Stages run only if somebody wants them.
/// * No request waits for another: submitting, reading and finishing take no lock. Edits of all files are put in one order by
///   a section of some ten nanoseconds a file, in which nothing of the host's runs.
pub struct Stages<H: Host> {
    core: Arc<Core<H>>,
    ends: Arc<Ends<H>>,
}

impl<H: Host> Clone for Stages<H> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone(), ends: self.ends.clone() }
    }
}

impl<H: Host> fmt::Debug for Stages<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stages").field("files", &self.len()).finish_non_exhaustive()
    }
}

/// What the handles of a scheduler share, and what outlives them as long as there are source roots.
pub(crate) struct Core<H: Host> {
    pub(crate) worlds: Worlds<World<H>>,
    pub(crate) stripes: Stripes<H>,
    /// Files that were removed, and worlds that were left, until no pinned reader can hold them.
    pub(crate) gone: Limbo<Gone<H>>,
    /// For how many files a world makes room.
    pub(crate) files: usize,
    pub(crate) shared: Arc<Shared<H>>,
}

/// Ends the scheduler when the last handle goes.
pub(crate) struct Ends<H: Host>(Arc<Core<H>>);

impl<H: Host> Drop for Ends<H> {
    fn drop(&mut self) {
        // Nobody makes or moves a file any more: whoever could, holds the scheduler.
        let slots = self.0.worlds.now(&epoch::pin()).table.all();
        for slot in slots {
            slot.end(Killed::Shutdown);
        }
    }
}

/// Options of a scheduler to be built.
#[must_use = "a builder does nothing until `build` is called"]
pub struct StagesBuilder<H: Host> {
    host: H,
    spawner: Spawner,
    source_pool: Option<Pool>,
    first_generation: u64,
    first_epoch: u64,
    budget: Option<Budget>,
    limits: [Option<u32>; 2],
    seed: Option<u64>,
    files: usize,
}

impl<H: Host> StagesBuilder<H> {
    /// Which threads run Source, in place of what [`Host::source_pool`] says.
    pub fn source_pool(mut self, pool: Pool) -> Self {
        self.source_pool = Some(pool);
        self
    }

    /// The first generation of every file, 1 if nothing is said: lets tests stand close to the maximum.
    ///
    /// # Panics
    /// If it is 0.
    pub fn first_generation(mut self, generation: u64) -> Self {
        assert!(generation > 0, "the first generation of a file is at least 1");
        self.first_generation = generation;
        self
    }

    /// The epoch of the first [source root](Stages::capture_source_root), for tests at the end of all epochs.
    pub fn first_epoch(mut self, epoch: u64) -> Self {
        self.first_epoch = epoch;
        self
    }

    /// Bounds how many requests may be admitted and not over: one unit each, but for those that join what another asked for or
    /// find their answer there. Without a budget nothing is bounded but by what there is to compute: however many requests are
    /// pending, a file has at most one ticket in the queues for each stage and priority.
    ///
    /// A budget made [for the runtime](Budget::for_runtime) never makes a worker of that runtime wait.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Lets at most so many of this scheduler's stages run at once in a pool; without a limit its threads are the limit. A stage takes
    /// its permit before it is begun and gives it back when it is over, however it ends. A worker that waits inside a stage for
    /// another stage runs that over the limit, if need be, so that a limit of one locks nothing up.
    ///
    /// # Errors
    /// A limit of nothing.
    pub fn limit(mut self, pool: Pool, at_most: u32) -> Result<Self, ZeroLimit> {
        if at_most == 0 {
            return Err(ZeroLimit);
        }
        self.limits[pool as usize] = Some(at_most);
        Ok(self)
    }

    /// Fixes how names of files are hashed, so that a run on a seeded runtime can be repeated exactly.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How many files there will be, as far as that is known: room for their names is made at once, so that the table of files
    /// does not grow step by step while they come, but for no more than four million. It is no limit.
    pub fn expect_files(mut self, files: usize) -> Self {
        // A number that is far off must not take all memory.
        self.files = files.min(1 << 22);
        self
    }

    /// Builds the scheduler.
    pub fn build(self) -> Stages<H> {
        let Self { host, spawner, source_pool, first_generation, first_epoch, budget, limits, seed, files } = self;
        let pool = source_pool.unwrap_or_else(|| host.source_pool());
        let hasher = seed.map_or_else(RandomState::new, |seed| RandomState::with_seeds(seed, !seed, 1, 2));
        Stages::of(Arc::new_cyclic(|ends: &Weak<Ends<H>>| {
            let first = (first_generation, first_epoch);
            let shared = Arc::new(Shared::new(host, pool, spawner, first, budget, limits, ends.clone()));
            let worlds = Worlds::new(World::first(files));
            let stripes = Stripes::new(&shared, hasher);
            Ends(Arc::new(Core { worlds, stripes, gone: Limbo::new(), files, shared }))
        }))
    }
}

impl<H: Host> fmt::Debug for StagesBuilder<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagesBuilder").field("first_generation", &self.first_generation).finish_non_exhaustive()
    }
}

impl<H: Host> Stages<H> {
    /// Options of a scheduler whose stages run on `runtime`.
    pub fn builder(runtime: &Runtime, host: H) -> StagesBuilder<H> {
        StagesBuilder {
            host,
            spawner: runtime.spawner().clone(),
            source_pool: None,
            first_generation: 1,
            first_epoch: 0,
            budget: None,
            limits: [None; 2],
            seed: None,
            files: 0,
        }
    }

    /// A scheduler with the usual options, whose stages run on `runtime`.
    pub fn new(runtime: &Runtime, host: H) -> Self {
        Self::builder(runtime, host).build()
    }

    pub(crate) fn of(ends: Arc<Ends<H>>) -> Self {
        Self { core: ends.0.clone(), ends }
    }

    /// What a source root holds of the scheduler.
    pub(crate) fn shared_core(&self) -> Arc<Core<H>> {
        self.core.clone()
    }

    pub(crate) fn core(&self) -> &Core<H> {
        &self.core
    }

    /// The way to the runtime, and the budget, for what is offered beside the scheduler.
    pub(crate) fn runs_on(&self) -> (Spawner, Option<Budget>) {
        (self.core.shared.spawner.clone(), self.core.shared.budget.clone())
    }

    /// The host.
    pub fn host(&self) -> &H {
        &self.core.shared.host
    }

    /// Asks for a stage of a file. If it is there the handle has it at once; if somebody asked for it before, this request joins;
    /// else the first missing stage is queued.
    ///
    /// With a [text](Request::text) the file moves on first, in the same step.
    ///
    /// With a [budget](StagesBuilder::budget) that is spent it waits for it first, on the calling thread, until its token is cancelled or
    /// its deadline has passed.
    ///
    /// The handle ends with the stage's value, the failure of it or of a stage before it, [`StageError::Superseded`] if the file
    /// moves on meanwhile, or [`StageError::Shutdown`]. A request after a failure tries again.
    #[inline]
    pub fn submit_request<T: Target<H>>(&self, request: Request<H, T>) -> StageHandleOf<H, T> {
        match self.core.at_hand(&request, T::STAGE) {
            Ok(value) => {
                request.over();
                ready::<H, T>(value)
            }
            Err(sought) => picked::<H, T>(self.core.submit_sought(request.any(), sought)),
        }
    }

    /// As [`submit_request`](Self::submit_request), but never waits for the budget. Declined, it has changed nothing.
    pub fn try_submit_request<T: Target<H>>(&self, request: Request<H, T>) -> Admission<StageHandleOf<H, T>> {
        let sought = match self.core.at_hand(&request, T::STAGE) {
            Ok(value) => {
                request.over();
                return Admission::Admitted(ready::<H, T>(value));
            }
            Err(sought) => sought,
        };
        let mut submission = Submission::new(&self.core, false);
        let answer = submission.submit(request.any(), sought);
        submission.call_joiners();
        match answer {
            Ok((handle, false)) => Admission::Admitted(picked::<H, T>(handle)),
            Ok((handle, true)) => Admission::DedupeJoined(picked::<H, T>(handle)),
            Err(refused) => Admission::Backpressured(refused),
        }
    }

    /// As [`submit_request`](Self::submit_request), as a future that waits for the budget and then submits: if there is one that is spent,
    /// and the request needs a unit of it when it is polled first.
    ///
    /// While it waits it is ended by its token and its deadline: then it is ready, with a handle that says so, and has changed nothing.
    pub fn submit_request_async<T: Target<H>>(&self, request: Request<H, T>) -> Submitting<H, T> {
        Submitting::new(self.clone(), request)
    }

    /// Submits requests one by one, in order: others may see some of them submitted and the rest not yet.
    pub fn submit_batch<R: Into<Request<H>>>(&self, requests: impl IntoIterator<Item = R>) -> BatchHandle<H> {
        BatchHandle::new(requests.into_iter().map(|request| self.core.submit(request.into())).collect())
    }

    /// Submits requests together. The edits among them are one transition: whoever sees one of the files at its new generation
    /// sees all of them there, and nothing that was asked of an older one ends before that moment. An empty batch does nothing.
    ///
    /// A file may be named more than once: its newest text stands, and all its requests are answered from that.
    ///
    /// The requests themselves are queued after the transition, so of two clients that ask for the same stage at the same moment
    /// either may be called the first.
    ///
    /// With a [budget](StagesBuilder::budget) it waits, on the calling thread, for a unit a member, or for all that there are if it has
    /// more members; tokens and deadlines of members are heard before that and after it. Where nobody would ever free any, nothing
    /// moves on: members that edit or re-home end with [`Interrupt::Stalled`], the others are answered as if each had come alone.
    pub fn submit_batch_atomic<R: Into<Request<H>>>(&self, requests: impl IntoIterator<Item = R>) -> BatchHandle<H> {
        self.core.submit_batch(requests.into_iter().map(Into::into).collect())
    }

    /// Waits for a batch, by value or by reference, and gives the results in the order of the requests.
    pub fn wait_batch(&self, mut batch: impl std::borrow::BorrowMut<BatchHandle<H>>) -> Vec<StageResult<H>> {
        batch.borrow_mut().wait()
    }

    /// Counts one submission: for a host that serves a batch of its own, by reads and requests, and wants it counted as one.
    pub fn account_batch_submission(&self) {
        self.core.shared.counters.here().one(|counts| &counts.submits);
    }

    /// Moves the file on to a new generation with the same text; nothing is computed until somebody asks. For a file whose text is
    /// the same and whose results are not, since what it [depends on](Host::dependencies) has changed.
    ///
    /// Blockers that an Artifact of the older generation waited for are made all the same: the next generation that has Source takes over
    /// what it names too, and withdraws from the others.
    pub fn invalidate(&self, file: &H::File) -> Moved {
        self.core.change(file, Change::Keep, false)
    }

    /// Moves the file on and drops the text that an edit gave it: the stored one counts again.
    pub fn close_file(&self, file: &H::File) -> Moved {
        self.core.change(file, Change::Clear, false)
    }

    /// Gives the file a text, as [`Request::text`] does, and asks for nothing.
    pub fn set_text(&self, file: H::File, text: H::Text) -> Moved {
        self.core.set_text(file, text)
    }

    /// What is in use of a pool's [limit](StagesBuilder::limit); `None` if it has none that is tighter than the pool's threads.
    pub fn pool_use(&self, pool: Pool) -> Option<PoolUse> {
        self.core.shared.capacity.in_use(pool)
    }

    /// What the scheduler has counted.
    pub fn counters(&self) -> StagesCounters {
        let shared = &self.core.shared;
        let (counted, sequencer) = (StagesCounters::of(&shared.counters), shared.sequencer.counters());
        StagesCounters {
            epochs: counted.epochs + sequencer.transitions,
            sequencer,
            overlaid: shared.overlaid() as u64,
            live_roots: shared.roots.live() as u64,
            retained_versions: shared.roots.kept() as u64,
            ..counted
        }
    }
}

/// The handle of a request for a stage whose type is known.
pub type StageHandleOf<H, T> = Handle<Arc<<T as Target<H>>::Output>, StageError<H>>;

pub(crate) fn picked<H: Host, T: Target<H>>(handle: StageHandle<H>) -> StageHandleOf<H, T> {
    T::pick(handle).expect("a request is answered for the stage that it asked for")
}

/// The handle of a request that has its answer.
#[inline]
fn ready<H: Host, T: Target<H>>(value: StageValue<H>) -> StageHandleOf<H, T> {
    Handle::ready(Ok(T::of(value).expect("a request is answered for the stage that it asked for")))
}

impl<H: Host> Core<H> {
    /// Answers one request, and waits for the budget if there is one.
    pub(crate) fn submit(&self, request: Request<H>) -> StageHandle<H> {
        match self.at_hand(&request, request.target.stage()) {
            Ok(value) => {
                let stage = request.target.stage();
                request.over();
                StageHandle::ready(stage, Ok(value))
            }
            Err(sought) => self.submit_sought(request, sought),
        }
    }

    /// The same of one that is not answered at once.
    #[inline(never)]
    fn submit_sought(&self, request: Request<H>, sought: Option<Sought<Needed<H>>>) -> StageHandle<H> {
        let mut submission = Submission::new(self, true);
        let stage = request.target.stage();
        let answer = submission.submit(request, sought);
        submission.call_joiners();
        match answer {
            Ok((handle, _)) => handle,
            Err(_) => StageHandle::ready(stage, Err(Interrupt::Stalled.into())),
        }
    }
}
