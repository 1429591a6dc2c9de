//! What a builder sees of its computation: the key, the view, whether anybody wants the value still.
//! It does not know who does.
#![forbid(unsafe_code)]

use super::request::KeyedView;
use crate::flight::{CancellationToken, Interrupt};
use crate::sync::stat::{AtomicBool, Ordering};
use std::fmt;

/// What a builder is given.
pub struct BuildCx<'a, K> {
    pub(crate) key: &'a K,
    pub(crate) view: KeyedView,
    pub(crate) token: &'a CancellationToken,
    pub(crate) return_only: &'a AtomicBool,
}

impl<K> BuildCx<'_, K> {
    /// The key whose value is computed.
    #[must_use]
    pub fn key(&self) -> &K {
        self.key
    }

    /// The view in which it is computed.
    #[must_use]
    pub fn view(&self) -> KeyedView {
        self.view
    }

    /// The token that is cancelled when all who wanted the value have withdrawn, and not before.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        self.token
    }

    /// Whether anybody wants the value still: `builder(|cx| { ...; cx.check()?; ... })` gives up where that is cheap.
    ///
    /// # Errors
    /// [`Interrupt::Cancelled`] if nobody does.
    pub fn check(&self) -> Result<(), Interrupt> {
        if self.token.is_cancelled() { Err(Interrupt::Cancelled) } else { Ok(()) }
    }

    /// Says that the value is for those alone who wait for it now, or join before it is there: it is not kept, and opens no gate
    /// that asks for a value worth keeping.
    pub fn return_only(&self) {
        // ordering: read by the same thread once the builder has returned.
        self.return_only.store(true, Ordering::Relaxed);
    }
}

impl<K: fmt::Debug> fmt::Debug for BuildCx<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuildCx").field("key", self.key).field("view", &self.view).finish_non_exhaustive()
    }
}
