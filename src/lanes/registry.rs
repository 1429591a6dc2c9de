//! The registry: which key has which actor. It is the only one there is, so nothing can come out of step with it.
//! It does not know what an actor is for; keys are hashed and compared outside the map, which knows only hashes.
//!
//! The map holds, for each hash, the list of its actors, which is never changed but replaced as a whole. A list that the map
//! throws away drops its closed actors on a thread of the runtime: keys and contexts are the host's, and the map's own clean-up
//! runs inside anybody's guard.

#![forbid(unsafe_code)]

use super::actor::Actor;
use super::lanes::ActorRef;
use crate::flight::{contained, trampoline};
use crate::runtime::{Job, Place, Priority};
use crate::sync::Arc;
use crate::sync::map::{self, ByHash, Compute, Guard, Operation};
use crate::sync::stat::{AtomicUsize, Ordering};
use ahash::RandomState;
use std::error::Error;
use std::fmt;
use std::hash::Hash;

/// How often a list may change under one who is about to replace it. Others change it now and then; that it never stands still
/// happens only if to compare keys changes it.
const TRIES: usize = 1_000;

/// As many threads may look at the map at once while an executor is closed.
const LOOKERS: u64 = 64;

/// Why an actor was not registered.
#[non_exhaustive]
pub enum RegisterError<K, C> {
    /// The key has one already: this.
    Taken(ActorRef<K, C>),
    /// The list of the key's actors changed each time that keys were compared: what its `Eq` does must not register or remove.
    UnsteadyKey,
}

impl<K, C> fmt::Debug for RegisterError<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(actor) => f.debug_tuple("Taken").field(actor).finish(),
            Self::UnsteadyKey => f.write_str("UnsteadyKey"),
        }
    }
}

impl<K, C> fmt::Display for RegisterError<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taken(_) => "the key has an actor already",
            Self::UnsteadyKey => "comparing keys changes which are registered",
        })
    }
}

impl<K, C> Error for RegisterError<K, C> {}

/// The actors of one hash.
struct List<K, C> {
    actors: Box<[Arc<Actor<K, C>>]>,
    let_go: fn(Arc<Actor<K, C>>),
}

