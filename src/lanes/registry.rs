//! The registry: which key has which actor. It is the only one there is, so nothing can come out of step with it.
//! It does not know what an actor is for; keys are hashed and compared outside the map, which knows only hashes.
//!
//! The map holds, for each hash, the list of its actors, which is never changed but replaced as a whole. A list owns nobody: what
//! the map has thrown away may lie about until others have, and an actor leads to its executor, and so to the map. A registered
//! actor is kept by itself, until it is taken out.

#![forbid(unsafe_code)]

use super::actor::Actor;
use super::lanes::ActorRef;
use crate::flight::{contained, trampoline};
use crate::runtime::{Job, Place, Priority};
use crate::sync::map::{self, ByHash, Compute, Operation};
use crate::sync::stat::{AtomicUsize, Ordering};
use crate::sync::{Arc, Weak};
use ahash::RandomState;
use std::error::Error;
use std::fmt;
use std::hash::Hash;

/// How often a list may change under one who is about to replace it. Others change it now and then; that it never stands still
/// happens only if to compare keys changes it.
const TRIES: usize = 1_000;

/// Why an actor was not registered.
#[non_exhaustive]
pub enum RegisterError<K, C> {
    /// The key has one already: this.
    Taken(ActorRef<K, C>),
    /// The list of the key's actors changed each time that keys were compared: what its `Eq` does must not register or remove.
    UnsteadyKey,
    /// The executor is shut down.
    Shutdown,
}

impl<K, C> fmt::Debug for RegisterError<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(actor) => f.debug_tuple("Taken").field(actor).finish(),
            Self::UnsteadyKey => f.write_str("UnsteadyKey"),
            Self::Shutdown => f.write_str("Shutdown"),
        }
    }
}

impl<K, C> fmt::Display for RegisterError<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taken(_) => "the key has an actor already",
            Self::UnsteadyKey => "comparing keys changes which are registered",
            Self::Shutdown => "the executor is shut down",
        })
    }
}

impl<K, C> Error for RegisterError<K, C> {}

/// The actors of one hash.
struct List<K, C>(Box<[Weak<Actor<K, C>>]>);

impl<K, C> List<K, C> {
    /// Those that are there still, closed ones among them.
    fn actors(&self) -> impl Iterator<Item = Arc<Actor<K, C>>> {
        self.0.iter().filter_map(Weak::upgrade)
    }
}

impl<K: 'static, C: 'static> List<K, C> {
    /// The first that is wanted. Of one that is not, this look may be what has kept it last.
    fn pick(&self, wanted: impl Fn(&Actor<K, C>) -> bool) -> Option<Arc<Actor<K, C>>> {
        for actor in self.actors() {
            if wanted(&actor) {
                return Some(actor);
            }
            trampoline::dispose(actor);
        }
        None
    }
}

/// Drops an actor, and with it perhaps its key and its context, on a thread of the runtime.
pub(super) fn let_go<K, C>(actor: Arc<Actor<K, C>>)
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let spawner = actor.shared.spawner.clone();
    let job = Job::new(move || trampoline::dispose(actor));
    if let Err(job) = spawner.push(Place::workers(Priority::Maintenance), job) {
        // The runtime is gone: there is no other thread to do it.
        contained(|| job.run());
    }
}

/// The map.
pub(super) struct Registry<K, C> {
    map: ByHash<Arc<List<K, C>>>,
    hasher: RandomState,
    count: AtomicUsize,
}

