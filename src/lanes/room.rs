//! Waiting for something of an actor: room in its queue, or the end of all that was submitted before.
//! It does not know what the room is used for.

#![forbid(unsafe_code)]

use super::answer::LaneError;
use crate::flight::Completion;
use crate::sync::queue::{Injector, take};
use crate::sync::{Arc, OnceLock};
use std::any::Any;

/// Who waits.
pub(super) type Waiter = Completion<(), LaneError>;

/// Those who wait for room in an actor's queue, and those who ask for a drain.
pub(super) struct Room {
    line: Injector<Arc<Waiter>>,
    /// Drains that were asked for, until the actor is looked at.
    drains: Injector<Arc<Waiter>>,
    /// The publications of the actor's view, once there was one.
    view: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Room {
    pub(super) fn new() -> Self {
        Self { line: Injector::new(), drains: Injector::new(), view: OnceLock::new() }
    }

    /// The publications of the actor's view.
    pub(super) fn view(&self, make: impl FnOnce() -> Arc<dyn Any + Send + Sync>) -> Arc<dyn Any + Send + Sync> {
        self.view.get_or_init(make).clone()
    }

    pub(super) fn ask_drain(&self, waiter: Arc<Waiter>) {
        self.drains.push(waiter);
    }

    /// Whether no drain is asked for that was not taken.
    pub(super) fn asks_no_drain(&self) -> bool {
        self.drains.is_empty()
    }

    /// The next drain that was asked for.
    pub(super) fn drain_asked(&self) -> Option<Arc<Waiter>> {
        take(&self.drains)
    }

    pub(super) fn push(&self, waiter: Arc<Waiter>) {
        self.line.push(waiter);
    }

    /// Has all who wait ask again: each takes what room it finds.
    pub(super) fn tell(&self) {
        while let Some(waiter) = take(&self.line) {
            waiter.resolve(Ok(()));
        }
    }
}
