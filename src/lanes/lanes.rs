//! The executor that a host holds: register actors, submit jobs to them, cancel, drain, shut down.
//! It does not know how an actor is served.

#![forbid(unsafe_code)]

use super::actor::{Actor, Why};
use super::answer::LaneError;
use super::awaited::EndOf;
use super::cancel::{CancelOutcome, LaneTicket};
use super::config::{LanesConfig, LanesConfigError};
use super::context::LaneCx;
use super::executor::{Ender, Shared};
use super::kind::{ActorOptions, LaneClass, LaneKind};
use super::registry::{RegisterError, let_go};
use super::submit::{LaneHandle, LaneRejected};
use super::work::{Begin, Build, Call, LaneJob, Stage, Work};
use super::{barrier, current};
use crate::flight::{self, Handle, trampoline};
use crate::runtime::{Place, Runtime};
use crate::sync::Arc;
use std::fmt;
use std::future::Future;
use std::hash::Hash;

/// Runs reads, writes, heavy builds and maintenance for many independent projects, fairly.
///
/// Each project is an *actor*: a key and a shared context, registered by [`register`](Self::register). Jobs of one actor obey
/// its lanes ([`LaneKind`]): reads run beside each other, writers alone. No actor starves another, no maintenance delays what
/// somebody waits for, and each job is answered exactly once.
///
/// A job may submit others and wait for them. While it does, it lends its slot, so that the jobs it waits for need not wait for
/// that; a read that a reader of the same actor submits and waits for runs under its share, before writers. As many slots can be
/// lent as there are, 16 at least, and 1,023 with those that there are at most. A wait is answered with [`LaneError::Interrupted`] where every slot belongs to a job that
/// waits, and with [`LaneError::WouldDeadlock`] where it could never end.
///
/// Clones are handles of one executor. When the last is dropped it is shut down, as by [`shutdown`](Self::shutdown); inside a
/// job, of whatever executor, without waiting.
///
/// ```
/// use shardrun::{LaneKind, Lanes, LanesConfig, Runtime};
/// use std::sync::Mutex;
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let lanes = Lanes::new(&runtime, LanesConfig::preset(4, 2, 3, 1))?;
/// lanes.register("project", Mutex::new(Vec::new()));
/// let write = lanes.job(LaneKind::Mutating, |cx| cx.context().lock().unwrap().push(7));
/// lanes.submit(&"project", write).wait()?;
/// let read = lanes.job(LaneKind::PureRead, |cx| cx.context().lock().unwrap().len());
/// assert_eq!(lanes.submit(&"project", read).wait()?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Lanes<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    owner: Arc<Owner<K, C>>,
}

/// Shuts down when the last handle goes.
struct Owner<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    shared: Arc<Shared<K, C>>,
}

impl<K, C> Drop for Owner<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    fn drop(&mut self) {
        // Who drops a handle inside a job, of whatever executor, does not mean to wait there; and others may wait for that job.
        if flight::is_inside_job() {
            self.shared.close();
        } else {
            shut_down(&self.shared);
        }
    }
}

impl<K, C> Clone for Lanes<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    fn clone(&self) -> Self {
        Self { owner: self.owner.clone() }
    }
}

impl<K, C> fmt::Debug for Lanes<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes").field("actors", &self.owner.shared.registry.len()).finish_non_exhaustive()
    }
}

/// One registration of an actor: the way to submit to it without looking its key up. Clones are the same.
pub struct ActorRef<K, C> {
    pub(super) actor: Arc<Actor<K, C>>,
}

impl<K, C> Clone for ActorRef<K, C> {
    fn clone(&self) -> Self {
        Self { actor: self.actor.clone() }
    }
}

impl<K, C> fmt::Debug for ActorRef<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorRef").field("incarnation", &self.actor.incarnation).finish_non_exhaustive()
    }
}

