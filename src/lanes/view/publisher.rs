//! The publisher: takes what has changed, has it built beside the actor, queues the install like a writer, and tries again.
//! It does not know what is built.
//!
//! Each call starts a publication with the union of all that was asked for and not published; the ones before it are superseded,
//! and end at their next checkpoint, while the new one does not wait for them. Whether a publication is still the newest is
//! decided once more inside its install, where it takes what it has built off the list of what is owed: so a newer one either
//! comes before that, or finds it published. What is built and not installed is discarded, whatever the reason.

#![forbid(unsafe_code)]

use super::paths::{PublishPaths, PublishPhase};
use super::publication::{Publication, PublicationHealth, PublishCx};
use crate::flight::{catch, contained, drop_contained};
use crate::lanes::actor::Actor;
use crate::lanes::answer::{LaneBackpressure, LaneError, QueueScope};
use crate::lanes::kind::{LaneClass, LaneKind};
use crate::lanes::lanes::Lanes;
use crate::lanes::word::NoRoom;
use crate::lanes::work::{Call, LaneJob};
use crate::runtime::{Job, Place, Priority, TimerHandle};
use crate::sync::map::HashMap;
use crate::sync::stat::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, OnceLock, Weak, mutant};
use ahash::RandomState;
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

/// The first wait before a failed publication is tried again, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// Why a build gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishError {
    /// A newer publication has taken its place.
    Superseded,
    /// It failed, for a reason in words; it is tried again.
    Failed(String),
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Superseded => f.write_str("a newer publication has taken its place"),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}

impl Error for PublishError {}

/// How a host's view is built and installed.
pub trait View<C>: Send + Sync + 'static {
    /// What names a part of the view.
    type Path: Send + Sync + 'static;
    /// What is built.
    type Built: Send + 'static;

    /// Builds, beside the actor, on the runtime's I/O threads. Enters its phases by [`PublishCx::enter`], and ends where that says so.
    ///
    /// # Errors
    /// Why nothing was built. A failure, or a panic, is tried again after a second, then after twice as long each time, up to
    /// five minutes.
    fn build(&self, cx: &PublishCx<C>, paths: &PublishPaths<Self::Path>) -> Result<Self::Built, PublishError>;

    /// Makes what was built current, as a writer of the actor, alone: should be quick. A panic makes the actor fatal.
    fn install(&self, context: &C, built: Self::Built);

    /// Throws away what was built and will not be installed.
    fn discard(&self, built: Self::Built) {
        drop(built);
    }
}

/// What is owed to one actor.
struct Owed<P> {
    paths: PublishPaths<P>,
    /// The wait before the next try.
    retry: Duration,
    /// The publication that has not begun: what is asked for meanwhile is its own, too.
    queued: Option<Arc<Publication>>,
    /// The one that has failed and waits to be tried again, for who drops it.
    again: Option<Arc<dyn Any + Send + Sync>>,
}

/// The publications of one actor.
struct ViewCell<P> {
    newest: Arc<AtomicU64>,
    /// Held for a few pointers; nothing of the host's runs under it.
    owed: Mutex<Owed<P>>,
}

impl<P> ViewCell<P> {
    fn new() -> Self {
        let owed = Owed { paths: PublishPaths::new(), retry: RETRY.0, queued: None, again: None };
        Self { newest: Arc::new(AtomicU64::new(0)), owed: Mutex::new(owed) }
    }

    fn is_newest(&self, publication: &Publication) -> bool {
        self.newest.load(Ordering::Acquire) == publication.generation()
    }

    /// The newest publication takes what is owed for its own.
    fn commit(&self, publication: &Publication) -> bool {
        let done = {
            let mut owed = self.owed.lock();
            if !self.is_newest(publication) && !mutant("lanes.view_commit_without_look") {
                return false;
            }
            owed.retry = RETRY.0;
            std::mem::replace(&mut owed.paths, PublishPaths::new())
        };
        // Dropped when the lock is free: the paths are the host's.
        drop_contained(done);
        true
    }
}

