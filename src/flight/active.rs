//! What this thread executes at the moment: the flights on its stack, innermost last, and what the innermost future awaits.
//! It does not know what they do, nor what other threads execute.

#![forbid(unsafe_code)]

use super::target::{FlightId, FlightRef};
use crate::sync::Arc;
use std::cell::RefCell;
use std::marker::PhantomData;

/// The flights on a thread's stack.
pub(crate) type Path = Vec<FlightId>;

struct Stack {
    path: Path,
    /// What the future that is being polled has found pending; `None` if the innermost flight is no future.
    awaits: Option<Vec<Arc<dyn FlightRef>>>,
    /// What this thread waits for further down, and helps with now; and how long the path was then.
    helped: Vec<(usize, Arc<dyn FlightRef>)>,
}

crate::sync::local! {
    static STACK: RefCell<Stack> = RefCell::new(Stack { path: Vec::new(), awaits: None, helped: Vec::new() });
}

/// Calls `f`, in which everything here panics as if the engine had a bug: for tests of what holds a claim then.
#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
pub(crate) fn broken<R>(f: impl FnOnce() -> R) -> R {
    STACK.with(|stack| {
        let _borrowed = stack.borrow();
        f()
    })
}

/// Puts `id` on this thread's stack until the scope is dropped, also by a panic.
#[inline]
pub(crate) fn enter(id: FlightId) -> ActiveScope {
    enter_with(id, None)
}

#[inline]
fn enter_with(id: FlightId, awaits: Option<Vec<Arc<dyn FlightRef>>>) -> ActiveScope {
    let outer = STACK.try_with(|stack| {
        let mut stack = stack.borrow_mut();
        stack.path.push(id);
        // Most are no futures, nor inside one: then there is nothing to put away.
        if awaits.is_none() && stack.awaits.is_none() { None } else { std::mem::replace(&mut stack.awaits, awaits) }
    });
    ActiveScope { outer: outer.ok().flatten(), here: PhantomData }
}

/// As [`enter`], for a future that is about to be polled: flights that it finds pending are noted in `awaits`.
pub(crate) fn enter_future(id: FlightId, mut awaits: Vec<Arc<dyn FlightRef>>) -> ActiveScope {
    awaits.clear();
    enter_with(id, Some(awaits))
}

/// As [`enter`], for what a future that is being polled here is a part of: what that finds pending is noted as before.
pub(crate) fn enter_whole(id: FlightId) -> WholeScope {
    let entered = STACK.try_with(|stack| stack.borrow_mut().path.push(id)).is_ok();
    WholeScope { entered, here: PhantomData }
}

/// What a future is a part of, while that is polled.
#[must_use = "the flight is taken off the stack when the scope is dropped"]
pub(crate) struct WholeScope {
    entered: bool,
    /// It belongs to the thread that entered.
    here: PhantomData<*const ()>,
}

impl Drop for WholeScope {
    fn drop(&mut self) {
        if self.entered {
            let _ = STACK.try_with(|stack| stack.borrow_mut().path.pop());
        }
    }
}

/// The innermost flight of this thread, while it is executed.
#[must_use = "the flight is taken off the stack when the scope is dropped"]
pub(crate) struct ActiveScope {
    outer: Option<Vec<Arc<dyn FlightRef>>>,
    /// It belongs to the thread that entered.
    here: PhantomData<*const ()>,
}

impl ActiveScope {
    /// What the future awaits that was polled in this scope. To be asked at its end.
    pub(crate) fn awaited(&self) -> Vec<Arc<dyn FlightRef>> {
        STACK.try_with(|stack| stack.borrow_mut().awaits.take()).ok().flatten().unwrap_or_default()
    }
}

impl Drop for ActiveScope {
    #[inline]
    fn drop(&mut self) {
        let outer = self.outer.take();
        let left = STACK.try_with(|stack| {
            let mut stack = stack.borrow_mut();
            stack.path.pop();
            if outer.is_none() && stack.awaits.is_none() { None } else { std::mem::replace(&mut stack.awaits, outer) }
        });
        // Dropped here, when nothing is borrowed: these may be the last references.
        drop(left);
    }
}

/// Whether `id` is executed somewhere down this thread's stack, so that waiting for it here could never end.
pub(crate) fn contains(id: FlightId) -> bool {
    STACK.try_with(|stack| stack.borrow().path.contains(&id)).unwrap_or(false)
}

/// Notes that this thread waits for `flight` while `f`, which helps with that, runs.
pub(crate) fn helping<R>(flight: Arc<dyn FlightRef>, f: impl FnOnce() -> R) -> R {
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            let left = STACK.try_with(|stack| stack.borrow_mut().helped.pop());
            drop(left);
        }
    }
    let _ = STACK.try_with(|stack| {
        let mut stack = stack.borrow_mut();
        let depth = stack.path.len();
        stack.helped.push((depth, flight));
    });
    let _back = Back;
    f()
}

/// How many waits of this thread help at the moment, one inside what another one runs.
pub(crate) fn helps() -> usize {
    STACK.try_with(|stack| stack.borrow().helped.len()).unwrap_or(0)
}

/// The flights that this thread waits for further down its stack, from where it executes `id` on.
pub(crate) fn waits_since(id: FlightId) -> Vec<Arc<dyn FlightRef>> {
    let since = |stack: &RefCell<Stack>| {
        let stack = stack.borrow();
        let at = stack.path.iter().position(|active| *active == id)?;
        Some(stack.helped.iter().filter(|(depth, _)| *depth > at).map(|(_, flight)| flight.clone()).collect())
    };
    STACK.try_with(since).ok().flatten().unwrap_or_default()
}

/// Everything that this thread executes, the innermost last.
pub(crate) fn path() -> Path {
    STACK.try_with(|stack| stack.borrow().path.clone()).unwrap_or_default()
}

/// Whether this thread executes no flight.
pub(crate) fn is_empty() -> bool {
    STACK.try_with(|stack| stack.borrow().path.is_empty()).unwrap_or(true)
}

/// Notes that the future being polled here, if one is, has found `flight` pending.
pub(crate) fn note_awaited(flight: impl FnOnce() -> Option<Arc<dyn FlightRef>>) {
    let polls = STACK.try_with(|stack| stack.borrow().awaits.is_some()).unwrap_or(false);
    if polls && let Some(flight) = flight() {
        let _ = STACK.try_with(|stack| {
            if let Some(awaits) = &mut stack.borrow_mut().awaits
                && awaits.last().is_none_or(|last| last.id() != flight.id())
            {
                awaits.push(flight);
            }
        });
    }
}
