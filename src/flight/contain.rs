//! Runs host code so that its panics stop here: closures, callbacks, wakers, and destructors, also those of panic payloads.
//! It does not know what the host code is for.

#![forbid(unsafe_code)]

use crate::runtime::discard;
use crate::sync::Arc;
use crate::sync::stat::{AtomicU64, Ordering};
use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Panics of callbacks, wakers and destructors that were caught, since the process began.
static CAUGHT: AtomicU64 = AtomicU64::new(0);

/// What a panic said.
///
/// Every waiter of the work that panicked gets a copy. The payload itself is dropped where it was caught: it need not be
/// `Clone`, and its destructor is host code, which may panic too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanicReport {
    message: Arc<str>,
}

impl PanicReport {
    /// A report that says `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: Arc::from(message.into()) }
    }

    /// The panic's message, or a note that its payload was no text.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Takes note of a caught payload and drops it, contained.
    pub(crate) fn of(payload: Box<dyn Any + Send>) -> Self {
        let message: Arc<str> = if let Some(text) = payload.downcast_ref::<&'static str>() {
            Arc::from(*text)
        } else if let Some(text) = payload.downcast_ref::<String>() {
            Arc::from(text.as_str())
        } else {
            Arc::from("a panic whose payload is no text")
        };
        discard(payload);
        Self { message }
    }
}

impl fmt::Display for PanicReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.message)
    }
}

impl std::error::Error for PanicReport {}

/// Runs `f`; a panic in it becomes a report. Always inlined: else all that `f` takes and gives would go through memory.
#[inline(always)]
pub(crate) fn catch<R>(f: impl FnOnce() -> R) -> Result<R, PanicReport> {
    catch_unwind(AssertUnwindSafe(f)).map_err(PanicReport::of)
}

/// Runs `f`, whose panics nobody wants to hear of but the counter.
#[inline]
pub(crate) fn contained(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        note(payload);
    }
}

/// Drops a value of the host's; a panic of its destructor is counted and goes no further.
#[inline]
pub(crate) fn drop_contained<T>(value: T) {
    if std::mem::needs_drop::<T>() {
        contained(move || drop(value));
    }
}

/// A value of the host's that lives inside the engine: a panic of its destructor goes no further, and keeps nothing from the
/// values beside it, whose destructors may panic too. Two that panic while one owner is dropped would end the process.
pub(crate) struct Contained<T>(Option<T>);

impl<T> Contained<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T> Deref for Contained<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<T> DerefMut for Contained<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is there until it is dropped")
    }
}

impl<T> Drop for Contained<T> {
    fn drop(&mut self) {
        if std::mem::needs_drop::<T>() {
            // Where it lies: to move it out first would copy it.
            contained(|| self.0 = None);
        }
    }
}

/// Calls what it was given if it is dropped before it is disarmed: for who holds a claim, so that a panic in the engine's own code
/// leaves nobody waiting.
pub(crate) struct OnUnwind<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnUnwind<F> {
    pub(crate) fn call(f: F) -> Self {
        Self(Some(f))
    }

    /// It was no panic.
    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for OnUnwind<F> {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            contained(f);
        }
    }
}

/// The report of a panic in the engine's own code.
#[cold]
pub(crate) fn in_the_engine() -> PanicReport {
    PanicReport::new("in the engine, while it held the execution")
}

/// Counts a panic and drops its payload, whose destructor may panic in its turn.
#[cold]
fn note(payload: Box<dyn Any + Send>) {
    CAUGHT.fetch_add(1, Ordering::Relaxed);
    discard(payload);
}

/// How many panics of callbacks, wakers and destructors were caught since the process began.
///
/// Panics of jobs are not among them: those become the job's outcome.
pub fn contained_panics() -> u64 {
    CAUGHT.load(Ordering::Relaxed)
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::*;

    struct Bomb(&'static str);
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any(Payload(self.0));
        }
    }

    struct Payload(#[allow(dead_code, reason = "a payload with a destructor")] &'static str);
    impl Drop for Payload {
        fn drop(&mut self) {
            panic!("the payload's destructor panics too");
        }
    }

    #[test]
    fn b53_a_destructor_and_its_payload_may_panic() {
        let before = contained_panics();
        drop_contained(Bomb("first"));
        assert!(contained_panics() > before);
        let report = catch(|| std::panic::panic_any(Payload("second"))).unwrap_err();
        assert_eq!(report.message(), "a panic whose payload is no text");
        assert_eq!(catch(|| panic!("plain {}", 1)).unwrap_err().message(), "plain 1");
    }
}