impl<K, C> Lanes<K, C>
where
    K: Hash + Eq + Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    /// An executor whose jobs run on the workers of `runtime`, at interactive priority.
    ///
    /// # Errors
    /// An option that cannot be, named.
    pub fn new(runtime: &Runtime, config: LanesConfig) -> Result<Self, LanesConfigError> {
        Self::new_at(runtime, Place::default(), config)
    }

    /// As [`new`](Self::new), at a place of the runtime.
    ///
    /// # Errors
    /// As `new`.
    pub fn new_at(runtime: &Runtime, place: Place, config: LanesConfig) -> Result<Self, LanesConfigError> {
        config.check()?;
        let shared = Shared::new(runtime.spawner().clone(), place, config, |one, other| one == other);
        Ok(Self { owner: Arc::new(Owner { shared }) })
    }

    pub(super) fn shared(&self) -> &Arc<Shared<K, C>> {
        &self.owner.shared
    }

    /// The limits, as they are kept.
    #[must_use]
    pub fn config(&self) -> &LanesConfig {
        &self.shared().config
    }

    /// Registers an actor. True if the key had none; else, and after a shutdown, nothing is changed, also if that one is fatal, and
    /// `context` is dropped.
    pub fn register(&self, key: K, context: impl Into<Arc<C>>) -> bool {
        self.register_with(key, context, ActorOptions::default()).is_ok()
    }

    /// As [`register`](Self::register), with options.
    ///
    /// # Errors
    /// The actor that the key has already, that comparing keys changes which are registered, or that the executor is shut down; the
    /// context is dropped.
    pub fn register_with(
        &self,
        key: K,
        context: impl Into<Arc<C>>,
        options: ActorOptions,
    ) -> Result<ActorRef<K, C>, RegisterError<K, C>> {
        let shared = self.shared();
        let hash = shared.registry.hash(&key);
        let actor = Actor::new(shared.clone(), key, hash, context.into(), options);
        if let Err(refused) = shared.registry.enter(&actor) {
            trampoline::dispose(actor);
            return Err(refused);
        }
        self.unless_closed(actor).ok_or(RegisterError::Shutdown)
    }

    /// An actor that was just entered. A shutdown that began before may not have seen it: then it is taken out again.
    fn unless_closed(&self, actor: Arc<Actor<K, C>>) -> Option<ActorRef<K, C>> {
        let shared = self.shared();
        barrier::full(); // pairs with `Shared::close`: it says closed, then takes all actors out
        if !shared.is_closed() {
            return Some(ActorRef { actor });
        }
        actor.close(Why::Shutdown);
        shared.registry.remove(&actor);
        trampoline::dispose(actor);
        None
    }

    /// The actor of a key.
    #[must_use]
    pub fn actor(&self, key: &K) -> Option<ActorRef<K, C>> {
        self.shared().registry.find(key).map(|actor| ActorRef { actor })
    }

    /// Whether the key has an actor.
    #[must_use]
    pub fn is_registered(&self, key: &K) -> bool {
        self.shared().registry.find(key).is_some()
    }

    /// All actors, in no order. A look, not a moment: what is registered meanwhile may be missing.
    #[must_use]
    pub fn actors(&self) -> Vec<ActorRef<K, C>> {
        self.shared().registry.all().into_iter().map(|actor| ActorRef { actor }).collect()
    }

    /// How many actors there are.
    #[must_use]
    pub fn actor_count(&self) -> usize {
        self.shared().registry.len()
    }

    /// Removes an actor, whatever it is doing. Queued jobs are answered [`LaneError::Removed`]; those that run go on to their
    /// end, and are answered. False if the key has none.
    pub fn remove(&self, key: &K) -> bool {
        let Some(actor) = self.shared().registry.find(key) else { return false };
        let first = actor.close(Why::Removed) || actor.word.look().is_fatal();
        self.shared().registry.remove(&actor);
        let_go(actor);
        first
    }

    /// Removes an actor of which nothing runs and nothing is queued; its context is dropped on a thread of the runtime. True for
    /// the one caller that removed it.
    pub fn retire_idle(&self, key: &K) -> bool {
        let Some(actor) = self.shared().registry.find(key) else { return false };
        let retired = actor.word.close_if_idle();
        if retired {
            actor.empty();
            self.shared().registry.remove(&actor);
            let_go(actor);
        }
        retired
    }

    /// Puts a fresh actor with a new context in the place of the one of this key: the way back from fatal. Queued jobs are answered
    /// [`LaneError::Reset`]; those that run go on to their end, and reach nothing of the fresh one. `None` if the key has none, as
    /// after a shutdown, or none that stands still while keys are compared ([`RegisterError::UnsteadyKey`]).
    pub fn reset(&self, key: K, context: impl Into<Arc<C>>) -> Option<ActorRef<K, C>> {
        let shared = self.shared();
        let context: Arc<C> = context.into();
        let Some(options) = shared.registry.find(&key).map(|actor| actor.options) else {
            trampoline::dispose((key, context));
            return None;
        };
        let hash = shared.registry.hash(&key);
        let actor = Actor::new(shared.clone(), key, hash, context, options);
        let Some(old) = shared.registry.exchange(&actor) else {
            trampoline::dispose(actor);
            return None;
        };
        old.close(Why::Reset);
        let_go(old);
        self.unless_closed(actor)
    }

    /// Whether an actor of the key is there, with nothing queued and nothing running.
    #[must_use]
    pub fn is_idle(&self, key: &K) -> bool {
        self.shared().registry.find(key).is_some_and(|actor| ActorRef { actor }.is_idle())
    }

    /// Whether the actor of the key is fatal: a writer has panicked.
    #[must_use]
    pub fn is_fatal(&self, key: &K) -> bool {
        self.shared().registry.find(key).is_some_and(|actor| ActorRef { actor }.is_fatal())
    }

    /// A job that runs `f` in a lane.
    pub fn job<T, F>(&self, lane: LaneKind, f: F) -> LaneJob<Call<F>, T>
    where
        F: FnOnce(&LaneCx<K, C>) -> T + Send + 'static,
        T: Send + 'static,
    {
        LaneJob::new(lane, Call(f))
    }

    /// A job that is a future. It keeps its lane until it is over, and no thread while it sleeps. Its slot it keeps, too, but for
    /// the time that it awaits another lane job or a drain.
    pub fn future<R, F>(&self, lane: LaneKind, f: F) -> LaneJob<Begin<F>, R::Output>
    where
        F: FnOnce(LaneCx<K, C>) -> R + Send + 'static,
        R: Future + Send + 'static,
        R::Output: Send + 'static,
    {
        LaneJob::new(lane, Begin(f))
    }

    /// A heavy build and its install. The build runs beside everything, under a heavy permit; then the install is queued like a
    /// writer, with the permit and the slot given back meanwhile, and runs alone.
    pub fn heavy<V, T, B, I>(&self, build: B, install: I) -> LaneJob<Build<B, I, V>, T>
    where
        B: FnOnce(&LaneCx<K, C>) -> V + Send + 'static,
        I: FnOnce(&LaneCx<K, C>, V) -> T + Send + 'static,
        V: Send + 'static,
        T: Send + 'static,
    {
        LaneJob::new(LaneKind::HeavyInit, Build(Stage::Build(build, install)))
    }

    /// Submits a job to the actor of a key. Never waits: what is refused is answered at once.
    pub fn submit<W: Work<K, C>>(&self, key: &K, job: LaneJob<W, W::Out>) -> LaneHandle<W::Out> {
        match self.shared().registry.find(key) {
            Some(actor) => ActorRef { actor }.submit(job),
            None => {
                trampoline::dispose(job);
                LaneHandle::refused(self.missing())
            }
        }
    }

    /// Submits a job, or gives it back. Never waits.
    ///
    /// # Errors
    /// Why it was refused, and the job.
    pub fn try_submit<W: Work<K, C>>(
        &self,
        key: &K,
        job: LaneJob<W, W::Out>,
    ) -> Result<LaneHandle<W::Out>, LaneRejected<W, W::Out>> {
        match self.shared().registry.find(key) {
            Some(actor) => actor.try_submit(job, None),
            None => Err(LaneRejected { error: self.missing(), job }),
        }
    }

    /// As [`ActorRef::execute`].
    ///
    /// # Errors
    /// Why it was refused.
    pub fn execute<W: Work<K, C>>(&self, key: &K, job: LaneJob<W, W::Out>) -> Result<(), LaneError> {
        match self.shared().registry.find(key) {
            Some(actor) => actor.execute(job),
            None => {
                trampoline::dispose(job);
                Err(self.missing())
            }
        }
    }

    fn missing(&self) -> LaneError {
        if self.shared().is_closed() { LaneError::Shutdown } else { LaneError::NotRegistered }
    }

    /// Cancels a job of the actor of `key`, in whatever registration. A ticket of another actor is not found, and not touched.
    pub fn cancel(&self, key: &K, ticket: &LaneTicket) -> CancelOutcome {
        if ticket.job().is_of(key) { ticket.cancel() } else { CancelOutcome::NotFound }
    }

    /// As [`cancel`](Self::cancel), if the body has not begun; else nothing is changed.
    pub fn cancel_before_start(&self, key: &K, ticket: &LaneTicket) -> CancelOutcome {
        if ticket.job().is_of(key) { ticket.cancel_before_start() } else { CancelOutcome::NotFound }
    }

    /// Cancels every queued maintenance job of an actor; those that run, and interactive ones, are not touched. How many.
    pub fn cancel_queued_maintenance(&self, key: &K) -> usize {
        self.shared().registry.find(key).map_or(0, |actor| actor.cancel_queued(LaneClass::Maintenance))
    }

    /// Resolves once all that was submitted to the actor before is over. At once, if the key has none.
    pub fn drain(&self, key: &K) -> Handle<(), LaneError> {
        match self.shared().registry.find(key) {
            Some(actor) => actor.drain_handle(),
            None => Handle::ready(Ok(())),
        }
    }

    /// Refuses all further work, answers all that is queued with [`LaneError::Shutdown`], and waits until what runs is over.
    ///
    /// Called inside one of its jobs, in a callback or destructor that the engine calls, or where what runs waits for the caller, it
    /// does all but wait. On a runtime without threads it drives that until nothing moves.
    pub fn shutdown(&self) {
        shut_down(self.shared());
    }
}

