//! Host code called so that its panic stays inside: closures, destructors, and the destructors of panics' payloads.
//! It does not know whose code it is, nor who counts the panics.
#![forbid(unsafe_code)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a panic left behind.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Calls host code. What it leaves half done is its own affair, hence no demand on unwind safety.
#[inline(always)]
pub(crate) fn call<R>(f: impl FnOnce() -> R) -> Result<R, Payload> {
    catch_unwind(AssertUnwindSafe(f))
}

/// Drops something of the host's; false if its destructor panicked.
pub(crate) fn dropping<T>(value: T) -> bool {
    match call(|| drop(value)) {
        Ok(()) => true,
        Err(payload) => {
            discard(payload);
            false
        }
    }
}

/// Drops a panic's payload, whose destructor may panic in turn, with a payload whose destructor may panic in turn.
pub(crate) fn discard(mut payload: Payload) {
    for _ in 0..8 {
        match call(|| drop(payload)) {
            Ok(()) => return,
            Err(next) => payload = next,
        }
    }
    // A destructor that leaves a new panicking payload each time is leaked rather than followed for ever.
    std::mem::forget(payload);
}

/// The message of a panic, as far as it is text.
pub(crate) fn message(payload: &Payload) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic with a payload that is not text").to_owned()
}

#[cfg(all(test, not(any(shardrun_loom, shardrun_shuttle))))]
mod tests {
    use super::{call, discard, message};

    /// Of no size, so that the last one, which is leaked, is not missed.
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any(Bomb);
        }
    }

    #[test]
    fn b53_payloads_that_panic_in_turn_end() {
        let payload = call(|| std::panic::panic_any(Bomb)).expect_err("it panics");
        assert_eq!(message(&payload), "a panic with a payload that is not text");
        discard(payload);
    }
}