/// Publishes the views of an executor's actors. Clones are the same.
pub struct Publisher<K, C, V>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    V: View<C>,
{
    lanes: Lanes<K, C>,
    inner: Arc<Inner<V>>,
}

struct Inner<V> {
    view: V,
    numbers: AtomicU64,
    /// Publications that go on, and the newest of each one's actor: numbers only.
    going_on: HashMap<u64, (Arc<Publication>, Arc<AtomicU64>), RandomState>,
}

impl<K, C, V> Clone for Publisher<K, C, V>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    V: View<C>,
{
    fn clone(&self) -> Self {
        Self { lanes: self.lanes.clone(), inner: self.inner.clone() }
    }
}

impl<K, C, V> fmt::Debug for Publisher<K, C, V>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    V: View<C>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("going_on", &self.inner.going_on.len()).finish_non_exhaustive()
    }
}

impl<K, C, V> Publisher<K, C, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    C: Send + Sync + 'static,
    V: View<C>,
{
    /// A publisher of `view` for the actors of `lanes`. An executor has one: a second one, whose paths are of another type, is refused
    /// where the first has published.
    pub fn new(lanes: &Lanes<K, C>, view: V) -> Self {
        let going_on = HashMap::with_hasher(RandomState::with_seeds(1, 2, 3, 4));
        Self { lanes: lanes.clone(), inner: Arc::new(Inner { view, numbers: AtomicU64::new(1), going_on }) }
    }

    /// Has the view of an actor published again: what of it has changed is named by `paths`, none for everything. Returns once that
    /// is under way; whatever happens to this publication, what it was to look at is looked at by the next. One that is queued and has
    /// not begun takes over what is asked for meanwhile.
    ///
    /// # Errors
    /// Why the actor takes nothing any more, or that it is not registered; or [`LaneError::Backpressure`] if 1,023 builds of it go on
    /// or wait to be installed.
    pub fn publish(&self, key: &K, paths: impl IntoIterator<Item = V::Path>) -> Result<(), LaneError> {
        let Some(actor) = self.lanes.actor(key) else { return Err(LaneError::NotRegistered) };
        let set: Arc<[V::Path]> = paths.into_iter().collect();
        let Ok(cell) = actor.actor.room().view(|| Arc::new(ViewCell::<V::Path>::new())).downcast::<ViewCell<V::Path>>()
        else {
            return Err(LaneError::Coalesced);
        };
        let actor = actor.actor;
        let (epoch, publication, unneeded) = {
            let mut owed = cell.owed.lock();
            let epoch = match &owed.queued {
                Some(_) if actor.word.look().is_closed() => return Err(actor.why_closed()),
                Some(_) => None,
                None => Some(actor.word.begin_detached().map_err(|no_room| refusal(&actor, no_room))?),
            };
            owed.retry = RETRY.0;
            let generation = cell.newest.fetch_add(1, Ordering::AcqRel) + 1;
            let publication = owed.queued.get_or_insert_with(|| {
                let number = self.inner.numbers.fetch_add(1, Ordering::Relaxed);
                Arc::new(Publication::new(number, actor.incarnation, generation, actor.shared.now()))
            });
            publication.takes_over(generation);
            let publication = publication.clone();
            (epoch, publication, (owed.paths.add(set), owed.again.take()))
        };
        drop_contained(unneeded);
        if let Some(epoch) = epoch {
            let shown = Shown::new(&self.inner, publication, &cell.newest);
            build_soon(Arc::new(Going { inner: self.inner.clone(), actor, cell, shown, epoch }));
        }
        Ok(())
    }

    /// The publications that go on, by number. A look: it waits for nothing and cancels nothing.
    #[must_use]
    pub fn health(&self) -> Vec<PublicationHealth> {
        let now = self.lanes.shared().now();
        let pin = self.inner.going_on.pin();
        let of = |(publication, newest): &(Arc<Publication>, Arc<AtomicU64>)| {
            publication.health(newest.load(Ordering::Acquire) != publication.generation(), now)
        };
        let mut all: Vec<_> = pin.values().map(of).collect();
        all.sort_by_key(|publication| publication.number);
        all
    }
}