fn shut_down<K, C>(shared: &Arc<Shared<K, C>>)
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    shared.close();
    // Who calls host code here may have a slot: of a job that is answered as its runner goes, the destructor drops the last handle.
    if current::is_inside(&shared.identity()) || trampoline::is_inside() || shared.spawner.is_forked() {
        return;
    }
    let ender = Ender::new();
    shared.tell_at_end(ender.clone());
    if shared.spawner.is_driven() {
        while shared.pool.look().0 > 0 && shared.spawner.drive_one() {}
        return;
    }
    // Inside a job of another executor it may be that what runs here waits for that: then there is nothing to wait for.
    let _ = Handle::pending(ender, EndOf::new(shared)).wait();
}

impl<K, C> ActorRef<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    /// The key.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.actor.key
    }

    /// The context.
    #[must_use]
    pub fn context(&self) -> &Arc<C> {
        &self.actor.context
    }

    /// The number of this registration, never used again.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.actor.incarnation
    }

    /// Whether it is registered, with nothing queued and nothing running.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let seen = self.actor.word.look();
        seen.is_idle() && !seen.is_closed()
    }

    /// Whether a writer of it has panicked.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.actor.word.look().is_fatal()
    }

    /// As [`Lanes::submit`].
    pub fn submit<W: Work<K, C>>(&self, job: LaneJob<W, W::Out>) -> LaneHandle<W::Out> {
        self.actor.try_submit(job, None).unwrap_or_else(|rejected| {
            trampoline::dispose(rejected.job);
            LaneHandle::refused(rejected.error)
        })
    }

    /// Submits a job whose answer nobody waits for, as [`submit`](Self::submit) and `detach` do, without a handle; so it costs less.
    /// Never waits. What the job comes to is told nobody, also if the actor is closed before it has begun; its own ticket
    /// ([`LaneCx::ticket`]) is as good as any. A job that is refused is dropped.
    ///
    /// # Errors
    /// Why it was refused.
    pub fn execute<W: Work<K, C>>(&self, job: LaneJob<W, W::Out>) -> Result<(), LaneError> {
        self.actor.execute(job)
    }

    /// As [`Lanes::try_submit`].
    ///
    /// # Errors
    /// Why it was refused, and the job.
    pub fn try_submit<W: Work<K, C>>(
        &self,
        job: LaneJob<W, W::Out>,
    ) -> Result<LaneHandle<W::Out>, LaneRejected<W, W::Out>> {
        self.actor.try_submit(job, None)
    }

    /// Submits a job, and waits while a queue is full. Inside a job, and on the runtime's threads, it does not wait.
    ///
    /// # Errors
    /// Why it was refused, and the job.
    pub fn submit_blocking<W: Work<K, C>>(
        &self,
        job: LaneJob<W, W::Out>,
    ) -> Result<LaneHandle<W::Out>, LaneRejected<W, W::Out>> {
        self.actor.submit_waiting(job)
    }

    /// Submits a job, and awaits room while a queue is full.
    ///
    /// # Errors
    /// Why it was refused, and the job.
    pub fn submit_async<W: Work<K, C>>(
        &self,
        job: LaneJob<W, W::Out>,
    ) -> impl Future<Output = Result<LaneHandle<W::Out>, LaneRejected<W, W::Out>>> + Send + use<K, C, W> {
        self.actor.clone().submit_async(job)
    }

    /// As [`Lanes::drain`].
    pub fn drain(&self) -> Handle<(), LaneError> {
        self.actor.drain_handle()
    }

    /// As [`Lanes::cancel_queued_maintenance`], for either class.
    pub fn cancel_queued(&self, class: LaneClass) -> usize {
        self.actor.cancel_queued(class)
    }
}