impl<K, C> Drop for List<K, C> {
    fn drop(&mut self) {
        for actor in std::mem::take(&mut self.actors) {
            if actor.word.look().is_closed() {
                (self.let_go)(actor);
            }
        }
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

    /// Replaces the list of a hash, if it still is the one that was seen, and has the map throw that away.
    fn replace(&self, hash: u64, seen: Option<&Arc<List<K, C>>>, actors: Vec<Arc<Actor<K, C>>>) -> bool {
        let done = self.put(hash, seen, actors);
        // A list that is replaced holds actors that may be gone: it must not lie about until the map has thrown away more.
        if seen.is_some() {
            self.map.guard().flush();
        }
        done
    }

    /// As [`replace`](Self::replace), and leaves it to the caller that the list does not lie about.
    fn put(&self, hash: u64, seen: Option<&Arc<List<K, C>>>, actors: Vec<Arc<Actor<K, C>>>) -> bool {
        let empty = actors.is_empty();
        let next = Arc::new(List { actors: actors.into(), let_go: let_go::<K, C> });
        let guard = self.map.guard();
        let replace = |current: Option<(&u64, &Arc<List<K, C>>)>| {
            let same = match (current, seen) {
                (Some((_, current)), Some(seen)) => Arc::ptr_eq(current, seen),
                (None, None) => true,
                _ => false,
            };
            match (same, empty) {
                (false, _) => Operation::Abort(()),
                (true, true) => Operation::Remove,
                (true, false) => Operation::Insert(next.clone()),
            }
        };
        !matches!(self.map.compute(hash, replace, &guard), Compute::Aborted(()))
    }

    /// How many actors are registered.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// All actors that are registered, in no order.
    pub(super) fn all(&self) -> Vec<Arc<Actor<K, C>>> {
        let lists: Vec<_> = self.map.pin().values().cloned().collect();
        lists.iter().flat_map(|list| list.actors.iter().filter(|actor| is_listed(actor)).cloned()).collect()
    }

    /// Takes all actors out.
    pub(super) fn take_all(&self) -> Vec<Arc<Actor<K, C>>> {
        let mut taken = Vec::new();
        let hashes: Vec<u64> = self.map.pin().keys().copied().collect();
        for hash in hashes {
            while let Some(seen) = self.list(hash) {
                if self.put(hash, Some(&seen), Vec::new()) {
                    self.count.fetch_sub(seen.actors.len(), Ordering::Relaxed);
                    taken.extend(seen.actors.iter().cloned());
                    break;
                }
            }
        }
        self.push_out();
        taken
    }

    /// Sees to it that the lists that this thread has thrown away go, which hold actors, and so the executor and this map.
    ///
    /// The map frees a batch once it has an entry for each thread that looks at the map: here come some that hold nothing.
    fn push_out(&self) {
        let guard = self.map.guard();
        let nothing = Arc::new(List { actors: Box::new([]), let_go: let_go::<K, C> });
        for hash in 0..LOOKERS {
            let put = |current: Option<(&u64, &Arc<List<K, C>>)>| match current {
                None => Operation::Insert(nothing.clone()),
                Some(_) => Operation::Abort(()),
            };
            self.map.compute(hash, put, &guard);
            let _ = self.map.remove_if(&hash, |_, list| Arc::ptr_eq(list, &nothing), &guard);
        }
        guard.flush();
    }

    /// The actor of a registration, by the hash of its key.
    pub(super) fn by_incarnation(&self, hash: u64, incarnation: u64) -> Option<Arc<Actor<K, C>>> {
        let list = self.list(hash)?;
        list.actors.iter().find(|actor| actor.incarnation == incarnation).cloned()
    }

    /// Takes an actor out, if it is there.
    pub(super) fn remove(&self, actor: &Arc<Actor<K, C>>) {
        while let Some(seen) = self.list(actor.hash) {
            let rest: Vec<_> = seen.actors.iter().filter(|other| !Arc::ptr_eq(other, actor)).cloned().collect();
            if rest.len() == seen.actors.len() {
                return;
            }
            if self.replace(actor.hash, Some(&seen), rest) {
                self.count.fetch_sub(1, Ordering::Relaxed);
                return;
            }
        }
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
        let list = self.list(self.hash(key))?;
        list.actors.iter().find(|actor| is_listed(actor) && actor.key == *key).cloned()
    }

    /// Enters an actor, unless its key has one already: then that one is returned.
    pub(super) fn enter(&self, actor: &Arc<Actor<K, C>>) -> Result<(), RegisterError<K, C>> {
        for _ in 0..TRIES {
            let seen = self.list(actor.hash);
            let mut actors = Vec::new();
            let mut stale = 0;
            for other in seen.iter().flat_map(|list| list.actors.iter()) {
                if other.key != actor.key {
                    actors.push(other.clone());
                } else if is_listed(other) {
                    return Err(RegisterError::Taken(ActorRef { actor: other.clone() }));
                } else {
                    stale += 1;
                }
            }
            actors.push(actor.clone());
            if self.replace(actor.hash, seen.as_ref(), actors) {
                self.count.fetch_add(1, Ordering::Relaxed);
                self.count.fetch_sub(stale, Ordering::Relaxed);
                return Ok(());
            }
        }
        Err(RegisterError::UnsteadyKey)
    }

    /// Puts an actor in the place of the one of its key. `None` if there was none, or none that stood still; then it is not entered.
    pub(super) fn exchange(&self, actor: &Arc<Actor<K, C>>) -> Option<Arc<Actor<K, C>>> {
        for _ in 0..TRIES {
            let seen = self.list(actor.hash)?;
            let old = seen.actors.iter().find(|other| is_listed(other) && other.key == actor.key)?.clone();
            let actors =
                seen.actors.iter().map(|other| if Arc::ptr_eq(other, &old) { actor } else { other }).cloned().collect();
            if self.replace(actor.hash, Some(&seen), actors) {
                return Some(old);
            }
        }
        None
    }
}
