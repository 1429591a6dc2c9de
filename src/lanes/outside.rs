//! What a visit to an actor has put off until it has left the turn: no host code runs inside, and no other word is touched there.
//! It does not know why any of it was put off.

#![forbid(unsafe_code)]

use super::job::JobRef;
use super::room::Waiter;
use crate::sync::Arc;

/// What is done once the turn is left.
pub(super) struct Outside<K, C> {
    lists: Option<Box<Lists<K, C>>>,
    /// Have the actor looked at again so many nanoseconds from now.
    pub(super) timer: Option<u64>,
    /// The actor has some of its share left.
    pub(super) front: bool,
    /// Its maintenance has waited its age, and there is no place for it.
    pub(super) aged: bool,
}

/// What most visits have nothing of.
pub(super) struct Lists<K, C> {
    pub(super) trash: Vec<JobRef<K, C>>,
    /// They were led out of the queue here: their room is to be given back.
    pub(super) gone: Vec<JobRef<K, C>>,
    pub(super) waiters: Vec<Arc<Waiter>>,
}

impl<K, C> Lists<K, C> {
    /// Whether nothing of the host's goes with them.
    pub(super) fn drops_nothing(&self) -> bool {
        self.trash.is_empty() && self.gone.is_empty()
    }
}

impl<K, C> Outside<K, C> {
    pub(super) fn new() -> Self {
        Self { lists: None, timer: None, front: false, aged: false }
    }

    /// Whether nothing was put off.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.lists.is_none() && self.timer.is_none() && !self.aged
    }

    pub(super) fn lists(&mut self) -> &mut Lists<K, C> {
        let empty = || Box::new(Lists { trash: Vec::new(), gone: Vec::new(), waiters: Vec::new() });
        self.lists.get_or_insert_with(empty)
    }

    /// What was put off, if anything was.
    pub(super) fn take_lists(&mut self) -> Option<Box<Lists<K, C>>> {
        self.lists.take()
    }
}