/// As long as this is there, `health` tells of a publication.
struct Shown<V> {
    inner: Weak<Inner<V>>,
    publication: Arc<Publication>,
}

impl<V> Shown<V> {
    fn new(inner: &Arc<Inner<V>>, publication: Arc<Publication>, newest: &Arc<AtomicU64>) -> Arc<Self> {
        inner.going_on.pin().insert(publication.number, (publication.clone(), newest.clone()));
        Arc::new(Self { inner: Arc::downgrade(inner), publication })
    }
}

impl<V> Drop for Shown<V> {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.going_on.pin().remove(&self.publication.number);
        }
    }
}

/// Why no build is begun.
fn refusal<K, C>(actor: &Actor<K, C>, no_room: NoRoom) -> LaneError
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    match no_room {
        NoRoom::Closed => actor.why_closed(),
        NoRoom::Fatal => LaneError::Fatal,
        NoRoom::Full(depth) => {
            LaneError::Backpressure(LaneBackpressure::new(LaneClass::Interactive, QueueScope::Actor, depth, depth))
        }
    }
}

/// One publication with all that it needs; while it lives the actor is not idle.
struct Going<K, C, V>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    V: View<C>,
{
    inner: Arc<Inner<V>>,
    actor: Arc<Actor<K, C>>,
    cell: Arc<ViewCell<V::Path>>,
    shown: Arc<Shown<V>>,
    epoch: bool,
}

impl<K, C, V> Going<K, C, V>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    V: View<C>,
{
    fn publication(&self) -> &Arc<Publication> {
        &self.shown.publication
    }

    /// It takes over no more.
    fn begin(&self, owed: &mut Owed<V::Path>) {
        owed.queued.take_if(|queued| Arc::ptr_eq(queued, self.publication()));
    }
}

impl<K, C, V> Drop for Going<K, C, V>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    V: View<C>,
{
    fn drop(&mut self) {
        // It may never have begun.
        self.begin(&mut self.cell.owed.lock());
        let owes = self.actor.word.release(LaneKind::HeavyInit, false, self.epoch);
        self.actor.settle(owes);
    }
}

/// What was built: installed, or discarded when it is dropped.
struct Assembly<K, C, V>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    V: View<C>,
{
    going: Arc<Going<K, C, V>>,
    built: Option<V::Built>,
}

impl<K, C, V> Drop for Assembly<K, C, V>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    V: View<C>,
{
    fn drop(&mut self) {
        if let Some(built) = self.built.take() {
            contained(|| self.going.inner.view.discard(built));
        }
    }
}

fn build_soon<K, C, V>(going: Arc<Going<K, C, V>>)
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    V: View<C>,
{
    let spawner = going.actor.shared.spawner.clone();
    // Refused, it is dropped, and the runtime is gone.
    drop(spawner.push(Place::io(Priority::Background), Job::new(move || build(going))));
}

fn build<K, C, V>(going: Arc<Going<K, C, V>>)
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    V: View<C>,
{
    let paths = {
        let mut owed = going.cell.owed.lock();
        going.begin(&mut owed);
        let goes = going.cell.is_newest(going.publication()) && !going.actor.word.look().is_closed();
        goes.then(|| owed.paths.clone())
    };
    let Some(paths) = paths else { return };
    let cx = PublishCx {
        context: going.actor.context.clone(),
        publication: going.publication().clone(),
        newest: going.cell.newest.clone(),
        spawner: going.actor.shared.spawner.clone(),
    };
    let built = catch(|| going.inner.view.build(&cx, &paths));
    drop_contained(paths);
    match built {
        Ok(Ok(built)) => install(going, built),
        Ok(Err(PublishError::Superseded)) => {}
        Ok(Err(PublishError::Failed(_))) | Err(_) => retry(&going),
    }
}

