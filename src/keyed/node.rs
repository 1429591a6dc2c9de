//! One identity of a cache: its key and view, and the value once that is kept.
//! It does not know how the value is made, nor which nodes are kept.
#![forbid(unsafe_code)]

use super::memo::Memo;
use super::request::KeyedView;
use super::shelf::{Mark, Shelved};
use super::yard::Shared;
use crate::flight::Contained;
use crate::sync::{Arc, OnceLock};

/// An identity, and what is kept under it.
pub(crate) struct Node<M: Memo> {
    pub(crate) shared: Arc<Shared<M>>,
    key: Contained<M::Key>,
    pub(crate) hash: u64,
    pub(crate) view: KeyedView,
    /// Set once, before the node is shown as kept.
    value: OnceLock<Contained<Arc<M::Value>>>,
    pub(crate) mark: Mark,
}

impl<M: Memo> Node<M> {
    pub(crate) fn new(shared: Arc<Shared<M>>, key: M::Key, view: KeyedView, hash: u64) -> Self {
        Self { shared, key: Contained::new(key), hash, view, value: OnceLock::new(), mark: Mark::new() }
    }

    pub(crate) fn key(&self) -> &M::Key {
        &self.key
    }

    /// The kept value.
    #[inline]
    pub(crate) fn value(&self) -> Option<&Arc<M::Value>> {
        self.value.get().map(|value| &**value)
    }

    /// Gives it the value that will be kept. For the one that has published it.
    pub(crate) fn set(&self, value: Arc<M::Value>) {
        let _ = self.value.set(Contained::new(value));
    }
}

impl<M: Memo> Shelved for Node<M> {
    fn mark(&self) -> &Mark {
        &self.mark
    }
}
