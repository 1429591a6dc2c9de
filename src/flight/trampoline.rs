//! Calls callbacks and wakers of the host's: panics are caught and counted, and calls that lead to calls stay flat.
//! It does not know what they do, nor who asked for them.
//!
//! A callback may do anything with the engine, also what leads to further callbacks on this thread. A few levels are called
//! right there, so that a callback which waits for what it caused finds it done; deeper ones are queued and run when the
//! outermost call returns, or when this thread is about to wait.

#![forbid(unsafe_code)]

use super::contain::contained;
use crate::runtime::puts_off;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Deref;
use std::task::Waker;

/// Levels of callbacks within callbacks that are called in place.
const DEPTH_MAX: u32 = 4;

enum Call {
    Wake(Waker),
    Run(Box<dyn FnOnce()>),
}

impl Call {
    fn run(self) {
        contained(|| match self {
            Self::Wake(waker) => waker.wake(),
            Self::Run(callback) => callback(),
        });
    }
}

crate::sync::local! {
    static DEPTH: Cell<u32> = Cell::new(0);
    /// Whether something may be in the queue. It has no destructor, so it is there as long as its thread.
    static QUEUED: Cell<bool> = Cell::new(false);
    static QUEUE: RefCell<VecDeque<Call>> = RefCell::new(VecDeque::new());
}

/// Wakes `waker`, if there is one.
#[inline]
pub(crate) fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        enter(waker, |waker| waker.wake(), Call::Wake);
    }
}

/// Calls `callback`. To be called only while nothing of the engine's is half changed.
pub(crate) fn run(callback: impl FnOnce() + 'static) {
    enter(callback, |callback| callback(), |callback| Call::Run(Box::new(callback)));
}

/// Drops a value of the host's, contained; a chain of values whose destructors drop the next stays flat.
#[inline]
pub(crate) fn dispose<V: 'static>(value: V) {
    if std::mem::needs_drop::<V>() {
        enter(value, drop, |value| Call::Run(Box::new(move || drop(value))));
    }
}

/// A value of the host's that others may be the last to let go of: where it lies it is dropped as host code is called, contained.
pub(crate) struct Disposed<T>(Option<T>);

impl<T> Disposed<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T> Deref for Disposed<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<T> Drop for Disposed<T> {
    fn drop(&mut self) {
        if std::mem::needs_drop::<T>() {
            call(|| self.0 = None);
        }
    }
}

/// Calls host code that cannot be put off, at whatever depth.
pub(crate) fn call(callback: impl FnOnce()) {
    let depth = DEPTH.try_with(Cell::get).unwrap_or(0);
    let _ = DEPTH.try_with(|cell| cell.set(depth + 1));
    contained(callback);
    let _ = DEPTH.try_with(|cell| cell.set(depth));
    if depth == 0 {
        flush();
    }
}

fn enter<C>(what: C, call: impl FnOnce(C), queued: impl FnOnce(C) -> Call) {
    let depth = DEPTH.try_with(Cell::get).unwrap_or(0);
    if depth >= DEPTH_MAX {
        let mut call = Some(queued(what));
        puts_off(flush);
        // A thread that is being torn down has no queue any more: it calls in place.
        let _ = QUEUE.try_with(|queue| queue.borrow_mut().extend(call.take()));
        let _ = QUEUED.try_with(|queued| queued.set(true));
        if let Some(call) = call {
            call.run();
        }
        return;
    }
    self::call(|| call(what));
}

/// Whether the engine calls host code on this thread: a callback, a waker, a destructor. Whoever does so may hold what others wait
/// for, so nothing that is called there may wait for the engine to end.
pub(crate) fn is_inside() -> bool {
    DEPTH.try_with(Cell::get).unwrap_or(0) > 0
}

/// Whether calls are put off at this depth.
pub(crate) fn is_deep() -> bool {
    DEPTH.try_with(Cell::get).unwrap_or(0) >= DEPTH_MAX
}

/// Runs what was put off on this thread. To be called before the thread waits.
#[inline]
pub(crate) fn flush() {
    if QUEUED.try_with(Cell::get).unwrap_or(true) {
        run_queued();
    }
}

#[cold]
fn run_queued() {
    while let Some(call) = next() {
        let depth = DEPTH.try_with(|cell| cell.replace(DEPTH_MAX)).unwrap_or(0);
        call.run();
        let _ = DEPTH.try_with(|cell| cell.set(depth));
    }
}

fn next() -> Option<Call> {
    let next = QUEUE.try_with(|queue| queue.borrow_mut().pop_front()).ok().flatten();
    if next.is_none() {
        let _ = QUEUED.try_with(|queued| queued.set(false));
    }
    next
}
