//! Cancellation tokens: a flag that is raised once, with callbacks and children that hear of it.
//! They do not know what is cancelled.
//!
//! Everything that hears of a token hangs in its sealable list, and is unlinked when its registration is dropped: what was
//! registered is dropped at once, and of its place at most a few empty shells remain until the next tidying.

use super::list::{Link, Linked, SealableList};
use super::trampoline;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::cell::UnsafeCell;
use crate::sync::{Arc, Weak};
use std::fmt;

/// What is to hear of it.
enum Hears {
    Callback(Box<dyn FnOnce() + Send>),
    Child(Weak<Node>),
}

/// A place in a token's list.
struct Place {
    link: Link<Self>,
    /// Who set it owns what hears.
    taken: AtomicBool,
    hears: UnsafeCell<Option<Hears>>,
}

// SAFETY: what hears is Send, and only the one that sets `taken` touches it.
unsafe impl Sync for Place {}

impl Place {
    fn new(hears: Hears) -> Arc<Self> {
        Arc::new(Self { link: Link::new(), taken: AtomicBool::new(false), hears: UnsafeCell::new(Some(hears)) })
    }

    /// What hears, for the first caller.
    fn take(&self) -> Option<Hears> {
        // ordering: AcqRel between the canceller and the one that unregisters; the cell itself was published by the push.
        if self.taken.swap(true, Ordering::AcqRel) {
            return None;
        }
        // SAFETY: `taken` was ours to set.
        self.hears.with_mut(|slot| unsafe { (*slot).take() })
    }
}

impl Linked for Place {
    fn link(&self) -> &Link<Self> {
        &self.link
    }

    fn is_dead(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }
}

struct Node {
    cancelled: AtomicBool,
    hear: SealableList<Place>,
    /// The token that this one is a child of, and its place there.
    parent: Option<(Arc<Node>, Arc<Place>)>,
}

impl Node {
    /// Raises the flag and hands out what hears, oldest first.
    fn raise(&self) -> Vec<Hears> {
        // ordering: Release publishes the canceller's doings with the flag, for `is_cancelled`; who finds the list sealed sees
        // the flag, since the seal comes after it.
        if self.cancelled.swap(true, Ordering::AcqRel) {
            return Vec::new();
        }
        let mut heard = Vec::new();
        self.hear.seal().deliver(|place| heard.extend(place.take()));
        heard
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Callbacks whose registrations were forgotten; their destructors are the host's.
        self.hear.seal().deliver(|place| trampoline::dispose(place.take()));
        // Without recursion: a chain of children may be long.
        let mut up = self.parent.take();
        while let Some((parent, place)) = up {
            if place.take().is_some() {
                parent.hear.note_dead();
            }
            up = Arc::into_inner(parent).and_then(|mut parent| parent.parent.take());
        }
    }
}

/// A flag that is raised once and never lowered, and that others can hear of.
///
/// Clones are the same token. A [`child`](Self::child) is cancelled with its parent, and alone without it.
///
/// ```
/// use shardrun::CancellationToken;
///
/// let token = CancellationToken::new();
/// let child = token.child();
/// let heard = token.on_cancel(|| println!("stopped"));
/// assert!(!child.is_cancelled());
/// token.cancel();
/// assert!(child.is_cancelled());
/// drop(heard);
/// ```
#[derive(Clone)]
pub struct CancellationToken {
    node: Arc<Node>,
}

impl CancellationToken {
    /// A token of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::with(None)
    }

    fn with(parent: Option<(Arc<Node>, Arc<Place>)>) -> Self {
        let node = Node { cancelled: AtomicBool::new(false), hear: SealableList::new(), parent };
        Self { node: Arc::new(node) }
    }

    /// A token that is cancelled when this one is. Of a cancelled token it is cancelled from the start. It keeps its parent
    /// alive, and leaves nothing there when its last clone is dropped.
    #[must_use]
    pub fn child(&self) -> Self {
        let mut place = None;
        let node = Arc::new_cyclic(|me: &Weak<Node>| {
            let here = Place::new(Hears::Child(me.clone()));
            place = Some(here.clone());
            Node {
                cancelled: AtomicBool::new(false),
                hear: SealableList::new(),
                parent: Some((self.node.clone(), here)),
            }
        });
        let child = Self { node };
        if let Some(place) = place
            && self.node.hear.push(place).is_err()
        {
            child.cancel();
        }
        child
    }

    /// Whether it has been cancelled, itself or with one that it descends from.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        // ordering: pairs with `raise`. If that came first, what its caller did before is visible.
        self.node.cancelled.load(Ordering::Acquire)
    }

    /// Cancels it and all its children, and calls the callbacks of all of them, on this thread, in order of registration, a
    /// child's where the child was made. Does nothing the second time. A callback that panics is counted
    /// ([`contained_panics`](crate::contained_panics)) and disturbs nobody.
    pub fn cancel(&self) {
        let mut callbacks = Vec::new();
        let mut open = self.node.raise();
        open.reverse();
        while let Some(hears) = open.pop() {
            match hears {
                Hears::Callback(callback) => callbacks.push(callback),
                Hears::Child(child) => {
                    if let Some(child) = child.upgrade() {
                        let at = open.len();
                        open.extend(child.raise());
                        open[at..].reverse();
                    }
                }
            }
        }
        // Every flag is up before the first callback runs.
        for callback in callbacks {
            trampoline::run(callback);
        }
    }

    /// Has `callback` called when the token is cancelled; at once, on this thread, if it is already. Dropping the registration
    /// takes the callback back and drops it, unless it is being called.
    pub fn on_cancel(&self, callback: impl FnOnce() + Send + 'static) -> CancelRegistration {
        let place = Place::new(Hears::Callback(Box::new(callback)));
        if self.node.hear.push(place.clone()).is_err()
            && let Some(Hears::Callback(callback)) = place.take()
        {
            trampoline::run(callback);
        }
        CancelRegistration { at: Some((self.node.clone(), place)) }
    }
}

impl Default for CancellationToken {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CancellationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancellationToken").field("is_cancelled", &self.is_cancelled()).finish()
    }
}

/// A callback's place at a token; dropping it takes the callback back.
#[must_use = "dropping the registration takes the callback back"]
pub struct CancelRegistration {
    /// `None` once it has been forgotten.
    at: Option<(Arc<Node>, Arc<Place>)>,
}

impl CancelRegistration {
    /// Leaves the callback registered for as long as the token lives.
    pub fn forget(mut self) {
        self.at = None;
    }
}

impl Drop for CancelRegistration {
    fn drop(&mut self) {
        if let Some((node, place)) = self.at.take()
            && let Some(hears) = place.take()
        {
            node.hear.note_dead();
            trampoline::dispose(hears);
        }
    }
}

impl fmt::Debug for CancelRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelRegistration").finish_non_exhaustive()
    }
}
