//! The sleeping futures of one runtime, and what else waits without a ticket in any queue, so that a shutdown reaches them.
//! They do not know what is waited for.
//!
//! A future is entered when it first goes to sleep, and unlinked once it is over. There are a few lists, chosen by address, so
//! that futures do not all meet at one word.

#![forbid(unsafe_code)]

use super::list::{Link, Linked, SealableList};
use super::task::Ticketed;
use crate::runtime::{Attached, Spawner};
use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Arc, Weak};
use std::any::Any;

const LISTS: usize = 16;

/// What a shutdown has to reach although no ticket of it lies in a queue.
pub(crate) trait Asleep: Send + Sync + 'static {
    /// The runtime is closed: ends it as shut down, if it is not over.
    fn closed(&self);
}

impl<W: Ticketed> Asleep for W {
    fn closed(&self) {
        self.shut_down();
    }
}

/// The sleeping futures of one runtime.
pub(super) struct Sleepers {
    lists: [SealableList<Sleeper>; LISTS],
}

/// A future's place among them.
pub(super) struct Sleeper {
    link: Link<Self>,
    task: Weak<dyn Asleep>,
    over: AtomicBool,
    list: usize,
}

impl Linked for Sleeper {
    fn link(&self) -> &Link<Self> {
        &self.link
    }

    fn is_dead(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

impl Sleeper {
    /// Enters a future. `None` if the runtime is shut down: then the caller ends it.
    pub(super) fn enter(spawner: &Spawner, task: Weak<dyn Asleep>) -> Option<Arc<Self>> {
        let list = (task.as_ptr().cast::<u8>().addr() >> 6) % LISTS;
        let me = Arc::new(Self { link: Link::new(), task, over: AtomicBool::new(false), list });
        let entered = sleepers(spawner)?.lists[list].push(me.clone()).is_ok();
        // ordering: pairs with the barrier of the runtime's close. If our entry came first, the close finds it; else we see
        // that the runtime is closed.
        fence(Ordering::SeqCst);
        (entered && !spawner.is_closed()).then_some(me)
    }

    /// The future is over.
    pub(super) fn leave(&self, spawner: &Spawner) {
        // ordering: Release, for the tidier that reads it.
        self.over.swap(true, Ordering::AcqRel);
        if let Some(sleepers) = sleepers(spawner) {
            sleepers.lists[self.list].note_dead();
        }
    }
}

/// Keeps something among those that a shutdown reaches, until it is dropped.
pub(crate) struct Entered {
    sleeper: Arc<Sleeper>,
    spawner: Spawner,
}

impl Entered {
    /// Enters it. `None` if the runtime is shut down: then the caller ends it.
    pub(crate) fn enter(spawner: &Spawner, task: Weak<dyn Asleep>) -> Option<Self> {
        let sleeper = Sleeper::enter(spawner, task)?;
        Some(Self { sleeper, spawner: spawner.clone() })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.sleeper.leave(&self.spawner);
    }
}

fn sleepers(spawner: &Spawner) -> Option<&Sleepers> {
    let attached: &dyn Any =
        spawner.attached(|| Box::new(Sleepers { lists: std::array::from_fn(|_| SealableList::new()) }));
    attached.downcast_ref()
}

impl Attached for Sleepers {
    fn closed(&self) {
        for list in &self.lists {
            list.seal().deliver(|sleeper| {
                if let Some(task) = sleeper.task.upgrade() {
                    task.closed();
                }
            });
        }
    }
}