/// Queues the install, which no bound refuses.
fn install<K, C, V>(going: Arc<Going<K, C, V>>, built: V::Built)
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    V: View<C>,
{
    let actor = going.actor.clone();
    going.publication().enter(PublishPhase::Install, actor.shared.now());
    let number = going.publication().number;
    let mut assembly = Assembly { going, built: Some(built) };
    let call = Call(move |_: &crate::lanes::LaneCx<K, C>| {
        let going = assembly.going.clone();
        if going.cell.commit(going.publication())
            && let Some(built) = assembly.built.take()
        {
            going.inner.view.install(&going.actor.context, built);
        }
    });
    let job: LaneJob<_, ()> = LaneJob::new(LaneKind::Mutating, call);
    actor.submit_intent(job.named(number, "view publication"));
}

/// What waits to be tried again: nothing of the actor runs for it meanwhile. Who drops it has it not tried again.
struct Again<V> {
    _shown: Arc<Shown<V>>,
    timer: OnceLock<TimerHandle>,
}

impl<V> Drop for Again<V> {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.get() {
            timer.cancel();
        }
    }
}

/// It has failed: tried again after a while, unless a newer one comes before, or the actor goes. Where no timer can be had it is made
/// up for by the next.
fn retry<K, C, V>(going: &Going<K, C, V>)
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    V: View<C>,
{
    begin_later(&going.inner, &going.actor, &going.cell, &going.shown);
}

/// Arms the timer of a publication that is to begin once more.
fn begin_later<K, C, V>(
    inner: &Arc<Inner<V>>,
    actor: &Arc<Actor<K, C>>,
    cell: &Arc<ViewCell<V::Path>>,
    shown: &Arc<Shown<V>>,
) where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    V: View<C>,
{
    let shared = &actor.shared;
    if shared.spawner.may_wait().is_err() {
        return;
    }
    let again = Arc::new(Again { _shown: shown.clone(), timer: OnceLock::new() });
    let delay = {
        let mut owed = cell.owed.lock();
        if !cell.is_newest(&shown.publication) {
            return;
        }
        owed.again = Some(again.clone());
        let delay = owed.retry;
        owed.retry = (delay * 2).min(RETRY.1);
        delay
    };
    shown.publication.enter(PublishPhase::RetryWait, shared.now());
    let (inner, weak, cell) = (inner.clone(), Arc::downgrade(actor), Arc::downgrade(cell));
    let shown = Arc::downgrade(shown);
    let job = Job::new(move || {
        if let (Some(actor), Some(cell), Some(shown)) = (weak.upgrade(), cell.upgrade(), shown.upgrade()) {
            begin_again(inner, actor, cell, shown);
        }
    });
    let _ = again.timer.set(shared.spawner.after_at(Place::workers(Priority::Critical), delay, job));
}

/// It is time to try again, if it is the newest still.
fn begin_again<K, C, V>(
    inner: Arc<Inner<V>>,
    actor: Arc<Actor<K, C>>,
    cell: Arc<ViewCell<V::Path>>,
    shown: Arc<Shown<V>>,
) where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
    V: View<C>,
{
    let (waited, epoch) = {
        let mut owed = cell.owed.lock();
        if !cell.is_newest(&shown.publication) {
            return;
        }
        let epoch = actor.word.begin_detached();
        if epoch.is_ok() {
            owed.queued = Some(shown.publication.clone());
        }
        (owed.again.take(), epoch)
    };
    drop(waited);
    match epoch {
        Ok(epoch) => build_soon(Arc::new(Going { inner, actor, cell, shown, epoch })),
        Err(NoRoom::Full(_)) => begin_later(&inner, &actor, &cell, &shown),
        Err(NoRoom::Closed | NoRoom::Fatal) => {}
    }
}