impl<K, C> Registry<K, C>
where
    K: Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    pub(super) fn new() -> Self {
        Self { map: map::by_hash(0), hasher: RandomState::new(), count: AtomicUsize::new(0) }
    }

    fn list(&self, hash: u64) -> Option<Arc<List<K, C>>> {
        self.map.pin().get(&hash).cloned()
    }

    /// Replaces the list of a hash, if it still is the one that was seen.
    fn replace(&self, hash: u64, seen: Option<&Arc<List<K, C>>>, actors: &[Arc<Actor<K, C>>]) -> bool {
        let next = Arc::new(List(actors.iter().map(Arc::downgrade).collect()));
        let replace = |current: Option<(&u64, &Arc<List<K, C>>)>| {
            let same = match (current, seen) {
                (Some((_, current)), Some(seen)) => Arc::ptr_eq(current, seen),
                (None, None) => true,
                _ => false,
            };
            match (same, actors.is_empty()) {
                (false, _) => Operation::Abort(()),
                (true, true) => Operation::Remove,
                (true, false) => Operation::Insert(next.clone()),
            }
        };
        !matches!(self.map.pin().compute(hash, replace), Compute::Aborted(()))
    }

    /// How many actors are registered.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// All actors that are registered, in no order.
    pub(super) fn all(&self) -> Vec<Arc<Actor<K, C>>> {
        let lists: Vec<_> = self.map.pin().values().cloned().collect();
        let (listed, others): (Vec<_>, Vec<_>) =
            lists.iter().flat_map(|list| list.actors()).partition(|actor| is_listed(actor));
        trampoline::dispose(others);
        listed
    }

    /// Takes all actors out.
    pub(super) fn take_all(&self) -> Vec<Arc<Actor<K, C>>> {
        let mut taken = Vec::new();
        let hashes: Vec<u64> = self.map.pin().keys().copied().collect();
        for hash in hashes {
            while let Some(seen) = self.list(hash) {
                if self.replace(hash, Some(&seen), &[]) {
                    self.count.fetch_sub(seen.0.len(), Ordering::Relaxed);
                    taken.extend(seen.actors().inspect(|actor| drop(actor.kept.take())));
                    break;
                }
            }
        }
        taken
    }

    /// The actor of a registration, by the hash of its key.
    pub(super) fn by_incarnation(&self, hash: u64, incarnation: u64) -> Option<Arc<Actor<K, C>>> {
        self.list(hash)?.pick(|actor| actor.incarnation == incarnation)
    }

    /// Takes an actor out, if it is there.
    pub(super) fn remove(&self, actor: &Arc<Actor<K, C>>) {
        while let Some(seen) = self.list(actor.hash) {
            let (here, rest): (Vec<_>, Vec<_>) = seen.actors().partition(|other| Arc::ptr_eq(other, actor));
            let replaced = !here.is_empty() && self.replace(actor.hash, Some(&seen), &rest);
            trampoline::dispose(rest);
            if replaced {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
            if replaced || here.is_empty() {
                break;
            }
        }
        drop(actor.kept.take());
    }
}

/// Whether an actor is found by its key: a fatal one is, until it is removed or reset.
fn is_listed<K, C>(actor: &Actor<K, C>) -> bool {
    let seen = actor.word.look();
    !seen.is_closed() || seen.is_fatal()
}

impl<K, C> Registry<K, C>
where
    K: Hash + Eq + Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    pub(super) fn hash(&self, key: &K) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The actor of a key.
    pub(super) fn find(&self, key: &K) -> Option<Arc<Actor<K, C>>> {
        self.list(self.hash(key))?.pick(|actor| is_listed(actor) && *actor.key == *key)
    }

    /// Enters an actor, unless its key has one already: then that one is returned.
    pub(super) fn enter(&self, actor: &Arc<Actor<K, C>>) -> Result<(), RegisterError<K, C>> {
        for _ in 0..TRIES {
            let seen = self.list(actor.hash);
            let there: Vec<_> = seen.iter().flat_map(|list| list.actors()).collect();
            let (same, mut actors): (Vec<_>, Vec<_>) = there.into_iter().partition(|other| *other.key == *actor.key);
            let (mut listed, stale): (Vec<_>, Vec<_>) = same.into_iter().partition(|other| is_listed(other));
            let taken = listed.pop();
            actors.push(actor.clone());
            let entered = taken.is_none() && self.replace_with(actor, seen.as_ref(), &actors);
            if entered {
                self.count.fetch_add(1, Ordering::Relaxed);
                self.count.fetch_sub(stale.len(), Ordering::Relaxed);
            }
            trampoline::dispose((actors, stale));
            if let Some(actor) = taken {
                return Err(RegisterError::Taken(ActorRef { actor }));
            }
            if entered {
                return Ok(());
            }
        }
        Err(RegisterError::UnsteadyKey)
    }

    /// Puts an actor in the place of the one of its key. `None` if there was none, or none that stood still; then it is not entered.
    pub(super) fn exchange(&self, actor: &Arc<Actor<K, C>>) -> Option<Arc<Actor<K, C>>> {
        for _ in 0..TRIES {
            let seen = self.list(actor.hash)?;
            let mut actors: Vec<_> = seen.actors().collect();
            let place = actors.iter_mut().find(|other| is_listed(other) && *other.key == *actor.key);
            let old = place.map(|place| std::mem::replace(place, actor.clone()));
            let replaced = old.is_some() && self.replace_with(actor, Some(&seen), &actors);
            trampoline::dispose(actors);
            if replaced {
                drop(old.as_ref().and_then(|old| old.kept.take()));
            }
            if replaced || old.is_none() {
                return old;
            }
        }
        None
    }

    /// As [`replace`](Self::replace), with an actor among them that is new.
    fn replace_with(
        &self,
        new: &Arc<Actor<K, C>>,
        seen: Option<&Arc<List<K, C>>>,
        actors: &[Arc<Actor<K, C>>],
    ) -> bool {
        // Before it can be found, and so taken out.
        let _ = new.kept.put(new.clone());
        let replaced = self.replace(new.hash, seen, actors);
        if !replaced {
            drop(new.kept.take());
        }
        replaced
    }
}
